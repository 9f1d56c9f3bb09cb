//! One element at a time: the oracle of the other kernels, which runs on every host.

use super::{DOT_MAX, PRODUCTS_MAX, Packed, SMALL_SUM_MAX};
use crate::field::{Fp, P, reduce};

/// A vector of one element.
#[derive(Clone, Copy)]
pub(super) struct Lanes(Fp);

/// Number of products of two words below p that fit a 64-bit sum: 4·(p − 1)² < 2^64.
const RUN: usize = 4;

impl Packed for Lanes {
    type Split = u64;
    const LANES: usize = 1;

    #[inline(always)]
    fn splat(value: Fp) -> Self {
        Lanes(value)
    }

    #[inline(always)]
    fn load(values: &[Fp]) -> Self {
        Lanes(values[0])
    }

    #[inline(always)]
    fn store(self, values: &mut [Fp]) {
        values[0] = self.0;
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Lanes(self.0 + other.0)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Lanes(self.0 - other.0)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Lanes(self.0 * other.0)
    }

    #[inline(always)]
    fn over<const N: u32>(self) -> Self {
        let word = self.0.word();
        let low = word << (32 - N);
        // 127·2^(24 − N)·low, which is below p.
        let taken = (low >> 1) - (low >> 8);
        let difference = (word >> N).wrapping_sub(taken);
        Lanes(Fp::from_word(difference.min(difference.wrapping_add(P))))
    }

    #[inline(always)]
    fn split(self) -> u64 {
        u64::from(self.0.word())
    }

    #[inline(always)]
    fn dot<const M: usize>(x: &[u64], rows: [&[u64]; M]) -> [Self; M] {
        rows.map(|row| {
            debug_assert!(row.len() == x.len() && x.len() <= DOT_MAX);
            // Σ = low + 2^32·high, both below 2^36 for 12 runs.
            let (mut low, mut high) = (0u64, 0u64);
            for (x, row) in x.chunks(RUN).zip(row.chunks(RUN)) {
                let sum: u64 = x.iter().zip(row).map(|(x, w)| x * w).sum();
                low += sum & 0xffff_ffff;
                high += sum >> 32;
            }
            Lanes(Fp::from_word(reduce(low)) + Fp::from_word((high % u64::from(P)) as u32))
        })
    }

    #[inline(always)]
    fn products<const N: usize>(x: [u64; N], y: [u64; N]) -> Self {
        const { assert!(N <= PRODUCTS_MAX) };
        let mut sum = 0u64;
        for i in 0..N {
            // Below p·2^32 before the product, which is below (p − 1)² < p·2^32.
            sum += x[i] * y[i];
            sum = sum.min(sum.wrapping_sub(u64::from(P) << 32));
        }
        Lanes(Fp::from_word(reduce(sum)))
    }

    #[inline(always)]
    fn dot_small<const M: usize>(x: &[u64], rows: [&[u64]; M]) -> [Self; M] {
        rows.map(|row| {
            debug_assert!(row.len() == x.len() && row.iter().sum::<u64>() <= SMALL_SUM_MAX);
            let sum: u64 = x.iter().zip(row).map(|(x, w)| x * w).sum();
            Lanes(Fp::from_word((sum % u64::from(P)) as u32))
        })
    }
}
