//! Vectors of field elements, for each instruction set.
//!
//! A computation is written once, over [`Packed`], as a [`Pass`]. [`Dispatch::run`] enters a function that is
//! compiled for the instruction set and runs the whole pass inside. So everything a pass calls is
//! `#[inline(always)]`, and each task of a thread pool calls `run` itself.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(target_arch = "x86_64")]
mod words;

use alphorn_exec::Backend;

use crate::field::Fp;

/// A vector of [`Packed::LANES`] field elements, on which every operation acts element by element.
pub trait Packed: Copy {
    /// A vector prepared for [`Packed::dot`], with wider words.
    type Split: Copy;

    /// Number of elements in a vector.
    const LANES: usize;

    /// A vector of equal elements.
    fn splat(value: Fp) -> Self;

    /// The first [`Packed::LANES`] elements of a slice that has at least that many.
    fn load(values: &[Fp]) -> Self;

    /// Writes to the first [`Packed::LANES`] elements of a slice that has at least that many.
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

    /// self / 2^N, for N of 1 to 24. As 2^−24 = −127 modulo p, x / 2^N = high − 127·2^(24 − N)·low for
    /// the words high = floor(x / 2^N) and low = x mod 2^N.
    fn over<const N: u32>(self) -> Self;

    /// Prepares a vector as a factor of [`Packed::dot`].
    fn split(self) -> Self::Split;

    /// Σ_i x_i · w_i for `M` rows w of at most `DOT_MAX` words in Montgomery form
    /// ([`crate::Fp`]'s own), each below p.
    fn dot<const M: usize>(x: &[Self::Split], rows: [&[u64]; M]) -> [Self; M];

    /// Σ_i x_i · y_i for at most `PRODUCTS_MAX` pairs of vectors.
    fn products<const N: usize>(x: [Self::Split; N], y: [Self::Split; N]) -> Self;

    /// Σ_i x_i · w_i for `M` rows w of plain integers whose sum is at most `SMALL_SUM_MAX`.
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

/// Number of elements that a [`Circulant`] mixes.
pub(crate) const MIXED: usize = 16;

/// A circulant matrix of small integers: it is (A B; B A) with halves A and B.
#[derive(Clone, Debug)]
pub struct Circulant {
    rows: [[u64; MIXED]; MIXED],
    #[cfg(target_arch = "x86_64")]
    parts: Parts,
}

/// The parts of the matrix that vector kernels use.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Debug)]
struct Parts {
    /// A + B.
    sums: [[u64; MIXED / 2]; MIXED / 2],
    /// A − B.
    signed: [[i64; MIXED / 2]; MIXED / 2],
    /// A − B, increased by `shift` so that nothing is negative.
    differences: [[u64; MIXED / 2]; MIXED / 2],
    shift: u64,
}

#[cfg(target_arch = "x86_64")]
impl Parts {
    fn new(rows: &[[u64; MIXED]; MIXED]) -> Parts {
        let half = MIXED / 2;
        // All rows are rotations of the first, so with its greatest entry added no difference is negative in any of
        // them.
        let shift = rows[0].iter().copied().max().unwrap_or_default();
        let part = |f: &dyn Fn(u64, u64) -> u64| {
            std::array::from_fn(|i| std::array::from_fn(|j| f(rows[i][j], rows[i][half + j])))
        };
        Parts {
            sums: part(&|a, b| a + b),
            signed: part(&|a, b| a + shift - b).map(|row| row.map(|x| x as i64 - shift as i64)),
            differences: part(&|a, b| a + shift - b),
            shift,
        }
    }
}

impl Circulant {
    /// The matrix with this first row; each further row is the previous one rotated right.
    ///
    /// # Panics
    /// If the sum of the row exceeds `SMALL_SUM_MAX`.
    pub(crate) fn new(row: &[u32; MIXED]) -> Circulant {
        let entry = |i: usize, j: usize| u64::from(row[(MIXED + j - i) % MIXED]);
        let sum: u64 = row.iter().map(|x| u64::from(*x)).sum();
        assert!(sum <= SMALL_SUM_MAX, "entries are small");
        let rows = std::array::from_fn(|i| std::array::from_fn(|j| entry(i, j)));
        Circulant {
            #[cfg(target_arch = "x86_64")]
            parts: Parts::new(&rows),
            rows,
        }
    }
}

/// Maximum number of terms in one [`Packed::dot`]: no accumulator overflows up to here.
// Enough for the longest row of constants, that of the partial rounds of width 24: 24 lanes and 23 cubes.
pub(crate) const DOT_MAX: usize = 48;

/// Maximum number of terms in one [`Packed::products`].
// A coefficient of a product in F is a sum of five.
pub(crate) const PRODUCTS_MAX: usize = 5;

/// Maximum sum of the integers in one row of [`Packed::dot_small`]: the result stays below 2^40.
pub(crate) const SMALL_SUM_MAX: u64 = 512;

/// A computation over vectors, independent of their instruction set.
pub trait Pass {
    /// The result.
    type Output;

    /// Runs it; must be `#[inline(always)]`, like everything it calls.
    fn run<V: Packed>(self) -> Self::Output;
}

/// The operations that this crate adds to a backend.
pub trait Dispatch: Copy {
    /// Runs a pass inside a function that is compiled for the instruction set of the backend.
    fn run<W: Pass>(self, pass: W) -> W::Output;

    /// Number of elements in a vector.
    fn lanes(self) -> usize {
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

    /// The backend for vectors of `len` elements: the portable one if they do not fill a vector.
    #[must_use]
    fn fitting(self, len: usize) -> Self;
}

impl Dispatch for Backend {
    #[inline]
    fn run<W: Pass>(self, pass: W) -> W::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(witness) => avx2::run(witness, pass),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Dq(witness) => avx512::run(witness, pass),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Ifma(witness) => avx512::run_ifma(witness, pass),
            _ => pass.run::<portable::Lanes>(),
        }
    }

    fn fitting(self, len: usize) -> Backend {
        // Passes go on by whole vectors and have no code for a remainder.
        match len > 0 && len.is_multiple_of(self.lanes()) {
            true => self,
            false => Backend::Portable,
        }
    }
}

#[cfg(test)]
mod tests;
