//! Counters that may be read at any time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::event::{DownReason, Peer};
use crate::key::NodeId;
use alphorn_types::Kind;

/// Why something was dropped. Every drop is counted under one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// The inbox was full, and this peer had most of it.
    PeerShare,
    /// Three quarters of the inbox held this kind, and this peer had most of them.
    KindShare,
    /// The time for its verdict passed before it was read, or before the verdict came.
    Expired,
    /// The peer sent more than twice the expected number for a topic in a slot.
    Rate,
    /// A message of a topic that this node is not subscribed to.
    Unsubscribed,
    /// Too many messages waited for a verdict, and this peer had most of them.
    Tokens,
    /// A publication was evicted by a more important one.
    Displaced,
    /// A publication found no peer with the topic, or all their queues full.
    NoPeers,
    /// A message for one peer whose queue was full.
    SlowPeer,
    /// A publication that gossip had seen before.
    Republished,
    /// A request above the number that may be in flight.
    Requests,
    /// A message that broke a limit, the grammar of topics or the framing.
    Malformed,
    /// A connection that was refused or not completed, in or out, or a peer beyond the number
    /// remembered.
    Connections,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [Self; 13] = [
        Self::PeerShare,
        Self::KindShare,
        Self::Expired,
        Self::Rate,
        Self::Unsubscribed,
        Self::Tokens,
        Self::Displaced,
        Self::NoPeers,
        Self::SlowPeer,
        Self::Republished,
        Self::Requests,
        Self::Malformed,
        Self::Connections,
    ];

    /// The label in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PeerShare => "peer_share",
            Self::KindShare => "kind_share",
            Self::Expired => "expired",
            Self::Rate => "rate",
            Self::Unsubscribed => "unsubscribed",
            Self::Tokens => "tokens",
            Self::Displaced => "displaced",
            Self::NoPeers => "no_peers",
            Self::SlowPeer => "slow_peer",
            Self::Republished => "republished",
            Self::Requests => "requests",
            Self::Malformed => "malformed",
            Self::Connections => "connections",
        }
    }
}

/// Traffic of one kind of topic since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindStatus {
    /// Messages received, including duplicates.
    pub messages_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Messages that this node published, or forwarded after their verdict. Each counts once,
    /// however many peers it goes to.
    pub messages_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Messages received again.
    pub duplicates: u64,
    /// Peers in the meshes of this kind's topics, summed over the topics.
    pub mesh_peers: u64,
}

/// One connected peer.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerStatus {
    /// Its number.
    pub peer: Peer,
    /// Its identity.
    pub id: NodeId,
    /// Its address.
    pub address: SocketAddr,
    /// Whether this node dialled it.
    pub outbound: bool,
    /// Its agent string, empty until received.
    pub client: Arc<str>,
    /// Its gossip score. 0 is neutral, and a peer at -80 or below is ignored.
    pub score: f64,
    /// Bytes read from it.
    pub bytes_in: u64,
    /// Bytes written to it.
    pub bytes_out: u64,
}

/// A snapshot of the counters.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// By kind of topic, in the order of [`Kind::ALL`].
    pub kinds: [KindStatus; Kind::ALL.len()],
    /// By [`DropReason`], in the order of [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
    /// Connections established: dialled by this node, by others.
    pub connections: [u64; 2],
    /// Connections that ended, in the order of [`DownReason::ALL`].
    pub disconnections: [u64; DownReason::ALL.len()],
    /// Bytes on all connections, above encryption: in, out.
    pub link_bytes: [u64; 2],
    /// Frames of the broadcast protocol: in, out.
    pub frames: [u64; 2],
    /// Requests: received, sent.
    pub requests: [u64; 2],
    /// Messages and frames that wait for their reader, and their bytes.
    pub inbox: (u64, u64),
    /// Publications that wait for the network thread, and their bytes.
    pub outbox: (u64, u64),
    /// Messages that wait for a verdict.
    pub tokens: u64,
    /// The connected peers, at most a second old.
    pub peers: Arc<[PeerStatus]>,
}

impl Status {
    /// How many items were dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// The traffic of a kind of topic.
    pub fn kind(&self, kind: Kind) -> KindStatus {
        self.kinds[kind as usize]
    }
}

#[derive(Debug, Default)]
pub(crate) struct KindCounters {
    pub(crate) messages_in: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) messages_out: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    /// Messages that reached the driver's side of gossip. The rest of `messages_in` are duplicates.
    pub(crate) first: AtomicU64,
    pub(crate) mesh_peers: AtomicU64,
}

/// The live counters. Each is written by one side only and read by all. No ordering among them is
/// needed, so every access is relaxed.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) kinds: [KindCounters; Kind::ALL.len()],
    drops: [AtomicU64; DropReason::ALL.len()],
    pub(crate) connections: [AtomicU64; 2],
    pub(crate) disconnections: [AtomicU64; DownReason::ALL.len()],
    pub(crate) link_bytes: [AtomicU64; 2],
    pub(crate) frames: [AtomicU64; 2],
    pub(crate) requests: [AtomicU64; 2],
    pub(crate) tokens: AtomicU64,
    peers: Mutex<Arc<[PeerStatus]>>,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    pub(crate) fn dropped(&self, reason: DropReason) {
        self.lost(reason, 1);
    }

    pub(crate) fn lost(&self, reason: DropReason, count: u64) {
        add(&self.drops[reason as usize], count);
    }

    pub(crate) fn set_peers(&self, peers: Arc<[PeerStatus]>) {
        *self.peers.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    /// The current counters. The lengths of the queues are not known here.
    pub(crate) fn status(&self) -> Status {
        let kinds = std::array::from_fn(|index| {
            let kind = &self.kinds[index];
            // Read in this order, so that a message arriving between the two is not counted as a
            // duplicate.
            let messages_in = get(&kind.messages_in);
            KindStatus {
                messages_in,
                bytes_in: get(&kind.bytes_in),
                messages_out: get(&kind.messages_out),
                bytes_out: get(&kind.bytes_out),
                duplicates: messages_in.saturating_sub(get(&kind.first)),
                mesh_peers: get(&kind.mesh_peers),
            }
        });
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        Status {
            kinds,
            drops: std::array::from_fn(|index| get(&self.drops[index])),
            connections: std::array::from_fn(|index| get(&self.connections[index])),
            disconnections: std::array::from_fn(|index| get(&self.disconnections[index])),
            link_bytes: std::array::from_fn(|index| get(&self.link_bytes[index])),
            frames: std::array::from_fn(|index| get(&self.frames[index])),
            requests: std::array::from_fn(|index| get(&self.requests[index])),
            inbox: (0, 0),
            outbox: (0, 0),
            tokens: get(&self.tokens),
            peers: Arc::clone(&peers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter_and_name() {
        let counters = Counters::default();
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            counters.dropped(reason);
            assert_eq!(counters.status().dropped(reason), 1);
            let names = DropReason::ALL.map(DropReason::name);
            assert_eq!(names.iter().filter(|n| **n == reason.name()).count(), 1);
        }
        for (index, reason) in DownReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
    }

    #[test]
    fn what_came_but_was_not_new_is_a_duplicate() {
        let counters = Counters::default();
        add(&counters.kinds[Kind::Vote as usize].messages_in, 5);
        add(&counters.kinds[Kind::Vote as usize].first, 3);
        assert_eq!(counters.status().kind(Kind::Vote).duplicates, 2);
        assert_eq!(counters.status().kind(Kind::Block).duplicates, 0);
    }
}
