//! Traces what a few nodes do, in the records of a live node: sessions, jobs, traffic, peers.

use super::follower::{Account, Submitted};
use super::span::Span;
use super::tracer::{node_name, signed};
use super::{Probe, World};
use crate::charge::Done;
use crate::gossip::Peers;
use crate::role::{Labour, Output, Role, Wire};
use alphorn_proto::Peer;
use alphorn_scheme::{Class, JobId, Schedulable};
use alphorn_types::trace::Event;
use alphorn_worker::{End, Request};

/// How often the traffic of a node is recorded.
const TRAFFIC_NS: u64 = 1_000_000_000;
/// Limits on what is recorded, over all nodes together, keeping the first of each: jobs, sessions, traffic records,
/// faults.
pub(crate) const JOBS_MAX: usize = 16_384;
pub(crate) const SESSIONS_MAX: usize = 2_048;
pub(crate) const TRAFFIC_MAX: usize = 8_192;
pub(crate) const FAULTS_MAX: usize = 2_048;
/// Maximum number of a node's neighbours recorded.
pub(crate) const PEERS_MAX: usize = 64;

/// Name of an outcome, as in a live node.
fn outcome(end: &End) -> &'static str {
    match end {
        End::Ran => "done",
        End::Superseded => "superseded",
        End::Cancelled => "cancelled",
        End::Refused(_) => "refused",
        End::Crashed => "crashed",
    }
}

impl<R: Role, W: Probe<R>> World<R, W> {
    /// From now on records what these nodes do, as a live node would. The records are taken with the trace.
    pub(crate) fn follow(&mut self, nodes: &[u32]) {
        let (several, now_ns) = (nodes.len().max(1), self.now().as_nanos());
        for &node in nodes {
            let account = Account {
                jobs_left: JOBS_MAX / several,
                sessions_left: SESSIONS_MAX / several,
                traffic_left: TRAFFIC_MAX / several,
                faults_left: FAULTS_MAX / several,
                moved: vec![[0; 2]; R::Message::KINDS.len()],
                ..Account::default()
            };
            let span = self.span_mut(node);
            span.follower.accounts.insert(node, account);
            span.net.hot[node].followed = true;
        }
        for span in &mut self.spans {
            span.follower.traffic_ns = now_ns.saturating_add(TRAFFIC_NS);
        }
    }

    /// Records that a node is connected to these neighbours.
    pub(crate) fn tell_peers(&mut self, node: u32, numbers: &[u32]) {
        self.span_mut(node).tell_peers(node, numbers);
    }

    /// Records the traffic of the followed nodes, if a second has passed since the last time.
    pub(super) fn tell_traffic(&mut self) {
        let now_ns = self.now().as_nanos();
        for span in &mut self.spans {
            if !span.follower.accounts.is_empty() && now_ns >= span.follower.traffic_ns {
                // Records get the time of their span, whose own last event may be earlier.
                span.now_ns = now_ns;
                span.tell_traffic();
            }
        }
    }

    /// Records what is left when a run ends: the traffic of its last second.
    pub(crate) fn end_trace(&mut self) {
        for span in &mut self.spans {
            span.follower.traffic_ns = 0;
        }
        self.tell_traffic();
        self.close_trace();
    }
}

impl<R: Role> Span<R> {
    fn tell_peers(&mut self, node: u32, numbers: &[u32]) {
        for number in numbers.iter().take(PEERS_MAX) {
            if let Some(peer) = self.number_of(node, Peer(u64::from(*number))) {
                let event = Event::Peer {
                    short: node_name(peer),
                    event: "connected".into(),
                    score: 0,
                };
                self.tell(node, event);
            }
        }
    }

    /// Records an output of a node.
    #[cold]
    pub(super) fn follow_output(&mut self, node: u32, output: &Output<R>) {
        match output {
            Output::Spawn { job, request } => self.submitted(node, *job, request),
            Output::Send { to, message, .. } => self.sent(node, to, message),
            Output::Report { peer, reason } => {
                let about = self.number_of(node, *peer);
                let about = about.map_or("nobody".into(), node_name);
                self.fault(node, "report", format!("{about}: {reason}"));
            }
            Output::Evidence => self.fault(node, "evidence", "two contradicting statements".into()),
            _ => {}
        }
    }

    fn fault(&mut self, node: u32, kind: &'static str, detail: String) {
        let kind = kind.into();
        match self.follower.accounts.get_mut(&node) {
            Some(account) if account.faults_left > 0 => account.faults_left -= 1,
            _ => return,
        }
        self.tell(node, Event::Fault { kind, detail });
    }

    fn submitted(&mut self, node: u32, job: JobId, request: &Request<R::Work>) {
        let (now_ns, begin_ns) = (self.now_ns, self.tracer.begin_ns);
        let Some(account) = self.follower.accounts.get_mut(&node) else {
            return;
        };
        let features = request.work.features();
        // Work that takes no time does not occupy a lane.
        if features.prior_ns == 0 || account.jobs_left == 0 {
            return;
        }
        let submitted = Submitted {
            at_ns: now_ns,
            name: request.work.name(),
            inputs: features.inputs,
            prior_ns: features.prior_ns,
        };
        account.jobs.insert(job, submitted);
        let is_current = request.class == Class::Current && account.sessions_left > 0;
        if !is_current || !account.sessions.insert(request.session) {
            return;
        }
        account.sessions_left -= 1;
        let at = |ns: u64| signed(ns.saturating_add(begin_ns));
        let soft = at(request.soft.as_nanos());
        let event = Event::Session {
            id: request.session.number(),
            open: at(now_ns).min(soft),
            soft,
            hard: at(request.hard.as_nanos()).max(soft),
        };
        self.tell(node, event);
    }

    /// Records that a job of a node ended.
    #[cold]
    pub(super) fn follow_end(&mut self, node: u32, done: &Done<R::Work>) {
        let (now_ns, begin_ns) = (self.now_ns, self.tracer.begin_ns);
        let Some(account) = self.follower.accounts.get_mut(&node) else {
            return;
        };
        let Some(job) = account.jobs.remove(&done.job) else {
            return;
        };
        // Work done inline has no lane.
        // Jobs count when they end, so more may be running than can still be recorded.
        if (done.ran.is_none() && done.end == End::Ran) || account.jobs_left == 0 {
            return;
        }
        account.jobs_left -= 1;
        let at = |ns: u64| signed(ns.saturating_add(begin_ns));
        let begun_ns = done.ran.map_or(now_ns, |ran| ran.begun_ns);
        let event = Event::Job {
            id: done.job.0,
            kind: job.name.into(),
            inputs: job.inputs,
            t_submit: at(job.at_ns),
            t_start: at(begun_ns),
            t_end: at(now_ns),
            predicted_ms: job.prior_ns.div_ceil(1_000_000),
            outcome: outcome(&done.end).into(),
            lane: done.ran.map_or(0, |ran| ran.lane),
        };
        self.tell(node, event);
    }

    fn sent(&mut self, node: u32, to: &Peers, message: &R::Message) {
        if let Some(account) = self.follower.accounts.get_mut(&node) {
            account.moved[message.kind()][1] += message.wire_bytes() * to.len() as u64;
        }
    }

    /// Counts a message that arrived at a node.
    #[cold]
    pub(super) fn follow_received(&mut self, node: u32, index: u32) {
        let message = self.net.messages.get(index);
        if let Some(account) = self.follower.accounts.get_mut(&node) {
            account.moved[message.kind()][0] += message.wire_bytes();
        }
    }

    fn tell_traffic(&mut self) {
        self.follower.traffic_ns = self.now_ns.saturating_add(TRAFFIC_NS);
        let mut accounts = std::mem::take(&mut self.follower.accounts);
        for (node, account) in &mut accounts {
            for (kind, moved) in R::Message::KINDS.iter().zip(&mut account.moved) {
                let [received, sent] = *moved;
                if received + sent == 0 || account.traffic_left == 0 {
                    continue;
                }
                (*moved, account.traffic_left) = ([0; 2], account.traffic_left - 1);
                let event = Event::Bytes {
                    topic_kind: (*kind).into(),
                    received,
                    sent,
                };
                self.tell(*node, event);
            }
        }
        self.follower.accounts = accounts;
    }
}
