//! How the positions of an epoch are cut into committees and subcommittees.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Cell;

/// Most validators a layout can have.
pub const VALIDATORS_MAX: u32 = 1 << 22;
/// Most committees a layout can have.
pub const COMMITTEES_MAX: u16 = 512;
/// Most subcommittees a committee can have.
pub const SUBCOMMITTEES_MAX: u16 = 256;
/// Most cells (committees x subcommittees) a layout can have.
pub const CELLS_MAX: u32 = 1 << 16;

/// Validators of a committee in the default layout of a scheme that bears any committee size.
const COMMITTEE_DEFAULT: u32 = 1 << 15;
/// Validators of a cell in the default layout.
const CELL_DEFAULT: u32 = 512;
/// Most subcommittees in the default layout.
const SUBCOMMITTEES_DEFAULT: u32 = 64;

/// A layout outside the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The number of validators is 0 or too large.
    #[error("validators = {value}, must be 1 to {max}")]
    Validators {
        /// The value asked for.
        value: u32,
        /// The largest legal value.
        max: u32,
    },
    /// The number of committees is 0 or too large.
    #[error("committees = {value}, must be 1 to {max}")]
    Committees {
        /// The value asked for, or needed.
        value: u32,
        /// The largest legal value.
        max: u16,
    },
    /// The number of subcommittees is 0 or too large.
    #[error("subcommittees = {value}, must be 1 to {max}")]
    Subcommittees {
        /// The value asked for.
        value: u16,
        /// The largest legal value.
        max: u16,
    },
    /// Committees times subcommittees is too large.
    #[error("committees x subcommittees = {value}, must be at most {max}")]
    Cells {
        /// The product asked for.
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

/// N validators in C committees of S subcommittees, of sizes that differ by at most one.
///
/// Cell i = S·c + s holds the positions ⌊N·i/(C·S)⌋ to ⌊N·(i+1)/(C·S)⌋ (exclusive) of the epoch's
/// shuffle, so committee c is the union of its cells and holds ⌊N·c/C⌋ to ⌊N·(c+1)/C⌋. Cells are
/// empty where N < C·S.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawLayout", into = "RawLayout")]
pub struct Layout {
    validators: u32,
    committees: u16,
    subcommittees: u16,
}

#[derive(Serialize, Deserialize)]
struct RawLayout {
    validators: u32,
    committees: u16,
    subcommittees: u16,
}

impl TryFrom<RawLayout> for Layout {
    type Error = LayoutError;

    fn try_from(raw: RawLayout) -> Result<Self, LayoutError> {
        Self::new(raw.validators, raw.committees, raw.subcommittees)
    }
}

impl From<Layout> for RawLayout {
    fn from(layout: Layout) -> Self {
        Self {
            validators: layout.validators,
            committees: layout.committees,
            subcommittees: layout.subcommittees,
        }
    }
}

impl Layout {
    /// A layout of `validators` positions in `committees` x `subcommittees` cells.
    ///
    /// # Errors
    ///
    /// Names the first value outside 1..=[`VALIDATORS_MAX`], 1..=[`COMMITTEES_MAX`],
    /// 1..=[`SUBCOMMITTEES_MAX`], or the product above [`CELLS_MAX`].
    pub fn new(validators: u32, committees: u16, subcommittees: u16) -> Result<Self, LayoutError> {
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
        if !(1..=SUBCOMMITTEES_MAX).contains(&subcommittees) {
            return Err(LayoutError::Subcommittees {
                value: subcommittees,
                max: SUBCOMMITTEES_MAX,
            });
        }
        let cells = u32::from(committees) * u32::from(subcommittees);
        if cells > CELLS_MAX {
            return Err(LayoutError::Cells {
                value: cells,
                max: CELLS_MAX,
            });
        }
        Ok(Self {
            validators,
            committees,
            subcommittees,
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

    /// Number of subcommittees S of each committee.
    #[must_use]
    pub const fn subcommittees(&self) -> u16 {
        self.subcommittees
    }

    /// Number of cells, C·S.
    #[must_use]
    pub const fn cells_count(&self) -> u32 {
        self.committees as u32 * self.subcommittees as u32
    }

    /// True if `cell` is one of this layout.
    #[must_use]
    pub const fn has_cell(&self, cell: Cell) -> bool {
        cell.committee < self.committees && cell.subcommittee < self.subcommittees
    }

    /// Epoch positions of committee `c`.
    ///
    /// # Panics
    ///
    /// If there is no committee `c`.
    #[must_use]
    pub fn committee_range(&self, c: u16) -> Range<u32> {
        assert!(
            c < self.committees,
            "committee {c} of a layout of {}",
            self.committees
        );
        let first = u32::from(c) * u32::from(self.subcommittees);
        self.cell_start(first)..self.cell_start(first + u32::from(self.subcommittees))
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
        assert!(self.has_cell(cell), "cell {cell} outside {self:?}");
        let i = u32::from(cell.committee) * u32::from(self.subcommittees)
            + u32::from(cell.subcommittee);
        self.cell_start(i)..self.cell_start(i + 1)
    }

    /// Positions of `cell` relative to the start of its committee; may be empty.
    ///
    /// # Panics
    ///
    /// If the layout has no such cell.
    #[must_use]
    pub fn cell_in_committee(&self, cell: Cell) -> Range<u32> {
        let range = self.cell_range(cell);
        let start = self.committee_range(cell.committee).start;
        range.start - start..range.end - start
    }

    /// Number of positions of `cell`; may be 0.
    ///
    /// # Panics
    ///
    /// If the layout has no such cell.
    #[must_use]
    pub fn cell_len(&self, cell: Cell) -> u32 {
        let range = self.cell_range(cell);
        range.end - range.start
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

    /// All cells in the order of their positions.
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
    pub const fn cell_len_max(&self) -> u32 {
        self.validators.div_ceil(self.cells_count())
    }

    /// First position of cell number `i`, 0 <= i <= C·S; the product needs up to 38 bits.
    fn cell_start(&self, i: u32) -> u32 {
        (u64::from(self.validators) * u64::from(i) / u64::from(self.cells_count())) as u32
    }

    fn cell_at(&self, i: u32) -> Cell {
        let subcommittees = u32::from(self.subcommittees);
        Cell {
            committee: (i / subcommittees) as u16,
            subcommittee: (i % subcommittees) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Layout, LayoutError};

    fn shape(validators: u32, committee_max: Option<u32>) -> (u16, u16) {
        let layout = Layout::default_for(validators, committee_max).unwrap();
        (layout.committees(), layout.subcommittees())
    }

    #[test]
    fn cells_partition_the_positions() {
        let shapes = [(1, 1), (1, 2), (3, 7), (32, 64), (64, 32), (512, 128)];
        for n in [1, 5, 2047, 2048, 2049, 392_036, 1_000_007] {
            for (c, s) in shapes {
                let layout = Layout::new(n, c, s).unwrap();
                let mut next = 0;
                for cell in layout.cells() {
                    let range = layout.cell_range(cell);
                    assert_eq!(range.start, next);
                    next = range.end;
                    let len = range.end - range.start;
                    assert_eq!(len, layout.cell_len(cell));
                    assert!(len <= layout.cell_len_max() && len + 1 >= layout.cell_len_max());
                    let inside = layout.cell_in_committee(cell);
                    let committee = layout.committee_range(cell.committee);
                    assert_eq!(committee.start + inside.start, range.start);
                    assert!(inside.end <= layout.committee_len(cell.committee));
                    for position in [range.start, range.end.saturating_sub(1)] {
                        if range.contains(&position) {
                            assert_eq!(layout.cell_of(position), cell);
                        }
                    }
                }
                assert_eq!(next, n);
                for committee in 0..c {
                    let range = layout.committee_range(committee);
                    let (n, c, i) = (u64::from(n), u64::from(c), u64::from(committee));
                    assert_eq!(u64::from(range.start), n * i / c);
                    assert_eq!(u64::from(range.end), n * (i + 1) / c);
                    assert!(range.end - range.start <= layout.committee_len_max());
                }
            }
        }
    }

    #[test]
    fn defaults_follow_the_number_of_validators() {
        assert_eq!(shape(1 << 20, None), (32, 64));
        assert_eq!(shape(1 << 20, Some(20_000)), (64, 32));
        assert_eq!(shape(1 << 20, Some(1 << 15)), (32, 64));
        assert_eq!(shape(1_000, None), (1, 2));
        assert_eq!(shape(1, None), (1, 1));
        assert_eq!(shape(1 << 22, None), (128, 64));
    }

    #[test]
    fn values_outside_the_bounds_are_named() {
        let max = super::VALIDATORS_MAX;
        assert_eq!(
            Layout::new(0, 1, 1),
            Err(LayoutError::Validators { value: 0, max })
        );
        assert_eq!(
            Layout::new(max + 1, 1, 1),
            Err(LayoutError::Validators {
                value: max + 1,
                max
            })
        );
        assert!(Layout::default_for(max + 1, None).is_err());
        assert!(Layout::new(1, 0, 1).is_err());
        assert!(Layout::new(1, 513, 1).is_err());
        assert!(Layout::new(1, 1, 0).is_err());
        assert!(Layout::new(1, 1, 257).is_err());
        assert_eq!(
            Layout::new(1, 512, 256).map_err(|e| e.to_string()),
            Err("committees x subcommittees = 131072, must be at most 65536".to_owned())
        );
        assert!(Layout::default_for(1_000, Some(0)).is_err());
        assert_eq!(
            Layout::default_for(1_000, Some(1)),
            Err(LayoutError::Committees {
                value: 1_024,
                max: 512
            })
        );
    }

    #[test]
    fn empty_cells_are_skipped_by_cell_of() {
        let layout = Layout::new(5, 4, 4).unwrap();
        let filled = layout.cells().filter(|&c| layout.cell_len(c) == 1).count();
        assert_eq!(filled, 5);
        assert_eq!(
            layout.cell_of(4),
            Cell {
                committee: 3,
                subcommittee: 3
            }
        );
    }

    #[test]
    fn serde_checks_the_bounds() {
        let layout = Layout::new(1_000, 1, 2).unwrap();
        let text = serde_json::to_string(&layout).unwrap();
        assert_eq!(serde_json::from_str::<Layout>(&text).unwrap(), layout);
        let bad = r#"{"validators":1,"committees":0,"subcommittees":1}"#;
        assert!(serde_json::from_str::<Layout>(bad).is_err());
    }
}
