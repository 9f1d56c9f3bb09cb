//! Tables of multiples for sums of many points, and the signed digits that index them.
//!
//! A scalar below 2^253 is written as Σ d_i · 2^(bits·i) with digits -2^(bits-1) <= d_i < 2^(bits-1) (the last digit is
//! not negative). Windows are numbered i = 8·group + lane, so that the eight lanes of a group are eight windows *of the
//! same scalar*: all their rows are in one small table, and a short scalar has few groups to add.

use crate::field::Fe;
use crate::point::{Niels, Point};
use crate::row::{LANES, Row};
use crate::scalar::Scalar;

/// Window widths of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// 8 rows per point: for the few points of one broadcast.
    Bits4,
    /// 32 rows per point: for more than 2,048 generators.
    Bits6,
    /// 128 rows per point: 16 KiB, which stay in the first-level cache.
    Bits8,
}

impl Window {
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Window::Bits4 => 4,
            Window::Bits6 => 6,
            Window::Bits8 => 8,
        }
    }

    /// Number of groups of eight windows.
    pub(crate) const fn groups(self) -> usize {
        match self {
            Window::Bits4 => 8,
            Window::Bits6 => 6,
            Window::Bits8 => 4,
        }
    }

    pub(crate) const fn rows_per_point(self) -> usize {
        1 << (self.bits() - 1)
    }

    /// The highest window needed for a scalar below 2^253.
    const fn top(self) -> u32 {
        252 / self.bits()
    }

    /// 2^shift is the weight of a lane of a group; `None` if no scalar extends that far.
    pub(crate) fn shift(self, group: usize, lane: usize) -> Option<u32> {
        let window = (LANES * group + lane) as u32;
        (window <= self.top()).then_some(window * self.bits())
    }

    /// Σ 2^(bits-1) · 2^(bits·i) over the windows below the top: adding it makes digits unsigned.
    fn offset(self) -> [u64; 4] {
        let mut offset = [0_u64; 4];
        // None for the top: scalar plus offset is below 1.5·2^253, so the top field is below 2^(bits-1), a digit as
        // it is.
        for i in 0..self.top() {
            let bit = self.bits() * i + self.bits() - 1;
            offset[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        offset
    }
}

/// One affine point as loaded by the kernels, in two cache lines: (y+x)/2 and the lower three limbs of dxy, (y-x)/2 and
/// the upper two. A kernel that adds the negative swaps the lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub(crate) struct TableRow(pub(crate) [[u64; 8]; 2]);

impl TableRow {
    fn new(niels: &Niels) -> TableRow {
        let ([p0, p1, p2, p3, p4], [m0, m1, m2, m3, m4]) = (niels.plus.0, niels.minus.0);
        let [t0, t1, t2, t3, t4] = niels.dxy.0;
        TableRow([
            [p0, p1, p2, p3, p4, t0, t1, t2],
            [m0, m1, m2, m3, m4, t3, t4, 0],
        ])
    }

    #[inline(always)]
    pub(crate) fn niels(&self) -> Niels {
        let [
            [p0, p1, p2, p3, p4, t0, t1, t2],
            [m0, m1, m2, m3, m4, t3, t4, _],
        ] = self.0;
        Niels {
            plus: Fe([p0, p1, p2, p3, p4]),
            minus: Fe([m0, m1, m2, m3, m4]),
            dxy: Fe([t0, t1, t2, t3, t4]),
        }
    }

    /// The lines of the row, or of its negative except for the sign of dxy.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn lines(&self, negative: bool) -> [&[u64; 8]; 2] {
        let [first, second] = &self.0;
        if negative {
            [second, first]
        } else {
            [first, second]
        }
    }
}

/// For each of its points P the rows P, 2P, ..., 2^(bits-1)·P; the very last row is the identity.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) window: Window,
    pub(crate) rows: Vec<TableRow>,
    points: usize,
}

impl Table {
    pub(crate) fn new(window: Window, points: &[Point]) -> Table {
        /// Number of points normalised together; bounds the scratch memory of one inversion.
        const BATCH: usize = 16;
        let mut rows = Vec::with_capacity(points.len() * window.rows_per_point() + 1);
        for batch in points.chunks(BATCH) {
            let mut multiples = Vec::with_capacity(batch.len() * window.rows_per_point());
            // The points themselves are normalised first, so that each further multiple is a mixed addition.
            for (point, step) in batch.iter().zip(Point::to_niels_batch(batch)) {
                let mut multiple = *point;
                multiples.push(multiple);
                for _ in 1..window.rows_per_point() {
                    multiple = multiple.add_niels(&step);
                    multiples.push(multiple);
                }
            }
            rows.extend(Point::to_niels_batch(&multiples).iter().map(TableRow::new));
        }
        rows.push(TableRow::new(&Niels::IDENTITY));
        Table {
            window,
            rows,
            points: points.len(),
        }
    }

    /// The row selected by digit 0.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn identity(&self) -> &TableRow {
        self.rows
            .last()
            .expect("every table ends with the identity")
    }

    /// Number of points.
    pub(crate) fn len(&self) -> usize {
        self.points
    }
}

/// The digits of a vector of scalars for one window width: `digits[scalar · groups + group][lane]`.
#[derive(Clone, Debug)]
pub(crate) struct Digits {
    pub(crate) window: Window,
    pub(crate) digits: Vec<[i8; LANES]>,
}

impl Digits {
    pub(crate) fn new(window: Window, row: &Row) -> Digits {
        // Each is a constant after inlining; otherwise every digit costs divisions.
        let digits = match window {
            Window::Bits4 => nibbles_all(row),
            Window::Bits6 => recode_all(Window::Bits6, row),
            Window::Bits8 => bytes_all(row),
        };
        Digits { window, digits }
    }

    /// Number of scalars.
    pub(crate) fn len(&self) -> usize {
        self.digits.len() / self.window.groups()
    }
}

#[inline(always)]
fn recode_all(window: Window, row: &Row) -> Vec<[i8; LANES]> {
    let offset = window.offset();
    let mut digits = vec![[0; LANES]; row.len() * window.groups()];
    for (scalar, out) in row.iter().zip(digits.chunks_exact_mut(window.groups())) {
        recode(window, &offset, scalar, out);
    }
    digits
}

/// Like [`recode_all`] for windows of 4 bits: a digit is half a byte of scalar plus offset, minus 8.
#[inline(always)]
fn nibbles_all(row: &Row) -> Vec<[i8; LANES]> {
    const GROUPS: usize = Window::Bits4.groups();
    let offset = Window::Bits4.offset();
    let mut digits = vec![[0; LANES]; row.len() * GROUPS];
    for (scalar, out) in row.iter().zip(digits.as_chunks_mut::<GROUPS>().0) {
        let bytes = unsigned(&offset, scalar).map(u64::to_le_bytes);
        let pairs = out.as_flattened_mut().as_chunks_mut::<2>().0;
        for (byte, pair) in bytes.as_flattened().iter().zip(pairs) {
            *pair = [byte & 15, byte >> 4].map(|nibble| nibble as i8 - 8);
        }
        // The top digit has no offset.
        out[GROUPS - 1][LANES - 1] += 8;
    }
    digits
}

/// Like [`recode_all`] for windows of 8 bits: a digit is a byte of scalar plus offset, minus 128.
#[inline(always)]
fn bytes_all(row: &Row) -> Vec<[i8; LANES]> {
    const GROUPS: usize = Window::Bits8.groups();
    let offset = Window::Bits8.offset();
    let mut digits = vec![[0; LANES]; row.len() * GROUPS];
    let blocks = digits.as_chunks_mut::<GROUPS>().0.chunks_mut(LANES);
    for (block, out) in row.blocks.iter().zip(blocks) {
        for (lane, out) in out.iter_mut().enumerate() {
            let mut words = unsigned(&offset, Scalar(block.get(lane)));
            for (word, offset) in words.iter_mut().zip(offset) {
                // Subtracting 128 flips the highest bit; the top digit has no offset.
                *word ^= offset;
            }
            *out = words.map(|word| word.to_le_bytes().map(|byte| byte as i8));
        }
    }
    digits
}

/// The sum of a scalar and the offset.
#[inline(always)]
fn unsigned(offset: &[u64; 4], scalar: Scalar) -> [u64; 4] {
    let mut words = [0; 4];
    let mut carry = 0_u128;
    for i in 0..4 {
        // The scalar and the offset are below 2^253 and 2^252, so nothing carries out of the fourth word.
        carry += u128::from(scalar.0[i]) + u128::from(offset[i]);
        words[i] = carry as u64;
        carry >>= 64;
    }
    words
}

#[inline(always)]
fn recode(window: Window, offset: &[u64; 4], scalar: Scalar, out: &mut [[i8; LANES]]) {
    let [a, b, c, d] = unsigned(offset, scalar);
    // A fifth word, because the top field also reads the one above its own.
    let words = [a, b, c, d, 0];
    let bits = window.bits();
    let half = 1_i64 << (bits - 1);
    for i in 0..=window.top() {
        let (word, low) = ((i * bits / 64) as usize, i * bits % 64);
        let pair = u128::from(words[word]) | (u128::from(words[word + 1]) << 64);
        let field = ((pair >> low) as i64) & (2 * half - 1);
        let digit = if i == window.top() {
            field
        } else {
            field - half
        };
        out[i as usize / LANES][i as usize % LANES] = digit as i8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn digits_represent_the_scalar_within_their_bounds() {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let mut scalars: Vec<Scalar> = (0..200).map(|_| Scalar::random(&mut rng)).collect();
        scalars.extend([
            Scalar::ZERO,
            Scalar::ONE,
            -Scalar::ONE,
            Scalar::from(128_u64),
        ]);
        for window in [Window::Bits4, Window::Bits6, Window::Bits8] {
            let digits = Digits::new(window, &Row::from_scalars(&scalars));
            let two = Scalar::from(2_u64);
            let mut powers = vec![Scalar::ONE];
            for i in 0..253 {
                powers.push(powers[i] * two);
            }
            for (scalar, rows) in scalars.iter().zip(digits.digits.chunks(window.groups())) {
                let mut sum = Scalar::ZERO;
                for (group, lanes) in rows.iter().enumerate() {
                    for (lane, &digit) in lanes.iter().enumerate() {
                        let magnitude = u64::from(digit.unsigned_abs());
                        assert!(magnitude as usize <= window.rows_per_point());
                        let Some(shift) = window.shift(group, lane) else {
                            assert_eq!(digit, 0);
                            continue;
                        };
                        let term = Scalar::from(magnitude) * powers[shift as usize];
                        sum = if digit < 0 { sum - term } else { sum + term };
                    }
                }
                assert_eq!(sum, *scalar, "{window:?}");
            }
        }
    }
}
