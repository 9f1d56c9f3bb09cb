//! Signatures and public keys, and their encodings.
//!
//! In the sets of the lean consensus specification they are SSZ containers with four-byte elements. The compact
//! set packs elements at 31 bits, lowest bit first. Each object has exactly one encoding: offsets are fixed,
//! elements are below p, padding bits are zero.

use alphorn_stark::Fp;
use alphorn_stark::proof::{DecodeError, read_elements, write_elements};
use thiserror::Error;

use crate::hash::{Digest, Parameter, Randomness};
use crate::params::{DIGEST_MAX, Params, Set};

/// Why bytes are not a signature or key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BytesError {
    /// The length is not that of the set.
    #[error("{got} bytes, the set {set} has {want}")]
    Length {
        /// The set.
        set: Set,
        /// Number of bytes given.
        got: usize,
        /// Number of bytes in the set.
        want: usize,
    },
    /// An SSZ offset differs from the fixed one of all signatures.
    #[error("offset of {field} is {got}, must be {want}")]
    Offset {
        /// The field.
        field: &'static str,
        /// The offset given.
        got: u32,
        /// The only valid offset.
        want: u32,
    },
    /// An integer is not below p.
    #[error("element {index} is not below p")]
    NotCanonical {
        /// Index of the element in encoding order.
        index: usize,
    },
    /// A bit after the last element is set.
    #[error("padding bits are not zero")]
    PaddingBits,
}

/// A one-time signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub(crate) set: Set,
    pub(crate) randomness: Randomness,
    /// One digest for each chain.
    pub(crate) hashes: Vec<Digest>,
    /// Siblings from the leaf to the root.
    pub(crate) path: Vec<Digest>,
}

/// A public key: the root of the tree and the parameter of all hashes under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey {
    pub(crate) set: Set,
    pub(crate) root: Digest,
    pub(crate) parameter: Parameter,
}

/// Offset of the path in a signature's container, after two offsets and the randomness.
const PATH_OFFSET: usize = 4 + 4 * 7 + 4;

/// Offset of the siblings in the path's container, which has no other field.
const SIBLINGS_OFFSET: usize = 4;

fn check_length(set: Set, bytes: &[u8], want: usize) -> Result<(), BytesError> {
    let got = bytes.len();
    if got != want {
        return Err(BytesError::Length { set, got, want });
    }
    Ok(())
}

/// Elements in order.
struct Elements(std::vec::IntoIter<Fp>);

impl Elements {
    fn of(words: impl Iterator<Item = u32>) -> Result<Elements, BytesError> {
        let element = |(index, word)| {
            let element = Fp::from_canonical(word);
            element.ok_or(BytesError::NotCanonical { index })
        };
        let elements: Result<Vec<Fp>, BytesError> = words.enumerate().map(element).collect();
        Ok(Elements(elements?.into_iter()))
    }

    /// The first `count` elements of an array, the others zero.
    fn array<const N: usize>(&mut self, count: usize) -> [Fp; N] {
        let mut out = [Fp::ZERO; N];
        for (out, element) in out[..count].iter_mut().zip(&mut self.0) {
            *out = element;
        }
        out
    }

    fn digests(&mut self, count: usize, digest: usize) -> Vec<Digest> {
        (0..count)
            .map(|_| self.array::<DIGEST_MAX>(digest))
            .collect()
    }
}

/// The four-byte words of a slice.
fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word))
}

impl Signature {
    /// Decodes a signature.
    ///
    /// # Errors
    /// [`BytesError`] unless the bytes are the unique encoding of a signature of the set.
    pub fn from_bytes(set: Set, bytes: &[u8]) -> Result<Signature, BytesError> {
        let params = set.params();
        check_length(set, bytes, params.signature_bytes)?;
        match set {
            Set::Prod | Set::Test => Signature::from_ssz(set, params, bytes),
            Set::Compact => Signature::from_packed(set, params, bytes),
        }
    }

    fn from_ssz(set: Set, params: &Params, bytes: &[u8]) -> Result<Signature, BytesError> {
        let siblings = PATH_OFFSET + SIBLINGS_OFFSET;
        let hashes = siblings + 4 * params.digest * usize::from(params.log2_lifetime);
        let expect = |field, at: usize, want: usize| {
            let got = words(&bytes[at..]).next().unwrap_or_default();
            let want = want as u32;
            if got == want {
                Ok(())
            } else {
                Err(BytesError::Offset { field, got, want })
            }
        };
        // All sizes are fixed, so each offset has one valid value. If others were accepted, a signature would have
        // several encodings.
        expect("path", 0, PATH_OFFSET)?;
        expect("hashes", PATH_OFFSET - 4, hashes)?;
        expect("siblings", PATH_OFFSET, SIBLINGS_OFFSET)?;
        let parts = words(&bytes[4..PATH_OFFSET - 4]).chain(words(&bytes[siblings..]));
        let mut elements = Elements::of(parts)?;
        Ok(Signature {
            set,
            randomness: elements.array(params.randomness),
            // Fields are evaluated as written: the container has the path first, the packed form the hashes.
            path: elements.digests(params.log2_lifetime.into(), params.digest),
            hashes: elements.digests(params.chains, params.digest),
        })
    }

    fn from_packed(set: Set, params: &Params, bytes: &[u8]) -> Result<Signature, BytesError> {
        let digests = params.chains + usize::from(params.log2_lifetime);
        let count = params.randomness + digests * params.digest;
        let elements = read_elements(bytes, count).map_err(|error| match error {
            DecodeError::NonCanonical { index } => BytesError::NotCanonical { index },
            _ => BytesError::PaddingBits,
        })?;
        let mut elements = Elements(elements.into_iter());
        Ok(Signature {
            set,
            randomness: elements.array(params.randomness),
            hashes: elements.digests(params.chains, params.digest),
            path: elements.digests(params.log2_lifetime.into(), params.digest),
        })
    }

    /// Encodes the signature in the length of its set.
    pub fn to_bytes(&self) -> Vec<u8> {
        let params = self.set.params();
        let randomness = || self.randomness[..params.randomness].iter().copied();
        let digests = |list: &[Digest]| -> Vec<Fp> {
            list.iter()
                .flat_map(|digest| &digest[..params.digest])
                .copied()
                .collect()
        };
        let (hashes, path) = (digests(&self.hashes), digests(&self.path));
        if self.set == Set::Compact {
            let elements: Vec<Fp> = randomness().chain(hashes).chain(path).collect();
            let mut bytes = Vec::with_capacity(params.signature_bytes);
            write_elements(&mut bytes, &elements);
            return bytes;
        }
        let siblings = PATH_OFFSET + SIBLINGS_OFFSET;
        let offset = |value: usize| (value as u32).to_le_bytes();
        let mut bytes = Vec::with_capacity(params.signature_bytes);
        bytes.extend(offset(PATH_OFFSET));
        bytes.extend(randomness().flat_map(Fp::to_bytes));
        bytes.extend(offset(siblings + 4 * path.len()));
        bytes.extend(offset(SIBLINGS_OFFSET));
        bytes.extend(path.into_iter().chain(hashes).flat_map(Fp::to_bytes));
        bytes
    }
}

impl PublicKey {
    /// The set that the key belongs to.
    pub fn set(&self) -> Set {
        self.set
    }

    /// Decodes a key.
    ///
    /// # Errors
    /// [`BytesError`] unless the bytes are the unique encoding of a key of the set.
    pub fn from_bytes(set: Set, bytes: &[u8]) -> Result<PublicKey, BytesError> {
        let params = set.params();
        check_length(set, bytes, params.public_key_bytes)?;
        // Without offsets: both fields have fixed sizes.
        let mut elements = Elements::of(words(bytes))?;
        Ok(PublicKey {
            set,
            root: elements.array(params.digest),
            parameter: elements.array(params.parameter),
        })
    }

    /// Encodes root and parameter, four bytes per element.
    pub fn to_bytes(&self) -> Vec<u8> {
        let params = self.set.params();
        let (root, parameter) = (
            &self.root[..params.digest],
            &self.parameter[..params.parameter],
        );
        root.iter()
            .chain(parameter)
            .flat_map(|x| x.to_bytes())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_stark::field::P;
    use proptest::prelude::*;

    fn example(set: Set, words: &mut impl Iterator<Item = u32>) -> Signature {
        let params = set.params();
        let mut digest = |count: usize| {
            let mut out = [Fp::ZERO; 8];
            out[..count].fill_with(|| Fp::new(words.next().unwrap()));
            out
        };
        let randomness = digest(params.randomness);
        Signature {
            set,
            randomness: std::array::from_fn(|i| randomness[i]),
            hashes: (0..params.chains).map(|_| digest(params.digest)).collect(),
            path: (0..params.log2_lifetime)
                .map(|_| digest(params.digest))
                .collect(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn signatures_round_trip(words in proptest::collection::vec(any::<u32>(), 1000)) {
            for set in Set::ALL {
                let signature = example(set, &mut words.iter().copied().cycle());
                let bytes = signature.to_bytes();
                prop_assert_eq!(bytes.len(), set.params().signature_bytes);
                prop_assert_eq!(Signature::from_bytes(set, &bytes), Ok(signature));
            }
        }

        /// One bit away from a signature: most single-bit flips of an element leave it below p.
        #[test]
        fn what_decodes_encodes_to_the_same_bytes(
            words in proptest::collection::vec(any::<u32>(), 1000),
            flips in proptest::collection::vec(any::<usize>(), 16),
        ) {
            for set in Set::ALL {
                let mut bytes = example(set, &mut words.iter().copied().cycle()).to_bytes();
                let (bits, mut decoded) = (8 * bytes.len(), 0);
                for bit in flips.iter().map(|flip| flip % bits) {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    if let Ok(signature) = Signature::from_bytes(set, &bytes) {
                        prop_assert_eq!(&signature.to_bytes(), &bytes);
                        decoded += 1;
                    }
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                prop_assert!(decoded > flips.len() / 2, "{} of {set} decode", decoded);
            }
        }
    }

    #[test]
    fn every_element_above_p_is_refused_by_its_index() {
        let set = Set::Test;
        let bytes = example(set, &mut (0..)).to_bytes();
        let starts = (4..32).step_by(4).chain((40..bytes.len()).step_by(4));
        for (index, at) in starts.enumerate() {
            let mut changed = bytes.clone();
            let word = u32::from_le_bytes(changed[at..at + 4].try_into().unwrap()) + P;
            changed[at..at + 4].copy_from_slice(&word.to_le_bytes());
            let refused = Signature::from_bytes(set, &changed);
            assert_eq!(refused, Err(BytesError::NotCanonical { index }));
        }
        let mut packed = example(Set::Compact, &mut (0..)).to_bytes();
        packed[..4].copy_from_slice(&P.to_le_bytes());
        let refused = Signature::from_bytes(Set::Compact, &packed);
        assert_eq!(refused, Err(BytesError::NotCanonical { index: 0 }));
        let key = PublicKey::from_bytes(Set::Compact, &[0xff; 32]);
        assert_eq!(key, Err(BytesError::NotCanonical { index: 0 }));
    }

    #[test]
    fn offsets_lengths_and_padding_have_one_value() {
        let bytes = example(Set::Test, &mut (0..)).to_bytes();
        for (at, field) in [(0, "path"), (32, "hashes"), (36, "siblings")] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let refused = Signature::from_bytes(Set::Test, &changed).unwrap_err();
            assert!(matches!(refused, BytesError::Offset { field: f, .. } if f == field));
        }
        for set in Set::ALL {
            let bytes = example(set, &mut (0..)).to_bytes();
            let want = bytes.len();
            for got in [0, 1, want - 1, want + 1] {
                let refused = Signature::from_bytes(set, &vec![0; got]);
                assert_eq!(refused, Err(BytesError::Length { set, got, want }));
            }
        }
        let mut packed = example(Set::Compact, &mut (0..)).to_bytes();
        for bit in 2..8 {
            packed[1170] ^= 1 << bit;
            let refused = Signature::from_bytes(Set::Compact, &packed);
            assert_eq!(refused, Err(BytesError::PaddingBits));
            packed[1170] ^= 1 << bit;
        }
    }
}
