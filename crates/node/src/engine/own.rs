//! Tracks what this process signed, to distinguish it from what others sign with the same keys.
//!
//! Two processes with one key contradict each other sooner or later, and with a one-time key they leak it. No mark on
//! disk reveals the other process, but the network does: messages with a local sender that were not made here, and
//! local validators in evidence of ballots for which they did not vote here. Every accepted message is therefore
//! checked for as long as the process runs.
//!
//! One case goes unnoticed: two processes that say the same, byte for byte, as votes with deterministic signatures for
//! the same head do. They are noticed at the first message in which they differ, or that the other one sends first.
//!
//! Votes of slots before the start that the marks do not know of do not indicate another process. The marks come from
//! an older copy, and are raised to what the network shows.

use super::{Doppelganger, Settings};
use alphorn_proto::horn::{Horn, Shown};
use alphorn_proto::wire::{Aggregate, Header, Kind, Root, Topic, Vote, VoteMsg};
use alphorn_proto::{Evidence, Token, Verdict};
use alphorn_scheme::Bytes;
use alphorn_types::{Bitfield, Slot, Validator};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};

/// Slots for which own signatures are remembered. Older slots are not judged.
const SLOTS_MAX: u64 = 64;

/// What was signed here in a slot.
#[derive(Default)]
struct Made {
    /// The voters of each vote.
    votes: BTreeMap<Vote, Bitfield>,
    blocks: BTreeSet<Root>,
    /// Short digests of aggregates and collections. An attacker that finds a second message with the same digest only
    /// hides its own.
    aggregates: BTreeSet<u64>,
}

impl Made {
    fn has_aggregate(&self, data: &Bytes) -> bool {
        self.aggregates.contains(&short_digest(data))
    }
}

fn short_digest(data: &Bytes) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(data);
    hasher.finish()
}

/// What a message shows about local keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing new.
    Known,
    /// Votes of an earlier run that the marks do not know of.
    Earlier(Shown),
    /// Another process has a local key.
    Doppelganger(Doppelganger),
}

/// What was signed here, and messages under local names that wait for a verdict.
pub(super) struct Own {
    /// The first slot that no earlier run can have signed, by the marks.
    used: Slot,
    /// Local keys whose own marks are behind that.
    behind: BTreeMap<Validator, Slot>,
    /// The first slot from which all signatures of local keys come from this process.
    from: Slot,
    slots: BTreeMap<Slot, Made>,
    /// No more than Horn holds without a verdict.
    awaited: BTreeMap<Token, (Doppelganger, Option<Vote>)>,
}

impl Own {
    pub(super) fn new(settings: Settings) -> Self {
        // In the slot of the start, an earlier run may have signed.
        let started = settings.started.map_or(Slot(0), Slot::next);
        Own {
            used: settings.used,
            from: started.max(settings.used),
            behind: settings.behind,
            slots: BTreeMap::new(),
            awaited: BTreeMap::new(),
        }
    }

    /// A message is published here.
    pub(super) fn made(&mut self, topic: Topic, data: &Bytes, horn: &Horn) {
        let format = horn.format();
        match topic.kind() {
            Kind::Vote => {
                if let Ok(message) = VoteMsg::decode(data, format) {
                    let validators = format.layout.validators() as usize;
                    let made = self.slot(message.vote.slot);
                    let voters = made.votes.entry(message.vote);
                    let voters = voters.or_insert_with(|| Bitfield::new(validators));
                    voters.set(message.validator.0 as usize);
                }
            }
            Kind::Block => {
                if let Ok(header) = Header::peek(data, format) {
                    self.slot(header.slot).blocks.insert(header.root());
                }
            }
            Kind::Aggregate | Kind::Collection => {
                if let Ok(vote) = Vote::peek(data, topic.kind()) {
                    self.slot(vote.slot).aggregates.insert(short_digest(data));
                }
            }
        }
    }

    /// What was signed in a slot. The oldest slots are dropped.
    fn slot(&mut self, slot: Slot) -> &mut Made {
        let newest = self.slots.last_key_value().map_or(slot, |(last, _)| *last);
        let oldest = newest.max(slot).saturating_sub(SLOTS_MAX);
        self.slots = self.slots.split_off(&oldest);
        self.slots.entry(slot).or_default()
    }

    /// A message of another node arrived. If it names a local validator as its sender, its verdict decides.
    pub(super) fn await_verdict(&mut self, token: Token, topic: Topic, data: &Bytes, horn: &Horn) {
        if let Some(claimed) = self.claimed(topic, data, horn) {
            self.awaited.insert(token, claimed);
        }
    }

    /// The sender of a message, if it is a local validator and the message was not made here.
    fn claimed(
        &self,
        topic: Topic,
        data: &Bytes,
        horn: &Horn,
    ) -> Option<(Doppelganger, Option<Vote>)> {
        let format = horn.format();
        let (validator, slot, vote) = match topic.kind() {
            Kind::Vote => {
                let message = VoteMsg::decode(data, format).ok()?;
                let VoteMsg {
                    vote, validator, ..
                } = message;
                if self.voted(&vote, validator) {
                    return None;
                }
                (validator, vote.slot, Some(vote))
            }
            Kind::Block => {
                let header = Header::peek(data, format).ok()?;
                let made = self.slots.get(&header.slot);
                if made.is_some_and(|made| made.blocks.contains(&header.root())) {
                    return None;
                }
                (header.proposer, header.slot, None)
            }
            Kind::Aggregate | Kind::Collection => {
                let head = Aggregate::peek(data, format).ok()?;
                let made = self.slots.get(&head.vote.slot);
                // Every aggregate of the network passes here, so only those under a local name are hashed.
                let is_local = horn.local().hosts(head.sender);
                if is_local && made.is_some_and(|made| made.has_aggregate(data)) {
                    return None;
                }
                (head.sender, head.vote.slot, None)
            }
        };
        let doppelganger = Doppelganger { validator, slot };
        horn.local()
            .hosts(validator)
            .then_some((doppelganger, vote))
    }

    fn voted(&self, vote: &Vote, validator: Validator) -> bool {
        let made = self.slots.get(&vote.slot);
        let voters = made.and_then(|made| made.votes.get(vote));
        voters.is_some_and(|voters| voters.get(validator.0 as usize))
    }

    /// The verdict on a message. Accepted ones were signed with the key of their sender.
    pub(super) fn verdict(&mut self, token: Token, verdict: Verdict, horn: &Horn) -> Seen {
        match self.awaited.remove(&token) {
            Some((doppelganger, vote)) if verdict == Verdict::Accept => {
                self.judge(doppelganger, vote, horn)
            }
            _ => Seen::Known,
        }
    }

    /// Two signed statements of a validator contradict each other. This process never makes two.
    pub(super) fn contradiction(&self, pair: &Evidence, horn: &Horn) -> Seen {
        let format = horn.format();
        let data = &pair.second;
        // The kinds of messages have different tags, so at most one of these attempts succeeds.
        let author = Header::peek(data, format).map(|header| (header.proposer, header.slot));
        let author = author.or_else(|_| {
            let head = Aggregate::peek(data, format);
            head.map(|head| (head.sender, head.vote.slot))
        });
        let author = author.or_else(|_| {
            let message = VoteMsg::decode(data, format);
            message.map(|message| (message.validator, message.vote.slot))
        });
        match author {
            Ok((validator, slot)) if horn.local().hosts(validator) => {
                self.judge(Doppelganger { validator, slot }, None, horn)
            }
            _ => Seen::Known,
        }
    }

    /// Verified evidence contains votes of local validators.
    pub(super) fn shown(&self, shown: Shown, horn: &Horn) -> Seen {
        let Shown { vote, validators } = shown;
        let unknown = |validator: &Validator| {
            !self.voted(&vote, *validator) && !self.is_marked(*validator, vote.slot)
        };
        let unknown: Vec<Validator> = validators.into_iter().filter(unknown).collect();
        let Some(&validator) = unknown.first() else {
            return Seen::Known;
        };
        let slot = vote.slot;
        match self.judge(Doppelganger { validator, slot }, Some(vote), horn) {
            Seen::Earlier(_) => Seen::Earlier(Shown {
                vote,
                validators: unknown,
            }),
            seen => seen,
        }
    }

    /// Whether the marks of a key cover a signature in a slot.
    fn is_marked(&self, validator: Validator, slot: Slot) -> bool {
        slot < *self.behind.get(&validator).unwrap_or(&self.used)
    }

    /// What it means that a local validator signed something that was not made here.
    fn judge(&self, doppelganger: Doppelganger, vote: Option<Vote>, horn: &Horn) -> Seen {
        let Doppelganger { validator, slot } = doppelganger;
        // The head is in the last slot that anything is known about.
        let newest = self.slots.last_key_value().map_or(slot, |(last, _)| *last);
        let is_forgotten = slot.0.saturating_add(SLOTS_MAX) < newest.max(horn.finality().head).0;
        match vote {
            // First, whatever the message is: an earlier run of this node may have signed up to its marks.
            _ if self.is_marked(validator, slot) => Seen::Known,
            Some(vote) if slot < self.from => Seen::Earlier(Shown {
                vote,
                validators: vec![validator],
            }),
            // A block, aggregate or collection from before the start, or a contradiction: only the marks of votes can
            // be raised, and only to a vote that is known.
            None if slot < self.from => Seen::Known,
            _ if is_forgotten => Seen::Known,
            _ => Seen::Doppelganger(doppelganger),
        }
    }
}
