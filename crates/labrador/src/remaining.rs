//! The verifier's one equation of a level. Its linear form is needed under the challenges alone,
//! so what the projection adds to it is computed where it is summed, and stored nowhere.

use std::ops::Range;

use alphorn_exec::{Backend, Exec, Stopped};

use crate::aggregate::Aggregate;
use crate::form::{Equations, Form, Quadratic, weights_of_padding};
use crate::images::{BLOCK, Shown, ShownLifts};
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::projection::{LIFTS, Lifts, Projection, SignWeights};
use crate::prove::draw_weights;
use crate::ring::{Ntt, Rq, Small, Transforms};
use crate::schedule::Cut;
use crate::transcript::Transcript;

/// The lifts of a level, each without what shows that the witness is short.
pub(crate) struct Lifted {
    shown: ShownLifts,
    pub(crate) forms: [Form; LIFTS],
    /// The places that must be zero.
    padding: Vec<usize>,
}

impl Lifted {
    /// The same lifts as [`crate::form::lifts`].
    pub(crate) fn new(
        equations: &dyn Equations,
        cut: &Cut,
        shown: Shown,
        transcript: &Transcript,
    ) -> Self {
        let padding = shown.without_digits(equations.padding(cut));
        let shown = ShownLifts::draw(shown, transcript);
        let elements = if equations.has_linear_form() {
            cut.pieces * cut.rank
        } else {
            0
        };
        let forms = std::array::from_fn(|l| {
            let mut form = Form {
                quadratic: Quadratic::new(),
                phi: vec![Rq::ZERO; elements],
                rhs: Rq::ZERO,
            };
            let mut stream = transcript.seed("lift equations", l as u64).stream();
            form.rhs.set_constant(shown.constant(l));
            equations.lift(cut, &mut stream, &mut form);
            form
        });
        Self {
            shown,
            forms,
            padding,
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
        let aggregate = equations.aggregate(cut, &mut stream, &mut form, exec)?;
        let of_padding = weights_of_padding(self.padding.len(), &mut stream);
        Ok(Remaining {
            shown: self.shown,
            weights,
            padding: self.padding.into_iter().zip(of_padding).collect(),
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
    /// The places that must be zero in order, and their weights.
    padding: Vec<(usize, Small)>,
    /// The relation of the level before.
    aggregate: Option<Aggregate<'a>>,
    /// The rest; `form.phi` is empty if it is zero.
    pub(crate) form: Form,
}

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
        let of_piece = |challenge: &Ntt| {
            let weights = self.weights.each_ref();
            weights.map(|weight| backend.product(challenge, weight))
        };
        let factors: Vec<Lifts> = challenges.iter().map(of_piece).collect();
        let all: Vec<Option<Ntt>> = challenges.iter().cloned().map(Some).collect();
        let aggregate = (self.aggregate.as_ref()).map(|a| a.under(&all, backend));
        let columns = Columns::new(&self.shown, &factors, exec)?;
        let digits = match &self.shown.shown {
            Shown::Blocks(images, ..) => {
                let factors = &factors[images.pieces()..];
                self.shown.images_under(factors, exec)?
            }
            Shown::Dense(..) => Vec::new(),
        };
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
            for piece in digits.chunks(cut.rank) {
                let piece = piece.get(first..).unwrap_or_default();
                backend.run(AddEach(&mut sums, piece));
            }
            out.clone_from_slice(&backend.elements(&sums));
        })?;
        Ok(out)
    }
}

/// Adds the first numbers of a vector, each to its sum.
struct AddEach<'a>(&'a mut [Ntt], &'a [Ntt]);

impl Pass for AddEach<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        for (sum, x) in self.0.iter_mut().zip(self.1) {
            sum.add_in::<V>(x);
        }
    }
}

/// Adds what the equations add that are no relation of a level, and the weights of padding, at some places
/// under a challenge.
struct AddRest<'a>(&'a Remaining<'a>, Range<usize>, &'a Ntt, &'a mut [Ntt]);

impl Pass for AddRest<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self(remaining, places, challenge, sums) = self;
        let (padding, phi) = (&remaining.padding, &remaining.form.phi);
        let behind = |index: usize| padding.partition_point(|(place, _)| *place < index);
        for (index, weight) in &padding[behind(places.start)..behind(places.end)] {
            let weight = Ntt::from_small_in::<V>(weight, 2);
            sums[index - places.start].add_dot_in::<V>([(&weight, challenge)]);
        }
        if !phi.is_empty() {
            for (x, sum) in phi[places].iter().zip(sums) {
                sum.add_dot_in::<V>([(&Ntt::from_rq_in::<V>(x), challenge)]);
            }
        }
    }
}

/// The columns of the projection of a level under the factors of all pieces.
enum Columns<'a> {
    /// Of a dense one, made where they are added.
    Dense(&'a Projection, SignWeights, &'a [Lifts]),
    /// The columns of `J`, and their multiples for each block.
    Blocks(Vec<Lifts>, Vec<Lifts>),
}

impl<'a> Columns<'a> {
    fn new(shown: &'a ShownLifts, factors: &'a [Lifts], exec: Exec<'_>) -> Result<Self, Stopped> {
        Ok(match &shown.shown {
            Shown::Dense(matrix, _) => {
                let rows = SignWeights::new(&shown.rows, exec.backend());
                Self::Dense(matrix, rows, factors)
            }
            Shown::Blocks(images, ..) => {
                let factors = shown.of_blocks(images, factors, exec.backend());
                Self::Blocks(shown.residues(exec)?, factors)
            }
        })
    }

    /// Adds their sums at some places.
    fn add(&self, cut: &Cut, places: Range<usize>, sums: &mut [Ntt], backend: Backend) {
        match self {
            Self::Dense(matrix, rows, factors) => {
                let first = (places.start..).step_by(cut.rank);
                let runs: Vec<(usize, &Lifts)> = first.zip(*factors).collect();
                matrix.add_collapsed(&runs, rows, sums, backend);
            }
            Self::Blocks(columns, factors) => {
                backend.run(AddBlocks(sums, places, columns, factors));
            }
        }
    }
}

/// Adds the columns of `J` under the multiples of the blocks.
struct AddBlocks<'a>(&'a mut [Ntt], Range<usize>, &'a [Lifts], &'a [Lifts]);

impl Pass for AddBlocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self(sums, places, columns, factors) = self;
        for (place, sum) in places.zip(sums) {
            let (columns, factors) = (&columns[place % BLOCK], &factors[place / BLOCK]);
            sum.add_dot_in::<V>(columns.iter().zip(factors));
        }
    }
}
