//! Messages between neighbours, and their sizes.
//!
//! Messages are never actually encoded. A header takes two bytes, a payload four for its length, a
//! list of identities two for its count.

use super::{DenseId, ID_BYTES};
use std::fmt::Debug;
use std::sync::Arc;

/// Size in bytes of a message without payload and identities.
const HEAD_BYTES: u64 = 2;

/// A published payload, opaque here except for its size.
pub(crate) trait Payload: Clone + Debug + Send {
    /// Size on the wire in bytes.
    fn wire_bytes(&self) -> u64;
}

/// Identities in ascending order without duplicates, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids(List);

/// A single identity needs no allocation, because IDONTWANT is sent for every large message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum List {
    One([DenseId; 1]),
    Many(Arc<[DenseId]>),
}

impl Ids {
    /// A list of one identity.
    pub(crate) const fn one(id: DenseId) -> Self {
        Self(List::One([id]))
    }

    /// The identities of a list in any order; none if it is empty.
    pub(crate) fn new(mut ids: Vec<DenseId>) -> Option<Self> {
        ids.sort_unstable();
        ids.dedup();
        match ids[..] {
            [] => None,
            [id] => Some(Self::one(id)),
            _ => Some(Self(List::Many(ids.into()))),
        }
    }

    /// The identities.
    pub(crate) fn as_slice(&self) -> &[DenseId] {
        match &self.0 {
            List::One(id) => id,
            List::Many(ids) => ids,
        }
    }
}

/// A message between neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message<P> {
    /// A published message.
    Data {
        /// Its identity.
        id: DenseId,
        /// The message.
        payload: P,
    },
    /// Like [`Message::Data`], but the receiver forwards the message once; in a grid only.
    Relay {
        /// Its identity.
        id: DenseId,
        /// The message.
        payload: P,
    },
    /// Announces messages that can be requested.
    IHave(Ids),
    /// Requests messages.
    IWant(Ids),
    /// Declines copies of these messages.
    IDontWant(Ids),
    /// Adds sender and receiver to each other's mesh.
    Graft,
    /// Removes them from each other's mesh, for the back-off time.
    Prune,
}

impl<P: Payload> Message<P> {
    /// Size on the wire in bytes.
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

    /// Name of the message kind, for traces and counters.
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
