//! Centred digits: writes 48-bit numbers as short ones.

use crate::ring::{DEGREE, Small};

/// Writes `x` as `sum_i 2^(base i) d_i`. All digits but the last lie in `[-2^(base-1), 2^(base-1) - 1]`, and the last
/// holds the remainder. Returns None if the remainder does not fit in 16 bits.
///
/// # Panics
/// If there are no digits, or the base has no bits or more than 15.
#[must_use]
pub(crate) fn decompose(x: &[i64; DEGREE], base: u32, count: usize) -> Option<Vec<Small>> {
    assert!(
        count > 0 && (1..16).contains(&base),
        "digits of 1 to 15 bits"
    );
    let mut digits = vec![Small::ZERO; count];
    let (half, mask) = (1i64 << (base - 1), (1i64 << base) - 1);
    for (place, &value) in x.iter().enumerate() {
        let mut rest = value;
        for digit in &mut digits[..count - 1] {
            // The mask yields the residue in `[0, 2^base)` for negative numbers too.
            let low = (rest.wrapping_add(half) & mask) - half;
            digit.0[place] = low as i16;
            // Exact, since the difference is a multiple of `2^base`.
            rest = (rest - low) >> base;
        }
        digits[count - 1].0[place] = i16::try_from(rest).ok()?;
    }
    Some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Q;

    fn reconstruct(digits: &[Small], base: u32) -> [i64; DEGREE] {
        let mut out = [0; DEGREE];
        for digit in digits.iter().rev() {
            for (o, &d) in out.iter_mut().zip(&digit.0) {
                *o = (*o << base) + i64::from(d);
            }
        }
        out
    }

    #[test]
    fn digits_rebuild_every_edge() {
        let mut edges = vec![0, (Q / 2) as i64];
        edges.extend((0..47).flat_map(|k| [(1i64 << k) - 1, 1 << k, (1 << k) + 1]));
        for base in 4..=12u32 {
            let count = 48usize.div_ceil(base as usize);
            for &edge in &edges {
                let mut x = [edge; DEGREE];
                x[1] = -edge;
                let digits = decompose(&x, base, count).expect("48 bits fit");
                assert_eq!(reconstruct(&digits, base), x, "base {base}");
                let half = 1 << (base - 1);
                for digit in &digits[..count - 1] {
                    assert!(digit.0.iter().all(|d| (-half..half).contains(d)));
                }
            }
        }
    }

    #[test]
    fn a_rest_beyond_sixteen_bits_is_refused() {
        let top = 40i64 + (32_767 << 10);
        assert!(decompose(&[top; DEGREE], 10, 2).is_some());
        assert!(decompose(&[top + (1 << 10); DEGREE], 10, 2).is_none());
        assert!(decompose(&[40_000; DEGREE], 10, 1).is_none());
    }
}
