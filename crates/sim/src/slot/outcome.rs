//! What a slot came to.

use super::{Digest, Traffic};
use crate::compute::{CrossCounts, Meter, Verification};
use alphorn_proto::wire::Kind;
use alphorn_scheme::Bytes;
use alphorn_types::Layout;
use std::collections::BTreeMap;
use std::fmt;

/// Reasons for which honest messages are not taken: others have said the same before. By
/// [`Reject::name`](alphorn_proto::wire::Reject::name).
const REDUNDANT: [&str; 2] = ["subset", "full"];

/// One operation in one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name of the stage.
    pub stage: &'static str,
    /// Name of the operation.
    pub op: &'static str,
    /// Its counts and times.
    pub meter: Meter,
}

/// What was published in one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTraffic {
    /// Name of the stage.
    pub stage: &'static str,
    /// Messages and bytes by kind, in the order of [`Kind::ALL`].
    pub published: [Traffic; Kind::ALL.len()],
}

/// Where the votes went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Votes {
    /// Validators that were to vote.
    pub expected: u64,
    /// Vote messages that were published.
    pub cast: u64,
    /// Votes that the host verified.
    pub verified: u64,
    /// Voters in the union of all collections that were accepted.
    pub in_collections: u64,
    /// Voters in the block of the next slot.
    pub in_block: u64,
}

/// One committee, in exact counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitteeCoverage {
    /// The committee.
    pub committee: u16,
    /// Its members.
    pub members: u32,
    /// Those who were to vote.
    pub expected: u32,
    /// Those in the union of accepted collections.
    pub in_collections: u32,
    /// Those in the block.
    pub in_block: u32,
}

/// The block of the next slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockOutcome {
    /// Bytes on the wire.
    pub bytes: u64,
    /// Those of the one piece of evidence of all its collections; none where each has its own.
    pub bundle_bytes: u64,
    /// Collections in it.
    pub entries: u64,
    /// Nodes that accepted it.
    pub accepted_nodes: u32,
}

/// A property of an honest slot that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The collections do not cover exactly those who voted.
    Coverage,
    /// Votes of collections are not in the block.
    LeftOut {
        /// Those in the block.
        in_block: u64,
        /// Those in collections.
        in_collections: u64,
    },
    /// A vote was not verified.
    Unverified {
        /// Votes that were cast.
        cast: u64,
        /// Votes that were verified.
        verified: u64,
    },
    /// A node did not take a message that brought something new.
    Rejected {
        /// The reason.
        reason: &'static str,
        /// How often.
        count: u64,
    },
    /// Two implementations differ about a claim.
    CrossCheck {
        /// About how many.
        differences: u64,
    },
    /// A node did not accept the block.
    Block {
        /// Nodes that did.
        accepted: u32,
        /// Nodes in all.
        nodes: u32,
    },
    /// The observer's verification found something invalid.
    Verification,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Coverage => {
                f.write_str("the collections do not cover exactly those who voted")
            }
            Failure::LeftOut {
                in_block,
                in_collections,
            } => write!(
                f,
                "the block carries {in_block} of the {in_collections} votes of collections"
            ),
            Failure::Unverified { cast, verified } => {
                write!(f, "{cast} votes were cast and {verified} verified")
            }
            Failure::Rejected { reason, count } => {
                write!(
                    f,
                    "{count} messages of honest senders were not taken: {reason}"
                )
            }
            Failure::CrossCheck { differences } => {
                write!(f, "two implementations differ about {differences} claims")
            }
            Failure::Block { accepted, nodes } => {
                write!(f, "{accepted} of {nodes} nodes accepted the block")
            }
            Failure::Verification => f.write_str("the observer verified an invalid collection"),
        }
    }
}

/// What a slot came to: counts and bytes are functions of configuration and seed, times are
/// measured.
#[derive(Clone, Debug)]
pub struct SlotOutcome {
    /// Committees and cells.
    pub layout: Layout,
    /// What was computed, by stage and operation.
    pub steps: Vec<Step>,
    /// What was published, by stage.
    pub traffic: Vec<StageTraffic>,
    /// Where the votes went.
    pub votes: Votes,
    /// Aggregates that were published.
    pub aggregates: Traffic,
    /// Collections on the global topic.
    pub collections: Traffic,
    /// Each committee in exact counts.
    pub coverage: Vec<CommitteeCoverage>,
    /// Whether the accepted collections cover exactly the positions that were to vote.
    pub coverage_exact: bool,
    /// The block of the next slot.
    pub block: BlockOutcome,
    /// All blocks that were published, in their order, as they are on the wire; the last one carries the votes.
    pub blocks: Vec<Bytes>,
    /// All collections of the slot that the observer verified, as one job, measured alone; none
    /// without an observer.
    pub verification: Option<Verification>,
    /// Messages that nodes did not take, by the name of the reason; both nodes together.
    pub rejects: BTreeMap<&'static str, u64>,
    /// What the second opinion said, if one was asked.
    pub cross: Option<CrossCounts>,
    /// SHA-256 over everything that the nodes' machines wanted, node by node.
    pub digest: Digest,
    /// Events that were handled.
    pub events: u64,
    /// Pieces of evidence that an earlier run had made and kept.
    pub results_loaded: u64,
    /// Number of nodes.
    pub nodes: u32,
}

impl SlotOutcome {
    /// Which properties of an honest slot do not hold; nothing if all do.
    pub fn failures(&self) -> Vec<Failure> {
        let mut failures = Vec::new();
        if !self.coverage_exact {
            failures.push(Failure::Coverage);
        }
        let Votes {
            cast,
            verified,
            expected,
            in_collections,
            in_block,
        } = self.votes;
        if in_block < in_collections {
            failures.push(Failure::LeftOut {
                in_block,
                in_collections,
            });
        }
        if cast != verified || cast != expected {
            failures.push(Failure::Unverified { cast, verified });
        }
        for (&reason, &count) in &self.rejects {
            if !REDUNDANT.contains(&reason) {
                failures.push(Failure::Rejected { reason, count });
            }
        }
        if let Some(CrossCounts { differences, .. }) = self.cross
            && differences > 0
        {
            failures.push(Failure::CrossCheck { differences });
        }
        if self.block.accepted_nodes != self.nodes {
            failures.push(Failure::Block {
                accepted: self.block.accepted_nodes,
                nodes: self.nodes,
            });
        }
        if self
            .verification
            .is_some_and(|verification| !verification.all_valid)
        {
            failures.push(Failure::Verification);
        }
        failures
    }
}
