//! The part of a connection that is not gossip: frames of the broadcast protocol, and requests.
//!
//! Each stream is a small task inside the handler of its connection. Tasks exchange data with queues that they share
//! with the driver, so neither the swarm nor another connection waits for them, and all of them end with the
//! connection.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::admission::KNOWN_MAX;
use crate::asked::Caller;
use crate::asking::Question;
use crate::bucket::Bucket;
use crate::event::{Peer, RequestError};
use crate::frame_queue::FrameQueue;
use crate::frames::{STREAMS, WRITE_TIME, drop_frames, read_frames, write_frames};
use crate::requests::{answer, ask};
use crate::shared::Shared;
use crate::status::DropReason;
use futures::future::{BoxFuture, FutureExt, Ready, ready};
use futures::stream::{FuturesUnordered, StreamExt};
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::core::upgrade::{InboundUpgrade, OutboundUpgrade, UpgradeInfo};
use libp2p::swarm::handler::{ConnectionEvent, FullyNegotiatedInbound, FullyNegotiatedOutbound};
use libp2p::swarm::{
    CloseConnection, ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId,
    FromSwarm, NetworkBehaviour, NotifyHandler, Stream, StreamProtocol, StreamUpgradeError,
    SubstreamProtocol, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId};

/// The broadcast protocol.
const BROADCAST: StreamProtocol = StreamProtocol::new("/alphorn/broadcast/1");

/// Time to negotiate the protocol of a stream.
const NEGOTIATION_TIME: Duration = Duration::from_secs(5);

/// How often a connection reopens its broken frame streams. After that it is closed, since it would only appear to
/// carry frames.
const REOPENED_MAX: usize = 16;

/// The protocol names: broadcast, then the requests in the order of the configuration.
type Protocols = Arc<[StreamProtocol]>;

fn protocols(shared: &Shared) -> Protocols {
    let requests = shared.config.requests.iter().map(|request| {
        let name = format!("/alphorn/req/{}/1", request.name);
        StreamProtocol::try_from_owned(name).expect("the name begins with a slash")
    });
    std::iter::once(BROADCAST).chain(requests).collect()
}

/// Offers several protocols, and returns the stream with the index of the chosen one.
#[derive(Clone, Debug)]
pub(crate) struct Offer(Protocols);

impl UpgradeInfo for Offer {
    type Info = StreamProtocol;
    type InfoIter = Vec<StreamProtocol>;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.to_vec()
    }
}

impl InboundUpgrade<Stream> for Offer {
    type Output = (Stream, StreamProtocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: Stream, protocol: StreamProtocol) -> Self::Future {
        ready(Ok((stream, protocol)))
    }
}

/// Requests one protocol.
#[derive(Clone, Debug)]
pub(crate) struct Wish(StreamProtocol);

impl UpgradeInfo for Wish {
    type Info = StreamProtocol;
    type InfoIter = std::iter::Once<StreamProtocol>;

    fn protocol_info(&self) -> Self::InfoIter {
        std::iter::once(self.0.clone())
    }
}

impl OutboundUpgrade<Stream> for Wish {
    type Output = Stream;
    type Error = Infallible;
    type Future = Ready<Result<Stream, Infallible>>;

    fn upgrade_outbound(self, stream: Stream, _: StreamProtocol) -> Self::Future {
        ready(Ok(stream))
    }
}

/// Purpose of an opened stream.
#[derive(Debug)]
pub(crate) enum Purpose {
    Frames,
    Question(Question),
}

/// Frames do not get through to the peer, so the connection must end.
#[derive(Debug)]
pub(crate) struct Spent;

/// The outcome of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ended {
    FrameWriter,
    FrameReader,
    FrameDropper,
    Question,
    Answer,
}

/// One connection.
pub(crate) struct Handler {
    shared: Arc<Shared>,
    protocols: Protocols,
    peer: Peer,
    /// Whether this node dials the peer.
    is_known: bool,
    queue: Arc<FrameQueue>,
    served: Arc<Mutex<Bucket>>,
    /// Limits the frames read from the peer.
    frames: Arc<Mutex<Bucket>>,
    /// Limits the requests accepted from the peer.
    asked: Bucket,
    to_open: VecDeque<Purpose>,
    tasks: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// Open streams of the peer, by what they carry.
    readers: usize,
    answers: usize,
    reopened: usize,
    spent: bool,
    /// The peer does not speak the broadcast protocol.
    mute: bool,
}

impl Handler {
    fn new(shared: &Arc<Shared>, protocols: &Protocols, caller: Caller) -> Self {
        let Caller { peer, is_known } = caller;
        let queue = Arc::new(FrameQueue::default());
        shared.frames.open(peer, Arc::clone(&queue));
        let limits = &shared.config.limits;
        let per_s = limits.serve_bytes_per_s_max;
        let requests = u64::from(limits.requests_per_s_max);
        let frames = u64::from(limits.frames_per_s_max);
        let now = Instant::now();
        Self {
            shared: Arc::clone(shared),
            protocols: Arc::clone(protocols),
            peer,
            is_known,
            queue,
            served: Arc::new(Mutex::new(Bucket::new(per_s, per_s, now))),
            frames: Arc::new(Mutex::new(Bucket::new(frames, frames, now))),
            asked: Bucket::new(requests, 2 * requests, now),
            to_open: (0..STREAMS).map(|_| Purpose::Frames).collect(),
            tasks: FuturesUnordered::new(),
            readers: 0,
            answers: 0,
            reopened: 0,
            spent: false,
            mute: false,
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static, ended: Ended) {
        self.tasks.push(task.map(move |()| ended).boxed());
    }

    fn on_inbound(&mut self, stream: Stream, protocol: &StreamProtocol) {
        let shared = Arc::clone(&self.shared);
        let Some(index) = self.protocols.iter().position(|p| p == protocol) else {
            return;
        };
        // The first protocol is the broadcast's, the others are the requests in their order.
        let Some(request) = index.checked_sub(1) else {
            // A peer opens as many as this node does. More would only take memory.
            if self.readers < STREAMS {
                self.readers += 1;
                let rate = Arc::clone(&self.frames);
                let reading = read_frames(stream, self.peer, rate, shared);
                self.spawn(reading, Ended::FrameReader);
            } else {
                shared.counters.dropped(DropReason::Malformed);
            }
            return;
        };
        let has_place = self.answers < shared.config.limits.requests_per_peer_max;
        // In this order, so that a request for which there is no room takes nothing from the rate.
        if has_place && self.asked.try_take(1, Instant::now()) {
            self.answers += 1;
            let served = Arc::clone(&self.served);
            let caller = Caller {
                peer: self.peer,
                is_known: self.is_known,
            };
            let task = answer(stream, request, caller, served, shared);
            self.spawn(task, Ended::Answer);
        } else {
            // The stream is reset: the requester knows the limits.
            shared.counters.dropped(DropReason::Requests);
        }
    }

    fn on_outbound(&mut self, stream: Stream, purpose: Purpose) {
        let shared = Arc::clone(&self.shared);
        match purpose {
            Purpose::Frames => {
                let queue = Arc::clone(&self.queue);
                let task = write_frames(stream, self.peer, queue, shared, WRITE_TIME).map(drop);
                self.spawn(task, Ended::FrameWriter);
            }
            Purpose::Question(question) => {
                self.spawn(ask(stream, question, shared), Ended::Question);
            }
        }
    }

    fn on_not_opened(&mut self, purpose: Purpose, error: &StreamUpgradeError<Infallible>) {
        match purpose {
            Purpose::Frames => {
                // Without the protocol nothing can ever be sent.
                if matches!(error, StreamUpgradeError::NegotiationFailed) {
                    // All streams of the connection fail in the same way, and one task empties the queue.
                    if !std::mem::replace(&mut self.mute, true) {
                        let (queue, shared) = (Arc::clone(&self.queue), Arc::clone(&self.shared));
                        let task = drop_frames(self.peer, queue, shared);
                        self.spawn(task, Ended::FrameDropper);
                    }
                } else {
                    self.reopen();
                }
            }
            Purpose::Question(question) => question.ticket.finish(Err(match error {
                StreamUpgradeError::NegotiationFailed => RequestError::Unsupported,
                StreamUpgradeError::Timeout => RequestError::Timeout,
                _ => RequestError::Disconnected,
            })),
        }
    }

    fn reopen(&mut self) {
        if self.reopened < REOPENED_MAX {
            self.reopened += 1;
            self.to_open.push_back(Purpose::Frames);
        } else {
            self.spent = true;
        }
    }

    fn on_ended(&mut self, ended: Ended) {
        match ended {
            Ended::FrameWriter => self.reopen(),
            Ended::FrameReader => self.readers -= 1,
            Ended::Answer => self.answers -= 1,
            Ended::FrameDropper | Ended::Question => {}
        }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // Also of a connection that another behaviour denied, and of which the driver never hears.
        self.shared.frames.close(self.peer);
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Question;
    type ToBehaviour = Spent;
    type InboundProtocol = Offer;
    type OutboundProtocol = Wish;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Purpose;

    fn listen_protocol(&self) -> SubstreamProtocol<Offer, ()> {
        SubstreamProtocol::new(Offer(Arc::clone(&self.protocols)), ())
            .with_timeout(NEGOTIATION_TIME)
    }

    fn connection_keep_alive(&self) -> bool {
        true
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionHandlerEvent<Wish, Purpose, Spent>> {
        while let Poll::Ready(Some(ended)) = self.tasks.poll_next_unpin(cx) {
            self.on_ended(ended);
        }
        if std::mem::take(&mut self.spent) {
            return Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(Spent));
        }
        if let Some(purpose) = self.to_open.pop_front() {
            let index = match &purpose {
                Purpose::Frames => 0,
                Purpose::Question(question) => question.protocol + 1,
            };
            let wish = Wish(self.protocols[index].clone());
            let protocol = SubstreamProtocol::new(wish, purpose).with_timeout(NEGOTIATION_TIME);
            return Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol });
        }
        Poll::Pending
    }

    fn on_behaviour_event(&mut self, question: Question) {
        self.to_open.push_back(Purpose::Question(question));
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<'_, Offer, Wish, (), Purpose>) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound {
                protocol: (stream, protocol),
                ..
            }) => self.on_inbound(stream, &protocol),
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound {
                protocol: stream,
                info,
            }) => self.on_outbound(stream, info),
            ConnectionEvent::DialUpgradeError(failed) => {
                self.on_not_opened(failed.info, &failed.error);
            }
            _ => {}
        }
    }
}

/// Creates the handlers and passes requests to them.
pub(crate) struct Behaviour {
    shared: Arc<Shared>,
    protocols: Protocols,
    /// Peers that this node dials.
    known: BTreeSet<PeerId>,
    next_peer: Peer,
    /// The numbers of connections that the service has not seen yet, newest last. At most as many as the swarm
    /// establishes between two of its events.
    numbered: VecDeque<(ConnectionId, Peer)>,
    /// Requests for connections, and connections to close.
    to_swarm: VecDeque<ToSwarm<Infallible, Question>>,
}

impl Behaviour {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let known = shared.config.peers.iter().map(|address| address.id().0);
        Self {
            shared: Arc::clone(shared),
            protocols: protocols(shared),
            known: known.take(KNOWN_MAX).collect(),
            next_peer: 0,
            numbered: VecDeque::new(),
            to_swarm: VecDeque::new(),
        }
    }

    /// Marks a peer as dialled by this node. From its next connection on, strangers cannot use up all that it may ask
    /// for.
    pub(crate) fn know(&mut self, address: &Address) {
        if self.known.len() < KNOWN_MAX {
            self.known.insert(address.id().0);
        }
    }

    /// Returns the number of a connection that was just established, and drops older ones.
    pub(crate) fn number(&mut self, connection: ConnectionId) -> Option<Peer> {
        let at = self.numbered.iter().position(|(id, _)| *id == connection)?;
        self.numbered.remove(at).map(|(_, peer)| peer)
    }

    /// Sends a request to a connection.
    pub(crate) fn ask(&mut self, id: PeerId, connection: ConnectionId, question: Question) {
        self.to_swarm.push_back(ToSwarm::NotifyHandler {
            peer_id: id,
            handler: NotifyHandler::One(connection),
            event: question,
        });
    }

    fn handler(&mut self, connection: ConnectionId, is_known: bool) -> Handler {
        let peer = self.next_peer;
        self.next_peer += 1;
        self.numbered.push_back((connection, peer));
        // A connection that another behaviour denied was numbered for nothing.
        if self.numbered.len() > self.shared.config.limits.peers_max as usize + 64 {
            self.numbered.pop_front();
        }
        Handler::new(&self.shared, &self.protocols, Caller { peer, is_known })
    }
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = Handler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        id: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let is_known = self.known.contains(&id);
        Ok(self.handler(connection, is_known))
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        // Only known peers are dialled.
        Ok(self.handler(connection, true))
    }

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(
        &mut self,
        peer_id: PeerId,
        connection: ConnectionId,
        Spent: THandlerOutEvent<Self>,
    ) {
        self.to_swarm.push_back(ToSwarm::CloseConnection {
            peer_id,
            connection: CloseConnection::One(connection),
        });
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        self.to_swarm.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, NetworkDigest, NodeKey};

    #[test]
    fn a_connection_whose_frame_streams_never_open_ends() {
        let config = Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]));
        let shared = Arc::new(Shared::new(config));
        let caller = Caller {
            peer: 3,
            is_known: false,
        };
        let mut handler = Handler::new(&shared, &protocols(&shared), caller);
        let mut opened = 0;
        let mut cx = Context::from_waker(futures::task::noop_waker_ref());
        loop {
            match handler.poll(&mut cx) {
                Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol }) => {
                    opened += 1;
                    handler.on_not_opened(protocol.into_upgrade().1, &StreamUpgradeError::Timeout);
                }
                Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(Spent)) => break,
                other => panic!("{other:?}"),
            }
        }
        // Once the last reopening is used up, earlier ones are not waited for.
        assert_eq!(opened, REOPENED_MAX + 1);
    }
}
