//! The cells of a group, being filled: every hash is that of a row of the relation.

use alphorn_exec::Exec;

use crate::field::Fp;
use crate::poseidon::{Permutations, WIDTH_16, WIDTH_24};
use crate::relation::{Relation, Row};

/// A cell of an instance of a group that is changed when it is filled.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellLie {
    pub(crate) cell: usize,
    pub(crate) instance: usize,
    pub(crate) delta: Fp,
}

/// A step of a chain: its chain and position, and what it begins from.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) chain: usize,
    pub(super) position: usize,
    pub(super) tip: bool,
    pub(super) end: bool,
}

/// The steps that digits ask for, to position 7 of each chain.
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
    #[cfg(test)]
    pub(super) lies: Vec<CellLie>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(relation: &'a Relation, exec: Exec<'a>, publics: &'a [Fp]) -> Cells<'a> {
        let lanes = relation.shape.lanes();
        Cells {
            relation,
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

    /// Sets cells of a lane to values, by the number of each.
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

    /// What a row permutes, in all instances.
    fn inputs<const T: usize>(&self, row: &Row) -> Vec<[Fp; T]> {
        let mut states = vec![[Fp::ZERO; T]; self.lanes];
        let mut column = vec![Fp::ZERO; self.lanes];
        for (i, form) in row.inputs.iter().enumerate() {
            column.fill(Fp::ZERO);
            form.add_to(self.publics, &self.cells, &mut column);
            for (state, x) in states.iter_mut().zip(&column) {
                state[i] = *x;
            }
        }
        states
    }

    /// The outputs of a row of width 16 in all instances.
    pub(super) fn narrow(&self, row: usize) -> Vec<[Fp; WIDTH_16]> {
        let Some(row) = &self.relation.rows[row] else {
            return Vec::new();
        };
        let mut states = self.inputs(row);
        match row.feed_forward {
            true => self.exec.backend().compress_16(&mut states),
            false => self.exec.backend().permute_16(&mut states),
        }
        states
    }

    /// The outputs of a row of width 24 in all instances.
    pub(super) fn wide(&self, row: usize) -> Vec<[Fp; WIDTH_24]> {
        let Some(row) = &self.relation.rows[row] else {
            return Vec::new();
        };
        let mut states = self.inputs(row);
        match row.feed_forward {
            true => self.exec.backend().compress_24(&mut states),
            false => self.exec.backend().permute_24(&mut states),
        }
        states
    }

    pub(super) fn into_cells(self) -> Vec<Fp> {
        self.cells
    }
}
