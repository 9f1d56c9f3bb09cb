//! Reasons for rejecting a message, and the verdict on its sender.

use alphorn_types::DecodeError;
use thiserror::Error;

use crate::Verdict;
use alphorn_types::reasons;

/// Why a message was rejected. The first failing check decides; variants are in the order of the
/// checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Reject {
    /// It does not decode within the limits, is not canonical, or names something outside the
    /// layout.
    #[error("malformed: {0}")]
    Malformed(#[source] DecodeError),
    /// It arrived on a topic of another kind, committee or cell.
    #[error("published on a topic that does not carry it")]
    WrongTopic,
    /// Its slot is over.
    #[error("slot is over")]
    TooOld,
    /// Its slot has not begun.
    #[error("slot has not begun")]
    TooEarly,
    /// It refers to an unknown block.
    #[error("about a block that is not known")]
    UnknownBlock,
    /// It refers to a block that conflicts with the finalised one.
    #[error("conflicts with the finalised block")]
    Conflicting,
    /// The source or target of its vote is not in the chain of its head.
    #[error("source or target do not fit the chain of the head")]
    InconsistentVote,
    /// The head of its vote has had a child for too long.
    #[error("others have built on the head for long")]
    StaleHead,
    /// Its sender or voter is not a member of the committee or cell.
    #[error("sender is no member of the committee or cell")]
    NotMember,
    /// Its block was not made by the slot's proposer.
    #[error("proposer does not have the slot")]
    WrongProposer,
    /// Its block is not after its parent, or includes collections that do not belong to its chain.
    #[error("block is not after its parent or includes what is not of its chain")]
    InvalidBlock,
    /// It has no signers.
    #[error("no signer")]
    NoSigner,
    /// The sender does not serve in this slot.
    #[error("sender is not selected for the slot")]
    NotSelected,
    /// The sender's message for the slot was already accepted.
    #[error("already taken from this sender")]
    Duplicate,
    /// The maximum number of messages for the slot was already accepted.
    #[error("as many as a slot takes were already taken")]
    Full,
    /// All its signers are contained in one accepted message for the same vote.
    #[error("adds no signer to a message already taken")]
    Subset,
    /// Its proof of selection is invalid.
    #[error("proof of selection does not hold")]
    BadSelection,
    /// The sender's own signature is invalid.
    #[error("envelope signature does not hold")]
    BadEnvelope,
    /// The evidence of the votes is invalid.
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
    /// Verdict for the gossip network: ignore if an honest peer may have sent it, reject if none
    /// would.
    pub(crate) const fn verdict(&self) -> Verdict {
        match self {
            // An honest peer may send these: its clock differs, it has seen other blocks, or it
            // does not know what was accepted here.
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

    /// Maps a decoding error to a reason. A support that refers to an unknown block is not
    /// malformed, only not readable yet.
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
