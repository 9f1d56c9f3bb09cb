//! How a node catches up: it asks peers where they stand, and for the blocks that it lacks.
//!
//! Gossip carries the blocks of the present. After a start, a partition or a pause some are
//! missing, and nothing that builds on them is understood. So once a slot, and when a peer comes,
//! a node asks one peer for its status; if that names a head that is not known here, it asks for
//! the blocks after its own finalised one. They pass the same checks as any block. Where an answer
//! brought blocks that are in the chain by now, the next question begins after them, so that a gap
//! of any length is filled piece by piece.
//!
//! One question is open at a time, and an answer is taken only from whom it was asked.

use crate::blocks::RANGE_MAX;
use alphorn_net::RequestProtocol;
use alphorn_proto::Peer;
use alphorn_proto::wire::Root;
use alphorn_types::Slot;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Name of the request for a [`Status`].
pub const STATUS: &str = "status";
/// Name of the request for blocks; see [`encode_range`].
pub const BLOCKS_BY_RANGE: &str = "blocks_by_range";

/// Bytes of a [`Status`].
pub const STATUS_BYTES: usize = 92;
/// Bytes of a request for blocks.
pub const RANGE_BYTES: usize = 10;

/// The protocols of both, where an answer with blocks has at most so many bytes.
pub fn requests(answer_bytes_max: usize) -> Vec<RequestProtocol> {
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
    ]
}

/// Most blocks that are asked for at a time.
const BLOCKS_ASKED: u16 = 128;
/// Most peers that are remembered; more than a node has connections.
const PEERS_MAX: usize = 256;

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The network's digest.
    pub network: [u8; 4],
    /// The slot by the node's clock.
    pub slot: Slot,
    /// The slot of its head.
    pub head_slot: Slot,
    /// Its head.
    pub head: Root,
    /// The slot of its finalised checkpoint.
    pub finalised_slot: Slot,
    /// That checkpoint's block.
    pub finalised: Root,
}

impl Status {
    /// On the wire: all fields in order, little-endian.
    pub fn encode(&self) -> [u8; STATUS_BYTES] {
        let mut bytes = [0; STATUS_BYTES];
        let fields: [&[u8]; 6] = [
            &self.network,
            &self.slot.0.to_le_bytes(),
            &self.head_slot.0.to_le_bytes(),
            &self.head,
            &self.finalised_slot.0.to_le_bytes(),
            &self.finalised,
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
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; STATUS_BYTES] = bytes.try_into().ok()?;
        let mut rest = bytes.as_slice();
        Some(Status {
            network: take(&mut rest)?,
            slot: Slot(u64::from_le_bytes(take(&mut rest)?)),
            head_slot: Slot(u64::from_le_bytes(take(&mut rest)?)),
            head: take(&mut rest)?,
            finalised_slot: Slot(u64::from_le_bytes(take(&mut rest)?)),
            finalised: take(&mut rest)?,
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*head)
}

/// A request for at most `count` blocks from slot `from` on.
pub fn encode_range(from: Slot, count: u16) -> [u8; RANGE_BYTES] {
    let mut bytes = [0; RANGE_BYTES];
    bytes[..8].copy_from_slice(&from.0.to_le_bytes());
    bytes[8..].copy_from_slice(&count.to_le_bytes());
    bytes
}

/// The inverse of [`encode_range`]; none for bytes of another length.
pub fn decode_range(bytes: &[u8]) -> Option<(Slot, u16)> {
    let bytes: &[u8; RANGE_BYTES] = bytes.try_into().ok()?;
    let mut rest = bytes.as_slice();
    let from = u64::from_le_bytes(take(&mut rest)?);
    Some((Slot(from), u16::from_le_bytes(take(&mut rest)?)))
}

/// What a node knows of its own chain, for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The slot by the clock.
    pub slot: Slot,
    /// The slot of the finalised checkpoint.
    pub finalised_slot: Slot,
}

/// A question to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Whom.
    pub peer: Peer,
    /// Its number.
    pub id: u64,
    /// The request's name.
    pub name: &'static str,
    /// The request.
    pub data: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Status,
    Blocks,
}

/// Whom a node asks, and what for.
#[derive(Debug, Default)]
pub struct Sync {
    peers: BTreeSet<Peer>,
    /// Peers that came and were not asked.
    fresh: BTreeSet<Peer>,
    open: Option<(u64, Peer, Asked)>,
    id_next: u64,
    /// The peer that was asked last, so that all have their turn.
    last: u64,
    /// The last slot in which a peer was asked for its status.
    asked_slot: Option<Slot>,
    /// What the last answer brought: slots and roots in its order.
    brought: Vec<(Slot, Root)>,
}

/// What an answer comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is to be done.
    Nothing,
    /// The bytes are no answer to the question: the peer is to blame.
    Malformed,
    /// Blocks to be checked, in this order.
    Blocks(Vec<Arc<[u8]>>),
}

impl Sync {
    /// A peer is connected.
    pub fn peer_up(&mut self, peer: Peer) {
        if self.peers.len() < PEERS_MAX {
            self.peers.insert(peer);
            self.fresh.insert(peer);
        }
    }

    /// A peer is gone, and with it the question to it.
    pub fn peer_down(&mut self, peer: Peer) {
        self.peers.remove(&peer);
        self.fresh.remove(&peer);
        if self.open.is_some_and(|(_, asked, _)| asked == peer) {
            self.open = None;
        }
    }

    /// The question to ask now, if none is open: a new peer, or once a slot the next one.
    pub fn poll(&mut self, standing: Standing) -> Option<Question> {
        if self.open.is_some() {
            return None;
        }
        let peer = match self.fresh.pop_first() {
            Some(peer) => peer,
            None if self.asked_slot.is_none_or(|asked| asked < standing.slot) => {
                let next = self.peers.range(Peer(self.last.saturating_add(1))..).next();
                *next.or(self.peers.first())?
            }
            None => return None,
        };
        self.asked_slot = Some(standing.slot);
        self.last = peer.0;
        Some(self.ask(peer, Asked::Status, Vec::new()))
    }

    fn ask(&mut self, peer: Peer, asked: Asked, data: Vec<u8>) -> Question {
        let id = self.id_next;
        self.id_next += 1;
        self.open = Some((id, peer, asked));
        Question {
            peer,
            id,
            name: match asked {
                Asked::Status => STATUS,
                Asked::Blocks => BLOCKS_BY_RANGE,
            },
            data,
        }
    }

    /// The question could not be asked.
    pub fn refused(&mut self, id: u64) {
        if self.open.is_some_and(|(open, ..)| open == id) {
            self.open = None;
        }
    }

    /// The answer to a question: its chunks, or none if there was no answer. `knows` tells whether
    /// a block is in the chain here, `read` what the slot and the root of a chunk's block are. A
    /// follow-up question comes beside what the answer comes to.
    pub fn answer(
        &mut self,
        id: u64,
        chunks: Option<Vec<Arc<[u8]>>>,
        network: [u8; 4],
        standing: Standing,
        knows: impl Fn(&Root) -> bool,
        read: impl Fn(&[u8]) -> Option<(Slot, Root)>,
    ) -> (Answer, Option<Question>) {
        let Some((_, peer, asked)) = self.open.filter(|(open, ..)| *open == id) else {
            return (Answer::Nothing, None);
        };
        self.open = None;
        let Some(chunks) = chunks else {
            return (Answer::Nothing, None);
        };
        match asked {
            Asked::Blocks => {
                let blocks = chunks.iter().take(usize::from(BLOCKS_ASKED));
                self.brought = blocks.map_while(|chunk| read(chunk)).collect();
                (Answer::Blocks(chunks), None)
            }
            Asked::Status => {
                let status = match chunks.as_slice() {
                    [chunk] => Status::decode(chunk),
                    _ => None,
                };
                let Some(status) = status.filter(|status| status.network == network) else {
                    return (Answer::Malformed, None);
                };
                let behind = !knows(&status.head) && status.head_slot > standing.finalised_slot;
                let question = behind.then(|| {
                    let from = self.first_lacking(standing, &knows);
                    let range = encode_range(from, BLOCKS_ASKED).to_vec();
                    self.ask(peer, Asked::Blocks, range)
                });
                (Answer::Nothing, question)
            }
        }
    }
}

impl Sync {
    /// The slot from which blocks are asked for: after those of the last answer that are in the chain
    /// by now. If its first one is not, that answer led nowhere, and the next question begins anew
    /// after the finalised block.
    fn first_lacking(&mut self, standing: Standing, knows: impl Fn(&Root) -> bool) -> Slot {
        let finalised = standing.finalised_slot;
        let brought = std::mem::take(&mut self.brought).into_iter();
        let taken = brought
            .skip_while(|(slot, _)| *slot <= finalised)
            .take_while(|(_, root)| knows(root));
        taken
            .fold(finalised, |last, (slot, _)| last.max(slot))
            .next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: [u8; 4] = [1, 2, 3, 4];
    const HERE: Standing = Standing {
        slot: Slot(9),
        finalised_slot: Slot(5),
    };

    fn status(head: u8, head_slot: u64) -> Status {
        Status {
            network: NETWORK,
            slot: Slot(9),
            head_slot: Slot(head_slot),
            head: [head; 32],
            finalised_slot: Slot(4),
            finalised: [7; 32],
        }
    }

    fn chunk(status: Status) -> Option<Vec<Arc<[u8]>>> {
        Some(vec![Arc::from(status.encode().as_slice())])
    }

    fn knows(root: &Root) -> bool {
        root[0] < 10
    }

    /// A block of these tests is its slot; its root begins with a tenth of it.
    fn read(block: &[u8]) -> Option<(Slot, Root)> {
        let slot = u64::from_le_bytes(block.try_into().ok()?);
        Some((Slot(slot), [(slot / 10) as u8; 32]))
    }

    #[test]
    fn what_is_encoded_comes_back() {
        let one = status(3, 8);
        assert_eq!(Status::decode(&one.encode()), Some(one));
        assert_eq!(Status::decode(&[0; STATUS_BYTES - 1]), None);
        assert_eq!(
            decode_range(&encode_range(Slot(77), 9)),
            Some((Slot(77), 9))
        );
        assert_eq!(decode_range(&[0; RANGE_BYTES + 1]), None);
    }

    #[test]
    fn an_unknown_head_is_followed_by_a_question_for_blocks() {
        let mut sync = Sync::default();
        assert_eq!(sync.poll(HERE), None, "nobody to ask");
        sync.peer_up(Peer(3));
        let asked = sync.poll(HERE).unwrap();
        assert_eq!((asked.peer, asked.name), (Peer(3), STATUS));
        assert_eq!(sync.poll(HERE), None, "one question at a time");
        let (answer, more) =
            sync.answer(asked.id, chunk(status(20, 8)), NETWORK, HERE, knows, read);
        let more = more.unwrap();
        assert_eq!((answer, more.name), (Answer::Nothing, BLOCKS_BY_RANGE));
        assert_eq!(decode_range(&more.data), Some((Slot(6), BLOCKS_ASKED)));
        let blocks = vec![Arc::from([1u8].as_slice())];
        let late = sync.answer(asked.id, Some(blocks.clone()), NETWORK, HERE, knows, read);
        assert_eq!(late, (Answer::Nothing, None), "an answer is taken once");
        let (answer, none) = sync.answer(more.id, Some(blocks.clone()), NETWORK, HERE, knows, read);
        assert_eq!((answer, none), (Answer::Blocks(blocks), None));
    }

    /// Where the next question begins after an answer with the blocks of some slots.
    fn next_from(sync: &mut Sync, standing: Standing, slots: &[u64]) -> Slot {
        let ask = |sync: &mut Sync| {
            let asked = sync.poll(standing).unwrap();
            let answer = chunk(status(20, 900));
            let (_, more) = sync.answer(asked.id, answer, NETWORK, standing, knows, read);
            more.unwrap()
        };
        sync.peer_up(Peer(1));
        let more = ask(sync);
        let blocks = slots
            .iter()
            .map(|slot| Arc::from(slot.to_le_bytes().as_slice()));
        let blocks = Some(blocks.collect());
        sync.answer(more.id, blocks, NETWORK, standing, knows, read);
        sync.peer_up(Peer(1));
        let (from, count) = decode_range(&ask(sync).data).unwrap();
        assert_eq!(count, BLOCKS_ASKED);
        from
    }

    #[test]
    fn a_long_gap_is_filled_piece_by_piece() {
        // Blocks of slots below 100 are in the chain.
        let mut sync = Sync::default();
        assert_eq!(next_from(&mut sync, HERE, &[6, 8, 40, 90]), Slot(91));
        let mut sync = Sync::default();
        assert_eq!(next_from(&mut sync, HERE, &[50, 98, 101, 120]), Slot(99));
        // Of another branch, or nothing, or no block at all: from the beginning.
        for slots in [&[200, 201][..], &[]] {
            let mut sync = Sync::default();
            assert_eq!(next_from(&mut sync, HERE, slots), Slot(6));
        }
        // What is final meanwhile is not asked for.
        let mut sync = Sync::default();
        let later = Standing {
            finalised_slot: Slot(95),
            ..HERE
        };
        assert_eq!(next_from(&mut sync, later, &[40, 50]), Slot(96));
    }

    #[test]
    fn a_known_head_ends_it_and_peers_take_turns() {
        let mut sync = Sync::default();
        sync.peer_up(Peer(3));
        sync.peer_up(Peer(8));
        for (slot, peer) in [(9, 3), (9, 8), (10, 3), (11, 8), (12, 3)] {
            let here = Standing {
                slot: Slot(slot),
                ..HERE
            };
            let asked = sync.poll(here).unwrap();
            assert_eq!(asked.peer, Peer(peer), "slot {slot}");
            let (answer, more) =
                sync.answer(asked.id, chunk(status(2, 8)), NETWORK, here, knows, read);
            assert_eq!((answer, more), (Answer::Nothing, None));
        }
        assert_eq!(
            sync.poll(Standing {
                slot: Slot(12),
                ..HERE
            }),
            None,
            "once a slot"
        );
    }

    #[test]
    fn a_bad_answer_or_none_leaves_the_way_free() {
        let mut sync = Sync::default();
        sync.peer_up(Peer(1));
        let id = sync.poll(HERE).unwrap().id;
        let other = Status {
            network: [9; 4],
            ..status(20, 8)
        };
        let answer = sync.answer(id, chunk(other), NETWORK, HERE, knows, read);
        assert_eq!(answer, (Answer::Malformed, None));
        sync.peer_up(Peer(2));
        let id = sync.poll(HERE).unwrap().id;
        assert_eq!(
            sync.answer(id, None, NETWORK, HERE, knows, read),
            (Answer::Nothing, None)
        );
        sync.peer_up(Peer(4));
        assert_eq!(sync.poll(HERE).unwrap().peer, Peer(4));
        sync.peer_down(Peer(4));
        sync.peer_up(Peer(5));
        let refused = sync.poll(HERE).unwrap();
        assert_eq!(
            refused.peer,
            Peer(5),
            "a peer that went away is not waited for"
        );
        sync.refused(refused.id);
        sync.peer_up(Peer(6));
        assert!(sync.poll(HERE).is_some());
    }
}
