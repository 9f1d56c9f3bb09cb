//! What a node does besides the protocol: topics, the durable marks of the next slot, the blocks that it keeps for
//! other nodes, and a verdict on each slot's duties.
//!
//! An engine has no thread, clock or socket. Time is an argument, and all side effects go to a [`Host`]. The process's
//! loop and tests in virtual time therefore drive the same code.

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

/// Sender of messages that arrived neither by gossip nor from a peer. No connection has this number.
pub(crate) const LOCAL: Peer = Peer(u64::MAX);

/// Slots from one stored anchor to the next. A start replays the blocks since the last one.
pub(crate) const ANCHOR_SLOTS: u64 = 32;

/// A vote or an aggregate to be restored after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The slot of its vote.
    pub(crate) slot: Slot,
    /// The topic of a vote or of an aggregate.
    pub(crate) topic: Topic,
    /// Its bytes in wire format.
    pub(crate) data: Bytes,
    /// Whether this node made it.
    pub(crate) own: bool,
}

/// Carries out the side effects of an engine. Nothing here may block.
pub trait Host {
    /// Publish a message to the network.
    fn publish(&mut self, topic: Topic, data: Bytes);
    /// From now on, subscribe to exactly these topics.
    fn subscribe(&mut self, topics: &BTreeSet<Topic>);
    /// The verdict on a message. The host keeps and sends accepted own messages and posted ones.
    fn verdict(&mut self, token: Token, verdict: Verdict);
    /// A peer misbehaved.
    fn report(&mut self, peer: Peer, reason: Reject);
    /// Run a job. Its result comes back as [`Input::Finished`]. A signing job runs only with the rights of its slot.
    fn spawn(&mut self, spawn: Spawn);
    /// Cancel the jobs of a session.
    fn cancel(&mut self, session: SessionId);
    /// Make the marks of a slot durable, so that its duties can be signed.
    fn reserve(&mut self, slot: Slot);
    /// Two contradicting statements of one validator.
    fn evidence(&mut self, evidence: Evidence);
    /// The chain accepted a block: keep it for peers that request it, and for the next start.
    fn keep_block(&mut self, slot: Slot, root: Root, data: Bytes);
    /// A vote or an aggregate was published, or accepted from a peer: keep it for the next start.
    fn keep_message(&mut self, kept: Kept);
    /// Another process signs with a local key: sign nothing from here on, nor after the next start.
    fn doppelganger(&mut self, doppelganger: Doppelganger);
    /// Votes of local keys from before the start that their marks do not cover. The marks must be raised before
    /// anything more is signed.
    fn raise(&mut self, shown: Shown);
    /// The state from which the next start begins.
    fn keep_anchor(&mut self, anchor: Anchor);
    /// The duties of a slot have been judged.
    fn judged(&mut self, judged: Judged);
}

/// The node's local settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The first slot whose duties are performed, from the store of marks.
    pub first_slot: Slot,
    /// The slot of the start, or none before genesis. If a later signature of a local validator was not made by this
    /// process, another party has its key.
    pub started: Option<Slot>,
    /// The first slot that no earlier run of this node can have signed, by its marks. What the network shows of local
    /// keys from there to the start comes from a run that the marks do not know.
    pub used: Slot,
    /// The local keys whose own marks are behind that, and the positions of those marks.
    pub behind: BTreeMap<Validator, Slot>,
}

/// A message that another process signed with a local key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doppelganger {
    /// The key's validator.
    pub(crate) validator: Validator,
    /// The slot it was signed for.
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

/// The roles of a node and their environment.
pub struct Engine {
    horn: Horn,
    clock: SlotClock,
    first_slot: Slot,
    /// What was signed here, to distinguish it from what others sign with the same keys.
    own: Own,
    /// Whether another process signed with a local key.
    silenced: bool,
    /// Final slot of the last stored state.
    anchored: Slot,
    /// The next slot whose marks are to be made durable.
    reserve_next: Slot,
    /// The epochs whose topics are subscribed to, with the committees they follow from.
    subscribed: BTreeMap<Epoch, (Arc<Assignment>, BTreeSet<Topic>)>,
    /// Blocks that wait for their verdict: as many as the protocol has room for.
    awaited: BTreeMap<Token, Root>,
    /// Votes and aggregates of peers that wait for a verdict. Horn holds no more than its buffers allow, with a share
    /// per peer (`waiting_messages_max`). A separate limit here would be first come, first served.
    messages: BTreeMap<Token, Kept>,
    judge: Judge,
}

impl Engine {
    /// Creates an engine around a protocol that has had no input yet.
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

    /// Stops making marks durable, because another process signs with a key of this node.
    pub(crate) fn silence(&mut self) {
        self.silenced = true;
    }

    /// The first slot whose duties are performed.
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

    /// Processes an input, with side effects going to the host.
    pub(crate) fn handle(&mut self, now: Time, input: Input, host: &mut dyn Host) {
        // Noted before the protocol sees it, since its verdict may come in the same call.
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
                // From an earlier run, or from a process that signs elsewhere and submits here.
                self.own.made(*topic, data, &self.horn);
            } else {
                self.own.await_verdict(*token, *topic, data, &self.horn);
            }
        }
        // Before the protocol: the signer takes requests in order, and a phase that begins now signs in this slot.
        self.keep_marks(now, host);
        // Before the protocol too, which may close the slot whose duties are read.
        self.judge.walk(now, &self.clock, &self.horn, host);
        self.horn.handle(now, input);
        self.drain(host);
        // After `drain`, which notes what was published here. In the other order, votes that this very input published
        // would look like those of another process.
        while let Some(shown) = self.horn.take_shown() {
            let seen = self.own.shown(shown, &self.horn);
            self.act_on(seen, host);
        }
        self.keep_topics(now, host);
        self.keep_anchor(host);
    }

    /// Acts on what an accepted message shows about local keys.
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

    /// Periodically stores a state for the next start.
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
            // Half a slot at most: where slots are shorter than a second, more would burn a further slot at a crash.
            .saturating_sub_ns(RESERVE_AHEAD_NS.min(self.clock.slot_ns() / 2))
    }

    /// Requests the marks of every slot that begins soon. Slots that have passed in the meantime are skipped: their
    /// duties are missed, never performed late.
    fn keep_marks(&mut self, now: Time, host: &mut dyn Host) {
        let current = self.clock.slot_at(now).unwrap_or(Slot(0));
        self.reserve_next = self.reserve_next.max(current);
        while self.reserve_at(self.reserve_next) <= now {
            // Also without marks the slot counts as handled, or `next_deadline` would stay in the past and the loop
            // would spin.
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
            // They can be redrawn when the chain is reorganised.
            let known = self.subscribed.get(&epoch);
            if known.is_some_and(|(known, _)| Arc::ptr_eq(known, committees)) {
                continue;
            }
            let topics = self.horn.topics(epoch).unwrap_or_default();
            self.subscribed.insert(epoch, (committees.clone(), topics));
            changed = true;
        }
        // The last slot's messages are still accepted, so its topics stay for one more slot.
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
                    // Whatever the verdict: a token gets exactly one, and these maps have no limit of their own.
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

/// Returns what to store of a message: votes and aggregates. Blocks are stored separately and contain the collections.
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
