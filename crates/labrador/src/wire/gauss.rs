//! The entropy code for Gaussian integers, used for projections, garbage and responses.
//!
//! `x = 2^k h + l` with `0 <= l < 2^k`: the low part is sent raw, the high part in a canonical
//! Huffman code. `k` is chosen from the expected deviation `sigma` so that `sigma / 2^k` lies in
//! `[4, 8)`, and the code is one of eight for that range, spaced by a factor of `2^(1/8)`: 0.03 to 0.06
//! bits per number above the entropy. All decisions are made in integers, so the code is the same everywhere.

use std::sync::OnceLock;

use super::bits::{BitReader, BitWriter};

/// `round(2^32 exp(-1 / s^2))` for `s = 4 * 2^((f + 1/2) / 8)`, `f = 0..8`.
const RATIOS: [u64; 8] = [
    4_055_731_996,
    4_092_883_986,
    4_124_388_246,
    4_151_067_684,
    4_173_635_859,
    4_192_708_297,
    4_208_813_685,
    4_222_404_522,
];

/// High parts with a symbol of their own lie in `[-HIGH_MAX, HIGH_MAX)`.
const HIGH_MAX: i64 = 40;

/// Number of symbols: the high parts, and the escape.
const SYMBOLS: usize = 2 * HIGH_MAX as usize + 1;

/// The symbol that precedes a raw high part.
const ESCAPE: usize = SYMBOLS - 1;

/// Bits of a raw high part.
const ESCAPE_BITS: u32 = 48;

/// Maximum bits of a code word: the least weight is `2^-20` of the largest.
const LENGTH_MAX: usize = 40;

/// Index bits of the lookup table: longer words are one symbol in 500.
const TABLE_BITS: u32 = 11;

/// Bits of a [`BitReader::window`] that are always available.
const WINDOW_BITS: u32 = 57;

/// The code for one expected deviation.
pub(crate) struct GaussianCode {
    low_bits: u32,
    high: &'static Huffman,
}

/// The code for high parts, one for each of [`RATIOS`].
struct Huffman {
    lengths: [u8; SYMBOLS],
    words: [u64; SYMBOLS],
    /// Symbols ordered by length, then number.
    order: Vec<usize>,
    counts: [u64; LENGTH_MAX + 1],
    /// Indexed by the next bits, lowest first: the symbol whose word they begin with and the length of that word.
    /// The length is 0 if the word is longer, or for the escape.
    table: Box<[(u8, u8); 1 << TABLE_BITS]>,
}

impl Huffman {
    /// Returns the code of a ratio, built once.
    fn of(family: usize) -> &'static Self {
        static CODES: [OnceLock<Huffman>; RATIOS.len()] = [const { OnceLock::new() }; RATIOS.len()];
        CODES[family].get_or_init(|| Self::new(RATIOS[family]))
    }

    fn new(ratio: u64) -> Self {
        let lengths = huffman_lengths(&weights(ratio));
        let mut order: Vec<usize> = (0..SYMBOLS).collect();
        order.sort_by_key(|&s| (lengths[s], s));
        let mut counts = [0; LENGTH_MAX + 1];
        let mut words = [0; SYMBOLS];
        let (mut word, mut length) = (0u64, lengths[order[0]]);
        for &symbol in &order {
            word <<= lengths[symbol] - length;
            length = lengths[symbol];
            words[symbol] = word;
            word += 1;
            counts[usize::from(length)] += 1;
        }
        let mut table = Box::new([(0, 0); 1 << TABLE_BITS]);
        for symbol in (0..SYMBOLS).filter(|&symbol| symbol != ESCAPE) {
            let length = u32::from(lengths[symbol]);
            if length <= TABLE_BITS {
                // A word starts with its highest bit.
                let first = words[symbol].reverse_bits() >> (64 - length);
                for entry in table.iter_mut().skip(first as usize).step_by(1 << length) {
                    *entry = (symbol as u8, lengths[symbol]);
                }
            }
        }
        Self {
            lengths,
            words,
            order,
            counts,
            table,
        }
    }

    fn write(&self, symbol: usize, out: &mut BitWriter) {
        for bit in (0..self.lengths[symbol]).rev() {
            out.push(self.words[symbol] >> bit & 1, 1);
        }
    }

    /// Reads a symbol bit by bit.
    fn read(&self, input: &mut BitReader<'_>) -> Option<usize> {
        let (mut word, mut first, mut index) = (0u64, 0u64, 0u64);
        for count in &self.counts[1..] {
            word = word << 1 | input.take(1)?;
            // The words of one length are consecutive, from `first` on, in the order of `order` from `index` on.
            first <<= 1;
            if word < first + count {
                return self.order.get((index + word - first) as usize).copied();
            }
            first += count;
            index += count;
        }
        None
    }
}

impl GaussianCode {
    /// Returns the code for numbers whose expected square is `variance`.
    pub(crate) fn new(variance: u128) -> Self {
        // Sixteenths of log2(sigma^2): four of them lead from one family to the next.
        // A deviation of at least 4 keeps the number of low bits from becoming negative.
        let log = log2_sixteenths(variance.max(16));
        let family = (log - log / 32 * 32) / 4;
        Self {
            low_bits: log / 16 / 2 - 2,
            high: Huffman::of(family as usize),
        }
    }

    /// Writes one number of at most 47 bits above the low part.
    pub(crate) fn write(&self, x: i64, out: &mut BitWriter) {
        let high = x >> self.low_bits;
        out.push((x - (high << self.low_bits)) as u64, self.low_bits);
        let symbol = if (-HIGH_MAX..HIGH_MAX).contains(&high) {
            (high + HIGH_MAX) as usize
        } else {
            ESCAPE
        };
        self.high.write(symbol, out);
        if symbol == ESCAPE {
            out.push(high as u64 & ((1 << ESCAPE_BITS) - 1), ESCAPE_BITS);
        }
    }

    /// Reads one number. None at the end of the bytes, or for a number that has a shorter encoding.
    pub(crate) fn read(&self, input: &mut BitReader<'_>) -> Option<i64> {
        self.looked_up(input).or_else(|| self.read_bits(input))
    }

    /// Reads a number whose high part has a short word, away from the end of the bytes. Otherwise returns None and
    /// consumes nothing.
    #[inline]
    fn looked_up(&self, input: &mut BitReader<'_>) -> Option<i64> {
        if self.low_bits + TABLE_BITS > WINDOW_BITS {
            return None;
        }
        let window = input.window()?;
        let index = window >> self.low_bits & ((1 << TABLE_BITS) - 1);
        let (symbol, length) = self.high.table[index as usize];
        if length == 0 {
            return None;
        }
        input.skip(self.low_bits + u32::from(length));
        let low = window & ((1 << self.low_bits) - 1);
        Some(((i64::from(symbol) - HIGH_MAX) << self.low_bits) + low as i64)
    }

    /// Reads any number, bit by bit.
    fn read_bits(&self, input: &mut BitReader<'_>) -> Option<i64> {
        let low = input.take(self.low_bits)? as i64;
        let symbol = self.high.read(input)?;
        let high = if symbol == ESCAPE {
            let raw = input.take(ESCAPE_BITS)? as i64;
            let high = raw << (64 - ESCAPE_BITS) >> (64 - ESCAPE_BITS);
            let far = !(-HIGH_MAX..HIGH_MAX).contains(&high);
            // Numbers stay at most 2^60, so that their squares fit 128 bits.
            let fits = high.unsigned_abs() < 1 << 60u32.saturating_sub(self.low_bits);
            (far && fits).then_some(high)?
        } else {
            symbol as i64 - HIGH_MAX
        };
        Some((high << self.low_bits) + low)
    }
}

/// Returns `floor(16 log2(x))`, by repeated squaring of the mantissa.
fn log2_sixteenths(x: u128) -> u32 {
    let whole = x.ilog2();
    let mut mantissa = if whole > 31 {
        (x >> (whole - 31)) as u64
    } else {
        (x as u64) << (31 - whole)
    };
    let mut fraction = 0;
    for _ in 0..4 {
        mantissa = (mantissa * mantissa) >> 31;
        fraction *= 2;
        if mantissa >> 32 > 0 {
            mantissa >>= 1;
            fraction += 1;
        }
    }
    whole * 16 + fraction
}

/// Returns the weights of all symbols: `exp(-(h + 1/2)^2 / 2 s^2)`, where neighbours have the quotients
/// `r, r^2, r^3, ...` for `r = exp(-1 / s^2)`. The escape and far numbers have the least weight.
fn weights(ratio: u64) -> [u64; SYMBOLS] {
    let least = 1 << 20;
    let mut out = [least; SYMBOLS];
    let (mut weight, mut quotient) = (1u64 << 40, 1u64 << 32);
    for h in 0..HIGH_MAX as usize {
        out[HIGH_MAX as usize + h] = weight.max(least);
        out[HIGH_MAX as usize - 1 - h] = weight.max(least);
        quotient = ((u128::from(quotient) * u128::from(ratio)) >> 32) as u64;
        weight = ((u128::from(weight) * u128::from(quotient)) >> 32) as u64;
    }
    out
}

/// Returns the lengths of a Huffman code; ties go to the older node.
fn huffman_lengths(weights: &[u64; SYMBOLS]) -> [u8; SYMBOLS] {
    let mut lengths = [0; SYMBOLS];
    let mut nodes: Vec<(u64, Vec<usize>)> = (weights.iter().enumerate())
        .map(|(symbol, &weight)| (weight, vec![symbol]))
        .collect();
    while nodes.len() > 1 {
        let (weight, mut members) = take_least(&mut nodes);
        let (other, more) = take_least(&mut nodes);
        members.extend(more);
        for &symbol in &members {
            lengths[symbol] += 1;
        }
        nodes.push((weight + other, members));
    }
    lengths
}

fn take_least(nodes: &mut Vec<(u64, Vec<usize>)>) -> (u64, Vec<usize>) {
    let least = (0..nodes.len()).min_by_key(|&i| nodes[i].0).unwrap_or(0);
    nodes.remove(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_families_follow_the_formula() {
        for (f, &ratio) in RATIOS.iter().enumerate() {
            let s = 4.0 * 2f64.powf((f as f64 + 0.5) / 8.0);
            let exact = (-1.0 / (s * s)).exp() * 2f64.powi(32);
            assert!((ratio as f64 - exact).abs() < 1.0, "family {f}");
        }
    }

    proptest! {
        #[test]
        fn numbers_survive(
            values in proptest::collection::vec(-(1i64 << 40)..1 << 40, 1..20),
            shift in 0u32..40,
            variance in 1u128..1 << 60,
        ) {
            let code = GaussianCode::new(variance);
            let mut out = BitWriter::default();
            for &x in &values {
                code.write(x >> shift, &mut out);
            }
            let bytes = out.finish();
            let mut input = BitReader::new(&bytes);
            for &x in &values {
                prop_assert_eq!(code.read(&mut input), Some(x >> shift));
            }
            prop_assert!(input.finish());
        }

        #[test]
        fn what_is_read_is_written_the_same(
            bytes in proptest::collection::vec(any::<u8>(), 1..60),
            variance in 1u128..1 << 40,
        ) {
            let code = GaussianCode::new(variance);
            let mut input = BitReader::new(&bytes);
            let mut out = BitWriter::default();
            while let Some(x) = code.read(&mut input) {
                code.write(x, &mut out);
            }
            let again = out.finish();
            // The table finds the same numbers and ends at the same bit as reading bit by bit.
            let (mut one, mut other) = (BitReader::new(&bytes), BitReader::new(&bytes));
            loop {
                let (found, expected) = (code.read(&mut one), code.read_bits(&mut other));
                prop_assert_eq!(found, expected);
                prop_assert_eq!(one.position(), other.position());
                if found.is_none() {
                    break;
                }
            }
            // The last byte may hold the beginning of a number that could not be read.
            let whole = again.len().saturating_sub(1);
            prop_assert_eq!(&again[..whole], &bytes[..whole]);
        }
    }

    #[test]
    fn escapes_hold_numbers_without_a_symbol_below_the_limit() {
        let edges = [
            (20, HIGH_MAX, true),
            (20, HIGH_MAX - 1, false),
            (80, (1 << 22) - 1, true),
            (80, 1 << 22, false),
            (80, -(1 << 22), false),
        ];
        for (variance_log, high, legal) in edges {
            let code = GaussianCode::new(1 << variance_log);
            let mut out = BitWriter::default();
            out.push(0, code.low_bits);
            code.high.write(ESCAPE, &mut out);
            out.push(high as u64 & ((1 << ESCAPE_BITS) - 1), ESCAPE_BITS);
            let bytes = out.finish();
            let read = code.read(&mut BitReader::new(&bytes));
            assert_eq!(read.is_some(), legal, "{high} at 2^{variance_log}");
        }
    }

    /// The mean length over the exact distribution is near the entropy for every deviation.
    #[test]
    fn the_code_is_within_a_tenth_of_a_bit_of_the_entropy() {
        for step in 0..24 {
            let sigma = 64.0 * 2f64.powf(f64::from(step) / 24.0);
            let code = GaussianCode::new((sigma * sigma) as u128);
            let (mut bits, mut mass) = (0.0, 0.0);
            for x in -600i64..600 {
                let p = (-(x as f64).powi(2) / (2.0 * sigma * sigma)).exp();
                let mut out = BitWriter::default();
                code.write(x, &mut out);
                bits += p * out.bits() as f64;
                mass += p;
            }
            let entropy = sigma.log2() + 2.047;
            assert!(
                bits / mass < entropy + 0.1,
                "{} over {entropy}",
                bits / mass
            );
        }
    }
}
