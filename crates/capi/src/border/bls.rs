//! Secret keys and signatures of BLS12-381.

use alphorn_bindings::{Code, Error, bls};

use super::memory::{array_at, give_bytes, items_at, records_at};
use super::outcome::{alphorn_error, alphorn_status, status};

/// Bytes of a secret key.
pub const ALPHORN_BLS_SECRET_KEY_BYTES: usize = 32;
/// Bytes of a public key.
pub const ALPHORN_BLS_PUBLIC_KEY_BYTES: usize = 48;
/// Bytes of a signature, of a sum of signatures, and of a proof of possession.
pub const ALPHORN_BLS_SIGNATURE_BYTES: usize = 96;

const _: () = assert!(
    ALPHORN_BLS_SECRET_KEY_BYTES == bls::SECRET_KEY_BYTES
        && ALPHORN_BLS_PUBLIC_KEY_BYTES == bls::PUBLIC_KEY_BYTES
        && ALPHORN_BLS_SIGNATURE_BYTES == bls::SIGNATURE_BYTES
);

fn holds(verdict: bool, what: &str) -> Result<(), Error> {
    match verdict {
        true => Ok(()),
        false => Err(Error::new(
            Code::Invalid,
            format!("the {what} does not hold"),
        )),
    }
}

/// Makes the secret key of secret keying material of at least 32 bytes, as the IETF draft has it. The
/// caller wipes the key when it is no longer needed.
///
/// # Safety
/// `material`: `material_len` bytes. `secret_key`: room for 32. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_key_gen(
    material: *const u8,
    material_len: usize,
    secret_key: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `material` leads to as many bytes as its length says.
        let material = unsafe { items_at(material, material_len, "material") }?;
        let key = bls::key_gen(material)?;
        // SAFETY: `secret_key` has room for 32 bytes.
        unsafe { give_bytes(secret_key, key.len(), &key, "secret_key") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Writes the secret key of a validator that everyone can compute: for tests and devnets.
///
/// # Safety
/// `secret_key`: room for 32 bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_interop_secret_key(
    validator: u64,
    secret_key: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        let key = bls::interop_secret_key(validator);
        // SAFETY: `secret_key` has room for 32 bytes.
        unsafe { give_bytes(secret_key, key.len(), &key, "secret_key") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Writes the public key of a secret key.
///
/// # Safety
/// `secret_key`: 32 bytes. `public_key`: room for 48. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_public_key(
    secret_key: *const u8,
    public_key: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `secret_key` leads to 32 bytes.
        let secret_key =
            unsafe { array_at::<ALPHORN_BLS_SECRET_KEY_BYTES>(secret_key, "secret_key") }?;
        let key = bls::public_key(secret_key)?;
        // SAFETY: `public_key` has room for 48 bytes.
        unsafe { give_bytes(public_key, key.len(), &key, "public_key") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Signs a message of any length.
///
/// # Safety
/// `secret_key`: 32 bytes. `message`: `message_len` bytes. `signature`: room for 96. `error`: NULL, or
/// room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_sign(
    secret_key: *const u8,
    message: *const u8,
    message_len: usize,
    signature: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `secret_key` leads to 32 bytes.
        let secret_key =
            unsafe { array_at::<ALPHORN_BLS_SECRET_KEY_BYTES>(secret_key, "secret_key") }?;
        // SAFETY: `message` leads to as many bytes as its length says.
        let message = unsafe { items_at(message, message_len, "message") }?;
        let made = bls::sign(secret_key, message)?;
        // SAFETY: `signature` has room for 96 bytes.
        unsafe { give_bytes(signature, made.len(), &made, "signature") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// ALPHORN_OK if the signature holds, ALPHORN_ERROR_INVALID if not, or if key or signature do not decode.
///
/// # Safety
/// `public_key`: 48 bytes. `message`: `message_len` bytes. `signature`: 96 bytes. `error`: NULL, or room
/// for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_verify(
    public_key: *const u8,
    message: *const u8,
    message_len: usize,
    signature: *const u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `public_key` leads to 48 bytes.
        let public_key =
            unsafe { array_at::<ALPHORN_BLS_PUBLIC_KEY_BYTES>(public_key, "public_key") }?;
        // SAFETY: `message` leads to as many bytes as its length says.
        let message = unsafe { items_at(message, message_len, "message") }?;
        // SAFETY: `signature` leads to 96 bytes.
        let signature = unsafe { array_at::<ALPHORN_BLS_SIGNATURE_BYTES>(signature, "signature") }?;
        holds(bls::verify(public_key, message, signature), "signature")
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Makes the proof of possession of a secret key.
///
/// # Safety
/// `secret_key`: 32 bytes. `proof`: room for 96. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_pop_prove(
    secret_key: *const u8,
    proof: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `secret_key` leads to 32 bytes.
        let secret_key =
            unsafe { array_at::<ALPHORN_BLS_SECRET_KEY_BYTES>(secret_key, "secret_key") }?;
        let made = bls::pop_prove(secret_key)?;
        // SAFETY: `proof` has room for 96 bytes.
        unsafe { give_bytes(proof, made.len(), &made, "proof") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// ALPHORN_OK if the proof of possession holds, ALPHORN_ERROR_INVALID if not.
///
/// # Safety
/// `public_key`: 48 bytes. `proof`: 96 bytes. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_pop_verify(
    public_key: *const u8,
    proof: *const u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        // SAFETY: `public_key` leads to 48 bytes.
        let public_key =
            unsafe { array_at::<ALPHORN_BLS_PUBLIC_KEY_BYTES>(public_key, "public_key") }?;
        // SAFETY: `proof` leads to 96 bytes.
        let proof = unsafe { array_at::<ALPHORN_BLS_SIGNATURE_BYTES>(proof, "proof") }?;
        holds(bls::pop_verify(public_key, proof), "proof of possession")
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}

/// Sums signatures, one at least.
///
/// # Safety
/// `signatures`: `count` times 96 bytes. `sum`: room for 96. `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bls_aggregate(
    signatures: *const u8,
    count: usize,
    sum: *mut u8,
    error: *mut alphorn_error,
) -> alphorn_status {
    let run = || {
        let size = ALPHORN_BLS_SIGNATURE_BYTES;
        // SAFETY: `signatures` leads to 96 bytes for each.
        let signatures = unsafe { records_at(signatures, count, size, "signatures") }?;
        let made = bls::aggregate(signatures)?;
        // SAFETY: `sum` has room for 96 bytes.
        unsafe { give_bytes(sum, made.len(), &made, "sum") }
    };
    // SAFETY: `error` is as the contract above says.
    unsafe { status(error, run) }
}
