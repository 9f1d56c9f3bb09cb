//! The trace: what a node or a simulation reports to the dashboard and the replay, as JSON lines.
//!
//! One line is one [`Record`]: `{"t":…,"n":…,"k":…, fields of the kind}`, at most `LINE_BYTES_MAX`
//! bytes including its line end. `t` is in nanoseconds from genesis and may be negative (a node
//! starts before genesis), `n` is the name of the node, `k` the kind. Readers ignore unknown fields
//! and reject unknown kinds.

use std::borrow::Cow;
use std::io::{BufRead, Read};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Layout;

mod cells;
mod check;
mod percents;
mod ring;

pub use cells::CellCounts;
pub use percents::Percents;
pub use ring::{Batch, Line, Lines, Ring, RingLimits};

/// Maximum bytes of a line, including its line end.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of cells on one `cells` line: 3 x 10.9 kB of base64.
pub const CELLS_PER_LINE_MAX: usize = 8_192;

/// A name that is a constant when written and a string when read.
pub type Name = Cow<'static, str>;

/// A line that cannot be written or read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The line is too long; nothing was parsed.
    #[error("a trace line of {bytes} bytes or more, must be at most {max}")]
    TooLong {
        /// Bytes of the line, or the bytes read before giving up.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// Not a record of a known kind.
    #[error("trace line: {0}")]
    Json(#[from] serde_json::Error),
    /// A record whose fields are inconsistent or violate the bounds of a layout.
    #[error("trace line: `{field}` is {value}, must be {bound}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value, or its length if the bound applies to the length.
        value: i128,
        /// The requirement.
        bound: String,
    },
    /// The source failed.
    #[error("reading a trace: {0}")]
    Io(#[from] std::io::Error),
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Nanoseconds from genesis, negative before it.
    pub t: i64,
    /// Name of the node.
    pub n: Name,
    /// The kind and its fields.
    #[serde(flatten)]
    pub event: Event,
}

/// The event. All `*_ns` are nanoseconds from genesis, like `t`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum Event {
    /// The first line: the setting of the trace.
    Genesis {
        /// Name of the signature scheme.
        scheme: Name,
        /// Number of validators.
        validators: u32,
        /// Number of committees.
        committees: u16,
        /// Number of subcommittees of each committee.
        subs: u16,
        /// Length of a slot in milliseconds.
        slot_ms: u64,
        /// Start of each phase in milliseconds from the start of the slot.
        offsets_ms: Vec<u64>,
    },
    /// A slot began.
    Slot {
        /// The slot.
        slot: u64,
        /// Index of the proposer.
        proposer: u32,
        /// Root of the block, in hexadecimal; empty if there is none yet.
        root: String,
    },
    /// A phase of a slot began.
    Phase {
        /// The slot.
        slot: u64,
        /// Name of the phase.
        phase: Name,
        /// Microseconds by which the node was late.
        lag_us: u64,
    },
    /// Progress of the cells, starting at cell number `from` (at most [`CELLS_PER_LINE_MAX`]).
    Cells {
        /// The slot.
        slot: u64,
        /// Number of the first cell (committee x subcommittees + subcommittee).
        from: u32,
        /// Votes seen, in percent of each cell.
        seen: Percents,
        /// Votes in an aggregate, in percent of each cell.
        aggregated: Percents,
        /// Votes in a collection, in percent of each cell.
        collected: Percents,
    },
    /// An aggregate was made.
    Aggregate {
        /// The slot.
        slot: u64,
        /// The committee.
        c: u16,
        /// The subcommittee.
        s: u16,
        /// Number of signers.
        votes: u32,
        /// Milliseconds it took.
        ms: u64,
        /// True if it was made after its deadline.
        late: bool,
    },
    /// A collection was made.
    Collection {
        /// The slot.
        slot: u64,
        /// The committee.
        c: u16,
        /// Number of signers.
        votes: u32,
        /// Size of its message in bytes.
        bytes: u64,
    },
    /// A job of the worker ended.
    Job {
        /// Number of the job.
        id: u64,
        /// Kind of work.
        kind: Name,
        /// Number of inputs.
        inputs: u32,
        /// When it was submitted, nanoseconds from genesis.
        t_submit: i64,
        /// When it started, nanoseconds from genesis.
        t_start: i64,
        /// When it ended, nanoseconds from genesis.
        t_end: i64,
        /// Predicted milliseconds.
        predicted_ms: u64,
        /// How it ended.
        outcome: Name,
        /// Lane that ran it.
        lane: u16,
    },
    /// An aggregation session was opened. Its times are nanoseconds from genesis.
    Session {
        /// Number of the session.
        id: u64,
        /// When it opened.
        open: i64,
        /// When its result is due.
        soft: i64,
        /// When its result becomes useless.
        hard: i64,
    },
    /// Traffic on a kind of topic since the last such line.
    Bytes {
        /// Kind of the topic.
        topic_kind: Name,
        /// Bytes received.
        #[serde(rename = "in")]
        received: u64,
        /// Bytes sent.
        #[serde(rename = "out")]
        sent: u64,
    },
    /// An event concerning a peer.
    Peer {
        /// Short form of its identity.
        short: String,
        /// What happened.
        event: Name,
        /// Its score, rounded.
        score: i64,
    },
    /// The chain as seen by this node.
    Finality {
        /// Slot of the head.
        head: u64,
        /// Slot of the highest justified checkpoint.
        justified: u64,
        /// Slot of the highest finalised checkpoint.
        finalised: u64,
        /// Milliseconds from the start of the slot until two thirds had voted, if they did.
        two_thirds_ms: Option<u64>,
        /// That slot, which may have no block yet. If omitted, it is that of the head.
        #[serde(skip_serializing_if = "Option::is_none")]
        two_thirds_slot: Option<u64>,
    },
    /// Something went wrong, or a fault was injected.
    Fault {
        /// Kind of the fault.
        kind: Name,
        /// Details.
        detail: String,
    },
    /// An input to a simulated node (full traces only).
    Input {
        /// Number of the event in its run; effects carry the number of their cause.
        event: u64,
        /// The kind of input: `message`, `ready`, `peer_up`, `peer_down`, `job`, `deadline` or
        /// `command`.
        what: Name,
        /// The node it comes from or concerns, if any.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<u32>,
        /// Kind of the message or end of the job; empty if not applicable.
        kind: Name,
        /// Bytes of the message.
        bytes: u64,
    },
    /// An effect requested by a simulated node (full traces only).
    Output {
        /// Number of the event that caused it.
        event: u64,
        /// The kind of effect: `send`, `cancel`, `spawn`, `spend`, `cancel_session`, `deliver`,
        /// `report` or `evidence`.
        what: Name,
        /// The nodes it is addressed to or concerns.
        to: Vec<u32>,
        /// Kind of the message or reason of the report; empty if not applicable.
        kind: Name,
        /// Bytes of the message, or nanoseconds of core time spent.
        amount: u64,
    },
    /// A coded broadcast as seen by one node.
    Broadcast {
        /// Id, in hexadecimal.
        id: String,
        /// 1 block, 2 collection, 3 filler.
        kind: u8,
        /// The slot.
        slot: u64,
        /// When the header arrived.
        header_ns: Option<i64>,
        /// When the first chunk arrived.
        first_ns: Option<i64>,
        /// When enough chunks had arrived.
        done_ns: Option<i64>,
        /// When the payload was delivered.
        deliver_ns: Option<i64>,
        /// Bytes received for it.
        bytes: u64,
        /// Chunks that added nothing new.
        dependent: u32,
        /// Chunks that failed their check.
        invalid: u32,
    },
}

impl Event {
    /// The first line of a trace, for the slots of a layout.
    #[must_use]
    pub fn genesis(scheme: Name, layout: &Layout, slot_ms: u64, offsets_ms: &[u64]) -> Self {
        Event::Genesis {
            scheme,
            validators: layout.validators(),
            committees: layout.committees(),
            subs: layout.subcommittees(),
            slot_ms,
            offsets_ms: offsets_ms.to_vec(),
        }
    }

    /// Name of the kind: the value of `k`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Event::Genesis { .. } => "genesis",
            Event::Slot { .. } => "slot",
            Event::Phase { .. } => "phase",
            Event::Cells { .. } => "cells",
            Event::Aggregate { .. } => "aggregate",
            Event::Collection { .. } => "collection",
            Event::Job { .. } => "job",
            Event::Session { .. } => "session",
            Event::Bytes { .. } => "bytes",
            Event::Peer { .. } => "peer",
            Event::Finality { .. } => "finality",
            Event::Fault { .. } => "fault",
            Event::Input { .. } => "input",
            Event::Output { .. } => "output",
            Event::Broadcast { .. } => "broadcast",
        }
    }
}

impl Record {
    /// Encodes the record as a line, with its line end.
    ///
    /// # Errors
    ///
    /// [`TraceError::TooLong`] above `LINE_BYTES_MAX`, [`TraceError::Field`] as `Event::check`.
    pub fn to_line(&self) -> Result<String, TraceError> {
        self.event.check()?;
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        check_len(line.len())?;
        Ok(line)
    }

    /// Decodes a line, with or without its line end.
    ///
    /// # Errors
    ///
    /// [`TraceError::TooLong`] before anything is parsed, [`TraceError::Json`] for anything that
    /// is not a record of a known kind, [`TraceError::Field`] as `Event::check`.
    pub fn from_line(line: &str) -> Result<Self, TraceError> {
        Self::from_bytes(line.as_bytes())
    }

    fn from_bytes(line: &[u8]) -> Result<Self, TraceError> {
        check_len(line.len())?;
        let record: Self = serde_json::from_slice(line)?;
        record.event.check()?;
        Ok(record)
    }
}

/// Reads records from JSON lines and skips empty lines. After an error it continues with the next
/// line, except after a line that is too long or a failure of the source, which end it.
#[derive(Debug)]
pub struct TraceReader<R> {
    source: R,
    ended: bool,
    lines: u64,
    line: Vec<u8>,
}

impl<R: BufRead> TraceReader<R> {
    /// Reads from `source`.
    pub const fn new(source: R) -> Self {
        Self {
            source,
            ended: false,
            lines: 0,
            line: Vec::new(),
        }
    }

    /// Number of the last line read, from 1, including empty lines, for locating an error.
    pub const fn line_number(&self) -> u64 {
        self.lines
    }

    /// The last line read, without its end, exactly as in the source, including fields unknown to a
    /// record.
    pub fn line(&self) -> &[u8] {
        self.line.trim_ascii_end()
    }

    /// Reads the next non-empty line, never beyond the line bound; false at the end.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        loop {
            self.line.clear();
            // One byte more than a legal line has, so that a longer one is noticed rather than cut.
            let mut bounded = (&mut self.source).take(LINE_BYTES_MAX as u64 + 1);
            if bounded.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(false);
            }
            self.lines += 1;
            check_len(self.line.len())?;
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.read_line() {
            Ok(true) => Some(Record::from_bytes(&self.line)),
            Ok(false) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}

fn check_len(bytes: usize) -> Result<(), TraceError> {
    if bytes > LINE_BYTES_MAX {
        return Err(TraceError::TooLong {
            bytes,
            max: LINE_BYTES_MAX,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
