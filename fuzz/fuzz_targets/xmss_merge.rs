//! Gives [`alphorn_fuzz::xmss_merge`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::xmss_merge(data);
});
