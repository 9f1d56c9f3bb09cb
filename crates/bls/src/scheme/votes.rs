//! Points of verified votes, kept for the aggregates made of them.
//!
//! Verifying a vote decodes it, and the square root of that decoding is most of what an aggregate of the vote
//! would cost again. Kept points are bound to the bytes of the signature: they change how long a sum takes,
//! never its result.

use std::collections::HashMap;

use crate::blst_ffi::curve::G2Affine;
use crate::blst_ffi::points::g2;

/// The point of each validator's last verified vote: 212 bytes per validator whose vote was seen, and room for
/// at most as many more, for which the system allocates no memory until it is used.
#[derive(Debug, Default)]
pub(super) struct VerifiedVotes {
    /// Index into `points` for each validator.
    index: HashMap<u32, u32>,
    points: Vec<G2Affine>,
}

impl VerifiedVotes {
    /// Keeps the point of a verified vote and drops the validator's previous one.
    pub(super) fn keep(&mut self, validator: u32, point: G2Affine) {
        let next = self.points.len() as u32;
        match *self.index.entry(validator).or_insert(next) {
            index if index == next => self.points.push(point),
            index => self.points[index as usize] = point,
        }
    }

    /// The point of a validator's vote, if it matches the compressed `signature`.
    pub(super) fn find(&self, validator: u32, signature: &[u8]) -> Option<G2Affine> {
        let point = self.points[*self.index.get(&validator)? as usize];
        (g2::compress(&point) == signature).then_some(point)
    }

    /// Drops all points.
    pub(super) fn clear(&mut self) {
        *self = VerifiedVotes::default();
    }
}
