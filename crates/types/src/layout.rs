//! Division of an epoch's positions into committees, their groups and cells.

use std::ops::Range;

use thiserror::Error;

use crate::{Cell, Unit};

/// Maximum number of validators in a layout.
pub const VALIDATORS_MAX: u32 = 1 << 22;
/// Maximum number of committees in a layout.
pub const COMMITTEES_MAX: u16 = 2_048;
/// Maximum number of cells (subcommittees) per committee.
pub const SUBCOMMITTEES_MAX: u16 = 256;
/// Maximum number of cells (committees x subcommittees) in a layout.
pub(crate) const CELLS_MAX: u32 = 1 << 16;
/// Maximum number of evidence levels in a layout.
pub const LEVELS_MAX: u8 = 4;

/// Maximum number of levels below the top one.
const INNER_MAX: usize = LEVELS_MAX as usize - 1;
/// Validators per committee in the default layout of a scheme that supports any committee size.
const COMMITTEE_DEFAULT: u32 = 1 << 15;
/// Validators per cell in the default layout.
const CELL_DEFAULT: u32 = 512;
/// Maximum number of subcommittees in the default layout.
const SUBCOMMITTEES_DEFAULT: u32 = 64;

/// A layout outside the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The number of validators is 0 or too large.
    #[error("validators = {value}, must be 1 to {max}")]
    Validators {
        /// The requested value.
        value: u32,
        /// The largest legal value.
        max: u32,
    },
    /// The number of committees is 0 or too large.
    #[error("committees = {value}, must be 1 to {max}")]
    Committees {
        /// The requested or required value.
        value: u32,
        /// The largest legal value.
        max: u16,
    },
    /// The number of cells of a committee is 0 or too large.
    #[error("subcommittees = {value}, must be 1 to {max}")]
    Subcommittees {
        /// The requested value.
        value: u64,
        /// The largest legal value.
        max: u16,
    },
    /// There are too many levels of evidence.
    #[error("levels = {value}, must be 1 to {max}")]
    Levels {
        /// The requested value.
        value: usize,
        /// The largest legal value.
        max: u8,
    },
    /// Committees times subcommittees is too large.
    #[error("committees x subcommittees = {value}, must be at most {max}")]
    Cells {
        /// The requested product.
        value: u32,
        /// The largest legal product.
        max: u32,
    },
    /// A scheme's bound on the committee size that no committee can meet.
    #[error("committee_max = {value}, must be at least 1")]
    CommitteeMax {
        /// The bound given.
        value: u32,
    },
}

/// N validators in C committees of S cells, of sizes that differ by at most one.
///
/// Cell i = S·c + s holds the positions ⌊N·i/(C·S)⌋ to ⌊N·(i+1)/(C·S)⌋ (exclusive) of the epoch's
/// shuffle, so committee c is the union of its cells and holds ⌊N·c/C⌋ to ⌊N·(c+1)/C⌋. Cells are
/// empty where N < C·S.
///
/// Evidence is built level by level: for the cells (level 1), for groups of them, and finally for
/// whole committees. The fan-out gives the number of level k units that form a unit of level k + 1.
/// With one level, a cell is a committee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    validators: u32,
    committees: u16,
    levels: u8,
    /// Number of units of level k that form a unit of level k + 1, at index k − 1; 1 beyond the
    /// top.
    fan_out: [u16; INNER_MAX],
}

impl Layout {
    /// A layout of two levels: `validators` positions in `committees` x `subcommittees` cells.
    ///
    /// # Errors
    ///
    /// As [`Layout::with_fan_out`].
    pub fn new(validators: u32, committees: u16, subcommittees: u16) -> Result<Self, LayoutError> {
        Self::with_fan_out(validators, committees, &[subcommittees])
    }

    /// Creates a layout with one level more than the numbers in `fan_out`, which go from the top
    /// down: with `[8, 4]` a committee is 8 groups of 4 cells.
    ///
    /// # Errors
    ///
    /// Names the first value outside 1..=[`VALIDATORS_MAX`], 1..=[`COMMITTEES_MAX`],
    /// 1..=[`LEVELS_MAX`], cells of a committee outside 1..=[`SUBCOMMITTEES_MAX`], or cells above
    /// `CELLS_MAX`.
    pub fn with_fan_out(
        validators: u32,
        committees: u16,
        fan_out: &[u16],
    ) -> Result<Self, LayoutError> {
        if !(1..=VALIDATORS_MAX).contains(&validators) {
            return Err(LayoutError::Validators {
                value: validators,
                max: VALIDATORS_MAX,
            });
        }
        if !(1..=COMMITTEES_MAX).contains(&committees) {
            return Err(LayoutError::Committees {
                value: u32::from(committees),
                max: COMMITTEES_MAX,
            });
        }
        if fan_out.len() > INNER_MAX {
            return Err(LayoutError::Levels {
                value: fan_out.len() + 1,
                max: LEVELS_MAX,
            });
        }
        // At most three factors of 16 bits, so the product fits.
        let subcommittees = fan_out.iter().map(|&units| u64::from(units)).product();
        if !(1..=u64::from(SUBCOMMITTEES_MAX)).contains(&subcommittees) {
            return Err(LayoutError::Subcommittees {
                value: subcommittees,
                max: SUBCOMMITTEES_MAX,
            });
        }
        let cells = u32::from(committees) * subcommittees as u32;
        if cells > CELLS_MAX {
            return Err(LayoutError::Cells {
                value: cells,
                max: CELLS_MAX,
            });
        }
        let mut inner = [1; INNER_MAX];
        let from_below = fan_out.iter().rev();
        inner.iter_mut().zip(from_below).for_each(|(a, b)| *a = *b);
        Ok(Self {
            validators,
            committees,
            levels: fan_out.len() as u8 + 1,
            fan_out: inner,
        })
    }

    /// The default layout: C = ⌈N/2^15⌉, doubled until no committee is larger than
    /// `committee_max` (a scheme's bound; `None` if it has none), S = ⌈N/(512·C)⌉ in 1..=64.
    ///
    /// # Errors
    ///
    /// As [`Layout::new`]; in particular where `committee_max` needs more than
    /// [`COMMITTEES_MAX`] committees.
    pub fn default_for(validators: u32, committee_max: Option<u32>) -> Result<Self, LayoutError> {
        if !(1..=VALIDATORS_MAX).contains(&validators) {
            return Err(LayoutError::Validators {
                value: validators,
                max: VALIDATORS_MAX,
            });
        }
        if committee_max == Some(0) {
            return Err(LayoutError::CommitteeMax { value: 0 });
        }
        let fits = |committees: u32| match committee_max {
            Some(max) => validators.div_ceil(committees) <= max,
            None => true,
        };
        let mut committees = validators.div_ceil(COMMITTEE_DEFAULT);
        // At most one doubling beyond the maximum, which fails below and cannot overflow.
        while !fits(committees) && committees <= u32::from(COMMITTEES_MAX) {
            committees *= 2;
        }
        if committees > u32::from(COMMITTEES_MAX) {
            return Err(LayoutError::Committees {
                value: committees,
                max: COMMITTEES_MAX,
            });
        }
        let subcommittees = validators
            .div_ceil(CELL_DEFAULT * committees)
            .clamp(1, SUBCOMMITTEES_DEFAULT);
        Self::new(validators, committees as u16, subcommittees as u16)
    }

    /// Number of validators N, which is the number of epoch positions.
    #[must_use]
    pub const fn validators(&self) -> u32 {
        self.validators
    }

    /// Number of committees C.
    #[must_use]
    pub const fn committees(&self) -> u16 {
        self.committees
    }

    /// Number of cells S of each committee.
    #[must_use]
    pub fn subcommittees(&self) -> u16 {
        self.units_of_committee(1)
    }

    /// Number of levels of evidence: 1 to [`LEVELS_MAX`].
    #[must_use]
    pub const fn levels(&self) -> u8 {
        self.levels
    }

    /// Number of units of the level below that form each unit, from the top down.
    #[must_use]
    pub fn fan_out(&self) -> Vec<u16> {
        let inner = &self.fan_out[..usize::from(self.levels) - 1];
        inner.iter().rev().copied().collect()
    }

    /// Number of units of a level in each committee; 1 at the top level and beyond.
    #[must_use]
    pub fn units_of_committee(&self, level: u8) -> u16 {
        let above = self.fan_out.iter().skip(usize::from(level.max(1)) - 1);
        above.product()
    }

    /// All units of a level, in position order.
    pub fn units(&self, level: u8) -> impl Iterator<Item = Unit> + use<> {
        let units = self.units_of_committee(level);
        let of_committee = move |c| (0..units).map(move |i| Unit::new(level, c, i));
        (0..self.committees).flat_map(of_committee)
    }

    /// Committee `c` as a unit of the top level.
    #[must_use]
    pub const fn committee(&self, c: u16) -> Unit {
        Unit::new(self.levels, c, 0)
    }

    /// True if `unit` belongs to this layout.
    #[must_use]
    pub(crate) fn has_unit(&self, unit: Unit) -> bool {
        (1..=self.levels).contains(&unit.level)
            && unit.committee < self.committees
            && unit.index < self.units_of_committee(unit.level)
    }

    /// The unit of the next level that contains `unit`; none for a committee.
    #[must_use]
    pub fn parent(&self, unit: Unit) -> Option<Unit> {
        let units = self.fan_out.get(usize::from(unit.level).checked_sub(1)?)?;
        let parent = Unit::new(unit.level + 1, unit.committee, unit.index / units);
        (parent.level <= self.levels).then_some(parent)
    }

    /// Epoch positions of `unit`; may be empty.
    ///
    /// # Panics
    ///
    /// If the layout has no such unit.
    #[must_use]
    pub fn unit_range(&self, unit: Unit) -> Range<u32> {
        assert!(self.has_unit(unit), "unit {unit} outside {self:?}");
        let units = self.units_of_committee(unit.level);
        // A unit is a run of whole cells, so the units of any level cover all positions exactly.
        let cells = u32::from(self.subcommittees() / units);
        let first = (u32::from(unit.committee) * u32::from(units) + u32::from(unit.index)) * cells;
        self.cell_start(first)..self.cell_start(first + cells)
    }

    /// Positions of `unit` relative to the start of its committee; may be empty.
    ///
    /// # Panics
    ///
    /// If the layout has no such unit.
    #[must_use]
    pub fn unit_in_committee(&self, unit: Unit) -> Range<u32> {
        let range = self.unit_range(unit);
        let start = self.committee_range(unit.committee).start;
        range.start - start..range.end - start
    }

    /// Number of positions of `unit`; may be 0.
    ///
    /// # Panics
    ///
    /// If the layout has no such unit.
    #[must_use]
    pub fn unit_len(&self, unit: Unit) -> u32 {
        let range = self.unit_range(unit);
        range.end - range.start
    }

    /// Number of positions of the largest unit of a level.
    #[must_use]
    pub fn unit_len_max(&self, level: u8) -> u32 {
        let units = u32::from(self.committees) * u32::from(self.units_of_committee(level));
        // Units of several cells differ in size by one, as cells do.
        self.validators.div_ceil(units)
    }

    /// The units of the level below that form `unit`; none for a cell.
    pub fn parts(&self, unit: Unit) -> impl Iterator<Item = Unit> + use<> {
        let below = unit.level.saturating_sub(1);
        let units = match below {
            0 => 0,
            _ => self.fan_out[usize::from(below) - 1],
        };
        (0..units).map(move |i| Unit::new(below, unit.committee, unit.index * units + i))
    }

    /// The unit of a level that holds epoch position `position`.
    ///
    /// # Panics
    ///
    /// If `position` is not below [`Layout::validators`].
    #[must_use]
    pub fn unit_at(&self, level: u8, position: u32) -> Unit {
        let cell = self.cell_of(position);
        let cells = self.subcommittees() / self.units_of_committee(level);
        Unit::new(level, cell.committee, cell.subcommittee / cells)
    }

    /// Number of cells, C·S.
    #[must_use]
    pub fn cells_count(&self) -> u32 {
        u32::from(self.committees) * u32::from(self.subcommittees())
    }

    /// True if `cell` belongs to this layout.
    #[must_use]
    pub fn has_cell(&self, cell: Cell) -> bool {
        self.has_unit(cell.into())
    }

    /// Epoch positions of committee `c`.
    ///
    /// # Panics
    ///
    /// If there is no committee `c`.
    #[must_use]
    pub fn committee_range(&self, c: u16) -> Range<u32> {
        self.unit_range(self.committee(c))
    }

    /// Number of positions of committee `c`.
    ///
    /// # Panics
    ///
    /// If there is no committee `c`.
    #[must_use]
    pub fn committee_len(&self, c: u16) -> u32 {
        let range = self.committee_range(c);
        range.end - range.start
    }

    /// Epoch positions of `cell`; may be empty.
    ///
    /// # Panics
    ///
    /// If the layout has no such cell.
    #[must_use]
    pub fn cell_range(&self, cell: Cell) -> Range<u32> {
        self.unit_range(cell.into())
    }

    /// Positions of `cell` relative to the start of its committee; may be empty.
    ///
    /// # Panics
    ///
    /// If the layout has no such cell.
    #[must_use]
    pub fn cell_in_committee(&self, cell: Cell) -> Range<u32> {
        self.unit_in_committee(cell.into())
    }

    /// Number of positions of `cell`; may be 0.
    ///
    /// # Panics
    ///
    /// If the layout has no such cell.
    #[must_use]
    pub fn cell_len(&self, cell: Cell) -> u32 {
        self.unit_len(cell.into())
    }

    /// The cell that holds epoch position `position`.
    ///
    /// # Panics
    ///
    /// If `position` is not below [`Layout::validators`].
    #[must_use]
    pub fn cell_of(&self, position: u32) -> Cell {
        assert!(
            position < self.validators,
            "position {position} of {}",
            self.validators
        );
        // The largest i with ⌊N·i/(C·S)⌋ <= position, that is N·i < (position + 1)·C·S.
        let cells = u64::from(self.cells_count());
        let i = ((u64::from(position) + 1) * cells - 1) / u64::from(self.validators);
        self.cell_at(i as u32)
    }

    /// All cells in position order.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + use<> {
        let layout = *self;
        (0..layout.cells_count()).map(move |i| layout.cell_at(i))
    }

    /// Number of positions of the largest committee.
    #[must_use]
    pub const fn committee_len_max(&self) -> u32 {
        self.validators.div_ceil(self.committees as u32)
    }

    /// Number of positions of the largest cell.
    #[must_use]
    pub fn cell_len_max(&self) -> u32 {
        self.unit_len_max(1)
    }

    /// First position of cell number `i`, 0 <= i <= C·S; the product is at most 2^38.
    fn cell_start(&self, i: u32) -> u32 {
        (u64::from(self.validators) * u64::from(i) / u64::from(self.cells_count())) as u32
    }

    fn cell_at(&self, i: u32) -> Cell {
        let subcommittees = u32::from(self.subcommittees());
        Cell {
            committee: (i / subcommittees) as u16,
            subcommittee: (i % subcommittees) as u16,
        }
    }
}

#[cfg(test)]
mod tests;
