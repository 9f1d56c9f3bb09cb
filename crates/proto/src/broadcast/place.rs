//! Places: a node decides who of its neighbours pushes to it, broadcast by broadcast.
//!
//! If every sender drew the receivers of its burst by itself, the number of senders of a receiver
//! would be binomial, and bursts would have to cover its lower tail. So each node deals a place in
//! its own order to each neighbour when they connect, and a burst of b goes to those neighbours in
//! whose order this node is among the first b: every receiver has the same number of senders.

use crate::rlnc::Id;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

/// Where a node stands among the neighbours of another; told by that one when they connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    index: u16,
    of: u16,
}

impl Place {
    /// Place `index` of `of`; none unless it is below.
    pub fn new(index: u16, of: u16) -> Option<Place> {
        (index < of).then_some(Place { index, of })
    }

    /// The number of the place, from 0.
    pub const fn index(self) -> u16 {
        self.index
    }

    /// How many places that neighbour deals.
    pub const fn of(self) -> u16 {
        self.of
    }

    /// How many neighbours come before this one in a broadcast: the order is turned by the id, so
    /// that nobody is always first.
    pub(super) fn rank(self, id: &Id) -> u16 {
        let turn = u64::from_le_bytes(std::array::from_fn(|at| id.0[at]));
        ((turn % u64::from(self.of) + u64::from(self.index)) % u64::from(self.of)) as u16
    }
}

/// The order in which a node deals its places: peer by number, random, from its secret.
pub(super) fn deal(secret: &[u8; 32], places: u16) -> Vec<u16> {
    let mut hash = Sha256::new();
    hash.update(b"alphorn/broadcast/places");
    hash.update(secret);
    let mut rng = ChaCha20Rng::from_seed(hash.finalize().into());
    let mut order: Vec<u16> = (0..places).collect();
    super::machine::shuffle(&mut order, &mut rng);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_is_taken_once_and_turns_with_the_id() {
        let order = deal(&[7; 32], 150);
        let ranks = |id: u8| -> Vec<u16> {
            let places = order.iter().map(|&index| Place::new(index, 150));
            places
                .map(|place| place.unwrap().rank(&Id([id; 16])))
                .collect()
        };
        let (one, two) = (ranks(1), ranks(2));
        for ranks in [&one, &two] {
            let mut sorted = ranks.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..150).collect::<Vec<u16>>());
        }
        assert_ne!(one, two);
        assert_ne!(order, deal(&[8; 32], 150));
        assert_eq!((Place::new(5, 5), Place::new(0, 0)), (None, None));
    }
}
