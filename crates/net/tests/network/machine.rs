//! A network with its events, as the tests use it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use alphorn_net::{
    Address, Config, Event, Events, Handle, Listen, Message, NetworkDigest, NodeKey, Peer,
    RequestProtocol, Status, Transport, start,
};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(9);

/// The topics of the tests' network.
pub(crate) const VOTES: &str = "/alphorn/01020304/vote_0_0/raw";
pub(crate) const BLOCKS: &str = "/alphorn/01020304/block/raw";

/// A running network.
pub(crate) struct Machine {
    pub(crate) handle: Handle,
    pub(crate) events: Events,
    /// Events that came while a test waited for others.
    backlog: VecDeque<Event>,
}

/// Keys in the order of their names: whoever stands first dials without waiting for the other.
pub(crate) fn keys(count: usize) -> Vec<NodeKey> {
    let mut keys: Vec<_> = (0..count).map(|_| NodeKey::generate()).collect();
    keys.sort_by_key(|key| key.id().to_string());
    keys.sort_by_key(NodeKey::id);
    keys
}

/// One committee of one cell, small messages, one listener on a free port.
pub(crate) fn config(key: &NodeKey) -> Config {
    let mut config = Config::new(key.clone(), NetworkDigest([1, 2, 3, 4]));
    config.slot_ms = 1000;
    config.topic_bytes_max.block = 256 * 1024;
    config.topic_bytes_max.collection = 256 * 1024;
    config.topic_bytes_max.aggregate = 64 * 1024;
    config.listen = vec![Listen {
        address: ([127, 0, 0, 1], 0).into(),
        transport: Transport::Quic,
    }];
    config.requests = ["echo", "none"].map(protocol).to_vec();
    config
}

fn protocol(name: &str) -> RequestProtocol {
    RequestProtocol {
        name: name.to_owned(),
        request_bytes_max: 1024,
        chunk_bytes_max: 2048,
        chunks_max: 4,
        response_bytes_max: 4096,
    }
}

impl Machine {
    pub(crate) fn start(config: Config) -> Self {
        let (handle, events) = start(config).expect("the network starts");
        Self {
            handle,
            events,
            backlog: VecDeque::new(),
        }
    }

    /// Machines with plain configurations, changed by `change`.
    pub(crate) fn several<const N: usize>(change: impl Fn(usize, &mut Config)) -> [Self; N] {
        let keys = keys(N);
        std::array::from_fn(|index| {
            let mut config = config(&keys[index]);
            change(index, &mut config);
            Self::start(config)
        })
    }

    /// The first event for which `wanted` gives something; the others stay for later.
    ///
    /// # Panics
    ///
    /// If it does not come in time.
    pub(crate) async fn wait<T>(&mut self, what: &str, wanted: impl Fn(&Event) -> Option<T>) -> T {
        let found = self.backlog.iter().enumerate();
        let found = found.filter_map(|(at, event)| Some((at, wanted(event)?)));
        if let Some((at, value)) = { found }.next() {
            self.backlog.remove(at);
            return value;
        }
        let coming = async {
            while let Some(event) = self.events.recv().await {
                if let Some(value) = wanted(&event) {
                    return value;
                }
                self.backlog.push_back(event);
            }
            panic!("the network ended before {what}");
        };
        let value = tokio::time::timeout(PATIENCE, coming).await;
        value.unwrap_or_else(|_| panic!("no {what} in {PATIENCE:?}"))
    }

    /// Where it listens.
    pub(crate) async fn address(&mut self) -> Address {
        let id = self.handle.id();
        self.wait("listening address", |event| match event {
            Event::Listening { address, transport } => {
                Some(Address::new(*address, *transport, id).remove(0))
            }
            _ => None,
        })
        .await
    }

    /// The number of a machine that connected.
    pub(crate) async fn up(&mut self, other: &Handle) -> Peer {
        let wanted = other.id();
        self.wait("connection", |event| match event {
            Event::PeerUp { peer, id, .. } if *id == wanted => Some(*peer),
            _ => None,
        })
        .await
    }

    /// The next gossip message.
    pub(crate) async fn message(&mut self) -> Message {
        self.wait("message", |event| match event {
            Event::Message(message) => Some(message.clone()),
            _ => None,
        })
        .await
    }

    /// Whether a gossip message is there without waiting longer than `time`.
    pub(crate) async fn no_message_for(&mut self, time: Duration) -> bool {
        let is_message = |event: &Event| matches!(event, Event::Message(_));
        let coming = async {
            while let Some(event) = self.events.recv().await {
                let message = is_message(&event);
                self.backlog.push_back(event);
                if message {
                    return;
                }
            }
        };
        let quiet = tokio::time::timeout(time, coming).await.is_err();
        quiet && !self.backlog.iter().any(is_message)
    }

    /// Waits until a counter says so.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Status) -> bool) {
        let reached = async {
            while !holds(&self.handle.status()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "not {what}: {:?}", self.handle.status());
    }
}

/// Connects two machines; gives the number that each has for the other.
pub(crate) async fn connect(dialler: &mut Machine, listener: &mut Machine) -> (Peer, Peer) {
    let address = listener.address().await;
    let dialled = dialler.handle.dial(address);
    dialled.expect("room for a target");
    let theirs = dialler.up(&listener.handle).await;
    (theirs, listener.up(&dialler.handle).await)
}

/// Bytes that are all equal.
pub(crate) fn bytes(value: u8, length: usize) -> Arc<[u8]> {
    vec![value; length].into()
}
