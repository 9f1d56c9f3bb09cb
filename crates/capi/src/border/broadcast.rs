//! Coded broadcast.

use std::sync::{Mutex, MutexGuard, PoisonError};

use alphorn_bindings::broadcast::{
    BROADCAST_HEADER_BYTES, Broadcast, PAYLOAD_BYTES_MAX, Subject, strategy_of,
};

use super::context::alphorn_context;
use super::memory::{alphorn_bytes, array_at, free, give, give_bytes, items_at, object_at};
use super::outcome::{alphorn_error, alphorn_status, number, object, status};

/// Random linear combinations, which relays recode.
pub const ALPHORN_CODE_RLNC: u32 = 1;
/// Reed-Solomon shards, which relays forward.
pub const ALPHORN_CODE_REED_SOLOMON: u32 = 2;
/// Bytes of a header.
pub const ALPHORN_BROADCAST_HEADER_BYTES: usize = 100;
/// Bytes of a payload at most.
pub const ALPHORN_PAYLOAD_BYTES_MAX: u32 = 33554432;

const _: () = assert!(
    ALPHORN_BROADCAST_HEADER_BYTES == BROADCAST_HEADER_BYTES
        && ALPHORN_PAYLOAD_BYTES_MAX == PAYLOAD_BYTES_MAX
);

/// One broadcast, at its source or at a node that receives and relays it. Calls of several threads wait for
/// each other.
pub struct alphorn_broadcast(Mutex<Broadcast>);

impl alphorn_broadcast {
    /// After a call that panicked the broadcast is still whole: pieces are added in one step.
    fn lock(&self) -> MutexGuard<'_, Broadcast> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which payload of whom a broadcast carries; its meaning belongs to the caller's protocol.
#[repr(C)]
pub struct alphorn_subject {
    /// Slot.
    pub slot: u64,
    /// Index of the source.
    pub source: u32,
    /// Which of the source's payloads of that kind.
    pub index: u32,
    /// Kind of payload.
    pub kind: u8,
}

/// Cuts a payload of 1 to ALPHORN_PAYLOAD_BYTES_MAX bytes into pieces and commits to it; the source signs
/// what alphorn_broadcast_signing_root says. Free it with alphorn_broadcast_free.
///
/// # Safety
/// `context`: a handle. `subject`: one. `payload`: `payload_len` bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_publish(
    context: *const alphorn_context,
    code: u32,
    subject: *const alphorn_subject,
    payload: *const u8,
    payload_len: usize,
    error: *mut alphorn_error,
) -> *mut alphorn_broadcast {
    let run = || {
        let strategy = strategy_of(code)?;
        // SAFETY: `context` is a handle.
        let context = unsafe { object_at(context, "context") }?;
        // SAFETY: `subject` leads to one.
        let subject = unsafe { object_at(subject, "subject") }?;
        let subject = Subject {
            kind: subject.kind,
            slot: subject.slot,
            source: subject.source,
            index: subject.index,
        };
        // SAFETY: `payload` leads to as many bytes as its length says.
        let payload = unsafe { items_at(payload, payload_len, "payload") }?;
        let made = Broadcast::publish(&context.0, strategy, subject, payload)?;
        Ok(alphorn_broadcast(Mutex::new(made)))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Begins to receive what a header announces. Headers of payloads above `payload_bytes_max` are refused.
/// Nothing here knows the source's key: verify its signature of alphorn_broadcast_signing_root before
/// anything is added, and free the handle if it is none. Free it with alphorn_broadcast_free.
///
/// # Safety
/// `context`: a handle. `header`: `header_len` bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_receive(
    context: *const alphorn_context,
    header: *const u8,
    header_len: usize,
    payload_bytes_max: u32,
    error: *mut alphorn_error,
) -> *mut alphorn_broadcast {
    let run = || {
        // SAFETY: `context` is a handle.
        let context = unsafe { object_at(context, "context") }?;
        // SAFETY: `header` leads to as many bytes as its length says.
        let header = unsafe { items_at(header, header_len, "header") }?;
        let made = Broadcast::receive(&context.0, header, payload_bytes_max)?;
        Ok(alphorn_broadcast(Mutex::new(made)))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Writes the header.
///
/// # Safety
/// `broadcast`: a handle. `header`: room for ALPHORN_BROADCAST_HEADER_BYTES. `error`: NULL, or room for
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_header(
    broadcast: *const alphorn_broadcast,
    header: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `broadcast` is a handle.
        let bytes = unsafe { object_at(broadcast, "broadcast") }?
            .lock()
            .header();
        // SAFETY: `header` has room for as many bytes.
        unsafe { give_bytes(header, bytes.len(), &bytes, "header") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Writes what the source signs: 32 bytes, SHA-256 over the 21 bytes "alphorn/broadcast/v1" with a zero behind
/// them, the network's identifier (32 bytes) and the header (100).
///
/// # Safety
/// `broadcast`: a handle. `network`: 32 bytes. `root`: room for 32. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_signing_root(
    broadcast: *const alphorn_broadcast,
    network: *const u8,
    root: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `network` leads to 32 bytes.
        let network = unsafe { array_at::<32>(network, "network") }?;
        // SAFETY: `broadcast` is a handle.
        let broadcast = unsafe { object_at(broadcast, "broadcast") }?.lock();
        let bytes = broadcast.signing_root(network);
        // SAFETY: `root` has room for 32 bytes.
        unsafe { give_bytes(root, bytes.len(), &bytes, "root") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Lists of commitments, which travel with the header: one for each generation of random linear combinations,
/// none for shards and for NULL.
///
/// # Safety
/// `broadcast`: a handle, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_commitment_lists(
    broadcast: *const alphorn_broadcast,
) -> u16 {
    number(0, || {
        // SAFETY: `broadcast` is a handle or NULL.
        let broadcast = unsafe { object_at(broadcast, "broadcast") }?;
        Ok(broadcast.lock().commitment_lists())
    })
}

/// The commitments of a generation. Free it with alphorn_bytes_free.
///
/// # Safety
/// `broadcast`: a handle. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_commitments(
    broadcast: *const alphorn_broadcast,
    generation: u16,
    error: *mut alphorn_error,
) -> *mut alphorn_bytes {
    let run = || {
        // SAFETY: `broadcast` is a handle.
        let commitments = unsafe { object_at(broadcast, "broadcast") }?
            .lock()
            .commitments(generation)?;
        Ok(alphorn_bytes::from(commitments))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Takes the commitments of a generation and checks them against the header.
///
/// # Safety
/// `broadcast`: a handle. `commitments`: `commitments_len` bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_add_commitments(
    broadcast: *mut alphorn_broadcast,
    generation: u16,
    commitments: *const u8,
    commitments_len: usize,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `broadcast` is a handle.
        let broadcast = unsafe { object_at(broadcast, "broadcast") }?;
        // SAFETY: `commitments` leads to as many bytes as its length says.
        let commitments = unsafe { items_at(commitments, commitments_len, "commitments") }?;
        broadcast.lock().add_commitments(generation, commitments)
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Different pieces to ask alphorn_broadcast_piece for: generations, of which each piece is a fresh
/// combination, or shards. 0 for NULL.
///
/// # Safety
/// `broadcast`: a handle, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_selectors(broadcast: *const alphorn_broadcast) -> u16 {
    number(0, || {
        // SAFETY: `broadcast` is a handle or NULL.
        let broadcast = unsafe { object_at(broadcast, "broadcast") }?;
        Ok(broadcast.lock().selectors())
    })
}

/// A piece to send: a fresh combination of a generation, or the shard with that number. NULL with
/// ALPHORN_ERROR_INCOMPLETE if nothing of it is here. Free it with alphorn_bytes_free.
///
/// # Safety
/// `broadcast`: a handle. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_piece(
    broadcast: *mut alphorn_broadcast,
    selector: u16,
    error: *mut alphorn_error,
) -> *mut alphorn_bytes {
    let run = || {
        // SAFETY: `broadcast` is a handle.
        let piece = unsafe { object_at(broadcast, "broadcast") }?
            .lock()
            .piece(selector)?;
        Ok(alphorn_bytes::from(piece))
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, run) }
}

/// Verifies a piece and keeps it if it adds something; `useful` says whether it did.
///
/// # Safety
/// `broadcast`: a handle. `piece`: `piece_len` bytes. `useful`: NULL, or room for one. `error`: NULL, or
/// room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_add(
    broadcast: *mut alphorn_broadcast,
    piece: *const u8,
    piece_len: usize,
    useful: *mut bool,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `broadcast` is a handle.
        let broadcast = unsafe { object_at(broadcast, "broadcast") }?;
        // SAFETY: `piece` leads to as many bytes as its length says.
        let piece = unsafe { items_at(piece, piece_len, "piece") }?;
        let added = broadcast.lock().add(piece)?;
        if useful.is_null() {
            return Ok(());
        }
        // SAFETY: `useful` has room for one.
        unsafe { give(useful, added, "useful") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Whether the payload can be decoded; false for NULL.
///
/// # Safety
/// `broadcast`: a handle, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_is_full(broadcast: *const alphorn_broadcast) -> bool {
    number(false, || {
        // SAFETY: `broadcast` is a handle or NULL.
        let broadcast = unsafe { object_at(broadcast, "broadcast") }?;
        Ok(broadcast.lock().is_full())
    })
}

/// Bytes of the payload, as the header says; 0 for NULL.
///
/// # Safety
/// `broadcast`: a handle, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_payload_bytes(
    broadcast: *const alphorn_broadcast,
) -> usize {
    number(0, || {
        // SAFETY: `broadcast` is a handle or NULL.
        let broadcast = unsafe { object_at(broadcast, "broadcast") }?;
        Ok(broadcast.lock().payload_bytes())
    })
}

/// Writes the payload, after all checks. From then on this node can send whatever the source can.
///
/// # Safety
/// `broadcast`: a handle. `payload`: room for `capacity` bytes, at least alphorn_broadcast_payload_bytes.
/// `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_payload(
    broadcast: *mut alphorn_broadcast,
    payload: *mut u8,
    capacity: usize,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `broadcast` is a handle.
        let bytes = unsafe { object_at(broadcast, "broadcast") }?
            .lock()
            .payload()?;
        // SAFETY: `payload` has room for as many bytes as `capacity` says.
        unsafe { give_bytes(payload, capacity, &bytes, "payload") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Frees it; nothing for NULL.
///
/// # Safety
/// `broadcast`: a handle, which is of no use afterwards, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_broadcast_free(broadcast: *mut alphorn_broadcast) {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { free(broadcast) }
}
