//! The bytes of merges and bundles.
//!
//! The form is that of all proofs, see the codec of [`crate::proof`]: kind 1 for a merge, 2 for a bundle; in
//! place of the number of groups one bit for each child that is a bundle, the number of children, the level,
//! and in place of the flags one bit for each child that is a merge. What is left of the registries of bundles
//! in a bundle stands behind the elements of its transcript.

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

/// Where a header has the kind, the bundles, the number of children, the level and the flags.
const KIND_AT: usize = 7;
const BUNDLES_AT: usize = 8;
const CHILDREN_AT: usize = 9;
const LEVEL_AT: usize = 10;
const FLAGS_AT: usize = 11;

/// Bytes of a header beside the numbers of slices.
const HEADER_FIXED: usize = MAGIC.len() + 8 + 2 + 4;

/// Whether bytes are those of a merge, by what their header says of the kind.
pub fn is_merge(bytes: &[u8]) -> bool {
    bytes.get(KIND_AT) == Some(&Form::Merge.number())
}

/// The level that the header of a merge says, whatever follows it; none if the bytes are no merge.
pub fn merge_level(bytes: &[u8]) -> Option<u32> {
    is_merge(bytes).then(|| bytes.get(LEVEL_AT).copied().unwrap_or_default().into())
}

/// Whether bytes are those of a bundle, by what their header says of the kind.
pub fn is_bundle(bytes: &[u8]) -> bool {
    bytes.get(KIND_AT) == Some(&Form::Bundle.number())
}

/// What a header says, beside what follows from it.
struct Shape {
    form: Form,
    level: u32,
    kinds: Vec<ChildKind>,
}

impl Shape {
    /// What bytes say that they are.
    fn of(form: Form, bytes: &[u8]) -> Result<Shape, DecodeError> {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let (got, max) = (usize::from(byte(CHILDREN_AT)), CHILDREN_MAX);
        if got == 0 || got > max {
            return Err(DecodeError::Children { got, max });
        }
        let bit = |at: usize, c: usize| byte(at) >> c & 1 == 1;
        // What no bit of a kind says is written otherwise, and refused with the header.
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
    /// Bytes of a merge at most.
    pub fn bytes_max(&self, preset: &Preset) -> usize {
        self.bytes_of(preset, Form::Merge, vec![ChildKind::Merge; CHILDREN_MAX])
    }

    /// Bytes of a bundle of so many children at most: of bundles, or of proofs of one entry.
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

    /// Elements at most.
    fn all_elements(&self, preset: &Preset, shape: &Shape) -> usize {
        self.elements(preset, shape.form, &shape.kinds) + self.left_elements(shape)
    }

    /// Elements behind what the prover says.
    fn left_elements(&self, shape: &Shape) -> usize {
        match shape.form {
            Form::Merge => 0,
            Form::Bundle => bundles(&shape.kinds) * self.dimensions.left() * DEGREE,
        }
    }

    /// Everything before elements in so many bytes.
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

    /// The bytes of a merge.
    pub fn to_bytes(&self, preset: &Preset, proof: &MergeProof) -> Vec<u8> {
        let shape = Shape {
            form: Form::Merge,
            level: proof.level,
            kinds: proof.kinds.clone(),
        };
        self.write(preset, &shape, &proof.elements)
    }

    /// The merge of bytes.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are the one form of a merge.
    pub fn from_bytes(&self, preset: &Preset, bytes: &[u8]) -> Result<MergeProof, DecodeError> {
        let (shape, elements) = self.read(preset, Form::Merge, bytes)?;
        Ok(MergeProof {
            level: shape.level,
            kinds: shape.kinds,
            elements,
        })
    }

    /// The bytes of a bundle.
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

    /// The bundle of bytes.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are the one form of a bundle.
    pub fn bundle_from_bytes(
        &self,
        preset: &Preset,
        bytes: &[u8],
    ) -> Result<BundleProof, DecodeError> {
        let (shape, mut elements) = self.read(preset, Form::Bundle, bytes)?;
        // There are at least so many.
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
