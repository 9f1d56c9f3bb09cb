//! The prover of the layers below the output.

use alphorn_exec::{Exec, Stopped};

use super::passes::{Columns, CubeSums, FoldRows, LinearSums, SkipSums};
use super::skip::{ROWS, domain, lagrange};
use super::verifier::partial_weights;
use super::{Point, SKIP_DEGREE, Units, Values};
use crate::arith::Native;
use crate::extension::Ext;
use crate::field::Fp;
use crate::kernel::Dispatch;
use crate::multilinear::{eq_table, powers};
use crate::poseidon::{Permutation, Trace};
use crate::sumcheck::{cubic, send_round};
use crate::transcript::Sender;
use crate::vector::{Outer, Planes, Words, words};

/// Number of blocks that one task processes.
const TASK_BLOCKS: usize = 4;

/// Number of elements of a column that one task processes.
const TASK_ELEMENTS: usize = 256;

/// Adds the results of tasks over ranges of `count` items.
///
/// # Errors
/// [`Stopped`] if the computation is stopped.
pub(super) fn sum_tasks(
    exec: Exec<'_>,
    count: usize,
    size: usize,
    task: impl Fn(std::ops::Range<usize>) -> Values + Sync,
) -> Result<Values, Stopped> {
    let results = exec.try_map(count.div_ceil(size), |i| {
        task(i * size..count.min((i + 1) * size))
    })?;
    let mut results = results.into_iter();
    let first = results.next().unwrap_or_default();
    Ok(results.fold(first, |mut sums, result| {
        sums.iter_mut().zip(result).for_each(|(a, b)| *a += b);
        sums
    }))
}

/// Common state of the layers.
pub(super) struct Prover<'a> {
    pub(super) exec: Exec<'a>,
    pub(super) units: &'a Units,
    pub(super) trace: &'a Trace,
    pub(super) permutation: &'static Permutation,
}

/// The data bound by a skip message, ready for the rounds over units.
pub(super) struct Folded {
    /// For each column `[lane][block]`, blocks padded to full vectors.
    pub(super) columns: Vec<Planes>,
    pub(super) linear: Option<Planes>,
    /// The value of an unused unit in each column.
    pub(super) rest: Values,
    pub(super) rest_linear: Ext,
}

impl<'a> Prover<'a> {
    pub(super) fn columns(&self, values: &'a [Fp], count: usize) -> Columns<'a> {
        Columns {
            values,
            count,
            instances: self.trace.instances,
        }
    }

    /// Blocks in a column after the fold.
    pub(super) fn width(&self) -> usize {
        let lanes = self.exec.backend().lanes();
        // Padding blocks get the weight zero, and whole vectors of blocks are bound.
        self.units.blocks().next_multiple_of(lanes)
    }

    /// The values of a skip polynomial's sums of cubes.
    pub(super) fn skip_sums(
        &self,
        columns: Columns<'a>,
        constants: &[Fp],
        weights: &[Vec<Words>],
        [eq, block_weights]: [&[Ext]; 2],
        cosets: usize,
    ) -> Result<Values, Stopped> {
        let backend = self.exec.backend().fitting(columns.instances);
        let eq = Planes::from_exts(eq);
        let sums = sum_tasks(self.exec, self.units.blocks(), TASK_BLOCKS, |blocks| {
            backend.run(SkipSums {
                columns,
                constants,
                weights,
                eq: &eq,
                block_weights,
                cosets,
                blocks,
            })
        })?;
        // A proof without groups has no blocks, but sends the same messages.
        Ok(match sums.is_empty() {
            true => vec![Ext::ZERO; cosets * ROWS],
            false => sums,
        })
    }

    /// Sums of each column and row: `[column][row]`.
    fn linear_sums(
        &self,
        columns: Columns<'a>,
        [eq, block_weights]: [&[Ext]; 2],
    ) -> Result<Values, Stopped> {
        let backend = self.exec.backend().fitting(columns.instances);
        let eq = Planes::from_exts(eq);
        let sums = sum_tasks(self.exec, self.units.blocks(), TASK_BLOCKS, |blocks| {
            backend.run(LinearSums {
                columns,
                eq: &eq,
                block_weights,
                blocks,
            })
        })?;
        Ok(match sums.is_empty() {
            true => vec![Ext::ZERO; columns.count * ROWS],
            false => sums,
        })
    }

    /// Folds the rows of each block; `weights` and `constants` are given for each kind of block.
    pub(super) fn fold_rows(
        &self,
        columns: Columns<'a>,
        weights: &[Vec<Words>],
        constants: &[Values],
    ) -> Result<Vec<Planes>, Stopped> {
        let backend = self.exec.backend().fitting(columns.instances);
        let blocks = self.exec.try_map(self.units.blocks(), |block| {
            backend.run(FoldRows {
                columns,
                weights: &weights[block % weights.len()],
                constants: &constants[block % constants.len()],
                block,
            })
        })?;
        let width = self.width();
        self.exec.try_map(columns.count, |i| {
            let mut out = Planes::zero(columns.instances * width);
            for (block, folded) in blocks.iter().enumerate() {
                out.scatter(&folded[i], block, width);
            }
            out
        })
    }

    /// eq(high, ·) of each block.
    pub(super) fn block_weights(&self, high: &[Ext]) -> Values {
        let table = eq_table(Ext::ONE, high);
        let weight = |block| table[self.units.high(block)];
        (0..self.units.blocks()).map(weight).collect()
    }

    /// Rounds that bind all coordinates of a point by polynomials of degree 3; `inner` weights the data at each
    /// index.
    pub(super) fn rounds(
        &self,
        sender: &mut Sender,
        point: &[Ext],
        inner: &Planes,
        columns: &mut Vec<Planes>,
        mut linear: Option<&mut Planes>,
    ) -> Result<Values, Stopped> {
        let mut challenges = Vec::with_capacity(point.len());
        for round in 0..point.len() {
            let rest = eq_table(Ext::ONE, &point[round + 1..]);
            let weights = self
                .exec
                .backend()
                .fitting(inner.len())
                .run(Outer(&rest, inner));
            let backend = self.exec.backend().fitting(weights.len());
            let sums = sum_tasks(self.exec, weights.len(), TASK_ELEMENTS, |range| {
                let sums = backend.run(CubeSums {
                    columns,
                    linear: linear.as_deref(),
                    weights: &weights,
                    range,
                });
                sums.to_vec()
            })?;
            let sums = match sums[..] {
                [zero, one, minus, leading] => [zero, one, minus, leading],
                _ => [Ext::ZERO; 4],
            };
            // Unused units are constants: they add the same to h(0), h(1) and h(−1), and change only h_0, which is
            // not sent.
            let x = send_round(sender, &cubic(sums));
            *columns = self
                .exec
                .map(columns.len(), |i| columns[i].fold(backend, x));
            if let Some(linear) = &mut linear {
                **linear = linear.fold(backend, x);
            }
            challenges.push(x);
        }
        Ok(challenges)
    }

    /// Binds first the instances, then the high coordinates; returns both and the columns' values.
    fn bind_units(
        &self,
        sender: &mut Sender,
        point: &Point<Ext>,
        mut folded: Folded,
    ) -> Result<(Values, Values, Values), Stopped> {
        // Instances come first because only used blocks are stored: once each block is a single value, unused ones
        // can be written out as constants.
        let mut inner = self.block_weights(&point.high);
        inner.resize(self.width(), Ext::ZERO);
        let inner = Planes::from_exts(&inner);
        let lanes = self.rounds(
            sender,
            &point.lanes,
            &inner,
            &mut folded.columns,
            folded.linear.as_mut(),
        )?;
        let spread = |planes: &Planes, rest: Ext| {
            let mut dense = vec![rest; 1 << self.units.high_log2()];
            for block in 0..self.units.blocks() {
                dense[self.units.high(block)] = planes.get(block);
            }
            Planes::from_exts(&dense)
        };
        let columns = folded.columns.iter().zip(&folded.rest);
        let mut columns: Vec<Planes> = columns.map(|(c, rest)| spread(c, *rest)).collect();
        let mut linear = folded.linear.map(|l| spread(&l, folded.rest_linear));
        let one = Planes::from_exts(&[Ext::ONE]);
        let high = self.rounds(sender, &point.high, &one, &mut columns, linear.as_mut())?;
        Ok((high, lanes, columns.iter().map(|c| c.get(0)).collect()))
    }

    /// A full round.
    pub(super) fn full(
        &self,
        sender: &mut Sender,
        round: usize,
        values: &'a [Fp],
        point: &Point<Ext>,
    ) -> Result<(Point<Ext>, Values), Stopped> {
        let alpha = sender.challenge();
        let width = self.units.kind.lanes();
        let (constants, _) = self.permutation.full_round(round);
        let weights = self.full_weights(round, &powers(Ext::ONE, alpha, width));
        let columns = self.columns(values, width);
        let eq = eq_table(Ext::ONE, &point.lanes);
        let block_weights = self.block_weights(&point.high);
        let by_point = [vec![words(&weights)]];
        let sums = self.skip_sums(columns, constants, &by_point, [&eq, &block_weights], 3)?;
        let z = send_skip(sender, domain().interpolate(&sums), SKIP_DEGREE);
        let basis = lagrange(&Native::new(&[]), z);
        // w·x³ = (root·x)³: with the weight inside the column, each later round is a sum of plain cubes. Each
        // element has exactly one cube root, since 3 does not divide p^5 − 1.
        let roots: Values = weights.iter().map(|w| w.cube_root()).collect();
        // State 4 is the one before the partial rounds, so full rounds from 4 on begin one state later.
        let rest = self.permutation.rest.states[round + usize::from(round >= 4)].iter();
        let folded = Folded {
            columns: self.fold_rows(
                columns,
                &[roots.iter().map(|root| scaled(&basis, *root)).collect()],
                &[roots
                    .iter()
                    .zip(constants)
                    .map(|(root, c)| *root * *c)
                    .collect()],
            )?,
            linear: None,
            rest: roots
                .iter()
                .zip(rest.zip(constants))
                .map(|(root, (rest, c))| *root * (*rest + *c))
                .collect(),
            rest_linear: Ext::ZERO,
        };
        let (high, lanes, last) = self.bind_units(sender, point, folded)?;
        let states = unscaled(&last, &roots, constants);
        sender.send(&states);
        Ok((Point { z, high, lanes }, states))
    }

    /// Proves all partial rounds; claims the state before them and the committed cubes.
    pub(super) fn partial(
        &self,
        sender: &mut Sender,
        point: &Point<Ext>,
    ) -> Result<(Point<Ext>, Values), Stopped> {
        let (alpha, delta) = (sender.challenge(), sender.challenge());
        let kind = self.units.kind;
        let weights = partial_weights(&Native::new(&[]), kind, alpha, delta);
        let enters = self.columns(&self.trace.enters, kind.partial());
        let eq = eq_table(Ext::ONE, &point.lanes);
        let block_weights = self.block_weights(&point.high);
        let by_point = [vec![words(&weights.cubes)]];
        let zeros = vec![Fp::ZERO; kind.partial()];
        let sums = self.skip_sums(enters, &zeros, &by_point, [&eq, &block_weights], 3)?;
        let mut coefficients = domain().interpolate(&sums);
        let linear_sums = self.all_linear_sums([&eq, &block_weights])?;
        let on_h: [Ext; ROWS] = std::array::from_fn(|h| {
            let terms = weights.linear.iter().enumerate();
            terms.map(|(c, w)| *w * linear_sums[c * ROWS + h]).sum()
        });
        // A sum of columns has degree 15: sixteen values on H determine it, without any coset.
        let linear = domain().interpolate(&on_h);
        coefficients
            .iter_mut()
            .zip(linear)
            .for_each(|(a, b)| *a += b);
        let z = send_skip(sender, coefficients, SKIP_DEGREE);

        let basis = lagrange(&Native::new(&[]), z);
        let roots: Values = weights.cubes.iter().map(|w| w.cube_root()).collect();
        let rest = &self.permutation.rest;
        let rest_linear = rest.states[4].iter().chain(&rest.cubes);
        let rest_linear = rest_linear.zip(&weights.linear).map(|(x, w)| *w * *x).sum();
        let folded = Folded {
            columns: self.fold_rows(
                enters,
                &[roots.iter().map(|root| scaled(&basis, *root)).collect()],
                &[vec![Ext::ZERO; kind.partial()]],
            )?,
            linear: Some(self.fold_linear(&basis, &weights.linear)?),
            rest: roots
                .iter()
                .zip(&rest.enters)
                .map(|(root, x)| *root * *x)
                .collect(),
            rest_linear,
        };
        let (high, lanes, _) = self.bind_units(sender, point, folded)?;
        let point = Point { z, high, lanes };
        // State and cubes were folded into one column, which gives their sum only, so each is evaluated anew.
        let values = self.at_point(&point, &basis)?;
        sender.send(&values);
        Ok((point, values))
    }

    /// The linear sums of state and committed cubes.
    fn all_linear_sums(&self, weights: [&[Ext]; 2]) -> Result<Values, Stopped> {
        let kind = self.units.kind;
        let states = self.columns(&self.trace.states[4], kind.lanes());
        let cubes = self.columns(&self.trace.cubes, kind.cubes());
        let mut sums = self.linear_sums(states, weights)?;
        sums.extend(self.linear_sums(cubes, weights)?);
        Ok(sums)
    }

    /// Σ_c w_c·column_c at z, for state and committed cubes.
    fn fold_linear(&self, basis: &[Ext], weights: &[Ext]) -> Result<Planes, Stopped> {
        let kind = self.units.kind;
        let (of_states, of_cubes) = weights.split_at(kind.lanes());
        let states = self.columns(&self.trace.states[4], kind.lanes());
        let cubes = self.columns(&self.trace.cubes, kind.cubes());
        let parts = [(states, of_states), (cubes, of_cubes)];
        let mut out = Planes::zero(self.trace.instances * self.width());
        for (columns, weights) in parts {
            let rows = [weights.iter().map(|w| scaled(basis, *w)).collect()];
            let zeros = [vec![Ext::ZERO; columns.count]];
            for folded in self.fold_rows(columns, &rows, &zeros)? {
                out.add_assign(&folded);
            }
        }
        Ok(out)
    }

    /// State and committed cubes at a point.
    fn at_point(&self, point: &Point<Ext>, basis: &[Ext]) -> Result<Values, Stopped> {
        let eq = eq_table(Ext::ONE, &point.lanes);
        let block_weights = self.block_weights(&point.high);
        let unused = Ext::ONE - block_weights.iter().copied().sum();
        let rest = &self.permutation.rest;
        let rest = rest.states[4].iter().chain(&rest.cubes);
        let sums = self.all_linear_sums([&eq, &block_weights])?;
        let used = sums.chunks_exact(ROWS).map(|rows| -> Ext {
            rows.iter()
                .zip(basis)
                .map(|(sum, weight)| *sum * *weight)
                .sum()
        });
        let values = used.zip(rest);
        Ok(values.map(|(used, rest)| used + unused * *rest).collect())
    }

    /// w_i = Σ_j α_j·M_ji: the weights of the cubes of a full round.
    pub(super) fn full_weights(&self, round: usize, alphas: &[Ext]) -> Values {
        let (_, matrix) = self.permutation.full_round(round);
        let weight = |i: usize| alphas.iter().zip(matrix).map(|(a, row)| *a * row[i]).sum();
        (0..matrix.len()).map(weight).collect()
    }
}

/// Words of weights times a factor.
pub(super) fn scaled(weights: &[Ext], factor: Ext) -> Words {
    let scaled: Values = weights.iter().map(|w| *w * factor).collect();
    words(&scaled)
}

/// States from root·(state + constant).
pub(super) fn unscaled(values: &[Ext], roots: &[Ext], constants: &[Fp]) -> Values {
    let terms = values.iter().zip(roots.iter().zip(constants));
    // A weight is zero with probability 2^-150; then the proof fails, and another message helps.
    let inverse = |root: &Ext| root.inverse().unwrap_or_default();
    terms
        .map(|(value, (root, c))| *value * inverse(root) - Ext::from(*c))
        .collect()
}

/// Sends c_1 … c_degree; returns the challenge z.
pub(super) fn send_skip(sender: &mut Sender, coefficients: Values, degree: usize) -> Ext {
    debug_assert!(coefficients[degree + 1..].iter().all(|c| *c == Ext::ZERO));
    sender.send(&coefficients[1..=degree]);
    sender.challenge()
}
