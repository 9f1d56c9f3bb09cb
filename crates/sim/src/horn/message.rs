//! What nodes of a Horn network send each other: items on topics, with the sizes of the encoders.

use super::plan::TopicId;
use crate::role::Wire;
use alphorn_proto::gossip::{DenseId, Message, Payload};
use alphorn_types::{Bitfield, Support};
use std::sync::Arc;

/// The votes of a cell that one aggregator merged.
#[derive(Debug)]
pub struct AggregateBody {
    /// Number of the cell.
    pub cell: u32,
    /// The aggregator, by validator.
    pub sender: u32,
    /// Whose votes, by position of the cell.
    pub signers: Bitfield,
    /// Bytes of the message.
    pub bytes: u64,
}

/// The votes of a committee that one collector merged.
#[derive(Debug)]
pub struct CollectionBody {
    /// The committee.
    pub committee: u16,
    /// The collector, by validator.
    pub sender: u32,
    /// How often each position of the committee is counted.
    pub support: Support,
    /// Positions that are counted.
    pub signers: Bitfield,
    /// Number of those.
    pub votes: u32,
    /// What was summed. The evidence of the model has no content; this stands for it, so that
    /// whoever looks at a run can recompute the multiplicities. It is not among the bytes.
    pub parts: Vec<Arc<AggregateBody>>,
    /// Bytes of the message.
    pub bytes: u64,
    /// Bytes as an entry of a block.
    pub entry_bytes: u64,
}

/// A block and the collections in it.
#[derive(Debug)]
pub struct BlockBody {
    /// The collections.
    pub entries: Vec<Arc<CollectionBody>>,
    /// Bytes of the message.
    pub bytes: u64,
}

/// What is published.
#[derive(Clone, Debug)]
pub enum Item {
    /// A vote, by position in its cell.
    Vote {
        /// The voter's position.
        position: u32,
        /// Bytes of the message.
        bytes: u32,
    },
    /// An aggregate.
    Aggregate(Arc<AggregateBody>),
    /// A collection.
    Collection(Arc<CollectionBody>),
    /// A block.
    Block(Arc<BlockBody>),
}

impl Payload for Item {
    #[inline]
    fn wire_bytes(&self) -> u64 {
        match self {
            Item::Vote { bytes, .. } => u64::from(*bytes),
            Item::Aggregate(body) => body.bytes,
            Item::Collection(body) => body.bytes,
            Item::Block(body) => body.bytes,
        }
    }
}

/// A message of a topic's state machine.
#[derive(Clone, Debug)]
pub struct HornMessage {
    /// The topic.
    pub topic: TopicId,
    /// The message.
    pub inner: Message<DenseId, Item>,
}

impl Wire for HornMessage {
    const KINDS: &'static [&'static str] = &["vote", "aggregate", "collection", "block", "control"];

    #[inline]
    fn wire_bytes(&self) -> u64 {
        self.inner.wire_bytes()
    }

    #[inline]
    fn kind(&self) -> usize {
        match &self.inner {
            Message::Data { payload, .. } | Message::Relay { payload, .. } => match payload {
                Item::Vote { .. } => 0,
                Item::Aggregate(_) => 1,
                Item::Collection(_) => 2,
                Item::Block(_) => 3,
            },
            _ => 4,
        }
    }

    #[inline]
    fn has_payload(&self) -> bool {
        matches!(self.inner, Message::Data { .. } | Message::Relay { .. })
    }
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
        let payload = Item::Vote {
            position: 7,
            bytes: 222,
        };
        let inner = Message::Data {
            id: DenseId(7),
            payload,
        };
        let vote = HornMessage {
            topic: TopicId(3),
            inner,
        };
        assert_eq!((vote.kind(), vote.has_payload()), (0, true));
        // Version, tag and length around the vote.
        assert_eq!(vote.wire_bytes(), 222 + 6);
        let graft = HornMessage {
            topic: TopicId(3),
            inner: Message::Graft,
        };
        assert_eq!((graft.kind(), graft.has_payload()), (4, false));
    }
}
