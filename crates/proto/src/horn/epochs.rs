//! Committees and keys of the epochs around the present.

use alphorn_scheme::{self as scheme, Outcome, PrepareJob};
use alphorn_types::{Assignment, Bitfield, Cell, Epoch, Slot, Validator};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::effects::Request;
use super::machine::Horn;
use super::task::Purpose;
use crate::contract::Class;
use crate::job::{AssignJob, Product, Work};
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
        Self {
            seed,
            assignment,
            local,
        }
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
    pub(super) fn position_in_committee(
        &self,
        validator: Validator,
        committee: u16,
    ) -> Option<u32> {
        self.position_in(
            validator,
            self.assignment.layout().committee_range(committee),
        )
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
    pub(super) fn assigned(
        &mut self,
        mix: &[u8; 32],
        assignment: Arc<Assignment>,
        local: &Bitfield,
    ) -> bool {
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
        if self
            .by_epoch
            .get(&epoch)
            .is_some_and(|present| present.mix == *mix)
        {
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

impl Horn {
    /// Has the committees and keys of this epoch and of the next one prepared. Those of the next
    /// epoch are drawn from the last block before this one, and drawn again if the head changes to
    /// a chain with another such block; those of an epoch that has begun stay.
    pub(super) fn prepare_epochs(&mut self) {
        let slot = self.clock.slot_at(self.now).unwrap_or(Slot(0));
        let epoch = slot.epoch(self.config.epoch_slots);
        let head = self.chain.head();
        for (epoch, class, replace) in [
            (epoch, Class::Duty, false),
            (epoch.next(), Class::Maintenance, true),
        ] {
            if let Some(mix) = self.chain.mix(epoch, &head)
                && self.epochs.begin(epoch, mix, replace)
            {
                let layout = self.config.layout;
                let work = Work::Assign(AssignJob { epoch, mix, layout });
                self.spawn_preparation(epoch, mix, class, work, Purpose::Assign { epoch, mix });
            }
        }
    }

    fn spawn_preparation(
        &mut self,
        epoch: Epoch,
        mix: [u8; 32],
        class: Class,
        work: Work,
        purpose: Purpose,
    ) {
        let slot = self.clock.slot_at(self.now).unwrap_or(Slot(0));
        let first = Slot(epoch.0.saturating_mul(self.config.epoch_slots));
        let last = Slot(first.0.saturating_add(self.config.epoch_slots));
        let request = Request {
            session: self.fx.session(slot),
            message: mix,
            committee: None,
            subcommittee: None,
            class,
            soft: self.clock.slot_start(first).max(self.now),
            hard: self.clock.slot_start(last),
            work,
        };
        self.fx.spawn(request, purpose);
    }

    pub(super) fn committees_drawn(
        &mut self,
        epoch: Epoch,
        mix: [u8; 32],
        outcome: Outcome<Product>,
    ) {
        let Outcome::Done(Product::Assigned(assignment)) = outcome else {
            self.fx.counters.jobs_failed += 1;
            return self.epochs.failed(epoch, &mix);
        };
        if assignment.epoch() != epoch || *assignment.layout() != self.config.layout {
            self.fx.counters.jobs_failed += 1;
            return self.epochs.failed(epoch, &mix);
        }
        if self
            .epochs
            .assigned(&mix, assignment.clone(), &self.local.validators)
        {
            let begun = self.clock.slot_at(self.now).unwrap_or(Slot(0));
            let class = match epoch <= begun.epoch(self.config.epoch_slots) {
                true => Class::Duty,
                false => Class::Maintenance,
            };
            let work = Work::Scheme(scheme::Work::Prepare(PrepareJob { assignment }));
            self.spawn_preparation(epoch, mix, class, work, Purpose::Prepare { epoch, mix });
        }
    }

    pub(super) fn keys_prepared(&mut self, epoch: Epoch, mix: [u8; 32], outcome: Outcome<Product>) {
        match outcome {
            Outcome::Done(Product::Scheme(scheme::Product::Prepared(prepared)))
                if prepared == epoch =>
            {
                self.epochs.prepared(epoch, &mix);
            }
            _ => {
                self.fx.counters.jobs_failed += 1;
                return self.epochs.failed(epoch, &mix);
            }
        }
        // A phase may have begun while nothing was ready.
        if let Some(present) = self.clock.phase_at(self.now)
            && present.slot.epoch(self.config.epoch_slots) == epoch
            && self
                .slots
                .get(&present.slot)
                .is_none_or(|state| state.phase < Some(present.phase))
        {
            self.run_phase(present);
        }
    }
}
