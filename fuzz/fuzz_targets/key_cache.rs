//! Gives [`alphorn_fuzz::key_cache`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::key_cache(data);
});
