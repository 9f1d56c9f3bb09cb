//! What a driver may ask of a network. Nothing here blocks but the wait for its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::address::Address;
use crate::config::Config;
use crate::event::{Event, Peer};
use crate::frames::FrameQueues;
use crate::inbox::{Dropped, Inbox};
use crate::key::NodeId;
use crate::outbox::{Bounds, Command, Outbox, Publication};
use crate::requests::{Asked, Asking, Question, Ticket};
use crate::status::{Counters, Status};
use alphorn_types::{TopicError, TopicName};

/// How often the wait for the end looks.
const END_POLL: Duration = Duration::from_millis(2);

/// Which publications give way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Own proposals, votes and aggregates: they may use the reserved places.
    Duty,
    /// Everything else of the current slot.
    Normal,
    /// Late results; they give way first.
    Backfill,
}

impl Priority {
    /// All priorities, best first.
    pub(crate) const ALL: [Self; 3] = [Self::Duty, Self::Normal, Self::Backfill];
}

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Forward it.
    Accept,
    /// Drop it, nobody is to blame.
    Ignore,
    /// Drop it and hold it against everyone who sent it.
    Reject,
}

/// Why something was not accepted; nothing of it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// A queue is full.
    #[error("queue of {what} is full at {bound}")]
    Full {
        /// Which.
        what: &'static str,
        /// How much it may hold.
        bound: usize,
    },
    /// The text names no topic.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The topic is of another network, or of no committee of this one.
    #[error("topic is not of this network or its committees")]
    OtherNetwork,
    /// More bytes than the kind of topic, the protocol or a frame may have.
    #[error("{bytes} bytes, must be at most {bytes_max}")]
    Long {
        /// How many.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// No request protocol has that name.
    #[error("no such request protocol")]
    Protocol,
    /// No such peer is connected.
    #[error("no peer {0}")]
    Peer(Peer),
    /// The network has stopped.
    #[error("the network has stopped")]
    Closed,
}

/// What both sides share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    pub(crate) counters: Counters,
    pub(crate) frames: FrameQueues,
    pub(crate) asked: Asked,
    pub(crate) asking: Asking,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        let limits = &config.limits;
        let inbox = Inbox::new(
            limits.inbox_messages_max,
            limits.inbox_bytes_max,
            config.verdict_time(),
        );
        let outbox = Outbox::new(Bounds {
            publications_max: limits.outbox_messages_max,
            reserved: limits.outbox_reserved,
            publication_bytes_max: limits.outbox_bytes_max,
            verdicts_max: limits.tokens_max,
        });
        Self {
            inbox,
            outbox,
            counters: Counters::default(),
            frames: FrameQueues::new(limits.send_queue_frames_max, limits.send_queue_bytes_max),
            asked: Asked::new(&config),
            asking: Asking::new(limits),
            config,
        }
    }

    /// Counts what gave way in the inbox, and lets gossip forget it.
    pub(crate) fn gave_way(&self, dropped: Dropped) {
        self.counters.dropped(dropped.reason);
        if let Some(token) = dropped.token {
            // If the queue is full the token expires instead.
            let _ = self.outbox.verdict(token, Verdict::Ignore);
        }
    }

    /// Whether a topic belongs to this network and its layout.
    pub(crate) fn knows(&self, topic: TopicName) -> bool {
        let (committee, part) = topic.topic.place();
        topic.network == self.config.network
            && committee < self.config.committees
            && part < self.config.subcommittees
    }
}

/// The driver's side of a network; clones share it. Dropping all of them does not stop the network,
/// [`shutdown`](Self::shutdown) or dropping its [`Events`] does.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// Who this node is.
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
    /// A topic that is none of this network's, a message longer than its kind may be, or no place in
    /// the queue for its priority.
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

    /// Receives a topic from now on; nothing if it is received already.
    ///
    /// # Errors
    ///
    /// A topic that is none of this network's, or a full queue.
    pub fn subscribe(&self, topic: &str) -> Result<(), Refused> {
        self.command(Command::Subscribe(self.topic(topic)?))
    }

    /// Receives a topic no more.
    ///
    /// # Errors
    ///
    /// A topic that is none of this network's, or a full queue.
    pub fn unsubscribe(&self, topic: &str) -> Result<(), Refused> {
        self.command(Command::Unsubscribe(self.topic(topic)?))
    }

    /// Says what becomes of a message. The second verdict on a message, or one that comes after
    /// gossip forgot it, does nothing.
    ///
    /// # Errors
    ///
    /// A full queue.
    pub fn verdict(&self, token: u64, verdict: Verdict) -> Result<(), Refused> {
        self.shared.outbox.verdict(token, verdict)
    }

    /// Asks a peer. [`Event::Response`] with `id` ends it, exactly once, whatever happens.
    ///
    /// # Errors
    ///
    /// An unknown protocol, a request longer than it allows, too many in flight (with this peer, in
    /// all, or by the bytes that the responses may have), or a full queue; no event follows.
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
        let ticket = Ticket::take(&self.shared, peer, id, response_bytes)?;
        let question = Question {
            protocol,
            data,
            ticket,
        };
        self.command(Command::Request(peer, question))
    }

    /// Answers a question with chunks, or with a code from 1 to 253 that says why not. Each chunk and
    /// their sum must be within what the protocol allows, or the asker will refuse them. An answer to
    /// a question that is answered or given up does nothing.
    ///
    /// # Errors
    ///
    /// Too many bytes in responses that have not been sent yet, or a long one to the same peer among
    /// them. The question stays open: it can be answered with a code.
    pub fn respond(
        &self,
        channel: u64,
        response: Result<Vec<Arc<[u8]>>, u8>,
    ) -> Result<(), Refused> {
        self.shared.asked.respond(channel, response)
    }

    /// Whether the longest answer that the protocol of a question allows has room, and the asker still waits:
    /// what is not sent need not be read from a disk.
    pub fn has_room(&self, channel: u64) -> bool {
        self.shared.asked.has_room(channel)
    }

    /// Whether an answer above a mebibyte is on its way to the asker of a question: until that is sent,
    /// another one is refused, so it need not be read from a disk either.
    pub fn has_long(&self, channel: u64) -> bool {
        self.shared.asked.has_long(channel)
    }

    /// Holds something against a peer. The points fade over ten minutes; 20 silence gossip to it, 80
    /// silence it, and at 100 it is banned for
    /// [`Limits::ban_ms`](crate::Limits::ban_ms).
    ///
    /// # Errors
    ///
    /// A full queue.
    pub fn report(&self, peer: Peer, points: u32) -> Result<(), Refused> {
        self.command(Command::Report { peer, points })
    }

    /// Cuts a peer off, or lets it in again: the operator's tool for partitions.
    ///
    /// # Errors
    ///
    /// A full queue.
    pub fn block(&self, id: NodeId, blocked: bool) -> Result<(), Refused> {
        self.command(Command::Block(id, blocked))
    }

    /// Adds a peer to those that are dialled, and again when lost.
    ///
    /// # Errors
    ///
    /// A full queue.
    pub fn dial(&self, address: Address) -> Result<(), Refused> {
        self.command(Command::Dial(address))
    }

    /// Sends a frame of the broadcast protocol, which must not be empty: that ends its stream.
    /// [`Event::SendReady`] tells when it left the queue.
    ///
    /// # Errors
    ///
    /// An unknown peer, a frame that is too long, or a full queue of the peer.
    pub fn send_frame(&self, peer: Peer, data: Arc<[u8]>, id: u64) -> Result<(), Refused> {
        within(data.len(), self.shared.config.limits.frame_bytes_max)?;
        self.shared.frames.push(peer, id, data)
    }

    /// Takes back the frames with this number that have not begun to leave; [`Event::SendReady`]
    /// counts them as well.
    pub fn cancel_frame(&self, peer: Peer, id: u64) {
        let cancelled = self.shared.frames.cancel(peer, id);
        if cancelled > 0 {
            self.shared.inbox.push_sent(peer, cancelled);
        }
    }

    /// The counters as they are.
    pub fn status(&self) -> Status {
        Status {
            inbox: self.shared.inbox.load(),
            outbox: self.shared.outbox.load(),
            ..self.shared.counters.status()
        }
    }

    /// Ends the network: connections close, and [`Events::recv`] returns none when all is read.
    pub fn shutdown(&self) {
        self.shared.outbox.shut();
    }

    /// Ends the network and waits until it has stopped, at most so long, also where nobody reads its events
    /// any more. It blocks.
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
    /// The next event; none when the network has stopped and all is read. Dropping the future loses
    /// nothing.
    pub async fn recv(&mut self) -> Option<Event> {
        loop {
            // Asked before the queue is looked at: what comes last comes before it is closed.
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

    /// The next event, none if there is none now.
    pub fn try_recv(&mut self) -> Option<Event> {
        self.shared.inbox.pop()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.outbox.shut();
    }
}
