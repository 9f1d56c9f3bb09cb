//! Reproducible field elements for tests.

use crate::extension::Ext;
use crate::field::Fp;

/// A generator of elements from a seed (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }

    pub(crate) fn fp(&mut self) -> Fp {
        Fp::reduced(self.word().into())
    }

    pub(crate) fn ext(&mut self) -> Ext {
        Ext(std::array::from_fn(|_| self.fp()))
    }

    pub(crate) fn exts(&mut self, count: usize) -> Vec<Ext> {
        (0..count).map(|_| self.ext()).collect()
    }
}
