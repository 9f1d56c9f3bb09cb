//! A run: from a scenario and a seed to an outcome.

pub(crate) mod coded;
mod faults;
mod floods;
mod setup;
#[cfg(test)]
mod tests;

use crate::bounds;
use crate::check::{DELAYS_MAX, Ledger, Violation};
use crate::fault::Adversary;
use crate::gossip;
use crate::graph::GraphError;
use crate::report::{Adversity, Bin, Bounds, Frame, Loads, NodeRecord, Outcome};
use crate::role::flood::TooManyPeers;
use crate::role::{Delivery, Publish, Role, Wire};
use crate::scenario::{CostsError, Mode, Protocol, Scenario, Stop, Strategy, TraceLevel};
use crate::world::{Pause, Traced, Witness, World, WorldError};
use alphorn_proto::broadcast;
use alphorn_types::Time;
use alphorn_types::trace::Record;
use setup::Setup;
use std::collections::BTreeMap;
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
    Horn(#[from] crate::horn::HornError),
    /// The tree cannot be run.
    #[error(transparent)]
    Tree(#[from] crate::tree::TreeError),
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
    #[error("stopped after {events} events at {at_ns} ns of virtual time")]
    Stopped {
        /// Events so far.
        events: u64,
        /// Virtual time.
        at_ns: u64,
    },
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
        Protocol::Gossip(parameters) => floods::gossip(scenario, parameters, seed, observe),
        Protocol::Broadcast(parameters) => match parameters.strategy {
            Strategy::Gossip => floods::gossip(scenario, &Default::default(), seed, observe),
            Strategy::Rlnc | Strategy::Rs => coded::run(scenario, parameters, seed, observe),
        },
        Protocol::Direct(_) => floods::direct(scenario, seed, observe),
        Protocol::Grid(_) => floods::grid(scenario, seed, observe),
        Protocol::Horn(horn) => Ok(crate::horn::run(scenario, horn, seed, observe)?.outcome),
        Protocol::Tree(tree) => Ok(crate::tree::run(scenario, tree, seed, observe)?.outcome),
    }
}

/// The world of a run, ready to go.
struct Ready<R: Role> {
    world: World<R, Ledger>,
    setup: Setup,
    bounds: Bounds,
}

/// Puts nodes into the world of a scenario.
fn prepare<R>(
    scenario: &Scenario,
    setup: Setup,
    roles: Vec<R>,
    (degree, chunks): (u64, u64),
    threads: usize,
) -> Result<Ready<R>, RunError>
where
    R: Adversary + Role<Command = Publish>,
    R::Delivery: Into<Delivery> + Copy,
{
    let value = u64::from(scenario.traffic.count) * u64::from(scenario.sim.nodes);
    if value > DELAYS_MAX {
        let max = DELAYS_MAX;
        return Err(RunError::Deliveries { value, max });
    }
    let (items, laws) = setup.items(scenario);
    let hop_ns = setup.least_hop_ns();
    let receivers = u64::from(scenario.sim.nodes) - 1;
    let mut bounds = Bounds {
        lb4_ns: bounds::reach_ns(hop_ns, degree, chunks, &setup.rates, scenario.traffic.bytes),
        ..Bounds::default()
    };
    for laws in &laws {
        bounds.lb1_ns = bounds.lb1_ns.max(laws.content_ns);
        bounds.lb2_ns = bounds.lb2_ns.max(laws.source_ns);
        bounds.lb3_ns = bounds.lb3_ns.max(laws.capacity_ns(receivers));
    }
    let mut ledger = Ledger::new(items, laws, setup.honest.clone(), setup.counted.clone());
    match scenario.sim.stop {
        Stop::Quiescence | Stop::TimeMs(_) | Stop::Events(_) => {}
        Stop::AllDelivered => ledger.end_after(100),
        Stop::T99 => ledger.end_after(99),
    }
    let items = ledger.items().to_vec();
    let config = setup.world::<R>(scenario, threads);
    let mut world = World::new(roles, &config, ledger);
    for (item, published) in (0..).zip(&items) {
        let at = Time::from_nanos(published.published_ns);
        let bytes = published.bytes;
        world.command(at, published.source, Publish { item, bytes });
    }
    let horizon_ns = setup.horizon_ns(scenario, &items);
    faults::apply(scenario, &setup, (horizon_ns, chunks), &mut world)?;
    Ok(Ready {
        world,
        setup,
        bounds,
    })
}

/// Runs the world to its end.
fn finish<R>(
    scenario: &Scenario,
    ready: Ready<R>,
    observe: &mut dyn Observe,
) -> Result<Outcome, RunError>
where
    R: Adversary + Role<Command = Publish>,
    R::Delivery: Into<Delivery> + Copy,
{
    let Ready {
        mut world,
        setup,
        bounds,
    } = ready;
    observe.begins();
    let deliveries_max = u64::from(scenario.traffic.count) * u64::from(scenario.sim.nodes - 1);
    let pause = loop {
        let pause = step(&mut world, scenario.sim.stop, Time::MAX, observe)?;
        if let Some(violation) = world.witness().violation() {
            return Err(RunError::Violation {
                seed: setup.seed,
                event: world.events(),
                violation: violation.clone(),
            });
        }
        if pause != Pause::Events {
            break pause;
        }
        let progress = Progress {
            now_ns: world.now().as_nanos(),
            events: world.events(),
            deliveries: world.witness().deliveries(),
            deliveries_max,
        };
        if observe.progress(&progress).is_break() {
            return Err(RunError::Stopped {
                events: progress.events,
                at_ns: progress.now_ns,
            });
        }
    };
    Ok(outcome(scenario, &setup, &world, bounds, pause))
}

/// Threads of a run: one where it may have to stop at any event, or tells its events by number.
pub(crate) fn threads(scenario: &Scenario, observe: &dyn Observe) -> usize {
    match scenario.sim.stop {
        Stop::Events(_) => 1,
        _ if observe.traces().is_some() => 1,
        _ => observe.threads(),
    }
}

/// Runs on to the next look of an observer ([`Pause::Events`]), or to the end: that of the scenario, or
/// `until` if it names no time.
pub(crate) fn step<R: Role, W: Witness<R>>(
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
    let ledger = world.witness();
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
    let bin = |(bin, kind, msgs, bytes): (u64, usize, u64, u64)| Bin {
        from_ns: bin * crate::net::BIN_NS,
        kind: <R::Message as Wire>::KINDS[kind],
        msgs,
        bytes,
    };
    let nodes: Vec<NodeRecord> = (0..scenario.sim.nodes).map(record).collect();
    let series: Vec<Bin> = world.series().map(bin).collect();
    let frame = Frame::run(world.now().as_nanos());
    Outcome {
        seed: setup.seed,
        payload_bytes: scenario.traffic.bytes * u64::from(scenario.traffic.count),
        loads: Loads::of(
            &frame,
            &scenario.class_names(),
            world.loads(),
            (&nodes, &series),
        ),
        nodes,
        delays_ns: ledger.delays_ns(),
        series,
        useful_bytes: ledger.useful_bytes(),
        sent_truncated: pause != Pause::Quiet && world.bytes_on_the_way() != (0, 0),
        bounds,
        adversity: adversity(world.roles(), setup, ledger),
        events: world.events(),
        received: world.received(),
        event_hash: world.event_hash(),
        verdict: String::new(),
        votes: None,
    }
}

/// What honest nodes refused, reported and found out.
fn adversity<'a, R: Role + 'a>(
    roles: impl Iterator<Item = &'a R>,
    setup: &Setup,
    ledger: &Ledger,
) -> Adversity {
    let mut refused = BTreeMap::new();
    let honest = roles.zip(&setup.honest).filter(|(_, honest)| **honest);
    for (role, _) in honest {
        for (reason, count) in role.refusals().filter(|(_, count)| *count > 0) {
            *refused.entry(reason).or_default() += u64::from(count);
        }
    }
    Adversity {
        refused,
        reports: ledger.reports().clone(),
        accused: ledger.accused(),
        evidence: ledger.evidence(),
    }
}
