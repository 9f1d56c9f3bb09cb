//! From a scenario and a seed to an outcome and a verdict.

use super::build::{Built, build};
use super::error::HornError;
use super::findings::Findings;
use super::floor::{Floor, Ground};
use super::message::HornMessage;
use super::node::HornNode;
use super::plan::Plan;
use super::results::HornRun;
use super::tell::{self, Teller};
use super::violation::Violation;
use super::watch::Watch;
use crate::fault::Members;
use crate::latency::{Latency, mix};
use crate::role::Wire;
use crate::run::drive::{Observe, drive, threads};
use crate::run::error::RunError;
use crate::scenario::{self, DrawnNetwork, FaultKind, Scenario, Stop, TraceLevel};
use crate::world::{Pause, World};
use alphorn_types::Time;
use std::sync::Arc;

const FAULT: u64 = 0x686f_726e_0020;

/// Runs the slots of a scenario whose protocol is `horn`.
///
/// # Errors
/// [`RunError`].
pub fn run(
    scenario: &Scenario,
    horn: &scenario::Horn,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<HornRun, RunError> {
    let mut plan = Plan::new(scenario, horn, scenario.costs_for("horn")?, seed)?;
    let nodes = plan.nodes;
    let faulty = (0..)
        .zip(&scenario.fault)
        .map(|(index, fault)| plan.members(fault, [seed, FAULT, index]))
        .collect::<Result<Vec<Vec<u32>>, RunError>>()?;
    // Before nodes are built, since they ask the plan which of their validators vote.
    for (fault, members) in scenario.fault.iter().zip(&faulty) {
        if fault.is_silence() {
            plan.voters.silence(members);
        }
    }
    let plan = Arc::new(plan);
    let regions = Latency::regions_of(&scenario.latency, seed, nodes);
    let Built {
        graph,
        nodes: roles,
        dial,
        joins,
    } = build(plan.clone(), scenario, horn, seed)?;
    let class = scenario.classes(seed);
    let latency = Arc::new(Latency::new(&scenario.latency, regions.clone()));
    let honest = scenario.honest(&faulty);
    let drawn = DrawnNetwork {
        graph: graph.clone(),
        latency: latency.clone(),
        class: class.clone(),
        threads: threads(scenario, observe),
    };
    let mut config = scenario.world(drawn, HornMessage::KINDS.len(), seed);
    // Only the senders of pieces ask to be notified when a message has left the uplink.
    config.net.paced = plan.casts();
    config.net.dial = dial;
    let watch = Watch::new(plan.clone(), honest.clone());
    let mut world: World<HornNode, Watch> = World::new(roles, &config, watch);
    for (at, node, join) in joins {
        world.command(at, node, join);
    }
    enter_faults(scenario, &faulty, &class, seed, &mut world)?;
    observe.begins();
    trace(scenario, observe.slots(), &class, &honest, &mut world);
    let pause = go(&mut world, scenario.sim.stop, &plan, seed, observe)?;
    let ground = Ground {
        graph: &graph,
        latency: &latency,
        // A fault may also widen a link, and a bound must hold at any time.
        rates: &scenario.rates_max(&class, &faulty),
    };
    // Only now, as the bounds are those of the collections that were published.
    let floor = Floor::of(&plan, &world.probe().last().collections, &ground);
    // Bounds count from the phase before which an honest collector publishes nothing.
    let kinds = || scenario.fault.iter().map(|fault| fault.kind);
    let is_early = kinds().any(|kind| kind == FaultKind::EarlyCollection);
    let broken = floor.broken(&world.probe().last().milestones);
    if let Some(violation) = broken.filter(|_| !is_early) {
        let event = world.events();
        return Err(violated(seed, event, violation));
    }
    let findings = Findings {
        world: &world,
        scenario,
        plan: &plan,
        seed,
        class: &class,
        regions: &regions,
        honest: &honest,
        bounds: floor.bounds(),
    };
    Ok(findings.run(pause))
}

/// Traces the slots of a run: what the network does, and a few nodes in full.
fn trace(
    scenario: &Scenario,
    level: TraceLevel,
    class: &[u16],
    honest: &[bool],
    world: &mut World<HornNode, Watch>,
) {
    if level == TraceLevel::None {
        return;
    }
    let plan = world.role(0).plan().clone();
    world.trace_from(plan.since_genesis(Time::ZERO).as_nanos());
    if level == TraceLevel::Full {
        let nodes = tell::sample(&plan, class, honest);
        world.follow(&nodes);
        for node in nodes {
            let peers = world.role(node).block_peers();
            world.tell_peers(node, &peers);
        }
    }
    let teller = Teller::new(plan, scenario);
    world.probe_mut().tell(teller);
    world.show_arrivals();
}

/// Applies the faults of a scenario to the world.
fn enter_faults(
    scenario: &Scenario,
    faulty: &[Vec<u32>],
    class: &[u16],
    seed: u64,
    world: &mut World<HornNode, Watch>,
) -> Result<(), RunError> {
    for (index, (fault, nodes)) in (0..).zip(scenario.fault.iter().zip(faulty)) {
        let members = Members {
            scenario,
            fault,
            nodes,
            class,
            key: mix([seed, FAULT, index, u64::MAX]),
            chunks: 1,
        };
        let own = |node: u32| mix([seed, FAULT, u64::MAX, node.into()]);
        // Slots follow the clock shared by all nodes.
        let skews = fault.kind == FaultKind::ClockSkew && !nodes.is_empty();
        if skews || !members.enter(world, own) {
            let (fault, protocol) = (fault.kind.name(), scenario.protocol.name());
            return Err(RunError::Unfit { fault, protocol });
        }
    }
    Ok(())
}

fn violated(seed: u64, event: u64, violation: Violation) -> RunError {
    let error = HornError::Violation {
        seed,
        event,
        violation,
    };
    error.into()
}

fn go(
    world: &mut World<HornNode, Watch>,
    stop: Stop,
    plan: &Plan,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<Pause, RunError> {
    let committees = u64::from(plan.config.layout.committees());
    // One collection of each committee at each node.
    let most = committees * u64::from(plan.nodes) * u64::from(plan.slots);
    let tells = observe.slots() != TraceLevel::None;
    let pause = drive(world, stop, plan.end(), observe, |world| {
        if tells {
            let finality = world.role(tell::observer(plan)).machine().finality();
            let told_ns = world.told_ns();
            world.probe_mut().stands(told_ns, finality);
        }
        match world.probe().violation() {
            None => Ok((world.probe().accepted(), most)),
            Some(violation) => Err(violated(seed, world.events(), violation.clone())),
        }
    })?;
    let told_ns = world.told_ns();
    world.probe_mut().end(told_ns);
    world.end_trace();
    let told = world.take_trace();
    if !told.is_empty() {
        observe.trace(told);
    }
    Ok(pause)
}
