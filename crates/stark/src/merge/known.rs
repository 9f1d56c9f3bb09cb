//! What the verifier of a proof of proofs knows before it reads, and what it leaves to check.

use std::ops::Add;

use super::layout::{CELLS_LOG2, Dimensions, REGISTRY_LOG2, WIRING_LOG2};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::hash::{DIGEST, Digest};
use crate::merkle::chain;
use crate::transcript::tag;

/// How a proof unites its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Children share one statement except for their bitfields, whose union is stated.
    Merge,
    /// Each child has a statement of its own.
    Bundle,
}

impl Form {
    /// Its number in transcripts and headers.
    pub(super) fn number(self) -> u8 {
        match self {
            Form::Merge => 1,
            Form::Bundle => 2,
        }
    }
}

/// The data known to the verifier of a proof of proofs.
#[derive(Clone, Debug)]
pub(super) struct MergeKnown<B> {
    /// How it unites its children.
    pub(super) form: Form,
    /// The sizes that follow from the relation.
    pub(super) dimensions: Dimensions,
    /// The digest of the statement, or of all statements of a bundle.
    pub(super) digest: [B; DIGEST],
    /// For each possible child, 1 if it is present and 0 if not; present ones come first.
    pub(super) used: Vec<B>,
    /// For each child: 1 if it is a merge, 0 if not.
    pub(super) merged: Vec<B>,
    /// For each child: 1 if it is a bundle, 0 if not.
    pub(super) bundled: Vec<B>,
    /// The digest of the circuits.
    pub(super) key: [B; DIGEST],
    /// The inputs of the children's circuits: for a merge one list shared by all children, for a bundle one list
    /// for each child.
    pub(super) inputs: Vec<Vec<B>>,
}

impl<B: Copy + Add<Output = B>> MergeKnown<B> {
    /// For each child: 1 if it leaves a claim on the wiring, 0 if not.
    pub(super) fn wired(&self) -> Vec<B> {
        let kinds = self.merged.iter().zip(&self.bundled);
        kinds.map(|(merged, bundled)| *merged + *bundled).collect()
    }

    /// The header in the form absorbed: number of children, how they are united, and their kinds.
    pub(super) fn header(&self, constant: impl Fn(Fp) -> B) -> [B; DIGEST] {
        let mut block = [constant(Fp::ZERO); DIGEST];
        // Element 0 stays zero: it is the number of groups in the header of a leaf.
        block[1] = self.used.iter().fold(block[1], |sum, used| sum + *used);
        block[2] = constant(Fp::new(u32::from(self.form.number())));
        // The flags of each kind, as the bits of a number.
        for (at, flags) in [(3, &self.merged), (4, &self.bundled)] {
            let bits = flags.iter().rev();
            block[at] = bits.fold(block[at], |sum, flag| sum + sum + *flag);
        }
        block
    }
}

/// The first block of a transcript.
pub(super) fn parameters(relation: u32, preset: u32, form: Form) -> [Fp; DIGEST] {
    let mut block = [Fp::ZERO; DIGEST];
    block[0] = Fp::new(relation);
    block[1] = Fp::new(preset);
    block[2] = Fp::new(u32::from(form.number()));
    block
}

/// The values that a proof leaves to check, as public values of a circuit: each a point and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a public value that is not checked proves nothing"]
pub(super) struct Outputs<E> {
    /// A point of the registry: of its rows, then of its columns.
    pub(super) registry_at: Vec<E>,
    pub(super) registry: E,
    /// A point of the bitfield.
    pub(super) bitfield_at: Vec<E>,
    pub(super) bitfield: E,
    /// A point of the wiring: of its rows, and of cells.
    pub(super) wiring_row: Vec<E>,
    pub(super) wiring_cell: Vec<E>,
    pub(super) wiring: E,
}

impl<E: Copy> Outputs<E> {
    /// All elements in order.
    pub(super) fn list(&self) -> Vec<E> {
        let mut list = self.registry_at.clone();
        list.push(self.registry);
        list.extend(&self.bitfield_at);
        list.push(self.bitfield);
        list.extend(&self.wiring_row);
        list.extend(&self.wiring_cell);
        list.push(self.wiring);
        list
    }

    /// The outputs from exactly as many elements as there are.
    pub(super) fn of_list(list: &[E]) -> Outputs<E> {
        // Taken apart from the end, because only the registry's point in front depends on the relation.
        let wiring_at = list.len() - (WIRING_LOG2 + CELLS_LOG2 + 1);
        let (rest, wiring) = list.split_at(wiring_at);
        let (registry, bitfield) = rest.split_at(wiring_at - (REGISTRY_LOG2 + 1));
        Outputs {
            registry_at: registry[..registry.len() - 1].to_vec(),
            registry: registry[registry.len() - 1],
            bitfield_at: bitfield[..REGISTRY_LOG2].to_vec(),
            bitfield: bitfield[REGISTRY_LOG2],
            wiring_row: wiring[..WIRING_LOG2].to_vec(),
            wiring_cell: wiring[WIRING_LOG2..][..CELLS_LOG2].to_vec(),
            wiring: wiring[WIRING_LOG2 + CELLS_LOG2],
        }
    }
}

/// The remaining claim on a registry: a point of its rows, then of its columns, and the value there.
pub(super) type RegistryAt<E> = (Vec<E>, E);

/// The first block of the chain over the remaining claims of a bundle's registries, which have this many elements.
pub(super) fn left_start(left: usize) -> Digest {
    let mut start = [Fp::ZERO; DIGEST];
    start[..2].copy_from_slice(&[tag(b"left"), Fp::new(left as u32)]);
    start
}

/// Number of extension elements that represent a digest.
pub(super) const DIGEST_EXTS: usize = DIGEST.div_ceil(DEGREE);

/// The digest of the remaining claims on a bundle's registries, as the elements that its circuit outputs.
pub(super) fn left_digest(left: &[Ext]) -> [Ext; DIGEST_EXTS] {
    let elements: Vec<Fp> = left.iter().flat_map(|x| x.0).collect();
    let blocks = elements.chunks(DIGEST);
    let blocks = blocks.map(|b| std::array::from_fn(|i| b.get(i).copied().unwrap_or_default()));
    let digest = chain(left_start(left.len()), blocks);
    let element = |k: usize| digest.get(k).copied().unwrap_or_default();
    std::array::from_fn(|i| Ext(std::array::from_fn(|t| element(i * DEGREE + t))))
}

/// The values that a bundle leaves to check: for each child a point of its registry and the value there, or for a
/// bundle the digest of its claims in place of the first elements of the point; and the wiring.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a public value that is not checked proves nothing"]
pub(super) struct BundleOutputs<E> {
    pub(super) registries: Vec<RegistryAt<E>>,
    /// A point of the wiring: of its rows, and of cells.
    pub(super) wiring_row: Vec<E>,
    pub(super) wiring_cell: Vec<E>,
    pub(super) wiring: E,
}
