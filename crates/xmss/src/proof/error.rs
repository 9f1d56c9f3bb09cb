//! Why there is no proof, and why one is refused.

use alphorn_stark::proof::DecodeError;
use thiserror::Error;

use crate::params::Set;

/// Why a registry cannot be made, or a proof cannot.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProveError {
    /// A registry of another set than the proofs.
    #[error("a registry of the set {got}, the proof is of {want}")]
    RegistrySet {
        /// The set of the registry.
        got: Set,
        /// The set of the proofs.
        want: Set,
    },
    /// A key of another set than its registry.
    #[error("key {position} is of another set than {want}")]
    KeySet {
        /// Its position.
        position: usize,
        /// The set of the registry.
        want: Set,
    },
    /// More keys than a registry has room for.
    #[error("a registry of {got} keys, at most {max} fit")]
    RegistrySize {
        /// The keys.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// A number that stands for another one too: proofs have numbers modulo p.
    #[error("registry number {got}, must be below {end}")]
    RegistryNumber {
        /// The number.
        got: u32,
        /// The first number that is none.
        end: u32,
    },
    /// Nothing to prove.
    #[error("no signature: a proof needs at least one")]
    Empty,
    /// More signatures than a proof has room for.
    #[error("{got} signatures, a proof takes at most {max}")]
    Signatures {
        /// The signatures.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// Positions do not ascend: a member counts once.
    #[error(
        "position {position} comes after {before}: positions must ascend, a member counts once"
    )]
    Order {
        /// The position before.
        before: u32,
        /// The position.
        position: u32,
    },
    /// A signer that the registry does not have.
    #[error("position {position}, the registry has {size} keys")]
    NotAMember {
        /// The position.
        position: u32,
        /// Keys of the registry.
        size: usize,
    },
    /// Signatures that do not hold under their keys, at this slot, for this message.
    #[error("the signatures at positions {positions:?} do not hold")]
    InvalidSignatures {
        /// Their positions in the registry, ascending.
        positions: Vec<u32>,
    },
    /// A proof that was to be merged is refused.
    #[error("proof {part} cannot be merged: {error}")]
    Part {
        /// Its place among those to be merged.
        part: usize,
        /// Why.
        error: ProofError,
    },
    /// Proofs of the wide shape, for which there are no circuits.
    #[error("proofs of the wide shape do not merge")]
    Unmergeable,
    /// A piece of evidence does not come to proofs.
    #[error("evidence {piece}: {error}")]
    Evidence {
        /// Its place among those to be merged.
        piece: usize,
        /// What is wrong.
        error: Box<super::EvidenceError>,
    },
    /// A bundle has no entry with this number.
    #[error("entry {got} of a bundle of {entries}: they are numbered from 0")]
    Entry {
        /// The number.
        got: usize,
        /// Entries of the bundle.
        entries: usize,
    },
    /// More entries than a bundle has room for.
    #[error("a bundle of {got} entries, at most {max} fit")]
    Entries {
        /// The entries.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// Merges are as high as they may be.
    #[error("these proofs have been merged {max} times, and that is the most")]
    Levels {
        /// The limit.
        max: u32,
    },
    /// The computation was asked to end.
    #[error("stopped")]
    Stopped,
    /// The proof system refuses.
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

/// Why a proof is refused: one variant for each check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProofError {
    /// A registry of another set than the proofs.
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
    /// A proof of more signatures than the circuits of merges have room for.
    #[error("a proof of {got} signatures, proofs of at most {max} can be merged")]
    TooLarge {
        /// The signatures.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// Signers over another number of members.
    #[error("signers of {got} members, the registry has {want}")]
    Bitfield {
        /// Members that the signers are of.
        got: usize,
        /// Keys of the registry.
        want: usize,
    },
    /// A slot in which no key of the set can sign.
    #[error("slot {got}, the set has slots below {end}")]
    Slot {
        /// The slot.
        got: u32,
        /// The first slot that is none.
        end: u64,
    },
    /// Nobody is said to have signed.
    #[error("no signer")]
    EmptySet,
    /// The bytes are no proof of this relation and preset.
    #[error("the bytes are no proof: {0}")]
    Decode(#[from] DecodeError),
    /// A proof of more or fewer groups than its signers fill.
    #[error("a proof of {got} groups, its signers fill {want}")]
    Groups {
        /// Groups of the proof.
        got: usize,
        /// Groups that the signers fill.
        want: usize,
    },
    /// The proof system refuses.
    #[error("the proof does not hold: {0}")]
    Refused(#[from] alphorn_stark::VerifyError),
}
