//! Commands of the driver.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use libp2p::PeerId;
use libp2p::gossipsub::{MessageAcceptance, PublishError};

use super::Service;
use crate::address::Address;
use crate::asking::Question;
use crate::event::{DownReason, Peer, RequestError};
use crate::gossip;
use crate::outbox::{Batch, Command, Publication, Verdict};
use crate::scores::Consequence;
use crate::status::{DropReason, add};
use crate::tokens::Waiting;
use alphorn_types::{Kind, TopicName};

impl Service {
    pub(super) fn on_batch(&mut self, batch: Batch) {
        for command in batch.control {
            self.on_command(command);
        }
        self.renew_rates();
        for (token, verdict) in batch.verdicts {
            self.on_verdict(token, verdict);
        }
        for publication in batch.publications {
            self.on_publication(&publication);
        }
        self.count_tokens();
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Subscribe(topic) => self.on_subscribe(topic),
            Command::Unsubscribe(topic) => {
                if self.topics.remove(&topic) {
                    let gossip = &mut self.swarm.behaviour_mut().gossip;
                    gossip.unsubscribe(&gossip::ident(topic));
                    self.topics_changed = true;
                }
            }
            Command::Request(peer, question) => self.on_request(peer, question),
            Command::Report { peer, points } => {
                if let Some(id) = self.ids.get(&peer).copied() {
                    self.hold_against(id, points);
                }
            }
            Command::Block(id, blocked) => self.block(id.0, blocked),
            Command::Dial(address) => self.on_dial(&address),
        }
    }

    fn on_subscribe(&mut self, topic: TopicName) {
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        match gossip::subscribe(gossip, topic) {
            Ok(()) => self.topics_changed |= self.topics.insert(topic),
            // The handle accepts exactly the topics that the filter accepts.
            Err(_) => self.shared.counters.dropped(DropReason::Malformed),
        }
    }

    fn on_request(&mut self, peer: Peer, mut question: Question) {
        // From here on the driver knows that the request was accepted, so every end of it must be reported.
        question.ticket.arm();
        let connected = self.ids.get(&peer).and_then(|id| {
            let connected = self.peers.get(id)?;
            Some((*id, connected.connection))
        });
        match connected {
            Some((id, connection)) => {
                let exchange = &mut self.swarm.behaviour_mut().exchange;
                exchange.ask(id, connection, question);
            }
            None => question.ticket.finish(Err(RequestError::Disconnected)),
        }
    }

    fn on_dial(&mut self, address: &Address) {
        let behaviour = self.swarm.behaviour_mut();
        behaviour.admission.know(address);
        behaviour.exchange.know(address);
        if !self.dialer.add(address, Instant::now()) {
            self.shared.counters.dropped(DropReason::Connections);
        } else if self.peers.contains_key(&address.id().0) {
            self.dialer.connected(&address.id().0);
        }
    }

    fn on_verdict(&mut self, token: u64, verdict: Verdict) {
        if let Some(waiting) = self.tokens.redeem(token) {
            self.settle(&waiting, verdict);
        }
    }

    /// Ends the wait of a message whose token is gone.
    pub(super) fn settle(&mut self, waiting: &Waiting, verdict: Verdict) {
        let acceptance = match verdict {
            Verdict::Accept => MessageAcceptance::Accept,
            Verdict::Ignore => MessageAcceptance::Ignore,
            Verdict::Reject => MessageAcceptance::Reject,
        };
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        gossip.judged(&waiting.source, verdict);
        let known =
            gossip.report_message_validation_result(&waiting.id, &waiting.source, acceptance);
        if !known {
            self.shared.counters.dropped(DropReason::Expired);
        } else if verdict == Verdict::Accept {
            self.count_out(waiting.kind, waiting.bytes);
        }
    }

    fn on_publication(&mut self, publication: &Publication) {
        let topic = publication.topic;
        let hash = gossip::ident(topic).hash();
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        let counters = &self.shared.counters;
        match gossip.publish(hash, publication.data.to_vec()) {
            Ok(_) => self.count_out(topic.topic.kind(), publication.data.len()),
            Err(PublishError::Duplicate) => counters.dropped(DropReason::Republished),
            Err(PublishError::NoPeersSubscribedToTopic | PublishError::AllQueuesFull(_)) => {
                counters.dropped(DropReason::NoPeers);
            }
            Err(_) => counters.dropped(DropReason::Malformed),
        }
    }

    fn count_out(&self, kind: Kind, bytes: usize) {
        let kind = &self.shared.counters.kinds[kind as usize];
        add(&kind.messages_out, 1);
        add(&kind.bytes_out, bytes as u64);
    }

    pub(super) fn count_tokens(&self) {
        let tokens = self.tokens.len() as u64;
        self.shared.counters.tokens.store(tokens, Ordering::Relaxed);
    }

    /// Adds penalty points to a peer, and bans it when there are too many.
    fn hold_against(&mut self, id: PeerId, points: u32) {
        match self.scores.report(id, points) {
            Consequence::Ban => self.ban(id),
            Consequence::Score(score) => {
                let gossip = &mut self.swarm.behaviour_mut().gossip;
                gossip.set_application_score(&id, score);
            }
        }
    }

    fn ban(&mut self, id: PeerId) {
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        // Before the connection closes, so that the next name in the peer slot starts on probation.
        gossip.judged(&id, Verdict::Reject);
        let time = Duration::from_millis(self.shared.config.limits.ban_ms);
        let freed = self.scores.ban(id, Instant::now() + time);
        if let Some(freed) = freed {
            self.let_in(freed);
        }
        self.send_away(id, DownReason::Banned);
    }

    fn block(&mut self, id: PeerId, blocked: bool) {
        if !self.scores.block(id, blocked) {
            self.shared.counters.dropped(DropReason::Connections);
        } else if blocked {
            self.send_away(id, DownReason::Blocked);
        } else {
            self.let_in(id);
        }
    }

    /// Closes a peer's connection and prevents further ones.
    fn send_away(&mut self, id: PeerId, reason: DownReason) {
        if let Some(connected) = self.peers.get_mut(&id) {
            connected.leaving = Some(reason);
        }
        // This also closes the connection.
        self.swarm.behaviour_mut().blocked.block_peer(id);
    }

    /// Readmits a peer, unless it is kept out for another reason.
    pub(super) fn let_in(&mut self, id: PeerId) {
        if !self.scores.keeps_out(&id) {
            self.swarm.behaviour_mut().blocked.unblock_peer(id);
        }
    }
}
