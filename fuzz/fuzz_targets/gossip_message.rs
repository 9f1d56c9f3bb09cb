//! Gives [`alphorn_fuzz::gossip_message`] to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alphorn_fuzz::gossip_message(data);
});
