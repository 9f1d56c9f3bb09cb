//! Gives [`alphorn_fuzz::horn_gate`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::horn_gate(data);
});
