//! Keystores: one secret key encrypted under a password (EIP-2335, version 4).
//!
//! A scheme with a [`Declared`] name has version 5, following the draft EIP-8310: the keystore names
//! the scheme of its key, and the cipher is AES-256-GCM, with the tag after the encrypted secret.

mod kdf;
#[cfg(test)]
mod tests;

pub(super) use kdf::{COST_LOG2_DEFAULT, KdfError, KdfName};

use super::secret::{Password, Secret, fill_random};
use crate::files::hex::Hex;
use aes::cipher::consts::U12;
use aes::cipher::{KeyIvInit, StreamCipher};
use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use anyhow::Context;
use kdf::{DERIVED_BYTES, Kdf};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use thiserror::Error;

/// Maximum size of a keystore file in bytes; ours are about 900.
pub(super) const KEYSTORE_BYTES_MAX: usize = 64 << 10;
/// The only version of EIP-2335.
const VERSION: u64 = 4;
/// The version of EIP-8310.
const DECLARED_VERSION: u64 = 5;
/// Bytes of the key of AES-128, and of its counter block.
const CIPHER_KEY_BYTES: usize = 16;
/// Bytes of a nonce of AES-256-GCM.
const NONCE_BYTES: usize = 12;
/// Bytes of a tag of AES-256-GCM.
const TAG_BYTES: usize = 16;

type Aes128Ctr = ctr::Ctr128BE<aes::Aes128>;

/// Why a keystore cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum KeystoreError {
    #[error("keystore version {version}: must be {expected}")]
    Version { version: u64, expected: u64 },
    #[error("a keystore of {found}, --scheme and its options say {expected}")]
    Scheme { found: String, expected: String },
    #[error("a keystore without `scheme`: must be of {0}")]
    NoScheme(String),
    #[error("cipher {found}: must be {expected}")]
    Cipher {
        found: &'static str,
        expected: &'static str,
    },
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

/// A keystore as stored in its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Keystore {
    crypto: Crypto,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pubkey: Option<Hex<false>>,
    path: String,
    /// The scheme of the key, in version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scheme: Option<SchemeEntry>,
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
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
}

impl CipherName {
    fn name(&self) -> &'static str {
        match self {
            CipherName::Aes128Ctr => "aes-128-ctr",
            CipherName::Aes256Gcm => "aes-256-gcm",
        }
    }
}

/// The `scheme` object of EIP-8310.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemeEntry {
    name: String,
    params: SchemeParams,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemeParams {
    flavour: String,
}

impl std::fmt::Display for SchemeEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of flavour {}", self.name, self.params.flavour)
    }
}

/// What a keystore contains: the length of its secret, and whether it names its scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    /// Bytes of the secret.
    pub(super) secret_bytes: usize,
    /// The scheme in a keystore of version 5; none for version 4.
    pub(super) declared: Option<Declared>,
}

/// How a keystore of version 5 names its scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    /// `scheme.name`.
    pub(super) name: &'static str,
    /// `scheme.params.flavour`.
    pub(super) flavour: &'static str,
}

impl Declared {
    fn entry(self) -> SchemeEntry {
        SchemeEntry {
            name: self.name.to_owned(),
            params: SchemeParams {
                flavour: self.flavour.to_owned(),
            },
        }
    }
}

impl Contents {
    fn version(&self) -> u64 {
        self.declared.map_or(VERSION, |_| DECLARED_VERSION)
    }

    fn cipher(&self) -> CipherName {
        match self.declared {
            None => CipherName::Aes128Ctr,
            Some(_) => CipherName::Aes256Gcm,
        }
    }

    fn iv_bytes(&self) -> usize {
        match self.declared {
            None => CIPHER_KEY_BYTES,
            Some(_) => NONCE_BYTES,
        }
    }

    fn message_bytes(&self) -> usize {
        self.secret_bytes + self.declared.map_or(0, |_| TAG_BYTES)
    }
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
    /// log2 of scrypt's n or of the number of PBKDF2 iterations.
    pub(super) cost_log2: u8,
}

/// What a keystore records about its key in addition to the key.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    /// Human-readable description.
    pub(super) description: Option<String>,
    /// Path in a key tree (EIP-2334), empty if there is none.
    pub(super) path: String,
    /// UUID of the key; a new one is drawn if there is none.
    pub(super) uuid: Option<String>,
}

impl Keystore {
    /// Encrypts a secret under a password, for a declared or undeclared scheme.
    pub(super) fn seal(
        secret: &Secret,
        public_key: &[u8],
        password: &Password,
        protection: Protection,
        about: About,
        declared: Option<Declared>,
    ) -> crate::error::Result<Self> {
        let kdf = Kdf::new(protection.kdf, protection.cost_log2)?;
        let contents = Contents {
            secret_bytes: secret.bytes().len(),
            declared,
        };
        let mut iv = vec![0; contents.iv_bytes()];
        fill_random(&mut iv)?;
        let key = kdf.derive(password)?;
        let message = contents.cipher().encrypt(&key, &iv, secret)?;
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
                    function: contents.cipher(),
                    params: CipherParams { iv: Hex(iv) },
                    message: Hex(message),
                },
            },
            description: about.description,
            pubkey: Some(Hex(public_key.to_vec())),
            path: about.path,
            scheme: declared.map(Declared::entry),
            uuid,
            version: contents.version(),
            foreign: BTreeMap::new(),
        })
    }

    /// Checks that everything but the password is in order, for these contents.
    pub(super) fn check(&self, contents: Contents) -> Result<(), KeystoreError> {
        self.check_kind(contents)?;
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
        let Crypto {
            checksum, cipher, ..
        } = &self.crypto;
        length("a checksum", &checksum.message, DERIVED_BYTES)?;
        length("an iv", &cipher.params.iv, contents.iv_bytes())?;
        let expected = contents.message_bytes();
        length("an encrypted secret", &cipher.message, expected)
    }

    /// Checks the version, the scheme, and the cipher that goes with both.
    fn check_kind(&self, contents: Contents) -> Result<(), KeystoreError> {
        let (version, expected) = (self.version, contents.version());
        if version != expected {
            return Err(KeystoreError::Version { version, expected });
        }
        let expected = contents.declared.map(Declared::entry);
        match (&self.scheme, expected) {
            (None, Some(expected)) => return Err(KeystoreError::NoScheme(expected.to_string())),
            (Some(found), expected) if expected.as_ref() != Some(found) => {
                let expected = expected.map_or("none".to_owned(), |entry| entry.to_string());
                let found = found.to_string();
                return Err(KeystoreError::Scheme { found, expected });
            }
            _ => {}
        }
        let (found, expected) = (&self.crypto.cipher.function, contents.cipher());
        if *found != expected {
            return Err(KeystoreError::Cipher {
                found: found.name(),
                expected: expected.name(),
            });
        }
        Ok(())
    }

    /// Whether it names this scheme, as keystores of version 5 do.
    pub(super) fn declares(&self, scheme: Declared) -> bool {
        self.scheme.as_ref() == Some(&scheme.entry())
    }

    /// Returns the number of bytes of the encrypted secret.
    pub(super) fn encrypted_bytes(&self) -> usize {
        self.crypto.cipher.message.0.len()
    }

    /// Decrypts the secret.
    pub(super) fn open(
        &self,
        password: &Password,
        contents: Contents,
    ) -> Result<Secret, KeystoreError> {
        self.check(contents)?;
        let key = self.crypto.kdf.derive(password)?;
        let cipher = &self.crypto.cipher;
        if checksum(&key, &cipher.message.0)[..] != self.crypto.checksum.message.0[..] {
            return Err(KeystoreError::Password);
        }
        (cipher.function)
            .decrypt(&key, &cipher.params.iv.0, &cipher.message.0)
            .ok_or(KeystoreError::Password)
    }

    /// Returns the public key, if the keystore has it.
    pub(super) fn public_key(&self) -> Option<&[u8]> {
        self.pubkey.as_ref().map(|key| &key.0[..])
    }

    /// Returns the cipher.
    pub(super) fn cipher(&self) -> &'static str {
        self.crypto.cipher.function.name()
    }

    /// Returns the function and cost of the key derivation.
    pub(super) fn kdf(&self) -> String {
        self.crypto.kdf.describe()
    }

    /// Returns what the keystore records about its key.
    pub(super) fn about(&self) -> About {
        About {
            description: self.description.clone(),
            path: self.path.clone(),
            uuid: Some(self.uuid.clone()),
        }
    }

    /// Returns the names of fields that are not part of EIP-2335.
    pub(super) fn foreign_fields(&self) -> Vec<&str> {
        self.foreign.keys().map(String::as_str).collect()
    }
}

/// Returns the SHA-256 of the second half of the derived key and the encrypted secret.
fn checksum(key: &[u8; DERIVED_BYTES], message: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(&key[CIPHER_KEY_BYTES..])
        .chain_update(message)
        .finalize()
        .into()
}

impl CipherName {
    /// Encrypts. AES-128 takes the first half of the derived key, AES-256 all of it.
    fn encrypt(
        &self,
        key: &[u8; DERIVED_BYTES],
        iv: &[u8],
        secret: &Secret,
    ) -> anyhow::Result<Vec<u8>> {
        match self {
            CipherName::Aes128Ctr => {
                let mut message = secret.bytes().to_vec();
                apply_keystream(key, iv, &mut message);
                Ok(message)
            }
            CipherName::Aes256Gcm => {
                let sealed = gcm(key).encrypt(&nonce(iv)?, secret.bytes());
                sealed.map_err(|_| anyhow::anyhow!("the secret is too long for AES-256-GCM"))
            }
        }
    }

    /// Decrypts. None if the message is not what was encrypted.
    fn decrypt(&self, key: &[u8; DERIVED_BYTES], iv: &[u8], message: &[u8]) -> Option<Secret> {
        match self {
            CipherName::Aes128Ctr => {
                let mut secret = message.to_vec();
                apply_keystream(key, iv, &mut secret);
                Some(Secret::new(secret))
            }
            CipherName::Aes256Gcm => {
                let opened = gcm(key).decrypt(&nonce(iv).ok()?, message);
                opened.ok().map(Secret::new)
            }
        }
    }
}

/// Encrypts or decrypts with the first half of the derived key.
fn apply_keystream(key: &[u8; DERIVED_BYTES], iv: &[u8], message: &mut [u8]) {
    Aes128Ctr::new_from_slices(&key[..CIPHER_KEY_BYTES], iv)
        .expect("key and counter block have 16 bytes")
        .apply_keystream(message);
}

fn gcm(key: &[u8; DERIVED_BYTES]) -> Aes256Gcm {
    Aes256Gcm::new(key.into())
}

fn nonce(iv: &[u8]) -> anyhow::Result<Nonce<U12>> {
    let iv: [u8; NONCE_BYTES] = iv.try_into().context("a nonce of 12 bytes")?;
    Ok(iv.into())
}
