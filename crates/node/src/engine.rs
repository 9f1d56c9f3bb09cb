//! What a node does besides the protocol: topics, the durable marks of the next slot, the blocks
//! that it keeps for others, and a verdict on each slot's duties.
//!
//! An engine has no thread, no clock and no socket: time is an argument, and everything that it
//! wants done goes to a [`Host`]. So the loop of the process and a test in virtual time drive the
//! same code.

mod judge;
mod own;
#[cfg(test)]
mod tests;

use alphorn_proto::chain::Anchor;
use alphorn_proto::horn::fetch::Missing;
use alphorn_proto::horn::{Horn, Shown};
use alphorn_proto::slot::{Phase, SlotClock};
use alphorn_proto::wire::{Header, Kind, Reject, Root, Topic, Vote};
use alphorn_proto::{Evidence, Input, Output, Peer, Protocol, Spawn, Token, Verdict};
use alphorn_scheme::{Bytes, SessionId};
use alphorn_types::{Assignment, Epoch, Slot, Time, Validator};
use judge::Judge;
use own::{Own, Seen};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

pub use judge::Judged;
pub(crate) use judge::Tally;

/// How long before a slot its marks are made durable.
pub const RESERVE_AHEAD_NS: u64 = 500_000_000;

/// From whom messages come that neither gossip nor a peer brought: no connection has this number.
pub(crate) const LOCAL: Peer = Peer(u64::MAX);

/// Slots from one kept anchor to the next: a start takes up the blocks since the last one.
pub(crate) const ANCHOR_SLOTS: u64 = 32;

/// A vote or an aggregate, to be there again after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The slot of its vote.
    pub(crate) slot: Slot,
    /// The topic of a vote or of an aggregate.
    pub(crate) topic: Topic,
    /// Its bytes on the wire.
    pub(crate) data: Bytes,
    /// Whether this node made it.
    pub(crate) own: bool,
}

/// Whoever carries out what an engine wants done. Nothing here may block.
pub trait Host {
    /// Give a message to the network.
    fn publish(&mut self, topic: Topic, data: Bytes);
    /// From now on, exactly these topics are wanted.
    fn subscribe(&mut self, topics: &BTreeSet<Topic>);
    /// The verdict on a message. The host keeps and sends what is accepted of its own messages and posted ones.
    fn verdict(&mut self, token: Token, verdict: Verdict);
    /// A peer misbehaved.
    fn report(&mut self, peer: Peer, reason: Reject);
    /// Run a job; its end comes back as [`Input::Finished`]. One that signs is run only with the
    /// rights of its slot.
    fn spawn(&mut self, spawn: Spawn);
    /// Give up the jobs of a session.
    fn cancel(&mut self, session: SessionId);
    /// Make the marks of a slot durable, so that its duties can be signed.
    fn reserve(&mut self, slot: Slot);
    /// Two contradicting statements of one validator.
    fn evidence(&mut self, evidence: Evidence);
    /// The chain took a block: keep it for peers that ask, and for the next start.
    fn keep_block(&mut self, slot: Slot, root: Root, data: Bytes);
    /// A vote or an aggregate was published, or accepted from a peer: keep it for the next start.
    fn keep_message(&mut self, kept: Kept);
    /// Another process signs with a local key: from here on nothing is signed, nor after the next
    /// start.
    fn doppelganger(&mut self, doppelganger: Doppelganger);
    /// Votes of local keys from before the start, which their marks do not know of: they must, before
    /// anything more is signed.
    fn raise(&mut self, shown: Shown);
    /// The state from which the next start begins.
    fn keep_anchor(&mut self, anchor: Anchor);
    /// The duties of a slot are judged.
    fn judged(&mut self, judged: Judged);
}

/// What is local about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The first slot whose duties are done, from the store of marks.
    pub first_slot: Slot,
    /// The slot of the start, none before genesis. Whoever signs for a local validator after it, and
    /// is not this process, is somebody else with its key.
    pub started: Option<Slot>,
    /// The first slot that no life of this node can have signed before, by its marks. What the network
    /// shows of local keys from there to the start is of a life that the marks do not know.
    pub used: Slot,
    /// The local keys whose own marks are behind that, and where those are.
    pub behind: BTreeMap<Validator, Slot>,
}

/// Something that another process signed with a local key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doppelganger {
    /// Whose key.
    pub(crate) validator: Validator,
    /// The slot that it was signed for.
    pub(crate) slot: Slot,
}

impl fmt::Display for Doppelganger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Doppelganger { validator, slot } = self;
        write!(
            f,
            "another process signed for validator {validator} in slot {slot}"
        )
    }
}

/// The roles of a node with what surrounds them.
pub struct Engine {
    horn: Horn,
    clock: SlotClock,
    first_slot: Slot,
    /// What was signed here, to tell it from what others sign with the same keys.
    own: Own,
    /// Whether somebody did.
    silenced: bool,
    /// Final slot of the state that was kept last.
    anchored: Slot,
    /// The next slot whose marks are to be made durable.
    reserve_next: Slot,
    /// The epochs whose topics are wanted, with the committees that these follow from.
    subscribed: BTreeMap<Epoch, (Arc<Assignment>, BTreeSet<Topic>)>,
    /// Blocks that wait for their verdict: as many as the protocol has room for.
    awaited: BTreeMap<Token, Root>,
    /// Votes and aggregates of peers that wait for theirs. Horn holds no more of them than its rooms take, each peer's
    /// share of them (`waiting_messages_max`): a bound of its own would be first come.
    messages: BTreeMap<Token, Kept>,
    judge: Judge,
}

impl Engine {
    /// An engine around a protocol that has had no input yet.
    pub fn new(mut horn: Horn, settings: Settings) -> Self {
        horn.watch_own_keys();
        let clock = *horn.clock();
        Engine {
            anchored: horn.chain().finalised().slot,
            judge: Judge::new(settings.first_slot, horn.config()),
            reserve_next: settings.first_slot,
            first_slot: settings.first_slot,
            own: Own::new(settings),
            silenced: false,
            clock,
            horn,
            subscribed: BTreeMap::new(),
            awaited: BTreeMap::new(),
            messages: BTreeMap::new(),
        }
    }

    /// The protocol.
    pub(crate) fn horn(&self) -> &Horn {
        &self.horn
    }

    /// Has no more marks made: another process signs with a key of this node.
    pub(crate) fn silence(&mut self) {
        self.silenced = true;
    }

    /// The first slot whose duties are done.
    pub(crate) fn first_slot(&self) -> Slot {
        self.first_slot
    }

    /// The blocks that messages wait for, the most wanted first.
    pub(crate) fn missing_blocks(&self) -> impl Iterator<Item = Missing> {
        let held: BTreeSet<Root> = self.awaited.values().copied().collect();
        let missing = self.horn.missing_blocks();
        missing.map(move |(root, peers)| Missing {
            held: held.contains(&root),
            root,
            peers,
        })
    }

    /// Takes an input, and has the host carry out what follows.
    pub(crate) fn handle(&mut self, now: Time, input: Input, host: &mut dyn Host) {
        if let Input::Message {
            from,
            topic,
            token,
            data,
        } = &input
        {
            match topic.kind() {
                Kind::Block => self.await_block(*token, data),
                Kind::Vote | Kind::Aggregate if *from != LOCAL => {
                    self.await_message(*token, *topic, data);
                }
                Kind::Vote | Kind::Aggregate | Kind::Collection => {}
            }
            if *from == LOCAL {
                // Of an earlier life, or of somebody who signs elsewhere and sends from here.
                self.own.made(*topic, data, &self.horn);
            } else {
                self.own.await_verdict(*token, *topic, data, &self.horn);
            }
        }
        self.keep_marks(now, host);
        self.judge.walk(now, &self.clock, &self.horn, host);
        self.horn.handle(now, input);
        self.drain(host);
        while let Some(shown) = self.horn.take_shown() {
            let seen = self.own.shown(shown, &self.horn);
            self.act_on(seen, host);
        }
        self.keep_topics(now, host);
        self.keep_anchor(host);
    }

    /// What an accepted message shows of local keys.
    fn act_on(&mut self, seen: Seen, host: &mut dyn Host) {
        match seen {
            Seen::Known => {}
            Seen::Earlier(shown) => host.raise(shown),
            Seen::Doppelganger(_) if self.silenced => {}
            Seen::Doppelganger(doppelganger) => {
                self.silenced = true;
                host.doppelganger(doppelganger);
            }
        }
    }

    /// Keeps a state for the next start now and then.
    fn keep_anchor(&mut self, host: &mut dyn Host) {
        let finalised = self.horn.chain().finalised().slot;
        if finalised.0 >= self.anchored.0.saturating_add(ANCHOR_SLOTS) {
            self.anchored = finalised;
            host.keep_anchor(self.horn.anchor());
        }
    }

    /// When [`Input::Deadline`] is due next.
    pub fn next_deadline(&self) -> Option<Time> {
        let marks = self.reserve_at(self.reserve_next);
        let own = self.judge.next_deadline(&self.clock);
        let horn = self.horn.next_deadline();
        [Some(marks), Some(own), horn].into_iter().flatten().min()
    }

    fn reserve_at(&self, slot: Slot) -> Time {
        self.clock
            .slot_start(slot)
            .saturating_sub_ns(RESERVE_AHEAD_NS.min(self.clock.slot_ns() / 2))
    }

    /// Asks for the marks of every slot that begins soon. Slots that passed meanwhile are skipped:
    /// their duties are missed, never done late.
    fn keep_marks(&mut self, now: Time, host: &mut dyn Host) {
        let current = self.clock.slot_at(now).unwrap_or(Slot(0));
        self.reserve_next = self.reserve_next.max(current);
        while self.reserve_at(self.reserve_next) <= now {
            if !self.silenced {
                host.reserve(self.reserve_next);
            }
            self.reserve_next = self.reserve_next.next();
        }
    }

    /// Subscribes to the topics of this epoch and, once its committees are drawn, of the next.
    fn keep_topics(&mut self, now: Time, host: &mut dyn Host) {
        let epoch_slots = self.horn.config().epoch_slots;
        let slot = self.clock.slot_at(now).unwrap_or(Slot(0));
        let current = slot.epoch(epoch_slots);
        let mut changed = false;
        for epoch in [current, Epoch(current.0.saturating_add(1))] {
            let Some(committees) = self.horn.assignment(epoch) else {
                continue;
            };
            // They can be drawn anew when the chain is reorganised.
            let known = self.subscribed.get(&epoch);
            if known.is_some_and(|(known, _)| Arc::ptr_eq(known, committees)) {
                continue;
            }
            let topics = self.horn.topics(epoch).unwrap_or_default();
            self.subscribed.insert(epoch, (committees.clone(), topics));
            changed = true;
        }
        // The last slot's messages are still taken, so its topics stay for a slot.
        let oldest = slot.saturating_sub(1).epoch(epoch_slots);
        let before = self.subscribed.len();
        self.subscribed.retain(|epoch, _| *epoch >= oldest);
        if changed || self.subscribed.len() != before {
            let topics = self.subscribed.values().flat_map(|(_, topics)| topics);
            host.subscribe(&topics.copied().collect());
        }
    }

    fn await_block(&mut self, token: Token, data: &Bytes) {
        if let Ok(header) = Header::peek(data, self.horn.format()) {
            self.awaited.insert(token, header.root());
        }
    }

    fn await_message(&mut self, token: Token, topic: Topic, data: &Bytes) {
        if let Some(kept) = kept(topic, data, false) {
            self.messages.insert(token, kept);
        }
    }

    fn drain(&mut self, host: &mut dyn Host) {
        while let Some(output) = self.horn.poll_output() {
            match output {
                Output::Publish { topic, data } => {
                    self.own.made(topic, &data, &self.horn);
                    if let Some(own) = kept(topic, &data, true) {
                        host.keep_message(own);
                    }
                    host.publish(topic, data);
                }
                Output::Verdict { token, verdict } => {
                    let seen = self.own.verdict(token, verdict, &self.horn);
                    self.act_on(seen, host);
                    self.awaited.remove(&token);
                    if let Some(kept) = self.messages.remove(&token)
                        && verdict == Verdict::Accept
                    {
                        host.keep_message(kept);
                    }
                    host.verdict(token, verdict);
                }
                Output::Spawn(spawn) => host.spawn(spawn),
                Output::Imported { slot, root, data } => host.keep_block(slot, root, data),
                Output::Cancel { session } => host.cancel(session),
                Output::Report { peer, reason } => host.report(peer, reason),
                Output::Evidence(evidence) => {
                    let seen = self.own.contradiction(&evidence, &self.horn);
                    self.act_on(seen, host);
                    host.evidence(evidence);
                }
            }
        }
    }
}

/// What is kept of a message: votes and aggregates. Blocks have a place of their own, and
/// collections stand in them.
fn kept(topic: Topic, data: &Bytes, own: bool) -> Option<Kept> {
    let kind = topic.kind();
    if !matches!(kind, Kind::Vote | Kind::Aggregate) {
        return None;
    }
    let slot = Vote::peek(data, kind).ok()?.slot;
    Some(Kept {
        slot,
        topic,
        data: data.clone(),
        own,
    })
}

/// The start of the phase at which the duties of a slot are read, while its messages are taken.
fn read_at(clock: &SlotClock, slot: Slot) -> Time {
    clock.phase_start(slot.next(), Phase::Level(1))
}
