//! The trace: what a node or a simulation tells the dashboard and the replay, as JSON lines.
//!
//! One line is one [`Record`]: `{"t":…,"n":…,"k":…, fields of the kind}`, at most
//! `LINE_BYTES_MAX` bytes with its line end. `t` is in nanoseconds from genesis and may be
//! negative (a node starts before genesis), `n` is the name of the node, `k` the kind. Readers
//! ignore fields that they do not know, and refuse kinds that they do not know.

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

/// Most bytes of a line, its line end included.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;
/// Most cells that one `cells` line carries: 3 x 10.9 kB of base64.
pub const CELLS_PER_LINE_MAX: usize = 8_192;

/// A name that is a constant where it is written and a string where it is read.
pub type Name = Cow<'static, str>;

/// A line that cannot be written or read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The line is too long; nothing was parsed.
    #[error("a trace line of {bytes} bytes or more, must be at most {max}")]
    TooLong {
        /// Bytes of the line, or the bytes read until it was given up.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// Not a record of a known kind.
    #[error("trace line: {0}")]
    Json(#[from] serde_json::Error),
    /// A record whose fields do not agree with each other or with the bounds of a layout.
    #[error("trace line: `{field}` is {value}, must be {bound}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value, or its length where the bound is one of length.
        value: i128,
        /// What it must be.
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

/// What happened. All `*_ns` are nanoseconds from genesis, as `t`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum Event {
    /// The first line: what is traced.
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
        /// Root of the block, in hexadecimal; empty while there is none.
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
    /// How far the cells are, from cell number `from` on (at most [`CELLS_PER_LINE_MAX`]).
    Cells {
        /// The slot.
        slot: u64,
        /// Number of the first cell (committee x subcommittees + subcommittee).
        from: u32,
        /// Votes seen, percent of each cell.
        seen: Percents,
        /// Votes in an aggregate, percent of each cell.
        aggregated: Percents,
        /// Votes in a collection, percent of each cell.
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
        /// True if it came after its deadline.
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
        /// Bytes of its message.
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
        /// Milliseconds that were predicted.
        predicted_ms: u64,
        /// How it ended.
        outcome: Name,
        /// Lane that ran it.
        lane: u16,
    },
    /// An aggregation session was opened; its times are nanoseconds from genesis.
    Session {
        /// Number of the session.
        id: u64,
        /// When it opened.
        open: i64,
        /// When its result should be there.
        soft: i64,
        /// When its result is of no use any more.
        hard: i64,
    },
    /// Traffic of a kind of topic since the last such line.
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
    /// Something about a peer.
    Peer {
        /// Short form of its identity.
        short: String,
        /// What happened.
        event: Name,
        /// Its score, rounded.
        score: i64,
    },
    /// The chain as this node sees it.
    Finality {
        /// Slot of the head.
        head: u64,
        /// Slot of the highest justified checkpoint.
        justified: u64,
        /// Slot of the highest finalised checkpoint.
        finalised: u64,
        /// Milliseconds from the start of the slot until two thirds had voted, if they did.
        two_thirds_ms: Option<u64>,
        /// That slot, which may have no block yet. Where a trace does not say it, it is that of the head.
        #[serde(skip_serializing_if = "Option::is_none")]
        two_thirds_slot: Option<u64>,
    },
    /// Something went wrong, or was made to.
    Fault {
        /// Kind of the fault.
        kind: Name,
        /// What exactly.
        detail: String,
    },
    /// A simulated node was told something (traces in full).
    Input {
        /// Number of the event in its run; effects have the number of what they follow from.
        event: u64,
        /// What: `message`, `ready`, `peer_up`, `peer_down`, `job`, `deadline` or `command`.
        what: Name,
        /// The node it comes from or is about, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<u32>,
        /// Kind of the message or end of the job; empty if there is nothing to say.
        kind: Name,
        /// Bytes of the message.
        bytes: u64,
    },
    /// A simulated node wanted something done (traces in full).
    Output {
        /// Number of the event that it follows from.
        event: u64,
        /// What: `send`, `cancel`, `spawn`, `spend`, `cancel_session`, `deliver`, `report` or `evidence`.
        what: Name,
        /// The nodes that it is for or about.
        to: Vec<u32>,
        /// Kind of the message or reason of the report; empty if there is nothing to say.
        kind: Name,
        /// Bytes of the message, or nanoseconds of a core that were spent.
        amount: u64,
    },
    /// A coded broadcast as one node saw it.
    Broadcast {
        /// Identity, in hexadecimal.
        id: String,
        /// 1 block, 2 collection, 3 filler.
        kind: u8,
        /// The slot.
        slot: u64,
        /// When the header came.
        header_ns: Option<i64>,
        /// When the first chunk came.
        first_ns: Option<i64>,
        /// When enough chunks were there.
        done_ns: Option<i64>,
        /// When the payload was delivered.
        deliver_ns: Option<i64>,
        /// Bytes received for it.
        bytes: u64,
        /// Chunks that brought nothing new.
        dependent: u32,
        /// Chunks that failed their check.
        invalid: u32,
    },
}

impl Event {
    /// The first line of a trace of the slots of a layout.
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
    /// The line, with its line end.
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

    /// The record of a line, with or without its line end.
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

/// Reads records from JSON lines; empty lines are passed over. After an error the next line is
/// read, except after a line that is too long or a failure of the source: those end it.
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

    /// Number of the line that was read last, from 1, empty lines counted: where an error is.
    pub const fn line_number(&self) -> u64 {
        self.lines
    }

    /// The line that was read last, without its end: what stands in the source, with fields that
    /// a record does not know.
    pub fn line(&self) -> &[u8] {
        self.line.trim_ascii_end()
    }

    /// Reads the next line that is not empty, never more than the bound of it; false at the end.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        loop {
            self.line.clear();
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
