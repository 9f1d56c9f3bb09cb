//! Why a proof is rejected, or cannot be made.

use alphorn_exec::Stopped;
use thiserror::Error;

/// Why a verifier rejects: one variant for each check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// The number of elements in the proof is not that of its shape.
    #[error("the proof has {got} elements, its shape needs {want}")]
    Length {
        /// Number of elements that were, or were to be, read.
        want: usize,
        /// Number of elements present.
        got: usize,
    },
    /// The proof has more groups than the shape.
    #[error("the proof has {got} groups of instances, at most {max} are possible")]
    Groups {
        /// Number of groups in the proof.
        got: usize,
        /// Number of groups in the shape.
        max: usize,
    },
    /// Registry or bitfield differ in length from the shape's column.
    #[error("registry or bitfield have {got} rows, the relation needs {want}")]
    StatementSize {
        /// Number of rows present.
        got: usize,
        /// Number of rows in the relation.
        want: usize,
    },
    /// The number of public values, or of elements of the message, is not the relation's.
    #[error("{got} public values or elements of the message, the relation has {want}")]
    Publics {
        /// Number of public values or elements present.
        got: usize,
        /// The number in the relation.
        want: usize,
    },
    /// The rows of the registry differ in width from the relation's.
    #[error("registry rows of {got} elements, the relation needs {want}")]
    RegistryWidth {
        /// Number of elements in a row.
        got: usize,
        /// Number of elements that the relation looks up.
        want: usize,
    },
    /// The statement claims nothing.
    #[error("the bitfield is empty")]
    EmptySet,
    /// The statement claims a row that the registry does not have.
    #[error("bit {bit} is set, and the registry has {size} rows")]
    BitBeyondRegistry {
        /// The bit.
        bit: usize,
        /// Number of rows in the registry.
        size: usize,
    },
    /// The fractions of the bus do not sum up to zero.
    #[error("the fractions of the bus do not sum up to zero")]
    BusSum,
    /// A denominator of the bus is zero.
    #[error("a denominator of the bus is zero")]
    BusZeroDenominator,
    /// A layer of the sum of fractions does not follow from the one below.
    #[error("layer {0} of the sum of fractions does not follow from the next")]
    BusLayer(usize),
    /// A round of the permutations does not follow from the next.
    #[error("round {0} of the permutations does not follow from the next")]
    PoseidonLayer(usize),
    /// A round of the permutations of width 24 does not follow from the next.
    #[error("round {0} of the permutations of width 24 does not follow from the next")]
    WidePoseidonLayer(usize),
    /// A flag of a circuit is neither one nor zero.
    #[error("a flag of the verifier's circuit is neither one nor zero")]
    Flag,
    /// A row of the verifiers' circuits does not hold.
    #[error("the rows of the verifiers' circuits do not hold")]
    Rows,
    /// The bits of the children are not boolean, or their union is not the bitfield.
    #[error("the bitfield does not follow from the bits of the children")]
    Children,
    /// The wiring of the verifiers' circuits does not have the value that the proof claims.
    #[error("the wiring of the verifiers' circuits has another value than the proof says")]
    Wiring,
    /// The registry's reduction does not follow.
    #[error("claims on the registry do not follow from one")]
    RegistryClaims,
    /// The wiring's reduction does not follow.
    #[error("claims on the wiring do not follow from one")]
    WiringClaims,
    /// The level is not above that of a child.
    #[error("the level of a merge is not above that of its children")]
    Level,
    /// A bundle has a bitfield of its own, or there are too many levels of bundles.
    #[error(
        "a bundle claims bits that are none of its entries', or has too many levels of bundles"
    )]
    Bundle,
    /// A bundle has an entry where a bundle is listed, or vice versa.
    #[error(
        "the bundle has other children than are listed: entries for bundles, or bundles for entries"
    )]
    Item,
    /// The remaining registry claims of a bundle in a bundle do not match their digest.
    #[error("the values of registries of a bundle are not those of its proof")]
    Left,
    /// The entry of a bundle to be kept is not the statement's.
    #[error("the statement is none of the bundle's entries")]
    Entry,
    /// The statement belongs to another relation.
    #[error("a statement of the set {got}, the proofs are of {want}")]
    Set {
        /// The set of the statement.
        got: u32,
        /// The number of the relation.
        want: u32,
    },
    /// The committee is not below p, so it is not a field element.
    #[error("committee {got}, which must be below p")]
    Committee {
        /// The committee.
        got: u32,
    },
    /// A merge of no children, or of more than fit.
    #[error("a merge of {got} proofs: 1 to {max} are possible")]
    ChildCount {
        /// Number of children.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// The bitfield does not follow from the counts.
    #[error("the bitfield does not follow from the counts of the registry's rows")]
    Union,
    /// The registry does not have the values that the proof claims.
    #[error("the registry has other values than the proof says")]
    Registry,
    /// The bitfield does not have the value that the proof claims.
    #[error("the bitfield has another value than the proof says")]
    Bitfield,
    /// A proof of work was not done.
    #[error("a proof of work was not done")]
    Pow,
    /// A row of an oracle is not under its commitment.
    #[error("a row of oracle {oracle} is not under its commitment")]
    Merkle {
        /// The oracle.
        oracle: usize,
    },
    /// The claims on committed data do not hold for the last polynomial.
    #[error("the claims on what is committed do not hold")]
    Weights,
}

/// Why a prover cannot make a proof.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProveError {
    /// No proof is accepted for the statement.
    #[error("the statement cannot be proved: {0}")]
    Statement(#[from] VerifyError),
    /// The computation was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A proof to be merged is not valid.
    #[error("proof {child} cannot be merged: {error}")]
    Child {
        /// Its index among those to be merged.
        child: usize,
        /// Why it is rejected.
        error: VerifyError,
    },
    /// There is more of something than fits.
    #[error("{got} {what}, at most {max} fit")]
    Capacity {
        /// The kind of item that exceeds its limit.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many fit.
        max: usize,
    },
    /// The number of cells in the witness is not the relation's.
    #[error("a group has {got} cells, the relation needs {want}")]
    Cells {
        /// Number of cells in the group.
        got: usize,
        /// Number of cells in the relation.
        want: usize,
    },
}
