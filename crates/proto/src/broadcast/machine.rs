//! The node: its peers, its broadcasts, and what happens to them.

mod gate;
mod peers;
mod rejoin;
mod relay;
mod room;
mod send;
mod sink;
mod source;

use super::config::{Config, Schedule};
use super::live::{Live, PeerIndex, memory_bytes};
use super::message::{Known, Message};
use super::orphans::Orphans;
use super::place::{self, Place};
use super::reject::{Refused, Reject};
use super::work::{Product, Work};
use super::{Input, Output, Priority, Step, Unpublished};
use crate::Peer;
use crate::rlnc::{Coding, Header, Id, Published, Subject};
use alphorn_scheme::{Bytes, JobId};
use alphorn_types::Time;
use gate::Gate;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::Arc;

/// Broadcasts that ended and are remembered, in multiples of `live_max`, so that a late piece is no
/// orphan, and that neither an old header nor another one of its subject opens anything.
const ENDED_PER_LIVE: usize = 4;
/// Jobs of one decoding or one header at most: a job may be lost where a machine is busy.
const TRIES_MAX: u8 = 4;
/// No peer: of a piece whose sender is gone.
const NOBODY: PeerIndex = PeerIndex::MAX;

/// What a node knows of a peer beside its broadcasts.
#[derive(Clone, Copy, Debug, Default)]
struct PeerState {
    up: bool,
    /// Nothing is taken from it and nothing sent to it until it is gone.
    banned: bool,
    /// Pieces on the way to it, and bytes of those that are not late.
    in_flight: u8,
    in_flight_bytes: u32,
    /// When they are late, see [`Config::sends_in_flight_ns`].
    late_at: Option<Time>,
    /// What it has among the orphans.
    orphans: u8,
    notes: u8,
    /// Where this node stands in its order.
    place: Option<Place>,
    /// Headers of it that wait for verification.
    headers: u8,
    /// Headers of it that found no room since a broadcast ended or a peer left.
    found_none: u16,
}

/// A broadcast that ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    id: Id,
    subject: Subject,
    /// It only gave way to others, and comes back where there is room for so many bytes.
    gave_way: Option<u64>,
}

/// A job that runs, and what its result is for.
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
/// No message makes it panic. It allocates when a broadcast begins and for each new piece, not when
/// a piece comes that is not needed any more.
pub struct Broadcast<C: Coding> {
    code: C,
    config: Arc<Config>,
    schedule: Arc<dyn Schedule>,
    secret: [u8; 32],
    /// The places that are dealt to the peers, by number.
    places: Vec<u16>,
    /// What is decided by chance.
    rng: ChaCha20Rng,
    /// Factors of combinations. Apart, because codes take different amounts: so a model without data
    /// decides what the real code decides.
    draws: ChaCha20Rng,
    ids: Vec<Id>,
    live: Vec<Live<C>>,
    peers: Vec<PeerState>,
    /// Bytes of pieces on the way to all peers that are not late.
    in_flight_bytes: u64,
    in_flight_bytes_max: u64,
    /// When the next are, while there is no room for others.
    late_due: Time,
    jobs: Vec<Pending<C>>,
    jobs_begun: u64,
    gate: Gate<C>,
    orphans: Orphans<C>,
    ended: VecDeque<Ended>,
    refused: Refused,
    out: VecDeque<Output<C>>,
    /// The time of the last input.
    now: Time,
    /// When the next deadline is, and whether it has to be looked for.
    due: Time,
    due_changed: bool,
    /// Whether something may be sent that could not before.
    wake: bool,
    /// Whose turn it is to send.
    turn: usize,
    /// A burst comes before the next answer.
    burst_next: bool,
}

impl<C: Coding> Broadcast<C> {
    /// A node without peers. Nodes share the configuration and the table of duties. `secret` keys the
    /// weights of batches, the factors of combinations and the order of peers: nobody else may be
    /// able to predict it (drawn at start by a node, from the seed of the run by the simulator).
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

    /// Takes an input. Time never goes back.
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
                    // All headers that are alive go to a new peer at once, which are more than may wait:
                    // honest peers send them.
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
        if self.wake {
            self.wake = false;
            self.pump();
        }
        if self.due_changed {
            self.due_changed = false;
            let lives = self.live.iter().map(|live| live.due()).min();
            self.due = lives.unwrap_or(Time::MAX).min(
                self.orphans
                    .due(self.config.orphan_ttl_ns, self.config.header_after_ns),
            );
        }
    }

    /// The next effect, none when all are drained.
    #[inline]
    pub fn poll_output(&mut self) -> Option<Output<C>> {
        self.out.pop_front()
    }

    /// When [`Input::Deadline`] is due; pulled after each input.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        let due = self.due.min(self.late_due);
        (due != Time::MAX).then_some(due)
    }

    /// Reads bytes of a peer, for [`Input::Message`], as far as the peer may have them read: points are
    /// dear to decode, so its budget is looked at before. To be handed in before the next is read.
    ///
    /// # Errors
    ///
    /// Why they are no message, or not one of this peer now, for [`Input::Malformed`].
    pub fn decode(&self, from: Peer, bytes: &[u8]) -> Result<Message<C>, Reject> {
        let Some(peer) = self.heard(from) else {
            return Err(Reject::Stranger);
        };
        let known = KnownTo { node: self, peer };
        Message::decode(bytes, &self.code, &self.config.limits, &known)
    }

    /// The bytes of a message; none if its broadcast is over.
    pub fn encode(&self, message: &Message<C>) -> Option<Vec<u8>> {
        let header = match message {
            Message::Header(announce) => &announce.header,
            // Who asks has no header yet.
            Message::Ask { id } => return Some(Message::<C>::encode_ask(id)),
            other => self.header(&other.id())?,
        };
        Some(message.encode(&self.code, header))
    }

    /// Replaces the table of duties.
    pub fn set_schedule(&mut self, schedule: Arc<dyn Schedule>) {
        self.schedule = schedule;
    }

    /// What was refused so far.
    pub fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Counts of a live broadcast.
    #[cfg(test)]
    pub(super) fn stats(&self, id: &Id) -> Option<&super::live::Stats> {
        self.find(id).map(|index| &self.live[index].stats)
    }

    /// The signed header of a live broadcast as it is on the wire: what its source answers for.
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

    /// The broadcasts that are alive.
    #[cfg(test)]
    pub(super) fn live_ids(&self) -> impl Iterator<Item = Id> {
        self.ids.iter().copied()
    }

    /// How many broadcasts are alive, second headers of their subjects among them.
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// The most bytes that is kept of the broadcasts that are alive and of headers that wait, whatever
    /// peers send.
    pub fn memory_bytes(&self) -> u64 {
        let kept = self.live.iter().filter(|live| !live.convicted);
        let live: u64 = kept.map(|live| memory_bytes(&live.header)).sum();
        let auth_bytes_max = self.config.limits.header_auth_bytes_max;
        live + self.gate.memory_bytes(auth_bytes_max)
    }

    /// Headers and messages without header that wait.
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

    /// A message of a broadcast that is alive, and neither a header nor a piece.
    fn on_control(&mut self, now: Time, index: usize, from: PeerIndex, message: Message<C>) {
        let live = &mut self.live[index];
        live.spoke(from);
        match message {
            Message::Done { .. } => self.on_done(index, from),
            Message::Rank { ranks, .. } => self.on_rank(index, from, &ranks),
            Message::Need {
                generation, want, ..
            } => self.on_need(index, from, generation, &want),
            Message::Commits {
                generation, anchor, ..
            } => self.on_commits(index, from, generation, anchor),
            Message::Unread(unread) => match unread.read(&self.code, self) {
                Ok(message) => self.on_message(now, from, message),
                Err(reason) => self.refuse(from, reason),
            },
            // Handled before.
            Message::Header(_) | Message::Piece { .. } | Message::Ask { .. } => {}
        }
    }

    /// Keeps a message until its header comes, if it may still come and there is room.
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
        let shed = self.orphans.shed(self.config.orphans_max, held, announced);
        if let Some(from) = shed {
            self.peers[usize::from(from)].orphans -= 1;
            self.refused.add(Reject::OrphanFull);
        }
    }

    /// Hands the messages that waited for a header to its broadcast.
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
            // An earlier one of the same peer may have had it banned.
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

    /// The time of a broadcast is over.
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

    /// Ends a broadcast and frees all that it holds; where it gave way and may come back, with the bytes
    /// that it needs.
    fn close(&mut self, index: usize, gave_way: Option<u64>) {
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

/// A number below `bound`, even enough: bounds here are below 2^16, so the bias is below 2^-16.
fn below(bound: usize, rng: &mut ChaCha20Rng) -> usize {
    ((u64::from(rng.next_u32()) * bound as u64) >> 32) as usize
}

pub(super) fn shuffle<T>(items: &mut [T], rng: &mut ChaCha20Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last + 1, rng));
    }
}

impl<C: Coding> Known for Broadcast<C> {
    fn header(&self, id: &Id) -> Option<&Header> {
        let live = self.find(id).map(|index| &*self.live[index].header);
        live.or_else(|| self.gate.header(id))
    }

    fn has_anchor(&self, id: &Id, generation: u16) -> bool {
        let live = self.find(id).map(|index| &self.live[index]);
        let flow = live.and_then(|live| live.flows.get(usize::from(generation)));
        flow.is_some_and(|flow| flow.anchor.is_some())
    }

    fn is_verified(&self, id: &Id) -> bool {
        self.find(id).is_some()
    }

    fn admits(&self, header: &Header) -> Result<(), Reject> {
        self.check_header(header, NOBODY)
    }
}

/// What a node knows, for reading what one of its peers sent.
struct KnownTo<'a, C: Coding> {
    node: &'a Broadcast<C>,
    peer: PeerIndex,
}

impl<C: Coding> Known for KnownTo<'_, C> {
    fn header(&self, id: &Id) -> Option<&Header> {
        self.node.header(id)
    }

    fn has_anchor(&self, id: &Id, generation: u16) -> bool {
        self.node.has_anchor(id, generation)
    }

    fn is_verified(&self, id: &Id) -> bool {
        self.node.is_verified(id)
    }

    fn admits(&self, header: &Header) -> Result<(), Reject> {
        self.node.check_header(header, self.peer)?;
        self.node.check_budget(self.peer, header)
    }
}
