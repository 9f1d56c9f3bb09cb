//! Peers that connect, or reconnect, during a broadcast.

use super::Broadcast;
use crate::live::PeerIndex;
use crate::message::Message;
use crate::rlnc::Coding;
use crate::{Output, Priority};
use alphorn_types::Peer;

impl<C: Coding> Broadcast<C> {
    /// Announces all live broadcasts to a new peer. Otherwise it would never learn of what was sent before it
    /// connected; once it has the header it requests the rest.
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
            // To the first peer that connects, a hiding source shows nothing more than other nodes do.
            if live.is_full() && !live.coy {
                self.out.push_back(send(Message::Done { id: live.id }));
            }
        }
    }
}
