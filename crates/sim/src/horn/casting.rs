//! What nodes know of their broadcasts in coded pieces: what all of them share, and the state of one.

use super::error::HornError;
use super::message::Item;
use super::plan::{Plan, TopicId};
use super::work::Code;
use crate::gossip::DenseId;
use crate::random;
use crate::role::caster::{Caster, Coder};
use crate::run::error::RunError;
use crate::run::policy::{policy_of, privacy, replace_needs};
use crate::scenario::{Horn as Chosen, Scenario};
use alphorn_broadcast::rlnc::{Id, ModelRs, Strategy, Subject};
use alphorn_broadcast::{Config, Input, Place, Policy};
use alphorn_proto::Peer;
use alphorn_proto::horn::cast::{self, JOBS, Settings};
use alphorn_proto::horn::{Horn, KIND_BLOCK, Sources};
use alphorn_scheme::Op;
use alphorn_types::{Slot, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A subject as a key.
pub(super) type Name = (u8, u64, u32, u32);

pub(super) fn name(subject: &Subject) -> Name {
    (subject.kind, subject.slot, subject.source, subject.index)
}

/// State shared by all nodes of a run.
#[derive(Debug)]
pub(super) struct Casting {
    coder: Arc<Coder<Code>>,
    config: Arc<Config>,
    pub(super) settings: Settings,
    seed: u64,
    /// Messages published in pieces, and their numbers on their topics: one message per duty.
    published: Mutex<BTreeMap<Name, (DenseId, Item)>>,
}

impl Casting {
    /// Builds the shared state if any topic is coded, for nodes with about this many neighbours.
    ///
    /// # Errors
    /// If there is no cost table for the code, or the parameters are invalid.
    pub(super) fn of(
        plan: &Plan,
        scenario: &Scenario,
        chosen: &Chosen,
        machine: &Horn,
        neighbours: usize,
        seed: u64,
    ) -> Result<Option<Arc<Casting>>, RunError> {
        if !plan.casts() {
            return Ok(None);
        }
        let table = scenario.code_costs()?.ok_or(HornError::CodeCosts)?;
        let config = config(chosen, machine, neighbours)?;
        let auth_bytes = plan.format.duty_signature_bytes;
        Ok(Some(Arc::new(Casting {
            coder: Arc::new(Coder {
                code: ModelRs::new(config.payload_bytes_max),
                table: Some(table),
                sign_ns: plan.duty_ns(Op::DutySign),
                verify_ns: plan.duty_ns(Op::DutyVerify),
                auth_bytes,
            }),
            config: Arc::new(config),
            settings: chosen.broadcast_above.map_or(Settings::default(), |bytes| {
                let above_bytes = bytes as usize;
                Settings { above_bytes }
            }),
            seed,
            published: Mutex::default(),
        })))
    }

    pub(super) fn published(&self) -> MutexGuard<'_, BTreeMap<Name, (DenseId, Item)>> {
        // A panic ends the run.
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parameters of a node's state machine, with the scenario's overrides.
fn config(chosen: &Chosen, machine: &Horn, neighbours: usize) -> Result<Config, HornError> {
    let mut config = cast::config(machine);
    // A node deals places by default. Here that is an option of the scenario, with one place per neighbour.
    config.places = 0;
    if let Some(chosen) = &chosen.broadcast {
        let invalid = |why: String| HornError::Choice {
            key: "broadcast.policy",
            value: chosen.policy.clone(),
            why,
        };
        // The scenario's bounds refuse numbers unless a named policy is given for them to override.
        let policy = policy_of(chosen, Strategy::Rs, Policy::MEDIUM);
        config.policy = policy.map_err(|error| invalid(error.to_string()))?;
        if chosen.places == Some(true) {
            config.places = u16::try_from(neighbours).unwrap_or(u16::MAX);
        }
        replace_needs(&mut config, chosen);
        if let Some(chosen) = chosen.source_privacy {
            config.source_privacy = privacy(chosen);
        }
        if let Some(pieces) = chosen.in_flight {
            config.sends_in_flight_peer_max = u8::try_from(pieces).unwrap_or(u8::MAX);
        }
    }
    config.memory_bytes_max = u64::MAX;
    config.validate()?;
    Ok(config)
}

/// One of the node's own messages, whose broadcast has not started.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) subject: Subject,
    pub(super) topic: TopicId,
    pub(super) id: DenseId,
    pub(super) item: Item,
}

/// The broadcasts of a node.
pub(crate) struct Casts {
    pub(super) shared: Arc<Casting>,
    pub(super) caster: Caster<Code>,
    /// The node's numbers for its neighbours, ascending. The state machine uses indices into this list.
    links: Vec<u32>,
    pub(super) sources: Sources,
    slot: Slot,
    /// Whether the assignment of duties may have changed.
    stale: bool,
    pub(super) own: Vec<Own>,
}

impl Casts {
    /// Creates the broadcasts of a node with these neighbours, given by its numbers for them, ascending.
    pub(super) fn new(
        shared: Arc<Casting>,
        node: u32,
        links: Vec<u32>,
        machine: &Horn,
    ) -> Box<Casts> {
        let sources = machine.sources();
        let secret = random::bytes(shared.seed, "broadcast", node);
        let schedule = Arc::new(sources.clone());
        let (coder, config) = (shared.coder.clone(), shared.config.clone());
        let mut caster = Caster::new(coder, config, schedule, secret, JOBS);
        for peer in (0..links.len() as u64).map(Peer) {
            caster.handle(Time::ZERO, Input::PeerUp { peer });
        }
        Box::new(Casts {
            caster,
            links,
            sources,
            slot: Slot(0),
            stale: false,
            own: Vec::new(),
            shared,
        })
    }

    /// The node's numbers for its neighbours.
    pub(super) fn links(&self) -> &[u32] {
        &self.links
    }

    /// Position of a neighbour in this node's order, given its index among the neighbours.
    pub(super) fn place_of(&self, index: usize) -> Option<Place> {
        self.caster.place_of(Peer(index as u64))
    }

    /// Takes the position that a neighbour sent in its handshake.
    pub(super) fn placed(&mut self, index: usize, place: Place) {
        let peer = Peer(index as u64);
        self.caster
            .handle(Time::ZERO, Input::Placed { peer, place });
    }

    /// The state machine's number for a neighbour.
    pub(super) fn peer(&self, number: Peer) -> Option<Peer> {
        let number = u32::try_from(number.0).ok()?;
        let index = self.links.binary_search(&number).ok()?;
        Some(Peer(index as u64))
    }

    /// The node's number for one of the state machine's.
    pub(super) fn number(&self, peer: Peer) -> Option<Peer> {
        let number = self.links.get(usize::try_from(peer.0).ok()?)?;
        Some(Peer(u64::from(*number)))
    }

    pub(super) fn is_block(&self, id: &Id) -> bool {
        let subject = self.caster.subject(id);
        subject.is_some_and(|subject| subject.kind == KIND_BLOCK)
    }

    /// Updates the assignment of duties.
    pub(super) fn follow(&mut self, slot: Slot, machine: &Horn) {
        // This runs at every message about a broadcast, so the tables are compared only when they may have changed.
        if slot == self.slot && !self.stale {
            return;
        }
        (self.slot, self.stale) = (slot, false);
        let sources = machine.sources();
        if !sources.is_same(&self.sources) {
            self.caster.set_schedule(Arc::new(sources.clone()));
            self.sources = sources;
        }
    }

    /// The protocol ended a job, so it may know more duties.
    pub(super) fn learned(&mut self) {
        self.stale = true;
    }

    /// When it next needs to be woken.
    #[inline]
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.caster.next_deadline()
    }

    /// Bytes of pieces that added no information.
    pub(super) fn duplicate_bytes(&self) -> u64 {
        self.caster.duplicate_bytes()
    }

    /// Reasons of refusals, with their counts.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.caster.refused().reasons()
    }
}
