#![doc = include_str!("LECTURE.md")]

mod bits;
mod classes;
mod context;
mod entropy;
mod planes;
mod range;
mod raw;
mod rice;

use crate::support::MULTIPLICITY_LIMIT;
use crate::{Bitfield, DecodeError, Reader, Support, Writer};

pub use context::{CellBounds, Reference};

/// Maximum bytes before the body: tag, info, length. A Rice code has no length because it is
/// self-delimiting.
pub const HEADER_BYTES: usize = 6;

const TAG_RAW_BITS: u8 = 0;
const TAG_RAW_PLANES: u8 = 1;
const TAG_SNAPPY: u8 = 2;
const TAG_RICE: u8 = 16;
const TAG_RANGE: u8 = 17;

/// How a support is coded. If a coding is not shorter than the raw form, the raw form is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Coding {
    /// The planes, uncoded.
    Raw,
    /// A raw Snappy block around one plane, as in Ethereum's gossip; for comparison only.
    Snappy,
    /// Golomb-Rice codes of the gaps between the rarer symbols: the coding used on the wire.
    #[default]
    Rice,
    /// An adaptive range coder over the same classes: a yardstick, too slow for the wire.
    Range,
}

/// All parameters that determine the bytes of a support. Sender and receiver must agree on them.
///
/// Under one `SupportCode` each support has exactly one code, and only that one is accepted.
#[derive(Clone, Copy, Debug)]
pub struct SupportCode<'a> {
    coding: Coding,
    multiplicity_max: u8,
    cells: &'a CellBounds,
    reference: Reference<'a>,
}

impl<'a> SupportCode<'a> {
    /// Creates the code of supports over the positions of `cells`, with multiplicities up to
    /// `multiplicity_max`.
    ///
    /// # Panics
    ///
    /// If `multiplicity_max` is 0 or above [`MULTIPLICITY_LIMIT`], a bitfield of `reference`
    /// differs in length from the cells, or `all` of a link is not a subset of `any`.
    #[must_use]
    pub fn new(
        coding: Coding,
        multiplicity_max: u8,
        cells: &'a CellBounds,
        reference: Reference<'a>,
    ) -> Self {
        assert!(
            (1..=MULTIPLICITY_LIMIT).contains(&multiplicity_max),
            "bound {multiplicity_max} of a multiplicity"
        );
        reference.check(cells.len());
        Self {
            coding,
            multiplicity_max,
            cells,
            reference,
        }
    }

    /// Encodes `support`, header included.
    ///
    /// # Panics
    ///
    /// If the support differs in length from the cells, or has a multiplicity above the bound.
    #[must_use]
    pub fn encode(&self, support: &Support) -> Vec<u8> {
        assert_eq!(support.len(), self.len(), "length of a support");
        assert!(
            support.max_multiplicity() <= self.multiplicity_max,
            "a multiplicity above {}",
            self.multiplicity_max
        );
        let planes_count = support.planes_count();
        // Shorter, not as short: on a tie only the raw form is legal, or a support would have two codes.
        let (tag, mode, body) = match self.encode_short(support) {
            Some((tag, body)) if body.len() < self.raw_bytes(planes_count) => {
                // Only classes depend on the reference, so all other forms have mode 0.
                let uses_reference = matches!(self.coding, Coding::Rice | Coding::Range);
                let mode = if uses_reference {
                    self.reference.mode()
                } else {
                    0
                };
                (tag, mode, body)
            }
            _ => {
                let (tag, body) = raw::encode(support);
                (tag, 0, body)
            }
        };
        let mut writer = Writer::with_capacity(HEADER_BYTES + body.len());
        writer.u8(tag);
        writer.u8((planes_count as u8) << 4 | mode);
        if tag == TAG_RICE {
            writer.bytes(&body);
        } else {
            writer.bytes_u32_prefixed(&body);
        }
        writer.into_vec()
    }

    /// Decodes a support.
    ///
    /// # Errors
    ///
    /// If the bytes are not exactly what [`SupportCode::encode`] returns for a support.
    pub fn decode(&self, bytes: &[u8]) -> Result<Support, DecodeError> {
        let mut reader = Reader::new(bytes);
        let support = self.decode_prefix(&mut reader)?;
        reader.finish()?;
        Ok(support)
    }

    /// As [`SupportCode::decode`], from the front of a message; the code is self-delimiting.
    ///
    /// # Errors
    ///
    /// As [`SupportCode::decode`].
    pub fn decode_prefix(&self, reader: &mut Reader<'_>) -> Result<Support, DecodeError> {
        let (tag, info) = (reader.u8()?, reader.u8()?);
        let planes_count = usize::from(info >> 4);
        // Before the body, whose length is bounded by what the head says.
        self.check_info(tag, info)?;
        let (support, body) = match (tag, self.coding) {
            (TAG_RICE, Coding::Rice) => (self.decode_rice(reader, planes_count)?, &[][..]),
            _ => self.decode_long(reader, tag, planes_count)?,
        };
        // The planes allow 2^p - 1, which may be above a bound that is no such number.
        let value = support.max_multiplicity();
        if value > self.multiplicity_max {
            return Err(DecodeError::OutOfRange {
                what: "multiplicity",
                value: u64::from(value),
                max: u64::from(self.multiplicity_max),
            });
        }
        if tag != TAG_RICE {
            self.check_canonical(&support, is_raw(tag), body)?;
        }
        Ok(support)
    }

    /// Decodes a Rice body, which is shorter than the raw one and ends with its last gap.
    /// Alternative encodings are rejected while reading.
    fn decode_rice(
        &self,
        reader: &mut Reader<'_>,
        planes_count: usize,
    ) -> Result<Support, DecodeError> {
        // Without positions the raw body is empty, and nothing is shorter.
        let Some(body_max) = self.raw_bytes(planes_count).checked_sub(1) else {
            return Err(not_canonical("coding that is not shorter than raw"));
        };
        let rest = reader.rest();
        // A body that goes on to where the raw one would end is not canonical, so no more is read.
        let mut source = rice::RiceSource::new(&rest[..rest.len().min(body_max)]);
        let support = planes::read(planes_count, self, &mut source)?;
        reader.bytes(source.finish()?)?;
        Ok(support)
    }

    /// Decodes a support whose body has a length prefix; returns both.
    fn decode_long<'b>(
        &self,
        reader: &mut Reader<'b>,
        tag: u8,
        planes_count: usize,
    ) -> Result<(Support, &'b [u8]), DecodeError> {
        let body_max = self.raw_bytes(planes_max(self.multiplicity_max));
        let body = reader.bytes_u32_prefixed(body_max)?;
        if !is_raw(tag) && body.len() >= self.raw_bytes(planes_count) {
            return Err(not_canonical("coding that is not shorter than raw"));
        }
        let support = match (tag, self.coding) {
            (TAG_RAW_BITS | TAG_RAW_PLANES, _) => raw::decode(body, self.len(), planes_count)?,
            (TAG_SNAPPY, Coding::Snappy) => Support::from_bits(raw::unsnappy(body, self.len())?),
            (TAG_RANGE, Coding::Range) => {
                planes::read(planes_count, self, &mut range::RangeSource::new(body))?
            }
            _ => {
                return Err(DecodeError::UnknownTag {
                    what: "tag of a support code",
                    value: u64::from(tag),
                });
            }
        };
        Ok((support, body))
    }

    /// Number of bits that no code with these classes can beat on average: the entropy of the
    /// symbols of `support` in their classes, plus one bit per cell for each plane above the first.
    ///
    /// Floating point, for reports only.
    ///
    /// # Panics
    ///
    /// If the support differs in length from the cells.
    #[must_use]
    pub fn entropy_bits(&self, support: &Support) -> f64 {
        assert_eq!(support.len(), self.len(), "length of a support");
        let mut sink = entropy::EntropySink::default();
        planes::write(support, self, &mut sink);
        sink.bits
    }

    fn len(&self) -> usize {
        self.cells.len()
    }

    /// Size of the raw body of `planes_count` planes, which a shorter coding must beat.
    fn raw_bytes(&self, planes_count: usize) -> usize {
        planes_count * self.len().div_ceil(8)
    }

    fn cells_count(&self) -> usize {
        self.cells.count()
    }

    /// Tag and body of a coding other than raw, whether shorter or not.
    fn encode_short(&self, support: &Support) -> Option<(u8, Vec<u8>)> {
        let (n, raw_bytes) = (self.len(), self.raw_bytes(support.planes_count()));
        match self.coding {
            Coding::Raw => None,
            Coding::Snappy => match support.planes() {
                [bits] => Some((TAG_SNAPPY, raw::snappy(bits)?)),
                _ => None,
            },
            Coding::Rice => {
                let mut sink = rice::RiceSink::new(raw_bytes, n);
                planes::write(support, self, &mut sink);
                Some((TAG_RICE, sink.finish()))
            }
            Coding::Range => {
                let mut sink = range::RangeSink::new(raw_bytes, n);
                planes::write(support, self, &mut sink);
                Some((TAG_RANGE, sink.finish()))
            }
        }
    }

    fn check_info(&self, tag: u8, info: u8) -> Result<(), DecodeError> {
        let mode = match tag {
            TAG_RICE | TAG_RANGE => self.reference.mode(),
            _ => 0,
        };
        let planes_counts = match tag {
            TAG_RAW_BITS | TAG_SNAPPY => 1..=1,
            TAG_RAW_PLANES => 2..=4,
            _ => 1..=4,
        };
        if info & 0x0f != mode || !planes_counts.contains(&(info >> 4)) {
            return Err(not_canonical("info of a support code"));
        }
        Ok(())
    }

    /// Rejects a second encoding of the same content: message identities cover bytes. A Rice code
    /// is checked while reading, all other forms by encoding again.
    fn check_canonical(
        &self,
        support: &Support,
        is_raw: bool,
        body: &[u8],
    ) -> Result<(), DecodeError> {
        let raw_bytes = self.raw_bytes(support.planes_count());
        let canonical = match self.encode_short(support) {
            Some((_, short)) if short.len() < raw_bytes => !is_raw && short == body,
            _ => is_raw,
        };
        if canonical {
            Ok(())
        } else {
            Err(not_canonical("support code"))
        }
    }

    /// One bit per cell: whether most positions of `below` in it are in `plane`.
    fn majorities(&self, plane: &Bitfield, below: &Bitfield) -> Bitfield {
        let mut majorities = Bitfield::new(self.cells_count());
        for (cell, range) in self.cells.ranges().enumerate() {
            // A tie leaves the flag unset. Both sides derive the flags, so the rule must leave no choice.
            if 2 * plane.count_range(range.clone()) > below.count_range(range) {
                majorities.set(cell);
            }
        }
        majorities
    }

    /// The positions of the cells whose bit is set.
    fn fill(&self, flags: &Bitfield) -> Bitfield {
        let mut fill = Bitfield::new(self.len());
        for (cell, range) in self.cells.ranges().enumerate() {
            if flags.get(cell) {
                fill.set_range(range);
            }
        }
        fill
    }
}

/// Maximum size of the code of a support over `n` positions, header included: no coding is longer
/// than the raw form.
///
/// # Panics
///
/// If `multiplicity_max` is 0 or above [`MULTIPLICITY_LIMIT`].
#[must_use]
pub fn code_bytes_max(n: usize, multiplicity_max: u8) -> usize {
    HEADER_BYTES + planes_max(multiplicity_max) * n.div_ceil(8)
}

/// Encodes `support` as one cell, with any multiplicity and `reference` as chain context.
///
/// # Panics
///
/// If `reference` differs in length from `support`.
#[must_use]
pub fn encode(support: &Support, coding: Coding, reference: Option<&Bitfield>) -> Vec<u8> {
    let cells = one_cell(support.len());
    let reference = reference.map_or(Reference::None, Reference::Chain);
    SupportCode::new(coding, MULTIPLICITY_LIMIT, &cells, reference).encode(support)
}

/// Decodes a raw or Rice code of a support over `n` positions, as one cell.
///
/// Raw is accepted even if Rice is shorter: the sender may have chosen [`Coding::Raw`]. If a
/// support must have only one code, use [`SupportCode`].
///
/// # Errors
///
/// If the bytes are not exactly one code within the bounds.
///
/// # Panics
///
/// If `multiplicity_max` is 0 or above [`MULTIPLICITY_LIMIT`], or `reference` does not have length
/// `n`.
pub fn decode(
    bytes: &[u8],
    n: usize,
    multiplicity_max: u8,
    reference: Option<&Bitfield>,
) -> Result<Support, DecodeError> {
    let mut reader = Reader::new(bytes);
    let support = decode_prefix(&mut reader, n, multiplicity_max, reference)?;
    reader.finish()?;
    Ok(support)
}

/// As [`decode`], from the front of a message; the code is self-delimiting.
///
/// # Errors
///
/// As [`decode`].
///
/// # Panics
///
/// As [`decode`].
pub(crate) fn decode_prefix(
    reader: &mut Reader<'_>,
    n: usize,
    multiplicity_max: u8,
    reference: Option<&Bitfield>,
) -> Result<Support, DecodeError> {
    // Any other tag is read as raw and rejected there.
    let coding = match reader.rest().first() {
        Some(&TAG_RICE) => Coding::Rice,
        _ => Coding::Raw,
    };
    let cells = one_cell(n);
    let reference = reference.map_or(Reference::None, Reference::Chain);
    SupportCode::new(coding, multiplicity_max, &cells, reference).decode_prefix(reader)
}

fn one_cell(n: usize) -> CellBounds {
    CellBounds::one(u32::try_from(n).expect("a layout has at most 2^22 positions"))
}

/// Number of binary planes that multiplicities up to `multiplicity_max` can need.
fn planes_max(multiplicity_max: u8) -> usize {
    assert!(
        (1..=MULTIPLICITY_LIMIT).contains(&multiplicity_max),
        "bound {multiplicity_max} of a multiplicity"
    );
    (u8::BITS - multiplicity_max.leading_zeros()) as usize
}

fn is_raw(tag: u8) -> bool {
    matches!(tag, TAG_RAW_BITS | TAG_RAW_PLANES)
}

fn not_canonical(what: &'static str) -> DecodeError {
    DecodeError::NotCanonical { what }
}

#[cfg(test)]
mod tests;
