//! The driver's interface to a network. Only the wait for its end blocks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::asking::Question;
use crate::error::Refused;
use crate::event::{Event, Peer};
use crate::key::NodeId;
use crate::outbox::{Command, Priority, Publication, Verdict};
use crate::shared::Shared;
use crate::status::Status;
use alphorn_types::TopicName;

/// Poll interval of the wait for the end.
const END_POLL: Duration = Duration::from_millis(2);

/// The driver's side of a network, shared by all clones. Dropping all of them does not stop the network, but
/// [`shutdown`](Self::shutdown) or dropping its [`Events`] does.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// This node's identity.
    pub fn id(&self) -> NodeId {
        self.shared.config.key.id()
    }

    fn topic(&self, text: &str) -> Result<TopicName, Refused> {
        let topic = text.parse()?;
        if self.shared.knows(topic) {
            Ok(topic)
        } else {
            Err(Refused::OtherNetwork)
        }
    }

    /// Publishes a message.
    ///
    /// # Errors
    ///
    /// The topic is not one of this network's, the message is too long for its kind, or the queue has no slot for its
    /// priority.
    pub fn publish(&self, topic: &str, data: Arc<[u8]>, priority: Priority) -> Result<(), Refused> {
        let topic = self.topic(topic)?;
        within(
            data.len(),
            self.shared.config.topic_bytes_max.get(topic.topic.kind()),
        )?;
        let publication = Publication { topic, data };
        let (outbox, counters) = (&self.shared.outbox, &self.shared.counters);
        outbox.publish(publication, priority, counters)
    }

    /// Subscribes to a topic. Does nothing if already subscribed.
    ///
    /// # Errors
    ///
    /// The topic is not one of this network's, or the queue is full.
    pub fn subscribe(&self, topic: &str) -> Result<(), Refused> {
        self.command(Command::Subscribe(self.topic(topic)?))
    }

    /// Unsubscribes from a topic.
    ///
    /// # Errors
    ///
    /// The topic is not one of this network's, or the queue is full.
    pub fn unsubscribe(&self, topic: &str) -> Result<(), Refused> {
        self.command(Command::Unsubscribe(self.topic(topic)?))
    }

    /// Gives the verdict on a message. A second verdict on the same message, or one that comes after gossip forgot it,
    /// has no effect.
    ///
    /// # Errors
    ///
    /// The queue is full.
    pub fn verdict(&self, token: u64, verdict: Verdict) -> Result<(), Refused> {
        self.shared.outbox.verdict(token, verdict)
    }

    /// Sends a request to a peer. [`Event::Response`] with `id` ends it, exactly once, in all cases.
    ///
    /// # Errors
    ///
    /// The protocol is unknown, the request is longer than it allows, too many are in flight (with this peer, in total,
    /// or by the maximum bytes of their responses), or the queue is full. No event follows.
    pub fn request(
        &self,
        peer: Peer,
        protocol: &str,
        data: Arc<[u8]>,
        id: u64,
    ) -> Result<(), Refused> {
        let protocols = &self.shared.config.requests;
        let index = protocols.iter().position(|p| p.name == protocol);
        let protocol = index.ok_or(Refused::Protocol)?;
        within(data.len(), protocols[protocol].request_bytes_max)?;
        let response_bytes = protocols[protocol].response_bytes_max;
        // The longest response counts from the start, so that all responses in flight fit into memory together.
        let ticket = self.shared.ticket(peer, id, response_bytes)?;
        let question = Question {
            protocol,
            data,
            ticket,
        };
        self.command(Command::Request(peer, question))
    }

    /// Responds to a request with chunks, or with a code from 1 to 253 for the reason of a refusal. Each chunk and
    /// their sum must be within what the protocol allows, or the requester will reject them. A response to a request
    /// that was already answered or abandoned has no effect.
    ///
    /// # Errors
    ///
    /// Responses that have not been sent yet hold too many bytes, or include a long one to the same peer. The request
    /// stays open and can be answered with a code.
    pub fn respond(
        &self,
        channel: u64,
        response: Result<Vec<Arc<[u8]>>, u8>,
    ) -> Result<(), Refused> {
        self.shared.asked.respond(channel, response)
    }

    /// Whether there is room for the longest response that a request's protocol allows, and the requester still waits.
    /// If not, the data need not be read from disk.
    pub fn has_room(&self, channel: u64) -> bool {
        self.shared.asked.has_room(channel)
    }

    /// Whether a response above a mebibyte is being sent to the sender of this request. Until that is done another one
    /// is refused, so it need not be read from disk either.
    pub fn has_long(&self, channel: u64) -> bool {
        self.shared.asked.has_long(channel)
    }

    /// Adds penalty points to a peer. They fade over ten minutes. At 20 gossip to it stops, at 80 it is ignored, and at
    /// 100 it is banned for [`Limits::ban_ms`](crate::Limits::ban_ms).
    ///
    /// # Errors
    ///
    /// The queue is full.
    pub fn report(&self, peer: Peer, points: u32) -> Result<(), Refused> {
        self.command(Command::Report { peer, points })
    }

    /// Blocks or unblocks a peer: the operator's tool for partitions.
    ///
    /// # Errors
    ///
    /// The queue is full.
    pub fn block(&self, id: NodeId, blocked: bool) -> Result<(), Refused> {
        self.command(Command::Block(id, blocked))
    }

    /// Adds a peer to dial, and to redial when the connection is lost.
    ///
    /// # Errors
    ///
    /// The queue is full.
    pub fn dial(&self, address: Address) -> Result<(), Refused> {
        self.command(Command::Dial(address))
    }

    /// Sends a frame of the broadcast protocol. It must not be empty, since an empty frame ends its stream.
    /// [`Event::SendReady`] reports when it left the queue.
    ///
    /// # Errors
    ///
    /// The peer is unknown, the frame is too long, or the peer's queue is full.
    pub fn send_frame(&self, peer: Peer, data: Arc<[u8]>, id: u64) -> Result<(), Refused> {
        within(data.len(), self.shared.config.limits.frame_bytes_max)?;
        self.shared.frames.push(peer, id, data)
    }

    /// Cancels the frames with this number whose sending has not begun. [`Event::SendReady`] counts them as well.
    pub fn cancel_frame(&self, peer: Peer, id: u64) {
        let cancelled = self.shared.frames.cancel(peer, id);
        if cancelled > 0 {
            self.shared.inbox.push_sent(peer, cancelled);
        }
    }

    /// The current counters.
    pub fn status(&self) -> Status {
        Status {
            inbox: self.shared.inbox.load(),
            outbox: self.shared.outbox.load(),
            ..self.shared.counters.status()
        }
    }

    /// Stops the network: connections close, and [`Events::recv`] returns none once all events are read.
    pub fn shutdown(&self) {
        self.shared.outbox.shut();
    }

    /// Stops the network and waits until it has stopped, but no longer than `patience`, even if its events are no
    /// longer read. This blocks.
    pub fn end(&self, patience: Duration) {
        self.shutdown();
        let until = Instant::now() + patience;
        while !self.shared.inbox.is_closed() && Instant::now() < until {
            std::thread::sleep(END_POLL);
        }
    }

    fn command(&self, command: Command) -> Result<(), Refused> {
        self.shared.outbox.command(command)
    }
}

fn within(bytes: usize, bytes_max: usize) -> Result<(), Refused> {
    if bytes > bytes_max {
        return Err(Refused::Long { bytes, bytes_max });
    }
    Ok(())
}

/// The events of a network. Dropping it stops the network.
#[derive(Debug)]
pub struct Events {
    pub(crate) shared: Arc<Shared>,
}

impl Events {
    /// The next event, or none when the network has stopped and all events are read. Cancel safe: dropping the future
    /// loses nothing.
    pub async fn recv(&mut self) -> Option<Event> {
        loop {
            // Checked before the queue, because the last event is pushed before the queue is closed.
            let closed = self.shared.inbox.is_closed();
            if let Some(event) = self.try_recv() {
                return Some(event);
            }
            if closed {
                return None;
            }
            self.shared.inbox.wait().await;
        }
    }

    /// The next event, or none if there is none right now.
    pub fn try_recv(&mut self) -> Option<Event> {
        self.shared.inbox.pop()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.outbox.shut();
    }
}
