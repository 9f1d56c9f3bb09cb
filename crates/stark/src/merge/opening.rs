//! The weights that all claims of a merge give to cells and columns, for the prover.

use std::collections::BTreeMap;

use alphorn_exec::{Exec, Stopped};

use super::layout::{COLUMN_SLICES, SLICE_LOG2, WORD_LOG2, cell, first_slice};
use super::residual::{CIRCUITS, matrix, row_weights};
use super::weights::{Claims, Part};
use crate::extension::Ext;
use crate::field::Fp;
use crate::kernel::Dispatch;
use crate::merge::witness::{Child, Prover};
use crate::multilinear::eq_table;
use crate::vector::{self, Planes, eq_planes};
use crate::whir::blocks::{Blocks, Outer};

impl Prover<'_> {
    /// The weights of all claims, by the numbers of the slices.
    pub(super) fn weights(
        &self,
        claims: &Claims<Ext>,
        factors: &[Ext],
        witness: &[Child],
    ) -> Result<BTreeMap<usize, Planes>, Stopped> {
        let exec = self.exec;
        let parts: Vec<(&Part<Ext>, Ext)> = claims.parts(factors).collect();
        let wired: Vec<&(&Part<Ext>, Ext)> = parts
            .iter()
            .filter(|(part, _)| matrix(part).is_some())
            .collect();
        // The weights that a matrix gives to cells are shared by all children of a kind. Rows · matrix is the
        // costly step, and the same for all children of a kind up to a factor; only the last step, from values to
        // cells, is done for each child.
        let kinds: Vec<usize> = (0..CIRCUITS)
            .filter(|circuit| witness.iter().any(|child| child.circuit == *circuit))
            .collect();
        let of_matrices = exec.try_map(kinds.len() * wired.len(), |i| {
            let (circuit, (part, _)) = (kinds[i / wired.len()], wired[i % wired.len()]);
            let rows = row_weights(exec, part);
            let matrix = matrix(part).unwrap_or_default();
            self.wiring.weighed(exec, circuit, matrix, &rows)
        })?;
        let of_children = exec.try_map(witness.len(), |c| {
            let kind = kinds.iter().position(|kind| *kind == witness[c].circuit);
            // Always found: the kinds were taken from the same children.
            let first = kind.unwrap_or_default() * wired.len();
            let of_parts = wired.iter().zip(&of_matrices[first..]);
            let of_parts = of_parts.map(|((part, factor), weighed)| {
                let group = groups_of(part)[c];
                (weighed, *factor * group)
            });
            let mut weights = self.wiring.cells(exec, witness[c].circuit, of_parts);
            for (part, factor) in &parts {
                add_block(exec, &mut weights, part, *factor, c);
            }
            weights
        })?;
        let mut out = BTreeMap::new();
        for (c, weights) in of_children.iter().enumerate() {
            for slice in 0..self.known.dimensions.slices {
                let range = slice << SLICE_LOG2..(slice + 1) << SLICE_LOG2;
                out.insert(first_slice(c) + slice, weights.part(range));
            }
        }
        for slice in 0..COLUMN_SLICES {
            let mut weights = Planes::zero(1 << SLICE_LOG2);
            for (part, factor) in &parts {
                add_columns(exec, &mut weights, part, *factor, slice);
            }
            out.insert(slice, weights);
        }
        Ok(out)
    }
}

/// The weights of the children in a part.
fn groups_of(part: &Part<Ext>) -> &[Ext] {
    match part {
        Part::Block { groups, .. }
        | Part::Inputs { groups, .. }
        | Part::Outputs { groups, .. }
        | Part::Products { groups, .. } => groups,
        Part::Column { .. } | Part::Words { .. } => &[],
    }
}

/// Adds the weights that a part gives to cells of a child directly.
fn add_block(exec: Exec<'_>, weights: &mut Planes, part: &Part<Ext>, factor: Ext, child: usize) {
    let Part::Block {
        groups,
        columns,
        first_row,
        rows,
        lanes,
    } = part
    else {
        return;
    };
    let lanes = Planes::from_exts(&eq_table(factor * groups[child], lanes));
    let backend = exec.backend().fitting(lanes.len());
    let of_column = backend.run(vector::Outer(rows, &lanes));
    for (column, weight) in columns {
        let mut scaled = Planes::zero(of_column.len());
        scaled.add_scaled(backend, &of_column, *weight);
        weights.add_at(cell(*column, *first_row, 0), &scaled);
    }
}

/// Adds the weights that a part gives to the columns of a slice.
fn add_columns(exec: Exec<'_>, weights: &mut Planes, part: &Part<Ext>, factor: Ext, slice: usize) {
    let (Part::Column { column, .. } | Part::Words { column, .. }) = part else {
        return;
    };
    if column.number() / 2 != slice {
        return;
    }
    let table = match part {
        Part::Column { scale, point, .. } => eq_planes(exec, factor * *scale, point),
        Part::Words { scale, point, .. } => {
            let words = eq_table(factor * *scale, point);
            let bits = Planes::from_base(&std::array::from_fn::<Fp, { 1 << WORD_LOG2 }, _>(|k| {
                Fp::new(1 << k)
            }));
            let backend = exec.backend().fitting(bits.len());
            backend.run(vector::Outer(&words, &bits))
        }
        _ => return,
    };
    weights.add_at(column.number() % 2 * table.len(), &table);
}

/// The slices with the weights of claims and of the sample.
pub(super) fn open_blocks(
    exec: Exec<'_>,
    slices: &[Vec<Fp>],
    numbers: &[usize],
    mut weights: BTreeMap<usize, Planes>,
    sample: Outer,
) -> Result<Blocks, Stopped> {
    let values = exec.try_map(numbers.len(), |i| Planes::from_base(&slices[i]))?;
    let mut pairs = BTreeMap::new();
    for (number, values) in numbers.iter().zip(values) {
        let zero = || Planes::zero(values.len());
        let weights = weights.remove(number).unwrap_or_else(zero);
        pairs.insert(*number, [values, weights]);
    }
    let coordinates = sample.top.len().ilog2() as usize;
    Ok(Blocks::new(coordinates, pairs).with(sample))
}
