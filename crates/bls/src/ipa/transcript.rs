//! Fiat-Shamir challenges: a hash of everything absorbed before.

use sha2::{Digest, Sha256};

use super::TAG;
use crate::blst_ffi::fr::Fr;

/// SHA-256 over labelled, length-prefixed fields, from which 128-bit challenges are drawn.
#[derive(Clone)]
pub(super) struct Transcript(Sha256);

impl Transcript {
    pub(super) fn new() -> Transcript {
        let mut transcript = Transcript(Sha256::new());
        transcript.absorb(b"protocol", TAG);
        transcript
    }

    /// Absorbs a field. Lengths make the list of fields uniquely decodable.
    pub(super) fn absorb(&mut self, label: &[u8], bytes: &[u8]) {
        for field in [label, bytes] {
            self.0.update((field.len() as u64).to_le_bytes());
            self.0.update(field);
        }
    }

    /// Draws a challenge in 1 .. 2^128 and absorbs it.
    pub(super) fn challenge(&mut self, label: &[u8]) -> Fr {
        loop {
            self.absorb(b"challenge", label);
            let digest = self.0.clone().finalize();
            self.absorb(b"drawn", &digest);
            let mut low = [0; 16];
            low.copy_from_slice(&digest[..16]);
            match u128::from_le_bytes(low) {
                // Zero has no inverse, so one in 2^128 draws is repeated.
                0 => continue,
                value => return Fr::from_u128(value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(fields: &[(&[u8], &[u8])]) -> Fr {
        let mut transcript = Transcript::new();
        for (label, bytes) in fields {
            transcript.absorb(label, bytes);
        }
        transcript.challenge(b"y")
    }

    #[test]
    fn every_label_length_and_byte_counts() {
        let reference = drawn(&[(b"a", b"12"), (b"b", b"3")]);
        assert_eq!(reference, drawn(&[(b"a", b"12"), (b"b", b"3")]));
        let others: [&[(&[u8], &[u8])]; 6] = [
            &[(b"a", b"1"), (b"b", b"23")],
            &[(b"a", b"12"), (b"c", b"3")],
            &[(b"a", b"12"), (b"b", b"4")],
            &[(b"b", b"3"), (b"a", b"12")],
            &[(b"a", b"12")],
            &[(b"a", b"12"), (b"b", b"3"), (b"", b"")],
        ];
        for other in others {
            assert_ne!(reference, drawn(other), "{other:?}");
        }
    }

    #[test]
    fn challenges_differ_and_have_128_bits() {
        let mut transcript = Transcript::new();
        let first = transcript.challenge(b"y");
        let second = transcript.challenge(b"y");
        assert_ne!(first, second);
        assert_eq!(first.to_le_bytes()[16..], [0; 16]);
        assert_ne!(Transcript::new().challenge(b"x"), first, "labels count");
    }
}
