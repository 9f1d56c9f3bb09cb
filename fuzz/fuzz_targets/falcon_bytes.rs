//! Gives [`alphorn_fuzz::falcon_bytes`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::falcon_bytes(data);
});
