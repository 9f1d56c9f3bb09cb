//! Proofs that many XMSS keys of a committee signed one message in one slot, and proofs merged to one.

use alphorn_exec::Watch;
use alphorn_types::Bitfield;
use alphorn_xmss::{
    Claimed, PRESETS, Preset, ProofPart, ProofRegistry, Proofs, PublicKey, Set, Signature, Signed,
};

use crate::context::watched;
use crate::xmss::{digest, public_key_bytes, signature_bytes};
use crate::{Code, Context, Error};

/// Maximum number of proofs merged by one call.
pub const PARTS_MAX: usize = 64;

/// The keys of a committee, and the commitment to them that provers and verifiers share.
pub struct Members {
    context: Context,
    proofs: Proofs,
    registry: ProofRegistry,
}

/// A proof and the members who signed, as input to a merge.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// ⌈n/8⌉ bytes: bit i mod 8 of byte i / 8 is set if position i signed.
    pub signers: &'a [u8],
    /// The bytes of the proof.
    pub proof: &'a [u8],
}

/// The preset with this number: 1 `fast`, whose proofs can be merged, 2 `small`.
///
/// # Errors
/// [`Code::Argument`] for any other number.
pub fn preset_of(number: u32) -> Result<Preset, Error> {
    let found = PRESETS.into_iter().find(|preset| preset.id == number);
    found.ok_or_else(|| {
        let message = format!("preset {number}, must be 1 (fast) or 2 (small)");
        Error::new(Code::Argument, message)
    })
}

impl Members {
    /// The keys of a committee of a set, concatenated in order of their positions. `number` distinguishes the
    /// committees of an epoch: a proof for one is not valid for another.
    ///
    /// # Errors
    /// [`Code::Argument`] for a wrong length, more keys than a proof has room for or a number that is not below
    /// p = 2^31 − 2^24 + 1, [`Code::Decode`] for a key that does not decode.
    pub fn new(
        context: &Context,
        set: Set,
        preset: Preset,
        keys: &[u8],
        number: u32,
    ) -> Result<Members, Error> {
        let (proofs, size) = (Proofs::new(set, preset), public_key_bytes(set));
        let most = size * proofs.registry_max();
        if keys.is_empty() || !keys.len().is_multiple_of(size) || keys.len() > most {
            let want = format!("a multiple of {size} from {size} to {most}");
            return Err(Error::length("public keys", keys.len(), want));
        }
        let keys = keys.chunks_exact(size);
        let keys = keys.map(|key| PublicKey::from_bytes(set, key));
        let keys = keys.collect::<Result<Vec<PublicKey>, _>>()?;
        let registry = proofs.registry(context.stark(), keys, number)?;
        Ok(Members {
            context: context.clone(),
            proofs,
            registry,
        })
    }

    /// The set of its keys.
    pub fn set(&self) -> Set {
        self.proofs.set()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.registry.len()
    }

    /// Returns whether there are no keys; there is always at least one.
    pub fn is_empty(&self) -> bool {
        self.registry.is_empty()
    }

    /// Maximum number of signatures in one proof.
    pub fn signatures_max(&self) -> usize {
        self.proofs.signatures_max()
    }

    /// Maximum number of signatures in a proof that can be merged.
    pub fn mergeable_max(&self) -> usize {
        self.proofs.mergeable_max()
    }

    /// Maximum size in bytes of a proof of this many signatures, or of a merge for `None`.
    pub fn proof_bytes_max(&self, signatures: Option<usize>) -> usize {
        match signatures {
            Some(signatures) => {
                self.proofs
                    .sizes(signatures.min(self.signatures_max()))
                    .bytes
            }
            None => self.proofs.merge_bytes_max(),
        }
    }

    /// Proves that members signed a message in a slot. `positions` ascend, and `signatures` are theirs,
    /// concatenated.
    ///
    /// # Errors
    /// [`Code::Argument`] for positions or lengths that do not fit, [`Code::Decode`] and [`Code::Invalid`] for
    /// bad signatures, [`Code::Stopped`].
    pub fn prove(
        &self,
        slot: u32,
        message: &[u8],
        positions: &[u32],
        signatures: &[u8],
        watch: Option<&dyn Watch>,
    ) -> Result<Vec<u8>, Error> {
        let (set, message) = (self.proofs.set(), digest(message)?);
        let (got, max) = (positions.len(), self.signatures_max());
        if got > max {
            let message = format!("{got} signatures, a proof takes at most {max}");
            return Err(Error::new(Code::Argument, message));
        }
        let size = signature_bytes(set);
        if signatures.len() != size * got {
            return Err(Error::length("signatures", signatures.len(), size * got));
        }
        let decoded = signatures.chunks_exact(size);
        let decoded = decoded.map(|bytes| Signature::from_bytes(set, bytes));
        let decoded = decoded.collect::<Result<Vec<Signature>, _>>()?;
        let signed = positions.iter().zip(&decoded);
        let signed: Vec<Signed<'_>> = signed
            .map(|(&position, signature)| Signed {
                position,
                signature,
            })
            .collect();
        let exec = watched(self.context.stark(), watch);
        Ok((self.proofs).prove(exec, &self.registry, slot, message, &signed)?)
    }

    /// Merges proofs of one slot and message into one proof of all their signers, who may overlap. The first
    /// merge of a process takes some seconds longer.
    ///
    /// # Errors
    /// [`Code::Argument`] for no parts, more than [`PARTS_MAX`], or signers that do not fit; [`Code::Decode`]
    /// and [`Code::Invalid`] for a part that is not a proof; [`Code::Stopped`].
    pub fn merge(
        &self,
        slot: u32,
        message: &[u8],
        parts: &[Part<'_>],
        watch: Option<&dyn Watch>,
    ) -> Result<Vec<u8>, Error> {
        let (got, message) = (parts.len(), digest(message)?);
        if got > PARTS_MAX {
            let message = format!("{got} proofs, at most {PARTS_MAX} are merged in a call");
            return Err(Error::new(Code::Argument, message));
        }
        let signers = parts.iter().map(|part| self.signers(part.signers));
        let signers = signers.collect::<Result<Vec<Bitfield>, Error>>()?;
        let parts = parts.iter().zip(&signers);
        let parts: Vec<ProofPart<'_>> = parts
            .map(|(part, signers)| ProofPart {
                signers,
                proof: part.proof,
            })
            .collect();
        let exec = watched(self.context.stark(), watch);
        Ok((self.proofs).merge(exec, &self.registry, slot, message, &parts)?)
    }

    /// Verifies a proof, merged or not, that exactly these signers signed the message in the slot.
    ///
    /// # Errors
    /// [`Code::Invalid`] if it does not verify, [`Code::Decode`] if the bytes are not a proof,
    /// [`Code::Argument`] for signers or a message that do not fit.
    pub fn verify(
        &self,
        slot: u32,
        message: &[u8],
        signers: &[u8],
        proof: &[u8],
    ) -> Result<(), Error> {
        let claimed = Claimed {
            slot,
            message: digest(message)?,
            signers: &self.signers(signers)?,
        };
        Ok((self.proofs).verify(self.context.stark(), &self.registry, &claimed, proof)?)
    }

    fn signers(&self, bytes: &[u8]) -> Result<Bitfield, Error> {
        Ok(Bitfield::from_bytes(bytes, self.len())?)
    }
}
