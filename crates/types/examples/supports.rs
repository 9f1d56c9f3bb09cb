//! Who signed, in how few bytes: `cargo run --release -p alphorn-types --example supports -- 32768 95`
//! for 32,768 validators of whom 95 % sign.

use alphorn_types::support_code::{Coding, decode, encode};
use alphorn_types::{Bitfield, Support};

/// Bits of which about `percent` in a hundred are set, the same ones each time.
fn drawn(len: u32, percent: u32) -> Bitfield {
    let mut bits = Bitfield::new(len as usize);
    for i in 0..len {
        // Knuth's multiplicative hash: spread well enough for a picture of sizes.
        if ((u64::from(i) * 2_654_435_761) >> 12) % 100 < u64::from(percent) {
            bits.set(i as usize);
        }
    }
    bits
}

fn main() {
    let mut arguments = std::env::args().skip(1).flat_map(|text| text.parse());
    let len: u32 = arguments.next().unwrap_or(32_768).clamp(1, 1 << 20);
    let percent: u32 = arguments.next().unwrap_or(95);
    let voted = drawn(len, percent);
    // One in a hundred of those who voted in this slot did not in the slot before.
    let mut before = voted.clone();
    before.subtract(&drawn(len, 1));
    let support = Support::from_bits(voted);
    for (name, coding, reference) in [
        ("raw", Coding::Raw, None),
        ("coded", Coding::Rice, None),
        ("coded against the slot before", Coding::Rice, Some(&before)),
    ] {
        let bytes = encode(&support, coding, reference);
        let again = decode(&bytes, len as usize, 1, reference);
        assert_eq!(again.as_ref(), Ok(&support), "a code has one meaning");
        println!("{name:<30} {:>6} B", bytes.len());
    }
}
