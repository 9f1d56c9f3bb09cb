//! Large messages: blocks and collections above a certain length are sent to peers as coded broadcasts instead of by
//! gossip.
//!
//! A cast drives [`Broadcast`] in the code of its network: either Reed-Solomon shards under a Merkle root, the
//! specification's default for a node, or random linear combinations under commitments, which relays recombine. Like an
//! engine it has no thread, clock or socket. Time is an argument, and side effects go through a `Carrier`.
//!
//! A complete payload is a message for the protocol, on its topic and from its source. The source signed a header over
//! exactly these bytes, so if the protocol rejects them, the source is to blame, not the peers that forwarded shards.

mod code;
mod job;
mod memory;
mod peers;

use alphorn_broadcast::rlnc::{Coding, Id, Ristretto, Rs, Subject};
use alphorn_broadcast::{
    Blame, Broadcast, ConfigError, Input, Message, Output, Priority, Reject, Schedule,
};
use alphorn_proto::horn::cast::{self, subject};
pub use alphorn_proto::horn::cast::{ABOVE_BYTES, ELEMENTS, JOBS, SOURCES, Settings};
use alphorn_proto::horn::{Horn, KIND_BLOCK, KIND_COLLECTION, Sources};
use alphorn_proto::slot::SlotClock;
use alphorn_proto::wire::{Topic, WireFormat};
use alphorn_proto::{Evidence, Peer, Spawn, Token, Verdict};
use alphorn_scheme::{Bytes, JobId, Outcome, Product};
use alphorn_types::{Slot, Time};
pub use code::Code;
use job::Begun;
pub(crate) use memory::job_bytes_max;
pub(crate) use memory::memory_max;
use peers::Peers;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Tokens from here on identify messages received by broadcast.
pub(crate) const TOKENS: u64 = 3 << 62;

/// Maximum number of broadcast messages that wait for the protocol's verdict.
const AWAITED_MAX: usize = 1_024;
/// Maximum number of headers kept from sources that are to blame. All are counted.
const BLAMED_MAX: usize = 64;
/// Maximum number of headers per peer and slot that match no duty of their source. Beyond it, headers of that peer are
/// ignored until the next slot. The peer is not blamed: two halves of a network that rejoin disagree about duties for a
/// while.
const UNSCHEDULED_MAX: u32 = 64;
/// Penalty for a peer that sent something no honest peer sends.
const POINTS_BAN: u32 = 100;

/// Carries out the side effects of a cast. Nothing here may block.
pub(crate) trait Carrier {
    /// Queue a frame to a peer. Returns false if there is no room. Once it has left, [`Cast::left`] must be called,
    /// exactly once.
    fn send_frame(&mut self, peer: Peer, id: u64, data: Bytes) -> bool;
    /// Drop the waiting frames with this number. [`Cast::left`] counts them as well.
    fn cancel_frames(&mut self, peer: Peer, id: u64);
    /// Run a job. Its result goes to [`Cast::finished`]. A signing job runs only with the rights of its slot.
    fn run(&mut self, spawn: Spawn);
    /// Fall back to gossip for an own message.
    fn gossip(&mut self, topic: Topic, data: Bytes);
    /// Pass a message to the protocol. Its verdict goes to [`Cast::verdict`].
    fn deliver(&mut self, from: Peer, topic: Topic, token: Token, data: Bytes);
    /// A peer misbehaved. At 100 points it is banned.
    fn blame_peer(&mut self, peer: Peer, reason: Reject, points: u32);
    /// A source signed something that is not a valid message.
    fn blame_source(&mut self, blamed: &Blamed);
    /// A source signed two headers for one duty.
    fn equivocated(&mut self, evidence: Evidence);
}

/// A source that signed something that is not a valid message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blamed {
    /// What it should have been, including the source.
    pub(crate) subject: Subject,
    /// The header with the source's signature, as received.
    pub(crate) header: Bytes,
}

/// Counters of a cast since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Own messages that were broadcast.
    pub published: u64,
    /// Own messages that were gossiped although they are large: the maximum number of broadcasts was active, the header
    /// could not be signed, or no peer could know the duty.
    pub(crate) gossiped: u64,
    /// Messages received completely.
    pub delivered: u64,
    /// Broadcasts that ended incomplete.
    pub(crate) withheld: u64,
    /// Sources that signed something that is not a valid message.
    pub sources_blamed: u64,
    /// Payload bytes of the messages received completely, and of own ones.
    pub(crate) payload_bytes: [u64; 2],
    /// Frames received and sent.
    pub frames: [u64; 2],
    /// Bytes of frames received and sent.
    pub(crate) frame_bytes: [u64; 2],
    /// Frames dropped because a peer's queue was full or its budget exceeded.
    pub(crate) frames_dropped: u64,
    /// Rejected input, by reason.
    pub(crate) refused: BTreeMap<String, u64>,
}

/// The broadcasts of a node, in either code.
pub(crate) trait Broadcasts: Send {
    /// Updates the duty assignments. Must be called before anything else in a turn.
    fn follow(&mut self, now: Time, horn: &Horn);
    /// Broadcasts an own message. If it cannot be broadcast, it is gossiped.
    fn publish(&mut self, now: Time, topic: Topic, data: Bytes, carrier: &mut dyn Carrier);
    /// A peer connected. Peers beyond the state machine's maximum take no part in broadcasts.
    fn peer_up(&mut self, now: Time, peer: Peer, carrier: &mut dyn Carrier);
    /// A peer disconnected.
    fn peer_down(&mut self, now: Time, peer: Peer, carrier: &mut dyn Carrier);
    /// A frame from a peer.
    fn frame(&mut self, now: Time, from: Peer, data: &[u8], carrier: &mut dyn Carrier);
    /// This many frames have left the queue to a peer.
    fn left(&mut self, now: Time, peer: Peer, frames: u32, carrier: &mut dyn Carrier);
    /// A job ended.
    fn finished(
        &mut self,
        now: Time,
        job: JobId,
        outcome: Outcome<Product>,
        carrier: &mut dyn Carrier,
    );
    /// The protocol's verdict on a delivered message.
    fn verdict(&mut self, token: Token, verdict: Verdict, carrier: &mut dyn Carrier);
    /// The time returned by [`next_deadline`](Self::next_deadline) has come.
    fn deadline(&mut self, now: Time, carrier: &mut dyn Carrier);
    /// When [`deadline`](Self::deadline) is due.
    fn next_deadline(&self) -> Option<Time>;
    /// The counters.
    fn counts(&self) -> Counts;
    /// The last sources that signed something that is not a valid message.
    #[cfg(test)]
    fn blamed(&self) -> &VecDeque<Blamed>;
}

/// Broadcasts without peers, for the network of a protocol. `secret` must be known to no other node.
///
/// # Errors
/// If a network's messages or signatures are longer than a broadcast carries.
pub(crate) fn broadcasts(
    horn: &Horn,
    code: &Code,
    secret: [u8; 32],
) -> Result<Box<dyn Broadcasts>, ConfigError> {
    let payload_max = cast::config(horn).payload_bytes_max;
    Ok(match code {
        Code::Rs => Box::new(Cast::new(horn, Rs::new(payload_max), secret)?),
        Code::Rlnc(generators) => {
            let code = Ristretto::new(generators.clone(), payload_max);
            Box::new(Cast::new(horn, code, secret)?)
        }
    })
}

/// The broadcasts of a node in one code.
struct Cast<C: Coding> {
    machine: Broadcast<C>,
    format: WireFormat,
    clock: SlotClock,
    sources: Sources,
    peers: Peers,
    /// Own messages whose broadcast has not started: as many as the state machine accepts.
    own: Vec<(Subject, Topic, Bytes)>,
    /// Messages passed to the protocol, and the source to blame for each.
    awaited: BTreeMap<Token, Blamed>,
    token_next: u64,
    blamed: VecDeque<Blamed>,
    slot: Slot,
    counts: Counts,
}

impl<C: Coding> Broadcasts for Cast<C> {
    fn follow(&mut self, now: Time, horn: &Horn) {
        let slot = self.clock.slot_at(now).unwrap_or(Slot(0));
        if slot != self.slot {
            self.slot = slot;
            self.peers.begin_slot();
        }
        let sources = horn.sources();
        if !sources.is_same(&self.sources) {
            self.machine.set_schedule(Arc::new(sources.clone()));
            self.sources = sources;
        }
    }

    fn publish(&mut self, now: Time, topic: Topic, data: Bytes, carrier: &mut dyn Carrier) {
        let subject = subject(topic, &data, &self.format);
        let can = |subject: &Subject| {
            // A second message for one duty must not share the entry of the first, from which a failed broadcast is
            // gossiped.
            let begun = self.own.iter().any(|(other, ..)| other == subject);
            !begun && self.sources.is_scheduled(subject)
        };
        let Some(subject) = subject.filter(can) else {
            self.counts.gossiped += 1;
            return carrier.gossip(topic, data);
        };
        self.own.push((subject, topic, data.clone()));
        let payload = data;
        self.handle(now, Input::Publish { subject, payload }, carrier);
    }

    fn peer_up(&mut self, now: Time, peer: Peer, carrier: &mut dyn Carrier) {
        if let Some(peer) = self.peers.up(peer) {
            self.handle(now, Input::PeerUp { peer }, carrier);
        }
    }

    fn peer_down(&mut self, now: Time, peer: Peer, carrier: &mut dyn Carrier) {
        if let Some(peer) = self.peers.down(peer) {
            self.handle(now, Input::PeerDown { peer }, carrier);
        }
    }

    fn frame(&mut self, now: Time, from: Peer, data: &[u8], carrier: &mut dyn Carrier) {
        self.counts.frames[0] += 1;
        self.counts.frame_bytes[0] += data.len() as u64;
        let Some((from, link)) = self.peers.get_mut(from) else {
            self.counts.frames_dropped += 1;
            return;
        };
        let input = match self.machine.decode(from, data) {
            // Where commitments accompany a header, the duty is looked up before they are parsed.
            Ok(Message::Header(_)) | Err(Reject::NotScheduled)
                if link.unscheduled >= UNSCHEDULED_MAX =>
            {
                self.counts.frames_dropped += 1;
                return;
            }
            Ok(message) => Input::Message { from, message },
            Err(reason) => Input::Malformed { from, reason },
        };
        self.handle(now, input, carrier);
    }

    fn left(&mut self, now: Time, peer: Peer, frames: u32, carrier: &mut dyn Carrier) {
        let Some((peer, link)) = self.peers.get_mut(peer) else {
            return;
        };
        for _ in 0..link.left(frames) {
            self.handle(now, Input::SendReady { peer }, carrier);
        }
    }

    fn finished(
        &mut self,
        now: Time,
        job: JobId,
        outcome: Outcome<Product>,
        carrier: &mut dyn Carrier,
    ) {
        let input = Input::Finished {
            job: JobId(job.0 & !JOBS),
            product: job::product(outcome),
        };
        self.handle(now, input, carrier);
    }

    fn verdict(&mut self, token: Token, verdict: Verdict, carrier: &mut dyn Carrier) {
        if let Some(blamed) = self.awaited.remove(&token)
            && verdict == Verdict::Reject
        {
            self.blame(blamed, carrier);
        }
    }

    fn deadline(&mut self, now: Time, carrier: &mut dyn Carrier) {
        self.handle(now, Input::Deadline, carrier);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.machine.next_deadline()
    }

    fn counts(&self) -> Counts {
        let refused = self.machine.refused().reasons();
        let refused = refused.filter(|(_, count)| *count > 0);
        let named = |(name, count): (&str, u32)| (name.to_owned(), u64::from(count));
        Counts {
            refused: refused.map(named).collect(),
            ..self.counts.clone()
        }
    }

    #[cfg(test)]
    fn blamed(&self) -> &VecDeque<Blamed> {
        &self.blamed
    }
}

impl<C: Coding> Cast<C> {
    fn new(horn: &Horn, code: C, secret: [u8; 32]) -> Result<Self, ConfigError> {
        let config = cast::config(horn);
        config.validate()?;
        let sources = horn.sources();
        let peers = Peers::new(config.peers_max);
        let schedule = Arc::new(sources.clone());
        Ok(Cast {
            machine: Broadcast::new(code, Arc::new(config), schedule, secret),
            format: horn.format().clone(),
            clock: *horn.clock(),
            sources,
            peers,
            own: Vec::new(),
            awaited: BTreeMap::new(),
            token_next: TOKENS,
            blamed: VecDeque::new(),
            slot: Slot(0),
            counts: Counts::default(),
        })
    }

    fn handle(&mut self, now: Time, input: Input<C>, carrier: &mut dyn Carrier) {
        self.machine.handle(now, input);
        while let Some(output) = self.machine.poll_output() {
            self.carry_out(now, output, carrier);
        }
    }

    fn carry_out(&mut self, now: Time, output: Output<C>, carrier: &mut dyn Carrier) {
        match output {
            Output::Send {
                peer,
                message,
                priority,
                ..
            } => self.send(now, peer, &message, priority, carrier),
            Output::Cancel { peer, id } => {
                if let Some(link) = self.peers.link(peer) {
                    carrier.cancel_frames(link.peer, frame_id(&id, true));
                }
            }
            Output::Spawn { job, expires, work } => {
                let asked = job::Asked { job, expires, work };
                match asked.begin(now, self) {
                    Begun::Job(spawn) => carrier.run(spawn),
                    Begun::Ended(product) => {
                        // Not by `handle`: its loop called this, and polls what follows from it.
                        self.machine.handle(now, Input::Finished { job, product });
                    }
                }
            }
            Output::Deliver {
                id,
                subject,
                payload,
            } => self.deliver(&id, subject, payload, carrier),
            Output::Published { subject, .. } => {
                if let Some((.., data)) = self.take_own(&subject) {
                    self.counts.published += 1;
                    self.counts.payload_bytes[1] += data.len() as u64;
                }
            }
            // An own message that cannot be broadcast must not be lost.
            Output::Unpublished { subject, .. } => {
                if let Some((_, topic, data)) = self.take_own(&subject) {
                    self.counts.gossiped += 1;
                    carrier.gossip(topic, data);
                }
            }
            Output::Report { peer, reason } => self.report(peer, reason, carrier),
            Output::InvalidSource(convicted) => {
                let (subject, header) = (convicted.subject, convicted.header);
                self.blame(Blamed { subject, header }, carrier);
            }
            Output::Withheld { .. } => self.counts.withheld += 1,
            Output::Evidence { evidence, .. } => carrier.equivocated(evidence),
            Output::Progress { .. } => {}
        }
    }

    fn send(
        &mut self,
        now: Time,
        to: Peer,
        message: &Message<C>,
        priority: Priority,
        carrier: &mut dyn Carrier,
    ) {
        let is_piece = priority.is_piece();
        let Some(link) = self.peers.link_mut(to) else {
            return;
        };
        let Some(data) = self.machine.encode(message) else {
            // Its broadcast ended at the same instant.
            // Every piece that the state machine asks to send must end in one `SendReady`, or the peer's room in
            // flight is lost.
            if is_piece {
                self.machine.handle(now, Input::SendReady { peer: to });
            }
            return;
        };
        let bytes = data.len() as u64;
        let id = frame_id(&message.id(), is_piece);
        if carrier.send_frame(link.peer, id, data.into()) {
            link.sent(is_piece);
            self.counts.frames[1] += 1;
            self.counts.frame_bytes[1] += bytes;
        } else {
            link.dropped(is_piece);
            self.counts.frames_dropped += 1;
        }
    }

    fn take_own(&mut self, subject: &Subject) -> Option<(Subject, Topic, Bytes)> {
        let at = self.own.iter().position(|(own, ..)| own == subject)?;
        Some(self.own.swap_remove(at))
    }

    /// A payload is complete. Its contents must match its header.
    fn deliver(&mut self, id: &Id, subject: Subject, payload: Bytes, carrier: &mut dyn Carrier) {
        self.counts.delivered += 1;
        self.counts.payload_bytes[0] += payload.len() as u64;
        let header = self.machine.signed_header(id).unwrap_or_default();
        let blamed = Blamed { subject, header };
        let topic = match subject.kind {
            KIND_BLOCK => Topic::Block,
            KIND_COLLECTION => Topic::Collection,
            // No such duty is scheduled.
            _ => return,
        };
        if cast::subject(topic, &payload, &self.format) != Some(subject) {
            return self.blame(blamed, carrier);
        }
        let token = Token(self.token_next);
        self.token_next += 1;
        if self.awaited.len() >= AWAITED_MAX {
            // Tokens ascend, so this is the oldest. Its source is not blamed any more.
            self.awaited.pop_first();
        }
        self.awaited.insert(token, blamed);
        // Not the peer that sent the last piece: relays cannot know what the pieces add up to, and must not be blamed.
        let from = Peer(SOURCES | u64::from(subject.source));
        carrier.deliver(from, topic, token, payload);
    }

    fn blame(&mut self, blamed: Blamed, carrier: &mut dyn Carrier) {
        self.counts.sources_blamed += 1;
        carrier.blame_source(&blamed);
        if self.blamed.len() >= BLAMED_MAX {
            self.blamed.pop_front();
        }
        self.blamed.push_back(blamed);
    }

    fn report(&mut self, peer: Peer, reason: Reject, carrier: &mut dyn Carrier) {
        let Some(link) = self.peers.link_mut(peer) else {
            return;
        };
        if reason == Reject::NotScheduled {
            link.unscheduled += 1;
            return;
        }
        // Anything beyond a budget is dropped and counted: a slow node drops frames of honest peers, and has to have
        // them sent again.
        if reason.blame() == Blame::Ban {
            carrier.blame_peer(link.peer, reason, POINTS_BAN);
        }
    }
}

/// The number under which frames can be cancelled: pieces by their broadcast, others not.
fn frame_id(id: &Id, is_piece: bool) -> u64 {
    let (head, _) = id.0.split_first_chunk::<8>().expect("an id has 16 bytes");
    match is_piece {
        true => u64::from_le_bytes(*head),
        // Nothing cancels by this number: only pieces are taken back.
        false => 0,
    }
}
