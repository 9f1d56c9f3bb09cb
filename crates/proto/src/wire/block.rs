//! Blocks: a header, the proposer's signature, collections of earlier slots, filler.

use alphorn_scheme::{Bytes, Evidence};
use alphorn_types::{DecodeError, Reader, Slot, Validator, Writer};

use super::evidence::{read_proof, write_proof};
use super::message::{read_committee, read_validator};
use super::{
    Aggregate, BLOCK_BYTES_MAX, Kind, MissingReference, References, Root, VERSION, VOTE_BYTES,
    Vote, WireFormat, digest, index, open, tag_of, write_fixed,
};

/// Size of an encoded [`Header`] in bytes.
pub const HEADER_BYTES: usize = 76;

/// Maximum number of collections in a block.
pub(crate) const BLOCK_ENTRIES_MAX: usize = 2_048;

/// Bytes of an entry before its support.
pub const ENTRY_HEAD_BYTES: usize = VOTE_BYTES + 2;

/// The header of a block. Its digest identifies the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Header {
    /// The slot that the block was made for.
    pub slot: Slot,
    /// The proposer.
    pub proposer: Validator,
    /// Root of the parent block.
    pub parent: Root,
    /// [`digest::body_digest`] of the body.
    pub body: [u8; 32],
}

impl Header {
    /// Encodes the header in 76 bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(&self.slot.0.to_le_bytes());
        out[8..12].copy_from_slice(&self.proposer.0.to_le_bytes());
        out[12..44].copy_from_slice(&self.parent);
        out[44..].copy_from_slice(&self.body);
        out
    }

    /// Decodes a header from 76 bytes; every input is valid.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [s0, s1, s2, s3, s4, s5, s6, s7, p0, p1, p2, p3, roots @ ..] = bytes;
        let (mut parent, mut body) = ([0; 32], [0; 32]);
        parent.copy_from_slice(&roots[..32]);
        body.copy_from_slice(&roots[32..]);
        Self {
            slot: Slot(u64::from_le_bytes([*s0, *s1, *s2, *s3, *s4, *s5, *s6, *s7])),
            proposer: Validator(u32::from_le_bytes([*p0, *p1, *p2, *p3])),
            parent,
            body,
        }
    }

    /// The root of the block: `digest::block_root`.
    pub fn root(&self) -> Root {
        digest::block_root(self)
    }

    /// Reads only the header of an encoded block: all that a receiver needs to know of a block
    /// whose parent it does not have.
    ///
    /// # Errors
    ///
    /// If the bytes do not start like a block.
    pub fn peek(bytes: &[u8], format: &WireFormat) -> Result<Self, DecodeError> {
        Self::read(&mut open(bytes, Kind::Block)?, format)
    }

    fn read(reader: &mut Reader<'_>, format: &WireFormat) -> Result<Self, DecodeError> {
        Ok(Self {
            slot: Slot(reader.u64()?),
            proposer: read_validator(reader, format)?,
            parent: reader.array()?,
            body: reader.array()?,
        })
    }
}

/// A collection inside a block: its claim, without the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The vote that all signers sign.
    pub vote: Vote,
    /// The committee.
    pub committee: u16,
    /// The multiplicity of each position of the committee, and the evidence of the votes. The
    /// evidence is empty in a block whose entries share one piece.
    pub evidence: Evidence,
}

impl Entry {
    /// Digest of the entry's claim: `digest::entry_digest`.
    pub fn digest(&self, format: &WireFormat) -> [u8; 32] {
        digest::entry_digest(&self.vote, self.committee, &self.evidence, format)
    }

    /// Appends the entry to a message.
    fn write(
        &self,
        writer: &mut Writer,
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<(), MissingReference> {
        writer.bytes(&self.vote.encode());
        writer.u16(self.committee);
        let (vote, unit) = (&self.vote, format.layout.committee(self.committee));
        if format.bundle.is_none() {
            return format.write_evidence(writer, &self.evidence, vote, unit, references);
        }
        assert!(
            self.evidence.bytes.is_empty(),
            "an entry with evidence of its own where all share one"
        );
        format.write_support(writer, &self.evidence.support, vote, unit, references)
    }

    fn read(
        reader: &mut Reader<'_>,
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Self, DecodeError> {
        let vote = Vote::read(reader)?;
        let committee = read_committee(reader, format)?;
        let unit = format.layout.committee(committee);
        let evidence = match format.bundle {
            None => format.read_evidence(reader, &vote, unit, references)?,
            Some(_) => Evidence {
                support: format.read_support(reader, &vote, unit, references)?,
                bytes: Bytes::from([]),
            },
        };
        Ok(Self {
            vote,
            committee,
            evidence,
        })
    }

    /// The entry without its own evidence, as in a block whose entries share one piece.
    pub fn bare(&self) -> Self {
        Self {
            evidence: Evidence {
                support: self.evidence.support.clone(),
                bytes: Bytes::from([]),
            },
            ..*self
        }
    }

    /// Size of the entry with its support in raw planes: its memory use.
    pub(crate) fn raw_bytes(&self) -> usize {
        let support = &self.evidence.support;
        ENTRY_HEAD_BYTES
            + support.planes_count() * support.len().div_ceil(8)
            + self.evidence.bytes.len()
    }

    /// Size of the entry in a block.
    ///
    /// # Errors
    ///
    /// [`MissingReference`] if the support's code must refer to an unknown block.
    pub(crate) fn encoded_bytes(
        &self,
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<usize, MissingReference> {
        let mut writer = Writer::new();
        self.write(&mut writer, format, references)?;
        Ok(writer.len())
    }
}

/// The entry of a collection, that is, an aggregate of the top level.
impl From<&Aggregate> for Entry {
    fn from(collection: &Aggregate) -> Self {
        Self {
            vote: collection.vote,
            committee: collection.unit.committee,
            evidence: collection.evidence.clone(),
        }
    }
}

/// The content of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Collections, at most `BLOCK_ENTRIES_MAX`. With supports in raw planes they have at most
    /// `BLOCK_BYTES_MAX` bytes, so that a short code cannot expand without bound.
    pub entries: Vec<Entry>,
    /// Evidence that proves all entries together; empty if each has its own, or if there are none.
    pub bundle: Bytes,
    /// Meaningless bytes, for experiments with block size.
    pub filler: Bytes,
}

impl Body {
    /// Encodes the body, which the header's digest covers.
    ///
    /// # Errors
    ///
    /// [`MissingReference`] if a support's code must refer to an unknown block.
    ///
    /// # Panics
    ///
    /// If there are more than `BLOCK_ENTRIES_MAX` entries, a field does not have the length set by
    /// the format, or there is evidence where the format has none.
    pub fn encode(
        &self,
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Vec<u8>, MissingReference> {
        let count = self.entries.len();
        assert!(count <= BLOCK_ENTRIES_MAX, "{count} entries in a block");
        let mut writer = Writer::new();
        writer.u32(count as u32);
        for entry in &self.entries {
            entry.write(&mut writer, format, references)?;
        }
        match format.bundle.filter(|_| count > 0) {
            Some(length) => write_proof(&mut writer, &self.bundle, length),
            None => assert!(self.bundle.is_empty(), "evidence of no entries"),
        }
        writer.bytes_u32_prefixed(&self.filler);
        Ok(writer.into_vec())
    }

    fn read(
        reader: &mut Reader<'_>,
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Self, DecodeError> {
        let count = reader.u32()?;
        // `index` rejects the bound itself, but a full block is valid.
        index("entries", u64::from(count), BLOCK_ENTRIES_MAX as u64 + 1)?;
        // Grows with the entries actually read: a count alone reserves nothing.
        let mut entries = Vec::new();
        let mut raw_bytes = 0;
        for _ in 0..count {
            let entry = Entry::read(reader, format, references)?;
            raw_bytes += entry.raw_bytes();
            if raw_bytes > BLOCK_BYTES_MAX {
                return Err(DecodeError::TooLong {
                    what: "entries in raw planes",
                    value: raw_bytes as u64,
                    max: BLOCK_BYTES_MAX as u64,
                });
            }
            entries.push(entry);
        }
        let bundle = match format.bundle.filter(|_| count > 0) {
            Some(length) => read_proof(reader, length)?,
            None => Bytes::from([]),
        };
        let filler = reader.bytes_u32_prefixed(BLOCK_BYTES_MAX)?.into();
        Ok(Self {
            entries,
            bundle,
            filler,
        })
    }
}

/// A block in wire form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The header.
    pub header: Header,
    /// The proposer's duty signature of [`digest::block_message`].
    pub signature: Bytes,
    /// The body under the header's digest.
    pub body: Body,
}

impl Block {
    /// Encodes the message.
    ///
    /// # Errors
    ///
    /// [`MissingReference`] if a support's code must refer to an unknown block.
    ///
    /// # Panics
    ///
    /// If a field does not have the length set by the format, or there are too many entries.
    pub fn encode(
        &self,
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Vec<u8>, MissingReference> {
        let mut writer = Writer::new();
        writer.u8(VERSION);
        writer.u8(tag_of(Kind::Block));
        writer.bytes(&self.header.encode());
        let signature_bytes = format.duty_signature_bytes;
        write_fixed(
            &mut writer,
            &self.signature,
            signature_bytes,
            "a block's signature",
        );
        writer.bytes(&self.body.encode(format, references)?);
        Ok(writer.into_vec())
    }

    /// Decodes a block.
    ///
    /// # Errors
    ///
    /// If the bytes are invalid, an index is outside the layout, or the body does not match the
    /// header's digest; [`DecodeError::Missing`] if a support refers to an unknown block.
    pub fn decode(
        bytes: &[u8],
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Self, DecodeError> {
        let mut reader = open(bytes, Kind::Block)?;
        let header = Header::read(&mut reader, format)?;
        // Not covered by the root: two messages of the same block may differ in it.
        let signature = reader.bytes(format.duty_signature_bytes)?.into();
        // Check the digest first: it is cheaper than reading the supports of a body that does not
        // match.
        if digest::body_digest(reader.rest()) != header.body {
            return Err(DecodeError::NotCanonical {
                what: "body of a block",
            });
        }
        let body = Body::read(&mut reader, format, references)?;
        reader.finish()?;
        Ok(Self {
            header,
            signature,
            body,
        })
    }
}
