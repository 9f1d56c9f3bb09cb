//! Bundles: one proof of votes over several messages, of which one entry can be split off again: see
//! [`alphorn_stark::merge`].

use alphorn_exec::{Backend, Exec};
use alphorn_stark::Fp;
use alphorn_stark::merge::{BundleProof, Child, ChildProof, Entry, LEVEL_MAX, is_bundle};
use alphorn_stark::proof::Registry;
use alphorn_stark::statement::Statement;

use super::merge::Decoded;
use super::{Claimed, Preset, ProofError, ProofPart, ProofRegistry, Proofs, ProveError};

/// An entry of a bundle: who is said to have signed what.
#[derive(Clone, Copy, Debug)]
pub struct BundleEntry<'a> {
    /// The registry that the signers are members of.
    pub registry: &'a ProofRegistry,
    /// Slot, message and signers.
    pub claimed: Claimed<'a>,
}

/// What the header of a bundle says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleShape {
    /// Its level: 1 above leaves.
    pub level: u32,
    /// For each entry whether its proof is a merge.
    pub merged: Vec<bool>,
    /// Field elements, 31 bits each.
    pub elements: usize,
}

/// An entry's statement, with the relation's values for its slot and message.
struct Stated {
    statement: Statement,
    publics: Vec<Fp>,
}

impl Stated {
    fn entry(&self) -> Entry<'_> {
        Entry {
            statement: &self.statement,
            publics: &self.publics,
        }
    }
}

/// The entries as the proof system takes them.
fn entries(stated: &[Stated]) -> Vec<Entry<'_>> {
    stated.iter().map(Stated::entry).collect()
}

/// Puts the number of an entry to an error.
fn of_entry(entry: usize) -> impl Fn(ProofError) -> ProveError {
    move |error| ProveError::Part { part: entry, error }
}

impl Proofs {
    /// The shape of bytes that are those of a bundle, without verifying them; none if they are another proof.
    ///
    /// # Errors
    /// [`ProofError::Decode`], [`ProofError::Unmergeable`].
    pub fn bundle_shape(&self, bytes: &[u8]) -> Result<Option<BundleShape>, ProofError> {
        if !is_bundle(bytes) {
            return Ok(None);
        }
        let proof = self.decode_bundle(bytes)?;
        Ok(Some(BundleShape {
            level: proof.level,
            merged: proof.merged,
            elements: proof.elements.len(),
        }))
    }

    fn decode_bundle(&self, bytes: &[u8]) -> Result<BundleProof, ProofError> {
        let unmergeable = |_| ProofError::Unmergeable { set: self.set };
        let merges = self.merges().map_err(unmergeable)?;
        Ok(merges.bundle_from_bytes(&Preset::MERGE, bytes)?)
    }

    fn stated(
        &self,
        backend: Backend,
        entries: &[BundleEntry<'_>],
    ) -> Result<Vec<Stated>, (usize, ProofError)> {
        let stated = |(i, entry): (usize, &BundleEntry<'_>)| {
            let BundleEntry { registry, claimed } = entry;
            self.check_claim(registry, claimed)
                .map_err(|error| (i, error))?;
            let statement = self.statement(backend, registry, claimed);
            let publics = self.chains.public(&statement, registry.rows()).values;
            Ok(Stated { statement, publics })
        };
        entries.iter().enumerate().map(stated).collect()
    }

    /// Bundles proofs of several statements, each of any slot, message and registry: of at most
    /// [`Proofs::mergeable_max`] signatures under the preset `fast`, or merges. At most
    /// [`Proofs::children_max`] fit.
    ///
    /// # Errors
    /// [`ProveError::Part`] for a proof that does not hold, with its number; [`ProveError::Unmergeable`] for
    /// sets without circuits, [`ProveError::Levels`] for merges that are too high to be bundled.
    pub fn bundle(
        &self,
        exec: Exec<'_>,
        parts: &[(BundleEntry<'_>, &[u8])],
    ) -> Result<Vec<u8>, ProveError> {
        if parts.is_empty() {
            return Err(ProveError::Empty);
        }
        let merges = self.merges()?;
        let claims: Vec<BundleEntry<'_>> = parts.iter().map(|(entry, _)| *entry).collect();
        let stated = self.stated(exec.backend(), &claims);
        let stated = stated.map_err(|(i, error)| of_entry(i)(error))?;
        let mut decoded = Vec::with_capacity(parts.len());
        for (i, (entry, proof)) in parts.iter().enumerate() {
            let signers = entry.claimed.signers;
            let part = ProofPart { signers, proof };
            decoded.push(self.decode_part(merges, &part).map_err(of_entry(i))?);
        }
        let children: Vec<ChildProof<'_>> = decoded.iter().map(Decoded::child).collect();
        let level = children.iter().map(ChildProof::level).max();
        let level = level.unwrap_or_default() + 1;
        if level > LEVEL_MAX {
            return Err(ProveError::Levels { max: LEVEL_MAX });
        }
        let preset = &Preset::MERGE;
        let proof = merges
            .bundle(exec, preset, level, &entries(&stated), &children)
            .map_err(named)?;
        Ok(merges.bundle_to_bytes(preset, &proof))
    }

    /// Verifies that a bundle proves all of these entries, in this order, and no other.
    ///
    /// # Errors
    /// [`ProofError`] of the first check that fails.
    pub fn verify_bundle(
        &self,
        backend: Backend,
        entries_of: &[BundleEntry<'_>],
        bytes: &[u8],
    ) -> Result<(), ProofError> {
        let proof = self.decode_bundle(bytes)?;
        let stated = self.stated(backend, entries_of);
        let stated = stated.map_err(|(_, error)| error)?;
        let registries = entries_of.iter().map(|entry| entry.registry.rows());
        let registries: Vec<&Registry> = registries.collect();
        let unmergeable = |_| ProofError::Unmergeable { set: self.set };
        self.merges().map_err(unmergeable)?.verify_bundle(
            Exec::new(backend, None),
            &Preset::MERGE,
            &entries(&stated),
            &registries,
            &proof,
        )?;
        Ok(())
    }

    /// Proves one entry of a bundle alone: a merge, whose level is one above the bundle's, that whoever has the
    /// registry of that entry verifies by [`Proofs::verify`]. The registries of the others are needed for
    /// their digests only.
    ///
    /// # Errors
    /// [`ProveError::Part`] if the bundle is none of these entries, with the number of the one that
    /// was to be kept; [`ProveError::Entry`] if there is none with this number.
    pub fn split(
        &self,
        exec: Exec<'_>,
        entries_of: &[BundleEntry<'_>],
        bytes: &[u8],
        kept: usize,
    ) -> Result<Vec<u8>, ProveError> {
        let merges = self.merges()?;
        let wanted = entries_of.get(kept).ok_or(ProveError::Entry {
            got: kept,
            entries: entries_of.len(),
        })?;
        let proof = self.decode_bundle(bytes).map_err(of_entry(kept))?;
        if proof.level >= LEVEL_MAX {
            return Err(ProveError::Levels { max: LEVEL_MAX });
        }
        let stated = self.stated(exec.backend(), entries_of);
        let stated = stated.map_err(|(i, error)| of_entry(i)(error))?;
        let all = entries(&stated);
        let Stated { statement, publics } = &stated[kept];
        let mut statement = statement.clone();
        statement.level = proof.level + 1;
        let child = Child {
            bitfield: &statement.bitfield,
            proof: ChildProof::Bundle {
                proof: &proof,
                entries: &all,
                kept,
            },
        };
        let preset = &Preset::MERGE;
        let rows = wanted.registry.rows();
        let spoken = (&statement, &publics[..]);
        let split = merges.prove(exec, preset, rows, spoken, &[child]);
        let split = split.map_err(|error| match error {
            alphorn_stark::ProveError::Child { error, .. } => of_entry(kept)(error.into()),
            error => error.into(),
        })?;
        Ok(merges.to_bytes(preset, &split))
    }
}

/// An error of the proof system with the number of the part that it is about.
pub(super) fn named(error: alphorn_stark::ProveError) -> ProveError {
    match error {
        alphorn_stark::ProveError::Child { child, error } => of_entry(child)(error.into()),
        error => error.into(),
    }
}
