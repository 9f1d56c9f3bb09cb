//! Proofs that many validators signed. Signatures become openings of their set's relation in
//! [`alphorn_stark::chains`]; the verifier computes everything else it needs itself.
//!
//! A statement is (set, slot, message, registry, number of the registry, bitfield). The verifier holds the
//! registry's keys and computes the commitment from them. Relation, preset, number of groups and length follow
//! from the set, the choice of preset and the proof's header, which is compared byte by byte. So a proof contains
//! nothing but the values of the argument.

mod bundle;
mod error;
mod evidence;
mod merge;
mod registry;
mod relation;
#[cfg(test)]
mod tests;

use alphorn_exec::{Backend, Exec};
use alphorn_stark::merge::is_merge;
use alphorn_stark::proof::{
    PartSize, SuccinctProof, header_bytes, prove_succinct, succinct_elements, succinct_parts,
    verify_succinct,
};
use alphorn_stark::security;
use alphorn_stark::statement::Statement;
use alphorn_types::Bitfield;

pub use alphorn_stark::whir::Preset;
pub use bundle::{BundleEntry, BundleShape};
pub use error::{ProofError, ProveError};
pub use evidence::{EVIDENCE_BYTES_MAX, EvidenceError, EvidencePart, preset_of_evidence};
pub use merge::{MergeShape, ProofPart};
pub use registry::ProofRegistry;
use relation::SetRelation;

use crate::params::Set;
use crate::signature::Signature;
use crate::verify::{Item, verify_batch};

/// The named presets.
pub const PRESETS: [Preset; 2] = [Preset::FAST, Preset::SMALL];

/// Offset of the preset's number in a proof's header.
// After four magic bytes and the relation.
const PRESET_AT: usize = 5;

/// The preset named in a proof's header.
pub(crate) fn preset_of(proof: &[u8]) -> Option<Preset> {
    let id = proof.get(PRESET_AT)?;
    PRESETS.into_iter().find(|p| p.id == u32::from(*id))
}

/// Proofs of one set under one preset.
#[derive(Clone, Copy, Debug)]
pub struct Proofs {
    set: Set,
    preset: Preset,
    chains: &'static SetRelation,
}

/// One signer of a proof: a member of a registry and its signature.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The member's position in the registry.
    pub position: u32,
    /// Its signature.
    pub signature: &'a Signature,
}

/// What is public about a proof in addition to the registry.
#[derive(Clone, Copy, Debug)]
pub struct Claimed<'a> {
    /// The slot, which is the one-time index of all signatures.
    pub slot: u32,
    /// The 32-byte digest that was signed.
    pub message: &'a [u8; 32],
    /// The signers, by position in the registry.
    pub signers: &'a Bitfield,
}

/// The sizes of the parts of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofSizes {
    /// Number of groups of 64 signatures, the last one padded.
    pub groups: usize,
    /// Number of committed slices of 2^16 elements.
    pub slices: usize,
    /// Maximum number of field elements, 31 bits each.
    pub elements: usize,
    /// Number of bytes before the elements.
    pub header_bytes: usize,
    /// Maximum size in bytes.
    pub bytes: usize,
    /// Number of cells of the instances.
    pub cells: usize,
    /// Number of permutations that are proved.
    pub permutations: usize,
    /// Number of fractions on the bus.
    pub fractions: usize,
}

/// Errors with the positions of the signatures that do not hold.
fn all_hold(signed: &[Signed<'_>], holds: Vec<bool>) -> Result<(), ProveError> {
    let bad = signed.iter().zip(holds).filter(|(_, holds)| !holds);
    let positions: Vec<u32> = bad.map(|(s, _)| s.position).collect();
    match positions.is_empty() {
        true => Ok(()),
        false => Err(ProveError::InvalidSignatures { positions }),
    }
}

impl Proofs {
    /// The proofs of a set.
    pub fn new(set: Set, preset: Preset) -> Proofs {
        Proofs {
            set,
            preset,
            chains: SetRelation::of(set),
        }
    }

    /// Proofs of up to 11,328 signatures of the compact set, for measuring their cost only; they are not evidence
    /// of any message.
    pub fn wide() -> Proofs {
        Proofs {
            set: Set::Compact,
            preset: Preset::WIDE,
            chains: SetRelation::wide(),
        }
    }

    /// The set.
    pub fn set(&self) -> Set {
        self.set
    }

    /// The preset.
    pub fn preset(&self) -> &Preset {
        &self.preset
    }

    /// Number of signatures in a group. A proof of fewer is padded and costs as much.
    pub fn group(&self) -> usize {
        self.chains.relation().lanes()
    }

    /// Number of slices of 2^16 elements that a group commits to.
    pub(crate) fn group_slices(&self) -> usize {
        self.chains.relation().group_slices()
    }

    /// Maximum number of signatures in a proof.
    pub fn signatures_max(&self) -> usize {
        self.chains.relation().groups_max() * self.group()
    }

    /// Maximum number of keys in a registry.
    pub fn registry_max(&self) -> usize {
        1 << self.chains.relation().column_log2()
    }

    /// The sizes of a proof of this many signatures. Elements and bytes are upper bounds, because data shared by
    /// opened rows is sent once.
    pub fn sizes(&self, signatures: usize) -> ProofSizes {
        let (relation, groups) = (self.chains.relation(), signatures.div_ceil(self.group()));
        let elements = succinct_elements(relation, &self.preset, groups);
        let slices = relation.slices(groups);
        let header_bytes = header_bytes(relation, groups);
        let instances = groups * self.group();
        ProofSizes {
            cells: instances * relation.cells,
            permutations: instances * relation.permutations(),
            fractions: relation.fractions(groups),
            groups,
            slices,
            elements,
            header_bytes,
            bytes: header_bytes + (31 * elements).div_ceil(8),
        }
    }

    /// The parts that follow the header in a proof of this many signatures.
    pub fn parts(&self, signatures: usize) -> Vec<PartSize> {
        let groups = signatures.div_ceil(self.group());
        succinct_parts(self.chains.relation(), &self.preset, groups)
    }

    /// The error of each step, computed from the sizes.
    pub fn security(&self) -> security::Table {
        security::succinct_table(self.chains.relation(), &self.preset)
    }

    /// Proves that members of a registry signed, each once; positions ascend. Building the witness verifies every
    /// signature, and invalid ones are reported before anything is proved. The watch of `exec` is checked before
    /// every task and can stop the proof.
    ///
    /// # Errors
    /// [`ProveError`].
    pub fn prove(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        slot: u32,
        message: &[u8; 32],
        signed: &[Signed<'_>],
    ) -> Result<Vec<u8>, ProveError> {
        let (got, max) = (signed.len(), self.signatures_max());
        if got > max {
            return Err(ProveError::Signatures { got, max });
        }
        // Only here, because evidence checks all signers once before it divides them.
        self.check_members(registry, signed)?;
        self.prove_members(exec, registry, slot, message, signed)
    }

    /// Proves signatures that passed [`Proofs::check_members`].
    fn prove_members(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        slot: u32,
        message: &[u8; 32],
        signed: &[Signed<'_>],
    ) -> Result<Vec<u8>, ProveError> {
        let mut signers = Bitfield::new(registry.len());
        signed.iter().for_each(|s| signers.set(s.position as usize));
        let claimed = Claimed {
            slot,
            message,
            signers: &signers,
        };
        // Something that cannot be an opening of the set.
        let params = self.set.params();
        let fits = |s: &Signed<'_>| s.signature.set == self.set;
        if u64::from(slot) >= params.lifetime() || !signed.iter().all(fits) {
            self.admit(exec, registry, slot, message, signed)?;
        }
        exec.step("witness")?;
        let statement = self.statement(exec.backend(), registry, &claimed);
        let message = &statement.message;
        let opened = self.chains.opened(exec, slot, message, registry, signed)?;
        all_hold(signed, opened.holds)?;
        let public = self.chains.public(&statement, registry.rows());
        let relation = self.chains.relation();
        let proof = prove_succinct(exec, relation, &self.preset, &public, &opened.witness)?;
        Ok(proof.to_bytes(relation, &self.preset))
    }

    /// Whether these are members of a registry of the set, in order.
    fn check_members(
        &self,
        registry: &ProofRegistry,
        signed: &[Signed<'_>],
    ) -> Result<(), ProveError> {
        if registry.set() != self.set {
            return Err(ProveError::RegistrySet {
                got: registry.set(),
                want: self.set,
            });
        }
        if signed.is_empty() {
            return Err(ProveError::Empty);
        }
        if let Some(pair) = signed.windows(2).find(|p| p[0].position >= p[1].position) {
            return Err(ProveError::Order {
                before: pair[0].position,
                position: pair[1].position,
            });
        }
        let size = registry.len();
        match signed.iter().find(|s| s.position as usize >= size) {
            Some(Signed { position, .. }) => Err(ProveError::NotAMember {
                position: *position,
                size,
            }),
            None => Ok(()),
        }
    }

    /// Whether all signatures hold, for signatures that are proved in several proofs or have no cells.
    fn admit(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        slot: u32,
        message: &[u8; 32],
        signed: &[Signed<'_>],
    ) -> Result<(), ProveError> {
        let mut items = Vec::with_capacity(signed.len());
        for Signed {
            position,
            signature,
        } in signed
        {
            let key = registry.key(*position).ok_or(ProveError::NotAMember {
                position: *position,
                size: registry.len(),
            })?;
            items.push(Item {
                key,
                index: slot,
                message,
                signature,
            });
        }
        exec.step("admission")?;
        let verdicts = verify_batch(self.set, &items, exec);
        exec.go_on()?;
        all_hold(signed, verdicts)
    }

    /// Verifies a proof that exactly the named members of a registry signed.
    ///
    /// # Errors
    /// [`ProofError`] of the first check that fails.
    pub fn verify(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        claimed: &Claimed<'_>,
        bytes: &[u8],
    ) -> Result<(), ProofError> {
        self.check_claim(registry, claimed)?;
        if is_merge(bytes) {
            return self.verify_merge(exec, registry, claimed, bytes);
        }
        let proof = self.decode(bytes)?;
        // More groups would prove the same, so they must be as few as possible for a proof to have one form.
        let groups = claimed.signers.count_ones().div_ceil(self.group());
        if proof.groups != groups {
            return Err(ProofError::Groups {
                got: proof.groups,
                want: groups,
            });
        }
        let statement = self.statement(exec.backend(), registry, claimed);
        let public = self.chains.public(&statement, registry.rows());
        let relation = self.chains.relation();
        verify_succinct(exec, relation, &self.preset, &public, &proof)?;
        Ok(())
    }

    /// Whether the claim is consistent with the registry.
    fn check_claim(
        &self,
        registry: &ProofRegistry,
        claimed: &Claimed<'_>,
    ) -> Result<(), ProofError> {
        if registry.set() != self.set {
            return Err(ProofError::RegistrySet {
                got: registry.set(),
                want: self.set,
            });
        }
        let (got, want) = (claimed.signers.len(), registry.len());
        if got != want {
            return Err(ProofError::Bitfield { got, want });
        }
        // No key has such an index, and signatures with it are rejected as well.
        let end = self.set.params().lifetime();
        if u64::from(claimed.slot) >= end {
            let got = claimed.slot;
            return Err(ProofError::Slot { got, end });
        }
        match claimed.signers.none() {
            true => Err(ProofError::EmptySet),
            false => Ok(()),
        }
    }

    /// Decodes the elements of a proof; does not check whether they prove anything.
    ///
    /// # Errors
    /// [`ProofError::Decode`].
    pub fn decode(&self, bytes: &[u8]) -> Result<SuccinctProof, ProofError> {
        let relation = self.chains.relation();
        Ok(SuccinctProof::from_bytes(relation, &self.preset, bytes)?)
    }

    fn statement(
        &self,
        backend: Backend,
        registry: &ProofRegistry,
        claimed: &Claimed<'_>,
    ) -> Statement {
        let hashed = self.set.instance().message(backend, claimed.message);
        // As long as a column of the relation, whatever the registry's size. Positions without a key are never set.
        let mut bitfield = vec![false; self.registry_max()];
        claimed.signers.iter_ones().for_each(|i| bitfield[i] = true);
        Statement {
            set: self.chains.relation().id,
            slot: claimed.slot,
            message: hashed[..self.chains.message_elements()].to_vec(),
            committee: registry.number(),
            level: 0,
            registry: *registry.commitment(),
            bitfield,
        }
    }
}
