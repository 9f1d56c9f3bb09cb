//! Gives [`alphorn_fuzz::codec_reader`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::codec_reader(data);
});
