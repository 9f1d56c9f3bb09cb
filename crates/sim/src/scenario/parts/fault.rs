//! The faults of a scenario.

use super::hundred;
use serde::{Deserialize, Serialize};

words! {
    /// Kind of fault.
    pub enum FaultKind {
        /// The nodes stop, and come back after `until_ms` as `restart` says.
        Crash = "crash",
        /// Computing takes `factor_pct` of its normal time.
        SlowCpu = "slow_cpu",
        /// Bandwidth is `factor_pct` of that of the class.
        SlowLink = "slow_link",
        /// `factor_pct` of the messages are not sent.
        Withhold = "withhold",
        /// The nodes waste the work of others.
        Grief = "grief",
        /// A source sends different data to different peers.
        Equivocate = "equivocate",
        /// `rate` messages a second that fail at `fails_at`, each of `bytes` where the size is free. Without a rate,
        /// nodes that send pieces send bad ones instead of their own.
        InvalidFlood = "invalid_flood",
        /// Everything is sent `delay_ms` later.
        Late = "late",
        /// The clock is `delay_ms` ahead.
        ClockSkew = "clock_skew",
        /// The other nodes see only the faulty nodes.
        Eclipse = "eclipse",
        /// The nodes lie about what they have and want.
        FalseFeedback = "false_feedback",
        /// A source commits to something that is not a payload: shards that are not a codeword, or chunks of another
        /// hash.
        NonCodewordSource = "non_codeword_source",
        /// A source sends too few combinations.
        RankDeficientSource = "rank_deficient_source",
        /// The faulty nodes reach only each other.
        Partition = "partition",
        /// Aggregators omit `factor_pct` of the votes of other nodes.
        DropVotes = "drop_votes",
        /// Collectors omit `factor_pct` of the cells.
        LeaveCells = "leave_cells",
        /// Collectors publish `delay_ms` before their phase, with what they have by then.
        EarlyCollection = "early_collection",
        /// Proposers omit the collections of `factor_pct` of the committees.
        Censor = "censor",
        /// Proposers withhold their block, and all faulty nodes withhold their votes for it, until the next block is
        /// out.
        WithholdBlock = "withhold_block",
        /// A proposer publishes two blocks, and voters keep the two halves of the other voters split with votes that
        /// they save.
        Balance = "balance",
        /// Proposers of two blocks, and of one two slots later that justifies the second with votes that allies cast
        /// twice.
        Bounce = "bounce",
        /// Voters sign two votes in a slot.
        EquivocateVotes = "equivocate_votes",
        /// Voters vote for as many blocks as they can, and collectors publish a ballot each.
        SplitBallots = "split_ballots",
    }
}

impl FaultKind {
    /// Whether nodes with this fault still follow the protocol, only under worse conditions: they are checked against
    /// its rules and counted with all others.
    pub(crate) fn is_honest(self) -> bool {
        matches!(
            self,
            FaultKind::SlowCpu | FaultKind::SlowLink | FaultKind::Partition
        )
    }

    /// Whether the faulty nodes build evidence of votes, cells and committees themselves and sign it by rank.
    pub(crate) fn makes_collections(self) -> bool {
        matches!(
            self,
            FaultKind::EarlyCollection
                | FaultKind::WithholdBlock
                | FaultKind::Balance
                | FaultKind::Bounce
                | FaultKind::EquivocateVotes
                | FaultKind::SplitBallots
        )
    }

    /// Post at which Horn's validators misbehave in this way; none if at any or at no post.
    pub fn post(self) -> Option<Post> {
        match self {
            FaultKind::DropVotes => Some(Post::Aggregator),
            FaultKind::LeaveCells | FaultKind::EarlyCollection | FaultKind::Grief => {
                Some(Post::Collector)
            }
            FaultKind::Censor | FaultKind::Equivocate => Some(Post::Proposer),
            FaultKind::WithholdBlock | FaultKind::Balance | FaultKind::Bounce => {
                Some(Post::Proposer)
            }
            _ => None,
        }
    }
}

/// Posts that validators serve at in Horn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// Of a cell.
    Aggregator,
    /// Of a committee.
    Collector,
    /// Of a slot's block.
    Proposer,
}

impl Post {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Post::Aggregator => "aggregators",
            Post::Collector => "collectors",
            Post::Proposer => "proposers",
        }
    }
}

/// The check that the messages of a flood fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailsAt {
    /// The content: a payload that validation rejects, or a piece that does not fit its commitment.
    #[default]
    Payload,
    /// Decoding: the bytes are malformed.
    Decoding,
    /// The signature of a header.
    Signature,
}

/// What a node remembers when it comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Everything: it was only disconnected.
    #[default]
    Warm,
    /// Nothing: it starts from scratch, and its jobs are lost.
    Cold,
}

/// A fault, its nodes and its duration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Kind of fault.
    pub kind: FaultKind,
    /// Percentage of the nodes, drawn by the seed.
    #[serde(default)]
    pub share_pct: u32,
    /// Alternatively, exactly these nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u32>,
    /// Alternatively, the nodes of this percentage of the validators that serve at its post during the fault, in each
    /// cell, committee or run, drawn by the seed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub posts_pct: u32,
    /// Restricts the fault to these cells or committees, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<u32>,
    /// Start time.
    #[serde(default)]
    pub from_ms: u64,
    /// End time; the end of the run if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// Severity, in percent.
    #[serde(default = "hundred")]
    pub factor_pct: u32,
    /// Messages per second.
    #[serde(default)]
    pub rate: u64,
    /// Size of a message in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// How late, how early, or how skewed.
    #[serde(default)]
    pub delay_ms: u64,
    /// The check that the messages of a flood fail.
    #[serde(default)]
    pub fails_at: FailsAt,
    /// The faulty nodes send their own votes only to each other's aggregators, and omit fewer votes from a cell than
    /// the number of their own there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hides: bool,
    /// What the node remembers when it comes back.
    #[serde(default)]
    pub restart: Restart,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Fault {
    /// Whether the faulty nodes never send a vote, an aggregate or any other payload.
    pub(crate) fn is_silence(&self) -> bool {
        let whole = self.from_ms == 0 && self.until_ms.is_none() && self.factor_pct == 100;
        self.kind == FaultKind::Withhold && whole
    }
}
