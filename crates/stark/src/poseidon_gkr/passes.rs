//! The prover's passes over traces: sums on the skipped domain, folds, and sums of cubes.

use std::ops::Range;

use super::skip::{ROWS, domain};
use crate::extension::Ext;
use crate::field::Fp;
use crate::kernel::{Packed, Pass};
use crate::vector::{Planes, Vector, Words, dot_words};

/// Maximum number of columns cubed in one layer.
pub(super) const COLUMNS_MAX: usize = super::LANES;

/// Columns of a trace: `[block][row][column][instance]`.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    pub(super) values: &'a [Fp],
    pub(super) count: usize,
    pub(super) instances: usize,
}

impl Columns<'_> {
    #[inline(always)]
    fn load<V: Packed>(&self, block: usize, row: usize, column: usize, x: usize) -> V {
        let at = ((block * ROWS + row) * self.count + column) * self.instances + x;
        V::load(&self.values[at..])
    }
}

/// Σ over blocks and instances of block weight · eq · Σ_i w_i·(column_i(X) + c_i)³, at the points of
/// the first cosets.
pub(super) struct SkipSums<'a> {
    pub(super) columns: Columns<'a>,
    pub(super) constants: &'a [Fp],
    /// For each kind of block the weights w: one set for all points, or one for each.
    pub(super) weights: &'a [Vec<Words>],
    pub(super) eq: &'a Planes,
    pub(super) block_weights: &'a [Ext],
    pub(super) cosets: usize,
    pub(super) blocks: Range<usize>,
}

impl Pass for SkipSums<'_> {
    type Output = Vec<Ext>;

    #[inline(always)]
    fn run<V: Packed>(self) -> Vec<Ext> {
        let zero = V::splat(Fp::ZERO);
        let count = self.columns.count;
        let mut sums = vec![Vector::<V>::zero(); self.cosets * ROWS];
        let mut coefficients = [[zero; ROWS]; COLUMNS_MAX];
        let mut values = [[zero; ROWS]; COLUMNS_MAX];
        let mut cubes = [zero.split(); COLUMNS_MAX];
        for block in self.blocks.clone() {
            let weights = &self.weights[block % self.weights.len()];
            let block_weight = Vector::splat(self.block_weights[block]);
            for x in (0..self.columns.instances).step_by(V::LANES) {
                let weight = self.eq.load::<V>(x).mul(block_weight);
                for i in 0..count {
                    let constant = V::splat(self.constants[i]);
                    for h in 0..ROWS {
                        let value = self.columns.load::<V>(block, h, i, x).add(constant);
                        values[i][h] = value;
                        coefficients[i][h] = value;
                    }
                    domain().to_coefficients(&mut coefficients[i]);
                }
                for t in 0..self.cosets {
                    // Coset 0 is H itself, whose values are there.
                    if t > 0 {
                        for i in 0..count {
                            values[i] = domain().to_coset(t, &coefficients[i]);
                        }
                    }
                    for point in t * ROWS..(t + 1) * ROWS {
                        for (cube, column) in cubes.iter_mut().zip(&values[..count]) {
                            // In the base field, because z, which moves columns to F, is drawn after this message.
                            // Most of the prover's time goes here.
                            *cube = column[point % ROWS].cube().split();
                        }
                        let here = &weights[point % weights.len()];
                        let sum = dot_words::<V>(&cubes[..count], here);
                        sums[point] = sums[point].add(weight.mul(sum));
                    }
                }
            }
        }
        let mut out = Vec::with_capacity(sums.len());
        for sum in &sums {
            out.push(sum.total());
        }
        out
    }
}

/// Σ over blocks and instances of block weight · eq · column_i, for each row h: `[column][row]`.
pub(super) struct LinearSums<'a> {
    pub(super) columns: Columns<'a>,
    pub(super) eq: &'a Planes,
    pub(super) block_weights: &'a [Ext],
    pub(super) blocks: Range<usize>,
}

impl Pass for LinearSums<'_> {
    type Output = Vec<Ext>;

    #[inline(always)]
    fn run<V: Packed>(self) -> Vec<Ext> {
        let count = self.columns.count;
        let mut sums = vec![Vector::<V>::zero(); count * ROWS];
        for block in self.blocks.clone() {
            let block_weight = Vector::splat(self.block_weights[block]);
            for x in (0..self.columns.instances).step_by(V::LANES) {
                let weight = self.eq.load::<V>(x).mul(block_weight);
                for h in 0..ROWS {
                    for i in 0..count {
                        let sum = &mut sums[i * ROWS + h];
                        *sum = sum.add(weight.scale(self.columns.load(block, h, i, x)));
                    }
                }
            }
        }
        let mut out = Vec::with_capacity(sums.len());
        for sum in &sums {
            out.push(sum.total());
        }
        out
    }
}

/// Σ_h w_i,h·column_i(h) of a block, plus a constant, for each column i.
pub(super) struct FoldRows<'a> {
    pub(super) columns: Columns<'a>,
    /// For each column, its row weights.
    pub(super) weights: &'a [Words],
    pub(super) constants: &'a [Ext],
    pub(super) block: usize,
}

impl Pass for FoldRows<'_> {
    type Output = Vec<Planes>;

    #[inline(always)]
    fn run<V: Packed>(self) -> Vec<Planes> {
        let instances = self.columns.instances;
        let mut out = vec![Planes::zero(instances); self.columns.count];
        let mut rows = [V::splat(Fp::ZERO).split(); ROWS];
        for (i, out) in out.iter_mut().enumerate() {
            let constant = Vector::splat(self.constants[i]);
            for x in (0..instances).step_by(V::LANES) {
                for (h, row) in rows.iter_mut().enumerate() {
                    *row = self.columns.load::<V>(self.block, h, i, x).split();
                }
                let sum = dot_words::<V>(&rows, &self.weights[i]).add(constant);
                out.store(x, sum);
            }
        }
        out
    }
}

/// h(0), h(1), h(−1) and the leading coefficient of h for Σ_i column_i³ + linear, up to one summand
/// that is the same in the first three.
pub(super) struct CubeSums<'a> {
    pub(super) columns: &'a [Planes],
    pub(super) linear: Option<&'a Planes>,
    pub(super) weights: &'a Planes,
    pub(super) range: Range<usize>,
}

impl Pass for CubeSums<'_> {
    type Output = [Ext; 4];

    #[inline(always)]
    fn run<V: Packed>(self) -> [Ext; 4] {
        let half = self.weights.len();
        let mut sums = [Vector::<V>::zero(); 4];
        for x in self.range.step_by(V::LANES) {
            let mut here = [Vector::<V>::zero(); 4];
            for column in self.columns {
                let (low, high) = (column.load::<V>(x), column.load(half + x));
                let slope = high.sub(low);
                let points = [low, high, low.sub(slope), slope];
                for k in 0..4 {
                    here[k] = here[k].add(points[k].cube());
                }
            }
            if let Some(linear) = self.linear {
                let (low, high) = (linear.load::<V>(x), linear.load(half + x));
                // Not in the leading coefficient, which is that of X³.
                let points = [low, high, low.add(low).sub(high)];
                for k in 0..3 {
                    here[k] = here[k].add(points[k]);
                }
            }
            let weight = self.weights.load(x);
            for k in 0..4 {
                sums[k] = sums[k].add(weight.mul(here[k]));
            }
        }
        [
            sums[0].total(),
            sums[1].total(),
            sums[2].total(),
            sums[3].total(),
        ]
    }
}
