//! The prover's side of the reduction of the remaining claims: see [`super::residual`].

use std::collections::BTreeMap;

use alphorn_exec::{Exec, Stopped};

use super::known::Outputs;
use super::layout::{
    CELLS_LOG2, CIRCUITS_LOG2, MATRIX_LOG2, PARTS_LOG2, PRODUCTS_LOG2, REGISTRY_LOG2, WIRING_LOG2,
};
use super::residual::{CIRCUITS, WiringWeights, row_weights};
use super::wiring::MATRICES;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::Dispatch;
use crate::merge::witness::Prover;
use crate::multilinear::{eq_table, powers};
use crate::registry::Registry;
use crate::sumcheck::prove_product_round;
use crate::transcript::Sender;
use crate::vector::{Planes, eq_planes};
use crate::whir::OpenSlices;
use crate::whir::blocks::Blocks;

impl Prover<'_> {
    /// Reduces claims on the wiring to one.
    pub(super) fn reduce_wiring(
        &self,
        sender: &mut Sender,
        weights: &WiringWeights<Ext>,
        outputs: &[Outputs<Ext>],
    ) -> Result<(), Stopped> {
        let exec = self.exec;
        let leaves = !self.known.wired().contains(&Fp::ONE);
        let own = self.own_blocks(weights, leaves)?;
        let own_sum = own.sum(exec)?;
        sender.send(&[own_sum]);
        let eta = sender.challenge();
        let etas = powers(eta, eta, outputs.len());
        let wired = self.known.wired();
        let merges: Vec<usize> = (0..outputs.len())
            .filter(|c| wired[*c] == Fp::ONE)
            .collect();
        let mut sums = vec![(Ext::ONE, own)];
        // The weights of the children's claims start at η, since the merge's own claim has the factor one.
        let mut claim = own_sum;
        for c in &merges {
            let child = &outputs[*c];
            claim += etas[*c] * child.wiring;
            let blocks = self.point_blocks(&child.wiring_row, &child.wiring_cell)?;
            sums.push((etas[*c], blocks));
        }
        // If all children are leaves, that fixes the circuit, and nothing is sent.
        let mut row = Vec::with_capacity(WIRING_LOG2);
        if merges.is_empty() {
            for _ in 0..CIRCUITS_LOG2 {
                sender.absorb(&[Fp::ZERO; 2 * DEGREE]);
                sender.challenge();
                row.push(Ext::ZERO);
            }
        }
        let rounds = WIRING_LOG2 - row.len();
        row.extend(product_rounds(sender, exec, claim, &mut sums, rounds)?);
        // The blocks hold the matrices as values, and their weights.
        let values: Vec<Ext> = sums.iter().map(|(_, blocks)| blocks.last()[0]).collect();
        sender.send(&values[..1]);
        self.send_of_merges(sender, &merges, &values[1..]);
        let theta = sender.challenge();
        let thetas = powers(theta, theta, outputs.len());
        let terms = merges
            .iter()
            .zip(&values[1..])
            .map(|(c, v)| thetas[*c] * *v);
        let claim = values[0] + terms.sum();
        let matrix = self.wiring.at_row(exec, &row)?;
        let mut weight = eq_planes(exec, Ext::ONE, &weights.cell);
        for c in &merges {
            weight.add_assign(&eq_planes(exec, thetas[*c], &outputs[*c].wiring_cell));
        }
        let pair = BTreeMap::from([(0, [matrix, weight])]);
        let mut sums = vec![(Ext::ONE, Blocks::new(0, pair))];
        product_rounds(sender, exec, claim, &mut sums, CELLS_LOG2)?;
        sender.send(&[sums[0].1.last()[0]]);
        Ok(())
    }

    /// Sends values of children that are not leaves; those of leaves are absorbed as zeros.
    fn send_of_merges(&self, sender: &mut Sender, merges: &[usize], values: &[Ext]) {
        for c in 0..self.known.merged.len() {
            match merges.iter().position(|merge| *merge == c) {
                Some(i) => sender.send(&values[i..=i]),
                None => sender.absorb(&[Fp::ZERO; DEGREE]),
            }
        }
    }

    /// The claims that the opening leaves: matrices at its cells, with the weights of rows.
    fn own_blocks(&self, weights: &WiringWeights<Ext>, leaves: bool) -> Result<Blocks, Stopped> {
        let (circuits, coordinates) = match leaves {
            true => (1, PARTS_LOG2),
            false => (CIRCUITS, MATRIX_LOG2),
        };
        let cells = self.wiring.used_cells(self.exec, &weights.cell);
        let rows = self.wiring.rows(self.exec, circuits, &cells)?;
        let of_parts = self.exec.try_map(weights.parts.len(), |i| {
            row_weights(self.exec, &weights.parts[i].part)
        })?;
        // A circuit that no child uses has weight zero, but still has values.
        let all = self.exec.try_map(circuits * MATRICES, |i| {
            let (circuit, m) = (i / MATRICES, i % MATRICES);
            let mut sum = Planes::zero(1 << PRODUCTS_LOG2);
            let backend = self.exec.backend().fitting(sum.len());
            for (part, rows) in weights.parts.iter().zip(&of_parts) {
                if part.matrix == m && part.factors[circuit] != Ext::ZERO {
                    sum.add_scaled(backend, rows, part.factors[circuit]);
                }
            }
            sum
        })?;
        let blocks = rows.into_iter().zip(all);
        let blocks = blocks.map(|((number, rows), weights)| (number, [rows, weights]));
        Ok(Blocks::new(coordinates, blocks.collect()))
    }

    /// All matrices at a point of cells, with eq of a point of rows.
    fn point_blocks(&self, row: &[Ext], cell: &[Ext]) -> Result<Blocks, Stopped> {
        let (of_matrix, of_row) = row.split_at(MATRIX_LOG2);
        let matrices = eq_table(Ext::ONE, of_matrix);
        let cells = self.wiring.used_cells(self.exec, cell);
        let values = self.wiring.rows(self.exec, CIRCUITS, &cells)?;
        let rows = eq_planes(self.exec, Ext::ONE, of_row);
        let coordinates = of_matrix.len();
        Blocks::of_outer(
            self.exec,
            coordinates,
            values.into_iter().collect(),
            matrices,
            rows,
        )
    }

    /// Reduces claims on the registry to one.
    pub(super) fn reduce_registry(
        &self,
        sender: &mut Sender,
        registry: &Registry,
        outputs: &[Outputs<Ext>],
    ) -> Result<(), Stopped> {
        let eta = sender.challenge();
        let etas = powers(Ext::ONE, eta, outputs.len());
        let used = etas.iter().zip(outputs).zip(&self.known.used);
        let used: Vec<_> = used.filter(|(_, used)| **used == Fp::ONE).collect();
        let coordinates = REGISTRY_LOG2 + self.known.dimensions.key_log2;
        let mut weights = Planes::zero(1 << coordinates);
        let mut claim = Ext::ZERO;
        for ((eta, child), _) in used {
            claim += *eta * child.registry;
            weights.add_assign(&eq_planes(self.exec, *eta, &child.registry_at));
        }
        // A row is padded to a power of two.
        let row = |row: usize| {
            let mut elements = registry.row(row);
            elements.resize(1 << self.known.dimensions.key_log2, Fp::ZERO);
            elements
        };
        let rows = (0..1 << REGISTRY_LOG2).flat_map(row);
        let values = Planes::from_base(&rows.collect::<Vec<Fp>>());
        let pair = BTreeMap::from([(0, [values, weights])]);
        let mut sums = vec![(Ext::ONE, Blocks::new(0, pair))];
        product_rounds(sender, self.exec, claim, &mut sums, coordinates)?;
        sender.send(&[sums[0].1.last()[0]]);
        Ok(())
    }
}

/// Rounds of sumcheck of a weighted sum of products; returns the point.
fn product_rounds(
    sender: &mut Sender,
    exec: Exec<'_>,
    claim: Ext,
    sums: &mut [(Ext, Blocks)],
    rounds: usize,
) -> Result<Vec<Ext>, Stopped> {
    let (mut claim, mut point) = (claim, Vec::with_capacity(rounds));
    for _ in 0..rounds {
        let mut totals = [Ext::ZERO; 2];
        for (factor, blocks) in sums.iter() {
            let of_blocks = blocks.totals(exec)?;
            totals = [0, 1].map(|k| totals[k] + *factor * of_blocks[k]);
        }
        let x = prove_product_round(sender, exec, &mut claim, totals, None)?;
        for (_, blocks) in sums.iter_mut() {
            blocks.bind(exec, x)?;
        }
        point.push(x);
    }
    Ok(point)
}
