//! The group: points of the twisted Edwards curve edwards25519 as representatives of Ristretto255
//! cosets (RFC 9496), in extended coordinates (Hisil, Wong, Carter, Dawson, Asiacrypt 2008).
//!
//! The addition law is complete: it has no exceptional case, so no formula here looks at its input.

use crate::field::{D, D2, D4, Fe, INVSQRT_A_MINUS_D, SQRT_M1};

/// (X : Y : Z : T) with x = X/Z, y = Y/Z, xy = T/Z; all limbs reduced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) x: Fe,
    pub(crate) y: Fe,
    pub(crate) z: Fe,
    pub(crate) t: Fe,
}

/// An affine point prepared for mixed addition: (y+x)/2, (y-x)/2, dxy, all canonical. The result of
/// an addition has a quarter of the usual coordinates, which represent the same point, and 2z need
/// not be computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Niels {
    pub(crate) plus: Fe,
    pub(crate) minus: Fe,
    pub(crate) dxy: Fe,
}

impl Point {
    pub(crate) const IDENTITY: Point = Point {
        x: Fe::ZERO,
        y: Fe::ONE,
        z: Fe::ONE,
        t: Fe::ZERO,
    };

    /// Decodes 32 bytes; `None` for anything other than the canonical encoding of a group element
    /// (RFC 9496, section 4.3.1).
    pub(crate) fn vartime_decode(bytes: &[u8; 32]) -> Option<Point> {
        let s = Fe::from_bytes(bytes);
        // A value of p or more, or the negative root, would be another encoding of the same element.
        if s.to_bytes() != *bytes || s.is_negative() {
            return None;
        }
        let ss = s.square();
        let u1 = Fe::ONE.sub(ss);
        let u2 = Fe::ONE.add(ss);
        let u2_square = u2.square();
        let v = D.mul(u1.square()).neg().sub(u2_square);
        let (was_square, inverse) = Fe::vartime_sqrt_ratio(Fe::ONE, v.mul(u2_square));
        let den_x = inverse.mul(u2);
        let den_y = inverse.mul(den_x).mul(v);
        let x = s.add(s).mul(den_x).vartime_abs();
        let y = u1.mul(den_y);
        let t = x.mul(y);
        let valid = was_square && !t.is_negative() && !y.vartime_is_zero();
        valid.then_some(Point {
            x,
            y,
            z: Fe::ONE,
            t,
        })
    }

    /// The canonical encoding of the coset (RFC 9496, section 4.3.2).
    pub(crate) fn vartime_encode(&self) -> [u8; 32] {
        let u1 = self.z.add(self.y).mul(self.z.sub(self.y));
        let u2 = self.x.mul(self.y);
        let (_, inverse) = Fe::vartime_sqrt_ratio(Fe::ONE, u1.mul(u2.square()));
        let den1 = inverse.mul(u1);
        let den2 = inverse.mul(u2);
        let z_inverse = den1.mul(den2).mul(self.t);
        let rotate = self.t.mul(z_inverse).is_negative();
        let (x, mut y, den) = if rotate {
            (
                self.y.mul(SQRT_M1),
                self.x.mul(SQRT_M1),
                den1.mul(INVSQRT_A_MINUS_D),
            )
        } else {
            (self.x, self.y, den2)
        };
        if x.mul(z_inverse).is_negative() {
            y = y.neg();
        }
        den.mul(self.z.sub(y)).vartime_abs().to_bytes()
    }

    /// Whether the coset is that of the identity: x = 0 or y = 0. Comparing Edwards coordinates
    /// would distinguish the four members of one coset (RFC 9496, section 4.3.3).
    pub(crate) fn vartime_is_identity(&self) -> bool {
        self.x.vartime_is_zero() || self.y.vartime_is_zero()
    }

    /// 2^count · self. Only the last doubling computes t, which doublings do not use.
    pub(crate) fn doubled(&self, count: u32) -> Point {
        let mut point = *self;
        for left in (0..count).rev() {
            let a = point.x.square();
            let b = point.y.square();
            let c = point.z.square();
            let h = a.add(b);
            let e = h.minus(point.x.add(point.y).square());
            let g = a.minus(b);
            // Limbs of 2c are at most a little above 2·2^51 and those of g above 5·2^51, so `mul` still takes this.
            let f = c.add(c).add(g);
            let t = if left == 0 { e.mul(h) } else { Fe::ZERO };
            point = Point {
                x: e.mul(f),
                y: g.mul(h),
                z: f.mul(g),
                t,
            };
        }
        point
    }

    pub(crate) fn add(&self, other: &Point) -> Point {
        let a = self.y.minus(self.x).mul(other.y.minus(other.x));
        let b = self.y.add(self.x).mul(other.y.add(other.x));
        let c = self.t.mul(D2).mul(other.t);
        let zz = self.z.mul(other.z);
        Point::from_efgh(a, b, c, zz.add(zz))
    }

    /// Adds an affine point: seven multiplications.
    #[inline(always)]
    pub(crate) fn add_niels(&self, other: &Niels) -> Point {
        let a = self.y.minus(self.x).mul(other.minus);
        let b = self.y.add(self.x).mul(other.plus);
        let c = self.t.mul(other.dxy);
        Point::from_efgh(a, b, c, self.z)
    }

    #[inline(always)]
    fn from_efgh(a: Fe, b: Fe, c: Fe, d: Fe) -> Point {
        let e = b.minus(a);
        let f = d.minus(c);
        let g = d.add(c);
        let h = b.add(a);
        Point {
            x: e.mul(f),
            y: g.mul(h),
            z: f.mul(g),
            t: e.mul(h),
        }
    }

    pub(crate) fn neg(&self) -> Point {
        Point {
            x: self.x.neg(),
            y: self.y,
            z: self.z,
            t: self.t.neg(),
        }
    }

    pub(crate) fn sub(&self, other: &Point) -> Point {
        self.add(&other.neg())
    }

    /// Converts many points to affine form with one inversion.
    pub(crate) fn to_niels_batch(points: &[Point]) -> Vec<Niels> {
        // Of 2z, since `Niels` takes halves of coordinates; their product then needs 4d.
        let mut inverses: Vec<Fe> = points.iter().map(|p| p.z.add(p.z)).collect();
        Fe::invert_batch(&mut inverses);
        let affine = |(p, inverse): (&Point, Fe)| {
            // Halves of x and y.
            let (x, y) = (p.x.mul(inverse), p.y.mul(inverse));
            Niels {
                plus: y.add(x).canonical(),
                minus: y.sub(x).canonical(),
                dxy: x.mul(y).mul(D4).canonical(),
            }
        };
        points.iter().zip(inverses).map(affine).collect()
    }
}

impl Niels {
    pub(crate) const IDENTITY: Niels = Niels {
        plus: Fe::HALF,
        minus: Fe::HALF,
        dxy: Fe::ZERO,
    };

    #[inline(always)]
    pub(crate) fn neg(&self) -> Niels {
        Niels {
            plus: self.minus,
            minus: self.plus,
            dxy: self.dxy.neg(),
        }
    }
}

/// Σ 2^shift · point, largest shift first: one chain of doublings, one addition per term.
pub(crate) fn weigh(shifts: &[u32], points: &[&Point]) -> Point {
    let mut sum = Point::IDENTITY;
    let mut at = shifts.first().copied().unwrap_or(0);
    for (&shift, point) in shifts.iter().zip(points) {
        sum = sum.doubled(at - shift).add(point);
        at = shift;
    }
    sum.doubled(at)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use curve25519_dalek::constants::RISTRETTO_BASEPOINT_POINT;
    use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};

    /// The four points of order dividing four: they represent the identity of the quotient group.
    pub(crate) fn four_torsion() -> [Point; 4] {
        let point = |x: Fe, y: Fe| Point {
            x,
            y,
            z: Fe::ONE,
            t: x.mul(y),
        };
        [
            Point::IDENTITY,
            point(Fe::ZERO, Fe::ONE.neg()),
            point(SQRT_M1, Fe::ZERO),
            point(SQRT_M1.neg(), Fe::ZERO),
        ]
    }

    fn lines(text: &str) -> impl Iterator<Item = Vec<Vec<u8>>> {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                line.split(' ')
                    .map(|word| hex::decode(word).unwrap())
                    .collect()
            })
    }

    #[test]
    fn rfc_9496_multiples_of_the_base_point() {
        let text = include_str!("../../../vectors/rlnc/ristretto255-multiples.txt");
        let base = RISTRETTO_BASEPOINT_POINT.compress().to_bytes();
        let base = Point::vartime_decode(&base).unwrap();
        let mut sum = Point::IDENTITY;
        let mut count = 0;
        for line in lines(text) {
            assert_eq!(sum.vartime_encode().as_slice(), line[0], "multiple {count}");
            let again = Point::vartime_decode(&sum.vartime_encode()).unwrap();
            assert!(again.sub(&sum).vartime_is_identity());
            sum = sum.add(&base);
            count += 1;
        }
        assert_eq!(count, 16);
    }

    #[test]
    fn rfc_9496_invalid_encodings() {
        let text = include_str!("../../../vectors/rlnc/ristretto255-invalid.txt");
        let mut count = 0;
        for line in lines(text) {
            let bytes: [u8; 32] = line[0].as_slice().try_into().unwrap();
            assert!(
                Point::vartime_decode(&bytes).is_none(),
                "{}",
                hex::encode(bytes)
            );
            count += 1;
        }
        assert_eq!(count, 30);
    }

    #[test]
    fn rfc_9496_element_derivation_and_our_codec() {
        let text = include_str!("../../../vectors/rlnc/ristretto255-map.txt");
        for line in lines(text) {
            let uniform: [u8; 64] = line[0].as_slice().try_into().unwrap();
            let encoded = RistrettoPoint::from_uniform_bytes(&uniform)
                .compress()
                .to_bytes();
            assert_eq!(encoded.as_slice(), line[1]);
            assert_eq!(
                Point::vartime_decode(&encoded).unwrap().vartime_encode(),
                encoded
            );
        }
    }

    #[test]
    fn formulas_agree_with_dalek() {
        let mut ours = Point::IDENTITY;
        let mut theirs = RistrettoPoint::default();
        let step = RISTRETTO_BASEPOINT_POINT;
        let ours_step = Point::vartime_decode(&step.compress().to_bytes()).unwrap();
        let niels = Point::to_niels_batch(&[ours_step.doubled(1)])[0];
        for _ in 0..40 {
            ours = ours.doubled(1).add_niels(&niels).sub(&ours_step);
            theirs = theirs + theirs + step;
            let encoded = CompressedRistretto(ours.vartime_encode());
            assert_eq!(encoded, theirs.compress());
        }
        assert!(
            ours.add_niels(&Niels::IDENTITY)
                .sub(&ours)
                .vartime_is_identity()
        );
        assert!(!ours.vartime_is_identity());
        let back = ours.add_niels(&niels).add_niels(&niels.neg());
        assert_eq!(back.vartime_encode(), ours.vartime_encode());
    }

    /// Trap 7: a representative may differ from the decoded one by a point of order four.
    #[test]
    fn trap_07_equality_is_equality_of_cosets() {
        let base = RISTRETTO_BASEPOINT_POINT.compress().to_bytes();
        let point = Point::vartime_decode(&base).unwrap().doubled(1);
        for torsion in four_torsion() {
            assert!(torsion.vartime_is_identity());
            let moved = point.add(&torsion);
            assert!(!moved.vartime_is_identity());
            assert!(moved.sub(&point).vartime_is_identity());
            assert_eq!(moved.vartime_encode(), point.vartime_encode());
        }
    }

    #[test]
    fn weighing_is_a_sum_of_shifted_points() {
        let base = RISTRETTO_BASEPOINT_POINT.compress().to_bytes();
        let base = Point::vartime_decode(&base).unwrap();
        let eight = base.doubled(3);
        assert!(
            eight
                .sub(&base.doubled(1).doubled(1).doubled(1))
                .vartime_is_identity()
        );
        let sum = weigh(&[7, 3, 3, 0], &[&base; 4]);
        let expected =
            RISTRETTO_BASEPOINT_POINT * curve25519_dalek::scalar::Scalar::from(1_u64 + 8 + 8 + 128);
        assert_eq!(sum.vartime_encode(), expected.compress().to_bytes());
        assert!(weigh(&[], &[]).vartime_is_identity());
    }
}
