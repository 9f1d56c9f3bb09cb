//! Blocks and collections that are too long for gossip, over links that lose frames, and sources and
//! peers that lie.

use super::*;
use crate::cast::{Blamed, Carrier, Cast, Settings as CastSettings};
use crate::record::{Record, replay};
use alphorn_proto::broadcast::{self, Broadcast, Schedule};
use alphorn_proto::horn::{KIND_COLLECTION, Selection};
use alphorn_proto::rlnc::{Coding, Rs, Subject};
use alphorn_scheme::{Role, SignItem, SignJob};
use alphorn_types::Validator;

const CASTERS: u32 = 5;
/// Bytes of a collection's evidence: too long for gossip.
const EVIDENCE_BYTES: u64 = 300_000;
/// How long a frame takes to leave.
const LEAVE_NS: u64 = 1_000_000;
/// One frame of so many is lost.
const LOST_ONE_IN: u64 = 10;
/// Nodes see each other under these numbers, and a stranger under another one.
const FIRST_PEER: u64 = 100;
const MALLORY: Peer = Peer(7);

/// Frames that a node remembers to have sent.
const LOG_MAX: usize = 300;

/// The next number of a sequence: Marsaglia's xorshift.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The broadcasts of a node, and what they want done.
pub(super) struct Caster {
    cast: Option<Cast>,
    pub(super) settings: CastSettings,
    pub(super) large: VecDeque<(Topic, Bytes)>,
    pub(super) verdicts: VecDeque<(Token, Verdict)>,
    delivered: VecDeque<Input>,
    /// How many that were.
    handed_on: u64,
    frames: Vec<(Peer, Bytes)>,
    /// The last that were sent.
    log: VecDeque<Bytes>,
    /// Frames that have not left, by peer, and how many may wait.
    queued: BTreeMap<Peer, u32>,
    queue_max: u32,
    gossiped: Vec<Topic>,
    blamed: Vec<Blamed>,
    evidence: Vec<Evidence>,
    /// What peers were blamed for, and how much.
    peers: Vec<(Peer, &'static str, u32)>,
    /// It broadcasts collections whose evidence does not hold.
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

    // Every frame begins to leave at once.
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

    fn blame_peer(&mut self, peer: Peer, reason: broadcast::Reject, points: u32) {
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

    fn with_cast(&mut self, engine: &Engine, act: impl FnOnce(&mut Cast, Time, &mut Node)) {
        let now = self.now;
        if let Some(mut cast) = self.caster.as_mut().and_then(|one| one.cast.take()) {
            cast.follow(now, engine.horn());
            act(&mut cast, now, self);
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

/// A scheme whose collections have some hundred kilobytes, in a network whose collectors are known.
fn large_collections() -> (Model, Config, SchemeInfo) {
    let mut table = CostTable::example();
    table.sizes.evidence[1].bytes = EVIDENCE_BYTES;
    let scheme = Model::new(table).unwrap();
    let (mut config, info) = config(&scheme, 4);
    config.selection = Selection::Rank;
    config.collectors_target = 2;
    (scheme, config, info)
}

impl World {
    /// Nodes that broadcast what is above a length, with collections of some hundred kilobytes.
    fn casting(above_bytes: usize) -> World {
        let (scheme, config, info) = large_collections();
        let node = |index: u32| {
            let horn = horn_of((config.clone(), info.clone()), index, CASTERS);
            let cast = Cast::new(&horn, [index as u8; 32]).unwrap();
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

    pub(super) fn cast(&mut self, index: usize, act: impl FnOnce(&mut Cast, Time, &mut Node)) {
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

    /// Frames leave; one of some is lost on the way.
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
            // Strangers hear nothing.
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
    let mut world = World::casting(crate::cast::ABOVE_BYTES);
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
}

#[test]
fn what_is_short_enough_is_gossiped() {
    let mut world = World::casting(16 << 20);
    world.run_until(slot_start(4).saturating_sub_ns(1));
    for node in &world.nodes {
        let counts = node.counts();
        assert_eq!((counts.published, counts.frames[1]), (0, 0), "{counts:?}");
        assert!(node.judged.iter().all(|judged| judged.all().missed == 0));
    }
}

#[test]
fn a_record_of_a_node_with_broadcasts_is_replayed_without_them() {
    let mut world = World::casting(crate::cast::ABOVE_BYTES);
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
    };
    let again = replay(record, horn_of((config, info), 1, CASTERS), first).unwrap();
    assert_eq!(again.mark.inputs, told.inputs);
    assert_eq!((again.end, again.differs), (Some(again.mark), None));
}

/// Who signs what does not hold answers for it; whoever forwarded shards of it does not.
#[test]
fn bad_content_is_the_fault_of_its_source_and_of_nobody_else() {
    let mut world = World::casting(crate::cast::ABOVE_BYTES);
    world.nodes[4].caster.as_mut().unwrap().is_bent = true;
    world.run_until(slot_start(6).saturating_sub_ns(1));
    let is_bent = |source: u32| source % CASTERS == 4;
    let sent = world.nodes[4].counts().published;
    assert!(sent > 0);
    for node in &world.nodes[..4] {
        let caster = node.caster();
        assert!(!caster.blamed.is_empty());
        for Blamed { subject, header } in &caster.blamed {
            assert!(is_bent(subject.source), "{subject:?} is honest");
            // Tag, header and signature: what proves it to others.
            assert!(header.len() > 100, "{} bytes", header.len());
        }
        let kept = caster.cast.as_ref().unwrap().blamed();
        assert!(kept.eq(&caster.blamed), "the headers are kept");
        assert_eq!(caster.peers, [], "a forwarder is blamed");
        assert_eq!(node.points, BTreeMap::new(), "a forwarder is blamed");
        assert!(node.verdicts.get("reject") > Some(&0));
        // All others' collections are there.
        assert!(node.judged.iter().all(|judged| judged.credited > 0));
    }
}

#[test]
fn without_the_right_to_sign_the_header_a_message_is_gossiped() {
    let mut world = World::casting(crate::cast::ABOVE_BYTES);
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

/// Bytes that begin as the collection of a subject.
fn collection_like(subject: &Subject, node: &Node) -> Bytes {
    let vote = Vote {
        slot: Slot(subject.slot),
        ..Vote::default()
    };
    let mut bytes = vec![alphorn_proto::wire::VERSION, Kind::Collection as u8];
    bytes.extend(vote.encode());
    bytes.extend((subject.index as u16).to_le_bytes());
    bytes.extend(subject.source.to_le_bytes());
    bytes.resize(node.caster().settings.above_bytes + 1, 7);
    bytes.into()
}

/// The signature of a source over a header, which anybody can make with the model.
fn sign(node: &Node, subject: &Subject, root: [u8; 32]) -> Bytes {
    let slot = Slot(subject.slot);
    let item = SignItem {
        validator: Validator(subject.source),
        role: Role::CollectionHeader,
        message: root,
        guard: None,
    };
    let job = SignJob::new(slot, vec![item]);
    job.admit(&MemoryWatermark::new(VALIDATORS)).unwrap();
    let job = Job::<Model>::from(Work::Scheme(scheme::Work::Sign(job)));
    match job
        .run(&node.env, &mut Ctx::single(&mut ()))
        .ok()
        .unwrap()
        .product
    {
        Product::Scheme(scheme::Product::Signed(all)) => all.iter().next().unwrap().into(),
        other => panic!("{other:?}"),
    }
}

/// The frames of a machine that broadcasts to one peer, and claims whatever it likes.
fn frames_of(subject: Subject, payload: Bytes, sign: impl Fn([u8; 32]) -> Bytes) -> Vec<Vec<u8>> {
    let config = broadcast::Config::default();
    let code = Rs::new(config.payload_bytes_max);
    let everybody = Arc::new(|_: &Subject| true);
    let mut machine = Broadcast::new(code, Arc::new(config), everybody, [9; 32]);
    let now = Time::from_millis(1);
    let (peer, mut frames) = (Peer(0), Vec::new());
    machine.handle(now, broadcast::Input::PeerUp { peer });
    machine.handle(now, broadcast::Input::Publish { subject, payload });
    while let Some(output) = machine.poll_output() {
        match output {
            broadcast::Output::Spawn { job, work, .. } => {
                let product = match &*work {
                    broadcast::Work::Sign { root, .. } => {
                        Some(broadcast::Product::Signed(sign(*root)))
                    }
                    work => work.run(&code),
                };
                machine.handle(now, broadcast::Input::Finished { job, product });
            }
            broadcast::Output::Send { message, class, .. } => {
                frames.push(machine.encode(&message).unwrap());
                if class.is_piece() {
                    machine.handle(now, broadcast::Input::SendReady { peer });
                }
            }
            _ => {}
        }
    }
    frames
}

impl World {
    /// A world in its third slot, when its block is everywhere and nobody broadcasts, with Mallory
    /// among the peers of the first node.
    fn with_mallory() -> World {
        let mut world = World::casting(crate::cast::ABOVE_BYTES);
        world.run_until(slot_start(2).saturating_add_ns(700_000_000));
        world.cast(0, |cast, now, node| cast.peer_up(now, MALLORY, node));
        world
    }

    fn mallory_sends(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            self.cast(0, |cast, now, node| cast.frame(now, MALLORY, frame, node));
            self.run_until(self.now.saturating_add_ns(LEAVE_NS));
        }
        self.run_until(self.now.saturating_add_ns(100 * LEAVE_NS));
    }
}

#[test]
fn a_forged_header_and_a_garbage_frame_ban_whoever_sent_them() {
    let subject = |world: &World| scheduled(&world.nodes[0], 2);
    let mut world = World::with_mallory();
    let forged = |_| vec![3; 96].into();
    let payload = collection_like(&subject(&world), &world.nodes[0]);
    let frames = frames_of(subject(&world), payload.clone(), forged);
    let before = world.nodes[0].counts().delivered;
    world.mallory_sends(&frames);
    assert_eq!(world.nodes[0].caster().peers, [(MALLORY, "bad_auth", 100)]);
    assert_eq!(world.nodes[0].counts().delivered, before);

    // A signature of another length is none, whatever the scheme would say of it.
    let mut world = World::with_mallory();
    world.mallory_sends(&frames_of(subject(&world), payload.clone(), |_| {
        vec![3; 9].into()
    }));
    assert_eq!(world.nodes[0].caster().peers, [(MALLORY, "bad_auth", 100)]);

    // Neither is the signature of somebody else, nor one over something else.
    let other = Subject {
        source: subject(&world).source ^ 1,
        ..subject(&world)
    };
    for (signer, root_of) in [(other, 0), (subject(&world), 1)] {
        let mut world = World::with_mallory();
        let node = &world.nodes[0];
        let signed = |mut root: [u8; 32]| {
            root[0] ^= root_of;
            sign(node, &signer, root)
        };
        let frames = frames_of(subject(&world), payload.clone(), signed);
        world.mallory_sends(&frames);
        assert_eq!(world.nodes[0].caster().peers, [(MALLORY, "bad_auth", 100)]);
    }

    for garbage in [&b""[..], b"\xff garbage", &[1; 60], &[6; 3]] {
        let mut world = World::with_mallory();
        world.mallory_sends(&[garbage.to_vec()]);
        let [(peer, _, points)] = world.nodes[0].caster().peers[..] else {
            panic!("{garbage:?}: {:?}", world.nodes[0].caster().peers);
        };
        assert_eq!((peer, points), (MALLORY, 100), "{garbage:?}");
    }
}

#[test]
fn a_header_without_duty_is_dropped_and_so_are_more_than_some_of_them() {
    let mut world = World::with_mallory();
    let duty = scheduled(&world.nodes[0], 2);
    let sources = world.nodes[0].sources();
    let others = (0..VALIDATORS).flat_map(|source| {
        [1, 2, 3].map(|slot| Subject {
            source,
            slot,
            ..duty
        })
    });
    let others: Vec<Subject> = others
        .filter(|subject| !sources.is_scheduled(subject))
        .collect();
    assert!(others.len() > 100);
    let code = Rs::new(1 << 20);
    let network_id = broadcast::Config::default().limits.network_id;
    let frames = others.iter().map(|subject| {
        let cut = alphorn_proto::rlnc::Cut::rs(4);
        let header = code.publish(*subject, &[5; 64], cut).unwrap().header;
        let id = header.id(&network_id);
        let announce = broadcast::Announce::new(&code, id, header.clone(), [0; 96].into(), None);
        broadcast::Message::Header(Arc::new(announce)).encode(&code, &header)
    });
    let frames: Vec<Vec<u8>> = frames.collect();
    world.mallory_sends(&frames);
    let counts = world.nodes[0].counts();
    // Nodes may disagree on duties for a while, so nobody is blamed.
    assert_eq!(world.nodes[0].caster().peers, []);
    assert_eq!(counts.refused["not_scheduled"], 64, "{counts:?}");
    assert_eq!(counts.frames_dropped, others.len() as u64 - 64);
}

/// Two signed headers for one duty are evidence; what came by the first is still of use.
#[test]
fn a_source_of_two_payloads_gives_evidence_against_itself() {
    let mut world = World::with_mallory();
    let duty = scheduled(&world.nodes[0], 2);
    let payload = |byte: u8| {
        let mut bytes = collection_like(&duty, &world.nodes[0]).to_vec();
        bytes.resize(300_000 + usize::from(byte), byte);
        frames_of(duty, bytes.into(), |root| {
            sign(&world.nodes[0], &duty, root)
        })
    };
    let (first, second) = (payload(1), payload(2));
    let before = world.nodes[0].counts().delivered;
    world.mallory_sends(&second[..1]);
    world.mallory_sends(&first);
    world.mallory_sends(&second);
    let caster = world.nodes[0].caster();
    let [
        Evidence {
            first: a,
            second: b,
        },
    ] = &caster.evidence[..]
    else {
        panic!("{} pairs", caster.evidence.len());
    };
    // As headers are in frames, behind their tag.
    assert_eq!(a[..], second[0][1..]);
    assert_eq!(b[..], first[0][1..]);
    assert_eq!(world.nodes[0].counts().delivered, before + 1);
    assert_eq!(caster.peers, []);
}

/// A source that goes away before anybody has enough shards: nothing is delivered, nobody is blamed,
/// and all of it is forgotten when its time is over.
#[test]
fn what_is_withheld_ends() {
    let mut world = World::with_mallory();
    let duty = scheduled(&world.nodes[0], 2);
    let node = &world.nodes[0];
    let payload = collection_like(&duty, node);
    let frames = frames_of(duty, payload, |root| sign(node, &duty, root));
    world.mallory_sends(&frames[..5]);
    world.cast(0, |cast, now, node| cast.peer_down(now, MALLORY, node));
    let before = world.nodes[0].counts();
    assert_eq!(before.withheld, 0);
    world.run_until(slot_start(5));
    let node = &world.nodes[0];
    assert_eq!(node.counts().withheld, 1, "{:?}", node.counts());
    assert!(node.counts().delivered > before.delivered);
    assert_eq!(node.caster().peers, []);
    assert_eq!(node.caster().blamed, []);
}

/// Frames that find no room are lost, and pieces come another way.
#[test]
fn a_queue_without_room_costs_frames_and_no_message() {
    let mut world = World::casting(crate::cast::ABOVE_BYTES);
    for node in &mut world.nodes {
        node.caster.as_mut().unwrap().queue_max = 2;
    }
    world.run_until(slot_start(5).saturating_sub_ns(1));
    let counts: Vec<_> = world.nodes.iter().map(Node::counts).collect();
    let published: u64 = counts.iter().map(|counts| counts.published).sum();
    assert!(
        counts.iter().any(|counts| counts.frames_dropped > 0),
        "{counts:?}"
    );
    for (node, counts) in world.nodes.iter().zip(&counts) {
        assert_eq!(counts.delivered, published - counts.published, "{counts:?}");
        assert_eq!(counts.withheld, 0, "{counts:?}");
        assert!(node.judged.iter().all(|judged| judged.all().missed == 0));
    }
}

/// One of the frames as it was, or changed in one of five ways.
fn mutated(log: &VecDeque<Bytes>, state: &mut u64) -> Vec<u8> {
    let mut frame = log[draw(state) as usize % log.len()].to_vec();
    let at = draw(state) as usize % frame.len();
    let byte = draw(state) as u8;
    match draw(state) % 6 {
        0 => {}
        1 => frame[at] ^= byte | 1,
        2 => frame.truncate(at),
        3 => frame.resize(frame.len() + at % 40 + 1, byte),
        4 => frame[0] = byte % 10,
        _ => frame.rotate_left(at),
    }
    frame
}

/// Strangers come one after the other, and send what honest nodes sent, as it was or changed.
#[test]
fn frames_of_strangers_change_nothing() {
    const FIRST_STRANGER: u64 = 1_000;
    let mut world = World::casting(crate::cast::ABOVE_BYTES);
    world.run_until(slot_start(1));
    let mut state = 1;
    for round in 0..60 {
        world.run_until(slot_start(1).saturating_add_ns(round * 200_000_000));
        let peer = Peer(FIRST_STRANGER + round);
        world.cast(0, |cast, now, node| cast.peer_up(now, peer, node));
        for _ in 0..50 {
            let log = &world.nodes[1 + round as usize % 4].caster().log;
            let frame = mutated(log, &mut state);
            world.cast(0, |cast, now, node| cast.frame(now, peer, &frame, node));
        }
        if round % 3 > 0 {
            world.cast(0, |cast, now, node| cast.peer_down(now, peer, node));
        }
    }
    world.run_until(slot_start(7).saturating_sub_ns(1));
    let published = world.nodes.iter().map(|node| node.counts().published);
    let published: u64 = published.sum();
    let node = &world.nodes[0];
    let counts = node.counts();
    assert_eq!(counts.delivered, published - counts.published, "{counts:?}");
    assert!(node.judged.iter().all(|judged| judged.all().missed == 0));
    let caster = node.caster();
    assert!(!caster.peers.is_empty(), "nobody is found out");
    let honest = caster
        .peers
        .iter()
        .find(|(peer, ..)| peer.0 < FIRST_STRANGER);
    assert_eq!(honest, None);
    assert_eq!(caster.blamed, []);
    assert_eq!(caster.evidence, []);
}

/// A source whose header is in order, and whose payload is something else.
#[test]
fn a_payload_that_is_not_the_duty_of_its_header_is_not_handed_on() {
    let world = World::with_mallory();
    let node = &world.nodes[0];
    let duty = scheduled(node, 2);
    let second = Subject { index: 1, ..duty };
    for payload in [vec![0xaa; 300_000].into(), collection_like(&second, node)] {
        let mut world = World::with_mallory();
        let before = world.nodes[0].caster().handed_on;
        let node = &world.nodes[0];
        let frames = frames_of(duty, payload, |root| sign(node, &duty, root));
        world.mallory_sends(&frames);
        let caster = world.nodes[0].caster();
        let blamed: Vec<Subject> = caster.blamed.iter().map(|one| one.subject).collect();
        assert_eq!(blamed, [duty]);
        assert_eq!(caster.peers, []);
        assert_eq!(caster.handed_on, before, "the protocol saw it");
        assert_eq!(world.nodes[0].counts().sources_blamed, 1);
    }
}
