//! Conversion of pointers and lengths to references and back.

use std::ffi::{CStr, c_char};
use std::path::Path;

use alphorn_bindings::{Code, Error};
use zeroize::Zeroizing;

use super::outcome::number;

/// Bytes that the library allocated. They are wiped when they are freed.
pub struct alphorn_bytes(pub(super) Zeroizing<Vec<u8>>);

impl From<Vec<u8>> for alphorn_bytes {
    fn from(bytes: Vec<u8>) -> Self {
        alphorn_bytes(Zeroizing::new(bytes))
    }
}

/// The first byte; NULL for NULL. Valid until the bytes are freed.
///
/// # Safety
/// `bytes`: a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bytes_data(bytes: *const alphorn_bytes) -> *const u8 {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { bytes.as_ref() }.map_or(std::ptr::null(), |bytes| bytes.0.as_ptr())
}

/// How many bytes they are; 0 for NULL.
///
/// # Safety
/// `bytes`: a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bytes_len(bytes: *const alphorn_bytes) -> usize {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { bytes.as_ref() }.map_or(0, |bytes| bytes.0.len())
}

/// Wipes and frees them; nothing for NULL.
///
/// # Safety
/// `bytes`: a handle, which is of no use afterwards, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alphorn_bytes_free(bytes: *mut alphorn_bytes) {
    // SAFETY: a handle that was not freed, or NULL, by the contract above.
    unsafe { free(bytes) }
}

fn argument(what: &str, problem: &str) -> Error {
    Error::new(Code::Argument, format!("{what} {problem}"))
}

/// The object behind a handle.
///
/// # Safety
/// `pointer` is NULL or leads to a T that stays as it is for the lifetime.
pub(super) unsafe fn object_at<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Error> {
    if !pointer.is_aligned() {
        return Err(argument(what, "is not aligned"));
    }
    // SAFETY: aligned; NULL or as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| argument(what, "is NULL"))
}

/// The items at a pointer, which may be NULL if there are none.
///
/// # Safety
/// `pointer` is NULL or leads to `len` items that nobody writes during the lifetime.
pub(super) unsafe fn items_at<'a, T>(
    pointer: *const T,
    len: usize,
    what: &str,
) -> Result<&'a [T], Error> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(argument(what, "is NULL"));
    }
    if !pointer.is_aligned() {
        return Err(argument(what, "is not aligned"));
    }
    let bytes = len.checked_mul(size_of::<T>());
    if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(argument(
            what,
            &format!("has {len} items: more than memory has"),
        ));
    }
    // SAFETY: not NULL, aligned, and at most isize::MAX bytes; the caller promises that the items are
    // there and stay.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// `count` times `size` bytes.
///
/// # Safety
/// `pointer` is NULL or leads to `count` times `size` bytes that nobody writes during the lifetime.
pub(super) unsafe fn records_at<'a>(
    pointer: *const u8,
    count: usize,
    size: usize,
    what: &str,
) -> Result<&'a [u8], Error> {
    let len = count.checked_mul(size);
    let len =
        len.ok_or_else(|| argument(what, &format!("has {count} items: more than memory has")))?;
    // SAFETY: as the caller promises.
    unsafe { items_at(pointer, len, what) }
}

/// N bytes.
///
/// # Safety
/// `pointer` is NULL or leads to N bytes that nobody writes during the lifetime.
pub(super) unsafe fn array_at<'a, const N: usize>(
    pointer: *const u8,
    what: &str,
) -> Result<&'a [u8; N], Error> {
    // SAFETY: as the caller promises; an array of bytes has no alignment.
    unsafe { pointer.cast::<[u8; N]>().as_ref() }.ok_or_else(|| argument(what, "is NULL"))
}

/// A zero-terminated path; none for NULL.
///
/// # Safety
/// `pointer` is NULL or leads to a string that ends with a zero and that nobody writes during the lifetime.
pub(super) unsafe fn path_at<'a>(
    pointer: *const c_char,
    what: &str,
) -> Result<Option<&'a Path>, Error> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, so a string that ends with a zero, as the caller promises.
    let text = unsafe { CStr::from_ptr(pointer) };
    let text = text.to_str().map_err(|_| argument(what, "is not UTF-8"))?;
    Ok(Some(Path::new(text)))
}

/// Writes a value.
///
/// # Safety
/// `out` is NULL or leads to room for a T that nothing else refers to.
pub(super) unsafe fn give<T>(out: *mut T, value: T, what: &str) -> Result<(), Error> {
    if out.is_null() {
        return Err(argument(what, "is NULL"));
    }
    if !out.is_aligned() {
        return Err(argument(what, "is not aligned"));
    }
    // SAFETY: not NULL and aligned; there is room as the caller promises, and `write` reads nothing of it.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes bytes to a buffer, which may be longer than they are.
///
/// # Safety
/// `out` is NULL or leads to room for `capacity` bytes that nothing else refers to.
pub(super) unsafe fn give_bytes(
    out: *mut u8,
    capacity: usize,
    bytes: &[u8],
    what: &str,
) -> Result<(), Error> {
    if out.is_null() {
        return Err(argument(what, "is NULL"));
    }
    if capacity < bytes.len() {
        let problem = format!(
            "has room for {capacity} bytes, must have for {}",
            bytes.len()
        );
        return Err(argument(what, &problem));
    }
    // SAFETY: not NULL, and room for as many bytes as are copied, apart from them, as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out, bytes.len()) };
    Ok(())
}

/// Frees what [`super::outcome::object`] made.
///
/// # Safety
/// `pointer` is NULL or came from there and was not freed.
pub(super) unsafe fn free<T>(pointer: *mut T) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: not NULL, so a box that `object` leaked and nobody freed, as the caller promises.
    let object = unsafe { Box::from_raw(pointer) };
    number((), || {
        drop(object);
        Ok(())
    });
}
