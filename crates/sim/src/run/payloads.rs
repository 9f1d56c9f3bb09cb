//! Runs the payloads of a scenario, from the nodes before the first event to an outcome.

use super::drive::{Observe, drive, threads};
use super::error::RunError;
use super::faults;
use super::setup::Setup;
use crate::bounds::{self, LowerBounds};
use crate::check::{DELAYS_MAX, Ledger};
use crate::fault::Adversary;
use crate::graph::Graph;
use crate::report::{Bounds, Frame, NodeRecord, Outcome};
use crate::role::{Delivery, Publish, Role};
use crate::scenario::{Scenario, Stop};
use crate::world::{Pause, World};
use alphorn_types::Time;

/// The nodes of a run, before the first event.
pub(super) struct Nodes<R> {
    pub(super) setup: Setup,
    pub(super) roles: Vec<R>,
    /// Number of neighbours to which a node sends a payload, and the number of pieces, for the reach bound.
    pub(super) degree: u64,
    pub(super) chunks: u64,
    /// Whether nodes learn of their neighbours at the start of the run; otherwise they already know them.
    pub(super) learn: bool,
    /// Creates a node after a restart.
    pub(super) anew: Box<Anew<R>>,
}

/// Creates a node from the connections, its number, and the number of the restart.
pub(super) type Anew<R> = dyn Fn(&Graph, u32, u32) -> R;

/// From nodes to outcome: builds the world with its payloads and faults, runs it and collects the results.
pub(super) fn go<R>(
    scenario: &Scenario,
    nodes: Nodes<R>,
    observe: &mut dyn Observe,
) -> Result<Outcome, RunError>
where
    R: Adversary + Role<Command = Publish>,
    R::Delivery: Into<Delivery> + Copy,
{
    let most = u64::from(scenario.traffic.count) * u64::from(scenario.sim.nodes);
    // Reported here, since the ledger would panic.
    if most > DELAYS_MAX {
        let max = DELAYS_MAX;
        return Err(RunError::Deliveries { value: most, max });
    }
    let (items, lower_bounds) = nodes.setup.items(scenario);
    let bounds = bounds(scenario, &nodes, &lower_bounds);
    let setup = &nodes.setup;
    let mut ledger = Ledger::new(items, lower_bounds, setup.honest.clone());
    match scenario.sim.stop {
        Stop::Quiescence | Stop::TimeMs(_) | Stop::Events(_) => {}
        Stop::AllDelivered => ledger.end_after(100),
        Stop::T99 => ledger.end_after(99),
    }
    let items = ledger.items().to_vec();
    let config = setup.world::<R>(scenario, threads(scenario, observe));
    let mut world = World::new(nodes.roles, &config, ledger);
    for (item, published) in (0..).zip(&items) {
        let at = Time::from_nanos(published.published_ns);
        let bytes = published.bytes;
        world.command(at, published.source, Publish { item, bytes });
    }
    // Before nodes learn of their neighbours, so that wrappers see that as well.
    faults::apply(scenario, setup, nodes.chunks, &mut world)?;
    if nodes.learn {
        world.connect();
    }
    world.set_restart(nodes.anew);
    observe.begins();
    // The source of a payload does not deliver it.
    let deliveries_max = most - u64::from(scenario.traffic.count);
    let stop = scenario.sim.stop;
    let pause = drive(&mut world, stop, Time::MAX, observe, |world| {
        match world.probe().violation() {
            None => Ok((world.probe().deliveries(), deliveries_max)),
            Some(violation) => Err(RunError::Violation {
                seed: setup.seed,
                event: world.events(),
                violation: violation.clone(),
            }),
        }
    })?;
    Ok(outcome(scenario, setup, &world, bounds, pause))
}

/// Bounds that no protocol can beat, and the reference for codes.
fn bounds<R>(scenario: &Scenario, nodes: &Nodes<R>, lower_bounds: &[LowerBounds]) -> Bounds {
    let (setup, hop_ns) = (&nodes.setup, nodes.setup.least_hop_ns());
    let (degree, chunks, bytes) = (nodes.degree, nodes.chunks, scenario.traffic.bytes);
    let receivers = u64::from(scenario.sim.nodes) - 1;
    let most = |of: fn(&LowerBounds, u64) -> u64| {
        lower_bounds
            .iter()
            .map(|lower_bounds| of(lower_bounds, receivers))
            .max()
    };
    Bounds {
        lb1_ns: most(|lower_bounds, _| lower_bounds.content_ns).unwrap_or(0),
        lb2_ns: most(|lower_bounds, _| lower_bounds.source_ns).unwrap_or(0),
        lb3_ns: most(LowerBounds::capacity_ns).unwrap_or(0),
        lb4_ns: bounds::reach_ns(hop_ns, degree, chunks, &setup.rates, bytes),
    }
}

/// Collects the results of the world.
fn outcome<R>(
    scenario: &Scenario,
    setup: &Setup,
    world: &World<R, Ledger>,
    bounds: Bounds,
    pause: Pause,
) -> Outcome
where
    R: Role,
    R::Delivery: Into<Delivery> + Copy,
{
    let ledger = world.probe();
    let begin_ns = ledger.items().first().map_or(0, |item| item.published_ns);
    let record = |node: u32| {
        let tally = world.tally(node);
        let is_source = ledger.items().iter().any(|item| item.source == node);
        let role = match setup.fault[node as usize] {
            Some(fault) => fault.name(),
            None if is_source => "source",
            None => "relay",
        };
        let first_ns = world.first_ns(node);
        NodeRecord {
            class: setup.class[node as usize],
            region: setup.latency.region(node),
            role,
            first_ns: first_ns.map(|ns| ns - begin_ns),
            done_ns: ledger.last_delay_ns(node),
            dup_bytes: world.role(node).duplicate_bytes(),
            ..NodeRecord::counted(node, tally)
        }
    };
    let nodes = (0..scenario.sim.nodes).map(record).collect();
    let frame = Frame::run(world.busy_until_ns());
    let classes = scenario.class_names();
    Outcome {
        payload_bytes: scenario.traffic.bytes * u64::from(scenario.traffic.count),
        delays_ns: ledger.delays_ns(),
        useful_bytes: ledger.useful_bytes(),
        sent_truncated: pause != Pause::Quiet && world.bytes_on_the_way() != (0, 0),
        bounds,
        adversity: ledger.blame().adversity(&setup.honest, world.roles()),
        ..Outcome::counted(world, setup.seed, &frame, &classes, nodes)
    }
}
