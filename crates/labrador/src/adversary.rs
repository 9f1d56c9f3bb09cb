//! A prover that lies at one step and continues consistently: for tests of verifiers.

use crate::projection::ROWS;
use crate::ring::{Rq, Small};

/// What a prover holds at a step, before it is committed or sent.
pub(crate) enum Step<'a> {
    /// The cut witness.
    Witness(&'a mut Vec<Small>),
    /// The inner commitments `t` (piece by piece) and the quadratic garbage `g`.
    Commitments(&'a mut Vec<Rq>, &'a mut Vec<Rq>),
    /// The first outer commitment.
    Outer(&'a mut Vec<Rq>),
    /// The first commitment of a front end that makes two.
    First(&'a mut Vec<Rq>),
    /// The part of the witness that depends on challenges: `S2`, and the digits of images.
    Second(&'a mut [Small]),
    /// The quotients of the linear forms.
    Quotients(&'a mut [i64]),
    /// The image under the projection.
    Projection(&'a mut [i64; ROWS]),
    /// The lifts.
    Lifts(&'a mut [Rq]),
    /// The linear garbage.
    Garbage(&'a mut Vec<Rq>),
    /// The second outer commitment.
    OuterGarbage(&'a mut Vec<Rq>),
    /// The response before its decomposition.
    Response(&'a mut Vec<[i64; 64]>),
}

/// Sees and changes every step of every level, counted from 1.
pub(crate) trait Tamper {
    /// Called before the data of a step is used.
    fn at(&mut self, level: usize, step: Step<'_>);

    /// Whether the prover goes on at a level with what is too long instead of trying again.
    fn forces(&self, _level: usize) -> bool {
        false
    }
}

/// Changes nothing.
pub(crate) struct Honest;

impl Tamper for Honest {
    fn at(&mut self, _: usize, _: Step<'_>) {}
}
