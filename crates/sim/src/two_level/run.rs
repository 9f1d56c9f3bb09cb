//! From a scenario and a seed to the time of the first global aggregator.

use super::message::TwoLevelMessage;
use super::node::{Finished, TwoLevelNode};
use super::place::{PROOFS, Place, ProofTo};
use super::{TwoLevel, TwoLevelError};
use crate::calendar::Calendar;
use crate::charge::Processor;
use crate::gossip;
use crate::graph::Graph;
use crate::horn::build::{End, among_members, neighbours, order};
use crate::horn::{Station, Topic, TopicId, Way};
use crate::latency::{Latency, choose, mix, spread};
use crate::net::{NetConfig, Rate};
use crate::report::{Bin, Bounds, NodeRecord, Outcome};
use crate::role::{Role, Wire};
use crate::run::{Observe, Progress};
use crate::scenario::Scenario;
use crate::world::{Limits, Pause, Witness, World, WorldConfig};
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::ops::ControlFlow;
use std::sync::Arc;

const GLOBAL: u64 = 0x7477_6f00_0001;
const LOCAL: u64 = 0x7477_6f00_0002;
const SEED: u64 = 0x7477_6f00_0003;

/// Ends the run when the first global aggregator has finished.
#[derive(Debug, Default)]
struct First {
    at: Option<(u64, u32, u32)>,
}

impl Witness<TwoLevelNode> for First {
    fn delivered(&mut self, now_ns: u64, node: u32, delivery: &Finished) {
        self.at.get_or_insert((now_ns, node, delivery.signers));
    }

    fn is_done(&self) -> bool {
        self.at.is_some()
    }
}

/// Who is what.
struct Parts {
    /// Local aggregators by group, in a drawn order.
    locals: Vec<Vec<u32>>,
    /// Global aggregators in a drawn order.
    globals: Vec<u32>,
}

fn drawn(nodes: impl Iterator<Item = u32>, key: [u64; 2], count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = nodes.collect();
    order.sort_by_key(|node| (mix([key[0], key[1], (*node).into(), 0]), *node));
    order.truncate(count);
    order
}

fn group(config: &TwoLevel, group: u32, nodes: u32) -> impl Iterator<Item = u32> + use<> {
    (group..nodes).step_by(config.groups as usize)
}

fn parts(config: &TwoLevel, nodes: u32, seed: u64) -> Parts {
    let locals = (0..config.groups).map(|g| {
        let len = group(config, g, nodes).count();
        let count = len * config.local_aggregators_pct as usize / 100;
        drawn(group(config, g, nodes), [seed, LOCAL], count.max(1))
    });
    Parts {
        locals: locals.collect(),
        globals: drawn(0..nodes, [seed, GLOBAL], config.global_aggregators as usize),
    }
}

/// Runs the model until the first global aggregator has finished: the only delay of the outcome.
///
/// # Errors
/// [`TwoLevelError`].
pub fn run(
    scenario: &Scenario,
    config: &TwoLevel,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<Outcome, TwoLevelError> {
    config.check(scenario.sim.nodes)?;
    if !scenario.fault.is_empty() {
        return Err(TwoLevelError::Fault);
    }
    let nodes = scenario.sim.nodes;
    let parts = parts(config, nodes, seed);
    let (graph, roles) = build(config, &parts, nodes, seed)?;
    let regions = Latency::regions_of(&scenario.latency, seed, nodes);
    let shares = scenario.class.iter().map(|class| class.share_pct);
    let class: Vec<u16> = (0..nodes)
        .map(|node| choose(shares.clone(), spread(seed, node).0) as u16)
        .collect();
    let kinds = TwoLevelMessage::KINDS.len();
    let world_config = world_config(scenario, seed, (graph, regions.clone()), &class, kinds);
    let mut world: World<TwoLevelNode, First, Calendar> =
        World::new(roles, world_config, First::default());
    loop {
        let pause = crate::run::step(&mut world, scenario.sim.stop, Time::MAX, observe)?;
        if pause != Pause::Events {
            break;
        }
        let progress = Progress {
            now_ns: world.now().as_nanos(),
            events: world.events(),
            deliveries: 0,
            deliveries_max: 1,
        };
        if observe.progress(&progress) == ControlFlow::Break(()) {
            return Err(TwoLevelError::Stopped {
                events: progress.events,
                at_ns: progress.now_ns,
            });
        }
    }
    Ok(outcome(&world, config, (&class, &regions), &parts, seed))
}

/// The network and the processors of a scenario, for messages of so many kinds.
pub(crate) fn world_config(
    scenario: &Scenario,
    seed: u64,
    (graph, regions): (Graph, Vec<u8>),
    class: &[u16],
    kinds: usize,
) -> WorldConfig {
    let rate = |class: &crate::scenario::Class| Rate {
        up_bps: class.up_mbps * 1_000_000,
        down_bps: class.down_mbps * 1_000_000,
    };
    let processor = |class: &crate::scenario::Class| Processor {
        cores: u16::try_from(class.cores).unwrap_or(u16::MAX),
        factor_pct: u64::from(class.cpu_factor_pct) * u64::from(scenario.compute.factor_pct) / 100,
    };
    WorldConfig {
        net: NetConfig {
            graph,
            latency: Latency::new(&scenario.latency, regions),
            link: scenario.link.clone(),
            rates: scenario.class.iter().map(rate).collect(),
            rate: class.to_vec(),
            handle_ns: scenario.compute.handle_ns,
            seed,
            kinds,
            arrivals_always: false,
        },
        processors: scenario.class.iter().map(processor).collect(),
        processor: class.to_vec(),
        limits: Limits {
            events_max: scenario.sim.events_max,
            sim_time_max_ns: scenario.sim.sim_time_max_ms.saturating_mul(1_000_000),
            quiet_ns: u64::MAX,
        },
    }
}

/// Ends by node and topic, and all connections as pairs.
type Connections = (Vec<End>, Vec<(u32, u32)>);

/// The connections of all topics.
fn connections(
    config: &TwoLevel,
    parts: &Parts,
    nodes: u32,
    seed: u64,
) -> Result<Connections, TwoLevelError> {
    let [signatures, proofs] = config.ways()?;
    let degree = config.mesh as u8;
    let mut ends: Vec<End> = Vec::new();
    let mut edges: Vec<(u32, u32)> = Vec::new();
    for (g, locals) in (0..).zip(&parts.locals) {
        match signatures {
            Way::Direct => {
                for node in group(config, g, nodes) {
                    edges.extend(locals.iter().map(|local| (node, *local)));
                }
            }
            way => {
                let members = group(config, g, nodes).collect();
                let topic = Topic { way, members };
                among_members(&mut ends, TopicId(g), &topic, degree, seed);
            }
        }
        edges.extend(
            (0..)
                .zip(locals)
                .map(|(i, local)| (*local, to_global(parts, g, i))),
        );
    }
    let topic = Topic {
        way: proofs,
        members: parts.globals.clone(),
    };
    among_members(&mut ends, PROOFS, &topic, degree, seed);
    order(&mut ends);
    edges.extend(ends.iter().map(|end| (end.node, end.peer)));
    Ok((ends, edges))
}

/// The mesh of signatures, which are passed on at once, and that of proofs, which are verified before.
fn meshes(config: &TwoLevel) -> [Arc<gossip::Config>; 2] {
    let degree = config.mesh as u8;
    [false, true].map(|validate| {
        Arc::new(gossip::Config {
            degree,
            degree_low: degree.div_ceil(2),
            degree_high: degree.saturating_mul(2),
            degree_lazy: config.lazy as u8,
            refuse_above_bytes: None,
            validate,
            ..gossip::Config::default()
        })
    })
}

/// The graph of all topics, and the nodes on it.
fn build(
    config: &TwoLevel,
    parts: &Parts,
    nodes: u32,
    seed: u64,
) -> Result<(Graph, Vec<TwoLevelNode>), TwoLevelError> {
    let [signatures, proofs] = config.ways()?;
    let (ends, edges) = connections(config, parts, nodes, seed)?;
    let graph = Graph::from_edges(nodes, edges)?;
    let shared = Arc::new(config.clone());
    let meshes = meshes(config);
    let mut roles = Vec::with_capacity(nodes as usize);
    let mut rest = &ends[..];
    for node in 0..nodes {
        let own = rest.partition_point(|end| end.node <= node);
        let (own, others) = rest.split_at(own);
        rest = others;
        let (in_group, among) = own.split_at(own.partition_point(|end| end.topic < PROOFS));
        let place = place(&shared, parts, node, &graph, proofs);
        let key = mix([seed, SEED, node.into(), 0]);
        let station = |topic, way, own, config: &Arc<gossip::Config>| {
            let way = if way == Way::Direct { Way::Grid } else { way };
            let neighbours = neighbours(own, &graph, way)?;
            Ok::<_, TwoLevelError>(Station::new(topic, way, neighbours, config, key))
        };
        let topic = TopicId(place.group);
        let member =
            (signatures != Way::Direct).then(|| station(topic, signatures, in_group, &meshes[0]));
        let pushes = place.is_global && !config.pull;
        let global = pushes.then(|| station(PROOFS, proofs, among, &meshes[1]));
        let told = among
            .iter()
            .filter(|end| proofs != Way::Gossip || end.marked)
            .filter_map(|end| graph.number_of(node, end.peer));
        let pull = (place.is_global && config.pull).then(|| told.collect());
        let (member, global) = (member.transpose()?, global.transpose()?);
        roles.push(TwoLevelNode::new(place, member, global, pull));
    }
    Ok((graph, roles))
}

/// The global aggregator that gets the proof of a local one: in turn over all.
fn to_global(parts: &Parts, group: u32, index: usize) -> u32 {
    let before: usize = parts.locals[..group as usize].iter().map(Vec::len).sum();
    parts.globals[(before + index) % parts.globals.len()]
}

fn place(
    config: &Arc<TwoLevel>,
    parts: &Parts,
    node: u32,
    graph: &Graph,
    proofs_way: Way,
) -> Place {
    let nodes = graph.nodes();
    let own = node % config.groups;
    let locals = &parts.locals[own as usize];
    let local = locals.iter().position(|local| *local == node);
    let proof_to = local.and_then(|index| {
        let global = to_global(parts, own, index);
        match global == node {
            true => Some(ProofTo::Itself),
            false => graph.number_of(node, global).map(ProofTo::Neighbour),
        }
    });
    let receivers = locals
        .iter()
        .filter_map(|local| graph.number_of(node, *local));
    Place {
        config: config.clone(),
        group: own,
        index: node / config.groups,
        group_len: group(config, own, nodes).count() as u32,
        nodes,
        proof_to,
        is_global: parts.globals.contains(&node),
        signature_to: match config.signatures == "direct" {
            true => receivers.map(|number| Peer(number.into())).collect(),
            false => Arc::from([]),
        },
        proofs_way: match proofs_way {
            Way::Direct => Way::Grid,
            way => way,
        },
    }
}

fn outcome(
    world: &World<TwoLevelNode, First, Calendar>,
    config: &TwoLevel,
    (class, regions): (&[u16], &[u8]),
    parts: &Parts,
    seed: u64,
) -> Outcome {
    let first = world.witness().at;
    let record = |node: u32| {
        let tally = &world.tallies()[node as usize];
        let own = node % config.groups;
        let role = match () {
            () if parts.globals.contains(&node) => "global",
            () if parts.locals[own as usize].contains(&node) => "local",
            () => "signer",
        };
        NodeRecord {
            node,
            class: class[node as usize],
            region: regions[node as usize],
            role,
            first_ns: None,
            done_ns: first.filter(|first| first.1 == node).map(|first| first.0),
            bytes_up: tally.bytes_up,
            bytes_down: tally.bytes_down,
            msgs: u64::from(tally.messages),
            dup_bytes: world.role(node).duplicate_bytes(),
            cpu_ns: tally.cpu_ns,
            queue_peak_bytes: tally.queue_peak_bytes,
            peak_1s_up_bps: tally.peak_1s_up_bps(),
        }
    };
    let bin = |(bin, kind, msgs, bytes): (u64, usize, u64, u64)| Bin {
        from_ns: bin * crate::net::BIN_NS,
        kind: TwoLevelMessage::KINDS[kind],
        msgs,
        bytes,
    };
    Outcome {
        seed,
        payload_bytes: config.signature_bytes + config.proof_bytes,
        nodes: (0..world.roles().len() as u32).map(record).collect(),
        delays_ns: vec![first.map(|first| first.0)],
        series: world.series().map(bin).collect(),
        useful_bytes: 0,
        sent_truncated: true,
        bounds: Bounds::default(),
        adversity: Default::default(),
        events: world.events(),
        event_hash: world.event_hash(),
        verdict: verdict(first, config),
        votes: None,
    }
}

fn verdict(first: Option<(u64, u32, u32)>, config: &TwoLevel) -> String {
    let Some((ns, _, signers)) = first else {
        return "no global aggregator has finished".into();
    };
    let ms = ns.div_ceil(1_000_000);
    let how = if config.pull {
        "asked for"
    } else {
        "sent at once"
    };
    let told = format!(
        "first global aggregator done after {}.{:03} s with {signers} signers (signatures {}, proofs \
         {}, {how})",
        ms / 1000,
        ms % 1000,
        config.signatures,
        config.proofs
    );
    if config.published_ms == 0 {
        return told;
    }
    let published = config.published_ms;
    let off = (ms.abs_diff(published) * 1000).div_ceil(published);
    let (sign, within) = (
        if ms < published { "-" } else { "+" },
        if off <= 150 { "within" } else { "not within" },
    );
    format!(
        "{told}; published {}.{} s: {sign}{}.{} %, {within} 15 %",
        published / 1000,
        published % 1000 / 100,
        off / 10,
        off % 10
    )
}
