//! What roles want done, and the slow way of nodes with a wrapper.

use super::seen::Sight;
use super::span::Span;
use crate::charge::Done;
use crate::fault::Wrap;
use crate::gossip::Peers;
use crate::net::{Direction, Parcel};
use crate::role::{Input, Labour, Output, Role, Wire};
use alphorn_types::Time;

/// What a role is told of a job that ended.
fn finished<R: Role>(done: Done<R::Work>) -> Input<R> {
    Input::Finished {
        job: done.job,
        end: done.end,
        product: done.work.map(Labour::run),
        leftover: done.leftover,
    }
}

impl<R: Role> Span<R> {
    #[inline]
    pub(super) fn perform(&mut self, node: u32, output: Output<R>) {
        self.trace_output(node, &output);
        if self.net.hot[node].followed {
            self.follow_output(node, &output);
        }
        match output {
            Output::Send {
                to,
                message,
                priority,
            } => self.send(node, to, message, priority),
            Output::Cancel { peer, what } => {
                self.cancel_held(node, peer, &what);
                if let Some(end) = self.net.graph.end(node, peer.0) {
                    let fits = |message: &R::Message| R::cancels(&what, message);
                    self.net
                        .cancel(&mut self.queue, self.now_ns, Direction { node, end }, fits);
                }
            }
            Output::Spawn { job, request } => {
                let at = self.net.at(&mut self.queue, self.now_ns, node);
                self.compute.spawn(at, job, *request, &mut self.done);
            }
            Output::Spend { cost_ns } => self.work(node, cost_ns),
            Output::CancelSession { session } => {
                let at = self.net.at(&mut self.queue, self.now_ns, node);
                self.compute.cancel(at, session, &mut self.done);
            }
            Output::Deliver(delivery) => self.see(node, Sight::Delivered(delivery)),
            Output::Report { peer, reason } => {
                if let Some(end) = self.net.graph.end(node, peer.0) {
                    let about = self.net.graph.peer(end);
                    self.see(node, Sight::Reported { about, reason });
                }
            }
            Output::Evidence => self.see(node, Sight::Evidence),
        }
    }

    /// Gives a message to the uplink, once for each receiver. Peers that are none are left out.
    #[inline]
    pub(super) fn send_now(&mut self, node: u32, to: &Peers, message: R::Message, priority: u8) {
        let holders = to.len() as u32;
        if holders == 0 || self.net.hot[node].down {
            return;
        }
        let (bytes, kind, paced) = (message.wire_bytes(), message.kind(), message.is_paced());
        if message.has_payload() {
            self.active_ns = self.active_ns.max(self.now_ns);
        }
        let Some(message) = self.net.keep(node, message, holders) else {
            self.net.full = true;
            return;
        };
        self.net.tally[node].messages += holders;
        let parcel = Parcel {
            message,
            bytes,
            priority,
            kind: kind as u8,
            paced,
        };
        for peer in to.iter() {
            match self.net.graph.end(node, peer.0) {
                Some(end) => self.net.send(
                    &mut self.queue,
                    self.now_ns,
                    Direction { node, end },
                    parcel,
                ),
                None => {
                    self.net.messages.release(message);
                }
            }
        }
    }

    #[inline]
    fn note_end(&mut self, node: u32, done: &Done<R::Work>) {
        if self.net.hot[node].followed {
            self.follow_end(node, done);
        }
    }

    /// Tells a role of the jobs that ended.
    #[cold]
    pub(super) fn finish_jobs(&mut self, node: u32) {
        let now = self.time_at(node);
        let mut ended = std::mem::take(&mut self.done);
        for done in ended.drain(..) {
            self.note_end(node, &done);
            let input = finished(done);
            self.trace_input(node, &input);
            self.roles[node].handle(now, input);
        }
        self.done = ended;
    }

    /// The same, through the wrappers.
    fn finish_jobs_wrapped(&mut self, node: u32, wraps: &mut [Box<dyn Wrap<R>>]) {
        let now = self.time_at(node);
        let mut own = Vec::new();
        for done in std::mem::take(&mut self.done) {
            self.note_end(node, &done);
            let input = finished(done);
            self.trace_input(node, &input);
            let mut left = Some(input);
            for wrap in wraps.iter_mut() {
                left = left.and_then(|input| wrap.input(now, input, &mut own));
            }
            if let Some(input) = left {
                self.roles[node].handle(now, input);
            }
        }
        for output in own {
            self.perform(node, output);
        }
    }

    /// Carries out the effects of a node, whether it has a wrapper or not.
    pub(super) fn settle_any(&mut self, node: u32) {
        match self.net.hot[node].wrapped {
            true => self.settle_wrapped(node, Vec::new()),
            false => self.settle(node),
        }
    }

    /// The input goes through the wrappers, and what is left of it to the role.
    #[cold]
    pub(super) fn input_wrapped(&mut self, node: u32, input: Input<R>) {
        let now = self.time_at(node);
        let mut wraps = self.wraps.remove(&node).unwrap_or_default();
        let mut own = Vec::new();
        let mut left = Some(input);
        for wrap in &mut wraps {
            left = left.and_then(|input| wrap.input(now, input, &mut own));
        }
        self.wraps.insert(node, wraps);
        if let Some(input) = left {
            self.roles[node].handle(now, input);
        }
        self.settle_wrapped(node, own);
    }

    #[cold]
    pub(super) fn ring_wrapped(&mut self, node: u32) {
        let now = self.time_at(node);
        let due = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        let mut own = Vec::new();
        self.trace_input(node, &Input::Deadline);
        for wrap in self.wraps.get_mut(&node).into_iter().flatten() {
            if due(wrap.next_deadline()) {
                wrap.deadline(now, &mut own);
            }
        }
        if due(self.roles[node].next_deadline()) {
            self.roles[node].handle(now, Input::Deadline);
        }
        self.settle_wrapped(node, own);
    }

    /// What the role wants goes through the wrappers; what these want themselves, `own`, does not.
    fn settle_wrapped(&mut self, node: u32, own: Vec<Output<R>>) {
        let now = self.time_at(node);
        let mut wraps = self.wraps.remove(&node).unwrap_or_default();
        for output in own {
            self.perform(node, output);
        }
        loop {
            while let Some(output) = self.roles[node].poll_output() {
                let mut outputs = vec![output];
                for wrap in &mut wraps {
                    let before = std::mem::take(&mut outputs);
                    for output in before {
                        wrap.output(now, output, &mut outputs);
                    }
                }
                for output in outputs {
                    self.perform(node, output);
                }
            }
            if self.done.is_empty() {
                break;
            }
            self.finish_jobs_wrapped(node, &mut wraps);
        }
        let deadlines = wraps.iter().filter_map(|wrap| wrap.next_deadline());
        let deadline = deadlines.chain(self.roles[node].next_deadline());
        let deadline = deadline.min();
        self.wraps.insert(node, wraps);
        self.arm(node, deadline);
    }
}
