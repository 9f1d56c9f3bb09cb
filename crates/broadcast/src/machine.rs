//! The node: its peers, its broadcasts, and the handling of inputs.

mod gate;
mod peers;
mod rejoin;
mod relay;
mod room;
mod send;
mod sink;
mod source;

use alphorn_scheme::{Bytes, JobId};
use alphorn_types::{Peer, Time};
use gate::Gate;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::Arc;

use super::config::{Config, Schedule};
use super::live::{Live, PeerIndex, memory_bytes};
use super::message::{Known, Message};
use super::orphans::Orphans;
use super::place::{self, Place};
use super::reject::{Refused, Reject};
use super::work::{Product, Work};
use super::{Input, Output, Priority, Step, Unpublished};
use crate::rlnc::{Coding, Header, Id, Published, Subject};

/// Number of ended broadcasts remembered, in multiples of `live_max`, so that a late piece is not an orphan, and
/// neither an old header nor another header of its subject opens a new broadcast.
const ENDED_PER_LIVE: usize = 4;
/// Maximum number of jobs per decoding or header: a job may be lost when a host is busy.
const TRIES_MAX: u8 = 4;
/// Placeholder for the sender of a piece when that peer is gone.
const NOBODY: PeerIndex = PeerIndex::MAX;

/// What a node knows about a peer, apart from its broadcasts.
#[derive(Clone, Copy, Debug, Default)]
struct PeerState {
    up: bool,
    /// Nothing is accepted from it or sent to it until it disconnects.
    banned: bool,
    /// Pieces in flight to it, and bytes of those that are not late.
    in_flight: u8,
    in_flight_bytes: u32,
    /// When these become late, see [`Config::sends_in_flight_ns`].
    late_at: Option<Time>,
    /// Number of its messages among the orphans.
    orphans: u8,
    notes: u8,
    /// This node's place in its order.
    place: Option<Place>,
    /// Number of its headers waiting for verification.
    headers: u8,
    /// Number of its headers that found no room since a broadcast ended or a peer left.
    found_none: u16,
}

/// A broadcast that has ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    id: Id,
    subject: Subject,
    /// It was only evicted, and may return when this many bytes are free.
    gave_way: Option<u64>,
}

/// A running job, and the purpose of its result.
#[derive(Debug)]
struct Pending<C: Coding> {
    seq: u64,
    task: Task<C>,
}

#[derive(Debug)]
enum Task<C: Coding> {
    Commit {
        subject: Subject,
    },
    Sign {
        id: Id,
        published: Box<Published<C>>,
    },
    Header {
        id: Id,
    },
    Verify {
        id: Id,
    },
    Recode {
        id: Id,
        peer: PeerIndex,
        hop: u8,
        rank: u16,
        priority: Priority,
    },
    Decode {
        id: Id,
    },
}

/// Source, sink and relay of all broadcasts of one code on one node; see the
/// [module](super).
///
/// # Panics
///
/// No message can make it panic. It allocates when a broadcast begins and for each new piece, but not for a piece that
/// is no longer needed.
pub struct Broadcast<C: Coding> {
    code: C,
    config: Arc<Config>,
    schedule: Arc<dyn Schedule>,
    secret: [u8; 32],
    /// The places assigned to the peers, by number.
    places: Vec<u16>,
    /// Randomness for decisions.
    rng: ChaCha20Rng,
    /// Randomness for the factors of combinations. Separate because codes consume different amounts, so that a model
    /// without data makes the same decisions as the real code.
    draws: ChaCha20Rng,
    ids: Vec<Id>,
    live: Vec<Live<C>>,
    peers: Vec<PeerState>,
    /// Bytes of pieces in flight to all peers that are not late.
    in_flight_bytes: u64,
    in_flight_bytes_max: u64,
    /// When the next of them become late; valid while there is no room for others.
    late_due: Time,
    jobs: Vec<Pending<C>>,
    jobs_begun: u64,
    gate: Gate<C>,
    orphans: Orphans<C>,
    ended: VecDeque<Ended>,
    refused: Refused,
    out: VecDeque<Output<C>>,
    /// Time of the last input.
    now: Time,
    /// Time of the next deadline, and whether it must be recomputed.
    due: Time,
    due_changed: bool,
    /// Whether something may now be sendable that was not before.
    wake: bool,
    /// Whose turn it is to send.
    turn: usize,
    /// A burst goes before the next answer.
    burst_next: bool,
}

impl<C: Coding> Broadcast<C> {
    /// Creates a node without peers. Nodes share the configuration and the table of duties. `secret` keys the weights
    /// of batches, the factors of combinations and the order of peers. It must be unpredictable to others (drawn at
    /// start by a node, derived from the run's seed by the simulator).
    ///
    /// # Panics
    ///
    /// If the configuration does not pass [`Config::validate`].
    pub fn new(
        code: C,
        config: Arc<Config>,
        schedule: Arc<dyn Schedule>,
        secret: [u8; 32],
    ) -> Broadcast<C> {
        assert_eq!(config.validate(), Ok(()), "configuration of the broadcast");
        // Different names make independent sequences of one secret.
        let sequence = |name: &[u8]| {
            let mut hash = Sha256::new();
            hash.update(name);
            hash.update(secret);
            ChaCha20Rng::from_seed(hash.finalize().into())
        };
        Broadcast {
            code,
            schedule,
            secret,
            places: place::deal(&secret, config.places),
            rng: sequence(b"alphorn/broadcast/chance"),
            draws: sequence(b"alphorn/broadcast/draws"),
            ids: Vec::new(),
            live: Vec::new(),
            peers: Vec::new(),
            in_flight_bytes: 0,
            in_flight_bytes_max: config.in_flight_bytes_max(),
            late_due: Time::MAX,
            jobs: Vec::new(),
            jobs_begun: 0,
            gate: Gate::default(),
            orphans: Orphans::default(),
            ended: VecDeque::new(),
            refused: Refused::default(),
            out: VecDeque::new(),
            now: Time::ZERO,
            due: Time::MAX,
            due_changed: false,
            wake: false,
            turn: 0,
            burst_next: false,
            config,
        }
    }

    /// Handles an input. Time never goes backwards.
    pub fn handle(&mut self, now: Time, input: Input<C>) {
        self.now = now;
        match input {
            Input::Message { from, message } => {
                if let Some(peer) = self.peer_index(from) {
                    self.on_message(now, peer, message);
                }
            }
            Input::SendReady { peer } => self.on_send_ready(peer),
            Input::Finished { job, product } => self.on_finished(now, job, product),
            Input::Deadline => self.on_deadline(now),
            Input::Malformed { from, reason } => {
                match self.peer_index(from) {
                    // A new peer receives all live headers at once, which are more than may wait, so honest peers
                    // exceed this budget.
                    Some(_) if reason == Reject::BudgetExceeded => self.refused.add(reason),
                    Some(peer) => self.refuse(peer, reason),
                    None => {}
                }
            }
            Input::PeerUp { peer } => self.on_peer_up(peer),
            Input::PeerDown { peer } => self.on_peer_down(peer),
            Input::Placed { peer, place } => self.on_placed(peer, place),
            Input::Publish { subject, payload } => self.on_publish(now, subject, payload),
        }
        // Once per input, after all that it changed: pieces drawn now mix everything received so far.
        if self.wake {
            self.wake = false;
            self.pump();
        }
        // Only when marked, because it visits every broadcast.
        if self.due_changed {
            self.due_changed = false;
            let lives = self.live.iter().map(|live| live.due()).min();
            self.due = lives.unwrap_or(Time::MAX).min(
                self.orphans
                    .due(self.config.orphan_ttl_ns, self.config.header_after_ns),
            );
        }
    }

    /// Returns the next effect, or none when all are drained.
    #[inline]
    pub fn poll_output(&mut self) -> Option<Output<C>> {
        self.out.pop_front()
    }

    /// Time at which [`Input::Deadline`] is due. Polled after each input.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        let due = self.due.min(self.late_due);
        (due != Time::MAX).then_some(due)
    }

    /// Decodes bytes from a peer for [`Input::Message`], within the peer's budget: points are expensive to decode, so
    /// the budget is checked first. Pass the result on before decoding the next message.
    ///
    /// # Errors
    ///
    /// For [`Input::Malformed`]: why the bytes are not a message, or not one allowed from this peer now.
    pub fn decode(&self, from: Peer, bytes: &[u8]) -> Result<Message<C>, Reject> {
        let Some(peer) = self.heard(from) else {
            return Err(Reject::Stranger);
        };
        let known = KnownTo { node: self, peer };
        Message::decode(bytes, &self.code, &self.config.limits, &known)
    }

    /// Encodes a message; none if its broadcast is over.
    pub fn encode(&self, message: &Message<C>) -> Option<Vec<u8>> {
        let header = match message {
            Message::Header(announce) => &announce.header,
            // The sender of an ASK has no header yet.
            Message::Ask { id } => return Some(Message::<C>::encode_ask(id)),
            other => self.header(&other.id())?,
        };
        Some(message.encode(&self.code, header))
    }

    /// Replaces the table of duties.
    pub fn set_schedule(&mut self, schedule: Arc<dyn Schedule>) {
        self.schedule = schedule;
    }

    /// Counts of rejections so far.
    pub fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Counters of a live broadcast.
    #[cfg(test)]
    pub(super) fn stats(&self, id: &Id) -> Option<&super::live::Stats> {
        self.find(id).map(|index| &self.live[index].stats)
    }

    /// The signed header of a live broadcast in wire form, for which its source is accountable.
    pub fn signed_header(&self, id: &Id) -> Option<Bytes> {
        let index = self.find(id)?;
        Some(self.live[index].announce.evidence())
    }

    /// The rank of each generation of a live broadcast.
    #[cfg(test)]
    pub(super) fn ranks(&self, id: &Id) -> Option<impl Iterator<Item = u16>> {
        let index = self.find(id)?;
        Some(self.live[index].flows.iter().map(|flow| flow.rank))
    }

    /// The live broadcasts.
    #[cfg(test)]
    pub(super) fn live_ids(&self) -> impl Iterator<Item = Id> {
        self.ids.iter().copied()
    }

    /// Number of live broadcasts, including second headers of their subjects.
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Maximum bytes kept for the live broadcasts and waiting headers, whatever peers send.
    pub fn memory_bytes(&self) -> u64 {
        let kept = self.live.iter().filter(|live| !live.convicted);
        let live: u64 = kept.map(|live| memory_bytes(&live.header)).sum();
        let auth_bytes_max = self.config.limits.header_auth_bytes_max;
        live + self.gate.memory_bytes(auth_bytes_max)
    }

    /// Number of waiting headers and of messages waiting for a header.
    pub fn waiting_count(&self) -> usize {
        self.gate.len() + self.orphans.len()
    }

    /// The code.
    pub fn code(&self) -> &C {
        &self.code
    }

    #[inline]
    fn find(&self, id: &Id) -> Option<usize> {
        self.ids.iter().position(|other| other == id)
    }

    #[inline]
    fn on_message(&mut self, now: Time, from: PeerIndex, message: Message<C>) {
        match message {
            Message::Piece {
                id,
                piece,
                wire_bytes,
            } => match self.find(&id) {
                Some(index) => self.on_piece(index, from, piece),
                None => {
                    let message = Message::Piece {
                        id,
                        piece,
                        wire_bytes,
                    };
                    self.orphan(now, from, message);
                }
            },
            Message::Header(announce) => self.on_header(now, from, announce),
            Message::Ask { id } => match self.find(&id) {
                Some(index) => self.on_ask(index, from),
                None => self.refused.add(Reject::UnknownId),
            },
            other => match self.find(&other.id()) {
                Some(index) => self.on_control(now, index, from, other),
                None => self.orphan(now, from, other),
            },
        }
    }

    /// Handles a message of a live broadcast that is neither a header nor a piece.
    fn on_control(&mut self, now: Time, index: usize, from: PeerIndex, message: Message<C>) {
        let live = &mut self.live[index];
        // Whatever it says, a peer that speaks of the broadcast knows its header.
        live.spoke(from);
        match message {
            Message::Done { .. } => self.on_done(index, from),
            Message::Rank { ranks, .. } => self.on_rank(index, from, &ranks),
            Message::Need {
                generation, want, ..
            } => self.on_need(index, from, generation, &want),
            Message::Commits {
                generation,
                commitments,
                ..
            } => self.on_commits(index, from, generation, commitments),
            Message::Unread(unread) => match unread.read(&self.code, self) {
                Ok(message) => self.on_message(now, from, message),
                Err(reason) => self.refuse(from, reason),
            },
            // Handled above.
            Message::Header(_) | Message::Piece { .. } | Message::Ask { .. } => {}
        }
    }

    /// Keeps a message until its header arrives, if it still may and there is room.
    fn orphan(&mut self, now: Time, from: PeerIndex, message: Message<C>) {
        if let Err(reason) = self.may_come(&message.id()) {
            return self.refused.add(reason);
        }
        let peer = &mut self.peers[usize::from(from)];
        if Orphans::is_note(&message) {
            return self.orphans.note(from, now, message, &mut peer.notes);
        }
        if peer.orphans >= self.config.orphans_peer_max {
            return self.refused.add(Reject::OrphanFull);
        }
        peer.orphans += 1;
        self.orphans.keep(from, now, message);
        self.due_changed = true;
        self.refused.add(Reject::UnknownId);
        let (peers, gate) = (&self.peers, &self.gate);
        let held = |peer| peers[usize::from(peer)].orphans;
        let announced = |id: &Id| gate.header(id).is_some();
        // The new message takes part: it may be the one that goes.
        let shed = self.orphans.shed(self.config.orphans_max, held, announced);
        if let Some(from) = shed {
            self.peers[usize::from(from)].orphans -= 1;
            self.refused.add(Reject::OrphanFull);
        }
    }

    /// Passes the messages that waited for a header to its broadcast.
    fn adopt(&mut self, now: Time, id: &Id) {
        let peers = &mut self.peers;
        let adopted = self.orphans.take(id, |from, note| {
            let peer = &mut peers[usize::from(from)];
            if note {
                peer.notes -= 1;
            } else {
                peer.orphans -= 1;
            }
        });
        for (from, message) in adopted {
            // An earlier message of the same peer may have caused a ban.
            if !self.peers[usize::from(from)].banned {
                self.on_message(now, from, message);
            }
        }
    }

    fn spawn(&mut self, expires: Time, task: Task<C>, work: Work<C>) -> u64 {
        self.jobs_begun += 1;
        let seq = self.jobs_begun;
        self.jobs.push(Pending { seq, task });
        self.out.push_back(Output::Spawn {
            job: JobId(seq),
            expires,
            work: Box::new(work),
        });
        seq
    }

    fn on_finished(&mut self, now: Time, job: JobId, product: Option<Product<C>>) {
        let Some(at) = self.jobs.iter().position(|pending| pending.seq == job.0) else {
            return self.refused.add(Reject::LateResult);
        };
        let pending = self.jobs.swap_remove(at);
        match pending.task {
            Task::Commit { subject } => self.on_committed(now, subject, product),
            Task::Sign { id, published } => self.on_signed(now, id, *published, product),
            Task::Header { id } => self.on_header_checked(now, &id, product),
            Task::Verify { id } => match self.find(&id) {
                Some(index) => self.on_verified(now, index, pending.seq, product),
                None => self.refused.add(Reject::LateResult),
            },
            Task::Decode { id } => match self.find(&id) {
                Some(index) => self.on_decoded(now, index, product),
                None => self.refused.add(Reject::LateResult),
            },
            Task::Recode {
                id,
                peer,
                hop,
                rank,
                priority,
            } => self.on_drawn(&id, peer, hop, rank, priority, product),
        }
    }

    fn on_deadline(&mut self, now: Time) {
        self.due_changed = true;
        self.forget_late(now);
        let (peers, ttl_ns) = (&mut self.peers, self.config.orphan_ttl_ns);
        self.orphans
            .expire(now, ttl_ns, |from| peers[usize::from(from)].orphans -= 1);
        self.ask_for_headers(now);
        // Backwards, because `expire` moves the last broadcast, which has had its turn by then, into the gap.
        for index in (0..self.live.len()).rev() {
            let live = &self.live[index];
            if live.due() > now {
                continue;
            }
            if live.expires <= now {
                self.expire(index);
                continue;
            }
            if live.burst_at <= now {
                self.end_gathering(index);
            }
            if self.live[index].rank_at <= now {
                self.send_ranks(now, index);
            }
            if self.live[index].need_at <= now {
                self.ask(now, index);
            }
            if self.live[index].decode_at <= now {
                self.decode_payload(index);
            }
        }
    }

    /// Ends a broadcast whose time is over.
    fn expire(&mut self, index: usize) {
        let live = &self.live[index];
        if !live.is_full() && !live.convicted {
            self.out.push_back(Output::Withheld {
                id: live.id,
                subject: live.header.subject,
                header: live.announce.evidence(),
            });
        }
        self.close(index, None);
        self.room_may_be_found();
    }

    /// Ends a broadcast and frees everything it holds. If it was evicted and may return, `gave_way` is the number of
    /// bytes it needs.
    fn close(&mut self, index: usize, gave_way: Option<u64>) {
        // Both lists change in the same way: `find` searches one and indexes the other.
        self.ids.swap_remove(index);
        let live = self.live.swap_remove(index);
        self.remember(Ended {
            id: live.id,
            subject: live.header.subject,
            gave_way,
        });
        self.progress(live.id, Step::Expired);
        self.due_changed = true;
    }

    fn progress(&mut self, id: Id, step: Step) {
        self.out.push_back(Output::Progress { id, step });
    }

    fn unpublished(&mut self, subject: Subject, why: Unpublished) {
        self.out.push_back(Output::Unpublished { subject, why });
    }
}

impl<C: Coding> Known for Broadcast<C> {
    fn header(&self, id: &Id) -> Option<&Header> {
        let live = self.find(id).map(|index| &*self.live[index].header);
        live.or_else(|| self.gate.header(id))
    }

    fn has_commitments(&self, id: &Id, generation: u16) -> bool {
        let live = self.find(id).map(|index| &self.live[index]);
        let flow = live.and_then(|live| live.flows.get(usize::from(generation)));
        flow.is_some_and(|flow| flow.commitments.is_some())
    }

    fn is_verified(&self, id: &Id) -> bool {
        self.find(id).is_some()
    }

    fn admits(&self, header: &Header) -> Result<(), Reject> {
        self.check_header(header, NOBODY)
    }
}

/// What a node knows, as seen when decoding a message from one of its peers.
struct KnownTo<'a, C: Coding> {
    node: &'a Broadcast<C>,
    peer: PeerIndex,
}

impl<C: Coding> Known for KnownTo<'_, C> {
    fn header(&self, id: &Id) -> Option<&Header> {
        self.node.header(id)
    }

    fn has_commitments(&self, id: &Id, generation: u16) -> bool {
        self.node.has_commitments(id, generation)
    }

    fn is_verified(&self, id: &Id) -> bool {
        self.node.is_verified(id)
    }

    fn admits(&self, header: &Header) -> Result<(), Reject> {
        self.node.check_header(header, self.peer)?;
        self.node.check_budget(self.peer, header)
    }
}
