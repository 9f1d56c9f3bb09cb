//! Sets of positions of which each is kept once, however many hold it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::Bitfield;

/// Sets that are forgotten by all their holders are swept when so many were added since the last
/// time, and as many as were left then.
const SWEEP_SETS: usize = 1_024;

/// Sets with their digest, each as long as somebody holds it.
#[derive(Debug, Default)]
struct Table {
    sets: BTreeMap<u64, Vec<Weak<Bitfield>>>,
    /// Added since the last sweep.
    added: usize,
    /// Left by it.
    left: usize,
}

/// A store of immutable sets: equal ones are one allocation, whoever asked for them. A node has one
/// store, a simulation one for all of its nodes.
///
/// The store holds no set: it knows those that somebody else holds.
#[derive(Debug, Default)]
pub struct Supports {
    table: Mutex<Table>,
}

impl Supports {
    /// The shared set that is equal to `set`.
    pub fn intern(&self, set: Cow<'_, Bitfield>) -> Arc<Bitfield> {
        // The digest only sorts: equal sets are compared in full.
        let mut hasher = DefaultHasher::new();
        set.hash(&mut hasher);
        let digest = hasher.finish();
        let mut table = self.table();
        let row = table.sets.entry(digest).or_default();
        let known = row
            .iter()
            .filter_map(Weak::upgrade)
            .find(|known| **known == *set);
        if let Some(known) = known {
            return known;
        }
        let set = Arc::new(set.into_owned());
        row.push(Arc::downgrade(&set));
        table.added += 1;
        if table.added > SWEEP_SETS + table.left {
            table.sweep();
        }
        set
    }

    /// The union of two sets, shared too.
    ///
    /// # Panics
    ///
    /// If they have different lengths.
    pub fn union(&self, a: &Arc<Bitfield>, b: &Arc<Bitfield>) -> Arc<Bitfield> {
        if Arc::ptr_eq(a, b) || b.is_subset_of(a) {
            return a.clone();
        }
        if a.is_subset_of(b) {
            return b.clone();
        }
        let mut union = Bitfield::clone(a);
        union.union_with(b);
        self.intern(Cow::Owned(union))
    }

    /// How many sets somebody holds.
    pub fn count(&self) -> usize {
        let mut table = self.table();
        table.sweep();
        table.left
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A panic leaves the table as it is: whole between any two steps.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn sweep(&mut self) {
        self.sets.retain(|_, row| {
            row.retain(|set| set.strong_count() > 0);
            !row.is_empty()
        });
        self.left = self.sets.values().map(Vec::len).sum();
        self.added = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ones: &[usize]) -> Bitfield {
        let mut set = Bitfield::new(70);
        ones.iter().for_each(|&i| set.set(i));
        set
    }

    fn intern(supports: &Supports, ones: &[usize]) -> Arc<Bitfield> {
        supports.intern(Cow::Owned(set(ones)))
    }

    #[test]
    fn equal_sets_are_one() {
        let supports = Supports::default();
        let a = intern(&supports, &[1, 69]);
        assert!(Arc::ptr_eq(&a, &intern(&supports, &[69, 1])));
        let b = intern(&supports, &[2]);
        let union = supports.union(&a, &b);
        assert_eq!(*union, set(&[1, 2, 69]));
        assert!(Arc::ptr_eq(&union, &intern(&supports, &[1, 2, 69])));
        assert!(Arc::ptr_eq(&supports.union(&union, &b), &union));
        assert!(Arc::ptr_eq(&supports.union(&a, &union), &union));
        assert_eq!(supports.count(), 3);
        // Equal words of another length are another set.
        let longer = supports.intern(Cow::Owned(Bitfield::new(71)));
        let shorter = supports.intern(Cow::Owned(Bitfield::new(70)));
        assert_ne!(longer, shorter);
    }

    #[test]
    fn what_nobody_holds_is_swept() {
        let supports = Supports::default();
        let held = intern(&supports, &[5]);
        for i in 0..50_000_usize {
            let bits: Vec<usize> = (0..20).filter(|bit| i >> bit & 1 == 1).collect();
            intern(&supports, &bits);
            assert!(supports.table().sets.len() <= 2 * SWEEP_SETS);
        }
        assert_eq!(supports.count(), 1);
        assert!(Arc::ptr_eq(&held, &intern(&supports, &[5])));
    }

    #[test]
    fn threads_share_a_store() {
        let supports = Supports::default();
        let held: Vec<Vec<Arc<Bitfield>>> = std::thread::scope(|scope| {
            let run = || (0..70).map(|i| intern(&supports, &[i])).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(supports.count(), 70);
        for sets in &held[1..] {
            assert!(sets.iter().zip(&held[0]).all(|(a, b)| Arc::ptr_eq(a, b)));
        }
    }
}
