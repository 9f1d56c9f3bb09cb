//! Signs, aggregates and verifies BLS12-381 votes of whole committees.
//!
//! The ciphersuite is `BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_` of the IETF draft, as in
//! Ethereum's consensus specifications: 48-byte public keys, 96-byte signatures, proofs of
//! possession.
//!
//! ```
//! use alphorn_bls::{Rlc, RlcBits, SecretKey, SignatureSet};
//! use alphorn_exec::Exec;
//!
//! # fn main() -> Result<(), alphorn_bls::BlsError> {
//! let secrets = [SecretKey::key_gen(&[1; 32])?, SecretKey::key_gen(&[2; 32])?];
//! let keys: Vec<_> = secrets.iter().map(SecretKey::public_key).collect();
//! let votes: Vec<_> = secrets.iter().map(|secret| alphorn_bls::sign(secret, b"head")).collect();
//! let aggregate = alphorn_bls::aggregate(&votes)?;
//! assert!(alphorn_bls::fast_aggregate_verify(&keys, b"head", &aggregate));
//!
//! // Many claims in one test; the secret is drawn once per process.
//! let sets = [
//!     SignatureSet { key: keys[0], message: b"head", signature: votes[0] },
//!     SignatureSet { key: keys[1], message: b"head", signature: votes[1] },
//! ];
//! let rlc = Rlc::new([7; 32], RlcBits::Bits64);
//! assert!(alphorn_bls::verify_sets(&sets, &rlc, Exec::serial()));
//! # Ok(())
//! # }
//! ```
//!
//! Collections of whole committees: the keys are kept in a table in committee order, a collection names its
//! signers by bit planes, and one test decides all collections.
//!
//! ```
//! use alphorn_bls::{
//!     CollectionItem, InteropKey, KeyTable, RejectReason, Rlc, RlcBits, SumOptions,
//!     VerifyOptions, Workspace, interop_keys, sign, vartime_interop_public_keys, verify_collections,
//! };
//! use alphorn_exec::{Backend, Exec};
//!
//! let backend = Backend::Portable;
//! let keys = interop_keys(0..100, Exec::serial());
//! let points = vartime_interop_public_keys(&keys, Exec::new(backend, None));
//! let points = points.iter().map(|key| *key.point()).collect();
//! let table = KeyTable::new(backend, points, &[60, 40]).expect("the sizes add up");
//!
//! // Positions 0, 1 and 5 of committee 1 signed.
//! let plane = [0b10_0011u64];
//! let signers = [60, 61, 65].map(|i: usize| (&keys[i], 1));
//! let sum = InteropKey::weighted_sum(signers).expect("the keys do not cancel");
//! let signature = sign(&sum.to_secret_key(), b"head").to_bytes();
//! let planes: [&[u64]; 1] = [&plane];
//! let item =
//!     CollectionItem { committee: 1, planes: &planes, message: b"head", signature: &signature };
//! let forged = CollectionItem { message: b"tail", ..item };
//!
//! let rlc = Rlc::new([7; 32], RlcBits::Bits64);
//! let options =
//!     VerifyOptions { rlc: &rlc, sums: SumOptions::default(), bases: &[], exec: Exec::serial() };
//! let verdicts = verify_collections(&table, &[item, forged, item], &[], &options, &mut Workspace::default());
//! let verdicts = verdicts.expect("the planes fit");
//! assert_eq!(verdicts, [Ok(()), Err(RejectReason::Signature), Ok(())]);
//! ```
//!
//! # Map
//!
//! | what | where |
//! |---|---|
//! | keys, signatures, proofs of possession, the draft's functions | crate root; on plain bytes in [`bytes`] |
//! | many claims at once, and which of them are bad | [`verify_sets`], [`Batch`] |
//! | collections of committees | [`verify_collections`], [`KeyTable`], [`sum_columns`] |
//! | all validators' keys, and their cache file | [`Registry`], [`load_key_cache`], [`write_key_cache`] |
//! | keys that everyone knows, for tests and devnets | [`InteropKey`], [`VartimeInteropSigner`] |
//! | the scheme as the protocol sees it | [`Bls`] |
//! | the foundations and the error bounds | [`lecture`] |
//! | how points are added | [`lecture_sums`] |
//! | how numbers are multiplied | [`lecture_products`] |
//!
//! # Secrets and time
//!
//! Key generation, public keys, signatures and proofs of possession of a [`SecretKey`] run through blst's
//! constant-time code. Every function whose name begins with `vartime_`, and every sum and verification, takes
//! time that depends on its inputs, which are public; the type system keeps real secret keys out of `vartime_`
//! functions.
#![deny(unsafe_code)]

mod batch;
mod blst_ffi;
pub mod bytes;
mod cache;
mod ciphersuite;
mod committee;
mod decode;
mod dispatch;
mod error;
mod fixed_base;
mod interop;
pub mod ipa;
mod kernel;
mod keys;
mod lanes;
pub mod peer;
mod registry;
mod rlc;
mod scheme;
mod subgroup;
mod sums;
#[cfg(target_arch = "x86_64")]
mod vector;
mod weighted;

#[doc = include_str!("LECTURE.md")]
pub mod lecture {}

#[doc = include_str!("sums/vector/LECTURE.md")]
pub mod lecture_sums {}

#[doc = include_str!("vector/LECTURE.md")]
pub mod lecture_products {}

pub use batch::{Batch, Located, SignatureSet, verify_sets};
pub use blst_ffi::curve::{Affine, G1Affine, G2Affine};
pub use blst_ffi::curve_field::CurveField;
pub use blst_ffi::field::{Field, Fp, Fp2};
pub use cache::{CacheError, decode_key_cache, load_key_cache, write_key_cache};
pub use ciphersuite::{
    POP_DST, SIGNATURE_DST, aggregate, aggregate_public_keys, aggregate_verify,
    eth_fast_aggregate_verify, fast_aggregate_verify, hash_many_to_g2, hash_to_g1, hash_to_g2,
    key_validate, pop_prove, pop_verify, sign, verify,
};
pub use committee::{
    CollectionItem, KeyItem, RejectReason, VerifyOptions, VerifyTimings, verify_collections,
};
pub use decode::{decode_public_keys, decode_signatures};
pub use error::{BlsError, DecodeError};
pub use interop::{InteropKey, VartimeInteropSigner, interop_keys, vartime_interop_public_keys};
pub use kernel::KERNELS;
pub use keys::{
    KEY_MATERIAL_BYTES_MIN, PUBLIC_KEY_BYTES, ProofOfPossession, PublicKey, SECRET_KEY_BYTES,
    SIGNATURE_BYTES, SecretKey, Signature, decode_g1, decode_g1_uncompressed, decode_g2,
    decode_g2_uncompressed, encode_g1, encode_g1_uncompressed, encode_g2, encode_g2_uncompressed,
    g1_generator, g2_generator,
};
pub use registry::{Registration, Registry, RegistryError, digest_of as registry_digest};
pub use rlc::{Rlc, RlcBits};
pub use scheme::{Bls, EpochKeys, PreparedClaims, Signers};
pub use subgroup::outside_subgroup;
pub use sums::{
    Base, COLLECTIONS_MAX, Columns, CommitteeJob, Costs, KeyTable, KeyTableError, Method,
    MethodCounts, SumError, SumOptions, SumReport, Sums, Workspace, sum_columns,
};

/// Compiles the example in the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
