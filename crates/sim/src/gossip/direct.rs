//! A publisher sends to listed receivers, and nobody forwards.

use super::plain::{Arrival, Plain};
use super::{Config, Counters, Duplicates, Input, Message, Output, Payload, Priority, Reject};
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::sync::Arc;

/// One node of direct dissemination: the least bytes, and all of them on the publisher's uplink.
/// Takes messages of any peer; of the configuration it uses `validate`, `waiting_max` and
/// `seen_ttl_ns`.
#[derive(Debug)]
pub(crate) struct Direct<P> {
    receivers: Arc<[Peer]>,
    plain: Plain<P>,
}

impl<P: Payload> Direct<P> {
    /// A node whose messages go to `receivers`, in this order.
    ///
    /// # Panics
    ///
    /// If the configuration does not pass [`Config::check`].
    pub(crate) fn new(config: Arc<Config>, receivers: Arc<[Peer]>) -> Self {
        Self {
            receivers,
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
            Input::Message {
                from,
                message: Message::Data { id, payload },
            } => {
                let arrival = Arrival {
                    from,
                    id,
                    payload,
                    relay: false,
                };
                self.plain.receive(now, arrival);
            }
            Input::Message { from, .. } => self.plain.report(from, Reject::Unexpected),
            Input::Verdict { token, verdict } => {
                self.plain.verdict(token, verdict);
            }
            Input::Publish { id, payload } => {
                if self.plain.publishes(now, id) {
                    let message = Message::Data { id, payload };
                    self.plain.send(&self.receivers, message, Priority::Own);
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
}
