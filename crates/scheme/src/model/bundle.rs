//! The model's evidence for several collections.

use super::scheme::{Model, ModelKeys, STEP, Subject, bytes_of, mixed};
use crate::{Bundled, Bytes, SchemeError, Statement};

/// Start of the tag of a bundle.
const BUNDLE: u64 = u64::MAX - 1;

impl Model {
    /// The only bytes that verify for a bundle: a tag over the evidence that each of its
    /// collections would have, in order.
    pub(super) fn bundle_evidence(
        &self,
        collections: &[Bundled<'_, ModelKeys>],
    ) -> Option<Vec<u8>> {
        let max = self.table().abilities.bundle_max?;
        if collections.is_empty() || collections.len() > usize::from(max) {
            return None;
        }
        let mut state = BUNDLE;
        for one in collections {
            let Statement { first, slot, .. } = one.statement;
            let of = self.evidence(one.keys, &one.statement, one.support)?;
            let subject = Subject::new(slot.0, first.into(), &one.statement.message);
            let words = of.chunks(8).map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            });
            // The length distinguishes evidence that differs only in zeros at its end, which the last word
            // pads.
            let words = [of.len() as u64, subject.0].into_iter().chain(words);
            state = words.fold(state, |state, word| mixed(state.wrapping_add(STEP) ^ word));
        }
        let head = bytes_of([1, 2, 3, 4].map(|i: u64| mixed(state.wrapping_add(i))));
        Some(self.padded(&head, self.bundle_bytes(max)))
    }

    /// Size of a bundle, whatever its contents.
    pub(super) fn bundle_bytes(&self, max: u16) -> usize {
        self.table().merged_bytes(max.into()) as usize
    }

    pub(super) fn make_bundle(
        &self,
        collections: &[(Bundled<'_, ModelKeys>, &[u8])],
    ) -> Result<Bytes, SchemeError> {
        let Some(max) = self.table().abilities.bundle_max else {
            return Err(SchemeError::Unsupported {
                scheme: "model",
                what: "prove several collections together",
            });
        };
        let value = collections.len();
        match value {
            0 => return Err(SchemeError::Empty),
            _ if value > usize::from(max) => return Err(SchemeError::BundleSize { value, max }),
            _ => {}
        }
        let is_false = |(of, bytes): &(Bundled<'_, ModelKeys>, &[u8])| {
            let made = self.evidence(of.keys, &of.statement, of.support);
            made.is_none_or(|made| made != *bytes)
        };
        if let Some(bad) = collections.iter().position(is_false) {
            return Err(SchemeError::Malformed(bad));
        }
        let entries: Vec<_> = collections.iter().map(|(of, _)| *of).collect();
        let made = self.bundle_evidence(&entries);
        made.map(Bytes::from).ok_or(SchemeError::Degenerate)
    }
}
