//! The run of a slot, stage by stage.

use super::network::{Network, Plan, Subscription};
use super::node::Traffic;
use super::outcome::{BlockOutcome, CommitteeCoverage, SlotOutcome, StageTraffic, Step, Votes};
use super::participation::by_validator;
use super::{Griefing, LIMITS, SlotConfig, SlotError, SlotInputs};
use crate::compute::{Compute, Stage};
use crate::random;
use alphorn_proto::chain::Chain;
use alphorn_proto::horn::{Config, Horn, Local, SlotView, committee};
use alphorn_proto::slot::{Boundary, Phase, SlotClock};
use alphorn_proto::wire::{Block, Kind, Vote, WireFormat};
use alphorn_scheme::{Bytes, Op};
use alphorn_types::{Assignment, Bitfield, DecodeError, Layout, Slot, Time};

/// The node that hosts all validators, or all that are not involved in an attack.
pub(crate) const HOST: u32 = 0;

/// The node that hosts no validators.
pub(crate) const OBSERVER: u32 = 1;

/// The slot whose votes are followed: the first one, whose block is genesis.
const SLOT: Slot = Slot(0);

/// The slot whose block carries them: the next one, or the one after it, which has the evidence of all
/// collections completed in the meantime.
pub(super) fn block_slot(horn: &Config) -> Slot {
    Slot(SLOT.0 + horn.inclusion_slots_min())
}

/// Stages of the run. Jobs and messages belong to the stage in which they start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotStage {
    /// Preparation at the start of a slot: committees and keys are prepared, including those of the next
    /// epoch, and the validators that create evidence are drawn.
    Prepare,
    /// Votes are signed and verified, then evidence of each level is created and verified, that of the last
    /// level by all nodes.
    Of(Phase),
    /// The block that carries the votes, and its evidence.
    Block,
}

impl SlotStage {
    /// The stages of a slot with `levels` levels, in order.
    fn all(levels: u8) -> impl Iterator<Item = Self> {
        let levels = (1..=levels).map(Phase::Level);
        let phases = [Phase::Vote].into_iter().chain(levels).map(Self::Of);
        [Self::Prepare]
            .into_iter()
            .chain(phases)
            .chain([Self::Block])
    }

    /// Name used in tables.
    const fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Of(phase) => phase.name(),
            Self::Block => "block",
        }
    }

    /// The last instant of the stage.
    fn end(self, clock: &SlotClock, block: Slot) -> Time {
        let next = match self {
            Self::Prepare => clock.phase_start(SLOT, Phase::Vote),
            Self::Of(phase) => {
                let slot = SLOT;
                clock.start(clock.after(Boundary { slot, phase }))
            }
            Self::Block => clock.phase_start(block, Phase::Vote),
        };
        next.saturating_sub_ns(1)
    }
}

/// Runs one slot.
///
/// # Errors
/// [`SlotError`] if the slot cannot be run. A slot that runs but does not have the expected properties is
/// not an error: see [`SlotOutcome::failures`].
pub fn run_slot(config: SlotConfig, inputs: SlotInputs) -> Result<SlotOutcome, SlotError> {
    let mut run = Run::new(config, inputs)?;
    for (number, stage) in (0..).zip(run.stages()) {
        run.stage(Stage(number), stage)?;
    }
    run.outcome()
}

/// A slot in progress.
struct Run {
    config: SlotConfig,
    format: WireFormat,
    clock: SlotClock,
    network: Network<Horn>,
    /// Which validators vote, by position of the epoch.
    voters: Bitfield,
    /// The final view of the slot at the host and at the probe.
    seen: Option<[SlotView; 2]>,
    traffic: Vec<StageTraffic>,
}

impl Run {
    fn new(mut config: SlotConfig, inputs: SlotInputs) -> Result<Self, SlotError> {
        let seed = config.seed;
        config.horn.network_id = random::bytes(seed, "genesis", 0);
        let layout = config.horn.layout;
        let info = inputs.info;
        config.horn.validate(&info)?;
        config.participation.check(&layout)?;
        if let Some(griefing) = &config.griefing {
            griefing.check(&layout)?;
        }
        let voters = config.participation.by_position(&layout, seed);
        // Participation is given by position, but nodes need validators before any of them has drawn the committees.
        let by_validator = by_validator(&voters, &first_assignment(&config));
        let hosting = |validators: Bitfield| {
            let mut voters = by_validator.clone();
            voters.intersect_with(&validators);
            let local = Local {
                validators,
                voters,
                // The host has every validator. If it trusted its own messages, there would be nothing to verify.
                trust_own: false,
            };
            (local, Subscription::All)
        };
        let mut rest = Bitfield::ones(layout.validators() as usize);
        let apart = config.griefing.iter().flat_map(Griefing::apart);
        apart.clone().for_each(|set| rest.subtract(set));
        // In the order of `HOST` and `OBSERVER`. The nodes of an attack come after them.
        let mut places = vec![hosting(rest)];
        if config.observer {
            places.push((Local::observer(&layout), Subscription::Global));
        }
        let first_apart = places.len() as u32;
        places.extend(apart.cloned().map(hosting));
        let subscriptions: Vec<Subscription> = places.iter().map(|place| place.1).collect();
        let nodes = places
            .into_iter()
            .map(|(local, _)| Horn::new(config.horn.clone(), info.clone(), local));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let secret = random::bytes(seed, "weights", 0);
        let env = inputs.env.with_secret(secret);
        let mut compute = Compute::new(env, inputs.watermark, config.compute)?;
        if let Some(check) = inputs.cross_check {
            compute.cross_check(check);
        }
        if let Some(results) = inputs.results {
            compute.keep_results(results);
        }
        compute.report_to(inputs.progress);
        let withheld = config.griefing.as_ref();
        let plan = Plan {
            subscriptions,
            withheld: withheld.map_or_else(Vec::new, |_| Griefing::withheld(first_apart)),
            latency_ms: config.latency_ms,
            limits: LIMITS,
        };
        Ok(Run {
            format: config.horn.format(&info),
            clock: SlotClock::new(config.horn.genesis, config.horn.timing),
            network: Network::new(nodes, &plan, compute),
            voters,
            seen: None,
            traffic: Vec::new(),
            config,
        })
    }

    fn stages(&self) -> impl Iterator<Item = SlotStage> + use<> {
        SlotStage::all(self.config.horn.layout.levels())
    }

    /// Runs to the end of a stage.
    fn stage(&mut self, number: Stage, stage: SlotStage) -> Result<(), SlotError> {
        let before = self.published();
        let mut compute = self.network.compute();
        compute.set_stage(number);
        if stage == SlotStage::Prepare && self.config.observer {
            compute.watch(OBSERVER, Op::VerifyCollections);
        }
        if stage == SlotStage::Block {
            // The slot's collections are verified by now. What blocks need is not part of that measurement.
            compute.end_watch();
            compute.end_duties();
        }
        // The nodes lock it while the network runs.
        drop(compute);
        if stage == SlotStage::Block {
            // After this time its messages are no longer accepted.
            let seen = self.clock.phase_start(SLOT.next(), Phase::Vote);
            let seen = seen.saturating_sub_ns(1);
            self.network.run_until(seen)?;
            self.seen = Some([self.view(HOST, SLOT)?, self.view(self.probe(), SLOT)?]);
        }
        let end = stage.end(&self.clock, block_slot(&self.config.horn));
        self.network.run_until(end)?;
        let after = self.published();
        self.traffic.push(StageTraffic {
            stage: stage.name(),
            published: std::array::from_fn(|kind| after[kind].since(before[kind])),
        });
        let mut compute = self.network.compute();
        if let Some(error) = compute.results_error() {
            return Err(error.into());
        }
        let meters = compute.meters();
        if let Some(reason) = &meters.first_refusal {
            return Err(SlotError::Refused {
                count: meters.ends.refused,
                stage: stage.name(),
                reason: reason.clone(),
            });
        }
        if meters.ends.failed > 0 {
            return Err(SlotError::Failed {
                count: meters.ends.failed,
                stage: stage.name(),
            });
        }
        Ok(())
    }

    fn published(&self) -> [Traffic; Kind::ALL.len()] {
        Kind::ALL.map(|kind| self.network.published(kind))
    }

    fn nodes(&self) -> std::ops::Range<u32> {
        0..self.network.nodes()
    }

    /// The node whose view of the slot is reported.
    fn probe(&self) -> u32 {
        match self.config.observer {
            true => OBSERVER,
            false => HOST,
        }
    }

    fn view(&self, node: u32, slot: Slot) -> Result<SlotView, SlotError> {
        let view = self.network.machine(node).view(slot);
        view.ok_or(SlotError::NoSlot { node, slot: slot.0 })
    }

    fn outcome(mut self) -> Result<SlotOutcome, SlotError> {
        let layout = self.config.horn.layout;
        let (node, slot) = (HOST, SLOT.0);
        let (seen, traffic) = (self.seen.take(), std::mem::take(&mut self.traffic));
        let [host, probe] = seen.ok_or(SlotError::NoSlot { node, slot })?;
        let blocks = self.network.blocks();
        let (block, in_block) = self.block(blocks.last())?;
        let expected = |c| {
            let range = layout.committee_range(c);
            self.voters
                .extract(range.start as usize..range.end as usize)
        };
        // The loop below would not miss the committees that the view does not have.
        let mut coverage_exact = probe.coverage.len() == usize::from(layout.committees());
        let mut coverage = Vec::with_capacity(probe.coverage.len());
        for (committee, covered) in (0u16..).zip(&probe.coverage) {
            let expected = expected(committee);
            coverage_exact &= *covered == expected;
            coverage.push(CommitteeCoverage {
                committee,
                members: layout.committee_len(committee),
                expected: expected.count_ones() as u32,
                in_collections: covered.count_ones() as u32,
                in_block: in_block[usize::from(committee)].count_ones() as u32,
            });
        }
        let network = &self.network;
        let sum = |count: fn(&CommitteeCoverage) -> u32| {
            coverage
                .iter()
                .map(|committee| u64::from(count(committee)))
                .sum()
        };
        let votes = Votes {
            expected: self.voters.count_ones() as u64,
            cast: network.published(Kind::Vote).messages,
            verified: host.votes_accepted,
            in_collections: sum(|committee| committee.in_collections),
            in_block: sum(|committee| committee.in_block),
        };
        let aggregates = network.published(Kind::Aggregate);
        let collections = network.published(Kind::Collection);
        let steps = self.steps();
        let mut compute = network.compute();
        let verification = compute.measure_watched();
        Ok(SlotOutcome {
            layout,
            steps,
            votes,
            aggregates,
            collections,
            coverage,
            coverage_exact,
            block,
            verification,
            rejects: self.rejects(),
            cross: compute.cross_counts(),
            digest: network.digest(),
            events: network.events(),
            results_loaded: compute.meters().results_loaded,
            nodes: self.nodes().end,
            blocks,
            traffic,
        })
    }

    fn steps(&self) -> Vec<Step> {
        let compute = self.network.compute();
        let names: Vec<&'static str> = self.stages().map(SlotStage::name).collect();
        let steps = compute.meters().iter().map(|(stage, op, meter)| Step {
            stage: names[usize::from(stage.0)],
            op,
            meter,
        });
        steps.collect()
    }

    fn rejects(&self) -> std::collections::BTreeMap<&'static str, u64> {
        let mut rejects = std::collections::BTreeMap::new();
        for node in self.nodes() {
            for (reason, count) in self.network.machine(node).counters().rejects() {
                *rejects.entry(reason).or_default() += count;
            }
        }
        rejects
    }

    /// The figures of the block as published, and for each committee the positions whose votes it carries.
    fn block(&self, last: Option<&Bytes>) -> Result<(BlockOutcome, Vec<Bitfield>), SlotError> {
        let layout = self.config.horn.layout;
        let slot = block_slot(&self.config.horn);
        let no_block = || SlotError::NoBlock { slot: slot.0 };
        let data = last.ok_or_else(no_block)?;
        let block = decode(data, &self.format, &layout)?;
        if block.header.slot != slot {
            return Err(no_block());
        }
        let root = block.header.root();
        let accepted = |&node: &u32| has_accepted(self.network.machine(node), slot, &root);
        let outcome = BlockOutcome {
            bytes: data.len() as u64,
            bundle_bytes: block.body.bundle.len() as u64,
            entries: block.body.entries.len() as u64,
            accepted_nodes: self.nodes().filter(accepted).count() as u32,
        };
        Ok((outcome, carried(&block, &layout)))
    }
}

/// Decodes a published block of the first slots. The head of its votes is genesis, which has no entries,
/// and a support refers to such a block as if it had all members.
pub(super) fn decode(
    data: &[u8],
    format: &WireFormat,
    layout: &Layout,
) -> Result<Block, DecodeError> {
    let all = |_: &Vote, c| Some(Bitfield::ones(layout.committee_len(c) as usize));
    Block::decode(data, format, &all)
}

/// For each committee, the positions whose votes of the slot are carried by a block.
pub(super) fn carried(block: &Block, layout: &Layout) -> Vec<Bitfield> {
    let mut carried: Vec<Bitfield> = (0..layout.committees())
        .map(|c| Bitfield::new(layout.committee_len(c) as usize))
        .collect();
    let entries = block.body.entries.iter();
    for entry in entries.filter(|entry| entry.vote.slot == SLOT) {
        let signers = entry.evidence.support.signers();
        carried[usize::from(entry.committee)].union_with(&signers);
    }
    carried
}

/// Whether a node has accepted the block of a slot as valid.
pub(super) fn has_accepted(node: &Horn, slot: Slot, root: &[u8; 32]) -> bool {
    let block = node.view(slot).and_then(|view| view.block);
    block.is_some_and(|block| block.root == *root)
}

/// The committees of the slot's epoch.
fn first_assignment(config: &SlotConfig) -> Assignment {
    let (horn, layout): (_, Layout) = (&config.horn, config.horn.layout);
    let chain = Chain::new(horn.network_id, layout, horn.epoch_slots);
    let epoch = SLOT.epoch(horn.epoch_slots);
    let genesis = chain.justified().root;
    let mix = chain
        .mix(epoch, &genesis)
        .expect("the chain knows its genesis");
    committee::assignment(epoch, &mix, layout)
}
