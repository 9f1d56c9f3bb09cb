//! The verifier's one equation of a level. Its linear form is needed under the challenges alone,
//! so what the projection adds to it is computed where it is summed, and stored nowhere.

use alphorn_exec::{Backend, Exec, Stopped};

use crate::form::{Equations, Form, Quadratic, Weighted};
use crate::kernel::Dispatch;
use crate::projection::{LIFTS, Projection, ROWS, Weights, weigh, weights};
use crate::prove::draw_weights;
use crate::ring::{DEPTH, Matrix, Ntt, Rq, Transforms};
use crate::schedule::Cut;
use crate::transcript::Transcript;

/// The lifts of a level, each without the columns of the projection.
pub(crate) struct Lifted {
    projection: Projection,
    rows: [Weights; LIFTS],
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
        projection: Projection,
        image: &[i64; ROWS],
        transcript: &Transcript,
    ) -> Self {
        let rows = weights(&mut transcript.seed("lift projection", 0).stream());
        let padding = equations.padding(cut);
        let elements = if equations.lifts_linear_forms() {
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
            form.rhs.set_constant(weigh(&rows[l], image));
            equations.lift(cut, &mut stream, &mut form);
            multiples[l] = padding.iter().map(|_| stream.element()).collect();
            form
        });
        Self {
            projection,
            rows,
            forms,
            padding,
            multiples,
        }
    }

    /// The same equation as [`crate::prove::combine`].
    pub(crate) fn combine(
        self,
        transcript: &Transcript,
        equations: &dyn Equations,
        cut: &Cut,
        exec: Exec<'_>,
    ) -> Result<Remaining, Stopped> {
        let mut stream = transcript.seed("weights", 0).stream();
        let weights = draw_weights(&mut stream);
        let mut form = Form::weighted(&weights, &self.forms, exec)?;
        form.phi.resize(cut.pieces * cut.rank, Rq::ZERO);
        let multiples = self.multiples.each_ref().map(|multiples| &multiples[..]);
        let multiples = exec.backend().run(Weighted(&weights, multiples));
        for (&index, multiple) in self.padding.iter().zip(&multiples) {
            form.phi[index].add(multiple);
        }
        equations.aggregate(cut, &mut stream, &mut form, exec)?;
        Ok(Remaining {
            projection: self.projection,
            rows: self.rows,
            weights,
            form,
        })
    }
}

/// The one equation; `form.phi` is without the columns of the projection.
pub(crate) struct Remaining {
    projection: Projection,
    rows: [Weights; LIFTS],
    weights: [Ntt; LIFTS],
    pub(crate) form: Form,
}

/// Forms of a place: those of the lifts, and the rest.
const TERMS: usize = LIFTS + 1;

/// Pieces whose forms are summed at a time.
const PIECES: usize = DEPTH / TERMS;

/// Places of a task.
const PLACES: usize = 32;

impl Remaining {
    /// `sum c_i phi_i` over all pieces.
    pub(crate) fn amortise(
        &self,
        cut: &Cut,
        challenges: &[Ntt],
        exec: Exec<'_>,
    ) -> Result<Vec<Rq>, Stopped> {
        let [a, b, c] = &self.weights;
        let of_piece = |challenge: &Ntt| -> [Ntt; TERMS] {
            [
                challenge.times(a),
                challenge.times(b),
                challenge.times(c),
                challenge.clone(),
            ]
        };
        let factors: Vec<[Ntt; TERMS]> = challenges.iter().map(of_piece).collect();
        let parts = exec.try_map(cut.rank.div_ceil(PLACES), |task| {
            let first = task * PLACES;
            let count = PLACES.min(cut.rank - first);
            let mut sum = Matrix::zero(count, 1);
            for (group, factors) in factors.chunks(PIECES).enumerate() {
                let pieces = group * PIECES..group * PIECES + factors.len();
                let terms: Vec<Vec<Ntt>> = pieces
                    .flat_map(|piece| self.terms(piece * cut.rank + first, count, exec.backend()))
                    .collect();
                sum.add(
                    terms.len(),
                    |k, t| &terms[t][k],
                    |_, t| &factors[t / TERMS][t % TERMS],
                    exec.backend(),
                );
            }
            sum.elements(exec.backend())
        })?;
        Ok(parts.concat())
    }

    /// The forms of `count` places from `start` on.
    fn terms(&self, start: usize, count: usize, backend: Backend) -> [Vec<Ntt>; TERMS] {
        let places = start..start + count;
        let [a, b, c] = (self.projection).collapse(places.clone(), &self.rows, backend);
        let forms: [&[Rq]; TERMS] = [&a, &b, &c, &self.form.phi[places]];
        forms.map(|forms| backend.transforms(forms))
    }
}
