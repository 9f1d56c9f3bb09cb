//! Adversaries among nodes that send payloads whole.

use super::{Adversary, Interval, Parameters, Wrap};
use crate::role::flood::{Blob, Flood, FloodMessage, Machine};
use crate::role::{Input, Output};
use crate::scenario::FaultKind;
use alphorn_proto::Peer;
use alphorn_proto::gossip::{Class, DENSE_WINDOW, DenseId, Ids, Message, Peers};
use alphorn_types::Time;
use std::collections::BTreeSet;

const SECOND_NS: u64 = 1_000_000_000;
/// Names in a message of lies.
const NAMES: u32 = 32;
/// Most payloads that are replayed.
const SEEN_MAX: usize = 1 << 16;

impl<S: Machine + 'static> Adversary for Flood<S> {
    fn forge(kind: FaultKind, parameters: &Parameters) -> Option<Box<dyn Wrap<Self>>> {
        let peers = everyone(parameters.peers);
        match kind {
            FaultKind::InvalidFlood => Some(Box::new(InvalidFlood {
                pace: Pace::new(parameters.interval, parameters.rate),
                peers,
                bytes: parameters.bytes,
                names: Names::new(parameters),
            })),
            FaultKind::FalseFeedback => Some(Box::new(FalseNews {
                pace: Pace::new(parameters.interval, parameters.rate.max(1)),
                peers,
                names: Names::new(parameters),
            })),
            FaultKind::Grief => Some(Box::new(Replay {
                interval: parameters.interval,
                peers,
                seen: BTreeSet::new(),
            })),
            _ => None,
        }
    }
}

fn everyone(peers: u64) -> Peers {
    Peers::List((0..peers).map(Peer).collect())
}

/// Numbers that no payload of the run has; each adversary has its own.
#[derive(Clone, Copy, Debug)]
struct Names {
    next: u64,
    step: u64,
}

impl Names {
    fn new(parameters: &Parameters) -> Self {
        Names {
            next: u64::from(parameters.items) + parameters.number,
            step: parameters.of.max(1),
        }
    }

    /// A new number; they begin again where a node takes no higher ones.
    fn draw(&mut self) -> DenseId {
        let number = self.next;
        self.next += self.step;
        DenseId((number % u64::from(DENSE_WINDOW)) as u32)
    }
}

/// Something to do at a rate.
#[derive(Clone, Copy, Debug)]
struct Pace {
    interval: Interval,
    period_ns: u64,
    next: Time,
}

impl Pace {
    fn new(interval: Interval, rate: u64) -> Self {
        Pace {
            interval,
            period_ns: SECOND_NS.checked_div(rate).unwrap_or(u64::MAX),
            next: interval.from,
        }
    }

    fn next(&self) -> Option<Time> {
        (self.period_ns < u64::MAX && self.next < self.interval.until).then_some(self.next)
    }

    fn step(&mut self) {
        self.next = self.next.saturating_add_ns(self.period_ns.max(1));
    }
}

/// Sends payloads that validation refuses.
#[derive(Debug)]
pub struct InvalidFlood {
    pace: Pace,
    peers: Peers,
    bytes: u64,
    names: Names,
}

impl<S: Machine> Wrap<Flood<S>> for InvalidFlood {
    fn next_deadline(&self) -> Option<Time> {
        self.pace.next()
    }

    fn deadline(&mut self, _: Time, own: &mut Vec<Output<Flood<S>>>) {
        self.pace.step();
        let payload = Blob {
            bytes: self.bytes,
            valid: false,
        };
        let id = self.names.draw();
        own.push(send(&self.peers, Message::Data { id, payload }));
    }
}

/// Announces what it does not have, and says of what it has never seen that it is not wanted.
#[derive(Debug)]
pub struct FalseNews {
    pace: Pace,
    peers: Peers,
    names: Names,
}

impl<S: Machine> Wrap<Flood<S>> for FalseNews {
    fn next_deadline(&self) -> Option<Time> {
        self.pace.next()
    }

    fn deadline(&mut self, _: Time, own: &mut Vec<Output<Flood<S>>>) {
        self.pace.step();
        let names = (0..NAMES).map(|_| self.names.draw()).collect();
        if let Some(ids) = Ids::new(names) {
            own.push(send(&self.peers, Message::IHave(ids.clone())));
            own.push(send(&self.peers, Message::IDontWant(ids)));
        }
    }

    fn output(&mut self, now: Time, output: Output<Flood<S>>, outputs: &mut Vec<Output<Flood<S>>>) {
        // What was asked for is not sent.
        let lies = self.pace.interval.contains(now);
        let answer = |class: u8| class == Class::Answer as u8;
        match output {
            Output::Send { class, .. } if lies && answer(class) => {}
            other => outputs.push(other),
        }
    }
}

/// Sends every payload that it gets to all its neighbours, once more.
#[derive(Debug)]
pub struct Replay {
    interval: Interval,
    peers: Peers,
    /// What was replayed: two of them would else never end.
    seen: BTreeSet<DenseId>,
}

impl<S: Machine> Wrap<Flood<S>> for Replay {
    fn input(
        &mut self,
        now: Time,
        input: Input<Flood<S>>,
        own: &mut Vec<Output<Flood<S>>>,
    ) -> Option<Input<Flood<S>>> {
        if let Input::Message { message, .. } = &input
            && self.interval.contains(now)
            && let Message::Data { id, .. } = message
            && self.seen.len() < SEEN_MAX
            && self.seen.insert(*id)
        {
            own.push(send(&self.peers, message.clone()));
        }
        Some(input)
    }
}

fn send<S: Machine>(to: &Peers, message: FloodMessage) -> Output<Flood<S>> {
    Output::Send {
        to: to.clone(),
        message,
        class: Class::Own as u8,
    }
}
