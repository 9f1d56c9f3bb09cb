//! Selection of the members of a unit that serve, that is, make evidence of it.
//!
//! **Lottery**: a member's unique signature of a message that is the same for all is a random ticket,
//! known only to its owner until it is used. An expected `target` members serve. The seed of the epoch is
//! part of the message: a slot number alone would let keys be ground before they are registered.
//! Ethereum's `ticket mod (n / target)` is not used, because it rounds: with n = 191 and a target of 16
//! it selects 17.4 members in expectation.
//!
//! **Rank**: exactly the first `target` members of a shuffle serve, without a proof, but known an epoch
//! ahead.

use alphorn_types::{Layout, Slot, Unit};
use sha2::{Digest, Sha256};

use super::shuffle::Shuffle;
use crate::wire::digest;

/// The ticket of a selection proof: the first eight bytes of its SHA-256, little-endian.
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

/// Expected number of members of a group of `n` with a smaller ticket: `floor(ticket · n / 2^64)`. Staged
/// publishing follows this order.
pub fn expected_rank(ticket: u64, n: u32) -> u32 {
    // Below n, because ticket < 2^64.
    ((u128::from(ticket) * u128::from(n)) >> 64) as u32
}

/// The members of a unit that serve by rank, as positions in the unit: the first serves with rank 0. At
/// most `target`, fewer in a smaller unit.
///
/// `seed` is that of the epoch's committees ([`digest::epoch_seed`]).
///
/// # Panics
///
/// If the layout has no such unit.
pub fn ranked(seed: &[u8; 32], slot: Slot, unit: Unit, layout: &Layout, target: u32) -> Vec<u32> {
    let seed = digest::rank_seed(seed, slot, unit);
    Shuffle::new(seed, layout.unit_len(unit)).first(target)
}

/// The rank of the member at a position in the unit, 0 for the first to serve.
///
/// # Panics
///
/// If the layout has no such unit, or the unit has no such position.
pub(crate) fn rank(seed: &[u8; 32], slot: Slot, unit: Unit, layout: &Layout, position: u32) -> u32 {
    let seed = digest::rank_seed(seed, slot, unit);
    Shuffle::new(seed, layout.unit_len(unit)).inverse_index(position)
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
        let layout = Layout::with_fan_out(1000, 2, &[2, 3]).unwrap();
        for unit in [Unit::new(1, 1, 5), Unit::new(2, 1, 1), layout.committee(1)] {
            let members = ranked(&[3; 32], Slot(7), unit, &layout, 16);
            assert_eq!(members.len(), 16);
            for (k, &position) in (0..).zip(&members) {
                assert_eq!(rank(&[3; 32], Slot(7), unit, &layout, position), k);
            }
            assert_ne!(members, ranked(&[3; 32], Slot(8), unit, &layout, 16));
            assert_ne!(members, ranked(&[4; 32], Slot(7), unit, &layout, 16));
        }
    }

    #[test]
    fn small_and_empty_groups_serve_with_all_they_have() {
        let layout = Layout::new(3, 2, 2).unwrap();
        let sizes: Vec<usize> = layout
            .units(1)
            .map(|unit| {
                let mut members = ranked(&[0; 32], Slot(0), unit, &layout, 16);
                members.sort_unstable();
                assert!(members.iter().copied().eq(0..layout.unit_len(unit)));
                members.len()
            })
            .collect();
        assert_eq!(sizes, [0, 1, 1, 1]);
    }

    #[test]
    fn levels_slots_and_places_have_different_orders() {
        // All units of a committee have the same members.
        let layout = Layout::with_fan_out(4096, 2, &[1, 1]).unwrap();
        let order = |level, c| ranked(&[1; 32], Slot(1), Unit::new(level, c, 0), &layout, 64);
        let orders = [order(1, 0), order(2, 0), order(3, 0), order(1, 1)];
        for (i, one) in orders.iter().enumerate() {
            assert!(orders[..i].iter().all(|other| other != one));
        }
    }
}
