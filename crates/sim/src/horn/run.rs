//! From a scenario and a seed to an outcome, and the verdict.

use super::HornError;
use super::build::build;
use super::message::HornMessage;
use super::node::HornNode;
use super::plan::{NEXT, Plan, SLOT, Way};
use super::watch::{Milestones, Watch};
use crate::calendar::{Calendar, EventQueue};
use crate::charge::Processor;
use crate::fault::{Interval, Late, Withhold};
use crate::latency::{Latency, choose, mix, spread};
use crate::net::{NetConfig, Rate};
use crate::report::{Bin, Bounds, NodeRecord, Outcome};
use crate::role::{Role, Wire};
use crate::run::{Observe, Progress};
use crate::scenario::{self, Fault, FaultKind, Scenario, Stop};
use crate::world::{Change, Limits, Pause, World, WorldConfig};
use alphorn_proto::slot::Phase;
use alphorn_scheme::model::CostTable;
use alphorn_types::Time;
use std::ops::ControlFlow;
use std::sync::Arc;

const FAULT: u64 = 0x686f_726e_0020;

/// What a slot yields.
#[derive(Clone, Debug)]
pub struct HornRun {
    /// Records, times and the verdict. Delays are times from the begin of the vote phase until a node
    /// has collections with 99 % of the votes, by the best of each committee: a lower bound of what it
    /// has.
    pub outcome: Outcome,
    /// Votes signed, in published aggregates, in published collections, at the proposer, in its block.
    pub votes: [u64; 5],
    /// Aggregates and collections that were published.
    pub published: (u64, u64),
    /// When the last vote, aggregate and collection was published, from the begin of the slot.
    pub last_ns: [u64; 3],
    /// When the proposer had 2/3, 90 % and 99 % of the votes, from the begin of the slot; exact.
    pub at_proposer: Milestones,
    /// The same at the nodes in the middle, and at those that 99 % do not exceed.
    pub at_nodes: [Milestones; 2],
    /// When the proposer could credit more votes, from the begin of the slot, and how many.
    pub curve: Vec<(u64, u64)>,
    /// Collections in the block, and its bytes.
    pub block: (u64, u64),
    /// Nodes that have the block at the end.
    pub imported: u64,
    /// Bytes that queues dropped.
    pub dropped_bytes: u64,
    /// Posts whose duty was not done.
    pub unfinished: u64,
}

/// Runs one slot of a scenario whose protocol is `horn`.
///
/// # Errors
/// [`HornError`].
pub fn run(
    scenario: &Scenario,
    horn: &scenario::Horn,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<HornRun, HornError> {
    run_with::<Calendar>(scenario, horn, seed, observe)
}

/// The same with a queue of events to compare.
pub(super) fn run_with<Q: EventQueue>(
    scenario: &Scenario,
    horn: &scenario::Horn,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<HornRun, HornError> {
    let plan = Arc::new(Plan::new(scenario, horn, costs(scenario)?, seed)?);
    let nodes = plan.nodes;
    let regions = Latency::regions_of(&scenario.latency, seed, nodes);
    let (graph, roles) = build(plan.clone(), scenario, seed, &regions)?;
    let shares = scenario.class.iter().map(|class| class.share_pct);
    let class: Vec<u16> = (0..nodes)
        .map(|node| choose(shares.clone(), spread(seed, node).0) as u16)
        .collect();
    let faulty: Vec<Vec<u32>> = (0..)
        .zip(&scenario.fault)
        .map(|(index, fault)| members(fault, seed, index, nodes))
        .collect();
    let mut honest = vec![true; nodes as usize];
    for node in faulty.iter().flatten() {
        honest[*node as usize] = false;
    }
    let config = world_config(scenario, seed, (*graph).clone(), regions.clone(), &class);
    let watch = Watch::new(plan.clone(), honest.clone());
    let mut world: World<HornNode, Watch, Q> = World::new(roles, config, watch);
    for (fault, members) in scenario.fault.iter().zip(&faulty) {
        apply(scenario, fault, (members, &class), seed, &mut world)?;
    }
    let pause = go(&mut world, scenario.sim.stop, &plan, seed, observe)?;
    Ok(harvest(
        &world,
        (scenario, seed),
        (&class, &regions, &honest),
        pause,
        &plan,
    ))
}

fn costs(scenario: &Scenario) -> Result<CostTable, HornError> {
    let path = scenario.compute.costs.as_ref().ok_or(HornError::NoCosts)?;
    let text = scenario.inputs.get(path);
    let text = text.ok_or_else(|| HornError::MissingCosts { path: path.clone() })?;
    Ok(CostTable::from_json(text)?)
}

fn rate(class: &scenario::Class, percent: u64) -> Rate {
    let scaled = |mbps: u64| (mbps * 10_000).saturating_mul(percent).max(1);
    Rate {
        up_bps: scaled(class.up_mbps),
        down_bps: scaled(class.down_mbps),
    }
}

fn world_config(
    scenario: &Scenario,
    seed: u64,
    graph: crate::graph::Graph,
    regions: Vec<u8>,
    class: &[u16],
) -> WorldConfig {
    let table_pct = u64::from(scenario.compute.factor_pct);
    let processor = |class: &scenario::Class| Processor {
        cores: u16::try_from(class.cores).unwrap_or(u16::MAX),
        factor_pct: u64::from(class.cpu_factor_pct) * table_pct / 100,
    };
    WorldConfig {
        net: NetConfig {
            graph,
            latency: Latency::new(&scenario.latency, regions),
            link: scenario.link.clone(),
            rates: scenario
                .class
                .iter()
                .map(|class| rate(class, 100))
                .collect(),
            rate: class.to_vec(),
            handle_ns: scenario.compute.handle_ns,
            seed,
            kinds: HornMessage::KINDS.len(),
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

/// The nodes of a fault: those listed, or a share in a drawn order.
fn members(fault: &Fault, seed: u64, index: u64, nodes: u32) -> Vec<u32> {
    if !fault.nodes.is_empty() {
        return fault
            .nodes
            .iter()
            .copied()
            .filter(|node| *node < nodes)
            .collect();
    }
    let count = u64::from(nodes) * u64::from(fault.share_pct) / 100;
    let mut order: Vec<u32> = (0..nodes).collect();
    order.sort_by_key(|node| (mix([seed, FAULT, index, (*node).into()]), *node));
    order.truncate(count as usize);
    order
}

/// Puts a fault into the world: those of machinery, and those that need not know what messages say.
fn apply<Q: EventQueue>(
    scenario: &Scenario,
    fault: &Fault,
    (members, class): (&[u32], &[u16]),
    seed: u64,
    world: &mut World<HornNode, Watch, Q>,
) -> Result<(), HornError> {
    let (from, until) = (
        Time::from_millis(fault.from_ms),
        fault.until_ms.map_or(Time::MAX, Time::from_millis),
    );
    let percent = u64::from(fault.factor_pct);
    for &node in members {
        let class = &scenario.class[usize::from(class[node as usize])];
        let (begin, end) = match fault.kind {
            FaultKind::Crash => (Change::Down(node), Change::Up(node)),
            FaultKind::SlowLink => (
                Change::Link(node, rate(class, percent)),
                Change::Link(node, rate(class, 100)),
            ),
            FaultKind::SlowCpu => {
                let own = world.factor_pct(node);
                let slow = own.saturating_mul(percent) / 100;
                (Change::Speed(node, slow), Change::Speed(node, own))
            }
            FaultKind::Withhold => {
                let key = mix([seed, FAULT, u64::MAX, node.into()]);
                let wrap = Withhold::new(Interval { from, until }, percent, key);
                world.wrap(node, Box::new(wrap));
                continue;
            }
            FaultKind::Late => {
                let delay_ns = fault.delay_ms.saturating_mul(1_000_000);
                world.wrap(
                    node,
                    Box::new(Late::new(Interval { from, until }, delay_ns)),
                );
                continue;
            }
            kind => {
                let fault = kind.name();
                return Err(HornError::Fault { fault });
            }
        };
        world.change(from, begin);
        if until < Time::MAX {
            world.change(until, end);
        }
    }
    Ok(())
}

fn go<Q: EventQueue>(
    world: &mut World<HornNode, Watch, Q>,
    stop: Stop,
    plan: &Plan,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<Pause, HornError> {
    let committees = u64::from(plan.config.layout.committees());
    let until = plan.clock.phase_start(NEXT, Phase::Vote);
    loop {
        let pause = crate::run::step(world, stop, until, observe)?;
        if let Some(violation) = world.witness().violation() {
            return Err(HornError::Violation {
                seed,
                event: world.events(),
                violation: violation.clone(),
            });
        }
        if pause != Pause::Events {
            return Ok(pause);
        }
        let progress = Progress {
            now_ns: world.now().as_nanos(),
            events: world.events(),
            deliveries: world.witness().accepted(),
            // One collection of each committee at each node.
            deliveries_max: committees * u64::from(plan.nodes),
        };
        if observe.progress(&progress) == ControlFlow::Break(()) {
            return Err(HornError::Stopped {
                events: progress.events,
                at_ns: progress.now_ns,
            });
        }
    }
}

/// The value that `permille` of some times do not exceed; an absent one is late.
fn quantile(mut times: Vec<Option<u64>>, permille: usize) -> Option<u64> {
    times.sort_unstable_by_key(|time| time.unwrap_or(u64::MAX));
    let rank = (times.len() * permille).div_ceil(1000).max(1);
    times.get(rank - 1).copied().flatten()
}

fn harvest<Q: EventQueue>(
    world: &World<HornNode, Watch, Q>,
    (scenario, seed): (&Scenario, u64),
    (class, regions, honest): (&[u16], &[u8], &[bool]),
    pause: Pause,
    plan: &Plan,
) -> HornRun {
    let watch = world.witness();
    let begin_ns = plan.phase_start(Phase::Vote).as_nanos();
    let since = |at: u64| at.saturating_sub(begin_ns);
    let milestones = watch.milestones();
    let counted = || milestones.iter().zip(honest).filter(|(_, honest)| **honest);
    let at_share = |permille, i: usize| {
        quantile(
            counted().map(|(times, _)| times.at_ns[i]).collect(),
            permille,
        )
    };
    let at_nodes = [500, 990].map(|permille| Milestones {
        at_ns: std::array::from_fn(|i| at_share(permille, i)),
    });
    let (aggregates, collections, payload_bytes) = watch.published();
    let roles = roles_of(plan);
    let record = |node: u32| {
        let tally = &world.tallies()[node as usize];
        let times = &milestones[node as usize].at_ns;
        NodeRecord {
            node,
            class: class[node as usize],
            region: regions[node as usize],
            role: match honest[node as usize] {
                true => roles[node as usize],
                false => "faulty",
            },
            first_ns: times[0].map(since),
            done_ns: times[2].map(since),
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
        kind: HornMessage::KINDS[kind],
        msgs,
        bytes,
    };
    let outcome = Outcome {
        seed,
        payload_bytes,
        nodes: (0..plan.nodes).map(record).collect(),
        delays_ns: counted()
            .map(|(times, _)| times.at_ns[2].map(since))
            .collect(),
        series: world.series().map(bin).collect(),
        useful_bytes: watch.useful_bytes(),
        sent_truncated: pause != Pause::Quiet && world.bytes_on_the_way() != (0, 0),
        bounds: Bounds::default(),
        adversity: Default::default(),
        events: world.events(),
        event_hash: world.event_hash(),
        verdict: String::new(),
    };
    let block = watch.block();
    let mut run = HornRun {
        votes: watch.votes(),
        published: (aggregates, collections),
        last_ns: watch.last_ns(),
        at_proposer: watch.at_proposer(),
        at_nodes,
        curve: watch.curve().to_vec(),
        block: block.map_or((0, 0), |block| (block.entries.len() as u64, block.bytes)),
        imported: watch.imported().iter().flatten().count() as u64,
        dropped_bytes: world.balance().dropped,
        unfinished: world
            .roles()
            .iter()
            .map(|role| role.unfinished() as u64)
            .sum(),
        outcome,
    };
    run.outcome.verdict = verdict(&run, scenario, plan);
    run
}

/// What each node is, by the rarest duty of its validators.
fn roles_of(plan: &Plan) -> Vec<&'static str> {
    let mut roles = vec!["voter"; plan.nodes as usize];
    let mut name = |servers: &[Vec<super::Server>], role| {
        for server in servers.iter().flatten() {
            roles[plan.host(server.validator) as usize] = role;
        }
    };
    name(&plan.aggregators, "aggregator");
    name(&plan.collectors, "collector");
    roles[plan.host(plan.proposer()) as usize] = "proposer";
    roles
}

/// The name of the class with the least uplink of which 99 % of the nodes have 99 % of the votes when
/// the slot ends.
fn feasible(run: &HornRun, scenario: &Scenario, plan: &Plan) -> Option<String> {
    let slot_ns = plan.clock.slot_start(SLOT.next()).as_nanos();
    let begin_ns = plan.phase_start(Phase::Vote).as_nanos();
    let mut classes: Vec<(u64, usize)> = (0..)
        .zip(&scenario.class)
        .map(|(index, class)| (class.up_mbps, index))
        .collect();
    classes.sort_unstable();
    let serves = |index: &usize| {
        let nodes = run.outcome.nodes.iter();
        let of_class = nodes.filter(|node| usize::from(node.class) == *index);
        let times: Vec<Option<u64>> = of_class
            .filter(|node| node.role != "faulty")
            .map(|node| node.done_ns)
            .collect();
        quantile(times, 990).is_some_and(|ns| ns + begin_ns <= slot_ns)
    };
    let (_, index) = classes.into_iter().find(|(_, index)| serves(index))?;
    Some(scenario.class[index].name.clone())
}

fn seconds(ns: Option<u64>) -> String {
    match ns {
        None => "no time".into(),
        Some(ns) => {
            let ms = ns.div_ceil(1_000_000);
            format!("{}.{:03} s", ms / 1000, ms % 1000)
        }
    }
}

/// One line that answers whether it works.
fn verdict(run: &HornRun, scenario: &Scenario, plan: &Plan) -> String {
    let begin_ns = plan.phase_start(Phase::Vote).as_nanos();
    let since = |at: Option<u64>| at.map(|ns| ns.saturating_sub(begin_ns));
    let nodes = run.outcome.nodes.len().max(1) as u64;
    let up: u64 = run.outcome.nodes.iter().map(|node| node.bytes_up).sum();
    let peaks = run
        .outcome
        .nodes
        .iter()
        .map(|node| Some(node.peak_1s_up_bps));
    let peak = quantile(peaks.collect(), 990).unwrap_or(0);
    let tenths = |value: u64, unit: u64| {
        let tenths = value.saturating_mul(10).div_ceil(unit);
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    let way = |way: Way| match way {
        Way::Gossip => "gossip",
        Way::Direct => "direct",
        Way::Grid => "grid",
    };
    let topic = |topic: super::TopicId| way(plan.topics[topic.0 as usize].way);
    let feasible = match feasible(run, scenario, plan) {
        Some(class) => format!("feasible for class {class}"),
        None => "feasible for no class".into(),
    };
    format!(
        "{} validators on {nodes} nodes: 99 % of votes at the proposer in {} of the vote phase's \
         begin ({} at 99 % of nodes), {} of {} votes in the block, {} MB sent per node per slot, \
         peak {} Mbps up (99 % of nodes, 1 s); {feasible} ({}; votes {}, aggregates {}, \
         collections {}, block {})",
        plan.config.layout.validators(),
        seconds(since(run.at_proposer.at_ns[2])),
        seconds(since(run.at_nodes[1].at_ns[2])),
        run.votes[4],
        run.votes[0],
        tenths(up / nodes, 1_000_000),
        tenths(peak, 1_000_000),
        plan.costs_label(),
        topic(plan.vote_topic(0)),
        topic(plan.aggregate_topic(0)),
        topic(plan.collection_topic()),
        topic(plan.block_topic()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(seconds(None), "no time");
        assert_eq!(seconds(Some(1_000_000_001)), "1.001 s");
        assert_eq!(seconds(Some(23_000_000)), "0.023 s");
    }

    #[test]
    fn who_never_arrives_is_late() {
        assert_eq!(
            quantile(vec![Some(3), None, Some(1), Some(2)], 750),
            Some(3)
        );
        assert_eq!(quantile(vec![Some(3), None], 990), None);
        assert_eq!(quantile(Vec::new(), 500), None);
    }
}
