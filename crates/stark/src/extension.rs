//! The field of challenges, F = F_p\[X\] / (X^5 + X^2 − 1).
//!
//! It has 2^154.9 elements, so a random point misses the few roots of a polynomial with far more than 120 bits of
//! certainty. X^5 + X^2 − 1 is irreducible over F_p (shown by the tests), and 3 does not divide p^5 − 1, so cubing
//! is a permutation here too.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::field::{Fp, P};

/// Degree of the extension.
pub(crate) const DEGREE: usize = 5;

/// (2·p^5 − 1)/3 in little-endian words.
const CUBE_ROOT: [u64; 3] = {
    // 2·p^5 < 2^156 takes three words of 64 bits.
    let mut words = [2u128, 0, 0];
    let mut factor = 0;
    while factor < DEGREE {
        let (mut i, mut carry) = (0, 0);
        while i < 3 {
            let product = words[i] * P as u128 + carry;
            (words[i], carry) = (product & u64::MAX as u128, product >> 64);
            i += 1;
        }
        factor += 1;
    }
    words[0] -= 1;
    let (mut out, mut rest, mut i) = ([0; 3], 0, 3);
    while i > 0 {
        i -= 1;
        let value = rest << 64 | words[i];
        (out[i], rest) = ((value / 3) as u64, value % 3);
    }
    out
};

/// An element: the coefficients of 1, X, X^2, X^3 and X^4.
///
/// ```
/// # use alphorn_stark::Ext;
/// let x = Ext::X;
/// assert_eq!(x * x * x * x * x, Ext::ONE - x * x);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ext(pub [Fp; DEGREE]);

impl Ext {
    /// 0.
    pub(crate) const ZERO: Ext = Ext([Fp::ZERO; DEGREE]);
    /// 1.
    pub const ONE: Ext = Ext([Fp::ONE, Fp::ZERO, Fp::ZERO, Fp::ZERO, Fp::ZERO]);
    /// The adjoined root.
    pub const X: Ext = Ext([Fp::ZERO, Fp::ONE, Fp::ZERO, Fp::ZERO, Fp::ZERO]);

    /// self · factor, for a factor of the base field.
    #[inline]
    pub(crate) fn scale(self, factor: Fp) -> Ext {
        Ext(self.0.map(|x| x * factor))
    }

    /// self^exponent, the exponent in little-endian words; the time depends on the exponent.
    pub(crate) fn pow(self, exponent: &[u64]) -> Ext {
        let mut result = Ext::ONE;
        for word in exponent.iter().rev() {
            for bit in (0..64).rev() {
                result = result * result;
                if word >> bit & 1 == 1 {
                    result *= self;
                }
            }
        }
        result
    }

    /// self^p, the automorphism that fixes the base field.
    pub(crate) fn frobenius(self) -> Ext {
        self.pow(&[u64::from(P)])
    }

    /// The unique element whose cube this is: x^e, where 3·e = 1 modulo p^5 − 1.
    pub(crate) fn cube_root(self) -> Ext {
        // e = (2·p^5 − 1)/3, because p^5 − 1 = 1 modulo 3.
        self.pow(&CUBE_ROOT)
    }

    /// 1/x; none for 0.
    ///
    /// The product of all conjugates is the norm, an element of the base field: the inverse is the
    /// product of the four others divided by it.
    pub(crate) fn inverse(self) -> Option<Ext> {
        let mut conjugate = self;
        let mut others = Ext::ONE;
        for _ in 1..DEGREE {
            conjugate = conjugate.frobenius();
            others *= conjugate;
        }
        // All conjugates give the same product, so it is fixed by the automorphism and has no other coefficients.
        let norm = (self * others).0[0];
        Some(others.scale(norm.inverse()?))
    }
}

impl From<Fp> for Ext {
    #[inline]
    fn from(x: Fp) -> Ext {
        Ext([x, Fp::ZERO, Fp::ZERO, Fp::ZERO, Fp::ZERO])
    }
}

impl Add for Ext {
    type Output = Ext;
    #[inline]
    fn add(mut self, other: Ext) -> Ext {
        self += other;
        self
    }
}

impl Sub for Ext {
    type Output = Ext;
    #[inline]
    fn sub(mut self, other: Ext) -> Ext {
        self -= other;
        self
    }
}

impl Mul for Ext {
    type Output = Ext;
    #[inline]
    fn mul(self, other: Ext) -> Ext {
        // Coefficient k is Σ_i a_i·(X^i·b)_k, and X·b = b_4·(1 − X²) + b_0·X + … + b_3·X^4.
        let b = other.0;
        let [c0, c1, c2, c3, c4] = b;
        let (d1, d2) = (b[1] - b[4], b[0] - b[3]);
        let (e3, e4) = (b[4] - b[2], b[3] - d1);
        let rows = [
            [c0, c4, c3, c2, d1],
            [c1, c0, c4, c3, c2],
            [c2, d1, d2, e3, e4],
            [c3, c2, d1, d2, e3],
            [c4, c3, c2, d1, d2],
        ];
        Ext(rows.map(|row| Fp::products(self.0, row)))
    }
}

impl Mul<Fp> for Ext {
    type Output = Ext;
    #[inline]
    fn mul(self, factor: Fp) -> Ext {
        self.scale(factor)
    }
}

impl Neg for Ext {
    type Output = Ext;
    #[inline]
    fn neg(self) -> Ext {
        Ext(self.0.map(Neg::neg))
    }
}

impl AddAssign for Ext {
    #[inline]
    fn add_assign(&mut self, other: Ext) {
        for (x, y) in self.0.iter_mut().zip(other.0) {
            *x += y;
        }
    }
}

impl SubAssign for Ext {
    #[inline]
    fn sub_assign(&mut self, other: Ext) {
        for (x, y) in self.0.iter_mut().zip(other.0) {
            *x -= y;
        }
    }
}

impl MulAssign for Ext {
    #[inline]
    fn mul_assign(&mut self, other: Ext) {
        *self = *self * other;
    }
}

impl Sum for Ext {
    fn sum<I: Iterator<Item = Ext>>(iter: I) -> Ext {
        iter.fold(Ext::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3_field::extension::QuinticTrinomialExtensionField;
    use p3_field::{BasedVectorSpace, PrimeCharacteristicRing, PrimeField32};
    use p3_koala_bear::KoalaBear;
    use proptest::prelude::*;

    type Theirs = QuinticTrinomialExtensionField<KoalaBear>;

    fn theirs(a: Ext) -> Theirs {
        Theirs::from_basis_coefficients_fn(|i| KoalaBear::from_u32(a.0[i].canonical()))
    }

    fn ours(a: Theirs) -> Ext {
        let coefficients: &[KoalaBear] = a.as_basis_coefficients_slice();
        Ext(std::array::from_fn(|i| {
            Fp::new(coefficients[i].as_canonical_u32())
        }))
    }

    fn any_element() -> impl Strategy<Value = Ext> {
        any::<[u32; DEGREE]>().prop_map(|words| Ext(words.map(Fp::new)))
    }

    /// f = X^5 + X^2 − 1 has no factor of degree 1 or 2, so it is irreducible: X^p − X and X^(p²) − X, the
    /// products of all such factors, are units modulo f. And X^(p^5) = X, as required.
    #[test]
    fn the_polynomial_is_irreducible() {
        let mut power = Ext::X;
        let mut orbit = Vec::new();
        for _ in 0..DEGREE {
            power = power.frobenius();
            orbit.push(power);
        }
        assert_eq!(orbit[4], Ext::X);
        for unit in [orbit[0] - Ext::X, orbit[1] - Ext::X] {
            assert!(is_unit(unit));
        }
    }

    /// Whether multiplication by an element is invertible, that is, whether its matrix has full rank. This does
    /// not assume that the ring is a field.
    fn is_unit(element: Ext) -> bool {
        let mut power = Ext::ONE;
        let mut rows = [[Fp::ZERO; DEGREE]; DEGREE];
        for row in &mut rows {
            *row = (element * power).0;
            power *= Ext::X;
        }
        for column in 0..DEGREE {
            let pivot = (column..DEGREE).find(|i| rows[*i][column] != Fp::ZERO);
            let Some(pivot) = pivot else { return false };
            rows.swap(column, pivot);
            let inverse = rows[column][column].inverse().unwrap();
            let top = rows[column];
            for row in &mut rows[column + 1..] {
                let factor = row[column] * inverse;
                for (x, y) in row.iter_mut().zip(top) {
                    *x -= factor * y;
                }
            }
        }
        true
    }

    #[test]
    fn cubes_have_one_root() {
        // The inverse of 3 modulo p^5 − 1 exists, since p = 2 modulo 3 and so p^5 − 1 = 1.
        assert_eq!(u64::from(P) % 3, 2);
        assert_eq!(Ext::ZERO.inverse(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_a_field(a in any_element(), b in any_element(), c in any_element()) {
            prop_assert_eq!(a * b, ours(theirs(a) * theirs(b)));
            prop_assert_eq!(a * b, b * a);
            prop_assert_eq!((a * b) * c, a * (b * c));
            prop_assert_eq!(a * (b + c), a * b + a * c);
            prop_assert_eq!(a - b, a + -b);
            prop_assert_eq!(a * Ext::ONE, a);
            if let Some(inverse) = a.inverse() {
                prop_assert_eq!(a * inverse, Ext::ONE);
            } else {
                prop_assert_eq!(a, Ext::ZERO);
            }
            prop_assert_eq!(a.scale(b.0[0]), a * Ext::from(b.0[0]));
            prop_assert_eq!((a * a * a).cube_root(), a);
            prop_assert_eq!((a * b).frobenius(), a.frobenius() * b.frobenius());
            prop_assert_eq!([a, b, c].into_iter().sum::<Ext>(), a + b + c);
            prop_assert_eq!(a.pow(&[3, 1]), a.pow(&[3]) * a.pow(&[0, 1]));
        }
    }
}
