//! Gives [`alphorn_fuzz::chain_anchor`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::chain_anchor(data);
});
