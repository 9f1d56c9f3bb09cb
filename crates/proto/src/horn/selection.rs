//! Who of a cell aggregates, and who of a committee collects.
//!
//! **Lottery**: a member's unique signature of a message that is the same for all is a random
//! ticket that nobody else knows before it is used. Expected `target` members serve. The seed of
//! the epoch is inside the message: a slot number alone would let keys be ground before they are
//! registered. Ethereum's `ticket mod (n / target)` is not used, because it rounds: with n = 191
//! and a target of 16 it selects 17.4 members in expectation.
//!
//! **Rank**: the first `target` members of a shuffle serve, exactly that many, without a proof,
//! but known an epoch ahead.

use alphorn_types::{Cell, Layout, Slot};
use sha2::{Digest, Sha256};
use std::ops::Range;

use super::shuffle::Shuffle;
use crate::wire::{Kind, digest};

/// A place where members of a group serve: a cell has aggregators, a committee collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Post {
    /// Aggregators of a cell.
    Aggregator(Cell),
    /// Collectors of a committee.
    Collector(u16),
}

impl Post {
    /// The kind of message that is published from here; also the role's number in digests.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Aggregator(_) => Kind::Aggregate,
            Self::Collector(_) => Kind::Collection,
        }
    }

    /// The committee.
    pub const fn committee(self) -> u16 {
        match self {
            Self::Aggregator(cell) => cell.committee,
            Self::Collector(committee) => committee,
        }
    }

    /// Epoch positions of the members who may serve.
    ///
    /// # Panics
    ///
    /// If the layout has no such cell or committee.
    pub fn positions(self, layout: &Layout) -> Range<u32> {
        match self {
            Self::Aggregator(cell) => layout.cell_range(cell),
            Self::Collector(committee) => layout.committee_range(committee),
        }
    }

    /// The cell that stands in [`digest::rank_seed`]: subcommittee 0 for collectors.
    const fn rank_cell(self) -> Cell {
        match self {
            Self::Aggregator(cell) => cell,
            Self::Collector(committee) => Cell {
                committee,
                subcommittee: 0,
            },
        }
    }
}

/// The ticket of a proof of selection: the first eight bytes of its SHA-256, little-endian.
pub fn ticket(proof: &[u8]) -> u64 {
    let hash = Sha256::digest(proof);
    let (head, _) = hash.split_first_chunk::<8>().expect("a hash has 32 bytes");
    u64::from_le_bytes(*head)
}

/// Whether a ticket serves in a group of `n` members of which `target` are wanted:
/// `ticket < floor(2^64 · target / n)`. All serve if `target >= n`, none if `n = 0`.
pub fn selected(ticket: u64, target: u32, n: u32) -> bool {
    // target < 2^32, so the product stays below 2^96.
    let threshold = ((u128::from(target)) << 64).checked_div(u128::from(n));
    threshold.is_some_and(|threshold| u128::from(ticket) < threshold)
}

/// How many members of a group of `n` are expected to hold a smaller ticket:
/// `floor(ticket · n / 2^64)`. Staged publishing waits in this order.
pub fn expected_rank(ticket: u64, n: u32) -> u32 {
    // Below n, because ticket < 2^64.
    ((u128::from(ticket) * u128::from(n)) >> 64) as u32
}

/// The members who serve at a post by rank, as positions inside the cell or committee: the first
/// serves with rank 0. At most `target`, fewer in a smaller group.
///
/// `seed` is that of the epoch's committees ([`digest::epoch_seed`]).
///
/// # Panics
///
/// If the layout has no such cell or committee.
pub fn ranked(seed: &[u8; 32], slot: Slot, post: Post, layout: &Layout, target: u32) -> Vec<u32> {
    let seed = digest::rank_seed(seed, slot, post.kind(), post.rank_cell());
    let positions = post.positions(layout);
    Shuffle::new(seed, positions.end - positions.start).first(target)
}

/// The rank of the member at a position inside the cell or committee, 0 for the first to serve.
///
/// # Panics
///
/// If the layout has no such cell or committee, or it has no such position.
pub fn rank(seed: &[u8; 32], slot: Slot, post: Post, layout: &Layout, position: u32) -> u32 {
    let seed = digest::rank_seed(seed, slot, post.kind(), post.rank_cell());
    let positions = post.positions(layout);
    Shuffle::new(seed, positions.end - positions.start).inverse_index(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence of well-mixed tickets without a generator: multiples of the golden ratio.
    fn tickets(count: u64) -> impl Iterator<Item = u64> {
        (1..=count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn lottery_selects_the_target_in_expectation() {
        const TICKETS: u64 = 1_000_000;
        for n in [1u32, 15, 16, 17, 191, 192, 512] {
            let chosen = tickets(TICKETS).filter(|&t| selected(t, 16, n)).count() as u64;
            let expected = TICKETS * u64::from(n.min(16)) / u64::from(n);
            let difference = chosen.abs_diff(expected);
            // These tickets are spread more evenly than random ones: far below sqrt(10^6).
            assert!(
                difference <= 20,
                "n = {n}: {chosen} chosen, {expected} expected"
            );
        }
    }

    #[test]
    fn lottery_at_its_ends() {
        assert!(!selected(0, 16, 0));
        assert!(!selected(0, 0, 16));
        for n in 1..=16 {
            assert!(selected(u64::MAX, 16, n));
        }
        assert!(!selected(u64::MAX, 16, 17));
        // floor(2^64 / 3): the last ticket below serves, the next one does not.
        let third = (u128::from(u64::MAX) / 3) as u64;
        assert!(selected(third - 1, 1, 3));
        assert!(!selected(third, 1, 3));
        assert!(selected(u64::MAX, u32::MAX, u32::MAX));
    }

    #[test]
    fn expected_rank_is_proportional() {
        assert_eq!(expected_rank(0, 512), 0);
        assert_eq!(expected_rank(u64::MAX, 512), 511);
        assert_eq!(expected_rank(1 << 63, 512), 256);
        assert_eq!(expected_rank(u64::MAX, 0), 0);
        for t in tickets(1000) {
            // A selected ticket is expected among the first `target`.
            assert_eq!(selected(t, 16, 512), expected_rank(t, 512) < 16);
        }
    }

    #[test]
    fn ranks_are_the_inverse_of_the_members_who_serve() {
        let layout = Layout::new(1000, 2, 3).unwrap();
        let cell = Cell {
            committee: 1,
            subcommittee: 2,
        };
        for post in [Post::Aggregator(cell), Post::Collector(1)] {
            let members = ranked(&[3; 32], Slot(7), post, &layout, 16);
            assert_eq!(members.len(), 16);
            for (k, &position) in (0..).zip(&members) {
                assert_eq!(rank(&[3; 32], Slot(7), post, &layout, position), k);
            }
            assert_ne!(members, ranked(&[3; 32], Slot(8), post, &layout, 16));
            assert_ne!(members, ranked(&[4; 32], Slot(7), post, &layout, 16));
        }
    }

    #[test]
    fn small_and_empty_groups_serve_with_all_they_have() {
        let layout = Layout::new(3, 2, 2).unwrap();
        let sizes: Vec<usize> = layout
            .cells()
            .map(|cell| {
                let post = Post::Aggregator(cell);
                let mut members = ranked(&[0; 32], Slot(0), post, &layout, 16);
                members.sort_unstable();
                assert!(members.iter().copied().eq(0..layout.cell_len(cell)));
                members.len()
            })
            .collect();
        assert_eq!(sizes, [0, 1, 1, 1]);
    }

    #[test]
    fn roles_slots_and_places_have_different_orders() {
        let layout = Layout::new(4096, 2, 1).unwrap();
        let cell = |committee| Cell {
            committee,
            subcommittee: 0,
        };
        let order = |post| ranked(&[1; 32], Slot(1), post, &layout, 64);
        let (a, b) = (
            order(Post::Aggregator(cell(0))),
            order(Post::Aggregator(cell(1))),
        );
        let c = order(Post::Collector(0));
        assert!(a != b && a != c && b != c);
    }
}
