//! The prover's rounds over rows and bits.

use alphorn_exec::{Exec, Stopped};

use super::layout::{CHILD_LOG2, PRODUCTS_LOG2, REGISTRY_LOG2};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::{Dispatch, Packed, Pass};
use crate::merge::witness::{Child, Prover};
use crate::multilinear::{eq_table, powers};
use crate::sumcheck::{prove_small, quadratic, send_round};
use crate::transcript::Sender;
use crate::vector::{Planes, Vector, eq_planes};

impl Prover<'_> {
    /// The rows (A·z)(B·z) = C·z.
    pub(super) fn rows(&self, sender: &mut Sender, witness: &[Child]) -> Result<(), Stopped> {
        let exec = self.exec;
        let point = sender.challenges(PRODUCTS_LOG2 + CHILD_LOG2);
        let (rows, child) = point.split_at(PRODUCTS_LOG2);
        let children = eq_table(Ext::ONE, child);
        // Rows are bound first, child by child: tables of different children never mix until each is one value.
        let mut tables = exec.try_map(witness.len(), |c| {
            let child = &witness[c];
            self.wiring.products(exec, child.circuit, &child.cells)
        })?;
        for round in 0..PRODUCTS_LOG2 {
            let weights = eq_planes(exec, Ext::ONE, &rows[round + 1..]);
            let backend = exec.backend().fitting(weights.len());
            let sums = exec.try_map(tables.len(), |c| {
                let sums = backend.run(RowSums {
                    tables: &tables[c],
                    weights: &weights,
                });
                sums.map(|x| children[c + 1] * x)
            })?;
            let total = |k: usize| sums.iter().map(|sum| sum[k]).sum();
            let x = send_round(sender, &quadratic([total(0), total(1), total(2)]));
            let folded = exec.try_map(tables.len(), |c| {
                tables[c].each_ref().map(|table| table.fold(backend, x))
            })?;
            tables = folded;
        }
        let last = |k: usize| {
            let mut values = vec![Ext::ZERO; 1 << CHILD_LOG2];
            for (value, tables) in values[1..].iter_mut().zip(&tables) {
                *value = tables[k].get(0);
            }
            values
        };
        let mut polynomials: Vec<Vec<Ext>> = (0..3).map(last).collect();
        let values = |pairs: &[[Ext; 2]]| {
            let at = |x: usize| pairs[0][x] * pairs[1][x] - pairs[2][x];
            let slope = |k: usize| pairs[k][1] - pairs[k][0];
            [at(0), at(1), slope(0) * slope(1)]
        };
        prove_small(sender, child, &mut polynomials, values, quadratic);
        let values: Vec<Ext> = polynomials.iter().map(|values| values[0]).collect();
        sender.send(&values);
        Ok(())
    }
}

/// Proves that the bits are boolean, and that the bitfield is their union.
pub(super) fn union(
    sender: &mut Sender,
    exec: Exec<'_>,
    columns: &[Vec<Fp>],
    bitfield: &[bool],
    used: &[Fp],
) {
    let point = sender.challenges(REGISTRY_LOG2);
    let lambda = sender.challenge();
    let lambdas = powers(lambda, lambda, used.len());
    let eq = eq_table(Ext::ONE, &point);
    let bits = eq.iter().zip(bitfield).filter(|(_, bit)| **bit);
    sender.send(&[bits.map(|(weight, _)| *weight).sum()]);
    let mut planes: Vec<Planes> = columns
        .iter()
        .map(|column| Planes::from_base(column))
        .collect();
    for round in 0..REGISTRY_LOG2 {
        let weights = eq_planes(exec, Ext::ONE, &point[round + 1..]);
        let backend = exec.backend().fitting(weights.len());
        let sums = backend.run(UnionSums {
            columns: &planes,
            lambdas: &lambdas,
            weights: &weights,
        });
        let x = send_round(sender, &quadratic(sums));
        planes = planes
            .iter()
            .map(|column| column.fold(backend, x))
            .collect();
    }
    for (column, used) in planes.iter().zip(used) {
        match *used == Fp::ONE {
            true => sender.send(&[column.get(0)]),
            // Absorbed and not sent, like all that an absent child lacks.
            false => sender.absorb(&[Fp::ZERO; DEGREE]),
        }
    }
    sender.send(&[planes[used.len()].get(0)]);
}

/// h(0), h(1) and the leading coefficient of h for inverse·Σ bits + Σ λ·(bit² − bit).
struct UnionSums<'a> {
    /// Bits of the children, then inverses.
    columns: &'a [Planes],
    lambdas: &'a [Ext],
    weights: &'a Planes,
}

impl Pass for UnionSums<'_> {
    type Output = [Ext; 3];

    #[inline(always)]
    fn run<V: Packed>(self) -> [Ext; 3] {
        let half = self.weights.len();
        let mut sums = [Vector::<V>::zero(); 3];
        for x in (0..half).step_by(V::LANES) {
            let mut totals = [Vector::<V>::zero(); 3];
            let mut booleans = [Vector::<V>::zero(); 3];
            for (column, lambda) in self.columns.iter().zip(self.lambdas) {
                let lambda = Vector::<V>::splat(*lambda);
                let (low, high) = (column.load::<V>(x), column.load::<V>(half + x));
                let points = [low, high, high.sub(low)];
                for k in 0..3 {
                    totals[k] = totals[k].add(points[k]);
                    let square = points[k].mul(points[k]);
                    // The leading coefficient has no linear term. bit² − bit has degree two in the round's
                    // variable: at 0 and 1 it is a value, for the leading coefficient only the square counts.
                    let value = if k < 2 { square.sub(points[k]) } else { square };
                    booleans[k] = booleans[k].add(lambda.mul(value));
                }
            }
            let inverse = &self.columns[self.lambdas.len()];
            let (low, high) = (inverse.load::<V>(x), inverse.load::<V>(half + x));
            let points = [low, high, high.sub(low)];
            let weight = self.weights.load::<V>(x);
            for k in 0..3 {
                let value = points[k].mul(totals[k]).add(booleans[k]);
                sums[k] = sums[k].add(weight.mul(value));
            }
        }
        sums.map(|sum| sum.total())
    }
}

/// h(0), h(1) and the leading coefficient of h for a·b − c.
struct RowSums<'a> {
    tables: &'a [Planes; 3],
    weights: &'a Planes,
}

impl Pass for RowSums<'_> {
    type Output = [Ext; 3];

    #[inline(always)]
    fn run<V: Packed>(self) -> [Ext; 3] {
        let half = self.weights.len();
        let [a, b, c] = self.tables;
        let mut sums = [Vector::<V>::zero(); 3];
        for x in (0..half).step_by(V::LANES) {
            let weight = self.weights.load::<V>(x);
            let low = [a.load::<V>(x), b.load(x), c.load(x)];
            let high = [a.load::<V>(half + x), b.load(half + x), c.load(half + x)];
            let slope = high[0].sub(low[0]).mul(high[1].sub(low[1]));
            let values = [
                low[0].mul(low[1]).sub(low[2]),
                high[0].mul(high[1]).sub(high[2]),
                slope,
            ];
            for k in 0..3 {
                sums[k] = sums[k].add(weight.mul(values[k]));
            }
        }
        sums.map(|sum| sum.total())
    }
}
