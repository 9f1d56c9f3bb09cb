//! Proofs as the evidence of aggregates in files.
//!
//! The registry of a proof is the public key file that the aggregate names. If the aggregate lists its
//! signers, they are the registry, and all of them signed. Its number is 0.

use super::statement::{Entry, ToMerge, ToProve};
use crate::error::{Error, Result};
use alphorn_exec::Exec;
use alphorn_types::{Bitfield, Support};
use alphorn_xmss::{
    BundleEntry, Claimed, Preset, ProofError, ProofRegistry, Proofs, ProveError, PublicKey, Set,
    Signature, Signed, preset_of_evidence,
};
use anyhow::anyhow;
use std::collections::BTreeMap;
use std::path::Path;

/// The number of all registries in files.
pub(super) const NUMBER: u32 = 0;

/// Proves signatures. The caller has verified them, to report the bad files.
pub(super) fn prove(
    proofs: &Proofs,
    exec: Exec<'_>,
    what: &ToProve<'_, PublicKey>,
) -> Result<Vec<u8>> {
    let (slot, message) = signed(what.slot, what.message, proofs.set()).map_err(|e| anyhow!(e))?;
    let registry = proofs.registry(exec, what.registry.to_vec(), NUMBER)?;
    let decode = |bytes: &&[u8]| Signature::from_bytes(proofs.set(), bytes);
    let signatures: Vec<Signature> = what
        .signatures
        .iter()
        .map(decode)
        .collect::<std::result::Result<_, _>>()?;
    let positions = what.support.iter().map(|(position, _)| position as u32);
    let signed: Vec<Signed<'_>> = positions
        .zip(&signatures)
        .map(|(position, signature)| Signed {
            position,
            signature,
        })
        .collect();
    let evidence = proofs
        .prove_evidence(exec, &registry, slot, message, &signed)
        .map_err(|error| match error {
            ProveError::InvalidSignatures { .. } => Error::Check(error.to_string()),
            error => anyhow!(error).into(),
        })?;
    let signers = what.support.signers();
    let claimed = Claimed {
        slot,
        message,
        signers: &signers,
    };
    // A wrong proof would be noticed only by its recipient, and by then its signatures are gone.
    proofs
        .verify_evidence(exec, &registry, &claimed, &evidence)
        .map_err(|refused| Error::Check(format!("the new aggregate: {refused}")))?;
    Ok(evidence)
}

/// Rejects a proof of preset `small`, which no circuit verifies. It can be proved again with preset `fast`.
pub(super) fn check_fast(path: &Path, registry: usize, evidence: &[u8]) -> Result<()> {
    match preset_of_evidence(registry, evidence) {
        Some(preset) if preset == Preset::SMALL => {
            let what = "preset small; only proofs of preset fast merge";
            Err(anyhow!("{}: {what}", path.display()).into())
        }
        // An unknown preset is rejected with its header.
        _ => Ok(()),
    }
}

/// Merges proofs, all of which are already verified.
pub(super) fn merge(set: Set, exec: Exec<'_>, what: &ToMerge<'_, PublicKey>) -> Result<Vec<u8>> {
    let proofs = Proofs::new(set, Preset::FAST);
    for ((_, evidence), path) in what.pieces.iter().zip(what.paths) {
        check_fast(path, what.registry.len(), evidence)?;
    }
    let (slot, message) = signed(what.slot, what.message, set).map_err(|e| anyhow!(e))?;
    let registry = proofs.registry(exec, what.registry.to_vec(), NUMBER)?;
    let signers: Vec<Bitfield> = what.pieces.iter().map(|(s, _)| s.signers()).collect();
    let pieces: Vec<(&Bitfield, &[u8])> = signers
        .iter()
        .zip(what.pieces)
        .map(|(signers, (_, evidence))| (signers, &evidence[..]))
        .collect();
    let merged = proofs.merge_evidence(exec, &registry, slot, message, &pieces);
    merged.map_err(|error| match &error {
        // An invalid proof is a failed check, not a usage error.
        ProveError::Part {
            part,
            error: refused,
        } if matches!(refused, ProofError::Refused(_)) => {
            let path = what.paths.get(*part).map(|path| path.display().to_string());
            Error::Check(format!("{}: {refused}", path.unwrap_or_default()))
        }
        _ => anyhow!(error).into(),
    })
}

/// Verifies proofs; the registry of the last group is cached for the next claim.
pub(super) struct Verifier<'a> {
    pub(super) set: Set,
    pub(super) exec: Exec<'a>,
    pub(super) registry: Option<(usize, ProofRegistry)>,
}

impl Verifier<'_> {
    /// Whether evidence proves that exactly the support signed; `group` is the index of `keys`.
    pub(super) fn verify(
        &mut self,
        group: usize,
        keys: &[PublicKey],
        support: &Support,
        slot: Option<u64>,
        message: &[u8],
        evidence: &[u8],
    ) -> std::result::Result<(), String> {
        let preset = preset_of_evidence(keys.len(), evidence)
            .ok_or("the evidence begins with no header of a proof")?;
        let proofs = Proofs::new(self.set, preset);
        let (slot, message) = signed(slot, message, self.set)?;
        if self
            .registry
            .as_ref()
            .is_none_or(|(kept, _)| *kept != group)
        {
            let made = proofs.registry(self.exec, keys.to_vec(), NUMBER);
            self.registry = Some((group, made.map_err(|refused| refused.to_string())?));
        }
        let Some((_, registry)) = &self.registry else {
            return Err("no registry".to_owned());
        };
        let signers = support.signers();
        let claimed = Claimed {
            slot,
            message,
            signers: &signers,
        };
        proofs
            .verify_evidence(self.exec, registry, &claimed, evidence)
            .map_err(|refused| refused.to_string())
    }
}

/// Verifies that one proof holds for all entries of a bundle, each given with the index of its keys.
pub(super) fn verify_bundle(
    set: Set,
    exec: Exec<'_>,
    groups: &[Vec<PublicKey>],
    entries: &[(usize, Entry)],
    proof: &[u8],
) -> std::result::Result<(), String> {
    let proofs = Proofs::new(set, Preset::FAST);
    let mut registries = BTreeMap::new();
    for (group, _) in entries {
        if !registries.contains_key(group) {
            let made = proofs.registry(exec, groups[*group].clone(), NUMBER);
            registries.insert(*group, made.map_err(|refused| refused.to_string())?);
        }
    }
    let signers: Vec<Bitfield> = entries.iter().map(|(_, e)| e.support.signers()).collect();
    let mut claims = Vec::with_capacity(entries.len());
    for (i, ((group, entry), signers)) in entries.iter().zip(&signers).enumerate() {
        let spoken = signed(entry.signed.slot, &entry.signed.message.0, set);
        let (slot, message) = spoken.map_err(|why| format!("entry {i}: {why}"))?;
        claims.push(BundleEntry {
            registry: &registries[group],
            claimed: Claimed {
                slot,
                message,
                signers,
            },
        });
    }
    proofs
        .verify_bundle(exec, &claims, proof)
        .map_err(|refused| refused.to_string())
}

/// Builds the statement from slot and message.
pub(super) fn signed(
    slot: Option<u64>,
    message: &[u8],
    set: Set,
) -> std::result::Result<(u32, &[u8; 32]), String> {
    let slot = slot.ok_or("no slot")?;
    let end = set.params().lifetime();
    let index = u32::try_from(slot).ok().filter(|_| slot < end);
    Ok((
        index.ok_or_else(|| format!("slot {slot}: must be below {end}"))?,
        message
            .try_into()
            .map_err(|_| "a message of another length")?,
    ))
}
