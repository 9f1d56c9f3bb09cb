//! From a scenario and a seed to an outcome, and the verdict.

use super::HornError;
use super::build::build;
use super::floor::{Floor, Ground};
use super::harvest::Harvest;
use super::message::HornMessage;
use super::node::HornNode;
use super::paid::PaidBlock;
use super::plan::Plan;
use super::watch::{Milestones, Watch};
use crate::calendar::{Calendar, EventQueue};
use crate::charge::Processor;
use crate::fault::{Adversary as _, Interval, Parameters};
use crate::graph::Graph;
use crate::latency::{Latency, choose, mix, spread};
use crate::net::{NetConfig, Rate};
use crate::report::Outcome;
use crate::role::Wire;
use crate::run::{Observe, Progress};
use crate::scenario::{self, Fault, FaultKind, Scenario, Stop};
use crate::world::{Change, Limits, Pause, World, WorldConfig};
use alphorn_scheme::model::CostTable;
use alphorn_types::Time;
use std::ops::ControlFlow;
use std::sync::Arc;

const FAULT: u64 = 0x686f_726e_0020;

/// What came of the votes of a slot that validators of honest nodes cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotVotes {
    /// The slot.
    pub slot: u64,
    /// Votes that were published.
    pub cast: u64,
    /// Those of them in the block of the next slot.
    pub in_block: u64,
    /// Those in the chain of the honest node that has fewest of them in its own.
    pub in_chain: u64,
    /// Nodes that have the block of the next slot at the end.
    pub imported: u64,
}

/// What a run yields. Votes, messages and times are those of the last slot; records, bytes and the
/// verdict's traffic are of all slots.
#[derive(Clone, Debug)]
pub struct HornRun {
    /// Records, times and the verdict. Delays are times from the begin of the vote phase until a node
    /// has collections with 99 % of the votes, by the best of each committee: a lower bound of what it
    /// has.
    pub outcome: Outcome,
    /// Votes signed, in published aggregates, in published collections, at the proposer, in its block.
    pub votes: [u64; 5],
    /// Every slot.
    pub slots: Vec<SlotVotes>,
    /// The blocks of an honest node's chain with votes of these slots, and what they are paid for.
    pub blocks: Vec<PaidBlock>,
    /// The newest slot that is final at every honest node.
    pub finalised: u64,
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
    /// Aggregates and collections of nodes that had something to sum and were not made.
    pub unfinished: u64,
}

/// Runs the slots of a scenario whose protocol is `horn`.
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
pub(crate) fn run_with<Q: EventQueue>(
    scenario: &Scenario,
    horn: &scenario::Horn,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<HornRun, HornError> {
    let mut plan = Plan::new(scenario, horn, costs(scenario)?, seed)?;
    let nodes = plan.nodes;
    let faulty: Vec<Vec<u32>> = (0..)
        .zip(&scenario.fault)
        .map(|(index, fault)| members(fault, seed, index, nodes))
        .collect();
    for (fault, members) in scenario.fault.iter().zip(&faulty) {
        if fault.is_silence() {
            plan.silence(members);
        }
    }
    let plan = Arc::new(plan);
    let regions = Latency::regions_of(&scenario.latency, seed, nodes);
    let (graph, roles) = build(plan.clone(), scenario, seed, &regions)?;
    let shares = scenario.class.iter().map(|class| class.share_pct);
    let class: Vec<u16> = (0..nodes)
        .map(|node| choose(shares.clone(), spread(seed, node).0) as u16)
        .collect();
    let mut honest = vec![true; nodes as usize];
    for node in faulty.iter().flatten() {
        honest[*node as usize] = false;
    }
    let config = world_config(scenario, seed, (*graph).clone(), regions.clone(), &class);
    let watch = Watch::new(plan.clone(), honest.clone());
    let mut world: World<HornNode, Watch, Q> = World::new(roles, config, watch);
    for (fault, members) in scenario.fault.iter().zip(&faulty) {
        apply(scenario, fault, (members, &class, &graph), seed, &mut world)?;
    }
    observe.begins();
    let pause = go(&mut world, scenario.sim.stop, &plan, seed, observe)?;
    let rate_of = |class: &u16| rate(&scenario.class[usize::from(*class)], 100);
    let ground = Ground {
        graph: &graph,
        latency: &Latency::new(&scenario.latency, regions.clone()),
        rates: &class.iter().map(rate_of).collect::<Vec<_>>(),
    };
    let floor = Floor::of(&plan, &world.witness().last().collections, &ground);
    if let Some(violation) = floor.broken(&world.witness().last().milestones) {
        return Err(HornError::Violation {
            seed,
            event: world.events(),
            violation,
        });
    }
    let harvest = Harvest {
        world: &world,
        scenario,
        plan: &plan,
        seed,
        class: &class,
        regions: &regions,
        honest: &honest,
        bounds: floor.bounds(),
    };
    Ok(harvest.run(pause))
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

pub(super) fn world_config(
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

/// Puts a fault into the world.
fn apply<Q: EventQueue>(
    scenario: &Scenario,
    fault: &Fault,
    (members, class, graph): (&[u32], &[u16], &Graph),
    seed: u64,
    world: &mut World<HornNode, Watch, Q>,
) -> Result<(), HornError> {
    let (from, until) = (
        Time::from_millis(fault.from_ms),
        fault.until_ms.map_or(Time::MAX, Time::from_millis),
    );
    let percent = u64::from(fault.factor_pct);
    for (number, &node) in (0..).zip(members) {
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
            kind => {
                let parameters = Parameters {
                    interval: Interval { from, until },
                    percent,
                    rate: fault.rate,
                    bytes: fault.bytes,
                    fails_at: fault.fails_at,
                    delay_ns: fault.delay_ms.saturating_mul(1_000_000),
                    seed: mix([seed, FAULT, u64::MAX, node.into()]),
                    peers: graph.peers(node).len() as u64,
                    chunks: 1,
                    items: 0,
                    number,
                    of: members.len() as u64,
                };
                let wrap = world.role(node).adversary(kind, &parameters);
                let fault = kind.name();
                world.wrap(node, wrap.ok_or(HornError::Fault { fault })?);
                continue;
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
    let until = plan.end();
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
            deliveries_max: committees * u64::from(plan.nodes) * u64::from(plan.slots),
        };
        if observe.progress(&progress) == ControlFlow::Break(()) {
            return Err(HornError::Stopped {
                events: progress.events,
                at_ns: progress.now_ns,
            });
        }
    }
}
