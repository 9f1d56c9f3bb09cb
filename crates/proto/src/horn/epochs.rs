//! Committees and keys of the epochs around the present.

use alphorn_types::{Assignment, Bitfield, Cell, Epoch, Validator};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::wire::digest;

/// Epochs kept at a time: the previous, the current and the next one, as a scheme keeps key
/// tables.
const EPOCHS_MAX: usize = 3;

/// The committees of an epoch, and who of them is local.
pub(super) struct Committees {
    pub(super) seed: [u8; 32],
    pub(super) assignment: Arc<Assignment>,
    /// Epoch positions of local validators, ascending.
    local: Vec<u32>,
}

impl Committees {
    fn new(seed: [u8; 32], assignment: Arc<Assignment>, validators: &Bitfield) -> Self {
        let position = |v: usize| assignment.position(Validator(v as u32));
        let mut local: Vec<u32> = validators.iter_ones().filter_map(position).collect();
        local.sort_unstable();
        Self { seed, assignment, local }
    }

    /// Epoch positions of the local validators within a range, ascending.
    pub(super) fn local_in(&self, range: Range<u32>) -> &[u32] {
        let first = self.local.partition_point(|&p| p < range.start);
        let end = self.local.partition_point(|&p| p < range.end);
        &self.local[first..end]
    }

    /// The local validators of a committee, by position.
    pub(super) fn local_members(&self, committee: u16) -> Vec<Validator> {
        let range = self.assignment.layout().committee_range(committee);
        let member = |&position: &u32| self.assignment.member(position);
        self.local_in(range).iter().map(member).collect()
    }

    /// The position of a validator inside `cell`, none if it sits elsewhere.
    pub(super) fn position_in_cell(&self, validator: Validator, cell: Cell) -> Option<u32> {
        self.position_in(validator, self.assignment.layout().cell_range(cell))
    }

    /// The position of a validator inside a committee, none if it sits elsewhere.
    pub(super) fn position_in_committee(&self, validator: Validator, committee: u16) -> Option<u32> {
        self.position_in(validator, self.assignment.layout().committee_range(committee))
    }

    fn position_in(&self, validator: Validator, range: Range<u32>) -> Option<u32> {
        let position = self.assignment.position(validator)?;
        range.contains(&position).then(|| position - range.start)
    }
}

/// How far the preparation of an epoch is.
enum Stage {
    /// The committees are being drawn.
    Assigning,
    /// The keys are being prepared.
    Preparing(Arc<Committees>),
    /// Both are there.
    Ready(Arc<Committees>),
}

struct Preparation {
    mix: [u8; 32],
    stage: Stage,
}

/// The epochs that are prepared or being prepared.
#[derive(Default)]
pub(super) struct Epochs {
    by_epoch: BTreeMap<Epoch, Preparation>,
}

impl Epochs {
    /// Begins an epoch under `mix`. False if it is there already, under the same mix or, unless
    /// `replace`, under another one.
    pub(super) fn begin(&mut self, epoch: Epoch, mix: [u8; 32], replace: bool) -> bool {
        let present = self.by_epoch.get(&epoch);
        if present.is_some_and(|present| !replace || present.mix == mix) {
            return false;
        }
        let stage = Stage::Assigning;
        self.by_epoch.insert(epoch, Preparation { mix, stage });
        while self.by_epoch.len() > EPOCHS_MAX {
            self.by_epoch.pop_first();
        }
        true
    }

    /// The committees of an epoch were drawn. True if they are the ones that were asked for last
    /// and the keys are wanted now.
    pub(super) fn assigned(&mut self, mix: &[u8; 32], assignment: Arc<Assignment>, local: &Bitfield) -> bool {
        let epoch = assignment.epoch();
        let Some(present) = self.by_epoch.get_mut(&epoch) else {
            return false;
        };
        if present.mix != *mix || !matches!(present.stage, Stage::Assigning) {
            return false;
        }
        let seed = digest::epoch_seed(epoch, mix);
        let committees = Committees::new(seed, assignment, local);
        present.stage = Stage::Preparing(Arc::new(committees));
        true
    }

    /// The keys of an epoch are prepared.
    pub(super) fn prepared(&mut self, epoch: Epoch, mix: &[u8; 32]) {
        if let Some(present) = self.by_epoch.get_mut(&epoch)
            && let Stage::Preparing(committees) = &present.stage
            && present.mix == *mix
        {
            present.stage = Stage::Ready(committees.clone());
        }
    }

    /// A job of the preparation failed: the epoch can be begun again.
    pub(super) fn failed(&mut self, epoch: Epoch, mix: &[u8; 32]) {
        if self.by_epoch.get(&epoch).is_some_and(|present| present.mix == *mix) {
            self.by_epoch.remove(&epoch);
        }
    }

    /// The committees of an epoch whose keys are ready.
    pub(super) fn ready(&self, epoch: Epoch) -> Option<&Arc<Committees>> {
        match &self.by_epoch.get(&epoch)?.stage {
            Stage::Ready(committees) => Some(committees),
            Stage::Assigning | Stage::Preparing(_) => None,
        }
    }
}
