//! The contract between a protocol and its driver: one entry point, one deadline, effects as data.
//!
//! A protocol is a state machine. It never blocks, never fails, and reads no clock, entropy source
//! or file. The same inputs at the same times give the same outputs, byte for byte. A run is
//! therefore a log of `(now, input)` that can be recorded, replayed, shrunk and fuzzed, and the
//! node and the simulator drive the same code.

use crate::wire::{Reject, Root, Topic};
use alphorn_broadcast::Evidence;
use alphorn_scheme::{Bytes, Class, Group, JobId, Outcome, Product, SessionId, Work};
use alphorn_types::{Peer, Slot, Time};

/// A gossip message awaiting a [`Verdict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// An input to a protocol.
#[derive(Debug)]
pub enum Input {
    /// A message from a peer on a topic. The verdict is due within the driver's cache time.
    Message {
        /// The neighbour that forwarded it, not its author.
        from: Peer,
        /// The topic it arrived on.
        topic: Topic,
        /// Identifies the message in [`Output::Verdict`].
        token: Token,
        /// The bytes.
        data: Bytes,
    },
    /// A job ended. Each [`Output::Spawn`] is answered exactly once.
    Finished {
        /// The job.
        job: JobId,
        /// Its outcome.
        outcome: Outcome<Product>,
    },
    /// The time given by [`Protocol::next_deadline`] has been reached.
    Deadline,
    /// A send slot for a peer is free.
    SendReady {
        /// The peer.
        peer: Peer,
    },
    /// A peer connected.
    PeerUp {
        /// The peer.
        peer: Peer,
    },
    /// A peer disconnected.
    PeerDown {
        /// The peer.
        peer: Peer,
    },
}

/// What the gossip network should do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Forward it.
    Accept,
    /// Drop it without blaming the sender.
    Ignore,
    /// Drop it and penalise the peer that sent the packet.
    Reject,
}

/// A job that a protocol requests.
#[derive(Debug)]
pub struct Spawn {
    /// Its number.
    pub job: JobId,
    /// The session it belongs to.
    pub session: SessionId,
    /// The group it concerns.
    pub group: Group,
    /// Its class.
    pub class: Class,
    /// Latest finish time that still meets the phase.
    pub soft: Time,
    /// Time after which the result has no value.
    pub hard: Time,
    /// The work to do.
    pub work: Work,
}

/// An effect requested by a protocol.
#[derive(Debug)]
pub enum Output {
    /// Publish a message on the gossip network.
    Publish {
        /// The topic.
        topic: Topic,
        /// The bytes.
        data: Bytes,
    },
    /// Run a job. Its outcome is returned as [`Input::Finished`].
    Spawn(Spawn),
    /// Abandon the jobs of a session.
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
    /// The chain accepted a block, whatever its verdict. Peers may request it from now on.
    Imported {
        /// Its slot.
        slot: Slot,
        /// Its root.
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

/// A state machine that implements the contract.
pub trait Protocol {
    /// Handles an input. Time never goes backwards. Never blocks, never fails, and does O(message)
    /// work.
    fn handle(&mut self, now: Time, input: Input);

    /// Returns the next effect, or none when all are drained.
    fn poll_output(&mut self) -> Option<Output>;

    /// Time at which [`Input::Deadline`] is due. Polled after each input, so there are no stale
    /// timers.
    fn next_deadline(&self) -> Option<Time>;
}
