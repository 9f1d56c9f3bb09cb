//! Vectors of 16-bit numbers for each instruction set.
//!
//! A computation is written once, over [`Vectors`], as a [`Pass`]. [`Dispatch::run`] enters a
//! function that is compiled for an instruction set and runs the whole pass inside it, so everything that a
//! pass calls is `#[inline(always)]`. The values are the same on every level.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use std::time::{Duration, Instant};

use alphorn_exec::{Backend, InstructionSet, Kernels};

use crate::ring::{Rq, Transforms};
use crate::transcript::Seed;

/// A vector of [`Vector::LANES`] 16-bit numbers. Every operation acts lane by lane and wraps.
pub trait Vector: Copy {
    /// One 32-bit sum per number, half of them for each of two vectors.
    type Sums: Copy;

    /// Number of lanes: a multiple of eight.
    const LANES: usize;

    /// Loads the first [`Vector::LANES`] numbers of a slice, which must be at least that long.
    fn load(values: &[i16]) -> Self;

    /// Stores to the first [`Vector::LANES`] numbers of a slice, which must be at least that long.
    fn store(self, values: &mut [i16]);

    /// Repeats the eight numbers of a row across the vector.
    fn repeat(row: &[i16; 8]) -> Self;

    /// Repeats each of the first `LANES / 8` numbers of a slice eight times.
    fn spread(values: &[i16]) -> Self;

    /// Returns self + other.
    fn add(self, other: Self) -> Self;

    /// Returns self - other.
    fn sub(self, other: Self) -> Self;

    /// Returns the lower 16 bits of self times other.
    fn mul_low(self, other: Self) -> Self;

    /// Returns the upper 16 bits of the signed product.
    fn mul_high(self, other: Self) -> Self;

    /// Returns self / 2^11, rounded down.
    fn shift_right_11(self) -> Self;

    /// In each group of eight numbers, interleaves the lower four of both vectors, and the upper four: the
    /// first numbers of `self` and `other` become neighbours, and so on.
    fn interleave(self, other: Self) -> (Self, Self);

    /// Treats the vectors as rows of eight numbers, in blocks of `length` rows, a power of two below the number of
    /// rows in a vector. Returns the even blocks of `self` and `other` in turn, and the odd ones. Turns `(0 1 2 3)`
    /// and `(4 5 6 7)` into `(0 4 2 6)` and `(1 5 3 7)` for blocks of one, and into `(0 1 4 5)` and `(2 3 6 7)` for
    /// blocks of two. Its own inverse.
    fn exchange(self, other: Self, length: usize) -> (Self, Self);

    /// Returns sums that are zero.
    fn no_sums() -> Self::Sums;

    /// Returns the sums plus the products of neighbours: after [`Vector::interleave`] on both sides, the
    /// lane-wise sum of two products.
    fn accumulate(sums: Self::Sums, a: (Self, Self), b: (Self, Self)) -> Self::Sums;

    /// Returns the lower and the upper 16 bits of all sums, in the order before [`Vector::interleave`].
    fn halves(sums: Self::Sums) -> (Self, Self);

    /// Writes all sums, starting with those of the first vectors of [`Vector::accumulate`].
    fn store_sums(sums: Self::Sums, out: &mut [i32]);

    /// Returns, for each of four, the total of all its sums, any two of which together must fit 32 bits.
    #[inline(always)]
    fn totals(sums: [Self::Sums; 4]) -> [i64; 4] {
        let mut totals = [0; 4];
        for (total, sums) in totals.iter_mut().zip(sums) {
            let mut numbers = [0; 32];
            Self::store_sums(sums, &mut numbers);
            for number in numbers {
                *total += i64::from(number);
            }
        }
        totals
    }
}

/// Number of rows of signs that share a word of weights.
pub(crate) const SIGN_ROWS: usize = 4;

/// Number of groups of rows of a projection matrix.
pub(crate) const SIGN_GROUPS: usize = 64;

/// Number of lifts that weigh the same signs.
pub(crate) const SIGN_LIFTS: usize = 3;

/// The signs of 256 rows by 64 columns, as two bit planes: a sign is the difference of the bits
/// `256 (row / 4) + 4 column + row mod 4` of the two planes.
pub(crate) type SignPlanes = [[u8; 2048]; 2];

/// For each lift, the weight of each row, a residue modulo `Q`.
pub(crate) type RowWeights = [[u64; SIGN_ROWS * SIGN_GROUPS]; SIGN_LIFTS];

/// For each lift, the sum of each column.
pub(crate) type ColumnSums = [[i64; 64]; SIGN_LIFTS];

/// The signs of 256 rows by 64 columns as numbers.
pub(crate) type Signs = [[i16; 64]; SIGN_ROWS * SIGN_GROUPS];

/// The vectors of one level.
pub trait Vectors {
    /// Runs a pass of this level as a function of its own, where inlining would repeat long code.
    fn call<P: Pass>(pass: P) -> P::Output;

    /// Prefetches numbers that are read soon, on levels that can. Affects only the timing.
    #[inline(always)]
    fn prefetch(_numbers: &[i16]) {}

    /// Weights of rows in the form that [`Vectors::weigh_signs`] reads repeatedly.
    type SignWeights: Send + Sync + 'static;

    /// Converts weights to that form.
    fn sign_weights(weights: &RowWeights) -> Box<Self::SignWeights>;

    /// Computes `sums[lift][column] = sum_row sign[row][column] weight[lift][row]` modulo `Q`, below `2^57`.
    fn weigh_signs(planes: &SignPlanes, weights: &Self::SignWeights, sums: &mut ColumnSums);

    /// Unpacks `signs[row][column]`.
    fn unpack_signs(planes: &SignPlanes, signs: &mut Signs);

    /// Adds products of squares: `sums[n][b] += sum_r sum_k factors[r][n][k] x[r][k][b]`, which must not
    /// overflow. `factors` and `x` have the same length.
    fn add_products<const N: usize>(
        sums: &mut [[i64; SQUARE]; N],
        factors: &[[[i32; SQUARE]; N]],
        x: &[Square],
    );

    /// The widest vector.
    type Wide: Vector;
    /// A vector of eight numbers.
    type Row: Vector;
}

/// Rows and columns of a [`Square`].
pub const SQUARE: usize = 8;

/// A square of numbers that is transposed or multiplied at once, row by row.
pub type Square = [[i16; SQUARE]; SQUARE];

/// Transposes a square of numbers by interleaving the first and the second half of the rows three times.
/// Each time the bits of a number's index, row then column, rotate left by one.
#[inline(always)]
pub fn transpose<V: Vectors>(square: &mut Square) {
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

/// A computation over vectors of any instruction set.
pub trait Pass {
    /// Type of the result.
    type Output;

    /// Runs the pass. Must be `#[inline(always)]`, as must everything it calls.
    fn run<V: Vectors>(self) -> Self::Output;
}

/// The times per ring element of the two ways in which an AVX-512 kernel can sum the signs of a projection under
/// weights. The sums are equal modulo the modulus.
#[derive(Clone, Copy, Debug)]
pub struct SignTimes {
    /// By sums of the subsets of six rows, selected by permutations.
    pub subsets: Duration,
    /// By products of bytes.
    pub bytes: Duration,
}

impl SignTimes {
    /// Whether subsets are used: they must be faster by a twentieth.
    #[must_use]
    pub fn subsets_win(&self) -> bool {
        self.subsets.mul_f64(1.05) < self.bytes
    }
}

/// Returns both times on this processor, measured once per process. None for a kernel that has only one way.
#[must_use]
pub fn sign_times(backend: Backend) -> Option<SignTimes> {
    match backend {
        #[cfg(target_arch = "x86_64")]
        Backend::Avx512Vnni(witness) => Some(avx512::sign_times(witness)),
        _ => None,
    }
}

/// The kernels of this crate.
pub const KERNELS: Kernels = Kernels {
    of: "labrador",
    sets: &[InstructionSet::Avx2, InstructionSet::Avx512Vnni],
    work: "a transform there and back",
    measure,
};

/// Measures a transform and its inverse: the least time of several runs of 64.
fn measure(backend: Backend) -> Duration {
    let mut stream = Seed::of_name("alphorn/labrador/measure").stream();
    let elements: Vec<Rq> = (0..64).map(|_| stream.element()).collect();
    let once = || {
        let start = Instant::now();
        std::hint::black_box(backend.elements(&backend.transforms(&elements)));
        start.elapsed()
    };
    // Whatever disturbs a run only makes it longer.
    let least = (0..8).map(|_| once()).min();
    least.map_or(Duration::MAX, |time| time / 64)
}

/// What a backend does in this crate.
pub trait Dispatch: Copy {
    /// Runs a pass inside a function compiled for the instruction set of the backend.
    fn run<P: Pass>(self, pass: P) -> P::Output;
}

impl Dispatch for Backend {
    #[inline]
    fn run<P: Pass>(self, pass: P) -> P::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(witness) => avx2::run(witness, pass),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Vnni(witness) => avx512::run(witness, pass),
            _ => pass.run::<portable::Portable>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Products<'a, const N: usize>(&'a [[[i32; SQUARE]; N]], &'a [Square]);

    impl<const N: usize> Pass for Products<'_, N> {
        type Output = [[i64; SQUARE]; N];

        #[inline(always)]
        fn run<V: Vectors>(self) -> Self::Output {
            let mut sums = [[7; SQUARE]; N];
            V::add_products(&mut sums, self.0, self.1);
            sums
        }
    }

    fn check<const N: usize>(count: usize) {
        let mut stream = Seed::of_name("products").stream();
        let mut word = || (stream.residue() << 16 | stream.residue() & 0xffff) as i64;
        let x: Vec<Square> = (0..count)
            .map(|_| std::array::from_fn(|_| std::array::from_fn(|_| word() as i16)))
            .collect();
        let mut factors: Vec<[[i32; SQUARE]; N]> = (0..count)
            .map(|_| std::array::from_fn(|_| std::array::from_fn(|_| word() as i32)))
            .collect();
        for (factor, end) in factors.iter_mut().zip([i32::MIN, i32::MAX]) {
            factor[0] = [end; SQUARE];
        }
        let expected: [[i64; SQUARE]; N] = std::array::from_fn(|n| {
            std::array::from_fn(|b| {
                let squares = factors.iter().zip(&x);
                let terms = squares.flat_map(|(factor, x)| factor[n].iter().zip(x));
                7 + terms
                    .map(|(&f, x)| i64::from(f) * i64::from(x[b]))
                    .sum::<i64>()
            })
        });
        for backend in KERNELS.available() {
            let sums = backend.run(Products(&factors, &x));
            assert_eq!(sums, expected, "{backend}: {count} squares");
        }
    }

    #[test]
    fn products_of_squares_are_those_by_definition_on_every_kernel() {
        for count in [0, 1, 2, 17] {
            check::<1>(count);
            check::<6>(count);
            check::<8>(count);
        }
    }
}
