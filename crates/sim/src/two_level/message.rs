//! What nodes of the two-level model send each other, and what their processors do.

use crate::gossip::{Message, Payload};
use crate::role::{Labour, Wire};
use alphorn_scheme::{Features, Schedulable};

/// What is sent as a whole: a signature, or a proof of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Bytes.
    pub bytes: u64,
    /// Signers.
    pub signers: u32,
}

impl Payload for Content {
    fn wire_bytes(&self) -> u64 {
        self.bytes
    }
}

/// What nodes send each other.
#[derive(Clone, Debug)]
pub enum TwoLevelMessage {
    /// A signature in its group, numbered by the signer's place there.
    Signature(Message<Content>),
    /// A proof among global aggregators, numbered by its group.
    Proof(Message<Content>),
    /// The sender has the proof of a group.
    Announce {
        /// The group.
        group: u32,
        /// Bytes of the announcement.
        bytes: u32,
    },
    /// The sender asks for the proof of a group.
    Want {
        /// The group.
        group: u32,
        /// Bytes of the request.
        bytes: u32,
    },
}

impl Wire for TwoLevelMessage {
    const KINDS: &'static [&'static str] = &["signature", "proof", "announce", "want", "control"];

    fn wire_bytes(&self) -> u64 {
        match self {
            Self::Signature(message) | Self::Proof(message) => message.wire_bytes(),
            Self::Announce { bytes, .. } | Self::Want { bytes, .. } => (*bytes).into(),
        }
    }

    fn kind(&self) -> usize {
        match self {
            Self::Signature(Message::Data { .. } | Message::Relay { .. }) => 0,
            Self::Proof(Message::Data { .. } | Message::Relay { .. }) => 1,
            Self::Announce { .. } => 2,
            Self::Want { .. } => 3,
            Self::Signature(_) | Self::Proof(_) => 4,
        }
    }

    fn has_payload(&self) -> bool {
        self.kind() < 2
    }
}

/// What the processor of a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoLevelWork {
    pub(super) cost_ns: u64,
}

impl Schedulable for TwoLevelWork {
    fn features(&self) -> Features {
        Features {
            kind: u16::MAX,
            class: 0,
            inputs: 1,
            prior_ns: self.cost_ns,
            memory_bytes: 0,
        }
    }
}

impl Labour for TwoLevelWork {
    type Product = ();

    fn run(self) {}
}
