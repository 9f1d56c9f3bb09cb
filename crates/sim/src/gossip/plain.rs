//! What [`Direct`](super::Direct) and [`Grid`](super::Grid) share: each message is taken once, and
//! only after its verdict.

use super::inbox::Inbox;
use super::{
    Config, Counters, DenseId, Duplicates, Mark, Message, Output, Payload, Peers, Priority, Reject,
    SeenBits,
};
use alphorn_proto::{Peer, Token, Verdict};
use alphorn_types::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// A message that is here for the first time.
#[derive(Clone, Debug)]
pub(super) struct Arrival<P> {
    pub(super) from: Peer,
    pub(super) id: DenseId,
    pub(super) payload: P,
    /// The sender asks to forward it.
    pub(super) relay: bool,
}

/// Receiving, deciding and delivering.
#[derive(Debug)]
pub(super) struct Plain<P> {
    config: Arc<Config>,
    inbox: Inbox<P, (Peer, bool)>,
    seen: SeenBits,
    duplicates: Duplicates,
    counters: Counters,
    out: VecDeque<Output<P>>,
    /// When old names are next forgotten.
    forget_at: Time,
}

impl<P: Payload> Plain<P> {
    pub(super) fn new(config: Arc<Config>) -> Self {
        assert_eq!(config.check(), Ok(()), "configuration of dissemination");
        Self {
            config,
            inbox: Inbox::default(),
            seen: SeenBits::default(),
            duplicates: Duplicates::default(),
            counters: Counters::default(),
            out: VecDeque::new(),
            forget_at: Time::ZERO,
        }
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn duplicates(&self) -> Duplicates {
        self.duplicates
    }

    pub(super) fn poll_output(&mut self) -> Option<Output<P>> {
        let output = self.out.pop_front();
        if self.out.is_empty() {
            // The next output goes to the front of the buffer, which is in the cache.
            self.out.clear();
        }
        output
    }

    /// Takes a message; gives it back if it is accepted at once.
    pub(super) fn receive(&mut self, now: Time, arrival: Arrival<P>) -> Option<Arrival<P>> {
        if self.seen.contains(&arrival.id) {
            self.duplicates.add(arrival.payload.wire_bytes());
            if arrival.relay
                && let Some(note) = self.inbox.find(&arrival.id)
            {
                // Whoever asks to forward decides where to, also if another was faster.
                *note = (arrival.from, true);
            }
            return None;
        }
        if self.inbox.len() >= usize::from(self.config.waiting_max) {
            self.counters.refuse(Reject::WaitingFull);
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

    /// Decides on a waiting message; gives it back if it is accepted.
    pub(super) fn verdict(&mut self, token: Token, verdict: Verdict) -> Option<Arrival<P>> {
        let Some((id, payload, (from, relay))) = self.inbox.take(token) else {
            self.counters.refuse(Reject::UnknownToken);
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

    /// Notes an own message; false if it was published before.
    pub(super) fn publishes(&mut self, now: Time, id: DenseId) -> bool {
        let mark = self.remember(now, id);
        if mark == Mark::Beyond {
            self.counters.refuse(Reject::Beyond);
        }
        mark == Mark::New
    }

    pub(super) fn send(&mut self, to: &Arc<[Peer]>, message: Message<P>, priority: Priority) {
        if !to.is_empty() {
            let to = Peers::List(to.clone());
            self.out.push_back(Output::Send {
                to,
                message,
                priority,
            });
        }
    }

    pub(super) fn refuse(&mut self, reason: Reject) {
        self.counters.refuse(reason);
    }

    pub(super) fn report(&mut self, peer: Peer, reason: Reject) {
        self.counters.refuse(reason);
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
        if now >= self.forget_at {
            let before = now.saturating_sub_ns(self.config.seen_ttl_ns);
            self.seen.expire(now, before);
            self.forget_at = now.saturating_add_ns(self.config.seen_ttl_ns);
        }
        self.seen.insert(now, id)
    }
}
