//! Gives [`alphorn_fuzz::topic_parse`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::topic_parse(data);
});
