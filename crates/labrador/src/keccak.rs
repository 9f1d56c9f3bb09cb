//! SHAKE256 (FIPS 202) of eight messages beside each other: a word of all eight states is one
//! vector, or two of AVX2.

use crate::kernel::{Backend, Pass, Vectors, Words};

/// Messages that are hashed at once.
pub const LANES: usize = 8;

/// Words of a block of SHAKE256.
pub const BLOCK_WORDS: usize = 17;

/// Bytes of a block of SHAKE256.
const BLOCK_BYTES: usize = 8 * BLOCK_WORDS;

/// Words of a state.
const WORDS: usize = 25;

/// Constants of the rounds (FIPS 202, section 3.2.5).
const ROUNDS: [u64; 24] = {
    let mut constants = [0; 24];
    let (mut round, mut bits) = (0, 1u16);
    while round < 24 {
        let mut j = 0;
        while j < 7 {
            constants[round] |= ((bits & 1) as u64) << ((1 << j) - 1);
            // The polynomial x^8 + x^6 + x^5 + x^4 + 1.
            bits <<= 1;
            if bits & 0x100 != 0 {
                bits ^= 0x171;
            }
            j += 1;
        }
        round += 1;
    }
    constants
};

/// For each place of a state after the step pi the place before it, and the bits by which the step
/// rho turns that word (FIPS 202, sections 3.2.2 and 3.2.3).
const SOURCES: [(usize, u32); WORDS] = {
    let mut turns = [0; WORDS];
    let (mut x, mut y, mut t) = (1, 0, 0);
    while t < 24 {
        turns[x + 5 * y] = (t + 1) * (t + 2) / 2 % 64;
        (x, y) = (y, (2 * x + 3 * y) % 5);
        t += 1;
    }
    let mut sources = [(0, 0); WORDS];
    let mut place = 0;
    while place < WORDS {
        let (x, y) = (place % 5, place / 5);
        let from = (x + 3 * y) % 5 + 5 * x;
        sources[place] = (from, turns[from]);
        place += 1;
    }
    sources
};

/// Eight states: row `w` has word `w` of all.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Shakes([[u64; LANES]; WORDS]);

impl Shakes {
    /// The states after up to eight messages, each given in parts, and their first permuted blocks.
    ///
    /// # Panics
    /// If there are more messages.
    #[must_use]
    pub fn absorb(messages: &[&[&[u8]]], backend: Backend) -> Self {
        assert!(messages.len() <= LANES, "at most {LANES} messages");
        let padded = messages.iter().map(|parts| padded(parts));
        let padded: Vec<Vec<u8>> = padded.collect();
        let blocks = |bytes: &Vec<u8>| bytes.len() / BLOCK_BYTES;
        let mut states = Shakes([[0; LANES]; WORDS]);
        let mut done = states.clone();
        for block in 0..padded.iter().map(blocks).max().unwrap_or(0) {
            for (lane, bytes) in padded.iter().enumerate() {
                let words = bytes.as_chunks::<8>().0.iter();
                let words = words.skip(block * BLOCK_WORDS).take(BLOCK_WORDS);
                for (row, word) in states.0.iter_mut().zip(words) {
                    row[lane] ^= u64::from_le_bytes(*word);
                }
            }
            states.permute(backend);
            // Lanes of shorter messages go on, but their state is this one.
            let ends = |bytes: &Vec<u8>| blocks(bytes) == block + 1;
            for (lane, _) in padded.iter().enumerate().filter(|(_, b)| ends(b)) {
                for (kept, row) in done.0.iter_mut().zip(&states.0) {
                    kept[lane] = row[lane];
                }
            }
        }
        done
    }

    /// The words of the current block of a message's output, each little endian.
    ///
    /// # Panics
    /// If there is no such lane.
    #[must_use]
    pub fn block(&self, lane: usize) -> [u64; BLOCK_WORDS] {
        assert!(lane < LANES, "a lane below {LANES}");
        let mut out = [0; BLOCK_WORDS];
        for (word, row) in out.iter_mut().zip(&self.0) {
            *word = row[lane];
        }
        out
    }

    /// Goes on to the next block of all outputs.
    pub fn permute(&mut self, backend: Backend) {
        backend.run(Permute(self));
    }
}

/// Keccak-f\[1600\] of all states.
struct Permute<'a>(&'a mut Shakes);

impl Pass for Permute<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let rows = &mut self.0.0;
        for first in (0..LANES).step_by(V::Words::LANES) {
            let mut state = [V::Words::repeat(0); WORDS];
            for (word, row) in state.iter_mut().zip(&*rows) {
                *word = V::Words::load(&row[first..]);
            }
            for constant in ROUNDS {
                round(&mut state, constant);
            }
            for (word, row) in state.iter().zip(&mut *rows) {
                word.store(&mut row[first..]);
            }
        }
    }
}

/// A message of parts with the suffix and the padding of SHAKE256, in whole blocks.
fn padded(parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let blocks = length / BLOCK_BYTES + 1;
    let mut out = Vec::with_capacity(blocks * BLOCK_BYTES);
    for part in parts {
        out.extend_from_slice(part);
    }
    out.push(0x1f);
    out.resize(blocks * BLOCK_BYTES, 0);
    if let Some(last) = out.last_mut() {
        *last |= 0x80;
    }
    out
}

/// One round of Keccak-f\[1600\].
#[inline(always)]
fn round<W: Words>(state: &mut [W; WORDS], constant: u64) {
    let mut columns = [W::repeat(0); 5];
    for (x, column) in columns.iter_mut().enumerate() {
        let (a, b) = (state[x].xor(state[x + 5]), state[x + 10].xor(state[x + 15]));
        *column = a.xor(b).xor(state[x + 20]);
    }
    let mut turned = [W::repeat(0); WORDS];
    for (place, (from, bits)) in SOURCES.into_iter().enumerate() {
        let x = from % 5;
        let mixed = columns[(x + 4) % 5].xor(columns[(x + 1) % 5].turn(1));
        let word = state[from].xor(mixed);
        turned[place] = if bits == 0 { word } else { word.turn(bits) };
    }
    for (place, word) in state.iter_mut().enumerate() {
        let (x, row) = (place % 5, place / 5 * 5);
        let others = turned[row + (x + 1) % 5].and_not(turned[row + (x + 2) % 5]);
        *word = turned[place].xor(others);
    }
    state[0] = state[0].xor(W::repeat(constant));
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha3::Shake256;
    use sha3::digest::{ExtendableOutput, Update, XofReader};

    /// Three blocks of output of each message.
    fn outputs(messages: &[&[&[u8]]], backend: Backend) -> Vec<Vec<u64>> {
        let mut states = Shakes::absorb(messages, backend);
        let mut out = vec![Vec::new(); messages.len()];
        for _ in 0..3 {
            for (lane, out) in out.iter_mut().enumerate() {
                out.extend(states.block(lane));
            }
            states.permute(backend);
        }
        out
    }

    #[test]
    fn hashes_are_those_of_the_standard_for_messages_of_every_length() {
        let bytes: Vec<u8> = (0..600u32).map(|i| (i * i + 7 * i) as u8).collect();
        let lengths = [0, 1, 135, 136, 137, 271, 272, 600];
        for count in [0, 1, 3, LANES] {
            let messages: Vec<[&[u8]; 2]> = lengths[LANES - count..]
                .iter()
                .map(|&length| [&bytes[..length / 3], &bytes[length / 3..length]])
                .collect();
            let messages: Vec<&[&[u8]]> = messages.iter().map(|m| &m[..]).collect();
            let expected: Vec<Vec<u64>> = messages
                .iter()
                .map(|parts| {
                    let mut hash = Shake256::default();
                    parts.iter().for_each(|part| hash.update(part));
                    let mut out = [0; 3 * BLOCK_BYTES];
                    hash.finalize_xof().read(&mut out);
                    let words = out.as_chunks::<8>().0.iter();
                    words.map(|&word| u64::from_le_bytes(word)).collect()
                })
                .collect();
            for backend in Backend::available() {
                assert_eq!(outputs(&messages, backend), expected, "{backend}");
            }
        }
    }
}
