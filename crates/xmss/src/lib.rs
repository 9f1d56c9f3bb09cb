//! Signs with one-time keys under a hash tree, verifies whole batches, and never uses an index twice.
//!
//! | module | what it holds |
//! |---|---|
//! | `params`, `hash` | the sets, and what each hashes: the only module that knows a permutation |
//! | `prf` | everything random of a key, from one seed |
//! | `tree`, `key`, `keyfile` | keys in little memory and in files |
//! | `signature`, `verify` | bytes, and verification of many at once |
//! | `watermark`, `durable` | no slot twice, also after a crash |
//! | `proof` | proofs that many signed, and several of them as evidence |
//! | `registry`, `claims`, `collection`, `scheme` | the scheme of the protocol, with evidence as lists or proofs |
//!
//! The lecture explains why it holds, and what is claimed.
//!
#![doc = include_str!("LECTURE.md")]
#![forbid(unsafe_code)]

mod claims;
mod collection;
mod durable;
mod hash;
mod key;
mod keyfile;
mod params;
mod prf;
mod proof;
mod registry;
mod scheme;
mod signature;
mod tree;
mod verify;
mod watermark;
mod wiped;

pub use alphorn_stark::merge::ChildKind;
pub use key::{KeyError, Purpose, SecretKey, SignError};
pub use keyfile::{FILE_INDICES_MAX, KeyFileError, SECRET_FILE_BYTES, TREE_FILE_BYTES_MAX};
pub use params::{Params, Set, UnknownSet};
pub use proof::{
    BundleEntry, BundleShape, Claimed, EVIDENCE_BYTES_MAX, EvidenceError, EvidencePart, MergeShape,
    PRESETS, Preset, ProofError, ProofPart, ProofRegistry, ProofSizes, Proofs, ProveError, Signed,
    preset_of_evidence,
};
pub use registry::{EpochKeys, Registry, Signers};
pub use scheme::{COMMITTEE_MAX, Xmss};
pub use signature::{BytesError, PublicKey, Signature};
pub use verify::{Item, verify, verify_batch};
pub use watermark::{FileWatermark, KeyName, Marks, MarksError, WatermarkError, raise_floor};

/// Compiles the example in the package's README together with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
