//! The base field F_p of the curve, p = 2^255 - 19: five limbs of 51 bits.
//!
//! Bounds. A value is *reduced* if each limb is below 2^51 + 2^17; [`Fe::mul`] and [`Fe::square`] take
//! limbs below 2^54 and return reduced ones; [`Fe::add`] adds limbs without a carry; [`Fe::sub`] adds
//! 16p first and carries, so it takes limbs below 2^54 and its result is reduced; [`Fe::minus`] adds 4p
//! and does not carry. Only [`Fe::to_bytes`] yields the canonical representative.

const MASK: u64 = (1 << 51) - 1;

/// A field element, any representative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fe(pub(crate) [u64; 5]);

/// d = -121665/121666 of the curve -x² + y² = 1 + d x² y² (RFC 9496, section 4.1).
pub(crate) const D: Fe = Fe([
    0x34dca135978a3,
    0x1a8283b156ebd,
    0x5e7a26001c029,
    0x739c663a03cbb,
    0x52036cee2b6ff,
]);
/// 2d.
pub(crate) const D2: Fe = Fe([
    0x69b9426b2f159,
    0x35050762add7a,
    0x3cf44c0038052,
    0x6738cc7407977,
    0x2406d9dc56dff,
]);
/// 4d.
pub(crate) const D4: Fe = Fe([
    0x537284d65e2b2,
    0x6a0a0ec55baf5,
    0x79e89800700a4,
    0x4e7198e80f2ee,
    0x480db3b8adbff,
]);
/// The even square root of -1 (RFC 9496, section 4.1).
pub(crate) const SQRT_M1: Fe = Fe([
    0x61b274a0ea0b0,
    0x0d5a5fc8f189d,
    0x7ef5e9cbd0c60,
    0x78595a6804c9e,
    0x2b8324804fc1d,
]);
/// 1/sqrt(-1 - d) (RFC 9496, section 4.1).
pub(crate) const INVSQRT_A_MINUS_D: Fe = Fe([
    0x0fdaa805d40ea,
    0x2eb482e57d339,
    0x07610274bc58,
    0x6510b613dc8ff,
    0x786c8905cfaff,
]);

impl Fe {
    pub(crate) const ZERO: Fe = Fe([0; 5]);
    pub(crate) const ONE: Fe = Fe([1, 0, 0, 0, 0]);
    /// 1/2.
    pub(crate) const HALF: Fe = Fe([MASK - 8, MASK, MASK, MASK, MASK >> 1]);

    /// Reads 255 bits; the highest bit of the last byte is ignored.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Fe {
        let word = |i: usize| {
            u64::from_le_bytes(
                bytes[i..i + 8]
                    .try_into()
                    .expect("eight bytes of thirty-two"),
            )
        };
        Fe([
            word(0) & MASK,
            (word(6) >> 3) & MASK,
            (word(12) >> 6) & MASK,
            (word(19) >> 1) & MASK,
            (word(24) >> 12) & MASK,
        ])
    }

    /// The canonical representative's limbs, each below 2^51 and the value below p.
    pub(crate) fn canonical(self) -> Fe {
        // One carry leaves limbs below 2^51 + 2^17; the second one makes the value less than 2p.
        let mut l = self.carried().carried().0;
        // Adding 19 carries out of bit 255 exactly if the value is at least p.
        let mut q = (l[0] + 19) >> 51;
        for limb in &l[1..] {
            q = (limb + q) >> 51;
        }
        l[0] += 19 * q;
        for i in 0..4 {
            l[i + 1] += l[i] >> 51;
            l[i] &= MASK;
        }
        l[4] &= MASK;
        Fe(l)
    }

    /// The canonical little-endian encoding.
    pub(crate) fn to_bytes(self) -> [u8; 32] {
        let l = self.canonical().0;
        let words = [
            l[0] | (l[1] << 51),
            (l[1] >> 13) | (l[2] << 38),
            (l[2] >> 26) | (l[3] << 25),
            (l[3] >> 39) | (l[4] << 12),
        ];
        let mut out = [0; 32];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// One parallel carry: input limbs below 2^63, reduced output.
    #[inline(always)]
    pub(crate) fn carried(self) -> Fe {
        let l = self.0;
        Fe([
            (l[0] & MASK) + 19 * (l[4] >> 51),
            (l[1] & MASK) + (l[0] >> 51),
            (l[2] & MASK) + (l[1] >> 51),
            (l[3] & MASK) + (l[2] >> 51),
            (l[4] & MASK) + (l[3] >> 51),
        ])
    }

    #[inline(always)]
    pub(crate) fn add(self, other: Fe) -> Fe {
        let (a, b) = (self.0, other.0);
        Fe([
            a[0] + b[0],
            a[1] + b[1],
            a[2] + b[2],
            a[3] + b[3],
            a[4] + b[4],
        ])
    }

    #[inline(always)]
    pub(crate) fn sub(self, other: Fe) -> Fe {
        const P16_LOW: u64 = 16 * ((1 << 51) - 19);
        const P16: u64 = 16 * MASK;
        let (a, b) = (self.0, other.0);
        Fe([
            a[0] + P16_LOW - b[0],
            a[1] + P16 - b[1],
            a[2] + P16 - b[2],
            a[3] + P16 - b[3],
            a[4] + P16 - b[4],
        ])
        .carried()
    }

    /// The difference without a carry: `self` below 2^53 and `other` below 2^52 give limbs below 2^54.
    #[inline(always)]
    pub(crate) fn minus(self, other: Fe) -> Fe {
        const P4_LOW: u64 = 4 * ((1 << 51) - 19);
        const P4: u64 = 4 * MASK;
        let (a, b) = (self.0, other.0);
        Fe([
            a[0] + P4_LOW - b[0],
            a[1] + P4 - b[1],
            a[2] + P4 - b[2],
            a[3] + P4 - b[3],
            a[4] + P4 - b[4],
        ])
    }

    #[inline(always)]
    pub(crate) fn neg(self) -> Fe {
        Fe::ZERO.sub(self)
    }

    #[inline(always)]
    pub(crate) fn mul(self, other: Fe) -> Fe {
        let m = |x: u64, y: u64| u128::from(x) * u128::from(y);
        let (a, b) = (self.0, other.0);
        // Columns from 5 up wrap around with a factor of 19, since 2^255 = 19 modulo p.
        let (b1, b2, b3, b4) = (19 * b[1], 19 * b[2], 19 * b[3], 19 * b[4]);
        reduce_wide([
            m(a[0], b[0]) + m(a[4], b1) + m(a[3], b2) + m(a[2], b3) + m(a[1], b4),
            m(a[1], b[0]) + m(a[0], b[1]) + m(a[4], b2) + m(a[3], b3) + m(a[2], b4),
            m(a[2], b[0]) + m(a[1], b[1]) + m(a[0], b[2]) + m(a[4], b3) + m(a[3], b4),
            m(a[3], b[0]) + m(a[2], b[1]) + m(a[1], b[2]) + m(a[0], b[3]) + m(a[4], b4),
            m(a[4], b[0]) + m(a[3], b[1]) + m(a[2], b[2]) + m(a[1], b[3]) + m(a[0], b[4]),
        ])
    }

    #[inline(always)]
    pub(crate) fn square(self) -> Fe {
        let m = |x: u64, y: u64| u128::from(x) * u128::from(y);
        let a = self.0;
        let (a3, a4) = (19 * a[3], 19 * a[4]);
        reduce_wide([
            m(a[0], a[0]) + 2 * (m(a[1], a4) + m(a[2], a3)),
            m(a[3], a3) + 2 * (m(a[0], a[1]) + m(a[2], a4)),
            m(a[1], a[1]) + 2 * (m(a[0], a[2]) + m(a[4], a3)),
            m(a[4], a4) + 2 * (m(a[0], a[3]) + m(a[1], a[2])),
            m(a[2], a[2]) + 2 * (m(a[0], a[4]) + m(a[1], a[3])),
        ])
    }

    fn squares(self, count: u32) -> Fe {
        (0..count).fold(self, |x, _| x.square())
    }

    /// (x^(2^250 - 1), x^11): the shared part of both exponentiations.
    fn pow_2_250(self) -> (Fe, Fe) {
        let x2 = self.square();
        let x9 = x2.squares(2).mul(self);
        let x11 = x9.mul(x2);
        let e5 = x11.square().mul(x9);
        let e10 = e5.squares(5).mul(e5);
        let e20 = e10.squares(10).mul(e10);
        let e40 = e20.squares(20).mul(e20);
        let e50 = e40.squares(10).mul(e10);
        let e100 = e50.squares(50).mul(e50);
        let e200 = e100.squares(100).mul(e100);
        (e200.squares(50).mul(e50), x11)
    }

    /// x^(p-2), the inverse; 0 for 0.
    pub(crate) fn invert(self) -> Fe {
        let (e250, x11) = self.pow_2_250();
        // p - 2 = 32·(2^250 - 1) + 11.
        e250.squares(5).mul(x11)
    }

    /// Whether (u/v is a square, its non-negative root, or that of i·u/v) (RFC 9496, section 4.2).
    pub(crate) fn vartime_sqrt_ratio(u: Fe, v: Fe) -> (bool, Fe) {
        let v3 = v.square().mul(v);
        let v7 = v3.square().mul(v);
        let base = u.mul(v7);
        // (p - 5)/8 = 4·(2^250 - 1) + 1.
        let power = base.pow_2_250().0.squares(2).mul(base);
        let mut r = u.mul(v3).mul(power);
        let check = v.mul(r.square());
        let flipped = check.vartime_eq(u.neg());
        let flipped_i = check.vartime_eq(u.neg().mul(SQRT_M1));
        if flipped || flipped_i {
            r = r.mul(SQRT_M1);
        }
        (check.vartime_eq(u) || flipped, r.vartime_abs())
    }

    pub(crate) fn vartime_eq(self, other: Fe) -> bool {
        self.canonical().0 == other.canonical().0
    }

    pub(crate) fn vartime_is_zero(self) -> bool {
        self.canonical().0 == [0; 5]
    }

    /// Negative means odd in canonical form (RFC 9496, section 4.1).
    pub(crate) fn is_negative(self) -> bool {
        self.canonical().0[0] & 1 == 1
    }

    pub(crate) fn vartime_abs(self) -> Fe {
        if self.is_negative() { self.neg() } else { self }
    }

    /// Inverts all values with one inversion (Montgomery's trick); zeros are not allowed.
    pub(crate) fn invert_batch(values: &mut [Fe]) {
        let mut products = Vec::with_capacity(values.len());
        let mut product = Fe::ONE;
        for value in values.iter() {
            products.push(product);
            product = product.mul(*value);
        }
        let mut inverse = product.invert();
        for (value, before) in values.iter_mut().zip(products).rev() {
            let next = inverse.mul(*value);
            *value = inverse.mul(before);
            inverse = next;
        }
    }
}

/// Converts columns below 2^115 to reduced limbs; the carry chain goes around once.
#[inline(always)]
fn reduce_wide(mut c: [u128; 5]) -> Fe {
    let mut l = [0_u64; 5];
    for i in 0..4 {
        c[i + 1] += u128::from((c[i] >> 51) as u64);
        l[i] = (c[i] as u64) & MASK;
    }
    let top = (c[4] >> 51) as u64;
    l[4] = (c[4] as u64) & MASK;
    // No term of column 4 has a factor of 19: it is below 2^111, so this stays below 2^64.
    l[0] += 19 * top;
    l[1] += l[0] >> 51;
    l[0] &= MASK;
    Fe(l)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seed: u64) -> Fe {
        let mut bytes = [0; 32];
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for byte in &mut bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        }
        Fe::from_bytes(&bytes)
    }

    #[test]
    fn constants_satisfy_their_equations() {
        assert!(SQRT_M1.square().vartime_eq(Fe::ONE.neg()));
        let left = D.mul(Fe([121_666, 0, 0, 0, 0]));
        assert!(left.vartime_eq(Fe([121_665, 0, 0, 0, 0]).neg()));
        assert!(D.add(D).vartime_eq(D2));
        assert!(D2.add(D2).vartime_eq(D4));
        assert!(Fe::HALF.add(Fe::HALF).vartime_eq(Fe::ONE));
        let a_minus_d = Fe::ONE.neg().sub(D);
        assert!(
            INVSQRT_A_MINUS_D
                .square()
                .mul(a_minus_d)
                .vartime_eq(Fe::ONE)
        );
    }

    #[test]
    fn ring_laws_hold_at_the_limb_bounds() {
        let top = Fe([(1 << 54) - 1; 5]);
        let values: Vec<Fe> = (0..40)
            .map(sample)
            .chain([Fe::ZERO, Fe::ONE, top])
            .collect();
        for &a in &values {
            assert!(a.square().vartime_eq(a.mul(a)));
            assert!(a.sub(a).vartime_is_zero());
            let (wide, narrow) = (a.carried().add(a.carried()), a.carried());
            assert!(wide.minus(narrow).vartime_eq(a));
            assert!(wide.minus(narrow).0.iter().all(|&limb| limb < 1 << 54));
            for &b in &values {
                assert!(a.mul(b).vartime_eq(b.mul(a)));
                let sum = a.carried().add(b.carried());
                let left = sum.square();
                let right = a.square().add(b.square()).add(a.mul(b)).add(a.mul(b));
                assert!(left.vartime_eq(right));
            }
        }
    }

    #[test]
    fn canonical_form_is_unique() {
        let p = Fe([MASK - 18, MASK, MASK, MASK, MASK]);
        assert!(p.vartime_is_zero());
        assert!(p.add(p).vartime_is_zero());
        assert_eq!(Fe([MASK; 5]).to_bytes()[0], 18);
        for seed in 0..50 {
            let x = sample(seed);
            assert!(Fe::from_bytes(&x.to_bytes()).vartime_eq(x));
            assert!(x.add(p).vartime_eq(x));
        }
    }

    #[test]
    fn inversion_and_square_roots() {
        let mut batch: Vec<Fe> = (1..20).map(sample).collect();
        let plain = batch.clone();
        Fe::invert_batch(&mut batch);
        for (x, y) in plain.iter().zip(&batch) {
            assert!(x.mul(*y).vartime_eq(Fe::ONE));
            let (square, root) = Fe::vartime_sqrt_ratio(x.square(), Fe::ONE);
            assert!(square && !root.is_negative());
            assert!(root.vartime_eq(*x) || root.vartime_eq(x.neg()));
            let (square, _) = Fe::vartime_sqrt_ratio(x.square().mul(SQRT_M1), Fe::ONE);
            assert!(!square, "i is no square, so i·x² is none");
        }
    }
}
