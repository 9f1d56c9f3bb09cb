//! Everything secret or random in a key, derived from one seed.
//!
//! SHAKE128(domain ‖ tag ‖ seed ‖ fields), sixteen bytes per field element, big-endian, modulo p. Tags 0 and 1 are
//! those of the lean consensus specification, which draws padding nodes and the parameter from the operating
//! system. Here they are derived from the seed too, so the seed alone restores a key.

use alphorn_exec::Backend;
use alphorn_exec::keccak::{LANES, Shakes128};
use alphorn_stark::Fp;
use zeroize::Zeroizing;

use crate::hash::{Digest, Parameter};
use crate::params::Set;
use crate::wiped::Wiped;

/// Separates this derivation from all other uses of SHAKE128.
const DOMAIN: [u8; 16] = [
    0xae, 0xae, 0x22, 0xff, 0x00, 0x01, 0xfa, 0xff, 0x21, 0xaf, 0x12, 0x00, 0x01, 0x11, 0xff, 0x00,
];

/// Number of words that make a field element.
// 128 bits modulo p: an element is uniform up to 2^−97.
const ELEMENT_WORDS: usize = 2;

/// Block size of SHAKE128 in bytes: every input is shorter, and no value needs more output.
const BLOCK_BYTES: usize = 168;

/// A value determined by the seed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// Position 0 of a chain.
    Start { slot: u32, chain: u8 },
    /// Randomness for one try of a signature.
    Randomness {
        slot: u32,
        message: &'a [u8; 32],
        counter: u64,
    },
    /// A tree node outside the active range.
    Padding { level: u8, index: u64 },
    /// The key's parameter.
    Parameter,
}

/// The pseudorandom function of a key.
#[derive(Clone)]
pub(crate) struct Prf {
    set: Set,
    seed: Zeroizing<[u8; 32]>,
}

impl Prf {
    pub(crate) fn new(set: Set, seed: &[u8; 32]) -> Prf {
        Prf {
            set,
            seed: Zeroizing::new(*seed),
        }
    }

    pub(crate) fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// The block to be hashed, and its length.
    fn input(&self, value: Value<'_>) -> (Zeroizing<[u8; BLOCK_BYTES]>, usize) {
        let mut block = Zeroizing::new([0; BLOCK_BYTES]);
        let mut len = 0;
        let mut push = |bytes: &[u8]| {
            block[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        // Prod and test have the specification's tags. Compact has its own, so one seed in both families gives
        // unrelated values.
        let family = match self.set {
            Set::Prod | Set::Test => 0x00,
            Set::Compact => 0x10,
        };
        let tag = family
            | match value {
                Value::Start { .. } => 0,
                Value::Randomness { .. } => 1,
                Value::Padding { .. } => 2,
                Value::Parameter => 3,
            };
        push(&DOMAIN);
        push(&[tag]);
        push(&*self.seed);
        match value {
            Value::Start { slot, chain } => {
                push(&slot.to_be_bytes());
                push(&u64::from(chain).to_be_bytes());
            }
            Value::Randomness {
                slot,
                message,
                counter,
            } => {
                push(&slot.to_be_bytes());
                push(message);
                push(&counter.to_be_bytes());
            }
            Value::Padding { level, index } => {
                push(&[level]);
                push(&index.to_be_bytes());
            }
            Value::Parameter => {}
        }
        (block, len)
    }

    /// Number of elements of a value; the others are zero.
    fn elements(&self, value: Value<'_>) -> usize {
        let params = self.set.params();
        match value {
            Value::Start { .. } | Value::Padding { .. } => params.digest,
            Value::Randomness { .. } => params.randomness,
            Value::Parameter => params.parameter,
        }
    }

    /// The values, in order.
    pub(crate) fn values(&self, backend: Backend, wanted: &[Value<'_>]) -> Wiped<Digest> {
        // Allocated at full length at once: a move would leave a copy behind.
        let mut out = Wiped(Vec::with_capacity(wanted.len()));
        for wanted in wanted.chunks(LANES) {
            let blocks: Vec<_> = wanted.iter().map(|value| self.input(*value)).collect();
            let mut inputs = [[&[][..]; 1]; LANES];
            for (input, (block, len)) in inputs.iter_mut().zip(&blocks) {
                *input = [&block[..*len]];
            }
            let inputs = inputs.each_ref().map(|input| &input[..]);
            let mut hashed = Shakes128::absorb(&inputs[..wanted.len()], backend);
            for (lane, value) in wanted.iter().enumerate() {
                // These may be the starts of chains, so they are wiped like the input.
                let words = Zeroizing::new(hashed.block(lane));
                let mut elements = [Fp::ZERO; 8];
                let (chunks, _) = words.as_chunks::<ELEMENT_WORDS>();
                for (element, chunk) in elements[..self.elements(*value)].iter_mut().zip(chunks) {
                    // Words are little-endian, the sixteen bytes of an element are big-endian.
                    let [high, low] = chunk.map(|word| u128::from(word.swap_bytes()));
                    *element = Fp::reduced(high << 64 | low);
                }
                out.0.push(elements);
            }
            hashed.wipe();
        }
        out
    }

    /// The key's parameter.
    pub(crate) fn parameter(&self, backend: Backend) -> Parameter {
        let drawn = self.value(backend, Value::Parameter);
        std::array::from_fn(|i| drawn[i])
    }

    /// One value.
    pub(crate) fn value(&self, backend: Backend, wanted: Value<'_>) -> Digest {
        self.values(backend, &[wanted])[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_stark::KERNELS;

    fn canonical(elements: &[Fp]) -> Vec<u32> {
        elements.iter().map(|x| x.canonical()).collect()
    }

    #[test]
    fn known_values_of_the_lean_specification() {
        let bytes: [u8; 32] = std::array::from_fn(|i| i as u8);
        let prf = Prf::new(Set::Prod, &bytes);
        for backend in KERNELS.available() {
            let start = prf.value(backend, Value::Start { slot: 5, chain: 3 });
            assert_eq!(
                canonical(&start),
                [
                    1098644513, 1554998919, 2056298258, 1708086544, 1040172633, 1917438097,
                    1415568932, 606218361
                ]
            );
            let randomness = Value::Randomness {
                slot: 5,
                message: &bytes,
                counter: 0,
            };
            assert_eq!(
                canonical(&prf.value(backend, randomness)),
                [
                    1567494783, 1134502472, 1052824059, 762723956, 168691262, 1365421400,
                    1987720958, 0
                ]
            );
        }
    }

    #[test]
    fn values_differ_and_are_as_long_as_the_set_says() {
        for set in Set::ALL {
            let prf = Prf::new(set, &[7; 32]);
            let wanted = [
                Value::Start { slot: 1, chain: 0 },
                Value::Start { slot: 0, chain: 1 },
                Value::Randomness {
                    slot: 1,
                    message: &[0; 32],
                    counter: 0,
                },
                Value::Padding { level: 0, index: 1 },
                Value::Padding { level: 1, index: 0 },
                Value::Parameter,
            ];
            let values = prf.values(Backend::Portable, &wanted);
            for (i, value) in values.iter().enumerate() {
                let len = prf.elements(wanted[i]);
                assert!(value[len..].iter().all(|x| *x == Fp::ZERO));
                assert!(values[..i].iter().all(|other| other != value), "{set} {i}");
            }
        }
    }
}
