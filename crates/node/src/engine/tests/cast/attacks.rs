//! Sources and peers that lie, and frames dropped for lack of room.

use super::*;
use alphorn_broadcast::rlnc::Published;

/// The signature of a source over a header, which anyone can make with the model.
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
    let job = Work::Sign(job);
    let signed = job.run(&node.env, &mut Ctx::single(&mut Scratch::default()));
    match signed.ok().unwrap().product {
        Product::Signed(all) => all.iter().next().unwrap().into(),
        other => panic!("{other:?}"),
    }
}

/// A source's broadcast, and its claims about it.
struct Lie<'a> {
    subject: Subject,
    payload: Bytes,
    header: fn(&mut Header),
    sign: &'a dyn Fn([u8; 32]) -> Bytes,
}

/// The frames of a state machine that broadcasts to one peer, with arbitrary claims.
fn frames_of(
    code: &Code,
    subject: Subject,
    payload: Bytes,
    sign: impl Fn([u8; 32]) -> Bytes,
) -> Vec<Vec<u8>> {
    Lie {
        subject,
        payload,
        header: |_| {},
        sign: &sign,
    }
    .frames(code)
}

impl Lie<'_> {
    fn frames(&self, code: &Code) -> Vec<Vec<u8>> {
        let payload_max = alphorn_broadcast::Config::default().payload_bytes_max;
        match code {
            Code::Rs => self.frames_in(Rs::new(payload_max)),
            Code::Rlnc(all) => self.frames_in(Ristretto::new(all.clone(), payload_max)),
        }
    }

    fn frames_in<C: Coding>(&self, code: C) -> Vec<Vec<u8>> {
        let config = alphorn_broadcast::Config::default();
        let (subject, payload) = (self.subject, self.payload.clone());
        let everybody = Arc::new(|_: &Subject| true);
        let mut machine = Broadcast::new(code.clone(), Arc::new(config), everybody, [9; 32]);
        let now = Time::from_millis(1);
        let (peer, mut frames) = (Peer(0), Vec::new());
        machine.handle(now, alphorn_broadcast::Input::PeerUp { peer });
        machine.handle(now, alphorn_broadcast::Input::Publish { subject, payload });
        while let Some(output) = machine.poll_output() {
            match output {
                alphorn_broadcast::Output::Spawn { job, work, .. } => {
                    let mut product = match &*work {
                        alphorn_broadcast::Work::Sign { root, .. } => {
                            Some(alphorn_broadcast::Product::Signed((self.sign)(*root)))
                        }
                        work => work.run(&code),
                    };
                    if let Some(alphorn_broadcast::Product::Published(Ok(published))) = &mut product
                    {
                        (self.header)(&mut published.header);
                    }
                    machine.handle(now, alphorn_broadcast::Input::Finished { job, product });
                }
                alphorn_broadcast::Output::Send {
                    message, priority, ..
                } => {
                    frames.push(machine.encode(&message).unwrap());
                    if priority.is_piece() {
                        machine.handle(now, alphorn_broadcast::Input::SendReady { peer });
                    }
                }
                _ => {}
            }
        }
        frames
    }
}

/// Headers of these subjects, without valid signatures.
fn headers_of<C: Coding>(code: &C, subjects: &[Subject]) -> Vec<Vec<u8>> {
    let config = alphorn_broadcast::Config::default();
    let (network_id, policy) = (config.limits.network_id, config.policy_for(64));
    let frame = |subject: &Subject| {
        let cut = policy.cut(code.strategy(), 64);
        let Published {
            header,
            commitments,
            ..
        } = code.publish(*subject, &[5; 64], cut).unwrap();
        let (id, auth) = (header.id(&network_id), [0; 96].into());
        let first = commitments.into_iter().next();
        let announce = alphorn_broadcast::Announce::new(code, id, header.clone(), auth, first);
        alphorn_broadcast::Message::Header(Arc::new(announce)).encode(code, &header)
    };
    subjects.iter().map(frame).collect()
}

impl World {
    /// A world in its third slot, when its block is everywhere and no node broadcasts, with Mallory among the peers of
    /// the first node.
    fn with_mallory(code: &Code) -> World {
        let mut world = World::casting(code, crate::cast::ABOVE_BYTES);
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
    in_each_code(|code| {
        let subject = |world: &World| scheduled(&world.nodes[0], 2);
        let mut world = World::with_mallory(code);
        let forged = |_| vec![3; 96].into();
        let payload = collection_like(&subject(&world), &world.nodes[0]);
        let frames = frames_of(code, subject(&world), payload.clone(), forged);
        let before = world.nodes[0].counts().delivered;
        world.mallory_sends(&frames);
        assert_eq!(world.nodes[0].caster().peers, [(MALLORY, "bad_auth", 100)]);
        assert_eq!(world.nodes[0].counts().delivered, before);

        // A signature of another length is invalid, whatever the scheme would say about it.
        let mut world = World::with_mallory(code);
        world.mallory_sends(&frames_of(code, subject(&world), payload.clone(), |_| {
            vec![3; 9].into()
        }));
        assert_eq!(world.nodes[0].caster().peers, [(MALLORY, "bad_auth", 100)]);

        // So is a signature by another validator, or over other content.
        let other = Subject {
            source: subject(&world).source ^ 1,
            ..subject(&world)
        };
        for (signer, root_of) in [(other, 0), (subject(&world), 1)] {
            let mut world = World::with_mallory(code);
            let node = &world.nodes[0];
            let signed = |mut root: [u8; 32]| {
                root[0] ^= root_of;
                sign(node, &signer, root)
            };
            let frames = frames_of(code, subject(&world), payload.clone(), signed);
            world.mallory_sends(&frames);
            assert_eq!(world.nodes[0].caster().peers, [(MALLORY, "bad_auth", 100)]);
        }

        for garbage in [&b""[..], b"\xff garbage", &[1; 60], &[6; 3]] {
            let mut world = World::with_mallory(code);
            world.mallory_sends(&[garbage.to_vec()]);
            let [(peer, _, points)] = world.nodes[0].caster().peers[..] else {
                panic!("{garbage:?}: {:?}", world.nodes[0].caster().peers);
            };
            assert_eq!((peer, points), (MALLORY, 100), "{garbage:?}");
        }
    });
}

#[test]
fn a_header_without_duty_is_dropped_and_so_are_more_than_some_of_them() {
    in_each_code(|code| {
        let mut world = World::with_mallory(code);
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
        let frames = match code {
            Code::Rs => headers_of(&Rs::new(1 << 20), &others),
            Code::Rlnc(all) => headers_of(&Ristretto::new(all.clone(), 1 << 20), &others),
        };
        world.mallory_sends(&frames);
        let counts = world.nodes[0].counts();
        // Nodes may disagree on duties for a while, so no peer is blamed.
        assert_eq!(world.nodes[0].caster().peers, []);
        assert_eq!(counts.refused["not_scheduled"], 64, "{counts:?}");
        assert_eq!(counts.frames_dropped, others.len() as u64 - 64);
    });
}

/// Two signed headers for one duty are evidence. What arrived with the first is still used.
#[test]
fn a_source_of_two_payloads_gives_evidence_against_itself() {
    in_each_code(|code| {
        let mut world = World::with_mallory(code);
        let duty = scheduled(&world.nodes[0], 2);
        let payload = |byte: u8| {
            let mut bytes = collection_like(&duty, &world.nodes[0]).to_vec();
            bytes.resize(300_000 + usize::from(byte), byte);
            frames_of(code, duty, bytes.into(), |root| {
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
        // As headers are in frames, after their tag and before the accompanying data.
        assert!(a.len() > 100 && second[0][1..].starts_with(a));
        assert!(b.len() > 100 && first[0][1..].starts_with(b));
        assert_eq!(world.nodes[0].counts().delivered, before + 1);
        assert_eq!(caster.peers, []);
    });
}

/// A source that goes away before any node has enough shards: nothing is delivered, no node is blamed, and all of it is
/// dropped when its time is over.
#[test]
fn what_is_withheld_ends() {
    in_each_code(|code| {
        let mut world = World::with_mallory(code);
        let duty = scheduled(&world.nodes[0], 2);
        let node = &world.nodes[0];
        let payload = collection_like(&duty, node);
        let frames = frames_of(code, duty, payload, |root| sign(node, &duty, root));
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
    });
}

/// Frames that find no room are lost, and pieces arrive another way.
#[test]
fn a_queue_without_room_costs_frames_and_no_message() {
    in_each_code(|code| {
        let mut world = World::casting(code, crate::cast::ABOVE_BYTES);
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
    });
}

/// One of the frames unchanged, or changed in one of five ways.
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

/// Strangers come one after the other, and send what honest nodes sent, unchanged or changed.
#[test]
fn frames_of_strangers_change_nothing() {
    in_each_code(|code| {
        const FIRST_STRANGER: u64 = 1_000;
        let mut world = World::casting(code, crate::cast::ABOVE_BYTES);
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
    });
}

/// A source with a valid header, but a payload for something else.
#[test]
fn a_payload_that_is_not_the_duty_of_its_header_is_not_handed_on() {
    in_each_code(|code| {
        let world = World::with_mallory(code);
        let node = &world.nodes[0];
        let duty = scheduled(node, 2);
        let second = Subject { index: 1, ..duty };
        for payload in [vec![0xaa; 300_000].into(), collection_like(&second, node)] {
            let mut world = World::with_mallory(code);
            let before = world.nodes[0].caster().handed_on;
            let node = &world.nodes[0];
            let frames = frames_of(code, duty, payload, |root| sign(node, &duty, root));
            world.mallory_sends(&frames);
            let caster = world.nodes[0].caster();
            let blamed: Vec<Subject> = caster.blamed.iter().map(|one| one.subject).collect();
            assert_eq!(blamed, [duty]);
            assert_eq!(caster.peers, []);
            assert_eq!(caster.handed_on, before, "the protocol saw it");
            assert_eq!(world.nodes[0].counts().sources_blamed, 1);
        }
    });
}

/// A source whose payload differs from the one that its header names. Any node with enough pieces notices.
#[test]
fn a_source_that_commits_to_no_payload_is_to_blame() {
    in_each_code(|code| {
        let mut world = World::with_mallory(code);
        let before = world.nodes[0].caster().handed_on;
        let node = &world.nodes[0];
        let duty = scheduled(node, 2);
        let lie = Lie {
            subject: duty,
            payload: collection_like(&duty, node),
            header: |header| header.payload_hash[7] ^= 1,
            sign: &|root| sign(node, &duty, root),
        };
        let frames = lie.frames(code);
        world.mallory_sends(&frames);
        let caster = world.nodes[0].caster();
        let blamed: Vec<Subject> = caster.blamed.iter().map(|one| one.subject).collect();
        assert_eq!(blamed, [duty]);
        assert_eq!(caster.peers, [], "whoever sent its pieces could not know");
        assert_eq!(caster.handed_on, before, "the protocol saw it");
    });
}

/// A piece that does not fit its commitment gets its sender banned. The payload arrives from others.
#[test]
fn a_bad_piece_bans_its_sender_and_nobody_else() {
    const OTHER: Peer = Peer(8);
    in_each_code(|code| {
        let mut world = World::with_mallory(code);
        world.cast(0, |cast, now, node| cast.peer_up(now, OTHER, node));
        let before = world.nodes[0].counts().delivered;
        let node = &world.nodes[0];
        let duty = scheduled(node, 2);
        let payload = collection_like(&duty, node);
        let frames = frames_of(code, duty, payload, |root| sign(node, &duty, root));
        // Among good pieces, so that they are verified together.
        let mut bad = frames[..9].to_vec();
        let piece = bad.last_mut().unwrap();
        // Within the last element, which stays canonical.
        let at = piece.len() - 32;
        piece[at] ^= 1;
        world.mallory_sends(&bad);
        let caster = world.nodes[0].caster();
        assert_eq!(caster.peers, [(MALLORY, "invalid_chunk", 100)]);
        for frame in &frames {
            world.cast(0, |cast, now, node| cast.frame(now, OTHER, frame, node));
            world.run_until(world.now.saturating_add_ns(LEAVE_NS));
        }
        world.run_until(world.now.saturating_add_ns(100 * LEAVE_NS));
        let caster = world.nodes[0].caster();
        assert_eq!(caster.peers, [(MALLORY, "invalid_chunk", 100)]);
        assert_eq!(caster.blamed, []);
        assert_eq!(world.nodes[0].counts().delivered, before + 1);
    });
}

/// Nodes of another code are on another network. A peer that uses it anyway is banned at its first header, and costs
/// other nodes nothing.
#[test]
fn a_header_of_the_other_code_bans_whoever_sent_it() {
    in_each_code(|code| {
        let is_other = |other: &&Code| other.strategy() != code.strategy();
        let other = CODES.iter().find(is_other).unwrap();
        let mut world = World::with_mallory(code);
        let node = &world.nodes[0];
        let duty = scheduled(node, 2);
        let payload = collection_like(&duty, node);
        let frames = frames_of(other, duty, payload, |root| sign(node, &duty, root));
        world.mallory_sends(&frames[..2]);
        let caster = world.nodes[0].caster();
        assert_eq!(caster.peers.first(), Some(&(MALLORY, "malformed", 100)));
        assert_eq!(caster.blamed, []);
    });
}
