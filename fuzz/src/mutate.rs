//! Mutations of inputs from a fixed seed, so that every machine runs the same ones.

/// Longest input that a mutation makes, in bytes.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Values at which length fields and counters go wrong.
const EDGES: &[u32] = &[
    0,
    1,
    7,
    8,
    9,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    !0,
];

/// Makes inputs out of others.
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// The same seed gives the same mutations.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A mutation of one of `inputs`; without any, random bytes.
    pub fn mutate(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.choose(inputs).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.step(&mut bytes, inputs);
        }
        bytes.truncate(INPUT_BYTES_MAX);
        bytes
    }

    fn step(&mut self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        match self.below(8) {
            0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            2 if !bytes.is_empty() => bytes[at] = self.next() as u8,
            3 if !bytes.is_empty() => {
                // One, two or four bytes of an edge value.
                let edge = EDGES[self.below(EDGES.len())].to_le_bytes();
                let width = (1 << self.below(3)).min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&edge[..width]);
            }
            4 => bytes.truncate(at),
            5 => {
                let removed = self.below(9).min(bytes.len() - at);
                bytes.drain(at..at + removed);
            }
            6 => {
                // The front of this input and the back of another.
                let other = self.choose(inputs).map_or(&[][..], Vec::as_slice);
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                let inserted: Vec<u8> = (0..=self.below(8)).map(|_| self.next() as u8).collect();
                bytes.splice(at..at, inserted);
            }
        }
    }

    fn choose<'a>(&mut self, inputs: &'a [Vec<u8>]) -> Option<&'a Vec<u8>> {
        inputs.get(self.below(inputs.len()))
    }

    /// A number below `bound`, or 0.
    fn below(&mut self, bound: usize) -> usize {
        match bound {
            0 => 0,
            bound => (self.next() % bound as u64) as usize,
        }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
