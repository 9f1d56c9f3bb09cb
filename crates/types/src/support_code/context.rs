//! Context of a code in addition to the support: cells and a reference.

use std::ops::Range;

use crate::{Bitfield, Layout, Unit};

/// Prior knowledge of both sides about who signs. It splits the positions into classes.
///
/// All bitfields are over the positions of the support.
#[derive(Clone, Copy, Debug, Default)]
pub enum Reference<'a> {
    /// Nothing: one class.
    #[default]
    None,
    /// Two classes: the signers recorded in the chain for an earlier slot, and the others.
    Chain(&'a Bitfield),
    /// Six classes: the two of `Chain`, each split by whether none, some or all of the collections
    /// already exchanged on this link contain the signer. For the simulator only: a gossip network
    /// does not preserve order on its links.
    Link {
        /// The reference of `Chain`.
        chain: &'a Bitfield,
        /// Signers of at least one exchanged collection.
        any: &'a Bitfield,
        /// Signers of all exchanged collections; a subset of `any`.
        all: &'a Bitfield,
    },
}

impl<'a> Reference<'a> {
    /// The context mode, the low half of the info byte.
    pub(super) const fn mode(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::Chain(_) => 1,
            Self::Link { .. } => 2,
        }
    }

    pub(super) fn check(&self, n: usize) {
        let check_len = |field: &Bitfield| assert_eq!(field.len(), n, "length of a reference");
        match *self {
            Self::None => {}
            Self::Chain(chain) => check_len(chain),
            Self::Link { chain, any, all } => {
                [chain, any, all].into_iter().for_each(check_len);
                assert!(all.is_subset_of(any), "`all` must be part of `any`");
            }
        }
    }

    /// The positions of each class, in coding order.
    pub(super) fn masks(self, n: usize) -> impl Iterator<Item = Bitfield> + use<'a> {
        let count = match self {
            Self::None => 1,
            Self::Chain(_) => 2,
            Self::Link { .. } => 6,
        };
        (0..count).map(move |class| {
            let mut mask = Bitfield::ones(n);
            let mut keep = |field: &Bitfield, inside: bool| {
                if inside {
                    mask.intersect_with(field);
                } else {
                    mask.subtract(field);
                }
            };
            match self {
                Self::None => {}
                Self::Chain(chain) => keep(chain, class == 0),
                Self::Link { chain, any, all } => {
                    keep(chain, class < 3);
                    keep(any, class % 3 > 0);
                    keep(all, class % 3 == 2);
                }
            }
            mask
        })
    }
}

/// The boundaries of a committee's cells, in positions of the committee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellBounds {
    /// S + 1 positions, from 0 to the length, ascending.
    bounds: Vec<u32>,
}

impl CellBounds {
    /// One cell of `n` positions, as for an aggregate.
    #[must_use]
    pub fn one(n: u32) -> Self {
        Self { bounds: vec![0, n] }
    }

    /// The cells of a unit of `layout`.
    ///
    /// # Panics
    ///
    /// If there is no such unit.
    #[must_use]
    pub fn unit(layout: &Layout, unit: Unit) -> Self {
        let cells = layout.subcommittees() / layout.units_of_committee(unit.level);
        let start = layout.unit_range(unit).start;
        let cells = (0..cells).map(|i| Unit::new(1, unit.committee, unit.index * cells + i));
        let ends = cells.map(|cell| layout.unit_range(cell).end - start);
        Self {
            bounds: std::iter::once(0).chain(ends).collect(),
        }
    }

    /// The cells of committee `c` of `layout`, as for a collection.
    ///
    /// # Panics
    ///
    /// If there is no committee `c`.
    #[must_use]
    pub fn committee(layout: &Layout, c: u16) -> Self {
        Self::unit(layout, layout.committee(c))
    }

    pub(super) fn len(&self) -> usize {
        self.bounds.last().map_or(0, |&end| end as usize)
    }

    pub(super) fn count(&self) -> usize {
        self.bounds.len() - 1
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.bounds
            .windows(2)
            .map(|pair| pair[0] as usize..pair[1] as usize)
    }
}
