//! Things in one place each, shared by number.

use crate::windows::ARG_MAX;

/// A thing that several hold, or a free place.
#[derive(Debug)]
struct Place<T> {
    /// Who holds it; 0 = free.
    holders: u32,
    thing: Option<T>,
}

/// Things with a number and a count of holders; the last one that lets go frees the place. What is
/// sent to many is here once.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Keeps a thing for `holders`; none if as many are kept as an event can name.
    #[inline]
    pub(crate) fn insert(&mut self, thing: T, holders: u32) -> Option<u32> {
        let place = Place {
            holders,
            thing: Some(thing),
        };
        if let Some(index) = self.free.pop() {
            self.places[index as usize] = place;
            return Some(index);
        }
        let index = u32::try_from(self.places.len()).ok()?;
        if index > ARG_MAX {
            return None;
        }
        self.places.push(place);
        Some(index)
    }

    /// Has a place brought into the cache, for a thing that is read soon.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        if let Some(place) = self.places.get(index as usize) {
            alphorn_exec::prefetch(place);
        }
    }

    /// Lets more hold a thing.
    ///
    /// # Panics
    /// If nobody holds it.
    #[inline]
    pub(crate) fn hold(&mut self, index: u32, holders: u32) {
        let place = &mut self.places[index as usize];
        assert!(place.holders > 0, "thing {index} is held");
        place.holders += holders;
    }

    /// The thing.
    ///
    /// # Panics
    /// If nobody holds it.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        let thing = self.places[index as usize].thing.as_ref();
        thing.expect("a thing is read by its holders")
    }

    /// Lets go of a thing; the last holder gets it.
    ///
    /// # Panics
    /// If nobody holds it.
    #[inline]
    pub(crate) fn release(&mut self, index: u32) -> Option<T> {
        let place = &mut self.places[index as usize];
        assert!(place.holders > 0, "thing {index} is held");
        place.holders -= 1;
        if place.holders > 0 {
            return None;
        }
        self.free.push(index);
        place.thing.take()
    }

    /// The thing, if somebody holds it.
    #[inline]
    pub(crate) fn peek(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.thing.as_ref()
    }

    /// Things that are held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl<T: Clone> Slab<T> {
    /// Lets go of a thing for a copy of it; the last holder gets the thing itself.
    ///
    /// # Panics
    /// If nobody holds it.
    #[inline]
    pub(crate) fn redeem(&mut self, index: u32) -> T {
        if self.places[index as usize].holders > 1 {
            self.places[index as usize].holders -= 1;
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
