//! Values stored once, however many references exist.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Values without references are swept when this many were added since the last sweep, plus as many
/// as were left by it.
const SWEEP: usize = 1_024;

/// Values by digest, each kept as long as it is referenced.
#[derive(Debug)]
struct Table<T> {
    values: BTreeMap<u64, Vec<Weak<T>>>,
    /// Number added since the last sweep.
    added: usize,
    /// Number left by it.
    left: usize,
}

/// A store of immutable values: equal ones share one allocation, whoever requested them.
///
/// The store owns no value: it only knows those referenced elsewhere.
#[derive(Debug)]
pub struct Interned<T> {
    table: Mutex<Table<T>>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        let table = Table {
            values: BTreeMap::new(),
            added: 0,
            left: 0,
        };
        Self {
            table: Mutex::new(table),
        }
    }
}

/// The digest under which a value is looked up. It only sorts: a lookup compares the values in
/// full.
pub fn digest_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl<T> Interned<T> {
    /// Returns the value under a digest that `fits`, if it is referenced anywhere.
    pub fn find(&self, digest: u64, fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.table().find(digest, fits)
    }

    /// Returns the value under a digest that `fits`: the existing one, or the one created now.
    pub fn intern(
        &self,
        digest: u64,
        fits: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Arc<T>,
    ) -> Arc<T> {
        let mut table = self.table();
        if let Some(known) = table.find(digest, fits) {
            return known;
        }
        // Under the lock, so that two threads do not create the same value.
        let value = make();
        let row = table.values.entry(digest).or_default();
        row.push(Arc::downgrade(&value));
        table.added += 1;
        // A sweep visits every value. Waiting for as many additions as the last one left makes that constant
        // work for each.
        if table.added > SWEEP + table.left {
            table.sweep();
        }
        value
    }

    /// Number of referenced values, each counted once per digest.
    pub fn count(&self) -> usize {
        let mut table = self.table();
        table.sweep();
        table.left
    }

    fn table(&self) -> MutexGuard<'_, Table<T>> {
        // A panic leaves the table as it is: it is consistent between any two steps.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Table<T> {
    fn find(&self, digest: u64, fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        // Values without references stay until the next sweep and are passed over.
        let mut row = self.values.get(&digest)?.iter().filter_map(Weak::upgrade);
        row.find(|known| fits(known))
    }

    fn sweep(&mut self) {
        self.values.retain(|_, row| {
            row.retain(|value| value.strong_count() > 0);
            !row.is_empty()
        });
        self.left = self.values.values().map(Vec::len).sum();
        self.added = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intern(store: &Interned<u32>, value: u32, digest: u64) -> Arc<u32> {
        store.intern(digest, |known| *known == value, || Arc::new(value))
    }

    #[test]
    fn equal_values_are_one_whatever_shares_their_digest() {
        let store = Interned::default();
        let (a, b) = (intern(&store, 1, 7), intern(&store, 2, 7));
        assert_eq!((*a, *b), (1, 2));
        assert!(Arc::ptr_eq(&a, &intern(&store, 1, 7)));
        assert!(store.find(7, |value| *value == 2).is_some());
        assert!(store.find(8, |_| true).is_none());
        assert_eq!(store.count(), 2);
        drop(b);
        assert_eq!(
            (store.count(), store.find(7, |value| *value == 2)),
            (1, None)
        );
    }

    #[test]
    fn what_nobody_holds_is_swept() {
        let store = Interned::default();
        let held = intern(&store, 5, 5);
        for i in 0..50_000 {
            intern(&store, i, u64::from(i));
            assert!(store.table().values.len() <= 2 * SWEEP);
        }
        assert_eq!(store.count(), 1);
        assert!(Arc::ptr_eq(&held, &intern(&store, 5, 5)));
    }

    #[test]
    fn threads_share_a_store() {
        let store = Interned::default();
        let held: Vec<Vec<Arc<u32>>> = std::thread::scope(|scope| {
            let run = || (0..70).map(|i| intern(&store, i, u64::from(i))).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap();
            threads.into_iter().map(join).collect()
        });
        assert_eq!(store.count(), 70);
        for values in &held[1..] {
            assert!(values.iter().zip(&held[0]).all(|(a, b)| Arc::ptr_eq(a, b)));
        }
    }
}
