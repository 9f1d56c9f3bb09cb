//! The keys of a committee as a proof's registry.

use alphorn_exec::Exec;
use alphorn_stark::Digest;
use alphorn_stark::Fp;
use alphorn_stark::field::P;
use alphorn_stark::proof::Registry as Rows;
use alphorn_stark::statement::registry_digest;

use super::{Proofs, ProveError};
use crate::params::Set;
use crate::signature::PublicKey;

/// The keys of a committee with the commitment to them, which prover and verifier must both hold.
#[derive(Clone, Debug)]
pub struct ProofRegistry {
    set: Set,
    number: u32,
    keys: Vec<PublicKey>,
    rows: Rows,
    commitment: Digest,
}

impl Proofs {
    /// The registry of a committee's keys in the order of their positions. `number` distinguishes the registries
    /// of an epoch and is below p.
    ///
    /// # Errors
    /// [`ProveError::KeySet`], [`ProveError::RegistrySize`], [`ProveError::RegistryNumber`].
    pub fn registry(
        &self,
        exec: Exec<'_>,
        keys: Vec<PublicKey>,
        number: u32,
    ) -> Result<ProofRegistry, ProveError> {
        let want = self.set;
        if let Some(position) = keys.iter().position(|key| key.set != want) {
            return Err(ProveError::KeySet { position, want });
        }
        let (got, max) = (keys.len(), self.registry_max());
        if got > max {
            return Err(ProveError::RegistrySize { got, max });
        }
        // A statement holds the number as a field element, so n and n + p would be the same committee.
        if number >= P {
            let (got, end) = (number, P);
            return Err(ProveError::RegistryNumber { got, end });
        }
        let params = want.params();
        let row = |key: &PublicKey| {
            let root = &key.root[..params.digest];
            [root, &key.parameter[..params.parameter]].concat()
        };
        let rows: Vec<Vec<Fp>> = keys.iter().map(row).collect();
        let width = params.digest + params.parameter;
        // The maximum is a power of two, so its trailing zeros are the coordinates of a row.
        let rows = Rows::new(&rows, width, max.trailing_zeros() as usize)?;
        let id = self.chains.relation().id;
        Ok(ProofRegistry {
            set: want,
            number,
            keys,
            commitment: registry_digest(exec, &rows, id, number),
            rows,
        })
    }
}

impl ProofRegistry {
    /// The set of its keys.
    pub(crate) fn set(&self) -> Set {
        self.set
    }

    /// The number that distinguishes it from other registries.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key at a position.
    pub fn key(&self, position: u32) -> Option<&PublicKey> {
        self.keys.get(position as usize)
    }

    /// The commitment: the root of a tree over all rows, with size, number and set.
    pub(crate) fn commitment(&self) -> &Digest {
        &self.commitment
    }

    /// The keys in the form that the proof system takes.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }
}
