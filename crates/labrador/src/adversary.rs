//! A prover that lies at one step and otherwise continues consistently, for verifier tests.

use crate::field::F;
use crate::projection::ROWS;
use crate::ring::{Rq, Small};

/// What a prover holds at a step before committing to it or sending it.
pub(crate) enum Step<'a> {
    /// The cut witness.
    Witness(&'a mut Vec<Small>),
    /// The inner commitments `t`, piece by piece.
    Commitments(&'a mut Vec<Rq>),
    /// The first outer commitment.
    Outer(&'a mut Vec<Rq>),
    /// The first commitment of a level that makes two.
    First(&'a mut Vec<Rq>),
    /// The digits of the block images.
    Second(&'a mut [Small]),
    /// The committed rows, and other rows over which to run the sumcheck.
    Rows(&'a [Small], &'a mut Option<Vec<Small>>),
    /// The polynomial of a sumcheck round, or the value at its end.
    Round(&'a mut Vec<F>),
    /// The images of all parts under the projection.
    Projection(&'a mut [[i64; ROWS]]),
    /// The lifts.
    Lifts(&'a mut [Rq]),
    /// The linear garbage.
    Garbage(&'a mut Vec<Rq>),
    /// The second outer commitment.
    OuterGarbage(&'a mut Vec<Rq>),
    /// The response before its decomposition.
    Response(&'a mut Vec<[i64; 64]>),
}

/// Observes and changes every step of every level. Levels are counted from 1.
pub(crate) trait Tamper {
    /// Called before the data of a step is used.
    fn at(&mut self, level: usize, step: Step<'_>);

    /// Whether the prover continues at a level with values that are too long instead of retrying.
    fn forces(&self, _level: usize) -> bool {
        false
    }
}

/// Changes nothing.
pub(crate) struct Honest;

impl Tamper for Honest {
    fn at(&mut self, _: usize, _: Step<'_>) {}
}

/// A group of equations to which a deliberately weak pair of prover and verifier gives weight zero, as if
/// they were absent. An attack on it must then succeed, and only then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defence {
    /// The norms in the sumcheck.
    Norms,
    /// The relations in the sumcheck.
    Relation,
    /// The lifts of the opened value.
    Value,
    /// The lifts of the block images.
    Images,
    /// The lifts of the projections of images.
    Projections,
    /// The scalars of the parts of a dense projection, which become 1.
    Parts,
    /// The equations of padding.
    Padding,
    /// Equation (2) of a relation, for the first commitment.
    First,
    /// Equation (2), for the outer commitment.
    Outer,
    /// Equation (3).
    Garbage,
    /// Equation (4).
    Inner,
    /// Equation (5).
    Sum,
    /// Equation (6) of all families.
    Families,
}

/// Lies at some steps.
pub(crate) struct Liar<F> {
    pub(crate) lie: F,
    /// The level at which it forces; 0 for none.
    pub(crate) forces: usize,
}

impl<F: FnMut(usize, Step<'_>)> Tamper for Liar<F> {
    fn at(&mut self, level: usize, step: Step<'_>) {
        (self.lie)(level, step);
    }

    fn forces(&self, level: usize) -> bool {
        self.forces == level
    }
}
