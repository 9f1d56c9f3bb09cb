//! Gives [`alphorn_fuzz::plan_ops`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::plan_ops(data);
});
