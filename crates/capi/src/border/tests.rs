use std::ffi::CStr;
use std::ptr::null_mut;

use alphorn_bindings::{Code, Error};

use super::outcome::{
    ALPHORN_ERROR_MESSAGE_BYTES, alphorn_error, alphorn_status as Status, number, object, status,
};

fn caught_by(run: impl FnOnce(*mut alphorn_error)) -> (Status, String) {
    let mut error = alphorn_error {
        status: Status::ALPHORN_ERROR_IO,
        message: [1; ALPHORN_ERROR_MESSAGE_BYTES],
    };
    run(&mut error);
    let bytes = error
        .message
        .map(|byte| u8::from_ne_bytes(byte.to_ne_bytes()));
    let text = CStr::from_bytes_until_nul(&bytes).unwrap();
    (error.status, text.to_str().unwrap().to_owned())
}

#[test]
fn a_panic_ends_at_the_border() {
    let internal = Status::ALPHORN_ERROR_INTERNAL;
    let found = caught_by(|error| {
        // SAFETY: `error` is a reference.
        let found = unsafe { status(error, || panic!("number {}", 7)) };
        assert_eq!(found, internal);
    });
    assert_eq!(
        found,
        (internal, "a fault of the library: number 7".to_owned())
    );
    let found = caught_by(|error| {
        // SAFETY: `error` is a reference.
        let made = unsafe { object(error, || -> Result<u8, Error> { panic!("static") }) };
        assert!(made.is_null());
    });
    assert_eq!(
        found,
        (internal, "a fault of the library: static".to_owned())
    );
    assert_eq!(number(3, || panic!()), 3);
    // SAFETY: NULL is allowed.
    let found = unsafe { status(null_mut(), || panic!()) };
    assert_eq!(found, internal);
}

#[test]
fn texts_are_cut_at_a_character_and_success_leaves_none() {
    let long = "ä".repeat(ALPHORN_ERROR_MESSAGE_BYTES);
    let (code, text) = caught_by(|error| {
        // SAFETY: `error` is a reference.
        unsafe { status(error, || Err(Error::new(Code::Refused, &long))) };
    });
    assert_eq!(code, Status::ALPHORN_ERROR_REFUSED);
    assert_eq!(text, "ä".repeat((ALPHORN_ERROR_MESSAGE_BYTES - 1) / 2));
    let found = caught_by(|error| {
        // SAFETY: `error` is a reference.
        unsafe { status(error, || Ok(())) };
    });
    assert_eq!(found, (Status::ALPHORN_OK, String::new()));
}
