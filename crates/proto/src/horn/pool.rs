//! Accepted collections that a block may include.

use alphorn_types::{Bitfield, Slot};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::store::Claimed;
use crate::chain::INCLUSION_SLOTS;
use crate::maps::forget_before;
use crate::wire::Entry;

/// Number of votes of a committee whose collections are kept once its slot is no longer the current or
/// the previous one, and number of collections of each.
const VOTES_OLD: usize = 2;
const KEPT_OF_VOTE: usize = 2;
/// Number of collections kept per committee from then on.
pub(super) const KEPT_OLD: usize = VOTES_OLD * KEPT_OF_VOTE;
/// Number of slots of which all accepted collections are kept.
const KEPT_ALL_SLOTS: u64 = 2;

/// An accepted collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) claimed: Arc<Claimed>,
    /// Weight of its signers. Each counts once, whatever its multiplicity.
    pub(super) weight: u64,
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.claimed.entry.raw_bytes() as u64
    }
}

/// Accepted collections by slot and committee: for two slots, at most those that the gate accepts per
/// slot; then [`KEPT_OLD`] per committee until no block can include them; and a byte budget for all.
#[derive(Default)]
pub(super) struct Pool {
    by_group: BTreeMap<(Slot, u16), Vec<Kept>>,
    bytes: u64,
}

impl Pool {
    /// Keeps a collection. Returns how many were dropped for it.
    pub(super) fn insert(&mut self, kept: Kept, bytes_max: u64) -> u64 {
        let entry = &kept.claimed.entry;
        let group = (entry.vote.slot, entry.committee);
        self.bytes += kept.bytes();
        let row = self.by_group.entry(group).or_default();
        if row.is_empty() {
            // Usually there is only one.
            row.reserve_exact(1);
        }
        row.push(kept);
        let mut dropped = 0;
        // The new one may be the lightest itself, so a flood of light collections displaces nothing
        // heavier.
        while self.bytes > bytes_max && self.drop_least() {
            dropped += 1;
        }
        dropped
    }

    /// Drops a useless collection.
    pub(super) fn remove(&mut self, claimed: &Claimed) {
        let group = (claimed.entry.vote.slot, claimed.entry.committee);
        if let Some(row) = self.by_group.get_mut(&group) {
            row.retain(|kept| kept.claimed.digest != claimed.digest);
        }
        self.by_group.retain(|_, row| !row.is_empty());
        self.bytes = self.iter().map(Kept::bytes).sum();
    }

    /// Drops the lightest collection, or the oldest of equally light ones.
    fn drop_least(&mut self) -> bool {
        let all = self.by_group.iter().flat_map(|(group, row)| {
            let row = (0..).zip(row);
            row.map(move |(i, kept)| (kept.weight, *group, i))
        });
        let Some((_, group, i)) = all.min() else {
            return false;
        };
        if let Some(row) = self.by_group.get_mut(&group) {
            self.bytes -= row.remove(i).bytes();
        }
        self.by_group.retain(|_, row| !row.is_empty());
        true
    }

    /// Of slots before the previous one, keeps the best two collections of a committee's two heaviest
    /// votes. Drops slots that no block can include any more. `gain` is the weight that an entry adds to
    /// a set.
    pub(super) fn prune(&mut self, now: Slot, gain: &dyn Fn(&Entry, &Bitfield) -> u64) {
        let oldest = now.saturating_sub(INCLUSION_SLOTS);
        forget_before(&mut self.by_group, &(oldest, 0));
        for (&(slot, _), row) in &mut self.by_group {
            if slot.0 + KEPT_ALL_SLOTS <= now.0 && row.len() > KEPT_OF_VOTE {
                keep_best(row, gain);
            }
        }
        self.bytes = self.iter().map(Kept::bytes).sum();
    }

    /// Bytes of all kept collections.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.by_group.values().flatten()
    }
}

/// Keeps, for each of the heaviest votes, the heaviest collection and the one that adds the most to it;
/// the first one on ties. Both are for one vote: another vote's gain must not displace what completes
/// this one.
fn keep_best(row: &mut Vec<Kept>, gain: &dyn Fn(&Entry, &Bitfield) -> u64) {
    let mut left = std::mem::take(row);
    for _ in 0..VOTES_OLD {
        let heaviest = (0..left.len()).max_by_key(|&i| (left[i].weight, Reverse(i)));
        let Some(heaviest) = heaviest.map(|i| &left[i].claimed) else {
            return;
        };
        let vote = heaviest.entry.vote;
        let mut covered = Bitfield::new(heaviest.signers.len());
        let is_of_it = |kept: &Kept| kept.claimed.entry.vote == vote;
        let (mut same, others) = left.into_iter().partition::<Vec<_>, _>(is_of_it);
        left = others;
        for _ in 0..KEPT_OF_VOTE {
            let most = (0..same.len())
                .max_by_key(|&i| (gain(&same[i].claimed.entry, &covered), Reverse(i)));
            let Some(most) = most else {
                break;
            };
            let kept = same.remove(most);
            covered.union_with(&kept.claimed.signers);
            row.push(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Vote;
    use alphorn_scheme::Evidence;
    use alphorn_types::Support;
    use std::ops::Range;

    fn kept(slot: u64, signers: Range<usize>) -> Kept {
        kept_for(0, slot, signers)
    }

    fn kept_for(head: u8, slot: u64, signers: Range<usize>) -> Kept {
        let mut bits = Bitfield::new(64);
        bits.set_range(signers);
        let vote = Vote {
            slot: Slot(slot),
            head: [head; 32],
            ..Vote::default()
        };
        let evidence = Evidence {
            support: Arc::new(Support::from_bits(bits)),
            bytes: vec![0; 96].into(),
        };
        let committee = 0;
        let entry = Entry {
            vote,
            committee,
            evidence,
        };
        let signers = Arc::new(entry.evidence.support.signers());
        Kept {
            weight: signers.count_ones() as u64,
            claimed: Arc::new(Claimed {
                entry,
                digest: Arc::new([0; 32]),
                signers,
            }),
        }
    }

    fn ranges(pool: &Pool) -> Vec<(u64, usize, u64)> {
        pool.iter()
            .map(|kept| {
                let first = kept.claimed.signers.iter_ones().next().unwrap();
                (kept.claimed.entry.vote.slot.0, first, kept.weight)
            })
            .collect()
    }

    fn added(entry: &Entry, to: &Bitfield) -> u64 {
        entry.evidence.support.signers().count_and_not(to) as u64
    }

    #[test]
    fn old_slots_keep_the_best_and_what_adds_most_to_it() {
        let mut pool = Pool::default();
        for signers in [0..10, 5..30, 6..29, 40..44, 28..33] {
            assert_eq!(pool.insert(kept(5, signers), u64::MAX), 0);
        }
        pool.prune(Slot(6), &added);
        assert_eq!(ranges(&pool).len(), 5);
        pool.prune(Slot(7), &added);
        assert_eq!(ranges(&pool), [(5, 5, 25), (5, 0, 10)]);
        pool.prune(Slot(37), &added);
        assert_eq!(ranges(&pool).len(), 2);
        pool.prune(Slot(38), &added);
        assert!(ranges(&pool).is_empty());
        assert_eq!(pool.bytes, 0);
    }

    /// Minority votes do not displace the collections that complete majority votes.
    #[test]
    fn old_slots_keep_what_completes_the_heaviest_vote() {
        let mut pool = Pool::default();
        for (head, signers) in [
            (0, 0..25),
            (0, 25..30),
            (1, 30..40),
            (1, 31..42),
            (2, 42..46),
        ] {
            assert_eq!(pool.insert(kept_for(head, 5, signers), u64::MAX), 0);
        }
        pool.prune(Slot(7), &added);
        assert_eq!(
            ranges(&pool),
            [(5, 0, 25), (5, 25, 5), (5, 31, 11), (5, 30, 10)]
        );
    }

    #[test]
    fn the_budget_of_bytes_drops_what_covers_least() {
        let mut pool = Pool::default();
        let one = kept(1, 0..1).bytes();
        assert_eq!(pool.insert(kept(1, 0..9), 2 * one), 0);
        assert_eq!(pool.insert(kept(2, 0..5), 2 * one), 0);
        assert_eq!(pool.insert(kept(3, 0..7), 2 * one), 1);
        assert_eq!(ranges(&pool), [(1, 0, 9), (3, 0, 7)]);
        assert_eq!(pool.insert(kept(4, 0..2), 2 * one), 1, "the new one itself");
        assert_eq!(pool.insert(kept(4, 0..64), 0), 3);
        assert_eq!(pool.bytes, 0);
    }
}
