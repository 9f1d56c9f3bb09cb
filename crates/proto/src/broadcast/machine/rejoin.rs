//! Peers that come while a broadcast is under way, or come back.

use super::Broadcast;
use crate::Peer;
use crate::broadcast::live::PeerIndex;
use crate::broadcast::message::Message;
use crate::broadcast::{Output, Priority};
use crate::rlnc::Coding;

impl<C: Coding> Broadcast<C> {
    /// Tells a new peer of all broadcasts that are alive: what was sent before it came it would never
    /// hear of, and whoever has the header asks for the rest.
    pub(super) fn welcome(&mut self, peer: PeerIndex) {
        for live in &mut self.live {
            if live.convicted {
                continue;
            }
            live.link(peer).header = true;
            let send = |message| Output::Send {
                peer: Peer(peer.into()),
                message,
                priority: Priority::Control,
                drawn: 0,
            };
            self.out
                .push_back(send(Message::Header(live.announce.clone())));
            // A source that hides has nothing more than others to whoever comes first.
            if live.is_full() && !live.coy {
                self.out.push_back(send(Message::Done { id: live.id }));
            }
        }
    }
}
