//! Bundles: one proof of statements of several slots, messages and registries.
//!
//! The statement of a bundle is the list of its entries' digests, with its level. Its children are
//! proofs of instances or merges, one for each entry. It has no bitfield of its own, and what each child
//! leaves of its registry stays one value for each entry: who verifies the bundle holds all registries and
//! evaluates each. One entry can be kept by a merge whose child is the bundle: see `split`.

use alphorn_exec::Exec;

use super::known::{Form, MergeKnown};
use super::layout::{CHILDREN_MAX, REGISTRY_LOG2, SLICES, slice_numbers};
use super::split::{Bundled, Listed};
use super::verifier::read_bundle;
use super::{
    Child, ChildKind, ChildProof, Merges, check_length, check_registry, check_tree, elements,
};
use crate::arith::{DIGEST, Native};
use crate::error::{ProveError, VerifyError};
use crate::field::Fp;
use crate::merkle::{Digest, chain};
use crate::proof::Registry;
use crate::statement::Statement;
use crate::transcript::tag;
use crate::whir::Preset;

/// An entry of a bundle: what one of its children states.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The statement; its level is that of no proof, and not looked at.
    pub statement: &'a Statement,
    /// The relation's public values for slot and message.
    pub publics: &'a [Fp],
}

/// A proof of several statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleProof {
    /// Its level, above that of each child.
    pub level: u32,
    /// For each child whether that is a merge.
    pub merged: Vec<bool>,
    /// What the prover says, in the order of the transcript, with the opened rows and paths.
    pub elements: Vec<Fp>,
}

/// Elements of F_p that a bundle has, by which of its children are merges.
pub(super) fn bundle_elements(preset: &Preset, merged: &[bool]) -> usize {
    let wired = merged.iter().filter(|merged| **merged);
    elements(preset, Form::Bundle, merged.len(), wired.count())
}

/// The digest of a bundle's statement: how many entries, the level, and the entries, filled with zeros.
fn digest(level: u32, entries: &[Entry<'_>]) -> Digest {
    let mut start = [Fp::ZERO; DIGEST];
    start[..3].copy_from_slice(&[tag(b"many"), Fp::new(entries.len() as u32), Fp::new(level)]);
    let listed = entries
        .iter()
        .map(|entry| entry.statement.listed_digest(entry.publics));
    let filling = std::iter::repeat([Fp::ZERO; DIGEST]);
    chain(start, listed.chain(filling).take(CHILDREN_MAX))
}

/// Whether there are as many children as entries, and not too many of them or of levels.
fn check_children(level: u32, entries: &[Entry<'_>], merged: &[bool]) -> Result<(), VerifyError> {
    check_tree(level, entries.len())?;
    match (merged.len(), entries.len()) {
        (got, max) if got != max => Err(VerifyError::ChildCount { got, max }),
        _ => Ok(()),
    }
}

impl Merges<'_> {
    pub(super) fn known_bundle(
        &self,
        level: u32,
        entries: &[Entry<'_>],
        merged: &[bool],
    ) -> Result<MergeKnown<Fp>, VerifyError> {
        check_children(level, entries, merged)?;
        for entry in entries {
            self.check_statement(entry.statement)?;
        }
        let flags = |is: &dyn Fn(&bool) -> bool| {
            let flag = |c: usize| Fp::new(u32::from(merged.get(c).is_some_and(is)));
            (0..CHILDREN_MAX).map(flag).collect::<Vec<Fp>>()
        };
        let inputs = |entry: &Entry<'_>| {
            let mut inputs = vec![Fp::ONE];
            inputs.extend(self.inputs(entry.statement, entry.publics, level));
            inputs
        };
        Ok(MergeKnown {
            form: Form::Bundle,
            digest: digest(level, entries),
            used: flags(&|_| true),
            merged: flags(&|merged| *merged),
            bundled: flags(&|_| false),
            key: *self.key(),
            inputs: entries.iter().map(inputs).collect(),
        })
    }

    /// What the circuit that keeps an entry is told of a bundle.
    pub(super) fn bundled(
        &self,
        proof: &BundleProof,
        entries: &[Entry<'_>],
        kept: usize,
    ) -> Bundled {
        let listed = |entry: &Entry<'_>| {
            let mut inputs = self.inputs(entry.statement, entry.publics, proof.level);
            // The level and the circuits' digest are the bundle's.
            inputs.truncate(inputs.len() - DIGEST - 1);
            Listed {
                inputs,
                bitfield: entry.statement.bitfield_digest(),
            }
        };
        Bundled {
            level: proof.level,
            merged: proof.merged.clone(),
            entries: entries.iter().map(listed).collect(),
            kept,
        }
    }

    /// Proves several statements by a proof of each: proofs of instances or merges, of lower levels.
    ///
    /// # Errors
    /// [`ProveError::Child`] for a child that is no proof of its entry; [`ProveError::Capacity`] for one that
    /// cannot be bundled, [`ProveError::Statement`] for statements that no proof is accepted for.
    pub fn bundle(
        &self,
        exec: Exec<'_>,
        preset: &Preset,
        level: u32,
        entries: &[Entry<'_>],
        children: &[ChildProof<'_>],
    ) -> Result<BundleProof, ProveError> {
        let merged: Vec<bool> = children
            .iter()
            .map(|child| child.kind() == ChildKind::Merge)
            .collect();
        let known = self.known_bundle(level, entries, &merged)?;
        for child in children {
            child.check_size()?;
            if child.kind() == ChildKind::Bundle {
                return Err(ProveError::Capacity {
                    what: "bundles in a bundle",
                    got: 1,
                    max: 0,
                });
            }
            if child.level() >= level {
                return Err(ProveError::Statement(VerifyError::Level));
            }
        }
        let verified: Vec<_> = entries
            .iter()
            .zip(children)
            .map(|(entry, proof)| {
                let inputs = self.inputs(entry.statement, entry.publics, level);
                let (proof, bitfield) = (*proof, &entry.statement.bitfield[..]);
                self.told_one(inputs, &Child { proof, bitfield })
            })
            .collect();
        let prover = self.prover(exec, None, known);
        let none = vec![false; 1 << REGISTRY_LOG2];
        let elements = prover.prove(preset, &verified, &none)?;
        Ok(BundleProof {
            level,
            merged,
            elements,
        })
    }

    /// Verifies a bundle of statements, each with its registry.
    ///
    /// # Errors
    /// [`VerifyError`] of the first check that fails.
    pub fn verify_bundle(
        &self,
        exec: Exec<'_>,
        preset: &Preset,
        entries: &[Entry<'_>],
        registries: &[&Registry],
        proof: &BundleProof,
    ) -> Result<(), VerifyError> {
        // All that needs no circuits comes first: they may not be made yet.
        check_children(proof.level, entries, &proof.merged)?;
        check_length(&proof.elements, bundle_elements(preset, &proof.merged))?;
        let (got, max) = (registries.len(), entries.len());
        if got != max {
            return Err(VerifyError::ChildCount { got, max });
        }
        for (entry, registry) in entries.iter().zip(registries) {
            crate::proof::check_bitfield(registry, &entry.statement.bitfield)?;
        }
        let known = self.known_bundle(proof.level, entries, &proof.merged)?;
        let numbers = slice_numbers(entries.len(), SLICES);
        let arith = Native::on(exec.backend(), &proof.elements);
        let opened = (preset, &numbers[..]);
        let (arith, left) = read_bundle(arith, self.relation.id, opened, &known)?;
        arith.finish()?;
        for ((point, value), registry) in left.registries.iter().zip(registries) {
            check_registry(exec, registry, point, *value)?;
        }
        match self.wiring().at(exec, &left.wiring_row, &left.wiring_cell) == left.wiring {
            true => Ok(()),
            false => Err(VerifyError::Wiring),
        }
    }
}
