//! Golomb-Rice codes of the gaps between the rarer symbols of a class: the coding used on the wire.

use super::bits::{BitReader, BitWriter, PEEK_BITS};
use super::classes::Class;
use super::planes::{Sink, Source};
use crate::{Bitfield, DecodeError};

/// The Rice parameter k for `minority` > 0 rarer symbols among `len`. It is derived, so it is not
/// sent.
///
/// k = 0 if t = 0, else 1 + ⌊log2 t⌋ with t = ⌊31536·(2·len - minority) / (131072·minority)⌋,
/// which is ln(golden ratio) x (mean gap + 1/2): the best k for a geometric distribution (Kiely,
/// "Selecting the Golomb Parameter in Rice Coding", IPN Progress Report 42-159, 2004).
fn parameter(len: usize, minority: usize) -> u32 {
    let (len, minority) = (len as u64, minority as u64);
    let t = 31_536 * (2 * len - minority) / (131_072 * minority);
    // Is 0 for t = 0 and 1 + ⌊log2 t⌋ for all others.
    u64::BITS - t.leading_zeros()
}

/// Binary digits of `value`; none for 0.
const fn digits(value: usize) -> u32 {
    usize::BITS - value.leading_zeros()
}

/// Encoding of the head of a class of a given length.
///
/// It starts with the number of digits of the count of rarer symbols, in the fewest bits that hold
/// every such number and one more value, which announces plain symbols. For the few per cent of a
/// slot that differ from the previous one, a count thus takes 10 or 11 bits where whole bytes would
/// take 16, and the choice of the form costs nothing.
#[derive(Clone, Copy)]
struct Head {
    /// The value that announces plain symbols: one more than the maximum number of digits.
    plain: u32,
    /// Bits of that first field.
    bits: u32,
}

impl Head {
    const fn new(len: usize) -> Self {
        let plain = digits(len / 2) + 1;
        Self {
            plain,
            bits: digits(plain as usize),
        }
    }
}

/// Bits of a count after its number of digits: all digits except the first, and which symbol is the
/// rarer one.
const fn count_bits(count: usize) -> usize {
    digits(count).saturating_sub(1) as usize + 1
}

/// True if gaps are shorter than plain symbols for this class. Both directions use this rule.
fn gaps_are_shorter(class: &Class) -> bool {
    let head_bits = count_bits(class.minority_count);
    if class.minority_count == 0 {
        return head_bits < class.len();
    }
    let k = parameter(class.len(), class.minority_count);
    // More than 38.8 % of the symbols are the rarer one: such a class always has the plain form, without a
    // comparison.
    if k == 0 {
        return false;
    }
    let fixed = head_bits + class.minority_count * (k as usize + 1);
    if fixed >= class.len() {
        return false;
    }
    let mut quotients = 0;
    for_each_gap(&class.minority, |gap| quotients += gap >> k);
    fixed + (quotients as usize) < class.len()
}

/// Calls `visit` with the number of zeros before each set bit, counted from the previous set bit.
#[inline]
fn for_each_gap(bits: &Bitfield, mut visit: impl FnMut(u64)) {
    // Position of the first bit after the last one visited, and of the current word.
    let (mut next, mut base) = (0, 0);
    for &word in bits.words() {
        let mut rest = word;
        while rest != 0 {
            let at = base + u64::from(rest.trailing_zeros());
            visit(at - next);
            next = at + 1;
            rest &= rest - 1;
        }
        base += 64;
    }
}

/// Writes classes as gaps to one bit stream.
pub(super) struct RiceSink {
    bits: BitWriter,
    limit_bits: usize,
}

impl RiceSink {
    /// Creates a sink that is full after `limit_bytes`; a class of up to `n` positions may exceed
    /// it.
    pub(super) fn new(limit_bytes: usize, n: usize) -> Self {
        Self {
            bits: BitWriter::with_capacity(limit_bytes + n.div_ceil(8)),
            limit_bits: 8 * limit_bytes,
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bits.finish()
    }

    /// Writes the number of digits of the count, its digits without the first one, and the rarer
    /// symbol.
    fn count(&mut self, class: &Class, head: Head) {
        let count = class.minority_count;
        let digits = digits(count);
        self.bits.put(u64::from(digits), head.bits);
        // The first digit is always one, so it is not sent.
        if let Some(rest) = digits.checked_sub(1) {
            self.bits.put((count ^ (1 << rest)) as u64, rest);
        }
        self.bits.put(u64::from(class.inverted), 1);
    }

    fn gaps(&mut self, class: &Class, k: u32) {
        for_each_gap(&class.minority, |gap| {
            let quotient = (gap >> k) as u32;
            let low = gap & ((1 << k) - 1);
            // Zeros, one and low bits in a single write, which takes up to 32 bits.
            if quotient + 1 + k <= 32 {
                self.bits.put((1 | low << 1) << quotient, quotient + 1 + k);
            } else {
                self.long_gap(quotient, low, k);
            }
        });
    }

    #[cold]
    fn long_gap(&mut self, mut quotient: u32, low: u64, k: u32) {
        while quotient > 0 {
            let part = quotient.min(32);
            self.bits.put(0, part);
            quotient -= part;
        }
        self.bits.put(1 | low << 1, 1 + k);
    }
}

impl Sink for RiceSink {
    fn flags(&mut self, flags: &Bitfield) {
        self.bits.put_bitfield(flags);
    }

    /// Writes the gaps, and undoes them if they are not shorter: almost every class is written
    /// once, without an extra pass to find its length.
    fn class(&mut self, class: &Class) {
        let mark = self.bits.mark();
        let k = match class.minority_count {
            0 => Some(0),
            count => Some(parameter(class.len(), count)).filter(|&k| k > 0),
        };
        let head = Head::new(class.len());
        if let Some(k) = k {
            // The head has the same length in both forms, so only what follows is compared. A tie goes to the
            // plain symbols.
            let start = self.bits.len_bits() + head.bits as usize;
            self.count(class, head);
            self.gaps(class, k);
            if self.bits.len_bits() - start < class.len() {
                return;
            }
            self.bits.rewind(mark);
        }
        self.bits.put(u64::from(head.plain), head.bits);
        self.bits.put_bitfield(&class.symbols());
    }

    fn is_full(&self) -> bool {
        self.bits.len_bits() >= self.limit_bits
    }
}

/// Reads what [`RiceSink`] wrote, and rejects everything else.
pub(super) struct RiceSource<'a> {
    bits: BitReader<'a>,
}

impl<'a> RiceSource<'a> {
    pub(super) const fn new(body: &'a [u8]) -> Self {
        Self {
            bits: BitReader::new(body),
        }
    }

    /// Number of bytes read. The unused bits of the last one must be zero.
    pub(super) fn finish(self) -> Result<usize, DecodeError> {
        self.bits.finish_byte()
    }

    /// Reads the count of rarer symbols of a class of `len` positions; none if plain symbols
    /// follow.
    fn count(&mut self, len: usize) -> Result<Option<usize>, DecodeError> {
        let head = Head::new(len);
        let digits = self.bits.read(head.bits)? as u32;
        if digits == head.plain {
            return Ok(None);
        }
        if digits > head.plain {
            return Err(DecodeError::NotCanonical {
                what: "head of a class of a support code",
            });
        }
        let count = match digits.checked_sub(1) {
            None => 0,
            Some(rest) => (1 << rest | self.bits.read(rest)?) as usize,
        };
        if count > len / 2 {
            return Err(DecodeError::OutOfRange {
                what: "count of rarer symbols of a support code",
                value: count as u64,
                max: len as u64 / 2,
            });
        }
        Ok(Some(count))
    }

    /// Reads the next gap, at most `max`, of any length: the rare case.
    #[cold]
    fn long_gap(&mut self, k: u32, max: u64) -> Result<u64, DecodeError> {
        let mut quotient = 0;
        loop {
            // At most 56 at a time, one less than the window holds. A run of exactly 56 goes round once more
            // with none.
            let zeros = u64::from(self.bits.peek().trailing_zeros().min(PEEK_BITS - 1));
            self.bits.skip(zeros as usize)?;
            quotient += zeros;
            // Checked on the way, so that no run of zeros makes the shift below overflow.
            if quotient > max >> k {
                return Err(too_far(quotient << k, max));
            }
            if zeros < u64::from(PEEK_BITS - 1) {
                break;
            }
        }
        self.bits.skip(1)?;
        let gap = quotient << k | self.bits.read(k)?;
        if gap > max {
            return Err(too_far(gap, max));
        }
        Ok(gap)
    }

    /// Reads the positions of `count` rarer symbols among `len`.
    fn minority(&mut self, len: usize, count: usize) -> Result<Bitfield, DecodeError> {
        let mut words = vec![0; len.div_ceil(64)];
        let k = match count {
            0 => 0,
            count => parameter(len, count),
        };
        if count > 0 && k == 0 {
            return Err(not_shortest());
        }
        // Input too short for any form costs no work.
        self.bits.need(count * (k as usize + 1))?;
        let len = len as u64;
        let (mut left, mut next) = (count, 0);
        while left > 0 {
            // All gaps entirely inside one window, then at most one that is not.
            let mut window = self.bits.peek();
            let mut used = 0;
            while left > 0 {
                let zeros = window.trailing_zeros();
                let bits = zeros + 1 + k;
                if used + bits > PEEK_BITS {
                    break;
                }
                let low = (window >> zeros >> 1) & ((1 << k) - 1);
                let at = next + (u64::from(zeros) << k | low);
                if at >= len {
                    return Err(too_far(at, len - 1));
                }
                words[(at / 64) as usize] |= 1u64 << (at % 64);
                next = at + 1;
                window >>= bits;
                used += bits;
                left -= 1;
            }
            // Padding behind the end may have passed for low bits; `skip` fails then.
            if used > 0 {
                self.bits.skip(used as usize)?;
                continue;
            }
            let Some(max) = (len - next).checked_sub(1) else {
                return Err(too_far(next, len - 1));
            };
            let at = next + self.long_gap(k, max)?;
            words[(at / 64) as usize] |= 1 << (at % 64);
            next = at + 1;
            left -= 1;
        }
        Ok(Bitfield::from_words(words, len as usize).expect("positions were checked"))
    }
}

impl Source for RiceSource<'_> {
    fn flags(&mut self, len: usize) -> Result<Bitfield, DecodeError> {
        self.bits.read_bitfield(len)
    }

    fn class(&mut self, len: usize) -> Result<Class, DecodeError> {
        let start = self.bits.at_bits() + Head::new(len).bits as usize;
        let Some(count) = self.count(len)? else {
            let class = Class::from_symbols(self.bits.read_bitfield(len)?);
            // The sender has no choice of form, or a class would have two codes.
            if gaps_are_shorter(&class) {
                return Err(not_shortest());
            }
            return Ok(class);
        };
        let inverted = self.bits.read(1)? == 1;
        if inverted && 2 * count == len {
            return Err(DecodeError::NotCanonical {
                what: "rarer symbol of a support code",
            });
        }
        let minority = self.minority(len, count)?;
        if self.bits.at_bits() - start >= len {
            return Err(not_shortest());
        }
        Ok(Class {
            minority,
            minority_count: count,
            inverted,
        })
    }
}

fn not_shortest() -> DecodeError {
    DecodeError::NotCanonical {
        what: "form of a class of a support code",
    }
}

fn too_far(at: u64, max: u64) -> DecodeError {
    DecodeError::OutOfRange {
        what: "position in a class of a support code",
        value: at,
        max,
    }
}

#[cfg(test)]
mod tests {
    use super::{Head, count_bits, digits, parameter};

    #[test]
    fn the_parameter_is_the_best_one_for_random_symbols() {
        // Expected bits of a gap with parameter k at density p: 1 + k + (1-p)^2^k/(1-(1-p)^2^k).
        let expected = |p: f64, k: u32| {
            let miss = (1.0 - p).powi(1 << k);
            1.0 + f64::from(k) + miss / (1.0 - miss)
        };
        let len = 1 << 20;
        for minority in (1_000..450_000).step_by(7_919) {
            let p = f64::from(minority) / f64::from(len);
            let best = (0..16).map(|k| expected(p, k)).fold(f64::MAX, f64::min);
            let ours = expected(p, parameter(len as usize, minority as usize));
            // The integers leave k = 1 for k = 0 from 38.2 to 38.8 %, where plain symbols win.
            assert!(ours <= best * 1.007, "{ours} bits, {best} possible at {p}");
        }
        assert_eq!(parameter(32_768, 1), 14);
        assert_eq!(parameter(1 << 22, 1), 21);
        assert_eq!(parameter(2, 1), 0);
    }

    #[test]
    fn heads_hold_every_count_and_no_more() {
        for (len, plain, bits) in [
            (1, 1, 1),
            (2, 2, 2),
            (3, 2, 2),
            (4, 3, 2),
            (1_727, 11, 4),
            (31_041, 15, 4),
            (1 << 22, 23, 5),
        ] {
            let head = Head::new(len);
            assert_eq!((head.plain, head.bits), (plain, bits), "{len} positions");
            assert_eq!(digits(len / 2) + 1, plain);
        }
        for (count, bits) in [(0, 1), (1, 1), (2, 2), (3, 2), (67, 7), (1 << 21, 22)] {
            assert_eq!(count_bits(count), bits, "{count} rarer symbols");
        }
    }
}
