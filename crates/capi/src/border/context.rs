//! The version and the context.

use std::ffi::c_char;

use alphorn_bindings::Context;

use super::memory::free;
use super::outcome::{alphorn_error, object};

/// Threads, kernels and a secret that weighs what is verified together: what everything runs on.
pub struct alphorn_context(pub(super) Context);

/// The version of the library, ends with a zero. Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn alphorn_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Makes a context of so many threads, 0 for as many as there are cores, 1 for the caller's own:
/// one is enough for a process. Free it with alphorn_context_free; objects that were made with it go on.
///
/// # Safety
/// `error`: NULL, or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_context_new(
    threads: usize,
    error: *mut alphorn_error,
) -> *mut alphorn_context {
    // SAFETY: `error` is as the contract above says.
    unsafe { object(error, || Ok(alphorn_context(Context::new(threads)?))) }
}

/// Frees it; nothing for NULL.
///
/// # Safety
/// `context`: a handle, which is of no use afterwards, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_context_free(context: *mut alphorn_context) {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { free(context) }
}
