//! The public keys of an epoch.

use std::sync::{Arc, Mutex, PoisonError};

use alphorn_exec::Backend;
use alphorn_scheme::{Ctx, SchemeError, Statement};
use alphorn_types::{Assignment, Layout, Unit};

use super::bases::Known;
use super::votes::VerifiedVotes;
use crate::blst_ffi::curve::{G1Affine, G2Affine};
use crate::registry::Registry;
use crate::sums::{Base, KeyTable, Workspace};

/// The public keys of an epoch in committee order, with the sums of all units of the layout.
///
/// Holds one table of at most 224 bytes per key (235 MB for 2^20 validators on the wide kernel, 101 MB on the
/// portable one), at most two vectors with known sums per committee, and the point of each validator whose vote
/// was verified, 212 bytes.
pub struct EpochKeys {
    registry: Arc<Registry>,
    assignment: Arc<Assignment>,
    table: KeyTable,
    /// Known vectors of each committee.
    known: Mutex<Vec<Known>>,
    votes: Mutex<VerifiedVotes>,
}

/// The levels whose units differ from those of the level above, from the top down: the order of their units in
/// the table.
fn levels(layout: &Layout) -> impl Iterator<Item = u8> + use<> {
    let layout = *layout;
    let is_its_own = move |level: &u8| {
        *level == layout.levels()
            || layout.units_of_committee(*level) != layout.units_of_committee(level + 1)
    };
    (1..=layout.levels()).rev().filter(is_its_own)
}

/// Index of a unit in the table; committees come first.
fn index(layout: &Layout, unit: Unit) -> usize {
    let units = |level| usize::from(layout.units_of_committee(level));
    let committees = usize::from(layout.committees());
    let own = units(unit.level);
    // Levels come from the top down, so those with fewer units precede.
    let before = levels(layout).map(units).take_while(|&units| units < own);
    committees * before.sum::<usize>() + usize::from(unit.committee) * own + usize::from(unit.index)
}

impl EpochKeys {
    /// Builds the table.
    pub(super) fn new(
        backend: Backend,
        registry: &Arc<Registry>,
        assignment: &Arc<Assignment>,
        ctx: &Ctx<'_, Workspace>,
    ) -> Result<EpochKeys, SchemeError> {
        let layout = assignment.layout();
        if ctx.checkpoint().is_err() {
            return Err(SchemeError::Stopped);
        }
        let key = |&v: &u32| *registry.keys()[v as usize].point();
        let keys: Vec<G1Affine> = assignment.members().iter().map(key).collect();
        let range = |unit| {
            let range = layout.unit_range(unit);
            range.start as usize..range.end as usize
        };
        let units = levels(layout).flat_map(|level| layout.units(level));
        let table = KeyTable::of_ranges(backend, keys, units.map(range).collect());
        Ok(EpochKeys {
            table: table.expect("a registry has no identity, a layout no more validators"),
            registry: registry.clone(),
            assignment: assignment.clone(),
            known: Mutex::new(vec![Known::default(); usize::from(layout.committees())]),
            votes: Mutex::default(),
        })
    }

    /// The keys of all validators.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The committees that the table was built for.
    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// The table: the committees of the layout, followed by the units of the levels below.
    pub fn table(&self) -> &KeyTable {
        &self.table
    }

    /// The vectors with known sums of all committees; units below have none.
    pub(super) fn bases(&self) -> Vec<Base> {
        self.with_known(|known| known.iter().flat_map(Known::bases).cloned().collect())
    }

    /// Forgets what earlier jobs found, so that measurements start from the same state.
    pub fn forget(&self) {
        self.with_known(|known| known.fill(Known::default()));
        self.with_votes(VerifiedVotes::clear);
    }

    /// Calls `f` with the known vectors of each committee.
    pub(super) fn with_known<T>(&self, f: impl FnOnce(&mut [Known]) -> T) -> T {
        // After a panic the list is still valid: entries are replaced whole.
        f(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// For votes at positions after `first`, the points of those that were verified before.
    pub(super) fn points_of_votes<B: AsRef<[u8]>>(
        &self,
        first: u32,
        votes: &[(u32, B)],
    ) -> Vec<Option<G2Affine>> {
        let members = self.assignment.members();
        let members = members.get(first as usize..).unwrap_or_default();
        self.with_votes(|known| {
            let find = |(position, signature): &(u32, B)| {
                known.find(*members.get(*position as usize)?, signature.as_ref())
            };
            votes.iter().map(find).collect()
        })
    }

    /// Calls `f` with the points of verified votes.
    pub(super) fn with_votes<T>(&self, f: impl FnOnce(&mut VerifiedVotes) -> T) -> T {
        // After a panic the points are still safe to use: each is checked against the signature's bytes on
        // every use.
        f(&mut self.votes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Index in the table of the unit that a statement names exactly.
    pub(crate) fn place(&self, statement: &Statement) -> Option<usize> {
        let layout = self.assignment.layout();
        statement.unit(layout).map(|unit| index(layout, unit))
    }
}
