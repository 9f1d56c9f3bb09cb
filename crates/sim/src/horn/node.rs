//! One node of a Horn network: the duties of the validators that it hosts, above one state machine of
//! dissemination for each topic that it is a member of.

mod duties;
mod gate;

use super::message::{BlockBody, CollectionBody, HornMessage, Item};
use super::plan::{Plan, SLOT, TopicId, Way};
use super::station::{Origin, Station};
use super::work::HornWork;
use crate::graph::Graph;
use crate::role::{self, Input, Output, Role};
use alphorn_proto::Peer;
use alphorn_proto::gossip::{self, DenseId, Message, Peers};
use alphorn_proto::slot::Phase;
use alphorn_scheme::{Class, JobId, Op, SessionId};
use alphorn_types::Time;
use alphorn_worker::End;
use duties::{Aggregating, Collecting};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a node shows of the slot.
#[derive(Clone, Debug)]
pub enum HornDelivery {
    /// Hosted validators have signed votes: so many.
    Voted(u32),
    /// A hosted aggregator publishes.
    Aggregated(Arc<super::message::AggregateBody>),
    /// A hosted collector publishes.
    Collected(Arc<CollectionBody>),
    /// A collection was accepted.
    Accepted(Arc<CollectionBody>),
    /// The hosted proposer publishes.
    Proposed(Arc<BlockBody>),
    /// A block was accepted.
    Imported(Arc<BlockBody>),
}

/// What is done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Validators vote.
    Vote,
    /// Aggregators sum what is verified when all of it is.
    Aggregate,
    /// They do with what they have.
    HurryAggregates,
    /// Collectors cover their committee when all aggregates are verified.
    Collect,
    /// They do with what they have.
    HurryCollections,
    /// The next slot begins.
    Propose,
}

impl Step {
    const ALL: [Step; 6] = [
        Step::Vote,
        Step::Aggregate,
        Step::HurryAggregates,
        Step::Collect,
        Step::HurryCollections,
        Step::Propose,
    ];

    /// When; the waits end in the middle of their phases, as in the roles of the protocol.
    pub(super) fn time(self, plan: &Plan) -> Time {
        let start = |phase| plan.phase_start(phase);
        let middle = |phase, next| {
            let start = plan.phase_start(phase);
            start.saturating_add_ns(plan.phase_start(next).since_ns(start) / 2)
        };
        match self {
            Step::Vote => start(Phase::Vote),
            Step::Aggregate => start(Phase::Aggregate),
            Step::HurryAggregates => middle(Phase::Aggregate, Phase::Collect),
            Step::Collect => start(Phase::Collect),
            Step::HurryCollections => middle(Phase::Collect, Phase::Decide),
            Step::Propose => plan.clock.slot_start(super::plan::NEXT),
        }
    }
}

/// What a job is for: the upper half of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Purpose {
    SignVotes,
    Verify,
    Aggregate,
    SignAggregates,
    Collect,
    SignCollections,
    SignBlock,
}

impl Purpose {
    const ALL: [Purpose; 7] = [
        Purpose::SignVotes,
        Purpose::Verify,
        Purpose::Aggregate,
        Purpose::SignAggregates,
        Purpose::Collect,
        Purpose::SignCollections,
        Purpose::SignBlock,
    ];

    fn job(self, index: usize) -> JobId {
        JobId((self as u64) << 32 | index as u64)
    }

    fn of(job: JobId) -> Option<(Purpose, usize)> {
        let purpose = Purpose::ALL.get((job.0 >> 32) as usize)?;
        Some((*purpose, job.0 as u32 as usize))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct HornNode {
    pub(super) plan: Arc<Plan>,
    graph: Arc<Graph>,
    node: u32,
    now: Time,
    /// Topics, ascending, and their stations.
    topics: Vec<TopicId>,
    stations: Vec<Station<Item>>,
    /// The earliest deadline of a station, and whose.
    beat: Option<(Time, usize)>,
    /// When the next step is taken.
    step_at: Option<Time>,
    /// When the next collector's turn comes whose collection is made.
    stage_at: Option<Time>,
    /// Stations whose batch is due.
    due: Vec<u32>,
    aggregating: Vec<Aggregating>,
    collecting: Vec<Collecting>,
    /// Accepted collections by committee, in the order of acceptance.
    accepted: Vec<Vec<Arc<CollectionBody>>>,
    /// The block that waits for its signature.
    proposal: Option<Arc<BlockBody>>,
    /// Steps that were taken.
    steps: usize,
    out: VecDeque<Output<Self>>,
}

impl HornNode {
    /// A node with its topics, ascending.
    pub fn new(
        plan: Arc<Plan>,
        graph: Arc<Graph>,
        node: u32,
        stations: Vec<Station<Item>>,
    ) -> Self {
        let committees = usize::from(plan.config.layout.committees());
        let mut node = HornNode {
            aggregating: Vec::new(),
            collecting: Vec::new(),
            accepted: vec![Vec::new(); committees],
            proposal: None,
            steps: 0,
            out: VecDeque::new(),
            now: Time::ZERO,
            beat: None,
            step_at: Step::ALL.first().map(|step| step.time(&plan)),
            stage_at: None,
            due: Vec::new(),
            plan,
            graph,
            node,
            topics: stations.iter().map(|station| station.id).collect(),
            stations,
        };
        node.take_posts();
        node.find_beat();
        node
    }

    #[inline]
    fn find(&self, topic: TopicId) -> Option<usize> {
        self.topics.binary_search(&topic).ok()
    }

    fn find_beat(&mut self) {
        let stations = self.stations.iter().enumerate();
        let due = stations.filter_map(|(i, station)| Some((station.next_deadline()?, i)));
        self.beat = due.min();
    }

    /// Carries out what the state machine of a topic wants.
    fn drain(&mut self, index: usize) {
        let topic = self.stations[index].id;
        while let Some(output) = self.stations[index].poll_output() {
            match output {
                gossip::Output::Send {
                    to,
                    message,
                    priority,
                } => {
                    let to = self.stations[index].neighbours(to);
                    if !to.is_empty() {
                        let inner = message;
                        self.out.push_back(Output::Send {
                            to,
                            message: HornMessage { topic, inner },
                            priority: priority as u8,
                        });
                    }
                }
                gossip::Output::Cancel { peer, id } => {
                    if let Some(peer) = self.stations[index].neighbour(peer) {
                        let what = (topic, id);
                        self.out.push_back(Output::Cancel { peer, what });
                    }
                }
                gossip::Output::Validate {
                    token, id, payload, ..
                } => self.admit(index, Origin::Machine(token), id, payload),
                gossip::Output::Deliver { id, payload } if self.stations[index].is_direct() => {
                    self.admit(index, Origin::Direct, id, payload);
                }
                gossip::Output::Deliver { payload, .. } => self.accept(topic, payload),
                gossip::Output::Report { peer, reason } => {
                    if let Some(peer) = self.stations[index].neighbour(peer) {
                        let reason = reason.name();
                        self.out.push_back(Output::Report { peer, reason });
                    }
                }
            }
        }
        let due = self.stations[index].next_deadline();
        match (due, self.beat) {
            (Some(due), Some((at, _))) if due < at => self.beat = Some((due, index)),
            (Some(due), None) => self.beat = Some((due, index)),
            (due, Some((at, whose))) if whose == index && due != Some(at) => self.find_beat(),
            _ => {}
        }
    }

    /// Publishes a message of a hosted validator.
    fn publish(&mut self, topic: TopicId, publisher: u32, id: DenseId, item: Item) {
        if let Some(index) = self.find(topic) {
            self.stations[index].publish(self.now, id, item.clone());
            self.drain(index);
            return self.accept(topic, item);
        }
        let number = |node: u32| self.graph.number_of(self.node, node);
        let entries = self.plan.entries(topic, publisher);
        let to: Arc<[Peer]> = entries
            .filter_map(number)
            .map(|number| Peer(number.into()))
            .collect();
        if to.is_empty() {
            return;
        }
        let way: Way = self.plan.topics[topic.0 as usize].way;
        let inner = Station::<Item>::handed_in(way, id, item);
        self.out.push_back(Output::Send {
            to: Peers::List(to),
            message: HornMessage { topic, inner },
            priority: gossip::Priority::Own as u8,
        });
    }

    fn spawn(&mut self, job: JobId, class: Class, op: Op, (n, m): (u64, u64)) {
        let work = HornWork {
            op,
            inputs: u32::try_from(n).unwrap_or(u32::MAX),
            cost_ns: self.plan.cost_ns(op, n, m),
        };
        self.spawn_work(job, class, work);
    }

    fn spawn_work(&mut self, job: JobId, class: Class, work: HornWork) {
        let session = SessionId { slot: SLOT, seq: 0 };
        let request = role::request(session, class, work);
        self.out.push_back(Output::Spawn { job, request });
    }

    fn show(&mut self, delivery: HornDelivery) {
        self.out.push_back(Output::Deliver(delivery));
    }

    /// Whether a step was taken.
    fn is_past(&self, step: Step) -> bool {
        Step::ALL[..self.steps].contains(&step)
    }

    fn keep_time(&mut self) {
        while let Some(step) = Step::ALL.get(self.steps).copied()
            && self.step_at.is_some_and(|at| at <= self.now)
        {
            self.steps += 1;
            let next = Step::ALL.get(self.steps);
            self.step_at = next.map(|step| step.time(&self.plan));
            match step {
                Step::Vote => self.sign_votes(),
                Step::Aggregate | Step::HurryAggregates => self.advance_aggregators(),
                Step::Collect | Step::HurryCollections => self.advance_collectors(),
                Step::Propose => self.propose(),
            }
        }
        while let Some((at, index)) = self.beat
            && at <= self.now
        {
            self.stations[index].deadline(self.now);
            self.beat = None;
            self.drain(index);
            self.find_beat();
        }
        self.advance_stages();
    }

    fn finished(&mut self, job: JobId, end: End) {
        let ran = end == End::Ran;
        let Some((purpose, index)) = Purpose::of(job) else {
            return;
        };
        match purpose {
            Purpose::Verify => self.verified(index, ran),
            // A job that gave way has no result, and its duty is missed.
            _ if !ran => {}
            Purpose::SignVotes => self.votes_signed(),
            Purpose::Aggregate => self.aggregate_made(index),
            Purpose::SignAggregates => self.aggregates_signed(index),
            Purpose::Collect => self.collection_made(index),
            Purpose::SignCollections => self.collections_signed(index),
            Purpose::SignBlock => self.block_signed(),
        }
    }

    /// Aggregates of hosted aggregators that are not made yet, or will never be.
    pub fn unfinished(&self) -> usize {
        let aggregates = self.aggregating.iter().filter(|post| !post.is_done());
        aggregates.count()
            + self
                .collecting
                .iter()
                .filter(|post| !post.is_done())
                .count()
    }
}

impl Role for HornNode {
    type Message = HornMessage;
    type Command = std::convert::Infallible;
    type Cancel = (TopicId, DenseId);
    type Work = HornWork;
    type Delivery = HornDelivery;

    fn handle(&mut self, now: Time, input: Input<Self>) {
        self.now = self.now.max(now);
        match input {
            Input::Message { from, message } => {
                let HornMessage { topic, inner } = message;
                // A graph has fewer than 2^32 ends.
                if let Some(index) = self.find(topic) {
                    self.stations[index].receive(self.now, from.0 as u32, inner);
                    self.drain(index);
                    self.call(index);
                }
            }
            Input::Finished { job, end, .. } => self.finished(job, end),
            Input::Deadline => self.keep_time(),
            // Connections are those of the plan, for the whole slot.
            Input::PeerUp { .. } | Input::PeerDown { .. } | Input::SendReady { .. } => {}
            Input::Command(never) => match never {},
        }
        // A job begins when what came together is here: messages leave a downlink one by one.
        while let Some(index) = self.due.pop() {
            self.verify(index as usize);
        }
    }

    #[inline]
    fn poll_output(&mut self) -> Option<Output<Self>> {
        let output = self.out.pop_front();
        if self.out.is_empty() {
            // The next output goes to the front of the buffer, which is in the cache.
            self.out.clear();
        }
        output
    }

    fn next_deadline(&self) -> Option<Time> {
        let beat = self.beat.map(|(at, _)| at);
        [self.step_at, beat, self.stage_at]
            .into_iter()
            .flatten()
            .min()
    }

    #[inline]
    fn absorb(&mut self, from: Peer, message: &HornMessage) -> bool {
        // A graph has fewer than 2^32 ends.
        let index = self.find(message.topic);
        index.is_some_and(|index| self.stations[index].absorb(from.0 as u32, &message.inner))
    }

    #[inline]
    fn read_ahead(&self) -> u64 {
        let beat = self.beat.map_or(0, |(at, _)| at.as_nanos());
        let counts = self.topics.len() ^ self.stations.len() ^ self.due.len() ^ self.out.capacity();
        beat ^ counts as u64
    }

    #[inline]
    fn read_behind(&self, neighbour: u32, message: Option<&HornMessage>) -> u64 {
        let Some(message) = message else {
            return 0;
        };
        let station = self.find(message.topic);
        station.map_or(0, |index| {
            self.stations[index].read_for(neighbour, &message.inner)
        })
    }

    fn cancels((topic, id): &Self::Cancel, message: &Self::Message) -> bool {
        let named = matches!(&message.inner, Message::Data { id: named, .. } if named == id);
        message.topic == *topic && named
    }

    fn is_proof(reason: &str) -> bool {
        ["malformed", "invalid", "beyond"].contains(&reason)
    }

    fn duplicate_bytes(&self) -> u64 {
        self.stations.iter().map(Station::duplicate_bytes).sum()
    }
}
