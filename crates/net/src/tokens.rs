//! The messages that wait for a verdict.
//!
//! Room is shared only when it is short. A full table accepts the message of a peer that has fewer
//! waiting than another, and evicts the newest one of the peer that has most. A peer that lets
//! messages pile up thus cannot keep out those of others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use libp2p::PeerId;
use libp2p::gossipsub::MessageId;

use alphorn_types::Kind;

/// A message that waits for a verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waiting {
    /// Its ID in gossip.
    pub(crate) id: MessageId,
    /// The peer that delivered it first.
    pub(crate) source: PeerId,
    pub(crate) kind: Kind,
    pub(crate) bytes: usize,
    pub(crate) arrival: Instant,
}

/// A bounded table, numbered in the order of arrival.
#[derive(Debug)]
pub(crate) struct Tokens {
    waiting: BTreeMap<u64, Waiting>,
    /// The tokens of each peer that has any.
    by_source: BTreeMap<PeerId, BTreeSet<u64>>,
    next: u64,
    count_max: usize,
    time: Duration,
}

impl Tokens {
    pub(crate) fn new(count_max: usize, time: Duration) -> Self {
        Self {
            waiting: BTreeMap::new(),
            by_source: BTreeMap::new(),
            next: 0,
            count_max,
            time,
        }
    }

    /// Returns a token for a message, and the message evicted for it. None if too many wait and no
    /// peer has enough more for one of its messages to be evicted.
    pub(crate) fn issue(&mut self, waiting: Waiting) -> Option<(u64, Option<Waiting>)> {
        let displaced = if self.waiting.len() >= self.count_max {
            // Looked for before a token is issued: without a victim, nothing has changed.
            let newest = self.newest_of_most(&waiting.source)?;
            self.redeem(newest)
        } else {
            None
        };
        let token = self.next;
        self.next += 1;
        let own = self.by_source.entry(waiting.source).or_default();
        own.insert(token);
        self.waiting.insert(token, waiting);
        Some((token, displaced))
    }

    /// The newest token of the peer that has most, if that is more than `source` would have with
    /// one more.
    fn newest_of_most(&self, source: &PeerId) -> Option<u64> {
        let own = self.by_source.get(source).map_or(0, BTreeSet::len);
        let most = self.by_source.values().max_by_key(|tokens| tokens.len())?;
        // If fewer were enough, two peers with equal numbers would displace each other's messages
        // in turn.
        (most.len() > own + 1).then(|| most.last().copied())?
    }

    /// Returns the message of a token. A token can be redeemed once.
    pub(crate) fn redeem(&mut self, token: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&token)?;
        if let Some(own) = self.by_source.get_mut(&waiting.source) {
            own.remove(&token);
            if own.is_empty() {
                self.by_source.remove(&waiting.source);
            }
        }
        Some(waiting)
    }

    /// Drops messages that have waited longer than gossip remembers, and returns the peers that
    /// sent them.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<PeerId> {
        let mut expired = Vec::new();
        while let Some((&token, first)) = self.waiting.first_key_value()
            && now.saturating_duration_since(first.arrival) >= self.time
        {
            expired.extend(self.redeem(token).map(|waiting| waiting.source));
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

    fn waiting(source: PeerId, arrival: Instant) -> Waiting {
        Waiting {
            id: MessageId::new(&[1]),
            source,
            kind: Kind::Vote,
            bytes: 5,
            arrival,
        }
    }

    #[test]
    fn a_token_is_good_once_and_for_a_time_and_there_are_only_so_many() {
        let start = Instant::now();
        let source = PeerId::random();
        let at = |ms| waiting(source, start + Duration::from_millis(ms));
        let mut tokens = Tokens::new(2, Duration::from_millis(10));
        let (first, _) = tokens.issue(at(0)).expect("room");
        let (second, _) = tokens.issue(at(5)).expect("room");
        assert_eq!(tokens.issue(at(6)), None);
        assert_eq!(tokens.redeem(first), Some(at(0)));
        assert_eq!(tokens.redeem(first), None);
        let (third, _) = tokens.issue(at(6)).expect("room again");
        assert_eq!(tokens.expire(start + Duration::from_millis(14)), []);
        assert_eq!(tokens.expire(start + Duration::from_millis(15)), [source]);
        assert_eq!(tokens.redeem(second), None);
        assert_eq!(tokens.redeem(third), Some(at(6)));
        assert_eq!(tokens.len(), 0);
        assert!(tokens.by_source.is_empty());
    }

    #[test]
    fn who_has_most_gives_way_and_keeps_nobody_out() {
        let now = Instant::now();
        let [flooder, other, third] = std::array::from_fn(|_| PeerId::random());
        let mut tokens = Tokens::new(12, Duration::from_secs(9));
        for token in 0..12 {
            let issued = tokens.issue(waiting(flooder, now));
            assert_eq!(issued, Some((token, None)));
        }
        assert_eq!(tokens.issue(waiting(flooder, now)), None);
        // The newest message of the flood is evicted for each new one, until both peers have the
        // same number.
        for newest in (6..12).rev() {
            let (_, displaced) = tokens.issue(waiting(other, now)).expect("room by peer");
            assert_eq!(displaced, Some(waiting(flooder, now)));
            assert_eq!(tokens.redeem(newest), None, "its verdict comes too late");
        }
        assert_eq!(tokens.issue(waiting(other, now)), None);
        assert_eq!(tokens.issue(waiting(flooder, now)), None);
        assert!(tokens.issue(waiting(third, now)).is_some());
        assert_eq!(tokens.len(), 12);
        assert!((0..5).all(|token| tokens.redeem(token).is_some()));
    }
}
