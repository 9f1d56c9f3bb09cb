//! Who of the local validators serves at a kind of post in a slot: by rank at once, by lottery from
//! the proofs of a job for each committee. The lottery's message is known when the slot begins, and
//! the proofs are needed two phases later.

use alphorn_scheme::{Bytes, Class, Outcome, Product, SelectJob, Work};
use alphorn_types::{Cell, Slot, Validator};
use std::collections::BTreeMap;

use super::config::{Config, Selection};
use super::effects::Request;
use super::role::Shared;
use super::selection::{self, Post};
use super::state::Serving;
use super::task::Purpose;
use crate::wire::{Kind, digest};

/// Find out which local members of a committee serve.
pub(super) struct Draw {
    pub(super) slot: Slot,
    pub(super) kind: Kind,
    pub(super) committee: u16,
    validators: Vec<Validator>,
}

/// Who serves in a slot.
struct OfSlot {
    /// By committee.
    serving: Vec<Vec<Serving>>,
    /// Draws that run.
    draws: u32,
}

/// Who of the local validators serves, slot by slot.
pub(super) struct Roster {
    /// What is published from the posts.
    kind: Kind,
    slots: BTreeMap<Slot, OfSlot>,
}

impl Roster {
    /// That of the posts from which messages of `kind` are published.
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            slots: BTreeMap::new(),
        }
    }

    /// The local members of a committee who serve, as far as they are known.
    pub(super) fn serving(&self, slot: Slot, committee: u16) -> &[Serving] {
        let of = self.slots.get(&slot);
        of.map_or(&[], |of| &of.serving[usize::from(committee)])
    }

    /// Local members of all committees who serve.
    pub(super) fn all(&self, slot: Slot) -> impl Iterator<Item = &Serving> {
        self.slots
            .get(&slot)
            .into_iter()
            .flat_map(|of| of.serving.iter().flatten())
    }

    /// Whether all who serve are known.
    pub(super) fn is_settled(&self, slot: Slot) -> bool {
        self.slots.get(&slot).is_none_or(|of| of.draws == 0)
    }

    pub(super) fn close(&mut self, slot: Slot) {
        self.slots.remove(&slot);
    }

    /// Finds out who serves in a slot that begins.
    pub(super) fn open(&mut self, shared: &mut Shared<'_>, slot: Slot) {
        let committees = 0..shared.config.layout.committees();
        let mut of = OfSlot {
            serving: committees.clone().map(|_| Vec::new()).collect(),
            draws: 0,
        };
        for committee in committees {
            match shared.config.selection {
                Selection::Rank => {
                    of.serving[usize::from(committee)] = self.by_rank(shared, slot, committee);
                }
                Selection::Lottery => of.draws += u32::from(self.draw(shared, slot, committee)),
            }
        }
        self.slots.insert(slot, of);
    }

    /// The posts of a committee.
    fn posts(&self, config: &Config, committee: u16) -> Vec<Post> {
        if self.kind != Kind::Aggregate {
            return vec![Post::Collector(committee)];
        }
        let cell = |subcommittee| {
            Post::Aggregator(Cell {
                committee,
                subcommittee,
            })
        };
        (0..config.layout.subcommittees()).map(cell).collect()
    }

    fn by_rank(&self, shared: &Shared<'_>, slot: Slot, committee: u16) -> Vec<Serving> {
        let Some(state) = shared.slot(slot) else {
            return Vec::new();
        };
        let (committees, layout) = (&state.committees, state.layout());
        let mut serving = Vec::new();
        for post in self.posts(shared.config, committee) {
            let positions = post.positions(layout);
            if committees.local_in(positions.clone()).is_empty() {
                continue;
            }
            let members = committees.ranked(slot, post, shared.config.target(post));
            for (rank, position) in (0u32..).zip(members.iter()) {
                let position = positions.start + position;
                let validator = committees.assignment.member(position);
                if shared.local.validators.get(validator.0 as usize) {
                    serving.push(Serving {
                        validator,
                        cell: layout.cell_of(position),
                        proof: None,
                        rank,
                    });
                }
            }
        }
        serving
    }

    /// Has the proofs of a committee's local members made. False if it has none.
    fn draw(&self, shared: &mut Shared<'_>, slot: Slot, committee: u16) -> bool {
        let Some(state) = shared.slot(slot) else {
            return false;
        };
        let validators = state.committees.local_members(committee);
        if validators.is_empty() {
            return false;
        }
        let (kind, seed) = (self.kind, &state.committees.seed);
        let message = digest::selection_message(shared.config.network(), seed, kind, slot);
        let job = SelectJob {
            message,
            validators: validators.clone(),
        };
        let phase = kind.phase();
        let request = Request {
            session: state.sessions.duty,
            message,
            committee: Some(committee),
            subcommittee: None,
            class: Class::Current,
            soft: shared.clock.phase_start(slot, phase),
            hard: shared.clock.slot_start(slot.next()),
            work: Work::Select(job),
        };
        let draw = Draw {
            slot,
            kind,
            committee,
            validators,
        };
        shared.fx.spawn(request, Purpose::Draw(draw));
        true
    }

    /// Keeps the tickets that win.
    pub(super) fn drawn(&mut self, shared: &mut Shared<'_>, draw: Draw, outcome: Outcome<Product>) {
        let bytes = shared.info.sizes.selection_proof_bytes.unwrap_or(0);
        let count = draw.validators.len();
        let proofs = shared.signatures(outcome, count, bytes).unwrap_or_default();
        let state = shared.slot(draw.slot);
        let (Some(state), Some(of)) = (state, self.slots.get_mut(&draw.slot)) else {
            return;
        };
        of.draws -= 1;
        let mut serving = Vec::new();
        for (validator, proof) in draw.validators.into_iter().zip(proofs) {
            let Some(cell) = state.committees.assignment.cell_of(validator) else {
                continue;
            };
            let post = match self.kind {
                Kind::Aggregate => Post::Aggregator(cell),
                _ => Post::Collector(draw.committee),
            };
            if let Some(rank) = wins(shared.config, post, &proof) {
                serving.push(Serving {
                    validator,
                    cell,
                    proof: Some(proof),
                    rank,
                });
            }
        }
        of.serving[usize::from(draw.committee)] = serving;
    }
}

/// The expected rank of the holder of a proof at a post, if its ticket wins.
fn wins(config: &Config, post: Post, proof: &Bytes) -> Option<u32> {
    let positions = post.positions(&config.layout);
    let members = positions.end - positions.start;
    let ticket = selection::ticket(proof);
    selection::selected(ticket, u32::from(config.target(post)), members)
        .then(|| selection::expected_rank(ticket, members))
}
