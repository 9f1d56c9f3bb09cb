//! A run: from a scenario and a seed to an outcome.

pub(crate) mod coded;
mod faults;
mod floods;
mod setup;
#[cfg(test)]
mod tests;

use crate::bounds::{self, LowerBounds};
use crate::check::{DELAYS_MAX, Ledger, Violation};
use crate::fault::Adversary;
use crate::gossip;
use crate::graph::{Graph, GraphError};
use crate::horn::{self, HornError};
use crate::report::{Bounds, Frame, NodeRecord, Outcome};
use crate::role::flood::TooManyPeers;
use crate::role::{Delivery, Publish, Role};
use crate::scenario::{CostsError, Mode, NoNode, Protocol, Scenario, Stop, TraceLevel};
use crate::tree::{self, TreeError};
use crate::world::{Pause, Probe, Traced, World, WorldError};
use alphorn_proto::broadcast;
use alphorn_types::Time;
use alphorn_types::trace::Record;
use setup::Setup;
use std::ops::ControlFlow;

/// Events between two looks of an observer, and so many that their trace is no burden.
const LOOK_EVENTS: u64 = 1 << 18;
const TRACED_EVENTS: u64 = 1 << 12;
/// Most nodes of a run with real bytes.
pub(crate) const BYTES_NODES_MAX: u32 = 1000;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time.
    pub now_ns: u64,
    /// Events handled.
    pub events: u64,
    /// Payloads delivered, over all nodes.
    pub deliveries: u64,
    /// Deliveries if every node gets every payload.
    pub deliveries_max: u64,
}

/// Waits for a run.
pub trait Observe {
    /// The nodes stand, the first event is next.
    fn begins(&mut self) {}

    /// Called every quarter million events; a break ends the run with [`RunError::Stopped`], as when
    /// its real time is over, which only the caller knows.
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()>;

    /// Threads that the run may take; what comes of it does not depend on them.
    fn threads(&self) -> usize {
        1
    }

    /// Of which nodes everything is told to [`Observe::trace`]; asked again before each look.
    fn traces(&self) -> Option<Traced> {
        None
    }

    /// How much of a run of slots is told to [`Observe::trace`], as a live node tells of them; the same for the
    /// whole run.
    fn slots(&self) -> TraceLevel {
        TraceLevel::None
    }

    /// What happened since the last time, in the order of time.
    fn trace(&mut self, _records: Vec<Record>) {}
}

/// Nobody waits.
impl Observe for () {
    fn progress(&mut self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The graph cannot be made.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A node has more neighbours than a mesh can have.
    #[error(transparent)]
    Peers(#[from] TooManyPeers),
    /// Parameters that no mesh can have.
    #[error("protocol: {0}")]
    Mesh(#[from] gossip::ConfigError),
    /// A table of costs is none.
    #[error(transparent)]
    Costs(#[from] CostsError),
    /// No honest node of the class can be a source.
    #[error("no honest node can be a source{}", .class.as_ref().map_or(String::new(), |class| format!(" of class {class:?}")))]
    NoSource {
        /// The class asked for.
        class: Option<String>,
    },
    /// Too many payloads times nodes.
    #[error("payloads times nodes = {value}, must be at most {max}")]
    Deliveries {
        /// How many.
        value: u64,
        /// The bound.
        max: u64,
    },
    /// Too many nodes for real bytes.
    #[error("sim.nodes = {value} with real bytes, must be at most {max}")]
    BytesNodes {
        /// How many.
        value: u32,
        /// The bound.
        max: u32,
    },
    /// A fault that no node has.
    #[error(transparent)]
    NoNode(#[from] NoNode),
    /// A fault that nodes of this protocol cannot have.
    #[error("fault {fault} does not exist for protocol {protocol}")]
    Unfit {
        /// The fault.
        fault: &'static str,
        /// The protocol.
        protocol: &'static str,
    },
    /// Parameters that no broadcast can have.
    #[error("protocol: {0}")]
    Broadcast(#[from] broadcast::ConfigError),
    /// A payload that no code takes.
    #[error("traffic.bytes = {value}, codes take at most {max}")]
    Payload {
        /// Its bytes.
        value: u64,
        /// The bound.
        max: u64,
    },
    /// More chunks than the code has.
    #[error("protocol.chunks = {value}, this code has at most {max}")]
    Chunks {
        /// How many.
        value: u32,
        /// The bound.
        max: u32,
    },
    /// A policy that nobody knows.
    #[error("protocol.policy = {name:?}, known are auto and {}", policies())]
    Policy {
        /// Its name.
        name: String,
    },
    /// A slot of Horn cannot be run.
    #[error(transparent)]
    Horn(#[from] HornError),
    /// The tree cannot be run.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A bound of the world was passed.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A rule was broken: an error of the simulator or of a protocol.
    #[error("seed {seed}, event {event}: {violation}")]
    Violation {
        /// The seed.
        seed: u64,
        /// The number of the event.
        event: u64,
        /// The rule.
        violation: Violation,
    },
    /// The observer ended the run.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The observer of a run ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped after {events} events at {at_ns} ns of virtual time")]
pub struct Stopped {
    /// Events so far.
    pub events: u64,
    /// Virtual time.
    pub at_ns: u64,
}

/// The names of all policies.
fn policies() -> String {
    let names = broadcast::Policy::NAMED.iter().map(|(name, _)| *name);
    names.collect::<Vec<_>>().join(", ")
}

/// Runs a scenario with one seed.
///
/// # Errors
/// [`RunError`].
pub fn run(scenario: &Scenario, seed: u64, observe: &mut dyn Observe) -> Result<Outcome, RunError> {
    if scenario.sim.mode == Mode::Bytes && scenario.sim.nodes > BYTES_NODES_MAX {
        return Err(RunError::BytesNodes {
            value: scenario.sim.nodes,
            max: BYTES_NODES_MAX,
        });
    }
    match &scenario.protocol {
        Protocol::Gossip(mesh) => go(scenario, floods::gossip(scenario, mesh, seed)?, observe),
        Protocol::Broadcast(coded) => coded::run(scenario, coded, seed, observe),
        Protocol::Direct(_) => go(scenario, floods::direct(scenario, seed)?, observe),
        Protocol::Grid(_) => go(scenario, floods::grid(scenario, seed)?, observe),
        Protocol::Horn(config) => Ok(horn::run(scenario, config, seed, observe)?.outcome),
        Protocol::Tree(config) => Ok(tree::run(scenario, config, seed, observe)?.outcome),
    }
}

/// The nodes of a run, before anything happens.
struct Nodes<R> {
    setup: Setup,
    roles: Vec<R>,
    /// To how many neighbours a node sends a payload, and in how many pieces: for the bound of reach.
    degree: u64,
    chunks: u64,
    /// Whether they learn of their neighbours when the run begins; else they know them.
    learn: bool,
    /// A node that begins anew.
    anew: Box<Anew<R>>,
}

/// Makes a node from the connections, its number, and which restart of it this is.
type Anew<R> = dyn Fn(&Graph, u32, u32) -> R;

/// From nodes to what comes of them: the world, its payloads and faults, the run, the outcome.
fn go<R>(
    scenario: &Scenario,
    nodes: Nodes<R>,
    observe: &mut dyn Observe,
) -> Result<Outcome, RunError>
where
    R: Adversary + Role<Command = Publish>,
    R::Delivery: Into<Delivery> + Copy,
{
    let most = u64::from(scenario.traffic.count) * u64::from(scenario.sim.nodes);
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
    faults::apply(scenario, setup, nodes.chunks, &mut world)?;
    if nodes.learn {
        world.connect();
    }
    world.set_restart(nodes.anew);
    observe.begins();
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

/// What no protocol can beat, and the yardstick of codes.
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

/// Threads of a run: one where it may have to stop at any event, or tells its events by number.
pub(crate) fn threads(scenario: &Scenario, observe: &dyn Observe) -> usize {
    match scenario.sim.stop {
        Stop::Events(_) => 1,
        _ if observe.traces().is_some() => 1,
        _ => observe.threads(),
    }
}

/// Runs a world to its end, that of the scenario or `until` if it names no time, and shows it to the observer now
/// and then. `look` says how much is delivered, of how much, or that a rule is broken.
///
/// # Errors
/// A bound of the world, a broken rule, or an observer that has seen enough.
pub(crate) fn drive<R: Role, W: Probe<R>>(
    world: &mut World<R, W>,
    stop: Stop,
    until: Time,
    observe: &mut dyn Observe,
    look: impl Fn(&mut World<R, W>) -> Result<(u64, u64), RunError>,
) -> Result<Pause, RunError> {
    loop {
        let pause = step(world, stop, until, observe)?;
        let (deliveries, deliveries_max) = look(world)?;
        if pause != Pause::Events {
            world.count_running();
            return Ok(pause);
        }
        let progress = Progress {
            now_ns: world.now().as_nanos(),
            events: world.events(),
            deliveries,
            deliveries_max,
        };
        if observe.progress(&progress).is_break() {
            let (events, at_ns) = (progress.events, progress.now_ns);
            return Err(Stopped { events, at_ns }.into());
        }
    }
}

/// Runs on to the next look of an observer ([`Pause::Events`]), or to the end.
fn step<R: Role, W: Probe<R>>(
    world: &mut World<R, W>,
    stop: Stop,
    until: Time,
    observe: &mut dyn Observe,
) -> Result<Pause, WorldError> {
    let (until, last) = match stop {
        Stop::TimeMs(ms) => (Time::from_millis(ms), u64::MAX),
        Stop::Events(events) => (until, events),
        Stop::Quiescence | Stop::AllDelivered | Stop::T99 => (until, u64::MAX),
    };
    let traces = observe.traces();
    world.trace(traces);
    let look = if traces.is_some() {
        TRACED_EVENTS
    } else {
        LOOK_EVENTS
    };
    let pause = world.run_until(until, look.min(last.saturating_sub(world.events())));
    if world.events() >= last {
        world.close();
    }
    let told = world.take_trace();
    if !told.is_empty() {
        observe.trace(told);
    }
    match pause? {
        Pause::Events if world.events() >= last => Ok(Pause::Until),
        pause => Ok(pause),
    }
}

/// What the world has to tell.
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
