//! Fields that several kinds of files have, and their bounds.

use super::hex::Hex;
use super::input::check_count;
use super::scheme::FileScheme;
use crate::error::Result;
use alphorn_types::{Coding, Support, support_code};
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Maximum size of a message in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The value of a file's `schema`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Schema {
    #[serde(rename = "alphorn-interop-key-v1")]
    InteropKey,
    #[serde(rename = "alphorn-public-keys-v1")]
    PublicKeys,
    #[serde(rename = "alphorn-signature-v1")]
    Signature,
    #[serde(rename = "alphorn-aggregate-v1")]
    Aggregate,
    #[serde(rename = "alphorn-bundle-v1")]
    Bundle,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegistryEntry {
    /// SHA-256 of the concatenated public keys.
    digest: Hex<true>,
    /// Number of keys.
    keys: usize,
    /// The encoded support over its positions, as on the wire.
    support: Hex<true>,
}

/// The signers of an aggregate, and how often each signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Signers {
    /// By key.
    Listed(BTreeMap<Vec<u8>, u8>),
    /// By position in a file of public keys.
    Registered { digest: [u8; 32], support: Support },
}

impl Signers {
    /// Returns the number of distinct signers.
    pub(super) fn count(&self) -> usize {
        match self {
            Signers::Listed(signers) => signers.len(),
            Signers::Registered { support, .. } => support.signer_count(),
        }
    }

    /// Returns the largest multiplicity.
    pub(super) fn multiplicity_max(&self) -> u8 {
        match self {
            Signers::Listed(signers) => signers.values().copied().max().unwrap_or(0),
            Signers::Registered { support, .. } => support.max_multiplicity(),
        }
    }
}

impl RegistryEntry {
    /// Builds a reference to a registry by its digest, with the support of those of its keys that signed.
    pub(super) fn new(digest: &[u8; 32], support: &Support) -> RegistryEntry {
        RegistryEntry {
            digest: Hex(digest.to_vec()),
            keys: support.len(),
            support: Hex(support_code::encode(support, Coding::Rice, None)),
        }
    }

    /// Returns the signers.
    pub(super) fn signers<S: FileScheme>(&self) -> anyhow::Result<Signers> {
        check_count("keys of a registry", self.keys)?;
        let digest = <[u8; 32]>::try_from(&self.digest.0[..])
            .with_context(|| format!("a digest of {} bytes: must have 32", self.digest.0.len()))?;
        let support = support_code::decode(&self.support.0, self.keys, S::MULTIPLICITY_MAX, None)
            .with_context(|| format!("the support over {} keys", self.keys))?;
        Ok(Signers::Registered { digest, support })
    }
}

/// Returns the digest that identifies a list of public keys: SHA-256 of their concatenation.
pub(super) fn registry_digest<'k>(keys: impl Iterator<Item = &'k [u8]>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    keys.for_each(|key| hasher.update(key));
    hasher.finalize().into()
}

/// Checks the length of a message.
pub(super) fn check_message<S: FileScheme>(message: &[u8]) -> anyhow::Result<()> {
    let bytes = message.len();
    match S::MESSAGE_BYTES {
        Some(only) => ensure!(
            bytes == only,
            "a message of {bytes} bytes: {} signs digests of {only}",
            S::NAME
        ),
        None => ensure!(
            bytes <= MESSAGE_BYTES_MAX,
            "a message of {bytes} bytes: at most {MESSAGE_BYTES_MAX}"
        ),
    }
    Ok(())
}

/// Checks that there is a slot if and only if keys sign once per slot, and that it is within bounds.
pub(super) fn check_slot<S: FileScheme>(slot: Option<u64>) -> anyhow::Result<()> {
    match (slot, S::SLOTS) {
        (None, None) => Ok(()),
        (None, Some(_)) => bail!("no slot: {} signs once in each slot", S::NAME),
        (Some(slot), None) => bail!("slot {slot}: {} has no slots", S::NAME),
        (Some(slot), Some(limits)) => {
            let end = limits.end;
            ensure!(slot < end, "slot {slot}: must be below {end}");
            Ok(())
        }
    }
}

pub(super) fn check_length(what: &str, bytes: &[u8], expected: usize) -> anyhow::Result<()> {
    ensure!(
        bytes.len() == expected,
        "{what} has {} bytes: must have {expected}",
        bytes.len()
    );
    Ok(())
}

/// Serialises a file as human-readable JSON, with a trailing newline.
pub(super) fn to_json(file: &impl Serialize) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(file)?;
    text.push(b'\n');
    Ok(text)
}
