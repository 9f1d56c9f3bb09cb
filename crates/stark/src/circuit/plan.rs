//! A built circuit: its layout and its rows, with those of lanes once for all lanes.

use std::ops::Range;

use super::Id;
use crate::extension::Ext;

/// Layout of a circuit's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Number of all cells.
    pub(crate) cells: usize,
    /// The cell that holds one.
    pub(crate) one: usize,
    /// The first cell that is free for variables.
    pub(crate) free: usize,
    /// Maximum number of permutations.
    pub(crate) permutations: usize,
    /// Maximum number of rows.
    pub(crate) rows: usize,
    /// A linear form with more cells than this becomes a variable when it is used.
    pub(crate) form_max: usize,
}

/// Cell `cell` has component `component` of the value of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellValue {
    pub(crate) cell: u32,
    pub(crate) node: Id,
    pub(crate) component: usize,
}

/// A coefficient of a sparse matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The row.
    pub(crate) row: u32,
    /// The cell.
    pub(crate) cell: u32,
    /// The coefficient.
    pub(crate) factor: Ext,
}

/// The matrices of a circuit with room for P permutations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Row P·i + p: input i of permutation p.
    pub(crate) inputs: Vec<Entry>,
    /// Row P·i + p: output i of permutation p, without the input.
    pub(crate) outputs: Vec<Entry>,
    /// A, B, C of the rows (A·z)(B·z) = C·z.
    pub(crate) products: [Vec<Entry>; 3],
}

/// The built circuit.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) layout: Layout,
    pub(crate) places: Vec<CellValue>,
    /// The rows that are in no lane.
    pub(crate) rows: Rows,
    pub(crate) sections: Vec<Section>,
    /// Positions of the permutations of a run, in its order.
    pub(crate) permuted: Vec<u32>,
    /// One past the last used cell.
    pub(crate) end: usize,
}

/// Set in the number of a lane's cell; the lane and the number among the cells of one lane follow.
pub(crate) const IN_LANE: u32 = 1 << 31;

/// Number of bits for the number of a cell within a lane.
pub(super) const NUMBER_BITS: u32 = 20;

/// Rows, permutations and cells of many lanes: those of the first lane, and their positions.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) lanes: usize,
    /// Rows of the first lane, by position; the position of lane l is l further. The same holds for cells whose
    /// numbers have [`IN_LANE`]: see [`place`].
    pub(crate) rows: Rows,
    pub(super) products: usize,
    pub(super) permutations: usize,
    /// The numbers of the cells of a lane.
    pub(super) numbers: Range<u32>,
    /// The nodes of the first lane.
    pub(super) nodes: Range<Id>,
    pub(super) first_cell: usize,
    pub(super) first_row: usize,
    pub(super) first_permutation: usize,
}

/// The cell of another lane that corresponds to a cell of the first lane; the same cell if it is in no lane.
pub(super) fn in_lane(cell: u32, lane: usize) -> u32 {
    match cell & IN_LANE {
        0 => cell,
        _ => cell + ((lane as u32) << NUMBER_BITS),
    }
}

/// The position of a cell, in a lane or not.
pub(crate) fn place(sections: &[Section], cell: u32) -> u32 {
    if cell & IN_LANE == 0 {
        return cell;
    }
    let lane = (cell & !IN_LANE) >> NUMBER_BITS;
    let number = cell & ((1 << NUMBER_BITS) - 1);
    let of_number = sections.iter().find(|s| s.numbers.contains(&number));
    of_number.map_or(0, |section| {
        let within = (number - section.numbers.start) as usize * section.lanes;
        (section.first_cell + within) as u32 + lane
    })
}

impl Section {
    /// Numbers the rows of the first lane by position, and moves the cells that are in no lane.
    pub(super) fn finish(&mut self, layout: &Layout, own: impl Fn(u32) -> u32) {
        let lanes = self.lanes as u32;
        let (row, permutation) = (self.first_row as u32, self.first_permutation as u32);
        let room = layout.permutations as u32;
        let Rows {
            inputs,
            outputs,
            products,
        } = &mut self.rows;
        for entry in products.iter_mut().flatten() {
            entry.row = row + entry.row * lanes;
        }
        for entry in inputs.iter_mut().chain(outputs.iter_mut()) {
            let (i, p) = (entry.row / room, entry.row % room);
            entry.row = i * room + permutation + p * lanes;
        }
        let all = products.iter_mut().flatten().chain(inputs).chain(outputs);
        all.for_each(|entry: &mut Entry| entry.cell = own(entry.cell));
    }
}

#[cfg(test)]
impl Plan {
    /// The matrices with all lanes expanded.
    pub(crate) fn written_out(&self) -> Rows {
        let of_matrix = |of: &dyn Fn(&Rows) -> &Vec<Entry>| {
            let mut entries = of(&self.rows).clone();
            for section in &self.sections {
                for lane in 0..section.lanes {
                    let of_lane = of(&section.rows).iter().map(|entry| Entry {
                        row: entry.row + lane as u32,
                        cell: place(&self.sections, in_lane(entry.cell, lane)),
                        ..*entry
                    });
                    entries.extend(of_lane);
                }
            }
            entries.sort_by_key(|entry| (entry.row, entry.cell));
            entries
        };
        Rows {
            inputs: of_matrix(&|rows| &rows.inputs),
            outputs: of_matrix(&|rows| &rows.outputs),
            products: [0, 1, 2].map(|k| of_matrix(&|rows| &rows.products[k])),
        }
    }
}
