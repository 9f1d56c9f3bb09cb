//! The voter: one vote a slot, for the head that this machine sees when the phase begins.

use alphorn_scheme::{self as scheme, Bytes, Outcome, Role, SignItem, SignJob};
use alphorn_types::{Slot, Validator};
use std::sync::Arc;

use super::ballot::Ballot;
use super::effects::Request;
use super::machine::Horn;
use super::task::Purpose;
use crate::contract::Class;
use crate::job::{Product, Work};
use crate::slot::Phase;
use crate::wire::{Topic, VoteMsg};

impl Horn {
    /// Fixes the vote of this machine and has it signed for all local voters, a job for each
    /// committee: all of them sign the same message.
    pub(super) fn cast_votes(&mut self, slot: Slot) {
        let Some(ballot) = self.fix_own_vote(slot) else {
            return;
        };
        let (soft, hard) = (
            self.clock.phase_start(slot, Phase::Aggregate),
            self.clock.slot_start(slot.next()),
        );
        let Some(state) = self.slots.get_mut(&slot) else {
            return;
        };
        let committees = state.committees.clone();
        for committee in 0..self.config.layout.committees() {
            let mut voters = committees.local_members(committee);
            voters.retain(|voter| self.local.voters.get(voter.0 as usize));
            if voters.is_empty() {
                continue;
            }
            let item = |&validator: &Validator| SignItem {
                validator,
                role: Role::Vote,
                message: ballot.message,
                guard: Some(ballot.guard()),
            };
            let items = voters.iter().map(item).collect();
            state.votes_signing[usize::from(committee)] += 1;
            let request = Request {
                session: state.sessions.duty,
                message: ballot.message,
                committee: Some(committee),
                subcommittee: None,
                class: Class::Duty,
                soft,
                hard,
                work: Work::Scheme(scheme::Work::Sign(SignJob::new(slot, items))),
            };
            let ballot = ballot.clone();
            self.fx.spawn(
                request,
                Purpose::SignVotes {
                    slot,
                    committee,
                    ballot,
                    voters,
                },
            );
        }
    }

    pub(super) fn votes_signed(
        &mut self,
        slot: Slot,
        committee: u16,
        ballot: &Arc<Ballot>,
        voters: &[Validator],
        outcome: Outcome<Product>,
    ) {
        if let Some(state) = self.slots.get_mut(&slot) {
            state.votes_signing[usize::from(committee)] -= 1;
        }
        match self.signatures(outcome, voters.len(), self.info.sizes.signature_bytes) {
            // A vote that nobody takes any more is not sent: it would only be evidence of delay.
            Some(signatures) if self.now < self.window_end(slot) => {
                for (&validator, signature) in voters.iter().zip(signatures) {
                    self.publish_vote(ballot, validator, signature);
                }
            }
            Some(_) => self.fx.counters.stale += voters.len() as u64,
            None => {}
        }
        self.advance_aggregators(slot, committee);
    }

    fn publish_vote(&mut self, ballot: &Arc<Ballot>, validator: Validator, signature: Bytes) {
        let Some(cell) = self
            .slots
            .get(&ballot.vote.slot)
            .and_then(|state| state.committees.assignment.cell_of(validator))
        else {
            return;
        };
        let vote = ballot.vote;
        let message = VoteMsg {
            vote,
            validator,
            signature,
        };
        let data: Bytes = message.encode(&self.format).into();
        let topic = Topic::Vote { cell };
        let late = self.now >= self.clock.phase_start(vote.slot, Phase::Aggregate);
        self.fx.publish(vote.slot, late, topic, data.clone());
        if self.local.trust_own {
            self.take_own_vote(ballot, validator, message.signature);
        } else {
            self.receive(None, topic, data);
        }
    }

    /// The signatures of a job that was to make `count` of `bytes` each.
    pub(super) fn signatures(
        &mut self,
        outcome: Outcome<Product>,
        count: usize,
        bytes: usize,
    ) -> Option<Vec<Bytes>> {
        let signed = match outcome {
            Outcome::Done(Product::Scheme(
                scheme::Product::Signed(signed) | scheme::Product::Selected(signed),
            )) if signed.len() == count && signed.iter().all(|one| one.len() == bytes) => signed,
            _ => {
                self.fx.counters.jobs_failed += 1;
                return None;
            }
        };
        Some(signed.iter().map(Bytes::from).collect())
    }
}
