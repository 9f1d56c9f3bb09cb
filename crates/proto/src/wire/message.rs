//! Votes, aggregates and collections.

use alphorn_scheme::{Bytes, Evidence};
use alphorn_types::{Cell, DecodeError, Reader, Slot, Validator, Writer};
use std::sync::Arc;

use super::{
    Kind, MissingReference, Over, References, Root, VERSION, WireFormat, index, open,
    read_evidence, write_evidence, write_fixed,
};

/// Bytes of an encoded [`Vote`].
pub const VOTE_BYTES: usize = 120;

/// A block as the boundary of a slot: the block at or before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checkpoint {
    /// The slot.
    pub slot: Slot,
    /// Root of the last block at or before it.
    pub root: Root,
}

/// What a validator votes for; all who agree sign the same 120 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vote {
    /// The slot of the vote.
    pub slot: Slot,
    /// Root of the head block, for the fork choice.
    pub head: Root,
    /// The highest justified checkpoint in the head's chain.
    pub source: Checkpoint,
    /// The checkpoint to be justified: the vote's slot and the head.
    pub target: Checkpoint,
}

impl Vote {
    /// The 120 bytes that are hashed, signed and sent.
    pub fn encode(&self) -> [u8; VOTE_BYTES] {
        let mut out = [0; VOTE_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.slot.0.to_le_bytes());
        put(&self.head);
        for checkpoint in [&self.source, &self.target] {
            put(&checkpoint.slot.0.to_le_bytes());
            put(&checkpoint.root);
        }
        out
    }

    /// The vote that 120 bytes encode; all bytes do.
    pub fn decode(bytes: &[u8; VOTE_BYTES]) -> Self {
        Self::read(&mut Reader::new(bytes)).expect("120 bytes hold every field of a vote")
    }

    /// The vote of a [`VoteMsg`], an [`Aggregate`] or a [`Collection`], before anything else of
    /// the message is read: what a receiver needs to know of a message whose support it cannot
    /// read yet.
    ///
    /// # Errors
    ///
    /// If the bytes do not begin as a message of `kind`.
    ///
    /// # Panics
    ///
    /// If `kind` is [`Kind::Block`], which begins with no vote.
    pub fn peek(bytes: &[u8], kind: Kind) -> Result<Self, DecodeError> {
        assert!(kind != Kind::Block, "a block begins with its header");
        Self::read(&mut open(bytes, kind)?)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let checkpoint = |reader: &mut Reader<'_>| {
            Ok(Checkpoint {
                slot: Slot(reader.u64()?),
                root: reader.array()?,
            })
        };
        Ok(Self {
            slot: Slot(reader.u64()?),
            head: reader.array()?,
            source: checkpoint(reader)?,
            target: checkpoint(reader)?,
        })
    }
}

/// One validator's vote with its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoteMsg {
    /// The vote.
    pub vote: Vote,
    /// Who votes.
    pub validator: Validator,
    /// Signature of [`digest::vote_message`](super::digest::vote_message).
    pub signature: Bytes,
}

impl VoteMsg {
    /// The bytes of the message.
    ///
    /// # Panics
    ///
    /// If the signature has not the scheme's length.
    pub fn encode(&self, format: &WireFormat) -> Vec<u8> {
        let mut writer = Writer::with_capacity(format.bytes_max(Kind::Vote));
        writer.u8(VERSION);
        writer.u8(Kind::Vote as u8);
        writer.bytes(&self.vote.encode());
        writer.u32(self.validator.0);
        write_fixed(
            &mut writer,
            &self.signature,
            format.signature_bytes,
            "a vote's signature",
        );
        writer.into_vec()
    }

    /// The message that `bytes` encode.
    ///
    /// # Errors
    ///
    /// If they do not, or the validator is none of the layout.
    pub fn decode(bytes: &[u8], format: &WireFormat) -> Result<Self, DecodeError> {
        let mut reader = open(bytes, Kind::Vote)?;
        let vote = Vote::read(&mut reader)?;
        let validator = read_validator(&mut reader, format)?;
        let signature = reader.bytes(format.signature_bytes)?.into();
        reader.finish()?;
        Ok(Self {
            vote,
            validator,
            signature,
        })
    }
}

/// The votes of one cell that agree, merged by one of its aggregators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The vote that all signers sign.
    pub vote: Vote,
    /// The cell.
    pub cell: Cell,
    /// The aggregator.
    pub sender: Validator,
    /// Its ticket, where selection is a lottery.
    pub proof: Option<Bytes>,
    /// The signers, one bit for each position of the cell, and the evidence of their votes.
    pub evidence: Evidence,
    /// Duty signature of [`digest::aggregate_message`](super::digest::aggregate_message).
    pub envelope: Bytes,
}

impl Aggregate {
    /// The bytes of the message.
    ///
    /// # Errors
    ///
    /// [`MissingReference`] if the support's code must refer to a block that is not known.
    ///
    /// # Panics
    ///
    /// If a field has not the length of the format.
    pub fn encode(
        &self,
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Vec<u8>, MissingReference> {
        let mut writer = Writer::new();
        self.write_head(&mut writer, format);
        let over = Over::Cell(self.cell);
        format.write_support(
            &mut writer,
            &self.evidence.support,
            &self.vote,
            over,
            references,
        )?;
        write_evidence(&mut writer, &self.evidence.bytes, format.aggregate_evidence);
        write_fixed(
            &mut writer,
            &self.envelope,
            format.duty_signature_bytes,
            "an envelope",
        );
        Ok(writer.into_vec())
    }

    /// The fields before the support.
    pub(super) fn write_head(&self, writer: &mut Writer, format: &WireFormat) {
        writer.u8(VERSION);
        writer.u8(Kind::Aggregate as u8);
        writer.bytes(&self.vote.encode());
        writer.u16(self.cell.committee);
        writer.u16(self.cell.subcommittee);
        writer.u32(self.sender.0);
        write_proof(writer, self.proof.as_ref(), format);
    }

    fn read_head(
        reader: &mut Reader<'_>,
        format: &WireFormat,
    ) -> Result<(Vote, Cell, Validator, Option<Bytes>), DecodeError> {
        let vote = Vote::read(reader)?;
        let committee = read_committee(reader, format)?;
        let subcommittee = reader.u16()?;
        index(
            "subcommittee",
            u64::from(subcommittee),
            u64::from(format.layout.subcommittees()),
        )?;
        let cell = Cell {
            committee,
            subcommittee,
        };
        let sender = read_validator(reader, format)?;
        Ok((vote, cell, sender, read_proof(reader, format)?))
    }

    /// Vote, cell, sender and ticket: what can be read while the vote's head is not known.
    ///
    /// # Errors
    ///
    /// If the bytes do not begin as an aggregate, or an index is none of the layout.
    pub fn peek(
        bytes: &[u8],
        format: &WireFormat,
    ) -> Result<(Vote, Cell, Validator, Option<Bytes>), DecodeError> {
        Self::read_head(&mut open(bytes, Kind::Aggregate)?, format)
    }

    /// The message that `bytes` encode.
    ///
    /// # Errors
    ///
    /// If they do not, or an index is none of the layout; [`DecodeError::Missing`] if the support
    /// refers to a block that is not known.
    pub fn decode(
        bytes: &[u8],
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Self, DecodeError> {
        let mut reader = open(bytes, Kind::Aggregate)?;
        let (vote, cell, sender, proof) = Self::read_head(&mut reader, format)?;
        let over = Over::Cell(cell);
        let support = format.read_support(&mut reader, &vote, over, references)?;
        let evidence = read_evidence(&mut reader, format.aggregate_evidence)?.into();
        let envelope = reader.bytes(format.duty_signature_bytes)?.into();
        reader.finish()?;
        Ok(Self {
            vote,
            cell,
            sender,
            proof,
            evidence: Evidence {
                support: Arc::new(support),
                bytes: evidence,
            },
            envelope,
        })
    }
}

/// The votes of one committee that agree, merged by one of its collectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The vote that all signers sign.
    pub vote: Vote,
    /// The committee.
    pub committee: u16,
    /// The collector.
    pub sender: Validator,
    /// Its ticket, where selection is a lottery.
    pub proof: Option<Bytes>,
    /// The multiplicity of each position of the committee, and the evidence of the votes.
    pub evidence: Evidence,
    /// Duty signature of [`digest::collection_message`](super::digest::collection_message).
    pub envelope: Bytes,
}

impl Collection {
    /// The bytes of the message.
    ///
    /// # Errors
    ///
    /// [`MissingReference`] if the support's code must refer to a block that is not known.
    ///
    /// # Panics
    ///
    /// If a field has not the length of the format.
    pub fn encode(
        &self,
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Vec<u8>, MissingReference> {
        let mut writer = Writer::new();
        self.write_head(&mut writer, format);
        let over = Over::Committee(self.committee);
        format.write_support(
            &mut writer,
            &self.evidence.support,
            &self.vote,
            over,
            references,
        )?;
        write_evidence(
            &mut writer,
            &self.evidence.bytes,
            format.collection_evidence,
        );
        write_fixed(
            &mut writer,
            &self.envelope,
            format.duty_signature_bytes,
            "an envelope",
        );
        Ok(writer.into_vec())
    }

    fn read_head(
        reader: &mut Reader<'_>,
        format: &WireFormat,
    ) -> Result<(Vote, u16, Validator, Option<Bytes>), DecodeError> {
        let vote = Vote::read(reader)?;
        let committee = read_committee(reader, format)?;
        let sender = read_validator(reader, format)?;
        Ok((vote, committee, sender, read_proof(reader, format)?))
    }

    /// Vote, committee, sender and ticket: what can be read while the vote's head is not known.
    ///
    /// # Errors
    ///
    /// If the bytes do not begin as a collection, or an index is none of the layout.
    pub fn peek(
        bytes: &[u8],
        format: &WireFormat,
    ) -> Result<(Vote, u16, Validator, Option<Bytes>), DecodeError> {
        Self::read_head(&mut open(bytes, Kind::Collection)?, format)
    }

    /// The fields before the support.
    pub(super) fn write_head(&self, writer: &mut Writer, format: &WireFormat) {
        writer.u8(VERSION);
        writer.u8(Kind::Collection as u8);
        writer.bytes(&self.vote.encode());
        writer.u16(self.committee);
        writer.u32(self.sender.0);
        write_proof(writer, self.proof.as_ref(), format);
    }

    /// The message that `bytes` encode.
    ///
    /// # Errors
    ///
    /// If they do not, or an index is none of the layout; [`DecodeError::Missing`] if the support
    /// refers to a block that is not known.
    pub fn decode(
        bytes: &[u8],
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Self, DecodeError> {
        let mut reader = open(bytes, Kind::Collection)?;
        let (vote, committee, sender, proof) = Self::read_head(&mut reader, format)?;
        let over = Over::Committee(committee);
        let support = format.read_support(&mut reader, &vote, over, references)?;
        let evidence = read_evidence(&mut reader, format.collection_evidence)?.into();
        let envelope = reader.bytes(format.duty_signature_bytes)?.into();
        reader.finish()?;
        Ok(Self {
            vote,
            committee,
            sender,
            proof,
            evidence: Evidence {
                support: Arc::new(support),
                bytes: evidence,
            },
            envelope,
        })
    }
}

fn write_proof(writer: &mut Writer, proof: Option<&Bytes>, format: &WireFormat) {
    assert_eq!(
        proof.map(|proof| proof.len()),
        format.selection_proof_bytes,
        "bytes of a proof of selection"
    );
    if let Some(proof) = proof {
        writer.bytes(proof);
    }
}

fn read_proof(reader: &mut Reader<'_>, format: &WireFormat) -> Result<Option<Bytes>, DecodeError> {
    let read = |bytes| Ok(reader.bytes(bytes)?.into());
    format.selection_proof_bytes.map(read).transpose()
}

pub(super) fn read_committee(
    reader: &mut Reader<'_>,
    format: &WireFormat,
) -> Result<u16, DecodeError> {
    let committee = reader.u16()?;
    let committees = u64::from(format.layout.committees());
    index("committee", u64::from(committee), committees)?;
    Ok(committee)
}

pub(super) fn read_validator(
    reader: &mut Reader<'_>,
    format: &WireFormat,
) -> Result<Validator, DecodeError> {
    let validator = reader.u32()?;
    let validators = u64::from(format.layout.validators());
    index("validator", u64::from(validator), validators)?;
    Ok(Validator(validator))
}
