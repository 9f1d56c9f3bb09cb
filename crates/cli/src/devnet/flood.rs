//! Flooders that send one node of a devnet forged votes as fast as it accepts them, and the cost of that.
//!
//! A forged vote has the fields of an honest one that the flooder saw, and a signature of its own. Half
//! of the flooders name the previous block, so their votes must be verified to be rejected; they are
//! banned for it and return under a new name. The others name unknown blocks, so their votes wait and
//! they stay connected.

use super::outcome::share;
use super::process::Told;
use super::resident::Resident;
use crate::error::{Error, Result};
use alphorn_net::{
    Address, Config, Event, Handle, Kind, Listen, Message, NetworkDigest, NodeKey, Priority, Topic,
    Transport, Verdict, start,
};
use alphorn_proto::wire::{Checkpoint, Vote, VoteMsg, WireFormat};
use alphorn_types::Cell;
use anyhow::anyhow;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Checked slots before the flood starts, for comparison.
const QUIET_SLOTS: u64 = 6;
/// Slots around the start that belong to neither side.
const BETWEEN_SLOTS: u64 = 2;
/// Minimum number of flooded slots.
const FLOODED_SLOTS_MIN: u64 = 2;
/// Forged votes sent between two checks for received messages.
const BURST: usize = 256;
/// How long a flooder rests when its queue is full, or when it has nothing to forge.
const REST: Duration = Duration::from_millis(2);
/// Added to the niceness of flooders.
#[cfg(unix)]
const NICENESS: i32 = 19;
/// Honest votes that a flooder keeps as seeds.
const SEEDS_MAX: usize = 1_024;
/// Minimum honest votes in blocks during the flood, in percent of those in the quiet slots.
const HONEST_PERCENT: f64 = 99.0;
/// Tolerance by which memory may exceed its bound, in percent.
const ABOVE_PERCENT: u64 = 5;
/// How long memory is watched after a flood. When its second half starts, gossipsub has forgotten the
/// senders of the messages, which takes it two minutes.
const CALM: Duration = Duration::from_secs(300);
/// Maximum memory in that second half, in percent of that of the node with the lowest use.
const AFTER_PERCENT: u64 = 150;

/// Timing of the flood in a devnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Slots without a flood.
    pub(super) quiet: Range<u64>,
    /// The slot in which it starts.
    pub(super) begin: u64,
    /// Slots with the flood.
    pub(super) flooded: Range<u64>,
}

/// Returns the slots that a network continues after a flood.
pub(super) fn calm_slots(slot_ms: u64) -> u64 {
    (CALM.as_millis() as u64).div_ceil(slot_ms)
}

impl Schedule {
    /// Schedules the flood of a run.
    ///
    /// # Errors
    /// If the run has no room for it.
    pub(super) fn new(checked: Range<u64>) -> Result<Self> {
        let quiet = checked.start..checked.start + QUIET_SLOTS;
        let flooded = quiet.end + BETWEEN_SLOTS..checked.end;
        if flooded.start + FLOODED_SLOTS_MIN > flooded.end {
            let slots = checked.end - checked.start;
            let least = QUIET_SLOTS + BETWEEN_SLOTS + FLOODED_SLOTS_MIN;
            return Err(anyhow!("--slots {slots}: with --flood at least {least}").into());
        }
        Ok(Schedule {
            begin: quiet.end + BETWEEN_SLOTS / 2,
            quiet,
            flooded,
        })
    }
}

/// What the flooders need to know about their target.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) address: Address,
    pub(super) network: NetworkDigest,
    pub(super) format: WireFormat,
}

/// Totals of a flooder.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    votes: u64,
    bytes: u64,
    /// Number of times it was disconnected.
    ended: u64,
}

/// A running flood.
pub(super) struct Flood {
    stop: Arc<AtomicBool>,
    flooders: Vec<JoinHandle<Sent>>,
    began: Instant,
}

impl Flood {
    /// Starts this many flooders.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(super) fn start(target: &Target, count: u16) -> Result<Self> {
        let mut flood = Flood {
            stop: Arc::default(),
            flooders: Vec::new(),
            began: Instant::now(),
        };
        for number in 0..count {
            let (target, stop) = (target.clone(), flood.stop.clone());
            let lie = if number % 2 == 0 {
                Lie::Signature
            } else {
                Lie::Block
            };
            let thread = std::thread::Builder::new().name("flooder".into());
            let flooder = thread.spawn(move || run(&target, lie, &stop))?;
            flood.flooders.push(flooder);
        }
        Ok(flood)
    }

    /// Ends the flood.
    pub(super) fn end(mut self) -> Ended {
        self.stop.store(true, Ordering::Relaxed);
        let count = self.flooders.len();
        let mut all = Sent::default();
        for flooder in self.flooders.drain(..) {
            // The totals of a flooder that panicked are lost.
            let sent = flooder.join().unwrap_or_default();
            all.votes += sent.votes;
            all.bytes += sent.bytes;
            all.ended += sent.ended;
        }
        Ended {
            flooders: count,
            sent: all,
            seconds: self.began.elapsed().as_secs_f64(),
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Lowers the priority of the calling thread and its children, so that they only use processor time
/// left over by the nodes: flooders represent other hosts. If the system refuses, only fairness
/// suffers, not the results.
fn yield_to_nodes() {
    #[cfg(unix)]
    let _ = rustix::process::nice(NICENESS);
}

/// Runs a flooder under one name after another.
fn run(target: &Target, lie: Lie, stop: &AtomicBool) -> Sent {
    yield_to_nodes();
    let runtime = tokio::runtime::Builder::new_current_thread();
    // The braces move the builder into a temporary, which can be borrowed mutably.
    let Ok(runtime) = { runtime }.enable_all().build() else {
        return Sent::default();
    };
    let (mut forger, mut sent) = (Forger::new(lie), Sent::default());
    while !stop.load(Ordering::Relaxed) {
        // If the host has no socket or thread to spare, try again.
        if runtime
            .block_on(life(target, stop, &mut forger, &mut sent))
            .is_none()
        {
            std::thread::sleep(REST);
        }
    }
    sent
}

/// Runs a flooder under one name; none if it cannot start.
async fn life(
    target: &Target,
    stop: &AtomicBool,
    forger: &mut Forger,
    sent: &mut Sent,
) -> Option<()> {
    let layout = &target.format.layout;
    let mut config = Config::new(NodeKey::generate(), target.network);
    config.committees = layout.committees();
    config.subcommittees = layout.subcommittees();
    // It remembers as little as possible.
    config.slot_ms = 1_000;
    config.gossip.seen_slots = 1;
    (config.gossip.history, config.gossip.history_gossip) = (1, 1);
    config.listen = vec![Listen {
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        transport: Transport::Quic,
    }];
    let (handle, mut events) = start(config).ok()?;
    let _ = handle.dial(target.address.clone());
    for committee in 0..layout.committees() {
        for subcommittee in 0..layout.subcommittees() {
            let cell = Cell {
                committee,
                subcommittee,
            };
            let topic = Topic::Vote { cell }.named(target.network);
            let _ = handle.subscribe(&topic.to_string());
        }
    }
    let mut is_here = true;
    while is_here && !stop.load(Ordering::Relaxed) {
        while let Some(event) = events.try_recv() {
            match event {
                Event::Message(message) => forger.see(&handle, &message, &target.format),
                Event::PeerDown { .. } => is_here = false,
                _ => {}
            }
        }
        if !forger.send(&handle, &target.format) {
            tokio::time::sleep(REST).await;
        }
        // The network has a thread of its own, but the clock of this one needs a turn.
        tokio::task::yield_now().await;
    }
    let votes = handle.status().kind(Kind::Vote);
    sent.votes += votes.messages_out;
    sent.bytes += votes.bytes_out;
    sent.ended += u64::from(!is_here);
    handle.shutdown();
    Some(())
}

/// What is wrong with a forged vote, apart from its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// Nothing else.
    Signature,
    /// Its block is unknown to all nodes.
    Block,
}

/// Forges votes from honest ones.
struct Forger {
    lie: Lie,
    /// Votes of the newest slot seen, with their topics.
    seeds: Vec<(String, VoteMsg)>,
    /// A vote of the newest slot, and one of an earlier slot.
    last: Option<Vote>,
    before: Option<Vote>,
    /// Makes each signature different.
    count: u64,
}

impl Forger {
    fn new(lie: Lie) -> Self {
        Forger {
            lie,
            seeds: Vec::new(),
            last: None,
            before: None,
            count: 0,
        }
    }

    fn see(&mut self, handle: &Handle, message: &Message, format: &WireFormat) {
        // It only looks for honest votes and relays none.
        let _ = handle.verdict(message.token, Verdict::Ignore);
        let Ok(honest) = VoteMsg::decode(&message.data, format) else {
            return;
        };
        let newer = self.last.is_none_or(|last| honest.vote.slot > last.slot);
        if newer {
            self.before = self.last;
            self.last = Some(honest.vote);
            self.seeds.clear();
        }
        let current = self.last.is_some_and(|last| last.slot == honest.vote.slot);
        if current && self.seeds.len() < SEEDS_MAX {
            self.seeds.push((message.topic.to_string(), honest));
        }
    }

    /// Sends a burst; false if no more is accepted now, or nothing can be forged yet.
    fn send(&mut self, handle: &Handle, format: &WireFormat) -> bool {
        let Some(mut before) = self.before else {
            return false;
        };
        for _ in 0..BURST {
            let seeds = self.seeds.len().max(1) as u64;
            let Some((topic, honest)) = self.seeds.get((self.count % seeds) as usize) else {
                return false;
            };
            if self.lie == Lie::Block {
                before.head[..8].copy_from_slice(&self.count.to_le_bytes());
            }
            let data = forged(honest, &before, self.count).encode(format).into();
            self.count += 1;
            if handle.publish(topic, data, Priority::Normal).is_err() {
                return false;
            }
        }
        true
    }
}

/// Forges a vote of the same voter for the previous block: consistent, and not yet rejected as a duplicate.
fn forged(honest: &VoteMsg, before: &Vote, count: u64) -> VoteMsg {
    let mut signature = honest.signature.to_vec();
    for (byte, other) in signature.iter_mut().rev().zip(count.to_le_bytes()) {
        *byte ^= other;
    }
    // Must differ from the honest one.
    if let Some(first) = signature.get_mut(8) {
        *first ^= 1;
    }
    VoteMsg {
        vote: Vote {
            slot: honest.vote.slot,
            target: Checkpoint {
                slot: honest.vote.slot,
                root: before.head,
            },
            ..*before
        },
        validator: honest.validator,
        signature: signature.into(),
    }
}

/// A finished flood.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    flooders: usize,
    sent: Sent,
    seconds: f64,
}

/// A finished flood, and the memory of all nodes.
pub(super) struct Suffered {
    pub(super) ended: Ended,
    pub(super) during: Vec<Resident>,
    pub(super) after: Vec<Resident>,
}

/// Memory of a node, in bytes.
struct Memory {
    name: String,
    /// During the flood.
    during: Resident,
    /// Peak in the first half of the time after it, and in the second.
    after: [u64; 2],
    bound: u64,
}

/// The cost of a flood.
pub(super) struct Cost {
    ended: Ended,
    nodes: Vec<Memory>,
    /// Mean share of honest votes in blocks, before the flood and during it.
    quiet: f64,
    flooded: f64,
}

impl Cost {
    pub(super) fn new(suffered: &Suffered, schedule: &Schedule, told: &Told) -> Self {
        let last = || told.lives.iter().filter_map(|lives| lives.last());
        let mean = |slots: &Range<u64>| {
            let shares: Vec<f64> = last().map(|node| share(node, slots.clone())).collect();
            shares.iter().sum::<f64>() / shares.len().max(1) as f64
        };
        let nodes = last().zip(&suffered.during).zip(&suffered.after);
        let nodes = nodes.map(|((node, during), after)| Memory {
            name: node.name.clone(),
            during: *during,
            after: after.most,
            bound: node.memory_bound_bytes,
        });
        Cost {
            ended: suffered.ended,
            nodes: nodes.collect(),
            quiet: mean(&schedule.quiet),
            flooded: mean(&schedule.flooded),
        }
    }

    fn per_s(&self) -> f64 {
        self.ended.sent.votes as f64 / self.ended.seconds.max(1e-9)
    }

    /// Formats the table for the terminal.
    pub(super) fn table(&self) -> String {
        let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
        let rows: Vec<Vec<String>> = self
            .nodes
            .iter()
            .map(|node| {
                let [first, second] = node.during.most;
                let of = [node.during.first, first, second, node.after[1], node.bound];
                [node.name.clone()].into_iter().chain(of.map(mib)).collect()
            })
            .collect();
        let header = [
            "node",
            "MiB before",
            "most, first half",
            "most, second half",
            "most, once it is forgotten",
            "bound",
        ];
        format!(
            "{}\n{} flooders, {} forged votes in {:.0} s ({:.0} a second, {:.2} MB), sent away {} times; \
             honest votes in blocks: {:.2} % before, {:.2} % during it",
            crate::report::table(&header, &rows),
            self.ended.flooders,
            self.ended.sent.votes,
            self.ended.seconds,
            self.per_s(),
            self.ended.sent.bytes as f64 / 1e6,
            self.ended.sent.ended,
            100.0 * self.quiet,
            100.0 * self.flooded,
        )
    }

    pub(super) fn fields(&self) -> Value {
        let nodes = self.nodes.iter().map(|node| {
            json!({
                "name": node.name, "rss_bytes_before": node.during.first,
                "rss_bytes_max": node.during.most, "rss_bytes_after": node.after,
                "memory_bound_bytes": node.bound,
            })
        });
        json!({
            "flooders": self.ended.flooders,
            "seconds": self.ended.seconds,
            "votes": self.ended.sent.votes,
            "votes_per_s": self.per_s(),
            "bytes": self.ended.sent.bytes,
            "sent_away": self.ended.sent.ended,
            "coverage_quiet": self.quiet,
            "coverage_flooded": self.flooded,
            "nodes": nodes.collect::<Vec<Value>>(),
        })
    }

    /// Returns an error if memory exceeded its bound or did not come back down, or if honest votes were
    /// lost.
    pub(super) fn check(&self) -> Result<()> {
        // Only the first node was flooded, so the others show what a node needs without a flood.
        let idle = self.nodes.iter().map(|node| node.after[1]).min();
        let after = idle.unwrap_or(0) / 100 * AFTER_PERCENT;
        for node in &self.nodes {
            let [first, second] = node.during.most;
            let bound = node.bound / 100 * (100 + ABOVE_PERCENT);
            let looks = [
                ("during the flood", first.max(second), bound),
                ("after the flood", node.after[1], after),
            ];
            for (when, most, max) in looks {
                if most == 0 || most > max {
                    let name = &node.name;
                    let why = format!("{name}: {most} bytes of memory {when}, must be 1 to {max}");
                    return Err(Error::Check(why));
                }
            }
        }
        if self.ended.sent.votes == 0 {
            return Err(Error::Check("no forged vote was sent".into()));
        }
        if 100.0 * self.flooded < HONEST_PERCENT * self.quiet || self.quiet == 0.0 {
            let (quiet, flooded) = (100.0 * self.quiet, 100.0 * self.flooded);
            let why = format!(
                "{flooded:.2} % of the honest votes in blocks, {quiet:.2} % before the flood"
            );
            return Err(Error::Check(why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_node::telemetry::Summary;
    use alphorn_types::{Slot, Validator};

    #[test]
    fn a_run_has_quiet_slots_and_flooded_ones() {
        let schedule = Schedule::new(2..12).unwrap();
        assert_eq!(
            (schedule.quiet, schedule.begin, schedule.flooded),
            (2..8, 9, 10..12)
        );
        assert!(Schedule::new(2..11).is_err());
    }

    #[test]
    fn every_forged_vote_is_another_one_and_none_is_honest() {
        let vote = |slot, head| Vote {
            slot: Slot(slot),
            head: [head; 32],
            source: Checkpoint {
                slot: Slot(0),
                root: [0; 32],
            },
            target: Checkpoint {
                slot: Slot(slot),
                root: [head; 32],
            },
        };
        let honest = VoteMsg {
            vote: vote(5, 5),
            validator: Validator(3),
            signature: vec![7; 96].into(),
        };
        let made: Vec<VoteMsg> = (0..1_000)
            .map(|count| forged(&honest, &vote(4, 4), count))
            .collect();
        let signatures: std::collections::BTreeSet<&[u8]> =
            made.iter().map(|one| &one.signature[..]).collect();
        assert_eq!(signatures.len(), made.len());
        for one in &made {
            assert_ne!(one.signature, honest.signature);
            assert_eq!((one.vote.slot, one.vote.head), (Slot(5), [4; 32]));
            assert_eq!(one.vote.target.root, one.vote.head);
        }
    }

    #[test]
    fn memory_above_the_bound_and_lost_votes_are_failures() {
        let cost = |most: u64, after: u64, flooded: u64, votes: u64| {
            let node = |name: &str| Summary {
                name: name.into(),
                validators: 100,
                credited: (0..20)
                    .map(|slot| (slot, if slot < 8 { 100 } else { flooded }))
                    .collect(),
                memory_bound_bytes: 1_000,
                ..Summary::default()
            };
            let told = Told {
                lives: vec![vec![node("node-0")], vec![node("node-1")]],
                rights: Default::default(),
            };
            let resident = |first, most| Resident { first, most };
            let during = vec![resident(90, [100, most]), resident(90, [90, 90])];
            let after = vec![resident(most, [most, after]), resident(90, [90, 100])];
            let ended = Ended {
                flooders: 1,
                sent: Sent {
                    votes,
                    ..Sent::default()
                },
                seconds: 2.0,
            };
            let schedule = Schedule::new(2..20).unwrap();
            let suffered = Suffered {
                ended,
                during,
                after,
            };
            Cost::new(&suffered, &schedule, &told)
        };
        assert!(cost(1_050, 150, 99, 1).check().is_ok());
        assert!(cost(1_051, 150, 99, 1).check().is_err());
        assert!(cost(1_050, 151, 99, 1).check().is_err());
        assert!(cost(1_050, 0, 99, 1).check().is_err());
        assert!(cost(200, 150, 98, 1).check().is_err());
        assert!(cost(200, 150, 99, 0).check().is_err());
        assert_eq!(cost(200, 150, 99, 4).fields()["votes_per_s"], 2.0);
    }
}
