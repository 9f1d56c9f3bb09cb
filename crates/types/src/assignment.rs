//! Which validator sits at which position of an epoch.

use std::sync::Arc;

use thiserror::Error;

use crate::{Cell, Epoch, Layout, Unit, Validator};

/// A member list that is not a permutation of the validators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AssignmentError {
    /// The list is not as long as the layout has validators.
    #[error("{members} members for a layout of {validators} validators")]
    Length {
        /// Length of the list.
        members: usize,
        /// Validators of the layout.
        validators: u32,
    },
    /// A member is not a validator of the layout.
    #[error("validator {validator} at position {position}, must be below {validators}")]
    OutOfRange {
        /// Epoch position of the member.
        position: u32,
        /// The member.
        validator: u32,
        /// Validators of the layout.
        validators: u32,
    },
    /// A validator sits at two positions.
    #[error("validator {validator} at positions {first} and {second}")]
    Duplicate {
        /// The validator.
        validator: u32,
        /// Its first position.
        first: u32,
        /// Its second position.
        second: u32,
    },
}

/// The committees of one epoch: maps epoch positions to validators and back.
///
/// Cheap to clone; both tables (4 bytes per validator each) are shared.
#[derive(Clone, Debug, Eq)]
pub struct Assignment {
    epoch: Epoch,
    layout: Layout,
    members: Arc<[u32]>,
    position_of: Arc<[u32]>,
}

impl PartialEq for Assignment {
    fn eq(&self, other: &Self) -> bool {
        // Shared tables are not compared: they have millions of entries. The second follows from the first.
        let members = Arc::ptr_eq(&self.members, &other.members) || self.members == other.members;
        self.epoch == other.epoch && self.layout == other.layout && members
    }
}

/// Marks a validator without a position during construction of the inverse.
const UNSET: u32 = u32::MAX;

impl Assignment {
    /// The committees of `epoch`: `members[i]` is the validator at epoch position i.
    ///
    /// # Errors
    ///
    /// If `members` is not a permutation of 0 to the layout's number of validators.
    pub fn new(epoch: Epoch, layout: Layout, members: Vec<u32>) -> Result<Self, AssignmentError> {
        let validators = layout.validators();
        if members.len() != validators as usize {
            return Err(AssignmentError::Length {
                members: members.len(),
                validators,
            });
        }
        // `UNSET` is no position, as layouts end at 2^22.
        let mut position_of = vec![UNSET; members.len()];
        for (position, &validator) in (0u32..).zip(&members) {
            let Some(slot) = position_of.get_mut(validator as usize) else {
                return Err(AssignmentError::OutOfRange {
                    position,
                    validator,
                    validators,
                });
            };
            if *slot != UNSET {
                return Err(AssignmentError::Duplicate {
                    validator,
                    first: *slot,
                    second: position,
                });
            }
            *slot = position;
        }
        // As many members as validators and none of them twice: no validator is left without a position.
        Ok(Self {
            epoch,
            layout,
            members: members.into(),
            position_of: position_of.into(),
        })
    }

    /// The epoch that these committees serve.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The layout of the committees.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All members in order of their epoch positions.
    #[must_use]
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// The validator at epoch position `position`.
    ///
    /// # Panics
    ///
    /// If `position` is not below the layout's number of validators.
    #[must_use]
    pub fn member(&self, position: u32) -> Validator {
        Validator(self.members[position as usize])
    }

    /// The epoch position of `validator`; `None` if it is not in the layout.
    #[must_use]
    pub fn position(&self, validator: Validator) -> Option<u32> {
        self.position_of.get(validator.0 as usize).copied()
    }

    /// The cell of `validator`; `None` if it is not in the layout.
    #[must_use]
    pub fn cell_of(&self, validator: Validator) -> Option<Cell> {
        Some(self.layout.cell_of(self.position(validator)?))
    }

    /// The validators of committee `c` in position order.
    ///
    /// # Panics
    ///
    /// If there is no committee `c`.
    #[must_use]
    pub fn committee_members(&self, c: u16) -> &[u32] {
        self.unit_members(self.layout.committee(c))
    }

    /// The validators of `unit` in position order.
    ///
    /// # Panics
    ///
    /// If the layout has no such unit.
    #[must_use]
    pub fn unit_members(&self, unit: Unit) -> &[u32] {
        let range = self.layout.unit_range(unit);
        &self.members[range.start as usize..range.end as usize]
    }

    /// The validators of `cell` in position order.
    ///
    /// # Panics
    ///
    /// If the layout has no such cell.
    #[must_use]
    pub fn cell_members(&self, cell: Cell) -> &[u32] {
        self.unit_members(cell.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Assignment, AssignmentError};
    use crate::{Cell, Epoch, Layout, Validator};

    fn layout() -> Layout {
        Layout::new(10, 2, 2).unwrap()
    }

    #[test]
    fn assignments_are_equal_by_what_they_say() {
        let of = |epoch, members| Assignment::new(Epoch(epoch), layout(), members).unwrap();
        let members: Vec<u32> = (0..10).rev().collect();
        let one = of(3, members.clone());
        assert_eq!(one, one.clone());
        assert_eq!(one, of(3, members.clone()));
        assert_ne!(one, of(4, members));
        assert_ne!(one, of(3, (0..10).collect()));
    }

    #[test]
    fn members_and_positions_are_inverse() {
        let members = vec![5, 2, 3, 1, 9, 6, 7, 4, 0, 8];
        let assignment = Assignment::new(Epoch(3), layout(), members.clone()).unwrap();
        assert_eq!(assignment.epoch(), Epoch(3));
        for (position, &validator) in (0u32..).zip(&members) {
            assert_eq!(assignment.member(position), Validator(validator));
            assert_eq!(assignment.position(Validator(validator)), Some(position));
            let cell = assignment.cell_of(Validator(validator)).unwrap();
            assert!(assignment.cell_members(cell).contains(&validator));
        }
        assert_eq!(assignment.committee_members(1), &members[5..]);
        let cell = Cell {
            committee: 0,
            subcommittee: 1,
        };
        assert_eq!(assignment.cell_members(cell), &members[2..5]);
        assert_eq!(assignment.position(Validator(10)), None);
        assert_eq!(assignment.cell_of(Validator(u32::MAX)), None);
    }

    #[test]
    fn lists_that_are_no_permutation_are_refused() {
        let build = |members| Assignment::new(Epoch(0), layout(), members);
        assert_eq!(
            build(vec![0; 9]),
            Err(AssignmentError::Length {
                members: 9,
                validators: 10
            })
        );
        assert_eq!(
            build(vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 10]),
            Err(AssignmentError::OutOfRange {
                position: 9,
                validator: 10,
                validators: 10
            })
        );
        assert_eq!(
            build(vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 1]),
            Err(AssignmentError::Duplicate {
                validator: 1,
                first: 1,
                second: 9
            })
        );
    }
}
