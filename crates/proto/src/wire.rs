//! Messages, their codec and their size limits.
//!
//! Little-endian, fixed order, no optional field: a message has one encoding, and bytes that
//! decode re-encode to themselves. Fields whose length the scheme fixes have no length in front,
//! all others a u32. Every decoder knows from the [`WireFormat`] how long each field may be before
//! it reads it, and refuses bytes that follow the last field.
//!
//! | message | fields |
//! |---|---|
//! | [`VoteMsg`] | version u8, kind u8, vote 120, validator u32, signature |
//! | [`Aggregate`] | version, kind, vote, committee u16, subcommittee u16, sender u32, proof of selection, support, evidence, envelope |
//! | [`Collection`] | version, kind, vote, committee u16, sender u32, proof of selection, support, evidence, envelope |
//! | [`Block`] | version, kind, header 76, proposer's signature, count u32, entries (vote, committee u16, support, evidence), filler |
//!
//! The support is the code of [`alphorn_types::support_code`]. What is signed is content, never
//! encoding: envelopes cover the support in canonical raw planes ([`digest`]).

mod block;
pub mod digest;
mod message;
mod reject;
mod topic;

use alphorn_scheme::{EvidenceLength, Layer, Scheme};
use alphorn_types::support_code::{self, CellBounds, Coding, Reference, SupportCode};
use alphorn_types::{Bitfield, Cell, DecodeError, Layout, Reader, Support, Writer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

pub use block::{BLOCK_ENTRIES_MAX, Block, Body, ENTRY_HEAD_BYTES, Entry, HEADER_BYTES, Header};
pub use message::{Aggregate, Checkpoint, Collection, VOTE_BYTES, Vote, VoteMsg};
pub use reject::Reject;
pub use topic::{Topic, TopicError, TopicName};

/// A SHA-256 digest that names a block.
pub type Root = [u8; 32];

/// Version of every message of this crate.
pub const VERSION: u8 = 1;

/// Most bytes of a vote message.
pub const VOTE_BYTES_MAX: usize = 8 << 10;
/// Most bytes of an aggregate.
pub const AGGREGATE_BYTES_MAX: usize = 2 << 20;
/// Most bytes of a collection.
pub const COLLECTION_BYTES_MAX: usize = 16 << 20;
/// Most bytes of a block.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;

/// The second byte of a message: what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A [`VoteMsg`].
    Vote = 1,
    /// An [`Aggregate`].
    Aggregate = 2,
    /// A [`Collection`].
    Collection = 3,
    /// A [`Block`].
    Block = 4,
}

impl Kind {
    /// All kinds in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Vote, Self::Aggregate, Self::Collection, Self::Block];

    /// The name in traces, metrics and topics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vote => "vote",
            Self::Aggregate => "aggregate",
            Self::Collection => "collection",
            Self::Block => "block",
        }
    }

    /// Most bytes that a message of this kind ever has, whatever the scheme.
    pub const fn cap_bytes(self) -> usize {
        match self {
            Self::Vote => VOTE_BYTES_MAX,
            Self::Aggregate => AGGREGATE_BYTES_MAX,
            Self::Collection => COLLECTION_BYTES_MAX,
            Self::Block => BLOCK_BYTES_MAX,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// First four bytes of SHA-256 of the canonical genesis parameters; keeps networks apart in
/// topics and in everything that is signed. As text: eight lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkDigest(pub [u8; 4]);

impl fmt::Display for NetworkDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl FromStr for NetworkDigest {
    type Err = TopicError;

    fn from_str(text: &str) -> Result<Self, TopicError> {
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 8 || !text.bytes().all(digit) {
            return Err(TopicError::Digest);
        }
        let value = u32::from_str_radix(text, 16).map_err(|_| TopicError::Digest)?;
        Ok(Self(value.to_be_bytes()))
    }
}

/// What the code of a support may refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Context {
    /// Nothing: a message is readable by itself.
    #[default]
    None,
    /// The validators of the committee whose votes the block `vote.head` includes.
    Chain,
}

/// Where a decoder finds the reference of [`Context::Chain`]: for a vote and a committee, one bit
/// for each position of that committee, or nothing if the block `vote.head` is unknown.
///
/// Asked for only under [`Context::Chain`].
pub type References<'a> = &'a dyn Fn(&Vote, u16) -> Option<Bitfield>;

/// The [`References`] of a network whose messages refer to nothing.
pub fn no_references(_: &Vote, _: u16) -> Option<Bitfield> {
    None
}

/// A message cannot be written: its support refers to a block that is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("support of committee {committee} refers to a block that is not known")]
pub struct MissingReference {
    /// The block, `vote.head`.
    pub head: Root,
    /// The committee.
    pub committee: u16,
}

/// A format whose messages cannot fit the caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// A field that the scheme fixes is longer than a message of that kind.
    #[error("{kind} of at least {value} bytes, must be at most {max}")]
    TooLong {
        /// The kind of message.
        kind: Kind,
        /// Its least length.
        value: usize,
        /// The cap.
        max: usize,
    },
    /// The bound on multiplicities is none of 1, 3, 7, 15.
    #[error("multiplicity_max = {value}, must be 1, 3, 7 or 15")]
    Multiplicity {
        /// The value asked for.
        value: u8,
    },
}

/// Lengths of all fields, fixed for a network: what a decoder must know besides the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireFormat {
    /// Committees and cells: number of positions of each support.
    pub layout: Layout,
    /// Bytes of a vote's signature.
    pub signature_bytes: usize,
    /// Bytes of a duty signature (envelopes, blocks).
    pub duty_signature_bytes: usize,
    /// Bytes of a proof of selection; none where selection is by rank.
    pub selection_proof_bytes: Option<usize>,
    /// Length of the evidence of aggregates.
    pub aggregate_evidence: EvidenceLength,
    /// Length of the evidence of collections.
    pub collection_evidence: EvidenceLength,
    /// Greatest multiplicity in a collection: 1, 3, 7 or 15.
    pub multiplicity_max: u8,
    /// How supports are written.
    pub coding: Coding,
    /// What their codes may refer to.
    pub context: Context,
}

impl WireFormat {
    /// The format of a network that runs `scheme` on `layout`, with a proof of selection in each
    /// message if `lottery`.
    ///
    /// # Errors
    ///
    /// [`FormatError`], as [`check`](Self::check).
    pub fn for_scheme<S: Scheme>(
        scheme: &S,
        layout: Layout,
        lottery: bool,
        multiplicity_max: u8,
        coding: Coding,
        context: Context,
    ) -> Result<Self, FormatError> {
        let sizes = scheme.sizes();
        let format = Self {
            layout,
            signature_bytes: sizes.signature_bytes,
            duty_signature_bytes: sizes.duty_signature_bytes,
            selection_proof_bytes: sizes.selection_proof_bytes.filter(|_| lottery),
            aggregate_evidence: scheme.evidence_length(Layer::Aggregate, layout.cell_len_max()),
            collection_evidence: scheme
                .evidence_length(Layer::Collection, layout.committee_len_max()),
            multiplicity_max,
            coding,
            context,
        };
        format.check()?;
        Ok(format)
    }

    /// Refuses a format that no message could have.
    ///
    /// # Errors
    ///
    /// If the fields that the scheme fixes alone are longer than a cap, or the bound on
    /// multiplicities is none of 1, 3, 7 and 15.
    pub fn check(&self) -> Result<(), FormatError> {
        if !matches!(self.multiplicity_max, 1 | 3 | 7 | 15) {
            return Err(FormatError::Multiplicity {
                value: self.multiplicity_max,
            });
        }
        for kind in Kind::ALL {
            let (value, max) = (self.fixed_bytes(kind), kind.cap_bytes());
            if value > max {
                return Err(FormatError::TooLong { kind, value, max });
            }
        }
        Ok(())
    }

    /// Most bytes of a message of `kind`: what the fields can add up to, under the hard cap. The
    /// limit of the topic, and of the buffer that receives from it.
    pub fn bytes_max(&self, kind: Kind) -> usize {
        let variable = match kind {
            Kind::Vote => 0,
            Kind::Aggregate => variable_bytes(self.aggregate_evidence),
            Kind::Collection => variable_bytes(self.collection_evidence),
            Kind::Block => kind.cap_bytes(),
        };
        self.fixed_bytes(kind)
            .saturating_add(self.support_bytes_max(kind))
            .saturating_add(variable)
            .min(kind.cap_bytes())
    }

    /// Bytes of the fields whose length is the same in all messages of `kind`.
    fn fixed_bytes(&self, kind: Kind) -> usize {
        let proof = self.selection_proof_bytes.unwrap_or(0);
        let sent = 2 + VOTE_BYTES + 4;
        let sum = |parts: &[usize]| parts.iter().fold(0usize, |a, &b| a.saturating_add(b));
        match kind {
            Kind::Vote => sum(&[sent, self.signature_bytes]),
            Kind::Aggregate => sum(&[
                sent + 4,
                proof,
                fixed_bytes(self.aggregate_evidence),
                self.duty_signature_bytes,
            ]),
            Kind::Collection => sum(&[
                sent + 2,
                proof,
                fixed_bytes(self.collection_evidence),
                self.duty_signature_bytes,
            ]),
            Kind::Block => sum(&[2 + HEADER_BYTES + 4 + 4, self.duty_signature_bytes]),
        }
    }

    /// Most bytes of the code of a support in a message of `kind`.
    fn support_bytes_max(&self, kind: Kind) -> usize {
        match kind {
            Kind::Vote | Kind::Block => 0,
            Kind::Aggregate => support_code::code_bytes_max(self.layout.cell_len_max() as usize, 1),
            Kind::Collection => support_code::code_bytes_max(
                self.layout.committee_len_max() as usize,
                self.multiplicity_max,
            ),
        }
    }

    /// Most bytes of one block entry.
    pub fn entry_bytes_max(&self) -> usize {
        (ENTRY_HEAD_BYTES + self.support_bytes_max(Kind::Collection))
            .saturating_add(fixed_bytes(self.collection_evidence))
            .saturating_add(variable_bytes(self.collection_evidence))
    }
}

/// What a support is over: all positions of a committee, or those of one of its cells.
#[derive(Clone, Copy)]
enum Over {
    Cell(Cell),
    Committee(u16),
}

impl Over {
    fn committee(self) -> u16 {
        match self {
            Self::Cell(cell) => cell.committee,
            Self::Committee(committee) => committee,
        }
    }

    fn cells(self, layout: &Layout) -> CellBounds {
        match self {
            Self::Cell(cell) => CellBounds::one(layout.cell_len(cell)),
            Self::Committee(committee) => CellBounds::committee(layout, committee),
        }
    }
}

impl WireFormat {
    /// The part of the committee's reference that belongs to a support, none outside
    /// [`Context::Chain`].
    fn reference(
        &self,
        vote: &Vote,
        over: Over,
        references: References<'_>,
    ) -> Result<Option<Bitfield>, MissingReference> {
        if self.context == Context::None {
            return Ok(None);
        }
        let committee = over.committee();
        let whole = references(vote, committee).ok_or(MissingReference {
            head: vote.head,
            committee,
        })?;
        Ok(Some(match over {
            Over::Committee(_) => whole,
            Over::Cell(cell) => {
                let range = self.layout.cell_in_committee(cell);
                whole.extract(range.start as usize..range.end as usize)
            }
        }))
    }

    fn write_support(
        &self,
        writer: &mut Writer,
        support: &Support,
        vote: &Vote,
        over: Over,
        references: References<'_>,
    ) -> Result<(), MissingReference> {
        let reference = self.reference(vote, over, references)?;
        let cells = over.cells(&self.layout);
        let code = self.support_code(over, &cells, reference.as_ref());
        writer.bytes(&code.encode(support));
        Ok(())
    }

    fn read_support(
        &self,
        reader: &mut Reader<'_>,
        vote: &Vote,
        over: Over,
        references: References<'_>,
    ) -> Result<Support, DecodeError> {
        let reference =
            self.reference(vote, over, references)
                .map_err(|_| DecodeError::Missing {
                    what: "block of the vote's head",
                })?;
        let cells = over.cells(&self.layout);
        self.support_code(over, &cells, reference.as_ref())
            .decode_prefix(reader)
    }

    fn support_code<'a>(
        &self,
        over: Over,
        cells: &'a CellBounds,
        reference: Option<&'a Bitfield>,
    ) -> SupportCode<'a> {
        let multiplicity_max = match over {
            Over::Cell(_) => 1,
            Over::Committee(_) => self.multiplicity_max,
        };
        let reference = reference.map_or(Reference::None, Reference::Chain);
        SupportCode::new(self.coding, multiplicity_max, cells, reference)
    }
}

/// Bytes that evidence always has: its own where they are fixed, else its length field.
fn fixed_bytes(length: EvidenceLength) -> usize {
    match length {
        EvidenceLength::Fixed(bytes) => bytes,
        EvidenceLength::Max(_) => 4,
    }
}

/// Bytes that evidence may have besides.
fn variable_bytes(length: EvidenceLength) -> usize {
    match length {
        EvidenceLength::Fixed(_) => 0,
        EvidenceLength::Max(bytes) => bytes,
    }
}

fn write_fixed(writer: &mut Writer, bytes: &[u8], expected: usize, what: &str) {
    assert_eq!(bytes.len(), expected, "bytes of {what}");
    writer.bytes(bytes);
}

fn write_evidence(writer: &mut Writer, bytes: &[u8], length: EvidenceLength) {
    match length {
        EvidenceLength::Fixed(expected) => write_fixed(writer, bytes, expected, "evidence"),
        EvidenceLength::Max(max) => {
            assert!(bytes.len() <= max, "evidence of {} bytes", bytes.len());
            writer.bytes_u32_prefixed(bytes);
        }
    }
}

fn read_evidence<'a>(
    reader: &mut Reader<'a>,
    length: EvidenceLength,
) -> Result<&'a [u8], DecodeError> {
    match length {
        EvidenceLength::Fixed(bytes) => reader.bytes(bytes),
        EvidenceLength::Max(max) => reader.bytes_u32_prefixed(max),
    }
}

/// Begins to read a message: its length against the cap, its version and its kind.
fn open<'a>(bytes: &'a [u8], kind: Kind) -> Result<Reader<'a>, DecodeError> {
    if bytes.len() > kind.cap_bytes() {
        return Err(DecodeError::TooLong {
            what: kind.name(),
            value: bytes.len() as u64,
            max: kind.cap_bytes() as u64,
        });
    }
    let mut reader = Reader::new(bytes);
    let version = reader.u8()?;
    if version != VERSION {
        return Err(DecodeError::UnknownTag {
            what: "message version",
            value: u64::from(version),
        });
    }
    let tag = reader.u8()?;
    if tag != kind as u8 {
        return Err(DecodeError::UnknownTag {
            what: "message kind",
            value: u64::from(tag),
        });
    }
    Ok(reader)
}

/// Reads an index that must be below `count`.
fn index(what: &'static str, value: u64, count: u64) -> Result<(), DecodeError> {
    if value >= count {
        return Err(DecodeError::OutOfRange {
            what,
            value,
            max: count - 1,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
