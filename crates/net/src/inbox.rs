//! The queue from the network to its driver: bounded, fair among peers, never blocking.
//!
//! Messages and frames are queued in one flow per peer and class. They are popped in turns, one from each flow, so a
//! peer that floods only delays itself. When the queue is full, the newest item of the longest flow of the heaviest
//! peer is evicted. A message that is too old for a verdict is skipped when its turn comes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::event::{Event, Message, Peer};
use crate::status::DropReason;

/// Kinds of topics, and frames.
const CLASSES: usize = 5;
/// The class of frames.
const FRAMES: usize = 4;

/// An item of a flow.
#[derive(Debug)]
enum Item {
    Message(Message),
    Frame { data: Arc<[u8]> },
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Message(message) => message.data.len(),
            Self::Frame { data } => data.len(),
        }
    }

    fn token(&self) -> Option<u64> {
        match self {
            Self::Message(message) => Some(message.token),
            Self::Frame { .. } => None,
        }
    }
}

/// An evicted item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// The message's token; none for a frame.
    pub(crate) token: Option<u64>,
    pub(crate) reason: DropReason,
}

/// A number of items and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    count: usize,
    bytes: usize,
}

impl Load {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.count -= 1;
        self.bytes -= bytes;
    }

    fn exceeds(self, other: Self) -> bool {
        self.count > other.count || self.bytes > other.bytes
    }

    /// The larger of its two fractions of a bound, in millionths.
    fn share(self, bound: Self) -> u64 {
        // No overflow: `Limits::inbox_bytes_max` is at most 2^36, and a million is below 2^20.
        let part = |value: usize, max: usize| value as u64 * 1_000_000 / max.max(1) as u64;
        part(self.count, bound.count).max(part(self.bytes, bound.bytes))
    }
}

#[derive(Debug, Default)]
struct Flow {
    items: VecDeque<Item>,
    load: Load,
}

type FlowKey = (Peer, usize);

#[derive(Debug, Default)]
struct State {
    /// All other events. Whatever produces them bounds their number.
    control: VecDeque<Event>,
    /// Frames that have left for a peer and have not been reported yet.
    sent: BTreeMap<Peer, u32>,
    flows: BTreeMap<FlowKey, Flow>,
    /// The non-empty flows, in the order of their turns.
    turns: VecDeque<FlowKey>,
    all: Load,
    classes: [Load; CLASSES],
    closed: bool,
}

/// The queue. One side pushes, the other pops.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    ready: Notify,
    bound: Load,
    verdict_time: Duration,
}

impl Inbox {
    pub(crate) fn new(messages_max: usize, bytes_max: usize, verdict_time: Duration) -> Self {
        Self {
            state: Mutex::default(),
            ready: Notify::new(),
            bound: Load {
                count: messages_max,
                bytes: bytes_max,
            },
            verdict_time,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under this lock cannot leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pushes a message. Returns what was evicted, which may be the message itself.
    pub(crate) fn push_message(&self, message: Message) -> Vec<Dropped> {
        let key = (message.peer, message.topic.topic.kind() as usize);
        self.push(key, Item::Message(message))
    }

    /// Pushes a frame. Returns what was evicted, which may be the frame itself.
    pub(crate) fn push_frame(&self, peer: Peer, data: Arc<[u8]>) -> Vec<Dropped> {
        self.push((peer, FRAMES), Item::Frame { data })
    }

    fn push(&self, key: FlowKey, item: Item) -> Vec<Dropped> {
        let dropped = self.lock().push(key, item, self.bound);
        self.ready.notify_one();
        dropped
    }

    /// Pushes an event that is never dropped.
    pub(crate) fn push_control(&self, event: Event) {
        self.lock().control.push_back(event);
        self.ready.notify_one();
    }

    /// Reports the end of a connection, or nothing at all if its start has not been read yet.
    pub(crate) fn push_down(&self, peer: Peer, event: Event) {
        let mut state = self.lock();
        state.sent.remove(&peer);
        let unread = |event: &Event| matches!(event, Event::PeerUp { peer: p, .. } if *p == peer);
        if state.control.iter().any(unread) {
            state.control.retain(|event| !is_of(event, peer));
        } else {
            state.control.push_back(event);
        }
        drop(state);
        self.ready.notify_one();
    }

    /// Removes a request that can no longer be answered.
    pub(crate) fn forget_request(&self, lost: u64) {
        let other =
            |event: &Event| !matches!(event, Event::Request { channel, .. } if *channel == lost);
        self.lock().control.retain(other);
    }

    /// Reports that frames to a peer left the queue.
    pub(crate) fn push_sent(&self, peer: Peer, frames: u32) {
        let mut state = self.lock();
        let count = state.sent.entry(peer).or_default();
        *count = count.saturating_add(frames);
        drop(state);
        self.ready.notify_one();
    }

    /// The next event, or none if there is none right now. Messages too old for a verdict are skipped: gossip has
    /// forgotten them, and the token table counts them.
    pub(crate) fn pop(&self) -> Option<Event> {
        let mut state = self.lock();
        // Before all messages, so that the driver knows a peer before it gets anything from it.
        if let Some(event) = state.control.pop_front() {
            return Some(event);
        }
        if let Some((peer, frames)) = state.sent.pop_first() {
            return Some(Event::SendReady { peer, frames });
        }
        let now = Instant::now();
        while let Some((peer, item)) = state.pop_item() {
            match item {
                Item::Frame { data } => return Some(Event::Frame { peer, data }),
                Item::Message(message)
                    if now.saturating_duration_since(message.arrival) < self.verdict_time =>
                {
                    return Some(Event::Message(message));
                }
                Item::Message(_) => {}
            }
        }
        None
    }

    /// Waits until there may be an event, or the queue is closed.
    pub(crate) async fn wait(&self) {
        self.ready.notified().await;
    }

    /// Marks the queue as closed.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Waiting messages and frames, and their bytes.
    pub(crate) fn load(&self) -> (u64, u64) {
        let all = self.lock().all;
        (all.count as u64, all.bytes as u64)
    }
}

/// Whether an event is about a peer.
fn is_of(event: &Event, of: Peer) -> bool {
    match event {
        Event::PeerUp { peer, .. }
        | Event::PeerDown { peer, .. }
        | Event::Request { peer, .. }
        | Event::Frame { peer, .. }
        | Event::SendReady { peer, .. } => *peer == of,
        // A request always ends with an event, whatever happened to the peer.
        Event::Response { .. }
        | Event::Listening { .. }
        | Event::ListenerLost { .. }
        | Event::Message(_) => false,
    }
}

impl State {
    fn push(&mut self, key: FlowKey, item: Item, bound: Load) -> Vec<Dropped> {
        // So that a flood of one kind leaves room for the others: a block gets in whatever the number of votes.
        let class_bound = Load {
            count: bound.count / 4 * 3,
            bytes: bound.bytes / 4 * 3,
        };
        let mut dropped = Vec::new();
        // Inserted before anything is evicted, so that the new item is weighed like all others and may itself be the
        // one.
        self.insert(key, item);
        loop {
            let (class, reason, bound) = if self.classes[key.1].exceeds(class_bound) {
                (Some(key.1), DropReason::KindShare, class_bound)
            } else if self.all.exceeds(bound) {
                (None, DropReason::PeerShare, bound)
            } else {
                return dropped;
            };
            let Some(heaviest) = self.heaviest(class, bound) else {
                return dropped;
            };
            let Some(item) = self.remove_newest(heaviest) else {
                return dropped;
            };
            dropped.push(Dropped {
                token: item.token(),
                reason,
            });
        }
    }

    fn insert(&mut self, key: FlowKey, item: Item) {
        let bytes = item.bytes();
        let flow = self.flows.entry(key).or_default();
        if flow.items.is_empty() {
            self.turns.push_back(key);
        }
        flow.items.push_back(item);
        flow.load.add(bytes);
        self.all.add(bytes);
        self.classes[key.1].add(bytes);
    }

    /// The longest flow of the heaviest peer, among the flows of one class or of all.
    fn heaviest(&self, class: Option<usize>, bound: Load) -> Option<FlowKey> {
        let mut peers: BTreeMap<Peer, Load> = BTreeMap::new();
        let counted = |key: &FlowKey| class.is_none_or(|class| class == key.1);
        for (key, flow) in self.flows.iter().filter(|(key, _)| counted(key)) {
            let load = peers.entry(key.0).or_default();
            load.count += flow.load.count;
            load.bytes += flow.load.bytes;
        }
        let (peer, _) = peers
            .iter()
            .max_by_key(|(peer, load)| (load.share(bound), **peer))?;
        let flows = self.flows.range((*peer, 0)..=(*peer, CLASSES));
        let (key, _) = flows
            .filter(|(key, _)| counted(key))
            .max_by_key(|(key, flow)| (flow.load.share(bound), **key))?;
        Some(*key)
    }

    fn remove_newest(&mut self, key: FlowKey) -> Option<Item> {
        let item = self.flows.get_mut(&key)?.items.pop_back()?;
        self.removed(key, item.bytes());
        if !self.flows.contains_key(&key) {
            self.turns.retain(|turn| *turn != key);
        }
        Some(item)
    }

    /// Pops the oldest item of the flow whose turn it is.
    fn pop_item(&mut self) -> Option<(Peer, Item)> {
        let key = self.turns.pop_front()?;
        let item = self.flows.get_mut(&key)?.items.pop_front()?;
        self.removed(key, item.bytes());
        if self.flows.contains_key(&key) {
            self.turns.push_back(key);
        }
        Some((key.0, item))
    }

    /// Accounts for an item taken out of a flow, and removes the flow if it is empty.
    fn removed(&mut self, key: FlowKey, bytes: usize) {
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.load.remove(bytes);
            if flow.items.is_empty() {
                self.flows.remove(&key);
            }
        }
        self.all.remove(bytes);
        self.classes[key.1].remove(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::DownReason;
    use crate::key::NodeKey;
    use alphorn_types::{Cell, Kind, NetworkDigest, Topic};
    use proptest::prelude::*;

    fn votes() -> Topic {
        Topic::Vote {
            cell: Cell {
                committee: 0,
                subcommittee: 0,
            },
        }
    }

    fn message(peer: Peer, kind: Kind, token: u64, bytes: usize) -> Message {
        let topic = match kind {
            Kind::Block => Topic::Block,
            Kind::Collection => Topic::Collection,
            Kind::Aggregate | Kind::Vote => votes(),
        };
        Message {
            peer,
            topic: topic.named(NetworkDigest([0; 4])),
            token,
            arrival: Instant::now(),
            data: vec![0; bytes].into(),
        }
    }

    fn inbox(count: usize, bytes: usize) -> Inbox {
        Inbox::new(count, bytes, Duration::from_secs(60))
    }

    fn tokens(inbox: &Inbox) -> Vec<u64> {
        std::iter::from_fn(|| inbox.pop())
            .map(|event| match event {
                Event::Message(message) => message.token,
                event => panic!("{event:?}"),
            })
            .collect()
    }

    #[test]
    fn a_flood_displaces_itself_and_not_the_others() {
        let inbox = inbox(16, 1 << 20);
        for token in 0..5 {
            inbox.push_message(message(1, Kind::Vote, token, 10));
        }
        let mut displaced = 0;
        for token in 100..1000 {
            for dropped in inbox.push_message(message(2, Kind::Vote, token, 10)) {
                assert!(dropped.token >= Some(100), "{dropped:?}");
                assert_eq!(dropped.reason, DropReason::KindShare);
                displaced += 1;
            }
        }
        // Three quarters of 16, less the 5 of the first peer.
        assert_eq!(displaced, 900 - 7);
        // In turns and in order: the excess of a flood is its newest part.
        let expected = [0, 100, 1, 101, 2, 102, 3, 103, 4, 104, 105, 106];
        assert_eq!(tokens(&inbox), expected);
        assert_eq!(inbox.load(), (0, 0));
    }

    #[test]
    fn votes_leave_room_for_a_block() {
        let inbox = inbox(16, 1000);
        for token in 0..100 {
            inbox.push_message(message(token % 3, Kind::Vote, token, 50));
        }
        assert_eq!(inbox.load(), (12, 600));
        let dropped = inbox.push_message(message(9, Kind::Block, 1000, 400));
        assert_eq!(dropped, []);
        let dropped = inbox.push_message(message(9, Kind::Collection, 1001, 300));
        // The heaviest peer is evicted, not the votes of others.
        assert!(!dropped.is_empty());
        assert!(dropped.iter().all(|d| d.token >= Some(1000)), "{dropped:?}");
        assert!(inbox.load().1 <= 1000);
    }

    #[test]
    fn what_is_too_old_for_a_verdict_is_not_delivered() {
        let inbox = Inbox::new(16, 1000, Duration::from_secs(10));
        let mut old = message(1, Kind::Vote, 1, 50);
        let since = old.arrival.checked_sub(inbox.verdict_time);
        old.arrival = since.expect("the clock began longer ago");
        inbox.push_message(old);
        inbox.push_message(message(1, Kind::Vote, 2, 50));
        assert_eq!(tokens(&inbox), [2]);
    }

    #[test]
    fn a_connection_that_nobody_noticed_leaves_no_trace() {
        let inbox = inbox(16, 1000);
        let up = |peer| Event::PeerUp {
            peer,
            id: NodeKey::from_bytes([1; 32]).expect("key").id(),
            address: ([127, 0, 0, 1], 1).into(),
            outbound: true,
        };
        let down = |peer| Event::PeerDown {
            peer,
            reason: DownReason::Lost,
        };
        for peer in 0..1000 {
            inbox.push_control(up(peer));
            inbox.push_sent(peer, 1);
            inbox.push_down(peer, down(peer));
        }
        assert!(inbox.pop().is_none());
        inbox.push_control(up(7));
        assert!(matches!(inbox.pop(), Some(Event::PeerUp { peer: 7, .. })));
        inbox.push_sent(7, 1);
        inbox.push_sent(7, 2);
        assert!(matches!(
            inbox.pop(),
            Some(Event::SendReady { peer: 7, frames: 3 })
        ));
        inbox.push_down(7, down(7));
        assert!(matches!(inbox.pop(), Some(Event::PeerDown { peer: 7, .. })));
        assert!(inbox.pop().is_none());
    }

    proptest! {
        #[test]
        fn every_message_is_delivered_or_dropped_once_and_the_bounds_hold(
            pushes in proptest::collection::vec((0u64..4, 0usize..4, 0usize..400, any::<bool>()), 1..200)
        ) {
            let inbox = inbox(20, 2000);
            let mut open = std::collections::BTreeSet::new();
            let take = |open: &mut std::collections::BTreeSet<u64>, token| {
                assert!(open.remove(&token), "token {token} twice");
            };
            for (token, (peer, kind, bytes, pop)) in pushes.into_iter().enumerate() {
                let token = token as u64;
                open.insert(token);
                for dropped in inbox.push_message(message(peer, Kind::ALL[kind], token, bytes)) {
                    take(&mut open, dropped.token.expect("a message"));
                }
                let (count, load) = inbox.load();
                prop_assert!(count <= 20 && load <= 2000);
                if pop && let Some(Event::Message(message)) = inbox.pop() {
                    take(&mut open, message.token);
                }
            }
            let rest: std::collections::BTreeSet<u64> = tokens(&inbox).into_iter().collect();
            prop_assert_eq!(rest, open);
        }
    }
}
