//! The cells of a group while it is filled: every hash is that of a row of the relation, and its trace is kept.

use alphorn_exec::Exec;

use crate::field::Fp;
use crate::poseidon::{RowTrace, WIDTH_16, WIDTH_24};
use crate::relation::{Part, Relation, UNIT_ROWS};

/// A cell of a group's instance that is changed while it is filled.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellLie {
    pub(crate) cell: usize,
    pub(crate) instance: usize,
    pub(crate) delta: Fp,
}

/// A step of a chain: its chain and position, and where its input comes from.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) chain: usize,
    pub(super) position: usize,
    pub(super) tip: bool,
    pub(super) end: bool,
}

/// The steps required by digits, up to position 7 of each chain.
pub(super) fn steps(digits: impl Iterator<Item = usize>) -> Vec<Step> {
    let of_chain = |(chain, digit): (usize, usize)| {
        (digit..7).map(move |position| Step {
            chain,
            position,
            tip: position == digit,
            end: position == 6,
        })
    };
    digits.enumerate().flat_map(of_chain).collect()
}

/// The cells of a group.
pub(super) struct Cells<'a> {
    relation: &'a Relation,
    exec: Exec<'a>,
    publics: &'a [Fp],
    lanes: usize,
    cells: Vec<Fp>,
    /// The rows of each width that have been permuted.
    traced: Vec<(Part, Vec<Option<RowTrace>>)>,
    #[cfg(test)]
    pub(super) lies: Vec<CellLie>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(relation: &'a Relation, exec: Exec<'a>, publics: &'a [Fp]) -> Cells<'a> {
        let lanes = relation.shape.lanes();
        let traced = relation.parts(1).into_iter().map(|part| {
            let rows = part.units.places.len() * UNIT_ROWS;
            (part, (0..rows).map(|_| None).collect())
        });
        Cells {
            relation,
            traced: traced.collect(),
            exec,
            publics,
            lanes,
            cells: vec![Fp::ZERO; relation.cells * lanes],
            #[cfg(test)]
            lies: Vec::new(),
        }
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    pub(super) fn public(&self, i: usize) -> Fp {
        self.publics[i]
    }

    pub(super) fn set(&mut self, cell: usize, lane: usize, value: Fp) {
        self.cells[cell * self.lanes + lane] = value;
        #[cfg(test)]
        for lie in &self.lies {
            if lie.cell == cell && lie.instance == lane {
                self.cells[cell * self.lanes + lane] = value + lie.delta;
            }
        }
    }

    /// Sets cells of a lane to values, each by its index.
    pub(super) fn set_all(&mut self, lane: usize, values: &[Fp], cell: impl Fn(usize) -> usize) {
        for (x, value) in values.iter().enumerate() {
            self.set(cell(x), lane, *value);
        }
    }

    pub(super) fn get(&self, cell: usize, lane: usize) -> Fp {
        self.cells[cell * self.lanes + lane]
    }

    pub(super) fn get_all<const N: usize>(
        &self,
        lane: usize,
        cell: impl Fn(usize) -> usize,
    ) -> [Fp; N] {
        std::array::from_fn(|x| self.get(cell(x), lane))
    }

    /// Permutes a row whose cells are set.
    fn permute(&mut self, number: usize) -> Option<&RowTrace> {
        let holds = |(part, _): &&mut (Part, _)| part.rows.contains(&number);
        let (part, rows) = self.traced.iter_mut().find(holds)?;
        let (at, kind) = (part.row_of_group(number)?, part.units.kind);
        let mut inputs = vec![Fp::ZERO; kind.lanes() * self.lanes];
        // A row that is none permutes zeros.
        if let Some(row) = &self.relation.rows[number] {
            let inputs = inputs.chunks_exact_mut(self.lanes);
            for (form, out) in row.inputs.iter().zip(inputs) {
                form.add_to(self.publics, &self.cells, out);
            }
        }
        // The trace is kept: the proof needs all states of a permutation of which filling needs only the output.
        let row = RowTrace::new(kind, self.exec.backend(), self.lanes, inputs);
        Some(rows[at].insert(row))
    }

    /// The outputs of a row in all instances.
    fn outputs<const T: usize>(&mut self, number: usize) -> Vec<[Fp; T]> {
        let (lanes, relation) = (self.lanes, self.relation);
        let Some(row) = &relation.rows[number] else {
            return Vec::new();
        };
        let mut states = vec![[Fp::ZERO; T]; lanes];
        let Some(permuted) = self.permute(number) else {
            return states;
        };
        let [inputs, outputs] = permuted.ends().map(|all| all.chunks_exact(lanes));
        for (i, (inputs, outputs)) in inputs.zip(outputs).enumerate() {
            for ((state, output), input) in states.iter_mut().zip(outputs).zip(inputs) {
                state[i] = match row.feed_forward {
                    true => *output + *input,
                    false => *output,
                };
            }
        }
        states
    }

    /// The outputs of a row of width 16 in all instances.
    pub(super) fn narrow(&mut self, row: usize) -> Vec<[Fp; WIDTH_16]> {
        self.outputs(row)
    }

    /// The outputs of a row of width 24 in all instances.
    pub(super) fn wide(&mut self, row: usize) -> Vec<[Fp; WIDTH_24]> {
        self.outputs(row)
    }

    /// The cells, and the permutations of all rows of each width.
    pub(super) fn finish(mut self) -> (Vec<Fp>, Vec<Vec<RowTrace>>) {
        let rows = self.traced.iter().flat_map(|(part, rows)| {
            let left = |row: &usize| part.row_of_group(*row).is_some_and(|at| rows[at].is_none());
            part.rows.clone().filter(left)
        });
        // Rows not requested so far, including permutations of zeros.
        for row in rows.collect::<Vec<usize>>() {
            self.permute(row);
        }
        let traced = self.traced.into_iter();
        let traced = traced.map(|(_, rows)| rows.into_iter().flatten().collect());
        (self.cells, traced.collect())
    }
}
