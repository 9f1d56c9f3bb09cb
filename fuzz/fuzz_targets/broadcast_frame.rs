//! Gives [`alphorn_fuzz::broadcast_frame`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::broadcast_frame(data);
});
