//! The outcome of a slot.

use super::{Digest, Traffic};
use crate::compute::{CrossCounts, Meter, Verification};
use alphorn_proto::wire::Kind;
use alphorn_scheme::Bytes;
use alphorn_types::Layout;
use std::collections::BTreeMap;
use std::fmt;

/// Reasons for which honest messages are rejected because their content is already known. Named as in
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

/// Traffic published in one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTraffic {
    /// Name of the stage.
    pub stage: &'static str,
    /// Messages and bytes by kind, in the order of [`Kind::ALL`].
    pub published: [Traffic; Kind::ALL.len()],
}

/// Counts of votes at each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Votes {
    /// Validators that were to vote.
    pub expected: u64,
    /// Vote messages that were published.
    pub cast: u64,
    /// Votes verified by the host.
    pub verified: u64,
    /// Voters in the union of all accepted collections.
    pub in_collections: u64,
    /// Voters in the block that carries the votes.
    pub in_block: u64,
}

/// Exact counts of one committee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitteeCoverage {
    /// The committee.
    pub committee: u16,
    /// Number of members.
    pub members: u32,
    /// Number that were to vote.
    pub expected: u32,
    /// Number in the union of accepted collections.
    pub in_collections: u32,
    /// Number in the block.
    pub in_block: u32,
}

/// The block that carries the votes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockOutcome {
    /// Size on the wire in bytes.
    pub bytes: u64,
    /// Size in bytes of the single piece of evidence for all its collections; none if each has its own.
    pub bundle_bytes: u64,
    /// Number of collections in it.
    pub entries: u64,
    /// Number of nodes that accepted it.
    pub accepted_nodes: u32,
}

/// A property of an honest slot that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The collections do not cover exactly the validators that voted.
    Coverage,
    /// Votes in collections are missing from the block.
    LeftOut {
        /// Number in the block.
        in_block: u64,
        /// Number in collections.
        in_collections: u64,
    },
    /// Some votes were not verified.
    Unverified {
        /// Number of votes cast.
        cast: u64,
        /// Number of votes verified.
        verified: u64,
        /// Number of votes that there should be.
        expected: u64,
    },
    /// A node rejected a message that carried something new.
    Rejected {
        /// The reason.
        reason: &'static str,
        /// Number of times.
        count: u64,
    },
    /// Two implementations disagree about a claim.
    CrossCheck {
        /// Number of such claims.
        differences: u64,
    },
    /// A node did not accept the block.
    Block {
        /// Number of nodes that did.
        accepted: u32,
        /// Total number of nodes.
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
            Failure::Unverified {
                cast,
                verified,
                expected,
            } => write!(
                f,
                "of {expected} votes {cast} were cast and {verified} verified"
            ),
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

/// The outcome of a slot. Counts and bytes are functions of configuration and seed; times are measured.
#[derive(Clone, Debug)]
pub struct SlotOutcome {
    /// Committees and cells.
    pub layout: Layout,
    /// Computations by stage and operation.
    pub steps: Vec<Step>,
    /// Published traffic by stage.
    pub traffic: Vec<StageTraffic>,
    /// Counts of votes at each step.
    pub votes: Votes,
    /// Aggregates published.
    pub aggregates: Traffic,
    /// Collections on the global topic.
    pub collections: Traffic,
    /// Exact counts of each committee.
    pub coverage: Vec<CommitteeCoverage>,
    /// Whether the accepted collections cover exactly the positions that were to vote.
    pub coverage_exact: bool,
    /// The block that carries the votes.
    pub block: BlockOutcome,
    /// All published blocks, in order, as encoded on the wire; the last one carries the votes.
    pub blocks: Vec<Bytes>,
    /// All collections of the slot that the observer verified, as one job measured separately; none without an
    /// observer.
    pub verification: Option<Verification>,
    /// Messages rejected by nodes, by reason; all nodes together.
    pub rejects: BTreeMap<&'static str, u64>,
    /// Results of the cross-check, if there was one.
    pub cross: Option<CrossCounts>,
    /// SHA-256 over all outputs of the nodes' state machines, node by node.
    pub digest: Digest,
    /// Number of events handled.
    pub events: u64,
    /// Pieces of evidence that were loaded from an earlier run.
    pub results_loaded: u64,
    /// Number of nodes.
    pub nodes: u32,
}

impl SlotOutcome {
    /// The properties of an honest slot that do not hold; empty if all do.
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
            failures.push(Failure::Unverified {
                cast,
                verified,
                expected,
            });
        }
        for (&reason, &count) in &self.rejects {
            // With several publishers of the same votes, most of what they send adds nothing to the first.
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
