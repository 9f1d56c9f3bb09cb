//! Places: a node decides which neighbours push to it, per broadcast.
//!
//! If every sender drew the receivers of its burst independently, the number of senders per
//! receiver would be binomial, and bursts would have to cover its lower tail. Instead, each node
//! assigns every neighbour a place in its own order when they connect. A burst of b goes to those
//! neighbours in whose order this node is among the first b, so every receiver has the same number
//! of senders.

use crate::rlnc::Subject;
use crate::shuffle::shuffle;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

/// The position of a node in a neighbour's order, announced by that neighbour when they connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    index: u16,
    of: u16,
}

impl Place {
    /// Place `index` of `of`; none unless `index` is below `of`.
    pub fn new(index: u16, of: u16) -> Option<Place> {
        (index < of).then_some(Place { index, of })
    }

    /// The number of the place, from 0.
    #[cfg(test)]
    pub(super) const fn index(self) -> u16 {
        self.index
    }

    /// Number of neighbours that come before this one in a broadcast with this turn.
    pub(super) fn rank(self, turn: Turn) -> u16 {
        // The turn is reduced first, or the sum could overflow.
        ((turn.0 % u64::from(self.of) + u64::from(self.index)) % u64::from(self.of)) as u16
    }
}

/// Rotation of the place orders in a broadcast, so that no node is always first.
///
/// It depends on the subject alone: (SHA-256 of `alphorn/broadcast/turn`, kind, slot, source and
/// index as in a header, the first eight bytes as a little-endian number) modulo the places. A turn
/// derived from the id would depend on content and commitments: the source could choose it by
/// trying payloads, and two codes would never send the same things to the same peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn(u64);

impl Turn {
    pub(super) fn of(subject: &Subject) -> Turn {
        let mut hash = Sha256::new();
        hash.update(b"alphorn/broadcast/turn");
        hash.update([subject.kind]);
        hash.update(subject.slot.to_le_bytes());
        hash.update(subject.source.to_le_bytes());
        hash.update(subject.index.to_le_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        Turn(u64::from_le_bytes(std::array::from_fn(|at| digest[at])))
    }
}

/// The order in which a node assigns its places, by peer number. Random, derived from its secret.
pub(super) fn deal(secret: &[u8; 32], places: u16) -> Vec<u16> {
    let mut hash = Sha256::new();
    hash.update(b"alphorn/broadcast/places");
    hash.update(secret);
    let mut rng = ChaCha20Rng::from_seed(hash.finalize().into());
    let mut order: Vec<u16> = (0..places).collect();
    shuffle(&mut order, &mut rng);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: Subject = Subject {
        kind: 1,
        slot: 7,
        source: 3,
        index: 0,
    };

    #[test]
    fn each_field_of_the_subject_turns() {
        let turn = Turn::of(&SUBJECT);
        // Both ends of a link must compute the same value: changing this changes the protocol.
        assert_eq!(turn.0, 14_187_926_941_882_811_162);
        let others = [
            Subject { kind: 2, ..SUBJECT },
            Subject { slot: 8, ..SUBJECT },
            Subject {
                source: 4,
                ..SUBJECT
            },
            Subject {
                index: 1,
                ..SUBJECT
            },
        ];
        assert!(others.iter().all(|other| Turn::of(other) != turn));
    }

    #[test]
    fn each_rank_is_taken_once_and_turns_with_the_subject() {
        let order = deal(&[7; 32], 150);
        let ranks = |slot: u64| -> Vec<u16> {
            let turn = Turn::of(&Subject { slot, ..SUBJECT });
            let places = order.iter().map(|&index| Place::new(index, 150));
            places.map(|place| place.unwrap().rank(turn)).collect()
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
