//! SHAKE128 of eight short inputs at once.
//!
//! Every input of the key derivation is shorter than one block, and every output is too, so one
//! call is one permutation (FIPS 202). The eight states stand side by side, so a compiler turns
//! each word operation into vectors of whatever the kernel level offers.

use alphorn_stark::{Backend, Packed, Pass};

/// Inputs of one call.
pub(crate) const LANES: usize = 8;

/// Bytes of a block of SHAKE128.
pub(crate) const BLOCK_BYTES: usize = 168;

/// One word of eight states.
type Words = [u64; LANES];

/// Offsets of ρ, in the order in which π visits the words.
const ROTATIONS: [u32; 24] = [
    1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44,
];

/// The order in which π visits the words, starting from word 1.
const POSITIONS: [usize; 24] = [
    10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1,
];

/// The constants of ι, from their shift register x^8 + x^6 + x^5 + x^4 + 1 (FIPS 202, 3.2.5).
const ROUND_CONSTANTS: [u64; 24] = {
    let mut constants = [0; 24];
    let mut register = 1u32;
    let mut round = 0;
    while round < 24 {
        let mut j = 0;
        while j < 7 {
            constants[round] |= ((register & 1) as u64) << ((1u32 << j) - 1);
            register <<= 1;
            if register & 0x100 != 0 {
                register ^= 0x171;
            }
            j += 1;
        }
        round += 1;
    }
    constants
};

/// For each word after ρ and π: the word that it comes from, and by how much that is rotated.
const SOURCES: [(usize, u32); 25] = {
    let mut sources = [(0, 0); 25];
    let (mut from, mut i) = (1, 0);
    while i < 24 {
        sources[POSITIONS[i]] = (from, ROTATIONS[i]);
        from = POSITIONS[i];
        i += 1;
    }
    sources
};

/// Keccak-f[1600] of eight states.
struct Permute<'a>(&'a mut [Words; 25]);

impl Pass for Permute<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        let a = self.0;
        let mut b = [[0; LANES]; 25];
        for constants in ROUND_CONSTANTS.as_chunks::<2>().0 {
            round(a, &mut b, constants[0]);
            round(&b, a, constants[1]);
        }
    }
}

#[inline(always)]
fn round(a: &[Words; 25], out: &mut [Words; 25], constant: u64) {
    let mut parity = [[0; LANES]; 5];
    for x in 0..5 {
        for l in 0..LANES {
            parity[x][l] = a[x][l] ^ a[x + 5][l] ^ a[x + 10][l] ^ a[x + 15][l] ^ a[x + 20][l];
        }
    }
    let mut effect = [[0; LANES]; 5];
    for x in 0..5 {
        for l in 0..LANES {
            effect[x][l] = parity[(x + 4) % 5][l] ^ parity[(x + 1) % 5][l].rotate_left(1);
        }
    }
    row::<0>(a, &effect, out);
    row::<1>(a, &effect, out);
    row::<2>(a, &effect, out);
    row::<3>(a, &effect, out);
    row::<4>(a, &effect, out);
    for word in &mut out[0] {
        *word ^= constant;
    }
}

/// ρ, π and χ of the five words of row `Y`: one loop over the states, so that all between load and
/// store stays in vectors.
#[allow(clippy::needless_range_loop)] // It is the states that are counted, not the words.
#[inline(always)]
fn row<const Y: usize>(a: &[Words; 25], effect: &[Words; 5], out: &mut [Words; 25]) {
    let word = |x: usize, l: usize| {
        let (from, rotation) = SOURCES[5 * Y + x];
        (a[from][l] ^ effect[from % 5][l]).rotate_left(rotation)
    };
    for l in 0..LANES {
        let b = [word(0, l), word(1, l), word(2, l), word(3, l), word(4, l)];
        out[5 * Y][l] = b[0] ^ (!b[1] & b[2]);
        out[5 * Y + 1][l] = b[1] ^ (!b[2] & b[3]);
        out[5 * Y + 2][l] = b[2] ^ (!b[3] & b[4]);
        out[5 * Y + 3][l] = b[3] ^ (!b[4] & b[0]);
        out[5 * Y + 4][l] = b[4] ^ (!b[0] & b[1]);
    }
}

/// The first block of output for each of at most eight inputs, which are shorter than a block.
pub(crate) fn shake128(backend: Backend, inputs: &[&[u8]]) -> [[u8; BLOCK_BYTES]; LANES] {
    assert!(inputs.len() <= LANES, "more inputs than lanes");
    let mut state = [[0; LANES]; 25];
    for (lane, input) in inputs.iter().enumerate() {
        assert!(input.len() < BLOCK_BYTES, "an input of one block");
        let mut block = [0; BLOCK_BYTES];
        block[..input.len()].copy_from_slice(input);
        // The suffix 1111 of SHAKE and the padding 10*1.
        block[input.len()] ^= 0x1f;
        block[BLOCK_BYTES - 1] ^= 0x80;
        for (word, bytes) in state.iter_mut().zip(block.as_chunks::<8>().0) {
            word[lane] = u64::from_le_bytes(*bytes);
        }
    }
    backend.run(Permute(&mut state));
    let mut out = [[0; BLOCK_BYTES]; LANES];
    for (lane, out) in out.iter_mut().enumerate() {
        for (bytes, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(&state) {
            *bytes = word[lane].to_le_bytes();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sha3::Shake128;
    use sha3::digest::{ExtendableOutput, Update, XofReader};

    fn expected(input: &[u8]) -> [u8; BLOCK_BYTES] {
        let mut hasher = Shake128::default();
        hasher.update(input);
        let mut out = [0; BLOCK_BYTES];
        hasher.finalize_xof().read(&mut out);
        out
    }

    proptest! {
        #[test]
        fn each_lane_agrees_with_the_sha3_crate(
            inputs in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..BLOCK_BYTES), 0..=LANES),
        ) {
            let inputs: Vec<&[u8]> = inputs.iter().map(|input| &input[..]).collect();
            for backend in Backend::available() {
                let out = shake128(backend, &inputs);
                for (out, input) in out.iter().zip(&inputs) {
                    prop_assert_eq!(*out, expected(input));
                }
            }
        }
    }

    #[test]
    fn the_longest_input_agrees() {
        let input = [0xff; BLOCK_BYTES - 1];
        let out = shake128(Backend::portable(), &[&input]);
        assert_eq!(out[0], expected(&input));
    }
}
