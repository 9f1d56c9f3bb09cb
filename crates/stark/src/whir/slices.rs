//! The rounds over the slices: a sumcheck of two short tables.
//!
//! The weights of all claims are a few vectors over a slice, v_1 … v_K, which each slice combines with its own
//! coefficients: W_i = Σ_k c_k(i)·v_k. A claim on the cells of all groups is a tensor, so it has one vector for
//! each slice of a group, the cells' weights there ⊗ eq(lanes, ·), and c_k(i) is the weight of the group. With
//! e_k(i) = ⟨f_i, v_k⟩, computed once, every round is about Σ_k Σ_i c_k(i)·e_k(i): nothing of the size of the
//! committed vector is touched until all slices are bound.

use alphorn_exec::{Exec, Stopped};

use crate::claims::{Claim, Part};
use crate::extension::Ext;
use crate::field::Fp;
use crate::kernel::{DOT_MAX, Dispatch, Packed, Pass};
use crate::multilinear::eq_table;
use crate::relation::Shape;
use crate::sumcheck::bind;
use crate::vector::{Planes, Vector, Words, dot_words, eq_planes, words};

use super::prover::{Committer, OpenSlices};
use super::weights::place;

/// Number of elements of a slice that one task folds.
const TASK: usize = 4096;

/// Cells of all groups, weighted by group · cell · eq(lanes, instance). Claims with the same groups and lanes are
/// merged into one.
struct Tensor {
    groups: Vec<Ext>,
    cells: Vec<Ext>,
    lanes: Vec<Ext>,
}

/// A vector over a slice and its coefficients, one for each slice number.
struct Term {
    weights: Vec<Ext>,
    sums: Vec<Ext>,
}

/// The data summed over the slices.
pub(crate) struct Rounds<'a> {
    /// The low part of the sample's point.
    low: Vec<Ext>,
    shape: Shape,
    slices: &'a [Vec<Fp>],
    numbers: &'a [usize],
    tensors: Vec<Tensor>,
    /// Weights of single slices, by their numbers.
    dense: Vec<(usize, Planes)>,
    /// The sample's term, then those of the dense weights, then those of the slices of a group for each tensor.
    terms: Vec<Term>,
}

/// Puts claims, with their factors, into tensors and dense weights.
fn gather(
    shape: &Shape,
    claims: &[Claim<Ext>],
    factors: &[Ext],
) -> (Vec<Tensor>, Vec<(usize, Planes)>) {
    let mut tensors: Vec<Tensor> = Vec::new();
    let mut dense: Vec<(usize, Planes)> = Vec::new();
    let parts = claims.iter().zip(factors);
    for (part, factor) in parts.flat_map(|(c, f)| c.parts.iter().map(move |part| (part, *f))) {
        let (column, table) = match part {
            Part::Groups {
                groups,
                cells,
                lanes,
            } => {
                let scaled = cells.iter().map(|w| factor * *w);
                // Claims at the same point of groups and lanes differ only in their cells. Joined before any sum
                // is taken, they share one pass over the slices.
                let same = |t: &&mut Tensor| t.groups == *groups && t.lanes == *lanes;
                match tensors.iter_mut().find(same) {
                    Some(tensor) => tensor
                        .cells
                        .iter_mut()
                        .zip(scaled)
                        .for_each(|(a, b)| *a += b),
                    None => tensors.push(Tensor {
                        groups: groups.clone(),
                        cells: scaled.collect(),
                        lanes: lanes.clone(),
                    }),
                }
                continue;
            }
            Part::Point {
                column,
                scale,
                point,
            } => (*column, eq_table(factor * *scale, point)),
            Part::Weights { column, weights } => {
                (*column, weights.iter().map(|w| factor * *w).collect())
            }
        };
        let (number, half) = place(shape, column);
        if dense.iter().all(|(other, _)| *other != number) {
            dense.push((number, Planes::zero(shape.slice())));
        }
        let of_slice = dense.iter_mut().find(|(other, _)| *other == number);
        if let Some((_, weights)) = of_slice {
            weights.add_at(half << shape.column_log2(), &Planes::from_exts(&table));
        }
    }
    (tensors, dense)
}

impl<'a> Rounds<'a> {
    /// The rounds for a commitment with its sample, and all claims with their factors. Fails if the computation is
    /// stopped.
    pub(crate) fn new(
        exec: Exec<'_>,
        shape: &Shape,
        committer: &Committer<'a>,
        claims: &[Claim<Ext>],
        factors: &[Ext],
    ) -> Result<Rounds<'a>, Stopped> {
        let (top, low) = committer.point.split_at(shape.slices_log2);
        let (tensors, dense) = gather(shape, claims, factors);
        // A term has a coefficient for each possible slice, so that binding a coordinate halves all terms alike;
        // those of absent slices remain zero.
        let all = 1 << shape.slices_log2;
        let mut terms = vec![Term {
            weights: eq_table(Ext::ONE, top),
            sums: committer.slice_values.clone(),
        }];
        let zero = || Term {
            weights: vec![Ext::ZERO; all],
            sums: vec![Ext::ZERO; all],
        };
        for (number, _) in &dense {
            let mut term = zero();
            term.weights[*number] = Ext::ONE;
            terms.push(term);
        }
        for tensor in &tensors {
            let per_slice = shape.slice() >> tensor.lanes.len();
            let of_group = tensor.cells.len() / per_slice;
            for part in 0..of_group {
                let mut term = zero();
                for (g, weight) in tensor.groups.iter().enumerate() {
                    term.weights[shape.groups_slice + g * of_group + part] = *weight;
                }
                terms.push(term);
            }
        }
        let mut rounds = Rounds {
            low: low.to_vec(),
            shape: *shape,
            slices: committer.slices,
            numbers: committer.numbers,
            tensors,
            dense,
            terms,
        };
        rounds.sum_up(exec)?;
        Ok(rounds)
    }

    /// Computes ⟨f_i, v_k⟩ of all slices and vectors except the sample's.
    fn sum_up(&mut self, exec: Exec<'_>) -> Result<(), Stopped> {
        let prepared: Vec<[Planes; 2]> = self
            .tensors
            .iter()
            .map(|t| {
                let eq = eq_planes(exec, Ext::ONE, &t.lanes);
                [Planes::from_exts(&t.cells), eq]
            })
            .collect();
        // The only pass over all committed data. Each slice is read once, and all vectors are applied while it is
        // in a near cache.
        let sums = exec.try_map(self.slices.len(), |i| {
            let slice = &self.slices[i];
            let mut sums = Vec::with_capacity(self.terms.len() - 1);
            for (_, weights) in &self.dense {
                sums.push(weights.dot(exec.backend().fitting(weights.len() / 4), slice));
            }
            for [cells, eq] in &prepared {
                let lanes = exec.backend().fitting(eq.len() / 4);
                let per_slice = slice.len() / eq.len();
                let of_cells = lanes.run(OverLanes { slice, eq });
                sums.extend(exec.backend().fitting(per_slice).run(OverCells {
                    values: &of_cells,
                    cells,
                }));
            }
            sums
        })?;
        for (number, sums) in self.numbers.iter().zip(sums) {
            for (term, sum) in self.terms[1..].iter_mut().zip(sums) {
                term.sums[*number] = sum;
            }
        }
        Ok(())
    }
}

impl OpenSlices for Rounds<'_> {
    fn totals(&self, _: Exec<'_>) -> Result<[Ext; 2], Stopped> {
        let mut totals = [Ext::ZERO; 2];
        for Term { weights, sums } in &self.terms {
            let half = weights.len() / 2;
            for i in 0..half {
                totals[0] += weights[i] * sums[i];
                totals[1] += (weights[half + i] - weights[i]) * (sums[half + i] - sums[i]);
            }
        }
        Ok(totals)
    }

    fn bind(&mut self, _: Exec<'_>, x: Ext) -> Result<(), Stopped> {
        for term in &mut self.terms {
            bind(&mut term.weights, x);
            bind(&mut term.sums, x);
        }
        Ok(())
    }

    fn finish(self, exec: Exec<'_>, alphas: &[Ext]) -> Result<[Planes; 2], Stopped> {
        let eq = eq_table(Ext::ONE, alphas);
        // The vector is folded only now, by all coordinates of the slices at once. Folding round by round would
        // write half of it, a quarter of it, and so on.
        let of_slices: Vec<Ext> = self.numbers.iter().map(|number| eq[*number]).collect();
        let chunks: Vec<Words> = of_slices.chunks(DOT_MAX).map(words).collect();
        let size = TASK.min(self.shape.slice());
        let parts = exec.try_map(self.shape.slice() / size, |i| {
            exec.backend().fitting(size).run(FoldSlices {
                slices: self.slices,
                weights: &chunks,
                range: i * size..(i + 1) * size,
            })
        })?;
        let values = Planes::concat(&parts);
        let mut factors = self.terms.iter().map(|term| term.weights[0]);
        let sample = factors.next().unwrap_or_default();
        let mut weights = eq_planes(exec, sample, &self.low);
        let backend = exec.backend().fitting(weights.len());
        for ((_, dense), factor) in self.dense.iter().zip(&mut factors) {
            weights.add_scaled(backend, dense, factor);
        }
        for tensor in &self.tensors {
            let per_slice = self.shape.slice() >> tensor.lanes.len();
            let mut cells = vec![Ext::ZERO; per_slice];
            for (part, factor) in tensor.cells.chunks_exact(per_slice).zip(&mut factors) {
                cells
                    .iter_mut()
                    .zip(part)
                    .for_each(|(a, b)| *a += factor * *b);
            }
            let eq = eq_planes(exec, Ext::ONE, &tensor.lanes);
            let backend = exec.backend().fitting(eq.len());
            let out = &mut weights;
            backend.run(AddTensor {
                cells: &cells,
                eq: &eq,
                out,
            });
        }
        Ok([values, weights])
    }
}

/// Σ over the lanes of eq · value, for each cell of a slice.
struct OverLanes<'a> {
    slice: &'a [Fp],
    eq: &'a Planes,
}

impl Pass for OverLanes<'_> {
    type Output = Planes;

    #[inline(always)]
    fn run<V: Packed>(self) -> Planes {
        let lanes = self.eq.len();
        let mut out = Planes::zero(self.slice.len() / lanes);
        for (c, cell) in self.slice.chunks_exact(lanes).enumerate() {
            out.set(c, self.eq.dot_at::<V>(0, cell));
        }
        out
    }
}

/// Σ over the cells of a slice, for each slice-sized part of the cells.
struct OverCells<'a> {
    values: &'a Planes,
    cells: &'a Planes,
}

impl Pass for OverCells<'_> {
    type Output = Vec<Ext>;

    #[inline(always)]
    fn run<V: Packed>(self) -> Vec<Ext> {
        let len = self.values.len();
        let mut out = Vec::with_capacity(self.cells.len() / len);
        for start in (0..self.cells.len()).step_by(len) {
            let mut sum = Vector::<V>::zero();
            for x in (0..len).step_by(V::LANES) {
                let cell = self.cells.load::<V>(start + x);
                sum = sum.add(cell.mul(self.values.load(x)));
            }
            out.push(sum.total());
        }
        out
    }
}

/// Σ_i weight_i · f_i over a range.
struct FoldSlices<'a> {
    slices: &'a [Vec<Fp>],
    /// For [`DOT_MAX`] slices at a time.
    weights: &'a [Words],
    range: std::ops::Range<usize>,
}

impl Pass for FoldSlices<'_> {
    type Output = Planes;

    #[inline(always)]
    fn run<V: Packed>(self) -> Planes {
        let mut out = Planes::zero(self.range.len());
        let mut values = [V::splat(Fp::ZERO).split(); DOT_MAX];
        for x in (0..self.range.len()).step_by(V::LANES) {
            let mut sum = Vector::<V>::zero();
            for (slices, weights) in self.slices.chunks(DOT_MAX).zip(self.weights) {
                for (value, slice) in values.iter_mut().zip(slices) {
                    *value = V::load(&slice[self.range.start + x..]).split();
                }
                sum = sum.add(dot_words::<V>(&values[..slices.len()], weights));
            }
            out.store(x, sum);
        }
        out
    }
}

/// Adds cell ⊗ eq, cell by cell.
struct AddTensor<'a> {
    cells: &'a [Ext],
    eq: &'a Planes,
    out: &'a mut Planes,
}

impl Pass for AddTensor<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        let lanes = self.eq.len();
        for (c, cell) in self.cells.iter().enumerate() {
            let cell = Vector::<V>::splat(*cell);
            for x in (0..lanes).step_by(V::LANES) {
                let at = c * lanes + x;
                let sum = self.out.load::<V>(at).add(cell.mul(self.eq.load(x)));
                self.out.store(at, sum);
            }
        }
    }
}
