//! What the tasks of a scheme need beside their inputs.

use super::held::{Held, Keys, Scratch, With};
use super::{Output, Product};
use crate::{Cost, Ctx, Op, Scheme, SchemeError, TaskError};
use alphorn_types::{Assignment, Epoch};
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

/// What the tasks of a scheme need beside their inputs: the scheme, the keys of all validators and of
/// those held here, and the key tables of a few epochs.
#[derive(Clone)]
pub struct Env {
    pub(super) held: Arc<dyn Held>,
    keys: BTreeMap<Epoch, Keys>,
    pub(super) secret: [u8; 32],
    pub(super) self_verify: bool,
}

impl Env {
    /// An environment without signers and key tables. `secret` seeds the random weights of batch
    /// verification: drawn at start by a node, taken from the scenario's seed by the simulator.
    pub fn new<S: Scheme>(scheme: Arc<S>, registry: Arc<S::Registry>, secret: [u8; 32]) -> Self {
        Env::of(
            With {
                scheme,
                registry,
                signers: None,
            },
            secret,
        )
    }

    /// The same with secret keys; never handed to a child process.
    pub fn signing<S: Scheme>(
        scheme: Arc<S>,
        registry: Arc<S::Registry>,
        signers: Arc<S::Signers>,
        secret: [u8; 32],
    ) -> Self {
        Env::of(
            With {
                scheme,
                registry,
                signers: Some(signers),
            },
            secret,
        )
    }

    fn of<S: Scheme>(held: With<S>, secret: [u8; 32]) -> Self {
        Env {
            held: Arc::new(held),
            keys: BTreeMap::new(),
            secret,
            self_verify: true,
        }
    }

    /// The same with another seed of the random weights.
    #[must_use]
    pub fn with_secret(mut self, secret: [u8; 32]) -> Self {
        self.secret = secret;
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
            held: self.held.portable(),
            ..self.clone()
        }
    }

    /// The scheme's own cost formula, see [`Scheme::cost`].
    pub fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        self.held.cost(op, n, m)
    }

    /// Makes the key table of an epoch.
    ///
    /// # Errors
    /// [`SchemeError::RegistrySize`] or [`SchemeError::CommitteeSize`].
    pub fn make_keys(
        &self,
        assignment: &Arc<Assignment>,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Keys, SchemeError> {
        self.held.keys(assignment, ctx)
    }

    /// Adds the key table of an epoch; the oldest beyond [`EPOCHS_MAX`] are dropped, and beyond
    /// [`BRANCHES_MAX`] of those from [`BRANCH_EPOCH`] on.
    pub fn insert_keys(&mut self, epoch: Epoch, keys: Keys) {
        self.keys.insert(epoch, keys);
        let mut branches = self.keys.split_off(&BRANCH_EPOCH);
        for (tables, max) in [(&mut self.keys, EPOCHS_MAX), (&mut branches, BRANCHES_MAX)] {
            while tables.len() > max {
                tables.pop_first();
            }
        }
        self.keys.append(&mut branches);
    }

    /// Takes the key table of an output, if it has one, and leaves the product.
    pub fn take_keys(&mut self, output: Output) -> Product {
        if let Some((epoch, keys)) = output.keys {
            self.insert_keys(epoch, keys);
        }
        output.product
    }

    /// The key table of an epoch.
    pub fn keys(&self, epoch: Epoch) -> Option<&Keys> {
        self.keys.get(&epoch)
    }

    /// The committees of the key tables that are kept.
    pub fn assignments(&self) -> impl Iterator<Item = &Assignment> {
        self.keys.values().map(|keys| self.held.assignment(keys))
    }

    /// The committees of the key table of an epoch.
    pub fn assignment(&self, epoch: Epoch) -> Option<&Assignment> {
        self.keys(epoch).map(|keys| self.held.assignment(keys))
    }

    pub(super) fn keys_or_refuse(&self, epoch: Epoch) -> Result<&Keys, TaskError> {
        self.keys(epoch)
            .ok_or_else(|| TaskError::Refused(format!("no key table for epoch {}", epoch.0)))
    }
}
