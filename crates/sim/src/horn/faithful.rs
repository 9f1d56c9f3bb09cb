//! The dense nodes of this model against the protocol's own roles: on a network that loses nothing
//! both publish the same aggregates and collections, byte for byte as long, and blocks that credit the
//! same votes.

use super::build::build;
use super::message::{AggregateBody, BlockBody, CollectionBody};
use super::node::{HornDelivery, HornNode};
use super::plan::{NEXT, Plan};
use super::run::world_config;
use crate::calendar::Calendar;
use crate::compute::{Compute, ComputeConfig};
use crate::core::{Driver, Limits};
use crate::latency::Latency;
use crate::network::{Network, Subscription};
use crate::scenario::{Override, Protocol as Kind, Scenario, parse_override};
use crate::world::{Change, Witness, World};
use alphorn_proto::horn::{Horn, Local, SchemeInfo};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Aggregate, Block, Collection, Topic, Vote, WireFormat, no_references};
use alphorn_proto::{Input, Output, Protocol};
use alphorn_scheme::model::{CostTable, Model, ModelRegistry, ModelSigners};
use alphorn_scheme::{Bytes, Env, MemoryWatermark};
use alphorn_types::{Bitfield, Layout, Support, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

const NODES: u32 = 12;

/// Nothing is lost, and the collectors are those of the epoch's shuffle, whoever draws.
const TEXT: &str = r#"
    name = "horn-faithful"
    schema = 1
    [sim]
    nodes = 12
    [graph]
    kind = "permutations"
    degree = 8
    [latency]
    kind = "regions"
    matrix = "libp2p-2025"
    [[class]]
    name = "attester"
    share_pct = 100
    down_mbps = 50
    up_mbps = 25
    cores = 8
    [protocol]
    kind = "horn"
    validators = 2048
    committees = 2
    subcommittees = 4
    selection = "rank"
    vote_dissemination = "direct"
    backbone = 2
    [traffic]
    kind = "slot"
    [compute]
    costs = "example.json"
"#;

/// What a slot yields, whoever ran it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Yield {
    votes: u64,
    /// Signers and bytes by cell and aggregator.
    aggregates: BTreeMap<(u32, u32), (Bitfield, u64)>,
    /// Multiplicities and bytes by committee and collector.
    collections: BTreeMap<(u16, u32), (Support, u64)>,
    /// Multiplicities by committee of the block's entries; its bytes.
    entries: Vec<(u16, Support)>,
    block_bytes: u64,
    /// Nodes that have the block.
    imported: u32,
}

/// Keeps what dense nodes show.
#[derive(Default)]
struct Log(Yield);

impl Log {
    fn aggregate(&mut self, body: &AggregateBody) {
        let content = (body.signers.clone(), body.bytes);
        let before = self.0.aggregates.insert((body.cell, body.sender), content);
        assert_eq!(before, None, "an aggregator publishes once");
    }

    fn collection(&mut self, body: &CollectionBody) {
        let content = (body.support.clone(), body.bytes);
        let key = (body.committee, body.sender);
        let before = self.0.collections.insert(key, content);
        assert_eq!(before, None, "a collector publishes once");
    }

    fn block(&mut self, body: &BlockBody) {
        let entries = body.entries.iter();
        self.0.entries = entries
            .map(|entry| (entry.committee, entry.support.clone()))
            .collect();
        self.0.block_bytes = body.bytes;
    }
}

impl Witness<HornNode> for Log {
    fn delivered(&mut self, _: u64, _: u32, delivery: &HornDelivery) {
        match delivery {
            HornDelivery::Voted(count) => self.0.votes += u64::from(*count),
            HornDelivery::Aggregated(body) => self.aggregate(body),
            HornDelivery::Collected(body) => self.collection(body),
            HornDelivery::Proposed(body) => self.block(body),
            HornDelivery::Imported(_) => self.0.imported += 1,
            HornDelivery::Accepted(_) => {}
        }
    }
}

/// A role of the protocol whose publications are kept.
struct Recorded {
    role: Horn,
    published: Vec<(Topic, Bytes)>,
}

impl Protocol for Recorded {
    fn handle(&mut self, now: Time, input: Input) {
        self.role.handle(now, input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        let output = self.role.poll_output();
        if let Some(Output::Publish { topic, data }) = &output {
            self.published.push((*topic, data.clone()));
        }
        output
    }

    fn next_deadline(&self) -> Option<Time> {
        self.role.next_deadline()
    }
}

fn scenario(changes: &[&str]) -> Scenario {
    let changes: Vec<Override> = changes.iter().map(|c| parse_override(c).unwrap()).collect();
    let mut scenario = Scenario::parse(TEXT, &changes).unwrap();
    let table = serde_json::to_string(&CostTable::example()).unwrap();
    scenario.inputs.insert("example.json".into(), table);
    scenario
}

fn plan(scenario: &Scenario, seed: u64) -> Plan {
    let Kind::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    Plan::new(scenario, horn, CostTable::example(), seed).unwrap()
}

/// The slot by dense nodes over the simulated network; `down` are not there.
fn dense(scenario: &Scenario, seed: u64, down: &[u32]) -> Yield {
    let plan = Arc::new(plan(scenario, seed));
    let regions = Latency::regions_of(&scenario.latency, seed, NODES);
    let (graph, roles) = build(plan.clone(), scenario, seed, &regions).unwrap();
    let class = vec![0; NODES as usize];
    let config = world_config(scenario, seed, (*graph).clone(), regions, &class);
    let mut world: World<HornNode, Log, Calendar> = World::new(roles, config, Log::default());
    for node in down {
        world.change(Time::ZERO, Change::Down(*node));
    }
    let until = plan.clock.phase_start(NEXT, Phase::Vote);
    world.run_until(until, u64::MAX).unwrap();
    std::mem::take(&mut world.witness_mut().0)
}

/// The same slot by the protocol's roles, which know of no network but each other.
fn real(scenario: &Scenario, seed: u64, down: &[u32]) -> Yield {
    let plan = plan(scenario, seed);
    let scheme = Model::new(CostTable::example()).unwrap();
    let layout = plan.config.layout;
    let validators = layout.validators();
    let info = SchemeInfo::of(&scheme, &layout);
    let node = |node: u32| {
        let mut local = Local::observer(&layout);
        for validator in plan.hosted(node).filter(|_| !down.contains(&node)) {
            local.validators.set(validator as usize);
            if plan.votes(validator) {
                local.voters.set(validator as usize);
            }
        }
        Recorded {
            role: Horn::new(plan.config.clone(), info.clone(), local).unwrap(),
            published: Vec::new(),
        }
    };
    let env = Env::signing(
        Arc::new(scheme),
        Arc::new(ModelRegistry { validators }),
        Arc::new(ModelSigners { validators }),
        [7; 32],
    );
    let watermark = Arc::new(MemoryWatermark::new(validators));
    let compute = Compute::new(env, watermark, ComputeConfig::new(2)).unwrap();
    let network = Network::new(&vec![Subscription::All; NODES as usize], 50_000_000);
    let nodes = (0..NODES).map(node).collect();
    let mut driver = Driver::new(nodes, network, compute, Limits::default());
    let end = plan.clock.phase_start(NEXT, Phase::Vote);
    let end = end.saturating_sub_ns(1);
    driver.run_until(end, &mut ()).unwrap();
    let mut found = Yield::default();
    for node in 0..NODES {
        let Recorded { role, published } = driver.protocol(node);
        for (topic, data) in published {
            read(&mut found, (&plan, &plan.format), *topic, data);
        }
        let block = role.view(NEXT).and_then(|view| view.block);
        let is_there = block.is_some() && !down.contains(&node);
        found.imported += u32::from(is_there);
    }
    found
}

/// Reads a message that a role published.
fn read(found: &mut Yield, (plan, format): (&Plan, &WireFormat), topic: Topic, data: &Bytes) {
    let bytes = data.len() as u64;
    match topic {
        Topic::Vote { .. } => found.votes += 1,
        Topic::Aggregate { .. } => {
            let message = Aggregate::decode(data, format, &no_references).unwrap();
            let key = (plan.cell_number(message.cell), message.sender.0);
            let signers = message.evidence.support.signers();
            let before = found.aggregates.insert(key, (signers, bytes));
            assert_eq!(before, None, "an aggregator publishes once");
        }
        Topic::Collection => {
            let message = Collection::decode(data, format, &no_references).unwrap();
            let key = (message.committee, message.sender.0);
            let support = (*message.evidence.support).clone();
            let before = found.collections.insert(key, (support, bytes));
            assert_eq!(before, None, "a collector publishes once");
        }
        Topic::Block => {
            let all = |_: &Vote, c| Some(full(&plan.config.layout, c));
            let block = Block::decode(data, format, &all).unwrap();
            if block.header.slot == NEXT {
                let entries = block.body.entries.iter();
                found.entries = entries
                    .map(|entry| (entry.committee, (*entry.evidence.support).clone()))
                    .collect();
                found.block_bytes = bytes;
            }
        }
    }
}

fn full(layout: &Layout, committee: u16) -> Bitfield {
    Bitfield::ones(layout.committee_len(committee) as usize)
}

/// Both ways give the same; and so that it is no agreement on nothing, what they give.
fn agree(changes: &[&str], seed: u64, down: &[u32]) -> Yield {
    let scenario = scenario(changes);
    let (dense, real) = (dense(&scenario, seed, down), real(&scenario, seed, down));
    assert_eq!(dense.votes, real.votes, "{changes:?}");
    let keys = |found: &Yield| found.aggregates.keys().copied().collect::<Vec<_>>();
    assert_eq!(keys(&dense), keys(&real), "{changes:?}: who aggregates");
    let keys = |found: &Yield| found.collections.keys().copied().collect::<Vec<_>>();
    assert_eq!(keys(&dense), keys(&real), "{changes:?}: who collects");
    assert_eq!(dense.imported, real.imported, "{changes:?}");
    assert_eq!(dense, real, "{changes:?}");
    dense
}

#[test]
fn dense_nodes_publish_what_the_roles_publish() {
    let all = agree(&[], 1, &[]);
    assert_eq!((all.votes, all.imported), (2048, NODES));
    // 16 aggregators of each of 8 cells, 16 collectors of each of 2 committees.
    assert_eq!((all.aggregates.len(), all.collections.len()), (128, 32));
    assert_eq!(all.entries.len(), 2);
    for (committee, support) in &all.entries {
        assert_eq!(support.signer_count(), 1024, "committee {committee}");
    }
    let some = agree(&["protocol.participation_ppm=900000"], 2, &[]);
    assert!((1780..1900).contains(&some.votes), "{}", some.votes);
    let uneven = ["protocol.validators=1203", "protocol.committees=3"];
    let uneven = [&uneven[..], &["protocol.subcommittees=8"]].concat();
    assert_eq!(agree(&uneven, 3, &[]).votes, 1203);
}

#[test]
fn they_do_whatever_the_rule_and_whoever_is_away() {
    let plain = ["protocol.multiplicity_max=1", "protocol.aggregators=3"];
    let plain = agree(&plain, 4, &[]);
    let ones = plain.collections.values();
    assert!(
        ones.clone()
            .all(|(support, _)| support.max_multiplicity() == 1)
    );
    // Validator 1 proposes, so node 1 stays.
    let without = agree(&["protocol.participation_ppm=950000"], 5, &[0, 7]);
    assert_eq!(without.imported, NODES - 2);
    assert!(without.aggregates.len() < 128 && without.collections.len() < 32);
    let credited: usize = without.entries.iter().map(|(_, s)| s.signer_count()).sum();
    assert_eq!(credited as u64, without.votes);
}
