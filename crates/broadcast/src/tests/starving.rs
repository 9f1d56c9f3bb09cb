//! Peers that fill room needed by others, or that do not answer requests.

use super::attacks::{POLICY, accepted, message, piece, published, star, star_in, star_of};
use super::net::{Net, SUBJECT, config, payload};
use crate::rlnc::{Coding, Distribution, Id, Model16, ModelDecoder, ModelRs, Published};
use crate::{Config, Input, Message, Policy, Ranks, Reject, ShardSet, Want, Work};
use alphorn_types::Peer;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Trap 17: pieces of made-up broadcasts fill the room for pieces waiting for a header. Honest pieces still find room,
/// before and after their header.
#[test]
fn trap_17_pieces_that_wait_for_a_header_are_not_crowded_out() {
    let (flooders, honest, late) = (1..=16, 17, 18);
    let mut net = star(late);
    let published = published(&net.code, SUBJECT, 10_000);
    let announce = net.announce(&published);
    let id = announce.id;
    let made_up = |flooder: usize, at: usize| Id([(4 * flooder + at) as u8; 32]);
    for flooder in flooders {
        for at in 0..4 {
            let piece = piece(&net, &published, 0);
            let message = message(&net, made_up(flooder, at), &published, piece);
            net.receive(0, flooder, message);
        }
    }
    assert_eq!(net.nodes[0].waiting_count(), 64);
    for seed in 0..4 {
        if seed == 1 {
            net.receive(0, honest, Message::Header(announce.clone()));
        }
        let message = message(&net, id, &published, piece(&net, &published, seed));
        net.receive(0, honest, message);
    }
    for at in 0..4 {
        let message = message(
            &net,
            made_up(late, at),
            &published,
            piece(&net, &published, 0),
        );
        net.receive(0, late, message);
    }
    assert_eq!(net.refused(Reject::OrphanFull), 8);
    assert_eq!(net.nodes[0].waiting_count(), 65);
    net.run_ms(5);
    assert_eq!(net.nodes[0].ranks(&id).unwrap().collect::<Vec<_>>(), [4]);
    assert_eq!(net.reports, []);
    // Unannounced pieces expire, and their senders get their room back.
    net.run_ms(600);
    assert_eq!(net.nodes[0].waiting_count(), 0);
}

/// The first peer with pieces is asked for their header and does not answer. Then the next one is asked; each is asked
/// once.
#[test]
fn a_silent_peer_has_the_next_one_asked_for_a_header() {
    let mut net = star(3);
    let published = published(&net.code, SUBJECT, 10_000);
    let announce = net.announce(&published);
    let asked = Rc::new(RefCell::new(Vec::new()));
    let record = asked.clone();
    net.tamper[0] = Some(Box::new(move |to, message| {
        if matches!(message, Message::Ask { .. }) {
            record.borrow_mut().push(to);
        }
        false
    }));
    for (peer, seed) in [(1, 0), (1, 1), (2, 2), (2, 3), (3, 4)] {
        let piece = piece(&net, &published, seed);
        let message = message(&net, announce.id, &published, piece);
        net.receive(0, peer, message);
    }
    net.run_ms(49);
    assert!(asked.borrow().is_empty());
    net.run_ms(2);
    assert_eq!(*asked.borrow(), [1]);
    let late = message(&net, announce.id, &published, piece(&net, &published, 5));
    net.receive(0, 1, late);
    net.run_ms(50);
    assert_eq!(*asked.borrow(), [1, 2]);
    net.receive(0, 2, Message::Header(announce));
    net.run_ms(200);
    assert_eq!(*asked.borrow(), [1, 2]);
    assert_eq!(net.nodes[0].live_count(), 1);
}

/// A job is lost twice or always.
#[test]
fn lost_jobs_are_run_again_a_few_times() {
    for (name, lost) in [("header", 2), ("decode", 2), ("header", 99), ("decode", 99)] {
        let mut net = Net::new(Model16::new(1 << 20), config(POLICY), 2, 1, 1);
        let runs = Rc::new(RefCell::new(0));
        let count = runs.clone();
        net.loses = Some(Box::new(move |work| {
            let is_it = match work {
                Work::VerifyHeader { .. } => name == "header",
                Work::Decode { .. } => name == "decode",
                _ => false,
            };
            *count.borrow_mut() += u32::from(is_it);
            is_it && *count.borrow() <= lost
        }));
        net.publish(0, payload(10_000));
        net.run_ms(2_000);
        let (delivered, runs) = (net.delivered(&[0; 10_000]), *runs.borrow());
        match lost {
            2 => assert_eq!((delivered, runs), (1, 3), "{name}"),
            // An abandoned header is requested once more.
            _ => assert!(delivered == 0 && (4..=8).contains(&runs), "{name}: {runs}"),
        }
        assert_eq!(net.reports, []);
    }
}

/// The peers that a node has sent requests to.
type Asked = Rc<RefCell<BTreeSet<usize>>>;

/// Records the peers asked by `node`. If `sends` is false, its messages are dropped.
fn watch(net: &mut Net<Model16>, node: usize, sends: bool) -> Asked {
    let asked = Asked::default();
    let record = asked.clone();
    net.tamper[node] = Some(Box::new(move |to, message| {
        if matches!(message, Message::Need { .. }) {
            record.borrow_mut().insert(to);
        }
        sends
    }));
    asked
}

/// Trap 16: two peers that claim to be done get only the first requests, while honest ones do not announce what they
/// have and their pushed pieces are lost.
#[test]
fn trap_16_peers_that_are_asked_in_vain_come_last() {
    let policy = Policy {
        feedback: false,
        ..POLICY
    };
    let mut net = Net::new(Model16::new(1 << 20), config(policy), 20, 8, 16);
    let victim = (1..20).max_by_key(|&node| net.links[node].len()).unwrap();
    let around = net.links[victim].clone();
    let liars = &around[1..3];
    let asked = watch(&mut net, victim, true);
    for &node in &around {
        let (asked, liar) = (asked.clone(), liars.contains(&node));
        net.tamper[node] = Some(Box::new(move |to, message| {
            let answers = !liar && asked.borrow().contains(&node);
            answers || to != victim || !matches!(message, Message::Piece { .. })
        }));
    }
    net.publish(0, payload(60_000));
    net.run_ms(30);
    let id = net.announce(&published(&net.code, SUBJECT, 60_000)).id;
    for &liar in liars {
        net.receive(victim, liar, Message::Done { id });
    }
    net.run_ms(3_000);
    assert_eq!(net.delivered(&vec![0; 60_000]), 19);
    assert!(liars.iter().all(|liar| asked.borrow().contains(liar)));
}

/// Trap 16: new pieces sent singly, each just before others would be asked, delay requests only for a while, and their
/// sender soon ranks behind peers that were not asked.
#[test]
fn trap_16_drops_do_not_put_requests_off() {
    let policy = Policy {
        chunks: 64,
        ..POLICY
    };
    let mut net = star_of(4, config(policy));
    let asked = watch(&mut net, 0, false);
    let cut = policy.cut(net.code.strategy(), 10_000);
    let published = net.code.publish(SUBJECT, &payload(10_000), cut).unwrap();
    let announce = net.announce(&published);
    let id = announce.id;
    for peer in 1..=4 {
        net.receive(0, peer, Message::Header(announce.clone()));
    }
    net.run_ms(1);
    for liar in [1, 2] {
        net.receive(0, liar, Message::Done { id });
    }
    for seed in 0..30 {
        let liar = 1 + seed as usize % 2;
        let message = message(&net, id, &published, piece(&net, &published, seed));
        net.receive(0, liar, message);
        net.run_ms(59);
    }
    assert_eq!(net.nodes[0].ranks(&id).unwrap().collect::<Vec<_>>(), [30]);
    assert!(asked.borrow().iter().any(|&peer| peer > 2));
    assert!(net.seen[0].needs <= 8, "{} requests", net.seen[0].needs);
}

/// Trap 11: copies of a bad piece waiting behind it leave room for a good one.
#[test]
fn trap_11_copies_do_not_take_the_room_of_others() {
    let mut net = star(4);
    let (id, published) = accepted(&mut net, 1);
    let first = piece(&net, &published, 1);
    let good = piece(&net, &published, 2);
    let mut bad = good.clone();
    bad.valid = false;
    let copies = (0..16).map(|at| (2 + at / 8, bad.clone()));
    for (peer, piece) in std::iter::once((1, first)).chain(copies).chain([(4, good)]) {
        let message = message(&net, id, &published, piece);
        net.receive(0, peer, message);
    }
    net.run_ms(5);
    let expected = [2, 3].map(|liar| (0, liar, Reject::InvalidChunk));
    assert_eq!(net.reports, expected);
    assert_eq!(net.nodes[0].ranks(&id).unwrap().collect::<Vec<_>>(), [2]);
}

/// A peer states which shards it wants, fewer than fill a word of the set, and then that it has one. It is assumed to
/// have no more than that, and receives further shards.
#[test]
fn who_asked_for_shards_is_still_sent_some() {
    let config = Config {
        need_generations_max: 0,
        ..config(POLICY)
    };
    let mut net = star_in(ModelRs::new(1 << 20), 2, config);
    let published = published(&net.code, SUBJECT, 10_000);
    let total = published.header.shards_total;
    assert_eq!((published.header.chunks, total), (8, 32));
    let announce = net.announce(&published);
    let id = announce.id;
    net.receive(0, 1, Message::Header(announce));
    net.run_ms(1);
    let want = Want::Shards(ShardSet::new(total, 1..total));
    let need = Message::Need {
        id,
        generation: 0,
        want,
    };
    net.receive(0, 2, need);
    let ranks = Ranks::Shards(ShardSet::new(total, 0..1));
    net.receive(0, 2, Message::Rank { id, ranks });
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for shard in 1..4 {
        let piece = net
            .code
            .draw(&published.decoder, shard, Distribution::Fresh, &mut rng);
        let piece = Message::piece(&net.code, &published.header, id, piece.unwrap());
        net.receive(0, 1, piece);
        net.run_ms(1);
    }
    let stats = net.nodes[0].stats(&id).unwrap();
    assert_eq!((stats.innovative, stats.answered), (3, 0));
    assert!(stats.sent > 0, "nothing is sent to it");
}

/// Peers 1 and 2 have the same pieces, as if fed by the same relay, and push all of them. The second sends nothing new,
/// without being able to know. Returns the source of all later pieces.
fn fed_by_the_same(net: &mut Net<Model16>, policy: Policy) -> (Published<Model16>, ModelDecoder) {
    let cut = policy.cut(net.code.strategy(), 40_000);
    let published = net.code.publish(SUBJECT, &payload(40_000), cut).unwrap();
    net.receive(0, 1, Message::Header(net.announce(&published)));
    net.run_ms(1);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut fed = net.code.decoder(&published.header);
    while net.code.rank(&fed, 0) < FED {
        let drawn = net
            .code
            .draw(&published.decoder, 0, Distribution::Fresh, &mut rng);
        net.code.accept(&mut fed, drawn.unwrap());
    }
    for peer in [1, 2] {
        push(net, peer, &published, &fed, FED);
    }
    let id = net.announce(&published).id;
    assert_eq!(net.nodes[0].ranks(&id).unwrap().collect::<Vec<_>>(), [FED]);
    assert_eq!(net.reports, []);
    (published, fed)
}

const FED: u16 = 12;
const FED_POLICY: Policy = Policy {
    chunks: 32,
    ..POLICY
};

/// A peer pushes this many of its pieces.
fn push(
    net: &mut Net<Model16>,
    peer: usize,
    published: &Published<Model16>,
    decoder: &ModelDecoder,
    count: u16,
) {
    let id = net.announce(published).id;
    let mut rng = ChaCha20Rng::seed_from_u64(peer as u64 + u64::from(count));
    for _ in 0..count {
        let mut piece = net
            .code
            .draw(decoder, 0, Distribution::Fresh, &mut rng)
            .unwrap();
        let rank = net.code.rank(decoder, 0);
        net.code.set_hop_and_rank(&mut piece, 3, rank);
        let piece = Message::piece(&net.code, &published.header, id, piece);
        net.receive(0, peer, piece);
        net.run_ms(1);
    }
}

/// A peer that unknowingly sends nothing new is not to blame, and is heard when asked, even if earlier pushed pieces
/// arrive first.
#[test]
fn who_was_fed_by_the_same_is_not_to_blame() {
    let mut net = star_of(2, config(FED_POLICY));
    let (published, fed) = fed_by_the_same(&mut net, FED_POLICY);
    // A node that asks for more when nothing new arrives gets what it asked for.
    net.run_ms(100);
    push(&mut net, 2, &published, &fed, 3);
    push(&mut net, 2, &published, &published.decoder, 32 - FED);
    net.run_ms(5);
    assert_eq!(net.seen[0].delivered.len(), 1);
    assert_eq!(net.reports, []);
}

/// Two peers claim to be done and do not answer. A peer that sent nothing new so far is asked after them.
#[test]
fn liars_do_not_keep_out_who_had_nothing_new() {
    let mut net = star_of(4, config(FED_POLICY));
    let (published, _) = fed_by_the_same(&mut net, FED_POLICY);
    let asked = watch(&mut net, 0, false);
    net.input(0, Input::PeerDown { peer: Peer(0) });
    let announce = net.announce(&published);
    for liar in [3, 4] {
        net.receive(0, liar, Message::Header(announce.clone()));
        net.receive(0, liar, Message::Done { id: announce.id });
    }
    net.run_ms(70);
    assert_eq!(*asked.borrow(), BTreeSet::from([3, 4]));
    net.run_ms(1_000);
    assert!(asked.borrow().contains(&2));
    push(&mut net, 2, &published, &published.decoder, 32 - FED);
    net.run_ms(5);
    assert_eq!(net.seen[0].delivered.len(), 1);
}
