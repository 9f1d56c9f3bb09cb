//! Members in rows and columns: a message goes along the publisher's row and column, and each
//! receiver forwards it once, across. Two hops reach everyone, about twice.

use super::plain::{Arrival, Plain};
use super::{Config, Counters, Duplicates, Input, Message, Output, Payload, Priority, Reject};
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::sync::Arc;

/// The other members of a member's row and column, each list ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Links<T> {
    /// In the same row.
    pub row: Arc<[T]>,
    /// In the same column.
    pub column: Arc<[T]>,
}

impl Links<u32> {
    /// The links of member `index` of `members`, in rows of width floor(sqrt(members)). The last row
    /// may be shorter; who is missing there is reached through the column.
    ///
    /// # Panics
    ///
    /// If `index` is not below `members`.
    pub(crate) fn of(index: u32, members: u32) -> Self {
        assert!(index < members, "member {index} of {members}");
        let width = members.isqrt();
        let row = index / width * width;
        let others = |list: &mut dyn Iterator<Item = u32>| list.filter(|i| *i != index).collect();
        Self {
            row: others(&mut (row..members.min(row.saturating_add(width)))),
            column: others(&mut (index % width..members).step_by(width as usize)),
        }
    }
}

impl<T> Links<T> {
    /// The same links under other names; `name` must keep the order.
    pub(crate) fn map<U>(&self, name: impl Fn(&T) -> U) -> Links<U> {
        Links {
            row: self.row.iter().map(&name).collect(),
            column: self.column.iter().map(&name).collect(),
        }
    }
}

/// One member of the grid. Takes messages of its row and column only; of the configuration it uses
/// `validate`, `waiting_max` and `seen_ttl_ns`.
#[derive(Debug)]
pub(crate) struct Grid<P> {
    links: Links<Peer>,
    plain: Plain<P>,
}

impl<P: Payload> Grid<P> {
    /// A member with these links, each list ascending.
    ///
    /// # Panics
    ///
    /// If a list is not ascending, or the configuration does not pass [`Config::check`].
    pub(crate) fn new(config: Arc<Config>, links: Links<Peer>) -> Self {
        for list in [&links.row, &links.column] {
            assert!(list.is_sorted_by(|a, b| a < b), "links are ascending");
        }
        Self {
            links,
            plain: Plain::new(config),
        }
    }

    /// What was refused.
    pub(crate) fn counters(&self) -> &Counters {
        self.plain.counters()
    }

    /// Copies of messages that were here already.
    pub(crate) fn duplicates(&self) -> Duplicates {
        self.plain.duplicates()
    }

    /// Takes an input. Time never goes back. Never blocks, never fails, O(message) work.
    pub(crate) fn handle(&mut self, now: Time, input: Input<P>) {
        match input {
            Input::Message { from, message } => self.message(now, from, message),
            Input::Verdict { token, verdict } => {
                let accepted = self.plain.verdict(token, verdict);
                self.forward(accepted);
            }
            Input::Publish { id, payload } => {
                if self.plain.publishes(now, id) {
                    let message = Message::Relay { id, payload };
                    self.plain
                        .send(&self.links.row, message.clone(), Priority::Own);
                    self.plain.send(&self.links.column, message, Priority::Own);
                }
            }
            Input::PeerUp { .. } | Input::PeerDown { .. } | Input::Deadline => {}
        }
    }

    /// The next effect, none when all are drained.
    pub(crate) fn poll_output(&mut self) -> Option<Output<P>> {
        self.plain.poll_output()
    }

    /// Never: nothing here waits for a time.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        None
    }

    fn message(&mut self, now: Time, from: Peer, message: Message<P>) {
        let links = [&self.links.row, &self.links.column];
        if !links.iter().any(|list| list.binary_search(&from).is_ok()) {
            return self.plain.refuse(Reject::Stranger);
        }
        let (id, payload, relay) = match message {
            Message::Data { id, payload } => (id, payload, false),
            Message::Relay { id, payload } => (id, payload, true),
            _ => return self.plain.report(from, Reject::Unexpected),
        };
        let arrival = Arrival {
            from,
            id,
            payload,
            relay,
        };
        let accepted = self.plain.receive(now, arrival);
        self.forward(accepted);
    }

    /// What came along the row goes down the column, and the other way round; once.
    fn forward(&mut self, accepted: Option<Arrival<P>>) {
        let Some(arrival) = accepted.filter(|arrival| arrival.relay) else {
            return;
        };
        let in_row = self.links.row.binary_search(&arrival.from).is_ok();
        let across = match in_row {
            true => &self.links.column,
            false => &self.links.row,
        };
        let message = Message::Data {
            id: arrival.id,
            payload: arrival.payload,
        };
        self.plain.send(across, message, Priority::Forward);
    }
}
