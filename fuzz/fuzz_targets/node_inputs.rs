//! Gives [`alphorn_fuzz::node_inputs`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::node_inputs(data);
});
