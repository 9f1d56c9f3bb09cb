//! Properties of a scheme, as data. The protocol branches on these values and on nothing else.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The two layers of Horn: an aggregate consists of votes of one cell, a collection of aggregates
/// of one committee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Votes of one cell, merged by a subcommittee aggregator.
    Aggregate,
    /// Aggregates of one committee, merged by a collector.
    Collection,
}

/// Whether evidence over overlapping signer sets can be merged, and how merged evidence counts a
/// validator that is in several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Only disjoint sets, or nothing, can be merged.
    None,
    /// Sets may overlap, and each validator has a count of at most `max` (a BLS sum).
    Counted {
        /// Maximum multiplicity on the wire, 1 to 15.
        max: u8,
    },
    /// The result is the union of the sets: a validator counts once (lists, recursive proofs).
    Union,
}

/// The form of evidence at one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// One object of constant size (a BLS point).
    Point,
    /// The signatures themselves, in position order.
    List,
    /// A succinct proof.
    Proof,
}

/// Operations of a scheme. Names are shared by cost tables, job kinds and metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u16)]
pub enum Op {
    /// Sign votes; n = votes.
    Sign,
    /// Verify single votes in a batch; n = votes.
    VerifyVotes,
    /// Make one aggregate; n = votes.
    Aggregate,
    /// Make one collection; n = aggregates, m = signers.
    Collect,
    /// Merge evidence over one committee; n = pieces, m = raw signatures among them.
    Merge,
    /// Verify aggregates; n = aggregates, m = signers in total.
    VerifyAggregates,
    /// Verify collections; n = collections, m = signers in total.
    VerifyCollections,
    /// Sign duties (blocks, envelopes, proofs of selection); n = signatures.
    DutySign,
    /// Verify duty signatures; n = signatures.
    DutyVerify,
    /// Prepare the public keys of an epoch; n = validators.
    Prepare,
    /// Make one piece of evidence from verified collections; n = collections, m = signers in total.
    Bundle,
    /// Verify such a piece; n = collections, m = signers in total.
    VerifyBundle,
}

impl Op {
    /// Every operation, in numeric order.
    pub const ALL: [Op; 12] = [
        Op::Sign,
        Op::VerifyVotes,
        Op::Aggregate,
        Op::Collect,
        Op::Merge,
        Op::VerifyAggregates,
        Op::VerifyCollections,
        Op::DutySign,
        Op::DutyVerify,
        Op::Prepare,
        Op::Bundle,
        Op::VerifyBundle,
    ];

    /// Name in cost tables, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Op::Sign => "sign",
            Op::VerifyVotes => "verify_votes",
            Op::Aggregate => "aggregate",
            Op::Collect => "collect",
            Op::Merge => "merge",
            Op::VerifyAggregates => "verify_aggregates",
            Op::VerifyCollections => "verify_collections",
            Op::DutySign => "duty_sign",
            Op::DutyVerify => "duty_verify",
            Op::Prepare => "prepare",
            Op::Bundle => "bundle",
            Op::VerifyBundle => "verify_bundle",
        }
    }

    /// The number carried in [`crate::Features`].
    pub fn kind(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Op::ALL
            .into_iter()
            .find(|op| op.name() == s)
            .ok_or_else(|| format!("unknown operation {s:?}"))
    }
}

/// Security of a scheme, printed next to every figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Security {
    /// Bits against a classical adversary: log2 of the work of the best known attack on the
    /// assumption, or the lowest published estimate if they differ. Excludes statistical errors
    /// that an adversary can only exploit online; `proven` lists them.
    pub classical_bits: u32,
    /// Bits against a quantum adversary; 0 = broken.
    pub quantum_bits: u32,
    /// The assumption in words.
    pub assumption: String,
    /// What is proven under it, and what is only argued.
    pub proven: String,
}

/// The abilities of a scheme.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities {
    /// A (key, message) pair has exactly one valid signature. A signature is then a verifiable
    /// random value, which allows selection by lottery.
    pub unique: bool,
    /// The slot is an index that is used up: a second signature with it breaks the key.
    pub one_time: bool,
    /// Overlap of aggregates and collections.
    pub overlap: [Overlap; 2],
    /// Form of aggregates and collections.
    pub layers: [Form; 2],
    /// Largest committee that one piece of evidence can cover; none = no limit.
    pub committee_max: Option<u32>,
    /// Maximum number of collections, of any committees, slots and messages, that one piece of
    /// evidence proves together (a bundle); none = each needs its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_max: Option<u16>,
    /// Security level.
    pub security: Security,
}

impl Abilities {
    /// How evidence of a layer may overlap when merged.
    pub fn overlap(&self, layer: Layer) -> Overlap {
        self.overlap[layer as usize]
    }

    /// The form of evidence of a layer.
    pub fn form(&self, layer: Layer) -> Form {
        self.layers[layer as usize]
    }
}

/// Sizes of a scheme's objects on the wire; all are fixed by the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Size of a public key in bytes.
    pub public_key_bytes: usize,
    /// Size of a vote's signature in bytes.
    pub signature_bytes: usize,
    /// Size of a duty signature (blocks, envelopes) in bytes.
    pub duty_signature_bytes: usize,
    /// Size of a proof of selection in bytes; none if signatures are not unique.
    pub selection_proof_bytes: Option<usize>,
}

/// Length of evidence. Fixed-length evidence has no length prefix on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceLength {
    /// Exactly this many bytes.
    Fixed(usize),
    /// At most this many bytes, prefixed by a u32.
    Max(usize),
}

impl EvidenceLength {
    /// The maximum length in bytes.
    pub fn max_bytes(self) -> usize {
        match self {
            EvidenceLength::Fixed(n) | EvidenceLength::Max(n) => n,
        }
    }

    /// Whether evidence may have this many bytes.
    pub fn fits(self, bytes: usize) -> bool {
        match self {
            EvidenceLength::Fixed(n) => bytes == n,
            EvidenceLength::Max(n) => bytes <= n,
        }
    }
}

/// Predicted cost of an operation on one thread of the current host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Nanoseconds of one core.
    pub ns: u64,
    /// Peak working memory in bytes, excluding inputs.
    pub memory_bytes: u64,
}
