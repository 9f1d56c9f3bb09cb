//! Rank tables: a shuffle of each unit in each slot, computed once for all callers.

use alphorn_types::{Layout, Slot, Unit};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::selection;

/// Maximum number of remembered slots and seeds: slots whose messages are accepted, on two branches.
const SLOTS_MAX: usize = 8;

/// The inputs to an order other than the unit: a slot and the seed of its epoch's committees.
type Draw = (Slot, [u8; 32]);
/// Members by rank, with the number requested.
type Orders = BTreeMap<Unit, (u32, Arc<[u32]>)>;

/// The serving members of each unit in recent slots. A node has one table, a simulation has one for all
/// of its nodes.
#[derive(Default)]
pub(super) struct Ranks {
    slots: Mutex<BTreeMap<Draw, Orders>>,
}

impl Ranks {
    /// See [`selection::ranked`].
    ///
    /// # Panics
    ///
    /// If the layout has no such unit.
    pub(super) fn of(
        &self,
        slot: Slot,
        seed: &[u8; 32],
        unit: Unit,
        layout: &Layout,
        target: u32,
    ) -> Arc<[u32]> {
        // A panic leaves the table valid: it is consistent between any two steps.
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = slots.entry((slot, *seed)).or_default();
        let ranked =
            || -> Arc<[u32]> { selection::ranked(seed, slot, unit, layout, target).into() };
        let (count, order) = orders.entry(unit).or_insert_with(|| (target, ranked()));
        if *count != target {
            (*count, *order) = (target, ranked());
        }
        // Before old slots are dropped, as this one may be the oldest.
        let order = order.clone();
        while slots.len() > SLOTS_MAX {
            slots.pop_first();
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_that_of_its_shuffle_and_made_once() {
        let layout = Layout::new(1000, 2, 3).unwrap();
        let ranks = Ranks::default();
        let of = |slot, seed: u8, target| {
            let seed = [seed; 32];
            ranks.of(Slot(slot), &seed, layout.committee(1), &layout, target)
        };
        for (slot, seed, target) in [(7, 1, 16), (8, 1, 16), (7, 2, 16), (7, 1, 5)] {
            let unit = layout.committee(1);
            let expected = selection::ranked(&[seed; 32], Slot(slot), unit, &layout, target);
            assert_eq!(*of(slot, seed, target), expected);
        }
        assert!(Arc::ptr_eq(&of(8, 1, 16), &of(8, 1, 16)));
        (0..100).for_each(|slot| drop(of(slot, 1, 1)));
        assert_eq!(ranks.slots.lock().unwrap().len(), SLOTS_MAX);
    }
}
