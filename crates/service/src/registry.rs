//! The public keys of a committee, uploaded once and named by their digest.

use alphorn_exec::Exec;
use alphorn_xmss::{COMMITTEE_MAX, Preset, ProofRegistry, Proofs, PublicKey, Set};
use axum::body::Bytes;
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Domain prefix of the registry digest.
const DOMAIN: &[u8] = b"alphorn-registry-1";

/// Registries that a child process remembers; the least recently used one is dropped.
const KNOWN_MAX: usize = 8;

/// The name of a registry.
pub(crate) type Digest = [u8; 32];

/// Returns the mergeable proofs of a set.
pub(crate) fn proofs(set: Set) -> Proofs {
    Proofs::new(set, Preset::FAST)
}

/// Builds the circuits for merges in these sets, so that no merge or verification of one has to wait for them.
pub fn make_circuits(sets: &[Set]) {
    for set in sets {
        proofs(*set).make_circuits();
    }
}

/// The keys of a committee.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) digest: Digest,
    pub(crate) set: Set,
    /// Distinguishes the registries of an epoch; part of the proved statement.
    pub(crate) number: u32,
    /// The keys, concatenated.
    pub(crate) keys: Bytes,
    /// The commitment to the keys, once it is made.
    committed: OnceLock<ProofRegistry>,
}

impl Registry {
    /// Builds a registry of keys in the order of their positions, without checking them yet.
    ///
    /// # Errors
    /// What is wrong with their number.
    pub(crate) fn new(set: Set, number: u32, keys: Bytes) -> Result<Registry, String> {
        let (each, bytes) = (set.params().public_key_bytes, keys.len());
        let count = bytes / each;
        if count == 0 || bytes % each != 0 {
            return Err(format!(
                "{bytes} bytes of keys, those of the set {set} have {each} bytes each"
            ));
        }
        if count > COMMITTEE_MAX as usize {
            return Err(format!(
                "{count} keys, a registry has at most {COMMITTEE_MAX}"
            ));
        }
        let mut hasher = Sha256::new();
        hasher.update(DOMAIN);
        hasher.update([set as u8]);
        hasher.update(number.to_le_bytes());
        hasher.update(&keys);
        Ok(Registry {
            digest: hasher.finalize().into(),
            set,
            number,
            keys,
            committed: OnceLock::new(),
        })
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() / self.set.params().public_key_bytes
    }

    /// Whether the commitment has been made.
    pub(crate) fn is_committed(&self) -> bool {
        self.committed.get().is_some()
    }

    /// Returns the keys with the commitment to them, made on first use.
    ///
    /// # Errors
    /// The first invalid key.
    pub(crate) fn committed(&self, exec: Exec<'_>) -> Result<&ProofRegistry, String> {
        if let Some(made) = self.committed.get() {
            return Ok(made);
        }
        let each = self.set.params().public_key_bytes;
        let keys = self.keys.chunks_exact(each).enumerate();
        let keys = keys.map(|(position, bytes)| {
            PublicKey::from_bytes(self.set, bytes)
                .map_err(|error| format!("key {position}: {error}"))
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let made = proofs(self.set).registry(exec, keys, self.number);
        let made = made.map_err(|error| error.to_string())?;
        // Two jobs may have made it at the same time. The first one stays, and both are the same.
        Ok(self.committed.get_or_init(|| made))
    }
}

/// Registries from earlier jobs: a child process receives the keys with each job, but makes the
/// commitment once.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Vec<Arc<Registry>>>);

impl Known {
    /// Returns the known registry with this digest, or this one, which is remembered.
    pub(crate) fn same(&self, registry: &Arc<Registry>) -> Arc<Registry> {
        // Always so in the service, which makes the commitment when keys are uploaded. Only a child process goes on.
        if registry.is_committed() {
            return registry.clone();
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|one| one.digest == registry.digest);
        let one = match at {
            Some(at) => known.remove(at),
            None => registry.clone(),
        };
        if known.len() >= KNOWN_MAX {
            known.remove(0);
        }
        known.push(one.clone());
        one
    }
}
