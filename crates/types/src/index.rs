//! Indices: slot, epoch, validator, cell.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a slot, from 0 at genesis.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Slot(pub u64);

/// Number of an epoch, from 0 at genesis; committees are fixed inside an epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Index of a validator in the registry.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Validator(pub u32);

/// A subcommittee of a committee: the unit of the first layer of aggregation (Horn, ethresear.ch).
///
/// The order is that of the epoch's positions: by committee, then by subcommittee.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Cell {
    /// The committee, from 0.
    pub committee: u16,
    /// The subcommittee inside the committee, from 0.
    pub subcommittee: u16,
}

/// A group of validators whose votes are combined into evidence: a cell at level 1, a committee at
/// the top level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit {
    /// The level, from 1.
    pub level: u8,
    /// The committee, from 0.
    pub committee: u16,
    /// The index among the units of its level in the committee, from 0.
    pub index: u16,
}

impl Unit {
    /// Creates unit `index` of a level in a committee.
    #[must_use]
    pub const fn new(level: u8, committee: u16, index: u16) -> Self {
        Self {
            level,
            committee,
            index,
        }
    }

    /// The cell, if the level is that of cells.
    #[must_use]
    pub const fn cell(self) -> Option<Cell> {
        match self.level {
            1 => Some(Cell {
                committee: self.committee,
                subcommittee: self.index,
            }),
            _ => None,
        }
    }
}

impl From<Cell> for Unit {
    fn from(cell: Cell) -> Self {
        Self::new(1, cell.committee, cell.subcommittee)
    }
}

impl Slot {
    /// The epoch of this slot.
    ///
    /// # Panics
    ///
    /// If `slots_per_epoch` is 0, which a checked configuration rules out.
    #[must_use]
    pub fn epoch(self, slots_per_epoch: u64) -> Epoch {
        assert!(slots_per_epoch > 0, "an epoch has at least one slot");
        Epoch(self.0 / slots_per_epoch)
    }

    /// The slot `slots` before this one, at least slot 0.
    #[must_use]
    pub const fn saturating_sub(self, slots: u64) -> Self {
        Self(self.0.saturating_sub(slots))
    }

    /// The slot after this one; the maximum slot is its own successor.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Epoch {
    /// The epoch `epochs` before this one, at least epoch 0.
    #[must_use]
    #[cfg(test)]
    pub(crate) const fn saturating_sub(self, epochs: u64) -> Self {
        Self(self.0.saturating_sub(epochs))
    }

    /// The epoch after this one; the maximum epoch is its own successor.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `committee/subcommittee`, as in `3/17`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.committee, self.subcommittee)
    }
}

/// `level:committee/index`, as in `2:3/17`.
impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.level, self.committee, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Epoch, Slot, Validator};

    #[test]
    fn slots_map_to_epochs_and_never_overflow() {
        assert_eq!(Slot(31).epoch(32), Epoch(0));
        assert_eq!(Slot(32).epoch(32), Epoch(1));
        assert_eq!(Slot(3).saturating_sub(5), Slot(0));
        assert_eq!(Slot(u64::MAX).next(), Slot(u64::MAX));
        assert_eq!(Epoch(1).next().saturating_sub(1), Epoch(1));
    }

    #[test]
    fn text_and_order_are_those_of_the_positions() {
        let cell = Cell {
            committee: 3,
            subcommittee: 17,
        };
        assert_eq!(cell.to_string(), "3/17");
        assert_eq!(format!("{} {}", Slot(9), Validator(4)), "9 4");
        assert!(
            cell < Cell {
                committee: 4,
                subcommittee: 0
            }
        );
    }
}
