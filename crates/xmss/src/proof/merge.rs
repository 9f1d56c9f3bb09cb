//! Merging of proofs into one proof of the union of their signers: see [`alphorn_stark::merge`].

use std::ops::Range;
use std::sync::LazyLock;

use alphorn_exec::Exec;
use alphorn_stark::merge::{
    CHILDREN_MAX, Child, ChildKind, ChildProof, LEVEL_MAX, Merges, is_merge,
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
    Merge(alphorn_stark::merge::MergeProof),
}

impl Decoded {
    pub(super) fn child(&self) -> ChildProof<'_> {
        match self {
            Decoded::Leaf(proof) => ChildProof::Leaf(proof),
            Decoded::Merge(proof) => ChildProof::Merge(proof),
        }
    }
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
        if parts.is_empty() {
            return Err(ProveError::Empty);
        }
        if parts.len() <= CHILDREN_MAX {
            return self
                .merge_once(exec, registry, slot, message, parts, 0)
                .map(|(_, bytes)| bytes);
        }
        let mut merged = Vec::new();
        // Each group becomes one proof, and those are merged in the same way: one level for a factor of seven.
        for group in groups(parts.len()) {
            let first = group.start;
            merged.push(self.merge_once(exec, registry, slot, message, &parts[group], first)?);
        }
        let parts: Vec<ProofPart<'_>> = merged
            .iter()
            .map(|(signers, proof)| ProofPart { signers, proof })
            .collect();
        self.merge(exec, registry, slot, message, &parts)
    }

    /// Merges few proofs, numbered from the given first one; returns the union with the bytes.
    fn merge_once(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        slot: u32,
        message: &[u8; 32],
        parts: &[ProofPart<'_>],
        first: usize,
    ) -> Result<(Bitfield, Vec<u8>), ProveError> {
        let merges = self.merges().ok_or(ProveError::Unmergeable)?;
        let mut signers = Bitfield::new(registry.len());
        let mut decoded = Vec::with_capacity(parts.len());
        for (i, part) in parts.iter().enumerate() {
            let refused = |error| ProveError::Part {
                part: first + i,
                error,
            };
            let claimed = Claimed {
                slot,
                message,
                signers: part.signers,
            };
            self.check_claim(registry, &claimed).map_err(refused)?;
            part.signers.iter_ones().for_each(|i| signers.set(i));
            decoded.push(self.decode_part(merges, part).map_err(refused)?);
        }
        let level = decoded.iter().map(|proof| proof.child().level()).max();
        // Above the highest child: the circuit requires each child's level to be lower.
        let level = level.unwrap_or_default() + 1;
        if level > LEVEL_MAX {
            return Err(ProveError::Levels { max: LEVEL_MAX });
        }
        let claimed = Claimed {
            slot,
            message,
            signers: &signers,
        };
        let mut statement = self.statement(exec.backend(), registry, &claimed);
        statement.level = level;
        let bits = |part: &ProofPart<'_>| {
            let mut bits = vec![false; self.registry_max()];
            part.signers.iter_ones().for_each(|i| bits[i] = true);
            bits
        };
        let bitfields: Vec<Vec<bool>> = parts.iter().map(bits).collect();
        let children: Vec<Child<'_>> = decoded
            .iter()
            .zip(&bitfields)
            .map(|(proof, bitfield)| Child {
                proof: proof.child(),
                bitfield,
            })
            .collect();
        let preset = &Preset::MERGE;
        let proved = merges.prove(exec, preset, registry.rows(), &statement, &children);
        let proof = proved.map_err(|error| match error {
            alphorn_stark::ProveError::Child { child, error } => ProveError::Part {
                part: first + child,
                error: error.into(),
            },
            error => error.into(),
        })?;
        Ok((signers, merges.to_bytes(preset, &proof)))
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
