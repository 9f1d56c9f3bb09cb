//! Feeds state machines with inputs in virtual time, and carries out what they ask for.

use super::Queue;
use crate::Progress;
use crate::compute::{Compute, Request, Ticket};
use crate::network::{MessageId, Network};
use alphorn_proto::wire::{Reject, Topic};
use alphorn_proto::{Evidence, Input, Output, Peer, Protocol};
use alphorn_scheme::Bytes;
use alphorn_types::Time;
use sha2::Digest as _;
use sha2::Sha256;
use std::collections::BTreeMap;

/// Most contradicting statements that are kept for inspection; all are counted.
const EVIDENCE_MAX: usize = 1024;

/// Bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most events that are handled.
    pub events_max: u64,
    /// Most events that wait together.
    pub events_pending_max: usize,
    /// Last instant of virtual time, in nanoseconds.
    pub sim_time_max_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            events_max: 100_000_000_000,
            events_pending_max: 1 << 24,
            sim_time_max_ns: 1_000_000_000_000,
        }
    }
}

/// A run went beyond its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// Too many events.
    #[error("more than {max} events by {at_ns} ns of virtual time")]
    Events {
        /// The bound.
        max: u64,
        /// Virtual time at that event.
        at_ns: u64,
    },
    /// Too many events that wait.
    #[error("{value} events wait at {at_ns} ns of virtual time, must be at most {max}")]
    Pending {
        /// How many.
        value: usize,
        /// The bound.
        max: usize,
        /// Virtual time.
        at_ns: u64,
    },
    /// Virtual time beyond the bound was asked for.
    #[error("virtual time {value_ns} ns, must be at most {max_ns}")]
    Time {
        /// The time asked for.
        value_ns: u64,
        /// The bound.
        max_ns: u64,
    },
}

/// SHA-256 over every output of every node, in order: equal for equal runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    PeerUp { node: u32, peer: u32 },
    Arrival { node: u32, message: MessageId },
    Finished { node: u32, ticket: Ticket },
    Deadline { node: u32, generation: u64 },
}

struct Node<P> {
    protocol: P,
    /// The deadline that an event is scheduled for.
    armed: Option<Time>,
    /// Tells that event from those scheduled before the deadline moved.
    generation: u64,
}

/// Drives the state machines of all nodes of a run under one virtual clock.
///
/// The loop: take the first event, hand it to its node, carry out the node's outputs, and schedule
/// its next deadline if that moved.
pub(crate) struct Driver<P: Protocol> {
    nodes: Vec<Node<P>>,
    queue: Queue<Event>,
    network: Network,
    compute: Compute,
    limits: Limits,
    now: Time,
    handled: u64,
    hash: Sha256,
    reports: BTreeMap<&'static str, u64>,
    evidence: Vec<Evidence>,
    evidence_count: u64,
}

impl<P: Protocol> Driver<P> {
    /// A run at virtual time 0, in which every node learns of every other one first.
    ///
    /// # Panics
    /// If the network has another number of nodes.
    pub(crate) fn new(
        protocols: Vec<P>,
        network: Network,
        compute: Compute,
        limits: Limits,
    ) -> Self {
        let count = protocols.len();
        assert_eq!(
            count,
            network.nodes_count(),
            "one state machine for each node"
        );
        let node = |protocol| Node {
            protocol,
            armed: None,
            generation: 0,
        };
        let mut driver = Driver {
            nodes: protocols.into_iter().map(node).collect(),
            queue: Queue::new(),
            network,
            compute,
            limits,
            now: Time::ZERO,
            handled: 0,
            hash: Sha256::new(),
            reports: BTreeMap::new(),
            evidence: Vec::new(),
            evidence_count: 0,
        };
        let count = count as u32;
        for node in 0..count {
            for peer in (0..count).filter(|&peer| peer != node) {
                driver.queue.push(Time::ZERO, Event::PeerUp { node, peer });
            }
            driver.settle(node);
        }
        driver
    }

    /// Virtual time.
    #[cfg(test)]
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// The state machine of a node.
    ///
    /// # Panics
    /// If there is no such node.
    pub(crate) fn protocol(&self, node: u32) -> &P {
        &self.nodes[node as usize].protocol
    }

    /// The network and its counts.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// The compute model and its counts.
    pub(crate) fn compute(&self) -> &Compute {
        &self.compute
    }

    /// The compute model, to tell it about the scenario.
    pub(crate) fn compute_mut(&mut self) -> &mut Compute {
        &mut self.compute
    }

    /// Events handled so far.
    pub(crate) fn events_count(&self) -> u64 {
        self.handled
    }

    /// Most events that ever waited together.
    pub(crate) fn events_peak(&self) -> usize {
        self.queue.len_peak()
    }

    /// The digest of all outputs so far.
    pub(crate) fn digest(&self) -> Digest {
        Digest(self.hash.clone().finalize().into())
    }

    /// Handles every event that is due at `until` or before, then lets virtual time be `until`.
    ///
    /// # Errors
    /// [`DriveError`] where a bound is passed; the run cannot go on then.
    pub(crate) fn run_until(
        &mut self,
        until: Time,
        progress: &mut dyn Progress,
    ) -> Result<(), DriveError> {
        if until.as_nanos() > self.limits.sim_time_max_ns {
            return Err(DriveError::Time {
                value_ns: until.as_nanos(),
                max_ns: self.limits.sim_time_max_ns,
            });
        }
        while self.queue.next_time().is_some_and(|time| time <= until) {
            let Some((time, event)) = self.queue.pop() else {
                break;
            };
            self.now = time;
            self.handled += 1;
            self.check_limits()?;
            self.dispatch(event, progress);
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn check_limits(&self) -> Result<(), DriveError> {
        let at_ns = self.now.as_nanos();
        if self.handled > self.limits.events_max {
            return Err(DriveError::Events {
                max: self.limits.events_max,
                at_ns,
            });
        }
        if self.queue.len() > self.limits.events_pending_max {
            return Err(DriveError::Pending {
                value: self.queue.len(),
                max: self.limits.events_pending_max,
                at_ns,
            });
        }
        Ok(())
    }

    fn dispatch(&mut self, event: Event, progress: &mut dyn Progress) {
        let (node, input) = match event {
            Event::PeerUp { node, peer } => {
                let peer = Peer(u64::from(peer));
                (node, Input::PeerUp { peer })
            }
            Event::Arrival { node, message } => {
                let arrival = self.network.deliver(message, node);
                let input = Input::Message {
                    from: arrival.from,
                    topic: arrival.topic,
                    token: arrival.token,
                    data: arrival.data,
                };
                (node, input)
            }
            Event::Finished { node, ticket } => {
                let Some((job, outcome)) = self.compute.finish(ticket, progress) else {
                    return;
                };
                (node, Input::Finished { job, outcome })
            }
            Event::Deadline { node, generation } => {
                let place = &mut self.nodes[node as usize];
                if place.generation != generation {
                    return;
                }
                place.armed = None;
                (node, Input::Deadline)
            }
        };
        self.nodes[node as usize].protocol.handle(self.now, input);
        self.settle(node);
    }

    /// Carries out all outputs of a node, then schedules its deadline.
    fn settle(&mut self, node: u32) {
        while let Some(output) = self.nodes[node as usize].protocol.poll_output() {
            self.record(node, &output);
            self.perform(node, output);
        }
        let place = &mut self.nodes[node as usize];
        let deadline = place.protocol.next_deadline();
        if deadline == place.armed {
            return;
        }
        place.armed = deadline;
        place.generation += 1;
        if let Some(deadline) = deadline {
            let generation = place.generation;
            let event = Event::Deadline { node, generation };
            self.queue.push(deadline.max(self.now), event);
        }
    }

    fn perform(&mut self, node: u32, output: Output) {
        match output {
            Output::Publish { topic, data } => self.publish(node, topic, data),
            Output::Spawn {
                job,
                session,
                hard,
                work,
                ..
            } => {
                let request = Request {
                    node,
                    job,
                    session,
                    hard,
                    work,
                };
                let (ticket, at) = self.compute.spawn(self.now, request);
                self.queue.push(at, Event::Finished { node, ticket });
            }
            Output::Cancel { session } => {
                for ticket in self.compute.cancel(node, session) {
                    self.queue.push(self.now, Event::Finished { node, ticket });
                }
            }
            Output::Verdict { token, verdict } => self.network.verdict(node, token, verdict),
            Output::Report { reason, .. } => self.report(&reason),
            Output::Evidence(evidence) => {
                self.evidence_count += 1;
                if self.evidence.len() < EVIDENCE_MAX {
                    self.evidence.push(evidence);
                }
            }
        }
    }

    /// Sends what a node publishes now to all who receive it.
    pub(crate) fn publish(&mut self, node: u32, topic: Topic, data: Bytes) {
        let at = self.now.saturating_add_ns(self.network.latency_ns());
        if let Some((message, receivers)) = self.network.publish(node, topic, data) {
            for node in receivers {
                self.queue.push(at, Event::Arrival { node, message });
            }
        }
    }

    fn report(&mut self, reason: &Reject) {
        *self.reports.entry(reason.name()).or_default() += 1;
    }

    /// Feeds an output to the digest: each with its time, node and kind, each part with its length.
    fn record(&mut self, node: u32, output: &Output) {
        let mut put = |part: &[u8]| {
            self.hash.update((part.len() as u64).to_le_bytes());
            self.hash.update(part);
        };
        put(&self.now.as_nanos().to_le_bytes());
        put(&node.to_le_bytes());
        match output {
            Output::Publish { topic, data } => {
                put(b"publish");
                put(topic.named(Default::default()).to_string().as_bytes());
                put(data);
            }
            Output::Spawn {
                job,
                session,
                group,
                class,
                soft,
                hard,
                work,
            } => {
                put(b"spawn");
                put(work.name().as_bytes());
                let numbers = [
                    job.0,
                    session.slot.0,
                    u64::from(session.seq),
                    group.slot.0,
                    group.committee.map_or(u64::MAX, u64::from),
                    group.subcommittee.map_or(u64::MAX, u64::from),
                    *class as u64,
                    soft.as_nanos(),
                    hard.as_nanos(),
                ];
                numbers.iter().for_each(|number| put(&number.to_le_bytes()));
                put(&group.message);
            }
            Output::Cancel { session } => {
                put(b"cancel");
                put(&session.slot.0.to_le_bytes());
                put(&session.seq.to_le_bytes());
            }
            Output::Verdict { token, verdict } => {
                put(b"verdict");
                put(&token.0.to_le_bytes());
                put(&[*verdict as u8]);
            }
            Output::Report { peer, reason } => {
                put(b"report");
                put(&peer.0.to_le_bytes());
                put(reason.name().as_bytes());
            }
            Output::Evidence(evidence) => {
                put(b"evidence");
                put(&evidence.first);
                put(&evidence.second);
            }
        }
    }
}
