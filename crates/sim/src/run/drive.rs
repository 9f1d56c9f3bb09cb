//! Runs a world to its end, and shows its progress to an observer.

use super::error::{RunError, Stopped};
use crate::role::Role;
use crate::scenario::{Scenario, Stop, TraceLevel};
use crate::world::{Pause, Probe, Traced, World, WorldError};
use alphorn_types::Time;
use alphorn_types::trace::Record;
use std::ops::ControlFlow;

/// Events between two calls to an observer, few enough that their trace stays small.
pub(super) const LOOK_EVENTS: u64 = 1 << 18;
const TRACED_EVENTS: u64 = 1 << 12;

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
