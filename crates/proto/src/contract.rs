//! The contract between a protocol and whoever drives it: one entry, one deadline, effects as data.
//!
//! A protocol is a state machine. It never blocks, never fails, reads no clock, no entropy and no
//! file; the same inputs at the same times give the same outputs, byte for byte. So a run is a log
//! of `(now, input)`: it can be recorded, replayed, shrunk and fuzzed, and the node and the
//! simulator drive the same code.

use crate::wire::{Reject, Root, Topic};
use alphorn_scheme::{Bytes, Class, Group, JobId, Outcome, Product, SessionId, Work};
use alphorn_types::{Slot, Time};
use std::fmt;

/// A peer, as a number that the driver gives it for the time of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u64);

/// A gossip message that waits for a [`Verdict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What happens to a protocol.
#[derive(Debug)]
pub enum Input {
    /// A peer's message on a topic. Its verdict is due within the driver's cache time.
    Message {
        /// The neighbour that handed it over, not its author.
        from: Peer,
        /// The topic it came on.
        topic: Topic,
        /// Names it in the [`Output::Verdict`].
        token: Token,
        /// The bytes.
        data: Bytes,
    },
    /// A job ended; each [`Output::Spawn`] is answered by exactly one.
    Finished {
        /// Which.
        job: JobId,
        /// How.
        outcome: Outcome<Product>,
    },
    /// The time given by [`Protocol::next_deadline`] has come.
    Deadline,
    /// A send slot to a peer is free.
    SendReady {
        /// The peer.
        peer: Peer,
    },
    /// A peer is connected.
    PeerUp {
        /// The peer.
        peer: Peer,
    },
    /// A peer is gone.
    PeerDown {
        /// The peer.
        peer: Peer,
    },
}

/// What a gossip network does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Forward it.
    Accept,
    /// Drop it, nobody is to blame.
    Ignore,
    /// Drop it and hold it against whoever sent the packet.
    Reject,
}

/// Two signed statements that no honest validator makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The first that was accepted, as it was on the wire; of a vote, perhaps an aggregate that has it.
    pub first: Bytes,
    /// The one that contradicts it.
    pub second: Bytes,
}

/// A job that a protocol wants run.
#[derive(Debug)]
pub struct Spawn {
    /// Its number.
    pub job: JobId,
    /// The session that it belongs to.
    pub session: SessionId,
    /// What it is about.
    pub group: Group,
    /// Its class.
    pub class: Class,
    /// Latest finish that still meets the phase.
    pub soft: Time,
    /// From here on it has no value.
    pub hard: Time,
    /// What to do.
    pub work: Work,
}

/// What a protocol wants done.
#[derive(Debug)]
pub enum Output {
    /// Give a message to the gossip network.
    Publish {
        /// On which topic.
        topic: Topic,
        /// The bytes.
        data: Bytes,
    },
    /// Run a job; its end comes back as [`Input::Finished`].
    Spawn(Spawn),
    /// Give up the jobs of a session.
    Cancel {
        /// The session.
        session: SessionId,
    },
    /// The verdict on a gossip message.
    Verdict {
        /// The message.
        token: Token,
        /// The verdict.
        verdict: Verdict,
    },
    /// The chain took a block, whatever the verdict on it: others may ask for it from now on.
    Imported {
        /// Its slot.
        slot: Slot,
        /// Its name.
        root: Root,
        /// Its bytes.
        data: Bytes,
    },
    /// A peer misbehaved.
    Report {
        /// The peer.
        peer: Peer,
        /// How.
        reason: Reject,
    },
    /// Two contradicting statements of one validator.
    Evidence(Evidence),
}

/// A state machine under the contract.
pub trait Protocol {
    /// Takes an input. Time never goes back. Never blocks, never fails, O(message) work.
    fn handle(&mut self, now: Time, input: Input);

    /// The next effect, none when all are drained.
    fn poll_output(&mut self) -> Option<Output>;

    /// When [`Input::Deadline`] is due; pulled after each input, so no stale timer exists.
    fn next_deadline(&self) -> Option<Time>;
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}
