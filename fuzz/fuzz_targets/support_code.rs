//! Gives [`alphorn_fuzz::support_code`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::support_code(data);
});
