//! Hash to group: `expand_message_xmd` (RFC 9380, section 5.3.1) and the generators derived with
//! it.

use curve25519_dalek::ristretto::RistrettoPoint;
use sha2::{Digest, Sha512};

use crate::point::Point;

/// Domain separation of the generators: suite `ristretto255_XMD:SHA-512_R255MAP_RO_` of RFC 9380,
/// appendix B.
const GENERATOR_DST: &[u8] = b"ALPHORN-RLNC-V1_ristretto255_XMD:SHA-512_R255MAP_RO_";

/// `expand_message_xmd` with SHA-512 (RFC 9380, section 5.3.1) into `out`.
///
/// The caller must respect the RFC's limits: a tag of at most 255 bytes, an output of at most 255
/// digests.
pub(crate) fn expand_message_xmd(parts: &[&[u8]], dst: &[u8], out: &mut [u8]) {
    const BLOCK_BYTES: usize = 128;
    const DIGEST_BYTES: usize = 64;
    let dst_len = u8::try_from(dst.len()).expect("a tag of at most 255 bytes");
    let out_len = u16::try_from(out.len()).expect("an output of at most 255 digests");
    assert!(
        out.len() <= 255 * DIGEST_BYTES,
        "an output of at most 255 digests"
    );

    let mut hash = Sha512::new();
    // In terms of the RFC: Z_pad, msg, l_i_b_str, I2OSP(0, 1) and DST_prime.
    hash.update([0; BLOCK_BYTES]);
    for part in parts {
        hash.update(part);
    }
    hash.update(out_len.to_be_bytes());
    hash.update([0]);
    hash.update(dst);
    hash.update([dst_len]);
    let first: [u8; DIGEST_BYTES] = hash.finalize().into();

    // The first block has no predecessor: zeros leave its input as it is.
    let mut previous = [0; DIGEST_BYTES];
    for (index, chunk) in (1_u8..).zip(out.chunks_mut(DIGEST_BYTES)) {
        let mut input = first;
        for (byte, before) in input.iter_mut().zip(previous) {
            *byte ^= before;
        }
        let mut hash = Sha512::new();
        hash.update(input);
        hash.update([index]);
        hash.update(dst);
        hash.update([dst_len]);
        previous = hash.finalize().into();
        chunk.copy_from_slice(&previous[..chunk.len()]);
    }
}

/// Generator G_j, the hash of "generator" and j: no relation between two of them is known.
pub(crate) fn generator(index: u32) -> Point {
    let mut uniform = [0; 64];
    let parts: [&[u8]; 2] = [b"generator", &index.to_le_bytes()];
    expand_message_xmd(&parts, GENERATOR_DST, &mut uniform);
    let encoded = RistrettoPoint::from_uniform_bytes(&uniform)
        .compress()
        .to_bytes();
    Point::vartime_decode(&encoded).expect("an encoder's output decodes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known;

    #[test]
    fn rfc_9380_expand_message_vectors() {
        let text = include_str!("../../../vectors/rlnc/expand-message-xmd-sha512.txt");
        let mut count = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let message = match words[0] {
                "-" => String::new(),
                "q128" => format!("q128_{}", "q".repeat(128)),
                "a512" => format!("a512_{}", "a".repeat(512)),
                other => other.to_owned(),
            };
            let mut out = vec![0; words[1].parse().unwrap()];
            let dst = b"QUUX-V01-CS02-with-expander-SHA512-256";
            expand_message_xmd(&[message.as_bytes()], dst, &mut out);
            assert_eq!(hex::encode(out), words[2], "{}", words[0]);
            count += 1;
        }
        assert_eq!(count, 10);
    }

    #[test]
    fn generators_are_the_known_answers() {
        assert_eq!(GENERATOR_DST.len(), 52);
        for index in [0, 1, 2, 379, 1023] {
            let encoding = generator(index).vartime_encode();
            assert_eq!(
                encoding,
                known::hash(&format!("generator_{index}")),
                "G_{index}"
            );
        }
    }
}
