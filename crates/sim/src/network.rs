//! The ideal network: what a node publishes reaches every other subscriber, whole, in order, after
//! one constant latency.
//!
//! Bandwidth, loss and forwarding are not modelled here: a message costs its bytes in the counts
//! and nothing in time. Verdicts are counted, and none changes what others receive.

use alphorn_proto::wire::{Kind, Topic};
use alphorn_proto::{Peer, Token, Verdict};
use alphorn_scheme::Bytes;
use std::collections::BTreeMap;

/// Most nodes of an ideal network, in which each is connected to each.
pub(crate) const NODES_MAX: usize = 1024;

/// Most messages of a node that wait for a verdict; the oldest beyond are forgotten, and counted.
pub(crate) const VERDICTS_PENDING_MAX: usize = 1 << 16;

/// Which topics a node receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// All topics.
    All,
    /// What every node of a network receives: blocks and collections.
    Global,
}

impl Subscription {
    fn takes(self, topic: Topic) -> bool {
        match self {
            Subscription::All => true,
            Subscription::Global => matches!(topic, Topic::Block | Topic::Collection),
        }
    }
}

/// Messages and their payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Payload bytes, without any header of a transport.
    pub bytes: u64,
}

impl Traffic {
    fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }

    /// What came on top of an earlier count.
    #[must_use]
    pub fn since(self, earlier: Traffic) -> Traffic {
        Traffic {
            messages: self.messages - earlier.messages,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// Counts of what happened to the messages of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindTraffic {
    /// Given to the network.
    pub published: Traffic,
    /// Handed to a subscriber, once for each.
    pub delivered: Traffic,
    /// Verdicts to forward.
    pub accepted: u64,
    /// Verdicts to drop without blame.
    pub ignored: u64,
    /// Verdicts to drop with blame.
    pub rejected: u64,
    /// Messages whose verdict never came, or came after [`VERDICTS_PENDING_MAX`] newer messages.
    pub forgotten: u64,
}

/// A message on its way, named by its place in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageId(u32);

/// A message as a subscriber receives it.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) from: Peer,
    pub(crate) topic: Topic,
    pub(crate) token: Token,
    pub(crate) data: Bytes,
}

#[derive(Debug)]
struct Stored {
    from: u32,
    topic: Topic,
    data: Bytes,
    receivers_left: u32,
}

#[derive(Debug)]
struct Subscriber {
    subscription: Subscription,
    received: Traffic,
    pending: BTreeMap<Token, Kind>,
}

/// The ideal network of a run.
#[derive(Debug)]
pub(crate) struct Network {
    latency_ns: u64,
    nodes: Vec<Subscriber>,
    /// Messages of a kind from a node that do not reach another.
    withheld: Vec<(Kind, u32, u32)>,
    /// One entry a message, however many receive it.
    messages: Vec<Option<Stored>>,
    free: Vec<u32>,
    tokens: u64,
    kinds: [KindTraffic; Kind::ALL.len()],
    /// All that were published, in their order.
    blocks: Vec<Bytes>,
}

impl Network {
    /// A network of one node for each subscription, numbered from 0.
    ///
    /// # Panics
    /// If there are more than [`NODES_MAX`].
    pub(crate) fn new(subscriptions: &[Subscription], latency_ns: u64) -> Self {
        let nodes = subscriptions.len();
        assert!(
            nodes <= NODES_MAX,
            "{nodes} nodes, must be at most {NODES_MAX}"
        );
        let node = |&subscription: &Subscription| Subscriber {
            subscription,
            received: Traffic::default(),
            pending: BTreeMap::new(),
        };
        Network {
            latency_ns,
            nodes: subscriptions.iter().map(node).collect(),
            withheld: Vec::new(),
            messages: Vec::new(),
            free: Vec::new(),
            tokens: 0,
            kinds: Default::default(),
            blocks: Vec::new(),
        }
    }

    /// From now on, messages of a kind from one node do not reach another: an adversary keeps hers to
    /// herself, or does not listen.
    pub(crate) fn withhold(&mut self, kind: Kind, from: u32, to: u32) {
        self.withheld.push((kind, from, to));
    }

    /// Number of nodes.
    pub(crate) fn nodes_count(&self) -> usize {
        self.nodes.len()
    }

    /// Nanoseconds from publishing to delivery.
    pub(crate) fn latency_ns(&self) -> u64 {
        self.latency_ns
    }

    /// What happened to the messages of a kind so far.
    pub(crate) fn traffic(&self, kind: Kind) -> KindTraffic {
        self.kinds[index(kind)]
    }

    /// All blocks that were published, in their order, whether anyone received them or not.
    pub(crate) fn blocks(&self) -> &[Bytes] {
        &self.blocks
    }

    /// What a node received so far.
    ///
    /// # Panics
    /// If there is no such node.
    pub(crate) fn received(&self, node: u32) -> Traffic {
        self.nodes[node as usize].received
    }

    /// Most messages that were ever on their way together.
    #[cfg(test)]
    pub(crate) fn messages_peak(&self) -> usize {
        self.messages.len()
    }

    /// Takes a message, and returns its name and who receives it, ascending. A message without a
    /// receiver is counted and dropped.
    pub(crate) fn publish(
        &mut self,
        from: u32,
        topic: Topic,
        data: Bytes,
    ) -> Option<(MessageId, Vec<u32>)> {
        self.kinds[index(topic.kind())].published.add(data.len());
        if topic == Topic::Block {
            self.blocks.push(data.clone());
        }
        let takes = |&node: &u32| {
            node != from
                && self.nodes[node as usize].subscription.takes(topic)
                && !self.withheld.contains(&(topic.kind(), from, node))
        };
        let receivers: Vec<u32> = (0..self.nodes.len() as u32).filter(takes).collect();
        if receivers.is_empty() {
            return None;
        }
        let stored = Some(Stored {
            from,
            topic,
            data,
            receivers_left: receivers.len() as u32,
        });
        let id = match self.free.pop() {
            Some(id) => {
                self.messages[id as usize] = stored;
                id
            }
            None => {
                self.messages.push(stored);
                self.messages.len() as u32 - 1
            }
        };
        Some((MessageId(id), receivers))
    }

    /// Hands a message to one of its receivers; the last one takes it out of the store.
    pub(crate) fn deliver(&mut self, message: MessageId, node: u32) -> Arrival {
        let place = &mut self.messages[message.0 as usize];
        let stored = place
            .as_mut()
            .expect("an arrival is scheduled once a receiver");
        stored.receivers_left -= 1;
        let (from, topic) = (Peer(u64::from(stored.from)), stored.topic);
        let data = stored.data.clone();
        if stored.receivers_left == 0 {
            *place = None;
            self.free.push(message.0);
        }
        let token = Token(self.tokens);
        self.tokens += 1;
        let kind = topic.kind();
        self.kinds[index(kind)].delivered.add(data.len());
        let receiver = &mut self.nodes[node as usize];
        receiver.received.add(data.len());
        receiver.pending.insert(token, kind);
        if receiver.pending.len() > VERDICTS_PENDING_MAX
            && let Some((_, oldest)) = receiver.pending.pop_first()
        {
            self.kinds[index(oldest)].forgotten += 1;
        }
        Arrival {
            from,
            topic,
            token,
            data,
        }
    }

    /// Counts a verdict; one for a token that is not pending at the node changes nothing.
    pub(crate) fn verdict(&mut self, node: u32, token: Token, verdict: Verdict) {
        let Some(kind) = self.nodes[node as usize].pending.remove(&token) else {
            return;
        };
        let counts = &mut self.kinds[index(kind)];
        match verdict {
            Verdict::Accept => counts.accepted += 1,
            Verdict::Ignore => counts.ignored += 1,
            Verdict::Reject => counts.rejected += 1,
        }
    }

    /// Messages of a node that still wait for a verdict.
    ///
    /// # Panics
    /// If there is no such node.
    #[cfg(test)]
    pub(crate) fn verdicts_pending(&self, node: u32) -> usize {
        self.nodes[node as usize].pending.len()
    }
}

/// The place of a kind among all kinds.
fn index(kind: Kind) -> usize {
    match kind {
        Kind::Vote => 0,
        Kind::Aggregate => 1,
        Kind::Collection => 2,
        Kind::Block => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_types::Cell;

    const VOTE: Topic = Topic::Vote {
        cell: Cell {
            committee: 0,
            subcommittee: 1,
        },
    };

    fn network() -> Network {
        let subscriptions = [Subscription::All, Subscription::Global, Subscription::All];
        Network::new(&subscriptions, 7)
    }

    #[test]
    fn a_message_reaches_each_other_subscriber_once_and_leaves_the_store() {
        let mut network = network();
        let (id, receivers) = network.publish(0, Topic::Block, [1; 10].into()).unwrap();
        assert_eq!(receivers, [1, 2]);
        let first = network.deliver(id, 1);
        let second = network.deliver(id, 2);
        assert_eq!((first.from, second.topic), (Peer(0), Topic::Block));
        assert_ne!(first.token, second.token);
        let (again, receivers) = network.publish(1, VOTE, [2; 5].into()).unwrap();
        assert_eq!(
            (again, receivers.as_slice()),
            (id, &[0, 2][..]),
            "the place is free again"
        );
        assert_eq!(network.messages_peak(), 1);
        assert_eq!(
            network.received(1),
            Traffic {
                messages: 1,
                bytes: 10
            }
        );
        let blocks = network.traffic(Kind::Block);
        assert_eq!((blocks.published.bytes, blocks.delivered.bytes), (10, 20));
    }

    #[test]
    fn what_is_withheld_does_not_arrive() {
        let mut network = network();
        network.withhold(Kind::Vote, 0, 2);
        assert!(network.publish(0, VOTE, [0; 1].into()).is_none());
        let others = |network: &mut Network, from, topic| {
            let (_, receivers) = network.publish(from, topic, [0; 1].into()).unwrap();
            receivers
        };
        assert_eq!(others(&mut network, 2, VOTE), [0]);
        assert_eq!(others(&mut network, 0, Topic::Block), [1, 2]);
    }

    #[test]
    fn a_message_for_nobody_costs_its_bytes_only() {
        let mut network = Network::new(&[Subscription::All, Subscription::Global], 0);
        assert!(network.publish(0, VOTE, [0; 9].into()).is_none());
        let votes = network.traffic(Kind::Vote);
        assert_eq!((votes.published.bytes, votes.delivered.messages), (9, 0));
        assert_eq!(network.messages_peak(), 0);
    }

    #[test]
    fn verdicts_are_counted_once() {
        let mut network = network();
        let (id, _) = network
            .publish(0, Topic::Collection, [0; 3].into())
            .unwrap();
        let token = network.deliver(id, 2).token;
        assert_eq!(network.verdicts_pending(2), 1);
        for verdict in [Verdict::Accept, Verdict::Reject] {
            network.verdict(2, token, verdict);
        }
        network.verdict(1, token, Verdict::Ignore);
        let counts = network.traffic(Kind::Collection);
        assert_eq!(
            (counts.accepted, counts.ignored, counts.rejected),
            (1, 0, 0)
        );
        assert_eq!(network.verdicts_pending(2), 0);
    }

    #[test]
    fn pending_verdicts_are_bounded() {
        let mut network = network();
        for _ in 0..=VERDICTS_PENDING_MAX {
            let (id, _) = network.publish(0, Topic::Block, [0; 1].into()).unwrap();
            network.deliver(id, 1);
            network.deliver(id, 2);
        }
        assert_eq!(network.verdicts_pending(1), VERDICTS_PENDING_MAX);
        assert_eq!(network.traffic(Kind::Block).forgotten, 2);
    }
}
