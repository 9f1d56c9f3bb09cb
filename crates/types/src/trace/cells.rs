//! Progress of the votes of a slot by cell: counts that become `cells` lines.

use super::{CELLS_PER_LINE_MAX, Event, Percents};
use crate::{Bitfield, Cell, Layout};

/// Votes of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    seen: u32,
    aggregated: u32,
    collected: u32,
}

/// The votes of one slot in all cells, and the part already reported.
///
/// Both nodes and simulations count here, so that the figures mean the same: a vote in an aggregate was seen, and a
/// vote in a collection was aggregated.
#[derive(Clone, Debug)]
pub struct CellCounts {
    layout: Layout,
    cells: Vec<Counts>,
    /// Percentages last reported.
    told: Vec<[u8; 3]>,
}

impl CellCounts {
    /// Starts without votes in the cells of a layout, a state that every reader assumes.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let cells = layout.cells_count() as usize;
        CellCounts {
            layout,
            cells: vec![Counts::default(); cells],
            told: vec![[0; 3]; cells],
        }
    }

    /// Starts again, for another slot.
    pub fn clear(&mut self) {
        self.cells.fill(Counts::default());
        self.told.fill([0; 3]);
    }

    fn count(&mut self, cell: Cell) -> Option<&mut Counts> {
        // A cell beyond its committee would be counted as one of the next.
        if !self.layout.has_cell(cell) {
            return None;
        }
        let subs = usize::from(self.layout.subcommittees());
        let at = usize::from(cell.committee) * subs + usize::from(cell.subcommittee);
        self.cells.get_mut(at)
    }

    /// Counts one more seen vote. Here and below, an invalid cell is ignored.
    pub fn see(&mut self, cell: Cell) {
        if let Some(counts) = self.count(cell) {
            counts.seen += 1;
        }
    }

    /// Records that this many votes are in one aggregate, or in several together. Smaller numbers than before are
    /// ignored.
    pub fn aggregate(&mut self, cell: Cell, votes: u32) {
        if let Some(counts) = self.count(cell) {
            counts.aggregated = counts.aggregated.max(votes);
        }
    }

    /// Records that this many votes are in collections.
    pub(crate) fn collect(&mut self, cell: Cell, votes: u32) {
        if let Some(counts) = self.count(cell) {
            counts.collected = votes;
        }
    }

    /// Records that these members of a committee, given by position, are in collections.
    pub fn collect_committee(&mut self, committee: u16, signers: &Bitfield) {
        let subs = self.layout.subcommittees();
        let cells = (0..subs).map(|subcommittee| Cell {
            committee,
            subcommittee,
        });
        for cell in cells
            .filter(|cell| self.layout.has_cell(*cell))
            .collect::<Vec<_>>()
        {
            let range = self.layout.cell_in_committee(cell);
            let end = (range.end as usize).min(signers.len());
            let votes = signers.count_range((range.start as usize).min(end)..end);
            self.collect(cell, votes as u32);
        }
    }

    /// Percentages of a cell, as reported.
    fn percents(&self, cell: Cell, counts: &Counts) -> [u8; 3] {
        let len = self.layout.cell_len(cell).max(1);
        let share = |votes: u32| {
            // At most 100, so it fits.
            (u64::from(votes.min(len)) * 100 / u64::from(len)) as u8
        };
        // A vote of a later stage counts in the earlier ones, even if those were never reported.
        let aggregated = counts.aggregated.max(counts.collected);
        let seen = counts.seen.max(aggregated);
        [seen, aggregated, counts.collected].map(share)
    }

    /// Reports all cells in their current state.
    pub fn all(&mut self, slot: u64) -> Vec<Event> {
        self.tell();
        self.lines(slot, 0, self.told.len())
    }

    /// Reports the cells from the first to the last that changed since the last report. If none did, returns a line
    /// without cells: an unchanged state is a point of a curve, too.
    pub fn changed(&mut self, slot: u64) -> Vec<Event> {
        match self.tell() {
            None => vec![Self::line(slot, 0, &[])],
            Some((first, last)) => self.lines(slot, first, last + 1),
        }
    }

    /// Marks the counts as reported; returns the first and the last cell that changed.
    fn tell(&mut self) -> Option<(usize, usize)> {
        let mut changed = None;
        for (at, cell) in self.layout.cells().enumerate() {
            let percents = self.percents(cell, &self.cells[at]);
            if self.told[at] != percents {
                self.told[at] = percents;
                changed = Some((changed.map_or(at, |(first, _)| first), at));
            }
        }
        changed
    }

    fn lines(&self, slot: u64, first: usize, end: usize) -> Vec<Event> {
        let parts = self.told[first..end].chunks(CELLS_PER_LINE_MAX);
        let line = |(at, part)| Self::line(slot, first + at * CELLS_PER_LINE_MAX, part);
        parts.enumerate().map(line).collect()
    }

    fn line(slot: u64, from: usize, part: &[[u8; 3]]) -> Event {
        let of = |stage: usize| Percents::new(part.iter().map(|cell| cell[stage]).collect());
        Event::Cells {
            slot,
            // At most `CELLS_MAX`.
            from: from as u32,
            seen: of(0),
            aggregated: of(1),
            collected: of(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(committee: u16, subcommittee: u16) -> Cell {
        Cell {
            committee,
            subcommittee,
        }
    }

    fn shares(event: &Event) -> (u32, [&[u8]; 3]) {
        match event {
            Event::Cells {
                from,
                seen,
                aggregated,
                collected,
                ..
            } => (*from, [seen, aggregated, collected].map(Percents::as_slice)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_collected_was_aggregated_and_seen() {
        // Two committees of two cells of twelve.
        let mut counts = CellCounts::new(Layout::new(48, 2, 2).unwrap());
        for _ in 0..6 {
            counts.see(cell(0, 1));
        }
        counts.aggregate(cell(1, 0), 9);
        counts.aggregate(cell(1, 0), 3);
        let mut signers = Bitfield::new(24);
        signers.set_range(12..24);
        counts.collect_committee(1, &signers);
        // Of no cell.
        counts.see(cell(0, 2));
        counts.collect(cell(2, 0), 5);
        let lines = counts.all(7);
        assert_eq!(lines.len(), 1);
        let expected: [&[u8]; 3] = [&[0, 50, 75, 100], &[0, 0, 75, 100], &[0, 0, 0, 100]];
        assert_eq!(shares(&lines[0]), (0, expected));
        assert!(matches!(lines[0], Event::Cells { slot: 7, .. }));
    }

    #[test]
    fn what_did_not_change_is_not_told_again() {
        let mut counts = CellCounts::new(Layout::new(480, 2, 4).unwrap());
        let none: (u32, [&[u8]; 3]) = (0, [&[]; 3]);
        assert_eq!(shares(&counts.changed(0)[0]), none);
        counts.aggregate(cell(0, 2), 60);
        counts.collect(cell(1, 0), 30);
        let lines = counts.changed(0);
        let expected: [&[u8]; 3] = [&[100, 0, 50], &[100, 0, 50], &[0, 0, 50]];
        assert_eq!(shares(&lines[0]), (2, expected));
        assert_eq!(shares(&counts.changed(0)[0]), none);
        counts.clear();
        assert_eq!(shares(&counts.changed(1)[0]), none);
    }

    #[test]
    fn lines_have_so_many_cells_and_no_more() {
        let mut counts = CellCounts::new(Layout::new(1 << 20, 256, 64).unwrap());
        for c in [0, 255] {
            counts.collect(cell(c, 63), 64);
        }
        let lines = counts.changed(3);
        let from: Vec<u32> = lines.iter().map(|line| shares(line).0).collect();
        assert_eq!(from, [63, 63 + CELLS_PER_LINE_MAX as u32]);
        let cells: usize = lines.iter().map(|line| shares(line).1[0].len()).sum();
        assert_eq!(cells, 256 * 64 - 63);
    }
}
