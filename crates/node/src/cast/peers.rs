//! Peers by the state machine's numbers, and the frames in flight to each.

use alphorn_proto::Peer;
use std::collections::{BTreeMap, VecDeque};

/// A peer that takes part in broadcasts.
pub(super) struct Link {
    /// The driver's number for it.
    pub(super) peer: Peer,
    /// The frames in the driver's queue, in the order in which they were queued: whether each is a
    /// piece. The driver reports how many have left, not which. All of them leave eventually, so
    /// the count becomes right, and a piece that was cancelled or overtook another is only reported
    /// at a different moment.
    queued: VecDeque<bool>,
    /// Pieces that found no room. The state machine is notified that they left when others have.
    dropped: u32,
    /// Headers of the current slot that match no duty.
    pub(super) unscheduled: u32,
}

impl Link {
    /// A frame was queued. The driver bounds the queue.
    pub(super) fn sent(&mut self, is_piece: bool) {
        self.queued.push_back(is_piece);
    }

    /// A frame found no room. If the state machine were notified at once that a piece left, it
    /// would drop all others the same way. The queue is full, so something will leave.
    pub(super) fn dropped(&mut self, is_piece: bool) {
        self.dropped += u32::from(is_piece);
    }

    /// This many frames have left. Returns the number of pieces to report to the state machine.
    pub(super) fn left(&mut self, frames: u32) -> u32 {
        let count = self.queued.len().min(frames as usize);
        let pieces = self.queued.drain(..count).filter(|is_piece| *is_piece);
        // No queue has 2^32 slots.
        pieces.count() as u32 + std::mem::take(&mut self.dropped)
    }
}

/// Peers by the state machine's numbers, which are small and reused.
pub(super) struct Peers {
    numbers: BTreeMap<Peer, u16>,
    links: Vec<Option<Link>>,
    peers_max: u16,
}

impl Peers {
    pub(super) fn new(peers_max: u16) -> Self {
        Peers {
            numbers: BTreeMap::new(),
            links: Vec::new(),
            peers_max,
        }
    }

    /// Assigns a peer the lowest free number. None if it has one, or all are taken.
    pub(super) fn up(&mut self, peer: Peer) -> Option<Peer> {
        if self.numbers.contains_key(&peer) {
            return None;
        }
        // The lowest, because the state machine keeps an array as long as the highest number ever used.
        let free = self.links.iter().position(Option::is_none);
        let at = free.unwrap_or(self.links.len());
        let number = u16::try_from(at).ok().filter(|at| *at < self.peers_max)?;
        if at == self.links.len() {
            self.links.push(None);
        }
        self.links[at] = Some(Link {
            peer,
            queued: VecDeque::new(),
            dropped: 0,
            unscheduled: 0,
        });
        self.numbers.insert(peer, number);
        Some(Peer(number.into()))
    }

    /// Releases the number.
    pub(super) fn down(&mut self, peer: Peer) -> Option<Peer> {
        let number = self.numbers.remove(&peer)?;
        self.links[usize::from(number)] = None;
        Some(Peer(number.into()))
    }

    /// The number of a peer, and its link.
    pub(super) fn get_mut(&mut self, peer: Peer) -> Option<(Peer, &mut Link)> {
        let number = *self.numbers.get(&peer)?;
        let link = self.links.get_mut(usize::from(number))?.as_mut()?;
        Some((Peer(number.into()), link))
    }

    /// The link with a number of the state machine.
    pub(super) fn link(&self, number: Peer) -> Option<&Link> {
        self.links.get(usize::try_from(number.0).ok()?)?.as_ref()
    }

    /// See [`link`](Self::link).
    pub(super) fn link_mut(&mut self, number: Peer) -> Option<&mut Link> {
        let number = usize::try_from(number.0).ok()?;
        self.links.get_mut(number)?.as_mut()
    }

    /// Resets the budgets of a slot.
    pub(super) fn begin_slot(&mut self) {
        for link in self.links.iter_mut().flatten() {
            link.unscheduled = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_small_bounded_and_used_again() {
        let mut peers = Peers::new(2);
        assert_eq!(peers.up(Peer(70)), Some(Peer(0)));
        assert_eq!(peers.up(Peer(70)), None, "it is there");
        assert_eq!(peers.up(Peer(71)), Some(Peer(1)));
        assert_eq!(peers.up(Peer(72)), None, "no number is free");
        assert!(peers.get_mut(Peer(72)).is_none());
        assert_eq!(peers.down(Peer(70)), Some(Peer(0)));
        assert_eq!(peers.down(Peer(70)), None);
        assert_eq!(peers.up(Peer(72)), Some(Peer(0)));
        assert_eq!(peers.link(Peer(0)).map(|link| link.peer), Some(Peer(72)));
        assert!(peers.link(Peer(2)).is_none());
    }

    /// Otherwise strangers that connect first could keep configured peers out.
    #[test]
    fn every_connection_has_a_number() {
        let mut peers = Peers::new(alphorn_broadcast::Config::default().peers_max);
        let all = u64::from(alphorn_net::PEERS_MAX);
        assert!((0..all).all(|peer| peers.up(Peer(peer)) == Some(Peer(peer))));
    }

    #[test]
    fn every_piece_leaves_once_whatever_became_of_it() {
        let mut peers = Peers::new(1);
        peers.up(Peer(5)).unwrap();
        let (_, link) = peers.get_mut(Peer(5)).unwrap();
        for is_piece in [false, true, true] {
            link.sent(is_piece);
        }
        link.dropped(true);
        link.dropped(false);
        // The dropped piece leaves with the first that does.
        assert_eq!(link.left(1), 1);
        assert_eq!(link.left(2), 2);
        assert_eq!(link.left(9), 0, "more than were queued");
    }
}
