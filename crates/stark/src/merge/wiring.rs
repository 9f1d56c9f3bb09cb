//! The circuits of children and their matrices: built once, the same for all merges.

use std::collections::BTreeMap;

use super::child::{Header, LEAF_GROUPS_MAX, Setting, Told, record};
use super::layout::{CELLS_LOG2, CHILDREN_MAX, PARTS_LOG2, PRODUCTS_LOG2, SLICE_LOG2, SLICES};
use super::residual::CIRCUITS;
use crate::arith::DIGEST;
use crate::chains::Parameters;
use crate::circuit::{Circuit, Entry, Layout, Plan, Recorder, Rows};
use crate::exec::{Exec, Stopped};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::Backend;
use crate::merkle::{self, Digest};
use crate::multilinear::eq_table;
use crate::relation::Relation;
use crate::transcript::tag;
use crate::vector::{Planes, eq_planes};
use crate::whir::{Preset, Product};

/// Matrices of a circuit: inputs and outputs of permutations, A, B and C.
pub(super) const MATRICES: usize = 5;

/// The digest of the circuits of the compact set's proofs: a test computes it.
const COMPACT_KEY: [u32; DIGEST] = [
    2060140182, 1584679793, 764327232, 1943090012, 1859124656, 605212671, 2037579717, 1981683561,
];

/// The number of the compact set's relation.
const COMPACT: u32 = Parameters::COMPACT.id;

/// scale · X^power · (a cell, or a variable) in a row.
#[derive(Clone, Copy, Debug)]
struct Term {
    row: u32,
    /// A cell, or the place of a variable in the matrix' list.
    at: u32,
    scale: Fp,
    power: u8,
    variable: bool,
}

/// A sparse matrix, ascending in rows. Most of its entries belong to variables of five cells, whose
/// coefficients are 1, X, …, X^4 times one: they are one term.
#[derive(Clone, Debug, Default)]
struct Matrix {
    /// The first cells of the variables.
    variables: Vec<u32>,
    terms: Vec<Term>,
}

/// Both circuits: that of leaves, that of merges.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) plans: [Plan; 2],
    matrices: Vec<Matrix>,
    /// The digest of all entries, which stands for the circuits in the transcript.
    pub(super) key: Digest,
}

/// The number of a matrix among all.
pub(super) fn number(circuit: usize, matrix: usize) -> usize {
    circuit << PARTS_LOG2 | matrix
}

/// X · x.
fn times_x(x: Ext) -> Ext {
    let [a, b, c, d, e] = x.0;
    Ext([e, a, b - e, c, d])
}

/// scale · X^power · x.
fn scaled(x: Ext, term: &Term) -> Ext {
    let mut x = x;
    for _ in 0..term.power {
        x = times_x(x);
    }
    match term.scale {
        Fp::ONE => x,
        scale => x.scale(scale),
    }
}

/// The value of a variable: Σ_t X^t·x_t.
fn variable(x: &[Ext]) -> Ext {
    let (last, rest) = x
        .split_last()
        .map_or((Ext::ZERO, x), |(x, rest)| (*x, rest));
    rest.iter().rev().fold(last, |sum, x| times_x(sum) + *x)
}

impl Matrix {
    fn new(entries: &[Entry]) -> Matrix {
        let mut matrix = Matrix::default();
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        let mut rest = entries;
        while let Some(first) = rest.first() {
            let of_variable = rest.get(..DEGREE).filter(|five| {
                let mut factor = first.factor;
                five.iter().enumerate().all(|(t, entry)| {
                    let same = entry.row == first.row && entry.cell == first.cell + t as u32;
                    let fits = same && entry.factor == factor;
                    factor = times_x(factor);
                    fits
                })
            });
            let (at, used) = match of_variable {
                None => (first.cell, 1),
                Some(_) => {
                    let next = matrix.variables.len() as u32;
                    let number = *numbers.entry(first.cell).or_insert(next);
                    if number == next {
                        matrix.variables.push(first.cell);
                    }
                    (number, DEGREE)
                }
            };
            for (power, scale) in first.factor.0.into_iter().enumerate() {
                if scale != Fp::ZERO {
                    matrix.terms.push(Term {
                        row: first.row,
                        at,
                        scale,
                        power: power as u8,
                        variable: used > 1,
                    });
                }
            }
            rest = &rest[used..];
        }
        matrix
    }

    /// The values of the variables.
    fn variables_of(&self, cells: &[Ext]) -> Vec<Ext> {
        let of_variable = |first: &u32| variable(&cells[*first as usize..][..DEGREE]);
        self.variables.iter().map(of_variable).collect()
    }

    /// Matrix · cells.
    fn rows(&self, cells: &[Ext]) -> Vec<Ext> {
        let variables = self.variables_of(cells);
        let mut out = vec![Ext::ZERO; 1 << PRODUCTS_LOG2];
        for term in &self.terms {
            let values = if term.variable { &variables[..] } else { cells };
            out[term.row as usize] += scaled(values[term.at as usize], term);
        }
        out
    }

    /// Matrix · cells of base elements.
    fn base_rows(&self, cells: &[Fp]) -> Vec<Ext> {
        let mut out = vec![Ext::ZERO; 1 << PRODUCTS_LOG2];
        for term in &self.terms {
            let at = term.at as usize;
            let value = match term.variable {
                true => {
                    let first = self.variables[at] as usize;
                    Ext(std::array::from_fn(|t| cells[first + t]))
                }
                false => Ext::from(cells[at]),
            };
            out[term.row as usize] += scaled(value, term);
        }
        out
    }

    /// Rows · matrix, for the cells that circuits use.
    fn cells(&self, rows: &[Ext]) -> Vec<Ext> {
        let mut out = vec![Ext::ZERO; SLICES << SLICE_LOG2];
        let mut variables = vec![Ext::ZERO; self.variables.len()];
        for term in &self.terms {
            let value = scaled(rows[term.row as usize], term);
            match term.variable {
                true => variables[term.at as usize] += value,
                false => out[term.at as usize] += value,
            }
        }
        for (first, value) in self.variables.iter().zip(variables) {
            let mut value = value;
            for out in &mut out[*first as usize..][..DEGREE] {
                *out += value;
                value = times_x(value);
            }
        }
        out
    }

    /// Rows · matrix · cells. The sums of rows lie in planes, so that the kernel multiplies them by the
    /// weights of rows many at a time.
    fn at(&self, exec: Exec<'_>, rows: &Planes, cells: &Planes) -> Ext {
        let of_variable = |first: &u32| {
            let five: [Ext; DEGREE] = std::array::from_fn(|t| cells.get(*first as usize + t));
            variable(&five)
        };
        let variables: Vec<Ext> = self.variables.iter().map(of_variable).collect();
        let mut sums = Planes::zero(rows.len());
        for row in self.terms.chunk_by(|a, b| a.row == b.row) {
            let value = |term: &Term| match term.variable {
                true => scaled(variables[term.at as usize], term),
                false => scaled(cells.get(term.at as usize), term),
            };
            sums.set(row[0].row as usize, row.iter().map(value).sum());
        }
        exec.backend_for(rows.len()).run(Product(&sums, rows))
    }
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
                merged: vec![true; CHILDREN_MAX],
            },
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
        let matrices = plans.iter().flat_map(|plan| {
            let all = entries(plan).into_iter();
            all.map(Matrix::new).collect::<Vec<_>>()
        });
        let matrices = matrices.collect();
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
            matrices,
            plans,
            key,
        }
    }

    fn matrix(&self, circuit: usize, matrix: usize) -> &Matrix {
        &self.matrices[circuit * MATRICES + matrix]
    }

    /// Σ_cell 𝓜(row, cell)·weight(cell) for all rows of a matrix.
    pub(super) fn rows(&self, circuit: usize, matrix: usize, cells: &[Ext]) -> Planes {
        Planes::from_exts(&self.matrix(circuit, matrix).rows(cells))
    }

    /// The same of base elements.
    pub(super) fn base_rows(&self, circuit: usize, matrix: usize, cells: &[Fp]) -> Planes {
        Planes::from_exts(&self.matrix(circuit, matrix).base_rows(cells))
    }

    /// Σ_row weight(row)·𝓜(row, cell) for all cells that circuits use.
    pub(super) fn cells(&self, circuit: usize, matrix: usize, rows: &[Ext]) -> Planes {
        Planes::from_exts(&self.matrix(circuit, matrix).cells(rows))
    }

    /// All matrices as one polynomial, at a point of rows: a value for each cell.
    pub(super) fn at_row(&self, exec: Exec<'_>, point: &[Ext]) -> Result<Planes, Stopped> {
        let (of_matrix, of_row) = point.split_at(1 + PARTS_LOG2);
        let (matrices, rows) = (eq_table(Ext::ONE, of_matrix), eq_table(Ext::ONE, of_row));
        let parts = exec.try_map(CIRCUITS * MATRICES, |i| {
            let (circuit, matrix) = (i / MATRICES, i % MATRICES);
            (number(circuit, matrix), self.cells(circuit, matrix, &rows))
        })?;
        let mut out = Planes::zero(SLICES << SLICE_LOG2);
        let backend = exec.backend_for(out.len());
        for (number, part) in &parts {
            out.add_scaled(backend, part, matrices[*number]);
        }
        let mut all = Planes::zero(1 << CELLS_LOG2);
        all.add_at(0, &out);
        Ok(all)
    }

    /// The polynomial at a point of rows and one of cells.
    pub(super) fn at(&self, exec: Exec<'_>, row: &[Ext], cell: &[Ext]) -> Ext {
        let (of_matrix, of_row) = row.split_at(1 + PARTS_LOG2);
        let matrices = eq_table(Ext::ONE, of_matrix);
        let rows = eq_planes(exec, Ext::ONE, of_row);
        let cells = eq_planes(exec, Ext::ONE, cell);
        let values = exec.map(self.matrices.len(), |i| {
            let weight = matrices[number(i / MATRICES, i % MATRICES)];
            weight * self.matrices[i].at(exec, &rows, &cells)
        });
        values.into_iter().sum()
    }

    /// Changes one coefficient, as a prover with circuits of its own would.
    #[cfg(test)]
    pub(super) fn change_an_entry(&mut self) {
        self.matrices[2].terms[100].scale += Fp::ONE;
    }
}

/// The digest of all entries.
pub(super) fn digest(plans: &[Plan]) -> Digest {
    let exec = Exec::new(Backend::measured(), None);
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
