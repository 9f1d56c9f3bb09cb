//! Arithmetic modulo 65521, the largest prime below 2^16: rows without data, for simulations.

use crate::echelon::Space;

/// The modulus.
pub(crate) const MODULUS: u32 = 65_521;

/// Vectors over the integers modulo 65521.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mod65521;

impl Space for Mod65521 {
    type Factor = u16;
    type Vector = Vec<u16>;

    const ZERO: u16 = 0;
    const ONE: u16 = 1;

    fn zero(&self, len: usize) -> Vec<u16> {
        vec![0; len]
    }

    fn get(&self, vector: &Vec<u16>, i: usize) -> u16 {
        vector[i]
    }

    fn set(&self, vector: &mut Vec<u16>, i: usize, value: u16) {
        vector[i] = value;
    }

    fn negative(&self, factor: u16) -> u16 {
        if factor == 0 {
            0
        } else {
            (MODULUS - u32::from(factor)) as u16
        }
    }

    fn inverse(&self, factor: u16) -> u16 {
        // Fermat: the exponent 65519 has sixteen bits.
        let (mut power, mut result) = (u32::from(factor), 1_u32);
        let mut exponent = MODULUS - 2;
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = (u64::from(result) * u64::from(power) % u64::from(MODULUS)) as u32;
            }
            power = (u64::from(power) * u64::from(power) % u64::from(MODULUS)) as u32;
            exponent >>= 1;
        }
        result as u16
    }

    fn combine(&self, factors: &[u16], vectors: &[&Vec<u16>]) -> Vec<u16> {
        let len = vectors.first().map_or(0, |vector| vector.len());
        // Products are below 2^32, so 2^32 of them fit.
        let mut sums = vec![0_u64; len];
        for (&factor, vector) in factors.iter().zip(vectors) {
            for (sum, &element) in sums.iter_mut().zip(vector.iter()) {
                *sum += u64::from(u32::from(factor) * u32::from(element));
            }
        }
        sums.into_iter()
            .map(|sum| (sum % u64::from(MODULUS)) as u16)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echelon::Echelon;

    #[test]
    fn inverses_and_negatives() {
        for factor in (1..MODULUS as u16).step_by(97) {
            let product = Mod65521.combine(&[factor], &[&vec![Mod65521.inverse(factor)]]);
            assert_eq!(product, [1]);
            let sum = Mod65521.combine(&[1, 1], &[&vec![factor], &vec![Mod65521.negative(factor)]]);
            assert_eq!(sum, [0]);
        }
    }

    #[test]
    fn the_echelon_form_knows_spans_and_inverts() {
        let rows = [
            vec![0, 2, 3],
            vec![0, 4, 6],
            vec![5, 0, 1],
            vec![1, 1, 1],
            vec![9, 9, 9],
        ];
        let mut echelon = Echelon::new(Mod65521, 3, true);
        let innovative: Vec<bool> = rows
            .iter()
            .map(|row| {
                let expected = echelon.is_innovative(row);
                assert_eq!(echelon.insert(row), expected);
                expected
            })
            .collect();
        assert_eq!(innovative, [true, false, true, true, false]);
        assert_eq!((echelon.rank(), echelon.is_full()), (3, true));
        let inverse = echelon.inverse().unwrap();
        let received = [&rows[0], &rows[2], &rows[3]];
        for (i, factors) in inverse.iter().enumerate() {
            let mut unit = vec![0; 3];
            unit[i] = 1;
            assert_eq!(Mod65521.combine(factors, &received), unit);
        }
    }
}
