//! A topic at a member node: the state machine of its dissemination.

use super::plan::TopicId;
use crate::gossip::{
    self, DenseId, Gossip, Input, Links, Machine as _, Message, Output, PEERS_MAX, Payload,
    PeerSet, Peers, Plain,
};
use crate::scenario::Way;
use alphorn_proto::{Peer, Token, Verdict};
use alphorn_types::Time;
use std::sync::Arc;

/// Maximum number of neighbours of a mesh member. One number is left for nodes that are not members.
pub(crate) const LINKS_MAX: usize = PEERS_MAX - 1;

/// Any node that is not a member. In a mesh such nodes share one number, which is never in it.
const OUTSIDE: Peer = Peer(LINKS_MAX as u64);

#[derive(Debug)]
enum Machine<P> {
    Gossip(Box<Gossip<P>>),
    Plain(Box<Plain<P>>),
}

/// Which component waits for the verdict on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The state machine, which may forward it.
    Machine(Token),
    /// None: it was sent directly, and is not forwarded.
    Direct,
    /// None: it came in pieces, and its source is answerable for it.
    Source,
    /// None yet: a publisher handed it in, and it is published if it is valid.
    HandedIn,
}

/// A message that waits for verification.
#[derive(Clone, Debug)]
pub(crate) struct Pending<P> {
    /// Which component waits for the verdict.
    pub origin: Origin,
    /// Its number on the topic.
    pub id: DenseId,
    /// The message.
    pub item: P,
}

/// Neighbours of a member on its topic, by the node's numbers for them, ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    /// All of them.
    pub all: Vec<u32>,
    /// Indices of those in the mesh; for a mesh only.
    pub mesh: Vec<u8>,
    /// Indices of those in the same row and column; for a grid only.
    pub grid: Option<Links<u32>>,
}

/// A topic at a member: its state machine and its neighbours.
#[derive(Debug)]
pub(crate) struct Subscription<P> {
    /// The topic.
    pub id: TopicId,
    machine: Machine<P>,
    /// The neighbours' numbers. A mesh numbers its neighbours by their index here.
    links: Vec<u32>,
    /// Messages handed in by publishers that are not members.
    handed: Vec<Pending<P>>,
}

impl<P: Payload> Subscription<P> {
    /// Creates a member with these neighbours.
    ///
    /// # Panics
    /// If a mesh has more than [`LINKS_MAX`] neighbours.
    pub(crate) fn new(
        id: TopicId,
        way: Way,
        neighbours: Neighbours,
        config: &Arc<gossip::Config>,
        seed: u64,
    ) -> Subscription<P> {
        let Neighbours { all, mesh, grid } = neighbours;
        let number = |index: &u32| Peer(u64::from(all[*index as usize]));
        let machine = match way {
            Way::Direct => {
                let receivers = all.iter().map(|number| Peer(u64::from(*number)));
                let machine = Plain::direct(config.clone(), receivers.collect());
                Machine::Plain(Box::new(machine))
            }
            Way::Grid => {
                let links = grid.unwrap_or(Links {
                    row: Arc::from([]),
                    column: Arc::from([]),
                });
                let machine = Plain::grid(config.clone(), links.map(number));
                Machine::Plain(Box::new(machine))
            }
            Way::Gossip | Way::Coded => {
                assert!(all.len() <= LINKS_MAX, "{} neighbours", all.len());
                let mut machine = Gossip::new(config.clone(), seed);
                // The machine takes messages of its peers only, so nodes outside must be one.
                for peer in (0..all.len() as u64).map(Peer).chain([OUTSIDE]) {
                    machine.handle(Time::ZERO, Input::PeerUp { peer });
                }
                let adopted = mesh.into_iter().map(|index| Peer(index.into()));
                let adopted = adopted.fold(PeerSet::EMPTY, |set, peer| set.or(PeerSet::one(peer)));
                // A slot should not begin with the formation of the mesh.
                machine.adopt(adopted);
                Machine::Gossip(Box::new(machine))
            }
        };
        Subscription {
            id,
            machine,
            links: all,
            handed: Vec::new(),
        }
    }

    fn input(&mut self, now: Time, input: Input<P>) {
        match &mut self.machine {
            Machine::Gossip(machine) => machine.handle(now, input),
            Machine::Plain(machine) => machine.handle(now, input),
        }
    }

    /// Takes a message from a neighbour, or from a node that is not a member.
    #[inline]
    pub(crate) fn receive(&mut self, now: Time, from: u32, message: Message<P>) {
        match &mut self.machine {
            Machine::Gossip(machine) => {
                // Neighbours are ascending by the node's numbers, and a mesh numbers them by their index.
                let found = self.links.binary_search(&from).ok();
                let from = found.map_or(OUTSIDE, |index| Peer(index as u64));
                machine.handle(now, Input::Message { from, message });
            }
            Machine::Plain(machine) => match message {
                // From outside the grid: it takes a row and a column from here, but only once it is verified.
                Message::Relay { id, payload }
                    if !machine.is_direct() && self.links.binary_search(&from).is_err() =>
                {
                    self.handed.push(Pending {
                        origin: Origin::HandedIn,
                        id,
                        item: payload,
                    });
                }
                message => {
                    let from = Peer(from.into());
                    machine.handle(now, Input::Message { from, message });
                }
            },
        }
    }

    /// Takes the messages that publishers outside the topic handed in since the last call and that need a verdict.
    #[inline]
    pub(crate) fn take_handed(&mut self) -> Vec<Pending<P>> {
        std::mem::take(&mut self.handed)
    }

    /// Takes a copy of a message already present if it has no effect; returns false for any other message.
    #[inline]
    pub(crate) fn absorb(&mut self, from: u32, message: &Message<P>) -> bool {
        match &mut self.machine {
            Machine::Gossip(machine) => {
                let found = self.links.binary_search(&from).ok();
                let from = found.map_or(OUTSIDE, |index| Peer(index as u64));
                machine.absorb(from, message)
            }
            Machine::Plain(_) => false,
        }
    }

    /// The message that a publisher outside the topic sends to the members that take it in.
    pub(crate) fn handed_in(way: Way, id: DenseId, payload: P) -> Message<P> {
        match way {
            Way::Grid => Message::Relay { id, payload },
            Way::Gossip | Way::Coded | Way::Direct => Message::Data { id, payload },
        }
    }

    /// The neighbours' numbers.
    pub(crate) fn links(&self) -> &[u32] {
        &self.links
    }

    /// Whether messages come directly, so that what it delivers is not yet verified.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(&self.machine, Machine::Plain(machine) if machine.is_direct())
    }

    /// Publishes one of this node's messages.
    pub(crate) fn publish(&mut self, now: Time, id: DenseId, payload: P) {
        self.input(now, Input::Publish { id, payload });
    }

    /// Decides on a message.
    pub(crate) fn decide(&mut self, now: Time, token: Token, verdict: Verdict) {
        self.input(now, Input::Verdict { token, verdict });
    }

    /// Handles a deadline that has come.
    pub(crate) fn deadline(&mut self, now: Time) {
        if self.next_deadline().is_some_and(|due| due <= now) {
            self.input(now, Input::Deadline);
        }
    }

    /// When the next deadline is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        match &self.machine {
            Machine::Gossip(machine) => machine.next_deadline(),
            Machine::Plain(_) => None,
        }
    }

    /// Takes the next output of the state machine.
    pub(crate) fn poll_output(&mut self) -> Option<Output<P>> {
        match &mut self.machine {
            Machine::Gossip(machine) => machine.poll_output(),
            Machine::Plain(machine) => machine.poll_output(),
        }
    }

    /// Bytes of duplicates.
    pub(crate) fn duplicate_bytes(&self) -> u64 {
        match &self.machine {
            Machine::Gossip(machine) => machine.duplicates().bytes,
            Machine::Plain(machine) => machine.duplicates().bytes,
        }
    }

    /// The node's number for a neighbour; none for nodes outside a mesh.
    pub(crate) fn neighbour(&self, peer: Peer) -> Option<Peer> {
        match self.machine {
            Machine::Gossip(_) => {
                let number = self.links.get(usize::try_from(peer.0).ok()?)?;
                Some(Peer(u64::from(*number)))
            }
            Machine::Plain(_) => Some(peer),
        }
    }

    /// The node's numbers for some neighbours, in the same order.
    pub(crate) fn neighbours(&self, peers: Peers) -> Peers {
        if !matches!(self.machine, Machine::Gossip(_)) {
            return peers;
        }
        let mut named = peers.iter().filter_map(|peer| self.neighbour(peer));
        match peers.len() {
            // A single receiver needs no list of its own on the heap.
            1 => named.next().map_or(Peers::List(Arc::from([])), Peers::One),
            _ => Peers::List(named.collect()),
        }
    }
}
