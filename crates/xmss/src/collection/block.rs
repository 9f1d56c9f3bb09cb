//! A single piece of evidence for all collections of a block: a bundle of their proofs.

use alphorn_exec::Exec;
use alphorn_scheme::{Bundled, Bytes, SchemeError};
use alphorn_stark::merge::{ENTRIES_MAX, MERGE_LEVELS, merge_level};
use alphorn_types::Bitfield;

use super::{MERGE_VERIFY_NS, StatementContext, VERIFY_BYTES, merge_cost, unsupported};
use crate::proof::{BundleEntry, Claimed, ProofError, Proofs, ProveError};
use crate::registry::EpochKeys;

/// Maximum number of collections in a bundle.
pub(crate) const COLLECTIONS_MAX: u16 = ENTRIES_MAX as u16;

/// Nanoseconds to verify an entry of a bundle: its statement is hashed, its registry evaluated. A guess that has
/// not been compared with a bench yet (`alphorn bench proof --entries`).
const ENTRY_NS: u64 = 2_000_000;

/// A collection, with the registry of its signers.
struct CollectionEntry<'a> {
    context: StatementContext<'a>,
    message: &'a [u8; 32],
    signers: Bitfield,
}

impl CollectionEntry<'_> {
    /// None if the statement is not of a committee, or the support does not fit it.
    fn of<'a>(proofs: &Proofs, bundled: &'a Bundled<'_, EpochKeys>) -> Option<CollectionEntry<'a>> {
        let (statement, support) = (&bundled.statement, bundled.support);
        let context = StatementContext::of(proofs, bundled.keys, statement)?;
        if !context.is_last || support.len() != context.len {
            return None;
        }
        Some(CollectionEntry {
            signers: context.signers(0, support)?,
            message: &statement.message,
            context,
        })
    }

    fn entry(&self) -> BundleEntry<'_> {
        BundleEntry {
            registry: self.context.registry,
            claimed: Claimed {
                slot: self.context.slot,
                message: self.message,
                signers: &self.signers,
            },
        }
    }

    /// The single proof of evidence, if it can be bundled.
    fn proof<'e>(&self, proofs: &Proofs, evidence: &'e [u8]) -> Option<&'e [u8]> {
        let parts = proofs.evidence_parts(&self.signers, evidence).ok()?;
        let [part] = parts.as_slice() else {
            return None;
        };
        let bundled = match merge_level(part.proof) {
            // Above it there must be room for the bundles, for the merge that splits it off, and for one more
            // merge.
            Some(level) => level <= MERGE_LEVELS,
            None => self.signers.count_ones() <= proofs.mergeable_max(),
        };
        bundled.then_some(part.proof)
    }
}

/// One proof of collections, each of which consists of a single proof.
pub(crate) fn bundle(
    proofs: &Proofs,
    exec: Exec<'_>,
    collections: &[(Bundled<'_, EpochKeys>, &[u8])],
) -> Result<Bytes, SchemeError> {
    let (value, max) = (collections.len(), COLLECTIONS_MAX);
    if value > usize::from(max) {
        return Err(SchemeError::BundleSize { value, max });
    }
    let listed = collections.iter().enumerate().map(|(i, (bundled, _))| {
        CollectionEntry::of(proofs, bundled).ok_or(SchemeError::Malformed(i))
    });
    let listed: Vec<CollectionEntry<'_>> = listed.collect::<Result<_, _>>()?;
    let parts = listed.iter().zip(collections).enumerate();
    let parts = parts.map(|(i, (listed, (_, evidence)))| {
        let proof = listed.proof(proofs, evidence);
        Ok((listed.entry(), proof.ok_or(SchemeError::Malformed(i))?))
    });
    let parts: Vec<(BundleEntry<'_>, &[u8])> = parts.collect::<Result<_, SchemeError>>()?;
    let proof = proofs.bundle(exec, &parts).map_err(|error| match error {
        ProveError::Stopped => SchemeError::Stopped,
        ProveError::Empty => SchemeError::Empty,
        ProveError::Part { part, .. } => SchemeError::Malformed(part),
        _ => unsupported("bundle these proofs: their set, size or level has no circuit"),
    })?;
    Ok(proof.into())
}

/// Whether a proof proves exactly these collections, in this order.
pub(crate) fn verify(
    proofs: &Proofs,
    exec: Exec<'_>,
    collections: &[Bundled<'_, EpochKeys>],
    proof: &[u8],
) -> bool {
    let listed = collections.iter();
    let listed = listed.map(|bundled| CollectionEntry::of(proofs, bundled));
    let Some(listed) = listed.collect::<Option<Vec<CollectionEntry<'_>>>>() else {
        return false;
    };
    let entries: Vec<BundleEntry<'_>> = listed.iter().map(CollectionEntry::entry).collect();
    let held: Result<(), ProofError> = proofs.verify_bundle(exec, &entries, proof);
    held.is_ok()
}

/// Nanoseconds to bundle this many collections, and bytes of memory.
pub(crate) fn bundle_cost(proofs: &Proofs, collections: u64) -> (u64, u64) {
    let (bundle_ns, bytes) = merge_cost(proofs, collections);
    let (check_ns, _) = bundle_verify_cost(collections);
    (bundle_ns.saturating_add(check_ns), bytes)
}

/// Nanoseconds to verify a bundle of this many collections, and bytes of memory.
pub(crate) fn bundle_verify_cost(collections: u64) -> (u64, u64) {
    let entries_ns = ENTRY_NS.saturating_mul(collections);
    (MERGE_VERIFY_NS.saturating_add(entries_ns), VERIFY_BYTES)
}
