//! A proof of an aggregate key with multiplicities: research, for comparison with direct sums.
//!
//! Instead of the multiplicities of a collection, its sender provides the aggregate key A, the set of signers
//! and a proof of 1,600 bytes (for 2^15 keys) that A is a combination of the committee's keys in which every
//! claimed signer has a non-zero multiplicity. Nodes never use it: for a holder of the keys, adding them is far
//! cheaper than verifying the proof (`cargo bench --bench ipa` measures by how much).
//!
//! ```
//! use alphorn_bls::ipa::{Bases, Claim, Committee, Proof, prove, verify};
//! use alphorn_bls::SecretKey;
//! use alphorn_exec::Exec;
//! use alphorn_types::Bitfield;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let key = |i: u8| Ok::<_, alphorn_bls::BlsError>(SecretKey::key_gen(&[i; 32])?.public_key());
//! let committee = Committee::new(&[key(1)?, key(2)?, key(3)?])?;
//! let bases = Bases::derive(3, Exec::serial())?;
//!
//! // The first vote was merged twice, the last one is missing.
//! let mut signers = Bitfield::new(3);
//! signers.set_range(0..2);
//! let (aggregate, proof) = prove(&bases, &committee, &[2, 1, 0], &signers, Exec::serial())?;
//!
//! let proof = Proof::from_bytes(&proof.to_bytes(), 3)?;
//! let claim = Claim::new(&committee, &signers, aggregate, &proof)?;
//! verify(&bases, &claim, Exec::serial())?;
//! # Ok(())
//! # }
//! ```
//!
#![doc = include_str!("LECTURE.md")]

mod bases;
mod locate;
mod proof;
mod prove;
#[cfg(test)]
mod tests;
mod transcript;
mod verify;

pub use bases::Bases;
pub use locate::{Located, locate};
pub use proof::Proof;
pub use prove::prove;
pub use verify::{verify, verify_batch};

use alphorn_types::Bitfield;
use thiserror::Error;

use crate::blst_ffi::curve::G1Affine;
use crate::blst_ffi::fr::Fr;
use crate::error::DecodeError;
use crate::keys::{PublicKey, encode_g1};
use transcript::Transcript;

/// Domain tag of bases and transcripts.
const TAG: &[u8] = b"ALPHORN-IPA-V1";
/// Largest committee: 2^17 keys, so at most 17 halvings (2^22 validators in 32 committees).
pub(crate) const KEYS_MAX: usize = 1 << 17;

/// Why there is no proof, or why a proof is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IpaError {
    /// No keys, or more than `KEYS_MAX`.
    #[error("a committee of {got} keys, must be 1 to {KEYS_MAX}")]
    Keys {
        /// Keys that were given.
        got: usize,
    },
    /// The bases were derived for smaller committees.
    #[error("bases for {got} keys, {needed} are needed")]
    Bases {
        /// Largest committee of the bases.
        got: usize,
        /// Size of the committee, padded.
        needed: usize,
    },
    /// The signer set has a different number of positions than the committee.
    #[error("a signer set over {got} positions, the committee has {expected}")]
    Signers {
        /// Positions of the signer set.
        got: usize,
        /// Keys of the committee.
        expected: usize,
    },
    /// The number of multiplicities differs from the number of keys.
    #[error("{got} multiplicities, the committee has {expected} keys")]
    Multiplicities {
        /// Multiplicities that were given.
        got: usize,
        /// Keys of the committee.
        expected: usize,
    },
    /// The signer set is empty.
    #[error("the signer set is empty")]
    NoSigner,
    /// A claimed signer has multiplicity zero: the claim is false.
    #[error("position {position} is claimed and has multiplicity 0")]
    NotSigned {
        /// The claimed position.
        position: usize,
    },
    /// The aggregate key is the identity, under which no signature verifies; or, with probability below 2^-120,
    /// a point of the proof is.
    #[error("the aggregate key or a point of the proof is the identity")]
    Identity,
    /// The proof has the wrong number of bytes.
    #[error("a proof of {got} bytes, must be {expected}")]
    ProofLength {
        /// Bytes that were given.
        got: usize,
        /// Bytes for this number of keys.
        expected: usize,
    },
    /// The proof is for a committee of another size.
    #[error("a proof with {got} halvings, the committee needs {expected}")]
    Rounds {
        /// Halvings of the proof.
        got: usize,
        /// Halvings of the committee.
        expected: usize,
    },
    /// A point of the proof does not decode.
    #[error("point {index} of the proof: {error}")]
    Point {
        /// Its index in the encoding.
        index: usize,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// A scalar of the proof is not below the group order.
    #[error("scalar {index} of the proof is not below the group order")]
    Scalar {
        /// 0 for a, 1 for c.
        index: usize,
    },
    /// The proof does not prove the claim; for a batch, some proof does not.
    #[error("the proof does not hold")]
    Rejected,
}

/// Rejects committees that are empty or too large.
fn check_keys(keys: usize) -> Result<(), IpaError> {
    if keys == 0 || keys > KEYS_MAX {
        return Err(IpaError::Keys { got: keys });
    }
    Ok(())
}

/// The keys of a committee with their digest, computed once per epoch.
///
/// The keys must be registered with proofs of possession; they may repeat.
#[derive(Clone, Debug)]
pub struct Committee {
    keys: Vec<G1Affine>,
    digest: [u8; 32],
}

impl Committee {
    /// Builds a committee from keys in the order of its positions.
    ///
    /// # Errors
    /// [`IpaError::Keys`] if there are no keys or more than `KEYS_MAX`.
    pub fn new(keys: &[PublicKey]) -> Result<Committee, IpaError> {
        check_keys(keys.len())?;
        let encoded: Vec<[u8; 48]> = keys.iter().map(PublicKey::to_bytes).collect();
        Ok(Committee {
            keys: keys.iter().map(|key| *key.point()).collect(),
            digest: crate::registry::digest_of(&encoded),
        })
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}

/// A claim and its proof, with matching sizes.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    statement: Statement<'a>,
    proof: &'a Proof,
}

impl<'a> Claim<'a> {
    /// The claim that `aggregate` contains every signer.
    /// # Errors
    /// If the signer set has another size than the committee or no signer, or the proof has another number of
    /// halvings.
    pub fn new(
        committee: &'a Committee,
        signers: &'a Bitfield,
        aggregate: PublicKey,
        proof: &'a Proof,
    ) -> Result<Claim<'a>, IpaError> {
        check_signers(committee, signers)?;
        let expected = proof::rounds_of(committee.len());
        if proof.rounds.len() != expected {
            return Err(IpaError::Rounds {
                got: proof.rounds.len(),
                expected,
            });
        }
        let statement = Statement {
            committee,
            signers,
            aggregate: *aggregate.point(),
        };
        Ok(Claim { statement, proof })
    }
}

/// Rejects a signer set that is empty or does not fit the committee.
fn check_signers(committee: &Committee, signers: &Bitfield) -> Result<(), IpaError> {
    if signers.len() != committee.len() {
        return Err(IpaError::Signers {
            got: signers.len(),
            expected: committee.len(),
        });
    }
    if signers.none() {
        return Err(IpaError::NoSigner);
    }
    Ok(())
}

/// "`aggregate` = Σ v_i·P_i with v_i ≠ 0 for every signer i".
#[derive(Clone, Copy, Debug)]
struct Statement<'a> {
    committee: &'a Committee,
    signers: &'a Bitfield,
    aggregate: G1Affine,
}

/// The challenges that bind the argument to statement and commitments.
struct Challenges {
    y: Fr,
    tau: Fr,
    x: Fr,
    e: Fr,
}

impl Statement<'_> {
    /// Absorbs the statement and the commitments V and W, then draws the challenges.
    fn open(&self, v: &G1Affine, w: &G1Affine) -> (Transcript, Challenges) {
        let mut transcript = Transcript::new();
        transcript.absorb(b"keys", &self.committee.digest);
        transcript.absorb(b"n", &(self.committee.len() as u64).to_le_bytes());
        transcript.absorb(b"signers", &self.signers.to_bytes());
        transcript.absorb(b"A", &encode_g1(&self.aggregate));
        transcript.absorb(b"V", &encode_g1(v));
        transcript.absorb(b"W", &encode_g1(w));
        let challenges = Challenges {
            y: transcript.challenge(b"y"),
            tau: transcript.challenge(b"tau"),
            x: transcript.challenge(b"x"),
            e: transcript.challenge(b"e"),
        };
        (transcript, challenges)
    }

    /// z = Σ y^i·b_i.
    fn claimed(&self, y: &Fr) -> Fr {
        let powers = bases::powers(y, self.committee.len());
        let ones = self.signers.iter_ones().map(|i| &powers[i]);
        ones.fold(Fr::ZERO, |sum, power| sum.add(power))
    }
}

/// Absorbs the cross terms of a halving and draws its challenge.
fn halve(transcript: &mut Transcript, left: &G1Affine, right: &G1Affine) -> Fr {
    transcript.absorb(b"L", &encode_g1(left));
    transcript.absorb(b"R", &encode_g1(right));
    transcript.challenge(b"u")
}
