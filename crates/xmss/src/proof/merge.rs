//! Merging of proofs into one proof of the union of their signers: see [`alphorn_stark::merge`].

use std::ops::Range;
use std::sync::LazyLock;

use alphorn_exec::Exec;
use alphorn_stark::merge::{
    CHILDREN_MAX, Child, ChildKind, ChildProof, LEVEL_MAX, MergeProof, Merges, is_merge,
};
use alphorn_stark::proof::SuccinctProof;
use alphorn_types::Bitfield;

use super::relation::SetRelation;
use super::{Claimed, Preset, ProofError, ProofRegistry, Proofs, ProveError};
use crate::params::Set;

static COMPACT: LazyLock<Merges<'static>> = LazyLock::new(|| of_set(Set::Compact));
static PROD: LazyLock<Merges<'static>> = LazyLock::new(|| of_set(Set::Prod));
static TEST: LazyLock<Merges<'static>> = LazyLock::new(|| of_set(Set::Test));

fn of_set(set: Set) -> Merges<'static> {
    Merges::new(SetRelation::of(set).statements())
}

/// A proof with the registry members that it claims signed.
#[derive(Clone, Copy, Debug)]
pub struct ProofPart<'a> {
    /// The signers.
    pub signers: &'a Bitfield,
    /// The bytes of the proof.
    pub proof: &'a [u8],
}

/// The contents of a merge's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeShape {
    /// Its level: 1 above leaves.
    pub level: u32,
    /// The kind of each of its children.
    pub kinds: Vec<ChildKind>,
    /// Number of field elements, 31 bits each.
    pub elements: usize,
}

/// A decoded proof.
pub(super) enum Decoded {
    Leaf(SuccinctProof),
    Merge(MergeProof),
}

impl Decoded {
    pub(super) fn child(&self) -> ChildProof<'_> {
        match self {
            Decoded::Leaf(proof) => ChildProof::Leaf(proof),
            Decoded::Merge(proof) => ChildProof::Merge(proof),
        }
    }
}

/// A proof to be merged, with its signers.
struct Piece {
    signers: Bitfield,
    proof: Decoded,
}

impl Piece {
    fn level(&self) -> u32 {
        self.proof.child().level()
    }
}

/// The level of a merge of proofs with these levels: above the highest, as the circuit requires each child's level to be
/// lower.
fn level_above(levels: &[u32]) -> u32 {
    levels.iter().max().copied().unwrap_or_default() + 1
}

/// Divides this many proofs into as few groups as possible, of nearly equal size, so that no group has a single
/// proof.
pub(super) fn groups(proofs: usize) -> impl Iterator<Item = Range<usize>> {
    let groups = proofs.div_ceil(CHILDREN_MAX);
    let end = move |group: usize| proofs * group / groups;
    (0..groups).map(move |group| end(group)..end(group + 1))
}

impl Proofs {
    /// Maximum number of signatures in a proof that can be merged.
    pub fn mergeable_max(&self) -> usize {
        self.merges()
            .map_or(0, |merges| merges.leaf_groups_max() * self.group())
    }

    /// Maximum number of proofs in one merge; more are merged level by level.
    pub fn children_max(&self) -> usize {
        CHILDREN_MAX
    }

    /// The shape of an encoded merge, without verifying it; none if the bytes are another kind of proof.
    ///
    /// # Errors
    /// [`ProofError::Decode`], [`ProofError::Unmergeable`].
    pub fn merge_shape(&self, bytes: &[u8]) -> Result<Option<MergeShape>, ProofError> {
        if !is_merge(bytes) {
            return Ok(None);
        }
        let merges = self.merges().ok_or(ProofError::Unmergeable)?;
        let proof = merges.from_bytes(&Preset::MERGE, bytes)?;
        Ok(Some(MergeShape {
            level: proof.level,
            kinds: proof.kinds,
            elements: proof.elements.len(),
        }))
    }

    /// The error of each step of a merge, computed from the sizes; none for the wide shape, which does not merge.
    pub fn merge_security(&self) -> Option<alphorn_stark::security::Table> {
        let (relation, preset) = (self.chains.relation(), &Preset::MERGE);
        self.mergeable()
            .then(|| alphorn_stark::security::merge_table(relation, preset))
    }

    /// Maximum size of a merge in bytes.
    pub fn merge_bytes_max(&self) -> usize {
        self.merges()
            .map_or(0, |merges| merges.bytes_max(&Preset::MERGE))
    }

    /// Whether proofs of this shape can be merged; those of the wide shape cannot.
    pub fn mergeable(&self) -> bool {
        self.preset.id != Preset::WIDE.id
    }

    /// Builds the circuits of merges, if proofs of this shape can be merged and the circuits do not exist yet.
    /// This takes some seconds and temporarily 220 MB, which otherwise the first merge or bundle of a process
    /// pays.
    pub fn make_circuits(&self) {
        if let Some(merges) = self.merges() {
            merges.make_circuits();
        }
    }

    /// Merges of this set; the circuits are built when a proof needs them. None for the wide shape.
    pub(super) fn merges(&self) -> Option<&'static Merges<'static>> {
        let merges = match self.set {
            Set::Compact => &COMPACT,
            Set::Prod => &PROD,
            Set::Test => &TEST,
        };
        self.mergeable().then(|| &**merges)
    }

    /// Merges proofs over one statement into one proof of the union of their signers, which may overlap. More than
    /// [`Proofs::children_max`] are merged level by level. Parts are proofs of at most [`Proofs::mergeable_max`]
    /// signatures under the preset `fast`, or merges.
    ///
    /// # Errors
    /// [`ProveError::Part`] for a part that does not prove its signers, with its number;
    /// [`ProveError::Unmergeable`] for the wide shape, [`ProveError::Levels`] if the tree would be too high.
    pub fn merge(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        slot: u32,
        message: &[u8; 32],
        parts: &[ProofPart<'_>],
    ) -> Result<Vec<u8>, ProveError> {
        let merges = self.merges().ok_or(ProveError::Unmergeable)?;
        if parts.is_empty() {
            return Err(ProveError::Empty);
        }
        let mut pieces = Vec::with_capacity(parts.len());
        for (i, part) in parts.iter().enumerate() {
            let refused = |error| ProveError::Part { part: i, error };
            let claimed = Claimed {
                slot,
                message,
                signers: part.signers,
            };
            self.check_claim(registry, &claimed).map_err(refused)?;
            pieces.push(Piece {
                signers: part.signers.clone(),
                proof: self.decode_part(merges, part).map_err(refused)?,
            });
        }
        // Known from the levels of the parts, so that nothing is proved in vain.
        let mut levels: Vec<u32> = pieces.iter().map(Piece::level).collect();
        loop {
            let above = groups(levels.len()).map(|group| level_above(&levels[group]));
            levels = above.collect();
            if levels.iter().any(|level| *level > LEVEL_MAX) {
                return Err(ProveError::Levels { max: LEVEL_MAX });
            }
            if levels.len() == 1 {
                break;
            }
        }
        // Each group becomes one proof, and those are merged in the same way: one level for a factor of seven.
        let mut are_parts = true;
        loop {
            let mut merged = Vec::new();
            for group in groups(pieces.len()) {
                let first = group.start;
                let one = self.merge_once(merges, exec, registry, slot, message, &pieces[group]);
                merged.push(one.map_err(|error| match error {
                    // Above the first level the children are proofs made here, not parts of the caller.
                    alphorn_stark::ProveError::Child { child, error } if are_parts => {
                        ProveError::Part {
                            part: first + child,
                            error: error.into(),
                        }
                    }
                    error => error.into(),
                })?);
            }
            if let [(_, proof)] = &merged[..] {
                return Ok(merges.to_bytes(&Preset::MERGE, proof));
            }
            let piece = |(signers, proof)| Piece {
                signers,
                proof: Decoded::Merge(proof),
            };
            pieces = merged.into_iter().map(piece).collect();
            are_parts = false;
        }
    }

    /// Merges few proofs; returns the union of their signers with the proof.
    fn merge_once(
        &self,
        merges: &Merges<'_>,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        slot: u32,
        message: &[u8; 32],
        pieces: &[Piece],
    ) -> Result<(Bitfield, MergeProof), alphorn_stark::ProveError> {
        let mut signers = Bitfield::new(registry.len());
        for piece in pieces {
            piece.signers.iter_ones().for_each(|i| signers.set(i));
        }
        let claimed = Claimed {
            slot,
            message,
            signers: &signers,
        };
        let mut statement = self.statement(exec.backend(), registry, &claimed);
        let levels: Vec<u32> = pieces.iter().map(Piece::level).collect();
        statement.level = level_above(&levels);
        let bits = |piece: &Piece| {
            let mut bits = vec![false; self.registry_max()];
            piece.signers.iter_ones().for_each(|i| bits[i] = true);
            bits
        };
        let bitfields: Vec<Vec<bool>> = pieces.iter().map(bits).collect();
        let children: Vec<Child<'_>> = pieces
            .iter()
            .zip(&bitfields)
            .map(|(piece, bitfield)| Child {
                proof: piece.proof.child(),
                bitfield,
            })
            .collect();
        let preset = &Preset::MERGE;
        let proof = merges.prove(exec, preset, registry.rows(), &statement, &children)?;
        Ok((signers, proof))
    }

    pub(super) fn decode_part(
        &self,
        merges: &Merges<'_>,
        part: &ProofPart<'_>,
    ) -> Result<Decoded, ProofError> {
        if is_merge(part.proof) {
            return Ok(Decoded::Merge(
                merges.from_bytes(&Preset::MERGE, part.proof)?,
            ));
        }
        // A larger proof may hold, but no circuit reads it.
        let (got, max) = (part.signers.count_ones(), self.mergeable_max());
        if got > max {
            return Err(ProofError::TooLarge { got, max });
        }
        let relation = self.chains.relation();
        let proof = SuccinctProof::from_bytes(relation, &Preset::FAST, part.proof)?;
        Ok(Decoded::Leaf(proof))
    }

    /// Verifies a merge.
    pub(super) fn verify_merge(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        claimed: &Claimed<'_>,
        bytes: &[u8],
    ) -> Result<(), ProofError> {
        let merges = self.merges().ok_or(ProofError::Unmergeable)?;
        let proof = merges.from_bytes(&Preset::MERGE, bytes)?;
        let mut statement = self.statement(exec.backend(), registry, claimed);
        statement.level = proof.level;
        merges.verify(exec, &Preset::MERGE, registry.rows(), &statement, &proof)?;
        Ok(())
    }
}
