//! Proofs of proofs: each bit of a bitfield is a bit of a child, for which there is a proof.
//!
//! A *merge* verifies proofs of instances and other merges, all of the same slot, message, registry and committee,
//! inside a proof, and states the union of their bitfields. Children may overlap, so selecting the best aggregate
//! is no longer necessary. The verifiers of both kinds are recorded as circuits from the same source that verifies
//! natively (the crate's `circuit` module). The wiring of the circuits is a public polynomial, and the remaining
//! claims on public polynomials of each child are reduced to one point, so a merge of merges is as long, and as
//! fast to verify, as a merge of leaves.
//!
//! A *bundle* verifies children that each have a statement of their own, of any slot, message and registry, and
//! states the list of them. A bundle may have bundles as children, and lists theirs. A merge whose child is a
//! bundle keeps one entry, however deep in the bundle, and so *splits* it.
//!
//! | module | what it holds |
//! |---|---|
//! | `layout` | where cells, inputs, outputs and slices lie |
//! | `known` | what their verifiers know, and what they leave to check |
//! | `child`, `split` | the circuits: of leaves and merges, of bundles |
//! | `wiring`, `matrix`, `lanes`, `sources`, `cells` | their matrices, built once, and weights of cells |
//! | `verifier` | the verifier of a merge or bundle, over any arithmetic |
//! | `weights` | claims on committed data |
//! | `residual` | reduction of the remaining claims to one point |
//! | `prover`, `rounds`, `opening`, `reduction` | the prover |
//! | `bundle` | bundles |
//! | `codec` | bytes |

mod bundle;
mod cells;
mod child;
mod codec;
mod gadgets;
mod hints;
mod known;
mod lanes;
mod layout;
mod matrix;
mod opening;
mod prover;
mod reduction;
mod residual;
mod rounds;
mod sources;
mod split;
#[cfg(test)]
mod tests;
mod verifier;
mod weights;
mod wiring;
mod witness;

pub use bundle::{BundleProof, Item};
pub use codec::{is_bundle, is_merge, merge_level};
pub use layout::CHILDREN_MAX;

use alphorn_exec::Exec;
use hints::{Header, Hints};
use known::{Form, MergeKnown};
use layout::{
    CELLS_LOG2, CHILD_LOG2, CIRCUITS_LOG2, Dimensions, PRODUCTS_LOG2, REGISTRY_LOG2, SLICE_LOG2,
    WIRING_LOG2, units,
};
use std::sync::OnceLock;
use verifier::read_merge;
use wiring::{Wiring, setting};
use witness::{Prover, Verified};

use crate::arith::Native;
use crate::error::{ProveError, VerifyError};
use crate::extension::DEGREE;
use crate::field::Fp;
use crate::hash::{DIGEST, Digest};
use crate::poseidon_gkr;
use crate::proof::{PublicPoint, Statements, SuccinctProof, check_registry, check_statement};
use crate::registry::Registry;
use crate::relation::Relation;
use crate::statement::{Statement, bitfield_words};
use crate::whir::{self, Preset};

/// The sizes that determine the error of a merge.
pub(crate) struct MergeSizes {
    pub(crate) units: poseidon_gkr::Units,
    /// Degrees: of the claim on inputs and outputs, of a point of outputs of permutations, of a point of rows.
    pub(crate) fixed: usize,
    pub(crate) outputs: usize,
    pub(crate) rows: usize,
    /// Number of coordinates of a column of bits.
    pub(crate) column: usize,
    /// Number of coordinates of an element in a registry row.
    pub(crate) key: usize,
    pub(crate) children: usize,
    /// Number of rounds that reduce the remaining claims.
    pub(crate) residual: usize,
    /// Number of coordinates of the committed vector, and of claims on it plus the first sample.
    pub(crate) coordinates: usize,
    pub(crate) claims: usize,
}

/// The sizes of a merge with the maximum number of children, which are leaves of a relation.
pub(crate) fn sizes(relation: &Relation) -> MergeSizes {
    let dimensions = Dimensions::of(relation);
    let outputs = CHILD_LOG2 + layout::PERMUTATIONS_LOG2 + DIGEST.ilog2() as usize;
    MergeSizes {
        units: units(CHILDREN_MAX),
        fixed: CHILD_LOG2 + layout::LANES_LOG2 + dimensions.fixed_rows(),
        outputs,
        rows: PRODUCTS_LOG2 + CHILD_LOG2,
        column: REGISTRY_LOG2,
        key: dimensions.key_log2,
        children: CHILDREN_MAX,
        residual: WIRING_LOG2 + CELLS_LOG2 + REGISTRY_LOG2 + dimensions.key_log2,
        coordinates: layout::coordinates(&Preset::MERGE),
        // Inputs and outputs; outputs, cubes and inputs of permutations; three of the rows; all columns; words;
        // what the children left; and the sample.
        claims: 4 + 3 + (CHILDREN_MAX + 1) + 1 + CHILDREN_MAX + 1,
    }
}

/// Maximum number of levels of proofs of proofs: a merge or a bundle of leaves is of level 1.
// As many as three bits can count: `level_below` writes a level minus one with them.
pub const LEVEL_MAX: u32 = 8;

/// Maximum number of levels of bundles above each other.
pub(crate) const BUNDLE_LEVELS: u32 = 2;

/// Maximum number of levels of a merge that can still be bundled as often as possible, split off and merged once
/// more.
pub const MERGE_LEVELS: u32 = LEVEL_MAX - BUNDLE_LEVELS - 2;

/// Maximum number of entries in a bundle, including those of the bundles in it.
pub const ENTRIES_MAX: usize = CHILDREN_MAX.pow(BUNDLE_LEVELS);

/// The kind of a merge's child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildKind {
    /// A proof of instances.
    Leaf,
    /// A merge.
    Merge,
    /// A bundle. A merge keeps one entry of it, a bundle keeps all of them.
    Bundle,
}

impl ChildKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ChildKind::Leaf => "leaf",
            ChildKind::Merge => "merge",
            ChildKind::Bundle => "bundle",
        }
    }

    /// The number of the circuit that verifies such children.
    fn circuit(self) -> usize {
        self as usize
    }
}

/// A proof that other proofs hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeProof {
    /// Its level, above that of each child.
    pub level: u32,
    /// The kind of each child.
    pub kinds: Vec<ChildKind>,
    /// The prover's messages in transcript order, with the opened rows and paths.
    pub elements: Vec<Fp>,
}

/// A proof to be merged.
#[derive(Clone, Copy, Debug)]
pub enum ChildProof<'a> {
    /// A proof of instances, under [`Preset::FAST`].
    Leaf(&'a SuccinctProof),
    /// A merge, under [`Preset::MERGE`].
    Merge(&'a MergeProof),
    /// A bundle as a whole, under [`Preset::MERGE`]: a child of bundles.
    Bundle(&'a BundleProof),
    /// One entry of a bundle, under [`Preset::MERGE`]: a child of merges.
    Entry {
        /// The bundle.
        proof: &'a BundleProof,
        /// All items that it bundles.
        items: &'a [Item<'a>],
        /// The index of the kept entry, counting all entries in order.
        kept: usize,
    },
}

impl ChildProof<'_> {
    /// The level of its statement.
    pub fn level(&self) -> u32 {
        match self {
            ChildProof::Leaf(_) => 0,
            ChildProof::Merge(proof) => proof.level,
            ChildProof::Bundle(proof) | ChildProof::Entry { proof, .. } => proof.level,
        }
    }

    /// Its kind.
    pub(crate) fn kind(&self) -> ChildKind {
        match self {
            ChildProof::Leaf(_) => ChildKind::Leaf,
            ChildProof::Merge(_) => ChildKind::Merge,
            ChildProof::Bundle(_) | ChildProof::Entry { .. } => ChildKind::Bundle,
        }
    }

    /// Checks that the circuits can take it: leaves of at most this many groups.
    fn check_size(&self, leaf_groups: usize) -> Result<(), ProveError> {
        match self {
            ChildProof::Leaf(SuccinctProof { groups, .. })
                if !(1..=leaf_groups).contains(groups) =>
            {
                Err(ProveError::Capacity {
                    what: "groups of instances in a proof to merge",
                    got: *groups,
                    max: leaf_groups,
                })
            }
            ChildProof::Entry { items, kept, .. } => match bundle::place(items, *kept) {
                Some(_) => Ok(()),
                None => Err(ProveError::Capacity {
                    what: "entries before the one that is kept",
                    got: *kept,
                    max: bundle::count(items).saturating_sub(1),
                }),
            },
            _ => Ok(()),
        }
    }
}

/// A child of a merge: its proof, and the signers in its statement.
#[derive(Clone, Copy, Debug)]
pub struct Child<'a> {
    /// The proof.
    pub proof: ChildProof<'a>,
    /// The bitfield of its statement.
    pub bitfield: &'a [bool],
}

/// Merges of proofs of one relation.
///
/// The circuits take the time and memory of many verifications. They are made once for all threads, when the first
/// proof needs them, or earlier by [`Merges::make_circuits`]. For a set whose circuits' digest is a constant, they
/// are needed only for a proof in which everything else holds; for other sets, only for a proof that is not too
/// long, of a statement that could have one.
#[derive(Debug)]
pub struct Merges<'a> {
    of: &'a dyn Statements,
    dimensions: Dimensions,
    wiring: OnceLock<Wiring>,
}

/// Checks that levels and numbers of children are possible.
fn check_tree(level: u32, got: usize) -> Result<(), VerifyError> {
    let max = CHILDREN_MAX;
    if got == 0 || got > max {
        return Err(VerifyError::ChildCount { got, max });
    }
    match (1..=LEVEL_MAX).contains(&level) {
        true => Ok(()),
        false => Err(VerifyError::Level),
    }
}

impl<'a> Merges<'a> {
    /// Merges of proofs of a relation.
    pub fn new(of: &'a dyn Statements) -> Merges<'a> {
        Merges {
            of,
            dimensions: Dimensions::of(of.relation()),
            wiring: OnceLock::new(),
        }
    }

    fn relation(&self) -> &'a Relation {
        self.of.relation()
    }

    /// The public values of a statement of the relation.
    fn publics(&self, statement: &Statement) -> Vec<Fp> {
        self.of.publics(statement.slot, &statement.message)
    }

    /// Makes the circuits if they do not exist yet, so that the first proof does not have to wait for them.
    ///
    /// # Panics
    /// If the circuits do not fit their layout, which is a programming error in the relation.
    pub fn make_circuits(&self) {
        self.wiring();
    }

    /// Maximum number of groups of instances in a leaf; its circuit cannot take more.
    pub fn leaf_groups_max(&self) -> usize {
        self.dimensions.leaf_groups
    }

    fn wiring(&self) -> &Wiring {
        self.wiring.get_or_init(|| {
            let wiring = Wiring::new(&setting(self.relation()), layout::LAYOUT);
            for plan in &wiring.plans {
                assert!(plan.end <= self.dimensions.cells(), "{} cells", plan.end);
            }
            wiring
        })
    }

    /// The digest of the circuits, which enters the transcript of each merge. A pinned constant is used before the
    /// circuits are made; otherwise anyone who sends a header could trigger building them.
    pub(crate) fn key(&self) -> Digest {
        let made = self.wiring.get().map(|wiring| wiring.key);
        let known = made.or_else(|| wiring::pinned(self.relation().id));
        known.unwrap_or_else(|| self.wiring().key)
    }

    /// Maximum number of elements of F_p in a proof of proofs of these kinds.
    fn elements(&self, preset: &Preset, form: Form, kinds: &[ChildKind]) -> usize {
        let children = kinds.len();
        let of_kind = |of: ChildKind| kinds.iter().filter(|kind| **kind == of).count();
        let wired = children - of_kind(ChildKind::Leaf);
        let dimensions = self.dimensions;
        let opening = whir::elements(preset, SLICE_LOG2, dimensions.row_width(children));
        let permutations = poseidon_gkr::sent(&units(children));
        let rows = 2 * (PRODUCTS_LOG2 + CHILD_LOG2) + 3;
        let union = 1 + 2 * REGISTRY_LOG2 + children + 1;
        // The rounds that bind the circuit are present if a child uses another circuit than that of leaves.
        let bound = if wired > 0 { 0 } else { CIRCUITS_LOG2 };
        let wiring = 1 + 2 * (WIRING_LOG2 - bound) + 1 + wired + 2 * CELLS_LOG2 + 1;
        let registry = match form {
            Form::Merge => 2 * (REGISTRY_LOG2 + dimensions.key_log2) + 1,
            Form::Bundle => 0,
        };
        let argued = children * dimensions.outputs() + 1 + permutations + rows + union;
        opening + DEGREE * (argued + wiring + registry)
    }

    fn known(
        &self,
        statement: &Statement,
        kinds: &[ChildKind],
    ) -> Result<MergeKnown<Fp>, VerifyError> {
        check_tree(statement.level, kinds.len())?;
        check_statement(self.relation(), statement)?;
        let inputs = self.inputs(statement, statement.level);
        let digest = statement.digest();
        Ok(self.known_of(Form::Merge, kinds, digest, vec![inputs]))
    }

    /// The data known to a verifier, from a statement's digest and the inputs of circuits after the constant one.
    fn known_of(
        &self,
        form: Form,
        kinds: &[ChildKind],
        digest: Digest,
        inputs: Vec<Vec<Fp>>,
    ) -> MergeKnown<Fp> {
        let flags = |is: &dyn Fn(&ChildKind) -> bool| {
            let flag = |c: usize| Fp::new(u32::from(kinds.get(c).is_some_and(is)));
            (0..CHILDREN_MAX).map(flag).collect::<Vec<Fp>>()
        };
        let with_one = |inputs: Vec<Fp>| [vec![Fp::ONE], inputs].concat();
        MergeKnown {
            form,
            dimensions: self.dimensions,
            digest,
            used: flags(&|_| true),
            merged: flags(&|kind| *kind == ChildKind::Merge),
            bundled: flags(&|kind| *kind == ChildKind::Bundle),
            key: self.key(),
            inputs: inputs.into_iter().map(with_one).collect(),
        }
    }

    /// The inputs of the children's circuits after the constant one, below a proof of some level.
    fn inputs(&self, statement: &Statement, level: u32) -> Vec<Fp> {
        let mut inputs = self.publics(statement);
        inputs.extend([
            Fp::new(statement.slot & 0xffff),
            Fp::new(statement.slot >> 16),
        ]);
        inputs.extend(&statement.message);
        inputs.extend(statement.registry);
        inputs.push(Fp::new(statement.committee));
        inputs.push(Fp::new(level));
        inputs.extend(self.key());
        debug_assert_eq!(inputs.len() + 1, self.dimensions.whole());
        // Not whole, and no digest of a bitfield: a bundle sets these for what it lists.
        inputs.resize(self.dimensions.end() - 1, Fp::ZERO);
        inputs
    }

    /// Proves that the bits of a statement are among those of its children. The statement's level must be above
    /// theirs.
    ///
    /// # Errors
    /// [`ProveError::Child`] for a child that does not prove its bitfield, [`ProveError::Statement`] for a
    /// statement for which no proof is accepted, or a bit that no child has.
    pub fn prove(
        &self,
        exec: Exec<'_>,
        preset: &Preset,
        registry: &Registry,
        statement: &Statement,
        children: &[Child<'_>],
    ) -> Result<MergeProof, ProveError> {
        let kinds: Vec<ChildKind> = children.iter().map(|child| child.proof.kind()).collect();
        let known = self.known(statement, &kinds)?;
        check_registry(self.relation(), registry, &statement.bitfield)?;
        for child in children {
            if child.bitfield.len() != statement.bitfield.len() {
                return Err(ProveError::Statement(VerifyError::StatementSize {
                    got: child.bitfield.len(),
                    want: statement.bitfield.len(),
                }));
            }
            child.proof.check_size(self.dimensions.leaf_groups)?;
            if let ChildProof::Entry { items, .. } = child.proof {
                self.check_items(items)?;
            }
            // A merge leaves the flag `whole` of its children's inputs at zero, with which the circuit of bundles
            // keeps one entry.
            if matches!(child.proof, ChildProof::Bundle(_)) {
                return Err(ProveError::Capacity {
                    what: "bundles as a whole in a merge",
                    got: 1,
                    max: 0,
                });
            }
            if child.proof.level() >= statement.level {
                return Err(ProveError::Statement(VerifyError::Level));
            }
        }
        // A bit that no child has would make a proof that fails; it is detected here before seconds are spent on
        // the proof.
        let missing =
            |x: &usize| statement.bitfield[*x] && !children.iter().any(|child| child.bitfield[*x]);
        if (0..statement.bitfield.len()).any(|x| missing(&x)) {
            return Err(ProveError::Statement(VerifyError::Children));
        }
        let verified = self.hints(statement, children);
        let prover = self.prover(exec, Some(registry), known);
        let elements = prover.prove(preset, &verified, &statement.bitfield)?;
        Ok(MergeProof {
            level: statement.level,
            kinds,
            elements,
        })
    }

    fn prover<'b>(
        &'b self,
        exec: Exec<'b>,
        registry: Option<&'b Registry>,
        known: MergeKnown<Fp>,
    ) -> Prover<'b> {
        Prover {
            exec,
            wiring: self.wiring(),
            setting: setting(self.relation()),
            registry,
            known,
        }
    }

    /// The hints for the circuits of a merge's children.
    fn hints(&self, statement: &Statement, children: &[Child<'_>]) -> Vec<Verified> {
        let inputs = self.inputs(statement, statement.level);
        let hints = |child: &Child<'_>| self.hints_of(inputs.clone(), child, &[]);
        children.iter().map(hints).collect()
    }

    /// The hints for the circuit of a child with these inputs; `entries` are those of a bundle proved as a whole.
    fn hints_of(&self, inputs: Vec<Fp>, child: &Child<'_>, entries: &[Statement]) -> Verified {
        let (header, elements) = match child.proof {
            ChildProof::Leaf(proof) => {
                let groups = proof.groups;
                (Header::Leaf { groups }, &proof.elements)
            }
            ChildProof::Merge(proof) => {
                let (level, kinds) = (proof.level, proof.kinds.clone());
                (Header::Merged { level, kinds }, &proof.elements)
            }
            ChildProof::Bundle(proof) => {
                let items: Vec<Item<'_>> = entries.iter().map(Item::Entry).collect();
                let bundled = self.bundled(proof, &items, None);
                (Header::Bundled(bundled), &proof.elements)
            }
            ChildProof::Entry { proof, items, kept } => {
                let bundled = self.bundled(proof, items, Some(kept));
                (Header::Bundled(bundled), &proof.elements)
            }
        };
        Verified {
            hints: Hints {
                inputs,
                words: bitfield_words(child.bitfield),
                header,
            },
            elements: elements.clone(),
            bits: child.bitfield.to_vec(),
        }
    }

    /// Verifies a proof of a statement.
    ///
    /// # Errors
    /// [`VerifyError`] of the first check that fails.
    pub fn verify(
        &self,
        exec: Exec<'_>,
        preset: &Preset,
        registry: &Registry,
        statement: &Statement,
        proof: &MergeProof,
    ) -> Result<(), VerifyError> {
        // All checks that need no circuits come first, because the circuits may not exist yet.
        check_tree(statement.level, proof.kinds.len())?;
        check_statement(self.relation(), statement)?;
        if statement.level != proof.level {
            return Err(VerifyError::Level);
        }
        // At most, not exactly: paths that share nodes are shorter. Reading ends in `finish`, which rejects
        // leftover elements.
        let most = self.elements(preset, Form::Merge, &proof.kinds);
        check_length(&proof.elements, most)?;
        check_registry(self.relation(), registry, &statement.bitfield)?;
        let known = self.known(statement, &proof.kinds)?;
        let numbers = self.dimensions.slice_numbers(proof.kinds.len());
        let arith = Native::on(exec.backend(), &proof.elements);
        let (channel, outputs) = read_merge(arith, self.relation().id, preset, &numbers, &known)?;
        channel.arith.finish()?;
        if registry.at(exec, &outputs.registry_at) != outputs.registry {
            return Err(VerifyError::Registry);
        }
        let bits = crate::proof::bits(&statement.bitfield);
        if PublicPoint::new(&outputs.bitfield_at).value(exec, &bits) != outputs.bitfield {
            return Err(VerifyError::Bitfield);
        }
        let (row, cell) = (&outputs.wiring_row, &outputs.wiring_cell);
        match self.wiring().at(exec, row, cell) == outputs.wiring {
            true => Ok(()),
            false => Err(VerifyError::Wiring),
        }
    }
}

/// Checks that a proof has no more elements than it can have.
fn check_length(elements: &[Fp], want: usize) -> Result<(), VerifyError> {
    match elements.len() {
        got if got <= want => Ok(()),
        got => Err(VerifyError::Length { want, got }),
    }
}
