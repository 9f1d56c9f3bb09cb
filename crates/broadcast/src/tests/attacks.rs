//! Peers that lie, forge, flood and replay are counted, bounded and reported, and gain nothing.

use super::net::{Net, SUBJECT, config, payload, sign};
use crate::rlnc::{
    Coding, Cut, Distribution, Generators, Id, Model16, ModelChunk, Published, Ristretto, Subject,
};
use crate::{
    Announce, Blame, CHUNK_BYTES_MAX, Config, Input, Message, Output, Policy, Product, Ranks,
    Reject, Unpublished, Want, Work,
};
use alphorn_exec::Backend;
use alphorn_types::{Peer, Time};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::Arc;

pub(super) const POLICY: Policy = Policy {
    chunks: 8,
    chunk_bytes_max: CHUNK_BYTES_MAX,
    burst: [12, 12, 12],
    credit_milli: 500,
    push_pct: 0,
    source_pieces: 24,
    headers: 0,
    source_run: 1,
    gather_ns: 0,
    feedback: true,
};
const CODE_BYTES_MAX: u32 = 1 << 20;

fn model() -> Model16 {
    Model16::new(CODE_BYTES_MAX)
}

pub(super) fn published<C: Coding>(code: &C, subject: Subject, len: usize) -> Published<C> {
    let published = code.publish(subject, &payload(len), POLICY.cut(code.strategy(), len));
    published.unwrap()
}

/// Node 0 with peers 1.. that only send what the test scripts.
pub(super) fn star(peers: usize) -> Net<Model16> {
    star_of(peers, config(POLICY))
}

pub(super) fn star_of(peers: usize, config: Config) -> Net<Model16> {
    star_in(model(), peers, config)
}

/// The same in any code.
pub(super) fn star_in<C: Coding>(code: C, peers: usize, config: Config) -> Net<C> {
    let mut net = Net::new(code, config, peers + 1, 2, 1);
    net.links = vec![vec![0]; peers + 1];
    net.links[0] = (1..=peers).collect();
    for peer in 0..peers as u64 {
        net.input(0, Input::PeerDown { peer: Peer(0) });
        net.input(0, Input::PeerUp { peer: Peer(peer) });
    }
    net.input(0, Input::PeerUp { peer: Peer(0) });
    // Only node 0 runs: its messages are dropped.
    net.tamper[0] = Some(Box::new(|_, _| false));
    net
}

/// A broadcast whose header node 0 has accepted, and everything there is to send of it.
pub(super) fn accepted(net: &mut Net<Model16>, from: usize) -> (Id, Published<Model16>) {
    let published = published(&net.code, SUBJECT, 10_000);
    let announce = net.announce(&published);
    let id = announce.id;
    net.receive(0, from, Message::Header(announce));
    net.run_ms(1);
    assert_eq!(net.nodes[0].live_count(), 1);
    (id, published)
}

pub(super) fn piece(net: &Net<Model16>, from: &Published<Model16>, seed: u64) -> ModelChunk {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let drawn = net
        .code
        .draw(&from.decoder, 0, Distribution::Fresh, &mut rng);
    let mut piece = drawn.unwrap();
    net.code.set_hop_and_rank(&mut piece, 3, 8);
    piece
}

pub(super) fn message(
    net: &Net<Model16>,
    id: Id,
    of: &Published<Model16>,
    piece: ModelChunk,
) -> Message<Model16> {
    Message::piece(&net.code, &of.header, id, piece)
}

/// Traps 2 and 17: the sender of a header with a wrong signature is banned. The same header from an
/// honest peer is accepted, even if it arrived while the forged one was being verified.
#[test]
fn trap_02_forged_headers_are_their_senders_fault() {
    let mut net = star(3);
    let published = published(&net.code, SUBJECT, 10_000);
    let good = net.announce(&published);
    let forged = Announce::new(
        &net.code,
        good.id,
        good.header.clone(),
        vec![1; 96].into(),
        good.commitments,
    );
    net.receive(0, 1, Message::Header(Arc::new(forged)));
    net.receive(0, 2, Message::Header(good.clone()));
    net.run_ms(1);
    assert_eq!(net.reports, [(0, 1, Reject::BadAuth)]);
    assert_eq!(net.nodes[0].live_count(), 1);
    // The banned peer is ignored.
    let before = net.refused(Reject::Stranger);
    net.receive(0, 1, Message::Done { id: good.id });
    assert_eq!(net.refused(Reject::Stranger), before + 1);
}

/// Trap 2: any change to the signed header gives a different id and root.
#[test]
fn trap_02_headers_of_no_duty_are_reported_before_any_signature() {
    let mut net = star(1);
    for subject in [
        Subject { slot: 8, ..SUBJECT },
        Subject {
            source: 9,
            ..SUBJECT
        },
    ] {
        let published = published(&net.code, subject, 1000);
        let announce = net.announce(&published);
        net.receive(0, 1, Message::Header(announce));
    }
    net.run_ms(1);
    assert_eq!(net.reports, [(0, 1, Reject::NotScheduled); 2]);
    assert_eq!(net.nodes[0].live_count() + net.nodes[0].waiting_count(), 0);
}

/// Traps 4 and 5: malformed pieces never reach verification, and their sender is banned.
#[test]
fn trap_04_malformed_bytes_are_found_before_verification() {
    let code = Ristretto::new(Generators::new(Backend::Portable, 64), CODE_BYTES_MAX);
    let published = published(&code, SUBJECT, 10_000);
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let chunk = code
        .draw(&published.decoder, 0, Distribution::Fresh, &mut rng)
        .unwrap();
    for (at, fill, reason) in [
        (39, 0..8, Reject::ZeroRow),
        (47, 0..32, Reject::NonCanonicalScalar),
        (38, 0..1, Reject::BadLength),
        (32, 0..1, Reject::UnknownId),
    ] {
        let mut net = Net::new(code.clone(), config(POLICY), 2, 1, 1);
        let announce = net.announce(&published);
        let id = announce.id;
        net.receive(0, 1, Message::Header(announce));
        net.run_ms(1);
        let good = Message::piece(&code, &published.header, id, chunk.clone());
        let mut bytes = good.encode(&code, &published.header);
        let value = if reason == Reject::ZeroRow { 0 } else { 0xff };
        bytes[at + fill.start..at + fill.end].fill(value);
        let from = net.peer_of(0, 1);
        let input = match net.nodes[0].decode(Peer(0), &bytes) {
            Ok(message) => Input::Message { from, message },
            Err(reason) => Input::Malformed { from, reason },
        };
        net.input(0, input);
        net.run_ms(1);
        assert_eq!(net.refused(reason), 1, "{reason}");
        assert_eq!(net.nodes[0].stats(&id).unwrap().batches, 0);
        let blamed = usize::from(reason.blame() == Blame::Ban);
        assert_eq!(net.reports.len(), blamed, "{reason}");
    }
}

/// Trap 9: in a batch with bad pieces from two peers, both are found, and no other peer is blamed.
#[test]
fn trap_09_every_sender_of_a_bad_piece_is_found_and_no_other() {
    for bad in [vec![2], vec![1, 4], vec![1, 2, 3, 4, 5], vec![]] {
        let mut net = star(5);
        let (id, published) = accepted(&mut net, 1);
        for peer in 1..=5 {
            let mut piece = piece(&net, &published, peer as u64);
            piece.valid = !bad.contains(&peer);
            let message = message(&net, id, &published, piece);
            net.receive(0, peer, message);
        }
        net.run_ms(5);
        let mut blamed: Vec<usize> = net.reports.iter().map(|(_, peer, _)| *peer).collect();
        blamed.sort_unstable();
        assert_eq!(blamed, bad);
        let ranks: Vec<u16> = net.nodes[0].ranks(&id).unwrap().collect();
        assert_eq!(usize::from(ranks[0]), 5 - bad.len());
        assert_eq!(net.refused(Reject::InvalidChunk), bad.len() as u32);
    }
}

/// Trap 10: with garbage from 30 % of the peers, no honest node ever sends a bad piece, all of them
/// deliver, and only liars are reported.
#[test]
fn trap_10_garbage_is_not_passed_on() {
    let mut net = Net::new(model(), config(POLICY), 40, 12, 10);
    let liars: Vec<usize> = (1..40).filter(|node| node % 10 < 3).collect();
    for &liar in &liars {
        net.tamper[liar] = Some(Box::new(|_, message| {
            if let Message::Piece { piece, .. } = message {
                piece.valid = false;
            }
            true
        }));
    }
    net.publish(0, payload(60_000));
    net.run_ms(4_000);
    assert_eq!(net.delivered(&vec![0; 60_000]), 39);
    for (from, _, piece) in &net.pieces {
        assert!(piece.valid || liars.contains(from), "node {from}");
    }
    assert!(net.reports.iter().all(|(_, who, _)| liars.contains(who)));
    assert!(!net.reports.is_empty());
}

/// Trap 11: a bad piece that spans a good one only delays it.
#[test]
fn trap_11_pieces_held_behind_a_bad_one_are_taken_after_it() {
    let mut net = star(3);
    let (id, published) = accepted(&mut net, 1);
    let first = piece(&net, &published, 1);
    let good = piece(&net, &published, 2);
    let mut bad = good.clone();
    bad.valid = false;
    // The first one is being verified while the bad one, and then the good one of the same row,
    // wait.
    for (peer, piece) in [(1, first), (2, bad), (3, good)] {
        let message = message(&net, id, &published, piece);
        net.receive(0, peer, message);
    }
    net.run_ms(5);
    assert_eq!(net.reports, [(0, 2, Reject::InvalidChunk)]);
    assert_eq!(net.nodes[0].ranks(&id).unwrap().collect::<Vec<_>>(), [2]);
    assert_eq!(net.nodes[0].stats(&id).unwrap().innovative, 2);
}

/// Trap 15: valid but useless pieces are bounded, reported once and then ignored.
#[test]
fn trap_15_replayed_pieces_end_in_demotion() {
    let mut net = star(2);
    let (id, published) = accepted(&mut net, 1);
    let again = piece(&net, &published, 1);
    for _ in 0..60 {
        let message = message(&net, id, &published, again.clone());
        net.receive(0, 1, message);
        net.run_ms(1);
    }
    let expected = [(0, 1, Reject::Useless), (0, 1, Reject::BudgetExceeded)];
    assert_eq!(net.reports, expected);
    assert_eq!(net.refused(Reject::Dependent), 9);
    assert_eq!(net.nodes[0].stats(&id).unwrap().batches, 1);
    // All other peers are heard as before.
    for seed in 2..10 {
        let message = message(&net, id, &published, piece(&net, &published, seed));
        net.receive(0, 2, message);
        net.run_ms(1);
    }
    assert_eq!(net.seen[0].delivered.len(), 1);
}

/// Trap 16: a peer that claims to be done or to have everything starves only itself. Requests are
/// answered with at most as many pieces as there are source chunks, and never after DONE.
#[test]
fn trap_16_false_feedback_costs_little() {
    let mut net = Net::new(model(), config(POLICY), 20, 8, 16);
    let liar = 5;
    net.publish(0, payload(60_000));
    net.run_ms(30);
    let id = net.announce(&published(&net.code, SUBJECT, 60_000)).id;
    for node in net.links[liar].clone() {
        net.receive(node, liar, Message::Done { id });
        let ranks = Ranks::One(8);
        net.receive(node, liar, Message::Rank { id, ranks });
    }
    net.run_ms(3_000);
    let hungry: Vec<usize> = (1..20)
        .filter(|&node| net.seen[node].delivered.is_empty())
        .collect();
    assert!(hungry.is_empty() || hungry == [liar]);
    assert_eq!(net.reports, []);

    let mut net = star(2);
    let (id, published) = accepted(&mut net, 1);
    for seed in 0..20 {
        let message = message(&net, id, &published, piece(&net, &published, seed));
        net.receive(0, 1, message);
        net.run_ms(1);
    }
    let sent = |net: &Net<Model16>| net.nodes[0].stats(&id).unwrap().answered;
    assert_eq!(sent(&net), 0);
    for _ in 0..100 {
        let want = Want::Count(8);
        let need = Message::Need {
            id,
            generation: 0,
            want,
        };
        net.receive(0, 2, need);
        net.run_ms(20);
    }
    assert_eq!(sent(&net), 8);
    assert!(net.refused(Reject::BudgetExceeded) >= 92);
    // A bitmap when there are no shards, and a generation that does not exist.
    let want = Want::Count(1);
    let need = Message::Need {
        id,
        generation: 1,
        want,
    };
    net.receive(0, 2, need);
    assert_eq!(net.reports, [(0, 2, Reject::BadLength)]);
}

/// Trap 17: floods of headers and of pieces without headers take no more than their share, and the
/// honest broadcast continues.
#[test]
fn trap_17_floods_are_bounded() {
    let mut net = star(3);
    let mut most = 0;
    for round in 0..20_000_u32 {
        let subject = Subject {
            index: round,
            ..SUBJECT
        };
        let flooded = Published {
            header: crate::rlnc::Header {
                subject,
                ..published(&net.code, SUBJECT, 1000).header
            },
            ..published(&net.code, SUBJECT, 1000)
        };
        let announce = net.announce(&flooded);
        let unsigned = Announce::new(
            &net.code,
            announce.id,
            announce.header.clone(),
            vec![0; 96].into(),
            announce.commitments,
        );
        let orphan = message(&net, announce.id, &flooded, piece(&net, &flooded, 1));
        net.receive(0, 1, Message::Header(Arc::new(unsigned)));
        net.receive(0, 2, orphan);
        net.receive(0, 2, Message::Done { id: announce.id });
        most = most.max(net.nodes[0].waiting_count() + net.nodes[0].live_count());
    }
    // Eight headers, four orphans and eight notes of the flooding peers.
    assert!(most <= 8 + 4 + 8, "{most} messages wait");
    let (id, published) = accepted(&mut net, 3);
    assert_eq!(net.reports, [(0, 1, Reject::BadAuth)]);
    for seed in 0..9 {
        let message = message(&net, id, &published, piece(&net, &published, seed));
        net.receive(0, 3, message);
        net.run_ms(1);
    }
    assert_eq!(net.seen[0].delivered.len(), 1);
    assert!(net.refused(Reject::OrphanFull) > 19_000);
    // Messages waiting for a header are dropped.
    net.run_ms(600);
    assert_eq!(net.nodes[0].waiting_count(), 8);
}

/// Points are decoded once per generation, however often its commitments arrive.
#[test]
fn trap_17_commitments_that_are_here_are_not_read_again() {
    let policy = Policy {
        chunk_bytes_max: 700,
        ..POLICY
    };
    let mut net = star_of(2, config(policy));
    let cut = policy.cut(net.code.strategy(), 10_000);
    assert_eq!(cut.generations, 2);
    let published = net.code.publish(SUBJECT, &payload(10_000), cut).unwrap();
    let announce = net.announce(&published);
    let (id, header) = (announce.id, &published.header);
    net.receive(0, 1, Message::Header(announce));
    net.run_ms(1);
    let commitments = published.commitments[1];
    let bytes = Message::commits(&net.code, header, id, 1, commitments).encode(&net.code, header);
    let is_read = |net: &Net<Model16>| match net.nodes[0].decode(Peer(0), &bytes) {
        Ok(Message::Commits {
            commitments,
            wire_bytes,
            ..
        }) => {
            assert_eq!(wire_bytes as usize, bytes.len());
            commitments.is_some()
        }
        other => panic!("{other:?}"),
    };
    for (from, is_first) in [(1, true), (2, false), (1, false)] {
        assert_eq!(is_read(&net), is_first);
        let message = net.nodes[0].decode(Peer(0), &bytes).unwrap();
        net.receive(0, from, message);
    }
    assert_eq!(net.reports, []);
}

/// Memory is accounted by what a header permits, before anything is stored.
#[test]
fn trap_17_broadcasts_beyond_the_memory_are_not_taken() {
    let config = Config {
        memory_bytes_max: 16 << 20,
        ..config(POLICY)
    };
    let mut net = Net::new(model(), config, 2, 1, 1);
    for index in 0..8 {
        let subject = Subject { index, ..SUBJECT };
        let announce = net.announce(&published(&net.code, subject, 1_000_000));
        net.receive(0, 1, Message::Header(announce));
        net.run_ms(1);
    }
    let live = net.nodes[0].live_count();
    assert!((2..6).contains(&live), "{live}");
    assert!(net.nodes[0].memory_bytes() <= 16 << 20);
    assert_eq!(net.refused(Reject::LiveFull), 8 - live as u32);
    // An own one evicts others, but not ones of a lesser kind.
    for kind in [SUBJECT.kind + 1, SUBJECT.kind] {
        let index = 9;
        let subject = Subject {
            kind,
            index,
            ..SUBJECT
        };
        let payload = payload(1_000_000);
        net.input(0, Input::Publish { subject, payload });
        net.run_ms(1);
        assert_eq!(net.seen[0].unpublished, [Unpublished::LiveFull]);
    }
    assert_eq!(net.nodes[0].live_count(), live);
    assert!(net.nodes[0].memory_bytes() <= 16 << 20);
}

/// Trap 18: both headers of an equivocating source reach all nodes as evidence. Pieces of only one
/// of them are accepted, and there is no third.
#[test]
fn trap_18_equivocation_is_seen_by_everybody() {
    let mut net = Net::new(model(), config(POLICY), 20, 8, 18);
    let headers: Vec<_> = (0..3)
        .map(|i| net.announce(&published(&net.code, SUBJECT, 50_000 + i)))
        .collect();
    net.publish(0, payload(50_000));
    net.run_ms(1_000);
    for (node, header) in [(12, 1), (15, 2)] {
        let from = net.links[node][0];
        net.receive(node, from, Message::Header(headers[header].clone()));
    }
    net.run_ms(3_000);
    for (node, seen) in net.seen.iter().enumerate() {
        assert_eq!(seen.evidence.len(), 1, "node {node}");
        assert_ne!(seen.evidence[0].first, seen.evidence[0].second);
    }
    assert!(net.nodes.iter().all(|node| node.live_count() == 2));
    assert!(net.reports.is_empty());
    assert_eq!(net.delivered(&vec![0; 50_000]), 19);
}

/// A result that arrives after its broadcast has ended changes nothing.
#[test]
fn late_results_are_dropped() {
    let mut net = star(1);
    let (id, published) = accepted(&mut net, 1);
    let now = net.now;
    let from = Peer(0);
    let message = message(&net, id, &published, piece(&net, &published, 1));
    let node = &mut net.nodes[0];
    node.handle(now, Input::Message { from, message });
    let Some(Output::Spawn { job, work, .. }) = node.poll_output() else {
        panic!("a verification");
    };
    assert!(matches!(*work, Work::VerifyPieces { .. }));
    node.handle(now.saturating_add_ns(25_000_000_000), Input::Deadline);
    assert_eq!(node.live_count(), 0);
    let product = work.run(&model());
    node.handle(Time::from_millis(26_000), Input::Finished { job, product });
    assert_eq!(node.refused().count(Reject::LateResult), 1);
    // Nor does one that was not requested.
    let product = Some(Product::Signed(sign(&[0; 32])));
    node.handle(Time::from_millis(26_000), Input::Finished { job, product });
    assert_eq!(node.refused().count(Reject::LateResult), 2);
}

/// A failed job blames no peer: its subject is requested again.
#[test]
fn lost_jobs_blame_nobody() {
    let mut net = star(1);
    let (id, published) = accepted(&mut net, 1);
    let now = net.now;
    for seed in 0..3 {
        let message = message(&net, id, &published, piece(&net, &published, seed));
        let node = &mut net.nodes[0];
        let from = Peer(0);
        node.handle(now, Input::Message { from, message });
    }
    let node = &mut net.nodes[0];
    let mut spawned = Vec::new();
    let mut product = None;
    for _ in 0..2 {
        while let Some(output) = node.poll_output() {
            if let Output::Spawn { job, work, .. } = output {
                spawned.push(work.class());
                let finished = Input::Finished {
                    job,
                    product: product.take(),
                };
                node.handle(now, finished);
                product = work.run(&model());
            }
        }
    }
    assert!(spawned.len() >= 2);
    assert_eq!(node.refused().count(Reject::InvalidChunk), 0);
    assert_eq!(Config::default().validate(), Ok(()));
    assert_eq!(Cut::rlnc(8).chunks, POLICY.chunks);
}
