//! The mesh: membership, forwarding and requests.

mod beat;
mod control;
mod history;
mod peer;
mod penalty;

use super::inbox::Inbox;
use super::peers::Draw;
use super::{
    Config, DenseId, Duplicates, Ids, Input, Machine, Mark, Message, Output, PEERS_MAX, Payload,
    PeerSet, Priority, Refused, Reject, SeenBits,
};
use alphorn_proto::{Peer, Token, Verdict};
use alphorn_types::Time;
use history::History;
use peer::PeerState;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Time in nanoseconds after a PRUNE in which neither side grafts.
const BACKOFF_NS: u64 = 60_000_000_000;
/// Time in nanoseconds in which a request must be answered before another peer is asked.
const PROMISE_NS: u64 = 3_000_000_000;

/// Note attached to a message that waits for a verdict.
#[derive(Clone, Copy, Debug)]
struct Note {
    /// Peers that sent it; all are accountable for it.
    senders: PeerSet,
    /// Peers that have it or do not want it.
    has: PeerSet,
    /// Peer whose share of the waiting messages it uses.
    owner: Peer,
}

/// The state that a duplicate touches. Most messages are duplicates; with numbers as identities this
/// is one cache line, so a simulated network of 10^4 nodes stays in a core's cache.
#[derive(Debug)]
#[repr(C)]
struct Hot {
    /// Peers that are connected and not graylisted.
    taken: PeerSet,
    /// Time of the next heartbeat; [`Time::MAX`] = never.
    due: Time,
    duplicate_bytes: u64,
    duplicates: u32,
    /// Whether any messages are waiting for a verdict.
    waiting: bool,
    /// Whether any outputs are waiting to be polled.
    output: bool,
    seen: SeenBits,
}

impl Hot {
    #[inline]
    fn count_duplicate(&mut self, bytes: u64) {
        self.duplicates = self.duplicates.saturating_add(1);
        self.duplicate_bytes = self.duplicate_bytes.saturating_add(bytes);
    }
}

/// What is known of a message that has not arrived yet.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// Peers that have it or do not want it.
    has: PeerSet,
    /// Peer whose share of these records it uses.
    owner: Peer,
    /// Peer that was asked for it, and the deadline of the request.
    asked: Option<(Peer, Time)>,
    /// Heartbeat of the last update.
    beat: u32,
}

/// GossipSub's mesh for one topic on one node; see the [module](super).
///
/// # Panics
///
/// No input causes a panic. Memory is allocated for a new peer, a kept message or an announcement,
/// but not for a duplicate.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Gossip<P> {
    hot: Hot,
    rest: Box<Rest<P>>,
}

/// State that a duplicate does not touch. It is stored elsewhere, so that the state machines of many
/// consecutive nodes take little space and duplicates touch few pages.
#[derive(Debug)]
struct Rest<P> {
    /// Connected peers.
    up: PeerSet,
    mesh: PeerSet,
    /// Peers with a penalty; none is in the mesh.
    penalised: PeerSet,
    /// Peers that are neither sent announcements nor listened to.
    quiet: PeerSet,
    /// Peers to which own messages are not sent.
    unserved: PeerSet,
    /// Number of the current heartbeat interval, and its end.
    beat: u32,
    beat_end: Time,
    inbox: Inbox<P, Note>,
    refused: Refused,
    draw: Draw,
    out: VecDeque<Output<P>>,
    history: History<P>,
    ahead: BTreeMap<DenseId, Ahead>,
    peers: Vec<PeerState>,
    /// Nanoseconds by which this node's heartbeats are early, so that nodes do not all beat together.
    phase_ns: u64,
    config: Arc<Config>,
}

impl<P: Payload> Gossip<P> {
    /// A node without peers. Nodes share the configuration; each has its own `seed`, which keys its
    /// random choices and the phase of its heartbeats.
    ///
    /// # Panics
    ///
    /// If the configuration fails [`Config::check`].
    pub(crate) fn new(config: Arc<Config>, seed: u64) -> Self {
        assert_eq!(config.check(), Ok(()), "configuration of the mesh");
        let mut draw = Draw::new(seed);
        let phase_ns = draw.next() % config.heartbeat_ns;
        Self {
            hot: Hot {
                taken: PeerSet::EMPTY,
                due: Time::MAX,
                duplicate_bytes: 0,
                duplicates: 0,
                waiting: false,
                output: false,
                seen: SeenBits::default(),
            },
            rest: Box::new(Rest {
                up: PeerSet::EMPTY,
                mesh: PeerSet::EMPTY,
                penalised: PeerSet::EMPTY,
                quiet: PeerSet::EMPTY,
                unserved: PeerSet::EMPTY,
                beat: 0,
                beat_end: Time::ZERO,
                inbox: Inbox::default(),
                refused: Refused::default(),
                draw,
                out: VecDeque::new(),
                history: History::default(),
                ahead: BTreeMap::new(),
                peers: Vec::new(),
                phase_ns,
                config,
            }),
        }
    }

    /// Adds connected peers to the mesh without a GRAFT. The mesh was agreed on by both ends
    /// beforehand, for a simulation that should not start with mesh formation.
    pub(crate) fn adopt(&mut self, peers: PeerSet) {
        self.rest.mesh = self
            .rest
            .mesh
            .or(peers.and(self.hot.taken).minus(self.rest.penalised));
        // Each PEER_UP has woken the node to fill its mesh. With the mesh given there is nothing left to do, so
        // the heartbeat is called off.
        let complete = self.rest.mesh.len() >= usize::from(self.rest.config.degree_low);
        let idle = self.rest.history.is_empty()
            && self.rest.ahead.is_empty()
            && self.rest.penalised.is_empty();
        if complete && idle {
            self.hot.due = Time::MAX;
        }
    }

    /// The peers in the mesh.
    #[cfg(test)]
    pub(crate) fn mesh(&self) -> PeerSet {
        self.rest.mesh
    }

    /// The connected peers.
    #[cfg(test)]
    pub(crate) fn peers(&self) -> PeerSet {
        self.rest.up
    }

    /// Penalty of a peer, in points of [`Reject::penalty`].
    #[cfg(test)]
    pub(crate) fn penalty(&self, peer: Peer) -> u16 {
        let state = self.rest.peers.get(peer.0 as usize);
        state.map_or(0, |state| state.penalty)
    }
}

impl<P: Payload> Machine<P> for Gossip<P> {
    fn refused(&self) -> &Refused {
        &self.rest.refused
    }

    fn duplicates(&self) -> Duplicates {
        Duplicates {
            bytes: self.hot.duplicate_bytes,
            count: self.hot.duplicates,
        }
    }

    #[inline]
    fn handle(&mut self, now: Time, input: Input<P>) {
        // A duplicate is handled before the heartbeat interval is even looked at: it changes nothing that
        // depends on the interval, and `beat_end` would cost another cache line.
        if let Input::Message { from, message } = &input
            && self.absorb(*from, message)
        {
            return;
        }
        // Inputs come at any time, and heartbeats only when needed. Entering the interval here keeps `beat` and
        // the budgets current even if no heartbeat was due for long.
        if now >= self.rest.beat_end {
            self.enter_beat(now);
        }
        match input {
            Input::Message { from, message } => self.message(now, from, message),
            Input::Verdict { token, verdict } => self.verdict(token, verdict),
            Input::Publish { id, payload } => self.publish(now, id, payload),
            Input::Deadline if now >= self.hot.due => self.heartbeat(now),
            Input::Deadline => {}
            Input::PeerUp { peer } => self.peer_up(peer),
            Input::PeerDown { peer } => self.peer_down(peer),
        }
    }

    #[inline]
    fn absorb(&mut self, from: Peer, message: &Message<P>) -> bool {
        let Message::Data { id, payload } = message else {
            return false;
        };
        let copy = self.hot.taken.contains(from) && self.hot.seen.contains(id);
        if copy {
            self.duplicate(from, id, payload.wire_bytes());
        }
        copy
    }

    #[inline]
    fn poll_output(&mut self) -> Option<Output<P>> {
        if !self.hot.output {
            return None;
        }
        let output = self.rest.out.pop_front();
        if self.rest.out.is_empty() {
            self.hot.output = false;
            // Place the next output at the front of the buffer, which is cached.
            self.rest.out.clear();
        }
        output
    }

    /// When [`Input::Deadline`] is due; none while there is nothing to announce, expire or repair.
    #[inline]
    fn next_deadline(&self) -> Option<Time> {
        (self.hot.due != Time::MAX).then_some(self.hot.due)
    }
}

impl<P: Payload> Gossip<P> {
    #[inline]
    fn message(&mut self, now: Time, from: Peer, message: Message<P>) {
        if !self.admits(from) {
            return;
        }
        match message {
            Message::Data { id, payload } => self.first(now, from, id, payload),
            Message::IDontWant(ids) => self.refused_ahead(from, &ids),
            Message::IHave(ids) => self.announced(now, from, &ids),
            Message::IWant(ids) => self.requested(from, &ids),
            Message::Graft => self.graft(now, from),
            Message::Prune => self.prune(now, from),
            Message::Relay { .. } => self.misbehaves(from, Reject::Unexpected),
        }
    }

    /// Whether messages of the peer are accepted; counts a rejection if not.
    #[inline]
    fn admits(&mut self, from: Peer) -> bool {
        let admits = self.hot.taken.contains(from);
        if !admits {
            let graylisted = self.rest.up.contains(from);
            self.rest.refused.add(match graylisted {
                true => Reject::Graylisted,
                false => Reject::Stranger,
            });
        }
        admits
    }

    /// Handles a copy of a message already received.
    #[inline]
    fn duplicate(&mut self, from: Peer, id: &DenseId, bytes: u64) {
        self.hot.count_duplicate(bytes);
        // All who send a message before the verdict are accountable for it, not only the fastest. Otherwise an
        // invalid message costs its spreaders nothing as long as somebody else was first.
        if self.hot.waiting
            && let Some(note) = self.rest.inbox.find(id)
        {
            let sender = PeerSet::one(from);
            note.senders = note.senders.or(sender);
            note.has = note.has.or(sender);
        }
    }

    /// Handles a message received for the first time.
    fn first(&mut self, now: Time, from: Peer, id: DenseId, payload: P) {
        if self.waits_full(from) {
            // Not remembered, so that another peer can send it later.
            return self.rest.refused.add(Reject::WaitingFull);
        }
        // Marked before validation: the copies that arrive until the verdict are duplicates and not validated
        // again.
        if self.hot.seen.insert(now, id) == Mark::Beyond {
            return self.misbehaves(from, Reject::Beyond);
        }
        let sender = PeerSet::one(from);
        let has = sender.or(self.arrived(now, from, &id));
        self.refuse_copies(self.rest.mesh.minus(sender), id, &payload);
        if !self.rest.config.validate {
            return self.accept(id, payload, has);
        }
        self.hot.waiting = true;
        let note = Note {
            senders: sender,
            has,
            owner: from,
        };
        let token = self.rest.inbox.wait(id, payload.clone(), note);
        self.emit(Output::Validate { token, id, payload });
    }

    /// Whether the peer may not add another waiting message. Once half of the slots are taken, a peer
    /// has no more than its share.
    #[inline]
    fn waits_full(&self, from: Peer) -> bool {
        let (waiting, max) = (
            self.rest.inbox.len(),
            usize::from(self.rest.config.waiting_max),
        );
        // With half of the slots free nobody is crowded out, and counting a share scans all notes.
        if waiting < max / 2 {
            return false;
        }
        let share = self
            .rest
            .inbox
            .notes()
            .filter(|note| note.owner == from)
            .count();
        waiting >= max || share >= usize::from(self.rest.config.waiting_peer_max)
    }

    /// Notifies peers that they need not send copies of a large message. This happens before it is
    /// even validated, because the copies would be in flight by then.
    fn refuse_copies(&mut self, to: PeerSet, id: DenseId, payload: &P) {
        let large = self.rest.config.refuse_above_bytes;
        if large.is_some_and(|bytes| payload.wire_bytes() > bytes) {
            self.send(to, Message::IDontWant(Ids::one(id)), Priority::Control);
        }
    }

    fn verdict(&mut self, token: Token, verdict: Verdict) {
        let Some((id, payload, note)) = self.rest.inbox.take(token) else {
            return self.rest.refused.add(Reject::UnknownToken);
        };
        self.hot.waiting = self.rest.inbox.len() > 0;
        match verdict {
            // The note collected peers that sent a copy or declined one while the message waited; they are
            // spared another copy.
            Verdict::Accept => self.accept(id, payload, note.has),
            // Neither forwarded nor held against the senders; it stays marked as seen, so copies are not
            // validated again.
            Verdict::Ignore => {}
            Verdict::Reject => {
                // Senders that have left meanwhile have no state to penalise.
                for peer in note.senders.and(self.rest.up).iter() {
                    self.misbehaves(peer, Reject::Invalid);
                }
            }
        }
    }

    fn accept(&mut self, id: DenseId, payload: P, has: PeerSet) {
        let message = Message::Data {
            id,
            payload: payload.clone(),
        };
        self.send(self.rest.mesh.minus(has), message, Priority::Forward);
        self.keep(id, payload.clone());
        self.emit(Output::Deliver { id, payload });
    }

    fn publish(&mut self, now: Time, id: DenseId, payload: P) {
        match self.hot.seen.insert(now, id) {
            Mark::New => {}
            Mark::Known => return self.hot.count_duplicate(payload.wire_bytes()),
            Mark::Beyond => return self.rest.refused.add(Reject::Beyond),
        }
        self.refuse_copies(self.rest.mesh, id, &payload);
        let served = self.hot.taken.minus(self.rest.unserved);
        let to = if self.rest.config.flood_publish {
            served
        } else {
            // Help a mesh that is still small, or the message may not leave the node.
            let missing = usize::from(self.rest.config.degree).saturating_sub(self.rest.mesh.len());
            let helpers = self.rest.draw.pick(served.minus(self.rest.mesh), missing);
            self.rest.mesh.or(helpers)
        };
        let message = Message::Data {
            id,
            payload: payload.clone(),
        };
        self.send(to, message, Priority::Own);
        self.keep(id, payload);
    }

    fn keep(&mut self, id: DenseId, payload: P) {
        self.rest
            .history
            .push(id, payload, self.rest.beat, &self.rest.config);
        self.wake();
    }

    fn send(&mut self, to: PeerSet, message: Message<P>, priority: Priority) {
        if !to.is_empty() {
            let to = self.rest.draw.turn(to);
            self.emit(Output::Send {
                to,
                message,
                priority,
            });
        }
    }

    #[inline]
    fn emit(&mut self, output: Output<P>) {
        self.hot.output = true;
        self.rest.out.push_back(output);
    }

    /// Schedules a heartbeat at the end of the current interval.
    #[inline]
    fn wake(&mut self) {
        self.hot.due = self.hot.due.min(self.rest.beat_end);
    }

    fn enter_beat(&mut self, now: Time) {
        let interval = u128::from(self.rest.config.heartbeat_ns);
        let phase = u128::from(self.rest.phase_ns);
        // Wide integers, because a time near the maximum plus the phase would overflow; a time after the last
        // interval saturates to "never".
        let beat = (u128::from(now.as_nanos()) + phase) / interval;
        let end = (beat + 1) * interval - phase;
        self.rest.beat = u32::try_from(beat).unwrap_or(u32::MAX);
        self.rest.beat_end = u64::try_from(end).map_or(Time::MAX, Time::from_nanos);
    }
}

const _: () = assert!(PEERS_MAX <= u8::MAX as usize, "a peer's number is a byte");

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as its content, and as large in memory as real published messages.
    type Bytes = Arc<[u8]>;

    impl Payload for Bytes {
        fn wire_bytes(&self) -> u64 {
            self.len() as u64
        }
    }

    #[test]
    fn an_idle_node_of_forty_peers_takes_four_kilobytes_at_most() {
        let mut node: Gossip<Bytes> = Gossip::new(Arc::new(Config::default()), 1);
        for peer in (0..40).map(Peer) {
            node.handle(Time::ZERO, Input::PeerUp { peer });
        }
        node.adopt(PeerSet::one(Peer(0)));
        while let Some(due) = node.next_deadline() {
            node.handle(due, Input::Deadline);
            while node.poll_output().is_some() {}
        }
        let peers = node.rest.peers.capacity() * size_of::<PeerState>();
        let out = node.rest.out.capacity() * size_of::<Output<Bytes>>();
        let bytes = size_of_val(&node) + size_of_val(&*node.rest) + peers + out;
        assert!(bytes <= 4096, "{bytes} bytes");
    }

    #[test]
    fn what_a_duplicate_reads_is_one_cache_line() {
        let hot = std::mem::offset_of!(Hot, seen);
        assert!(hot + super::super::id::HOT_BYTES <= 64, "seen set at {hot}");
        assert_eq!(size_of::<Gossip<Bytes>>(), 128);
    }

    #[test]
    fn who_was_away_hears_of_what_can_still_be_asked_for() {
        let config = Config {
            validate: false,
            ..Config::default()
        };
        let beat_ns = config.heartbeat_ns;
        let beats = u64::from(config.history_beats);
        let config = Arc::new(config);
        let mut node: Gossip<Bytes> = Gossip::new(config, 1);
        let peer = Peer(0);
        let ids = [DenseId(3), DenseId(5)];
        let payload: Bytes = vec![7; 2000].into();
        for id in ids {
            let payload = payload.clone();
            node.handle(Time::ZERO, Input::Publish { id, payload });
        }
        // After the heartbeats that announced them, which no peer heard.
        let back = Time::from_nanos((beats - 1) * beat_ns);
        let drain = |node: &mut Gossip<Bytes>| {
            std::iter::from_fn(|| node.poll_output()).collect::<Vec<_>>()
        };
        while let Some(due) = node.next_deadline().filter(|due| *due < back) {
            node.handle(due, Input::Deadline);
        }
        drain(&mut node);
        node.handle(back, Input::PeerUp { peer });
        let told = drain(&mut node);
        let have = Message::IHave(Ids::new(ids.to_vec()).expect("two names"));
        let tells = |output: &Output<Bytes>| matches!(output, Output::Send { message, .. } if *message == have);
        assert!(told.iter().any(tells), "{told:?}");
        let message = Message::IWant(Ids::one(ids[1]));
        node.handle(
            back,
            Input::Message {
                from: peer,
                message,
            },
        );
        let answer = Message::Data {
            id: ids[1],
            payload,
        };
        let answers = |output: &Output<Bytes>| matches!(output, Output::Send { message, .. } if *message == answer);
        assert!(drain(&mut node).iter().any(answers));
        // Forgotten messages are not announced.
        node.handle(back, Input::PeerDown { peer });
        let late = Time::from_nanos((beats + 3) * beat_ns);
        while let Some(due) = node.next_deadline().filter(|due| *due < late) {
            node.handle(due, Input::Deadline);
        }
        drain(&mut node);
        node.handle(late, Input::PeerUp { peer });
        assert!(!drain(&mut node).iter().any(tells));
    }
}
