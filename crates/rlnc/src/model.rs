//! Spans modulo 65521, the largest prime below 2^16: rows without data, for simulations.

#[cfg(target_arch = "x86_64")]
mod avx2;

#[cfg(target_arch = "x86_64")]
use alphorn_exec::Avx2;
use std::slice::ChunksExact;

/// The modulus, 2^16 - 15.
pub(crate) const MODULUS: u32 = 65_521;

/// value modulo 65521, using 2^16 = 15 modulo 65521.
#[inline(always)]
fn reduce(value: u32) -> u32 {
    // At most 15·65535 + 65535 < 2^20, then at most 15·15 + 65535 < 2·65521.
    let once = (value >> 16) * 15 + (value & 0xffff);
    let twice = (once >> 16) * 15 + (once & 0xffff);
    if twice >= MODULUS {
        twice - MODULUS
    } else {
        twice
    }
}

fn inverse(value: u32) -> u32 {
    // Fermat: value^(65521 - 2).
    let (mut power, mut result) = (value, 1);
    let mut exponent = MODULUS - 2;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = reduce(result * power);
        }
        power = reduce(power * power);
        exponent >>= 1;
    }
    result
}

/// Maximum number of dimensions of a span.
pub(crate) const WIDTH_MAX: usize = 64;
/// Rows of a span start and end at multiples of this many elements, so that vectors hold complete ones.
const LANES: usize = 16;

/// Unreduced sums of products, with lower and upper halves stored separately. This takes two multiplications of words;
/// every x86-64 does eight of those at once, and most do sixteen.
#[derive(Clone, Copy)]
struct Sums {
    low: [u32; WIDTH_MAX],
    high: [u32; WIDTH_MAX],
}

impl Sums {
    const ZERO: Sums = Sums {
        low: [0; WIDTH_MAX],
        high: [0; WIDTH_MAX],
    };

    /// Adds `factor · row` after the first `from` elements; 64 times at most.
    #[inline(always)]
    fn add(&mut self, from: usize, factor: u16, row: &[u16]) {
        let sums = self.low[from..].iter_mut().zip(&mut self.high[from..]);
        for ((low, high), &element) in sums.zip(row) {
            *low += u32::from(factor.wrapping_mul(element));
            *high += (u32::from(factor) * u32::from(element)) >> 16;
        }
    }

    /// An unreduced element: at most 15·64·65535 + 65·65535 < 2^26.
    #[inline(always)]
    fn element(&self, i: usize) -> u32 {
        self.low[i] + 15 * self.high[i]
    }
}

/// Σ factors[i] · rows[i], for at most 64 rows of at most 64 elements.
pub(crate) fn combine(factors: &[u16], rows: ChunksExact<'_, u16>) -> [u16; WIDTH_MAX] {
    #[cfg(target_arch = "x86_64")]
    if let Some(witness) = Avx2::detect() {
        return avx2::combine(witness, factors, rows);
    }
    combine_here(factors, rows)
}

#[inline(always)]
fn combine_here(factors: &[u16], rows: ChunksExact<'_, u16>) -> [u16; WIDTH_MAX] {
    let mut sums = Sums::ZERO;
    for (&factor, row) in factors.iter().zip(rows) {
        sums.add(0, factor, row);
    }
    std::array::from_fn(|i| reduce(sums.element(i)) as u16)
}

/// A span in row echelon form, in one flat block, so that copying it is one memory move.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    width: usize,
    /// Row p, if present, has its first nonzero element, 1, at p. Each row is followed by zeros.
    rows: Vec<u16>,
    row_len: usize,
    present: u64,
}

impl Span {
    /// Creates the zero space in up to 64 dimensions.
    pub(crate) fn new(width: usize) -> Span {
        assert!(width <= WIDTH_MAX, "{width} dimensions, limit 64");
        let row_len = width.next_multiple_of(LANES);
        Span {
            width,
            rows: vec![0; width * row_len],
            row_len,
            present: 0,
        }
    }

    /// Maximum number of its dimensions.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The pivots of its rows, one bit each. A row is reduced only by those before it, so the pivots at any time are
    /// those of a separate span from then on.
    pub(crate) fn pivots(&self) -> u64 {
        self.present
    }

    /// Reverts this to the span of the rows with these pivots, an earlier state.
    pub(crate) fn go_back(&mut self, pivots: u64) {
        self.present &= pivots;
    }

    /// Whether the row is outside the span of the rows with these pivots, that is, an earlier state of this span.
    pub(crate) fn was_innovative(&self, pivots: u64, row: &[u16]) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(witness) = Avx2::detect() {
            return avx2::was_innovative(witness, self, pivots, row);
        }
        self.reduced(pivots, row).is_some()
    }

    /// Adds the row if it is outside the span. Returns whether it was.
    pub(crate) fn insert(&mut self, row: &[u16]) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(witness) = Avx2::detect() {
            return avx2::insert(witness, self, row);
        }
        self.insert_here(row)
    }

    #[inline(always)]
    fn insert_here(&mut self, row: &[u16]) -> bool {
        let Some((pivot, element, left)) = self.reduced(self.present, row) else {
            return false;
        };
        let factor = inverse(element);
        let own = &mut self.rows[pivot * self.row_len..][..self.row_len];
        for (i, slot) in own.iter_mut().enumerate() {
            *slot = reduce(reduce(left.element(i)) * factor) as u16;
        }
        self.present |= 1 << pivot;
        true
    }

    /// The remainder of the row after reduction by the rows with these pivots, with its first position and element;
    /// `None` if nothing is left.
    #[inline(always)]
    fn reduced(&self, pivots: u64, row: &[u16]) -> Option<(usize, u32, Sums)> {
        let mut left = Sums::ZERO;
        for (slot, &element) in left.low.iter_mut().zip(row) {
            *slot = u32::from(element);
        }
        let mut element = left.low[0];
        for column in 0..self.width {
            // The next element is computed separately from the sums, whose latency is longer; after the last there is
            // none.
            let next = (column + 1) % WIDTH_MAX;
            let mut sum = left.element(next);
            if element != 0 {
                if pivots >> column & 1 == 0 {
                    return Some((column, element, left));
                }
                // A row starts at its pivot, with zeros before it.
                let own = &self.rows[column * self.row_len..][..self.row_len];
                let factor = MODULUS - element;
                let product = factor * own.get(next).map_or(0, |&own| u32::from(own));
                sum += (product >> 16) * 15 + (product & 0xffff);
                let from = column & !(LANES - 1);
                left.add(from, factor as u16, &own[from..]);
            }
            element = reduce(sum);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_that_of_the_integers_modulo_the_prime() {
        for value in (0..u32::MAX - 104_729)
            .step_by(104_729)
            .chain([u32::MAX, MODULUS])
        {
            assert_eq!(reduce(value), value % MODULUS);
        }
        for value in (1..MODULUS).step_by(97) {
            assert_eq!(reduce(value * inverse(value)), 1);
        }
        let combined = |factors: &[u16], rows: &[u16]| {
            let rows = rows.chunks_exact(rows.len() / factors.len());
            let combined = combine(factors, rows.clone());
            assert_eq!(combine_here(factors, rows), combined);
            combined
        };
        let sum = combined(&[65_520, 3], &[1, 65_520, 2, 65_520]);
        assert_eq!(sum[..3], [5, 65_519, 0]);
        // The largest possible sums.
        let most = [65_520_u16; WIDTH_MAX * WIDTH_MAX];
        assert_eq!(combined(&[65_520; WIDTH_MAX], &most), [64; WIDTH_MAX]);
    }

    #[test]
    fn rows_of_every_width_are_those_of_plain_elimination() {
        let mut random = 1_u64;
        let mut draw = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
            // Zeros and the largest element are as likely as all others together.
            match random >> 62 {
                0 => 0,
                1 => 65_520,
                _ => (random >> 40) as u32 % MODULUS,
            }
        };
        for width in [1, 2, 15, 16, 17, 33, 48, 63, 64] {
            let (mut span, mut here) = (Span::new(width), Span::new(width));
            let mut rows: Vec<Option<Vec<u32>>> = vec![None; width];
            for _ in 0..2 * width {
                let mut left: Vec<u32> = (0..width).map(|_| draw()).collect();
                let row: Vec<u16> = left.iter().map(|&element| element as u16).collect();
                let mut is_new = false;
                for column in 0..width {
                    if let Some(own) = &rows[column] {
                        let factor = MODULUS - left[column];
                        for (left, &own) in left.iter_mut().zip(own) {
                            *left = (*left + reduce(reduce(factor) * own)) % MODULUS;
                        }
                    } else if left[column] != 0 {
                        let factor = inverse(left[column]);
                        let scaled = left.iter().map(|&element| reduce(element * factor));
                        rows[column] = Some(scaled.collect());
                        is_new = true;
                        break;
                    }
                }
                assert_eq!(span.was_innovative(span.pivots(), &row), is_new);
                assert_eq!(span.insert(&row), is_new, "{width}");
                assert_eq!(here.insert_here(&row), is_new, "{width}");
            }
            assert_eq!(span.rows, here.rows);
            for (own, row) in span.rows.chunks(span.row_len).zip(rows) {
                let row = row.unwrap_or_default();
                assert!(own.iter().take(row.len()).map(|&x| u32::from(x)).eq(row));
            }
        }
    }

    #[test]
    fn spans_know_what_they_contain() {
        let rows: [[u16; 3]; 5] = [[0, 2, 3], [0, 4, 6], [5, 0, 1], [1, 1, 1], [9, 9, 9]];
        let mut span = Span::new(3);
        let innovative = rows.map(|row| {
            let expected = span.was_innovative(span.pivots(), &row);
            assert_eq!(span.insert(&row), expected);
            expected
        });
        assert_eq!(innovative, [true, false, true, true, false]);
        assert_eq!(span.pivots(), 0b111);
        // The first two rows that counted are [0, 1, 3/2] and [1, 0, 1/5].
        assert!(!span.was_innovative(0b011, &[5, 2, 4]));
        assert!(span.was_innovative(0b011, &[1, 1, 1]));
        span.go_back(0b011);
        assert!(span.insert(&[1, 1, 1]));
        assert!(!Span::new(2).insert(&[0, 0]));
    }
}
