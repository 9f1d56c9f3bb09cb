//! The keys of many validators: public ones of all, secret ones of those held here.

use std::collections::BTreeMap;
use std::sync::Arc;

use alphorn_exec::Exec;
use alphorn_types::{Assignment, Validator};

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
pub struct Signers(BTreeMap<u32, SigningKey>);

impl Signers {
    /// No key.
    #[must_use]
    pub fn new() -> Signers {
        Signers::default()
    }

    /// Adds a key; one of the same validator is replaced.
    pub fn insert(&mut self, validator: Validator, key: impl Into<SigningKey>) {
        self.0.insert(validator.0, key.into());
    }

    /// The key of a validator.
    #[must_use]
    pub fn key(&self, validator: Validator) -> Option<&SigningKey> {
        self.0.get(&validator.0)
    }

    /// Interop keys of a flavour of validators `0..validators`, and their registry.
    #[must_use]
    pub fn interop(flavour: Flavour, validators: u32, exec: Exec<'_>) -> (Signers, Registry) {
        let key = |i| SigningKey::interop(flavour, i as u64);
        let keys = exec.map(validators as usize, key);
        let registry = keys.iter().map(|key| key.public().clone()).collect();
        let signers = (0..validators).zip(keys).collect();
        (Signers(signers), Registry(registry))
    }
}

/// The keys of an epoch.
pub struct EpochKeys {
    pub(crate) registry: Arc<Registry>,
    pub(crate) assignment: Arc<Assignment>,
}
