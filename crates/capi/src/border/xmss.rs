//! One-time keys, marks and permits.

use std::ffi::c_char;
use std::path::Path;

use alphorn_bindings::xmss::{self, Key, Marks, Permit, Purpose, Set, Vote, set_of};
use alphorn_bindings::{Code, Error};

use super::context::alphorn_context;
use super::memory::{
    alphorn_bytes, array_at, free, give, give_bytes, items_at, object_at, path_at,
};
use super::outcome::{alphorn_error, alphorn_status, number, object, status};
use super::watch::{alphorn_watch, watch_at};

/// Byte-compatible with the production set of the lean consensus specification.
pub const ALPHORN_XMSS_PROD: u32 = 1;
/// Its test set: of no security.
pub const ALPHORN_XMSS_TEST: u32 = 2;
/// Smaller signatures, whose proofs are faster.
pub const ALPHORN_XMSS_COMPACT: u32 = 3;

/// A key for votes: its one-time indices are slots.
pub const ALPHORN_PURPOSE_VOTE: u32 = 0;
/// A key for duties: its one-time indices are 8 * slot + duty.
pub const ALPHORN_PURPOSE_DUTY: u32 = 1;

/// Bytes of a message that is signed: a digest.
pub const ALPHORN_XMSS_MESSAGE_BYTES: usize = 32;
/// Bytes of the seed of a key.
pub const ALPHORN_XMSS_SEED_BYTES: usize = 32;

const _: () = assert!(
    ALPHORN_XMSS_PROD == Set::Prod as u32
        && ALPHORN_XMSS_TEST == Set::Test as u32
        && ALPHORN_XMSS_COMPACT == Set::Compact as u32
        && ALPHORN_PURPOSE_VOTE == Purpose::Vote as u32
        && ALPHORN_PURPOSE_DUTY == Purpose::Duty as u32
        && ALPHORN_XMSS_MESSAGE_BYTES == xmss::MESSAGE_BYTES
        && ALPHORN_XMSS_SEED_BYTES == xmss::SEED_BYTES
);

/// A secret key with the resident part of its tree.
pub struct alphorn_xmss_key(Key);

/// The marks of one key in a file, which no other process can have open. A process that is forked can use none of its
/// parent's: it is refused.
pub struct alphorn_xmss_marks(Marks);

/// The right to make one signature.
pub struct alphorn_xmss_permit(Permit);

/// A signature with what it is said to sign.
#[repr(C)]
pub struct alphorn_xmss_vote {
    /// Whose: alphorn_xmss_public_key_bytes of the set.
    pub public_key: *const u8,
    /// The one-time index: the slot, for votes.
    pub index: u32,
    /// 32 bytes.
    pub message: *const u8,
    /// alphorn_xmss_signature_bytes of the set.
    pub signature: *const u8,
}

fn purpose_of(number: u32) -> Result<Purpose, Error> {
    match number {
        ALPHORN_PURPOSE_VOTE => Ok(Purpose::Vote),
        ALPHORN_PURPOSE_DUTY => Ok(Purpose::Duty),
        _ => {
            let message = format!("purpose {number}, must be 0 (votes) or 1 (duties)");
            Err(Error::new(Code::Argument, message))
        }
    }
}

/// Bytes of a signature of a set; 0 if there is no such set.
#[unsafe(no_mangle)]
pub extern "C" fn alphorn_xmss_signature_bytes(set: u32) -> usize {
    number(0, || Ok(xmss::signature_bytes(set_of(set)?)))
}

/// Bytes of a public key of a set; 0 if there is no such set.
#[unsafe(no_mangle)]
pub extern "C" fn alphorn_xmss_public_key_bytes(set: u32) -> usize {
    number(0, || Ok(xmss::public_key_bytes(set_of(set)?)))
}

/// Makes the key of a secret seed for the one-time indices start to end - 1; its time grows with their
/// number. `watch` may end it. One seed is one key, of one purpose and one range: never make one for votes
/// and one for duties from the same seed, they would use one index twice. Free it with
/// alphorn_xmss_key_free.
///
/// # Safety
/// `context`: a handle. `seed`: 32 bytes. `watch`: NULL, or one that stays as it is. `error`: NULL, or
/// room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_key_generate(
    context: *const alphorn_context,
    set: u32,
    purpose: u32,
    seed: *const u8,
    start: u64,
    end: u64,
    watch: *const alphorn_watch,
    error: *mut alphorn_error,
) -> *mut alphorn_xmss_key {
    let run = || {
        // SAFETY: `context` is a handle.
        let context = unsafe { object_at(context, "context") }?;
        // SAFETY: `seed` leads to 32 bytes.
        let seed = unsafe { array_at::<ALPHORN_XMSS_SEED_BYTES>(seed, "seed") }?;
        // SAFETY: `watch` is NULL or leads to one.
        let watch = unsafe { watch_at(watch) };
        let (set, purpose) = (set_of(set)?, purpose_of(purpose)?);
        let key = Key::generate(&context.0, set, purpose, seed, start..end, watch)?;
        Ok(alphorn_xmss_key(key))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Makes the key of a validator that everyone can compute: for tests and devnets.
///
/// # Safety
/// `context`: a handle. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_key_interop(
    context: *const alphorn_context,
    set: u32,
    purpose: u32,
    validator: u32,
    start: u64,
    end: u64,
    error: *mut alphorn_error,
) -> *mut alphorn_xmss_key {
    let run = || {
        // SAFETY: `context` is a handle.
        let context = unsafe { object_at(context, "context") }?;
        let (set, purpose) = (set_of(set)?, purpose_of(purpose)?);
        let key = Key::interop(&context.0, set, purpose, validator, start..end)?;
        Ok(alphorn_xmss_key(key))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// The key of its two files, as alphorn_xmss_key_secret_file and alphorn_xmss_key_tree_file give them. A
/// tree file that was changed gives another public key: compare it with the one that is known.
///
/// # Safety
/// `context`: a handle. `secret`: `secret_len` bytes. `tree`: `tree_len` bytes. `error`: NULL, or room for
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_key_from_files(
    context: *const alphorn_context,
    secret: *const u8,
    secret_len: usize,
    tree: *const u8,
    tree_len: usize,
    error: *mut alphorn_error,
) -> *mut alphorn_xmss_key {
    let run = || {
        // SAFETY: `context` is a handle.
        let context = unsafe { object_at(context, "context") }?;
        // SAFETY: `secret` leads to as many bytes as its length says.
        let secret = unsafe { items_at(secret, secret_len, "secret") }?;
        // SAFETY: `tree` leads to as many bytes as its length says.
        let tree = unsafe { items_at(tree, tree_len, "tree") }?;
        Ok(alphorn_xmss_key(Key::from_files(&context.0, secret, tree)?))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// The content of the secret file: anyone who reads it can sign. Free it with alphorn_bytes_free.
///
/// # Safety
/// `key`: a handle. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_key_secret_file(
    key: *const alphorn_xmss_key,
    error: *mut alphorn_error,
) -> *mut alphorn_bytes {
    let run = || {
        // SAFETY: `key` is a handle.
        let key = unsafe { object_at(key, "key") }?;
        Ok(alphorn_bytes(key.0.secret_file()))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// The content of the tree file, which is no secret. Free it with alphorn_bytes_free.
///
/// # Safety
/// `key`: a handle. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_key_tree_file(
    key: *const alphorn_xmss_key,
    error: *mut alphorn_error,
) -> *mut alphorn_bytes {
    let run = || {
        // SAFETY: `key` is a handle.
        let key = unsafe { object_at(key, "key") }?;
        Ok(alphorn_bytes::from(key.0.tree_file()))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Writes the public key.
///
/// # Safety
/// `key`: a handle. `public_key`: room for `capacity` bytes, at least alphorn_xmss_public_key_bytes of its
/// set. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_key_public_key(
    key: *const alphorn_xmss_key,
    public_key: *mut u8,
    capacity: usize,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `key` is a handle.
        let key = unsafe { object_at(key, "key") }?;
        // SAFETY: `public_key` has room for as many bytes as `capacity` says.
        unsafe { give_bytes(public_key, capacity, &key.0.public_key(), "public_key") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Wipes and frees it; nothing for NULL.
///
/// # Safety
/// `key`: a handle, which is of no use afterwards, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_key_free(key: *mut alphorn_xmss_key) {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { free(key) }
}

/// The two paths of marks.
///
/// # Safety
/// Both are NULL or lead to strings that end with a zero.
unsafe fn paths_at<'a>(
    path: *const c_char,
    state: *const c_char,
) -> Result<(&'a Path, Option<&'a Path>), Error> {
    // SAFETY: as the caller promises.
    let (path, state) = unsafe { (path_at(path, "path")?, path_at(state, "state")?) };
    let path = path.ok_or_else(|| Error::new(Code::Argument, "path is NULL"))?;
    Ok((path, state))
}

/// Makes the file of a key that signs nothing below slot `floor`; a key that was restored from a backup
/// needs a floor above every slot in which it ever signed. `state` is a folder of this user for a second
/// mark, by which a copy of the first is found out; with NULL nothing protects from copies. Free it with
/// alphorn_xmss_marks_free: until then no other process can open the file.
///
/// # Safety
/// `path`, `state`: strings of UTF-8 that end with a zero; `state` may be NULL. `key`: a handle. `error`:
/// NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_marks_create(
    path: *const c_char,
    state: *const c_char,
    key: *const alphorn_xmss_key,
    floor: u64,
    error: *mut alphorn_error,
) -> *mut alphorn_xmss_marks {
    let run = || {
        // SAFETY: both are strings that end with a zero, or NULL.
        let (path, state) = unsafe { paths_at(path, state) }?;
        // SAFETY: `key` is a handle.
        let key = unsafe { object_at(key, "key") }?;
        Ok(alphorn_xmss_marks(Marks::create(
            path, state, &key.0, floor,
        )?))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Opens the file of a key, and its second mark in the folder `state`. Free it with
/// alphorn_xmss_marks_free.
///
/// # Safety
/// As for alphorn_xmss_marks_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_marks_open(
    path: *const c_char,
    state: *const c_char,
    key: *const alphorn_xmss_key,
    error: *mut alphorn_error,
) -> *mut alphorn_xmss_marks {
    let run = || {
        // SAFETY: both are strings that end with a zero, or NULL.
        let (path, state) = unsafe { paths_at(path, state) }?;
        // SAFETY: `key` is a handle.
        let key = unsafe { object_at(key, "key") }?;
        Ok(alphorn_xmss_marks(Marks::open(path, state, &key.0)?))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Writes the least slot that is free in a role: 0 for votes, 1 to 7 for duties.
///
/// # Safety
/// `marks`: a handle. `slot`: room for one. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_marks_next(
    marks: *const alphorn_xmss_marks,
    role: u8,
    slot: *mut u64,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `marks` is a handle.
        let marks = unsafe { object_at(marks, "marks") }?;
        let next = marks.0.slot_next(role)?;
        // SAFETY: `slot` has room for one.
        unsafe { give(slot, next, "slot") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// The permit to sign a message in a slot, once the mark is on the disk: slots ascend, and each is given
/// out once (the last one again for the same message). Use it with alphorn_xmss_sign, or free it with
/// alphorn_xmss_permit_free: its slot is spent either way.
///
/// # Safety
/// `marks`: a handle. `message`: 32 bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_marks_reserve(
    marks: *const alphorn_xmss_marks,
    slot: u64,
    role: u8,
    message: *const u8,
    error: *mut alphorn_error,
) -> *mut alphorn_xmss_permit {
    let run = || {
        // SAFETY: `marks` is a handle.
        let marks = unsafe { object_at(marks, "marks") }?;
        // SAFETY: `message` leads to 32 bytes.
        let message = unsafe { array_at::<ALPHORN_XMSS_MESSAGE_BYTES>(message, "message") }?;
        Ok(alphorn_xmss_permit(marks.0.reserve(slot, role, message)?))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Closes the file; nothing for NULL. Permits that it gave out go on.
///
/// # Safety
/// `marks`: a handle, which is of no use afterwards, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_marks_free(marks: *mut alphorn_xmss_marks) {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { free(marks) }
}

/// Gives a permit up; nothing for NULL.
///
/// # Safety
/// `permit`: a handle, which is of no use afterwards, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_permit_free(permit: *mut alphorn_xmss_permit) {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { free(permit) }
}

/// Makes the one signature that the permit allows, and frees the permit, whatever comes of it. Room for
/// the signature is looked at before the key is used.
///
/// # Safety
/// `key`: a handle. `permit`: a handle, which is of no use afterwards, or NULL. `signature`: room for
/// `capacity` bytes, at least alphorn_xmss_signature_bytes of the key's set. `error`: NULL, or room for
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_sign(
    key: *const alphorn_xmss_key,
    permit: *mut alphorn_xmss_permit,
    signature: *mut u8,
    capacity: usize,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        if permit.is_null() {
            return Err(Error::new(Code::Argument, "permit is NULL"));
        }
        // SAFETY: not NULL, so a permit that `object` leaked and nobody freed.
        let permit = unsafe { Box::from_raw(permit) };
        // SAFETY: `key` is a handle.
        let key = unsafe { object_at(key, "key") }?;
        let want = xmss::signature_bytes(key.0.set());
        if signature.is_null() || capacity < want {
            let message = format!("signature has room for {capacity} bytes, must have for {want}");
            return Err(Error::new(Code::Argument, message));
        }
        let made = key.0.sign(permit.0)?;
        // SAFETY: `signature` has room for as many bytes as `capacity` says.
        unsafe { give_bytes(signature, capacity, &made, "signature") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Verifies signatures together. ALPHORN_OK if all hold, ALPHORN_ERROR_INVALID if one does not:
/// `verdicts` has 0 for each that holds and 1 for each that does not then.
///
/// # Safety
/// `context`: a handle. `votes`: `count` items, whose pointers lead to as many bytes as the set says.
/// `verdicts`: NULL, or room for `count` bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_xmss_verify(
    context: *const alphorn_context,
    set: u32,
    votes: *const alphorn_xmss_vote,
    count: usize,
    verdicts: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        let set = set_of(set)?;
        // SAFETY: `context` is a handle.
        let context = unsafe { object_at(context, "context") }?;
        // SAFETY: `votes` leads to as many items as `count` says.
        let votes = unsafe { items_at(votes, count, "votes") }?;
        // SAFETY: the pointers of each lead to as many bytes as the set says.
        let votes = votes.iter().map(|vote| unsafe { vote_at(set, vote) });
        let votes = votes.collect::<Result<Vec<Vote<'_>>, Error>>()?;
        let found = xmss::verify(&context.0, set, &votes);
        let found: Vec<u8> = found.iter().map(|&holds| u8::from(!holds)).collect();
        if !verdicts.is_null() {
            // SAFETY: `verdicts` has room for as many bytes as `count` says.
            unsafe { give_bytes(verdicts, count, &found, "verdicts") }?;
        }
        match found.iter().position(|&bad| bad != 0) {
            None => Ok(()),
            Some(first) => {
                let message = format!("signature {first} does not hold");
                Err(Error::new(Code::Invalid, message))
            }
        }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// The vote of a structure.
///
/// # Safety
/// Its pointers are NULL or lead to as many bytes as the set says.
unsafe fn vote_at(set: Set, vote: &alphorn_xmss_vote) -> Result<Vote<'_>, Error> {
    let (key, signature) = (xmss::public_key_bytes(set), xmss::signature_bytes(set));
    // SAFETY: a public key of the set, as the caller promises.
    let public_key = unsafe { items_at(vote.public_key, key, "public_key") }?;
    // SAFETY: 32 bytes, as the caller promises.
    let message = unsafe { items_at(vote.message, xmss::MESSAGE_BYTES, "message") }?;
    // SAFETY: a signature of the set, as the caller promises.
    let signature = unsafe { items_at(vote.signature, signature, "signature") }?;
    Ok(Vote {
        public_key,
        index: vote.index,
        message,
        signature,
    })
}
