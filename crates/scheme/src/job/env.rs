//! What the tasks of a scheme need in addition to their inputs.

use super::held::{Held, Keys, Scratch, With};
use super::{Output, Product};
use crate::{Cost, Ctx, Op, Scheme, SchemeError, TaskError};
use alphorn_types::{Assignment, Epoch};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of key tables kept: the previous, the current and the next epoch.
pub const EPOCHS_MAX: usize = 3;

/// From here on, an epoch number names a table for another branch of the chain, whose committees
/// differ in some epoch. No such epoch exists, and none of these tables displaces one of an epoch.
pub const BRANCH_EPOCH: Epoch = Epoch(1 << 63);

/// Number of slots for key tables of other branches: three for verifying messages from there, and
/// three that belonged to them when a node switched to one. A name is stored in the slot given by
/// its remainder modulo this number.
pub const BRANCHES_MAX: usize = 6;

/// Prefix of a task's error message before the name of a missing key table.
const NO_TABLE: &str = "no key table for epoch ";

/// The slot of a branch's key table among [`BRANCHES_MAX`]; none for a table of an epoch. The code
/// that assigns names reuses a slot only when the table in it is no longer needed: a later name
/// displaces an earlier one in the same slot, and no other.
pub fn branch_place(name: Epoch) -> Option<u64> {
    let number = name.0.checked_sub(BRANCH_EPOCH.0)?;
    Some(number % BRANCHES_MAX as u64)
}

/// The name of the missing key table for which a job was refused; none if there was another reason.
pub fn missing_table(refused: &str) -> Option<Epoch> {
    refused.strip_prefix(NO_TABLE)?.parse().ok().map(Epoch)
}

/// What the tasks of a scheme need in addition to their inputs: the scheme, the public keys of all
/// validators, the secret keys held here, and the key tables of a few epochs.
#[derive(Clone)]
pub struct Env {
    pub(super) held: Arc<dyn Held>,
    keys: BTreeMap<Epoch, Keys>,
    pub(super) secret: [u8; 32],
    pub(super) self_verify: bool,
}

impl Env {
    /// Creates an environment without signers and key tables. `secret` seeds the random weights of
    /// batch verification: drawn at start by a node, taken from the scenario's seed by the
    /// simulator.
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

    /// The same with secret keys; never passed to a child process.
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

    /// The same with another seed for the random weights.
    #[must_use]
    pub fn with_secret(mut self, secret: [u8; 32]) -> Self {
        self.secret = secret;
        self
    }

    /// The same, with or without checking each produced aggregate with the public verifier (on by
    /// default).
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
            // Copies pointers: the tables are shared.
            ..self.clone()
        }
    }

    /// The scheme's own cost estimate, see [`Scheme::cost`].
    pub fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        self.held.cost(op, n, m)
    }

    /// Creates the key table of an epoch.
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

    /// Adds the key table of an epoch; the oldest beyond [`EPOCHS_MAX`] are dropped. From
    /// [`BRANCH_EPOCH`] on it displaces the one with an earlier name in its slot
    /// ([`branch_place`]). A table that arrives after one with a later name was abandoned, and is
    /// dropped.
    pub fn insert_keys(&mut self, epoch: Epoch, keys: Keys) {
        let Some(place) = branch_place(epoch) else {
            self.keys.insert(epoch, keys);
            while self.keys.range(..BRANCH_EPOCH).count() > EPOCHS_MAX {
                // The smallest name is that of an epoch, since those of branches are above all
                // epochs.
                self.keys.pop_first();
            }
            return;
        };
        let mut names = self.keys.range(BRANCH_EPOCH..).map(|(name, _)| *name);
        let before = names.find(|name| branch_place(*name) == Some(place));
        if before.is_some_and(|before| before > epoch) {
            return;
        }
        if let Some(before) = before {
            self.keys.remove(&before);
        }
        self.keys.insert(epoch, keys);
    }

    /// Takes the key table of an output, if it has one, and returns the product.
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

    /// The committees of the stored key tables.
    pub fn assignments(&self) -> impl Iterator<Item = &Assignment> {
        self.keys.values().map(|keys| self.held.assignment(keys))
    }

    /// The committees of the key table of an epoch.
    pub fn assignment(&self, epoch: Epoch) -> Option<&Assignment> {
        self.keys(epoch).map(|keys| self.held.assignment(keys))
    }

    pub(super) fn keys_or_refuse(&self, epoch: Epoch) -> Result<&Keys, TaskError> {
        self.keys(epoch)
            .ok_or_else(|| TaskError::Refused(format!("{NO_TABLE}{}", epoch.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CostTable, Model, ModelRegistry};
    use alphorn_types::Layout;

    /// The names of the tables kept after tables with these names were added.
    fn kept(names: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let scheme = Arc::new(Model::new(CostTable::example()).unwrap());
        let mut env = Env::new(scheme, Arc::new(ModelRegistry { validators: 1 }), [0; 32]);
        for name in names.into_iter().map(Epoch) {
            let layout = Layout::new(1, 1, 1).unwrap();
            let assignment = Arc::new(Assignment::new(name, layout, vec![0]).unwrap());
            let made = env.make_keys(&assignment, &mut Ctx::single(&mut Scratch::default()));
            env.insert_keys(name, made.unwrap());
        }
        env.keys.keys().map(|name| name.0).collect()
    }

    #[test]
    fn a_table_of_a_branch_displaces_that_of_its_place_alone() {
        let branch = BRANCH_EPOCH.0;
        assert_eq!(kept([1, 2, branch, 3, 4]), [2, 3, 4, branch]);
        let full: Vec<u64> = (branch..branch + BRANCHES_MAX as u64).collect();
        assert_eq!(kept(full.clone()), full);
        let later = full[2] + 10 * BRANCHES_MAX as u64;
        let mut expected = full.clone();
        expected.remove(2);
        expected.push(later);
        assert_eq!(kept(full.iter().copied().chain([later])), expected);
        // Its preparation was abandoned before the slot was reassigned.
        assert_eq!(kept([later, full[2]]), [later]);
    }

    #[test]
    fn a_job_says_which_table_it_lacks() {
        let scheme = Arc::new(Model::new(CostTable::example()).unwrap());
        let env = Env::new(scheme, Arc::new(ModelRegistry { validators: 1 }), [0; 32]);
        let Err(TaskError::Refused(why)) = env.keys_or_refuse(BRANCH_EPOCH) else {
            panic!("there is no table");
        };
        assert_eq!(missing_table(&why), Some(BRANCH_EPOCH));
        assert_eq!(missing_table("the lane is full"), None);
    }
}
