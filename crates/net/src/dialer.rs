//! Which peers are dialled, and when to retry.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use libp2p::{Multiaddr, PeerId};

use crate::address::Address;

/// Maximum number of peers that are dialled.
const TARGETS_MAX: usize = 4096;

/// Maximum number of addresses per peer. The first ones stay.
const ADDRESSES_MAX: usize = 8;

/// The first pause after a failure. It is doubled after each failure, up to the maximum. It starts
/// short because the first attempt of a peer that was killed and restarted frees its slot at its
/// peers.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Losing a peer that was connected for at least this long does not count as a failure.
const STAYED: Duration = Duration::from_secs(10);

/// An attempt without an outcome by then has failed.
const ATTEMPT_TIME: Duration = Duration::from_secs(10);

/// Of two peers that know each other, one waits this long before it dials. If both dial at the same
/// instant, each refuses the other's connection as a second one.
const COURTESY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Target {
    addresses: Vec<Multiaddr>,
    /// The next address to try. Addresses are tried one after the other, QUIC before TCP if added
    /// in that order, followed by a pause.
    next: usize,
    connected: bool,
    due: Instant,
    pause: Duration,
}

/// The peers to dial until connected, and to redial when lost.
#[derive(Debug)]
pub(crate) struct Dialer {
    own: PeerId,
    targets: BTreeMap<PeerId, Target>,
    jitter: RandomState,
    draws: u64,
}

impl Dialer {
    pub(crate) fn new(own: PeerId) -> Self {
        Self {
            own,
            targets: BTreeMap::new(),
            jitter: RandomState::new(),
            draws: 0,
        }
    }

    /// Adds an address. Returns false if there is no room or it is this node's own.
    pub(crate) fn add(&mut self, address: &Address, now: Instant) -> bool {
        let id = address.id().0;
        if id == self.own || (self.targets.len() >= TARGETS_MAX && !self.targets.contains_key(&id))
        {
            return false;
        }
        let courtesy = if self.own < id {
            Duration::ZERO
        } else {
            COURTESY
        };
        let due = now + self.varied(courtesy);
        let target = self.targets.entry(id).or_insert_with(|| Target {
            addresses: Vec::new(),
            next: 0,
            connected: false,
            due,
            pause: PAUSE_MIN,
        });
        let known = target.addresses.contains(&address.multiaddr);
        if !known && target.addresses.len() < ADDRESSES_MAX {
            target.addresses.push(address.multiaddr.clone());
        }
        true
    }

    /// The peers to dial now and their addresses, at most `count_max`, longest overdue first.
    pub(crate) fn due(
        &mut self,
        now: Instant,
        count_max: usize,
        keeps_out: impl Fn(&PeerId) -> bool,
    ) -> Vec<(PeerId, Multiaddr)> {
        let free = |(id, target): &(&PeerId, &Target)| {
            !target.connected && target.due <= now && !keeps_out(id)
        };
        let mut ids: Vec<(Instant, PeerId)> = self
            .targets
            .iter()
            .filter(free)
            .map(|(id, target)| (target.due, *id))
            .collect();
        ids.sort();
        ids.truncate(count_max);
        let mut dials = Vec::with_capacity(ids.len());
        for (_, id) in ids {
            let draw = self.draw();
            if let Some(target) = self.targets.get_mut(&id)
                && let Some(address) = target.addresses.get(target.next)
            {
                dials.push((id, address.clone()));
                target.next += 1;
                if target.next < target.addresses.len() {
                    target.due = now + ATTEMPT_TIME;
                } else {
                    target.next = 0;
                    target.due = now + vary(target.pause, draw);
                    target.pause = (target.pause * 2).min(PAUSE_MAX);
                }
            }
        }
        dials
    }

    /// An attempt failed. The next address is tried at once, if the round has one left.
    pub(crate) fn failed(&mut self, id: &PeerId, now: Instant) {
        if let Some(target) = self.targets.get_mut(id)
            // Zero after the last address of a round: its failure must not cut the pause short.
            && target.next > 0
        {
            target.due = now;
        }
    }

    /// A peer connected, whichever side dialled.
    pub(crate) fn connected(&mut self, id: &PeerId) {
        if let Some(target) = self.targets.get_mut(id) {
            target.connected = true;
            target.next = 0;
        }
    }

    /// A peer was lost. One that stayed for a while is redialled soon, any other after its pause.
    pub(crate) fn lost(&mut self, id: &PeerId, now: Instant, stayed: Duration) {
        let draw = self.draw();
        if let Some(target) = self.targets.get_mut(id) {
            target.connected = false;
            if stayed >= STAYED {
                target.pause = PAUSE_MIN;
                target.due = now;
            }
            // A peer that accepts connections and drops them at once keeps the pause of its last round, which has
            // grown.
            target.due = target.due.max(now + vary(target.pause, draw));
        }
    }

    fn varied(&mut self, pause: Duration) -> Duration {
        vary(pause, self.draw())
    }

    /// An unpredictable number: the keys of the standard hash come from the system.
    fn draw(&mut self) -> u64 {
        self.draws += 1;
        self.jitter.hash_one(self.draws)
    }
}

/// Lengthens a pause by up to a quarter, so that peers lost together do not come back together.
fn vary(pause: Duration, draw: u64) -> Duration {
    pause + pause.mul_f64((draw % 1024) as f64 / 4096.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Transport;
    use crate::key::NodeKey;

    fn address() -> Address {
        let socket = ([127, 0, 0, 1], 9000).into();
        Address::new(socket, Transport::Quic, NodeKey::generate().id()).remove(0)
    }

    fn open(_: &PeerId) -> bool {
        false
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let start = Instant::now();
        let mut dialer = Dialer::new(PeerId::random());
        let address = address();
        assert!(dialer.add(&address, start));
        let mut now = start + Duration::from_secs(2);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            assert_eq!(dialer.due(now, 16, open).len(), 1);
            let before = now;
            now = dialer.targets[&address.id().0].due;
            pauses.push((now - before).as_secs_f64());
        }
        for (pause, least) in pauses
            .iter()
            .zip([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0])
        {
            assert!((least..least * 1.25).contains(pause), "{pauses:?}");
        }
    }

    #[test]
    fn who_is_connected_or_kept_out_is_not_dialled() {
        let start = Instant::now();
        let later = start + Duration::from_secs(2);
        let mut dialer = Dialer::new(PeerId::random());
        let (one, two) = (address(), address());
        assert!(dialer.add(&one, start) && dialer.add(&two, start) && dialer.add(&two, start));
        assert_eq!(dialer.due(later, 1, open).len(), 1, "as many as allowed");
        dialer.connected(&one.id().0);
        dialer.connected(&two.id().0);
        let far = later + Duration::from_secs(100);
        assert!(dialer.due(far, 16, open).is_empty());
        dialer.lost(&one.id().0, far, Duration::from_secs(100));
        assert!(dialer.due(far, 16, open).is_empty(), "not at once");
        let soon = far + Duration::from_millis(330);
        assert!(dialer.due(soon, 16, |_| true).is_empty());
        let dialled = dialer.due(soon, 16, open);
        assert_eq!(dialled, [(one.id().0, one.multiaddr.clone())]);
    }

    #[test]
    fn the_addresses_of_a_peer_are_tried_in_order_before_the_pause() {
        let start = Instant::now();
        let later = start + Duration::from_secs(2);
        let mut dialer = Dialer::new(PeerId::random());
        let id = NodeKey::generate().id();
        let socket = ([127, 0, 0, 1], 9000).into();
        let addresses = Address::new(socket, Transport::Both, id);
        for address in &addresses {
            assert!(dialer.add(address, start));
        }
        for address in &addresses {
            let dialled = dialer.due(later, 16, open);
            assert_eq!(dialled, [(id.0, address.multiaddr.clone())]);
            assert!(dialer.due(later, 16, open).is_empty(), "one at a time");
            dialer.failed(&id.0, later);
        }
        assert!(dialer.due(later, 16, open).is_empty(), "a pause");
        let again = later + Duration::from_millis(1300);
        assert_eq!(dialer.due(again, 16, open)[0].1, addresses[0].multiaddr);
    }

    #[test]
    fn there_are_only_so_many_and_never_oneself() {
        let now = Instant::now();
        let own = address();
        let mut dialer = Dialer::new(own.id().0);
        assert!(!dialer.add(&own, now));
        for _ in 0..TARGETS_MAX {
            let id = crate::key::NodeId(PeerId::random());
            let socket = ([127, 0, 0, 1], 1).into();
            assert!(dialer.add(&Address::new(socket, Transport::Tcp, id)[0], now));
        }
        assert!(!dialer.add(&address(), now));
    }
}
