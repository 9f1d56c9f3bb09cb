//! The circuits of children and their matrices: built once, the same for all merges.

use super::child::{Header, LEAF_GROUPS_MAX, Setting, Told, record};
use super::layout::{
    CELLS_LOG2, CHILDREN_MAX, LAYOUT, PARTS_LOG2, PRODUCTS_LOG2, SLICE_LOG2, SLICES,
};
use crate::arith::DIGEST;
use crate::circuit::{Circuit, Entry, Plan, Recorder};
use crate::exec::{Exec, Stopped};
use crate::extension::Ext;
use crate::field::Fp;
use crate::merkle::{self, Digest};
use crate::multilinear::eq_table;
use crate::relation::Relation;
use crate::transcript::tag;
use crate::vector::Planes;
use crate::whir::Preset;

/// Matrices of a circuit: inputs and outputs of permutations, A, B and C.
pub(super) const MATRICES: usize = 5;

/// Entries that one task walks through.
const TASK: usize = 1 << 16;

/// Both circuits: that of leaves, that of merges.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) plans: [Plan; 2],
}

/// The number of a matrix among all.
pub(super) fn number(circuit: usize, matrix: usize) -> usize {
    circuit << PARTS_LOG2 | matrix
}

impl Wiring {
    /// The circuits that verify proofs of a relation, and merges of such.
    ///
    /// # Panics
    /// If a circuit does not fit its layout: the relation is wrong as a program.
    pub(super) fn new(setting: &Setting<'_>) -> Wiring {
        let headers = [
            Header::Leaf {
                groups: LEAF_GROUPS_MAX,
            },
            Header::Merged {
                level: 1,
                merged: vec![true; CHILDREN_MAX],
            },
        ];
        let plans = headers.map(|header| {
            let circuit = Circuit::building(LAYOUT);
            let told = Told {
                inputs: Vec::new(),
                words: Vec::new(),
                header,
            };
            let recorded = record(Recorder::new(&circuit, &[]), setting, &told);
            assert_eq!(recorded, Ok(()), "a circuit that is built refuses nothing");
            circuit.plan()
        });
        for plan in &plans {
            assert!(plan.end <= SLICES << SLICE_LOG2, "{} cells", plan.end);
        }
        Wiring { plans }
    }

    /// The entries of a matrix.
    pub(super) fn entries(&self, circuit: usize, matrix: usize) -> &[Entry] {
        let rows = &self.plans[circuit].rows;
        match matrix {
            0 => &rows.inputs,
            1 => &rows.outputs,
            _ => &rows.products[matrix - 2],
        }
    }

    /// Σ_cell 𝓜(row, cell)·weight(cell) for all rows of a matrix.
    pub(super) fn rows(&self, circuit: usize, matrix: usize, cells: &[Ext]) -> Vec<Ext> {
        let mut out = vec![Ext::ZERO; 1 << PRODUCTS_LOG2];
        for entry in self.entries(circuit, matrix) {
            out[entry.row as usize] += entry.factor * cells[entry.cell as usize];
        }
        out
    }

    /// The same of base elements.
    pub(super) fn base_rows(&self, circuit: usize, matrix: usize, cells: &[Fp]) -> Planes {
        let mut out = vec![Ext::ZERO; 1 << PRODUCTS_LOG2];
        for entry in self.entries(circuit, matrix) {
            out[entry.row as usize] += entry.factor * cells[entry.cell as usize];
        }
        Planes::from_exts(&out)
    }

    /// Σ_row weight(row)·𝓜(row, cell) for all cells that circuits use.
    pub(super) fn cells(&self, circuit: usize, matrix: usize, rows: &[Ext]) -> Vec<Ext> {
        let mut out = vec![Ext::ZERO; SLICES << SLICE_LOG2];
        for entry in self.entries(circuit, matrix) {
            out[entry.cell as usize] += entry.factor * rows[entry.row as usize];
        }
        out
    }

    /// All matrices as one polynomial, at a point of rows: a value for each cell.
    pub(super) fn at_row(&self, exec: Exec<'_>, point: &[Ext]) -> Result<Vec<Ext>, Stopped> {
        let (of_matrix, of_row) = point.split_at(1 + PARTS_LOG2);
        let (matrices, rows) = (eq_table(Ext::ONE, of_matrix), eq_table(Ext::ONE, of_row));
        let parts = exec.try_map(2 * MATRICES, |i| {
            let (circuit, matrix) = (i / MATRICES, i % MATRICES);
            (number(circuit, matrix), self.cells(circuit, matrix, &rows))
        })?;
        let mut out = vec![Ext::ZERO; 1 << CELLS_LOG2];
        for (number, part) in parts {
            for (out, x) in out.iter_mut().zip(part) {
                *out += matrices[number] * x;
            }
        }
        Ok(out)
    }

    /// The polynomial at a point of rows and one of cells.
    pub(super) fn at(&self, exec: Exec<'_>, row: &[Ext], cell: &[Ext]) -> Ext {
        let (of_matrix, of_row) = row.split_at(1 + PARTS_LOG2);
        let (matrices, rows) = (eq_table(Ext::ONE, of_matrix), eq_table(Ext::ONE, of_row));
        let cells = eq_table(Ext::ONE, cell);
        let mut total = Ext::ZERO;
        for circuit in 0..2 {
            for matrix in 0..MATRICES {
                let entries = self.entries(circuit, matrix);
                let parts = exec.map(entries.len().div_ceil(TASK), |i| {
                    let end = entries.len().min((i + 1) * TASK);
                    dot(&entries[i * TASK..end], &rows, &cells)
                });
                total += matrices[number(circuit, matrix)] * parts.into_iter().sum::<Ext>();
            }
        }
        total
    }

    /// The digest of all entries: it stands in the transcript for the circuits.
    pub(super) fn digest(&self, exec: Exec<'_>) -> Digest {
        let all: Vec<(usize, &Entry)> = (0..2 * MATRICES)
            .flat_map(|i| {
                let entries = self.entries(i / MATRICES, i % MATRICES).iter();
                entries.map(move |entry| (i, entry))
            })
            .collect();
        let leaves = merkle::compress_all(exec, all.len().next_power_of_two(), |i| {
            let Some((matrix, entry)) = all.get(i) else {
                return ([Fp::ZERO; DIGEST], [Fp::ZERO; DIGEST]);
            };
            let mut place = [Fp::ZERO; DIGEST];
            place[..4].copy_from_slice(&[
                tag(b"wire"),
                Fp::new(*matrix as u32),
                Fp::new(entry.row),
                Fp::new(entry.cell),
            ]);
            let mut factor = [Fp::ZERO; DIGEST];
            factor[..entry.factor.0.len()].copy_from_slice(&entry.factor.0);
            (place, factor)
        });
        merkle::root(exec, leaves)
    }
}

/// Σ over entries, ascending in rows, of weight(row)·factor·weight(cell).
fn dot(entries: &[Entry], rows: &[Ext], cells: &[Ext]) -> Ext {
    let mut total = Ext::ZERO;
    for row in entries.chunk_by(|a, b| a.row == b.row) {
        let terms = row.iter().map(|e| e.factor * cells[e.cell as usize]);
        total += rows[row[0].row as usize] * terms.sum::<Ext>();
    }
    total
}

/// What circuits of a relation's proofs are made for.
pub(super) fn setting(relation: &Relation) -> Setting<'_> {
    Setting {
        relation,
        leaf: &Preset::FAST,
        merge: &Preset::MERGE,
        slices: SLICES,
    }
}
