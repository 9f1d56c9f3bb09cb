//! The encoding of a succinct proof.
//!
//! `[magic "AHP3"][relation u8][preset u8][class u8][kind u8][groups u8][children u8][level u8][flags u8]`
//! `[slices u16][their numbers][length u32][body]`, little-endian. A number is a u8, or a u16 in the wide shape,
//! which has more than 256. The class is 0 for at most 64 slices and 1 above. Kind, children, level and flags are
//! 0 except in merges (see [`crate::merge`]). The body is a stream of 31-bit elements, lowest bit first, each
//! below p, with zero bits at the end. Everything except the elements and their number follows from relation,
//! preset and groups, and the number follows from what is opened, so a proof has a unique encoding.

use std::ops::RangeInclusive;

use thiserror::Error;

use super::{SuccinctProof, succinct_elements};
use crate::field::Fp;
use crate::relation::Relation;
use crate::whir::Preset;

/// Bits of an element.
const ELEMENT_BITS: usize = 31;

pub(crate) const MAGIC: &[u8; 4] = b"AHP3";

/// Offset of the number of groups in the header.
const GROUPS_AT: usize = 8;

/// Maximum number of slices of a proof that recursion can take.
const CLASS_SLICES: usize = 64;

/// Why bytes are not a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// A byte of the header is not the one that relation, preset and groups require.
    #[error("byte {index} of the header is {got}, expected {want}")]
    Header {
        /// Index of the byte.
        index: usize,
        /// The byte.
        got: u8,
        /// The required value.
        want: u8,
    },
    /// More groups than the relation has.
    #[error("{got} groups of instances, at most {max} are possible")]
    Groups {
        /// Number of groups.
        got: usize,
        /// Number of groups in the relation.
        max: usize,
    },
    /// No children, or more than a merge can hold.
    #[error("a merge of {got} proofs, 1 to {max} are possible")]
    Children {
        /// Number of children.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// More or fewer bytes than a proof of this kind can have, or not a whole number of elements.
    #[error("{got} bytes, a proof of this kind has whole elements in at most {max}")]
    Length {
        /// Number of bytes.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// An element is p or above.
    #[error("element {index} is not below the modulus")]
    NonCanonical {
        /// Index of the element.
        index: usize,
    },
    /// Bits after the last element are set.
    #[error("bits after the last element are set")]
    Padding,
}

/// Everything before a body of this many bytes.
fn header(relation: &Relation, preset: &Preset, groups: usize, body: usize) -> Vec<u8> {
    let numbers = relation.slice_numbers(groups);
    let class = u8::from(numbers.len() > CLASS_SLICES);
    let mut bytes = MAGIC.to_vec();
    bytes.extend([
        relation.id as u8,
        preset.id as u8,
        class,
        0,
        groups as u8,
        0,
        0,
        0,
    ]);
    bytes.extend((numbers.len() as u16).to_le_bytes());
    let number_bytes = relation.shape.slices_log2.div_ceil(8);
    for number in &numbers {
        bytes.extend(&(*number as u16).to_le_bytes()[..number_bytes]);
    }
    bytes.extend((body as u32).to_le_bytes());
    bytes
}

/// Number of bytes before the body.
pub fn header_bytes(relation: &Relation, groups: usize) -> usize {
    const FIXED: usize = MAGIC.len() + 8 + 2 + 4;
    FIXED + relation.slices(groups) * relation.shape.slices_log2.div_ceil(8)
}

impl SuccinctProof {
    /// Encodes the proof.
    pub fn to_bytes(&self, relation: &Relation, preset: &Preset) -> Vec<u8> {
        let body = elements_bytes(self.elements.len());
        let mut bytes = header(relation, preset, self.groups, body);
        write_elements(&mut bytes, &self.elements);
        bytes
    }

    /// Decodes a proof for the expected relation and preset.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are the unique encoding of a proof. Nothing is allocated before the length
    /// is checked.
    pub fn from_bytes(
        relation: &Relation,
        preset: &Preset,
        bytes: &[u8],
    ) -> Result<SuccinctProof, DecodeError> {
        // Read before the header is compared, because the lengths of header and body depend on it.
        let groups = bytes
            .get(GROUPS_AT)
            .map_or(0, |groups| usize::from(*groups));
        let max = relation.groups_max();
        if groups > max {
            return Err(DecodeError::Groups { got: groups, max });
        }
        let most = succinct_elements(relation, preset, groups);
        let head = header_bytes(relation, groups);
        let (head, body, count) = split(bytes, head, 0..=most)?;
        check_header(head, &header(relation, preset, groups, body.len()))?;
        let elements = read_elements(body, count)?;
        Ok(SuccinctProof { groups, elements })
    }
}

/// Appends elements, 31 bits each, lowest bit first; the last byte is padded with zeros.
pub fn write_elements(bytes: &mut Vec<u8>, elements: &[Fp]) {
    let (mut window, mut bits) = (0u64, 0);
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
}

/// Splits bytes into a header of the given length and a body; returns also the number of elements in the body.
pub(crate) fn split(
    bytes: &[u8],
    header: usize,
    elements: RangeInclusive<usize>,
) -> Result<(&[u8], &[u8], usize), DecodeError> {
    let refused = DecodeError::Length {
        got: bytes.len(),
        max: header + elements_bytes(*elements.end()),
    };
    let (head, body) = bytes.split_at_checked(header).ok_or(refused)?;
    // As many elements as fit. If they fit fewer bytes too, the same elements would have a second encoding.
    let count = body.len() * 8 / ELEMENT_BITS;
    match elements.contains(&count) && elements_bytes(count) == body.len() {
        true => Ok((head, body, count)),
        false => Err(refused),
    }
}

/// Number of bytes of this many elements.
pub(crate) fn elements_bytes(count: usize) -> usize {
    (count * ELEMENT_BITS).div_ceil(8)
}

/// Decodes this many elements from exactly the bytes they take.
///
/// # Errors
/// [`DecodeError::NonCanonical`], [`DecodeError::Padding`].
pub fn read_elements(body: &[u8], count: usize) -> Result<Vec<Fp>, DecodeError> {
    let mut elements = Vec::with_capacity(count);
    let (mut window, mut bits, mut rest) = (0u64, 0, body.iter());
    for index in 0..count {
        while bits < ELEMENT_BITS {
            window |= u64::from(rest.next().copied().unwrap_or_default()) << bits;
            bits += 8;
        }
        let word = window as u32 & ((1 << ELEMENT_BITS) - 1);
        elements.push(Fp::from_canonical(word).ok_or(DecodeError::NonCanonical { index })?);
        window >>= ELEMENT_BITS;
        bits -= ELEMENT_BITS;
    }
    match window {
        0 => Ok(elements),
        _ => Err(DecodeError::Padding),
    }
}

/// Checks that a header is the expected one.
pub(crate) fn check_header(head: &[u8], want: &[u8]) -> Result<(), DecodeError> {
    let mut pairs = head.iter().zip(want).enumerate();
    match pairs.find(|(_, (a, b))| a != b) {
        Some((index, (got, want))) => Err(DecodeError::Header {
            index,
            got: *got,
            want: *want,
        }),
        None => Ok(()),
    }
}
