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
use alphorn_types::Time;
use alphorn_types::trace::Record;
use setup::Setup;
use std::ops::ControlFlow;

/// Events between two calls to an observer, few enough that their trace stays small.
const LOOK_EVENTS: u64 = 1 << 18;
const TRACED_EVENTS: u64 = 1 << 12;
/// Maximum number of nodes in a run with real bytes.
pub(crate) const BYTES_NODES_MAX: u32 = 1000;

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time.
    pub now_ns: u64,
    /// Events handled.
    pub events: u64,
    /// Payloads delivered, over all nodes.
    pub deliveries: u64,
    /// Number of deliveries if every node gets every payload.
    pub deliveries_max: u64,
}

/// Observer of a run.
pub trait Observe {
    /// Called when the nodes have been created, before the first event.
    fn begins(&mut self) {}

    /// Called every quarter million events. A break ends the run with [`RunError::Stopped`], for example when its
    /// wall-clock time is over, which only the caller knows.
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()>;

    /// Number of threads that the run may use; the outcome does not depend on it.
    fn threads(&self) -> usize {
        1
    }

    /// Nodes that are traced completely to [`Observe::trace`]; queried again before each call.
    fn traces(&self) -> Option<Traced> {
        None
    }

    /// Detail of the trace that a run of slots sends to [`Observe::trace`], in the same form as a live node;
    /// constant for the whole run.
    fn slots(&self) -> TraceLevel {
        TraceLevel::None
    }

    /// Receives what happened since the last call, in order of time.
    fn trace(&mut self, _records: Vec<Record>) {}
}

/// The null observer.
impl Observe for () {
    fn progress(&mut self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The graph cannot be constructed.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A node has more neighbours than a mesh can have.
    #[error(transparent)]
    Peers(#[from] TooManyPeers),
    /// Parameters that are invalid for a mesh.
    #[error("protocol: {0}")]
    Mesh(#[from] gossip::ConfigError),
    /// A cost table is missing or invalid.
    #[error(transparent)]
    Costs(#[from] CostsError),
    /// No honest node of the class can be a source.
    #[error("no honest node can be a source{}", .class.as_ref().map_or(String::new(), |class| format!(" of class {class:?}")))]
    NoSource {
        /// The class asked for.
        class: Option<String>,
    },
    /// The product of payloads and nodes is too large.
    #[error("payloads times nodes = {value}, must be at most {max}")]
    Deliveries {
        /// Value given.
        value: u64,
        /// Maximum allowed.
        max: u64,
    },
    /// Too many nodes for real bytes.
    #[error("sim.nodes = {value} with real bytes, must be at most {max}")]
    BytesNodes {
        /// Number given.
        value: u32,
        /// Maximum allowed.
        max: u32,
    },
    /// A fault whose share is less than one node.
    #[error(transparent)]
    NoNode(#[from] NoNode),
    /// A fault that is not available in this protocol.
    #[error("fault {fault} does not exist for protocol {protocol}")]
    Unfit {
        /// The fault.
        fault: &'static str,
        /// The protocol.
        protocol: &'static str,
    },
    /// Parameters that are invalid for a broadcast.
    #[error("protocol: {0}")]
    Broadcast(#[from] alphorn_broadcast::ConfigError),
    /// A payload that is too large for every code.
    #[error("traffic.bytes = {value}, codes take at most {max}")]
    Payload {
        /// Size in bytes.
        value: u64,
        /// Maximum allowed.
        max: u64,
    },
    /// More chunks than the code supports.
    #[error("protocol.chunks = {value}, this code has at most {max}")]
    Chunks {
        /// Number given.
        value: u32,
        /// Maximum allowed.
        max: u32,
    },
    /// An unknown policy.
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
    /// A limit of the world was exceeded.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A rule was violated, which is an error in the simulator or in a protocol.
    #[error("seed {seed}, event {event}: {violation}")]
    Violation {
        /// The seed.
        seed: u64,
        /// Number of the event.
        event: u64,
        /// The violation.
        violation: Violation,
    },
    /// The observer stopped the run.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The observer of a run stopped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped after {events} events at {at_ns} ns of virtual time")]
pub struct Stopped {
    /// Number of events so far.
    pub events: u64,
    /// Virtual time.
    pub at_ns: u64,
}

/// The names of all policies.
fn policies() -> String {
    let names = alphorn_broadcast::Policy::NAMED
        .iter()
        .map(|(name, _)| *name);
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

/// The nodes of a run, before the first event.
struct Nodes<R> {
    setup: Setup,
    roles: Vec<R>,
    /// Number of neighbours to which a node sends a payload, and the number of pieces, for the reach bound.
    degree: u64,
    chunks: u64,
    /// Whether nodes learn of their neighbours at the start of the run; otherwise they already know them.
    learn: bool,
    /// Creates a node after a restart.
    anew: Box<Anew<R>>,
}

/// Creates a node from the connections, its number, and the number of the restart.
type Anew<R> = dyn Fn(&Graph, u32, u32) -> R;

/// From nodes to outcome: builds the world with its payloads and faults, runs it and collects the results.
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

/// Number of threads of a run: one if it may have to stop at any event or traces its events by number.
pub(crate) fn threads(scenario: &Scenario, observe: &dyn Observe) -> usize {
    match scenario.sim.stop {
        Stop::Events(_) => 1,
        // Each span numbers its own events.
        _ if observe.traces().is_some() => 1,
        _ => observe.threads(),
    }
}

/// Runs a world to its end, which is that of the scenario or `until` if the scenario gives no time, and calls the
/// observer at intervals. `look` returns the number of deliveries and their maximum, or a rule violation.
///
/// # Errors
/// A limit of the world was exceeded, a rule was violated, or the observer stopped the run.
pub(crate) fn drive<R: Role, W: Probe<R>>(
    world: &mut World<R, W>,
    stop: Stop,
    until: Time,
    observe: &mut dyn Observe,
    look: impl Fn(&mut World<R, W>) -> Result<(u64, u64), RunError>,
) -> Result<Pause, RunError> {
    loop {
        let pause = step(world, stop, until, observe)?;
        // Before the pause is judged, so that a violation in the last events of a run is found too.
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

/// Runs until the next call to the observer ([`Pause::Events`]) or to the end.
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
    // The run ends inside a window, which would not be shown before its end.
    if world.events() >= last {
        world.close();
    }
    // Before an error is returned, so that the trace goes up to it.
    let told = world.take_trace();
    if !told.is_empty() {
        observe.trace(told);
    }
    match pause? {
        Pause::Events if world.events() >= last => Ok(Pause::Until),
        pause => Ok(pause),
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
