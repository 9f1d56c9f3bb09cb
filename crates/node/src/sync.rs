//! How a node catches up: it asks peers where they stand, and for the blocks that it lacks.
//!
//! Gossip carries the blocks of the present. After a start, a partition or a pause some are
//! missing, and nothing that builds on them is understood. So once a slot, and when a peer comes,
//! a node asks one peer for its status; if that names a head that is not known here, it asks for
//! the blocks after its own finalised one. They pass the same checks as any block. Where an answer
//! brought blocks that are in the chain by now, the next question begins after them, whichever peer is
//! asked, so that a gap of any length is filled piece by piece. A peer with which that leads nowhere may be
//! on another branch than the one that brought them: until its head is known, it is asked for what
//! follows its own answers. So what one peer answers may cost another a question, but nothing it brought.
//!
//! One such question is open at a time, and an answer is taken only from whom it was asked. If one
//! brought nothing, another peer is asked in the same slot; so it is while an answer is overdue.
//! New peers and the others take turns: however many come, the others are asked as well. A peer that the
//! node was configured with is asked as soon as it comes, whatever others have not answered: what it says
//! of the time decides whether anything is signed. The network lets few answers with blocks come at a time,
//! and strangers that promise blocks and bring none may hold all of those but one.
//!
//! A block that a message waits for is not left to that: it is asked for by root and at once, from
//! whoever sent the message. See `proto::horn::fetch`.

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
/// Name of the request for a block by its root, which is all that it says.
pub(crate) const BLOCKS_BY_ROOT: &str = "blocks_by_root";

/// Bytes of a [`Status`].
pub(crate) const STATUS_BYTES: usize = 100;
/// Bytes of a request for blocks.
pub(crate) const RANGE_BYTES: usize = 10;
/// Bytes of a request for a block by its root.
pub(crate) const ROOT_BYTES: usize = 32;

/// The protocols of all, where an answer with blocks has at most so many bytes, and one with a block
/// that was asked for by root has at most `block_bytes_max`.
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

/// Most blocks that are asked for at a time.
const BLOCKS_ASKED: u16 = 128;
/// Most peers that are asked for their status in a slot, if those before brought nothing.
const STATUS_PER_SLOT_MAX: u32 = 4;
/// Answers with a range of blocks that the network lets come at a time.
pub const ANSWERS_MAX: usize = 4;
/// How long others wait for a status that was asked for.
const PATIENCE_NS: u64 = 1_000_000_000;
/// How long they wait for blocks: an answer of many takes longer.
const BLOCKS_PATIENCE_NS: u64 = 2_000_000_000;
/// Most questions that are open, with those that are overdue: more than an address has connections. As many
/// more to configured peers.
const OPEN_MAX: usize = 8;

/// Where a node stands.
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
    /// Its clock: milliseconds since 1970.
    pub(crate) time_ms: u64,
}

impl Status {
    /// On the wire: all fields in order, little-endian.
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

    /// The inverse of [`encode`](Self::encode); none for bytes of another length.
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

/// The inverse of [`encode_range`]; none for bytes of another length.
pub(crate) fn decode_range(bytes: &[u8]) -> Option<(Slot, u16)> {
    let bytes: &[u8; RANGE_BYTES] = bytes.try_into().ok()?;
    let mut rest = bytes.as_slice();
    let from = u64::from_le_bytes(take(&mut rest)?);
    Some((Slot(from), u16::from_le_bytes(take(&mut rest)?)))
}

/// What a node knows of its own chain, for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The slot by the clock.
    pub(crate) slot: Slot,
    /// The slot of the finalised checkpoint.
    pub(crate) finalised_slot: Slot,
}

/// A question to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// Whom.
    pub(crate) peer: Peer,
    /// Its number.
    pub(crate) id: u64,
    /// The request's name.
    pub(crate) name: &'static str,
    /// The request.
    pub(crate) data: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Status {
        /// When, by the monotonic clock.
        since_ns: u64,
    },
    Blocks,
}

/// A question that is not answered.
#[derive(Clone, Copy, Debug)]
struct Open {
    peer: Peer,
    asked: Asked,
    /// From when on others are asked meanwhile, by the monotonic clock; none until it was looked at.
    due_ns: Option<u64>,
    /// They are.
    is_overdue: bool,
}

/// Whom a node asks, and what for. The network bounds how many peers there are.
#[derive(Debug, Default)]
pub(crate) struct Sync {
    peers: BTreeSet<Peer>,
    /// Those of them that the node was configured with.
    own: BTreeSet<Peer>,
    /// Peers that came and were not asked.
    fresh: BTreeSet<Peer>,
    /// In which slot each of the others was asked for its status last.
    asked: BTreeMap<Peer, Slot>,
    /// Questions that are not answered, by number; no peer has two.
    open: BTreeMap<u64, Open>,
    id_next: u64,
    /// Whether the peer that was asked for its status last was new.
    was_new: bool,
    /// The last slot in which a peer that is not new was asked for its status, and how many were.
    asked_slot: Option<(Slot, u32)>,
    /// Whether the last question came to nothing, or is overdue, so that another peer is asked.
    again: bool,
    /// The last status that came, and when it was asked for.
    heard: Option<(Status, u64)>,
    /// What each peer whose head is not known here brought last: slots and roots in its order, of those
    /// that the chain has no more than the last.
    brought: BTreeMap<Peer, Vec<(Slot, Root)>>,
    /// Those of them whose answer led nowhere.
    alone: BTreeSet<Peer>,
    fetch: Fetch,
}

/// What an answer comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing is to be done.
    Nothing,
    /// The bytes are no answer to the question: the peer is to blame.
    Malformed,
    /// Blocks to be checked, in this order.
    Blocks(Vec<Arc<[u8]>>),
    /// The block that was asked for by its root, to be checked: its header alone is known to be
    /// that one's.
    Block(Arc<[u8]>),
}

impl Sync {
    /// A peer is connected; `is_own` if the node was configured with it.
    pub(crate) fn peer_up(&mut self, peer: Peer, is_own: bool) {
        self.peers.insert(peer);
        if is_own {
            self.own.insert(peer);
        }
        self.fresh.insert(peer);
        self.asked.remove(&peer);
    }

    /// A peer is gone, and with it the question to it.
    pub(crate) fn peer_down(&mut self, peer: Peer) {
        self.peers.remove(&peer);
        self.own.remove(&peer);
        self.fresh.remove(&peer);
        self.asked.remove(&peer);
        self.forget_brought(peer);
        self.fetch.peer_down(peer);
        self.open.retain(|_, open| open.peer != peer);
    }

    /// The question to ask now: of a configured peer that was not asked; if no other one is waited for, of
    /// a new peer, or once a slot of the one that was asked longest ago, and of one more if the last question
    /// brought nothing.
    pub(crate) fn poll(&mut self, now_ns: u64, standing: Standing) -> Option<Question> {
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

    /// A configured peer that was not asked since it came.
    fn fresh_own(&self) -> Option<Peer> {
        let open = self.open.values();
        let of_own = open.filter(|open| self.own.contains(&open.peer)).count();
        let mut fresh = self.fresh.intersection(&self.own).copied();
        fresh.find(|peer| of_own < OPEN_MAX && self.is_free(peer))
    }

    /// How many peers that are not new were asked in a slot.
    fn times_asked(&self, slot: Slot) -> u32 {
        let asked = self.asked_slot.filter(|(last, _)| *last >= slot);
        asked.map_or(0, |(_, times)| times)
    }

    /// Whose turn it is among the new ones and the others.
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

    /// Whether an answer is waited for. One that does not come soon is not: who asks to be asked for
    /// blocks and gives none keeps nobody else from being asked.
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

    /// Questions to ask now for the blocks that messages wait for: all of those, the most wanted
    /// first.
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

    /// The question could not be asked.
    pub(crate) fn refused(&mut self, id: u64) {
        self.fetch.refused(id);
        // Another peer is asked in the same slot.
        self.again |= self.open.remove(&id).is_some();
    }

    /// The answer to a question: its chunks, or none if there was no answer. `knows` tells whether
    /// a block is in the chain here, `read` what the slot and the root of a chunk's block are. A
    /// follow-up question comes beside what the answer comes to.
    pub(crate) fn answer(
        &mut self,
        id: u64,
        chunks: Option<Vec<Arc<[u8]>>>,
        network: [u8; 4],
        standing: Standing,
        knows: impl Fn(&Root) -> bool,
        read: impl Fn(&[u8]) -> Option<(Slot, Root)>,
    ) -> (Answer, Option<Question>) {
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
        let Some(chunks) = chunks else {
            return (Answer::Nothing, None);
        };
        match asked {
            Asked::Blocks => {
                let blocks = chunks.iter().take(usize::from(BLOCKS_ASKED));
                let brought: Vec<_> = blocks.map_while(|chunk| read(chunk)).collect();
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
                let behind = !knows(&status.head) && status.head_slot > standing.finalised_slot;
                if !behind {
                    self.forget_brought(peer);
                    return (Answer::Nothing, None);
                }
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
    /// Questions for a range of blocks that are open.
    fn ranges(&self) -> usize {
        let open = self.open.values();
        open.filter(|open| open.asked == Asked::Blocks).count()
    }

    /// The status that the last answer was, once, and when it was asked for.
    pub(crate) fn take_heard(&mut self) -> Option<(Status, u64)> {
        self.heard.take()
    }

    /// Has every peer be asked soon, one after the other: what they said is of no use any more.
    pub(crate) fn ask_all(&mut self) {
        self.fresh.clone_from(&self.peers);
        self.asked.clear();
    }

    fn forget_brought(&mut self, peer: Peer) {
        self.brought.remove(&peer);
        self.alone.remove(&peer);
    }

    /// The slot from which blocks are asked of a peer: after the furthest that an answer reached, where all
    /// up to it are in the chain by now; of one that is alone, after what its own last answer reached.
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
            // One is left of those: a look takes little, however many peers brought blocks.
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
