//! Messages between neighbours, and how long they are.
//!
//! Nobody encodes them. A head takes two bytes, a payload four for its length, a list of names two for
//! its count.

use super::{DenseId, ID_BYTES};
use std::fmt::Debug;
use std::sync::Arc;

/// Bytes of a message without payload and names.
const HEAD_BYTES: u64 = 2;

/// What is published: opaque here but for its size.
pub(crate) trait Payload: Clone + Debug + Send {
    /// Bytes on the wire.
    fn wire_bytes(&self) -> u64;
}

/// Names in ascending order without repetition, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids(List);

/// One name needs no memory of its own: IDONTWANT is sent for every large message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum List {
    One([DenseId; 1]),
    Many(Arc<[DenseId]>),
}

impl Ids {
    /// One name.
    pub(crate) const fn one(id: DenseId) -> Self {
        Self(List::One([id]))
    }

    /// The names of a list, in any order; none if it is empty.
    pub(crate) fn new(mut ids: Vec<DenseId>) -> Option<Self> {
        ids.sort_unstable();
        ids.dedup();
        match ids[..] {
            [] => None,
            [id] => Some(Self::one(id)),
            _ => Some(Self(List::Many(ids.into()))),
        }
    }

    /// The names.
    pub(crate) fn as_slice(&self) -> &[DenseId] {
        match &self.0 {
            List::One(id) => id,
            List::Many(ids) => ids,
        }
    }
}

/// What neighbours send each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message<P> {
    /// A published message.
    Data {
        /// Its name.
        id: DenseId,
        /// The message.
        payload: P,
    },
    /// A published message that the receiver forwards once, as [`Message::Data`]; in a grid only.
    Relay {
        /// Its name.
        id: DenseId,
        /// The message.
        payload: P,
    },
    /// Announces messages that can be asked for.
    IHave(Ids),
    /// Asks for messages.
    IWant(Ids),
    /// Says that copies of these messages would be wasted.
    IDontWant(Ids),
    /// Puts sender and receiver into each other's mesh.
    Graft,
    /// Takes them out, for the time of the back-off.
    Prune,
}

impl<P: Payload> Message<P> {
    /// Bytes on the wire.
    pub(crate) fn wire_bytes(&self) -> u64 {
        let ids_bytes = |ids: &Ids| 2 + ID_BYTES as u64 * ids.as_slice().len() as u64;
        HEAD_BYTES
            + match self {
                Self::Data { payload, .. } | Self::Relay { payload, .. } => {
                    4 + payload.wire_bytes()
                }
                Self::IHave(ids) | Self::IWant(ids) | Self::IDontWant(ids) => ids_bytes(ids),
                Self::Graft | Self::Prune => 0,
            }
    }

    /// The name of the kind, for traces and counters.
    #[cfg(test)]
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Data { .. } => "data",
            Self::Relay { .. } => "relay",
            Self::IHave(_) => "ihave",
            Self::IWant(_) => "iwant",
            Self::IDontWant(_) => "idontwant",
            Self::Graft => "graft",
            Self::Prune => "prune",
        }
    }
}
