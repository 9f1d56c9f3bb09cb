//! The local validators that serve at a level in a slot: by rank immediately, by lottery from the proofs
//! of one job per committee. The lottery's message is known when the slot begins, and the proofs are
//! needed at least two phases later.

use alphorn_scheme::{Class, Outcome, Product, SelectJob, Work};
use alphorn_types::{Slot, Unit, Validator};
use std::collections::BTreeMap;

use super::config::Selection;
use super::effects::Request;
use super::role::Shared;
use super::selection;
use super::state::Serving;
use super::task::Purpose;
use crate::slot::Phase;
use crate::wire::digest;

/// A job that finds which local members of a committee serve.
pub(super) struct Draw {
    pub(super) slot: Slot,
    pub(super) level: u8,
    pub(super) committee: u16,
    validators: Vec<Validator>,
}

/// The serving validators of a slot.
struct OfSlot {
    /// By committee, where there are any.
    serving: BTreeMap<u16, Vec<Serving>>,
    /// Number of draws in flight.
    draws: u32,
}

impl OfSlot {
    fn insert(&mut self, committee: u16, serving: Vec<Serving>) {
        if !serving.is_empty() {
            self.serving.insert(committee, serving);
        }
    }
}

/// The local serving validators by slot.
pub(super) struct Roster {
    level: u8,
    slots: BTreeMap<Slot, OfSlot>,
}

impl Roster {
    /// Creates the roster of a level.
    pub(super) fn new(level: u8) -> Self {
        Self {
            level,
            slots: BTreeMap::new(),
        }
    }

    /// The local members of a committee that serve, as far as known.
    pub(super) fn serving(&self, slot: Slot, committee: u16) -> &[Serving] {
        let of = self.slots.get(&slot);
        let serving = of.and_then(|of| of.serving.get(&committee));
        serving.map_or(&[], Vec::as_slice)
    }

    /// The local serving members of all committees.
    pub(super) fn all(&self, slot: Slot) -> impl Iterator<Item = &Serving> {
        self.slots
            .get(&slot)
            .into_iter()
            .flat_map(|of| of.serving.values().flatten())
    }

    /// Whether all serving validators are known.
    pub(super) fn is_settled(&self, slot: Slot) -> bool {
        self.slots.get(&slot).is_none_or(|of| of.draws == 0)
    }

    pub(super) fn close(&mut self, slot: Slot) {
        self.slots.remove(&slot);
    }

    /// Determines who serves in a slot that begins.
    pub(super) fn open(&mut self, shared: &mut Shared<'_>, slot: Slot) {
        let committees = 0..shared.config.layout.committees();
        let mut of = OfSlot {
            serving: BTreeMap::new(),
            draws: 0,
        };
        for committee in committees {
            match shared.config.selection {
                Selection::Rank => {
                    of.insert(committee, self.by_rank(shared, slot, committee));
                }
                Selection::Lottery => of.draws += u32::from(self.draw(shared, slot, committee)),
            }
        }
        // Most nodes serve nowhere.
        if !of.serving.is_empty() || of.draws > 0 {
            self.slots.insert(slot, of);
        }
    }

    fn by_rank(&self, shared: &Shared<'_>, slot: Slot, committee: u16) -> Vec<Serving> {
        let Some(state) = shared.slot(slot) else {
            return Vec::new();
        };
        let (committees, layout) = (&state.committees, state.layout());
        let target = shared.config.level(self.level).publishers;
        let mut serving = Vec::new();
        for index in 0..layout.units_of_committee(self.level) {
            let unit = Unit::new(self.level, committee, index);
            let positions = layout.unit_range(unit);
            // Before the shuffle below: most units have no local member.
            if committees.local_in(positions.clone()).is_empty() {
                continue;
            }
            let members = committees.ranked(slot, unit, target);
            for (rank, position) in (0u32..).zip(members.iter()) {
                let validator = committees.assignment.member(positions.start + position);
                if shared.local.hosts(validator) {
                    serving.push(Serving {
                        validator,
                        unit,
                        proof: None,
                        rank,
                    });
                }
            }
        }
        serving
    }

    /// Requests the proofs of a committee's local members. False if it has none.
    fn draw(&self, shared: &mut Shared<'_>, slot: Slot, committee: u16) -> bool {
        let Some(state) = shared.slot(slot) else {
            return false;
        };
        let validators = state.committees.local_members(committee);
        if validators.is_empty() {
            return false;
        }
        let (level, seed) = (self.level, &state.committees.seed);
        let message = digest::selection_message(shared.config.network(), seed, level, slot);
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
            soft: shared.clock.phase_start(slot, Phase::Level(level)),
            hard: shared.clock.slot_start(slot.next()),
            work: Work::Select(job),
        };
        let draw = Draw {
            slot,
            level,
            committee,
            validators,
        };
        shared.fx.spawn(request, Purpose::Draw(draw));
        true
    }

    /// Keeps the winning tickets.
    pub(super) fn drawn(&mut self, shared: &mut Shared<'_>, draw: Draw, outcome: Outcome<Product>) {
        let bytes = shared.info.sizes.selection_proof_bytes.unwrap_or(0);
        let count = draw.validators.len();
        let proofs = shared.signatures(outcome, count, bytes).unwrap_or_default();
        let state = shared.slot(draw.slot);
        let (Some(state), Some(of)) = (state, self.slots.get_mut(&draw.slot)) else {
            return;
        };
        // It was counted: a slot restarts under other committees only while none of its draws is running
        // (`Horn::follow_branch`).
        of.draws -= 1;
        let mut serving = Vec::new();
        for (validator, proof) in draw.validators.into_iter().zip(proofs) {
            let Some(position) = state.committees.assignment.position(validator) else {
                continue;
            };
            let unit = state.layout().unit_at(self.level, position);
            let (ticket, members) = (selection::ticket(&proof), state.layout().unit_len(unit));
            let target = u32::from(shared.config.level(self.level).publishers);
            if selection::selected(ticket, target, members) {
                serving.push(Serving {
                    validator,
                    unit,
                    proof: Some(proof),
                    rank: selection::expected_rank(ticket, members),
                });
            }
        }
        of.insert(draw.committee, serving);
    }
}
