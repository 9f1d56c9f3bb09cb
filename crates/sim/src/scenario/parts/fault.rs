//! What goes wrong.

use super::hundred;
use serde::{Deserialize, Serialize};

words! {
    /// What goes wrong.
    pub enum FaultKind {
        /// The nodes stop, and come back after `until_ms` as `restart` says.
        Crash = "crash",
        /// Computing takes `factor_pct` of its time.
        SlowCpu = "slow_cpu",
        /// Bandwidth is `factor_pct` of its class.
        SlowLink = "slow_link",
        /// `factor_pct` of the messages are not sent.
        Withhold = "withhold",
        /// Waste the work of others.
        Grief = "grief",
        /// A source that says different things to different peers.
        Equivocate = "equivocate",
        /// `rate` messages a second that fail at `fails_at`, of `bytes` each where these are free. Without a
        /// rate, nodes that send pieces send bad ones in place of their own.
        InvalidFlood = "invalid_flood",
        /// Everything is sent `delay_ms` later.
        Late = "late",
        /// The clock is `delay_ms` ahead.
        ClockSkew = "clock_skew",
        /// The other nodes see only these.
        Eclipse = "eclipse",
        /// Lies about what is held and wanted.
        FalseFeedback = "false_feedback",
        /// A source that commits to what is no payload: shards that are no codeword, chunks of another hash.
        NonCodewordSource = "non_codeword_source",
        /// A source that gives too few combinations.
        RankDeficientSource = "rank_deficient_source",
        /// The nodes reach only each other.
        Partition = "partition",
        /// Aggregators that leave out `factor_pct` of the votes of others.
        DropVotes = "drop_votes",
        /// Collectors that leave out `factor_pct` of the cells.
        LeaveCells = "leave_cells",
        /// Collectors that publish `delay_ms` before their phase, what there is then.
        EarlyCollection = "early_collection",
        /// Proposers that leave out the collections of `factor_pct` of the committees.
        Censor = "censor",
        /// Proposers that hold their block back, and the votes of all nodes of the fault for it, until the next block
        /// is there.
        WithholdBlock = "withhold_block",
        /// A proposer of two blocks, and voters that keep the halves of the others apart with votes that they save.
        Balance = "balance",
        /// Proposers of two blocks and of one two slots later, that justifies the second with votes that allies cast twice.
        Bounce = "bounce",
        /// Voters that sign two votes in a slot.
        EquivocateVotes = "equivocate_votes",
        /// Voters that vote for as many blocks as they can, and collectors that publish each a ballot.
        SplitBallots = "split_ballots",
    }
}

impl FaultKind {
    /// Whether nodes with this fault still follow the protocol, only in worse conditions: they are held to its
    /// rules, and counted with all others.
    pub(crate) fn is_honest(self) -> bool {
        matches!(
            self,
            FaultKind::SlowCpu | FaultKind::SlowLink | FaultKind::Partition
        )
    }

    /// Whether its nodes make evidence of votes themselves, of cells and committees, and sign it by their rank.
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

    /// The post at which Horn's validators misbehave so; none if at any or at none.
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

/// What validators of Horn serve as.
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

/// What the messages of a flood fail at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailsAt {
    /// What they bring: a payload that validation refuses, a piece that does not fit its commitment.
    #[default]
    Payload,
    /// Their bytes, which nobody can read.
    Decoding,
    /// The signature of a header.
    Signature,
}

/// What a node knows when it comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// All that it knew: it was only cut off.
    #[default]
    Warm,
    /// Nothing: it begins anew, and its jobs are lost.
    Cold,
}

/// A fault, its nodes and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Share of the nodes, drawn by the seed.
    #[serde(default)]
    pub share_pct: u32,
    /// Or these nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u32>,
    /// Or the nodes of this share of those who serve at its post while it lasts, in each cell, committee or
    /// run, drawn by the seed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub posts_pct: u32,
    /// Of these cells or committees alone, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<u32>,
    /// Its begin.
    #[serde(default)]
    pub from_ms: u64,
    /// Its end; the run's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// How much, in percent.
    #[serde(default = "hundred")]
    pub factor_pct: u32,
    /// Messages a second.
    #[serde(default)]
    pub rate: u64,
    /// Bytes of a message.
    #[serde(default)]
    pub bytes: u64,
    /// How late, how early, or how skewed.
    #[serde(default)]
    pub delay_ms: u64,
    /// What the messages of a flood fail at.
    #[serde(default)]
    pub fails_at: FailsAt,
    /// Its nodes send their own votes to each other's aggregators alone, and leave out fewer votes of a cell than
    /// these are.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hides: bool,
    /// What the node knows when it comes back.
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
    /// Whether its nodes never send a vote, an aggregate or any other payload.
    pub(crate) fn is_silence(&self) -> bool {
        let whole = self.from_ms == 0 && self.until_ms.is_none() && self.factor_pct == 100;
        self.kind == FaultKind::Withhold && whole
    }
}
