//! Eight numbers in an array: available on every host, and the oracle for the other levels.

use super::{
    ColumnSums, Pass, RowWeights, SIGN_GROUPS, SIGN_ROWS, SQUARE, SignPlanes, Signs, Square,
    Vector, Vectors,
};

/// The vectors of the portable level.
pub(super) struct Portable;

impl Vectors for Portable {
    #[inline(never)]
    fn call<P: Pass>(pass: P) -> P::Output {
        pass.run::<Self>()
    }

    type Wide = Row;
    type Row = Row;

    type SignWeights = SubsetSums;

    fn sign_weights(weights: &RowWeights) -> Box<SubsetSums> {
        subset_sums(weights)
    }

    #[inline(always)]
    fn weigh_signs(planes: &SignPlanes, weights: &SubsetSums, sums: &mut ColumnSums) {
        weigh_signs(planes, weights, sums);
    }

    #[inline(always)]
    fn unpack_signs(planes: &SignPlanes, out: &mut Signs) {
        unpack_signs(planes, out);
    }

    #[inline(always)]
    fn add_products<const N: usize>(
        sums: &mut [[i64; SQUARE]; N],
        factors: &[[[i32; SQUARE]; N]],
        x: &[Square],
    ) {
        for (factors, x) in factors.iter().zip(x) {
            for (sums, factors) in sums.iter_mut().zip(factors) {
                for (&factor, x) in factors.iter().zip(x) {
                    for (sum, &x) in sums.iter_mut().zip(x) {
                        *sum += i64::from(factor) * i64::from(x);
                    }
                }
            }
        }
    }
}

/// The four signs of a byte: the bits of its lower half minus those of its upper half.
const SIGNS: [[i16; SIGN_ROWS]; 256] = {
    let mut table = [[0; SIGN_ROWS]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut k = 0;
        while k < SIGN_ROWS {
            table[byte][k] = (byte >> k & 1) as i16 - (byte >> (k + 4) & 1) as i16;
            k += 1;
        }
        byte += 1;
    }
    table
};

/// The signs of one group of rows.
#[inline(always)]
fn signs(planes: &SignPlanes, group: usize) -> [[i16; 64]; SIGN_ROWS] {
    let mut signs = [[0; 64]; SIGN_ROWS];
    let plane = |k: usize| &planes[k][32 * group..32 * (group + 1)];
    for (pair, (&x, &y)) in plane(0).iter().zip(plane(1)).enumerate() {
        // A byte of a plane holds four rows of two columns; the shift drops the second column of `y`.
        let low = &SIGNS[usize::from(x & 15 | y << 4)];
        let high = &SIGNS[usize::from(x >> 4 | y & 0xf0)];
        for (k, row) in signs.iter_mut().enumerate() {
            row[2 * pair] = low[k];
            row[2 * pair + 1] = high[k];
        }
    }
    signs
}

/// See [`Vectors::unpack_signs`].
#[inline(always)]
pub(super) fn unpack_signs(planes: &SignPlanes, out: &mut Signs) {
    for (group, rows) in out.as_chunks_mut::<SIGN_ROWS>().0.iter_mut().enumerate() {
        *rows = signs(planes, group);
    }
}

/// One sum per lift, and a zero.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Lifted([i64; 4]);

impl Lifted {
    #[inline(always)]
    fn with(mut self, other: &Self, f: impl Fn(i64, i64) -> i64) -> Self {
        for (x, &y) in self.0.iter_mut().zip(&other.0) {
            *x = f(*x, y);
        }
        self
    }

    #[inline(always)]
    fn add(self, other: &Self) -> Self {
        self.with(other, |x, y| x + y)
    }

    #[inline(always)]
    fn sub(self, other: &Self) -> Self {
        self.with(other, |x, y| x - y)
    }
}

/// For each group of rows, the sums of the weights of all subsets of its four rows. The table has
/// 32 KiB, which stays in the cache.
pub(super) struct SubsetSums([[Lifted; 1 << SIGN_ROWS]; SIGN_GROUPS]);

/// See [`Vectors::sign_weights`].
pub(super) fn subset_sums(weights: &RowWeights) -> Box<SubsetSums> {
    let zero = Lifted([0; 4]);
    let mut out = Box::new(SubsetSums([[zero; 1 << SIGN_ROWS]; SIGN_GROUPS]));
    for (group, sums) in out.0.iter_mut().enumerate() {
        for subset in 1..sums.len() {
            // The sum of a subset is that of the subset without its lowest row, plus that row's weight.
            let row = SIGN_ROWS * group + subset.trailing_zeros() as usize;
            let mut sum = sums[subset & (subset - 1)];
            for (sum, weights) in sum.0.iter_mut().zip(weights) {
                *sum += weights[row] as i64;
            }
            sums[subset] = sum;
        }
    }
    out
}

/// See [`Vectors::weigh_signs`]. In each plane, a column of four rows selects a subset of them; its signs
/// are the first minus the second. No sum of 256 weights below `2^48` exceeds `2^56`.
#[inline(always)]
pub(super) fn weigh_signs(planes: &SignPlanes, weights: &SubsetSums, sums: &mut ColumnSums) {
    let mut columns = [Lifted([0; 4]); 64];
    for (pair, columns) in columns.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        // Two columns at a time, since a byte of a plane has the four rows of two.
        let [mut even, mut odd] = *columns;
        for (group, subsets) in weights.0.iter().enumerate() {
            let byte = |plane: usize| usize::from(planes[plane][32 * group + pair]);
            let (plus, minus) = (byte(0), byte(1));
            even = even.add(&subsets[plus & 15]).sub(&subsets[minus & 15]);
            odd = odd.add(&subsets[plus >> 4]).sub(&subsets[minus >> 4]);
        }
        *columns = [even, odd];
    }
    for (lift, sums) in sums.iter_mut().enumerate() {
        for (sum, column) in sums.iter_mut().zip(&columns) {
            *sum = column.0[lift];
        }
    }
}

/// One number for each of eight primes.
#[derive(Clone, Copy)]
pub(super) struct Row([i16; 8]);

impl Row {
    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(i16, i16) -> i16) -> Self {
        let mut out = self.0;
        for (x, y) in out.iter_mut().zip(other.0) {
            *x = f(*x, y);
        }
        Row(out)
    }
}

impl Vector for Row {
    type Sums = [i32; 8];

    const LANES: usize = 8;

    #[inline(always)]
    fn load(values: &[i16]) -> Self {
        let mut out = [0; 8];
        out.copy_from_slice(&values[..8]);
        Row(out)
    }

    #[inline(always)]
    fn store(self, values: &mut [i16]) {
        values[..8].copy_from_slice(&self.0);
    }

    #[inline(always)]
    fn repeat(row: &[i16; 8]) -> Self {
        Row(*row)
    }

    #[inline(always)]
    fn spread(values: &[i16]) -> Self {
        Row([values[0]; 8])
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(other, i16::wrapping_add)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.with(other, i16::wrapping_sub)
    }

    #[inline(always)]
    fn mul_low(self, other: Self) -> Self {
        self.with(other, i16::wrapping_mul)
    }

    #[inline(always)]
    fn mul_high(self, other: Self) -> Self {
        self.with(other, |x, y| {
            (i32::from(x).wrapping_mul(i32::from(y)) >> 16) as i16
        })
    }

    #[inline(always)]
    fn shift_right_11(self) -> Self {
        Row(self.0.map(|x| x >> 11))
    }

    #[inline(always)]
    fn interleave(self, other: Self) -> (Self, Self) {
        let (a, b) = (self.0, other.0);
        (
            Row([a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]]),
            Row([a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7]]),
        )
    }

    /// No power of two is below the one row of a vector.
    #[inline(always)]
    fn exchange(self, other: Self, _: usize) -> (Self, Self) {
        (self, other)
    }

    #[inline(always)]
    fn no_sums() -> [i32; 8] {
        [0; 8]
    }

    #[inline(always)]
    fn accumulate(mut sums: [i32; 8], a: (Self, Self), b: (Self, Self)) -> [i32; 8] {
        for (k, (x, y)) in [(a.0.0, b.0.0), (a.1.0, b.1.0)].into_iter().enumerate() {
            for i in 0..4 {
                let product = |j: usize| i32::from(x[j]).wrapping_mul(i32::from(y[j]));
                let both = product(2 * i).wrapping_add(product(2 * i + 1));
                sums[4 * k + i] = sums[4 * k + i].wrapping_add(both);
            }
        }
        sums
    }

    #[inline(always)]
    fn halves(sums: [i32; 8]) -> (Self, Self) {
        (
            Row(sums.map(|x| x as i16)),
            Row(sums.map(|x| (x >> 16) as i16)),
        )
    }

    #[inline(always)]
    fn store_sums(sums: [i32; 8], out: &mut [i32]) {
        out[..8].copy_from_slice(&sums);
    }
}
