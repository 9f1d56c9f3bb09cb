//! What nodes of a Horn network send each other: the protocol's messages on topics, each encoded once and shared by
//! all its holders.

use super::plan::TopicId;
use super::work::Code;
use crate::gossip::{DenseId, Message, Payload};
use crate::role::Wire;
use alphorn_broadcast::rlnc::Id;
use alphorn_proto::wire::Root;
use alphorn_scheme::Bytes;
use alphorn_types::{Bitfield, Slot, Support, Unit};
use std::sync::Arc;

/// Evidence of a unit's votes, with the fields that observers of a run read.
#[derive(Debug)]
pub(crate) struct EvidenceBody {
    /// The slot of the votes.
    pub slot: Slot,
    /// The unit: a cell, a committee, or a unit between these levels.
    pub unit: Unit,
    /// The validator that made it.
    pub sender: u32,
    /// How often each position of the unit is counted.
    pub support: Arc<Support>,
    /// Positions that are counted.
    pub signers: Bitfield,
    /// Number of signers.
    pub votes: u32,
    /// The parts that its job summed, by unit; empty for a cell. They are not in the message, but observers of a
    /// run can recompute the multiplicities.
    pub parts: Parts,
    /// The message.
    pub data: Bytes,
}

/// The parts that a job summed: supports by unit number.
pub(crate) type Parts = Arc<[(u32, Arc<Support>)]>;

/// A block, with the fields that observers of a run read.
#[derive(Debug)]
pub(crate) struct BlockBody {
    /// The slot of the block.
    pub slot: Slot,
    /// Its root.
    pub root: Root,
    /// Slot of the votes, committee and signers of each entry.
    pub entries: Vec<(Slot, u16, Bitfield)>,
    /// The message.
    pub data: Bytes,
}

/// A published item.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A vote.
    Vote(Bytes),
    /// An aggregate.
    Aggregate(Arc<EvidenceBody>),
    /// A collection.
    Collection(Arc<EvidenceBody>),
    /// A block.
    Block(Arc<BlockBody>),
}

impl Item {
    /// The message.
    #[inline]
    pub(crate) fn data(&self) -> &Bytes {
        match self {
            Item::Vote(data) => data,
            Item::Aggregate(body) => &body.data,
            Item::Collection(body) => &body.data,
            Item::Block(body) => &body.data,
        }
    }
}

impl Payload for Item {
    #[inline]
    fn wire_bytes(&self) -> u64 {
        self.data().len() as u64
    }
}

/// A question about a block that messages wait for, or an answer.
#[derive(Clone, Debug)]
pub(crate) enum Exchange {
    /// Asks for a block.
    Question {
        /// The asking node's number for the question.
        id: u64,
        /// The block.
        root: Root,
    },
    /// The block, if the answering node has it.
    Answer {
        /// The number of the question.
        id: u64,
        /// The block.
        block: Option<Arc<BlockBody>>,
    },
}

impl Exchange {
    /// Bytes on the wire. A question is a root, an answer is a code and the block.
    fn wire_bytes(&self) -> u64 {
        match self {
            Exchange::Question { root, .. } => root.len() as u64,
            Exchange::Answer { block, .. } => {
                1 + block.as_ref().map_or(0, |block| block.data.len() as u64)
            }
        }
    }

    /// Whether it carries a block.
    pub(super) fn has_block(&self) -> bool {
        matches!(self, Exchange::Answer { block: Some(_), .. })
    }
}

/// One side's part of joining topics over a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    /// The handshake if they are not connected yet, and a subscription and a GRAFT for each topic.
    pub(super) bytes: u32,
    /// Whether the other side has yet to send its own.
    pub(super) is_first: bool,
}

/// Content of a message.
#[derive(Clone, Debug)]
pub(crate) enum Inner {
    /// From a topic's state machine, which carries messages whole.
    Whole(Message<Item>),
    /// From a broadcast in coded pieces.
    Coded {
        /// The message.
        message: Box<alphorn_broadcast::Message<Code>>,
        /// Whether the payload is a block, not a collection.
        is_block: bool,
    },
    /// About a block that messages wait for.
    Exchange(Box<Exchange>),
    /// Makes a connection in order to join a topic.
    Handshake(Handshake),
}

/// A message of a topic.
#[derive(Clone, Debug)]
pub(crate) struct HornMessage {
    /// The topic.
    pub topic: TopicId,
    /// The message.
    pub inner: Inner,
}

impl HornMessage {
    /// A message that carries a whole item.
    pub(crate) fn data(topic: TopicId, id: DenseId, payload: Item) -> Self {
        let inner = Inner::Whole(Message::Data { id, payload });
        HornMessage { topic, inner }
    }

    /// The item carried whole, if there is one.
    pub(crate) fn item(&self) -> Option<&Item> {
        match &self.inner {
            Inner::Whole(Message::Data { payload, .. } | Message::Relay { payload, .. }) => {
                Some(payload)
            }
            Inner::Whole(_) | Inner::Coded { .. } | Inner::Exchange(_) | Inner::Handshake(_) => {
                None
            }
        }
    }
}

impl Wire for HornMessage {
    const KINDS: &'static [&'static str] = &["vote", "aggregate", "collection", "block", "control"];
    const PACES: bool = true;

    #[inline]
    fn wire_bytes(&self) -> u64 {
        match &self.inner {
            Inner::Whole(message) => message.wire_bytes(),
            Inner::Coded { message, .. } => message.wire_bytes(),
            Inner::Exchange(exchange) => exchange.wire_bytes(),
            Inner::Handshake(handshake) => handshake.bytes.into(),
        }
    }

    #[inline]
    fn kind(&self) -> usize {
        use alphorn_broadcast::Message::{Commits, Header, Piece};
        match self.item() {
            // In the order of `KINDS`.
            Some(Item::Vote(_)) => return 0,
            Some(Item::Aggregate(_)) => return 1,
            Some(Item::Collection(_)) => return 2,
            Some(Item::Block(_)) => return 3,
            None => {}
        }
        match &self.inner {
            // Pieces, and what they are verified with.
            Inner::Coded { message, is_block }
                if matches!(**message, Header(_) | Commits { .. } | Piece { .. }) =>
            {
                2 + usize::from(*is_block)
            }
            Inner::Exchange(exchange) if exchange.has_block() => 3,
            Inner::Handshake(_) | Inner::Exchange(_) | Inner::Coded { .. } | Inner::Whole(_) => 4,
        }
    }

    #[inline]
    fn has_payload(&self) -> bool {
        match &self.inner {
            Inner::Whole(_) => self.item().is_some(),
            Inner::Coded { message, .. } => message.has_payload(),
            Inner::Exchange(exchange) => exchange.has_block(),
            Inner::Handshake(_) => false,
        }
    }

    #[inline]
    fn is_paced(&self) -> bool {
        matches!(&self.inner, Inner::Coded { message, .. } if message.is_paced())
    }
}

/// What no longer needs to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// A message of a topic, by its number there.
    Whole(TopicId, DenseId),
    /// The pieces of a broadcast.
    Pieces(Id),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_small_and_names_its_kind() {
        assert!(
            size_of::<HornMessage>() <= 40,
            "{}",
            size_of::<HornMessage>()
        );
        let item = Item::Vote(vec![0; 222].into());
        let vote = HornMessage::data(TopicId(3), DenseId(7), item);
        assert_eq!((vote.kind(), vote.has_payload()), (0, true));
        // Version, tag and length around the vote.
        assert_eq!(vote.wire_bytes(), 222 + 6);
        let graft = HornMessage {
            topic: TopicId(3),
            inner: Inner::Whole(Message::Graft),
        };
        assert_eq!((graft.kind(), graft.has_payload()), (4, false));
    }
}
