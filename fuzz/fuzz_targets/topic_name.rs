//! Gives [`alphorn_fuzz::topic_name`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::topic_name(data);
});
