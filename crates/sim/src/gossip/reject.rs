//! What peers do wrong: reasons, penalties and counters.

use alphorn_proto::reasons;
use thiserror::Error;

/// Why something a peer sent was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Reject {
    /// The layer above found the message invalid.
    #[error("the message is invalid")]
    Invalid,
    /// The sender is not connected, or its number is not below the maximum.
    #[error("the sender is no peer")]
    Stranger,
    /// The sender's penalties are so many that nothing is taken from it.
    #[error("the sender is graylisted")]
    Graylisted,
    /// As many of its messages as may wait for a verdict wait already.
    #[error("as many messages as may wait for a verdict wait already")]
    WaitingFull,
    /// The number of the message is far above all others.
    #[error("the number of the message is far above all others")]
    Beyond,
    /// A message of another way of dissemination.
    #[error("a message that is not used here")]
    Unexpected,
    /// As many bytes as a heartbeat allows were sent to it on request.
    #[error("as many bytes as a heartbeat allows were sent on request")]
    AnswersFull,
    /// More IHAVE in a heartbeat than an honest peer sends.
    #[error("more announcements than a heartbeat takes")]
    AnnouncementFlood,
    /// More IWANT in a heartbeat than are answered.
    #[error("more requests than a heartbeat answers")]
    RequestFlood,
    /// It asks again for what it was sent on request.
    #[error("a request that was answered before")]
    RequestReplay,
    /// More IDONTWANT in a heartbeat than an honest peer sends.
    #[error("more refusals than a heartbeat takes")]
    RefusalFlood,
    /// GRAFT before its back-off is over.
    #[error("graft before its back-off is over")]
    GraftFlood,
    /// It announced a message and did not send it when asked.
    #[error("an announced message was not sent on request")]
    BrokenPromise,
    /// A verdict on a message that does not wait.
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
    /// Points against the sender; 0 where an honest peer may do it, and it is not reported then.
    /// The scale is that of the thresholds in [`Config`](super::Config): four invalid messages
    /// graylist a peer.
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

/// Copies of messages that were here already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Duplicates {
    /// Bytes of their payloads.
    pub bytes: u64,
    /// How many.
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
    /// What was refused since the beginning. Counters stop at their greatest value.
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
