//! Real nodes: libp2p's gossipsub as our nodes run it, in one process, over delayed loopback connections.

use super::{Arrivals, Plan, delay};
use alphorn_lab::error::{Error, Result};
use alphorn_net::{
    Address, Config, Event, Events, Handle, Listen, NetworkDigest, NodeKey, Priority, Transport,
    Verdict, start,
};
use alphorn_types::Kind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// The network's only topic.
const TOPIC: &str = "/alphorn/01020304/block/raw";
/// Time limit for everything that has to happen before the first message.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time from subscription to the first message, ten heartbeats: peers with enough mesh links have
/// pruned the rest.
const SETTLING: Duration = Duration::from_secs(7);

/// A message that arrived at a node.
struct Came {
    message: usize,
    at: Instant,
}

/// A running node.
struct Node {
    handle: Handle,
    address: SocketAddr,
}

fn config(plan: &Plan) -> Config {
    let mut config = Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]));
    config.listen = vec![Listen {
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        transport: Transport::Tcp,
    }];
    config.topic_messages_per_slot.block = 1024;
    // All nodes share one process here.
    config.limits.process_bytes_max = usize::MAX >> 1;
    config.limits.peers_max = plan.nodes;
    config.limits.peers_in_max = plan.nodes;
    config.limits.pending_in_max = plan.nodes;
    config
}

fn failed(what: String) -> Error {
    Error::Check(what)
}

/// Starts a node, and waits until it listens.
async fn node(plan: &Plan) -> Result<(Node, Events)> {
    let (handle, mut events) = start(config(plan))?;
    let listening = async {
        loop {
            match events.recv().await {
                Some(Event::Listening { address, .. }) => return Some(address),
                Some(_) => {}
                None => return None,
            }
        }
    };
    let address = timeout(PATIENCE, listening).await.ok().flatten();
    let address = address.ok_or_else(|| failed("a node does not listen".to_owned()))?;
    Ok((Node { handle, address }, events))
}

/// Accepts every message after validation, and reports when it arrived.
async fn accept(
    handle: Handle,
    mut events: Events,
    validation: Duration,
    came: mpsc::UnboundedSender<Came>,
) {
    while let Some(event) = events.recv().await {
        let at = Instant::now();
        let Event::Message(message) = event else {
            continue;
        };
        if let Some(number) = message.data.first_chunk() {
            let message = u32::from_le_bytes(*number) as usize;
            // After the last message the receiver is gone.
            let _ = came.send(Came { message, at });
        }
        let handle = handle.clone();
        tokio::spawn(async move {
            sleep_until(at + validation).await;
            // A node that is shutting down gives no verdicts.
            let _ = handle.verdict(message.token, Verdict::Accept);
        });
    }
}

/// Waits until all nodes meet a condition.
async fn until(nodes: &[Node], what: &str, holds: impl Fn(usize, &Handle) -> bool) -> Result<()> {
    let all = async {
        while !nodes
            .iter()
            .enumerate()
            .all(|(i, node)| holds(i, &node.handle))
        {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let held = timeout(PATIENCE, all).await;
    held.map_err(|_| failed(format!("not all nodes have {what} within {PATIENCE:?}")))
}

fn copies(nodes: &[Node]) -> u64 {
    let of = |node: &Node| node.handle.status().kind(Kind::Block).messages_in;
    nodes.iter().map(of).sum()
}

/// Runs the plan in this many networks side by side; returns when each message arrived, and how many
/// copies.
///
/// # Errors
/// If nodes cannot be started, or do not find each other.
pub(super) async fn run(plan: &Plan, networks: u32) -> Result<Arrivals> {
    let network = |_| {
        let plan = plan.clone();
        tokio::spawn(async move { one(&plan).await })
    };
    let running: Vec<_> = (0..networks).map(network).collect();
    let mut all = Arrivals::default();
    for network in running {
        let Arrivals { delays, copies } = network.await??;
        all.delays.extend(delays);
        all.copies += copies;
    }
    Ok(all)
}

async fn one(plan: &Plan) -> Result<Arrivals> {
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let mut nodes = Vec::new();
    for _ in 0..plan.nodes {
        let (node, events) = node(plan).await?;
        let handle = node.handle.clone();
        tokio::spawn(accept(handle, events, plan.validation, sender.clone()));
        nodes.push(node);
    }
    let mut degree = vec![0; nodes.len()];
    for &(a, b) in &plan.edges {
        let (from, to) = (&nodes[a as usize], &nodes[b as usize]);
        let line = delay::line(to.address, plan.delay).await?;
        for address in Address::new(line, Transport::Tcp, to.handle.id()) {
            from.handle.dial(address)?;
        }
        degree[a as usize] += 1;
        degree[b as usize] += 1;
    }
    let connected = |i: usize, handle: &Handle| handle.status().peers.len() == degree[i];
    until(&nodes, "their connections", connected).await?;
    for node in &nodes {
        node.handle.subscribe(TOPIC)?;
    }
    sleep(SETTLING).await;
    let meshed = |_: usize, handle: &Handle| handle.status().kind(Kind::Block).mesh_peers > 0;
    until(&nodes, "a mesh", meshed).await?;
    let before = copies(&nodes);
    let mut published = Vec::new();
    for message in 0..plan.messages {
        let mut data = vec![0xa5; plan.bytes];
        data[..4].copy_from_slice(&message.to_le_bytes());
        let from = &nodes[(message % plan.nodes) as usize];
        published.push(Instant::now());
        let data = Arc::from(data);
        from.handle.publish(TOPIC, data, Priority::Normal)?;
        sleep(plan.interval).await;
    }
    // The last one has as long as the others.
    sleep(plan.interval).await;
    let copies = copies(&nodes) - before;
    nodes.iter().for_each(|node| node.handle.shutdown());
    let mut delays = vec![Vec::new(); published.len()];
    while let Ok(Came { message, at }) = arrivals.try_recv() {
        delays[message].push(at - published[message]);
    }
    Ok(Arrivals { delays, copies })
}
