//! Who of the local validators serves in a slot.

use alphorn_scheme::{self as scheme, Bytes, Outcome, SelectJob};
use alphorn_types::{Slot, Validator};

use super::config::Selection;
use super::effects::Request;
use super::machine::Horn;
use super::selection::{self, Post};
use super::state::Serving;
use super::task::Purpose;
use crate::contract::Class;
use crate::job::{Product, Work};
use crate::slot::Phase;
use crate::wire::{Kind, digest};

impl Horn {
    /// Finds out at the start of a slot who serves: by rank at once, by lottery from the proofs of
    /// a job for each role and committee. The lottery's message is known then, and the proofs are
    /// needed two phases later.
    pub(super) fn select(&mut self, slot: Slot) {
        for committee in 0..self.config.layout.committees() {
            match self.config.selection {
                Selection::Rank => self.select_by_rank(slot, committee),
                Selection::Lottery => {
                    self.draw(slot, committee, Kind::Aggregate, Phase::Aggregate);
                    self.draw(slot, committee, Kind::Collection, Phase::Collect);
                }
            }
        }
    }

    fn select_by_rank(&mut self, slot: Slot, committee: u16) {
        let subcommittees = 0..self.config.layout.subcommittees();
        let cells = subcommittees.map(|subcommittee| {
            Post::Aggregator(alphorn_types::Cell {
                committee,
                subcommittee,
            })
        });
        let aggregators = cells
            .flat_map(|post| self.serving_by_rank(slot, post))
            .collect();
        let collectors = self.serving_by_rank(slot, Post::Collector(committee));
        if let Some(state) = self.slots.get_mut(&slot) {
            state.aggregators[usize::from(committee)] = aggregators;
            state.collectors[usize::from(committee)] = collectors;
        }
    }

    /// The local members of a post who serve by rank.
    fn serving_by_rank(&mut self, slot: Slot, post: Post) -> Vec<Serving> {
        let target = self.config.target(post);
        let Some(state) = self.slots.get_mut(&slot) else {
            return Vec::new();
        };
        let committees = state.committees.clone();
        let layout = committees.assignment.layout();
        let positions = post.positions(layout);
        if committees.local_in(positions.clone()).is_empty() {
            return Vec::new();
        }
        let mut serving = Vec::new();
        for (rank, &position) in (0u32..).zip(state.ranked(post, target)) {
            let position = positions.start + position;
            let validator = committees.assignment.member(position);
            if self.local.validators.get(validator.0 as usize) {
                let cell = layout.cell_of(position);
                serving.push(Serving {
                    validator,
                    cell,
                    proof: None,
                    rank,
                });
            }
        }
        serving
    }

    fn draw(&mut self, slot: Slot, committee: u16, role: Kind, phase: Phase) {
        let Some(state) = self.slots.get_mut(&slot) else {
            return;
        };
        let validators = state.committees.local_members(committee);
        if validators.is_empty() {
            return;
        }
        state.selecting += 1;
        let seed = &state.committees.seed;
        let message = digest::selection_message(self.config.network(), seed, role, slot);
        let job = SelectJob {
            message,
            validators: validators.clone(),
        };
        let request = Request {
            session: state.sessions.duty,
            message,
            committee: Some(committee),
            subcommittee: None,
            class: Class::Current,
            soft: self.clock.phase_start(slot, phase),
            hard: self.clock.slot_start(slot.next()),
            work: Work::Scheme(scheme::Work::Select(job)),
        };
        self.fx.spawn(
            request,
            Purpose::Select {
                slot,
                role,
                committee,
                validators,
            },
        );
    }

    /// Keeps the tickets that win.
    pub(super) fn selected(
        &mut self,
        slot: Slot,
        role: Kind,
        committee: u16,
        validators: &[Validator],
        outcome: Outcome<Product>,
    ) {
        let bytes = self.info.sizes.selection_proof_bytes.unwrap_or(0);
        let proofs = self
            .signatures(outcome, validators.len(), bytes)
            .unwrap_or_default();
        let Some(state) = self.slots.get_mut(&slot) else {
            return;
        };
        state.selecting -= 1;
        let mut serving = Vec::new();
        for (&validator, proof) in validators.iter().zip(proofs) {
            let Some(cell) = state.committees.assignment.cell_of(validator) else {
                continue;
            };
            let post = match role {
                Kind::Aggregate => Post::Aggregator(cell),
                _ => Post::Collector(committee),
            };
            if let Some(rank) = self.config.wins(post, &proof) {
                serving.push(Serving {
                    validator,
                    cell,
                    proof: Some(proof),
                    rank,
                });
            }
        }
        let index = usize::from(committee);
        match role {
            Kind::Aggregate => state.aggregators[index] = serving,
            _ => state.collectors[index] = serving,
        }
        self.plan_aggregates(slot, committee);
        self.plan_collections(slot, committee);
        // Collectors wait for the last selection, which may have been this one.
        if self
            .slots
            .get(&slot)
            .is_some_and(|state| state.selecting == 0)
        {
            self.hurry_collectors(slot);
        }
    }
}

impl super::Config {
    /// The expected rank of the holder of a proof at a post, if its ticket wins.
    fn wins(&self, post: Post, proof: &Bytes) -> Option<u32> {
        let positions = post.positions(&self.layout);
        let members = positions.end - positions.start;
        let ticket = selection::ticket(proof);
        selection::selected(ticket, u32::from(self.target(post)), members)
            .then(|| selection::expected_rank(ticket, members))
    }
}
