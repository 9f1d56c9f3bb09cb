//! A suffix of shared bytes.

use crate::Bytes;
use std::fmt;
use std::ops::Deref;

/// The last bytes of a shared buffer, without a copy: a signature in the message that contained it.
///
/// An aggregator's job has the signatures of a whole cell, and messages are kept anyway for requests.
#[derive(Clone)]
pub struct Tail {
    bytes: Bytes,
    first: u32,
}

impl Tail {
    /// Returns the last `len` bytes.
    ///
    /// # Panics
    /// If there are fewer, or 4 GiB precede them.
    pub fn new(bytes: Bytes, len: usize) -> Tail {
        let before = bytes.len().checked_sub(len).expect("so many bytes");
        let first = u32::try_from(before).expect("less than 4 GiB");
        Tail { bytes, first }
    }
}

impl From<Bytes> for Tail {
    fn from(bytes: Bytes) -> Tail {
        Tail { bytes, first: 0 }
    }
}

impl Deref for Tail {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.first as usize..]
    }
}

impl AsRef<[u8]> for Tail {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Tail {
    fn eq(&self, other: &Tail) -> bool {
        **self == **other
    }
}

impl Eq for Tail {}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_its_bytes() {
        let bytes: Bytes = vec![1, 2, 3, 4].into();
        let tail = Tail::new(bytes.clone(), 2);
        assert_eq!((&*tail, tail.len()), (&[3, 4][..], 2));
        assert_eq!(tail, Tail::from(Bytes::from(vec![3, 4])));
        assert_ne!(tail, Tail::from(bytes.clone()));
        assert!(Tail::new(bytes, 0).is_empty());
    }

    #[test]
    #[should_panic(expected = "so many bytes")]
    fn no_tail_is_longer_than_its_bytes() {
        let _ = Tail::new(vec![1].into(), 2);
    }
}
