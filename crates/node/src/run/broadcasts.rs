//! Exchange of messages between broadcasts and the protocol.

use super::Node;
use crate::cast::Broadcasts;
use crate::clock::Source;
use crate::ports::Ports;
use alphorn_proto::Peer;
use alphorn_types::Time;

impl<C: Source> Node<C> {
    /// Passes an input to the broadcasts, and the resulting messages to the protocol.
    pub(super) fn cast(&mut self, now: Time, act: impl FnOnce(&mut dyn Broadcasts, &mut Ports)) {
        self.cast.follow(now, self.engine.horn());
        act(self.cast.as_mut(), &mut self.ports);
        self.settle(now);
    }

    /// Exchanges pending items between protocol and broadcasts. A record contains what was passed
    /// to the protocol, so it can be replayed without broadcasts.
    pub(super) fn settle(&mut self, now: Time) {
        loop {
            if let Some((token, verdict)) = self.ports.verdicts.pop_front() {
                self.cast.verdict(token, verdict, &mut self.ports);
            } else if let Some((topic, data)) = self.ports.large.pop_front() {
                self.cast.follow(now, self.engine.horn());
                self.cast.publish(now, topic, data, &mut self.ports);
            } else if let Some(input) = self.ports.delivered.pop_front() {
                self.hand_in(now, input);
            } else {
                return;
            }
        }
    }

    pub(super) fn take_frame(&mut self, now: Time, from: Peer, data: &[u8]) {
        self.cast(now, |cast, ports| cast.frame(now, from, data, ports));
    }

    pub(super) fn frames_left(&mut self, now: Time, peer: Peer, frames: u32) {
        self.cast(now, |cast, ports| cast.left(now, peer, frames, ports));
    }
}
