//! What peers say of the time and of the chain, as far as a node may not sign against it.
//!
//! A node whose clock is behind, as after a snapshot of its computer was brought back, would sign slots
//! that it signed in another life. Its peers know: their heads and clocks are in slots that have not
//! begun here. So while enough of them say so, nothing is signed. Nor is it where enough configured ones are
//! behind: a clock that is ahead would use up one-time keys for slots that have not begun.
//!
//! What a peer says of itself is a claim, so who is asked matters: the peers that this node was
//! configured with, if any of them has spoken, and all others only if none has. Nobody comes under
//! a configured name without its key, so peers that connect of their own accord can neither stop
//! a node nor set its clock as long as one of its own peers is there.

use alphorn_proto::Peer;
use std::collections::BTreeMap;

/// How long a node that heard no configured peer yet waits for the answer of one that came.
pub(crate) const ANSWER_NS: u64 = 2_000_000_000;
/// Peers that it takes to say that it is another time.
const AHEAD_MIN: usize = 2;

/// What a peer said last.
#[derive(Clone, Copy, Debug)]
struct Said {
    /// Slots by which its head or its clock is ahead of the slot here.
    slots_ahead: i64,
    /// Nanoseconds by which its clock is ahead of the one here.
    clock_ahead_ns: i64,
    /// When, by the monotonic clock.
    at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Voice {
    /// It is one of those that the node was configured with.
    is_own: bool,
    since_ns: u64,
    said: Option<Said>,
}

/// What the connected peers said; the network bounds how many there are.
#[derive(Debug, Default)]
pub(crate) struct Voices {
    peers: BTreeMap<Peer, Voice>,
}

impl Voices {
    /// A peer is connected.
    pub(crate) fn peer_up(&mut self, peer: Peer, is_own: bool, since_ns: u64) {
        let said = None;
        self.peers.insert(
            peer,
            Voice {
                is_own,
                since_ns,
                said,
            },
        );
    }

    /// A peer is gone, and what it said with it.
    pub(crate) fn peer_down(&mut self, peer: Peer) {
        self.peers.remove(&peer);
    }

    /// A peer answered.
    pub(crate) fn said(&mut self, peer: Peer, slots_ahead: i64, clock_ahead_ns: i64, at_ns: u64) {
        if let Some(voice) = self.peers.get_mut(&peer) {
            voice.said = Some(Said {
                slots_ahead,
                clock_ahead_ns,
                at_ns,
            });
        }
    }

    /// Protocol time went over to another one: what was said is of no use any more.
    pub(crate) fn forget(&mut self) {
        self.peers.values_mut().for_each(|voice| voice.said = None);
    }

    /// What those said who count, and how many of them it takes.
    fn heard(&self) -> (Vec<Said>, usize) {
        let of = |is_own: bool| {
            let voices = self
                .peers
                .values()
                .filter(move |voice| voice.is_own == is_own);
            voices.filter_map(|voice| voice.said).collect::<Vec<Said>>()
        };
        let own = of(true);
        match own.len() {
            0 => (of(false), AHEAD_MIN),
            all => (own, all.min(AHEAD_MIN)),
        }
    }

    /// Whether enough peers are more than a slot ahead of the clock here: two, or the only
    /// configured one that has spoken, and half of those that have.
    pub(crate) fn are_ahead(&self) -> bool {
        let (heard, least) = self.heard();
        let ahead = heard.iter().filter(|said| said.slots_ahead > 1).count();
        ahead >= least && 2 * ahead >= heard.len()
    }

    /// Whether two configured peers, and most of those that have spoken, have clocks that are more than a
    /// slot behind the one here: marks of that time would use up keys for slots that have not begun.
    pub(crate) fn are_behind(&self, slot_ns: u64) -> bool {
        let own = self.peers.values().filter(|voice| voice.is_own);
        let own: Vec<Said> = own.filter_map(|voice| voice.said).collect();
        let is_behind =
            |said: &&Said| said.clock_ahead_ns < 0 && said.clock_ahead_ns.unsigned_abs() > slot_ns;
        let behind = own.iter().filter(is_behind).count();
        behind >= AHEAD_MIN && 2 * behind > own.len()
    }

    /// Whether a configured peer came a moment ago and none of those has spoken yet: what it will say
    /// decides, whatever others said, so nothing is signed until then.
    pub(crate) fn is_waiting(&self, now_ns: u64) -> bool {
        let own = || self.peers.values().filter(|voice| voice.is_own);
        own().all(|voice| voice.said.is_none())
            && own().any(|voice| now_ns < voice.since_ns.saturating_add(ANSWER_NS))
    }

    /// By how many nanoseconds the peers' clocks are ahead of the one here, by the median of what they
    /// said since then.
    pub(crate) fn clock_ahead_ns(&self, since_ns: u64) -> Option<i64> {
        let heard = self.heard().0.into_iter();
        let mut ahead: Vec<i64> = heard
            .filter(|said| said.at_ns >= since_ns)
            .map(|said| said.clock_ahead_ns)
            .collect();
        ahead.sort_unstable();
        ahead.get(ahead.len().checked_sub(1)? / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voices(said: &[(bool, i64)]) -> Voices {
        let mut voices = Voices::default();
        for (peer, &(is_own, slots_ahead)) in (0..).zip(said) {
            voices.peer_up(Peer(peer), is_own, 0);
            voices.said(Peer(peer), slots_ahead, slots_ahead * 1_000, 10);
        }
        voices
    }

    #[test]
    fn two_peers_and_half_of_all_stop_signing() {
        let are_ahead = |said: &[(bool, i64)]| voices(said).are_ahead();
        assert!(!are_ahead(&[]));
        assert!(are_ahead(&[(true, 2)]), "the only one there is");
        assert!(!are_ahead(&[(false, 2)]), "anybody");
        assert!(!are_ahead(&[(true, 1)]), "a slot is no more than one");
        assert!(!are_ahead(&[(true, 20), (true, 0)]), "one liar");
        assert!(are_ahead(&[(true, 20), (true, 20), (true, 0)]));
        assert!(!are_ahead(&[
            (true, 20),
            (true, 20),
            (true, 0),
            (true, 0),
            (true, 0)
        ]));
    }

    #[test]
    fn two_configured_peers_and_most_of_them_stop_a_clock_that_is_ahead() {
        // Slots of a microsecond, as the clocks above are said.
        let are_behind = |said: &[(bool, i64)]| voices(said).are_behind(1_000);
        assert!(!are_behind(&[]));
        assert!(!are_behind(&[(true, -9)]), "it may be that one's clock");
        assert!(are_behind(&[(true, -2), (true, -2)]));
        assert!(!are_behind(&[(true, -1), (true, -1)]), "a slot is no more");
        assert!(are_behind(&[(true, -9), (true, -9), (true, 0)]));
        let half = [(true, -9), (true, -9), (true, 0), (true, 9)];
        assert!(!are_behind(&half));
        assert!(!are_behind(&[(false, -9); 50]), "strangers have no say");
    }

    #[test]
    fn strangers_have_no_say_while_an_own_peer_speaks() {
        // As many as there may be before it.
        let mut crowd = vec![(false, 1_000_000); alphorn_net::PEERS_MAX as usize - 1];
        assert!(voices(&crowd).are_ahead(), "whom else to believe");
        crowd.push((true, 0));
        let voices = voices(&crowd);
        assert!(!voices.are_ahead());
        assert_eq!(voices.clock_ahead_ns(0), Some(0));
    }

    #[test]
    fn the_median_of_what_was_said_since_then_is_the_peers_time() {
        let mut voices = voices(&[(true, 5), (true, 7), (true, 1_000)]);
        assert_eq!(voices.clock_ahead_ns(10), Some(7_000));
        assert_eq!(voices.clock_ahead_ns(11), None);
        voices.said(Peer(0), 0, 3, 12);
        assert_eq!(voices.clock_ahead_ns(11), Some(3));
        voices.peer_down(Peer(0));
        voices.forget();
        assert_eq!(voices.clock_ahead_ns(0), None);
    }

    #[test]
    fn who_heard_no_configured_peer_waits_for_the_answer_of_one_that_came() {
        let mut voices = Voices::default();
        voices.peer_up(Peer(1), false, 5);
        assert!(!voices.is_waiting(6), "a stranger");
        voices.peer_up(Peer(2), true, 5);
        assert!(voices.is_waiting(6));
        voices.said(Peer(1), 0, 0, 6);
        assert!(voices.is_waiting(6), "a stranger spoke first");
        assert!(!voices.is_waiting(5 + ANSWER_NS), "it does not answer");
        voices.said(Peer(2), 0, 0, 7);
        assert!(!voices.is_waiting(8));
    }
}
