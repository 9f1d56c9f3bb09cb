//! What the circuit of a child gets in addition to the proof that it verifies.

use super::ChildKind;
use crate::extension::Ext;
use crate::field::Fp;
use crate::hash::Digest;

/// The hints that a circuit gets about a child, in addition to its proof.
#[derive(Clone, Debug)]
pub(super) struct Hints {
    /// The inputs: public values, registry, committee, level of the parent, digest of the circuits, whether a
    /// bundle is proved as a whole, and the digest of the bitfield if a bundle states it.
    pub(super) inputs: Vec<Fp>,
    /// The words of its bitfield.
    pub(super) words: Vec<Fp>,
    /// The contents of the child's header.
    pub(super) header: Header,
}

/// The contents of a child's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// A proof of instances, with its number of groups.
    Leaf {
        /// Number of groups of instances.
        groups: usize,
    },
    /// A merge.
    Merged {
        /// Its level.
        level: u32,
        /// The kind of each of its children.
        kinds: Vec<ChildKind>,
    },
    /// A bundle: as a whole, or one entry of it.
    Bundled(Bundled),
}

impl Header {
    /// The number of the circuit that verifies such proofs.
    pub(super) fn circuit(&self) -> usize {
        match self {
            Header::Leaf { .. } => ChildKind::Leaf.circuit(),
            Header::Merged { .. } => ChildKind::Merge.circuit(),
            Header::Bundled(_) => ChildKind::Bundle.circuit(),
        }
    }
}

/// The contents of a bundle's header, and the additional hints for the circuit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bundled {
    /// Its level.
    pub(super) level: u32,
    /// The kind of each of its children.
    pub(super) kinds: Vec<ChildKind>,
    /// The items it lists.
    pub(super) listed: Vec<ListedChild>,
    /// The entry that is kept; ignored if the bundle is proved as a whole.
    pub(super) kept: Kept,
    /// The remaining registry claims of its entries if it is proved as a whole, otherwise those of the bundle in
    /// it that has the entry.
    pub(super) left: Vec<Ext>,
}

/// The data that a bundle lists for a child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListedChild {
    /// The inputs of its circuit from the first public value to the committee.
    pub(super) inputs: Vec<Fp>,
    /// The digest of its bitfield.
    pub(super) bitfield: Digest,
}

/// The entry of a bundle that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// The child that has it.
    pub(super) child: usize,
    /// If that child is a bundle, all its entries as it lists them, and the index of the one kept.
    pub(super) entries: Vec<Digest>,
    pub(super) entry: usize,
}
