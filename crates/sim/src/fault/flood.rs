//! Adversaries among nodes that send payloads whole.

use super::{Adversary, Flooding, Interval, Paced, Parameters, Wrap, send_to};
use crate::gossip::{DENSE_WINDOW, DenseId, Ids, Machine, Message, Peers, Priority};
use crate::role::flood::{Blob, Flood, FloodMessage};
use crate::role::{Input, Output};
use crate::scenario::{FailsAt, FaultKind};
use alphorn_types::Time;
use std::collections::BTreeSet;

/// Number of names in a false message.
const NAMES: u32 = 32;
/// Maximum number of payloads replayed.
const SEEN_MAX: usize = 1 << 16;

impl<S: Machine<Blob> + 'static> Adversary for Flood<S> {
    fn forge(&self, kind: FaultKind, parameters: &Parameters) -> Option<Box<dyn Wrap<Self>>> {
        match kind {
            FaultKind::InvalidFlood if parameters.fails_at != FailsAt::Payload => None,
            FaultKind::InvalidFlood => {
                let flood = InvalidFlood {
                    bytes: parameters.bytes,
                    names: Names::new(parameters),
                };
                Some(Box::new(Paced::new(parameters, flood)))
            }
            FaultKind::FalseFeedback => {
                let lies = FalseNews {
                    interval: parameters.interval,
                    names: Names::new(parameters),
                };
                Some(Box::new(Paced::new(parameters, lies)))
            }
            FaultKind::Grief => Some(Box::new(Replay {
                interval: parameters.interval,
                peers: parameters.everyone(),
                seen: BTreeSet::new(),
            })),
            FaultKind::Equivocate => Some(Box::new(TwoTales {
                items: parameters.items,
                own: BTreeSet::new(),
            })),
            _ => None,
        }
    }
}

/// Numbers that are used neither by a payload of the run nor by the second payload of an equivocating source. Each
/// adversary has its own.
#[derive(Clone, Copy, Debug)]
struct Names {
    /// The first number that is no payload's.
    first: u64,
    next: u64,
    step: u64,
}

impl Names {
    fn new(parameters: &Parameters) -> Self {
        Names {
            first: 2 * u64::from(parameters.items),
            next: parameters.number,
            step: parameters.of.max(1),
        }
    }

    /// Draws a new number. Numbers start over where a node takes no higher ones.
    fn draw(&mut self) -> DenseId {
        let free = u64::from(DENSE_WINDOW).saturating_sub(self.first).max(1);
        let number = self.first + self.next % free;
        self.next += self.step;
        DenseId(number as u32)
    }
}

/// Sends payloads that validation refuses.
#[derive(Debug)]
pub(crate) struct InvalidFlood {
    bytes: u64,
    names: Names,
}

impl<S: Machine<Blob>> Wrap<Flood<S>> for InvalidFlood {}

impl<S: Machine<Blob>> Flooding<Flood<S>> for InvalidFlood {
    const PRIORITY: u8 = Priority::Own as u8;

    fn messages(&mut self, _: Time) -> Vec<FloodMessage> {
        let payload = Blob {
            bytes: self.bytes,
            valid: false,
        };
        let id = self.names.draw();
        vec![Message::Data { id, payload }]
    }
}

/// Announces payloads that it does not have, and rejects as unwanted payloads that it has never seen.
#[derive(Debug)]
pub(crate) struct FalseNews {
    interval: Interval,
    names: Names,
}

impl<S: Machine<Blob>> Flooding<Flood<S>> for FalseNews {
    const PRIORITY: u8 = Priority::Own as u8;

    fn messages(&mut self, _: Time) -> Vec<FloodMessage> {
        let names = (0..NAMES).map(|_| self.names.draw()).collect();
        let ids = Ids::new(names);
        ids.map_or_else(Vec::new, |ids| {
            vec![Message::IHave(ids.clone()), Message::IDontWant(ids)]
        })
    }
}

impl<S: Machine<Blob>> Wrap<Flood<S>> for FalseNews {
    fn output(&mut self, now: Time, output: Output<Flood<S>>, outputs: &mut Vec<Output<Flood<S>>>) {
        // Requested payloads are not sent.
        let lies = self.interval.contains(now);
        let answer = |priority: u8| priority == Priority::Answer as u8;
        match output {
            Output::Send { priority, .. } if lies && answer(priority) => {}
            other => outputs.push(other),
        }
    }
}

/// Sends every payload that it receives to all its neighbours once more.
#[derive(Debug)]
pub(crate) struct Replay {
    interval: Interval,
    peers: Peers,
    /// Payloads already replayed; without it, two such nodes would go on for ever.
    seen: BTreeSet<DenseId>,
}

impl<S: Machine<Blob>> Wrap<Flood<S>> for Replay {
    fn input(
        &mut self,
        now: Time,
        input: Input<Flood<S>>,
        own: &mut Vec<Output<Flood<S>>>,
    ) -> Option<Input<Flood<S>>> {
        if let Input::Message { message, .. } = &input
            && self.interval.contains(now)
            && let Message::Data { id, .. } = message
            // With the set full nothing more is replayed, as what is not remembered would be replayed for ever.
            && self.seen.len() < SEEN_MAX
            && self.seen.insert(*id)
        {
            own.push(send(&self.peers, message.clone()));
        }
        Some(input)
    }
}

/// A source that publishes two payloads as one. Neighbours with even numbers get the first, those with odd numbers
/// the second, which has a name of its own.
#[derive(Clone, Debug)]
pub(crate) struct TwoTales {
    items: u32,
    /// The payloads it published.
    own: BTreeSet<DenseId>,
}

impl<S: Machine<Blob>> Wrap<Flood<S>> for TwoTales {
    fn input(
        &mut self,
        _: Time,
        input: Input<Flood<S>>,
        _: &mut Vec<Output<Flood<S>>>,
    ) -> Option<Input<Flood<S>>> {
        if let Input::Command(publish) = &input {
            self.own.insert(DenseId(publish.item));
        }
        Some(input)
    }

    fn output(&mut self, _: Time, output: Output<Flood<S>>, outputs: &mut Vec<Output<Flood<S>>>) {
        let Output::Send {
            to,
            message,
            priority,
        } = output
        else {
            return outputs.push(output);
        };
        // Payloads of the run are numbered below `items`.
        let own = |id: &DenseId| self.own.get(id).map(|id| DenseId(id.0 + self.items));
        let second = match &message {
            Message::Data { id, payload } => own(id).map(|id| Message::Data {
                id,
                payload: *payload,
            }),
            Message::Relay { id, payload } => own(id).map(|id| Message::Relay {
                id,
                payload: *payload,
            }),
            _ => None,
        };
        let Some(second) = second else {
            return outputs.push(Output::Send {
                to,
                message,
                priority,
            });
        };
        for (message, parity) in [(message, 0), (second, 1)] {
            let to = to.iter().filter(|peer| peer.0 % 2 == parity);
            send_to(to, message, priority, outputs);
        }
    }
}

fn send<S: Machine<Blob>>(to: &Peers, message: FloodMessage) -> Output<Flood<S>> {
    Output::Send {
        to: to.clone(),
        message,
        priority: Priority::Own as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forged_numbers_never_become_those_of_payloads() {
        let mut names = Names {
            first: 10,
            next: u64::from(DENSE_WINDOW) - 11,
            step: 1,
        };
        let drawn = [(); 3].map(|()| names.draw());
        assert_eq!(drawn, [DENSE_WINDOW - 1, 10, 11].map(DenseId));
    }
}
