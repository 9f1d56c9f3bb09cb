//! Tests of each role in isolation: any inputs in any order, and the invariants that must always hold.
//!
//! A script of bytes determines the inputs. The jobs that a role requests are run by the model scheme or
//! fail. Property tests and fuzz targets supply scripts.

mod gate;

use alphorn_scheme::model::{CostTable, Model, ModelRegistry, ModelSigners};
use alphorn_scheme::{
    self as scheme, Bytes, Ctx, Env, Evidence, JobId, MemoryWatermark, Outcome, PrepareJob,
    Product, Role as Signer, Scratch, SignItem, SignJob, Task, Work,
};
use alphorn_types::{Bitfield, Cell, Epoch, Layout, Slot, Time, Validator};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ballot::Ballot;
use super::config::{Config, Publish, SchemeInfo, Selection};
use super::effects::Effects;
use super::epochs::{Committees, Epochs};
use super::local::{Hosted, Local};
use super::maker::{self, Maker};
use super::proposer::{self, Proposer};
use super::role::{Role, Shared, lent};
use super::state::{Serving, SlotState, Slots};
use super::store::{Claimed, Received, Store};
use super::task::Purpose;
use super::voter::{self, Voter};
use crate::chain::Chain;
use crate::contract::{Output, Spawn};
use crate::slot::{Phase, SlotClock};
use crate::wire::{Aggregate, Body, Entry, Header, Root, WireFormat, digest};

pub use gate::gate;

/// Validators, all of them local, in two committees of two cells.
const VALIDATORS: u32 = 16;
/// The slot in which everything happens.
const SLOT: Slot = Slot(1);
/// Maximum number of messages in a script.
const STEPS_MAX: usize = 256;

/// All validators, all of them voting.
fn everybody() -> Local {
    let all = Bitfield::ones(VALIDATORS as usize);
    Local {
        validators: all.clone(),
        voters: all,
        trust_own: true,
    }
}

/// The bytes that determine the inputs.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> usize {
        usize::from(self.next().unwrap_or(0))
    }
}

/// A node with one slot and a single role.
struct Stage {
    config: Config,
    info: SchemeInfo,
    format: WireFormat,
    local: Hosted,
    clock: SlotClock,
    now: Time,
    chain: Chain,
    epochs: Epochs,
    store: Store,
    slots: Slots,
    fx: Effects,
    env: Env,
    marks: MemoryWatermark,
    /// Jobs in flight.
    jobs: Vec<(JobId, Work)>,
    /// The ballots to vote for: two heads.
    ballots: [Arc<Ballot>; 2],
}

impl Stage {
    fn new(choices: u8) -> Self {
        let layout = Layout::new(VALIDATORS, 2, 2).expect("a legal layout");
        let mut table = CostTable::example();
        table.abilities.bundle_max = Some(8);
        let model = Model::new(table).expect("a legal table");
        let info = SchemeInfo::of(&model, &layout);
        let mut config = Config::new(layout, &info);
        if choices & 1 != 0 {
            config.selection = Selection::Rank;
        }
        if choices & 2 != 0 {
            config.levels[1].publish = Publish::Staged;
        }
        config.levels[0].publishers = 1 + u16::from(choices >> 2) % 4;
        if choices & 128 != 0 {
            config.bundle(&info);
        }
        let local = Hosted::from(&everybody());
        let mut chain = Chain::new([1; 32], layout, config.epoch_slots);
        chain.set_slot(SLOT);
        let genesis = chain.head();
        let header = Header {
            slot: SLOT,
            proposer: chain.proposer(SLOT),
            parent: genesis,
            body: [0; 32],
        };
        chain.insert(header, &[]).expect("the first block");
        let ballots = [header.root(), genesis].map(|head| {
            let vote = chain.vote(SLOT, &head).expect("a known head");
            Ballot::new(config.network(), vote)
        });
        let mut env = Env::signing(
            Arc::new(model),
            Arc::new(ModelRegistry {
                validators: VALIDATORS,
            }),
            Arc::new(ModelSigners {
                validators: VALIDATORS,
            }),
            [7; 32],
        );
        let mix = chain.mix(Epoch(0), &genesis).expect("genesis is known");
        let assignment = Arc::new(super::committee::assignment(Epoch(0), &mix, layout));
        let work = Work::Prepare(PrepareJob {
            assignment: assignment.clone(),
        });
        let prepared = work.run(&env, &mut Ctx::single(&mut Scratch::default()));
        let keys = prepared.ok().and_then(|output| output.keys);
        let (epoch, keys) = keys.expect("the model prepares any keys");
        env.insert_keys(epoch, keys);
        let seed = digest::epoch_seed(Epoch(0), &mix);
        let committees = Arc::new(Committees::new(
            seed,
            mix,
            assignment,
            config.weights.clone(),
            &local,
        ));
        let mut fx = Effects::default();
        let mut state = SlotState::new(SLOT, committees, config.vote_data_per_slot_max, &mut fx);
        state.own = state.ballots.track_own(&ballots[0]);
        state
            .ballots
            .track_vote(&ballots[1], 1)
            .expect("room for two");
        let clock = SlotClock::new(config.genesis, config.timing);
        Self {
            format: config.format(&info),
            now: clock.slot_start(SLOT),
            slots: BTreeMap::from([(SLOT, Box::new(state))]),
            store: Store::default(),
            marks: MemoryWatermark::new(VALIDATORS),
            epochs: Epochs::default(),
            jobs: Vec::new(),
            config,
            info,
            local,
            clock,
            chain,
            fx,
            env,
            ballots,
        }
    }

    fn shared(&mut self) -> Shared<'_> {
        lent!(self, &self.slots)
    }

    fn state(&mut self) -> &mut SlotState {
        self.slots.get_mut(&SLOT).expect("the only slot")
    }

    /// Passes an input to a role and returns its outputs.
    fn handle<R: Role>(&mut self, role: &mut R, input: R::Input) -> Vec<R::Made> {
        role.handle(&mut self.shared(), input);
        while let Some(output) = self.fx.poll() {
            match output {
                Output::Spawn(Spawn {
                    job,
                    work,
                    soft,
                    hard,
                    ..
                }) => {
                    assert!(soft <= hard, "{} is wanted after its end", work.name());
                    self.jobs.push((job, work));
                }
                other => panic!("a role does not publish by itself: {other:?}"),
            }
        }
        std::iter::from_fn(|| role.poll_output(&mut self.shared())).collect()
    }

    /// Ends one of the jobs in flight, successfully or in one of the ways without a result.
    fn end(&mut self, which: usize, way: usize) -> Option<(Purpose, Outcome<Product>)> {
        if self.jobs.is_empty() {
            return None;
        }
        let (job, work) = self.jobs.remove(which % self.jobs.len());
        let outcome = match way % 8 {
            0 => Outcome::Refused("spoilt".into()),
            1 => Outcome::Crashed,
            2 => Outcome::Invalid(vec![0]),
            3 => Outcome::Done(Product::Verdicts(Vec::new())),
            _ => self.run(&work),
        };
        let purpose = self.fx.finish(job).expect("it was asked for");
        assert!(self.fx.finish(job).is_none(), "a job ends once");
        Some((purpose, outcome))
    }

    fn run(&self, work: &Work) -> Outcome<Product> {
        if let Work::Sign(job) = work
            && let Err((_, refused)) = job.admit(&self.marks)
        {
            return Outcome::Refused(refused.to_string());
        }
        let done = work.run(&self.env, &mut Ctx::single(&mut Scratch::default()));
        done.map(|output| output.product).into()
    }

    /// Advances time and the phase. True if the role's deadline has come.
    fn pass(&mut self, ms: u64, deadline: Option<Time>) -> bool {
        self.now = self.now.saturating_add_ns(ms * 1_000_000);
        let now = self.clock.phase_at(self.now).filter(|at| at.slot == SLOT);
        let phase = now.map_or(Phase::Decide, |at| at.phase);
        self.state().phase = Some(phase);
        deadline.is_some_and(|at| at <= self.now)
    }

    /// Accepts the vote of a validator, unless it has voted or no longer signs.
    fn vote(&mut self, validator: u32, choice: usize) -> Option<Cell> {
        let validator = Validator(validator % VALIDATORS);
        let ballot = self.ballots[choice % 2].clone();
        let item = SignItem {
            validator,
            role: Signer::Vote,
            message: ballot.message,
            guard: Some(ballot.guard()),
        };
        let work = Work::Sign(SignJob::new(SLOT, vec![item]));
        let Outcome::Done(Product::Signed(signed)) = self.run(&work) else {
            return None;
        };
        let signature: Bytes = signed.iter().map(Bytes::from).next()?;
        let state = self.state();
        let cell = state.committees.assignment.cell_of(validator)?;
        let position = state.committees.position_in(validator, cell.into())?;
        let index = state.ballots.index(&ballot)?;
        // Only the signature at the end of an accepted message is read.
        state.cell_mut(cell).insert(position, index, signature);
        Some(cell)
    }

    /// Signs as a validator, whatever it signed before.
    fn signed(&self, validator: Validator, role: Signer, message: [u8; 32]) -> Option<Bytes> {
        let item = SignItem {
            validator,
            role,
            message,
            guard: None,
        };
        let job = SignJob::new(SLOT, vec![item]);
        job.admit(&MemoryWatermark::new(VALIDATORS)).ok()?;
        match self.product(&Work::Sign(job))? {
            Product::Signed(signed) => signed.iter().map(Bytes::from).next(),
            _ => None,
        }
    }

    /// Accepts any aggregate.
    fn accept(&mut self, message: Option<Aggregate>) {
        if let Some(message) = message {
            let received = Received::new(Bytes::from([]), message);
            self.state().accept(received);
        }
    }

    fn product(&self, work: &Work) -> Option<Product> {
        let done = work.run(&self.env, &mut Ctx::single(&mut Scratch::default()));
        done.ok().map(|output| output.product)
    }

    /// Evidence of some positions of a cell, made by the model scheme.
    fn aggregate(&self, cell: Cell, choice: usize, members: u8) -> Option<Evidence> {
        let state = self.slots.get(&SLOT)?;
        let message = self.ballots[choice % 2].message;
        let mut votes = Vec::new();
        for (position, &validator) in (0u32..).zip(state.committees.assignment.cell_members(cell)) {
            if members >> (position % 8) & 1 != 0 {
                let signed = self.signed(Validator(validator), Signer::Vote, message);
                votes.push((position, signed?.into()));
            }
        }
        if votes.is_empty() {
            return None;
        }
        let statement = self
            .config
            .statement(&self.info, cell.into(), SLOT, message);
        let work = Work::Aggregate(scheme::AggregateJob {
            epoch: state.epoch,
            statement,
            votes,
        });
        match self.product(&work)? {
            Product::Evidence(evidence) => Some(evidence),
            _ => None,
        }
    }
}

fn cell(number: usize) -> Cell {
    Cell {
        committee: (number & 1) as u16,
        subcommittee: (number >> 1 & 1) as u16,
    }
}

/// A voter in isolation: at most one vote of each validator is signed, for the given ballot.
///
/// # Panics
///
/// If that does not hold.
pub fn voter(data: &[u8]) -> bool {
    let mut script = Script(data);
    let mut stage = Stage::new(script.number() as u8);
    let mut role = Voter::default();
    let mut signed = BTreeSet::new();
    for _ in 0..STEPS_MAX {
        let Some(step) = script.next() else {
            break;
        };
        let made = match step % 4 {
            0 => {
                let ballot = stage.ballots[script.number() % 2].clone();
                stage.handle(&mut role, voter::Input::Begin { slot: SLOT, ballot })
            }
            1 => {
                stage.pass(script.number() as u64 * 100, None);
                Vec::new()
            }
            2 => stage.handle(&mut role, voter::Input::Close { slot: SLOT }),
            _ => match stage.end(script.number(), script.number()) {
                Some((Purpose::Voter(job), outcome)) => {
                    stage.handle(&mut role, voter::Input::Finished { job, outcome })
                }
                _ => Vec::new(),
            },
        };
        for made in made {
            assert_eq!(made.ballot.vote, made.message.vote);
            let vote = (made.message.validator, made.message.vote);
            let twice = signed
                .iter()
                .any(|(validator, of)| *validator == vote.0 && *of != vote.1);
            assert!(!twice, "two votes of one validator");
            signed.insert(vote);
        }
    }
    !signed.is_empty()
}

/// A maker in isolation: driven by the script, with additional inputs from `feed`. Each aggregate is from
/// a serving validator that makes no other, and is passed to `check`.
fn maker(
    data: &[u8],
    level: u8,
    feed: fn(&mut Stage, &mut Script<'_>) -> Option<u16>,
    check: fn(&mut Stage, Aggregate),
) -> bool {
    let mut script = Script(data);
    let mut stage = Stage::new(script.number() as u8);
    let mut role = Maker::new(level);
    let mut makers = BTreeSet::new();
    let slot = SLOT;
    stage.handle(&mut role, maker::Input::Open { slot });
    for _ in 0..STEPS_MAX {
        let Some(step) = script.next() else {
            break;
        };
        let made = match step % 5 {
            0 => match feed(&mut stage, &mut script) {
                Some(committee) => stage.handle(&mut role, maker::Input::Ready { slot, committee }),
                None => Vec::new(),
            },
            1 => stage.handle(&mut role, maker::Input::Begin { slot }),
            2 => match stage.pass(script.number() as u64 * 40, role.next_deadline()) {
                true => stage.handle(&mut role, maker::Input::Deadline),
                false => Vec::new(),
            },
            _ => match stage.end(script.number(), script.number()) {
                Some((Purpose::Maker(job), outcome)) => {
                    stage.handle(&mut role, maker::Input::Finished { job, outcome })
                }
                Some((Purpose::Draw(draw), outcome)) => {
                    stage.handle(&mut role, maker::Input::Drawn { draw, outcome })
                }
                _ => Vec::new(),
            },
        };
        for made in made {
            if let maker::Made::Aggregate(made) = made {
                let serves = role.roster().serving(SLOT, made.unit.committee);
                let is_sender = |one: &Serving| one.validator == made.sender;
                assert!(
                    serves
                        .iter()
                        .any(|one| is_sender(one) && one.unit == made.unit)
                );
                assert!(
                    makers.insert(made.sender),
                    "whoever serves has one aggregate"
                );
                check(&mut stage, made);
            }
        }
    }
    stage.handle(&mut role, maker::Input::Close { slot });
    assert_eq!(
        role.next_deadline(),
        None,
        "nothing is left of a closed slot"
    );
    !makers.is_empty()
}

/// An aggregator in isolation: its output consists of accepted votes, one aggregate per serving
/// validator.
///
/// # Panics
///
/// If that does not hold.
pub fn aggregator(data: &[u8]) -> bool {
    let feed = |stage: &mut Stage, script: &mut Script<'_>| {
        let cell = stage.vote(script.number() as u32, script.number());
        cell.map(|cell| cell.committee)
    };
    maker(data, 1, feed, |stage, made| {
        let state = &stage.slots[&SLOT];
        let cell = made.unit.cell().expect("a cell");
        let votes = state.cell(cell).expect("votes");
        for position in made.evidence.support.signers().iter_ones() {
            let first = votes.first(position as u32).expect("an accepted vote");
            assert_eq!(state.ballots.get(first.ballot).vote, made.vote);
        }
    })
}

/// A combiner in isolation: its output is covered by accepted aggregates, one per serving validator.
///
/// # Panics
///
/// If that does not hold.
pub fn combiner(data: &[u8]) -> bool {
    let feed = |stage: &mut Stage, script: &mut Script<'_>| {
        let (cell, choice) = (cell(script.number()), script.number());
        let evidence = stage.aggregate(cell, choice, script.number() as u8);
        let sender = Validator(script.number() as u32 % VALIDATORS);
        let vote = stage.ballots[choice % 2].vote;
        let message = |evidence| Aggregate {
            vote,
            unit: cell.into(),
            sender,
            proof: None,
            evidence,
            envelope: Bytes::from([]),
        };
        stage.accept(evidence.map(message));
        Some(cell.committee)
    };
    maker(data, 2, feed, check_collection)
}

/// Checks a collection against the aggregates, and accepts it.
fn check_collection(stage: &mut Stage, made: Aggregate) {
    let state = stage.state();
    let layout = *state.layout();
    let mut covered = Bitfield::new(layout.unit_len(made.unit) as usize);
    for part in layout.parts(made.unit) {
        let range = layout.unit_in_committee(part);
        let accepted = state.accepted(part).iter();
        for accepted in accepted.filter(|accepted| accepted.vote == made.vote) {
            for position in accepted.evidence.support.signers().iter_ones() {
                covered.set(range.start as usize + position);
            }
        }
    }
    let mut beyond = made.evidence.support.signers();
    beyond.subtract(&covered);
    assert!(beyond.none(), "signers whom no aggregate has");
    stage.accept(Some(made));
}

/// A proposer in isolation: a block contains collections it was given, each adds a signer, and the block
/// fits.
///
/// # Panics
///
/// If that does not hold.
pub fn proposer(data: &[u8]) -> bool {
    let mut script = Script(data);
    let mut stage = Stage::new(script.number() as u8);
    let slot = SLOT.next();
    let mut role = Proposer::default();
    let mut given: Vec<Entry> = Vec::new();
    let mut proposed = false;
    for _ in 0..STEPS_MAX {
        let Some(step) = script.next() else {
            break;
        };
        let made = match step % 5 {
            0 => match stage.entry(&mut script, step & 128 != 0) {
                Some(entry) => {
                    given.push(entry.clone());
                    let entry = Claimed::new(entry, &stage.format, &stage.store.supports);
                    stage.handle(&mut role, proposer::Input::Collection(entry))
                }
                None => Vec::new(),
            },
            1 => {
                stage.chain.set_slot(slot);
                stage
                    .epochs
                    .insert_ready(Epoch(0), stage.slots[&SLOT].committees.clone());
                stage.now = stage.now.max(stage.clock.slot_start(slot));
                let mut state = SlotState::new(
                    slot,
                    stage.slots[&SLOT].committees.clone(),
                    1,
                    &mut stage.fx,
                );
                state.phase = Some(Phase::Propose);
                stage.slots.insert(slot, Box::new(state));
                stage.handle(&mut role, proposer::Input::Begin { slot })
            }
            2 => stage.handle(&mut role, proposer::Input::Slot { slot }),
            3 => stage.handle(&mut role, proposer::Input::Bundle { slot }),
            _ => match stage.end(script.number(), script.number()) {
                Some((Purpose::Proposer(job), outcome)) => {
                    stage.handle(&mut role, proposer::Input::Finished { job, outcome })
                }
                _ => Vec::new(),
            },
        };
        for block in made {
            proposed = true;
            assert_eq!(block.header.slot, slot);
            assert_eq!(block.header.parent, stage.chain.head());
            check_entries(&stage, &given, &block.body);
        }
    }
    proposed
}

fn check_entries(stage: &Stage, given: &[Entry], body: &Body) {
    let (entries, head): (_, Root) = (&body.entries, stage.chain.head());
    assert!(stage.is_proved(body), "evidence of other entries");
    assert!(entries.len() <= usize::from(stage.config.collections_per_block_max));
    let mut credited: BTreeMap<u16, Bitfield> = BTreeMap::new();
    for entry in entries {
        let is_given = |of: &Entry| match stage.format.bundle {
            Some(_) => of.bare() == *entry,
            None => of == entry,
        };
        assert!(given.iter().any(is_given), "it was never accepted");
        assert!(
            stage
                .chain
                .check_inclusion(&entry.vote, SLOT.next(), &head)
                .is_ok()
        );
        let signers = entry.evidence.support.signers();
        let before = credited
            .entry(entry.committee)
            .or_insert_with(|| stage.chain.credited(&head, SLOT, entry.committee));
        assert!(signers.count_and_not(before) > 0, "it adds nobody");
        before.union_with(&signers);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::cell::Cell;

    /// Runs a role on random scripts, some of which must produce output.
    fn scripts(role: fn(&[u8]) -> bool) {
        let came = Cell::new(0u32);
        let config = ProptestConfig::with_cases(200);
        proptest!(config, |(script in vec(any::<u8>(), 0..300))| {
            came.set(came.get() + u32::from(role(&script)));
        });
        assert!(came.get() > 0, "no script came to a message");
    }

    #[test]
    fn a_gate_alone_answers_each_message_once() {
        scripts(super::gate);
    }

    #[test]
    fn a_voter_alone_signs_one_vote_of_each_validator() {
        scripts(super::voter);
    }

    #[test]
    fn an_aggregator_alone_sums_accepted_votes() {
        scripts(super::aggregator);
    }

    #[test]
    fn a_combiner_alone_covers_accepted_aggregates() {
        scripts(super::combiner);
    }

    #[test]
    fn a_proposer_alone_includes_what_adds_signers() {
        scripts(super::proposer);
    }
}
