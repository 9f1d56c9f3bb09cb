//! The sockets on which this node listens, and those that died.

use libp2p::Multiaddr;
use libp2p::core::transport::ListenerId;

/// The address of each socket, as the configuration has it.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    open: Vec<(ListenerId, Multiaddr)>,
    lost: Vec<Multiaddr>,
}

impl Listeners {
    pub(super) fn opened(&mut self, id: ListenerId, address: Multiaddr) {
        self.open.push((id, address));
    }

    /// A socket died. Returns its address, unless it was not opened here.
    pub(super) fn closed(&mut self, id: ListenerId) -> Option<Multiaddr> {
        let at = self.open.iter().position(|(open, _)| *open == id)?;
        let (_, address) = self.open.swap_remove(at);
        self.lost.push(address.clone());
        Some(address)
    }

    /// Takes the addresses to be opened again. Those that fail are handed back with [`Self::failed`].
    pub(super) fn take_lost(&mut self) -> Vec<Multiaddr> {
        std::mem::take(&mut self.lost)
    }

    pub(super) fn failed(&mut self, address: Multiaddr) {
        self.lost.push(address);
    }

    /// The number of the only socket.
    #[cfg(test)]
    pub(super) fn only(&self) -> ListenerId {
        assert!(self.open.len() == 1 && self.lost.is_empty());
        self.open[0].0
    }
}
