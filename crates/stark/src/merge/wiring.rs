//! The circuits of children and their matrices: built once and shared by all merges.

use alphorn_exec::{Backend, Exec, Stopped};

use super::ChildKind;
use super::cells::CellWeights;
use super::child::record;
use super::hints::{Bundled, Header, Hints};
use super::lanes::LaneMatrices;
use super::layout::{CELLS_LOG2, CHILDREN_MAX, Dimensions, MATRIX_LOG2, PARTS_LOG2};
use super::matrix::{Matrix, Numbering};
use super::residual::CIRCUITS;
use super::sources::Sources;
use crate::chains::Parameters;
use crate::chains::lean::LeanParameters;
use crate::circuit::{Circuit, Entry, IN_LANE, Layout, Plan, Recorder, Rows, place};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::hash::{DIGEST, Digest};
use crate::kernel::Dispatch;
use crate::merge::gadgets::Setting;
use crate::merkle;
use crate::multilinear::eq_table;
use crate::poseidon::kernels::KERNELS;
use crate::relation::Relation;
use crate::transcript::tag;
use crate::vector::{Planes, eq_planes};
use crate::whir::Preset;

/// The matrices of rows: A, B and C.
pub(super) const PRODUCTS: usize = 3;

/// Matrices of a circuit: inputs and outputs of permutations, A, B and C.
pub(super) const MATRICES: usize = 2 + PRODUCTS;

/// The pinned digests of the circuits of the sets that protocols use, by the numbers of their relations. Tests
/// compute them, which takes seconds.
const PINNED: [(u32, [u32; DIGEST]); 2] = [
    (
        Parameters::COMPACT.id,
        [
            1096010538, 1328732848, 1841558587, 2011624068, 34614874, 59285719, 1314864627,
            1906042917,
        ],
    ),
    (
        LeanParameters::PROD.id,
        [
            450292738, 1914715395, 874613688, 1814010205, 1196948528, 976212343, 285172120,
            1920929975,
        ],
    ),
];

/// The digest of the circuits of a relation, if it is pinned.
pub(super) fn pinned(relation: u32) -> Option<Digest> {
    let mut pinned = PINNED.iter();
    let found = pinned.find(|(id, _)| *id == relation);
    found.map(|(_, key)| key.map(Fp::new))
}

/// The matrices of a circuit: of the part outside lanes, and of each section of lanes.
#[derive(Debug)]
struct Matrices {
    sources: Sources,
    all: [Matrix; MATRICES],
    sections: Vec<LaneMatrices<MATRICES>>,
}

/// The values of a circuit, outside lanes and in the lanes of each section.
struct Values {
    list: Planes,
    sections: Vec<Planes>,
}

/// The circuits of each kind of children.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) plans: [Plan; CIRCUITS],
    circuits: Vec<Matrices>,
    /// Maximum number of cells that they use.
    cells: usize,
    /// The distances between cells of variables in lanes.
    distances: Vec<usize>,
    /// The digest of all entries, which represents the circuits in the transcript.
    pub(super) key: Digest,
}

/// The number of a matrix among all.
pub(super) fn number(circuit: usize, matrix: usize) -> usize {
    circuit << PARTS_LOG2 | matrix
}

impl Matrices {
    fn new(plan: &Plan) -> Matrices {
        let mut numbering = Numbering::default();
        let terms = entries(&plan.rows).map(|entries| numbering.terms(entries));
        let sources = numbering.sources();
        let all = terms.map(|terms| Matrix::new(&terms, &sources));
        let sections = plan.sections.iter().map(|section| {
            let entries = entries(&section.rows);
            LaneMatrices::new(&plan.sections, section, entries)
        });
        Matrices {
            sources,
            all,
            sections: sections.collect(),
        }
    }

    /// The values, with weights as the contents of cells.
    fn values(&self, backend: Backend, cells: &CellWeights) -> Values {
        let sections = self.sections.iter();
        Values {
            list: self.sources.values(backend, cells),
            sections: sections.map(|s| s.values(backend, cells)).collect(),
        }
    }

    /// The values of a witness.
    fn values_of_base(&self, backend: Backend, cells: &[Fp]) -> Values {
        let sections = self.sections.iter();
        Values {
            list: self.sources.values_of_base(cells),
            sections: sections.map(|s| s.values_of_base(backend, cells)).collect(),
        }
    }

    /// Matrix · values.
    fn rows(&self, backend: Backend, matrix: usize, values: &Values) -> Planes {
        let mut rows = self.all[matrix].rows(backend, &values.list);
        for (section, values) in self.sections.iter().zip(&values.sections) {
            section.add_rows(backend, matrix, values, &mut rows);
        }
        rows
    }

    /// Rows · matrix: the weight of each value.
    fn weighed(&self, backend: Backend, matrix: usize, rows: &Planes) -> Weighed {
        let list = self.all[matrix].weighed(&self.sources, rows);
        let sections = self.sections.iter();
        let sections = sections.map(|section| section.weighed(backend, matrix, rows));
        Weighed(
            std::iter::once(Planes::from_exts(&list))
                .chain(sections)
                .collect(),
        )
    }

    /// Distributes weights of values to the cells that circuits use.
    fn spread(&self, backend: Backend, weighed: &Weighed, cells: usize) -> Planes {
        let mut cells = Planes::zero(cells);
        let [list, sections @ ..] = &weighed.0[..] else {
            return cells;
        };
        self.sources.spread(list, &mut cells);
        for (section, values) in self.sections.iter().zip(sections) {
            section.spread(backend, values, &mut cells);
        }
        cells
    }
}

/// The weights of a circuit's values: those outside lanes, and those of each section.
#[derive(Clone, Debug)]
pub(super) struct Weighed(Vec<Planes>);

/// The circuits with nonzero weight, from the weights of matrices by their numbers.
fn circuits(matrices: &[Ext]) -> Vec<usize> {
    let weighs =
        |circuit: &usize| (0..MATRICES).any(|m| matrices[number(*circuit, m)] != Ext::ZERO);
    (0..CIRCUITS).filter(weighs).collect()
}

impl Wiring {
    /// The circuits that verify proofs of a relation, and merges of such proofs.
    ///
    /// # Panics
    /// If a circuit does not fit its layout, which is a programming error in the relation.
    pub(super) fn new(setting: &Setting<'_>, layout: Layout) -> Wiring {
        let headers = [
            Header::Leaf {
                groups: setting.dimensions.leaf_groups,
            },
            Header::Merged {
                level: 1,
                kinds: vec![ChildKind::Merge; CHILDREN_MAX],
            },
            Header::Bundled(Bundled::default()),
        ];
        let mut plans = headers.map(|header| {
            let circuit = Circuit::building(layout);
            let hints = Hints {
                inputs: Vec::new(),
                words: Vec::new(),
                header,
            };
            // Recorded without any proof: everything read is zero, and since the verifier never branches on a
            // value, the rows are those of every proof.
            let recorded = record(Recorder::new(&circuit, &[]), setting, &hints);
            assert_eq!(recorded, Ok(()), "a circuit that is built refuses nothing");
            circuit.plan()
        });
        let circuits: Vec<Matrices> = plans.iter().map(Matrices::new).collect();
        let sections = circuits.iter().flat_map(|circuit| &circuit.sections);
        let mut distances: Vec<usize> = sections.map(LaneMatrices::lanes).collect();
        distances.sort_unstable();
        distances.dedup();
        // The digest represents three and a half million coefficients. Hashing them takes longer than a
        // verification, so those in use are constants that a test computes.
        let key = pinned(setting.relation.id).unwrap_or_else(|| digest(&plans));
        // A test computes the pinned digest from the entries; they are not needed for anything else.
        if !cfg!(test) {
            for plan in &mut plans {
                plan.rows = Rows::default();
                plan.sections.clear();
            }
        }
        Wiring {
            circuits,
            cells: setting.dimensions.cells(),
            distances,
            plans,
            key,
        }
    }

    /// eq of a point of cells.
    pub(super) fn used_cells(&self, exec: Exec<'_>, point: &[Ext]) -> CellWeights {
        CellWeights::new(exec, point, &self.distances)
    }

    /// Σ_cell 𝓜(row, cell)·weight(cell) for all rows of the matrices of the first circuits, by their numbers.
    pub(super) fn rows(
        &self,
        exec: Exec<'_>,
        circuits: usize,
        cells: &CellWeights,
    ) -> Result<Vec<(usize, Planes)>, Stopped> {
        let backend = exec.backend();
        let values = exec.try_map(circuits, |i| self.circuits[i].values(backend, cells))?;
        exec.try_map(circuits * MATRICES, |i| {
            let (circuit, matrix) = (i / MATRICES, i % MATRICES);
            let rows = self.circuits[circuit].rows(backend, matrix, &values[circuit]);
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
        let backend = exec.backend().fitting(cells.len());
        let values = circuit.values_of_base(backend, cells);
        std::array::from_fn(|k| circuit.rows(backend, MATRICES - PRODUCTS + k, &values))
    }

    /// The weights that a matrix's row weights give to the values of its circuit.
    pub(super) fn weighed(
        &self,
        exec: Exec<'_>,
        circuit: usize,
        matrix: usize,
        rows: &Planes,
    ) -> Weighed {
        let backend = exec.backend().fitting(rows.len());
        self.circuits[circuit].weighed(backend, matrix, rows)
    }

    /// Σ_row weight(row)·𝓜(row, cell) for all cells that circuits use, over the matrices of a circuit with
    /// factors.
    pub(super) fn cells<'a>(
        &self,
        exec: Exec<'_>,
        circuit: usize,
        parts: impl IntoIterator<Item = (&'a Weighed, Ext)>,
    ) -> Planes {
        let mut sum: Option<Weighed> = None;
        for (weighed, factor) in parts {
            let sum = sum.get_or_insert_with(|| {
                let zero = weighed.0.iter().map(|values| Planes::zero(values.len()));
                Weighed(zero.collect())
            });
            for (sum, values) in sum.0.iter_mut().zip(&weighed.0) {
                let backend = exec.backend().fitting(values.len());
                sum.add_scaled(backend, values, factor);
            }
        }
        let backend = exec.backend().fitting(self.cells);
        match sum {
            Some(sum) => self.circuits[circuit].spread(backend, &sum, self.cells),
            None => Planes::zero(self.cells),
        }
    }

    /// All matrices as one polynomial, at a point of rows: a value for each cell.
    pub(super) fn at_row(&self, exec: Exec<'_>, point: &[Ext]) -> Result<Planes, Stopped> {
        let (of_matrix, of_row) = point.split_at(MATRIX_LOG2);
        let matrices = eq_table(Ext::ONE, of_matrix);
        let rows = eq_planes(exec, Ext::ONE, of_row);
        // For a root of leaves alone, the circuit coordinates of its point are zero: two of three circuits have
        // weight zero and are not evaluated.
        let circuits = circuits(&matrices);
        let weighed = exec.try_map(circuits.len() * MATRICES, |i| {
            self.weighed(exec, circuits[i / MATRICES], i % MATRICES, &rows)
        })?;
        let parts = exec.try_map(circuits.len(), |i| {
            let of_circuit = weighed[i * MATRICES..][..MATRICES].iter().enumerate();
            let factor = |m: usize| matrices[number(circuits[i], m)];
            let of_circuit = of_circuit.map(|(m, w)| (w, factor(m)));
            self.cells(exec, circuits[i], of_circuit)
        })?;
        let mut all = Planes::zero(1 << CELLS_LOG2);
        parts.iter().for_each(|part| all.add_at(0, part));
        Ok(all)
    }

    /// The polynomial at a point of rows and one of cells.
    pub(super) fn at(&self, exec: Exec<'_>, row: &[Ext], cell: &[Ext]) -> Ext {
        let (of_matrix, of_row) = row.split_at(MATRIX_LOG2);
        let matrices = eq_table(Ext::ONE, of_matrix);
        let rows = eq_planes(exec, Ext::ONE, of_row);
        let backend = exec.backend();
        let cells = &self.used_cells(exec, cell);
        let circuits = circuits(&matrices);
        let factors = |i: usize| std::array::from_fn(|m| matrices[number(circuits[i], m)]);
        // The values outside lanes, for all matrices; what is in lanes is done at once.
        let tasks: Vec<(usize, Option<&LaneMatrices<MATRICES>>)> = (0..circuits.len())
            .flat_map(|i| {
                let sections = self.circuits[circuits[i]].sections.iter().map(Some);
                std::iter::once(None).chain(sections).map(move |s| (i, s))
            })
            .collect();
        let done = exec.map(tasks.len(), |task| match tasks[task] {
            (i, Some(section)) => Err(section.at(backend, &factors(i), &rows, cells)),
            (i, None) => Ok(self.circuits[circuits[i]].sources.values(backend, cells)),
        });
        let of_lanes: Ext = done
            .iter()
            .filter_map(|task| task.as_ref().err())
            .copied()
            .sum();
        let lists: Vec<&Planes> = done.iter().filter_map(|task| task.as_ref().ok()).collect();
        let values = exec.map(circuits.len() * MATRICES, |i| {
            let (i, matrix) = (i / MATRICES, i % MATRICES);
            let value = self.circuits[circuits[i]].all[matrix].at(backend, &rows, lists[i]);
            matrices[number(circuits[i], matrix)] * value
        });
        values.into_iter().sum::<Ext>() + of_lanes
    }

    /// Changes one coefficient, like a prover with circuits of its own.
    #[cfg(test)]
    pub(super) fn change_an_entry(&mut self) {
        self.circuits[0].all[2].change_an_entry();
    }
}

/// The digest of all entries, those of lanes only once, with the number of lanes.
pub(super) fn digest(plans: &[Plan]) -> Digest {
    let exec = Exec::new(KERNELS.measured(), None);
    let mut all: Vec<(usize, &Plan, usize, &Entry)> = Vec::new();
    for (circuit, plan) in plans.iter().enumerate() {
        let sections = plan.sections.iter().map(|s| (s.lanes, &s.rows));
        for (lanes, rows) in std::iter::once((1, &plan.rows)).chain(sections) {
            for (matrix, entries) in entries(rows).into_iter().enumerate() {
                let number = number(circuit, matrix);
                all.extend(entries.iter().map(|entry| (number, plan, lanes, entry)));
            }
        }
    }
    let leaves = merkle::compress_all(exec, all.len().next_power_of_two(), |i| {
        let Some((matrix, plan, lanes, entry)) = all.get(i) else {
            return ([Fp::ZERO; DIGEST], [Fp::ZERO; DIGEST]);
        };
        // A cell that each lane has is followed by those of the other lanes; a shared one is the same in all. The
        // digest covers the lanes' common part only once, so it must say whether a cell advances with the lane:
        // both readings would have the same entries.
        let step = entry.cell & IN_LANE != 0;
        let place = [
            tag(b"wire"),
            Fp::new(*matrix as u32),
            Fp::new(entry.row),
            Fp::new(place(&plan.sections, entry.cell)),
            Fp::new(*lanes as u32),
            Fp::new(u32::from(step)),
        ];
        let mut left = [Fp::ZERO; DIGEST];
        left[..place.len()].copy_from_slice(&place);
        let mut factor = [Fp::ZERO; DIGEST];
        factor[..DEGREE].copy_from_slice(&entry.factor.0);
        (left, factor)
    });
    merkle::root(exec, leaves)
}

/// The entries of each matrix.
fn entries(rows: &Rows) -> [&[Entry]; MATRICES] {
    let [a, b, c] = &rows.products;
    [&rows.inputs, &rows.outputs, a, b, c]
}

/// The setting for which circuits of a relation's proofs are made.
pub(super) fn setting(relation: &Relation) -> Setting<'_> {
    Setting {
        relation,
        leaf: &Preset::FAST,
        merge: &Preset::MERGE,
        dimensions: Dimensions::of(relation),
    }
}
