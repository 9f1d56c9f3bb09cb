//! Messages, their codec and their size limits.
//!
//! Little-endian, fixed order, no optional fields: a message has one encoding, and bytes that decode re-encode to
//! themselves. Fields whose length is fixed by the scheme have no length prefix, all others a u32. From the
//! [`WireFormat`] a decoder knows the maximum length of each field before reading it. Bytes after the last field are
//! rejected.
//!
//! | message | fields |
//! |---|---|
//! | [`VoteMsg`] | version u8, kind u8, vote 120, validator u32, signature |
//! | [`Aggregate`] | version, kind, vote, unit, sender u32, proof of selection, support, evidence, envelope |
//! | [`Block`] | version, kind, header 76, proposer's signature, count u32, entries, filler |
//!
//! A unit is level u8, committee u16, index u16. An entry is vote, committee u16, support, evidence.
//!
//! If one piece of evidence proves all entries of a block ([`WireFormat::bundle`]), entries have none of their own. It
//! follows them, if there are any.
//!
//! The support uses the code of [`alphorn_types::support_code`]. Signatures cover content, never encoding: envelopes
//! cover the support in canonical raw planes ([`digest`]).

mod block;
pub mod digest;
mod evidence;
mod message;
mod reject;

use alphorn_scheme::EvidenceLength;
use alphorn_types::support_code::{self, Coding};
use alphorn_types::{Bitfield, DecodeError, Layout, Reader, Writer};
use thiserror::Error;

pub use alphorn_types::{Kind, NetworkDigest, Topic, TopicError, TopicName};
pub(crate) use block::BLOCK_ENTRIES_MAX;
pub use block::{Block, Body, ENTRY_HEAD_BYTES, Entry, HEADER_BYTES, Header};
pub use message::{Aggregate, Checkpoint, Head, VOTE_BYTES, Vote, VoteMsg};
pub use reject::Reject;

/// A SHA-256 digest that identifies a block.
pub type Root = [u8; 32];

/// Size of a unit in bytes: level u8, committee u16, index u16.
const UNIT_BYTES: usize = 5;

/// Maximum multiplicity of sums of votes that are summed again. A quorum of witnesses needs three picks of a cell, and
/// five such sums count 15.
const SUMMED_AGAIN_MAX: u8 = 3;

/// Version of every message of this crate.
pub const VERSION: u8 = 1;

/// Maximum size of a vote message in bytes.
pub(crate) const VOTE_BYTES_MAX: usize = 8 << 10;
/// Maximum size of an aggregate below the top level, in bytes.
pub(crate) const AGGREGATE_BYTES_MAX: usize = 2 << 20;
/// Maximum size of a collection in bytes.
pub(crate) const COLLECTION_BYTES_MAX: usize = 16 << 20;
/// Maximum size of a block in bytes.
pub(crate) const BLOCK_BYTES_MAX: usize = 16 << 20;

/// The second byte of a kind's messages: aggregates of all levels share one message type.
const fn tag_of(kind: Kind) -> u8 {
    match kind {
        Kind::Vote => 1,
        Kind::Aggregate | Kind::Collection => 2,
        Kind::Block => 4,
    }
}

/// Maximum size of a message of this kind in bytes, whatever the scheme.
pub(crate) const fn cap_bytes(kind: Kind) -> usize {
    match kind {
        Kind::Vote => VOTE_BYTES_MAX,
        Kind::Aggregate => AGGREGATE_BYTES_MAX,
        Kind::Collection => COLLECTION_BYTES_MAX,
        Kind::Block => BLOCK_BYTES_MAX,
    }
}

/// What the code of a support may refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Context {
    /// Nothing: every message is self-contained.
    #[default]
    None,
    /// The validators of the committee whose votes the block `vote.head` includes.
    Chain,
}

/// Looks up the reference of [`Context::Chain`] for a decoder: for a vote and a committee, one bit per position of that
/// committee, or none if the block `vote.head` is unknown.
///
/// Called only under [`Context::Chain`].
pub(crate) type References<'a> = &'a dyn Fn(&Vote, u16) -> Option<Bitfield>;

/// The `References` of a network whose messages refer to nothing.
pub fn no_references(_: &Vote, _: u16) -> Option<Bitfield> {
    None
}

/// Error for a message that cannot be written: its support refers to an unknown block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("support of committee {committee} refers to a block that is not known")]
pub struct MissingReference {
    /// The block, `vote.head`.
    pub head: Root,
    /// The committee.
    pub committee: u16,
}

/// Error for a format whose messages cannot fit the caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The fields fixed by the scheme exceed the cap of that kind of message.
    #[error("{kind} of at least {value} bytes, must be at most {max}")]
    TooLong {
        /// The kind of message.
        kind: Kind,
        /// Its minimum length.
        value: usize,
        /// The cap.
        max: usize,
    },
    /// The bound on multiplicities is not 1, 3, 7 or 15.
    #[error("multiplicity_max = {value}, must be 1, 3, 7 or 15")]
    Multiplicity {
        /// The requested value.
        value: u8,
    },
}

/// Lengths of all fields, fixed for a network: the context a decoder needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireFormat {
    /// Committees and cells: number of positions of each support.
    pub layout: Layout,
    /// Size of a vote's signature in bytes.
    pub signature_bytes: usize,
    /// Size of a duty signature (envelopes, blocks) in bytes.
    pub duty_signature_bytes: usize,
    /// Size of a proof of selection in bytes; none if selection is by rank.
    pub selection_proof_bytes: Option<usize>,
    /// Length of the evidence of each level, from level 1.
    pub evidence: Vec<EvidenceLength>,
    /// Maximum multiplicity in combined evidence: 1, 3, 7 or 15.
    pub multiplicity_max: u8,
    /// How supports are encoded.
    pub coding: Coding,
    /// What their codes may refer to.
    pub context: Context,
    /// Length of the evidence shared by a block's entries; none if each has its own.
    pub bundle: Option<EvidenceLength>,
}

impl WireFormat {
    /// Length of the evidence of a level.
    ///
    /// # Panics
    ///
    /// If the layout has no such level.
    pub fn evidence(&self, level: u8) -> EvidenceLength {
        self.evidence[usize::from(level) - 1]
    }

    /// The message kind that carries evidence of a level.
    pub fn kind(&self, level: u8) -> Kind {
        match level < self.layout.levels() {
            true => Kind::Aggregate,
            false => Kind::Collection,
        }
    }

    /// Maximum multiplicity in evidence of a level. Single votes count once. If sums are summed again, those of cells
    /// leave room for that.
    pub fn multiplicity(&self, level: u8) -> u8 {
        match level {
            1 => 1,
            2 if self.layout.levels() > 2 => self.multiplicity_max.min(SUMMED_AGAIN_MAX),
            _ => self.multiplicity_max,
        }
    }

    /// Checks that the format permits messages.
    ///
    /// # Errors
    ///
    /// If the fields fixed by the scheme alone exceed a cap, or the bound on multiplicities is not 1, 3, 7 or 15.
    pub(crate) fn check(&self) -> Result<(), FormatError> {
        // The highest counts of one to four whole planes.
        if !matches!(self.multiplicity_max, 1 | 3 | 7 | 15) {
            return Err(FormatError::Multiplicity {
                value: self.multiplicity_max,
            });
        }
        let levels = (1..=self.layout.levels()).map(|level| {
            let fixed = self.aggregate_fixed_bytes(level);
            (self.kind(level), fixed)
        });
        let others = [Kind::Vote, Kind::Block].map(|kind| (kind, self.fixed_bytes(kind)));
        for (kind, value) in others.into_iter().chain(levels) {
            let max = cap_bytes(kind);
            if value > max {
                return Err(FormatError::TooLong { kind, value, max });
            }
        }
        Ok(())
    }

    /// Maximum size of a message of `kind` in bytes: the sum of its fields, limited by the hard cap. It is the limit of
    /// the topic and of its receive buffer.
    pub fn bytes_max(&self, kind: Kind) -> usize {
        let top = self.layout.levels();
        match kind {
            Kind::Vote => self.fixed_bytes(kind).min(cap_bytes(kind)),
            Kind::Aggregate => {
                // With one level nothing is below the top, and the kind has the limit of that level.
                let below = (1..top.max(2)).map(|level| self.level_bytes_max(level));
                below.max().unwrap_or(0)
            }
            Kind::Collection => self.level_bytes_max(top),
            Kind::Block => cap_bytes(kind),
        }
    }

    /// Maximum size of an aggregate of a level in bytes.
    pub(crate) fn level_bytes_max(&self, level: u8) -> usize {
        self.aggregate_fixed_bytes(level)
            .saturating_add(self.support_bytes_max(level))
            .saturating_add(variable_bytes(self.evidence(level)))
            .min(cap_bytes(self.kind(level)))
    }

    /// Total size of the fields with the same length in all votes or blocks.
    fn fixed_bytes(&self, kind: Kind) -> usize {
        // Version and kind, then for a block its header and the lengths of entries and filler, for a vote its content
        // and voter.
        let (around, signature) = match kind {
            Kind::Block => (2 + HEADER_BYTES + 4 + 4, self.duty_signature_bytes),
            _ => (2 + VOTE_BYTES + 4, self.signature_bytes),
        };
        signature.saturating_add(around)
    }

    /// Total size of the fields with the same length in all aggregates of a level.
    fn aggregate_fixed_bytes(&self, level: u8) -> usize {
        let proof = self.selection_proof_bytes.unwrap_or(0);
        let parts = [
            proof,
            fixed_bytes(self.evidence(level)),
            self.duty_signature_bytes,
        ];
        let around = 2 + VOTE_BYTES + UNIT_BYTES + 4;
        parts.iter().fold(around, |a, &b| a.saturating_add(b))
    }

    /// Maximum size of a support code in an aggregate of a level, in bytes.
    fn support_bytes_max(&self, level: u8) -> usize {
        let positions = self.layout.unit_len_max(level) as usize;
        support_code::code_bytes_max(positions, self.multiplicity(level))
    }

    /// Maximum size of one block entry in bytes.
    pub(crate) fn entry_bytes_max(&self) -> usize {
        let top = self.layout.levels();
        let own = match self.bundle {
            Some(_) => 0,
            None => evidence_bytes_max(self.evidence(top)),
        };
        (ENTRY_HEAD_BYTES + self.support_bytes_max(top)).saturating_add(own)
    }

    /// Maximum size of the evidence shared by a block's entries, including its length field; none if each has its own.
    pub(crate) fn bundle_bytes_max(&self) -> usize {
        self.bundle.map_or(0, evidence_bytes_max)
    }
}

/// Maximum size of evidence in bytes, including its length field.
fn evidence_bytes_max(length: EvidenceLength) -> usize {
    fixed_bytes(length).saturating_add(variable_bytes(length))
}

/// Fixed part of the size of evidence: all of it if its length is fixed, otherwise its length field.
fn fixed_bytes(length: EvidenceLength) -> usize {
    match length {
        EvidenceLength::Fixed(bytes) => bytes,
        EvidenceLength::Max(_) => 4,
    }
}

/// Maximum variable part of the size of evidence.
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

/// Starts reading a message: checks its length against the cap, its version and its kind.
fn open<'a>(bytes: &'a [u8], kind: Kind) -> Result<Reader<'a>, DecodeError> {
    if bytes.len() > cap_bytes(kind) {
        return Err(DecodeError::TooLong {
            what: kind.name(),
            value: bytes.len() as u64,
            max: cap_bytes(kind) as u64,
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
    if tag != tag_of(kind) {
        return Err(DecodeError::UnknownTag {
            what: "message kind",
            value: u64::from(tag),
        });
    }
    Ok(reader)
}

/// Checks that an index is below `count`.
fn index(what: &'static str, value: u64, count: u64) -> Result<(), DecodeError> {
    if value >= count {
        return Err(DecodeError::OutOfRange {
            what,
            value,
            // Every count of a layout is at least 1.
            max: count - 1,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
