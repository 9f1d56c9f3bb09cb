//! Bundles: one proof of votes over several messages, from which a single entry can be split off again. See
//! [`alphorn_stark::merge`].
//!
//! Few entries form one bundle, more form a bundle of bundles. The division follows from the number of entries, so
//! a proof does not have to state it.

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

/// An entry of a bundle: the claimed signers and what they signed.
#[derive(Clone, Copy, Debug)]
pub struct BundleEntry<'a> {
    /// The registry to which the signers belong.
    pub registry: &'a ProofRegistry,
    /// Slot, message and signers.
    pub claimed: Claimed<'a>,
}

/// The contents of a bundle's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleShape {
    /// Its level: 1 above leaves.
    pub level: u32,
    /// The kind of each of its children.
    pub kinds: Vec<ChildKind>,
    /// Number of field elements, 31 bits each.
    pub elements: usize,
}

/// The range of entries in each lower bundle of a bundle of bundles; none if one bundle takes all entries.
fn divided(entries: usize) -> Option<Vec<Range<usize>>> {
    (entries > CHILDREN_MAX).then(|| groups(entries).collect())
}

/// The items that the proof lists for entries.
fn items(entries: &[Statement]) -> Vec<Item<'_>> {
    match divided(entries.len()) {
        None => entries.iter().map(Item::Entry).collect(),
        Some(groups) => {
            let groups = groups.into_iter();
            groups.map(|group| Item::Bundle(&entries[group])).collect()
        }
    }
}

/// Attaches the number of an entry to an error.
fn of_entry(entry: usize) -> impl Fn(ProofError) -> ProveError {
    move |error| ProveError::Part { part: entry, error }
}

impl Proofs {
    /// Maximum number of entries in a bundle.
    pub fn entries_max(&self) -> usize {
        ENTRIES_MAX
    }

    /// Maximum size in bytes of a bundle of at most this many entries.
    pub fn bundle_bytes_max(&self, entries: usize) -> usize {
        let Some(merges) = self.merges() else {
            return 0;
        };
        let of =
            |children, of_bundles| merges.bundle_bytes_max(&Preset::MERGE, children, of_bundles);
        // A full bundle may be larger than a bundle of two bundles, and fewer entries are possible too, so the
        // greater counts.
        let one = of(entries.clamp(1, CHILDREN_MAX), false);
        let groups = divided(entries.min(ENTRIES_MAX));
        groups.map_or(one, |groups| one.max(of(groups.len(), true)))
    }

    /// The shape of an encoded bundle, without verifying it; none if the bytes are another kind of proof.
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

    /// Bundles proofs of several statements, each with its own slot, message and registry. The proofs cover at
    /// most [`Proofs::mergeable_max`] signatures under the preset `fast`, or are merges. At most
    /// [`Proofs::entries_max`] fit; more than [`Proofs::children_max`] become a bundle of bundles.
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

    /// Verifies that a bundle proves exactly these entries, in this order.
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

    /// Proves one entry of a bundle alone. The result is a merge one level above the bundle, which anyone who has
    /// the registry of that entry can verify with [`Proofs::verify`]. The registries of the other entries are
    /// needed for their digests only.
    ///
    /// # Errors
    /// [`ProveError::Part`] if the bundle does not prove these entries, with the number of the one to be kept;
    /// [`ProveError::Entry`] if there is no entry with this number.
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
        // The merge that keeps the entry is one level above the bundle.
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

/// Bundles proofs of entries that are all of one level, as one bundle or a bundle of bundles.
fn bundled(
    merges: &Merges<'_>,
    exec: Exec<'_>,
    entries: &[Statement],
    children: &[ChildProof<'_>],
) -> Result<BundleProof, ProveError> {
    let level = children.iter().map(ChildProof::level).max();
    // One level for all lower bundles, whatever their children: a bundle of bundles takes only those of the level
    // just below.
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
    // The lower bundles were made here, so an error must not name one as the caller's part.
    Ok(merges.bundle(exec, preset, level + 1, &items(entries), &lower)?)
}
