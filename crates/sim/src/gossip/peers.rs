//! Sets of peers as bits, and random choices among them.

use alphorn_proto::Peer;
use std::sync::Arc;

/// Maximum number of peers of a [`Gossip`](super::Gossip); its peers have numbers below this.
pub(crate) const PEERS_MAX: usize = 128;

/// A set of peers below [`PEERS_MAX`], one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PeerSet(u128);

impl PeerSet {
    /// The empty set.
    pub(crate) const EMPTY: Self = Self(0);

    /// The set of one peer; empty if its number is not below [`PEERS_MAX`].
    #[inline]
    pub(crate) const fn one(peer: Peer) -> Self {
        if peer.0 < PEERS_MAX as u64 {
            Self(1 << peer.0)
        } else {
            Self(0)
        }
    }

    /// Whether the set is empty.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of peers in the set.
    #[inline]
    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the peer is in the set.
    #[inline]
    pub(crate) const fn contains(self, peer: Peer) -> bool {
        !self.and(Self::one(peer)).is_empty()
    }

    /// Intersection of both sets.
    #[inline]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Union of both sets.
    #[inline]
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The peers of this set that are not in the other.
    #[inline]
    pub(crate) const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The peers in order of number.
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = Peer> {
        PeersIter::turned(self, 0)
    }

    /// The set of only the peer that has `rank` smaller ones in this set.
    fn nth(self, rank: usize) -> Self {
        let mut rest = self.0;
        for _ in 0..rank {
            // Clears the lowest bit; after `rank` rounds, the lowest one left is the peer sought.
            rest &= rest.wrapping_sub(1);
        }
        Self(rest & rest.wrapping_neg())
    }
}

/// The receivers of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peers {
    /// One.
    One(Peer),
    /// A set, served from the peer `first` upwards with wraparound. The starting peer changes from
    /// message to message, because otherwise the same neighbour would always be served last.
    Set {
        /// The peers.
        set: PeerSet,
        /// First peer to serve, below [`PEERS_MAX`].
        first: u8,
    },
    /// A list, served in its order.
    List(Arc<[Peer]>),
}

impl Peers {
    /// The receivers in the order in which they are served.
    #[inline]
    pub(crate) fn iter(&self) -> PeersIter<'_> {
        match self {
            Self::One(peer) => PeersIter(Rest::List(std::slice::from_ref(peer))),
            Self::Set { set, first } => PeersIter::turned(*set, *first),
            Self::List(list) => PeersIter(Rest::List(list)),
        }
    }

    /// Number of receivers.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Set { set, .. } => set.len(),
            Self::List(list) => list.len(),
        }
    }

    /// Whether there are no receivers.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> IntoIterator for &'a Peers {
    type Item = Peer;
    type IntoIter = PeersIter<'a>;

    fn into_iter(self) -> PeersIter<'a> {
        self.iter()
    }
}

/// Iterator over the receivers of a message.
#[derive(Clone, Debug)]
pub(crate) struct PeersIter<'a>(Rest<'a>);

#[derive(Clone, Debug)]
enum Rest<'a> {
    /// The set, rotated so that `first` is bit 0.
    Set {
        turned: u128,
        first: u8,
    },
    List(&'a [Peer]),
}

impl PeersIter<'_> {
    #[inline]
    fn turned(set: PeerSet, first: u8) -> Self {
        PeersIter(Rest::Set {
            turned: set.0.rotate_right(u32::from(first)),
            first,
        })
    }
}

impl Iterator for PeersIter<'_> {
    type Item = Peer;

    #[inline]
    fn next(&mut self) -> Option<Peer> {
        match &mut self.0 {
            Rest::Set { turned: 0, .. } => None,
            Rest::Set { turned, first } => {
                let bit = turned.trailing_zeros();
                *turned &= *turned - 1;
                // Undoes the rotation: `bit + first` is below 2 * 128.
                Some(Peer(u64::from(bit + u32::from(*first)) % PEERS_MAX as u64))
            }
            Rest::List(list) => {
                let (peer, rest) = list.split_first()?;
                *list = rest;
                Some(*peer)
            }
        }
    }
}

/// A keyed sequence of random choices (SplitMix64): the same seed makes the same choices
/// everywhere. It decides only which peers are asked first, never what is believed, so a peer that
/// could guess it would only know which peers this node will graft.
#[derive(Clone, Debug)]
pub(super) struct Draw(u64);

impl Draw {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        // The high half of the product: without division, and with a bias of at most `bound` / 2^64.
        let wide = u128::from(self.next()) * bound as u128;
        (wide >> 64) as usize
    }

    /// The set as receivers, starting at a random one.
    #[inline]
    pub(super) fn turn(&mut self, set: PeerSet) -> Peers {
        Peers::Set {
            set,
            // The top 7 bits: a number below 128 = `PEERS_MAX`.
            first: (self.next() >> 57) as u8,
        }
    }

    /// `count` random peers of the set, or all if it has no more.
    pub(super) fn pick(&mut self, set: PeerSet, count: usize) -> PeerSet {
        if count >= set.len() {
            return set;
        }
        let mut left = set;
        for _ in 0..count {
            let chosen = left.nth(self.below(left.len()));
            left = left.minus(chosen);
        }
        set.minus(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(peers: &[u64]) -> PeerSet {
        peers.iter().fold(PeerSet::EMPTY, |set, &peer| {
            set.or(PeerSet::one(Peer(peer)))
        })
    }

    #[test]
    fn a_round_begins_at_first() {
        let order = |peers: Peers| peers.iter().map(|peer| peer.0).collect::<Vec<_>>();
        let set = set(&[0, 3, 64, 127]);
        assert_eq!(order(Peers::Set { set, first: 0 }), [0, 3, 64, 127]);
        assert_eq!(order(Peers::Set { set, first: 4 }), [64, 127, 0, 3]);
        assert_eq!(order(Peers::Set { set, first: 127 }), [127, 0, 3, 64]);
        assert_eq!(order(Peers::One(Peer(900))), [900]);
        let list: Arc<[Peer]> = [Peer(5), Peer(1)].into();
        assert_eq!(order(Peers::List(list)), [5, 1]);
    }

    #[test]
    fn sets_are_sets() {
        let (a, b) = (set(&[1, 2, 100]), set(&[2, 127]));
        assert_eq!(a.and(b), set(&[2]));
        assert_eq!(a.or(b), set(&[1, 2, 100, 127]));
        assert_eq!(a.minus(b), set(&[1, 100]));
        assert_eq!(a.len(), 3);
        assert!(a.contains(Peer(100)) && !a.contains(Peer(3)));
        assert!(PeerSet::one(Peer(128)).is_empty() && !a.contains(Peer(u64::MAX)));
    }

    #[test]
    fn choices_are_even_and_repeatable() {
        let candidates = set(&[0, 7, 31, 63, 64, 90, 126, 127]);
        let mut counts = [0; PEERS_MAX];
        let mut draw = Draw::new(1);
        for _ in 0..8_000 {
            let chosen = draw.pick(candidates, 3);
            assert_eq!((chosen.len(), chosen.minus(candidates).len()), (3, 0));
            chosen.iter().for_each(|peer| counts[peer.0 as usize] += 1);
        }
        // The expected count of each is 3,000; six standard deviations of sqrt(8000 * 3/8 * 5/8)
        // are 260.
        assert!(
            candidates
                .iter()
                .all(|peer| (2740..3260).contains(&counts[peer.0 as usize]))
        );
        assert_eq!(Draw::new(1).pick(candidates, 9), candidates);
        assert_eq!(
            Draw::new(7).pick(candidates, 4),
            Draw::new(7).pick(candidates, 4)
        );
    }
}
