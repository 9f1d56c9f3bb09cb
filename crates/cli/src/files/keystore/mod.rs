//! Keystores: one secret key under a password (EIP-2335, version 4).

mod kdf;
#[cfg(test)]
mod tests;

pub(super) use kdf::{COST_LOG2_DEFAULT, KdfError, KdfName};

use super::document::Hex;
use super::secret::{Password, Secret, fill_random};
use aes::cipher::{KeyIvInit, StreamCipher};
use kdf::{DERIVED_BYTES, Kdf};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use thiserror::Error;

/// Bytes of a keystore file at most; ours have some 900.
pub(super) const KEYSTORE_BYTES_MAX: usize = 64 << 10;
/// The only version of EIP-2335.
const VERSION: u64 = 4;
/// Bytes of the key of AES-128, and of its counter block.
const CIPHER_KEY_BYTES: usize = 16;

type Aes128Ctr = ctr::Ctr128BE<aes::Aes128>;

/// Why a keystore is not opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum KeystoreError {
    #[error("keystore version {0}: must be {VERSION}")]
    Version(u64),
    #[error("uuid {0:?} is none")]
    Uuid(String),
    #[error(transparent)]
    Kdf(#[from] KdfError),
    #[error("{what} of {got} bytes: must have {expected}")]
    Length {
        what: &'static str,
        got: usize,
        expected: usize,
    },
    #[error("wrong password: the checksum of the keystore does not fit it")]
    Password,
}

/// A keystore as it is in its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Keystore {
    crypto: Crypto,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pubkey: Option<Hex<false>>,
    path: String,
    uuid: String,
    version: u64,
    /// Fields that other writers add; EIP-2335 does not forbid them.
    #[serde(flatten)]
    foreign: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Crypto {
    kdf: Kdf,
    checksum: Checksum,
    cipher: Cipher,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checksum {
    function: ChecksumName,
    params: NoParams,
    message: Hex<false>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ChecksumName {
    #[serde(rename = "sha256")]
    Sha256,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParams {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cipher {
    function: CipherName,
    params: CipherParams,
    message: Hex<false>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum CipherName {
    #[serde(rename = "aes-128-ctr")]
    Aes128Ctr,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CipherParams {
    iv: Hex<false>,
}

/// How a new keystore is protected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protection {
    /// The key derivation.
    pub(super) kdf: KdfName,
    /// log2 of scrypt's n or of the iterations of PBKDF2.
    pub(super) cost_log2: u8,
}

/// What a keystore says of its key beside the key.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    /// For a person.
    pub(super) description: Option<String>,
    /// Path in a tree of keys (EIP-2334), empty if there is none.
    pub(super) path: String,
    /// Name of the key; a new one is drawn if there is none.
    pub(super) uuid: Option<String>,
}

impl Keystore {
    /// Puts a secret under a password.
    pub(super) fn seal(
        secret: &Secret,
        public_key: &[u8],
        password: &Password,
        protection: Protection,
        about: About,
    ) -> crate::error::Result<Self> {
        let kdf = Kdf::new(protection.kdf, protection.cost_log2)?;
        let mut iv = [0; CIPHER_KEY_BYTES];
        fill_random(&mut iv)?;
        let key = kdf.derive(password)?;
        let mut message = secret.bytes().to_vec();
        apply_cipher(&key, &iv, &mut message);
        let checksum = checksum(&key, &message);
        let uuid = match about.uuid {
            Some(uuid) => uuid,
            None => {
                let mut random = [0; 16];
                fill_random(&mut random)?;
                let uuid = uuid::Builder::from_random_bytes(random).into_uuid();
                uuid.to_string()
            }
        };
        Ok(Keystore {
            crypto: Crypto {
                kdf,
                checksum: Checksum {
                    function: ChecksumName::Sha256,
                    params: NoParams {},
                    message: Hex(checksum.to_vec()),
                },
                cipher: Cipher {
                    function: CipherName::Aes128Ctr,
                    params: CipherParams {
                        iv: Hex(iv.to_vec()),
                    },
                    message: Hex(message),
                },
            },
            description: about.description,
            pubkey: Some(Hex(public_key.to_vec())),
            path: about.path,
            uuid,
            version: VERSION,
            foreign: BTreeMap::new(),
        })
    }

    /// Whether everything but the password is in order, for a secret of `secret_bytes`.
    pub(super) fn check(&self, secret_bytes: usize) -> Result<(), KeystoreError> {
        if self.version != VERSION {
            return Err(KeystoreError::Version(self.version));
        }
        if uuid::Uuid::parse_str(&self.uuid).is_err() {
            return Err(KeystoreError::Uuid(self.uuid.clone()));
        }
        self.crypto.kdf.check()?;
        let length = |what, bytes: &Hex<false>, expected| match bytes.0.len() {
            got if got == expected => Ok(()),
            got => Err(KeystoreError::Length {
                what,
                got,
                expected,
            }),
        };
        length("a checksum", &self.crypto.checksum.message, DERIVED_BYTES)?;
        length("an iv", &self.crypto.cipher.params.iv, CIPHER_KEY_BYTES)?;
        length(
            "an encrypted secret",
            &self.crypto.cipher.message,
            secret_bytes,
        )
    }

    /// The secret of `secret_bytes`.
    pub(super) fn open(
        &self,
        password: &Password,
        secret_bytes: usize,
    ) -> Result<Secret, KeystoreError> {
        self.check(secret_bytes)?;
        let key = self.crypto.kdf.derive(password)?;
        let cipher = &self.crypto.cipher;
        if checksum(&key, &cipher.message.0)[..] != self.crypto.checksum.message.0[..] {
            return Err(KeystoreError::Password);
        }
        let mut secret = cipher.message.0.clone();
        apply_cipher(&key, &cipher.params.iv.0, &mut secret);
        Ok(Secret::new(secret))
    }

    /// The public key, if the keystore has it.
    pub(super) fn public_key(&self) -> Option<&[u8]> {
        self.pubkey.as_ref().map(|key| &key.0[..])
    }

    /// Function and cost of the key derivation.
    pub(super) fn kdf(&self) -> String {
        self.crypto.kdf.describe()
    }

    /// What it says of its key.
    pub(super) fn about(&self) -> About {
        About {
            description: self.description.clone(),
            path: self.path.clone(),
            uuid: Some(self.uuid.clone()),
        }
    }

    /// Names of fields that EIP-2335 does not have.
    pub(super) fn foreign_fields(&self) -> Vec<&str> {
        self.foreign.keys().map(String::as_str).collect()
    }
}

/// SHA-256 of the second half of the derived key and the encrypted secret.
fn checksum(key: &[u8; DERIVED_BYTES], message: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(&key[CIPHER_KEY_BYTES..])
        .chain_update(message)
        .finalize()
        .into()
}

/// Encrypts or decrypts with the first half of the derived key.
fn apply_cipher(key: &[u8; DERIVED_BYTES], iv: &[u8], message: &mut [u8]) {
    Aes128Ctr::new_from_slices(&key[..CIPHER_KEY_BYTES], iv)
        .expect("key and counter block have 16 bytes")
        .apply_keystream(message);
}
