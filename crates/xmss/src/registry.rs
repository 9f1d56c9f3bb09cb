//! The keys of many validators: the public keys of all, and the secret keys of those held here.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use alphorn_exec::{Backend, Exec};
use alphorn_types::{Assignment, Validator};

use crate::key::{KeyError, Purpose, SecretKey, check_range};
use crate::params::Set;
use crate::proof::ProofRegistry;
use crate::signature::PublicKey;

/// Number of public keys made between two progress reports.
const KEYS_A_STEP: usize = 1 << 12;

/// The public keys of all validators, of votes and of duties.
#[derive(Clone, Debug)]
pub struct Registry {
    votes: Vec<PublicKey>,
    duties: Duties,
}

/// The public keys of duties.
#[derive(Clone, Debug)]
enum Duties {
    Made(Vec<PublicKey>),
    OnDemand(Arc<Interop>),
}

impl Registry {
    /// A registry of one vote key and one duty key for each validator. No key may appear twice: keys have no proof
    /// of possession, so a copy of another validator's key would be credited with its votes.
    ///
    /// # Panics
    /// If the numbers of vote keys and duty keys differ.
    pub fn new(votes: Vec<PublicKey>, duties: Vec<PublicKey>) -> Registry {
        assert_eq!(votes.len(), duties.len(), "two keys for each validator");
        Registry {
            votes,
            duties: Duties::Made(duties),
        }
    }

    /// Number of validators.
    pub(crate) fn len(&self) -> usize {
        self.votes.len()
    }

    /// The key of a validator for a purpose.
    pub fn key(&self, purpose: Purpose, validator: Validator) -> Option<&PublicKey> {
        let index = validator.0 as usize;
        match (purpose, &self.duties) {
            (Purpose::Vote, _) => self.votes.get(index),
            (Purpose::Duty, Duties::Made(keys)) => keys.get(index),
            (Purpose::Duty, Duties::OnDemand(keys)) => Some(keys.duty(validator.0)?.public_key()),
        }
    }
}

/// Interop keys that are made on demand.
struct Interop {
    set: Set,
    backend: Backend,
    vote_slots: Range<u64>,
    duty_indices: Range<u64>,
    /// By validator.
    duties: Vec<OnceLock<Arc<SecretKey>>>,
}

impl fmt::Debug for Interop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("Interop").field("set", &self.set)).finish_non_exhaustive()
    }
}

impl Interop {
    fn vote(&self, validator: u32) -> Result<SecretKey, KeyError> {
        let exec = Exec::new(self.backend, None);
        let slots = self.vote_slots.clone();
        SecretKey::interop(self.set, Purpose::Vote, validator, slots, exec)
    }

    /// None beyond the registry. The range was checked before.
    fn duty(&self, validator: u32) -> Option<&Arc<SecretKey>> {
        let place = self.duties.get(validator as usize)?;
        if let Some(key) = place.get() {
            return Some(key);
        }
        let exec = Exec::new(self.backend, None);
        let indices = self.duty_indices.clone();
        // Made outside of the cell, because it can fail. Of two equal keys made at once, one is dropped.
        let key = SecretKey::interop(self.set, Purpose::Duty, validator, indices, exec).ok()?;
        Some(place.get_or_init(|| Arc::new(key)))
    }
}

/// The secret keys held here, two for each validator.
#[derive(Default)]
pub struct Signers {
    held: BTreeMap<(u32, Purpose), Arc<SecretKey>>,
    on_demand: Option<Arc<Interop>>,
}

impl Signers {
    /// No keys.
    pub fn new() -> Signers {
        Signers::default()
    }

    /// Adds a key, replacing any of the same validator and purpose.
    pub fn insert(&mut self, validator: Validator, key: SecretKey) {
        (self.held).insert((validator.0, key.purpose()), Arc::new(key));
    }

    /// The key of a validator for a purpose.
    pub(crate) fn key(&self, validator: Validator, purpose: Purpose) -> Option<Arc<SecretKey>> {
        if let Some(key) = self.held.get(&(validator.0, purpose)) {
            return Some(key.clone());
        }
        let keys = self.on_demand.as_ref()?;
        match purpose {
            Purpose::Duty => keys.duty(validator.0).cloned(),
            Purpose::Vote if (validator.0 as usize) < keys.duties.len() => {
                keys.vote(validator.0).ok().map(Arc::new)
            }
            Purpose::Vote => None,
        }
    }

    /// Interop keys of validators `0..validators`, active in `slots`, and their registry.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn interop(
        set: Set,
        validators: u32,
        slots: Range<u64>,
        exec: Exec<'_>,
    ) -> Result<(Signers, Registry), KeyError> {
        let one_thread = Exec::new(exec.backend(), None);
        let per = Purpose::Duty.indices_per_slot();
        // A saturated end is beyond every lifetime, so it is refused when the key is made.
        let duties = slots.start.saturating_mul(per)..slots.end.saturating_mul(per);
        let pairs = exec.map(validators as usize, |i| {
            if exec.stopped() {
                return Err(KeyError::Stopped);
            }
            let make = |purpose, active: &Range<u64>| {
                SecretKey::interop(set, purpose, i as u32, active.clone(), one_thread)
            };
            Ok([make(Purpose::Vote, &slots)?, make(Purpose::Duty, &duties)?])
        });
        let (mut signers, mut votes, mut duties) = (Signers::new(), Vec::new(), Vec::new());
        for (i, pair) in pairs.into_iter().enumerate() {
            let [vote, duty] = pair?;
            votes.push(*vote.public_key());
            duties.push(*duty.public_key());
            signers.insert(Validator(i as u32), vote);
            signers.insert(Validator(i as u32), duty);
        }
        Ok((signers, Registry::new(votes, duties)))
    }

    /// Interop keys of validators `0..validators` that vote in few slots, and their registry. A secret key takes
    /// kilobytes, so a vote key is made again whenever it signs; a duty key, which few validators need, is made
    /// when it is first requested. `progress` receives the number of public keys made.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn interop_on_demand(
        set: Set,
        validators: u32,
        vote_slots: Range<u64>,
        duty_slots: Range<u64>,
        exec: Exec<'_>,
        progress: &mut dyn FnMut(u32),
    ) -> Result<(Signers, Registry), KeyError> {
        let per = Purpose::Duty.indices_per_slot();
        let duty_indices = duty_slots.start.saturating_mul(per)..duty_slots.end.saturating_mul(per);
        // Checked here, so that making a key later cannot fail for its range.
        check_range(set, &vote_slots)?;
        check_range(set, &duty_indices)?;
        let keys = Interop {
            set,
            backend: exec.backend(),
            vote_slots,
            duty_indices,
            duties: (0..validators).map(|_| OnceLock::new()).collect(),
        };
        let mut votes = Vec::with_capacity(validators as usize);
        for first in (0..validators).step_by(KEYS_A_STEP) {
            let count = (validators - first).min(KEYS_A_STEP as u32);
            let made = exec.map(count as usize, |i| match exec.stopped() {
                true => Err(KeyError::Stopped),
                false => Ok(*keys.vote(first + i as u32)?.public_key()),
            });
            for key in made {
                votes.push(key?);
            }
            progress(first + count);
        }
        let keys = Arc::new(keys);
        let registry = Registry {
            votes,
            duties: Duties::OnDemand(keys.clone()),
        };
        let signers = Signers {
            held: BTreeMap::new(),
            on_demand: Some(keys),
        };
        Ok((signers, registry))
    }
}

/// The keys of an epoch. Lists need them only in the order of the registry, proofs need them as registries of
/// committees.
pub struct EpochKeys {
    pub(crate) registry: Arc<Registry>,
    pub(crate) assignment: Arc<Assignment>,
    /// One for each committee if collections are proofs, otherwise none.
    pub(crate) committees: Vec<ProofRegistry>,
}
