//! The encoding of merges and bundles.
//!
//! The format is that of all proofs, see the codec of [`crate::proof`]: kind 1 for a merge, 2 for a bundle; in
//! place of the number of groups one bit for each child that is a bundle, then the number of children and the
//! level; in place of the flags one bit for each child that is a merge. The remaining registry claims of bundles
//! in a bundle come after the elements of its transcript.

use super::bundle::{BundleProof, bundles};
use super::known::Form;
use super::layout::CHILDREN_MAX;
use super::{ChildKind, MergeProof, Merges};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::proof::{
    DecodeError, MAGIC, check_header, elements_bytes, read_elements, split, write_elements,
};
use crate::whir::Preset;

/// Offsets in a header of the kind, the bundles, the number of children, the level and the flags.
const KIND_AT: usize = 7;
const BUNDLES_AT: usize = 8;
const CHILDREN_AT: usize = 9;
const LEVEL_AT: usize = 10;
const FLAGS_AT: usize = 11;

/// Number of bytes in a header, without the numbers of slices.
const HEADER_FIXED: usize = MAGIC.len() + 8 + 2 + 4;

/// Whether bytes are those of a merge, by the kind in their header.
pub fn is_merge(bytes: &[u8]) -> bool {
    bytes.get(KIND_AT) == Some(&Form::Merge.number())
}

/// The level in the header of a merge, whatever follows it; none if the bytes are not a merge.
pub fn merge_level(bytes: &[u8]) -> Option<u32> {
    is_merge(bytes).then(|| bytes.get(LEVEL_AT).copied().unwrap_or_default().into())
}

/// Whether bytes are those of a bundle, by the kind in their header.
pub fn is_bundle(bytes: &[u8]) -> bool {
    bytes.get(KIND_AT) == Some(&Form::Bundle.number())
}

/// The contents of a header, except for what follows from them.
struct Shape {
    form: Form,
    level: u32,
    kinds: Vec<ChildKind>,
}

impl Shape {
    /// Parses the shape from bytes.
    fn of(form: Form, bytes: &[u8]) -> Result<Shape, DecodeError> {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let (got, max) = (usize::from(byte(CHILDREN_AT)), CHILDREN_MAX);
        if got == 0 || got > max {
            return Err(DecodeError::Children { got, max });
        }
        let bit = |at: usize, c: usize| byte(at) >> c & 1 == 1;
        // Bits that denote no kind are encoded differently, and rejected with the header.
        let kind = |c: usize| match (bit(FLAGS_AT, c), bit(BUNDLES_AT, c)) {
            (true, _) => ChildKind::Merge,
            (false, true) => ChildKind::Bundle,
            (false, false) => ChildKind::Leaf,
        };
        Ok(Shape {
            form,
            level: u32::from(byte(LEVEL_AT)),
            kinds: (0..got).map(kind).collect(),
        })
    }
}

impl Merges<'_> {
    /// Maximum size of a merge in bytes.
    pub fn bytes_max(&self, preset: &Preset) -> usize {
        self.bytes_of(preset, Form::Merge, vec![ChildKind::Merge; CHILDREN_MAX])
    }

    /// Maximum size in bytes of a bundle of this many children, which are bundles or proofs of one entry.
    pub fn bundle_bytes_max(&self, preset: &Preset, children: usize, of_bundles: bool) -> usize {
        let kind = match of_bundles {
            true => ChildKind::Bundle,
            false => ChildKind::Merge,
        };
        self.bytes_of(preset, Form::Bundle, vec![kind; children])
    }

    fn bytes_of(&self, preset: &Preset, form: Form, kinds: Vec<ChildKind>) -> usize {
        let shape = Shape {
            form,
            level: 1,
            kinds,
        };
        let head = HEADER_FIXED + self.dimensions.row_width(shape.kinds.len());
        head + elements_bytes(self.all_elements(preset, &shape))
    }

    /// Maximum number of elements.
    fn all_elements(&self, preset: &Preset, shape: &Shape) -> usize {
        self.elements(preset, shape.form, &shape.kinds) + self.left_elements(shape)
    }

    /// Number of elements after the prover's messages.
    fn left_elements(&self, shape: &Shape) -> usize {
        match shape.form {
            Form::Merge => 0,
            Form::Bundle => bundles(&shape.kinds) * self.dimensions.left() * DEGREE,
        }
    }

    /// Everything before the elements, which take this many bytes.
    fn header(&self, preset: &Preset, shape: &Shape, body: usize) -> Vec<u8> {
        let numbers = self.dimensions.slice_numbers(shape.kinds.len());
        let bits = |of: ChildKind| {
            let kinds = shape.kinds.iter().rev();
            kinds.fold(0, |bits, kind| bits << 1 | u8::from(*kind == of))
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend([
            self.relation().id as u8,
            preset.id as u8,
            0,
            shape.form.number(),
            bits(ChildKind::Bundle),
            shape.kinds.len() as u8,
            shape.level as u8,
            bits(ChildKind::Merge),
        ]);
        bytes.extend((numbers.len() as u16).to_le_bytes());
        // Merges have 2^7 slices, so a number is one byte.
        bytes.extend(numbers.iter().map(|number| *number as u8));
        bytes.extend((body as u32).to_le_bytes());
        bytes
    }

    fn write(&self, preset: &Preset, shape: &Shape, elements: &[Fp]) -> Vec<u8> {
        let body = elements_bytes(elements.len());
        let mut bytes = self.header(preset, shape, body);
        write_elements(&mut bytes, elements);
        bytes
    }

    /// Nothing is allocated before the length is checked.
    fn read(
        &self,
        preset: &Preset,
        form: Form,
        bytes: &[u8],
    ) -> Result<(Shape, Vec<Fp>), DecodeError> {
        let shape = Shape::of(form, bytes)?;
        let numbers = self.dimensions.slice_numbers(shape.kinds.len()).len();
        let elements = self.left_elements(&shape)..=self.all_elements(preset, &shape);
        let (head, body, count) = split(bytes, HEADER_FIXED + numbers, elements)?;
        check_header(head, &self.header(preset, &shape, body.len()))?;
        Ok((shape, read_elements(body, count)?))
    }

    /// Encodes a merge.
    pub fn to_bytes(&self, preset: &Preset, proof: &MergeProof) -> Vec<u8> {
        let shape = Shape {
            form: Form::Merge,
            level: proof.level,
            kinds: proof.kinds.clone(),
        };
        self.write(preset, &shape, &proof.elements)
    }

    /// Decodes a merge.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are the unique encoding of a merge.
    pub fn from_bytes(&self, preset: &Preset, bytes: &[u8]) -> Result<MergeProof, DecodeError> {
        let (shape, elements) = self.read(preset, Form::Merge, bytes)?;
        Ok(MergeProof {
            level: shape.level,
            kinds: shape.kinds,
            elements,
        })
    }

    /// Encodes a bundle.
    pub fn bundle_to_bytes(&self, preset: &Preset, proof: &BundleProof) -> Vec<u8> {
        let shape = Shape {
            form: Form::Bundle,
            level: proof.level,
            kinds: proof.kinds.clone(),
        };
        let left = proof.left.iter().flatten().flat_map(|x| x.0);
        let elements: Vec<Fp> = proof.elements.iter().copied().chain(left).collect();
        self.write(preset, &shape, &elements)
    }

    /// Decodes a bundle.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are the unique encoding of a bundle.
    pub fn bundle_from_bytes(
        &self,
        preset: &Preset,
        bytes: &[u8],
    ) -> Result<BundleProof, DecodeError> {
        let (shape, mut elements) = self.read(preset, Form::Bundle, bytes)?;
        // There are at least this many.
        let left = elements.split_off(elements.len().saturating_sub(self.left_elements(&shape)));
        let (left, _) = left.as_chunks::<DEGREE>();
        let left = left.chunks_exact(self.dimensions.left());
        Ok(BundleProof {
            level: shape.level,
            left: left
                .map(|left| left.iter().map(|x| Ext(*x)).collect())
                .collect(),
            kinds: shape.kinds,
            elements,
        })
    }
}
