//! The keys of many validators: public ones of all, secret ones of those held here.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use alphorn_exec::Exec;
use alphorn_types::{Assignment, Validator};

use crate::key::{KeyError, Purpose, SecretKey};
use crate::params::Set;
use crate::proof::ProofRegistry;
use crate::signature::PublicKey;

/// The public keys of all validators, of votes and of duties.
#[derive(Clone, Debug)]
pub struct Registry {
    votes: Vec<PublicKey>,
    duties: Vec<PublicKey>,
}

impl Registry {
    /// A registry of one vote key and one duty key for each validator.
    ///
    /// # Panics
    /// If there are not as many of one as of the other.
    pub fn new(votes: Vec<PublicKey>, duties: Vec<PublicKey>) -> Registry {
        assert_eq!(votes.len(), duties.len(), "two keys for each validator");
        Registry { votes, duties }
    }

    /// Number of validators.
    pub fn len(&self) -> usize {
        self.votes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.votes.is_empty()
    }

    /// The key of a validator for a purpose.
    pub fn key(&self, purpose: Purpose, validator: Validator) -> Option<&PublicKey> {
        let keys = match purpose {
            Purpose::Vote => &self.votes,
            Purpose::Duty => &self.duties,
        };
        keys.get(validator.0 as usize)
    }
}

/// The secret keys held here, two for each validator.
#[derive(Default)]
pub struct Signers(BTreeMap<(u32, Purpose), SecretKey>);

impl Signers {
    /// No key.
    pub fn new() -> Signers {
        Signers::default()
    }

    /// Adds a key; one of the same validator and purpose is replaced.
    pub fn insert(&mut self, validator: Validator, key: SecretKey) {
        self.0.insert((validator.0, key.purpose()), key);
    }

    /// The key of a validator for a purpose.
    pub fn key(&self, validator: Validator, purpose: Purpose) -> Option<&SecretKey> {
        self.0.get(&(validator.0, purpose))
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
}

/// The keys of an epoch. Lists need them in no other order than the registry's, proofs as
/// registries of committees.
pub struct EpochKeys {
    pub(crate) registry: Arc<Registry>,
    pub(crate) assignment: Arc<Assignment>,
    /// One for each committee if collections are proofs, else none.
    pub(crate) committees: Vec<ProofRegistry>,
}
