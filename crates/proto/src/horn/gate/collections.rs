//! Collections, on the global topic: every machine verifies them.

use alphorn_scheme::{
    Bytes, Claim, Class, Item, Layer, Op, Outcome, Product, Role, Statement, VerifyJob, Work,
};
use alphorn_types::{Epoch, Slot};

use super::lot::{Seat, with_seat};
use super::{ITEMS_PER_JOB_MAX, Refusal, serves};
use crate::horn::combiner;
use crate::horn::config::{Config, SubsetRule};
use crate::horn::deadlines::window_end;
use crate::horn::effects::{Effects, Origin, Request};
use crate::horn::fair::Room;
use crate::horn::machine::{Due, Horn};
use crate::horn::selection::Post;
use crate::horn::state::{KeptCollection, SlotState, Standing, Waiting, WaitingCollection};
use crate::horn::task::{Purpose, Stage};
use crate::slot::Phase;
use crate::wire::{Collection, Entry, Kind, Reject, digest};

/// Collections of all committees that wait at most.
pub(in crate::horn) const ROOM: Room = Room {
    items: 4_096,
    bytes: 1 << 30,
};

impl Horn {
    pub(super) fn admit_collection(&mut self, origin: Origin, data: &Bytes) -> Result<(), Refusal> {
        let head = Collection::peek(data, &self.format).map_err(Reject::from_decode)?;
        let (vote, committee, sender, proof) = head;
        let ballot = self.admit_ballot(&vote).map_err(|refusal| {
            let state = self.slots.get_mut(&vote.slot);
            with_seat(refusal, || {
                let (state, slot, kind) = (state?, vote.slot, Kind::Collection);
                let position = state.committees.position_in_committee(sender, committee)?;
                let post = Post::Collector(committee);
                let serves = serves(state, &self.config, post, position, proof.as_ref());
                serves.then_some(Seat { slot, kind, sender })
            })
        })?;
        let references = |vote: &_, committee| self.reference(vote, committee);
        let message =
            Collection::decode(data, &self.format, &references).map_err(Reject::from_decode)?;
        let state = self
            .slots
            .get_mut(&ballot.vote.slot)
            .ok_or(Refusal::Unprepared)?;
        let position = state
            .committees
            .position_in_committee(message.sender, message.committee)
            .ok_or(Reject::NotMember)?;
        if message.evidence.support.is_empty() {
            return Err(Reject::NoSigner.into());
        }
        let post = Post::Collector(message.committee);
        if !serves(state, &self.config, post, position, message.proof.as_ref()) {
            return Err(Reject::NotSelected.into());
        }
        let content = digest::collection_message(self.config.network(), &message, &self.format);
        check_again(state, &self.config, &message, &content)?;
        let waiting = Waiting {
            origin,
            ballot,
            message,
            data: data.clone(),
            content,
        };
        let taken = self.batch.offer(waiting, ROOM).ok_or(Reject::Full)?;
        if taken.due {
            self.due.insert(Due::Collections);
        }
        for gone in taken.displaced {
            self.fx.reject(gone.origin, Reject::Full);
        }
        Ok(())
    }

    /// One job takes every collection that waits, committee by committee, so that keys are summed
    /// for all collections of a committee together.
    pub(super) fn verify_collections(&mut self) {
        let slots = &self.slots;
        let closed = |waiting: &WaitingCollection| !slots.contains_key(&waiting.ballot.vote.slot);
        for gone in self.batch.give_up(closed) {
            self.fx.reject(gone.origin, Reject::TooOld);
        }
        let first = self.batch.first().map(|waiting| waiting.ballot.vote.slot);
        let oldest = first.and_then(|slot| slots.get(&slot));
        let Some(oldest) = oldest else {
            return;
        };
        let epoch = oldest.epoch;
        let in_epoch = |waiting: &WaitingCollection| {
            let state = slots.get(&waiting.ballot.vote.slot);
            state.is_some_and(|state| state.epoch == epoch)
        };
        let mut collections = self.batch.take(ITEMS_PER_JOB_MAX, in_epoch);
        if !collections.is_empty() {
            collections.sort_by_key(|waiting| waiting.message.committee);
            self.spawn_collections(epoch, Stage::Sender, collections);
        }
    }

    fn spawn_collections(
        &mut self,
        epoch: Epoch,
        stage: Stage,
        collections: Vec<WaitingCollection>,
    ) {
        // Of the newest slot, so that the end of an older one does not cancel it.
        let Some(newest) = self.slots.values().next_back() else {
            let gone = collections.iter();
            gone.for_each(|gone| self.fx.reject(gone.origin, Reject::TooOld));
            return self.collections_ended();
        };
        let claims = |waiting: &WaitingCollection| match stage {
            Stage::Sender => self.sender(waiting),
            Stage::Evidence => vec![votes(waiting, &self.config)],
        };
        let item = |waiting| Item {
            claims: claims(waiting),
        };
        let job = VerifyJob {
            op: match stage {
                Stage::Sender => Op::DutyVerify,
                Stage::Evidence => Op::VerifyCollections,
            },
            epoch,
            items: collections.iter().map(item).collect(),
        };
        let request = Request {
            session: newest.sessions.verify,
            message: [0; 32],
            committee: None,
            subcommittee: None,
            class: Class::Verdict,
            soft: self.clock.phase_start(newest.slot, Phase::Decide),
            hard: window_end(&self.clock, newest.slot),
            work: Work::Verify(job),
        };
        let purpose = Purpose::VerifyCollections {
            epoch,
            stage,
            collections,
        };
        self.fx.spawn(request, purpose);
    }

    /// The senders' signatures were verified, or the evidence of those that hold. What was verified
    /// before, in a block or in another collection, is not verified again.
    pub(in crate::horn) fn collections_verified(
        &mut self,
        epoch: Epoch,
        stage: Stage,
        collections: Vec<WaitingCollection>,
        outcome: Outcome<Product>,
    ) {
        let mut left = Vec::new();
        for waiting in self.passed(collections, stage, outcome) {
            let Collection {
                vote,
                committee,
                evidence,
                ..
            } = &waiting.message;
            let digest = digest::entry_digest(vote, *committee, evidence, &self.format);
            let cached = self.verified.contains(&digest);
            if stage == Stage::Sender && !cached {
                left.push(waiting);
                continue;
            }
            self.fx.counters.evidence_cached += u64::from(stage == Stage::Sender);
            self.verified.insert(digest, waiting.ballot.vote.slot);
            self.take_collection(waiting);
        }
        match left.is_empty() {
            false => self.spawn_collections(epoch, Stage::Evidence, left),
            true => self.collections_ended(),
        }
    }

    fn collections_ended(&mut self) {
        if self.batch.ended() {
            self.due.insert(Due::Collections);
        }
    }

    /// What the sender of a collection claims: checks 8 and 9.
    fn sender(&self, waiting: &WaitingCollection) -> Vec<Claim> {
        let (message, slot) = (&waiting.message, waiting.ballot.vote.slot);
        let envelope = Claim::One {
            validator: message.sender,
            role: Role::Collection,
            slot,
            message: waiting.content,
            signature: message.envelope.clone(),
        };
        let seed = self.slots.get(&slot).map(|state| state.committees.seed);
        let network = self.config.network();
        let selected = message.proof.as_ref().zip(seed).map(|(proof, seed)| {
            let validator = message.sender;
            Claim::Selected {
                validator,
                message: digest::selection_message(network, &seed, Kind::Collection, slot),
                proof: proof.clone(),
            }
        });
        selected.into_iter().chain([envelope]).collect()
    }

    /// Takes a verified collection, or an own one: check 11.
    pub(in crate::horn) fn take_collection(&mut self, waiting: WaitingCollection) {
        let origin = waiting.origin;
        let slot = waiting.ballot.vote.slot;
        let entry = Entry::from(&waiting.message);
        let taken = match self.slots.get_mut(&slot) {
            Some(state) => keep(state, &self.config, &mut self.fx, waiting),
            None => Err(Reject::TooOld),
        };
        match taken {
            Ok(()) => {
                self.fx.accept(Kind::Collection, origin);
                self.collection_accepted(entry);
            }
            Err(reason) => self.fx.reject(origin, reason),
        }
    }

    /// An accepted collection may go into a block, counts in the fork choice, and holds own
    /// ones back that add nothing to it.
    fn collection_accepted(&mut self, entry: Entry) {
        let (slot, committee) = (entry.vote.slot, entry.committee);
        self.observe(&entry, None);
        self.keep_for_blocks(entry);
        self.combiner(combiner::Input::Accepted { slot, committee });
    }
}

/// What a collection claims of the votes: check 10.
fn votes(waiting: &WaitingCollection, config: &Config) -> Claim {
    let (message, ballot) = (&waiting.message, &waiting.ballot);
    Claim::Group {
        statement: statement(config, message.committee, ballot.vote.slot, ballot.message),
        evidence: message.evidence.clone(),
    }
}

/// What the evidence of a collection or of a block's entry proves.
pub(in crate::horn) fn statement(
    config: &Config,
    committee: u16,
    slot: Slot,
    message: [u8; 32],
) -> Statement {
    let range = config.layout.committee_range(committee);
    Statement {
        layer: Layer::Collection,
        first: range.start,
        len: range.end - range.start,
        slot,
        message,
    }
}

/// Check 7 of collections. A second, different message of a sender passes, so that it can be
/// verified and reported; it is never accepted. A collection is compared with single accepted
/// ones, never with their union: two halves must not suppress the whole that a block wants.
fn check_again<'a>(
    state: &'a SlotState,
    config: &Config,
    message: &Collection,
    content: &[u8; 32],
) -> Result<Standing<'a>, Reject> {
    let committee = &state.collections[usize::from(message.committee)];
    let standing = committee.senders.admit(message.sender, content)?;
    if matches!(standing, Standing::Second(_)) {
        return Ok(standing);
    }
    if committee.kept.len() >= usize::from(config.collections_per_committee_max) {
        return Err(Reject::Full);
    }
    let covers = |kept: &KeptCollection| {
        state.ballots.get(kept.ballot).vote == message.vote
            && message
                .evidence
                .support
                .is_subset_of(&kept.evidence.support)
    };
    if config.subset_rule != SubsetRule::Off && committee.kept.iter().any(covers) {
        return Err(Reject::Subset);
    }
    Ok(standing)
}

fn keep(
    state: &mut SlotState,
    config: &Config,
    fx: &mut Effects,
    waiting: WaitingCollection,
) -> Result<(), Reject> {
    let Waiting {
        ballot,
        message,
        data,
        content,
        ..
    } = waiting;
    let (sender, index) = (message.sender, usize::from(message.committee));
    if let Standing::Second(first) = check_again(state, config, &message, &content)? {
        fx.evidence(message.vote.slot, first.clone(), data);
        state.collections[index].senders.mark_equivocated(sender);
        return Err(Reject::Duplicate);
    }
    let signers = message.evidence.support.signers();
    let weight = state.committees.weigh(message.committee, &signers);
    let ballot = state.ballots.track_evidence(&ballot, weight)?;
    let committee = &mut state.collections[index];
    committee.kept.push(KeptCollection {
        sender,
        ballot,
        evidence: message.evidence,
        bytes: data.len(),
    });
    committee.senders.insert(sender, data, content);
    Ok(())
}
