//! Events of the swarm.

use std::io;
use std::time::Instant;

use libp2p::core::ConnectedPoint;
use libp2p::core::transport::ListenerId;
use libp2p::gossipsub::{self, Message, MessageAcceptance, MessageId};
use libp2p::swarm::{ConnectionId, SwarmEvent};
use libp2p::{PeerId, identify, ping};

use super::{BehaviourEvent, Connected, SETTLED_TIME, Service, network_name, words};
use crate::address::socket_of;
use crate::config::AGENT_BYTES_MAX;
use crate::event::{self, DownReason, Event};
use crate::gossip::parse;
use crate::key::NodeId;
use crate::outbox::Verdict;
use crate::status::{DropReason, add};
use crate::tokens::Waiting;
use alphorn_types::TopicName;

impl Service {
    pub(super) fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Gossip(gossipsub::Event::Message {
                propagation_source,
                message_id,
                message,
            })) => self.on_message(propagation_source, message_id, message),
            SwarmEvent::Behaviour(BehaviourEvent::Gossip(gossipsub::Event::SlowPeer {
                failed_messages,
                ..
            })) => {
                let lost = failed_messages.priority + failed_messages.non_priority;
                let counters = &self.shared.counters;
                counters.lost(DropReason::SlowPeer, lost as u64);
            }
            SwarmEvent::Behaviour(BehaviourEvent::Identify(identify::Event::Received {
                peer_id,
                info,
                ..
            })) => self.on_identified(peer_id, &info),
            SwarmEvent::Behaviour(BehaviourEvent::Ping(ping::Event {
                peer,
                result: Err(ping::Failure::Timeout),
                ..
            })) => self.disconnect(peer, DownReason::Lost),
            SwarmEvent::ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            } => self.on_connected(peer_id, connection_id, &endpoint),
            SwarmEvent::ConnectionClosed {
                peer_id,
                connection_id,
                ..
            } => self.on_closed(peer_id, connection_id),
            SwarmEvent::IncomingConnectionError { peer_id, .. } => {
                self.shared.counters.dropped(DropReason::Connections);
                if let Some(id) = peer_id {
                    self.on_dialled_again(id);
                }
            }
            SwarmEvent::OutgoingConnectionError { peer_id, .. } => {
                self.shared.counters.dropped(DropReason::Connections);
                if let Some(id) = peer_id {
                    self.dialer.failed(&id, Instant::now());
                }
            }
            SwarmEvent::NewListenAddr { address, .. } => {
                if let Some((address, transport)) = socket_of(&address) {
                    let listening = Event::Listening { address, transport };
                    self.shared.inbox.push_control(listening);
                }
            }
            SwarmEvent::ListenerClosed {
                listener_id,
                reason,
                ..
            } => self.on_listener_closed(listener_id, reason.err()),
            // The socket still listens: one connection failed, or there is no descriptor for it.
            SwarmEvent::ListenerError { .. } => {
                self.shared.counters.dropped(DropReason::Connections);
            }
            _ => {}
        }
    }

    /// A socket died, for example because the operating system took its interface down. Nobody can connect to it until
    /// it is open again.
    fn on_listener_closed(&mut self, id: ListenerId, error: Option<io::Error>) {
        let address = self.listeners.closed(id);
        let socket = address.as_ref().and_then(socket_of);
        if let Some((address, transport)) = socket {
            let reason = error.map_or_else(|| "closed".to_owned(), |error| words(&error));
            self.shared.inbox.push_control(Event::ListenerLost {
                address,
                transport,
                reason,
            });
        }
    }

    /// A peer that proved its name was refused. If it is connected, it has lost its side of the
    /// connection, for example because it was killed and restarted. The connection is then dead,
    /// and its slot is freed for the next attempt. A young connection is the other half of two
    /// peers that dialled each other simultaneously.
    fn on_dialled_again(&mut self, id: PeerId) {
        let connected = self.peers.get(&id);
        if connected.is_some_and(|connected| connected.since.elapsed() >= SETTLED_TIME) {
            self.disconnect(id, DownReason::Lost);
        }
    }

    fn on_connected(&mut self, id: PeerId, connection: ConnectionId, endpoint: &ConnectedPoint) {
        let number = self.swarm.behaviour_mut().exchange.number(connection);
        let address = socket_of(endpoint.get_remote_address());
        let (Some(peer), Some((address, _))) = (number, address) else {
            self.swarm.close_connection(connection);
            return;
        };
        let now = Instant::now();
        let outbound = endpoint.is_dialer();
        let connected = Connected {
            peer,
            connection,
            address,
            outbound,
            since: now,
            client: None,
            link: self.links.of(&id),
            leaving: None,
        };
        self.peers.insert(id, connected);
        self.ids.insert(peer, id);
        self.dialer.connected(&id);
        let score = self.scores.score(&id);
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        gossip.set_application_score(&id, score);
        add(&self.shared.counters.connections[usize::from(!outbound)], 1);
        self.shared.inbox.push_control(Event::PeerUp {
            peer,
            id: NodeId(id),
            address,
            outbound,
        });
    }

    fn on_closed(&mut self, id: PeerId, connection: ConnectionId) {
        let current = self.peers.get(&id).map(|connected| connected.connection);
        // A connection that was closed without having been reported.
        if current != Some(connection) {
            return;
        }
        let Some(connected) = self.peers.remove(&id) else {
            return;
        };
        self.ids.remove(&connected.peer);
        let now = Instant::now();
        let stayed = now.saturating_duration_since(connected.since);
        self.dialer.lost(&id, now, stayed);
        let peer = connected.peer;
        let reason = connected.leaving.unwrap_or(DownReason::Lost);
        add(&self.shared.counters.disconnections[reason as usize], 1);
        let down = Event::PeerDown { peer, reason };
        self.shared.inbox.push_down(peer, down);
    }

    fn on_identified(&mut self, id: PeerId, info: &identify::Info) {
        if info.protocol_version != network_name(&self.shared.config) {
            self.disconnect(id, DownReason::OtherNetwork);
            return;
        }
        let Some(connected) = self.peers.get_mut(&id) else {
            return;
        };
        // Peers repeat it every few minutes. The first time counts.
        if connected.client.is_some() {
            return;
        }
        // Peers choose this text, and operators see it on their terminals.
        let printable = info
            .agent_version
            .bytes()
            .filter(|b| (0x20..0x7f).contains(b));
        let client: String = printable.take(AGENT_BYTES_MAX).map(char::from).collect();
        connected.client = Some(client.into());
    }

    fn on_message(&mut self, source: PeerId, id: MessageId, message: Message) {
        // The limiter has let the topic pass.
        let Some(topic) = parse(&message.topic, &self.shared) else {
            return;
        };
        add(
            &self.shared.counters.kinds[topic.topic.kind() as usize].first,
            1,
        );
        match self.admit(source, &id, topic, message.data.len()) {
            Ok((peer, token, arrival)) => {
                self.swarm.behaviour_mut().gossip.carried(&source);
                let dropped = self.shared.inbox.push_message(event::Message {
                    peer,
                    topic,
                    token,
                    arrival,
                    data: message.data.into(),
                });
                for dropped in dropped {
                    self.shared.gave_way(dropped);
                }
            }
            Err(reason) => {
                self.shared.counters.dropped(reason);
                let gossip = &mut self.swarm.behaviour_mut().gossip;
                // Gossip holds a message until it has a verdict or forgets it.
                let ignored = MessageAcceptance::Ignore;
                gossip.report_message_validation_result(&id, &source, ignored);
            }
        }
    }

    /// Returns a token for a message, or why it is dropped.
    fn admit(
        &mut self,
        source: PeerId,
        id: &MessageId,
        topic: TopicName,
        bytes: usize,
    ) -> Result<(event::Peer, u64, Instant), DropReason> {
        let arrival = Instant::now();
        // A peer whose connection has just ended left this message behind.
        let connected = self.peers.get(&source).ok_or(DropReason::Expired)?;
        let peer = connected.peer;
        let waiting = Waiting {
            id: id.clone(),
            source,
            kind: topic.topic.kind(),
            bytes,
            arrival,
        };
        let issued = self.tokens.issue(waiting);
        let (token, displaced) = issued.ok_or(DropReason::Tokens)?;
        if let Some(displaced) = displaced {
            self.shared.counters.dropped(DropReason::Tokens);
            self.settle(&displaced, Verdict::Ignore);
        }
        Ok((peer, token, arrival))
    }
}
