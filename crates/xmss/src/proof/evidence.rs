//! Proofs as evidence: one proof, or a list of proofs with disjoint supports if one cannot hold all signers.
//!
//! Tag 1, followed by a proof. Tag 2, followed for each part by the Rice code of its support over the registry
//! (which is self-delimiting), the length of its proof (u32, little-endian) and the proof. There are as few parts
//! as the signers need, in the order of their first signers. Tag 3, followed by a merge of proofs, of any number
//! of signers.

use alphorn_exec::Exec;
use alphorn_scheme::list::{TAG_MERGE, TAG_PROOF, TAG_PROOFS};
use alphorn_types::support_code::{CellBounds, Reference, SupportCode, code_bytes_max};
use alphorn_types::{Bitfield, Coding, DecodeError, Reader, Support};
use thiserror::Error;

use super::{
    Claimed, Preset, ProofError, ProofPart, ProofRegistry, Proofs, ProveError, Signed, preset_of,
};
use alphorn_stark::merge::is_merge;

/// Maximum size in bytes of evidence for a whole registry, for any set and preset.
pub const EVIDENCE_BYTES_MAX: usize = 8 << 20;

/// The preset of evidence over a registry of this many keys, as named by its first proof. None if there is no
/// proof, or its preset is unknown.
pub fn preset_of_evidence(registry: usize, bytes: &[u8]) -> Option<Preset> {
    let (tag, rest) = bytes.split_first()?;
    match *tag {
        TAG_PROOF => preset_of(rest),
        // Only proofs with this preset are merged.
        TAG_MERGE => Some(Preset::FAST),
        TAG_PROOFS => {
            let (cells, mut reader) = (cells(registry), Reader::new(rest));
            code(&cells).decode_prefix(&mut reader).ok()?;
            reader.u32().ok()?;
            preset_of(reader.rest())
        }
        _ => None,
    }
}

/// Why evidence is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvidenceError {
    /// The first byte is not the tag required for this number of signers, that of a proof or that of a list of
    /// proofs; none if there is no byte.
    #[error("evidence of {signers} signers begins with {got:?}, must begin with {want}")]
    Tag {
        /// The byte.
        got: Option<u8>,
        /// The tag for this number of signers.
        want: u8,
        /// Number of claimed signers.
        signers: usize,
    },
    /// A merge after the tag of proofs, or another proof after the tag of merges.
    #[error("part {part} is of another kind than its tag says")]
    Kind {
        /// The part.
        part: usize,
    },
    /// The bytes do not decode to parts.
    #[error("part {part}: {error}")]
    Decode {
        /// The part.
        part: usize,
        /// What is wrong.
        error: DecodeError,
    },
    /// The signers of a part are empty, too many for a proof, not after those of the previous part, already in
    /// another part, or not among the signers of the whole.
    #[error("part {part} has wrong signers")]
    Signers {
        /// The part.
        part: usize,
    },
    /// The parts do not cover all signers.
    #[error("{missing} signers are in no part")]
    Missing {
        /// Number of missing signers.
        missing: usize,
    },
    /// A proof is rejected.
    #[error("part {part}: {error}")]
    Proof {
        /// The part.
        part: usize,
        /// The reason.
        error: ProofError,
    },
}

/// A proof within evidence, with its signers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidencePart<'a> {
    /// The signers, over the whole registry.
    pub signers: Bitfield,
    /// The bytes of the proof, not yet examined.
    pub proof: &'a [u8],
}

/// A single cell, the whole registry.
fn cells(registry: usize) -> CellBounds {
    CellBounds::one(registry as u32)
}

fn code(cells: &CellBounds) -> SupportCode<'_> {
    SupportCode::new(Coding::Rice, 1, cells, Reference::None)
}

impl Proofs {
    /// Maximum size in bytes of evidence for up to this many signers.
    pub(crate) fn evidence_bytes_max(&self, signers: usize) -> usize {
        let parts = signers.div_ceil(self.signatures_max()).max(1);
        let (one, two) = (self.sizes(1).bytes, self.sizes(self.group() + 1).bytes);
        // One more group costs the same anywhere, except for the bits that pad the last byte; k signers have ⌊(k −
        // 1) / 64⌋ groups in addition to the first.
        let groups = signers.saturating_sub(parts) / self.group() * (two - one + 1);
        let supports = match parts {
            1 => 0,
            parts => parts * (code_bytes_max(self.registry_max(), 1) + size_of::<u32>()),
        };
        (1 + supports + parts * one + groups).max(1 + self.merge_bytes_max())
    }

    /// Proves that members of a registry signed, for any number of signers: see [`Proofs::prove`].
    ///
    /// # Errors
    /// [`ProveError`], except for too many signers.
    pub fn prove_evidence(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        slot: u32,
        message: &[u8; 32],
        signed: &[Signed<'_>],
    ) -> Result<Vec<u8>, ProveError> {
        self.check_members(registry, signed)?;
        let prove =
            |signed: &[Signed<'_>]| self.prove_members(exec, registry, slot, message, signed);
        if signed.len() <= self.signatures_max() {
            return Ok([vec![TAG_PROOF], prove(signed)?].concat());
        }
        // All signatures are verified before the first proof is made.
        self.admit(exec, registry, slot, message, signed)?;
        let mut bytes = vec![TAG_PROOFS];
        let cells = cells(registry.len());
        for signed in signed.chunks(self.signatures_max()) {
            let mut signers = Bitfield::new(registry.len());
            signed.iter().for_each(|s| signers.set(s.position as usize));
            bytes.extend(code(&cells).encode(&Support::from_bits(signers)));
            let proof = prove(signed)?;
            bytes.extend((proof.len() as u32).to_le_bytes());
            bytes.extend(proof);
        }
        Ok(bytes)
    }

    /// Merges evidence over one statement, with signers that may overlap, into evidence for their union: see
    /// [`Proofs::merge`], whose parts are all proofs of all pieces in order.
    ///
    /// # Errors
    /// [`ProveError`]; [`ProveError::Evidence`] for a piece that does not decode to proofs.
    pub fn merge_evidence(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        slot: u32,
        message: &[u8; 32],
        pieces: &[(&Bitfield, &[u8])],
    ) -> Result<Vec<u8>, ProveError> {
        let mut parts = Vec::new();
        for (piece, (signers, bytes)) in pieces.iter().enumerate() {
            let refused = |error| ProveError::Evidence {
                piece,
                error: Box::new(error),
            };
            parts.extend(self.evidence_parts(signers, bytes).map_err(refused)?);
        }
        let parts: Vec<ProofPart<'_>> = parts
            .iter()
            .map(|part| ProofPart {
                signers: &part.signers,
                proof: part.proof,
            })
            .collect();
        let proof = self.merge(exec, registry, slot, message, &parts)?;
        Ok([vec![TAG_MERGE], proof].concat())
    }

    /// Verifies evidence that exactly the named members of a registry signed. Parts are verified on all threads.
    ///
    /// # Errors
    /// [`EvidenceError`] of the first part that is wrong.
    pub fn verify_evidence(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        claimed: &Claimed<'_>,
        bytes: &[u8],
    ) -> Result<(), EvidenceError> {
        let refused = |part, error| EvidenceError::Proof { part, error };
        self.check_claim(registry, claimed)
            .map_err(|error| refused(0, error))?;
        let parts = self.evidence_parts(claimed.signers, bytes)?;
        let verdicts = exec.map(parts.len(), |part| {
            let claimed = Claimed {
                signers: &parts[part].signers,
                ..*claimed
            };
            self.verify(exec, registry, &claimed, parts[part].proof)
                .map_err(|error| refused(part, error))
        });
        verdicts.into_iter().collect()
    }

    /// The parts of evidence for exactly these signers. Only supports are copied, and the registry bounds their
    /// size.
    ///
    /// # Errors
    /// [`EvidenceError`], except for a proof that does not hold.
    pub fn evidence_parts<'a>(
        &self,
        signers: &Bitfield,
        bytes: &'a [u8],
    ) -> Result<Vec<EvidencePart<'a>>, EvidenceError> {
        let count = signers.count_ones();
        // Each proof has one tag: a merge after the tag of proofs, or a proof after the tag of merges, would
        // encode the same claim in other bytes.
        if let Some((&TAG_MERGE, proof)) = bytes.split_first() {
            if !is_merge(proof) {
                return Err(EvidenceError::Kind { part: 0 });
            }
            return Ok(vec![EvidencePart {
                signers: signers.clone(),
                proof,
            }]);
        }
        let want = match count <= self.signatures_max() {
            true => TAG_PROOF,
            false => TAG_PROOFS,
        };
        let Some((_, rest)) = bytes.split_first().filter(|(tag, _)| **tag == want) else {
            return Err(EvidenceError::Tag {
                got: bytes.first().copied(),
                want,
                signers: count,
            });
        };
        if want == TAG_PROOF {
            if is_merge(rest) {
                return Err(EvidenceError::Kind { part: 0 });
            }
            return Ok(vec![EvidencePart {
                signers: signers.clone(),
                proof: rest,
            }]);
        }
        let cells = cells(signers.len());
        let mut reader = Reader::new(rest);
        let mut parts: Vec<EvidencePart<'a>> = Vec::new();
        let mut left = signers.clone();
        for part in 0..count.div_ceil(self.signatures_max()) {
            let at = |error| EvidenceError::Decode { part, error };
            let support = code(&cells).decode_prefix(&mut reader).map_err(at)?;
            let own = support.signers();
            let before = parts
                .last()
                .and_then(|last| last.signers.iter_ones().next());
            let fits = (1..=self.signatures_max()).contains(&own.count_ones());
            if !fits || own.iter_ones().next() <= before || !own.is_subset_of(&left) {
                return Err(EvidenceError::Signers { part });
            }
            left.subtract(&own);
            let max = self.sizes(own.count_ones()).bytes;
            let proof = reader.bytes_u32_prefixed(max).map_err(at)?;
            if is_merge(proof) {
                return Err(EvidenceError::Kind { part });
            }
            parts.push(EvidencePart {
                signers: own,
                proof,
            });
        }
        let last = parts.len().saturating_sub(1);
        let at = |error| EvidenceError::Decode { part: last, error };
        reader.finish().map_err(at)?;
        match left.count_ones() {
            0 => Ok(parts),
            missing => Err(EvidenceError::Missing { missing }),
        }
    }
}

#[cfg(test)]
mod tests;
