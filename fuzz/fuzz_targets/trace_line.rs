//! Gives [`alphorn_fuzz::trace_line`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::trace_line(data);
});
