//! Error codes and texts, and the handling of panics.

use std::any::Any;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use alphorn_bindings::{Code, Error};

/// Bytes of the text of an error, with the zero at its end.
pub const ALPHORN_ERROR_MESSAGE_BYTES: usize = 256;

/// What became of a call. The numbers never change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum alphorn_status {
    /// It is done, and what was verified holds.
    ALPHORN_OK = 0,
    /// An argument is NULL or out of its range: a mistake of the caller.
    ALPHORN_ERROR_ARGUMENT = 1,
    /// Bytes are no key, signature, proof, header or piece.
    ALPHORN_ERROR_DECODE = 2,
    /// A signature or proof does not hold.
    ALPHORN_ERROR_INVALID = 3,
    /// The store of marks gives out no permit, or the key cannot sign there.
    ALPHORN_ERROR_REFUSED = 4,
    /// The callback asked the computation to end.
    ALPHORN_ERROR_STOPPED = 5,
    /// The file system refused.
    ALPHORN_ERROR_IO = 6,
    /// Pieces of a broadcast are missing.
    ALPHORN_ERROR_INCOMPLETE = 7,
    /// A fault of this library; please report it.
    ALPHORN_ERROR_INTERNAL = 8,
}

use alphorn_status::*;

/// What went wrong, in a structure of the caller's.
#[repr(C)]
pub struct alphorn_error {
    /// ALPHORN_OK if nothing did.
    pub status: alphorn_status,
    /// Ends with a zero; cut at a character's border if it is too long. Empty if nothing went wrong.
    pub message: [c_char; ALPHORN_ERROR_MESSAGE_BYTES],
}

fn status_of(code: Code) -> alphorn_status {
    match code {
        Code::Argument => ALPHORN_ERROR_ARGUMENT,
        Code::Decode => ALPHORN_ERROR_DECODE,
        Code::Invalid => ALPHORN_ERROR_INVALID,
        Code::Refused => ALPHORN_ERROR_REFUSED,
        Code::Stopped => ALPHORN_ERROR_STOPPED,
        Code::Io => ALPHORN_ERROR_IO,
        Code::Incomplete => ALPHORN_ERROR_INCOMPLETE,
    }
}

/// The result of `f`; a panic becomes an error of its own.
fn caught<T>(f: impl FnOnce() -> Result<T, Error>) -> Result<T, (alphorn_status, String)> {
    // State left behind by a panic is either never seen again or behind a lock that may be poisoned.
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err((status_of(error.code()), error.to_string())),
        Err(panic) => Err((ALPHORN_ERROR_INTERNAL, panic_text(panic.as_ref()))),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a fault of the library: {}", text.unwrap_or("no text"))
}

/// Reports the error to the caller, if requested.
///
/// # Safety
/// `error` is NULL or leads to room for an error.
unsafe fn tell(error: *mut alphorn_error, status: alphorn_status, text: &str) {
    if error.is_null() {
        return;
    }
    let most = text.len().min(ALPHORN_ERROR_MESSAGE_BYTES - 1);
    let mut ends = (0..=most).rev();
    let end = ends.find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let mut message = [0; ALPHORN_ERROR_MESSAGE_BYTES];
    for (out, byte) in message.iter_mut().zip(text[..end].bytes()) {
        *out = byte as c_char;
    }
    // SAFETY: not NULL, so by this function's contract there is room; `write` reads nothing of it.
    unsafe { error.write(alphorn_error { status, message }) };
}

/// Runs a call that returns a status.
///
/// # Safety
/// `error` is NULL or leads to room for an error.
pub(super) unsafe fn status(
    error: *mut alphorn_error,
    f: impl FnOnce() -> Result<(), Error>,
) -> alphorn_status {
    let (status, text) = match caught(f) {
        Ok(()) => (ALPHORN_OK, String::new()),
        Err(found) => found,
    };
    // SAFETY: `error` is as this function's caller promises.
    unsafe { tell(error, status, &text) };
    status
}

/// Runs a call that returns a new object, NULL if there is none.
///
/// # Safety
/// `error` is NULL or leads to room for an error.
pub(super) unsafe fn object<T>(
    error: *mut alphorn_error,
    f: impl FnOnce() -> Result<T, Error>,
) -> *mut T {
    let (status, text, object) = match caught(f) {
        Ok(value) => (ALPHORN_OK, String::new(), Box::into_raw(Box::new(value))),
        Err((status, text)) => (status, text, std::ptr::null_mut()),
    };
    // SAFETY: `error` is as this function's caller promises.
    unsafe { tell(error, status, &text) };
    object
}

/// Reads a number from an object; `default` for NULL, and if the library fails.
pub(super) fn number<T>(default: T, f: impl FnOnce() -> Result<T, Error>) -> T {
    caught(f).unwrap_or(default)
}
