//! Vectors of a committee whose sums are kept from one job to the next.
//!
//! The collections of a slot differ from one another, and from those of the previous slot, in a few positions
//! of a hundred. Against a known sum, only these positions are added. Kept vectors come from claims that held,
//! with sums computed here, and are bound to their key table. They change how long a sum takes, never its
//! result.

use alphorn_types::Slot;

use crate::sums::Base;

/// Vectors kept per committee: the best bitfields of two slots, or the two lower planes of the best support
/// with multiplicities.
pub(super) const BASES_MAX: usize = 2;

/// What is known of one committee.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Slot and number of signers of the first base.
    newest: Option<(Slot, usize)>,
    bases: Vec<Base>,
}

impl Known {
    /// The vectors, at most [`BASES_MAX`].
    pub(super) fn bases(&self) -> &[Base] {
        &self.bases
    }

    /// Keeps the planes of a support of `slot` that held, if it is newer than the stored one, or of the same
    /// slot with more signers.
    pub(super) fn learn(&mut self, slot: Slot, signers: usize, planes: impl Iterator<Item = Base>) {
        let is_better = self
            .newest
            .is_none_or(|(newest, most)| (slot, signers) > (newest, most));
        if !is_better {
            return;
        }
        let mut planes: Vec<Base> = planes.take(BASES_MAX).collect();
        if planes.is_empty() {
            return;
        }
        let same_slot = self.newest.is_some_and(|(newest, _)| newest == slot);
        // A better bitfield of the same slot replaces the previous one.
        let kept = self.bases.drain(..).skip(usize::from(same_slot));
        planes.extend(kept);
        planes.truncate(BASES_MAX);
        self.bases = planes;
        self.newest = Some((slot, signers));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums::KeyTable;
    use crate::{interop_keys, vartime_interop_public_keys};
    use alphorn_exec::Backend;
    use alphorn_exec::Exec;

    #[test]
    fn the_best_of_two_slots_or_two_planes_are_kept() {
        let secrets = interop_keys(0..8, Exec::serial());
        let keys = vartime_interop_public_keys(&secrets, Exec::serial());
        let keys = keys.iter().map(|key| *key.point()).collect();
        let table = KeyTable::new(Backend::Portable, keys, &[8]).unwrap();
        let base = |word: u64| Base::compute(&table, 0, &[word]).unwrap();
        let mut known = Known::default();
        let words = |known: &Known| -> Vec<u64> {
            known.bases().iter().map(|base| base.words()[0]).collect()
        };
        known.learn(Slot(5), 0, std::iter::empty());
        assert!(words(&known).is_empty());
        for (slot, word, expected) in [
            (5, 0b0011, vec![0b0011]),
            (5, 0b0001, vec![0b0011]),
            (5, 0b0111, vec![0b0111]),
            (6, 0b0100, vec![0b0100, 0b0111]),
            (5, 0xff, vec![0b0100, 0b0111]),
            (6, 0b1100, vec![0b1100, 0b0111]),
            (9, 0b0010, vec![0b0010, 0b1100]),
        ] {
            let signers = u64::count_ones(word) as usize;
            known.learn(Slot(slot), signers, std::iter::once(base(word)));
            assert_eq!(words(&known), expected);
        }
        known.learn(Slot(9), 7, [0x7f, 0x0f, 0x01].into_iter().map(base));
        assert_eq!(words(&known), [0x7f, 0x0f]);
    }
}
