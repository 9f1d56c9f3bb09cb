//! Proofs that many XMSS keys signed, and their merges.

use alphorn_bindings::Error;
use alphorn_bindings::proofs::{Members, Part, preset_of};
use alphorn_bindings::xmss::{public_key_bytes, set_of, signature_bytes};

use super::context::alphorn_context;
use super::memory::{alphorn_bytes, array_at, free, items_at, object_at, records_at};
use super::outcome::{alphorn_error, alphorn_status, number, object, status};
use super::watch::{alphorn_watch, watch_at};
use super::xmss::ALPHORN_XMSS_MESSAGE_BYTES;

/// The fast prover, whose proofs can be merged.
pub const ALPHORN_PRESET_FAST: u32 = 1;
/// A smaller proof for four times the work; it cannot be merged.
pub const ALPHORN_PRESET_SMALL: u32 = 2;

/// The keys of a committee, with the commitment to them that provers and verifiers share.
pub struct alphorn_members(Members);

/// A proof with the members who signed, as it is merged.
#[repr(C)]
pub struct alphorn_proof_part {
    /// (n + 7) / 8 bytes for a committee of n: bit i % 8 of byte i / 8 is set if position i signed.
    pub signers: *const u8,
    /// Bytes of the signers.
    pub signers_len: usize,
    /// The proof.
    pub proof: *const u8,
    /// Its bytes.
    pub proof_len: usize,
}

/// The committee of these XMSS keys, in the order of their positions. `number` tells the committees of an
/// epoch apart: a proof for one is none for another. Free it with alphorn_members_free.
///
/// # Safety
/// `context`: a handle. `keys`: `count` times alphorn_xmss_public_key_bytes of the set. `error`: NULL, or
/// room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_members_new(
    context: *const alphorn_context,
    set: u32,
    preset: u32,
    keys: *const u8,
    count: usize,
    number: u32,
    error: *mut alphorn_error,
) -> *mut alphorn_members {
    let run = || {
        let (set, preset) = (set_of(set)?, preset_of(preset)?);
        // SAFETY: `context` is a handle.
        let context = unsafe { object_at(context, "context") }?;
        // SAFETY: `keys` leads to a public key of the set for each.
        let keys = unsafe { records_at(keys, count, public_key_bytes(set), "keys") }?;
        Ok(alphorn_members(Members::new(
            &context.0, set, preset, keys, number,
        )?))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Signatures that one proof takes at most; 0 for NULL.
///
/// # Safety
/// `members`: a handle, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_members_signatures_max(members: *const alphorn_members) -> usize {
    number(0, || {
        // SAFETY: `members` is a handle or NULL.
        let members = unsafe { object_at(members, "members") }?;
        Ok(members.0.signatures_max())
    })
}

/// Signatures at most of a proof that can be merged; 0 for NULL.
///
/// # Safety
/// `members`: a handle, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_members_mergeable_max(members: *const alphorn_members) -> usize {
    number(0, || {
        // SAFETY: `members` is a handle or NULL.
        let members = unsafe { object_at(members, "members") }?;
        Ok(members.0.mergeable_max())
    })
}

/// Bytes at most of a proof of so many signatures, or of a merge for 0; 0 for NULL.
///
/// # Safety
/// `members`: a handle, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_members_proof_bytes_max(
    members: *const alphorn_members,
    signatures: usize,
) -> usize {
    number(0, || {
        // SAFETY: `members` is a handle or NULL.
        let members = unsafe { object_at(members, "members") }?;
        let signatures = (signatures > 0).then_some(signatures);
        Ok(members.0.proof_bytes_max(signatures))
    })
}

/// Proves that members signed a message in a slot. Positions ascend; the signatures are theirs, one after
/// the other. Free the proof with alphorn_bytes_free.
///
/// # Safety
/// `members`: a handle. `message`: 32 bytes. `positions`: `count` items. `signatures`: `count` times
/// alphorn_xmss_signature_bytes of the members' set. `watch`: NULL, or
/// one that stays as it is. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_prove(
    members: *const alphorn_members,
    slot: u32,
    message: *const u8,
    positions: *const u32,
    signatures: *const u8,
    count: usize,
    watch: *const alphorn_watch,
    error: *mut alphorn_error,
) -> *mut alphorn_bytes {
    let run = || {
        // SAFETY: `members` is a handle.
        let members = unsafe { object_at(members, "members") }?;
        // SAFETY: `message` leads to 32 bytes.
        let message = unsafe { array_at::<ALPHORN_XMSS_MESSAGE_BYTES>(message, "message") }?;
        // SAFETY: `positions` leads to as many items as `count` says.
        let positions = unsafe { items_at(positions, count, "positions") }?;
        let size = signature_bytes(members.0.set());
        // SAFETY: `signatures` leads to a signature of the members' set for each.
        let signatures = unsafe { records_at(signatures, count, size, "signatures") }?;
        // SAFETY: `watch` is NULL or leads to one.
        let watch = unsafe { watch_at(watch) };
        let proof = members
            .0
            .prove(slot, message, positions, signatures, watch)?;
        Ok(alphorn_bytes::from(proof))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Merges proofs of one slot and message to one proof of all their signers, who may overlap. The first
/// merge of a process takes some seconds more. Free the proof with alphorn_bytes_free.
///
/// # Safety
/// `members`: a handle. `message`: 32 bytes. `parts`: `count` items, whose pointers lead to as many bytes
/// as they say. `watch`: NULL, or one that stays as it is. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_merge(
    members: *const alphorn_members,
    slot: u32,
    message: *const u8,
    parts: *const alphorn_proof_part,
    count: usize,
    watch: *const alphorn_watch,
    error: *mut alphorn_error,
) -> *mut alphorn_bytes {
    let run = || {
        // SAFETY: `members` is a handle.
        let members = unsafe { object_at(members, "members") }?;
        // SAFETY: `message` leads to 32 bytes.
        let message = unsafe { array_at::<ALPHORN_XMSS_MESSAGE_BYTES>(message, "message") }?;
        // SAFETY: `parts` leads to as many items as `count` says.
        let parts = unsafe { items_at(parts, count, "parts") }?;
        // SAFETY: the pointers of each lead to as many bytes as it says.
        let parts = parts.iter().map(|part| unsafe { part_at(part) });
        let parts = parts.collect::<Result<Vec<Part<'_>>, Error>>()?;
        // SAFETY: `watch` is NULL or leads to one.
        let watch = unsafe { watch_at(watch) };
        Ok(alphorn_bytes::from(
            members.0.merge(slot, message, &parts, watch)?,
        ))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// The part of a structure.
///
/// # Safety
/// Its pointers are NULL or lead to as many bytes as it says.
unsafe fn part_at(part: &alphorn_proof_part) -> Result<Part<'_>, Error> {
    // SAFETY: as the caller promises.
    let signers = unsafe { items_at(part.signers, part.signers_len, "signers") }?;
    // SAFETY: as the caller promises.
    let proof = unsafe { items_at(part.proof, part.proof_len, "proof") }?;
    Ok(Part { signers, proof })
}

/// ALPHORN_OK if the proof, merged or not, shows that exactly the signers signed the message in the slot.
///
/// # Safety
/// `members`: a handle. `message`: 32 bytes. `signers`: `signers_len` bytes. `proof`: `proof_len` bytes.
/// `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_proof_verify(
    members: *const alphorn_members,
    slot: u32,
    message: *const u8,
    signers: *const u8,
    signers_len: usize,
    proof: *const u8,
    proof_len: usize,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `members` is a handle.
        let members = unsafe { object_at(members, "members") }?;
        // SAFETY: `message` leads to 32 bytes.
        let message = unsafe { array_at::<ALPHORN_XMSS_MESSAGE_BYTES>(message, "message") }?;
        // SAFETY: `signers` leads to as many bytes as its length says.
        let signers = unsafe { items_at(signers, signers_len, "signers") }?;
        // SAFETY: `proof` leads to as many bytes as its length says.
        let proof = unsafe { items_at(proof, proof_len, "proof") }?;
        members.0.verify(slot, message, signers, proof)
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Frees them; nothing for NULL.
///
/// # Safety
/// `members`: a handle, which is of no use afterwards, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_members_free(members: *mut alphorn_members) {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { free(members) }
}
