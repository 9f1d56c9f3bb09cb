//! Signs and verifies Falcon-512 and Falcon-1024, in batches, and states what an aggregate of signatures proves.
//!
//! | module | contents |
//! |---|---|
//! | [`ring`] | polynomials modulo 12289, many side by side |
//! | `flavour` | the encodings and hashes in use: original Falcon, with and without salts, and the FN-DSA draft |
//! | `degree` | everything that depends on the degree of the ring: [`Parameters`] |
//! | [`codec`] | encoding and decoding of keys and signatures, with every bound checked |
//! | [`key`] | secret keys, and public keys ready for products |
//! | [`slot`] | the flavour without salts: one signature per slot and role |
//! | `aggregate` | one proof for many signatures |
//! | [`budget`] | the sum of the errors of a proof |
//! | `plain` | verification, one by one and in batches: the baseline that an aggregate has to beat |
//! | `signing` | secret keys of any flavour: [`SigningKey`] |
//! | `scheme` | the scheme of the protocol: [`Falcon`] |
//!
//! The relation of a signature, over the integers: `s1 + s2 h = c` modulo `q = 12289` in
//! `Z[Y]/(Y^N + 1)` and `||s1||^2 + ||s2||^2 <= B`, where `h` is the key and `c` the hash of salt and message
//! (Falcon specification, version 1.2, section 3). The degree `N` is a constant of every type, 512 by default,
//! with `B = 34,034,726`, or 1024, with `B = 70,265,242` ([`Parameters`]). The scheme of the protocol supports only
//! degree 512.
#![forbid(unsafe_code)]

mod aggregate;
mod basis;
pub mod budget;
pub mod codec;
mod degree;
mod flavour;
mod hash;
pub mod key;
mod original;
mod plain;
mod registry;
pub mod ring;
mod scheme;
mod signing;
pub mod slot;

pub use aggregate::{AggregateError, Aggregator, Preset, SIGNATURES_MAX, Signed, split_salts};
pub use degree::{DEGREE, DEGREES, Parameters};
pub use flavour::Flavour;
pub use key::{KeyError, KeyForm, PublicKey, SecretKey};
pub use original::{BasisFlavour, BasisKey, ORIGINAL_KEY_BYTES, Original, OriginalKey};
pub use plain::{Item, Refused, verify, verify_batch};

pub use registry::{EpochKeys, Registry, Signers};
pub use scheme::{COMMITTEE_MAX, Collections, Falcon, PROOF_BYTES_MAX};
pub use signing::SigningKey;
pub use slot::SlotKey;

/// The modulus of Falcon.
pub(crate) const MODULUS: u16 = 12_289;

/// Bytes of a public key of Falcon-512: a header and 512 coefficients of 14 bits.
pub const PUBLIC_KEY_BYTES: usize = Parameters::of(DEGREE).public_key_bytes;

/// Bytes of a signature of Falcon-512: a header, the salt, `s2` in a compressed code, padded with zeros.
pub const SIGNATURE_BYTES: usize = Parameters::of(DEGREE).signature_bytes;

/// Bytes of a salt.
pub const SALT_BYTES: usize = 40;

/// Compiles the example on the package's page along with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
