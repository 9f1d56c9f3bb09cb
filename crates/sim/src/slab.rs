//! Reference-counted shared values, identified by number.

use crate::windows::ARG_MAX;

/// A slot with a shared value, or a free slot.
#[derive(Debug)]
struct Entry<T> {
    /// Number of holders; 0 = free.
    holders: u32,
    thing: Option<T>,
}

/// Values with a number and a reference count; the last holder to release a value frees its slot. A
/// message to many receivers is stored here once.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Stores a value for `holders` holders; none if there are already as many values as an event
    /// can address.
    #[inline]
    pub(crate) fn insert(&mut self, thing: T, holders: u32) -> Option<u32> {
        let entry = Entry {
            holders,
            thing: Some(thing),
        };
        // Reused first, so the bound is on the values at one time and not on those of the whole run.
        if let Some(index) = self.free.pop() {
            self.entries[index as usize] = entry;
            return Some(index);
        }
        let index = u32::try_from(self.entries.len()).ok()?;
        // The last number stands for a part of a message (`net::PART`).
        if index >= ARG_MAX {
            return None;
        }
        self.entries.push(entry);
        Some(index)
    }

    /// Prefetches a slot whose value will be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        if let Some(entry) = self.entries.get(index as usize) {
            alphorn_exec::prefetch(entry);
        }
    }

    /// Adds holders to a value.
    ///
    /// # Panics
    /// If the value has no holder.
    #[inline]
    pub(crate) fn hold(&mut self, index: u32, holders: u32) {
        let entry = &mut self.entries[index as usize];
        assert!(entry.holders > 0, "thing {index} is held");
        entry.holders += holders;
    }

    /// Returns the value.
    ///
    /// # Panics
    /// If the value has no holder.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        let thing = self.entries[index as usize].thing.as_ref();
        thing.expect("a thing is read by its holders")
    }

    /// Releases a value; the last holder receives it.
    ///
    /// # Panics
    /// If the value has no holder.
    #[inline]
    pub(crate) fn release(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.entries[index as usize];
        assert!(entry.holders > 0, "thing {index} is held");
        entry.holders -= 1;
        if entry.holders > 0 {
            return None;
        }
        self.free.push(index);
        entry.thing.take()
    }

    /// Returns the value, if it has a holder.
    #[inline]
    pub(crate) fn peek(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.thing.as_ref()
    }

    /// Number of values held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T: Clone> Slab<T> {
    /// Releases a value in exchange for a copy; the last holder receives the value itself.
    ///
    /// # Panics
    /// If the value has no holder.
    #[inline]
    pub(crate) fn redeem(&mut self, index: u32) -> T {
        if self.entries[index as usize].holders > 1 {
            self.entries[index as usize].holders -= 1;
            return self.get(index).clone();
        }
        self.release(index).expect("the last holder gets the thing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_holder_gets_the_thing() {
        let mut slab = Slab::default();
        let a = slab.insert("a".to_owned(), 3).unwrap();
        let b = slab.insert("b".to_owned(), 1).unwrap();
        assert_eq!((slab.redeem(a), slab.release(a)), ("a".to_owned(), None));
        assert_eq!(slab.get(a), "a");
        assert_eq!(slab.release(a), Some("a".to_owned()));
        assert_eq!(slab.insert("c".to_owned(), 1), Some(a));
        assert_eq!((slab.get(b).as_str(), slab.len()), ("b", 2));
        slab.hold(b, 1);
        assert_eq!(
            (slab.release(b), slab.release(b)),
            (None, Some("b".to_owned()))
        );
    }
}
