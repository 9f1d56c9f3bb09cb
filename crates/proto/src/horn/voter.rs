//! The voter: one vote per slot, for the head this node sees when the phase begins.

use alphorn_scheme::{Bytes, Class, Outcome, Product, Role as Signer, SignItem, SignJob, Work};
use alphorn_types::{Slot, Time, Validator};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::ballot::Ballot;
use super::deadlines::window_end;
use super::effects::Request;
use super::role::{Role, Shared};
use super::task::Purpose;
use crate::slot::Phase;
use crate::wire::VoteMsg;

/// Inputs of a voter.
pub(super) enum Input {
    /// The phase begins, and this is the vote to cast.
    Begin { slot: Slot, ballot: Arc<Ballot> },
    /// A job ended.
    Finished { job: Job, outcome: Outcome<Product> },
    /// Messages of the slot are no longer accepted.
    Close { slot: Slot },
}

/// A job that signs the votes of local members of a committee.
pub(super) struct Job {
    pub(super) slot: Slot,
    pub(super) committee: u16,
    ballot: Arc<Ballot>,
    voters: Vec<Validator>,
}

/// A signed vote.
pub(super) struct Made {
    pub(super) ballot: Arc<Ballot>,
    pub(super) message: VoteMsg,
}

/// The voters among the local validators.
#[derive(Default)]
pub(super) struct Voter {
    /// Number of jobs in flight, by slot and committee.
    signing: BTreeMap<(Slot, u16), u32>,
    made: VecDeque<Made>,
}

impl Voter {
    /// Whether no vote of a committee remains to be signed here.
    pub(super) fn is_settled(&self, slot: Slot, committee: u16) -> bool {
        !self.signing.contains_key(&(slot, committee))
    }

    /// Requests signatures of the vote for all local voters, one job per committee: all of them sign the
    /// same message.
    fn begin(&mut self, shared: &mut Shared<'_>, slot: Slot, ballot: &Arc<Ballot>) {
        let Some(state) = shared.slot(slot) else {
            return;
        };
        let deadlines = shared.deadlines(Phase::Vote, slot);
        for committee in 0..state.layout().committees() {
            let mut voters = state.committees.local_members(committee);
            voters.retain(|voter| shared.local.votes(*voter));
            if voters.is_empty() {
                continue;
            }
            let item = |&validator: &Validator| SignItem {
                validator,
                role: Signer::Vote,
                message: ballot.message,
                guard: Some(ballot.guard()),
            };
            let items = voters.iter().map(item).collect();
            *self.signing.entry((slot, committee)).or_default() += 1;
            let request = Request {
                session: state.sessions.duty,
                message: ballot.message,
                committee: Some(committee),
                subcommittee: None,
                class: Class::Duty,
                soft: deadlines.wanted,
                hard: deadlines.signed,
                work: Work::Sign(SignJob::new(slot, items)),
            };
            let job = Job {
                slot,
                committee,
                ballot: ballot.clone(),
                voters,
            };
            shared.fx.spawn(request, Purpose::Voter(job));
        }
    }

    fn finished(&mut self, shared: &mut Shared<'_>, job: Job, outcome: Outcome<Product>) {
        let Job {
            slot,
            committee,
            ballot,
            voters,
        } = job;
        // None if the slot has been closed in the meantime.
        if let Some(running) = self.signing.get_mut(&(slot, committee)) {
            *running -= 1;
            if *running == 0 {
                self.signing.remove(&(slot, committee));
            }
        }
        let bytes = shared.info.sizes.signature_bytes;
        match shared.signatures(outcome, voters.len(), bytes) {
            // A vote that peers no longer accept is not sent: it would only be evidence of delay.
            Some(signatures) if shared.now < window_end(shared.clock, slot) => {
                let made = |(validator, signature): (Validator, Bytes)| Made {
                    ballot: ballot.clone(),
                    message: VoteMsg {
                        vote: ballot.vote,
                        validator,
                        signature,
                    },
                };
                self.made
                    .extend(voters.into_iter().zip(signatures).map(made));
            }
            Some(_) => shared.fx.counters.stale += voters.len() as u64,
            None => {}
        }
    }
}

impl Role for Voter {
    type Input = Input;
    type Made = Made;

    fn handle(&mut self, shared: &mut Shared<'_>, input: Input) {
        match input {
            Input::Begin { slot, ballot } => self.begin(shared, slot, &ballot),
            Input::Finished { job, outcome } => self.finished(shared, job, outcome),
            Input::Close { slot } => self.signing.retain(|(of, _), _| *of != slot),
        }
    }

    fn poll_output(&mut self, _: &mut Shared<'_>) -> Option<Made> {
        let made = self.made.pop_front();
        if self.made.is_empty() {
            // Votes occur only once per slot.
            self.made = VecDeque::new();
        }
        made
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}
