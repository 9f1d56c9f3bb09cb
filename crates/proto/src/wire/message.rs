//! Votes and their aggregates.

use alphorn_scheme::{Bytes, Evidence, Tail};
use alphorn_types::{DecodeError, Reader, Slot, Unit, Validator, Writer};

use super::{
    Kind, MissingReference, References, Root, VERSION, WireFormat, cap_bytes, index, open, tag_of,
    write_fixed,
};

/// Size of an encoded [`Vote`] in bytes.
pub const VOTE_BYTES: usize = 120;

/// A slot boundary and the block at or before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checkpoint {
    /// The slot.
    pub slot: Slot,
    /// Root of the last block at or before it.
    pub root: Root,
}

/// The content of a vote. All validators that agree sign the same 120 bytes.
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
    /// Encodes the 120 bytes that are hashed, signed and sent.
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

    /// Decodes a vote from 120 bytes; every input is valid.
    pub(crate) fn decode(bytes: &[u8; VOTE_BYTES]) -> Self {
        Self::read(&mut Reader::new(bytes)).expect("120 bytes hold every field of a vote")
    }

    /// Reads only the vote of a [`VoteMsg`] or an [`Aggregate`]: all that a receiver needs to know
    /// of a message whose support it cannot read yet.
    ///
    /// # Errors
    ///
    /// If the bytes do not start like a message of `kind`.
    ///
    /// # Panics
    ///
    /// If `kind` is [`Kind::Block`], which does not start with a vote.
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
    /// The voter.
    pub validator: Validator,
    /// Signature of [`digest::vote_message`](super::digest::vote_message).
    pub signature: Bytes,
}

impl VoteMsg {
    /// Encodes the message.
    ///
    /// # Panics
    ///
    /// If the signature does not have the scheme's length.
    pub fn encode(&self, format: &WireFormat) -> Vec<u8> {
        let mut writer = Writer::with_capacity(format.bytes_max(Kind::Vote));
        writer.u8(VERSION);
        writer.u8(tag_of(Kind::Vote));
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

    /// Returns the signature of an encoded message.
    ///
    /// # Panics
    ///
    /// If there are fewer bytes than a signature has.
    pub(crate) fn signature_of(bytes: &Bytes, format: &WireFormat) -> Tail {
        // It is the last field of the message.
        Tail::new(bytes.clone(), format.signature_bytes)
    }

    /// Decodes a message.
    ///
    /// # Errors
    ///
    /// If the bytes are invalid, or the validator is outside the layout.
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

/// Evidence that members of a unit cast the same vote, made by a validator serving in the unit. An
/// aggregate of a committee is called a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The vote that all signers sign.
    pub vote: Vote,
    /// The unit of the voters.
    pub unit: Unit,
    /// The validator that made it.
    pub sender: Validator,
    /// Its ticket, if selection is by lottery.
    pub proof: Option<Bytes>,
    /// The multiplicity of each position of the unit, and the evidence of the votes.
    pub evidence: Evidence,
    /// Duty signature of [`digest::aggregate_message`](super::digest::aggregate_message).
    pub envelope: Bytes,
}

/// The fields of an [`Aggregate`] before its support: the part that can be read while the vote's
/// head is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The vote that all signers sign.
    pub vote: Vote,
    /// The unit of the voters.
    pub unit: Unit,
    /// The validator that made it.
    pub sender: Validator,
    /// Its ticket, if selection is by lottery.
    pub proof: Option<Bytes>,
}

impl Aggregate {
    /// Encodes the message.
    ///
    /// # Errors
    ///
    /// [`MissingReference`] if the support's code must refer to an unknown block.
    ///
    /// # Panics
    ///
    /// If a field does not have the length set by the format.
    pub fn encode(
        &self,
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Vec<u8>, MissingReference> {
        let mut writer = Writer::new();
        self.write_head(&mut writer, format);
        format.write_evidence(
            &mut writer,
            &self.evidence,
            &self.vote,
            self.unit,
            references,
        )?;
        let bytes = format.duty_signature_bytes;
        write_fixed(&mut writer, &self.envelope, bytes, "an envelope");
        Ok(writer.into_vec())
    }

    /// Writes the fields before the support.
    pub(super) fn write_head(&self, writer: &mut Writer, format: &WireFormat) {
        writer.u8(VERSION);
        writer.u8(tag_of(Kind::Aggregate));
        writer.bytes(&self.vote.encode());
        writer.u8(self.unit.level);
        writer.u16(self.unit.committee);
        writer.u16(self.unit.index);
        writer.u32(self.sender.0);
        write_proof(writer, self.proof.as_ref(), format);
    }

    /// Opens a message and reads the fields before the support.
    fn open<'a>(bytes: &'a [u8], format: &WireFormat) -> Result<(Reader<'a>, Head), DecodeError> {
        // Until the level is known, the size limit is that of the longest kind.
        let mut reader = open(bytes, Kind::Collection)?;
        let vote = Vote::read(&mut reader)?;
        let unit = read_unit(&mut reader, format)?;
        let (kind, value) = (format.kind(unit.level), bytes.len() as u64);
        let max = cap_bytes(kind) as u64;
        if value > max {
            let what = kind.name();
            return Err(DecodeError::TooLong { what, value, max });
        }
        let sender = read_validator(&mut reader, format)?;
        let proof = read_proof(&mut reader, format)?;
        let head = Head {
            vote,
            unit,
            sender,
            proof,
        };
        Ok((reader, head))
    }

    /// Reads the fields before the support.
    ///
    /// # Errors
    ///
    /// If the bytes do not start like an aggregate, or an index is outside the layout.
    pub fn peek(bytes: &[u8], format: &WireFormat) -> Result<Head, DecodeError> {
        Self::open(bytes, format).map(|(_, head)| head)
    }

    /// Decodes a message.
    ///
    /// # Errors
    ///
    /// If the bytes are invalid, or an index is outside the layout; [`DecodeError::Missing`] if the
    /// support refers to an unknown block.
    pub fn decode(
        bytes: &[u8],
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Self, DecodeError> {
        let (mut reader, head) = Self::open(bytes, format)?;
        let evidence = format.read_evidence(&mut reader, &head.vote, head.unit, references)?;
        let envelope = reader.bytes(format.duty_signature_bytes)?.into();
        reader.finish()?;
        Ok(Self {
            vote: head.vote,
            unit: head.unit,
            sender: head.sender,
            proof: head.proof,
            evidence,
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

fn read_unit(reader: &mut Reader<'_>, format: &WireFormat) -> Result<Unit, DecodeError> {
    let level = reader.u8()?;
    // Level 0 is not used: votes have their own message.
    let levels = u64::from(format.layout.levels());
    index("level below", u64::from(level).wrapping_sub(1), levels)?;
    let committee = read_committee(reader, format)?;
    let unit = Unit::new(level, committee, reader.u16()?);
    let units = format.layout.units_of_committee(level);
    index("index of the unit", u64::from(unit.index), u64::from(units))?;
    Ok(unit)
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
