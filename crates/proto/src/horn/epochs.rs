//! Committees and keys of the epochs around the present.
//!
//! The committees of an epoch follow from a block before it, so two branches of the chain that parted
//! long ago have different ones for the same epoch. One of them is *in force* here: that of the head's
//! branch. Votes that the other branch included in its blocks are verified with its own committees, which
//! are prepared when a signed block of that branch arrives. If the head moves to that branch, they come
//! into force.

use alphorn_scheme::{BRANCH_EPOCH, Class, Outcome, PrepareJob, Product, Work, branch_place};
use alphorn_types::{Assignment, Bitfield, Epoch, Slot, Unit, Validator};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::effects::Request;
use super::gate;
use super::local::Hosted;
use super::machine::Horn;
use super::ranks::Ranks;
use super::state::SlotState;
use super::task::Purpose;
use crate::chain::Weights;
use crate::job::AssignJob;
use crate::wire::digest;

/// Maximum number of epochs in force at a time: the previous, the current and the next one, matching the
/// key tables a scheme keeps.
const EPOCHS_MAX: usize = 3;
/// Maximum number of epochs of other branches at a time: a block has votes of two at most, and the next
/// one starts while they are needed. Together with the epochs in force they do not exceed the number of
/// positions for tables not named after their epoch, and each has its own position.
const BRANCHES_MAX: usize = alphorn_scheme::BRANCHES_MAX - EPOCHS_MAX;

/// The committees of an epoch, and their local members.
pub(super) struct Committees {
    pub(super) seed: [u8; 32],
    /// The value the chain supplied for the epoch, which distinguishes branches.
    pub(super) mix: [u8; 32],
    /// Its epoch is the name of the key table, which for another branch differs from the real epoch.
    pub(super) assignment: Arc<Assignment>,
    pub(super) weights: Weights,
    /// Epoch positions of local validators, ascending.
    local: Vec<u32>,
    ranks: Arc<Ranks>,
}

impl Committees {
    pub(super) fn new(
        seed: [u8; 32],
        mix: [u8; 32],
        assignment: Arc<Assignment>,
        weights: Weights,
        hosted: &Hosted,
    ) -> Self {
        let position = |validator| assignment.position(validator);
        let mut local: Vec<u32> = hosted.validators().filter_map(position).collect();
        local.sort_unstable();
        Self {
            seed,
            mix,
            assignment,
            weights,
            local,
            ranks: Arc::default(),
        }
    }

    /// Uses a rank table shared with others.
    fn with_ranks(mut self, ranks: Arc<Ranks>) -> Self {
        self.ranks = ranks;
        self
    }

    /// The weight of members of a unit, by position.
    pub(super) fn weigh(&self, unit: Unit, signers: &Bitfield) -> u64 {
        self.weights
            .sum(self.assignment.unit_members(unit), signers)
    }

    /// The weight of members of a unit that are not in `without`.
    pub(super) fn weigh_gain(&self, unit: Unit, signers: &Bitfield, without: &Bitfield) -> u64 {
        let members = self.assignment.unit_members(unit);
        self.weights.sum_without(members, signers, without)
    }

    /// The weights of a unit's positions. None if all weigh 1.
    pub(super) fn unit_weights(&self, unit: Unit) -> Option<Vec<u64>> {
        self.weights.of(self.assignment.unit_members(unit))
    }

    /// The members of a unit that serve by rank, as positions in the unit, first to serve first.
    pub(super) fn ranked(&self, slot: Slot, unit: Unit, target: u16) -> Arc<[u32]> {
        let layout = self.assignment.layout();
        self.ranks
            .of(slot, &self.seed, unit, layout, u32::from(target))
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

    /// The local validators among the signers of a unit.
    pub(super) fn local_signers(&self, unit: Unit, signers: &Bitfield) -> Vec<Validator> {
        let range = self.assignment.layout().unit_range(unit);
        let first = range.start;
        let local = self.local_in(range).iter();
        let signed = local.filter(|&&position| signers.get((position - first) as usize));
        signed
            .map(|&position| self.assignment.member(position))
            .collect()
    }

    /// The position of a validator in a unit. None if it is not in the unit.
    pub(super) fn position_in(&self, validator: Validator, unit: Unit) -> Option<u32> {
        let range = self.assignment.layout().unit_range(unit);
        let position = self.assignment.position(validator)?;
        range.contains(&position).then(|| position - range.start)
    }
}

/// Progress of an epoch's preparation.
enum Stage {
    /// The committees are being drawn.
    Assigning,
    /// The keys are being prepared.
    Preparing(Arc<Committees>),
    /// Both are ready.
    Ready(Arc<Committees>),
}

/// Identifies a preparation. Its table has a name never used before, so a job that ends after its
/// preparation was abandoned is not mistaken for another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) epoch: Epoch,
    pub(super) mix: [u8; 32],
    /// The name of its key table.
    pub(super) table: Epoch,
}

struct Preparation {
    asked: Asked,
    stage: Stage,
    /// The proposer whose block of another branch waits for it. None if the head does.
    proposer: Option<Validator>,
}

impl Preparation {
    fn new(asked: Asked, proposer: Option<Validator>) -> Self {
        let stage = Stage::Assigning;
        Self {
            asked,
            stage,
            proposer,
        }
    }

    fn is_of(&self, epoch: Epoch, mix: &[u8; 32]) -> bool {
        self.asked.epoch == epoch && self.asked.mix == *mix
    }

    fn ready(&self) -> Option<&Arc<Committees>> {
        match &self.stage {
            Stage::Ready(committees) => Some(committees),
            Stage::Assigning | Stage::Preparing(_) => None,
        }
    }
}

/// The epochs that are ready or being prepared.
#[derive(Default)]
pub(super) struct Epochs {
    in_force: BTreeMap<Epoch, Box<Preparation>>,
    /// Preparations of other branches, the oldest first.
    branches: VecDeque<Preparation>,
    /// The number of the next table not named after its epoch. Numbers only increase.
    tables: u64,
    /// No epoch from this one on has had a table named after it.
    unnamed: Epoch,
    pub(super) ranks: Arc<Ranks>,
}

impl Epochs {
    /// Starts preparing an epoch under `mix`. None if it exists already, under the same mix or, unless
    /// `replace`, under another one.
    pub(super) fn begin(&mut self, epoch: Epoch, mix: [u8; 32], replace: bool) -> Option<Asked> {
        let present = self.in_force.get(&epoch);
        if present.is_some_and(|present| !replace || present.asked.mix == mix) {
            return None;
        }
        self.in_force.remove(&epoch);
        // Before the new table is named, so that their positions are free.
        while self.in_force.len() >= EPOCHS_MAX {
            self.in_force.pop_first();
        }
        let table = self.epoch_name(epoch);
        let asked = Asked { epoch, mix, table };
        self.in_force
            .insert(epoch, Box::new(Preparation::new(asked, None)));
        Some(asked)
    }

    /// Starts preparing an epoch of another branch, for a block of a proposer or for the head. Beyond
    /// [`BRANCHES_MAX`], drops the oldest one of the proposer that has the most, which is this proposer
    /// if it has equally many. None if it exists already, or another one is being prepared for the same
    /// proposer: an honest proposer has a single branch, so refusing the others costs nothing.
    fn begin_branch(
        &mut self,
        epoch: Epoch,
        mix: [u8; 32],
        proposer: Option<Validator>,
    ) -> Option<Asked> {
        let same = |one: &&Preparation| one.proposer == proposer;
        let mut prepared = self.branches.iter().filter(same);
        let is_busy = proposer.is_some() && prepared.any(|one| one.ready().is_none());
        if is_busy || self.find(epoch, &mix).is_some() {
            return None;
        }
        if self.branches.len() >= BRANCHES_MAX {
            let has = |of: &Preparation| {
                let all = self.branches.iter();
                let others = all.filter(|one| one.proposer == of.proposer).count();
                // The new preparation counts with its proposer. As the second part of the key `own`
                // breaks ties, so a proposer with as many as another loses its own.
                let own = of.proposer == proposer;
                (others + usize::from(own), own)
            };
            // Iterate from the newest, since the last of equal ones is taken.
            let all = self.branches.iter().enumerate().rev();
            if let Some((most, _)) = all.max_by_key(|(_, one)| has(one)) {
                self.branches.remove(most);
            }
        }
        let table = self.branch_name();
        let asked = Asked { epoch, mix, table };
        self.branches.push_back(Preparation::new(asked, proposer));
        Some(asked)
    }

    /// The name of the next table of an epoch that is to be in force: the epoch's own name once, and a
    /// branch name after that.
    fn epoch_name(&mut self, epoch: Epoch) -> Epoch {
        // An epoch's own name is used once. A job for an earlier table of that name would otherwise be
        // mistaken for one of the new table.
        if epoch < self.unnamed {
            return self.branch_name();
        }
        self.unnamed = epoch.next();
        // This table replaces the one of some epochs ago.
        let is_kept = |one: &Preparation| {
            let table = one.asked.table;
            branch_place(table).is_some() || table.0.saturating_add(EPOCHS_MAX as u64) > epoch.0
        };
        self.branches.retain(is_kept);
        epoch
    }

    /// The next name of a table not named after its epoch, at a position not used by any current
    /// preparation. So a table never displaces one that is wanted, whichever proposer triggered it.
    fn branch_name(&mut self) -> Epoch {
        let in_force = self.in_force.values().map(Box::as_ref);
        let all = in_force.chain(&self.branches);
        let taken: Vec<u64> = all
            .filter_map(|one| branch_place(one.asked.table))
            .collect();
        let name = |number: u64| Epoch(BRANCH_EPOCH.0 + number);
        let is_free =
            |number: &u64| branch_place(name(*number)).is_some_and(|at| !taken.contains(&at));
        // One exists: the new preparation needs one position in addition to at most all the others.
        let number = (self.tables..).find(is_free).unwrap_or(self.tables);
        self.tables = number + 1;
        name(number)
    }

    /// Brings an epoch of another branch into force, if it is ready. The one that was in force is kept as
    /// a branch.
    fn go_over(&mut self, epoch: Epoch, mix: &[u8; 32]) -> bool {
        let ready = |branch: &Preparation| branch.is_of(epoch, mix) && branch.ready().is_some();
        let Some(at) = self.branches.iter().position(ready) else {
            return false;
        };
        if let (Some(present), Some(branch)) =
            (self.in_force.get_mut(&epoch), self.branches.get_mut(at))
        {
            std::mem::swap(&mut **present, branch);
        }
        true
    }

    fn find(&self, epoch: Epoch, mix: &[u8; 32]) -> Option<&Preparation> {
        let in_force = self.in_force.values().map(Box::as_ref);
        let mut all = in_force.chain(&self.branches);
        all.find(|one| one.is_of(epoch, mix))
    }

    /// The preparation with a given table.
    fn find_table(&mut self, table: Epoch) -> Option<&mut Preparation> {
        let in_force = self.in_force.values_mut().map(Box::as_mut);
        let mut all = in_force.chain(&mut self.branches);
        all.find(|one| one.asked.table == table)
    }

    /// Records that the committees of a preparation were drawn. Returns those whose keys are needed now,
    /// named after their key table. None if they are no longer wanted.
    pub(super) fn assigned(
        &mut self,
        asked: &Asked,
        assignment: Arc<Assignment>,
        weights: &Weights,
        local: &Hosted,
    ) -> Option<Arc<Assignment>> {
        let ranks = self.ranks.clone();
        let present = self.find_table(asked.table)?;
        if !matches!(present.stage, Stage::Assigning) {
            return None;
        }
        // A key table is named after the epoch of its assignment (`PrepareJob`).
        let assignment = match asked.table == asked.epoch {
            true => assignment,
            false => {
                let (layout, members) = (*assignment.layout(), assignment.members().to_vec());
                Arc::new(Assignment::new(asked.table, layout, members).ok()?)
            }
        };
        let mix = asked.mix;
        let seed = digest::epoch_seed(asked.epoch, &mix);
        let committees = Committees::new(seed, mix, assignment.clone(), weights.clone(), local)
            .with_ranks(ranks);
        present.stage = Stage::Preparing(Arc::new(committees));
        Some(assignment)
    }

    /// Records that a key table is prepared. False if it is no longer wanted.
    pub(super) fn prepared(&mut self, table: Epoch) -> bool {
        let Some(present) = self.find_table(table) else {
            return false;
        };
        if let Stage::Preparing(committees) = &present.stage {
            present.stage = Stage::Ready(committees.clone());
        }
        true
    }

    /// Drops a preparation whose job failed or whose table is gone, so that it can be started again.
    pub(super) fn failed(&mut self, table: Epoch) {
        self.in_force.retain(|_, one| one.asked.table != table);
        self.branches.retain(|one| one.asked.table != table);
    }

    /// The committees in force in an epoch, once their keys are ready.
    pub(super) fn ready(&self, epoch: Epoch) -> Option<&Arc<Committees>> {
        self.in_force.get(&epoch)?.ready()
    }

    /// The committees of an epoch under a mix, once their keys are ready.
    pub(super) fn of(&self, epoch: Epoch, mix: &[u8; 32]) -> Option<&Arc<Committees>> {
        self.find(epoch, mix)?.ready()
    }

    /// Brings committees with ready keys into force.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn insert_ready(&mut self, epoch: Epoch, committees: Arc<Committees>) {
        let asked = Asked {
            epoch,
            mix: committees.mix,
            table: committees.assignment.epoch(),
        };
        let mut preparation = Preparation::new(asked, None);
        preparation.stage = Stage::Ready(committees);
        self.unnamed = self.unnamed.max(epoch.next());
        self.in_force.insert(epoch, Box::new(preparation));
    }

    /// The name of the newest key table in force. All tables contain every validator's key.
    pub(super) fn table(&self) -> Option<Epoch> {
        let ready = self.in_force.values().rev();
        let mut ready = ready.filter(|present| present.ready().is_some());
        ready.next().map(|present| present.asked.table)
    }
}

impl Horn {
    /// Starts preparing the committees and keys of this epoch and the next one. Those of the next epoch
    /// are drawn from the last block before this one, and drawn again if the head changes to a chain with
    /// another such block. Those of an epoch that has begun stay until the head moves to a branch with
    /// other ones, and these are prepared.
    pub(super) fn prepare_epochs(&mut self) {
        let slot = self.clock.slot_at(self.now).unwrap_or(Slot(0));
        let epoch = slot.epoch(self.config.epoch_slots);
        let head = self.chain.head();
        for (epoch, class, replace) in [
            (epoch, Class::Duty, false),
            (epoch.next(), Class::Maintenance, true),
        ] {
            let Some(mix) = self.chain.mix(epoch, &head) else {
                continue;
            };
            if let Some(asked) = self.epochs.begin(epoch, mix, replace) {
                self.draw_committees(asked, class);
            // If the epoch is in force under this very mix, nothing below happens.
            } else if !replace && !self.epochs.go_over(epoch, &mix) {
                self.prepare_branch(epoch, mix, None);
            }
        }
    }

    /// Starts preparing the committees and keys of an epoch as another branch has them, unless already
    /// done: for a proposer's block, or for the head.
    pub(super) fn prepare_branch(
        &mut self,
        epoch: Epoch,
        mix: [u8; 32],
        proposer: Option<Validator>,
    ) {
        if let Some(asked) = self.epochs.begin_branch(epoch, mix, proposer) {
            self.draw_committees(asked, Class::Duty);
        }
    }

    fn draw_committees(&mut self, asked: Asked, class: Class) {
        let (epoch, mix, layout) = (asked.epoch, asked.mix, self.config.layout);
        let work = Work::Foreign(Box::new(AssignJob { epoch, mix, layout }));
        self.spawn_preparation(&asked, class, work, Purpose::Assign(asked));
    }

    fn spawn_preparation(&mut self, asked: &Asked, class: Class, work: Work, purpose: Purpose) {
        let Asked { epoch, mix, .. } = *asked;
        let slot = self.clock.slot_at(self.now).unwrap_or(Slot(0));
        let first = Slot(epoch.0.saturating_mul(self.config.epoch_slots));
        let last = Slot(first.0.saturating_add(self.config.epoch_slots));
        // An epoch of another branch may be over, but is still wanted.
        let last = last.max(slot.next().next());
        let request = Request {
            // A session of its own: the end of a slot cancels none of these jobs.
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

    pub(super) fn committees_drawn(&mut self, asked: Asked, outcome: Outcome<Product>) {
        let epoch = asked.epoch;
        let drawn = match outcome {
            // The answer comes from outside the state machine and may be of another epoch or layout.
            Outcome::Done(Product::Assigned(assignment))
                if assignment.epoch() == epoch && *assignment.layout() == self.config.layout =>
            {
                assignment
            }
            _ => {
                self.fx.counters.jobs_failed += 1;
                return self.epochs.failed(asked.table);
            }
        };
        let (weights, local) = (&self.config.weights, &self.local);
        if let Some(assignment) = self.epochs.assigned(&asked, drawn, weights, local) {
            let begun = self.clock.slot_at(self.now).unwrap_or(Slot(0));
            let class = match epoch <= begun.epoch(self.config.epoch_slots) {
                true => Class::Duty,
                false => Class::Maintenance,
            };
            let work = Work::Prepare(PrepareJob { assignment });
            self.spawn_preparation(&asked, class, work, Purpose::Prepare(asked));
        }
    }

    pub(super) fn keys_prepared(&mut self, asked: Asked, outcome: Outcome<Product>) {
        let Asked { epoch, mix, table } = asked;
        if !matches!(outcome, Outcome::Done(Product::Prepared(made)) if made == table) {
            self.fx.counters.jobs_failed += 1;
            return self.epochs.failed(table);
        }
        if !self.epochs.prepared(table) {
            return;
        }
        if let Some(committees) = self.epochs.of(epoch, &mix) {
            let epoch_slots = self.config.epoch_slots;
            let of_it = |state: &&mut Box<SlotState>| {
                state.slot.epoch(epoch_slots) == epoch && state.committees.mix == mix
            };
            // Their table was gone, and now has another name.
            for state in self.slots.values_mut().filter(of_it) {
                state.epoch = table;
                state.committees = committees.clone();
            }
        }
        self.gate(gate::Input::Prepared { mix });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::horn::committee::assignment;
    use crate::horn::local::Local;
    use alphorn_types::Layout;
    use std::collections::BTreeSet;

    const EPOCH: Epoch = Epoch(1);

    /// The mixes of the current branches, the oldest first.
    fn mixes(epochs: &Epochs) -> Vec<u8> {
        epochs.branches.iter().map(|one| one.asked.mix[0]).collect()
    }

    /// Finishes a preparation: its committees are drawn and its keys ready.
    fn finish(epochs: &mut Epochs, asked: &Asked) {
        let layout = Layout::new(1, 1, 1).unwrap();
        let drawn = Arc::new(assignment(asked.epoch, &asked.mix, layout));
        let local = Hosted::from(&Local::observer(&layout));
        let named = epochs.assigned(asked, drawn, &Weights::equal(1), &local);
        assert_eq!(named.unwrap().epoch(), asked.table);
        assert!(epochs.prepared(asked.table));
    }

    /// Starts preparing a branch whose committees are ready immediately or never.
    fn begin(epochs: &mut Epochs, mix: u8, proposer: Option<u32>, ready: bool) -> bool {
        let begun = epochs.begin_branch(EPOCH, [mix; 32], proposer.map(Validator));
        if let Some(asked) = begun.filter(|_| ready) {
            finish(epochs, &asked);
        }
        begun.is_some()
    }

    #[test]
    fn the_proposer_with_most_branches_gives_way() {
        let mut epochs = Epochs::default();
        assert!(begin(&mut epochs, 1, Some(7), false));
        assert!(!begin(&mut epochs, 1, Some(8), false), "it is there");
        assert!(!begin(&mut epochs, 2, Some(7), false), "one at a time");
        for mix in 2..=4 {
            assert!(begin(&mut epochs, mix, Some(9), true));
        }
        assert_eq!(mixes(&epochs), [1, 3, 4]);
        assert!(begin(&mut epochs, 5, None, false));
        assert_eq!(mixes(&epochs), [1, 4, 5]);
        assert!(begin(&mut epochs, 6, None, false));
        assert_eq!(mixes(&epochs), [1, 4, 6]);
        assert!(begin(&mut epochs, 7, Some(10), false));
        assert_eq!(mixes(&epochs), [4, 6, 7], "of equals the oldest");
    }

    /// A block with votes of two epochs needs two branches. One proposer displaces neither.
    #[test]
    fn a_proposer_with_as_many_branches_as_another_loses_its_own() {
        let mut epochs = Epochs::default();
        for mix in [1, 2] {
            assert!(begin(&mut epochs, mix, Some(7), true));
        }
        for mix in 3..20 {
            assert!(begin(&mut epochs, mix, Some(9), true));
            assert_eq!(mixes(&epochs), [1, 2, mix]);
        }
    }

    /// However many branches are prepared and dropped, the tables of current ones, including those in
    /// force, have their own positions, and no name is used twice.
    #[test]
    fn no_table_displaces_one_that_is_wanted() {
        let (mut epochs, mut names) = (Epochs::default(), BTreeSet::new());
        for (epoch, mix) in (1..=3).zip([101; 3]) {
            let asked = epochs.begin(Epoch(epoch), [mix; 32], false).unwrap();
            assert_eq!(asked.table, Epoch(epoch));
            finish(&mut epochs, &asked);
        }
        for round in 0..60 {
            let epoch = Epoch(1 + u64::from(round) % 3);
            let proposer = (round % 4 > 0).then_some(Validator(u32::from(round % 2)));
            let asked = epochs.begin_branch(epoch, [round; 32], proposer).unwrap();
            assert!(names.insert(asked.table) && branch_place(asked.table).is_some());
            finish(&mut epochs, &asked);
            if round % 7 == 0 {
                assert!(epochs.go_over(epoch, &[round; 32]));
            }
            let in_force = epochs.in_force.values().map(Box::as_ref);
            let all = in_force.chain(&epochs.branches);
            let places: Vec<_> = all
                .filter_map(|one| branch_place(one.asked.table))
                .collect();
            let distinct: BTreeSet<_> = places.iter().collect();
            assert_eq!(distinct.len(), places.len(), "{places:?}");
        }
        let in_force = epochs.in_force.values();
        assert!(in_force.filter(|one| one.asked.table == EPOCH).count() == 0);
    }

    #[test]
    fn what_a_job_of_an_earlier_preparation_says_changes_nothing() {
        let mut epochs = Epochs::default();
        let [one, other] = [[1; 32], [2; 32]];
        let earlier = epochs.begin(EPOCH, one, true).unwrap();
        // The head changes, and changes back, while keys are made.
        epochs.begin(EPOCH, other, true).unwrap();
        let asked = epochs.begin(EPOCH, one, true).unwrap();
        assert!((asked.epoch, asked.mix) == (earlier.epoch, earlier.mix));
        assert!(!epochs.prepared(earlier.table));
        epochs.failed(earlier.table);
        assert!(epochs.of(EPOCH, &one).is_none());
        finish(&mut epochs, &asked);
        epochs.failed(earlier.table);
        assert!(epochs.of(EPOCH, &one).is_some());
        assert_eq!(epochs.table(), Some(asked.table));
    }

    /// A table is dropped with its epoch. Whatever was prepared under its name is prepared again.
    #[test]
    fn a_branch_whose_table_is_named_as_an_epoch_goes_with_the_table() {
        let mut epochs = Epochs::default();
        let asked = epochs.begin(EPOCH, [1; 32], false).unwrap();
        finish(&mut epochs, &asked);
        assert!(begin(&mut epochs, 2, None, true));
        assert!(epochs.go_over(EPOCH, &[2; 32]));
        for epoch in 2..4 {
            epochs.begin(Epoch(epoch), [1; 32], false).unwrap();
            assert!(epochs.of(EPOCH, &[1; 32]).is_some());
        }
        epochs.begin(Epoch(4), [1; 32], false).unwrap();
        assert!(epochs.of(EPOCH, &[1; 32]).is_none());
    }

    #[test]
    fn an_epoch_whose_table_is_gone_is_begun_again() {
        let mut epochs = Epochs::default();
        let asked = epochs.begin(EPOCH, [1; 32], false).unwrap();
        finish(&mut epochs, &asked);
        assert!(epochs.begin(EPOCH, [1; 32], false).is_none());
        epochs.failed(asked.table);
        let again = epochs.begin(EPOCH, [1; 32], false).unwrap();
        assert!(branch_place(again.table).is_some(), "a name of its own");
    }
}
