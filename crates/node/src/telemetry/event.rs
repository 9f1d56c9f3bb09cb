//! What happens in a node, as it is told once to everything that renders it.

use super::jobs::InFlight;
use crate::clock::Step;
use crate::engine::{Doppelganger, Judged};
use crate::health::Reason;
use crate::lanes::Ended;
use alphorn_net::{DownReason, NodeId};
use alphorn_proto::chain::AnchorError;
use alphorn_proto::horn::{CollectionView, Finality, Shown};
use alphorn_proto::slot::Boundary;
use alphorn_proto::wire::{Checkpoint, Root, Topic};
use alphorn_proto::{Peer, Spawn, Token, Verdict};
use alphorn_scheme::{Outcome, Product};
use alphorn_types::{Slot, Validator};

/// What happened.
#[derive(Clone, Copy)]
pub(crate) enum Event<'a> {
    /// The wall clock was set.
    ClockStep(Step),
    /// A turn of the loop ended.
    Turn { turn: Turn, took_ns: u64 },
    /// A phase began.
    Phase { boundary: Boundary, lag_ns: u64 },
    /// The loop woke for a probe.
    Probe { lag_ns: u64 },
    /// A message came by gossip.
    Received {
        topic: Topic,
        token: Token,
        bytes: usize,
    },
    /// A message came by broadcast.
    Delivered { topic: Topic },
    /// A message was published here.
    Published { topic: Topic },
    /// So many publications or subscriptions the network did not take.
    PublishRefused(u64),
    /// The verdict on a message.
    Verdict { token: Token, verdict: Verdict },
    /// A peer misbehaved.
    Reported { peer: Peer, reason: &'static str },
    /// Two statements of a validator contradict each other.
    Contradiction,
    /// A source broadcast no message.
    SourceBlamed { source: Validator, slot: Slot },
    /// Another process signs with a local key.
    Doppelganger(Doppelganger),
    /// Something is not well from now on, or well again.
    Health { reason: Reason, is_on: bool },
    /// So many damaged files `node.redb` were set aside and made anew since the start.
    FilesRebuilt(u64),
    /// The checkpoint that was kept cannot be begun with.
    CheckpointRefused(&'a AnchorError),
    /// The marks of local keys were behind what the network shows of them.
    MarksRaised(&'a Shown),
    /// The duties of a slot were judged.
    Judged(&'a Judged),
    /// A job is handed out.
    JobSpawned(&'a Spawn),
    /// A job ended; what was known of it when it was handed out.
    JobEnded(&'a Ended, Option<&'a InFlight>),
    /// A block was accepted.
    BlockAccepted { slot: Slot, root: &'a Root },
    /// Peers sent blocks that were asked of them: those that messages wait for, or to fill a gap.
    BlocksFetched { count: u64, by_root: bool },
    /// A listener has its address, as peers dial it.
    Listening { address: &'a str },
    /// A peer is connected.
    PeerUp {
        peer: u64,
        id: &'a NodeId,
        outbound: bool,
    },
    /// A peer is gone.
    PeerDown { peer: u64, reason: DownReason },
    /// The head is another block.
    Head {
        head: Checkpoint,
        is_other_epoch: bool,
        /// Blocks of another branch that were given up.
        given_up: Option<usize>,
    },
    /// Another checkpoint is justified.
    Justified(&'a Checkpoint),
    /// Another checkpoint is finalised.
    Finalised(&'a Checkpoint),
    /// The first block of a slot, with so many collections.
    SlotBlock { collections: usize },
    /// A collection was verified.
    Collection(&'a CollectionView),
    /// Two thirds of all validators stand in verified collections, so long after the slot began.
    TwoThirds {
        slot: Slot,
        ms: f64,
        finality: Finality,
    },
}

/// What a turn of the loop was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A deadline.
    Deadline,
    /// A command of the interface.
    Command,
    /// Jobs that ended.
    Finished,
    /// What the network brought.
    Network,
}

impl Turn {
    /// All.
    pub(super) const ALL: [Turn; 4] =
        [Turn::Deadline, Turn::Command, Turn::Finished, Turn::Network];

    /// The label in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Turn::Deadline => "deadline",
            Turn::Command => "command",
            Turn::Finished => "finished",
            Turn::Network => "network",
        }
    }
}

/// The name of an outcome in traces and metrics.
pub(super) fn outcome(outcome: &Outcome<Product>) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Invalid(_) => "invalid",
        Outcome::Refused(_) => "refused",
        Outcome::Superseded => "superseded",
        Outcome::Cancelled => "cancelled",
        Outcome::Crashed => "crashed",
        Outcome::SelfVerifyFailed => "self_verify_failed",
    }
}
