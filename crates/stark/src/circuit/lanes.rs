//! The parts of a circuit that are repeated, such as for the rows that a verifier opens: in *lanes*.
//!
//! The first lane is recorded, and the others are copies of it. Cell c of lane l, of n, lies at first + c·n + l,
//! and so do permutations and rows: the cells of one row in each lane are next to each other, and are multiplied
//! with vectors. A lane uses what all lanes share, cells of its own, and those of the same lane in other sections
//! with the same number of lanes.

use super::plan::{IN_LANE, NUMBER_BITS, Rows, Section};
use super::{Id, Recorder, Wire};
use crate::arith::OfLane;
use crate::error::VerifyError;

/// A cell of a lane that holds, in each lane, the value of another node.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) cell: u32,
    pub(super) from: Vec<Id>,
}

/// All sections while a circuit is built.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    pub(super) sections: Vec<Section>,
    /// Whether the last one is being recorded.
    open: bool,
    /// Copies to be asserted when it is closed.
    pub(super) copied: Vec<Copied>,
}

impl Lanes {
    /// Begins a section of this many lanes, at this node.
    pub(super) fn begin(&mut self, lanes: usize, node: Id) {
        assert!(!self.open, "no lanes within lanes");
        // Eleven bits remain for the lane, between the flag and the number.
        assert!(lanes < 1 << (31 - NUMBER_BITS), "{lanes} lanes");
        // Numbers continue from one section to the next, so that the number of a cell alone tells its section.
        let number = self.sections.last().map_or(0, |last| last.numbers.end);
        self.sections.push(Section {
            lanes,
            rows: Rows::default(),
            products: 0,
            permutations: 0,
            numbers: number..number,
            nodes: node..Id::MAX,
            first_cell: 0,
            first_row: 0,
            first_permutation: 0,
        });
        self.open = true;
    }

    /// Ends the open section before this node; returns its number, its first node and its number of lanes.
    pub(super) fn end(&mut self, node: Id) -> (usize, Id, usize) {
        self.open = false;
        let number = self.sections.len() - 1;
        let section = &mut self.sections[number];
        section.nodes.end = node;
        (number, section.nodes.start, section.lanes)
    }

    /// The section that is being recorded.
    pub(super) fn open(&mut self) -> Option<&mut Section> {
        self.sections.last_mut().filter(|_| self.open)
    }

    /// Its number.
    pub(super) fn number(&self) -> Option<usize> {
        self.open.then(|| self.sections.len() - 1)
    }

    /// New cells of the lane being recorded.
    pub(super) fn new_cells(&mut self, count: usize) -> Option<u32> {
        let numbers = &mut self.open()?.numbers;
        let first = numbers.end;
        numbers.end += count as u32;
        assert!(numbers.end < 1 << NUMBER_BITS, "cells of lanes");
        Some(IN_LANE | first)
    }

    /// Whether a node may have cells of the first lane. While a lane is recorded, only nodes in it, or in a lane
    /// of another section with as many lanes, may.
    pub(super) fn has(&self, id: Id) -> bool {
        let Some(last) = self.sections.last().filter(|_| self.open) else {
            return true;
        };
        // With as many lanes, the same lane of the other section is meant. With another number there is no such
        // lane.
        let mut alike = self.sections.iter().filter(|s| s.lanes == last.lanes);
        alike.any(|section| section.nodes.contains(&id))
    }

    /// Pauses recording a lane if a node is not in it; returns whether it did.
    pub(super) fn pause_for(&mut self, id: Id) -> bool {
        let Some(last) = self.sections.last().filter(|_| self.open) else {
            return false;
        };
        let paused = !last.nodes.contains(&id);
        assert!(!paused || !self.has(id), "results of lanes are short");
        self.open = !paused;
        paused
    }

    /// Resumes a paused lane.
    pub(super) fn resume(&mut self, paused: bool) {
        self.open |= paused;
    }

    /// Lays out all sections, one after the other; returns the first cell, row and permutation after them.
    pub(super) fn lay_out(&mut self, first_cell: usize) -> [usize; 3] {
        let mut next = [first_cell, 0, 0];
        for section in &mut self.sections {
            [
                section.first_cell,
                section.first_row,
                section.first_permutation,
            ] = next;
            let of_lane = [
                section.numbers.len(),
                section.products,
                section.permutations,
            ];
            next = std::array::from_fn(|k| next[k] + of_lane[k] * section.lanes);
        }
        next
    }
}

impl<'a> Recorder<'a> {
    /// Records lanes: all of them or, when a circuit is built, the first, of which the others are copies.
    pub(super) fn lanes(
        &mut self,
        lanes: usize,
        mut one: impl FnMut(&mut Self, usize) -> Result<OfLane<Self>, VerifyError>,
    ) -> Result<Vec<OfLane<Self>>, VerifyError> {
        if !self.circuit.builds() || lanes == 0 {
            return (0..lanes).map(|lane| one(self, lane)).collect();
        }
        self.circuit.begin_lanes(lanes);
        // The closure runs once. It sees no lane but the first, so all that differs between lanes must come in
        // through `in_lanes` or results of other lanes.
        let first = one(self, 0)?;
        let results: Vec<Id> = first.0.iter().chain(&first.1).map(|wire| wire.id).collect();
        let nodes = self.circuit.end_lanes(lanes, &results);
        let of_lane = |lane: usize| {
            let moved = |wire: &Wire<'a>| self.circuit.wire(wire.id + (lane * nodes) as Id);
            let [base, ext] = [&first.0, &first.1].map(|list| list.iter().map(moved).collect());
            (base, ext)
        };
        Ok((0..lanes).map(of_lane).collect())
    }
}
