//! Why a message is not taken, and what that means for who sent it.

use alphorn_types::DecodeError;
use thiserror::Error;

use crate::{Verdict, reasons};

/// Why a message was not taken; the first check that fails decides. The order is that of the
/// checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Reject {
    /// It does not decode within the limits, or not canonically, or names no member of the layout.
    #[error("malformed: {0}")]
    Malformed(#[source] DecodeError),
    /// It came on a topic of another kind, committee or cell.
    #[error("published on a topic that does not carry it")]
    WrongTopic,
    /// Its slot is over.
    #[error("slot is over")]
    TooOld,
    /// Its slot has not begun.
    #[error("slot has not begun")]
    TooEarly,
    /// It is about a block that is not known here.
    #[error("about a block that is not known")]
    UnknownBlock,
    /// It is about a block that conflicts with the finalised one.
    #[error("conflicts with the finalised block")]
    Conflicting,
    /// Source or target of its vote are not in the chain of its head.
    #[error("source or target do not fit the chain of the head")]
    InconsistentVote,
    /// Others have built on the head of its vote for long.
    #[error("others have built on the head for long")]
    StaleHead,
    /// Its sender or voter is no member of the committee or cell.
    #[error("sender is no member of the committee or cell")]
    NotMember,
    /// Its block was not made by the proposer of the slot.
    #[error("proposer does not have the slot")]
    WrongProposer,
    /// Its block is not after its parent, or includes collections that do not belong in its chain.
    #[error("block is not after its parent or includes what is not of its chain")]
    InvalidBlock,
    /// It names no signer.
    #[error("no signer")]
    NoSigner,
    /// The sender does not serve in this slot.
    #[error("sender is not selected for the slot")]
    NotSelected,
    /// The sender's message of the slot was already taken.
    #[error("already taken from this sender")]
    Duplicate,
    /// As many messages as a slot takes were already taken.
    #[error("as many as a slot takes were already taken")]
    Full,
    /// All of its signers were seen in one message of the same vote.
    #[error("adds no signer to a message already taken")]
    Subset,
    /// Its proof of selection does not hold.
    #[error("proof of selection does not hold")]
    BadSelection,
    /// The sender's own signature does not hold.
    #[error("envelope signature does not hold")]
    BadEnvelope,
    /// The votes' evidence does not hold.
    #[error("evidence of the votes does not hold")]
    BadEvidence,
}

reasons!(pub Reject {
    Malformed => "malformed",
    WrongTopic => "wrong_topic",
    TooOld => "too_old",
    TooEarly => "too_early",
    UnknownBlock => "unknown_block",
    Conflicting => "conflicting",
    InconsistentVote => "inconsistent_vote",
    StaleHead => "stale_head",
    NotMember => "not_member",
    WrongProposer => "wrong_proposer",
    InvalidBlock => "invalid_block",
    NoSigner => "no_signer",
    NotSelected => "not_selected",
    Duplicate => "duplicate",
    Full => "full",
    Subset => "subset",
    BadSelection => "bad_selection",
    BadEnvelope => "bad_envelope",
    BadEvidence => "bad_evidence",
});

impl Reject {
    /// What the gossip network does with the message: ignore it where an honest peer may have
    /// sent it, reject it where none does.
    pub(crate) const fn verdict(&self) -> Verdict {
        match self {
            Self::TooOld
            | Self::TooEarly
            | Self::UnknownBlock
            | Self::Conflicting
            | Self::StaleHead
            | Self::Duplicate
            | Self::Full
            | Self::Subset => Verdict::Ignore,
            Self::Malformed(_)
            | Self::WrongTopic
            | Self::InconsistentVote
            | Self::NotMember
            | Self::WrongProposer
            | Self::InvalidBlock
            | Self::NoSigner
            | Self::NotSelected
            | Self::BadSelection
            | Self::BadEnvelope
            | Self::BadEvidence => Verdict::Reject,
        }
    }

    /// The reason of a failed decoding: a support that refers to an unknown block is not
    /// malformed, it cannot be read yet.
    pub(crate) fn from_decode(error: DecodeError) -> Self {
        match error {
            DecodeError::Missing { .. } => Self::UnknownBlock,
            error => Self::Malformed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_those_of_their_reasons() {
        let names: BTreeSet<_> = Reject::NAMES.into_iter().collect();
        assert_eq!(names.len(), Reject::NAMES.len());
        assert_eq!(Reject::WrongTopic.name(), "wrong_topic");
        assert_eq!(Reject::InconsistentVote.name(), "inconsistent_vote");
        assert_eq!(Reject::Full.name(), "full");
        assert_eq!(Reject::BadEvidence.name(), "bad_evidence");
        assert_eq!(Reject::BadEvidence.index() + 1, Reject::NAMES.len());
    }

    #[test]
    fn what_cannot_be_read_yet_is_not_malformed() {
        let missing = Reject::from_decode(DecodeError::Missing { what: "block" });
        assert_eq!(missing, Reject::UnknownBlock);
        assert_eq!(missing.verdict(), Verdict::Ignore);
        let trailing = Reject::from_decode(DecodeError::Trailing { bytes: 1 });
        assert_eq!(trailing.name(), "malformed");
        assert_eq!(trailing.verdict(), Verdict::Reject);
    }
}
