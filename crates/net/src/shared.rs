//! The state that the driver's side and the network's thread share.

use std::sync::Arc;

use crate::asked::Asked;
use crate::asking::{Asking, Ticket};
use crate::config::Config;
use crate::error::Refused;
use crate::event::Peer;
use crate::frame_queue::FrameQueues;
use crate::inbox::{Dropped, Inbox};
use crate::outbox::{Bounds, Outbox, Verdict};
use crate::status::Counters;
use alphorn_types::TopicName;

/// State shared by both sides.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) outbox: Outbox,
    pub(crate) counters: Arc<Counters>,
    pub(crate) frames: FrameQueues,
    pub(crate) asked: Asked,
    pub(crate) asking: Arc<Asking>,
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
            inbox: Arc::new(inbox),
            outbox,
            counters: Arc::default(),
            frames: FrameQueues::new(limits.send_queue_frames_max, limits.send_queue_bytes_max),
            asked: Asked::new(&config),
            asking: Arc::new(Asking::new(limits)),
            config,
        }
    }

    /// Returns a slot for a request, if there is one.
    pub(crate) fn ticket(&self, peer: Peer, id: u64, bytes: usize) -> Result<Ticket, Refused> {
        Ticket::take(&self.asking, &self.inbox, &self.counters, peer, id, bytes)
    }

    /// Counts what was evicted from the inbox, and lets gossip forget it.
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
