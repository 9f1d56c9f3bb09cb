//! The keys of many validators: public keys of all of them, and secret keys of those held locally.

use std::collections::BTreeMap;
use std::sync::Arc;

use alphorn_exec::Exec;
use alphorn_scheme::Reservation;
use alphorn_types::{Assignment, Validator};
use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};
use zeroize::Zeroizing;

use crate::slot::signed_bytes;
use crate::{Flavour, PublicKey, SigningKey};

/// The public keys of all validators.
#[derive(Clone, Debug)]
pub struct Registry(Vec<PublicKey>);

impl Registry {
    /// Creates a registry with one key per validator.
    #[must_use]
    pub fn new(keys: Vec<PublicKey>) -> Registry {
        Registry(keys)
    }

    /// Number of validators.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all keys have this flavour.
    #[must_use]
    pub(crate) fn is_of(&self, flavour: Flavour) -> bool {
        self.0.iter().all(|key| key.flavour() == flavour)
    }

    /// Returns the key of a validator.
    #[must_use]
    pub fn key(&self, validator: Validator) -> Option<&PublicKey> {
        self.0.get(validator.0 as usize)
    }
}

/// The secret keys held locally; votes and duties share a key.
#[derive(Default)]
pub struct Signers {
    keys: BTreeMap<u32, SigningKey>,
    /// Source of salts in addition to key and message. None makes every signature deterministic.
    secret: Option<Zeroizing<[u8; 32]>>,
}

/// Label hashed before the secret for the entropy of a signature.
const ENTROPY_LABEL: &[u8] = b"alphorn/falcon/signers/entropy/v1";

impl Signers {
    /// Holds no key and no secret: for simulations and tests, which must give the same bytes each time. A signer on a
    /// real network adds a secret with [`Signers::with_secret`].
    #[must_use]
    pub fn new() -> Signers {
        Signers::default()
    }

    /// The same keys with a secret from the system's generator. Their salts are then unpredictable even where key and
    /// message are known.
    #[must_use]
    pub fn with_secret(self, secret: [u8; 32]) -> Signers {
        Signers {
            secret: Some(Zeroizing::new(secret)),
            ..self
        }
    }

    /// Returns the entropy of the signature that a permit allows: a hash of the secret and of everything the permit
    /// names, so that no two signatures share it; zero without a secret.
    pub(crate) fn entropy(&self, permit: &Reservation) -> Zeroizing<[u8; 32]> {
        let mut out = Zeroizing::new([0; 32]);
        if let Some(secret) = &self.secret {
            let mut hash = Shake256::default();
            hash.update(ENTROPY_LABEL);
            hash.update(&secret[..]);
            // All have a fixed length, so they need no separators.
            hash.update(&permit.validator().0.to_le_bytes());
            hash.update(&signed_bytes(
                permit.slot(),
                permit.role(),
                permit.message(),
            ));
            hash.finalize_xof().read(&mut out[..]);
        }
        out
    }

    /// Adds a key, replacing any key of the same validator.
    pub fn insert(&mut self, validator: Validator, key: impl Into<SigningKey>) {
        self.keys.insert(validator.0, key.into());
    }

    /// Returns the key of a validator.
    #[must_use]
    pub fn key(&self, validator: Validator) -> Option<&SigningKey> {
        self.keys.get(&validator.0)
    }

    /// Returns interop keys of a flavour for validators `0..validators`, and their registry.
    #[must_use]
    pub fn interop(flavour: Flavour, validators: u32, exec: Exec<'_>) -> (Signers, Registry) {
        let key = |i| SigningKey::interop(flavour, i as u64);
        let keys = exec.map(validators as usize, key);
        let registry = keys.iter().map(|key| key.public().clone()).collect();
        let signers = Signers {
            keys: (0..validators).zip(keys).collect(),
            secret: None,
        };
        (signers, Registry(registry))
    }
}

/// The keys of an epoch.
pub struct EpochKeys {
    pub(crate) registry: Arc<Registry>,
    pub(crate) assignment: Arc<Assignment>,
}
