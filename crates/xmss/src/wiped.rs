//! Secrets in memory that are overwritten when they are dropped.

use std::ops::{Deref, DerefMut};

/// Chain values in memory, overwritten on drop: a key that has signed still holds the secrets of all later slots.
pub(crate) struct Wiped<T: Copy + Default>(pub(crate) Vec<T>);

impl<T: Copy + Default> Drop for Wiped<T> {
    fn drop(&mut self) {
        self.0.fill(T::default());
        // Otherwise nothing would read the zeros, and the compiler could omit them.
        std::hint::black_box(&mut self.0);
    }
}

impl<T: Copy + Default> Deref for Wiped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Copy + Default> DerefMut for Wiped<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
