//! Gives [`alphorn_fuzz::sum_methods`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::sum_methods(data);
});
