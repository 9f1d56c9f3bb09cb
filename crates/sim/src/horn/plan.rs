//! What all nodes of a simulated Horn network know: committees, duties, topics, sizes, costs.
//!
//! It is fixed before the run and shared. Who serves, when phases begin, which cover a collector takes
//! and how long messages are is asked of [`alphorn_proto`]; nothing of it is decided here.

mod config;
mod sizes;

use super::HornError;
use crate::latency::mix;
use crate::scenario;
use alphorn_proto::chain::Chain;
use alphorn_proto::gossip;
use alphorn_proto::horn::selection::{self, Post};
use alphorn_proto::horn::{Config, SchemeInfo, Selection, committee};
use alphorn_proto::slot::{Phase, SlotClock};
use alphorn_proto::wire::{Kind, WireFormat, digest};
use alphorn_scheme::Op;
use alphorn_scheme::model::{CostTable, Model};
use alphorn_types::{Assignment, Bitfield, Cell, Epoch, Slot, Time};
use std::sync::Arc;

/// The slot whose votes are followed; its block is genesis.
pub(super) const SLOT: Slot = Slot(0);
/// The slot whose block carries them.
pub(super) const NEXT: Slot = Slot(1);

/// What is drawn from the seed.
mod draw {
    pub(super) const VOTER: u64 = 0x686f_726e_0001;
    pub(super) const TICKET: u64 = 0x686f_726e_0002;
    pub(super) const BACKBONE: u64 = 0x686f_726e_0003;
    pub(super) const ENTRY: u64 = 0x686f_726e_0004;
    pub(super) const ORDER: u64 = 0x686f_726e_0005;
    pub(super) const FLIP: u64 = 0x686f_726e_0006;
}

/// A topic: the cells' in their order, then the committees', then collections, then blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u32);

/// How a topic's messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a mesh among the members; publishers that are none hand a message to some of them.
    Gossip,
    /// From the publisher to each member.
    Direct,
    /// Along rows and columns of the members; publishers that are none hand a message to one.
    Grid,
}

impl Way {
    fn of(key: &'static str, text: &str) -> Result<Way, HornError> {
        match text {
            "gossip" => Ok(Way::Gossip),
            "direct" => Ok(Way::Direct),
            "grid" => Ok(Way::Grid),
            other => Err(HornError::Dissemination {
                key,
                value: other.into(),
            }),
        }
    }
}

/// A validator that serves at a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// The validator.
    pub validator: u32,
    /// How many are expected to serve before it.
    pub rank: u32,
}

/// A topic and who is in it.
#[derive(Debug)]
pub struct Topic {
    /// How its messages travel.
    pub way: Way,
    /// Its nodes in a drawn order; none listed = all nodes.
    pub members: Vec<u32>,
}

/// What is the same for all nodes.
#[derive(Debug)]
pub struct Plan {
    /// The parameters of the protocol.
    pub config: Config,
    /// Fields on the wire.
    pub format: WireFormat,
    /// Phases.
    pub clock: SlotClock,
    /// Who sits where.
    pub assignment: Assignment,
    /// Topics by number.
    pub topics: Vec<Topic>,
    /// Aggregators by cell.
    pub aggregators: Vec<Vec<Server>>,
    /// Collectors by committee.
    pub collectors: Vec<Vec<Server>>,
    /// The mesh, and grids.
    pub gossip: Arc<gossip::Config>,
    /// Direct sending: nothing is forwarded, so nobody but the node waits for a verdict.
    pub direct: Arc<gossip::Config>,
    /// Number of nodes.
    pub nodes: u32,
    table: CostTable,
    overlap: alphorn_scheme::Overlap,
    voters: Bitfield,
    /// Who voted in the slot before, by position of each committee, where codes refer to it.
    before: Vec<Bitfield>,
    seed: u64,
}

impl Plan {
    /// The plan of a scenario.
    ///
    /// # Errors
    /// [`HornError`] for parameters that no network can have.
    pub fn new(
        scenario: &scenario::Scenario,
        horn: &scenario::Horn,
        table: CostTable,
        seed: u64,
    ) -> Result<Plan, HornError> {
        if horn.slots != 1 {
            return Err(HornError::Slots { value: horn.slots });
        }
        if horn.participation_file.is_some() {
            return Err(HornError::ParticipationFile);
        }
        let model = Model::new(table.clone())?;
        let layout = config::layout(horn, table.abilities.committee_max)?;
        let info = SchemeInfo::of(&model, &layout);
        let config = config::config(horn, layout, &info, seed)?;
        let chain = Chain::new(config.network_id, layout, config.epoch_slots);
        let mix_in = chain.mix(Epoch(0), &chain.justified().root);
        let mix_in = mix_in.expect("the chain knows its genesis");
        let assignment = committee::assignment(Epoch(0), &mix_in, layout);
        let mut plan = Plan {
            format: config.format(&info),
            clock: SlotClock::new(config.genesis, config.timing),
            config,
            assignment,
            topics: Vec::new(),
            aggregators: Vec::new(),
            collectors: Vec::new(),
            gossip: Arc::new(gossip::Config::default()),
            direct: Arc::new(gossip::Config {
                validate: false,
                ..gossip::Config::default()
            }),
            nodes: scenario.sim.nodes,
            table,
            overlap: info.overlap(),
            voters: Bitfield::new(layout.validators() as usize),
            before: Vec::new(),
            seed,
        };
        for validator in 0..layout.validators() {
            let draw = mix([seed, draw::VOTER, validator.into(), 0]) % 1_000_000;
            if draw < u64::from(horn.participation_ppm) {
                plan.voters.set(validator as usize);
            }
        }
        plan.before = plan.slot_before(horn);
        let epoch_seed = digest::epoch_seed(Epoch(0), &mix_in);
        let cells = layout.cells().map(Post::Aggregator);
        plan.aggregators = cells.map(|post| plan.servers(post, &epoch_seed)).collect();
        let committees = (0..layout.committees()).map(Post::Collector);
        plan.collectors = committees
            .map(|post| plan.servers(post, &epoch_seed))
            .collect();
        plan.topics = plan.draw_topics(horn)?;
        Ok(plan)
    }

    /// Who serves at a post, by rank.
    fn servers(&self, post: Post, epoch_seed: &[u8; 32]) -> Vec<Server> {
        let layout = &self.config.layout;
        let (positions, target) = match post {
            Post::Aggregator(_) => (post.positions(layout), self.config.aggregators_target),
            Post::Collector(_) => (post.positions(layout), self.config.collectors_target),
        };
        let member = |position: u32| self.assignment.member(position).0;
        if self.config.selection == Selection::Rank {
            let ranked = selection::ranked(epoch_seed, SLOT, post, layout, target.into());
            let server = |(rank, position): (u32, u32)| Server {
                validator: member(positions.start + position),
                rank,
            };
            return (0..).zip(ranked).map(server).collect();
        }
        let members = positions.end - positions.start;
        let role = post.kind() as u64;
        let winner = |position: u32| {
            let validator = member(position);
            // A signature of the model is no secret, so a ticket is as good a draw as any.
            let ticket = mix([self.seed, draw::TICKET, role, validator.into()]);
            selection::selected(ticket, target.into(), members).then(|| Server {
                validator,
                rank: selection::expected_rank(ticket, members),
            })
        };
        let mut servers: Vec<Server> = positions.filter_map(winner).collect();
        servers.sort_by_key(|server| (server.rank, server.validator));
        servers
    }

    fn draw_topics(&self, horn: &scenario::Horn) -> Result<Vec<Topic>, HornError> {
        let vote = Way::of("protocol.vote_dissemination", &horn.vote_dissemination)?;
        let aggregate = Way::of(
            "protocol.aggregate_dissemination",
            &horn.aggregate_dissemination,
        )?;
        let collection = Way::of(
            "protocol.collection_dissemination",
            &horn.collection_dissemination,
        )?;
        let block = Way::of("protocol.block_dissemination", &horn.block_dissemination)?;
        // A ticket of the lottery is known to its owner alone until it is used: nobody can send to those
        // whom it chose, or place them in a grid.
        if self.config.selection == Selection::Lottery {
            for (key, way) in [("vote", vote), ("aggregate", aggregate)] {
                if matches!(way, Way::Direct | Way::Grid) {
                    return Err(HornError::UnknownReceivers { topic: key });
                }
            }
        }
        let posts = self.aggregators.iter().map(|servers| (vote, servers));
        let posts = posts.chain(self.collectors.iter().map(|servers| (aggregate, servers)));
        let mut topics: Vec<Topic> = Vec::new();
        for (way, servers) in posts {
            let topic = topics.len() as u64;
            let mut members: Vec<u32> = servers
                .iter()
                .map(|server| self.host(server.validator))
                .collect();
            if way != Way::Direct {
                let relay = |i: u32| {
                    mix([self.seed, draw::BACKBONE, topic, i.into()]) % u64::from(self.nodes)
                };
                members.extend((0..horn.backbone).map(|i| relay(i) as u32));
            }
            members.sort_unstable();
            members.dedup();
            members.sort_by_key(|member| mix([self.seed, draw::ORDER, topic, (*member).into()]));
            topics.push(Topic { way, members });
        }
        for way in [collection, block] {
            topics.push(Topic {
                way,
                members: Vec::new(),
            });
        }
        Ok(topics)
    }

    /// The node that hosts a validator.
    #[inline]
    pub fn host(&self, validator: u32) -> u32 {
        validator % self.nodes
    }

    /// The validators of a node.
    pub fn hosted(&self, node: u32) -> impl Iterator<Item = u32> + use<> {
        (node..self.config.layout.validators()).step_by(self.nodes as usize)
    }

    /// Validators of these nodes do not vote: what its own node never sends is not cast.
    pub(super) fn silence(&mut self, nodes: &[u32]) {
        for node in nodes {
            for validator in self.hosted(*node) {
                self.voters.clear(validator as usize);
            }
        }
    }

    /// Whether a validator votes.
    pub fn votes(&self, validator: u32) -> bool {
        self.voters.get(validator as usize)
    }

    /// How many vote.
    pub fn votes_count(&self) -> u64 {
        self.voters.count_ones() as u64
    }

    /// Who proposes the block that carries the votes.
    pub fn proposer(&self) -> u32 {
        // The rule of the chain: validator s mod N in slot s.
        (NEXT.0 % u64::from(self.config.layout.validators())) as u32
    }

    /// The topic of a cell's votes; cells are numbered committee by committee.
    pub fn vote_topic(&self, cell: u32) -> TopicId {
        TopicId(cell)
    }

    /// The number of a cell.
    pub fn cell_number(&self, cell: Cell) -> u32 {
        u32::from(cell.committee) * u32::from(self.config.layout.subcommittees())
            + u32::from(cell.subcommittee)
    }

    /// The cell of a number.
    pub fn cell(&self, number: u32) -> Cell {
        let subcommittees = u32::from(self.config.layout.subcommittees());
        // Below C and S, which are 16-bit.
        Cell {
            committee: (number / subcommittees) as u16,
            subcommittee: (number % subcommittees) as u16,
        }
    }

    /// The topic of a committee's aggregates.
    pub fn aggregate_topic(&self, committee: u16) -> TopicId {
        TopicId(self.aggregators.len() as u32 + u32::from(committee))
    }

    /// The topic of all collections.
    pub fn collection_topic(&self) -> TopicId {
        TopicId((self.aggregators.len() + self.collectors.len()) as u32)
    }

    /// The topic of blocks.
    pub fn block_topic(&self) -> TopicId {
        TopicId(self.collection_topic().0 + 1)
    }

    /// What a topic carries.
    pub fn kind(&self, topic: TopicId) -> Kind {
        let cells = self.aggregators.len() as u32;
        match topic.0 {
            number if number < cells => Kind::Vote,
            _ if topic < self.collection_topic() => Kind::Aggregate,
            _ if topic == self.collection_topic() => Kind::Collection,
            _ => Kind::Block,
        }
    }

    /// The number of an aggregate on its topic: who serves is numbered cell by cell.
    pub fn aggregate_id(&self, cell: u32, index: u32) -> gossip::DenseId {
        let width = self.aggregators.iter().map(Vec::len).max().unwrap_or(1) as u32;
        gossip::DenseId(u32::from(self.cell(cell).subcommittee) * width + index)
    }

    /// The number of a collection on its topic.
    pub fn collection_id(&self, committee: u16, index: u32) -> gossip::DenseId {
        let width = self.collectors.iter().map(Vec::len).max().unwrap_or(1) as u32;
        gossip::DenseId(u32::from(committee) * width + index)
    }

    /// The nodes that get a message of this publisher first, if it is no member.
    pub fn entries(&self, topic: TopicId, publisher: u32) -> impl Iterator<Item = u32> + '_ {
        let Topic { way, members } = &self.topics[topic.0 as usize];
        let count = match way {
            Way::Direct => members.len(),
            Way::Gossip => members.len().min(self.gossip.degree.into()),
            Way::Grid => members.len().min(1),
        };
        let draw = mix([self.seed, draw::ENTRY, topic.0.into(), publisher.into()]);
        let first = draw as usize % members.len().max(1);
        members.iter().cycle().skip(first).take(count).copied()
    }

    /// When a phase begins.
    pub fn phase_start(&self, phase: Phase) -> Time {
        self.clock.phase_start(SLOT, phase)
    }

    /// Nanoseconds of one core for an operation, by the table.
    pub fn cost_ns(&self, op: Op, n: u64, m: u64) -> u64 {
        self.table.cost(op, n, m).ns
    }

    /// Whether a validator that stands in several aggregates counts once in their sum.
    pub fn merges_by_union(&self) -> bool {
        self.overlap == alphorn_scheme::Overlap::Union
    }

    /// The rule and the number of picks of a cover.
    pub fn cover(&self) -> (alphorn_proto::horn::Cover, usize) {
        let most = self.config.multiplicity_max;
        self.config.cover.under(self.overlap, most)
    }

    /// What kind of figures the costs are, and of which scheme.
    pub fn costs_label(&self) -> String {
        let kind = match self.table.kind {
            alphorn_scheme::model::FigureKind::Measured => "measured",
            alphorn_scheme::model::FigureKind::Modelled => "modelled",
            alphorn_scheme::model::FigureKind::Cited => "cited",
        };
        format!("{kind} costs of {}", self.table.scheme)
    }
}
