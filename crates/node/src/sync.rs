//! Catching up: a node asks peers for their status, and for the blocks that it lacks.
//!
//! Gossip carries only current blocks. After a start, a partition or a pause some are missing, and nothing that builds
//! on them can be processed. Once a slot, and when a peer connects, a node therefore asks one peer for its status. If
//! the status names an unknown head, the node asks for the blocks after its own finalised one. They pass the same
//! checks as any block. Once the blocks of a response are in the chain, the next request starts after them, whichever
//! peer it goes to, so a gap of any length is filled piece by piece. A peer for which that fails may be on another
//! branch than the peer that sent them. Until its head is known, it is asked for what follows its own responses. One
//! peer's response may thus cost another a request, but nothing that the other sent.
//!
//! One such request is open at a time, and a response is accepted only from the peer that was asked. If a request
//! yields nothing, or its response is overdue, another peer is asked in the same slot. New peers and the others take
//! turns, so the others are asked however many new ones connect. A peer from the node's configuration is asked as soon
//! as it connects, whatever other responses are pending, because its report of the time decides whether anything is
//! signed. The network allows few responses with blocks at a time, and strangers that promise blocks and send none may
//! hold all of those but one.
//!
//! A block that a message waits for does not depend on this. It is requested by root at once, from the sender of the
//! message. See `proto::horn::fetch`.

use crate::blocks::RANGE_MAX;
use alphorn_net::RequestProtocol;
use alphorn_proto::Peer;
use alphorn_proto::horn::fetch::{Fetch, Missing};
use alphorn_proto::wire::Root;
use alphorn_types::{Slot, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use alphorn_proto::horn::fetch::FETCHES_MAX;

/// Name of the request for a [`Status`].
pub(crate) const STATUS: &str = "status";
/// Name of the request for blocks; see [`encode_range`].
pub(crate) const BLOCKS_BY_RANGE: &str = "blocks_by_range";
/// Name of the request for a block by its root, which is its whole content.
pub(crate) const BLOCKS_BY_ROOT: &str = "blocks_by_root";

/// Bytes of a [`Status`].
// 4 of the network, 8 for each of three slots and the clock, 32 for each of two roots.
pub(crate) const STATUS_BYTES: usize = 100;
/// Bytes of a request for blocks.
pub(crate) const RANGE_BYTES: usize = 10;
/// Bytes of a request for a block by its root.
pub(crate) const ROOT_BYTES: usize = 32;

/// All request protocols. A response with blocks has at most `answer_bytes_max` bytes, and one with a block requested
/// by root at most `block_bytes_max`.
pub fn requests(answer_bytes_max: usize, block_bytes_max: usize) -> Vec<RequestProtocol> {
    let request = |name: &str, request_bytes_max, chunk_bytes_max, chunks_max| RequestProtocol {
        name: name.to_owned(),
        request_bytes_max,
        chunk_bytes_max,
        chunks_max,
        response_bytes_max: chunk_bytes_max,
    };
    vec![
        request(STATUS, STATUS_BYTES, STATUS_BYTES, 1),
        request(BLOCKS_BY_RANGE, RANGE_BYTES, answer_bytes_max, RANGE_MAX),
        request(BLOCKS_BY_ROOT, ROOT_BYTES, block_bytes_max, 1),
    ]
}

/// Most blocks requested at a time.
const BLOCKS_ASKED: u16 = 128;
/// Most peers asked for their status in a slot, if the previous ones yielded nothing.
const STATUS_PER_SLOT_MAX: u32 = 4;
/// Responses with a range of blocks that the network allows at a time.
pub const ANSWERS_MAX: usize = 4;
/// How long a pending status request holds up others.
const PATIENCE_NS: u64 = 1_000_000_000;
/// How long a pending request for blocks does. A response with many blocks takes longer.
const BLOCKS_PATIENCE_NS: u64 = 2_000_000_000;
/// Most open requests, including overdue ones. More than the connections allowed per address. The same number again may
/// be open to configured peers.
const OPEN_MAX: usize = 8;

/// The status of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// The network's digest.
    pub(crate) network: [u8; 4],
    /// The slot by the node's clock.
    pub(crate) slot: Slot,
    /// The slot of its head.
    pub(crate) head_slot: Slot,
    /// Its head.
    pub(crate) head: Root,
    /// The slot of its finalised checkpoint.
    pub(crate) finalised_slot: Slot,
    /// That checkpoint's block.
    pub(crate) finalised: Root,
    /// Its clock, in milliseconds since 1970.
    pub(crate) time_ms: u64,
}

impl Status {
    /// The wire format: all fields in order, little-endian.
    pub(crate) fn encode(&self) -> [u8; STATUS_BYTES] {
        let mut bytes = [0; STATUS_BYTES];
        let fields: [&[u8]; 7] = [
            &self.network,
            &self.slot.0.to_le_bytes(),
            &self.head_slot.0.to_le_bytes(),
            &self.head,
            &self.finalised_slot.0.to_le_bytes(),
            &self.finalised,
            &self.time_ms.to_le_bytes(),
        ];
        let mut rest = bytes.as_mut_slice();
        for field in fields {
            let (place, after) = rest.split_at_mut(field.len());
            place.copy_from_slice(field);
            rest = after;
        }
        bytes
    }

    /// The inverse of [`encode`](Self::encode). None for bytes of another length.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; STATUS_BYTES] = bytes.try_into().ok()?;
        let mut rest = bytes.as_slice();
        Some(Status {
            network: take(&mut rest)?,
            slot: Slot(u64::from_le_bytes(take(&mut rest)?)),
            head_slot: Slot(u64::from_le_bytes(take(&mut rest)?)),
            head: take(&mut rest)?,
            finalised_slot: Slot(u64::from_le_bytes(take(&mut rest)?)),
            finalised: take(&mut rest)?,
            time_ms: u64::from_le_bytes(take(&mut rest)?),
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*head)
}

/// A request for at most `count` blocks from slot `from` on.
pub(crate) fn encode_range(from: Slot, count: u16) -> [u8; RANGE_BYTES] {
    let mut bytes = [0; RANGE_BYTES];
    bytes[..8].copy_from_slice(&from.0.to_le_bytes());
    bytes[8..].copy_from_slice(&count.to_le_bytes());
    bytes
}

/// The inverse of [`encode_range`]. None for bytes of another length.
pub(crate) fn decode_range(bytes: &[u8]) -> Option<(Slot, u16)> {
    let bytes: &[u8; RANGE_BYTES] = bytes.try_into().ok()?;
    let mut rest = bytes.as_slice();
    let from = u64::from_le_bytes(take(&mut rest)?);
    Some((Slot(from), u16::from_le_bytes(take(&mut rest)?)))
}

/// The node's own position in the chain, for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The slot by the clock.
    pub(crate) slot: Slot,
    /// The slot of the finalised checkpoint.
    pub(crate) finalised_slot: Slot,
}

/// A request to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The peer.
    pub(crate) peer: Peer,
    /// The request ID.
    pub(crate) id: u64,
    /// The request's name.
    pub(crate) name: &'static str,
    /// The request's payload.
    pub(crate) data: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Status {
        /// When it was sent, by the monotonic clock.
        since_ns: u64,
    },
    Blocks,
}

/// A request without a response yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    peer: Peer,
    asked: Asked,
    /// When to stop waiting and ask others, by the monotonic clock. None until first checked.
    due_ns: Option<u64>,
    /// Whether that time has passed.
    is_overdue: bool,
}

/// Chooses which peers to ask, and for what. The network bounds the number of peers.
#[derive(Debug, Default)]
pub(crate) struct Sync {
    peers: BTreeSet<Peer>,
    /// Peers from the node's configuration.
    own: BTreeSet<Peer>,
    /// New peers that have not been asked yet.
    fresh: BTreeSet<Peer>,
    /// The slot in which each other peer was last asked for its status.
    asked: BTreeMap<Peer, Slot>,
    /// Open requests by ID. No peer has two.
    open: BTreeMap<u64, Open>,
    id_next: u64,
    /// Whether the peer last asked for its status was new.
    was_new: bool,
    /// The last slot in which a peer that is not new was asked for its status, and how many were.
    asked_slot: Option<(Slot, u32)>,
    /// Whether the last request yielded nothing, or is overdue, so that another peer is asked.
    again: bool,
    /// The last status received, and when it was requested.
    heard: Option<(Status, u64)>,
    /// The blocks last sent by each peer whose head is unknown here: slots and roots in its order. Of those already in
    /// the chain, only the last is kept.
    brought: BTreeMap<Peer, Vec<(Slot, Root)>>,
    /// Those peers whose response led nowhere.
    alone: BTreeSet<Peer>,
    fetch: Fetch,
}

/// The result of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing to do.
    Nothing,
    /// The bytes are not a valid response to the request. The peer is to blame.
    Malformed,
    /// Blocks to check, in this order.
    Blocks(Vec<Arc<[u8]>>),
    /// The block requested by root, to be checked. Only its header is known to match the root.
    Block(Arc<[u8]>),
}

impl Sync {
    /// A peer connected. `is_own` is set if it is in the node's configuration.
    pub(crate) fn peer_up(&mut self, peer: Peer, is_own: bool) {
        self.peers.insert(peer);
        if is_own {
            self.own.insert(peer);
        }
        self.fresh.insert(peer);
        self.asked.remove(&peer);
    }

    /// A peer disconnected, which also drops the request to it.
    pub(crate) fn peer_down(&mut self, peer: Peer) {
        self.peers.remove(&peer);
        self.own.remove(&peer);
        self.fresh.remove(&peer);
        self.asked.remove(&peer);
        self.forget_brought(peer);
        self.fetch.peer_down(peer);
        self.open.retain(|_, open| open.peer != peer);
    }

    /// Returns the request to send now: to a configured peer that has not been asked yet. If no other request is
    /// pending, to a new peer, or once a slot to the peer asked longest ago, and to one more if the last request
    /// yielded nothing.
    pub(crate) fn poll(&mut self, now_ns: u64, standing: Standing) -> Option<Question> {
        // Asked first in every case, since it also notes which requests have become overdue.
        let is_waiting = self.is_waiting(now_ns) || self.open.len() >= OPEN_MAX;
        let peer = match self.fresh_own() {
            Some(own) => own,
            None if is_waiting => return None,
            None => self.next(standing)?,
        };
        self.was_new = self.fresh.remove(&peer);
        if !self.was_new {
            let times = self.times_asked(standing.slot);
            self.asked_slot = Some((standing.slot, times + 1));
            self.again = false;
        }
        self.asked.insert(peer, standing.slot);
        let asked = Asked::Status { since_ns: now_ns };
        Some(self.ask(peer, asked, Vec::new()))
    }

    fn is_free(&self, peer: &Peer) -> bool {
        self.open.values().all(|open| open.peer != *peer)
    }

    /// A configured peer that has not been asked since it connected.
    fn fresh_own(&self) -> Option<Peer> {
        let open = self.open.values();
        // Only requests to configured peers count here. Strangers that leave all of theirs unanswered must not delay
        // the report that signing waits for.
        let of_own = open.filter(|open| self.own.contains(&open.peer)).count();
        let mut fresh = self.fresh.intersection(&self.own).copied();
        fresh.find(|peer| of_own < OPEN_MAX && self.is_free(peer))
    }

    /// How many peers that are not new were asked in a slot.
    fn times_asked(&self, slot: Slot) -> u32 {
        // A clock that is set back does not restart the count.
        let asked = self.asked_slot.filter(|(last, _)| *last >= slot);
        asked.map_or(0, |(_, times)| times)
    }

    /// The next peer, alternating between new ones and the others.
    fn next(&self, standing: Standing) -> Option<Peer> {
        let times = self.times_asked(standing.slot);
        let is_due = times == 0 || (self.again && times < STATUS_PER_SLOT_MAX);
        let mut fresh = self.fresh.iter().copied();
        let new = fresh.find(|peer| self.is_free(peer));
        let others = self.asked.iter();
        let others =
            others.filter(|(peer, last)| is_due && **last < standing.slot && self.is_free(peer));
        let other = others.min_by_key(|(_, last)| **last).map(|(peer, _)| *peer);
        match self.was_new {
            true => other.or(new),
            false => new.or(other),
        }
    }

    /// Whether a response is pending. An overdue one does not count, so a peer that promises blocks and sends none
    /// cannot keep other peers from being asked.
    fn is_waiting(&mut self, now_ns: u64) -> bool {
        let mut waits = false;
        for open in self.open.values_mut() {
            let patience_ns = match open.asked {
                Asked::Status { .. } => PATIENCE_NS,
                Asked::Blocks => BLOCKS_PATIENCE_NS,
            };
            let due_ns = open
                .due_ns
                .get_or_insert(now_ns.saturating_add(patience_ns));
            if now_ns < *due_ns {
                waits = true;
            } else {
                self.again |= !open.is_overdue;
                open.is_overdue = true;
            }
        }
        waits
    }

    fn ask(&mut self, peer: Peer, asked: Asked, data: Vec<u8>) -> Question {
        let (name, due_ns) = match asked {
            Asked::Status { since_ns } => (STATUS, Some(since_ns.saturating_add(PATIENCE_NS))),
            // The time is not known here. Its patience begins at the next look.
            Asked::Blocks => (BLOCKS_BY_RANGE, None),
        };
        let question = self.question(peer, name, data);
        let open = Open {
            peer,
            asked,
            due_ns,
            is_overdue: false,
        };
        self.open.insert(question.id, open);
        question
    }

    fn question(&mut self, peer: Peer, name: &'static str, data: Vec<u8>) -> Question {
        let id = self.id_next;
        self.id_next += 1;
        Question {
            peer,
            id,
            name,
            data,
        }
    }

    /// Returns requests to send now for the blocks that messages wait for: all of them, the most wanted first.
    pub(crate) fn fetch(&mut self, now: Time, missing: &[Missing]) -> Vec<Question> {
        let mut questions = Vec::new();
        self.fetch.keep(now, missing);
        for one in missing {
            if let Some(peer) = self.fetch.whom(now, one, &self.peers) {
                let question = self.question(peer, BLOCKS_BY_ROOT, one.root.to_vec());
                self.fetch.asked(now, question.id, peer, one);
                questions.push(question);
            }
        }
        questions
    }

    /// The request could not be sent.
    pub(crate) fn refused(&mut self, id: u64) {
        self.fetch.refused(id);
        // Another peer is asked in the same slot.
        self.again |= self.open.remove(&id).is_some();
    }

    /// Processes the response to a request: its chunks, or none if there was no response. `knows` returns whether a
    /// block is in the local chain, `read` the slot and root of the block in a chunk. A follow-up request is returned
    /// alongside the result.
    pub(crate) fn answer(
        &mut self,
        id: u64,
        chunks: Option<Vec<Arc<[u8]>>>,
        network: [u8; 4],
        standing: Standing,
        knows: impl Fn(&Root) -> bool,
        read: impl Fn(&[u8]) -> Option<(Slot, Root)>,
    ) -> (Answer, Option<Question>) {
        // Both kinds of requests are numbered by `question`, so a number belongs to one of them at most.
        if let Some(wanted) = self.fetch.wanted(id) {
            let answer = match chunks.as_deref() {
                None | Some([]) => Answer::Nothing,
                Some([block]) if read(block).is_some_and(|(_, root)| root == wanted) => {
                    Answer::Block(block.clone())
                }
                Some(_) => Answer::Malformed,
            };
            let with_block = matches!(answer, Answer::Block(_));
            self.fetch.answered(id, with_block);
            return (answer, None);
        }
        let Some(Open { peer, asked, .. }) = self.open.remove(&id) else {
            return (Answer::Nothing, None);
        };
        self.again = true;
        // Assumed useless until it turns out otherwise below.
        let Some(chunks) = chunks else {
            return (Answer::Nothing, None);
        };
        match asked {
            Asked::Blocks => {
                // The network lets a peer send up to `RANGE_MAX` chunks, more than were requested. No more are taken or
                // remembered than could have been an honest answer.
                let mut chunks = chunks;
                chunks.truncate(usize::from(BLOCKS_ASKED));
                let brought: Vec<_> = chunks.iter().map_while(|chunk| read(chunk)).collect();
                self.again = brought.is_empty();
                self.brought.insert(peer, brought);
                (Answer::Blocks(chunks), None)
            }
            Asked::Status { since_ns } => {
                let status = match chunks.as_slice() {
                    [chunk] => Status::decode(chunk),
                    _ => None,
                };
                let Some(status) = status.filter(|status| status.network == network) else {
                    return (Answer::Malformed, None);
                };
                self.again = false;
                self.heard = Some((status, since_ns));
                // An unknown head that is not after the own finalised block was pruned here or is on an abandoned
                // branch: it offers nothing that is lacking.
                let behind = !knows(&status.head) && status.head_slot > standing.finalised_slot;
                if !behind {
                    self.forget_brought(peer);
                    return (Answer::Nothing, None);
                }
                // The last of these requests is for configured peers.
                if !self.own.contains(&peer) && self.ranges() + 1 >= ANSWERS_MAX {
                    self.again = true;
                    return (Answer::Nothing, None);
                }
                let from = self.first_lacking(peer, standing, &knows);
                let range = encode_range(from, BLOCKS_ASKED).to_vec();
                let question = self.ask(peer, Asked::Blocks, range);
                (Answer::Nothing, Some(question))
            }
        }
    }
}

impl Sync {
    /// Open requests for a range of blocks.
    fn ranges(&self) -> usize {
        let open = self.open.values();
        open.filter(|open| open.asked == Asked::Blocks).count()
    }

    /// Takes the status from the last response, and when it was requested.
    pub(crate) fn take_heard(&mut self) -> Option<(Status, u64)> {
        self.heard.take()
    }

    /// Schedules every peer to be asked again soon, one after the other, because earlier responses are obsolete.
    pub(crate) fn ask_all(&mut self) {
        self.fresh.clone_from(&self.peers);
        self.asked.clear();
    }

    fn forget_brought(&mut self, peer: Peer) {
        self.brought.remove(&peer);
        self.alone.remove(&peer);
    }

    /// The slot from which to request blocks from a peer: after the furthest response whose blocks are all in the chain
    /// by now. For a peer that is alone, after its own last response.
    fn first_lacking(
        &mut self,
        peer: Peer,
        standing: Standing,
        knows: impl Fn(&Root) -> bool,
    ) -> Slot {
        let finalised = standing.finalised_slot;
        let is_past = |(slot, root): &(Slot, Root)| *slot <= finalised || knows(root);
        let reached = self.brought.iter_mut().filter_map(|(other, blocks)| {
            let known = blocks.iter().take_while(|block| is_past(block)).count();
            // Only one known block is left, so a scan stays cheap, however many peers sent blocks.
            blocks.drain(..known.saturating_sub(1));
            let (last, _) = blocks.first().filter(|_| known > 0)?;
            Some((*other, *last))
        });
        let reached: BTreeMap<Peer, Slot> = reached.collect();
        if self.brought.contains_key(&peer) && !reached.contains_key(&peer) {
            self.alone.insert(peer);
        }
        let last = match self.alone.contains(&peer) {
            true => reached.get(&peer),
            false => reached.values().max(),
        };
        last.map_or(finalised, |last| finalised.max(*last)).next()
    }
}

#[cfg(test)]
mod tests;
