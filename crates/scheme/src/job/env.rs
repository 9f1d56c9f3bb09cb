//! What the tasks of a scheme need beside their inputs.

use crate::{Scheme, TaskError};
use alphorn_types::Epoch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Key tables kept at a time: the previous, the current and the next epoch.
pub const EPOCHS_MAX: usize = 3;

/// From here on the number of an epoch names a table for another branch of the chain, whose
/// committees of some epoch differ: there is no such epoch, and none of them displaces one.
pub const BRANCH_EPOCH: Epoch = Epoch(1 << 63);

/// Key tables for other branches kept at a time: three that verify what comes from there, and three
/// that were theirs when a machine went over to one.
pub const BRANCHES_MAX: usize = 6;

/// What the tasks of a scheme need beside their inputs.
pub struct Env<S: Scheme> {
    pub(super) scheme: Arc<S>,
    pub(super) registry: Arc<S::Registry>,
    signers: Option<Arc<S::Signers>>,
    keys: BTreeMap<Epoch, Arc<S::Keys>>,
    pub(super) secret: [u8; 32],
    pub(super) self_verify: bool,
}

impl<S: Scheme> Clone for Env<S> {
    fn clone(&self) -> Self {
        Env {
            scheme: self.scheme.clone(),
            registry: self.registry.clone(),
            signers: self.signers.clone(),
            keys: self.keys.clone(),
            secret: self.secret,
            self_verify: self.self_verify,
        }
    }
}

impl<S: Scheme> Env<S> {
    /// An environment without signers and key tables. `secret` seeds the random weights of batch
    /// verification: drawn at start by a node, taken from the scenario's seed by the simulator.
    pub fn new(scheme: Arc<S>, registry: Arc<S::Registry>, secret: [u8; 32]) -> Self {
        Env {
            scheme,
            registry,
            signers: None,
            keys: BTreeMap::new(),
            secret,
            self_verify: true,
        }
    }

    /// The same with secret keys; never handed to a child process.
    #[must_use]
    pub fn with_signers(mut self, signers: Arc<S::Signers>) -> Self {
        self.signers = Some(signers);
        self
    }

    /// The same, with or without the check of each produced aggregate by the public verifier
    /// (on by default).
    #[must_use]
    pub fn with_self_verify(mut self, self_verify: bool) -> Self {
        self.self_verify = self_verify;
        self
    }

    /// The same on the scheme's portable kernel, for a retry after a doubtful result.
    #[must_use]
    pub fn portable(&self) -> Self {
        Env {
            scheme: Arc::new(self.scheme.portable()),
            ..self.clone()
        }
    }

    /// Adds the key table of an epoch; the oldest beyond [`EPOCHS_MAX`] are dropped, and beyond
    /// [`BRANCHES_MAX`] of those from [`BRANCH_EPOCH`] on.
    pub fn insert_keys(&mut self, epoch: Epoch, keys: Arc<S::Keys>) {
        self.keys.insert(epoch, keys);
        let mut branches = self.keys.split_off(&BRANCH_EPOCH);
        for (tables, max) in [(&mut self.keys, EPOCHS_MAX), (&mut branches, BRANCHES_MAX)] {
            while tables.len() > max {
                tables.pop_first();
            }
        }
        self.keys.append(&mut branches);
    }

    /// The key tables that are kept.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<S::Keys>> {
        self.keys.values()
    }

    /// The key table of an epoch.
    pub fn keys(&self, epoch: Epoch) -> Option<&Arc<S::Keys>> {
        self.keys.get(&epoch)
    }

    /// The scheme.
    pub fn scheme(&self) -> &Arc<S> {
        &self.scheme
    }

    /// The registry of public keys.
    pub fn registry(&self) -> &Arc<S::Registry> {
        &self.registry
    }

    pub(super) fn keys_or_refuse(&self, epoch: Epoch) -> Result<&Arc<S::Keys>, TaskError> {
        self.keys(epoch)
            .ok_or_else(|| TaskError::Refused(format!("no key table for epoch {}", epoch.0)))
    }

    pub(super) fn signers_or_refuse(&self) -> Result<&Arc<S::Signers>, TaskError> {
        self.signers
            .as_ref()
            .ok_or_else(|| TaskError::Refused("no secret keys here".into()))
    }
}
