//! Gives [`alphorn_fuzz::broadcast_message`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::broadcast_message(data);
});
