//! The keys of many validators: public ones of all, secret ones of those held here.

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
    /// A registry of one key for each validator.
    #[must_use]
    pub fn new(keys: Vec<PublicKey>) -> Registry {
        Registry(keys)
    }

    /// Number of validators.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all keys are of a flavour.
    #[must_use]
    pub(crate) fn is_of(&self, flavour: Flavour) -> bool {
        self.0.iter().all(|key| key.flavour() == flavour)
    }

    /// The key of a validator.
    #[must_use]
    pub fn key(&self, validator: Validator) -> Option<&PublicKey> {
        self.0.get(validator.0 as usize)
    }
}

/// The secret keys held here; votes and duties share a key.
#[derive(Default)]
pub struct Signers {
    keys: BTreeMap<u32, SigningKey>,
    /// What salts come from beside key and message. None makes every signature the same again.
    secret: Option<Zeroizing<[u8; 32]>>,
}

/// What is hashed in front of the secret for the entropy of a signature.
const ENTROPY_LABEL: &[u8] = b"alphorn/falcon/signers/entropy/v1";

impl Signers {
    /// No key, and no secret: for simulations and tests, which must give the same bytes each time. Whoever
    /// signs for a network adds one by [`Signers::with_secret`].
    #[must_use]
    pub fn new() -> Signers {
        Signers::default()
    }

    /// The same keys with a secret from the system's generator: their salts are then known to nobody, also
    /// where key and message are.
    #[must_use]
    pub fn with_secret(self, secret: [u8; 32]) -> Signers {
        Signers {
            secret: Some(Zeroizing::new(secret)),
            ..self
        }
    }

    /// The entropy of the signature that a permit allows: a hash of the secret and of all that the permit
    /// names, so that no two signatures share it; zero without a secret.
    pub(crate) fn entropy(&self, permit: &Reservation) -> Zeroizing<[u8; 32]> {
        let mut out = Zeroizing::new([0; 32]);
        if let Some(secret) = &self.secret {
            let mut hash = Shake256::default();
            hash.update(ENTROPY_LABEL);
            hash.update(&secret[..]);
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

    /// Adds a key; one of the same validator is replaced.
    pub fn insert(&mut self, validator: Validator, key: impl Into<SigningKey>) {
        self.keys.insert(validator.0, key.into());
    }

    /// The key of a validator.
    #[must_use]
    pub fn key(&self, validator: Validator) -> Option<&SigningKey> {
        self.keys.get(&validator.0)
    }

    /// Interop keys of a flavour of validators `0..validators`, and their registry.
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
