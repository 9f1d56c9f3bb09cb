//! Bundles: one proof of statements for several slots, messages and registries.
//!
//! The statement of a bundle is the list of its children's statements, with its level: digests of entries, and of
//! the statements of bundles, which are of the level just below and contain no bundles. It has no bitfield of its
//! own, and the remaining registry claim of each entry stays a separate value: the verifier of the bundle holds
//! all registries and evaluates each. A merge whose child is the bundle can keep a single entry: see `split`.

use alphorn_exec::Exec;

use super::hints::{Bundled, Header, Kept, ListedChild};
use super::known::{BundleOutputs, DIGEST_EXTS, Form, MergeKnown, RegistryAt, left_digest};
use super::layout::{CHILDREN_MAX, REGISTRY_LOG2};
use super::verifier::{read_argued, read_bundle};
use super::{Child, ChildKind, ChildProof, Merges, check_length, check_tree};
use crate::arith::Native;
use crate::error::{ProveError, VerifyError};
use crate::extension::Ext;
use crate::field::Fp;
use crate::hash::{DIGEST, Digest};
use crate::merkle::chain;
use crate::proof::{check_registry, check_statement};
use crate::registry::Registry;
use crate::statement::Statement;
use crate::transcript::tag;
use crate::whir::Preset;

/// The data that a bundle lists for a child.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// The statement of a leaf or a merge; its level is not that of a proof, and is ignored.
    Entry(&'a Statement),
    /// The entries of a bundle.
    Bundle(&'a [Statement]),
}

impl<'a> Item<'a> {
    /// Its entries in order.
    pub(super) fn entries(&self) -> &'a [Statement] {
        match *self {
            Item::Entry(entry) => std::slice::from_ref(entry),
            Item::Bundle(entries) => entries,
        }
    }
}

/// Number of entries.
pub(super) fn count(items: &[Item<'_>]) -> usize {
    items.iter().map(|item| item.entries().len()).sum()
}

/// The position of an entry: its item, and its index in that item.
pub(super) fn place(items: &[Item<'_>], entry: usize) -> Option<(usize, usize)> {
    let mut left = entry;
    for (i, item) in items.iter().enumerate() {
        match left.checked_sub(item.entries().len()) {
            Some(rest) => left = rest,
            None => return Some((i, left)),
        }
    }
    None
}

/// A proof of several statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleProof {
    /// Its level, above that of each child.
    pub level: u32,
    /// The kind of each child.
    pub kinds: Vec<ChildKind>,
    /// The prover's messages in transcript order, with the opened rows and paths.
    pub elements: Vec<Fp>,
    /// For each child that is a bundle, the remaining registry claims of its entries, each a point and a value;
    /// the prover's messages contain only their digest.
    pub(crate) left: Vec<Vec<Ext>>,
}

/// The digest of a bundle's statement: the number of listed children, the level, and the list, padded with zeros.
fn digest(level: u32, listed: impl ExactSizeIterator<Item = Digest>) -> Digest {
    let mut start = [Fp::ZERO; DIGEST];
    start[..3].copy_from_slice(&[tag(b"many"), Fp::new(listed.len() as u32), Fp::new(level)]);
    // Always the maximum number of blocks: the circuit hashes a list of fixed length, and the count is in the
    // first block.
    let filling = std::iter::repeat([Fp::ZERO; DIGEST]);
    chain(start, listed.chain(filling).take(CHILDREN_MAX))
}

/// Checks that there are as many children as items, bundles where bundles are listed, and not too many of them or
/// of levels.
fn check_children(level: u32, items: &[Item<'_>], kinds: &[ChildKind]) -> Result<(), VerifyError> {
    check_tree(level, items.len())?;
    let (got, max) = (kinds.len(), items.len());
    if got != max {
        return Err(VerifyError::ChildCount { got, max });
    }
    for (item, kind) in items.iter().zip(kinds) {
        match (item, kind) {
            (Item::Bundle(entries), ChildKind::Bundle) => check_tree(level - 1, entries.len())?,
            (Item::Entry(_), ChildKind::Leaf | ChildKind::Merge) => {}
            _ => return Err(VerifyError::Item),
        }
    }
    Ok(())
}

/// The remaining registry claim of each entry. For bundles in the bundle these are the lists after the proof, if
/// they have the digest given in the proof.
fn left_of_entries(
    items: &[Item<'_>],
    proof: &BundleProof,
    left: &BundleOutputs<Ext>,
) -> Result<Vec<RegistryAt<Ext>>, VerifyError> {
    let mut out = Vec::new();
    let mut of_bundles = proof.left.iter();
    for (item, (point, value)) in items.iter().zip(&left.registries) {
        let Item::Bundle(entries) = item else {
            out.push((point.clone(), *value));
            continue;
        };
        let left = of_bundles.next().ok_or(VerifyError::Left)?;
        // The list after the proof is unauthenticated until it hashes to what the proof left.
        if left_digest(left) != point[..DIGEST_EXTS] {
            return Err(VerifyError::Left);
        }
        // `verify_bundle` has checked the length, so this is exact.
        let outputs = left.len() / CHILDREN_MAX;
        let left = left.chunks_exact(outputs).take(entries.len());
        out.extend(left.map(|left| {
            let (point, value) = left.split_at(outputs - 1);
            (point.to_vec(), value[0])
        }));
    }
    Ok(out)
}

/// Number of children that are bundles.
pub(super) fn bundles(kinds: &[ChildKind]) -> usize {
    let bundles = kinds.iter().filter(|kind| **kind == ChildKind::Bundle);
    bundles.count()
}

impl Merges<'_> {
    pub(super) fn known_bundle(
        &self,
        level: u32,
        items: &[Item<'_>],
        kinds: &[ChildKind],
    ) -> Result<MergeKnown<Fp>, VerifyError> {
        check_children(level, items, kinds)?;
        self.check_items(items)?;
        let inputs = items.iter().map(|item| self.inputs_of_item(item, level));
        let digest = digest(level, items.iter().map(|item| self.listed(item, level)));
        Ok(self.known_of(Form::Bundle, kinds, digest, inputs.collect()))
    }

    /// Checks that all entries are statements of the relation.
    pub(super) fn check_items(&self, items: &[Item<'_>]) -> Result<(), VerifyError> {
        let mut entries = items.iter().flat_map(Item::entries);
        entries.try_for_each(|entry| check_statement(self.relation(), entry))
    }

    /// The digest with which bundles list an entry.
    fn listed_entry(&self, entry: &Statement) -> Digest {
        entry.listed_digest(&self.publics(entry))
    }

    /// The digest with which a bundle of a level lists a child.
    fn listed(&self, item: &Item<'_>, level: u32) -> Digest {
        match item {
            Item::Entry(entry) => self.listed_entry(entry),
            Item::Bundle(entries) => {
                let listed = entries.iter().map(|entry| self.listed_entry(entry));
                digest(level.saturating_sub(1), listed)
            }
        }
    }

    /// The inputs of a child's circuit after the constant one, below a bundle of some level.
    pub(super) fn inputs_of_item(&self, item: &Item<'_>, level: u32) -> Vec<Fp> {
        let at = self.dimensions;
        match item {
            Item::Entry(entry) => {
                let mut inputs = self.inputs(entry, level);
                // The digest of the list only enters the transcript. This flag asserts that the child is a proof
                // of this bitfield, and of no other: a bundle has no claim on its bits as merges have.
                inputs[at.bound() - 1] = Fp::ONE;
                let bitfield = entry.bitfield_digest();
                inputs[at.bitfield() - 1..][..DIGEST].copy_from_slice(&bitfield);
                inputs
            }
            Item::Bundle(_) => {
                let mut inputs = vec![Fp::ZERO; at.end()];
                inputs[at.message().start..][..DIGEST].copy_from_slice(&self.listed(item, level));
                inputs[at.level()] = Fp::new(level);
                inputs[at.key()..][..DIGEST].copy_from_slice(&self.key());
                inputs[at.whole()] = Fp::ONE;
                inputs.split_off(1)
            }
        }
    }

    /// The remaining registry claims of a bundle of entries, with zeros where there is no entry.
    fn left_of(
        &self,
        preset: &Preset,
        proof: &BundleProof,
        items: &[Item<'_>],
    ) -> Result<Vec<Ext>, VerifyError> {
        let known = self.known_bundle(proof.level, items, &proof.kinds)?;
        let arith = Native::new(&proof.elements);
        let argued = read_argued(arith, self.relation().id, preset, &known)?;
        let children = argued.children.into_iter();
        let left = children.flat_map(|child| [child.registry_at, vec![child.registry]].concat());
        Ok(left.collect())
    }

    /// The hints for the circuit of bundles about one bundle, with the kept entry if it is not proved as a whole.
    pub(super) fn bundled(
        &self,
        proof: &BundleProof,
        items: &[Item<'_>],
        kept: Option<usize>,
    ) -> Bundled {
        let at = self.dimensions;
        let listed = |item: &Item<'_>| {
            let mut inputs = self.inputs_of_item(item, proof.level);
            // The level and the inputs after it are the bundle's.
            inputs.truncate(at.level() - 1);
            let bitfield = match item {
                Item::Entry(entry) => entry.bitfield_digest(),
                Item::Bundle(_) => [Fp::ZERO; DIGEST],
            };
            ListedChild { inputs, bitfield }
        };
        let kept = kept.and_then(|kept| place(items, kept));
        let left = match kept {
            // A bundle that cannot be read is rejected by its circuit.
            None => self
                .left_of(&Preset::MERGE, proof, items)
                .unwrap_or_default(),
            Some((child, _)) if proof.kinds.get(child) == Some(&ChildKind::Bundle) => {
                let left = proof.left.get(bundles(&proof.kinds[..child]));
                left.cloned().unwrap_or_default()
            }
            Some(_) => Vec::new(),
        };
        let kept = kept.map(|(child, entry)| Kept {
            child,
            entries: match items[child] {
                Item::Entry(_) => Vec::new(),
                Item::Bundle(entries) => entries.iter().map(|e| self.listed_entry(e)).collect(),
            },
            entry,
        });
        Bundled {
            level: proof.level,
            kinds: proof.kinds.clone(),
            listed: items.iter().map(listed).collect(),
            kept: kept.unwrap_or_default(),
            left,
        }
    }

    /// Proves several statements from a proof of each: proofs of instances, merges and bundles, of lower levels,
    /// bundles of the level just below.
    ///
    /// # Errors
    /// [`ProveError::Child`] for a child that does not prove its item; [`ProveError::Capacity`] for one that
    /// cannot be bundled, [`ProveError::Statement`] for statements for which no proof is accepted.
    pub fn bundle(
        &self,
        exec: Exec<'_>,
        preset: &Preset,
        level: u32,
        items: &[Item<'_>],
        children: &[ChildProof<'_>],
    ) -> Result<BundleProof, ProveError> {
        let kinds: Vec<ChildKind> = children.iter().map(ChildProof::kind).collect();
        let known = self.known_bundle(level, items, &kinds)?;
        for child in children {
            child.check_bundled(self.dimensions.leaf_groups, level)?;
        }
        let verified: Vec<_> = items
            .iter()
            .zip(children)
            .map(|(item, proof)| {
                let bitfield = match item {
                    Item::Entry(entry) => &entry.bitfield[..],
                    Item::Bundle(_) => NO_BITS,
                };
                let child = Child {
                    proof: *proof,
                    bitfield,
                };
                self.hints_of(self.inputs_of_item(item, level), &child, item.entries())
            })
            .collect();
        let left = verified.iter().zip(&kinds).filter_map(|(child, kind)| {
            match (&child.hints.header, kind) {
                (Header::Bundled(bundled), ChildKind::Bundle) => Some(bundled.left.clone()),
                _ => None,
            }
        });
        let left = left.collect();
        let prover = self.prover(exec, None, known);
        let elements = prover.prove(preset, &verified, NO_BITS)?;
        Ok(BundleProof {
            level,
            kinds,
            elements,
            left,
        })
    }

    /// Verifies a bundle of statements, each with its registry; the registries are those of all entries in order.
    ///
    /// # Errors
    /// [`VerifyError`] of the first check that fails.
    pub fn verify_bundle(
        &self,
        exec: Exec<'_>,
        preset: &Preset,
        items: &[Item<'_>],
        registries: &[&Registry],
        proof: &BundleProof,
    ) -> Result<(), VerifyError> {
        // All checks that need no circuits come first, because the circuits may not exist yet.
        check_children(proof.level, items, &proof.kinds)?;
        let most = self.elements(preset, Form::Bundle, &proof.kinds);
        check_length(&proof.elements, most)?;
        let whole = proof
            .left
            .iter()
            .all(|left| left.len() == self.dimensions.left());
        if !whole || proof.left.len() != bundles(&proof.kinds) {
            return Err(VerifyError::Left);
        }
        let (got, max) = (registries.len(), count(items));
        if got != max {
            return Err(VerifyError::ChildCount { got, max });
        }
        let entries = items.iter().flat_map(Item::entries);
        for (entry, registry) in entries.zip(registries) {
            check_registry(self.relation(), registry, &entry.bitfield)?;
        }
        let known = self.known_bundle(proof.level, items, &proof.kinds)?;
        let numbers = self.dimensions.slice_numbers(items.len());
        let arith = Native::on(exec.backend(), &proof.elements);
        let (arith, left) = read_bundle(arith, self.relation().id, preset, &numbers, &known)?;
        arith.finish()?;
        let values = left_of_entries(items, proof, &left)?;
        let holds = exec.map(values.len(), |i| {
            let (point, value) = &values[i];
            registries[i].at(exec, point) == *value
        });
        if holds.contains(&false) {
            return Err(VerifyError::Registry);
        }
        match self.wiring().at(exec, &left.wiring_row, &left.wiring_cell) == left.wiring {
            true => Ok(()),
            false => Err(VerifyError::Wiring),
        }
    }
}

/// The bits of a bundle: none.
static NO_BITS: &[bool] = &[false; 1 << REGISTRY_LOG2];

impl ChildProof<'_> {
    /// Checks that it can be bundled into a proof of a level.
    fn check_bundled(&self, leaf_groups: usize, level: u32) -> Result<(), ProveError> {
        self.check_size(leaf_groups)?;
        let refused = |what, got: usize, max| Err(ProveError::Capacity { what, got, max });
        match self {
            ChildProof::Entry { .. } => return refused("entries of bundles in a bundle", 1, 0),
            ChildProof::Bundle(proof) if proof.kinds.contains(&ChildKind::Bundle) => {
                let max = super::BUNDLE_LEVELS as usize;
                return refused("bundles above each other", max + 1, max);
            }
            ChildProof::Bundle(proof) if proof.level + 1 != level => {}
            child if child.level() < level => return Ok(()),
            _ => {}
        }
        Err(ProveError::Statement(VerifyError::Level))
    }
}
