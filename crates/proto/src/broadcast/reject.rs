//! What was refused, and whether its sender is to blame.

use crate::reasons;
use crate::rlnc::{HeaderError, PieceError};
use thiserror::Error;

/// Why something a peer sent was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Reject {
    /// Bytes of no known tag, or a message of the other code.
    #[error("not a message of this broadcast")]
    Malformed,
    /// Longer than any message may be.
    #[error("longer than a message may be")]
    TooLong,
    /// Length other than header and tag imply, counts that contradict each other, or a payload cut
    /// otherwise than by the policy of the network.
    #[error("length or counts contradict the header or the policy")]
    BadLength,
    /// A piece of a broadcast whose header is not here; it waits.
    #[error("its header is not here yet")]
    UnknownId,
    /// As many messages without header wait already as may.
    #[error("as many messages without header wait as may")]
    OrphanFull,
    /// The source has no such duty.
    #[error("the source has no such duty")]
    NotScheduled,
    /// The header's authenticator is invalid.
    #[error("the authenticator is invalid")]
    BadAuth,
    /// Beyond the second header of one subject.
    #[error("a third header of one subject")]
    Equivocation,
    /// A coefficient or data element that is not below the group order.
    #[error("a scalar is not canonical")]
    NonCanonicalScalar,
    /// A commitment that encodes no group element.
    #[error("a commitment is not canonical")]
    NonCanonicalPoint,
    /// All coefficients are zero.
    #[error("all coefficients are zero")]
    ZeroRow,
    /// The piece adds nothing to what is here.
    #[error("the piece adds nothing")]
    Dependent,
    /// The generation is complete.
    #[error("the generation is complete")]
    GenerationFull,
    /// The piece does not fit the commitment.
    #[error("the piece does not fit the commitment")]
    InvalidChunk,
    /// A Merkle path that does not lead to the root of the header.
    #[error("the Merkle path does not lead to the root")]
    BadPath,
    /// More unverified pieces, or more pieces at all, than a peer may send.
    #[error("more pieces than a peer may send")]
    BudgetExceeded,
    /// The broadcast is over.
    #[error("the broadcast is over")]
    Expired,
    /// As many broadcasts as may are alive.
    #[error("as many broadcasts as may are alive")]
    LiveFull,
    /// Of a peer that is not connected, or was banned.
    #[error("the sender is no peer, or was banned")]
    Stranger,
    /// The result of a job whose broadcast is over.
    #[error("the result of a job whose broadcast is over")]
    LateResult,
    /// More of its pieces were dependent than an honest peer pushes and was asked for.
    #[error("it keeps sending what adds nothing")]
    Useless,
}

reasons!(pub Reject {
    Malformed => "malformed",
    TooLong => "too_long",
    BadLength => "bad_length",
    UnknownId => "unknown_id",
    OrphanFull => "orphan_full",
    NotScheduled => "not_scheduled",
    BadAuth => "bad_auth",
    Equivocation => "equivocation",
    NonCanonicalScalar => "non_canonical_scalar",
    NonCanonicalPoint => "non_canonical_point",
    ZeroRow => "zero_row",
    Dependent => "dependent",
    GenerationFull => "generation_full",
    InvalidChunk => "invalid_chunk",
    BadPath => "bad_path",
    BudgetExceeded => "budget_exceeded",
    Expired => "expired",
    LiveFull => "live_full",
    Stranger => "stranger",
    LateResult => "late_result",
    Useless => "useless",
});

impl Reject {
    /// What the sender earns.
    pub const fn blame(self) -> Blame {
        match self {
            // No honest node relays what it did not verify, so one strike is enough.
            Reject::Malformed
            | Reject::TooLong
            | Reject::BadLength
            | Reject::BadAuth
            | Reject::NonCanonicalScalar
            | Reject::NonCanonicalPoint
            | Reject::ZeroRow
            | Reject::InvalidChunk
            | Reject::BadPath => Blame::Ban,
            // Nodes may disagree for a moment on the duty table, and a replayed valid piece proves
            // no more than a bad policy.
            Reject::NotScheduled | Reject::BudgetExceeded | Reject::Useless => Blame::Report,
            Reject::UnknownId
            | Reject::OrphanFull
            | Reject::Equivocation
            | Reject::Dependent
            | Reject::GenerationFull
            | Reject::Expired
            | Reject::LiveFull
            | Reject::Stranger
            | Reject::LateResult => Blame::None,
        }
    }
}

/// What a refused message means for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Honest peers do it too.
    None,
    /// [`Output::Report`](super::Output::Report), and nothing else.
    Report,
    /// Reported, everything that still waits of it is dropped, and nothing is taken from it again.
    Ban,
}

impl From<&PieceError> for Reject {
    fn from(error: &PieceError) -> Self {
        match error {
            PieceError::Length { .. }
            | PieceError::Generation { .. }
            | PieceError::Width(_)
            | PieceError::Shard { .. } => Reject::BadLength,
            PieceError::NonCanonicalScalar { .. } => Reject::NonCanonicalScalar,
            PieceError::NonCanonicalPoint { .. } => Reject::NonCanonicalPoint,
            PieceError::ZeroRow => Reject::ZeroRow,
            PieceError::Path => Reject::BadPath,
        }
    }
}

impl From<&HeaderError> for Reject {
    fn from(error: &HeaderError) -> Self {
        match error {
            HeaderError::Length(_)
            | HeaderError::PayloadLength { .. }
            | HeaderError::Range { .. }
            | HeaderError::ShardsTotal(_)
            | HeaderError::Unit { .. } => Reject::BadLength,
            HeaderError::Version(_) | HeaderError::Strategy(_) | HeaderError::Reserved => {
                Reject::Malformed
            }
        }
    }
}

reasons! {
    /// What was refused since the beginning. Counters stop at their greatest value.
    pub struct Refused of Reject
}

impl Refused {
    /// How often something was refused for a reason.
    pub fn count(&self, reason: Reject) -> u32 {
        self.0[reason.index()]
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
        assert_eq!(Reject::Malformed.name(), "malformed");
        assert_eq!(Reject::BadAuth.name(), "bad_auth");
        assert_eq!(Reject::InvalidChunk.name(), "invalid_chunk");
        assert_eq!(Reject::Useless.index() + 1, Reject::NAMES.len());
        assert_eq!(Reject::Useless.name(), "useless");
    }

    #[test]
    fn refusals_are_counted_by_reason() {
        let mut refused = Refused::default();
        refused.add(Reject::Dependent);
        refused.add(Reject::Dependent);
        assert_eq!(refused.count(Reject::Dependent), 2);
        assert_eq!(refused.reasons().map(|(_, count)| count).sum::<u32>(), 2);
        assert_eq!(Reject::Dependent.blame(), Blame::None);
        assert_eq!(Reject::from(&PieceError::Path).blame(), Blame::Ban);
    }
}
