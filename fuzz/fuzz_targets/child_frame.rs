//! Gives [`alphorn_fuzz::child_frame`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::child_frame(data);
});
