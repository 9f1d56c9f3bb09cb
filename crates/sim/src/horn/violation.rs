//! The rules that no slot may break.

/// A rule that no slot may break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// An aggregate counts a vote that was never cast.
    #[error("the aggregate of validator {sender} counts {votes} votes that nobody cast")]
    Invented {
        /// The aggregator.
        sender: u32,
        /// Number of such votes.
        votes: usize,
    },
    /// Evidence is not the sum of what was published of its unit's parts.
    #[error("the evidence of validator {sender} is not the sum of published aggregates")]
    Sum {
        /// The maker of the evidence.
        sender: u32,
    },
    /// Something was accepted that was never published.
    #[error("node {node} accepted a collection of validator {sender} that was not published to it")]
    Foreign {
        /// The node.
        node: u32,
        /// The collector.
        sender: u32,
    },
    /// A block has a collection with votes that were never cast, or one that credits no new vote.
    #[error("the block has a collection of committee {committee} that credits nobody anew")]
    Credit {
        /// The committee.
        committee: u16,
    },
    /// A node had 99 % of the votes before that is possible.
    #[error("node {node} has 99 % of the votes at {at_ns} ns, it cannot before {least_ns} ns")]
    Early {
        /// The node.
        node: u32,
        /// When it had them, from the start of the slot.
        at_ns: u64,
        /// The earliest possible time.
        least_ns: u64,
    },
    /// All nodes had 99 % of the votes before all uplinks together can carry them.
    #[error("all nodes have 99 % of the votes at {at_ns} ns, they cannot before {least_ns} ns")]
    Carried {
        /// When the last node had them, from the start of the slot.
        at_ns: u64,
        /// The earliest possible time.
        least_ns: u64,
    },
    /// An honest node has proof against another honest node.
    #[error("node {node} reports the honest node {about}: {reason}")]
    Accused {
        /// The reporting node.
        node: u32,
        /// The reported node.
        about: u32,
        /// The reason.
        reason: &'static str,
    },
}
