//! One node of the slot: the protocol's own state machine with jobs that are really executed.
//!
//! It uses the world only to carry messages and to be woken. A job ends when [`Compute`] says so: each has a core to
//! itself, so the world's processors are not involved.

use crate::compute::{Compute, Request, Ticket};
use crate::gossip::Peers;
use crate::role::{Input, Labour, Output, Role, Wire};
use alphorn_proto::wire::{Kind, Topic};
use alphorn_proto::{self as proto, Peer, Protocol, Spawn, Token};
use alphorn_scheme::{Bytes, Features, Schedulable};
use alphorn_types::Time;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The compute model shared by all nodes.
pub(super) type SharedCompute = Arc<Mutex<Compute>>;

/// Locks the compute model.
pub(super) fn lock(compute: &SharedCompute) -> MutexGuard<'_, Compute> {
    // A panic ends the run anyway.
    compute.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers of messages and of their payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Payload bytes, without any transport header.
    pub bytes: u64,
}

impl Traffic {
    fn count(&mut self, data: &Bytes) {
        self.messages += 1;
        self.bytes += data.len() as u64;
    }

    /// The increase since an earlier count.
    #[must_use]
    pub fn since(self, earlier: Traffic) -> Traffic {
        Traffic {
            messages: self.messages - earlier.messages,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// Index of a kind among all kinds.
pub(super) fn index(kind: Kind) -> usize {
    match kind {
        Kind::Vote => 0,
        Kind::Aggregate => 1,
        Kind::Collection => 2,
        Kind::Block => 3,
    }
}

/// A message on its topic.
#[derive(Clone, Debug)]
pub(crate) struct SlotMessage {
    pub(super) topic: Topic,
    pub(super) data: Bytes,
}

impl Wire for SlotMessage {
    const KINDS: &'static [&'static str] = &["vote", "aggregate", "collection", "block"];

    /// Messages have size zero on these links, so that none delays another: everything sent at one instant arrives
    /// at one instant. The nodes count the bytes.
    fn wire_bytes(&self) -> u64 {
        0
    }

    fn kind(&self) -> usize {
        index(self.topic.kind())
    }

    fn has_payload(&self) -> bool {
        true
    }
}

/// The world runs no jobs for these nodes.
#[derive(Debug)]
pub(crate) enum NoWork {}

impl Schedulable for NoWork {
    fn features(&self) -> Features {
        match *self {}
    }
}

impl Labour for NoWork {
    type Product = Infallible;

    fn name(&self) -> &'static str {
        match *self {}
    }

    fn run(self) -> Infallible {
        match self {}
    }
}

/// See the [module](self).
pub(crate) struct SlotNode<P> {
    number: u32,
    pub(super) machine: P,
    compute: SharedCompute,
    now: Time,
    /// The state machine's deadlines are deferred until then: messages that arrive at the same instant are handled
    /// first and verified together.
    heard: Time,
    /// Jobs by their end time, including cancelled ones.
    ends: BTreeMap<Time, Vec<Ticket>>,
    /// Receivers of each message kind, by the node's numbers for them.
    receivers: [Arc<[Peer]>; Kind::ALL.len()],
    /// Messages received so far.
    tokens: u64,
    /// Traffic published, by kind.
    pub(super) published: [Traffic; Kind::ALL.len()],
    /// Blocks published, in order.
    pub(super) blocks: Vec<(Time, Bytes)>,
    outputs: Sha256,
    /// Messages to be sent, with their receivers.
    out: VecDeque<(Arc<[Peer]>, SlotMessage)>,
}

impl<P> std::fmt::Debug for SlotNode<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SlotNode({})", self.number)
    }
}

impl<P: Protocol + Send> SlotNode<P> {
    /// A node whose messages reach these peers.
    pub(super) fn new(
        number: u32,
        machine: P,
        compute: &SharedCompute,
        receivers: [Arc<[Peer]>; Kind::ALL.len()],
    ) -> Self {
        SlotNode {
            number,
            machine,
            compute: compute.clone(),
            now: Time::ZERO,
            heard: Time::ZERO,
            ends: BTreeMap::new(),
            receivers,
            tokens: 0,
            published: Default::default(),
            blocks: Vec::new(),
            outputs: Sha256::new(),
            out: VecDeque::new(),
        }
    }

    /// SHA-256 over all outputs of its state machine, in order: equal for equal runs.
    pub(super) fn digest(&self) -> [u8; 32] {
        self.outputs.clone().finalize().into()
    }

    fn due(&self) -> Option<Time> {
        let due = self.machine.next_deadline();
        due.map(|due| due.max(self.heard))
    }

    fn tell(&mut self, input: proto::Input) {
        self.machine.handle(self.now, input);
        self.settle();
    }

    /// Carries out the pending outputs of the state machine.
    fn settle(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            record(&mut self.outputs, self.now, &output);
            self.perform(output);
        }
    }

    fn perform(&mut self, output: proto::Output) {
        match output {
            proto::Output::Publish { topic, data } => self.publish(topic, data),
            proto::Output::Spawn(Spawn {
                job,
                session,
                hard,
                work,
                ..
            }) => {
                let node = self.number;
                let request = Request {
                    node,
                    job,
                    session,
                    hard,
                    work,
                };
                let (ticket, at) = lock(&self.compute).spawn(self.now, request);
                self.ends.entry(at).or_default().push(ticket);
            }
            proto::Output::Cancel { session } => {
                let cancelled = lock(&self.compute).cancel(self.number, session);
                // The new tickets end as cancelled. The old ones have no outcome when their time comes.
                self.ends.entry(self.now).or_default().extend(cancelled);
            }
            // Nothing is forwarded or requested, and the state machine counts its own rejections.
            proto::Output::Verdict { .. }
            | proto::Output::Imported { .. }
            | proto::Output::Report { .. }
            | proto::Output::Evidence(_) => {}
        }
    }

    fn publish(&mut self, topic: Topic, data: Bytes) {
        let kind = index(topic.kind());
        self.published[kind].count(&data);
        if topic == Topic::Block {
            self.blocks.push((self.now, data.clone()));
        }
        let to = self.receivers[kind].clone();
        if !to.is_empty() {
            self.out.push_back((to, SlotMessage { topic, data }));
        }
    }

    /// Ends the jobs that are due. Immediate requests caused by their results get a separate event, so that the
    /// event limit also applies to jobs that cost nothing.
    fn end_jobs(&mut self) {
        // The key is part of what is split off, so this leaves the jobs that are due now.
        let later = self.ends.split_off(&self.now.saturating_add_ns(1));
        let due = std::mem::replace(&mut self.ends, later);
        for ticket in due.into_values().flatten() {
            let ended = lock(&self.compute).finish(ticket);
            if let Some((job, outcome)) = ended {
                self.tell(proto::Input::Finished { job, outcome });
            }
        }
    }
}

impl<P: Protocol + Send> Role for SlotNode<P> {
    type Message = SlotMessage;
    /// A message of another origin to be published.
    type Command = SlotMessage;
    type Cancel = Infallible;
    type Work = NoWork;
    type Delivery = Infallible;

    fn handle(&mut self, now: Time, input: Input<Self>) {
        self.now = now;
        match input {
            Input::PeerUp { peer } => self.tell(proto::Input::PeerUp { peer }),
            Input::Message { from, message } => {
                let SlotMessage { topic, data } = message;
                // Other messages may arrive at this instant. The next one comes after all of them.
                self.heard = now.saturating_add_ns(1);
                let token = Token(self.tokens);
                self.tokens += 1;
                self.tell(proto::Input::Message {
                    from,
                    topic,
                    token,
                    data,
                });
            }
            // It goes past the state machine, which has not made it and need not know of it.
            Input::Command(SlotMessage { topic, data }) => self.publish(topic, data),
            Input::Deadline => {
                self.end_jobs();
                if self.due().is_some_and(|due| due <= now) {
                    self.tell(proto::Input::Deadline);
                }
            }
            // No peer leaves, nothing is paced, and the world runs no jobs for this node.
            Input::PeerDown { .. } | Input::SendReady { .. } | Input::Finished { .. } => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<Self>> {
        let (to, message) = self.out.pop_front()?;
        Some(Output::Send {
            to: Peers::List(to),
            message,
            priority: 0,
        })
    }

    fn next_deadline(&self) -> Option<Time> {
        let end = self.ends.first_key_value().map(|(at, _)| *at);
        end.into_iter().chain(self.due()).min()
    }
}

/// Feeds an output to a digest: each output with its time and kind, each part with its length.
fn record(hash: &mut Sha256, now: Time, output: &proto::Output) {
    let mut put = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    put(&now.as_nanos().to_le_bytes());
    match output {
        proto::Output::Publish { topic, data } => {
            put(b"publish");
            put(topic.named(Default::default()).to_string().as_bytes());
            put(data);
        }
        proto::Output::Spawn(Spawn {
            job,
            session,
            group,
            class,
            soft,
            hard,
            work,
        }) => {
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
        proto::Output::Cancel { session } => {
            put(b"cancel");
            put(&session.slot.0.to_le_bytes());
            put(&session.seq.to_le_bytes());
        }
        proto::Output::Verdict { token, verdict } => {
            put(b"verdict");
            put(&token.0.to_le_bytes());
            put(&[*verdict as u8]);
        }
        proto::Output::Imported { root, .. } => {
            put(b"imported");
            put(root);
        }
        proto::Output::Report { peer, reason } => {
            put(b"report");
            put(&peer.0.to_le_bytes());
            put(reason.name().as_bytes());
        }
        proto::Output::Evidence(evidence) => {
            put(b"evidence");
            put(&evidence.first);
            put(&evidence.second);
        }
    }
}
