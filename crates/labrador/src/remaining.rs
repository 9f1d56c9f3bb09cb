//! The verifier's one equation of a level. Its linear form is needed only under the challenges, so the
//! projection's contribution is computed where it is summed and never stored.

use std::ops::Range;

use alphorn_exec::{Backend, Exec, Stopped};

use crate::aggregate::Aggregate;
use crate::cut::Cut;
use crate::folded::Folded;
use crate::form::{right_side, weights_of_padding};
use crate::images::{Shown, ShownLifts};
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::projection::{LIFTS, Lifts, Projection, SignWeights};
use crate::prove::draw_weights;
use crate::ring::{Ntt, Rq, Scaled, Small, Transforms};
use crate::transcript::Stream;

/// The one equation, with its linear form in parts.
pub(crate) struct Remaining<'a> {
    /// The lifts that show that the witness is short, under their weights.
    shown: ShownLifts,
    weights: [Ntt; LIFTS],
    /// The positions that must be zero, in order, and their weights.
    padding: Vec<(usize, Small)>,
    /// The relation of the previous level.
    aggregate: Aggregate<'a>,
    pub(crate) rhs: Rq,
}

/// Positions per task.
const PLACES: usize = 32;

impl<'a> Remaining<'a> {
    /// Draws the sum of the lifts, which have these values, of the equations of the relation `before` and of the
    /// padding equations, each with a short weight from the stream.
    pub(crate) fn draw(
        before: &'a Folded<'a>,
        cut: &Cut,
        shown: ShownLifts,
        values: &[Rq],
        padding: Vec<usize>,
        stream: &mut Stream,
        exec: Exec<'_>,
    ) -> Result<Self, Stopped> {
        let weights = draw_weights(stream);
        let aggregate = Aggregate::draw(before, cut, stream, exec)?;
        let mut rhs = right_side(&weights, values);
        rhs.add(&aggregate.right_side(exec.backend()));
        let of_padding = weights_of_padding(padding.len(), stream);
        Ok(Self {
            shown,
            weights,
            padding: padding.into_iter().zip(of_padding).collect(),
            aggregate,
            rhs,
        })
    }

    /// Returns `sum c_i phi_i` over all pieces.
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
        let aggregate = self.aggregate.under(&all, backend);
        let scaled = backend.scaled(challenges);
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
            let rest = columns.add(cut, places.clone(), &mut sums, backend);
            aggregate.add(places.clone(), &mut sums, backend);
            for (piece, challenge) in scaled.iter().enumerate() {
                let start = piece * cut.rank + first;
                let places = start..start + places.len();
                backend.run(AddPadding(self, places, challenge, &mut sums));
            }
            for piece in digits.chunks(cut.rank) {
                let piece = piece.get(first..).unwrap_or_default();
                backend.run(AddEach(&mut sums, piece));
            }
            out.clone_from_slice(&backend.elements(&sums));
            // These are classes modulo `Q` already: as residues they would overflow the sums.
            for rest in &rest {
                for (out, more) in out.iter_mut().zip(rest) {
                    out.add(more);
                }
            }
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

/// Adds the weights of padding at some positions under a challenge.
struct AddPadding<'a>(&'a Remaining<'a>, Range<usize>, &'a Scaled, &'a mut [Ntt]);

impl Pass for AddPadding<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self(remaining, places, challenge, sums) = self;
        let padding = &remaining.padding;
        let behind = |index: usize| padding.partition_point(|(place, _)| *place < index);
        let mut residues = Ntt::zero();
        for (index, weight) in &padding[behind(places.start)..behind(places.end)] {
            residues.set_small_in::<V>(weight, 2);
            sums[index - places.start].add_scaled_in::<V>(&residues, challenge);
        }
    }
}

/// The columns of a level's projection under the factors of all pieces.
enum Columns<'a> {
    /// Columns of a dense projection, generated where they are added. The multiples are those of the pieces of a
    /// part, summed over all parts; each list fits one sum of residues.
    Dense(&'a Projection, SignWeights, Vec<Vec<Lifts>>),
    /// The columns of `J`, one for each position of a block and for all lifts, and their multiples for each block.
    Blocks(Vec<Ntt>, Vec<Lifts>),
}

impl<'a> Columns<'a> {
    fn new(shown: &'a ShownLifts, factors: &'a [Lifts], exec: Exec<'_>) -> Result<Self, Stopped> {
        Ok(match &shown.shown {
            Shown::Dense(parts, matrix, _) => {
                let rows = shown.weights_of_rows(exec.backend());
                // Multiples are short if there is one part, and residues otherwise. Of their products with the
                // columns, a sum can hold at most three.
                let factors = match parts.count {
                    1 => vec![factors.to_vec()],
                    _ => {
                        let of_parts = shown.of_parts(*parts, factors, exec.backend());
                        of_parts.into_iter().map(|lifts| vec![lifts]).collect()
                    }
                };
                Self::Dense(matrix, rows, factors)
            }
            Shown::Blocks(images, ..) => {
                let factors = shown.of_blocks(images, factors, exec.backend());
                Self::Blocks(shown.residues(exec)?, factors)
            }
        })
    }

    /// Adds the sums at some positions as far as they fit `sums`; the rest is returned.
    fn add(
        &self,
        cut: &Cut,
        places: Range<usize>,
        sums: &mut [Ntt],
        backend: Backend,
    ) -> Vec<Vec<Rq>> {
        match self {
            Self::Dense(matrix, rows, factors) => {
                // Continues from list to list: the lists together hold the multiples of piece 0, 1, and so on.
                let mut first = (places.start..).step_by(cut.rank);
                let mut rest = Vec::new();
                for (index, factors) in factors.iter().enumerate() {
                    let runs = factors.iter().zip(first.by_ref());
                    let runs: Vec<(usize, &Lifts)> = runs.map(|(of, first)| (first, of)).collect();
                    if index == 0 {
                        matrix.add_collapsed(&runs, rows, sums, backend);
                    } else {
                        let mut sums = vec![Ntt::zero(); sums.len()];
                        matrix.add_collapsed(&runs, rows, &mut sums, backend);
                        rest.push(backend.elements(&sums));
                    }
                }
                rest
            }
            Self::Blocks(columns, factors) => {
                let columns = columns.as_chunks().0;
                backend.run(AddBlocks(sums, places, columns, factors));
                Vec::new()
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
        let block = columns.len();
        for (place, sum) in places.zip(sums) {
            let (columns, factors) = (&columns[place % block], &factors[place / block]);
            sum.add_dot_in::<V>(columns.iter().zip(factors));
        }
    }
}
