//! Spans modulo 65521, the largest prime below 2^16: rows without data, for simulations.

/// The modulus, 2^16 - 15.
pub(crate) const MODULUS: u32 = 65_521;

/// value modulo 65521, by 2^16 = 15 modulo 65521.
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

/// Dimensions of a span, at most.
pub(crate) const WIDTH_MAX: usize = 64;

/// Sums of products that are not reduced yet: their lower and upper halves by themselves, which takes two
/// multiplications of words, as every x86-64 does eight of at once.
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

    /// Adds `factor · row` behind the first `from` elements; 64 times at most.
    #[inline(always)]
    fn add(&mut self, from: usize, factor: u16, row: &[u16]) {
        let sums = self.low[from..].iter_mut().zip(&mut self.high[from..]);
        for ((low, high), &element) in sums.zip(row) {
            *low += u32::from(factor.wrapping_mul(element));
            *high += (u32::from(factor) * u32::from(element)) >> 16;
        }
    }

    /// An element below the modulus: at most 15·64·65535 + 65·65535 < 2^26 are reduced.
    #[inline(always)]
    fn element(&self, i: usize) -> u16 {
        reduce(self.low[i] + 15 * self.high[i]) as u16
    }
}

/// Σ factors[i] · rows[i], for at most 64 rows of at most 64 elements.
pub(crate) fn combine<'a>(factors: &[u16], rows: impl Iterator<Item = &'a [u16]>) -> [u16; 64] {
    let mut sums = Sums::ZERO;
    for (&factor, row) in factors.iter().zip(rows) {
        sums.add(0, factor, row);
    }
    std::array::from_fn(|i| sums.element(i))
}

/// A span in row echelon form: one flat block, so that copying it is one move of memory.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    width: usize,
    /// Row p, if present, has its first nonzero element, 1, at p.
    rows: Vec<u16>,
    present: u64,
}

impl Span {
    /// The zero space in up to 64 dimensions.
    pub(crate) fn new(width: usize) -> Span {
        assert!(width <= WIDTH_MAX, "{width} dimensions, limit 64");
        Span {
            width,
            rows: vec![0; width * width],
            present: 0,
        }
    }

    /// Its dimensions at most.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The pivots of its rows, a bit each. As a row is reduced by those before it alone, the pivots at any
    /// time are those of a span of its own from then on.
    pub(crate) fn pivots(&self) -> u64 {
        self.present
    }

    /// Makes this the span of the rows with these pivots: of all that it had at some time.
    pub(crate) fn go_back(&mut self, pivots: u64) {
        self.present &= pivots;
    }

    /// Whether the row is outside the span of the rows with these pivots: of all that this one had at some
    /// time.
    pub(crate) fn was_innovative(&self, pivots: u64, row: &[u16]) -> bool {
        self.reduced(pivots, row).is_some()
    }

    /// Adds the row if it is outside the span; says whether it was.
    pub(crate) fn insert(&mut self, row: &[u16]) -> bool {
        let Some((pivot, reduced)) = self.reduced(self.present, row) else {
            return false;
        };
        let factor = inverse(reduced.element(pivot).into());
        let from = pivot * self.width;
        for (i, slot) in self.rows[from..from + self.width].iter_mut().enumerate() {
            *slot = reduce(u32::from(reduced.element(i)) * factor) as u16;
        }
        self.present |= 1 << pivot;
        true
    }

    /// What the rows with these pivots leave of the row, and where it begins; `None` if nothing is left.
    fn reduced(&self, pivots: u64, row: &[u16]) -> Option<(usize, Sums)> {
        let mut left = Sums::ZERO;
        for (slot, &element) in left.low.iter_mut().zip(row) {
            *slot = u32::from(element);
        }
        for column in 0..self.width {
            let element = left.element(column);
            if element == 0 {
                (left.low[column], left.high[column]) = (0, 0);
                continue;
            }
            if pivots >> column & 1 == 0 {
                return Some((column, left));
            }
            // A row begins at its pivot.
            let own = &self.rows[column * self.width + column..(column + 1) * self.width];
            left.add(column, (MODULUS - u32::from(element)) as u16, own);
            (left.low[column], left.high[column]) = (0, 0);
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
        let rows: [&[u16]; 2] = [&[1, 65_520], &[2, 65_520]];
        let combined = combine(&[65_520, 3], rows.into_iter());
        assert_eq!(combined[..3], [5, 65_519, 0]);
        // The largest sums that there are.
        let most = [[65_520_u16; WIDTH_MAX]; WIDTH_MAX];
        let rows = most.iter().map(|row| row.as_slice());
        assert_eq!(combine(&[65_520; WIDTH_MAX], rows), [64; WIDTH_MAX]);
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
        // The first two that counted are [0, 1, 3/2] and [1, 0, 1/5].
        assert!(!span.was_innovative(0b011, &[5, 2, 4]));
        assert!(span.was_innovative(0b011, &[1, 1, 1]));
        span.go_back(0b011);
        assert!(span.insert(&[1, 1, 1]));
        assert!(!Span::new(2).insert(&[0, 0]));
    }
}
