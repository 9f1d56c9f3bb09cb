//! Faults and adversaries: wrappers around honest state machines.
//!
//! A wrapper sees what its node receives and rewrites what it sends. The state machine inside is the same code that
//! honest nodes run, so most faults work for every protocol. Faults of the host (a node is down, slow, cut off, or
//! has a wrong clock) are changes of the [`World`](crate::world::World).

mod coded;
mod flood;
mod horn;
mod member;
mod plain;
mod source;
mod spoil;

pub(crate) use member::Members;
pub(crate) use plain::{Late, Withhold};
pub(crate) use source::{Deficient, NoPayload, Twin};
pub(crate) use spoil::Spoil;

use crate::gossip::Peers;
use crate::role::{Input, Output, Role};
use crate::scenario::{FailsAt, FaultKind, Scenario};
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::fmt::Debug;
use std::sync::Arc;

/// A wrapper around a state machine.
pub(crate) trait Wrap<R: Role>: Debug + Send {
    /// Sees an input before the role does, and returns what the role is to see of it. Outputs added to `own` bypass
    /// the role and other wrappers.
    fn input(
        &mut self,
        _now: Time,
        input: Input<R>,
        _own: &mut Vec<Output<R>>,
    ) -> Option<Input<R>> {
        Some(input)
    }

    /// Sees an output of the role. The outputs added to `outputs` are carried out instead of it.
    fn output(&mut self, _now: Time, output: Output<R>, outputs: &mut Vec<Output<R>>) {
        outputs.push(output);
    }

    /// When [`Wrap::deadline`] is due.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Handles a deadline that is due.
    fn deadline(&mut self, _now: Time, _own: &mut Vec<Output<R>>) {}
}

/// The interval of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    /// Start of the interval.
    pub(crate) from: Time,
    /// End of the interval, exclusive.
    pub(crate) until: Time,
}

impl Interval {
    /// Whether a time is in it.
    pub(crate) fn contains(&self, now: Time) -> bool {
        (self.from..self.until).contains(&now)
    }
}

/// Parameters of an adversary, and its position in the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// When it misbehaves.
    pub interval: Interval,
    /// Extent of the fault, in percent.
    pub percent: u64,
    /// Messages per second.
    pub rate: u64,
    /// Bytes per message; 0 if the scenario does not give it.
    pub bytes: u64,
    /// The check that a flood's messages fail.
    pub fails_at: FailsAt,
    /// How late, or how early.
    pub delay_ns: u64,
    /// Whether it sends its own votes only to its allies.
    pub hides: bool,
    /// Seed of its own choices.
    pub seed: u64,
    /// Seed of the choices that all nodes of the fault make alike.
    pub key: u64,
    /// The nodes of the fault.
    pub allies: Arc<[u32]>,
    /// Number of the node's neighbours.
    pub peers: u64,
    /// Pieces that make up a generation of the payload; 1 if it travels whole.
    pub chunks: u16,
    /// Payloads of the run. Forged ones have higher numbers.
    pub items: u32,
    /// Its index among the nodes of the fault.
    pub number: u64,
    /// Number of nodes of the fault.
    pub of: u64,
}

impl Parameters {
    /// All neighbours.
    fn everyone(&self) -> Peers {
        Peers::List((0..self.peers).map(Peer).collect())
    }
}

/// Sends a message to these peers, unless there are none.
fn send_to<R: Role>(
    to: impl Iterator<Item = Peer>,
    message: R::Message,
    priority: u8,
    outputs: &mut Vec<Output<R>>,
) {
    let to: Arc<[Peer]> = to.collect();
    if !to.is_empty() {
        outputs.push(Output::Send {
            to: Peers::List(to),
            message,
            priority,
        });
    }
}

/// A role that defines its adversaries.
pub(crate) trait Adversary: Role + 'static {
    /// The wrapper for a fault that needs to understand messages, on a node with this role; none if the role has no
    /// such fault.
    fn forge(&self, kind: FaultKind, parameters: &Parameters) -> Option<Box<dyn Wrap<Self>>>;

    /// The wrapper for a fault.
    fn adversary(&self, kind: FaultKind, parameters: &Parameters) -> Option<Box<dyn Wrap<Self>>> {
        let Parameters {
            interval,
            percent,
            delay_ns,
            seed,
            ..
        } = *parameters;
        match kind {
            FaultKind::Withhold => Some(Box::new(Withhold::new(interval, percent, seed))),
            FaultKind::Late => Some(Box::new(Late::new(interval, delay_ns))),
            kind => self.forge(kind, parameters),
        }
    }
}

/// Messages that an adversary sends to all its neighbours at a fixed rate. Everything else it handles as a wrapper.
trait Flooding<R: Role>: Wrap<R> {
    /// The priority of its messages in the uplink.
    const PRIORITY: u8;

    /// The messages to send this time.
    fn messages(&mut self, now: Time) -> Vec<R::Message>;
}

/// An adversary that sends a given number of times per second.
#[derive(Debug)]
struct Paced<F> {
    interval: Interval,
    period_ns: u64,
    next: Time,
    peers: Peers,
    flood: F,
}

impl<F> Paced<F> {
    /// Sends at the given rate, at least once per second.
    fn new(parameters: &Parameters, flood: F) -> Self {
        const SECOND_NS: u64 = 1_000_000_000;
        Paced {
            interval: parameters.interval,
            period_ns: (SECOND_NS / parameters.rate.max(1)).max(1),
            next: parameters.interval.from,
            peers: parameters.everyone(),
            flood,
        }
    }
}

impl<R: Role, F: Flooding<R>> Wrap<R> for Paced<F> {
    fn input(&mut self, now: Time, input: Input<R>, own: &mut Vec<Output<R>>) -> Option<Input<R>> {
        self.flood.input(now, input, own)
    }

    fn output(&mut self, now: Time, output: Output<R>, outputs: &mut Vec<Output<R>>) {
        self.flood.output(now, output, outputs);
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.next).filter(|next| *next < self.interval.until)
    }

    fn deadline(&mut self, now: Time, own: &mut Vec<Output<R>>) {
        // From the planned time, not from `now`, so that the rate does not drift.
        self.next = self.next.saturating_add_ns(self.period_ns);
        let messages = self.flood.messages(now).into_iter();
        own.extend(messages.map(|message| Output::Send {
            to: self.peers.clone(),
            message,
            priority: F::PRIORITY,
        }));
    }
}

/// Whether payloads may be invalid, so that nodes must validate before they forward.
pub(crate) fn needs_validation(scenario: &Scenario) -> bool {
    let kinds = scenario.fault.iter().map(|fault| fault.kind);
    kinds
        .into_iter()
        .any(|kind| kind == FaultKind::InvalidFlood)
}
