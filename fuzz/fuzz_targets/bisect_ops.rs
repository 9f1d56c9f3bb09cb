//! Gives [`alphorn_fuzz::bisect_ops`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::bisect_ops(data);
});
