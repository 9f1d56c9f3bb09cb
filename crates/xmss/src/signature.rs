//! Signatures and public keys, and their bytes.
//!
//! The sets of the lean consensus specification are SSZ containers with elements of four bytes; the
//! compact set packs elements at 31 bits, the lowest bit first. Each object has exactly one
//! encoding: offsets are fixed, elements are below p, padding bits are zero.

use alphorn_stark::Fp;
use thiserror::Error;

use crate::hash::{Digest, Parameter, Randomness};
use crate::params::{DIGEST_MAX, Params, Set};

/// Why bytes are no signature or key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BytesError {
    /// Another length than the set's.
    #[error("{got} bytes, the set {set} has {want}")]
    Length {
        /// The set.
        set: Set,
        /// Bytes given.
        got: usize,
        /// Bytes of the set.
        want: usize,
    },
    /// An SSZ offset that is not the one that all signatures have.
    #[error("offset of {field} is {got}, must be {want}")]
    Offset {
        /// The field.
        field: &'static str,
        /// The offset given.
        got: u32,
        /// The only legal one.
        want: u32,
    },
    /// An integer that is not below p.
    #[error("element {index} is not below p")]
    NotCanonical {
        /// Index of the element, in the order of the encoding.
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
    /// A digest of each chain.
    pub(crate) hashes: Vec<Digest>,
    /// Siblings from the leaf to the root.
    pub(crate) path: Vec<Digest>,
}

/// A public key: the root of the tree, and the parameter of all hashes under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey {
    pub(crate) set: Set,
    pub(crate) root: Digest,
    pub(crate) parameter: Parameter,
}

/// Bits of an element in the packed encoding.
const ELEMENT_BITS: usize = 31;

/// Offset of the path in a signature's container: two offsets and the randomness come first.
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

/// Elements in order, with their index for errors.
struct Elements<I> {
    words: I,
    index: usize,
}

impl<I: Iterator<Item = u32>> Elements<I> {
    fn new(words: I) -> Self {
        Elements { words, index: 0 }
    }

    /// The first `count` elements of an array, the others zero.
    fn array<const N: usize>(&mut self, count: usize) -> Result<[Fp; N], BytesError> {
        let mut out = [Fp::ZERO; N];
        for (out, word) in out[..count].iter_mut().zip(&mut self.words) {
            let index = self.index;
            *out = Fp::from_canonical(word).ok_or(BytesError::NotCanonical { index })?;
            self.index += 1;
        }
        Ok(out)
    }

    fn digests(&mut self, count: usize, digest: usize) -> Result<Vec<Digest>, BytesError> {
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

/// Words of 31 bits.
fn packed_words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    (0..bytes.len() * 8 / ELEMENT_BITS).map(move |i| {
        let bit = i * ELEMENT_BITS;
        let mut window = [0; 8];
        let part = &bytes[bit / 8..bytes.len().min(bit / 8 + 5)];
        window[..part.len()].copy_from_slice(part);
        (u64::from_le_bytes(window) >> (bit % 8)) as u32 & 0x7fff_ffff
    })
}

fn pack(elements: impl Iterator<Item = Fp>) -> Vec<u8> {
    let (mut bytes, mut window, mut bits) = (Vec::new(), 0u64, 0);
    for element in elements {
        window |= u64::from(element.canonical()) << bits;
        bits += ELEMENT_BITS;
        while bits >= 8 {
            bytes.push(window as u8);
            window >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        bytes.push(window as u8);
    }
    bytes
}

impl Signature {
    /// The signature of bytes.
    ///
    /// # Errors
    /// [`BytesError`] unless the bytes are the one encoding of a signature of the set.
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
        expect("path", 0, PATH_OFFSET)?;
        expect("hashes", PATH_OFFSET - 4, hashes)?;
        expect("siblings", PATH_OFFSET, SIBLINGS_OFFSET)?;
        let parts = words(&bytes[4..PATH_OFFSET - 4]).chain(words(&bytes[siblings..]));
        let mut elements = Elements::new(parts);
        Ok(Signature {
            set,
            randomness: elements.array(params.randomness)?,
            path: elements.digests(params.log2_lifetime.into(), params.digest)?,
            hashes: elements.digests(params.chains, params.digest)?,
        })
    }

    fn from_packed(set: Set, params: &Params, bytes: &[u8]) -> Result<Signature, BytesError> {
        let mut elements = Elements::new(packed_words(bytes));
        let signature = Signature {
            set,
            randomness: elements.array(params.randomness)?,
            hashes: elements.digests(params.chains, params.digest)?,
            path: elements.digests(params.log2_lifetime.into(), params.digest)?,
        };
        let used = elements.index * ELEMENT_BITS % 8;
        let last = bytes.last().copied().unwrap_or_default();
        if used > 0 && last >> used != 0 {
            return Err(BytesError::PaddingBits);
        }
        Ok(signature)
    }

    /// The bytes, as many as the set says.
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
            return pack(randomness().chain(hashes).chain(path));
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

    /// The key of bytes.
    ///
    /// # Errors
    /// [`BytesError`] unless the bytes are the one encoding of a key of the set.
    pub fn from_bytes(set: Set, bytes: &[u8]) -> Result<PublicKey, BytesError> {
        let params = set.params();
        check_length(set, bytes, params.public_key_bytes)?;
        let mut elements = Elements::new(words(bytes));
        Ok(PublicKey {
            set,
            root: elements.array(params.digest)?,
            parameter: elements.array(params.parameter)?,
        })
    }

    /// The bytes: root and parameter, four bytes an element.
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

        #[test]
        fn what_decodes_encodes_to_the_same_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 1171),
            high in 0..2u8,
        ) {
            // Random words are mostly legal; the padding is so half of the time.
            let mut bytes = bytes;
            bytes[1170] &= 3 + 4 * high;
            if let Ok(signature) = Signature::from_bytes(Set::Compact, &bytes) {
                prop_assert_eq!(signature.to_bytes(), bytes);
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
