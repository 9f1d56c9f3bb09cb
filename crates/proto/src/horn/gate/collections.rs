//! Collections, on the global topic: every machine verifies them.

use alphorn_scheme::{
    Bytes, Claim, Class, Item, Layer, Op, Outcome, Product, Role, Statement, VerifyJob, Work,
};
use alphorn_types::{Epoch, Slot};

use super::lot::{Seat, with_seat};
use super::{
    Due, Gate, ITEMS_PER_JOB_MAX, Job, Made, Refusal, Stage, admit_ballot, passed, serves,
};
use crate::horn::config::{Config, SubsetRule};
use crate::horn::deadlines::window_end;
use crate::horn::effects::{Effects, Origin, Request};
use crate::horn::fair::Room;
use crate::horn::role::Lent;
use crate::horn::selection::Post;
use crate::horn::state::{KeptCollection, SlotState, Standing, Waiting, WaitingCollection};
use crate::horn::task::Purpose;
use crate::slot::Phase;
use crate::wire::{Collection, Entry, Kind, Reject, digest};

/// Collections of all committees that wait at most.
pub(in crate::horn) const ROOM: Room = Room {
    items: 4_096,
    bytes: 1 << 30,
};

impl Gate {
    pub(super) fn admit_collection(
        &mut self,
        lent: &mut Lent<'_>,
        origin: Origin,
        data: &Bytes,
    ) -> Result<(), Refusal> {
        let head = Collection::peek(data, lent.format).map_err(Reject::from_decode)?;
        let (vote, committee, sender, proof) = head;
        let ballot = admit_ballot(lent, &vote).map_err(|refusal| {
            let state = lent.slots.get_mut(&vote.slot);
            with_seat(refusal, || {
                let (state, slot, kind) = (state?, vote.slot, Kind::Collection);
                let position = state.committees.position_in_committee(sender, committee)?;
                let post = Post::Collector(committee);
                let serves = serves(state, lent.config, post, position, proof.as_ref());
                serves.then_some(Seat { slot, kind, sender })
            })
        })?;
        let references = |vote: &_, committee| lent.chain.reference(vote, committee);
        let message =
            Collection::decode(data, lent.format, &references).map_err(Reject::from_decode)?;
        let state = lent
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
        if !serves(state, lent.config, post, position, message.proof.as_ref()) {
            return Err(Reject::NotSelected.into());
        }
        let content = digest::collection_message(lent.config.network(), &message, lent.format);
        check_again(state, lent.config, &message, &content)?;
        let waiting = Waiting {
            origin,
            ballot,
            message,
            data: data.clone(),
            content,
        };
        let taken = self.collections.offer(waiting, ROOM).ok_or(Reject::Full)?;
        if taken.due {
            self.due.insert(Due::Collections);
        }
        for gone in taken.displaced {
            lent.fx.reject(gone.origin, Reject::Full);
        }
        Ok(())
    }

    /// One job takes every collection that waits, committee by committee, so that keys are summed
    /// for all collections of a committee together.
    pub(super) fn verify_collections(&mut self, lent: &mut Lent<'_>) {
        let slots = &*lent.slots;
        let closed = |waiting: &WaitingCollection| !slots.contains_key(&waiting.ballot.vote.slot);
        for gone in self.collections.give_up(closed) {
            lent.fx.reject(gone.origin, Reject::TooOld);
        }
        let first = self
            .collections
            .first()
            .map(|waiting| waiting.ballot.vote.slot);
        let oldest = first.and_then(|slot| slots.get(&slot));
        let Some(oldest) = oldest else {
            return;
        };
        let epoch = oldest.epoch;
        let in_epoch = |waiting: &WaitingCollection| {
            let state = slots.get(&waiting.ballot.vote.slot);
            state.is_some_and(|state| state.epoch == epoch)
        };
        let mut collections = self.collections.take(ITEMS_PER_JOB_MAX, in_epoch);
        if !collections.is_empty() {
            collections.sort_by_key(|waiting| waiting.message.committee);
            self.spawn_collections(lent, epoch, Stage::Sender, collections);
        }
    }

    fn spawn_collections(
        &mut self,
        lent: &mut Lent<'_>,
        epoch: Epoch,
        stage: Stage,
        collections: Vec<WaitingCollection>,
    ) {
        // Of the newest slot, so that the end of an older one does not cancel it.
        let Some(newest) = lent.slots.values().next_back() else {
            let gone = collections.iter();
            gone.for_each(|gone| lent.fx.reject(gone.origin, Reject::TooOld));
            return self.collections_ended();
        };
        let claims = |waiting: &WaitingCollection| match stage {
            Stage::Sender => sender(lent, waiting),
            Stage::Evidence => vec![votes(waiting, lent.config)],
        };
        let item = |waiting| Item {
            claims: claims(waiting),
        };
        let verify = VerifyJob {
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
            soft: lent.clock.phase_start(newest.slot, Phase::Decide),
            hard: window_end(lent.clock, newest.slot),
            work: Work::Verify(verify),
        };
        let job = Job::Collections {
            epoch,
            stage,
            collections,
        };
        lent.fx.spawn(request, Purpose::Gate(job));
    }

    /// The senders' signatures were verified, or the evidence of those that hold. What was verified
    /// before, in a block or in another collection, is not verified again.
    pub(super) fn collections_verified(
        &mut self,
        lent: &mut Lent<'_>,
        epoch: Epoch,
        stage: Stage,
        collections: Vec<WaitingCollection>,
        outcome: Outcome<Product>,
    ) {
        let mut left = Vec::new();
        for waiting in passed(lent, collections, stage, outcome) {
            let Collection {
                vote,
                committee,
                evidence,
                ..
            } = &waiting.message;
            let digest = digest::entry_digest(vote, *committee, evidence, lent.format);
            let cached = self.verified.contains(&digest);
            if stage == Stage::Sender && !cached {
                left.push(waiting);
                continue;
            }
            lent.fx.counters.evidence_cached += u64::from(stage == Stage::Sender);
            self.verified.insert(digest, waiting.ballot.vote.slot);
            self.take_collection(lent, waiting);
        }
        match left.is_empty() {
            false => self.spawn_collections(lent, epoch, Stage::Evidence, left),
            true => self.collections_ended(),
        }
    }

    fn collections_ended(&mut self) {
        if self.collections.ended() {
            self.due.insert(Due::Collections);
        }
    }

    /// Takes a verified collection, or an own one: check 11.
    pub(super) fn take_collection(&mut self, lent: &mut Lent<'_>, waiting: WaitingCollection) {
        let origin = waiting.origin;
        let slot = waiting.ballot.vote.slot;
        let entry = Entry::from(&waiting.message);
        let taken = match lent.slots.get_mut(&slot) {
            Some(state) => keep(state, lent.config, lent.fx, waiting),
            None => Err(Reject::TooOld),
        };
        match taken {
            Ok(()) => {
                lent.fx.accept(Kind::Collection, origin);
                self.made.push_back(Made::Collection(entry));
            }
            Err(reason) => lent.fx.reject(origin, reason),
        }
    }
}

/// What the sender of a collection claims: checks 8 and 9.
fn sender(lent: &Lent<'_>, waiting: &WaitingCollection) -> Vec<Claim> {
    let (message, slot) = (&waiting.message, waiting.ballot.vote.slot);
    let envelope = Claim::One {
        validator: message.sender,
        role: Role::Collection,
        slot,
        message: waiting.content,
        signature: message.envelope.clone(),
    };
    let seed = lent.slots.get(&slot).map(|state| state.committees.seed);
    let network = lent.config.network();
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
