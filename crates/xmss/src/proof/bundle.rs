//! Bundles: one proof of votes over several messages, of which one entry can be split off again: see
//! [`alphorn_stark::merge`].
//!
//! Few entries are one bundle, more are a bundle of bundles. How they are divided follows from how many they
//! are, so a proof need not say it.

use std::ops::Range;

use alphorn_exec::{Backend, Exec};
use alphorn_stark::merge::{
    BundleProof, CHILDREN_MAX, Child, ChildKind, ChildProof, ENTRIES_MAX, Item, LEVEL_MAX, Merges,
    is_bundle,
};
use alphorn_stark::proof::Registry;
use alphorn_stark::statement::Statement;

use super::merge::{Decoded, groups};
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
    /// What each of its children is.
    pub kinds: Vec<ChildKind>,
    /// Field elements, 31 bits each.
    pub elements: usize,
}

/// Which of so many entries a bundle of bundles has in each of its bundles; none if one bundle takes all.
fn divided(entries: usize) -> Option<Vec<Range<usize>>> {
    (entries > CHILDREN_MAX).then(|| groups(entries).collect())
}

/// What the proof lists of entries.
fn items(entries: &[Statement]) -> Vec<Item<'_>> {
    match divided(entries.len()) {
        None => entries.iter().map(Item::Entry).collect(),
        Some(groups) => {
            let groups = groups.into_iter();
            groups.map(|group| Item::Bundle(&entries[group])).collect()
        }
    }
}

/// Puts the number of an entry to an error.
fn of_entry(entry: usize) -> impl Fn(ProofError) -> ProveError {
    move |error| ProveError::Part { part: entry, error }
}

impl Proofs {
    /// Entries of a bundle at most.
    pub fn entries_max(&self) -> usize {
        ENTRIES_MAX
    }

    /// Bytes of a bundle of at most so many entries, at most.
    pub fn bundle_bytes_max(&self, entries: usize) -> usize {
        let Some(merges) = self.merges() else {
            return 0;
        };
        let of =
            |children, of_bundles| merges.bundle_bytes_max(&Preset::MERGE, children, of_bundles);
        let one = of(entries.clamp(1, CHILDREN_MAX), false);
        let groups = divided(entries.min(ENTRIES_MAX));
        groups.map_or(one, |groups| one.max(of(groups.len(), true)))
    }

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
            kinds: proof.kinds,
            elements: proof.elements.len(),
        }))
    }

    fn decode_bundle(&self, bytes: &[u8]) -> Result<BundleProof, ProofError> {
        let merges = self.merges().ok_or(ProofError::Unmergeable)?;
        Ok(merges.bundle_from_bytes(&Preset::MERGE, bytes)?)
    }

    fn stated(
        &self,
        backend: Backend,
        entries: &[BundleEntry<'_>],
    ) -> Result<Vec<Statement>, (usize, ProofError)> {
        let stated = |(i, entry): (usize, &BundleEntry<'_>)| {
            let BundleEntry { registry, claimed } = entry;
            self.check_claim(registry, claimed)
                .map_err(|error| (i, error))?;
            Ok(self.statement(backend, registry, claimed))
        };
        entries.iter().enumerate().map(stated).collect()
    }

    /// Bundles proofs of several statements, each of any slot, message and registry: of at most
    /// [`Proofs::mergeable_max`] signatures under the preset `fast`, or merges. At most
    /// [`Proofs::entries_max`] fit; more than [`Proofs::children_max`] become a bundle of bundles.
    ///
    /// # Errors
    /// [`ProveError::Part`] for a proof that does not hold, with its number; [`ProveError::Unmergeable`] for
    /// the wide shape, [`ProveError::Levels`] for merges that are too high to be bundled,
    /// [`ProveError::Entries`] for too many.
    pub fn bundle(
        &self,
        exec: Exec<'_>,
        parts: &[(BundleEntry<'_>, &[u8])],
    ) -> Result<Vec<u8>, ProveError> {
        if parts.is_empty() {
            return Err(ProveError::Empty);
        }
        let (got, max) = (parts.len(), ENTRIES_MAX);
        if got > max {
            return Err(ProveError::Entries { got, max });
        }
        let merges = self.merges().ok_or(ProveError::Unmergeable)?;
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
        let proof = bundled(merges, exec, &stated, &children)?;
        Ok(merges.bundle_to_bytes(&Preset::MERGE, &proof))
    }

    /// Verifies that a bundle proves all of these entries, in this order, and no other.
    ///
    /// # Errors
    /// [`ProofError`] of the first check that fails.
    pub fn verify_bundle(
        &self,
        exec: Exec<'_>,
        entries_of: &[BundleEntry<'_>],
        bytes: &[u8],
    ) -> Result<(), ProofError> {
        let proof = self.decode_bundle(bytes)?;
        let stated = self.stated(exec.backend(), entries_of);
        let stated = stated.map_err(|(_, error)| error)?;
        let registries = entries_of.iter().map(|entry| entry.registry.rows());
        let registries: Vec<&Registry> = registries.collect();
        self.merges()
            .ok_or(ProofError::Unmergeable)?
            .verify_bundle(exec, &Preset::MERGE, &items(&stated), &registries, &proof)?;
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
        let merges = self.merges().ok_or(ProveError::Unmergeable)?;
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
        let mut statement = stated[kept].clone();
        statement.level = proof.level + 1;
        let child = Child {
            bitfield: &statement.bitfield,
            proof: ChildProof::Entry {
                proof: &proof,
                items: &items(&stated),
                kept,
            },
        };
        let preset = &Preset::MERGE;
        let rows = wanted.registry.rows();
        let split = merges.prove(exec, preset, rows, &statement, &[child]);
        let split = split.map_err(|error| match error {
            alphorn_stark::ProveError::Child { error, .. } => of_entry(kept)(error.into()),
            error => error.into(),
        })?;
        Ok(merges.to_bytes(preset, &split))
    }
}

/// The bundle of proofs of entries, or the bundle of bundles of them, which are all of one level.
fn bundled(
    merges: &Merges<'_>,
    exec: Exec<'_>,
    entries: &[Statement],
    children: &[ChildProof<'_>],
) -> Result<BundleProof, ProveError> {
    let level = children.iter().map(ChildProof::level).max();
    let level = level.unwrap_or_default() + 1;
    let groups = divided(entries.len());
    if level + u32::from(groups.is_some()) > LEVEL_MAX {
        return Err(ProveError::Levels { max: LEVEL_MAX });
    }
    let preset = &Preset::MERGE;
    let one = |range: Range<usize>| {
        let first = range.start;
        let listed: Vec<Item<'_>> = entries[range.clone()].iter().map(Item::Entry).collect();
        let made = merges.bundle(exec, preset, level, &listed, &children[range]);
        made.map_err(|error| match error {
            alphorn_stark::ProveError::Child { child, error } => {
                of_entry(first + child)(error.into())
            }
            error => error.into(),
        })
    };
    let Some(groups) = groups else {
        return one(0..entries.len());
    };
    let lower = groups.into_iter().map(one);
    let lower = lower.collect::<Result<Vec<BundleProof>, ProveError>>()?;
    let lower: Vec<ChildProof<'_>> = lower.iter().map(ChildProof::Bundle).collect();
    // What was made here is no part of a caller's to be named.
    Ok(merges.bundle(exec, preset, level + 1, &items(entries), &lower)?)
}
