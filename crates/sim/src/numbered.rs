//! Values with consecutive numbers that do not start at 0, such as those of the nodes of one span.

use std::ops::{Index, IndexMut, Range};

/// One value for each number in a range, indexed by the number.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<T> {
    first: u32,
    items: Vec<T>,
}

impl<T> Numbered<T> {
    /// One value for each number from `first` on.
    pub(crate) fn new(first: u32, items: Vec<T>) -> Self {
        Numbered { first, items }
    }

    /// The numbers.
    pub(crate) fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.items.len() as u32
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The value with this number, if there is one.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        // A number before the first one wraps to a position beyond the last.
        let place = number.wrapping_sub(self.first) as usize;
        self.items.get_mut(place)
    }

    /// All values, in order of number.
    #[inline]
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }
}

impl<T> Index<u32> for Numbered<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.items[number.wrapping_sub(self.first) as usize]
    }
}

impl<T> IndexMut<u32> for Numbered<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.items[number.wrapping_sub(self.first) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_found_by_their_numbers() {
        let mut things = Numbered::new(7, vec!["a", "b"]);
        assert_eq!((things[7], things[8], things.numbers()), ("a", "b", 7..9));
        things[8] = "c";
        assert_eq!(things.get_mut(8).copied(), Some("c"));
        assert_eq!(things.get_mut(6), None);
        assert_eq!(things.get_mut(9), None);
        assert!(things.iter().eq(&["a", "c"]) && !things.is_empty());
    }
}
