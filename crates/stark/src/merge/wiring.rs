//! The circuits of children and their matrices: built once, the same for all merges.

use alphorn_exec::{Exec, Stopped};

use super::ChildKind;
use super::child::{Header, LEAF_GROUPS_MAX, Setting, Told, record};
use super::layout::{CELLS_LOG2, CHILDREN_MAX, MATRIX_LOG2, PARTS_LOG2, SLICE_LOG2, SLICES};
use super::matrix::{Matrix, Numbering, Sources};
use super::residual::CIRCUITS;
use super::split::Bundled;
use crate::arith::DIGEST;
use crate::chains::Parameters;
use crate::circuit::{Circuit, Entry, Layout, Plan, Recorder, Rows};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::{Dispatch, KERNELS};
use crate::merkle::{self, Digest};
use crate::multilinear::eq_table;
use crate::relation::Relation;
use crate::transcript::tag;
use crate::vector::{Planes, eq_planes, eq_planes_to};
use crate::whir::Preset;

/// The matrices of rows: A, B and C.
pub(super) const PRODUCTS: usize = 3;

/// Matrices of a circuit: inputs and outputs of permutations, A, B and C.
pub(super) const MATRICES: usize = 2 + PRODUCTS;

/// The digest of the circuits of the compact set's proofs: a test computes it.
const COMPACT_KEY: [u32; DIGEST] = [
    588097328, 1060689486, 347971356, 969287941, 1022077121, 821010322, 1608092439, 906923770,
];

/// The number of the compact set's relation.
const COMPACT: u32 = Parameters::COMPACT.id;

/// The matrices of a circuit.
#[derive(Debug)]
struct Matrices {
    sources: Sources,
    all: [Matrix; MATRICES],
}

/// The circuits of each kind of children.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) plans: [Plan; CIRCUITS],
    circuits: Vec<Matrices>,
    /// The digest of all entries, which stands for the circuits in the transcript.
    pub(super) key: Digest,
}

/// The number of a matrix among all.
pub(super) fn number(circuit: usize, matrix: usize) -> usize {
    circuit << PARTS_LOG2 | matrix
}

impl Matrices {
    fn new(entries: [&[Entry]; MATRICES]) -> Matrices {
        let mut numbering = Numbering::default();
        let terms = entries.map(|entries| numbering.terms(entries));
        let sources = numbering.sources();
        let all = terms.map(|terms| Matrix::new(&terms, &sources));
        Matrices { sources, all }
    }
}

/// eq of a point of cells, for those that circuits use.
pub(super) fn used_cells(exec: Exec<'_>, point: &[Ext]) -> Planes {
    eq_planes_to(exec, Ext::ONE, point, SLICES << SLICE_LOG2)
}

impl Wiring {
    /// The circuits that verify proofs of a relation, and merges of such.
    ///
    /// # Panics
    /// If a circuit does not fit its layout: the relation is wrong as a program.
    pub(super) fn new(setting: &Setting<'_>, layout: Layout) -> Wiring {
        let headers = [
            Header::Leaf {
                groups: LEAF_GROUPS_MAX,
            },
            Header::Merged {
                level: 1,
                kinds: vec![ChildKind::Merge; CHILDREN_MAX],
            },
            Header::Bundled(Bundled::default()),
        ];
        let mut plans = headers.map(|header| {
            let circuit = Circuit::building(layout);
            let told = Told {
                inputs: Vec::new(),
                words: Vec::new(),
                header,
            };
            let recorded = record(Recorder::new(&circuit, &[]), setting, &told);
            assert_eq!(recorded, Ok(()), "a circuit that is built refuses nothing");
            circuit.plan()
        });
        let circuits = plans.iter().map(|plan| Matrices::new(entries(plan)));
        let circuits = circuits.collect();
        let key = match setting.relation.id {
            COMPACT => COMPACT_KEY.map(Fp::new),
            _ => digest(&plans),
        };
        // A test computes the pinned digest from the entries; nothing else needs them any more.
        if !cfg!(test) {
            plans
                .iter_mut()
                .for_each(|plan| plan.rows = Rows::default());
        }
        Wiring {
            circuits,
            plans,
            key,
        }
    }

    /// Σ_cell 𝓜(row, cell)·weight(cell) for all rows of the matrices, by their numbers.
    pub(super) fn rows(
        &self,
        exec: Exec<'_>,
        cells: &Planes,
    ) -> Result<Vec<(usize, Planes)>, Stopped> {
        let backend = exec.backend().fitting(cells.len());
        let values = exec.try_map(CIRCUITS, |i| {
            self.circuits[i].sources.values(backend, cells)
        })?;
        exec.try_map(CIRCUITS * MATRICES, |i| {
            let (circuit, matrix) = (i / MATRICES, i % MATRICES);
            let rows = self.circuits[circuit].all[matrix].rows(backend, &values[circuit]);
            (number(circuit, matrix), rows)
        })
    }

    /// The rows of A, B and C of a circuit with a witness.
    pub(super) fn products(
        &self,
        exec: Exec<'_>,
        circuit: usize,
        cells: &[Fp],
    ) -> [Planes; PRODUCTS] {
        let circuit = &self.circuits[circuit];
        let values = circuit.sources.values_of_base(cells);
        let backend = exec.backend().fitting(cells.len());
        std::array::from_fn(|k| circuit.all[MATRICES - PRODUCTS + k].rows(backend, &values))
    }

    /// Σ_row weight(row)·𝓜(row, cell) for all cells that circuits use.
    pub(super) fn cells(&self, circuit: usize, matrix: usize, rows: &[Ext]) -> Planes {
        let circuit = &self.circuits[circuit];
        circuit.all[matrix].cells(&circuit.sources, rows)
    }

    /// All matrices as one polynomial, at a point of rows: a value for each cell.
    pub(super) fn at_row(&self, exec: Exec<'_>, point: &[Ext]) -> Result<Planes, Stopped> {
        let (of_matrix, of_row) = point.split_at(MATRIX_LOG2);
        let (matrices, rows) = (eq_table(Ext::ONE, of_matrix), eq_table(Ext::ONE, of_row));
        let parts = exec.try_map(CIRCUITS * MATRICES, |i| {
            let (circuit, matrix) = (i / MATRICES, i % MATRICES);
            (number(circuit, matrix), self.cells(circuit, matrix, &rows))
        })?;
        let mut out = Planes::zero(SLICES << SLICE_LOG2);
        let backend = exec.backend().fitting(out.len());
        for (number, part) in &parts {
            out.add_scaled(backend, part, matrices[*number]);
        }
        let mut all = Planes::zero(1 << CELLS_LOG2);
        all.add_at(0, &out);
        Ok(all)
    }

    /// The polynomial at a point of rows and one of cells.
    pub(super) fn at(&self, exec: Exec<'_>, row: &[Ext], cell: &[Ext]) -> Ext {
        let (of_matrix, of_row) = row.split_at(MATRIX_LOG2);
        let matrices = eq_table(Ext::ONE, of_matrix);
        let rows = eq_planes(exec, Ext::ONE, of_row);
        let cells = used_cells(exec, cell);
        let backend = exec.backend().fitting(cells.len());
        let values = exec.map(CIRCUITS, |i| {
            self.circuits[i].sources.values(backend, &cells)
        });
        let values = exec.map(CIRCUITS * MATRICES, |i| {
            let (circuit, matrix) = (i / MATRICES, i % MATRICES);
            let of_matrix = &self.circuits[circuit].all[matrix];
            let value = of_matrix.at(backend, &rows, &values[circuit]);
            matrices[number(circuit, matrix)] * value
        });
        values.into_iter().sum()
    }

    /// Changes one coefficient, as a prover with circuits of its own would.
    #[cfg(test)]
    pub(super) fn change_an_entry(&mut self) {
        self.circuits[0].all[2].change_an_entry();
    }
}

/// The digest of all entries.
pub(super) fn digest(plans: &[Plan]) -> Digest {
    let exec = Exec::new(KERNELS.measured(), None);
    let all: Vec<(usize, &Entry)> = plans
        .iter()
        .flat_map(entries)
        .enumerate()
        .flat_map(|(i, entries)| entries.iter().map(move |entry| (i, entry)))
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
        factor[..DEGREE].copy_from_slice(&entry.factor.0);
        (place, factor)
    });
    merkle::root(exec, leaves)
}

/// The entries of each matrix of a circuit.
fn entries(plan: &Plan) -> [&[Entry]; MATRICES] {
    let [a, b, c] = &plan.rows.products;
    [&plan.rows.inputs, &plan.rows.outputs, a, b, c]
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
