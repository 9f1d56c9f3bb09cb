//! Gives [`alphorn_fuzz::horn_aggregator`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::horn_aggregator(data);
});
