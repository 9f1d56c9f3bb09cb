//! What all nodes of a simulated Horn network know: committees, duties, topics, sizes, costs.
//!
//! The plan is fixed before the run and shared. Serving validators and phase starts come from [`alphorn_proto`], so
//! that topics have the members that nodes compute themselves; nothing of this is decided here.

mod before;
mod config;
mod names;

pub use config::timing;

use super::error::HornError;
use super::work::Bench;
use crate::gossip;
use crate::latency::mix;
use crate::scenario::{self, Subscribers, Way};
use crate::voters::Voters;
use alphorn_proto::chain::Chain;
use alphorn_proto::horn::selection;
use alphorn_proto::horn::{Config, SchemeInfo, Selection, Store, committee};
use alphorn_proto::slot::{Phase, SlotClock};
use alphorn_proto::wire::{Context, WireFormat, digest};
use alphorn_scheme::model::{CostTable, Model, ModelSigners};
use alphorn_scheme::{Bytes, Ctx, Scheme as _};
use alphorn_types::{Assignment, Epoch, Slot, Time, Unit, Validator};
use std::sync::Arc;

/// Domains of the draws from the seed.
mod draw {
    pub(super) const VOTER: u64 = 0x686f_726e_0001;
    pub(super) const BACKBONE: u64 = 0x686f_726e_0003;
    pub(super) const ENTRY: u64 = 0x686f_726e_0004;
    pub(super) const ORDER: u64 = 0x686f_726e_0005;
    pub(super) const FLIP: u64 = 0x686f_726e_0006;
}

/// A topic. Topics of the units come first, in order for each slot, then collections, then blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopicId(pub u32);

/// A validator serving at a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// The validator.
    pub validator: u32,
    /// Number of validators expected to serve before it.
    pub rank: u32,
}

/// A topic and its members.
#[derive(Debug)]
pub(crate) struct Topic {
    /// How its messages are disseminated.
    pub way: Way,
    /// Its nodes in random order; an empty list means all nodes.
    pub members: Vec<u32>,
    /// The members that stay for many epochs, ascending.
    pub lasting: Vec<u32>,
}

/// State shared by all nodes.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Protocol parameters.
    pub config: Arc<Config>,
    /// Fields on the wire.
    pub format: WireFormat,
    /// What the protocol knows about the scheme.
    pub info: SchemeInfo,
    /// Phases since genesis. A run begins with the slot it follows.
    clock: SlotClock,
    /// The first slot whose votes are followed.
    pub slot: Slot,
    /// Number of slots followed.
    pub slots: u32,
    /// A block that all nodes have before that slot.
    pub before: Option<Bytes>,
    /// Assignment of validators to positions.
    pub assignment: Arc<Assignment>,
    /// Runs the jobs of all nodes.
    pub bench: Arc<Bench>,
    /// Sets, messages and serving validators, shared by all nodes.
    pub store: Arc<Store>,
    /// Topics by number.
    pub topics: Vec<Topic>,
    /// Serving validators by level, then by slot and unit.
    serving: Vec<Vec<Vec<Server>>>,
    /// Configuration for meshes and grids.
    pub gossip: Arc<gossip::Config>,
    /// Number of members of a mesh to which a publisher that is not one of them sends.
    entries: usize,
    /// Configuration for direct sending. Nothing is forwarded, so only the node itself waits for a verdict.
    pub direct: Arc<gossip::Config>,
    /// Number of nodes.
    pub nodes: u32,
    table: CostTable,
    /// The voting validators and their nodes.
    pub voters: Voters,
    seed: u64,
}

impl Plan {
    /// Builds the plan of a scenario.
    ///
    /// # Errors
    /// [`HornError`] for parameters that no network can have.
    pub(crate) fn new(
        scenario: &scenario::Scenario,
        horn: &scenario::Horn,
        table: CostTable,
        seed: u64,
    ) -> Result<Plan, HornError> {
        let model = Model::new(table.clone())?;
        let preset = config::preset(horn)?;
        let layout = config::layout(horn, preset.as_ref(), table.abilities.committee_max)?;
        let info = SchemeInfo::of(&model, &layout);
        let config = Arc::new(config::config(horn, preset.as_ref(), layout, &info, seed)?);
        let chain = Chain::new(config.network_id, layout, config.epoch_slots);
        let mix_in = chain.mix(Epoch(0), &chain.justified().root);
        let mix_in = mix_in.expect("the chain knows its genesis");
        let assignment = Arc::new(committee::assignment(Epoch(0), &mix_in, layout));
        let bench = Arc::new(Bench::new(table.clone(), mix_in, assignment.clone())?);
        // Codes that refer to the previous slot need one.
        let slot = Slot(u64::from(config.context == Context::Chain));
        // Serving validators of later epochs depend on blocks of the run.
        let max = config.epoch_slots - slot.0;
        if u64::from(horn.slots) > max {
            let value = horn.slots;
            return Err(HornError::Slots { value, max });
        }
        let (nodes, ppm) = (scenario.sim.nodes, horn.participation_ppm);
        let gossip = match &horn.gossip {
            Some(gossip) => gossip::Config::of(gossip, true)?,
            None => gossip::Config::default(),
        };
        let mut plan = Plan {
            format: config.format(&info),
            clock: SlotClock::new(config.genesis, config.timing),
            slot,
            slots: horn.slots,
            before: None,
            config,
            assignment,
            bench,
            store: Arc::default(),
            topics: Vec::new(),
            serving: Vec::new(),
            entries: horn
                .entries
                .map_or(gossip.degree.into(), |count| count as usize),
            gossip: Arc::new(gossip),
            direct: Arc::new(gossip::Config {
                validate: false,
                ..gossip::Config::default()
            }),
            nodes,
            table,
            info,
            voters: Voters::draw(layout.validators(), nodes, ppm, [seed, draw::VOTER]),
            seed,
        };
        if slot > Slot(0) {
            plan.before = Some(plan.block_before(horn, &chain));
        }
        let epoch_seed = digest::epoch_seed(Epoch(0), &mix_in);
        let at = |slot| move |unit| (slot, unit);
        let of_level = |level| {
            let units = plan
                .followed()
                .flat_map(|slot| layout.units(level).map(at(slot)));
            units
                .map(|(slot, unit)| plan.servers(slot, unit, &epoch_seed, &model))
                .collect()
        };
        plan.serving = (1..=layout.levels()).map(of_level).collect();
        plan.topics = plan.draw_topics(horn)?;
        Ok(plan)
    }

    /// The slots whose votes are followed.
    pub(crate) fn followed(&self) -> impl Iterator<Item = Slot> + use<> {
        (self.slot.0..self.slot.0 + u64::from(self.slots)).map(Slot)
    }

    /// The last of these slots.
    pub(crate) fn last(&self) -> Slot {
        Slot(self.slot.0 + u64::from(self.slots) - 1)
    }

    /// Index of a slot among those followed, if it is one.
    pub(crate) fn place(&self, slot: Slot) -> Option<u32> {
        let place = u32::try_from(slot.0.checked_sub(self.slot.0)?).ok()?;
        (place < self.slots).then_some(place)
    }

    /// Validators that serve in a unit in a slot, by rank.
    fn servers(&self, slot: Slot, unit: Unit, epoch_seed: &[u8; 32], model: &Model) -> Vec<Server> {
        let layout = &self.config.layout;
        let positions = layout.unit_range(unit);
        let target = self.config.level(unit.level).publishers;
        let member = |position: u32| self.assignment.member(position);
        if self.config.selection == Selection::Rank {
            let ranked = selection::ranked(epoch_seed, slot, unit, layout, target.into());
            let server = |(rank, position): (u32, u32)| Server {
                validator: member(positions.start + position).0,
                rank,
            };
            return (0..).zip(ranked).map(server).collect();
        }
        let members: Vec<Validator> = positions.map(member).collect();
        let network = self.config.network();
        let message = digest::selection_message(network, epoch_seed, unit.level, slot);
        let validators = layout.validators();
        // The model has no secrets, so the plan can draw the tickets that nodes will draw themselves.
        let (signers, scratch) = (ModelSigners { validators }, &mut ());
        let proofs = model.select(&signers, &message, &members, &mut Ctx::single(scratch));
        let proofs = proofs.expect("the configuration allows a lottery");
        let of = members.len() as u32;
        let winner = |(validator, proof): (&Validator, &[u8])| {
            let ticket = selection::ticket(proof);
            selection::selected(ticket, target.into(), of).then(|| Server {
                validator: validator.0,
                rank: selection::expected_rank(ticket, of),
            })
        };
        let mut servers: Vec<Server> = members
            .iter()
            .zip(proofs.iter())
            .filter_map(winner)
            .collect();
        servers.sort_by_key(|server| (server.rank, server.validator));
        servers
    }

    fn draw_topics(&self, horn: &scenario::Horn) -> Result<Vec<Topic>, HornError> {
        let (vote, aggregate) = (horn.vote_dissemination, horn.aggregate_dissemination);
        let (collection, block) = (horn.collection_dissemination, horn.block_dissemination);
        // A lottery ticket is known only to its owner until it is used, so senders cannot address the winners
        // directly or give them positions in a grid.
        if self.config.selection == Selection::Lottery {
            for (key, way) in [("vote", vote), ("aggregate", aggregate)] {
                if matches!(way, Way::Direct | Way::Grid) {
                    return Err(HornError::UnknownReceivers { topic: key });
                }
            }
            if collection == Way::Coded {
                return Err(HornError::UnknownSources);
            }
        }
        let layout = &self.config.layout;
        // In the order of `unit_topic`: by slot, by level, by unit.
        let posts = (0..self.slots).flat_map(|place| {
            (1..=layout.levels()).flat_map(move |level| {
                let way = if level == 1 { vote } else { aggregate };
                let first = (place * self.units(level)) as usize;
                let servers = &self.serving(level)[first..];
                let units = layout.units(level).zip(servers);
                units.map(move |(unit, servers)| (way, unit, servers))
            })
        });
        let mut topics: Vec<Topic> = Vec::new();
        for (way, unit, servers) in posts {
            let topic = topics.len() as u64;
            let mut members: Vec<u32> = servers
                .iter()
                .map(|server| self.host(server.validator))
                .collect();
            let mut lasting = Vec::new();
            if way == Way::Gossip && horn.subscribers == Some(Subscribers::Hosts) {
                let seated = layout.unit_range(unit).map(|at| self.assignment.member(at));
                members.extend(seated.map(|validator| self.host(validator.0)));
            } else if way != Way::Direct {
                let relay = |i: u32| {
                    mix([self.seed, draw::BACKBONE, topic, i.into()]) % u64::from(self.nodes)
                };
                lasting.extend((0..horn.backbone).map(|i| relay(i) as u32));
                lasting.sort_unstable();
                members.extend(&lasting);
            }
            members.sort_unstable();
            // A node with several validators of the unit is one member. The order is then random: it is the one in
            // which publishers and grids take the members.
            members.dedup();
            members.sort_by_key(|member| mix([self.seed, draw::ORDER, topic, (*member).into()]));
            topics.push(Topic {
                way,
                members,
                lasting,
            });
        }
        // In the order of `collection_topic` and `block_topic`.
        for way in [collection, block] {
            topics.push(Topic {
                way,
                members: Vec::new(),
                lasting: Vec::new(),
            });
        }
        Ok(topics)
    }

    /// Whether long messages of a topic travel as coded pieces.
    pub(crate) fn is_coded(&self, topic: TopicId) -> bool {
        self.topics[topic.0 as usize].way == Way::Coded
    }

    /// Whether any topic uses coded pieces.
    pub(crate) fn casts(&self) -> bool {
        self.is_coded(self.collection_topic()) || self.is_coded(self.block_topic())
    }

    /// Time to sign or verify one message of a duty.
    pub(crate) fn duty_ns(&self, op: alphorn_scheme::Op) -> u64 {
        self.table.cost(op, 1, 0).ns
    }

    /// Time to make evidence of this many votes on one core, at the speed of the table.
    pub(crate) fn evidence_ns(&self, op: alphorn_scheme::Op, votes: u64) -> u64 {
        self.table.cost(op, votes, 0).ns
    }

    /// The node that hosts a validator.
    #[inline]
    pub(crate) fn host(&self, validator: u32) -> u32 {
        validator % self.nodes
    }

    /// The slot whose block is to carry the votes of a slot.
    pub(crate) fn block_slot(&self, voted: Slot) -> Slot {
        Slot(voted.0 + self.config.inclusion_slots_min())
    }

    /// The slot whose votes the block of a slot is to carry, if there is one.
    pub(crate) fn voted_slot(&self, block: Slot) -> Option<Slot> {
        let slot = block.0.checked_sub(self.config.inclusion_slots_min());
        slot.map(Slot)
    }

    /// Proposer of the block that is to carry the votes of a slot.
    pub(crate) fn proposer(&self, voted: Slot) -> u32 {
        self.proposer_of(self.block_slot(voted))
    }

    /// Proposer of the block of a slot.
    pub(crate) fn proposer_of(&self, block: Slot) -> u32 {
        // The rule of the chain: validator s mod N in slot s.
        (block.0 % u64::from(self.config.layout.validators())) as u32
    }

    /// The block slots of a run.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Slot> + use<> {
        (self.slot.0 + 1..=self.block_slot(self.last()).0).map(Slot)
    }

    /// Index of a block of the run on its topic.
    pub(crate) fn block_id(&self, block: Slot) -> Option<gossip::DenseId> {
        let place = self.blocks().position(|slot| slot == block)?;
        Some(gossip::DenseId(place as u32))
    }

    /// The members of a topic, in the order in which a publisher that is not one of them takes them. It sends its
    /// message to the first ones that it is connected with ([`Self::entries_max`]).
    pub(crate) fn entries(&self, topic: TopicId, publisher: u32) -> impl Iterator<Item = u32> + '_ {
        let members = &self.topics[topic.0 as usize].members;
        let draw = mix([self.seed, draw::ENTRY, topic.0.into(), publisher.into()]);
        let first = draw as usize % members.len().max(1);
        // Each publisher starts elsewhere in the list, or the first members would be the entries of all.
        members[first..].iter().chain(&members[..first]).copied()
    }

    /// Number of members that such a publisher sends a message to.
    pub(crate) fn entries_max(&self, topic: TopicId) -> usize {
        let Topic { way, members, .. } = &self.topics[topic.0 as usize];
        match way {
            Way::Direct => members.len(),
            Way::Gossip | Way::Coded => members.len().min(self.entries),
            Way::Grid => members.len().min(1),
        }
    }

    /// Nanoseconds from genesis to the start of the run.
    fn offset_ns(&self) -> u64 {
        self.clock.slot_start(self.slot).as_nanos()
    }

    /// Converts a time of the run to protocol time, which starts at genesis.
    #[inline]
    pub(crate) fn since_genesis(&self, time: Time) -> Time {
        time.saturating_add_ns(self.offset_ns())
    }

    /// Converts a protocol time to a time of the run.
    #[inline]
    pub(crate) fn of_run(&self, time: Time) -> Time {
        match time {
            // This means never, in both kinds of time.
            Time::MAX => time,
            time => time.saturating_sub_ns(self.offset_ns()),
        }
    }

    /// When a phase starts, relative to its slot.
    pub(crate) fn phase_start(&self, phase: Phase) -> Time {
        self.of_run(self.clock.phase_start(self.slot, phase))
    }

    /// When a phase of a slot starts.
    pub(crate) fn phase_of(&self, slot: Slot, phase: Phase) -> Time {
        self.of_run(self.clock.phase_start(slot, phase))
    }

    /// Length of a slot.
    pub(crate) fn slot_end(&self) -> Time {
        self.of_run(self.clock.slot_start(self.slot.next()))
    }

    /// When a slot starts.
    pub(crate) fn slot_start(&self, slot: Slot) -> Time {
        self.of_run(self.clock.slot_start(slot))
    }

    /// When the run ends: the votes of the last slot have their block.
    pub(crate) fn end(&self) -> Time {
        let last = self.block_slot(self.last());
        self.of_run(self.clock.phase_start(last, Phase::Vote))
    }

    /// When nodes start. A block that exists already is not proposed again.
    pub(crate) fn begin(&self) -> Time {
        match self.before {
            None => Time::ZERO,
            Some(_) => self.phase_start(Phase::Vote),
        }
    }

    /// Whether a validator in several aggregates of a level counts once in the result.
    pub(crate) fn merges_by_union(&self, level: u8) -> bool {
        self.info.overlap(level) == alphorn_scheme::Overlap::Union
    }

    /// The scheme whose costs are used.
    pub(crate) fn scheme(&self) -> &str {
        &self.table.scheme
    }

    /// Describes the kind of cost figures and their scheme.
    pub(crate) fn costs_label(&self) -> String {
        format!("{} costs of {}", self.table.kind.name(), self.table.scheme)
    }
}
