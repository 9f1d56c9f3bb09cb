//! Carries out the outputs of roles, through the wrappers that a node may have.
//!
//! Messages that a node sends after doing work itself leave when the work is done, and anything the node sends later
//! leaves after them, as on a single thread.

use super::held::Held;
use super::kind;
use super::seen::{Seen, Sight};
use super::span::Span;
use super::wraps::{Wraps, pass, through};
use crate::charge::Done;
use crate::fault::Wrap;
use crate::gossip::Peers;
use crate::net::{Direction, Parcel, event as net};
use crate::role::{Input, Labour, Output, Role, Wire};
use alphorn_proto::Peer;

/// The input that reports a finished job to a role.
fn finished<R: Role>(done: Done<R::Work>) -> Input<R> {
    Input::Finished {
        job: done.job,
        end: done.end,
        // Executed only when its virtual time is over, so a job that is cancelled takes no real time.
        product: done.work.map(Labour::run),
        leftover: done.leftover,
    }
}

impl<R: Role> Span<R> {
    #[inline]
    fn perform(&mut self, node: u32, output: Output<R>) {
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

    /// Gives a message to the uplink, once for each receiver. Unknown peers are left out.
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
        let first = self.net.graph.first_end(node) as usize;
        let peers = self.net.graph.peers(node).len() as u64;
        let known = to.iter().filter(|peer| peer.0 < peers);
        let ends = known.map(|peer| first + peer.0 as usize);
        let (queue, now_ns) = (&mut self.queue, self.now_ns);
        self.net.send(queue, now_ns, node, ends, parcel);
        // Unknown peers were counted as holders as well.
        for _ in to.iter().filter(|peer| peer.0 >= peers) {
            self.net.messages.release(message);
        }
    }

    #[inline]
    fn note_end(&mut self, node: u32, done: &Done<R::Work>) {
        if self.net.hot[node].followed {
            self.follow_end(node, done);
        }
    }

    /// Notifies a role of the jobs that ended, through the wrappers.
    #[cold]
    fn finish_jobs(&mut self, node: u32, wraps: &mut [Box<dyn Wrap<R>>]) {
        let now = self.time_at(node);
        let mut ended = std::mem::take(&mut self.done);
        let mut own = Vec::new();
        for done in ended.drain(..) {
            self.note_end(node, &done);
            let input = finished(done);
            self.trace_input(node, &input);
            if let Some(input) = pass(wraps, now, input, &mut own) {
                self.roles[node].handle(now, input);
            }
        }
        // Put back before `own` is carried out, which may add jobs that end at once.
        self.done = ended;
        self.perform_all(node, own);
    }

    #[cold]
    fn perform_all(&mut self, node: u32, outputs: Vec<Output<R>>) {
        for output in outputs {
            self.perform(node, output);
        }
    }

    /// Takes the wrappers of a node, which has none until it has settled.
    #[inline]
    pub(super) fn take_wraps(&mut self, node: u32) -> Wraps<R> {
        match self.net.hot[node].wrapped {
            true => self.wraps.remove(&node).unwrap_or_default(),
            false => Vec::new(),
        }
    }

    /// Carries out all effects of a node, then sets its timer.
    pub(super) fn settle(&mut self, node: u32) {
        let wraps = self.take_wraps(node);
        self.settle_through(node, wraps, Vec::new());
    }

    /// The same for given wrappers. The role's outputs go through the wrappers; their own outputs, `own`, do not.
    #[inline]
    pub(super) fn settle_through(&mut self, node: u32, mut wraps: Wraps<R>, own: Vec<Output<R>>) {
        if !own.is_empty() {
            self.perform_all(node, own);
        }
        loop {
            while let Some(output) = self.roles[node].poll_output() {
                if wraps.is_empty() {
                    self.perform(node, output);
                } else {
                    let outputs = through(&mut wraps, self.time_at(node), output);
                    self.perform_all(node, outputs);
                }
            }
            // Jobs that cost nothing have ended while they were spawned, and their results may lead to more outputs.
            if self.done.is_empty() {
                break;
            }
            self.finish_jobs(node, &mut wraps);
        }
        let deadlines = wraps.iter().filter_map(|wrap| wrap.next_deadline());
        let deadline = deadlines.chain(self.roles[node].next_deadline()).min();
        if !wraps.is_empty() {
            self.wraps.insert(node, wraps);
        }
        self.arm(node, deadline);
    }

    /// Records an observation of a node at the current time.
    fn see(&mut self, node: u32, sight: Sight<R::Delivery>) {
        self.seen.push(Seen {
            now_ns: self.now_ns,
            node,
            sight,
        });
    }

    /// Charges a node for its own work, which takes `cost_ns` at the speed of the cost table and starts after its
    /// current work.
    fn work(&mut self, node: u32, cost_ns: u64) {
        let time_ns = self.compute.time_ns(node, cost_ns);
        let hot = &mut self.net.hot[node];
        let until_ns = hot.cpu_free_ns.max(self.now_ns).saturating_add(time_ns);
        hot.cpu_free_ns = until_ns;
        self.net.tally[node].cpu_ns += time_ns;
        self.net.loads.at(self.now_ns, node).cpu_ns += time_ns;
        self.net.loads.last_until(until_ns);
        self.holds.work(node, until_ns);
    }

    /// Sends a message, after the work that its node did for it.
    #[inline]
    fn send(&mut self, node: u32, to: Peers, message: R::Message, priority: u8) {
        match self.holds.is_empty() {
            true => self.send_now(node, &to, message, priority),
            false => self.send_behind(node, to, message, priority),
        }
    }

    fn send_behind(&mut self, node: u32, to: Peers, message: R::Message, priority: u8) {
        let Some(due_ns) = self.holds.due_ns(node, self.now_ns) else {
            return self.send_now(node, &to, message, priority);
        };
        let held = Held {
            due_ns,
            to,
            message,
            priority,
        };
        if self.holds.push(node, held) {
            self.queue.push(due_ns, node, kind::HELD, 0);
        }
    }

    /// Sends the messages of a node that are due by now.
    pub(super) fn send_held(&mut self, node: u32) {
        while let Some(held) = self.holds.pop(node, self.now_ns) {
            self.send_now(node, &held.to, held.message, held.priority);
        }
    }

    /// Cancels matching messages that a node holds for a neighbour, and notifies it of the paced ones.
    fn cancel_held(&mut self, node: u32, peer: Peer, what: &R::Cancel) {
        let fits = |message: &R::Message| R::cancels(what, message);
        for _ in 0..self.holds.cancel(node, peer, fits) {
            let number = peer.0 as u32;
            // As for messages taken out of the uplink, since the role waits for each of them.
            self.queue.push(self.now_ns, node, net::READY, number);
        }
    }
}
