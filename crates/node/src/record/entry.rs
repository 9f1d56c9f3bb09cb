//! Wire format of a record: all inputs to the state machines of a node, in order.

use crate::committees::{self, CommitteesError};
use alphorn_proto::chain::ANCHOR_BYTES_MAX;
use alphorn_proto::wire::Topic;
use alphorn_proto::{Input, Peer, Token};
use alphorn_scheme::{Bytes, JobId, Outcome, Product, Signatures};
use alphorn_types::{Cell, DecodeError, Epoch, Reader, Time, Unit, Writer};
use std::sync::Arc;

/// Longest entry, in bytes: the state from which a chain starts. Messages and the committees of the largest number of
/// validators take half of it.
pub(super) const ENTRY_BYTES_MAX: u32 = ANCHOR_BYTES_MAX as u32 + 8;
/// Maximum number of bad inputs of one job.
const BAD_MAX: u32 = 1 << 20;
/// Longest reason, in bytes.
const REASON_BYTES_MAX: usize = 64 << 10;

/// One entry.
#[derive(Debug)]
pub(super) enum Entry {
    /// Where the chain starts, before everything else.
    Anchor(Bytes),
    /// A block of an earlier run, before the first input.
    Restored(Bytes),
    /// An input at its time.
    Input(Time, Input),
    /// The number of inputs so far, and the digest of all their effects.
    Mark(Mark),
    /// The same as the last entry, with the SHA-256 of all bytes before it.
    End(Mark, [u8; 32]),
}

/// The position of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Inputs so far.
    pub inputs: u64,
    /// SHA-256 of all effects that the state machines requested, in order.
    pub outputs: [u8; 32],
}

/// Bytes that are not an entry.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// They end too early, or a number is too large.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The committees are invalid.
    #[error("committees: {0}")]
    Committees(#[from] CommitteesError),
    /// A reason is not text.
    #[error("a reason of {0} bytes is no text")]
    Text(usize),
    /// The signatures do not all have the same length.
    #[error("{bytes} bytes are no signatures of {each} bytes")]
    Signatures {
        /// All bytes.
        bytes: usize,
        /// Bytes of each.
        each: u32,
    },
}

impl Entry {
    /// Encodes an input. None for inputs that a node's loop never takes.
    pub(super) fn encode_input(now: Time, input: &Input) -> Option<Vec<u8>> {
        let mut w = Writer::with_capacity(64);
        w.u8(1);
        w.u64(now.as_nanos());
        match input {
            Input::Message {
                from,
                topic,
                token,
                data,
            } => {
                w.u8(0);
                w.u64(from.0);
                put_topic(&mut w, *topic);
                w.u64(token.0);
                w.bytes_u32_prefixed(data);
            }
            Input::Finished { job, outcome } => {
                w.u8(1);
                w.u64(job.0);
                put_outcome(&mut w, outcome)?;
            }
            Input::Deadline => w.u8(2),
            Input::PeerUp { peer } => {
                w.u8(3);
                w.u64(peer.0);
            }
            Input::PeerDown { peer } => {
                w.u8(4);
                w.u64(peer.0);
            }
            Input::SendReady { .. } => return None,
        }
        Some(w.into_vec())
    }

    pub(super) fn encode_restored(block: &[u8]) -> Vec<u8> {
        let mut w = Writer::with_capacity(block.len() + 8);
        w.u8(0);
        w.bytes_u32_prefixed(block);
        w.into_vec()
    }

    pub(super) fn encode_anchor(anchor: &[u8]) -> Vec<u8> {
        let mut w = Writer::with_capacity(anchor.len() + 8);
        w.u8(4);
        w.bytes_u32_prefixed(anchor);
        w.into_vec()
    }

    pub(super) fn encode_mark(mark: &Mark, end: Option<&[u8; 32]>) -> Vec<u8> {
        let mut w = Writer::with_capacity(80);
        w.u8(if end.is_some() { 3 } else { 2 });
        w.u64(mark.inputs);
        w.bytes(&mark.outputs);
        if let Some(log) = end {
            w.bytes(log);
        }
        w.into_vec()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, EntryError> {
        let mut r = Reader::new(bytes);
        let entry = match r.u8()? {
            0 => Entry::Restored(shared(&mut r)?),
            1 => Entry::Input(time(&mut r)?, input(&mut r)?),
            2 => Entry::Mark(mark(&mut r)?),
            3 => Entry::End(mark(&mut r)?, r.array()?),
            4 => Entry::Anchor(r.bytes_u32_prefixed(ANCHOR_BYTES_MAX)?.into()),
            value => return Err(unknown("entry", value)),
        };
        r.finish()?;
        Ok(entry)
    }
}

fn unknown(what: &'static str, value: u8) -> EntryError {
    let value = u64::from(value);
    DecodeError::UnknownTag { what, value }.into()
}

/// The time of an input. None is later than the year 2262: at the end of time slots have no end, and the state machines
/// would advance for ever.
fn time(r: &mut Reader<'_>) -> Result<Time, EntryError> {
    const NANOS_MAX: u64 = u64::MAX / 2;
    let value = r.u64()?;
    if value > NANOS_MAX {
        let (what, max) = ("time of an input in ns", NANOS_MAX);
        return Err(DecodeError::OutOfRange { what, value, max }.into());
    }
    Ok(Time::from_nanos(value))
}

fn shared(r: &mut Reader<'_>) -> Result<Bytes, EntryError> {
    Ok(r.bytes_u32_prefixed(ENTRY_BYTES_MAX as usize)?.into())
}

fn mark(r: &mut Reader<'_>) -> Result<Mark, EntryError> {
    Ok(Mark {
        inputs: r.u64()?,
        outputs: r.array()?,
    })
}

fn input(r: &mut Reader<'_>) -> Result<Input, EntryError> {
    Ok(match r.u8()? {
        0 => Input::Message {
            from: Peer(r.u64()?),
            topic: take_topic(r)?,
            token: Token(r.u64()?),
            data: shared(r)?,
        },
        1 => Input::Finished {
            job: JobId(r.u64()?),
            outcome: outcome(r)?,
        },
        2 => Input::Deadline,
        3 => Input::PeerUp {
            peer: Peer(r.u64()?),
        },
        4 => Input::PeerDown {
            peer: Peer(r.u64()?),
        },
        value => return Err(unknown("input", value)),
    })
}

pub(crate) fn put_topic(w: &mut Writer, topic: Topic) {
    let (kind, level, committee, subcommittee) = match topic {
        Topic::Block => (0, 0, 0, 0),
        Topic::Collection => (1, 0, 0, 0),
        Topic::Aggregate { unit } => (2, unit.level, unit.committee, unit.index),
        Topic::Vote { cell } => (3, 0, cell.committee, cell.subcommittee),
    };
    w.u8(kind);
    w.u8(level);
    w.u16(committee);
    w.u16(subcommittee);
}

pub(crate) fn take_topic(r: &mut Reader<'_>) -> Result<Topic, EntryError> {
    let (kind, level) = (r.u8()?, r.u8()?);
    let (committee, subcommittee) = (r.u16()?, r.u16()?);
    Ok(match kind {
        0 => Topic::Block,
        1 => Topic::Collection,
        2 => Topic::Aggregate {
            unit: Unit::new(level, committee, subcommittee),
        },
        3 => Topic::Vote {
            cell: Cell {
                committee,
                subcommittee,
            },
        },
        value => return Err(unknown("topic", value)),
    })
}

fn put_outcome(w: &mut Writer, outcome: &Outcome<Product>) -> Option<()> {
    match outcome {
        Outcome::Done(product) => {
            w.u8(0);
            put_product(w, product)?;
        }
        Outcome::Invalid(bad) => {
            w.u8(1);
            w.u32(u32::try_from(bad.len()).ok()?);
            for index in bad {
                w.u32(u32::try_from(*index).ok()?);
            }
        }
        Outcome::Refused(reason) => {
            w.u8(2);
            // Cut between characters, since it is read as text again.
            let mut ends = (0..=reason.len().min(REASON_BYTES_MAX)).rev();
            let end = ends.find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
            w.bytes_u32_prefixed(&reason.as_bytes()[..end]);
        }
        Outcome::Superseded => w.u8(3),
        Outcome::Cancelled => w.u8(4),
        Outcome::Crashed => w.u8(5),
        Outcome::SelfVerifyFailed => w.u8(6),
    }
    Some(())
}

fn outcome(r: &mut Reader<'_>) -> Result<Outcome<Product>, EntryError> {
    Ok(match r.u8()? {
        0 => Outcome::Done(product(r)?),
        1 => {
            let count = r.u32_at_most("bad inputs", BAD_MAX)?;
            let bad = (0..count).map(|_| r.u32().map(|index| index as usize));
            Outcome::Invalid(bad.collect::<Result<_, DecodeError>>()?)
        }
        2 => {
            let bytes = r.bytes_u32_prefixed(REASON_BYTES_MAX)?;
            let text = std::str::from_utf8(bytes).map_err(|_| EntryError::Text(bytes.len()))?;
            Outcome::Refused(text.to_owned())
        }
        3 => Outcome::Superseded,
        4 => Outcome::Cancelled,
        5 => Outcome::Crashed,
        6 => Outcome::SelfVerifyFailed,
        value => return Err(unknown("outcome", value)),
    })
}

fn put_product(w: &mut Writer, product: &Product) -> Option<()> {
    match product {
        Product::Signed(all) => {
            w.u8(0);
            put_signatures(w, all)?;
        }
        Product::Selected(all) => {
            w.u8(1);
            put_signatures(w, all)?;
        }
        Product::Prepared(epoch) => {
            w.u8(2);
            w.u64(epoch.0);
        }
        Product::Verdicts(_) | Product::Evidence(_) | Product::Bundle { .. } => {
            w.u8(3);
            w.bytes_u32_prefixed(&product.to_bytes()?);
        }
        Product::Assigned(assignment) => {
            w.u8(4);
            committees::put(w, assignment);
        }
        Product::Foreign(_) => return None,
    }
    Some(())
}

fn product(r: &mut Reader<'_>) -> Result<Product, EntryError> {
    Ok(match r.u8()? {
        0 => Product::Signed(signatures(r)?),
        1 => Product::Selected(signatures(r)?),
        2 => Product::Prepared(Epoch(r.u64()?)),
        3 => {
            let bytes = r.bytes_u32_prefixed(ENTRY_BYTES_MAX as usize)?;
            Product::from_bytes(bytes)?
        }
        4 => Product::Assigned(Arc::new(committees::read(r)?)),
        value => return Err(unknown("product", value)),
    })
}

fn put_signatures(w: &mut Writer, all: &Signatures) -> Option<()> {
    // Without signatures any length will do, except 0, which the reader rejects.
    let each = all.iter().next().map_or(1, <[u8]>::len);
    w.u32(u32::try_from(each).ok()?);
    w.u32(u32::try_from(all.len() * each).ok()?);
    all.iter().for_each(|one| w.bytes(one));
    Some(())
}

fn signatures(r: &mut Reader<'_>) -> Result<Signatures, EntryError> {
    let each = r.u32()?;
    let data = r.bytes_u32_prefixed(ENTRY_BYTES_MAX as usize)?;
    if each == 0 || data.len() % each as usize != 0 {
        let bytes = data.len();
        return Err(EntryError::Signatures { bytes, each });
    }
    Ok(Signatures::new(each as usize, data.to_vec()))
}
