//! Events in a node, each emitted once to all renderers.

use super::jobs::InFlight;
use crate::clock::Step;
use crate::engine::{Doppelganger, Judged};
use crate::health::Reason;
use crate::lanes::Ended;
use alphorn_net::{DownReason, NodeId, Transport};
use alphorn_proto::chain::AnchorError;
use alphorn_proto::horn::{CollectionView, Finality, Shown};
use alphorn_proto::slot::Boundary;
use alphorn_proto::wire::{Checkpoint, Root, Topic};
use alphorn_proto::{Peer, Spawn, Token, Verdict};
use alphorn_types::{Slot, Validator};
use std::net::SocketAddr;

/// An event.
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
    /// A message arrived by gossip.
    Received {
        topic: Topic,
        token: Token,
        bytes: usize,
    },
    /// A message arrived by broadcast.
    Delivered { topic: Topic },
    /// A message was published here.
    Published { topic: Topic },
    /// This many publications or subscriptions were not accepted by the network.
    PublishRefused(u64),
    /// The verdict on a message.
    Verdict { token: Token, verdict: Verdict },
    /// A peer misbehaved.
    Reported { peer: Peer, reason: &'static str },
    /// Two statements of a validator contradict each other.
    Contradiction,
    /// A source broadcast something that is not a valid message.
    SourceBlamed { source: Validator, slot: Slot },
    /// Another process signs with a local key.
    Doppelganger(Doppelganger),
    /// A health problem appeared, or disappeared.
    Health { reason: Reason, is_on: bool },
    /// This many damaged files `node.redb` were set aside and recreated since the start.
    FilesRebuilt(u64),
    /// The stored checkpoint cannot be used as a start.
    CheckpointRefused(&'a AnchorError),
    /// The marks of local keys were behind what the network shows of them.
    MarksRaised(&'a Shown),
    /// The duties of a slot were judged.
    Judged(&'a Judged),
    /// A job is submitted.
    JobSpawned(&'a Spawn),
    /// A job ended, with the facts known at its submission.
    JobEnded(&'a Ended, Option<&'a InFlight>),
    /// A block was accepted.
    BlockAccepted { slot: Slot, root: &'a Root },
    /// Peers sent requested blocks: those that messages wait for, or to fill a gap.
    BlocksFetched { count: u64, by_root: bool },
    /// A listener has its address, as peers dial it.
    Listening { address: &'a str },
    /// A listener died, and is opened again.
    ListenerLost {
        address: SocketAddr,
        transport: Transport,
        reason: &'a str,
    },
    /// A peer connected.
    PeerUp {
        peer: u64,
        id: &'a NodeId,
        outbound: bool,
    },
    /// A peer disconnected.
    PeerDown { peer: u64, reason: DownReason },
    /// The head changed.
    Head {
        head: Checkpoint,
        is_other_epoch: bool,
        /// Abandoned blocks of another branch.
        given_up: Option<usize>,
    },
    /// A new checkpoint is justified.
    Justified(&'a Checkpoint),
    /// A new checkpoint is finalised.
    Finalised(&'a Checkpoint),
    /// The first block of a slot, with this many collections.
    SlotBlock { collections: usize },
    /// A collection was verified.
    Collection(&'a CollectionView),
    /// Two thirds of all validators are in verified collections, this long after the slot began.
    TwoThirds {
        slot: Slot,
        ms: f64,
        finality: Finality,
    },
}

/// The trigger of a turn of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A deadline.
    Deadline,
    /// A command of the interface.
    Command,
    /// Finished jobs.
    Finished,
    /// Network input.
    Network,
}

impl Turn {
    /// All triggers.
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
