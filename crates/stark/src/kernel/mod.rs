//! Vectors of field elements, and the proof that this machine has the instructions for them.
//!
//! A computation is written once, over [`Packed`], as a [`Pass`]. [`Backend::run`] enters a function
//! that is compiled for the instruction set and runs the whole pass inside; so everything a pass
//! calls is `#[inline(always)]`, and each task of a thread pool calls `run` anew.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::field::Fp;
use crate::poseidon::WIDTH_16;

/// A vector of [`Packed::LANES`] field elements, on which every operation acts element by element.
pub trait Packed: Copy {
    /// A vector made ready for [`Packed::dot`]: wider words.
    type Split: Copy;

    /// Elements of a vector.
    const LANES: usize;

    /// A vector of equal elements.
    fn splat(value: Fp) -> Self;

    /// The first [`Packed::LANES`] elements of a slice that has so many.
    fn load(values: &[Fp]) -> Self;

    /// Writes to the first [`Packed::LANES`] elements of a slice that has so many.
    fn store(self, values: &mut [Fp]);

    /// self + other.
    fn add(self, other: Self) -> Self;

    /// self − other.
    fn sub(self, other: Self) -> Self;

    /// self · other.
    fn mul(self, other: Self) -> Self;

    /// self³.
    #[inline(always)]
    fn cube(self) -> Self {
        self.mul(self).mul(self)
    }

    /// Prepares a vector as a factor of [`Packed::dot`].
    fn split(self) -> Self::Split;

    /// Σ_i x_i · w_i for `M` rows w of at most [`DOT_MAX`] words in Montgomery form
    /// ([`crate::Fp`]'s own), each below p.
    fn dot<const M: usize>(x: &[Self::Split], rows: [&[u64]; M]) -> [Self; M];

    /// Σ_i x_i · y_i for at most [`PRODUCTS_MAX`] pairs of vectors.
    fn products<const N: usize>(x: [Self::Split; N], y: [Self::Split; N]) -> Self;

    /// Σ_i x_i · w_i for `M` rows w of plain integers whose sum is at most [`SMALL_SUM_MAX`].
    fn dot_small<const M: usize>(x: &[Self::Split], rows: [&[u64]; M]) -> [Self; M];

    /// The matrix times x.
    #[inline(always)]
    fn mix(matrix: &Circulant, x: &[Self::Split; MIXED]) -> [Self; MIXED] {
        let mut out = [Self::splat(Fp::ZERO); MIXED];
        for (out, rows) in out.chunks_exact_mut(4).zip(matrix.rows.chunks_exact(4)) {
            let sums = Self::dot_small(x, [&rows[0], &rows[1], &rows[2], &rows[3]]);
            out.copy_from_slice(&sums);
        }
        out
    }
}

/// Elements that a [`Circulant`] mixes.
pub const MIXED: usize = 16;

/// A circulant matrix of small integers, whole and in parts: it is (A B; B A) with halves A and B.
#[derive(Clone, Debug)]
pub struct Circulant {
    rows: [[u64; MIXED]; MIXED],
    /// A + B.
    sums: [[u64; MIXED / 2]; MIXED / 2],
    /// A − B.
    signed: [[i64; MIXED / 2]; MIXED / 2],
    /// A − B, increased by `shift` so that nothing is negative.
    differences: [[u64; MIXED / 2]; MIXED / 2],
    shift: u64,
}

impl Circulant {
    /// The matrix with this first row; each next row is the one before turned to the right.
    ///
    /// # Panics
    /// If the sum of the row exceeds [`SMALL_SUM_MAX`].
    pub fn new(row: &[u32; MIXED]) -> Circulant {
        let entry = |i: usize, j: usize| u64::from(row[(MIXED + j - i) % MIXED]);
        let sum: u64 = row.iter().map(|x| u64::from(*x)).sum();
        assert!(sum <= SMALL_SUM_MAX, "entries are small");
        let half = MIXED / 2;
        let shift = u64::from(row.iter().copied().max().unwrap_or_default());
        let part = |f: &dyn Fn(u64, u64) -> u64| {
            std::array::from_fn(|i| std::array::from_fn(|j| f(entry(i, j), entry(i, half + j))))
        };
        Circulant {
            rows: std::array::from_fn(|i| std::array::from_fn(|j| entry(i, j))),
            sums: part(&|a, b| a + b),
            signed: part(&|a, b| a + shift - b).map(|row| row.map(|x| x as i64 - shift as i64)),
            differences: part(&|a, b| a + shift - b),
            shift,
        }
    }
}

/// Terms that one [`Packed::dot`] may have: no accumulator overflows up to here.
pub const DOT_MAX: usize = 48;

/// Terms that one [`Packed::products`] may have.
pub const PRODUCTS_MAX: usize = 5;

/// Greatest sum of the integers of one row of [`Packed::dot_small`]: the result stays below 2^40.
pub const SMALL_SUM_MAX: u64 = 512;

/// A computation over vectors, whatever their instruction set.
pub trait Pass {
    /// What it returns.
    type Output;

    /// Runs it; must be `#[inline(always)]`, as must all that it calls.
    fn run<V: Packed>(self) -> Self::Output;
}

/// Proof that this machine can run one set of kernels: only a check of the CPU makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend(Kernel);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
}

/// Why a name gives no [`Backend`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackendError {
    /// There is no such level.
    #[error("unknown kernel level {0:?}: expected auto, portable, avx2 or avx512")]
    Unknown(String),
    /// This machine lacks the instructions of the level.
    #[error("kernel level {0} needs instructions that this machine lacks")]
    Unavailable(String),
}

impl Backend {
    /// The portable kernels, which every machine has.
    pub fn portable() -> Backend {
        Backend(Kernel::Portable)
    }

    /// All levels that this machine can run, the portable one first.
    pub fn available() -> Vec<Backend> {
        let mut kernels = vec![Kernel::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(avx2::Avx2::detect().map(Kernel::Avx2));
            kernels.extend(avx512::Avx512::detect().map(Kernel::Avx512));
        }
        kernels.into_iter().map(Backend).collect()
    }

    /// The fastest level here, by measurements of a few milliseconds in all.
    pub fn measured() -> Backend {
        Backend::available()
            .into_iter()
            .min_by_key(|backend| backend.measure())
            .unwrap_or_else(Backend::portable)
    }

    /// `portable`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kernel::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => "avx512",
        }
    }

    /// Elements of a vector of this level.
    pub fn lanes(self) -> usize {
        struct Lanes;
        impl Pass for Lanes {
            type Output = usize;
            #[inline(always)]
            fn run<V: Packed>(self) -> usize {
                V::LANES
            }
        }
        self.run(Lanes)
    }

    /// The least time of 128 permutations of width 16, to compare levels by.
    pub fn measure(self) -> Duration {
        let mut states = [[Fp::ONE; WIDTH_16]; 128];
        let mut once = || {
            let start = Instant::now();
            self.permute_16(&mut states);
            std::hint::black_box(&states);
            start.elapsed()
        };
        // The first run makes the tables.
        once();
        (0..8).map(|_| once()).min().unwrap_or(Duration::MAX)
    }

    /// The least time of 32 permutations of width 16 that wait for each other.
    pub(crate) fn measure_one(self) -> Duration {
        let mut states = [[Fp::ONE; WIDTH_16]];
        let mut once = || {
            let start = Instant::now();
            (0..32).for_each(|_| self.permute_16(&mut states));
            std::hint::black_box(&states);
            start.elapsed()
        };
        // The first run makes the tables.
        once();
        (0..8).map(|_| once()).min().unwrap_or(Duration::MAX)
    }

    /// Runs a pass inside a function that is compiled for the instruction set of this level.
    #[inline]
    pub fn run<W: Pass>(self, pass: W) -> W::Output {
        match self.0 {
            Kernel::Portable => pass.run::<portable::Lanes>(),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(token) => token.run(pass),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(token) => token.run(pass),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(name: &str) -> Result<Backend, BackendError> {
        match name {
            "auto" => Ok(Backend::measured()),
            "portable" | "avx2" | "avx512" => Backend::available()
                .into_iter()
                .find(|backend| backend.name() == name)
                .ok_or_else(|| BackendError::Unavailable(name.to_owned())),
            _ => Err(BackendError::Unknown(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
