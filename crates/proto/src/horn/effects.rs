//! Effects requested by a state machine: outputs in order, jobs with their purpose, counts.

use alphorn_scheme::{Bytes, Class, Group, JobId, SessionId, Work};
use alphorn_types::{Bitfield, Peer, Slot, Time, Unit};
use std::collections::{BTreeMap, VecDeque};

use super::duties::Done;
use super::epochs::Committees;
use super::task::Purpose;
use super::view::{Counters, Shown};
use crate::contract::{Output, Spawn, Token, Verdict};
use crate::maps::forget_before;
use crate::wire::{Kind, Reject, Root, Topic, Vote};
use alphorn_broadcast::Evidence;

/// Maximum number of reported pairs of contradicting statements per slot. Each pair costs its receiver
/// two messages of memory.
const EVIDENCE_PER_SLOT_MAX: u64 = 1_024;

/// The peer and token awaiting the verdict on a message. None for a message made here.
pub(super) type Origin = Option<(Peer, Token)>;

/// A requested job.
pub(super) struct Request {
    pub(super) session: SessionId,
    pub(super) message: [u8; 32],
    pub(super) committee: Option<u16>,
    pub(super) subcommittee: Option<u16>,
    pub(super) class: Class,
    pub(super) soft: Time,
    pub(super) hard: Time,
    pub(super) work: Work,
}

/// Outputs waiting for the driver, and jobs in flight.
#[derive(Default)]
pub(super) struct Effects {
    outputs: VecDeque<Output>,
    /// Jobs spawned and not answered. Boxed, like all large values in the maps of a state machine, since
    /// a map keeps room for eleven. Their number is bounded by the batches and duties, each of which has
    /// at most one job.
    jobs: BTreeMap<JobId, Box<Purpose>>,
    job_next: u64,
    session_next: u32,
    /// What was published for the slots whose messages are accepted.
    done: BTreeMap<Slot, Box<Done>>,
    /// Number of pairs of contradicting statements, by slot.
    evidence: BTreeMap<Slot, u64>,
    pub(super) counters: Counters,
    /// Local validators in verified evidence, if the driver collects them after each input.
    shown: Option<VecDeque<Shown>>,
}

impl Effects {
    pub(super) fn poll(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if self.outputs.is_empty() {
            // A simulation holds a million of these, so an empty queue keeps no room.
            self.outputs = VecDeque::new();
        }
        output
    }

    /// A session id never used before.
    pub(super) fn session(&mut self, slot: Slot) -> SessionId {
        // Wraps after 2^32 sessions. An id repeats only if all of these are of one slot.
        let seq = self.session_next;
        self.session_next = seq.wrapping_add(1);
        SessionId { slot, seq }
    }

    pub(super) fn spawn(&mut self, request: Request, purpose: Purpose) {
        let job = JobId(self.job_next);
        self.job_next += 1;
        self.counters.jobs_spawned += 1;
        let group = Group {
            slot: request.session.slot,
            message: request.message,
            committee: request.committee,
            subcommittee: request.subcommittee,
        };
        self.jobs.insert(job, Box::new(purpose));
        self.outputs.push_back(Output::Spawn(Spawn {
            job,
            session: request.session,
            group,
            class: request.class,
            soft: request.soft,
            hard: request.hard,
            work: request.work,
        }));
    }

    /// Purposes of the jobs in flight.
    pub(super) fn purposes(&self) -> impl Iterator<Item = &Purpose> {
        self.jobs.values().map(Box::as_ref)
    }

    /// Ends a job and returns its purpose.
    pub(super) fn finish(&mut self, job: JobId) -> Option<Purpose> {
        self.jobs.remove(&job).map(|purpose| *purpose)
    }

    pub(super) fn cancel(&mut self, session: SessionId) {
        self.outputs.push_back(Output::Cancel { session });
    }

    /// Publishes a message of a slot's duty. `late` means that it was wanted earlier.
    pub(super) fn publish(&mut self, slot: Slot, late: bool, topic: Topic, data: Bytes) {
        let kind = index(topic.kind());
        self.counters.published[kind] += 1;
        let done = self.done.entry(slot).or_default();
        let count = if late {
            &mut done.late
        } else {
            &mut done.on_time
        };
        count[kind] += 1;
        self.outputs.push_back(Output::Publish { topic, data });
    }

    /// Counts aggregates of a slot held back by staged publishing.
    pub(super) fn held_back(&mut self, slot: Slot, kind: Kind, count: u64) {
        self.counters.staged_back += count;
        self.done.entry(slot).or_default().held_back[index(kind)] += count;
    }

    /// What was published for a slot.
    pub(super) fn done(&self, slot: Slot) -> Done {
        self.done
            .get(&slot)
            .map_or_else(Done::default, |done| **done)
    }

    /// Forgets what was published and reported before a slot.
    pub(super) fn prune_done(&mut self, before: Slot) {
        forget_before(&mut self.done, &before);
        forget_before(&mut self.evidence, &before);
    }

    pub(super) fn seen(&mut self, kind: Kind) {
        self.counters.seen[index(kind)] += 1;
    }

    /// Accepts the message.
    pub(super) fn accept(&mut self, kind: Kind, origin: Origin) {
        self.counters.accepted[index(kind)] += 1;
        self.verdict(origin, Verdict::Accept);
    }

    /// Rejects the message.
    pub(super) fn reject(&mut self, origin: Origin, reason: Reject) {
        self.counters.rejected[reason.index()] += 1;
        let verdict = reason.verdict();
        self.verdict(origin, verdict);
        if verdict == Verdict::Reject
            && let Some((peer, _)) = origin
        {
            self.outputs.push_back(Output::Report { peer, reason });
        }
    }

    /// Reports a block accepted by the chain.
    pub(super) fn imported(&mut self, slot: Slot, root: Root, data: Bytes) {
        self.outputs
            .push_back(Output::Imported { slot, root, data });
    }

    /// From now on, records verified evidence with votes of local validators.
    pub(super) fn watch(&mut self) {
        self.shown.get_or_insert_default();
    }

    /// Records the local signers of verified evidence of a unit.
    pub(super) fn show(
        &mut self,
        committees: &Committees,
        unit: Unit,
        signers: &Bitfield,
        vote: &Vote,
    ) {
        if let Some(shown) = &mut self.shown {
            let validators = committees.local_signers(unit, signers);
            if !validators.is_empty() {
                let vote = *vote;
                shown.push_back(Shown { vote, validators });
            }
        }
    }

    /// Returns the next recorded item.
    pub(super) fn take_shown(&mut self) -> Option<Shown> {
        self.shown.as_mut()?.pop_front()
    }

    /// Drops the message for a reason that is not its own, such as a failed job.
    pub(super) fn ignore(&mut self, origin: Origin) {
        self.verdict(origin, Verdict::Ignore);
    }

    fn verdict(&mut self, origin: Origin, verdict: Verdict) {
        if let Some((_, token)) = origin {
            self.outputs.push_back(Output::Verdict { token, verdict });
        }
    }

    /// Reports two contradicting statements of a slot.
    pub(super) fn evidence(&mut self, slot: Slot, first: Bytes, second: Bytes) {
        self.counters.evidence += 1;
        // By slot, so that a slot full of equivocators hides none of a later one.
        let count = self.evidence.entry(slot).or_default();
        *count += 1;
        if *count <= EVIDENCE_PER_SLOT_MAX {
            let pair = Evidence { first, second };
            self.outputs.push_back(Output::Evidence(pair));
        }
    }
}

/// Index of a kind in the arrays of [`Counters`].
pub(super) fn index(kind: Kind) -> usize {
    kind as usize
}
