//! Adversaries that do not need to understand messages.

use super::{Interval, Wrap, send_to};
use crate::latency::mix;
use crate::role::{Output, Role, Wire};
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::collections::VecDeque;

/// Maximum number of messages that a late node holds back.
const HELD_MAX: usize = 1 << 16;

/// Does not send a share of its messages that carry parts of payloads.
#[derive(Clone, Debug)]
pub(crate) struct Withhold {
    interval: Interval,
    pct: u64,
    seed: u64,
    count: u64,
}

impl Withhold {
    /// Withholds `pct` percent, drawn separately for each receiver.
    pub(crate) fn new(interval: Interval, pct: u64, seed: u64) -> Self {
        Withhold {
            interval,
            pct,
            seed,
            count: 0,
        }
    }

    fn keeps(&mut self, _: &Peer) -> bool {
        self.count += 1;
        mix([self.seed, self.count, 0, 0]) % 100 >= self.pct
    }
}

impl<R: Role> Wrap<R> for Withhold {
    fn output(&mut self, now: Time, output: Output<R>, outputs: &mut Vec<Output<R>>) {
        match output {
            Output::Send {
                to,
                message,
                priority,
            } if self.interval.contains(now) && message.has_payload() => {
                let kept = to.iter().filter(|peer| self.keeps(peer));
                send_to(kept, message, priority, outputs);
            }
            other => outputs.push(other),
        }
    }
}

/// Sends everything with a delay.
#[derive(Debug)]
pub(crate) struct Late<R: Role> {
    interval: Interval,
    delay_ns: u64,
    held: VecDeque<(Time, Output<R>)>,
}

impl<R: Role> Late<R> {
    /// Holds every message back for `delay_ns`.
    pub(crate) fn new(interval: Interval, delay_ns: u64) -> Self {
        Late {
            interval,
            delay_ns,
            held: VecDeque::new(),
        }
    }
}

impl<R: Role> Wrap<R> for Late<R> {
    fn output(&mut self, now: Time, output: Output<R>, outputs: &mut Vec<Output<R>>) {
        let late = self.interval.contains(now) && self.held.len() < HELD_MAX;
        match output {
            Output::Send { .. } if late => {
                let due = now.saturating_add_ns(self.delay_ns);
                // The delay is the same for all messages, so the queue is in order of due times.
                self.held.push_back((due, output));
            }
            other => outputs.push(other),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        // Not bounded by the interval: what is held when the fault ends still leaves late.
        self.held.front().map(|(due, _)| *due)
    }

    fn deadline(&mut self, now: Time, own: &mut Vec<Output<R>>) {
        while self.held.front().is_some_and(|(due, _)| *due <= now) {
            own.extend(self.held.pop_front().map(|(_, output)| output));
        }
    }
}
