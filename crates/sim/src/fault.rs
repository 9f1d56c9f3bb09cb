//! Faults and adversaries: wrappers around honest state machines.
//!
//! A wrapper sees what its node receives and rewrites what it sends; the state machine inside is the
//! same code that honest nodes run. So most faults work for every protocol. Faults of a node's
//! machinery (it is down, slow, cut off, its clock is wrong) are changes of the
//! [`World`](crate::world::World).

mod plain;

pub use plain::{Late, Withhold};

use crate::role::{Input, Output, Role};
use alphorn_types::Time;
use std::fmt::Debug;

/// Stands before a state machine.
pub trait Wrap<R: Role>: Debug {
    /// Sees an input first: gives on what the role is to see of it. What goes into `own` is sent past the
    /// role and past other wrappers.
    fn input(
        &mut self,
        _now: Time,
        input: Input<R>,
        _own: &mut Vec<Output<R>>,
    ) -> Option<Input<R>> {
        Some(input)
    }

    /// Sees an effect of the role: what goes into `outputs` happens in its place.
    fn output(&mut self, _now: Time, output: Output<R>, outputs: &mut Vec<Output<R>>) {
        outputs.push(output);
    }

    /// When [`Wrap::deadline`] is due.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// The time has come.
    fn deadline(&mut self, _now: Time, _own: &mut Vec<Output<R>>) {}
}

/// The interval of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Its begin.
    pub from: Time,
    /// Its end, not included.
    pub until: Time,
}

impl Interval {
    /// Whether a time is in it.
    pub fn contains(&self, now: Time) -> bool {
        (self.from..self.until).contains(&now)
    }
}
