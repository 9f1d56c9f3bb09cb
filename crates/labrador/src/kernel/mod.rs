//! Vectors of 16-bit numbers for each instruction set, and the proof that this machine has it.
//!
//! A computation is written once, over [`Vectors`], as a [`Pass`]. [`Backend::run`] enters a
//! function that is compiled for an instruction set and runs the whole pass inside; so all that a
//! pass calls is `#[inline(always)]`. Whatever the level, the values are the same.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::ring::Rq;
use crate::transcript::Seed;

/// A vector of [`Vector::LANES`] numbers of 16 bits, on which every operation acts number by
/// number and wraps.
pub trait Vector: Copy {
    /// One sum of 32 bits for each number, half of them for each of two vectors.
    type Sums: Copy;

    /// Numbers of a vector: a multiple of eight.
    const LANES: usize;

    /// The first [`Vector::LANES`] numbers of a slice that has so many.
    fn load(values: &[i16]) -> Self;

    /// Writes to the first [`Vector::LANES`] numbers of a slice that has so many.
    fn store(self, values: &mut [i16]);

    /// The eight numbers of a row, again and again.
    fn repeat(row: &[i16; 8]) -> Self;

    /// Each of the first `LANES / 8` numbers of a slice eight times.
    fn spread(values: &[i16]) -> Self;

    /// self + other.
    fn add(self, other: Self) -> Self;

    /// self - other.
    fn sub(self, other: Self) -> Self;

    /// The lower 16 bits of self other.
    fn mul_low(self, other: Self) -> Self;

    /// The upper 16 bits of the signed product.
    fn mul_high(self, other: Self) -> Self;

    /// self / 2^11, rounded down.
    fn shift_right_11(self) -> Self;

    /// Of each eight numbers the lower four of both vectors in turn, and the upper four: the
    /// first numbers of `self` and `other` become neighbours, and so on.
    fn interleave(self, other: Self) -> (Self, Self);

    /// Sums that are zero.
    fn no_sums() -> Self::Sums;

    /// Sums plus the products of neighbours: after [`Vector::interleave`] on both sides, number
    /// by number the sum of two products.
    fn accumulate(sums: Self::Sums, a: (Self, Self), b: (Self, Self)) -> Self::Sums;

    /// The lower and the upper 16 bits of all sums, in the order before [`Vector::interleave`].
    fn halves(sums: Self::Sums) -> (Self, Self);

    /// Writes all sums, first those of the first vectors of [`Vector::accumulate`].
    fn store_sums(sums: Self::Sums, out: &mut [i32]);
}

/// Rows of signs that share a word of weights.
pub const SIGN_ROWS: usize = 4;

/// Groups of rows of a projection matrix.
pub const SIGN_GROUPS: usize = 64;

/// Weights of a row, of eight bits each.
pub const SIGN_PARTS: usize = 18;

/// The signs of 256 rows by 64 columns, as two planes of bits: a sign is the difference of the
/// bits `256 (row / 4) + 4 column + row mod 4` of both.
pub type SignPlanes = [[u8; 2048]; 2];

/// For each group of rows and each part the weights of its four rows, from the lowest byte on.
pub type SignWeights = [[u32; SIGN_PARTS]; SIGN_GROUPS];

/// A sum for each part and column.
pub type SignSums = [[i32; 64]; SIGN_PARTS];

/// The signs of 256 rows by 64 columns as numbers.
pub type Signs = [[i16; 64]; SIGN_ROWS * SIGN_GROUPS];

/// The vectors of one level.
pub trait Vectors {
    /// `sums[part][column] = sum_row sign[row][column] weight[part][row]`.
    fn weigh_signs(planes: &SignPlanes, weights: &SignWeights, sums: &mut SignSums);

    /// `signs[row][column]`.
    fn unpack_signs(planes: &SignPlanes, signs: &mut Signs);

    /// The widest.
    type Wide: Vector;
    /// Of at most sixteen numbers.
    type Half: Vector;
    /// Of eight numbers.
    type Row: Vector;
}

/// A computation over vectors, whatever their instruction set.
pub trait Pass {
    /// What it returns.
    type Output;

    /// Runs it; must be `#[inline(always)]`, as must all that it calls.
    fn run<V: Vectors>(self) -> Self::Output;
}

/// Proof that this machine can run one level of kernels: only a check of the CPU makes one.
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
    /// The portable level, which every machine has.
    #[must_use]
    pub fn portable() -> Backend {
        Backend(Kernel::Portable)
    }

    /// All levels that this machine can run, the portable one first.
    #[must_use]
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
    #[must_use]
    pub fn measured() -> Backend {
        Backend::available()
            .into_iter()
            .min_by_key(|backend| backend.measure())
            .unwrap_or_else(Backend::portable)
    }

    /// `portable`, `avx2` or `avx512`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kernel::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => "avx512",
        }
    }

    /// The least time of 64 transforms there and back, to compare levels by.
    #[must_use]
    pub fn measure(self) -> Duration {
        let mut stream = Seed::of_name("alphorn/labrador/measure").stream();
        let elements: Vec<Rq> = (0..64).map(|_| stream.element()).collect();
        let once = || {
            let start = Instant::now();
            std::hint::black_box(self.elements(&self.transforms(&elements)));
            start.elapsed()
        };
        (0..8).map(|_| once()).min().unwrap_or(Duration::MAX)
    }

    /// Runs a pass inside a function that is compiled for the instruction set of this level.
    #[inline]
    pub fn run<P: Pass>(self, pass: P) -> P::Output {
        match self.0 {
            Kernel::Portable => pass.run::<portable::Portable>(),
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
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_levels() {
        for backend in Backend::available() {
            assert_eq!(backend.name().parse(), Ok(backend));
        }
        let unknown = "sse9".parse::<Backend>();
        assert_eq!(unknown, Err(BackendError::Unknown("sse9".to_owned())));
        assert!(Backend::available().contains(&Backend::measured()));
    }
}
