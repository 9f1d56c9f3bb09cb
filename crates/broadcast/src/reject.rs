//! Reasons for rejection, and whether the sender is to blame.

use crate::rlnc::{HeaderError, PieceError};
use alphorn_types::reasons;
use thiserror::Error;

/// Why something received from a peer was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Reject {
    /// Bytes with an unknown tag, or a message of the other code.
    #[error("not a message of this broadcast")]
    Malformed,
    /// Longer than any message may be.
    #[error("longer than a message may be")]
    TooLong,
    /// A length that does not match header and tag, counts that contradict each other, or a payload
    /// not split by the policy of the network.
    #[error("length or counts contradict the header or the policy")]
    BadLength,
    /// A piece of a broadcast whose header has not arrived; it waits.
    #[error("its header is not here yet")]
    UnknownId,
    /// The maximum number of messages without a header is waiting.
    #[error("as many messages without header wait as may")]
    OrphanFull,
    /// The source does not have this duty.
    #[error("the source has no such duty")]
    NotScheduled,
    /// The header's authenticator is invalid.
    #[error("the authenticator is invalid")]
    BadAuth,
    /// Exceeds the second header of a subject.
    #[error("a third header of one subject")]
    Equivocation,
    /// A coefficient or data element that is not below the group order.
    #[error("a scalar is not canonical")]
    NonCanonicalScalar,
    /// A commitment that does not encode a group element.
    #[error("a commitment is not canonical")]
    NonCanonicalPoint,
    /// All coefficients are zero.
    #[error("all coefficients are zero")]
    ZeroRow,
    /// The piece adds nothing to what is known here.
    #[error("the piece adds nothing")]
    Dependent,
    /// The generation is complete.
    #[error("the generation is complete")]
    GenerationFull,
    /// The piece does not match the commitment.
    #[error("the piece does not fit the commitment")]
    InvalidChunk,
    /// A Merkle path that does not lead to the root of the header.
    #[error("the Merkle path does not lead to the root")]
    BadPath,
    /// More unverified pieces, or more pieces in total, than a peer may send.
    #[error("more pieces than a peer may send")]
    BudgetExceeded,
    /// The broadcast is over.
    #[error("the broadcast is over")]
    Expired,
    /// The maximum number of broadcasts is alive.
    #[error("as many broadcasts as may are alive")]
    LiveFull,
    /// The sender is not connected, or was banned.
    #[error("the sender is no peer, or was banned")]
    Stranger,
    /// The result of a job whose broadcast is over.
    #[error("the result of a job whose broadcast is over")]
    LateResult,
    /// More useless pieces than an honest peer pushes or was asked for.
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
    /// Penalty for the sender.
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
            // Nodes may briefly disagree on the duty table, and a replayed valid piece proves no
            // more than a bad policy.
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

/// Consequence of a rejected message for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// None; honest peers do it too.
    None,
    /// [`Output::Report`](super::Output::Report) only.
    Report,
    /// Reported; everything from it that is waiting is dropped, and nothing more is accepted from
    /// it.
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
    /// Counts of rejections since the start. Counters saturate.
    pub struct Refused of Reject
}

impl Refused {
    /// Number of rejections for a reason.
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
