//! Keccak-f\[1600\] (FIPS 202) on eight states at once, and SHAKE of eight messages in parallel: one word of
//! all eight states is one vector of AVX-512, or two of AVX2.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::Backend;
#[cfg(target_arch = "x86_64")]
use crate::instructions::Avx512Vbmi2;

/// Number of messages hashed at once.
pub const LANES: usize = 8;

/// Words of a state.
const WORDS: usize = 25;

/// SHAKE128 of up to eight messages: blocks of 21 words.
pub type Shakes128 = Shakes<21>;

/// SHAKE256 of up to eight messages: blocks of 17 words.
pub type Shakes256 = Shakes<17>;

/// Eight states of a sponge with blocks of `RATE` words.
#[derive(Clone, Debug)]
pub struct Shakes<const RATE: usize>(States);

/// Row `w` has word `w` of all states.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct States([[u64; LANES]; WORDS]);

impl<const RATE: usize> Shakes<RATE> {
    /// The states after absorbing up to eight messages, each given in parts, permuted to their first output
    /// blocks.
    ///
    /// # Panics
    /// If there are more than eight messages.
    #[must_use]
    pub fn absorb(messages: &[&[&[u8]]], backend: Backend) -> Self {
        let mut states = Self(States([[0; LANES]; WORDS]));
        states.absorb_all(messages, backend);
        states
    }

    /// See [`Shakes::absorb`].
    fn absorb_all(&mut self, messages: &[&[&[u8]]], backend: Backend) {
        assert!(messages.len() <= LANES, "at most {LANES} messages");
        // A message that fills its blocks is followed by one for the padding alone, so this is the index of the last
        // one.
        let last = |parts: &&[&[u8]]| parts.iter().map(|p| p.len()).sum::<usize>() / (8 * RATE);
        let longest = messages.iter().map(last).max().unwrap_or(0);
        let mut ended = Vec::new();
        for block in 0..=longest {
            for (lane, parts) in messages.iter().enumerate() {
                if last(parts) >= block {
                    let from = block * 8 * RATE;
                    let rows = self.0.0.iter_mut();
                    if let Some(whole) = whole(parts, from, 8 * RATE) {
                        for (row, word) in rows.zip(whole.as_chunks::<8>().0) {
                            row[lane] ^= u64::from_le_bytes(*word);
                        }
                    } else {
                        for (row, word) in rows.zip(padded::<RATE>(parts, from)) {
                            row[lane] ^= word;
                        }
                    }
                }
            }
            self.permute(backend);
            // Lanes of shorter messages continue, but this is their state.
            for (lane, parts) in messages.iter().enumerate() {
                if last(parts) == block && block < longest {
                    ended.push((lane, self.0.0.map(|row| row[lane])));
                }
            }
        }
        for (lane, state) in ended {
            for (row, word) in self.0.0.iter_mut().zip(state) {
                row[lane] = word;
            }
        }
    }

    /// The words of the current block of a message's output, each little-endian.
    ///
    /// # Panics
    /// If there is no such lane.
    #[must_use]
    pub fn block(&self, lane: usize) -> [u64; RATE] {
        assert!(lane < LANES, "a lane below {LANES}");
        let mut out = [0; RATE];
        for (word, row) in out.iter_mut().zip(&self.0.0) {
            *word = row[lane];
        }
        out
    }

    /// Writes the numbers of the current block of a message's output, two bytes each, that are below `limit` to
    /// the start of `out`, and returns how many there are.
    ///
    /// # Panics
    /// If there is no such lane, or `out` has no room for all numbers of a block.
    pub fn below(
        &self,
        lane: usize,
        limit: u16,
        order: ByteOrder,
        out: &mut [u16],
        backend: Backend,
    ) -> usize {
        assert!(out.len() >= 4 * RATE, "room for {} numbers", 4 * RATE);
        #[cfg(target_arch = "x86_64")]
        if let Backend::Avx512Dq(_) | Backend::Avx512Vnni(_) | Backend::Avx512Ifma(_) = backend
            && let Some(witness) = Avx512Vbmi2::detect()
        {
            assert!(lane < LANES, "a lane below {LANES}");
            return avx512::below(witness, &self.0.0[..RATE], lane, limit, order, out);
        }
        let _ = backend;
        below(&self.block(lane), limit, order, out)
    }

    /// Overwrites the states, because a message or an output was secret.
    pub fn wipe(&mut self) {
        self.0.0 = [[0; LANES]; WORDS];
        // Otherwise the zeros would never be read, and the compiler could optimise them away.
        std::hint::black_box(&mut self.0.0);
    }

    /// Advances all outputs to the next block.
    pub fn permute(&mut self, backend: Backend) {
        match backend {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(witness) => avx2::permute(witness, &mut self.0),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2Fma(witness) => avx2::permute(witness.into(), &mut self.0),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Dq(witness) => avx512::permute(witness.into(), &mut self.0),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Vnni(witness) => avx512::permute(witness.into(), &mut self.0),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Ifma(witness) => avx512::permute(witness.into(), &mut self.0),
            _ => permute::<u64>(&mut self.0),
        }
    }
}

/// Byte order of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The most significant byte first.
    Big,
    /// The least significant byte first.
    Little,
}

/// See [`Shakes::below`].
fn below(words: &[u64], limit: u16, order: ByteOrder, out: &mut [u16]) -> usize {
    let mut filled = 0;
    for word in words {
        for k in 0..4 {
            let number = (word >> (16 * k)) as u16;
            let number = match order {
                ByteOrder::Big => number.swap_bytes(),
                ByteOrder::Little => number,
            };
            // Always written, whether kept or not: whether it is kept cannot be predicted.
            out[filled] = number;
            filled += usize::from(number < limit);
        }
    }
    filled
}

/// `count` bytes of a message from byte `from` on, if a single part contains all of them.
fn whole<'m>(parts: &[&'m [u8]], from: usize, count: usize) -> Option<&'m [u8]> {
    let mut rest = from;
    for part in parts {
        if rest < part.len() {
            return part.get(rest..rest + count);
        }
        rest -= part.len();
    }
    None
}

/// The block of a message that begins at byte `from`, as words; the last one with the suffix of
/// SHAKE and the padding.
fn padded<const RATE: usize>(parts: &[&[u8]], from: usize) -> [u64; RATE] {
    let mut words = [[0; 8]; RATE];
    let block = words.as_flattened_mut();
    // Bytes of the message before a part, and the block filled so far.
    let (mut before, mut filled) = (0, 0);
    for part in parts {
        let rest = part.get((from + filled).saturating_sub(before)..);
        let rest = rest.unwrap_or_default();
        let taken = rest.len().min(block.len() - filled);
        block[filled..filled + taken].copy_from_slice(&rest[..taken]);
        filled += taken;
        before += part.len();
    }
    if filled < block.len() {
        block[filled] = 0x1f;
        block[8 * RATE - 1] |= 0x80;
    }
    words.map(u64::from_le_bytes)
}

/// A vector of [`Words::COUNT`] words of 64 bits, on which every operation acts word by word.
trait Words: Copy {
    /// A divisor of eight.
    const COUNT: usize;

    /// Loads the first words of a slice that has at least this many.
    fn load(words: &[u64]) -> Self;

    /// Stores to the first words of a slice that has at least this many.
    fn store(self, words: &mut [u64]);

    /// The bits that differ.
    fn xor(self, other: Self) -> Self;

    /// The bits of `other` that are not set in `self`.
    fn and_not(self, other: Self) -> Self;

    /// Rotates left by 1 to 63 bits.
    fn turn(self, bits: u32) -> Self;
}

/// The oracle for the vectors.
impl Words for u64 {
    const COUNT: usize = 1;

    #[inline(always)]
    fn load(words: &[u64]) -> Self {
        words[0]
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        words[0] = self;
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        !self & other
    }

    #[inline(always)]
    fn turn(self, bits: u32) -> Self {
        self.rotate_left(bits)
    }
}

/// Round constants (FIPS 202, section 3.2.5).
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

/// For each position of a state after the step pi, the position before it, and the number of bits by which the
/// step rho rotates that word (FIPS 202, sections 3.2.2 and 3.2.3).
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

/// The permutation of all states.
#[inline(always)]
fn permute<W: Words>(states: &mut States) {
    for first in (0..LANES).step_by(W::COUNT) {
        let mut state = [W::load(&states.0[0][first..]); WORDS];
        for (word, row) in state.iter_mut().zip(&states.0) {
            *word = W::load(&row[first..]);
        }
        let mut next = state;
        // From one array into the other and back, so that no round copies its result.
        for [even, odd] in ROUNDS.as_chunks::<2>().0 {
            round(&state, &mut next, &[*even; LANES]);
            round(&next, &mut state, &[*odd; LANES]);
        }
        for (word, row) in state.iter().zip(&mut states.0) {
            word.store(&mut row[first..]);
        }
    }
}

/// One round. A loop over 25 positions would remain a loop when compiled, with rotations by amounts not known
/// at compile time, and take six times as long; the positions of a row are constants.
#[inline(always)]
fn round<W: Words>(state: &[W; WORDS], out: &mut [W; WORDS], constant: &[u64; LANES]) {
    let mut columns = [state[0]; 5];
    for (x, column) in columns.iter_mut().enumerate() {
        let (a, b) = (state[x].xor(state[x + 5]), state[x + 10].xor(state[x + 15]));
        *column = a.xor(b).xor(state[x + 20]);
    }
    let mut mixed = columns;
    for (x, mixed) in mixed.iter_mut().enumerate() {
        *mixed = columns[(x + 4) % 5].xor(columns[(x + 1) % 5].turn(1));
    }
    row::<W, 0>(state, &mixed, out);
    row::<W, 1>(state, &mixed, out);
    row::<W, 2>(state, &mixed, out);
    row::<W, 3>(state, &mixed, out);
    row::<W, 4>(state, &mixed, out);
    out[0] = out[0].xor(W::load(constant));
}

/// The five positions of a row after the steps rho, pi and chi.
#[inline(always)]
fn row<W: Words, const Y: usize>(state: &[W; WORDS], mixed: &[W; 5], out: &mut [W; WORDS]) {
    let mut turned = [state[0]; 5];
    for (x, turned) in turned.iter_mut().enumerate() {
        let (from, bits) = SOURCES[5 * Y + x];
        let word = state[from].xor(mixed[from % 5]);
        *turned = if bits == 0 { word } else { word.turn(bits) };
    }
    for x in 0..5 {
        let others = turned[(x + 1) % 5].and_not(turned[(x + 2) % 5]);
        out[5 * Y + x] = turned[x].xor(others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InstructionSet;
    use proptest::prelude::*;
    use sha3::digest::{ExtendableOutput, XofReader};

    fn backends() -> Vec<Backend> {
        use InstructionSet::{Avx2, Avx2Fma, Avx512Dq, Avx512Ifma, Avx512Vnni};
        let sets = [Avx2, Avx2Fma, Avx512Dq, Avx512Vnni, Avx512Ifma];
        let wider = sets.map(InstructionSet::detect);
        let wider = wider.into_iter().flatten();
        std::iter::once(Backend::Portable).chain(wider).collect()
    }

    #[test]
    fn nothing_is_left_in_states_that_are_wiped() {
        let mut states = Shakes128::absorb(&[&[b"secret"]], Backend::Portable);
        assert_ne!(states.block(0), [0; 21]);
        states.wipe();
        assert!((0..LANES).all(|lane| states.block(lane) == [0; 21]));
    }

    /// Three output blocks of each message.
    fn outputs<const RATE: usize>(messages: &[&[&[u8]]], backend: Backend) -> Vec<Vec<u64>> {
        let mut states = Shakes::<RATE>::absorb(messages, backend);
        let mut out = vec![Vec::new(); messages.len()];
        for _ in 0..3 {
            for (lane, out) in out.iter_mut().enumerate() {
                out.extend(states.block(lane));
            }
            states.permute(backend);
        }
        out
    }

    fn expected<const RATE: usize>(
        messages: &[&[&[u8]]],
        empty: impl ExtendableOutput + Clone,
    ) -> Vec<Vec<u64>> {
        let one = |parts: &&[&[u8]]| {
            let mut hash = empty.clone();
            parts.iter().for_each(|part| hash.update(part));
            let mut out = [[0; 8]; 64];
            let out = &mut out[..3 * RATE];
            hash.finalize_xof().read(out.as_flattened_mut());
            out.iter().map(|word| u64::from_le_bytes(*word)).collect()
        };
        messages.iter().map(one).collect()
    }

    fn agree(messages: &[[&[u8]; 3]]) {
        let messages: Vec<&[&[u8]]> = messages.iter().map(|m| &m[..]).collect();
        let of_128 = expected::<21>(&messages, sha3::Shake128::default());
        let of_256 = expected::<17>(&messages, sha3::Shake256::default());
        for backend in backends() {
            assert_eq!(outputs::<21>(&messages, backend), of_128, "{backend}");
            assert_eq!(outputs::<17>(&messages, backend), of_256, "{backend}");
        }
    }

    proptest! {
        #[test]
        fn hashes_are_those_of_the_standard_for_messages_of_every_length(
            bytes in proptest::collection::vec(any::<u8>(), 600),
            cuts in proptest::collection::vec([0..200usize, 0..200usize, 0..200usize], 0..=LANES),
        ) {
            let messages: Vec<[&[u8]; 3]> = cuts
                .iter()
                .map(|&[a, b, c]| [&bytes[..a], &bytes[a..a + b], &bytes[a + b..a + b + c]])
                .collect();
            agree(&messages);
        }
    }

    /// For every limit, on every backend.
    #[test]
    fn numbers_below_a_limit_are_those_of_the_block() {
        let messages: Vec<[u8; 3]> = (0..LANES as u8).map(|k| [k, 7, 9]).collect();
        let parts: Vec<[&[u8]; 1]> = messages.iter().map(|m| [&m[..]]).collect();
        let parts: Vec<&[&[u8]]> = parts.iter().map(|p| &p[..]).collect();
        for backend in backends() {
            let states = Shakes::<17>::absorb(&parts, backend);
            for (lane, limit) in (0..LANES).zip([0, 1, 300, 32_768, 61_445, 65_535, 65_000, 9]) {
                let bytes: Vec<u8> = (states.block(lane).iter())
                    .flat_map(|word| word.to_le_bytes())
                    .collect();
                for order in [ByteOrder::Big, ByteOrder::Little] {
                    let numbers = bytes.as_chunks::<2>().0.iter().map(|&two| match order {
                        ByteOrder::Big => u16::from_be_bytes(two),
                        ByteOrder::Little => u16::from_le_bytes(two),
                    });
                    let expected: Vec<u16> = numbers.filter(|&n| n < limit).collect();
                    let mut out = [7; 68];
                    let count = states.below(lane, limit, order, &mut out, backend);
                    assert_eq!(out[..count], expected, "{backend} {limit}");
                }
            }
        }
    }

    #[test]
    fn blocks_that_are_full_or_nearly_so_agree() {
        let bytes = [0xa5; 600];
        for rate in [136, 168] {
            let lengths = [
                0,
                1,
                rate - 2,
                rate - 1,
                rate,
                rate + 1,
                2 * rate - 1,
                2 * rate,
            ];
            agree(&lengths.map(|length| [&bytes[..length / 3], &[], &bytes[length / 3..length]]));
        }
    }
}
