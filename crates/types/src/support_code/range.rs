//! An adaptive binary range coder: a benchmark for the savings of a better model.
//!
//! Each class has its own counts. The probability of a one is (ones + 0.4)/(seen + 0.8), in sixteen
//! bits by integer division. The coder is the byte-wise one of Martin ("Range encoding", 1979) with
//! carries, on 32 bits. It codes every position, so it is far slower than gaps.

use super::classes::Class;
use super::planes::{Sink, Source};
use crate::{Bitfield, DecodeError};

/// Bits per probability.
const PROBABILITY_BITS: u32 = 16;
/// Below this the range is extended by a byte, so that each part of it stays at least 2^8.
const RANGE_MIN: u32 = 1 << 24;

/// Counts of a class, and the resulting probability.
#[derive(Clone, Copy, Default)]
struct Model {
    ones: u32,
    seen: u32,
}

impl Model {
    /// The part of `range` assigned to a one: not empty, and not all.
    fn share(&self, range: u32) -> u32 {
        // Numerator and denominator are multiplied by five to stay in integers.
        let (ones, seen) = (u64::from(self.ones), u64::from(self.seen));
        let probability = ((5 * ones + 2) << PROBABILITY_BITS) / (5 * seen + 4);
        let probability = probability.clamp(1, (1 << PROBABILITY_BITS) - 1) as u32;
        // The range is at least 2^24 here, so the share is at least 2^8, and it is below the range.
        (range >> PROBABILITY_BITS) * probability
    }

    fn learn(&mut self, bit: bool) {
        self.ones += u32::from(bit);
        self.seen += 1;
    }
}

/// Half of the range, for bits without a model.
fn half(range: u32) -> u32 {
    range >> 1
}

/// Writes classes symbol by symbol.
pub(super) struct RangeSink {
    bytes: Vec<u8>,
    low: u32,
    range: u32,
    limit_bytes: usize,
}

impl RangeSink {
    /// Creates a sink that is full after `limit_bytes`; a class of up to `n` positions may exceed
    /// it.
    pub(super) fn new(limit_bytes: usize, n: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(limit_bytes + n.div_ceil(8)),
            limit_bytes,
            low: 0,
            range: u32::MAX,
        }
    }

    /// Returns the bytes. Trailing zeros are omitted, since a reader sees zeros there anyway.
    pub(super) fn finish(mut self) -> Vec<u8> {
        // The number in low..low + range with the most trailing zeros: range is above 2^24.
        self.advance(RANGE_MIN - 1);
        self.bytes.push((self.low >> 24) as u8);
        while self.bytes.last() == Some(&0) {
            self.bytes.pop();
        }
        self.bytes
    }

    fn put(&mut self, bit: bool, share: u32) {
        if bit {
            self.range = share;
        } else {
            self.advance(share);
            self.range -= share;
        }
        while self.range < RANGE_MIN {
            self.bytes.push((self.low >> 24) as u8);
            self.low <<= 8;
            self.range <<= 8;
        }
    }

    fn advance(&mut self, by: u32) {
        let (low, carry) = self.low.overflowing_add(by);
        self.low = low;
        // A carry never leaves the first byte: all intervals lie in the first one, which ends below 2^32.
        if carry {
            for byte in self.bytes.iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
        }
    }
}

impl Sink for RangeSink {
    fn flags(&mut self, flags: &Bitfield) {
        for i in 0..flags.len() {
            self.put(flags.get(i), half(self.range));
        }
    }

    fn class(&mut self, class: &Class) {
        let symbols = class.symbols();
        let mut model = Model::default();
        for i in 0..symbols.len() {
            let bit = symbols.get(i);
            self.put(bit, model.share(self.range));
            model.learn(bit);
        }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() > self.limit_bytes
    }
}

/// Reads what [`RangeSink`] wrote. Any bytes decode to symbols; the caller re-encodes them and
/// compares.
pub(super) struct RangeSource<'a> {
    rest: std::slice::Iter<'a, u8>,
    offset: u32,
    range: u32,
}

impl<'a> RangeSource<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        let mut source = Self {
            rest: body.iter(),
            offset: 0,
            range: u32::MAX,
        };
        for _ in 0..4 {
            source.shift();
        }
        source
    }

    fn shift(&mut self) {
        let byte = self.rest.next().copied().unwrap_or(0);
        self.offset = self.offset << 8 | u32::from(byte);
    }

    fn take(&mut self, share: u32) -> bool {
        // `offset` is the code relative to the low end of the range, where the ones are.
        let bit = self.offset < share;
        if bit {
            self.range = share;
        } else {
            self.offset -= share;
            self.range -= share;
        }
        while self.range < RANGE_MIN {
            self.shift();
            self.range <<= 8;
        }
        bit
    }
}

impl Source for RangeSource<'_> {
    fn flags(&mut self, len: usize) -> Result<Bitfield, DecodeError> {
        let mut flags = Bitfield::new(len);
        for i in 0..len {
            if self.take(half(self.range)) {
                flags.set(i);
            }
        }
        Ok(flags)
    }

    fn class(&mut self, len: usize) -> Result<Class, DecodeError> {
        let mut symbols = Bitfield::new(len);
        let mut model = Model::default();
        for i in 0..len {
            let bit = self.take(model.share(self.range));
            if bit {
                symbols.set(i);
            }
            model.learn(bit);
        }
        Ok(Class::from_symbols(symbols))
    }
}
