//! The bytes of a merge.
//!
//! The form is that of all proofs, see the codec of [`crate::proof`]: kind 1, no groups, the number of
//! children, the level, and in place of the flags one bit for each child that is a merge.

use super::layout::{CHILDREN_MAX, SLICES, slice_numbers};
use super::{MergeProof, Merges, elements};
use crate::proof::{
    DecodeError, MAGIC, check_header, elements_bytes, read_elements, write_elements,
};
use crate::whir::Preset;

/// The kind of a merge.
const KIND_MERGE: u8 = 1;

/// Where a header has the kind, the number of children, the level and the flags.
const KIND_AT: usize = 7;
const CHILDREN_AT: usize = 9;
const LEVEL_AT: usize = 10;
const FLAGS_AT: usize = 11;

/// Bytes of a header beside the numbers of slices.
const HEADER_FIXED: usize = MAGIC.len() + 8 + 2 + 4;

/// Whether bytes are those of a merge, by what their header says of the kind.
pub fn is_merge(bytes: &[u8]) -> bool {
    bytes.get(KIND_AT) == Some(&KIND_MERGE)
}

/// Bytes of a merge at most.
pub fn bytes_max(preset: &Preset) -> usize {
    let numbers = slice_numbers(CHILDREN_MAX, SLICES).len();
    HEADER_FIXED + numbers + elements_bytes(elements(preset, &[true; CHILDREN_MAX]))
}

impl Merges<'_> {
    /// Everything before the elements.
    fn header(&self, preset: &Preset, level: u32, merged: &[bool]) -> Vec<u8> {
        let numbers = slice_numbers(merged.len(), SLICES);
        let bits = merged.iter().rev();
        let flags = bits.fold(0, |flags, merged| flags << 1 | u8::from(*merged));
        let mut bytes = MAGIC.to_vec();
        bytes.extend([
            self.relation.id as u8,
            preset.id as u8,
            0,
            KIND_MERGE,
            0,
            merged.len() as u8,
            level as u8,
            flags,
        ]);
        bytes.extend((numbers.len() as u16).to_le_bytes());
        bytes.extend(numbers.iter().map(|number| *number as u8));
        let len = elements_bytes(elements(preset, merged));
        bytes.extend((len as u32).to_le_bytes());
        bytes
    }

    /// The bytes of a proof.
    pub fn to_bytes(&self, preset: &Preset, proof: &MergeProof) -> Vec<u8> {
        let mut bytes = self.header(preset, proof.level, &proof.merged);
        write_elements(&mut bytes, &proof.elements);
        bytes
    }

    /// The proof of bytes.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are the one form of a proof. Nothing is allocated before the
    /// length is checked.
    pub fn from_bytes(&self, preset: &Preset, bytes: &[u8]) -> Result<MergeProof, DecodeError> {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let (got, max) = (usize::from(byte(CHILDREN_AT)), CHILDREN_MAX);
        if got == 0 || got > max {
            return Err(DecodeError::Children { got, max });
        }
        let level = u32::from(byte(LEVEL_AT));
        let merged: Vec<bool> = (0..got).map(|c| byte(FLAGS_AT) >> c & 1 == 1).collect();
        let header = self.header(preset, level, &merged);
        let count = elements(preset, &merged);
        let want = header.len() + elements_bytes(count);
        if bytes.len() != want {
            return Err(DecodeError::Length {
                got: bytes.len(),
                want,
            });
        }
        let (head, body) = bytes.split_at(header.len());
        check_header(head, &header)?;
        Ok(MergeProof {
            level,
            merged,
            elements: read_elements(body, count)?,
        })
    }
}
