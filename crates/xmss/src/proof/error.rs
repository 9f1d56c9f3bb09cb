//! Why a proof cannot be made, and why one is rejected.

use alphorn_stark::proof::DecodeError;
use thiserror::Error;

use crate::params::Set;

/// Why a registry or a proof cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProveError {
    /// The registry is of another set than the proofs.
    #[error("a registry of the set {got}, the proof is of {want}")]
    RegistrySet {
        /// The set of the registry.
        got: Set,
        /// The set of the proofs.
        want: Set,
    },
    /// A key is of another set than its registry.
    #[error("key {position} is of another set than {want}")]
    KeySet {
        /// Its position.
        position: usize,
        /// The set of the registry.
        want: Set,
    },
    /// More keys than a registry can hold.
    #[error("a registry of {got} keys, at most {max} fit")]
    RegistrySize {
        /// Number of keys.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// A registry number that is not unique: proofs hold numbers modulo p.
    #[error("registry number {got}, must be below {end}")]
    RegistryNumber {
        /// The number.
        got: u32,
        /// The first invalid number.
        end: u32,
    },
    /// There is nothing to prove.
    #[error("no signature: a proof needs at least one")]
    Empty,
    /// More signatures than a proof can hold.
    #[error("{got} signatures, a proof takes at most {max}")]
    Signatures {
        /// Number of signatures.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// Positions do not ascend; each member counts once.
    #[error(
        "position {position} comes after {before}: positions must ascend, a member counts once"
    )]
    Order {
        /// The preceding position.
        before: u32,
        /// The position.
        position: u32,
    },
    /// A signer that is not in the registry.
    #[error("position {position}, the registry has {size} keys")]
    NotAMember {
        /// The position.
        position: u32,
        /// Number of keys in the registry.
        size: usize,
    },
    /// Signatures that do not hold under their keys, for this slot and message.
    #[error("the signatures at positions {positions:?} do not hold")]
    InvalidSignatures {
        /// Their positions in the registry, ascending.
        positions: Vec<u32>,
    },
    /// A proof to be merged was rejected.
    #[error("proof {part} cannot be merged: {error}")]
    Part {
        /// Its index among the proofs to be merged.
        part: usize,
        /// The reason.
        error: ProofError,
    },
    /// Proofs of the wide shape, for which there are no circuits.
    #[error("proofs of the wide shape do not merge")]
    Unmergeable,
    /// A piece of evidence does not decode to proofs.
    #[error("evidence {piece}: {error}")]
    Evidence {
        /// Its index among the pieces to be merged.
        piece: usize,
        /// What is wrong.
        error: Box<super::EvidenceError>,
    },
    /// A bundle has no entry with this number.
    #[error("entry {got} of a bundle of {entries}: they are numbered from 0")]
    Entry {
        /// The number.
        got: usize,
        /// Number of entries in the bundle.
        entries: usize,
    },
    /// More entries than a bundle can hold.
    #[error("a bundle of {got} entries, at most {max} fit")]
    Entries {
        /// Number of entries.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// Merges have reached the maximum level.
    #[error("these proofs have been merged {max} times, and that is the most")]
    Levels {
        /// The limit.
        max: u32,
    },
    /// The computation was stopped.
    #[error("stopped")]
    Stopped,
    /// The proof system reports an error.
    #[error(transparent)]
    System(alphorn_stark::ProveError),
}

impl From<alphorn_stark::ProveError> for ProveError {
    fn from(error: alphorn_stark::ProveError) -> ProveError {
        match error {
            alphorn_stark::ProveError::Stopped(_) => ProveError::Stopped,
            refused => ProveError::System(refused),
        }
    }
}

impl From<alphorn_exec::Stopped> for ProveError {
    fn from(_: alphorn_exec::Stopped) -> ProveError {
        ProveError::Stopped
    }
}

/// Why a proof is rejected: one variant for each check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProofError {
    /// The registry is of another set than the proofs.
    #[error("a registry of the set {got}, the proof is of {want}")]
    RegistrySet {
        /// The set of the registry.
        got: Set,
        /// The set of the proofs.
        want: Set,
    },
    /// A merge of proofs of the wide shape, for which there are no circuits.
    #[error("a merge of proofs of the wide shape, which do not merge")]
    Unmergeable,
    /// A proof of more signatures than the merge circuits can take.
    #[error("a proof of {got} signatures, proofs of at most {max} can be merged")]
    TooLarge {
        /// Number of signatures.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// The signers refer to another number of members.
    #[error("signers of {got} members, the registry has {want}")]
    Bitfield {
        /// Number of members that the signers refer to.
        got: usize,
        /// Number of keys in the registry.
        want: usize,
    },
    /// A slot in which no key of the set can sign.
    #[error("slot {got}, the set has slots below {end}")]
    Slot {
        /// The slot.
        got: u32,
        /// The first invalid slot.
        end: u64,
    },
    /// The claim has no signer.
    #[error("no signer")]
    EmptySet,
    /// The bytes are not a proof of this relation and preset.
    #[error("the bytes are no proof: {0}")]
    Decode(#[from] DecodeError),
    /// The proof has more or fewer groups than its signers fill.
    #[error("a proof of {got} groups, its signers fill {want}")]
    Groups {
        /// Number of groups in the proof.
        got: usize,
        /// Number of groups that the signers fill.
        want: usize,
    },
    /// The proof system rejects it.
    #[error("the proof does not hold: {0}")]
    Refused(#[from] alphorn_stark::VerifyError),
}
