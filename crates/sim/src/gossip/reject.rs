//! Peer misbehaviour: reasons, penalties and counters.

use alphorn_types::reasons;
use thiserror::Error;

/// Why a message or action of a peer was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Reject {
    /// The layer above found the message invalid.
    #[error("the message is invalid")]
    Invalid,
    /// The sender is not connected, or its number is not below the maximum.
    #[error("the sender is no peer")]
    Stranger,
    /// The sender's penalty is so high that all of its messages are rejected.
    #[error("the sender is graylisted")]
    Graylisted,
    /// The sender already has the maximum number of messages waiting for a verdict.
    #[error("as many messages as may wait for a verdict wait already")]
    WaitingFull,
    /// The number of the message is far above all others.
    #[error("the number of the message is far above all others")]
    Beyond,
    /// A message of a different dissemination protocol.
    #[error("a message that is not used here")]
    Unexpected,
    /// The peer has already been sent as many bytes on request as a heartbeat allows.
    #[error("as many bytes as a heartbeat allows were sent on request")]
    AnswersFull,
    /// More IHAVE in a heartbeat than an honest peer sends.
    #[error("more announcements than a heartbeat takes")]
    AnnouncementFlood,
    /// More IWANT in a heartbeat than are answered.
    #[error("more requests than a heartbeat answers")]
    RequestFlood,
    /// The peer requests again a message already sent to it on request.
    #[error("a request that was answered before")]
    RequestReplay,
    /// More IDONTWANT in a heartbeat than an honest peer sends.
    #[error("more refusals than a heartbeat takes")]
    RefusalFlood,
    /// A GRAFT before the back-off has ended.
    #[error("graft before its back-off is over")]
    GraftFlood,
    /// The peer announced a message and did not send it when asked.
    #[error("an announced message was not sent on request")]
    BrokenPromise,
    /// A verdict on a message that is not waiting for one.
    #[error("a verdict on a message that does not wait")]
    UnknownToken,
}

reasons!(pub(crate) Reject {
    Invalid => "invalid",
    Stranger => "stranger",
    Graylisted => "graylisted",
    WaitingFull => "waiting_full",
    Beyond => "beyond",
    Unexpected => "unexpected",
    AnswersFull => "answers_full",
    AnnouncementFlood => "announcement_flood",
    RequestFlood => "request_flood",
    RequestReplay => "request_replay",
    RefusalFlood => "refusal_flood",
    GraftFlood => "graft_flood",
    BrokenPromise => "broken_promise",
    UnknownToken => "unknown_token",
});

impl Reject {
    /// Penalty points for the sender. 0 if an honest peer may do this; it is then not reported. The
    /// scale is that of the thresholds in [`Config`](super::Config): four invalid messages graylist
    /// a peer.
    pub(crate) const fn penalty(self) -> u16 {
        match self {
            Self::Invalid => 20,
            Self::Unexpected | Self::Beyond => 10,
            Self::AnnouncementFlood
            | Self::RequestFlood
            | Self::RequestReplay
            | Self::RefusalFlood
            | Self::GraftFlood
            | Self::BrokenPromise => 5,
            Self::Stranger
            | Self::Graylisted
            | Self::WaitingFull
            | Self::AnswersFull
            | Self::UnknownToken => 0,
        }
    }
}

/// Copies received of messages that were already known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Duplicates {
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Number of copies.
    pub count: u32,
}

impl Duplicates {
    #[inline]
    pub(super) fn add(&mut self, bytes: u64) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

reasons! {
    /// Rejections since the start. Counters saturate at their maximum.
    pub(crate) struct Refused of Reject
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    impl Refused {
        pub(crate) fn count(&self, reason: Reject) -> u32 {
            self.0[reason.index()]
        }
    }

    #[test]
    fn names_are_distinct_and_those_of_their_reasons() {
        let names: BTreeSet<_> = Reject::NAMES.into_iter().collect();
        assert_eq!(names.len(), Reject::NAMES.len());
        assert_eq!(Reject::Invalid.name(), "invalid");
        assert_eq!(Reject::Unexpected.name(), "unexpected");
        assert_eq!(Reject::BrokenPromise.name(), "broken_promise");
        assert_eq!(Reject::UnknownToken.index() + 1, Reject::NAMES.len());
    }

    #[test]
    fn refusals_are_counted_by_reason() {
        let mut refused = Refused::default();
        refused.add(Reject::Invalid);
        refused.add(Reject::Invalid);
        assert_eq!(refused.count(Reject::Invalid), 2);
        assert_eq!(refused.reasons().map(|(_, count)| count).sum::<u32>(), 2);
        assert_eq!(refused.reasons().next(), Some(("invalid", 2)));
    }
}
