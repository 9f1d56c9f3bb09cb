//! The messages that wait for a verdict.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use libp2p::PeerId;
use libp2p::gossipsub::MessageId;

use alphorn_types::Kind;

/// A message that waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waiting {
    /// Its name in gossip.
    pub(crate) id: MessageId,
    /// Who handed it over first.
    pub(crate) source: PeerId,
    pub(crate) kind: Kind,
    pub(crate) bytes: usize,
    pub(crate) arrival: Instant,
}

/// A bounded table, numbered in the order of arrival.
#[derive(Debug)]
pub(crate) struct Tokens {
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    count_max: usize,
    time: Duration,
}

impl Tokens {
    pub(crate) fn new(count_max: usize, time: Duration) -> Self {
        Self {
            waiting: BTreeMap::new(),
            next: 0,
            count_max,
            time,
        }
    }

    /// A token for a message, none if too many wait.
    pub(crate) fn issue(&mut self, waiting: Waiting) -> Option<u64> {
        if self.waiting.len() >= self.count_max {
            return None;
        }
        let token = self.next;
        self.next += 1;
        self.waiting.insert(token, waiting);
        Some(token)
    }

    /// The message of a token; a token is good once.
    pub(crate) fn redeem(&mut self, token: u64) -> Option<Waiting> {
        self.waiting.remove(&token)
    }

    /// Forgets what waits longer than gossip remembers; says how many.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        let mut expired = 0;
        while let Some(first) = self.waiting.first_entry()
            && now.saturating_duration_since(first.get().arrival) >= self.time
        {
            first.remove();
            expired += 1;
        }
        expired
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_once_and_for_a_time_and_there_are_only_so_many() {
        let start = Instant::now();
        let source = PeerId::random();
        let at = |ms| Waiting {
            id: MessageId::new(&[1]),
            source,
            kind: Kind::Vote,
            bytes: 5,
            arrival: start + Duration::from_millis(ms),
        };
        let mut tokens = Tokens::new(2, Duration::from_millis(10));
        let first = tokens.issue(at(0)).expect("room");
        let second = tokens.issue(at(5)).expect("room");
        assert_eq!(tokens.issue(at(6)), None);
        assert_eq!(tokens.redeem(first), Some(at(0)));
        assert_eq!(tokens.redeem(first), None);
        let third = tokens.issue(at(6)).expect("room again");
        assert_eq!(tokens.expire(start + Duration::from_millis(14)), 0);
        assert_eq!(tokens.expire(start + Duration::from_millis(15)), 1);
        assert_eq!(tokens.redeem(second), None);
        assert_eq!(tokens.redeem(third), Some(at(6)));
        assert_eq!(tokens.len(), 0);
    }
}
