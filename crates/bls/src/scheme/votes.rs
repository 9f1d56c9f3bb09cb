//! Points of votes that were verified, for the aggregates made of them.
//!
//! A vote is decoded to be verified, and the square root of that is most of what an aggregate of it
//! would cost again. What is kept is bound to the bytes of the signature: it changes how long a sum
//! takes and never its result.

use std::collections::HashMap;

use crate::blst_ffi::curve::G2Affine;
use crate::blst_ffi::points::g2;

/// The point of the vote of each validator that was verified last: 212 bytes a validator whose vote was
/// seen, and room for as many more at most, of which the system gives no memory before it is used.
#[derive(Debug, Default)]
pub(super) struct VerifiedVotes {
    /// Of each validator, where in `points`.
    index: HashMap<u32, u32>,
    points: Vec<G2Affine>,
}

impl VerifiedVotes {
    /// Keeps the point of a verified vote and forgets that of the validator's vote before.
    pub(super) fn keep(&mut self, validator: u32, point: G2Affine) {
        let next = self.points.len() as u32;
        match *self.index.entry(validator).or_insert(next) {
            index if index == next => self.points.push(point),
            index => self.points[index as usize] = point,
        }
    }

    /// The point of a validator's vote, if it is that of the compressed `signature`.
    pub(super) fn find(&self, validator: u32, signature: &[u8]) -> Option<G2Affine> {
        let point = self.points[*self.index.get(&validator)? as usize];
        (g2::compress(&point) == signature).then_some(point)
    }

    /// Keeps none.
    pub(super) fn clear(&mut self) {
        *self = VerifiedVotes::default();
    }
}
