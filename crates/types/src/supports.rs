//! Sets of positions, each stored once however many references exist.

use std::borrow::Cow;
use std::sync::Arc;

use crate::Bitfield;
use crate::interned::{Interned, digest_of};

/// A store of immutable sets: equal ones share one allocation, whoever requested them. A node has
/// one store; a simulation has one for all its nodes.
#[derive(Debug, Default)]
pub struct Supports {
    sets: Interned<Bitfield>,
}

impl Supports {
    /// Returns the shared set equal to `set`.
    pub fn intern(&self, set: Cow<'_, Bitfield>) -> Arc<Bitfield> {
        // Looked up by reference first: only a set that is new must be owned.
        let digest = digest_of(&*set);
        if let Some(known) = self.sets.find(digest, |known| *known == *set) {
            return known;
        }
        let set = Arc::new(set.into_owned());
        let own = set.clone();
        self.sets.intern(digest, |known| *known == *set, || own)
    }

    /// Returns the union of two sets, also shared.
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

    /// Number of sets that are referenced.
    pub fn count(&self) -> usize {
        self.sets.count()
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
        // Equal words with another length are a different set.
        let longer = supports.intern(Cow::Owned(Bitfield::new(71)));
        let shorter = supports.intern(Cow::Owned(Bitfield::new(70)));
        assert_ne!(longer, shorter);
    }
}
