//! Why a proof is refused, or cannot be made.

use alphorn_exec::Stopped;
use thiserror::Error;

/// Why a verifier refuses: one variant for each check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// The proof has another number of elements than its shape says.
    #[error("the proof has {got} elements, its shape needs {want}")]
    Length {
        /// Elements that were, or were to be, read.
        want: usize,
        /// Elements that are there.
        got: usize,
    },
    /// The proof has more groups than the shape.
    #[error("the proof has {got} groups of instances, at most {max} are possible")]
    Groups {
        /// Groups of the proof.
        got: usize,
        /// Groups of the shape.
        max: usize,
    },
    /// Registry or bitfield have another length than the shape's column.
    #[error("registry or bitfield have {got} rows, the relation needs {want}")]
    StatementSize {
        /// Rows that are there.
        got: usize,
        /// Rows of the relation.
        want: usize,
    },
    /// There are not as many public values, or elements of the message, as the relation has.
    #[error("{got} public values or elements of the message, the relation has {want}")]
    Publics {
        /// Public values or elements that are there.
        got: usize,
        /// Those of the relation.
        want: usize,
    },
    /// The rows of the registry have another width than the relation's.
    #[error("registry rows of {got} elements, the relation needs {want}")]
    RegistryWidth {
        /// Elements of a row.
        got: usize,
        /// Elements that the relation looks up.
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
        /// Rows of the registry.
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
    /// The bits of the children are no bits, or their union is another.
    #[error("the bitfield does not follow from the bits of the children")]
    Children,
    /// The wiring of the verifiers' circuits is another than the proof says.
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
    /// A bundle has an entry where a bundle is listed, or a bundle where an entry is.
    #[error(
        "the bundle has other children than are listed: entries for bundles, or bundles for entries"
    )]
    Item,
    /// What is left of the registries of a bundle in a bundle is not what its digest says.
    #[error("the values of registries of a bundle are not those of its proof")]
    Left,
    /// The entry of a bundle that is to be kept is another than the statement's.
    #[error("the statement is none of the bundle's entries")]
    Entry,
    /// The statement is one of another relation.
    #[error("a statement of the set {got}, the proofs are of {want}")]
    Set {
        /// The set of the statement.
        got: u32,
        /// The number of the relation.
        want: u32,
    },
    /// The committee is no field element.
    #[error("committee {got}, which must be below p")]
    Committee {
        /// The committee.
        got: u32,
    },
    /// A merge of no children, or of more than there is room for.
    #[error("a merge of {got} proofs: 1 to {max} are possible")]
    ChildCount {
        /// The children.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// The bitfield does not follow from the counts.
    #[error("the bitfield does not follow from the counts of the registry's rows")]
    Union,
    /// The registry has other values than the proof says.
    #[error("the registry has other values than the proof says")]
    Registry,
    /// The bitfield has another value than the proof says.
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
    /// The claims on what is committed do not hold for the last polynomial.
    #[error("the claims on what is committed do not hold")]
    Weights,
}

/// Why a prover refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProveError {
    /// The statement is one that no proof is accepted for.
    #[error("the statement cannot be proved: {0}")]
    Statement(#[from] VerifyError),
    /// Nobody waits for the proof any more.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A proof that was to be merged is none.
    #[error("proof {child} cannot be merged: {error}")]
    Child {
        /// Its place among those to be merged.
        child: usize,
        /// Why it is refused.
        error: VerifyError,
    },
    /// There is more of something than fits.
    #[error("{got} {what}, at most {max} fit")]
    Capacity {
        /// Of what.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many fit.
        max: usize,
    },
    /// The witness has cells of another number than the relation.
    #[error("a group has {got} cells, the relation needs {want}")]
    Cells {
        /// Cells of the group.
        got: usize,
        /// Cells of the relation.
        want: usize,
    },
}
