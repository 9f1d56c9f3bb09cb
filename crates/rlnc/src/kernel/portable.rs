//! The oracle: both kernels in plain Rust with 64-bit limbs.

use crate::kernel::table::{Digits, Table, TableRow};
use crate::point::Point;
use crate::row::{LANES, Row};
use crate::scalar::{Scalar, montgomery_reduce, multiply_add};

/// See [`super::Dispatch::sums`]. Without inlining it is slower by a fourteenth.
#[inline(always)]
pub(crate) fn accumulate(table: &Table, vectors: &[Digits], sums: &mut [Vec<Point>]) {
    let groups = table.window.groups();
    let rows_per_point = table.window.rows_per_point();
    let scalars = vectors.iter().map(Digits::len).max().unwrap_or(0);
    let mut touched = 0;
    for j in 0..scalars {
        let (rows, later) = table.rows[j * rows_per_point..].split_at(rows_per_point);
        for (vector, sums) in vectors.iter().zip(&mut *sums) {
            if j >= vector.len() {
                continue;
            }
            if let Some(later_digits) = vector.digits.get((j + 1) * groups..(j + 2) * groups) {
                touched ^= touch(later, later_digits.as_flattened());
            }
            let digits = vector.digits[j * groups..(j + 1) * groups].as_flattened();
            for (&digit, sum) in digits.iter().zip(sums) {
                // Row k - 1 holds k·P, and a zero digit adds nothing.
                if digit > 0 {
                    *sum = sum.add_niels(&rows[digit as usize - 1].niels());
                } else if digit < 0 {
                    let row = &rows[usize::from(digit.unsigned_abs()) - 1];
                    *sum = sum.add_niels(&row.niels().neg());
                }
            }
        }
    }
    // Nothing uses these values: without this, the compiler would drop the reads.
    std::hint::black_box(touched);
}

/// Reads a word from each cache line of the rows that digits will select. These reads wait for memory in parallel,
/// while a row first read by its addition would stall that addition.
#[inline(always)]
fn touch(rows: &[TableRow], digits: &[i8]) -> u64 {
    digits.iter().fold(0, |touched, digit| {
        let lines = &rows[usize::from(digit.unsigned_abs()).saturating_sub(1)].0;
        touched ^ lines[0][0] ^ lines[1][0]
    })
}

/// See [`super::Backend::combine_into`].
pub(crate) fn combine(factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
    // The reduction divides by 2^256.
    let raised: Vec<Vec<Scalar>> = factors
        .iter()
        .map(|f| f.iter().map(|x| x.times_2_256()).collect())
        .collect();
    let mut elements = vec![[[0_u64; 4]; LANES]; rows.len()];
    let blocks = out.first().map_or(0, |row| row.blocks.len());
    for block in 0..blocks {
        // Unpacked once per block, for all results.
        for (lanes, row) in elements.iter_mut().zip(rows) {
            for (lane, element) in lanes.iter_mut().enumerate() {
                *element = row.blocks[block].get(lane);
            }
        }
        for (factors, row) in raised.iter().zip(&mut *out) {
            for lane in 0..LANES {
                let mut wide = [0; 8];
                for (factor, lanes) in factors.iter().zip(&elements) {
                    multiply_add(&mut wide, &factor.0, &lanes[lane]);
                }
                row.blocks[block].set(lane, montgomery_reduce(wide).0);
            }
        }
    }
}
