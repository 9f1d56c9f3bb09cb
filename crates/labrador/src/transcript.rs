//! The Fiat-Shamir transcript: a 32-byte state that absorbs every message, and the streams drawn
//! from it.

use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

use crate::counter::Counter;
use crate::ring::{DEGREE, Q, RESIDUE_BYTES, Rq};

/// Bytes of the state: 32, so that a collision costs `2^128`.
pub(crate) const STATE_BYTES: usize = 32;

/// The state of both sides. A message is absorbed under its own label and with its length, so two
/// different sequences of messages never hash the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transcript {
    state: [u8; STATE_BYTES],
    #[cfg(test)]
    pub(crate) watched: Watched,
}

/// The values absorbed and drawn, in order: the label, and the state after or before it.
#[cfg(test)]
pub(crate) type Log = Vec<(String, [u8; STATE_BYTES])>;

/// State that tests observe and change; absent outside test builds.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// The defence whose weights are zero on both sides.
    pub(crate) without: Option<crate::adversary::Defence>,
    /// Log of it and its copies.
    pub(crate) log: std::sync::Arc<std::sync::Mutex<Log>>,
}

#[cfg(test)]
impl PartialEq for Watched {
    /// Watching changes nothing.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
impl Eq for Watched {}

#[cfg(test)]
impl Watched {
    fn note(&self, what: &str, label: &str, state: &[u8; STATE_BYTES]) {
        let mut log = self.log.lock().expect("no test panics while it notes");
        log.push((format!("{what} {label}"), *state));
    }
}

/// Whether a test leaves out the weights of a defence, on both sides; always false outside test builds.
macro_rules! is_left_out {
    ($from:expr, $defence:ident) => {{
        #[cfg(test)]
        let out = $from.watched.without == Some(crate::adversary::Defence::$defence);
        #[cfg(not(test))]
        let out = false;
        let _ = &$from;
        out
    }};
}
pub(crate) use is_left_out;

impl Transcript {
    /// Creates a transcript of the protocol named by `domain`.
    ///
    /// # Panics
    /// If the name has 255 bytes or more.
    #[must_use]
    pub(crate) fn new(domain: &str) -> Self {
        let mut transcript = Self {
            state: [0; STATE_BYTES],
            #[cfg(test)]
            watched: Watched::default(),
        };
        transcript.absorb(domain, &[]);
        transcript
    }

    /// Absorbs one message: `h = SHAKE256(h, len8(label), label, len64(data), data)`.
    ///
    /// # Panics
    /// If the label has 255 bytes or more: the byte 255 marks the derivation of a stream.
    pub(crate) fn absorb(&mut self, label: &str, data: &[u8]) {
        let mut hash = Shake256::default();
        hash.update(&self.state);
        hash.update(&[label_length(label)]);
        hash.update(label.as_bytes());
        hash.update(&(data.len() as u64).to_le_bytes());
        hash.update(data);
        hash.finalize_xof().read(&mut self.state);
        #[cfg(test)]
        self.watched.note("absorb", label, &self.state);
    }

    /// Returns the seed `SHAKE256(h, 255, len8(label), label, index)` of a stream of this state.
    ///
    /// # Panics
    /// If the label has 255 bytes or more.
    #[must_use]
    pub(crate) fn seed(&self, label: &str, index: u64) -> Seed {
        let mut hash = Shake256::default();
        hash.update(&self.state);
        hash.update(&[u8::MAX, label_length(label)]);
        hash.update(label.as_bytes());
        hash.update(&index.to_le_bytes());
        let mut seed = [0; STATE_BYTES];
        hash.finalize_xof().read(&mut seed);
        #[cfg(test)]
        self.watched.note("draw", label, &self.state);
        Seed {
            bytes: seed,
            #[cfg(test)]
            watched: self.watched.clone(),
        }
    }

    /// Returns the state, for tests that compare both sides after each step.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn state(&self) -> &[u8; STATE_BYTES] {
        &self.state
    }
}

fn label_length(label: &str) -> u8 {
    assert!(label.len() < 255, "a label has fewer than 255 bytes");
    label.len() as u8
}

/// The seed of a pseudorandom stream: key and first counter block of AES-128-CTR.
#[derive(Clone)]
pub(crate) struct Seed {
    bytes: [u8; STATE_BYTES],
    #[cfg(test)]
    watched: Watched,
}

impl Seed {
    /// Returns the seed of a public, fixed stream named `name`.
    #[must_use]
    pub(crate) fn of_name(name: &str) -> Self {
        let mut hash = Shake256::default();
        hash.update(name.as_bytes());
        let mut seed = [0; STATE_BYTES];
        hash.finalize_xof().read(&mut seed);
        Self {
            bytes: seed,
            #[cfg(test)]
            watched: Watched::default(),
        }
    }

    /// Returns the stream from its first byte.
    #[must_use]
    pub(crate) fn stream(&self) -> Stream {
        self.stream_at(0)
    }

    /// Returns the stream from byte `offset`.
    #[must_use]
    pub(crate) fn stream_at(&self, offset: u64) -> Stream {
        let (key, counter) = self.bytes.split_at(STATE_BYTES / 2);
        let key: &[u8; 16] = key.try_into().expect("half of 32 bytes");
        let counter: &[u8; 16] = counter.try_into().expect("half of 32 bytes");
        Stream {
            counter: Counter::new(key, counter, offset),
            #[cfg(test)]
            watched: self.watched.clone(),
        }
    }
}

/// Reduces a six-byte number modulo `Q`.
fn reduced(x: u64) -> u64 {
    if x >= Q { x - Q } else { x }
}

/// A pseudorandom byte stream.
pub(crate) struct Stream {
    counter: Counter,
    #[cfg(test)]
    pub(crate) watched: Watched,
}

impl Stream {
    /// Overwrites `out` with the next bytes.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        self.counter.fill(out);
    }

    /// Draws the next residue: six bytes, little endian, reduced modulo `Q`. No residue has a probability above
    /// `2^-47`.
    pub(crate) fn residue(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes[..RESIDUE_BYTES]);
        reduced(u64::from_le_bytes(bytes))
    }

    /// Draws the next 64 residues as an element.
    pub(crate) fn element(&mut self) -> Rq {
        let mut bytes = [0; DEGREE * RESIDUE_BYTES];
        self.fill(&mut bytes);
        let mut out = [0u64; DEGREE];
        for (c, chunk) in out.iter_mut().zip(bytes.chunks_exact(RESIDUE_BYTES)) {
            let mut word = [0; 8];
            word[..RESIDUE_BYTES].copy_from_slice(chunk);
            *c = reduced(u64::from_le_bytes(word));
        }
        Rq::from_canonical(out).expect("residues are below Q")
    }
}

/// The bytes of a stream one by one.
pub(crate) struct Bytes {
    stream: Stream,
    buffer: [u8; 128],
    used: usize,
}

impl Stream {
    /// Returns a reader of single bytes.
    #[must_use]
    pub(crate) fn bytes(self) -> Bytes {
        Bytes {
            stream: self,
            buffer: [0; 128],
            used: 128,
        }
    }
}

impl Bytes {
    /// Returns the next byte.
    #[inline]
    pub(crate) fn byte(&mut self) -> u8 {
        if self.used == self.buffer.len() {
            self.stream.fill(&mut self.buffer);
            self.used = 0;
        }
        self.used += 1;
        self.buffer[self.used - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_message_moves_the_state() {
        let base = Transcript::new("test");
        let absorbed = |label: &str, data: &[u8]| {
            let mut t = base.clone();
            t.absorb(label, data);
            *t.state()
        };
        let states = [
            absorbed("a", b""),
            absorbed("a", b"b"),
            absorbed("ab", b""),
            absorbed("", b"ab"),
            absorbed("a", b"b\0"),
            *Transcript::new("other").state(),
        ];
        for (i, x) in states.iter().enumerate() {
            assert!(states[..i].iter().all(|y| x != y), "state {i} is new");
        }
    }

    #[test]
    fn streams_differ_by_label_and_index_and_can_be_entered_anywhere() {
        let t = Transcript::new("test");
        let first = |seed: Seed| {
            let mut out = [0; 64];
            seed.stream().fill(&mut out);
            out
        };
        assert_ne!(first(t.seed("a", 0)), first(t.seed("a", 1)));
        assert_ne!(first(t.seed("a", 0)), first(t.seed("b", 0)));
        let seed = Seed::of_name("test");
        let (mut whole, mut part) = ([0; 100], [0; 60]);
        seed.stream().fill(&mut whole);
        seed.stream_at(40).fill(&mut part);
        assert_eq!(whole[40..], part);
        let mut stream = seed.stream();
        let element = seed.stream().element();
        assert!(
            element
                .coefficients()
                .iter()
                .all(|&c| c == stream.residue())
        );
    }
}
