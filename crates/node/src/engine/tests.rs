//! Nodes of the scheme without cryptography, in virtual time.

mod aggregator_role;
mod cast;
mod faults;
mod fetch;
mod flood;
mod gap;
mod kept;
mod long;
mod replay;
mod twins;

use super::*;
use crate::aggregating::Aggregating;
use crate::cast::{JOBS, SOURCES, TOKENS};
use crate::local::Locals;
use crate::record::Recorder;
use alphorn_proto::horn::{Config, Local, SchemeInfo};
use alphorn_proto::slot::Timing;
use alphorn_proto::wire::{Block, Vote, no_references};
use alphorn_scheme::model::{CostTable, Model, ModelRegistry, ModelSigners};
use alphorn_scheme::{
    Ctx, Env, JobId, MemoryWatermark, Outcome, Product, Refused, Scratch, Task, Work,
};
use alphorn_types::{Bitfield, Layout};
use std::collections::VecDeque;
use std::ops::Range;

const NODES: u32 = 3;
const VALIDATORS: u32 = 48;
const LATENCY_NS: u64 = 30_000_000;
/// The sender of the first node's messages. Those of the other nodes are next to it.
const NODE: Peer = Peer(9);
const NODES_MAX: u64 = 16;
const GENESIS: Time = Time::from_millis(10_000);

/// An event for a node in virtual time.
enum Event {
    Message(Peer, Topic, Token, Bytes),
    Finished(JobId, Outcome<Product>),
    Frame(Peer, Bytes),
    Left(Peer),
    /// A peer's request, and its response.
    Asked(Peer, u64, Vec<u8>),
    Answered(Peer, u64, Option<Vec<Bytes>>),
    /// Time for a node to look for blocks that messages wait for.
    Look,
}

/// The peer number under which the others see a node.
fn seen_as(index: usize) -> Peer {
    Peer(NODE.0 + index as u64)
}

/// One node and what it requested.
struct Node {
    engine: Option<Engine>,
    env: Env,
    marks: MemoryWatermark,
    reserved: BTreeSet<Slot>,
    published: VecDeque<(Topic, Bytes)>,
    locals: Locals,
    finished: VecDeque<(Time, JobId, Outcome<Product>)>,
    topics: BTreeSet<Topic>,
    blocks: BTreeMap<Slot, Bytes>,
    judged: Vec<Judged>,
    kept: Vec<Kept>,
    doppelgangers: Vec<Doppelganger>,
    raised: Vec<Shown>,
    /// Whether some node in the world has the keys of another one.
    has_twin: bool,
    anchors: Vec<Anchor>,
    verdicts: BTreeMap<&'static str, u64>,
    /// Penalties of peers that are not nodes.
    points: BTreeMap<Peer, u32>,
    /// When its only lane is free, and how long it takes for a vote, if it has just one.
    lane: Option<(Time, u64)>,
    now: Time,
    /// Jobs take this much longer than their price.
    slow_ns: u64,
    /// Reservations are not made.
    broken_disk: bool,
    /// Whether it aggregates, as set by an operator.
    aggregating: Aggregating,
    /// By how much its clock is ahead of the true time, in nanoseconds.
    skew_ns: i64,
    /// Own votes by slot, with the time by its own clock at which they were sent.
    votes: BTreeMap<Slot, Vec<Time>>,
    recorder: Option<Recorder>,
    /// Its broadcasts, if it has any.
    caster: Option<cast::Caster>,
    /// Its requests for blocks, if it makes any.
    asker: Option<fetch::Asker>,
}

impl Host for Node {
    fn publish(&mut self, topic: Topic, data: Bytes) {
        if let Some(caster) = &mut self.caster
            && caster.settings.takes(topic, data.len())
        {
            return caster.large.push_back((topic, data));
        }
        if topic.kind() == Kind::Vote {
            let vote = Vote::peek(&data, Kind::Vote).unwrap();
            self.votes.entry(vote.slot).or_default().push(self.now);
        }
        self.published.push_back((topic, data));
    }

    fn subscribe(&mut self, topics: &BTreeSet<Topic>) {
        self.topics = topics.clone();
    }

    fn verdict(&mut self, token: Token, verdict: Verdict) {
        if let Some(caster) = self.caster.as_mut().filter(|_| token.0 >= TOKENS) {
            caster.verdicts.push_back((token, verdict));
        }
        if let Some((kept, told)) = self.locals.verdict(token, verdict) {
            told.into_iter().for_each(|told| told(true));
            self.publish(kept.topic, kept.data);
        }
        let name = match verdict {
            Verdict::Accept => "accept",
            Verdict::Ignore => "ignore",
            Verdict::Reject => "reject",
        };
        *self.verdicts.entry(name).or_default() += 1;
    }

    fn report(&mut self, peer: Peer, reason: Reject) {
        let is_node = (NODE.0..NODE.0 + NODES_MAX).contains(&peer.0);
        assert!(
            self.has_twin || !is_node,
            "an honest {peer} is reported: {reason}"
        );
        if peer.0 >= SOURCES {
            return;
        }
        *self.points.entry(peer).or_default() += crate::ports::points(reason);
    }

    fn spawn(&mut self, spawn: Spawn) {
        let admitted = match &spawn.work {
            Work::Sign(job) => match self.reserved.contains(&job.slot) {
                true => job.admit(&self.marks).map_err(|(_, refused)| refused),
                false => Err(Refused::NotDurable),
            },
            _ => Ok(()),
        };
        let work = spawn.work;
        let features = work.features(&self.env);
        let admitted = admitted.map_err(|refused| refused.to_string());
        let admitted = admitted.and_then(|()| match self.aggregating.refuses(&work) {
            Some(why) => Err(why),
            None => Ok(()),
        });
        let outcome = match admitted {
            Err(refused) => Outcome::Refused(refused),
            Ok(()) => {
                let ran = work.run(&self.env, &mut Ctx::single(&mut Scratch::default()));
                match ran.map(|output| self.env.take_keys(output)).into() {
                    outcome @ (Outcome::Done(_) | Outcome::Refused(_)) => outcome,
                    other => panic!("{other:?}"),
                }
            }
        };
        let mut at = self.now.saturating_add_ns(features.prior_ns + self.slow_ns);
        if let Some((free, vote_ns)) = &mut self.lane {
            // If a batch has bad inputs, each of its inputs is tested individually.
            let inputs_ns = u64::from(features.inputs) * *vote_ns;
            at = self.now.max(*free).saturating_add_ns(inputs_ns);
            *free = at;
        }
        self.finished.push_back((at, spawn.job, outcome));
    }

    fn cancel(&mut self, _: SessionId) {}

    fn reserve(&mut self, slot: Slot) {
        if !self.broken_disk {
            self.reserved.insert(slot);
        }
    }

    fn evidence(&mut self, _: Evidence) {
        assert!(self.has_twin, "nobody equivocates");
    }

    fn keep_block(&mut self, slot: Slot, _: Root, data: Bytes) {
        self.blocks.insert(slot, data);
    }

    fn keep_message(&mut self, kept: Kept) {
        self.kept.push(kept);
    }

    fn doppelganger(&mut self, doppelganger: Doppelganger) {
        self.doppelgangers.push(doppelganger);
    }

    fn raise(&mut self, shown: Shown) {
        self.raised.push(shown);
    }

    fn keep_anchor(&mut self, anchor: Anchor) {
        self.anchors.push(anchor);
    }

    fn judged(&mut self, judged: Judged) {
        self.judged.push(self.aggregating.judge(judged));
    }
}

impl Node {
    fn hand_in(&mut self, engine: &mut Engine, input: Input) {
        match self.recorder.take() {
            None => engine.handle(self.now, input, self),
            Some(mut recorder) => {
                recorder.handle(engine, self.now, input, self);
                self.recorder = Some(recorder);
            }
        }
    }
}

/// All nodes under one virtual clock.
struct World {
    nodes: Vec<Node>,
    queue: BTreeMap<(Time, u64), (usize, Event)>,
    sequence: u64,
    now: Time,
    /// Even and odd nodes do not hear each other.
    parted: bool,
    /// What gossip loses: the period, the kind, and the receiving node.
    lost: Option<(Range<Time>, Kind, usize)>,
}

fn config(scheme: &Model, epoch_slots: u64) -> (Config, SchemeInfo) {
    config_of(scheme, epoch_slots, &[2])
}

fn config_of(scheme: &Model, epoch_slots: u64, fan_out: &[u16]) -> (Config, SchemeInfo) {
    let layout = Layout::with_fan_out(VALIDATORS, 2, fan_out).unwrap();
    let info = SchemeInfo::of(scheme, &layout);
    let mut config = Config::new(layout, &info);
    config.genesis = GENESIS;
    let phases: Vec<u64> = (0..fan_out.len() as u64 + 4).map(|i| i * 600).collect();
    config.timing = match fan_out.len() {
        1 => Timing::LEAN,
        _ => Timing::custom(4_000, &phases).unwrap(),
    };
    config.epoch_slots = epoch_slots;
    (config, info)
}

/// The roles of one of this many nodes, each of which hosts every n-th validator.
fn horn(index: u32, nodes: u32, epoch_slots: u64) -> Horn {
    let scheme = Model::new(CostTable::example()).unwrap();
    let (config, info) = config(&scheme, epoch_slots);
    horn_of(config, info, index, nodes)
}

fn horn_of(config: Config, info: SchemeInfo, index: u32, nodes: u32) -> Horn {
    let own = (0..VALIDATORS).filter(|v| v % nodes == index);
    let mut validators = Bitfield::new(VALIDATORS as usize);
    own.for_each(|v| validators.set(v as usize));
    let local = Local {
        voters: validators.clone(),
        validators,
        trust_own: true,
    };
    Horn::new(config, info, local).unwrap()
}

fn node(index: u32, nodes: u32, epoch_slots: u64) -> Node {
    let scheme = Model::new(CostTable::example()).unwrap();
    node_of(scheme, horn(index, nodes, epoch_slots))
}

fn node_of(scheme: Model, horn: Horn) -> Node {
    let registry = Arc::new(ModelRegistry {
        validators: VALIDATORS,
    });
    let signers = Arc::new(ModelSigners {
        validators: VALIDATORS,
    });
    let settings = Settings {
        first_slot: Slot(0),
        started: None,
        used: Slot(0),
        behind: BTreeMap::new(),
    };
    Node {
        engine: Some(Engine::new(horn, settings)),
        env: Env::signing(Arc::new(scheme), registry, signers, [1; 32]),
        marks: MemoryWatermark::new(VALIDATORS),
        reserved: BTreeSet::new(),
        published: VecDeque::new(),
        locals: Locals::default(),
        finished: VecDeque::new(),
        topics: BTreeSet::new(),
        blocks: BTreeMap::new(),
        judged: Vec::new(),
        kept: Vec::new(),
        doppelgangers: Vec::new(),
        raised: Vec::new(),
        has_twin: false,
        anchors: Vec::new(),
        verdicts: BTreeMap::new(),
        points: BTreeMap::new(),
        lane: None,
        now: Time::ZERO,
        slow_ns: 0,
        broken_disk: false,
        aggregating: Aggregating::new(true),
        skew_ns: 0,
        votes: BTreeMap::new(),
        recorder: None,
        caster: None,
        asker: None,
    }
}

impl World {
    fn new() -> Self {
        Self::of(NODES, 4)
    }

    fn of(nodes: u32, epoch_slots: u64) -> Self {
        let node = |index| node(index, nodes, epoch_slots);
        Self::made_of((0..nodes).map(node).collect())
    }

    fn made_of(nodes: Vec<Node>) -> Self {
        World {
            nodes,
            parted: false,
            lost: None,
            queue: BTreeMap::new(),
            sequence: 0,
            now: GENESIS.saturating_sub_ns(2_000_000_000),
        }
    }

    fn push(&mut self, at: Time, node: usize, event: Event) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), (node, event));
    }

    fn feed(&mut self, index: usize, input: Input) {
        let node = &mut self.nodes[index];
        // Protocol time never goes back.
        node.now = node.now.max(shifted(self.now, node.skew_ns));
        let Some(mut engine) = node.engine.take() else {
            return;
        };
        node.hand_in(&mut engine, input);
        node.settle(&mut engine);
        node.engine = Some(engine);
        self.carry_out(index);
    }

    /// Starts to carry out a node's side effects.
    fn carry_out(&mut self, index: usize) {
        for (at, job, outcome) in std::mem::take(&mut self.nodes[index].finished) {
            let took_ns = at.since_ns(self.nodes[index].now);
            let at = self.now.saturating_add_ns(took_ns);
            self.push(at, index, Event::Finished(job, outcome));
        }
        let arrival = self.now.saturating_add_ns(LATENCY_NS);
        for (topic, data) in std::mem::take(&mut self.nodes[index].published) {
            for other in (0..self.nodes.len()).filter(|other| *other != index) {
                let lost = self.lost.as_ref();
                let is_lost = lost.is_some_and(|(times, kind, to)| {
                    times.contains(&self.now) && topic.kind() == *kind && other == *to
                });
                let is_cut = is_lost || (self.parted && other % 2 != index % 2);
                if !is_cut && self.nodes[other].topics.contains(&topic) {
                    let token = Token(self.sequence);
                    self.push(
                        arrival,
                        other,
                        Event::Message(seen_as(index), topic, token, data.clone()),
                    );
                }
            }
        }
        self.carry_frames(index);
    }

    fn run_until(&mut self, end: Time) {
        for index in 0..self.nodes.len() {
            self.feed(index, Input::Deadline);
        }
        loop {
            let deadlines = self.nodes.iter().enumerate().filter_map(|(index, node)| {
                let engine = node.engine.as_ref()?.next_deadline();
                let at = engine.into_iter().chain(node.cast_deadline()).min()?;
                // By true time. A deadline that its clock has passed is due now.
                Some((shifted(at, -node.skew_ns).max(self.now), index))
            });
            let deadline = deadlines.min();
            let event = self.queue.first_key_value().map(|((at, _), _)| *at);
            let at = deadline.map(|(at, _)| at).into_iter().chain(event).min();
            let Some(at) = at.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            match deadline.filter(|(at, _)| event.is_none_or(|event| *at < event)) {
                Some((_, index)) => {
                    self.feed(index, Input::Deadline);
                    self.cast(index, |cast, now, node| cast.deadline(now, node));
                }
                None => {
                    let Some((_, (index, event))) = self.queue.pop_first() else {
                        break;
                    };
                    let input = match event {
                        Event::Message(from, topic, token, data) => Input::Message {
                            from,
                            topic,
                            token,
                            data,
                        },
                        Event::Finished(job, outcome) if job.0 >= JOBS => {
                            self.cast(index, |cast, now, node| {
                                cast.finished(now, job, outcome, node);
                            });
                            continue;
                        }
                        Event::Finished(job, outcome) => Input::Finished { job, outcome },
                        Event::Frame(from, data) => {
                            self.cast(index, |cast, now, node| cast.frame(now, from, &data, node));
                            continue;
                        }
                        Event::Left(peer) => {
                            self.frame_left(index, peer);
                            continue;
                        }
                        Event::Asked(from, id, root) => {
                            self.serve(index, from, id, &root);
                            continue;
                        }
                        Event::Answered(from, id, chunks) => {
                            self.take_answer(index, from, id, chunks);
                            continue;
                        }
                        Event::Look => {
                            self.look(index);
                            continue;
                        }
                    };
                    self.feed(index, input);
                }
            }
        }
        self.now = end;
    }
}

fn shifted(time: Time, by_ns: i64) -> Time {
    match by_ns < 0 {
        true => time.saturating_sub_ns(by_ns.unsigned_abs()),
        false => time.saturating_add_ns(by_ns.unsigned_abs()),
    }
}

fn slot_start(slot: u64) -> Time {
    GENESIS.saturating_add_ns(slot * 4_000_000_000)
}

fn missed(node: &Node) -> u64 {
    node.judged.iter().map(|judged| judged.all().missed).sum()
}

#[test]
fn every_duty_is_done_and_the_chain_finalises() {
    let mut world = World::new();
    world.run_until(slot_start(14));
    let mut duties = Tally::default();
    for node in &world.nodes {
        let slots: Vec<u64> = node.judged.iter().map(|judged| judged.slot.0).collect();
        assert_eq!(slots, (0..12).collect::<Vec<u64>>());
        for judged in &node.judged {
            assert!(judged.prepared, "{judged:?}");
            assert_eq!(judged.all().missed, 0, "{judged:?}");
            assert_eq!(judged.credited, u64::from(VALIDATORS), "{judged:?}");
            duties.add(judged.vote);
        }
        let chain = node.engine.as_ref().unwrap().horn().chain();
        assert!(
            chain.finalised().slot >= Slot(11),
            "{:?}",
            chain.finalised()
        );
        let kept: Vec<u64> = node.blocks.keys().map(|slot| slot.0).collect();
        assert_eq!(kept, (1..14).collect::<Vec<u64>>());
        assert_eq!(node.verdicts.get("reject"), None);
    }
    assert_eq!(duties.done, 12 * u64::from(VALIDATORS));
    assert_eq!(duties.late, 0);
}

/// One level, where a committee is a cell, and three and four, with groups of cells in between.
#[test]
fn duties_are_done_on_every_number_of_levels() {
    for fan_out in [&[][..], &[2, 2], &[2, 2, 2]] {
        let node = |index| {
            let scheme = Model::new(CostTable::example()).unwrap();
            let (config, info) = config_of(&scheme, 4, fan_out);
            let horn = horn_of(config, info, index, NODES);
            node_of(scheme, horn)
        };
        let mut world = World::made_of((0..NODES).map(node).collect());
        world.run_until(slot_start(8));
        for node in &world.nodes {
            assert_eq!(node.judged.len(), 6);
            for judged in &node.judged {
                assert_eq!(judged.all().missed, 0, "{fan_out:?}: {judged:?}");
                assert_eq!(judged.credited, u64::from(VALIDATORS), "{fan_out:?}");
            }
            let chain = node.engine.as_ref().unwrap().horn().chain();
            assert!(chain.finalised().slot >= Slot(5), "{fan_out:?}");
            assert_eq!(node.verdicts.get("reject"), None);
        }
    }
}

/// Blocks with a single piece of evidence, made a slot ahead. Duties are judged when it can be included.
#[test]
fn duties_are_done_with_blocks_of_one_evidence() {
    let mut table = CostTable::example();
    table.abilities.bundle_max = Some(49);
    let node = |index| {
        let scheme = Model::new(table.clone()).unwrap();
        let (mut config, info) = config(&scheme, 4);
        config.bundle(&info);
        assert_eq!(config.inclusion_slots_min(), 2);
        node_of(scheme, horn_of(config, info, index, NODES))
    };
    let mut world = World::made_of((0..NODES).map(node).collect());
    world.run_until(slot_start(9));
    for node in &world.nodes {
        assert_eq!(node.judged.len(), 6);
        for judged in &node.judged {
            assert_eq!(judged.all().missed, 0, "{judged:?}");
            assert_eq!(judged.credited, u64::from(VALIDATORS));
        }
        let horn = node.engine.as_ref().unwrap().horn();
        assert!(horn.chain().finalised().slot >= Slot(4));
        assert_eq!(node.verdicts.get("reject"), None);
        for (slot, data) in &node.blocks {
            let body = Block::decode(data, horn.format(), &no_references)
                .unwrap()
                .body;
            assert_eq!(body.entries.is_empty(), *slot < Slot(2), "{slot}");
            assert_eq!(body.bundle.is_empty(), *slot < Slot(2), "{slot}");
        }
    }
}

#[test]
fn votes_and_aggregates_are_kept_once_each() {
    let mut world = World::new();
    world.run_until(slot_start(6));
    for node in &world.nodes {
        let mut kept = node.kept.clone();
        let count = |kind, own| {
            let of = |kept: &&Kept| kept.topic.kind() == kind && kept.own == own;
            kept.iter().filter(of).count() as u64
        };
        let counters = node.engine.as_ref().unwrap().horn().counters();
        let own: usize = node.votes.values().map(Vec::len).sum();
        let own = own as u64;
        assert_eq!(count(Kind::Vote, true), own);
        let accepted = counters.accepted[Kind::Vote as usize];
        assert_eq!(count(Kind::Vote, false), accepted - own);
        assert!(count(Kind::Aggregate, true) > 0 && count(Kind::Aggregate, false) > 0);
        assert_eq!(count(Kind::Block, true) + count(Kind::Collection, true), 0);
        let all = kept.len();
        kept.sort_by_key(|kept| (kept.slot, kept.topic, kept.data.clone()));
        kept.dedup();
        assert_eq!(kept.len(), all, "nothing twice");
    }
}

#[test]
fn a_node_whose_keys_are_in_use_elsewhere_signs_nothing_and_one_that_came_back_does() {
    // Node 1 came back at the end of slot 3 and had signed before. The last one is a second node 2.
    let mut world = World::new();
    world.run_until(slot_start(3).saturating_add_ns(3_000_000_000));
    let blocks: Vec<Bytes> = world.nodes[0].blocks.values().cloned().collect();
    let started = |index| {
        let settings = Settings {
            first_slot: Slot(5),
            started: Some(Slot(3)),
            used: Slot(4),
            behind: BTreeMap::new(),
        };
        let mut node = node(index, NODES, 4);
        let mut horn = horn(index, NODES, 4);
        for block in &blocks {
            horn.restore(block).unwrap();
        }
        node.engine = Some(Engine::new(horn, settings));
        node
    };
    world.nodes[1] = started(1);
    world.nodes.push(started(2));
    world.run_until(slot_start(10));
    assert_eq!(world.nodes[1].doppelgangers, []);
    assert!(!world.nodes[1].votes.is_empty(), "it votes again");
    let twin = world.nodes.last().unwrap();
    assert_eq!(twin.doppelgangers.len(), 1, "said once");
    assert_eq!(twin.doppelgangers[0].slot, Slot(4));
    assert!(twin.votes.is_empty() && twin.reserved.is_empty());
}

#[test]
fn a_node_that_cannot_make_its_marks_durable_signs_nothing_and_says_so() {
    let mut world = World::new();
    world.nodes[1].broken_disk = true;
    world.run_until(slot_start(8));
    let own = u64::from(VALIDATORS / NODES);
    for judged in &world.nodes[1].judged {
        assert_eq!(judged.vote.missed, own, "{judged:?}");
        assert_eq!(judged.credited, u64::from(VALIDATORS) - own);
    }
    assert_eq!(missed(&world.nodes[0]), 0);
    assert!(
        world.nodes[1].blocks.keys().any(|slot| *slot > Slot(3)),
        "it follows"
    );
    world.nodes[1].broken_disk = false;
    let recovered = slot_start(9);
    world.run_until(slot_start(16));
    let after = world.nodes[1]
        .judged
        .iter()
        .filter(|judged| slot_start(judged.slot.0) > recovered);
    let after: Vec<&Judged> = after.collect();
    assert!(!after.is_empty());
    for judged in after {
        assert_eq!(judged.all().missed, 0, "{judged:?}");
    }
}

#[test]
fn a_slow_node_is_late_and_its_votes_are_told_apart() {
    let mut world = World::new();
    world.nodes[2].slow_ns = 900_000_000;
    world.run_until(slot_start(8));
    let slow = &world.nodes[2].judged;
    let in_time: u64 = slow.iter().map(|judged| judged.vote.done).sum();
    assert_eq!(in_time, 0, "{slow:?}");
    // A block that arrives after the votes costs the votes of its slot, because they name its parent.
    let others = world.nodes[0].judged.iter();
    let mut own_slots = others.filter(|judged| judged.slot.0 % u64::from(NODES) != 2);
    assert!(
        own_slots.all(|judged| judged.vote.missed == 0),
        "{:?}",
        world.nodes[0].judged
    );
}

#[test]
fn a_node_that_slept_misses_duties_and_does_none_late() {
    let mut world = World::new();
    world.run_until(slot_start(3));
    let asleep = world.nodes[0].engine.take();
    world.run_until(slot_start(6));
    world.nodes[0].engine = asleep;
    let before = world.nodes[0].reserved.clone();
    world.run_until(slot_start(12));
    let node = &world.nodes[0];
    assert!(before.iter().all(|slot| *slot <= Slot(3)));
    assert!(!node.reserved.contains(&Slot(5)), "its time had passed");
    let of = |slot: u64| node.judged.iter().find(|judged| judged.slot == Slot(slot));
    assert_eq!(of(4).map(|judged| judged.vote.done), Some(0));
    assert!(of(4).is_some_and(|judged| judged.vote.missed > 0));
}
