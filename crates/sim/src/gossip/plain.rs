//! The simplest protocols, direct and grid: each message is accepted once, and only after its verdict.

use super::inbox::Inbox;
use super::{
    Config, DenseId, Duplicates, Input, Links, Machine, Mark, Message, Output, Payload, Peers,
    Priority, Refused, Reject, SeenBits,
};
use alphorn_proto::{Peer, Token, Verdict};
use alphorn_types::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// A message received for the first time.
#[derive(Clone, Debug)]
struct Arrival<P> {
    from: Peer,
    id: DenseId,
    payload: P,
    /// Whether the sender requests forwarding.
    relay: bool,
}

/// Where a node sends its messages.
#[derive(Debug)]
enum Way {
    /// A publisher sends to these peers, in this order, and no node forwards. This takes the fewest bytes, but
    /// all of them leave through the publisher's uplink. Messages of any peer are accepted.
    Direct(Arc<[Peer]>),
    /// A message is sent along the publisher's row and column, and each receiver forwards it once, in the other
    /// direction. Two hops reach every member, about twice. Only messages from the row and column are accepted.
    Grid(Links<Peer>),
}

/// One node of direct dissemination or one member of the grid. It uses only `validate`, `waiting_max` and
/// `seen_ttl_ns` of the configuration.
#[derive(Debug)]
pub(crate) struct Plain<P> {
    way: Way,
    config: Arc<Config>,
    inbox: Inbox<P, (Peer, bool)>,
    seen: SeenBits,
    duplicates: Duplicates,
    refused: Refused,
    out: VecDeque<Output<P>>,
    /// When old identities are next forgotten.
    forget_at: Time,
}

impl<P: Payload> Machine<P> for Plain<P> {
    fn handle(&mut self, now: Time, input: Input<P>) {
        match input {
            Input::Message { from, message } => self.message(now, from, message),
            Input::Verdict { token, verdict } => {
                let accepted = self.verdict(token, verdict);
                self.forward(accepted);
            }
            Input::Publish { id, payload } => {
                if self.publishes(now, id) {
                    self.publish(id, payload);
                }
            }
            Input::PeerUp { .. } | Input::PeerDown { .. } | Input::Deadline => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<P>> {
        let output = self.out.pop_front();
        if self.out.is_empty() {
            // Place the next output at the front of the buffer, which is cached.
            self.out.clear();
        }
        output
    }

    fn refused(&self) -> &Refused {
        &self.refused
    }

    fn duplicates(&self) -> Duplicates {
        self.duplicates
    }
}

impl<P: Payload> Plain<P> {
    /// A node whose messages go to `receivers`, in this order.
    ///
    /// # Panics
    ///
    /// If the configuration fails [`Config::check`].
    pub(crate) fn direct(config: Arc<Config>, receivers: Arc<[Peer]>) -> Self {
        Self::new(config, Way::Direct(receivers))
    }

    /// A member of a grid with these links.
    ///
    /// # Panics
    ///
    /// If a list is not ascending, or the configuration fails [`Config::check`].
    pub(crate) fn grid(config: Arc<Config>, links: Links<Peer>) -> Self {
        for list in [&links.row, &links.column] {
            assert!(list.is_sorted_by(|a, b| a < b), "links are ascending");
        }
        Self::new(config, Way::Grid(links))
    }

    fn new(config: Arc<Config>, way: Way) -> Self {
        assert_eq!(config.check(), Ok(()), "configuration of dissemination");
        Self {
            way,
            config,
            inbox: Inbox::default(),
            seen: SeenBits::default(),
            duplicates: Duplicates::default(),
            refused: Refused::default(),
            out: VecDeque::new(),
            forget_at: Time::ZERO,
        }
    }

    /// Whether this node sends directly.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.way, Way::Direct(_))
    }

    fn publish(&mut self, id: DenseId, payload: P) {
        let (lists, message) = match &self.way {
            Way::Direct(receivers) => (vec![receivers.clone()], Message::Data { id, payload }),
            Way::Grid(Links { row, column }) => (
                vec![row.clone(), column.clone()],
                Message::Relay { id, payload },
            ),
        };
        for list in lists {
            self.send(list, message.clone(), Priority::Own);
        }
    }

    fn message(&mut self, now: Time, from: Peer, message: Message<P>) {
        let in_grid = match &self.way {
            Way::Direct(_) => false,
            Way::Grid(links) if links.have(&from) => true,
            Way::Grid(_) => return self.refused.add(Reject::Stranger),
        };
        let (id, payload, relay) = match message {
            Message::Data { id, payload } => (id, payload, false),
            // With direct sending a relay request is misbehaviour: no node forwards there.
            Message::Relay { id, payload } if in_grid => (id, payload, true),
            _ => return self.report(from, Reject::Unexpected),
        };
        let arrival = Arrival {
            from,
            id,
            payload,
            relay,
        };
        let accepted = self.receive(now, arrival);
        self.forward(accepted);
    }

    /// Forwards what arrived along the row down the column, and the other way round; once.
    fn forward(&mut self, accepted: Option<Arrival<P>>) {
        let Some(arrival) = accepted.filter(|arrival| arrival.relay) else {
            return;
        };
        if let Way::Grid(links) = &self.way {
            // A copy that came along the row has reached the whole row already, so only the column lacks it,
            // and the other way round.
            let across = match links.row.binary_search(&arrival.from) {
                Ok(_) => links.column.clone(),
                Err(_) => links.row.clone(),
            };
            // Data rather than Relay, which ends the spread after two hops.
            let message = Message::Data {
                id: arrival.id,
                payload: arrival.payload,
            };
            self.send(across, message, Priority::Forward);
        }
    }

    /// Receives a message; returns it if it is accepted immediately.
    fn receive(&mut self, now: Time, arrival: Arrival<P>) -> Option<Arrival<P>> {
        if self.seen.contains(&arrival.id) {
            self.duplicates.add(arrival.payload.wire_bytes());
            if arrival.relay
                && let Some(note) = self.inbox.find(&arrival.id)
            {
                // A sender that requests forwarding decides the direction, even if another peer was faster.
                *note = (arrival.from, true);
            }
            return None;
        }
        // Checked before the message is marked as seen, so that a later copy still has a chance.
        if self.inbox.len() >= usize::from(self.config.waiting_max) {
            self.refused.add(Reject::WaitingFull);
            return None;
        }
        if self.remember(now, arrival.id) == Mark::Beyond {
            self.report(arrival.from, Reject::Beyond);
            return None;
        }
        if !self.config.validate {
            return Some(self.deliver(arrival));
        }
        let Arrival {
            from,
            id,
            payload,
            relay,
        } = arrival;
        let token = self.inbox.wait(id, payload.clone(), (from, relay));
        self.out.push_back(Output::Validate { token, id, payload });
        None
    }

    /// Applies the verdict on a waiting message; returns the message if it is accepted.
    fn verdict(&mut self, token: Token, verdict: Verdict) -> Option<Arrival<P>> {
        let Some((id, payload, (from, relay))) = self.inbox.take(token) else {
            self.refused.add(Reject::UnknownToken);
            return None;
        };
        match verdict {
            Verdict::Accept => Some(self.deliver(Arrival {
                from,
                id,
                payload,
                relay,
            })),
            Verdict::Ignore => None,
            Verdict::Reject => {
                self.report(from, Reject::Invalid);
                None
            }
        }
    }

    /// Records an own message; returns false if it was published before.
    fn publishes(&mut self, now: Time, id: DenseId) -> bool {
        let mark = self.remember(now, id);
        if mark == Mark::Beyond {
            self.refused.add(Reject::Beyond);
        }
        mark == Mark::New
    }

    fn send(&mut self, to: Arc<[Peer]>, message: Message<P>, priority: Priority) {
        if !to.is_empty() {
            let to = Peers::List(to);
            self.out.push_back(Output::Send {
                to,
                message,
                priority,
            });
        }
    }

    fn report(&mut self, peer: Peer, reason: Reject) {
        self.refused.add(reason);
        self.out.push_back(Output::Report { peer, reason });
    }

    fn deliver(&mut self, arrival: Arrival<P>) -> Arrival<P> {
        self.out.push_back(Output::Deliver {
            id: arrival.id,
            payload: arrival.payload.clone(),
        });
        arrival
    }

    fn remember(&mut self, now: Time, id: DenseId) -> Mark {
        // There are no heartbeats here, so old identities are dropped on insertion, once per `seen_ttl_ns`.
        if now >= self.forget_at {
            let before = now.saturating_sub_ns(self.config.seen_ttl_ns);
            self.seen.expire(now, before);
            self.forget_at = now.saturating_add_ns(self.config.seen_ttl_ns);
        }
        self.seen.insert(now, id)
    }
}
