//! Blocks and collections that are too long for gossip, over links that lose frames.

mod attacks;

use super::*;
use crate::cast::{
    Blamed, Broadcasts, Carrier, Code, ELEMENTS, Settings as CastSettings, broadcasts,
};
use crate::record::{Record, replay};
use alphorn_broadcast::rlnc::{Coding, Generators, Header, KERNELS, Ristretto, Rs, Subject};
use alphorn_broadcast::{Broadcast, Schedule};
use alphorn_proto::horn::{KIND_COLLECTION, Selection};
use alphorn_scheme::{Role, SignItem, SignJob};
use alphorn_types::Validator;
use std::sync::LazyLock;

const CASTERS: u32 = 5;
/// Bytes of a collection's evidence: too long for gossip.
const EVIDENCE_BYTES: u64 = 300_000;
/// Time until a frame has left the queue.
const LEAVE_NS: u64 = 1_000_000;
/// One in this many frames is lost.
const LOST_ONE_IN: u64 = 10;
/// Nodes see each other under these numbers, and a doppelganger under another one.
const FIRST_PEER: u64 = 100;
const MALLORY: Peer = Peer(7);

/// Every code. Generators are made once.
static CODES: LazyLock<[Code; 2]> = LazyLock::new(|| {
    let generators = Generators::new(KERNELS.measured(), ELEMENTS);
    [Code::Rs, Code::Rlnc(generators)]
});

/// Runs a test in every code. On failure the last line printed shows which code it was.
fn in_each_code(test: impl Fn(&Code)) {
    for code in &*CODES {
        eprintln!("in {:?}", code.strategy());
        test(code);
    }
}

/// Sent frames that a node remembers.
const LOG_MAX: usize = 300;

/// The next number of a sequence: Marsaglia's xorshift.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The broadcasts of a node, and their side effects.
pub(super) struct Caster {
    cast: Option<Box<dyn Broadcasts>>,
    pub(super) settings: CastSettings,
    pub(super) large: VecDeque<(Topic, Bytes)>,
    pub(super) verdicts: VecDeque<(Token, Verdict)>,
    delivered: VecDeque<Input>,
    /// Number of messages passed on.
    handed_on: u64,
    frames: Vec<(Peer, Bytes)>,
    /// The last frames sent.
    log: VecDeque<Bytes>,
    /// Frames that have not left, by peer, and how many may wait.
    queued: BTreeMap<Peer, u32>,
    queue_max: u32,
    gossiped: Vec<Topic>,
    blamed: Vec<Blamed>,
    evidence: Vec<Evidence>,
    /// The reasons and points for which peers were blamed.
    peers: Vec<(Peer, &'static str, u32)>,
    /// It broadcasts collections with invalid evidence.
    is_bent: bool,
    draws: u64,
}

impl Carrier for Node {
    fn send_frame(&mut self, peer: Peer, _: u64, data: Bytes) -> bool {
        let caster = self.caster.as_mut().unwrap();
        let queued = caster.queued.entry(peer).or_default();
        if *queued >= caster.queue_max {
            return false;
        }
        *queued += 1;
        caster.frames.push((peer, data));
        true
    }

    // Every frame starts to leave at once.
    fn cancel_frames(&mut self, _: Peer, _: u64) {}

    fn run(&mut self, spawn: Spawn) {
        self.spawn(spawn);
    }

    fn gossip(&mut self, topic: Topic, data: Bytes) {
        self.caster.as_mut().unwrap().gossiped.push(topic);
        self.published.push_back((topic, data));
    }

    fn deliver(&mut self, from: Peer, topic: Topic, token: Token, data: Bytes) {
        let caster = self.caster.as_mut().unwrap();
        caster.handed_on += 1;
        caster.delivered.push_back(Input::Message {
            from,
            topic,
            token,
            data,
        });
    }

    fn blame_peer(&mut self, peer: Peer, reason: alphorn_broadcast::Reject, points: u32) {
        let caster = self.caster.as_mut().unwrap();
        caster.peers.push((peer, reason.name(), points));
    }

    fn blame_source(&mut self, blamed: &Blamed) {
        self.caster.as_mut().unwrap().blamed.push(blamed.clone());
    }

    fn equivocated(&mut self, evidence: Evidence) {
        self.caster.as_mut().unwrap().evidence.push(evidence);
    }
}

impl Node {
    pub(super) fn cast_deadline(&self) -> Option<Time> {
        self.caster.as_ref()?.cast.as_ref()?.next_deadline()
    }

    fn with_cast(
        &mut self,
        engine: &Engine,
        act: impl FnOnce(&mut dyn Broadcasts, Time, &mut Node),
    ) {
        let now = self.now;
        if let Some(mut cast) = self.caster.as_mut().and_then(|one| one.cast.take()) {
            cast.follow(now, engine.horn());
            act(cast.as_mut(), now, self);
            self.caster.as_mut().unwrap().cast = Some(cast);
        }
    }

    /// As the loop of a process does.
    pub(super) fn settle(&mut self, engine: &mut Engine) {
        while let Some(caster) = &mut self.caster {
            if let Some((token, verdict)) = caster.verdicts.pop_front() {
                self.with_cast(engine, |cast, _, node| cast.verdict(token, verdict, node));
            } else if let Some((topic, mut data)) = caster.large.pop_front() {
                if caster.is_bent && topic == Topic::Collection {
                    let mut bytes = data.to_vec();
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 1;
                    data = bytes.into();
                }
                self.with_cast(engine, |cast, now, node| {
                    cast.publish(now, topic, data, node)
                });
            } else if let Some(input) = caster.delivered.pop_front() {
                self.hand_in(engine, input);
            } else {
                return;
            }
        }
    }

    fn caster(&self) -> &Caster {
        self.caster.as_ref().unwrap()
    }

    fn counts(&self) -> crate::cast::Counts {
        self.caster().cast.as_ref().unwrap().counts()
    }

    fn sources(&self) -> alphorn_proto::horn::Sources {
        self.engine.as_ref().unwrap().horn().sources()
    }
}

/// A scheme with collections of some hundred kilobytes, in a network with known collectors.
fn large_collections() -> (Model, Config, SchemeInfo) {
    let mut table = CostTable::example();
    table.sizes.evidence[1].bytes = EVIDENCE_BYTES;
    let scheme = Model::new(table).unwrap();
    let (mut config, info) = config(&scheme, 4);
    config.selection = Selection::Rank;
    config.levels[1].publishers = 2;
    (scheme, config, info)
}

impl World {
    /// Nodes that broadcast messages above a length, with collections of some hundred kilobytes.
    fn casting(code: &Code, above_bytes: usize) -> World {
        let (scheme, config, info) = large_collections();
        let node = |index: u32| {
            let horn = horn_of(config.clone(), info.clone(), index, CASTERS);
            let cast = broadcasts(&horn, code, [index as u8; 32]).unwrap();
            let mut node = node_of(scheme.clone(), horn);
            node.caster = Some(Caster {
                cast: Some(cast),
                settings: CastSettings { above_bytes },
                large: VecDeque::new(),
                verdicts: VecDeque::new(),
                delivered: VecDeque::new(),
                handed_on: 0,
                frames: Vec::new(),
                log: VecDeque::new(),
                queued: BTreeMap::new(),
                queue_max: 1_024,
                gossiped: Vec::new(),
                blamed: Vec::new(),
                evidence: Vec::new(),
                peers: Vec::new(),
                is_bent: false,
                draws: u64::from(index) + 1,
            });
            node
        };
        let mut world = World {
            nodes: (0..CASTERS).map(node).collect(),
            ..World::of(0, 4)
        };
        for index in 0..world.nodes.len() {
            for other in (0..world.nodes.len()).filter(|other| *other != index) {
                let peer = Peer(FIRST_PEER + other as u64);
                world.cast(index, |cast, now, node| cast.peer_up(now, peer, node));
            }
        }
        world
    }

    pub(super) fn cast(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut dyn Broadcasts, Time, &mut Node),
    ) {
        let node = &mut self.nodes[index];
        node.now = node.now.max(shifted(self.now, node.skew_ns));
        let Some(mut engine) = node.engine.take() else {
            return;
        };
        node.with_cast(&engine, act);
        node.settle(&mut engine);
        node.engine = Some(engine);
        self.carry_out(index);
    }

    /// A frame has left.
    pub(super) fn frame_left(&mut self, index: usize, peer: Peer) {
        let caster = self.nodes[index].caster.as_mut().unwrap();
        *caster.queued.get_mut(&peer).unwrap() -= 1;
        self.cast(index, |cast, now, node| cast.left(now, peer, 1, node));
    }

    /// Frames leave, and one in some is lost on the way.
    pub(super) fn carry_frames(&mut self, index: usize) {
        let Some(caster) = &mut self.nodes[index].caster else {
            return;
        };
        let mut sent = Vec::new();
        for (peer, data) in std::mem::take(&mut caster.frames) {
            if caster.log.len() >= LOG_MAX {
                caster.log.pop_front();
            }
            caster.log.push_back(data.clone());
            let is_lost = draw(&mut caster.draws).is_multiple_of(LOST_ONE_IN);
            sent.push((peer, data, is_lost));
        }
        let left = self.now.saturating_add_ns(LEAVE_NS);
        let arrival = left.saturating_add_ns(LATENCY_NS);
        for (peer, data, is_lost) in sent {
            self.push(left, index, Event::Left(peer));
            // Strangers receive nothing.
            let nodes = FIRST_PEER..FIRST_PEER + self.nodes.len() as u64;
            if nodes.contains(&peer.0) && !is_lost {
                let from = Peer(FIRST_PEER + index as u64);
                let to = (peer.0 - FIRST_PEER) as usize;
                self.push(arrival, to, Event::Frame(from, data));
            }
        }
    }
}

#[test]
fn large_messages_reach_all_by_broadcast_although_frames_are_lost() {
    in_each_code(|code| {
        let mut world = World::casting(code, crate::cast::ABOVE_BYTES);
        world.run_until(slot_start(8).saturating_sub_ns(1));
        let all = |pick: fn(&crate::cast::Counts) -> u64| {
            let counts = world.nodes.iter().map(|node| pick(&node.counts()));
            counts.sum::<u64>()
        };
        let published = all(|counts| counts.published);
        // Two committees with two collectors each in eight slots, and blocks that include them.
        assert!(published > 2 * 2 * 8, "{published}");
        for node in &world.nodes {
            let counts = node.counts();
            assert_eq!(counts.delivered, published - counts.published, "{counts:?}");
            assert_eq!((counts.withheld, counts.gossiped), (0, 0), "{counts:?}");
            assert_eq!(counts.sources_blamed, 0);
            assert!(counts.payload_bytes[0] >= EVIDENCE_BYTES * counts.delivered);
            assert_eq!(node.caster().peers, [], "an honest peer is blamed");
            assert_eq!(node.caster().gossiped, []);
            assert_eq!(node.verdicts.get("reject"), None);
            assert_eq!(node.judged.len(), 5);
            for judged in &node.judged {
                assert_eq!(judged.all().missed, 0, "{judged:?}");
                assert_eq!(judged.credited, u64::from(VALIDATORS), "{judged:?}");
            }
            let chain = node.engine.as_ref().unwrap().horn().chain();
            assert!(chain.finalised().slot >= Slot(4), "{:?}", chain.finalised());
        }
    });
}

#[test]
fn what_is_short_enough_is_gossiped() {
    let mut world = World::casting(&Code::Rs, 16 << 20);
    world.run_until(slot_start(4).saturating_sub_ns(1));
    for node in &world.nodes {
        let counts = node.counts();
        assert_eq!((counts.published, counts.frames[1]), (0, 0), "{counts:?}");
        assert!(node.judged.iter().all(|judged| judged.all().missed == 0));
    }
}

#[test]
fn a_record_of_a_node_with_broadcasts_is_replayed_without_them() {
    in_each_code(|code| {
        let mut world = World::casting(code, crate::cast::ABOVE_BYTES);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inputs");
        world.nodes[1].recorder = Some(Recorder::create(&path, b"head").unwrap());
        world.run_until(slot_start(4));
        assert!(world.nodes[1].counts().delivered > 0);
        let told = world.nodes[1].recorder.take().unwrap().finish();
        assert!(told.whole);
        let bytes = std::fs::read(&path).unwrap();
        let record = Record::open(bytes.as_slice()).unwrap();
        let (_, config, info) = large_collections();
        let first = Settings {
            first_slot: Slot(0),
            started: None,
            used: Slot(0),
            behind: BTreeMap::new(),
        };
        let again = replay(record, horn_of(config, info, 1, CASTERS), first).unwrap();
        assert_eq!(again.mark.inputs, told.inputs);
        assert_eq!((again.end, again.differs), (Some(again.mark), None));
    });
}

/// The signer of invalid content is held responsible. Peers that forwarded shards of it are not.
#[test]
fn bad_content_is_the_fault_of_its_source_and_of_nobody_else() {
    in_each_code(|code| {
        let mut world = World::casting(code, crate::cast::ABOVE_BYTES);
        world.nodes[4].caster.as_mut().unwrap().is_bent = true;
        world.run_until(slot_start(12).saturating_sub_ns(1));
        let is_bent = |source: u32| source % CASTERS == 4;
        let sent = world.nodes[4].counts().published;
        assert!(sent > 0);
        for node in &world.nodes[..4] {
            let caster = node.caster();
            assert!(!caster.blamed.is_empty());
            for Blamed { subject, header } in &caster.blamed {
                assert!(is_bent(subject.source), "{subject:?} is honest");
                // Tag, header and signature, as proof to others.
                assert!(header.len() > 100, "{} bytes", header.len());
            }
            let kept = caster.cast.as_ref().unwrap().blamed();
            assert!(kept.iter().eq(&caster.blamed), "the headers are kept");
            assert_eq!(caster.peers, [], "a forwarder is blamed");
            assert_eq!(node.points, BTreeMap::new(), "a forwarder is blamed");
            assert!(node.verdicts.get("reject") > Some(&0));
            // The collections of all others are there.
            assert!(node.judged.iter().all(|judged| judged.credited > 0));
        }
    });
}

#[test]
fn without_the_right_to_sign_the_header_a_message_is_gossiped() {
    in_each_code(|code| {
        let mut world = World::casting(code, crate::cast::ABOVE_BYTES);
        world.run_until(slot_start(3).saturating_add_ns(1_000_000));
        let subject = scheduled(&world.nodes[0], 3);
        // As if the disk had failed: nothing of the slot is durable.
        world.nodes[0].reserved.remove(&Slot(3));
        let data = collection_like(&subject, &world.nodes[0]);
        world.cast(0, |cast, now, node| {
            cast.publish(now, Topic::Collection, data, node)
        });
        world.run_until(slot_start(3).saturating_add_ns(500_000_000));
        let node = &world.nodes[0];
        assert_eq!(node.caster().gossiped, [Topic::Collection]);
        assert_eq!(node.counts().gossiped, 1);
        // And one of a validator without that duty is not even tried.
        let sources = node.sources();
        let mut others = (0..VALIDATORS).map(|source| Subject { source, ..subject });
        let other = others.find(|other| !sources.is_scheduled(other)).unwrap();
        let data = collection_like(&other, node);
        world.cast(0, |cast, now, node| {
            cast.publish(now, Topic::Collection, data, node);
        });
        let node = &world.nodes[0];
        assert_eq!(node.caster().gossiped, [Topic::Collection; 2]);
        let is_asked = |event: &Event| matches!(event, Event::Finished(job, _) if job.0 >= JOBS);
        let mut jobs = world.queue.values().filter(|(index, _)| *index == 0);
        assert!(!jobs.any(|(_, event)| is_asked(event)), "a job runs for it");
    });
}

/// A collector of the first committee in a slot.
fn scheduled(node: &Node, slot: u64) -> Subject {
    let subject = |source| Subject {
        kind: KIND_COLLECTION,
        slot,
        source,
        index: 0,
    };
    let sources = node.sources();
    let mut all = (0..VALIDATORS).map(subject);
    all.find(|subject| sources.is_scheduled(subject)).unwrap()
}

/// Bytes that begin like the collection of a subject.
fn collection_like(subject: &Subject, node: &Node) -> Bytes {
    let vote = Vote {
        slot: Slot(subject.slot),
        ..Vote::default()
    };
    let mut bytes = vec![alphorn_proto::wire::VERSION, 2];
    bytes.extend(vote.encode());
    // A committee of two levels, which has no index next to it.
    bytes.push(2);
    bytes.extend((subject.index as u16).to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(subject.source.to_le_bytes());
    bytes.resize(node.caster().settings.above_bytes + 1, 7);
    bytes.into()
}
