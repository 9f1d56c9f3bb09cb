//! Peers' reports of the time and of the chain, as far as a node must not sign against them.
//!
//! A node whose clock is behind, for example after its host was restored from a snapshot, would sign slots that it
//! already signed in another run. Its peers know better: their heads and clocks are in slots that have not begun here.
//! While enough of them report that, nothing is signed. The same holds while enough configured peers are behind, since
//! a clock that is ahead would use up one-time keys for slots that have not begun.
//!
//! A peer's report is only a claim, so its source matters: peers from this node's configuration count if any of them
//! has reported, and all others only if none has. No peer can use a configured name without its key, so peers that
//! connect on their own can neither stop a node nor set its clock as long as one of its configured peers is there.

use alphorn_proto::Peer;
use std::collections::BTreeMap;

/// How long a node that has heard no configured peer yet waits for the response of one that connected.
pub(crate) const ANSWER_NS: u64 = 2_000_000_000;
/// Number of peers required to claim a different time.
const AHEAD_MIN: usize = 2;

/// The last report of a peer.
#[derive(Clone, Copy, Debug)]
struct Said {
    /// Slots by which its head or its clock is ahead of the slot here.
    slots_ahead: i64,
    /// Nanoseconds by which its clock is ahead of the one here.
    clock_ahead_ns: i64,
    /// When it was received, by the monotonic clock.
    at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Voice {
    /// Whether the peer is in the node's configuration.
    is_own: bool,
    since_ns: u64,
    said: Option<Said>,
}

/// Reports of the connected peers. The network bounds how many there are.
#[derive(Debug, Default)]
pub(crate) struct Voices {
    peers: BTreeMap<Peer, Voice>,
}

impl Voices {
    /// A peer connected.
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

    /// A peer disconnected, and its report is dropped.
    pub(crate) fn peer_down(&mut self, peer: Peer) {
        self.peers.remove(&peer);
    }

    /// A peer responded.
    pub(crate) fn said(&mut self, peer: Peer, slots_ahead: i64, clock_ahead_ns: i64, at_ns: u64) {
        if let Some(voice) = self.peers.get_mut(&peer) {
            voice.said = Some(Said {
                slots_ahead,
                clock_ahead_ns,
                at_ns,
            });
        }
    }

    /// Protocol time was switched, so earlier reports are obsolete.
    pub(crate) fn forget(&mut self) {
        self.peers.values_mut().for_each(|voice| voice.said = None);
    }

    /// The reports that count, and how many of them are required.
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

    /// Whether enough peers are more than a slot ahead of the local clock: two, or the only configured one that has
    /// reported, and half of those that have.
    pub(crate) fn are_ahead(&self) -> bool {
        let (heard, least) = self.heard();
        let ahead = heard.iter().filter(|said| said.slots_ahead > 1).count();
        ahead >= least && 2 * ahead >= heard.len()
    }

    /// Whether two configured peers, and most of those that have reported, have clocks more than a slot behind the
    /// local one. Marks of that time would use up keys for slots that have not begun.
    pub(crate) fn are_behind(&self, slot_ns: u64) -> bool {
        let own = self.peers.values().filter(|voice| voice.is_own);
        let own: Vec<Said> = own.filter_map(|voice| voice.said).collect();
        let is_behind =
            |said: &&Said| said.clock_ahead_ns < 0 && said.clock_ahead_ns.unsigned_abs() > slot_ns;
        let behind = own.iter().filter(is_behind).count();
        behind >= AHEAD_MIN && 2 * behind > own.len()
    }

    /// Whether a configured peer connected a moment ago and none of those has reported yet. Its report will decide,
    /// whatever others reported, so nothing is signed until then.
    pub(crate) fn is_waiting(&self, now_ns: u64) -> bool {
        let own = || self.peers.values().filter(|voice| voice.is_own);
        own().all(|voice| voice.said.is_none())
            && own().any(|voice| now_ns < voice.since_ns.saturating_add(ANSWER_NS))
    }

    /// By how many nanoseconds the peers' clocks are ahead of the local one: the median of their reports since then.
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
        // Slots of a microsecond, on the scale of the clocks above.
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
        // As many as there may be besides it.
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
