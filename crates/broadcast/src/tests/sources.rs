//! Sources that cheat: all nodes reach the same finding, and no peer is blamed.

use super::net::{Net, SUBJECT, config, payload};
use crate::rlnc::{Coding, Cut, Distribution, Header, Id, InvalidSource, Model16, Published, Rs};
use crate::{Announce, CHUNK_BYTES_MAX, Message, Policy, Reject};
use alphorn_types::Time;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const POLICY: Policy = Policy {
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

/// Trap 12: the source committed to something that is not a payload.
#[test]
fn trap_12_bad_payloads_are_the_sources_fault() {
    let mut net = Net::new(Model16::new(1 << 20), config(POLICY), 25, 8, 12);
    net.forge = Some(Box::new(|mut published| {
        published.header.commit_root = [1; 32];
        published
    }));
    net.publish(0, payload(30_000));
    net.run_ms(3_000);
    for seen in &net.seen[1..] {
        assert_eq!(seen.convicted.len(), 1);
        assert_eq!(seen.convicted[0].why, InvalidSource::NotACodeword);
        assert_eq!(seen.convicted[0].subject, SUBJECT);
        assert_eq!(seen.convicted[0].header, net.seen[1].convicted[0].header);
        assert!(seen.delivered.is_empty());
    }
    assert_eq!(net.reports, []);
}

fn node(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    Sha256::digest([&[1][..], left, right].concat()).into()
}

/// Shards under a correct Merkle root that are not a codeword: different sets of k give different payloads.
fn no_codeword(code: &Rs, published: &Published<Rs>) -> Published<Rs> {
    let mut header = published.header.clone();
    let total = usize::from(header.shards_total);
    let shards: Vec<Vec<u8>> = (0..total)
        .map(|i| vec![i as u8 ^ 0x5a; header.unit as usize])
        .collect();
    let leaf = |(i, shard): (usize, &Vec<u8>)| -> [u8; 32] {
        let index = (i as u16).to_le_bytes();
        Sha256::digest([&[0][..], &index, shard].concat()).into()
    };
    let mut levels: Vec<Vec<[u8; 32]>> = vec![shards.iter().enumerate().map(leaf).collect()];
    while levels[levels.len() - 1].len() > 1 {
        let below = &levels[levels.len() - 1];
        let above = below.chunks(2).map(|pair| node(&pair[0], &pair[1]));
        levels.push(above.collect());
    }
    header.commit_root = levels[levels.len() - 1][0];
    let mut decoder = code.decoder(&header);
    for (i, shard) in shards.iter().enumerate() {
        let mut body = vec![i as u8, (i >> 8) as u8, 1, 0, 0];
        for (height, level) in levels[..levels.len() - 1].iter().enumerate() {
            body.extend(level[(i >> height) ^ 1]);
        }
        body.extend(shard);
        code.accept(&mut decoder, code.decode_piece(&header, &body).unwrap());
    }
    Published {
        header,
        commitments: vec![()],
        decoder,
    }
}

/// Trap 13: whichever shards a node receives, it finds that they are not a codeword.
#[test]
fn trap_13_shards_of_no_codeword_convict_the_source_everywhere() {
    let code = Rs::new(1 << 20);
    let mut net = Net::new(code, config(POLICY), 25, 8, 13);
    net.forge = Some(Box::new(move |published| no_codeword(&code, &published)));
    net.publish(0, payload(10_000));
    net.run_ms(3_000);
    for seen in &net.seen[1..] {
        assert_eq!(seen.convicted.len(), 1);
        assert_eq!(seen.convicted[0].why, InvalidSource::NotACodeword);
    }
    assert_eq!(net.reports, []);
}

/// Trap 14: a source withholds one dimension. All nodes stop one short, send a bounded number of requests, and forget
/// everything except the signed header.
#[test]
fn trap_14_withheld_dimensions_end_in_evidence() {
    let code = Model16::new(1 << 20);
    let mut net = Net::new(code.clone(), config(POLICY), 15, 6, 14);
    let model = code.clone();
    net.forge = Some(Box::new(move |published| {
        let mut rng = ChaCha20Rng::seed_from_u64(14);
        let mut decoder = model.decoder(&published.header);
        while model.rank(&decoder, 0) < 7 {
            let drawn = model.draw(&published.decoder, 0, Distribution::Fresh, &mut rng);
            model.accept(&mut decoder, drawn.unwrap());
        }
        Published {
            decoder,
            ..published
        }
    }));
    net.publish(0, payload(30_000));
    net.run_ms(2_000);
    let id = net
        .announce(
            &code
                .publish(SUBJECT, &payload(30_000), Cut::rlnc(8))
                .unwrap(),
        )
        .id;
    for node in &net.nodes[1..] {
        assert_eq!(node.ranks(&id).unwrap().collect::<Vec<_>>(), [7]);
    }
    net.run_until(Time::from_millis(30_000));
    for seen in &net.seen[1..] {
        assert_eq!(seen.withheld.len(), 1);
        assert!(seen.withheld[0].len() > 100);
        // Two peers in each of at most twelve rounds.
        assert!((1..=24).contains(&seen.needs), "{} requests", seen.needs);
    }
    assert!(net.nodes.iter().all(|node| node.live_count() == 0));
    assert_eq!(net.reports, []);
}

/// A source signs two headers of one subject and sends each to one half of a line of four nodes, with a different half
/// of the required shards. `name` returns the ids.
fn two_headers(name: impl Fn(&Header) -> Id) -> Net<Rs> {
    let code = Rs::new(1 << 20);
    let mut net = Net::new(code, config(POLICY), 4, 2, 19);
    for (node, from, half) in [(1, 0, 0), (2, 3, 1)] {
        let cut = POLICY.cut(code.strategy(), 5_000);
        let published = code
            .publish(SUBJECT, &[1 + half as u8; 5_000], cut)
            .unwrap();
        let honest = net.announce(&published);
        let (header, auth) = (&published.header, honest.auth.clone());
        let id = name(header);
        let announce = Announce::new(&code, id, header.clone(), auth, honest.commitments);
        net.receive(node, from, Message::Header(Arc::new(announce)));
        net.run_ms(1);
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let count = header.chunks / 2;
        for shard in half * count..(half + 1) * count {
            let piece = code.draw(&published.decoder, shard, Distribution::Fresh, &mut rng);
            let piece = Message::piece(&code, header, id, piece.unwrap());
            net.receive(node, from, piece);
        }
    }
    net.run_ms(3_000);
    net
}

/// With the same id for both, as if it were half of the signing root and the source had found a collision, the halves
/// ban each other and no node has evidence. The complete root distinguishes them: no peer is blamed, and all nodes have
/// both headers.
#[test]
fn two_headers_of_a_source_set_no_honest_peers_against_each_other() {
    let collided = two_headers(|_| Id([7; 32]));
    for report in [(1, 2, Reject::InvalidChunk), (2, 1, Reject::InvalidChunk)] {
        assert!(collided.reports.contains(&report), "{:?}", collided.reports);
    }
    assert!(collided.seen.iter().all(|seen| seen.evidence.is_empty()));

    let apart = two_headers(|header| header.id(&[0; 32]));
    assert_eq!(apart.reports, []);
    for (node, seen) in apart.seen.iter().enumerate() {
        assert_eq!(seen.evidence.len(), 1, "node {node}");
        assert_ne!(seen.evidence[0].first, seen.evidence[0].second);
    }
}

/// Every message sent for a broadcast can be decoded again, byte for byte.
#[test]
fn zeros_are_a_payload() {
    let mut net = Net::new(Rs::new(1 << 20), config(POLICY), 6, 4, 15);
    net.in_bytes = true;
    net.tamper[1] = Some(Box::new(|_, message| {
        !matches!(message, Message::Rank { .. })
    }));
    net.publish(0, vec![0; 5_000].into());
    net.run_ms(2_000);
    assert_eq!(net.delivered(&[0; 5_000]), 5);
}
