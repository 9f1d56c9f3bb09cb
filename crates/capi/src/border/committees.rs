//! Registries of BLS keys, committees, collections.

use alphorn_bindings::committees::{Collection, Committees, Registry, Verdict};
use alphorn_bindings::{Code, Error};

use super::bls::{ALPHORN_BLS_PUBLIC_KEY_BYTES, ALPHORN_BLS_SIGNATURE_BYTES};
use super::context::alphorn_context;
use super::memory::{free, give_bytes, items_at, object_at, records_at};
use super::outcome::{alphorn_error, alphorn_status, number, object, status};

/// The public keys of all validators, in the order of their indices.
pub struct alphorn_bls_registry(Registry);

/// The committees of an epoch: keys in committee order, ready to be summed.
pub struct alphorn_committees(Committees);

/// Who of a committee signed what, and the sum of their signatures.
#[repr(C)]
pub struct alphorn_collection {
    /// Number of the committee.
    pub committee: usize,
    /// One to four planes of (n + 7) / 8 bytes for a committee of n: bit i % 8 of byte i / 8 of plane j is
    /// bit j of how often position i signed. One plane is a plain bitfield.
    pub signers: *const u8,
    /// Bytes of all planes.
    pub signers_len: usize,
    /// What all of them signed.
    pub message: *const u8,
    /// Its bytes.
    pub message_len: usize,
    /// The sum: 96 bytes.
    pub signature: *const u8,
}

/// The collection holds.
pub const ALPHORN_VERDICT_VALID: u8 = 0;
/// There is no such committee, or the signers do not fit it.
pub const ALPHORN_VERDICT_SIGNERS: u8 = 1;
/// The signature does not decode.
pub const ALPHORN_VERDICT_DECODE: u8 = 2;
/// Nobody signed, or the signers' keys cancel.
pub const ALPHORN_VERDICT_KEY_AT_INFINITY: u8 = 3;
/// The signature does not hold.
pub const ALPHORN_VERDICT_SIGNATURE: u8 = 4;

const _: () = assert!(
    ALPHORN_VERDICT_VALID == Verdict::Valid as u8
        && ALPHORN_VERDICT_SIGNERS == Verdict::Signers as u8
        && ALPHORN_VERDICT_DECODE == Verdict::Decode as u8
        && ALPHORN_VERDICT_KEY_AT_INFINITY == Verdict::KeyAtInfinity as u8
        && ALPHORN_VERDICT_SIGNATURE == Verdict::Signature as u8
);

/// Decodes every key, refuses duplicates, and verifies every proof of possession. Free it with
/// alphorn_bls_registry_free.
///
/// # Safety
/// `context`: a handle. `keys`: `count` times 48 bytes. `proofs`: `count` times 96 bytes. `error`: NULL,
/// or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_registry_new(
    context: *const alphorn_context,
    keys: *const u8,
    proofs: *const u8,
    count: usize,
    error: *mut alphorn_error,
) -> *mut alphorn_bls_registry {
    let run = || {
        // SAFETY: `context` is a handle.
        let context = unsafe { object_at(context, "context") }?;
        // SAFETY: `keys` leads to 48 bytes for each.
        let keys = unsafe { records_at(keys, count, ALPHORN_BLS_PUBLIC_KEY_BYTES, "keys") }?;
        // SAFETY: `proofs` leads to 96 bytes for each.
        let proofs = unsafe { records_at(proofs, count, ALPHORN_BLS_SIGNATURE_BYTES, "proofs") }?;
        Ok(alphorn_bls_registry(Registry::new(
            &context.0, keys, proofs,
        )?))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// The same of keys whose proofs of possession were verified before: those of a chain's deposits, or of a
/// registry that was saved. A key that was never proven lets its owner forge collections.
///
/// # Safety
/// `context`: a handle. `keys`: `count` times 48 bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_registry_proven(
    context: *const alphorn_context,
    keys: *const u8,
    count: usize,
    error: *mut alphorn_error,
) -> *mut alphorn_bls_registry {
    let run = || {
        // SAFETY: `context` is a handle.
        let context = unsafe { object_at(context, "context") }?;
        // SAFETY: `keys` leads to 48 bytes for each.
        let keys = unsafe { records_at(keys, count, ALPHORN_BLS_PUBLIC_KEY_BYTES, "keys") }?;
        Ok(alphorn_bls_registry(Registry::proven(&context.0, keys)?))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Writes SHA-256 of the concatenated keys.
///
/// # Safety
/// `registry`: a handle. `digest`: room for 32 bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_registry_digest(
    registry: *const alphorn_bls_registry,
    digest: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `registry` is a handle.
        let registry = unsafe { object_at(registry, "registry") }?;
        // SAFETY: `digest` has room for 32 bytes.
        unsafe { give_bytes(digest, 32, registry.0.digest(), "digest") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Frees it; nothing for NULL. Committees that were made of it go on.
///
/// # Safety
/// `registry`: a handle, which is of no use afterwards, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_registry_free(registry: *mut alphorn_bls_registry) {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { free(registry) }
}

/// Makes committees of the given sizes. `members` are indices of the registry, committee after committee;
/// with NULL and 0 the committees are the registry's keys in their order. Free them with
/// alphorn_committees_free.
///
/// # Safety
/// `registry`: a handle. `members`: `members_len` items, or NULL. `sizes`: `count` items. `error`: NULL,
/// or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_committees_new(
    registry: *const alphorn_bls_registry,
    members: *const u32,
    members_len: usize,
    sizes: *const usize,
    count: usize,
    error: *mut alphorn_error,
) -> *mut alphorn_committees {
    let run = || {
        // SAFETY: `registry` is a handle.
        let registry = unsafe { object_at(registry, "registry") }?;
        let given = !members.is_null() || members_len > 0;
        // SAFETY: `members` leads to as many items as its length says.
        let members = unsafe { items_at(members, members_len, "members") }?;
        // SAFETY: `sizes` leads to as many items as `count` says.
        let sizes = unsafe { items_at(sizes, count, "sizes") }?;
        let members = given.then_some(members);
        Ok(alphorn_committees(Committees::new(
            &registry.0,
            members,
            sizes,
        )?))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Members of a committee; 0 if there is no such committee.
///
/// # Safety
/// `committees`: a handle, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_committees_size(
    committees: *const alphorn_committees,
    committee: usize,
) -> usize {
    number(0, || {
        // SAFETY: `committees` is a handle or NULL.
        let committees = unsafe { object_at(committees, "committees") }?;
        Ok(committees.0.size(committee).unwrap_or(0))
    })
}

/// Sums the signers' keys, each as often as it signed: the sum of their signatures holds under that key.
///
/// # Safety
/// `committees`: a handle. `signers`: `signers_len` bytes, as in alphorn_collection. `key`: room for 48
/// bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_committees_sum(
    committees: *const alphorn_committees,
    committee: usize,
    signers: *const u8,
    signers_len: usize,
    key: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `committees` is a handle.
        let committees = unsafe { object_at(committees, "committees") }?;
        // SAFETY: `signers` leads to as many bytes as its length says.
        let signers = unsafe { items_at(signers, signers_len, "signers") }?;
        let sum = committees.0.sum(committee, signers)?;
        // SAFETY: `key` has room for 48 bytes.
        unsafe { give_bytes(key, sum.len(), &sum, "key") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Verifies collections in one test, and looks for the bad ones only if it fails. ALPHORN_OK if all hold,
/// ALPHORN_ERROR_INVALID if one does not: `verdicts` has an ALPHORN_VERDICT for each then. Other errors
/// leave it as it was.
///
/// # Safety
/// `committees`: a handle. `collections`: `count` items, whose pointers lead to as many bytes as they say.
/// `verdicts`: NULL, or room for `count` bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_committees_verify(
    committees: *const alphorn_committees,
    collections: *const alphorn_collection,
    count: usize,
    verdicts: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `committees` is a handle.
        let committees = unsafe { object_at(committees, "committees") }?;
        // SAFETY: `collections` leads to as many items as `count` says.
        let collections = unsafe { items_at(collections, count, "collections") }?;
        // SAFETY: the pointers of each lead to as many bytes as it says.
        let items = collections
            .iter()
            .map(|item| unsafe { collection_at(item) });
        let items = items.collect::<Result<Vec<Collection<'_>>, Error>>()?;
        let found: Vec<u8> = committees
            .0
            .verify(&items)?
            .iter()
            .map(|&found| found as u8)
            .collect();
        if !verdicts.is_null() {
            // SAFETY: `verdicts` has room for as many bytes as `count` says.
            unsafe { give_bytes(verdicts, count, &found, "verdicts") }?;
        }
        let bad = found
            .iter()
            .position(|&found| found != ALPHORN_VERDICT_VALID);
        match bad {
            None => Ok(()),
            Some(first) => {
                let message = format!("collection {first} does not hold: verdict {}", found[first]);
                Err(Error::new(Code::Invalid, message))
            }
        }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// The collection of a structure.
///
/// # Safety
/// Its pointers are NULL or lead to as many bytes as it says.
unsafe fn collection_at(item: &alphorn_collection) -> Result<Collection<'_>, Error> {
    // SAFETY: as the caller promises.
    let signers = unsafe { items_at(item.signers, item.signers_len, "signers") }?;
    // SAFETY: as the caller promises.
    let message = unsafe { items_at(item.message, item.message_len, "message") }?;
    let size = ALPHORN_BLS_SIGNATURE_BYTES;
    // SAFETY: a signature has 96 bytes, as the caller promises.
    let signature = unsafe { items_at(item.signature, size, "signature") }?;
    Ok(Collection {
        committee: item.committee,
        signers,
        message,
        signature,
    })
}

/// Frees them; nothing for NULL.
///
/// # Safety
/// `committees`: a handle, which is of no use afterwards, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_committees_free(committees: *mut alphorn_committees) {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { free(committees) }
}
