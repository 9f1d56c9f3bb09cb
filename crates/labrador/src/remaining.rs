//! The verifier's one equation of a level. Its linear form is needed under the challenges alone,
//! so what the projection adds to it is computed where it is summed, and stored nowhere.

use std::ops::Range;

use alphorn_exec::{Backend, Exec, Stopped};

use crate::aggregate::Aggregate;
use crate::form::{Equations, Form, Quadratic, Weighted, weighted};
use crate::images::{BLOCK, Shown, ShownLifts};
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::projection::{LIFTS, Projection, Weights};
use crate::prove::draw_weights;
use crate::ring::{DEPTH, Ntt, Rq, Transforms};
use crate::schedule::Cut;
use crate::transcript::{Transcript, is_left_out};

/// The lifts of a level, each without what shows that the witness is short.
pub(crate) struct Lifted {
    shown: ShownLifts,
    pub(crate) forms: [Form; LIFTS],
    /// The places that must be zero, and their multiples in each lift.
    padding: Vec<usize>,
    multiples: [Vec<Rq>; LIFTS],
}

impl Lifted {
    /// The same lifts as [`crate::form::lifts`].
    pub(crate) fn new(
        equations: &dyn Equations,
        cut: &Cut,
        shown: Shown,
        transcript: &Transcript,
    ) -> Self {
        let shown = ShownLifts::draw(shown, transcript);
        let padding = shown.shown.without_digits(equations.padding(cut));
        let elements = if equations.has_linear_form() {
            cut.pieces * cut.rank
        } else {
            0
        };
        let mut multiples = [const { Vec::new() }; LIFTS];
        let forms = std::array::from_fn(|l| {
            let mut form = Form {
                quadratic: Quadratic::new(),
                phi: vec![Rq::ZERO; elements],
                rhs: Rq::ZERO,
            };
            let mut stream = transcript.seed("lift equations", l as u64).stream();
            form.rhs.set_constant(shown.constant(l));
            equations.lift(cut, &mut stream, &mut form);
            multiples[l] = padding.iter().map(|_| stream.element()).collect();
            if is_left_out!(transcript, Padding) {
                multiples[l].fill(Rq::ZERO);
            }
            form
        });
        Self {
            shown,
            forms,
            padding,
            multiples,
        }
    }

    /// The same equation as [`crate::prove::combine`].
    pub(crate) fn combine<'a>(
        self,
        transcript: &Transcript,
        equations: &'a dyn Equations,
        cut: &Cut,
        exec: Exec<'_>,
    ) -> Result<Remaining<'a>, Stopped> {
        let mut stream = transcript.seed("weights", 0).stream();
        let weights = draw_weights(&mut stream);
        let mut form = Form::weighted(&weights, &self.forms, exec)?;
        let multiples = self.multiples.each_ref().map(|multiples| &multiples[..]);
        let multiples = weighted(&weights, multiples, exec)?;
        let aggregate = equations.aggregate(cut, &mut stream, &mut form, exec)?;
        Ok(Remaining {
            shown: self.shown,
            weights,
            padding: self.padding.into_iter().zip(multiples).collect(),
            aggregate,
            form,
        })
    }
}

/// The one equation, its linear form in parts.
pub(crate) struct Remaining<'a> {
    /// What shows that the witness is short, under the weights of the lifts.
    shown: ShownLifts,
    weights: [Ntt; LIFTS],
    /// The places that must be zero in order, and their multiples.
    padding: Vec<(usize, Rq)>,
    /// The relation of the level before.
    aggregate: Option<Aggregate<'a>>,
    /// The rest; `form.phi` is empty if it is zero.
    pub(crate) form: Form,
}

/// Pieces whose forms are summed at a time.
const PIECES: usize = DEPTH / LIFTS;

/// Places of a task.
const PLACES: usize = 32;

impl Remaining<'_> {
    /// `sum c_i phi_i` over all pieces.
    pub(crate) fn amortise(
        &self,
        cut: &Cut,
        challenges: &[Ntt],
        exec: Exec<'_>,
    ) -> Result<Vec<Rq>, Stopped> {
        let backend = exec.backend();
        let of_piece = |challenge: &Ntt| self.weights.each_ref().map(|w| challenge.times(w));
        let factors: Vec<[Ntt; LIFTS]> = challenges.iter().map(of_piece).collect();
        let all: Vec<Option<Ntt>> = challenges.iter().cloned().map(Some).collect();
        let aggregate = (self.aggregate.as_ref()).map(|a| a.under(&all, backend));
        let columns = Columns::new(&self.shown, &factors, exec)?;
        let mut out = vec![Rq::ZERO; cut.rank];
        exec.try_fill(&mut out, PLACES, |task, out| {
            let first = task * PLACES;
            let places = first..first + out.len();
            let mut sums = vec![Ntt::zero(); out.len()];
            columns.add(cut, places.clone(), &mut sums, backend);
            if let Some(aggregate) = &aggregate {
                aggregate.add(places.clone(), &mut sums, backend);
            }
            for (piece, challenge) in challenges.iter().enumerate() {
                let start = piece * cut.rank + first;
                let places = start..start + places.len();
                backend.run(AddRest(self, places, challenge, &mut sums));
            }
            out.clone_from_slice(&backend.elements(&sums));
        })?;
        if let Shown::Blocks(images, ..) = &self.shown.shown {
            let digits = self.shown.of_images(exec)?;
            for (k, factors) in factors[images.pieces()..].iter().enumerate() {
                add_digits(&digits, k * cut.rank, factors, &mut out, exec)?;
            }
        }
        Ok(out)
    }
}

/// Adds what the equations add that are no relation of a level, and multiples of padding, at some places
/// under a challenge.
struct AddRest<'a>(&'a Remaining<'a>, Range<usize>, &'a Ntt, &'a mut [Ntt]);

impl Pass for AddRest<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self(remaining, places, challenge, sums) = self;
        let (padding, phi) = (&remaining.padding, &remaining.form.phi);
        let behind = |index: usize| padding.partition_point(|(place, _)| *place < index);
        for (index, multiple) in &padding[behind(places.start)..behind(places.end)] {
            let product = Ntt::from_rq_in::<V>(multiple).times_in::<V>(challenge);
            sums[index - places.start].add_in::<V>(&product);
        }
        if !phi.is_empty() {
            for (x, sum) in phi[places].iter().zip(sums) {
                let product = Ntt::from_rq_in::<V>(x).times_in::<V>(challenge);
                sum.add_in::<V>(&product);
            }
        }
    }
}

/// Adds a piece of the images' digits, from element `start` on, under the factors of its lifts.
pub(crate) fn add_digits(
    digits: &[Vec<Rq>; LIFTS],
    start: usize,
    factors: &[Ntt; LIFTS],
    out: &mut [Rq],
    exec: Exec<'_>,
) -> Result<(), Stopped> {
    let count = digits[0].len().saturating_sub(start).min(out.len());
    exec.try_fill(&mut out[..count], PLACES, |task, out| {
        let first = start + task * PLACES;
        let digits = digits.each_ref().map(|x| &x[first..first + out.len()]);
        let sums = exec.backend().run(Weighted(factors, digits));
        for (out, sum) in out.iter_mut().zip(&sums) {
            out.add(sum);
        }
    })
}

/// The columns of the projection of a level under the factors of all pieces.
enum Columns<'a> {
    /// Of a dense one, made where they are added.
    Dense(&'a Projection, &'a [Weights; LIFTS], &'a [[Ntt; LIFTS]]),
    /// The columns of `J`, and their multiples for each block.
    Blocks([Vec<Ntt>; LIFTS], Vec<[Ntt; LIFTS]>),
}

impl<'a> Columns<'a> {
    fn new(
        shown: &'a ShownLifts,
        factors: &'a [[Ntt; LIFTS]],
        exec: Exec<'_>,
    ) -> Result<Self, Stopped> {
        Ok(match &shown.shown {
            Shown::Dense(matrix, _) => Self::Dense(matrix, &shown.rows, factors),
            Shown::Blocks(images, ..) => {
                Self::Blocks(shown.residues(exec)?, shown.of_blocks(images, factors))
            }
        })
    }

    /// Adds their sums at some places.
    fn add(&self, cut: &Cut, places: Range<usize>, sums: &mut [Ntt], backend: Backend) {
        match self {
            Self::Dense(matrix, rows, factors) => {
                for (group, factors) in factors.chunks(PIECES).enumerate() {
                    let terms: Vec<[Vec<Ntt>; LIFTS]> = (0..factors.len())
                        .map(|k| (group * PIECES + k) * cut.rank + places.start)
                        .map(|start| start..start + places.len())
                        .map(|own| matrix.collapse_residues(own, rows, backend))
                        .collect();
                    backend.run(AddColumns(sums, &terms, factors));
                }
            }
            Self::Blocks(columns, factors) => {
                backend.run(AddBlocks(sums, places, columns, factors));
            }
        }
    }
}

/// Adds the columns of `J` under the multiples of the blocks.
pub(crate) struct AddBlocks<'a>(
    pub(crate) &'a mut [Ntt],
    pub(crate) Range<usize>,
    pub(crate) &'a [Vec<Ntt>; LIFTS],
    pub(crate) &'a [[Ntt; LIFTS]],
);

impl Pass for AddBlocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self(sums, places, columns, factors) = self;
        for (place, sum) in places.zip(sums) {
            let columns = columns.iter().map(|columns| &columns[place % BLOCK]);
            sum.add_dot_in::<V>(columns.zip(&factors[place / BLOCK]));
        }
    }
}

/// Adds the columns of some pieces under the factors of their lifts.
struct AddColumns<'a>(&'a mut [Ntt], &'a [[Vec<Ntt>; LIFTS]], &'a [[Ntt; LIFTS]]);

impl Pass for AddColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self(sums, terms, factors) = self;
        for (k, sum) in sums.iter_mut().enumerate() {
            let terms = terms.iter().flatten().map(|columns| &columns[k]);
            sum.add_dot_in::<V>(terms.zip(factors.as_flattened()));
        }
    }
}
