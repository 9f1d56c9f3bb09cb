//! Sets of positions of which each is kept once, however many hold it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::Bitfield;
use crate::interned::{Interned, digest_of};

/// A store of immutable sets: equal ones are one allocation, whoever asked for them. A node has one
/// store, a simulation one for all of its nodes.
#[derive(Debug, Default)]
pub struct Supports {
    sets: Interned<Bitfield>,
}

impl Supports {
    /// The shared set that is equal to `set`.
    pub fn intern(&self, set: Cow<'_, Bitfield>) -> Arc<Bitfield> {
        let digest = digest_of(&*set);
        if let Some(known) = self.sets.find(digest, |known| *known == *set) {
            return known;
        }
        let set = Arc::new(set.into_owned());
        let own = set.clone();
        self.sets.intern(digest, |known| *known == *set, || own)
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
        // Equal words of another length are another set.
        let longer = supports.intern(Cow::Owned(Bitfield::new(71)));
        let shorter = supports.intern(Cow::Owned(Bitfield::new(70)));
        assert_ne!(longer, shorter);
    }
}
