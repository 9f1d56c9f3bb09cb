//! Gives [`alphorn_fuzz::bad_items`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::bad_items(data);
});
