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

    /// Two numbers, again and again.
    fn repeat_two(two: &[i16; 2]) -> Self;

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

    /// Of rows of eight numbers, in blocks of `length` rows, a power of two below the rows of a
    /// vector: the even blocks of `self` and `other` in turn, and the odd ones. Of `(0 1 2 3)` and
    /// `(4 5 6 7)` it makes `(0 4 2 6)` and `(1 5 3 7)` for blocks of one, `(0 1 4 5)` and
    /// `(2 3 6 7)` for blocks of two. Twice is nothing.
    fn exchange(self, other: Self, length: usize) -> (Self, Self);

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

/// A vector of [`Words::LANES`] words of 64 bits, on which every operation acts word by word.
pub trait Words: Copy {
    /// Words of a vector: a divisor of eight.
    const LANES: usize;

    /// The first [`Words::LANES`] words of a slice that has so many.
    fn load(words: &[u64]) -> Self;

    /// Writes to the first [`Words::LANES`] words of a slice that has so many.
    fn store(self, words: &mut [u64]);

    /// The same word everywhere.
    fn repeat(word: u64) -> Self;

    /// The bits that differ.
    fn xor(self, other: Self) -> Self;

    /// The bits of `other` that are not set in `self`.
    fn and_not(self, other: Self) -> Self;

    /// Turned left by 1 to 63 bits.
    fn turn(self, bits: u32) -> Self;
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
    /// Runs a pass of this level as a function of its own, where inlining would repeat long code.
    fn call<P: Pass>(pass: P) -> P::Output;

    /// `sums[part][column] = sum_row sign[row][column] weight[part][row]`.
    fn weigh_signs(planes: &SignPlanes, weights: &SignWeights, sums: &mut SignSums);

    /// `signs[row][column]`.
    fn unpack_signs(planes: &SignPlanes, signs: &mut Signs);

    /// The widest.
    type Wide: Vector;
    /// Of eight numbers.
    type Row: Vector;
    /// Of words of 64 bits.
    type Words: Words;
}

/// Rows and columns of numbers that are transposed at once.
pub const SQUARE: usize = 8;

/// Transposes a square of numbers: three times the first half of the rows and the second, in turn.
/// Each time the bits of a number's place, row then column, turn left by one.
#[inline(always)]
pub fn transpose<V: Vectors>(square: &mut [[i16; SQUARE]; SQUARE]) {
    let mut rows = [V::Row::load(&square[0]); SQUARE];
    for (row, numbers) in rows.iter_mut().zip(&*square) {
        *row = V::Row::load(numbers);
    }
    for _ in 0..3 {
        let before = rows;
        for k in 0..SQUARE / 2 {
            (rows[2 * k], rows[2 * k + 1]) = before[k].interleave(before[k + SQUARE / 2]);
        }
    }
    for (row, numbers) in rows.iter().zip(square) {
        row.store(numbers);
    }
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
