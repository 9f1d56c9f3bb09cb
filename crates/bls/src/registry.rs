//! The public keys of all validators, each accepted once together with its proof of possession.

use std::collections::BTreeMap;

use alphorn_exec::Exec;
use sha2::{Digest, Sha256};

use crate::batch::Batch;
use crate::ciphersuite::POP_DST;
use crate::decode::{decode_public_keys, decode_signatures};
use crate::error::DecodeError;
#[cfg(test)]
use crate::interop::{interop_keys, vartime_interop_public_keys};
use crate::keys::{PUBLIC_KEY_BYTES, PublicKey, SIGNATURE_BYTES};
use crate::rlc::Rlc;

/// Registrations verified in one test.
const BATCH_REGISTRATIONS: usize = 4096;
/// Maximum number of keys of a registry: 2^22 validators, the bound of Horn's parameters.
pub(crate) const REGISTRY_KEYS_MAX: usize = 1 << 22;

/// A key to be registered, with its proof of possession.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// 48 compressed bytes.
    pub public_key: [u8; PUBLIC_KEY_BYTES],
    /// 96 compressed bytes.
    pub proof: [u8; SIGNATURE_BYTES],
}

/// Why a key is not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The key does not decode.
    #[error("key {index} does not decode: {error}")]
    Key {
        /// Position in the list.
        index: usize,
        /// What is wrong.
        error: DecodeError,
    },
    /// The proof of possession does not decode or does not verify.
    #[error("the proof of possession of key {index} is invalid")]
    Possession {
        /// Position in the list.
        index: usize,
    },
    /// The key is already registered: its owner would vote twice.
    #[error("key {index} is already registered as key {first}")]
    Duplicate {
        /// Position in the list.
        index: usize,
        /// Position of the first occurrence.
        first: usize,
    },
    /// More keys than `REGISTRY_KEYS_MAX`.
    #[error("{got} keys: a registry holds at most {max}")]
    TooMany {
        /// Keys given.
        got: usize,
        /// The bound.
        max: usize,
    },
}

/// Valid public keys in order of validator index, and their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    keys: Vec<PublicKey>,
    digest: [u8; 32],
}

impl Registry {
    /// Decodes every key, rejects duplicates, and verifies every proof of possession, in batches.
    ///
    /// # Errors
    /// The first duplicate. If there is none, the first key that does not decode; otherwise the first key
    /// without a valid proof. A key left unchecked because `exec` was asked to stop counts as one that does not
    /// decode ([`DecodeError::Stopped`]).
    pub fn new(
        registrations: &[Registration],
        rlc: &Rlc,
        exec: Exec<'_>,
    ) -> Result<Registry, RegistryError> {
        let encoded: Vec<[u8; PUBLIC_KEY_BYTES]> = registrations
            .iter()
            .map(|registration| registration.public_key)
            .collect();
        let registry = Registry::from_proven(&encoded, rlc, exec)?;
        for (batch, chunk) in registrations.chunks(BATCH_REGISTRATIONS).enumerate() {
            let first = batch * BATCH_REGISTRATIONS;
            let keys = &registry.keys[first..first + chunk.len()];
            let bad = first_without_possession(keys, chunk, rlc, exec);
            if exec.stopped() {
                let error = DecodeError::Stopped;
                return Err(RegistryError::Key {
                    index: first,
                    error,
                });
            }
            if let Some(bad) = bad {
                return Err(RegistryError::Possession { index: first + bad });
            }
        }
        Ok(registry)
    }

    /// Builds a registry from keys whose proofs of possession were verified before (a chain's deposits, a saved
    /// registry).
    ///
    /// # Errors
    /// If a key does not decode, including because `exec` was asked to stop, or occurs twice.
    pub fn from_proven(
        encoded: &[[u8; PUBLIC_KEY_BYTES]],
        rlc: &Rlc,
        exec: Exec<'_>,
    ) -> Result<Registry, RegistryError> {
        check_count(encoded.len())?;
        // Encodings are canonical, so equal keys have equal bytes, and comparing them is cheaper than decoding.
        let mut firsts = BTreeMap::new();
        for (index, key) in encoded.iter().enumerate() {
            if let Some(first) = firsts.insert(key, index) {
                return Err(RegistryError::Duplicate { index, first });
            }
        }
        let keys: Result<Vec<PublicKey>, RegistryError> = decode_public_keys(encoded, rlc, exec)
            .into_iter()
            .enumerate()
            .map(|(index, key)| key.map_err(|error| RegistryError::Key { index, error }))
            .collect();
        Ok(Registry {
            keys: keys?,
            digest: digest_of(encoded),
        })
    }

    /// Builds a registry from the caller's own keys, which may repeat: interop keys, and clones in tests.
    ///
    /// Nothing proves possession here, so keys from third parties must not be passed.
    ///
    /// # Errors
    /// [`RegistryError::TooMany`].
    pub fn allowing_duplicates(
        keys: Vec<PublicKey>,
        exec: Exec<'_>,
    ) -> Result<Registry, RegistryError> {
        check_count(keys.len())?;
        let encoded = exec.map(keys.len(), |i| keys[i].to_bytes());
        Ok(Registry {
            digest: digest_of(&encoded),
            keys,
        })
    }

    /// The interop keys of validators 0 to `count`, see [`crate::InteropKey`].
    ///
    /// # Errors
    /// [`RegistryError::TooMany`].
    #[cfg(test)]
    pub(crate) fn interop(count: u32, exec: Exec<'_>) -> Result<Registry, RegistryError> {
        check_count(count as usize)?;
        let keys = interop_keys(0..u64::from(count), exec);
        Registry::allowing_duplicates(vartime_interop_public_keys(&keys, exec), exec)
    }

    /// The keys in order of validator index.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// SHA-256 of the concatenated compressed keys.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

fn check_count(got: usize) -> Result<(), RegistryError> {
    if got > REGISTRY_KEYS_MAX {
        return Err(RegistryError::TooMany {
            got,
            max: REGISTRY_KEYS_MAX,
        });
    }
    Ok(())
}

/// SHA-256 of the concatenated compressed keys, which identifies a registry.
pub fn digest_of(encoded: &[[u8; PUBLIC_KEY_BYTES]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    encoded.iter().for_each(|key| hasher.update(key));
    hasher.finalize().into()
}

/// Position of the first key of a batch whose proof does not verify.
fn first_without_possession(
    keys: &[PublicKey],
    registrations: &[Registration],
    rlc: &Rlc,
    exec: Exec<'_>,
) -> Option<usize> {
    let proofs: Vec<[u8; SIGNATURE_BYTES]> = registrations
        .iter()
        .map(|registration| registration.proof)
        .collect();
    let claims: Vec<_> = decode_signatures(&proofs, rlc, exec)
        .into_iter()
        .zip(keys)
        .zip(registrations)
        .map(|((proof, key), registration)| {
            let signature = proof.ok()?;
            Some(crate::SignatureSet {
                key: *key,
                message: &registration.public_key,
                signature,
            })
        })
        .collect();
    let batch = Batch::with_tag(&claims, POP_DST, rlc, exec);
    if batch.check_all(exec) {
        return None;
    }
    batch.locate(exec).bad.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InteropKey, RlcBits, pop_prove};

    fn registrations(count: u64) -> Vec<Registration> {
        let registration = |i| {
            let secret = InteropKey::new(i).to_secret_key();
            Registration {
                public_key: secret.public_key().to_bytes(),
                proof: pop_prove(&secret).to_bytes(),
            }
        };
        (0..count).map(registration).collect()
    }

    fn register(list: &[Registration]) -> Result<Registry, RegistryError> {
        let rlc = Rlc::new([3; 32], RlcBits::Bits64);
        Registry::new(list, &rlc, Exec::serial())
    }

    #[test]
    fn trap_24_a_registry_takes_proven_keys_once_and_names_the_first_bad_one() {
        let good = registrations(40);
        let registry = register(&good).unwrap();
        assert_eq!(registry.keys().len(), 40);
        assert_eq!(registry.keys()[7].to_bytes(), good[7].public_key);

        let mut stolen = good.clone();
        stolen[31].proof = good[3].proof;
        stolen[11].proof = good[12].proof;
        assert_eq!(
            register(&stolen),
            Err(RegistryError::Possession { index: 11 })
        );
        let mut malformed = good.clone();
        malformed[5].proof[0] = 0;
        assert_eq!(
            register(&malformed),
            Err(RegistryError::Possession { index: 5 })
        );
        let mut infinite = good.clone();
        infinite[6].proof = [0; 96];
        infinite[6].proof[0] = 0xc0;
        assert_eq!(
            register(&infinite),
            Err(RegistryError::Possession { index: 6 })
        );
        let mut twice = good.clone();
        twice[30] = good[4];
        assert_eq!(
            register(&twice),
            Err(RegistryError::Duplicate {
                index: 30,
                first: 4
            })
        );
        let mut off = good;
        off[2].public_key = [0xff; 48];
        assert_eq!(
            register(&off),
            Err(RegistryError::Key {
                index: 2,
                error: DecodeError::InfinityBits
            })
        );
    }

    #[test]
    fn clones_are_allowed_only_where_said() {
        let key = InteropKey::new(1).to_secret_key().public_key();
        let registry = Registry::allowing_duplicates(vec![key; 5], Exec::serial()).unwrap();
        assert_eq!(registry.keys(), [key; 5]);
        assert_eq!(*registry.digest(), digest_of(&[key.to_bytes(); 5]));
    }
}
