//! Signed headers of scheduled sources that cost others more than their duty justifies.

use super::attacks::{POLICY, message, piece, published, star_of};
use super::net::{Net, SUBJECT, config, payload};
use crate::rlnc::{Coding, Cut, Id, Model16, ModelRs, Subject};
use crate::{Announce, Config, Input, Message, Ranks, Reject};
use alphorn_types::Peer;
use std::ops::Range;
use std::sync::Arc;

/// A header of the payload in this cut, both as bytes and in simulated form, opens nothing.
fn is_refused<C: Coding>(code: C, cut: Cut) {
    let mut net = Net::new(code, config(POLICY), 2, 1, 1);
    let published = net.code.publish(SUBJECT, &payload(10_000), cut).unwrap();
    let message = Message::Header(net.announce(&published));
    let bytes = message.encode(&net.code, &published.header);
    if net.code.commitment_lists(&published.header) == 1 {
        assert_eq!(
            net.nodes[0].decode(Peer(0), &bytes).err(),
            Some(Reject::BadLength)
        );
    }
    net.receive(0, 1, message);
    net.run_ms(1);
    assert_eq!(net.nodes[0].live_count() + net.nodes[0].waiting_count(), 0);
    assert_eq!(net.reports, [(0, 1, Reject::BadLength)]);
}

/// A burst of pieces as long as the payload would occupy an uplink for seconds.
#[test]
fn payloads_are_cut_by_the_policy_of_the_network() {
    for (chunks, shards_total) in [(1, 8), (8, 64), (7, 32)] {
        let cut = Cut {
            chunks,
            shards_total,
            generations: 1,
        };
        is_refused(ModelRs::new(1 << 20), cut);
    }
    for (chunks, generations) in [(1, 16), (1, 1), (8, 2)] {
        let cut = Cut {
            chunks,
            shards_total: 0,
            generations,
        };
        is_refused(Model16::new(1 << 20), cut);
    }
}

/// Peer 1 sends a valid header of a payload of this many bytes, which is verified.
fn receive(net: &mut Net<Model16>, subject: Subject, len: usize) -> Id {
    receive_from(net, 1, subject, len)
}

fn receive_from(net: &mut Net<Model16>, peer: usize, subject: Subject, len: usize) -> Id {
    let announce = net.announce(&published(&net.code, subject, len));
    let id = announce.id;
    net.receive(0, peer, Message::Header(announce));
    net.run_ms(1);
    id
}

fn collection(source: u32, index: u32) -> Subject {
    Subject {
        kind: 2,
        source,
        index,
        ..SUBJECT
    }
}

fn live_of(net: &Net<Model16>, ids: &[Id]) -> usize {
    let live = net.nodes[0].live_ids();
    live.filter(|id| ids.contains(id)).count()
}

/// Collectors that sign headers and withhold the rest cannot fill the table or the memory needed for a block, whether
/// they sign one header per duty or two.
#[test]
fn blocks_find_room_among_collections() {
    for (duties, len, memory_bytes_max) in [(64, 1_000, 1 << 30), (16, 1_000_000, 16 << 20)] {
        let config = Config {
            memory_bytes_max,
            ..config(POLICY)
        };
        let mut net = star_of(1, config);
        for index in 0..duties {
            let subject = collection(index % 3, index);
            receive(&mut net, subject, len);
            receive(&mut net, subject, len + 1);
        }
        let live = net.nodes[0].live_count();
        // Second headers take no room from first ones.
        assert!(live == 128 || (4..12).contains(&live), "{live}");
        let block = Subject {
            source: 3,
            ..SUBJECT
        };
        let id = receive(&mut net, block, len);
        assert_eq!(live_of(&net, &[id]), 1);
        // One of them was evicted, with its second header, and is not reported as withheld.
        assert_eq!(net.nodes[0].live_count(), live - 1);
        assert!(net.nodes[0].memory_bytes() <= memory_bytes_max);
        assert!(net.seen[0].withheld.is_empty());
        // No collection evicts a block.
        for index in 100..164 {
            receive(&mut net, collection(3, index), len);
        }
        assert_eq!(live_of(&net, &[id]), 1);
    }
}

/// The source with the most broadcasts shares its room with the next one, and a header without room costs no
/// verification, however often it arrives.
#[test]
fn the_source_that_has_most_gives_way() {
    let mut net = star_of(1, config(POLICY));
    let mut of = |source: u32, count: u32| -> Vec<Id> {
        let receive = |index| receive(&mut net, collection(source, index), 1_000);
        (0..count).map(receive).collect()
    };
    let (first, second) = (of(0, 70), of(1, 40));
    assert_eq!(live_of(&net, &first), 32);
    assert_eq!(live_of(&net, &second), 32);
    assert_eq!(net.seen[0].headers_verified, 64 + 32);
    let again = receive(&mut net, collection(1, 39), 1_000);
    assert_eq!(live_of(&net, &[again]), 0);
    assert_eq!(net.seen[0].headers_verified, 64 + 32);
    assert_eq!(net.reports, []);
}

/// Peers each send headers of sources with one broadcast each, and all of `carriers` send messages about all of those.
fn bring(net: &mut Net<Model16>, carriers: &[usize], sources: Range<u32>) -> Vec<Id> {
    let brought = sources.map(|source| {
        let first = carriers[source as usize % carriers.len()];
        let id = receive_from(net, first, collection(source, 0), 1_000);
        for &peer in carriers {
            net.receive(
                0,
                peer,
                Message::Rank {
                    id,
                    ranks: Ranks::One(0),
                },
            );
        }
        id
    });
    brought.collect()
}

/// A node with this many peers, on which every source has every duty.
fn node_of(peers: usize) -> Net<Model16> {
    let mut net = star_of(peers, config(POLICY));
    net.nodes[0].set_schedule(Arc::new(|_: &Subject| true));
    net
}

/// Two peers open the maximum number of broadcasts, each of another source, and carry each other's. A later peer gets
/// as much room as one of them, and keeps it.
#[test]
fn sources_of_few_peers_keep_out_no_other() {
    let mut net = node_of(4);
    let flood = bring(&mut net, &[1, 2], 0..64);
    assert_eq!(live_of(&net, &flood), 64);
    let honest = bring(&mut net, &[3], 100..101);
    assert_eq!(live_of(&net, &honest), 1);
    let more = bring(&mut net, &[3], 101..140);
    let live = live_of(&net, &more);
    assert_eq!(live, 20);
    // No more of them return, nor are any verified.
    let verified = net.seen[0].headers_verified;
    bring(&mut net, &[1, 2], 200..300);
    assert_eq!(live_of(&net, &honest) + live_of(&net, &more), 1 + live);
    assert_eq!(net.seen[0].headers_verified, verified);
    // The block is accepted as before.
    let block = receive_from(&mut net, 4, SUBJECT, 1_000);
    assert_eq!(live_of(&net, &[block]), 1);
    assert_eq!(net.reports, []);
}

/// Broadcasts carried by many peers weigh little for each: a peer that joins with its own sources evicts no more than
/// its share.
#[test]
fn a_fresh_peer_takes_no_more_than_its_part() {
    let honest: Vec<usize> = (1..=10).collect();
    let mut net = node_of(11);
    let carried = bring(&mut net, &honest, 0..64);
    assert_eq!(live_of(&net, &carried), 64);
    let taken = bring(&mut net, &[11], 100..200);
    assert_eq!((live_of(&net, &carried), live_of(&net, &taken)), (59, 5));
}

/// A peer has one complete broadcast and one with a piece, both older and carried by few. When another arrives, those
/// without a piece are evicted, although two peers carry them.
#[test]
fn what_pieces_came_of_gives_way_last() {
    let config = Config {
        live_max: 4,
        ..config(POLICY)
    };
    let mut net = star_of(3, config);
    net.nodes[0].set_schedule(Arc::new(|_: &Subject| true));
    let empty = bring(&mut net, &[1, 3], 0..2);
    let begun = bring(&mut net, &[1], 2..4);
    for (at, pieces) in [(0, 12), (1, 1)] {
        let published = published(&net.code, collection(2 + at as u32, 0), 1_000);
        for seed in 0..pieces {
            let piece = piece(&net, &published, seed);
            let message = message(&net, begun[at], &published, piece);
            net.receive(0, 1, message);
            net.run_ms(1);
        }
    }
    assert_eq!(net.seen[0].delivered.len(), 1);
    let honest = bring(&mut net, &[2], 100..101);
    assert_eq!((live_of(&net, &honest), live_of(&net, &begun)), (1, 2));
    assert_eq!(live_of(&net, &empty), 1);
}

/// A complete broadcast is never evicted for one of its own kind.
#[test]
fn what_is_complete_stays() {
    let config = Config {
        live_max: 4,
        ..config(POLICY)
    };
    let mut net = star_of(2, config);
    net.nodes[0].set_schedule(Arc::new(|_: &Subject| true));
    let complete = bring(&mut net, &[1], 0..4);
    for (source, &id) in (0..).zip(&complete) {
        let published = published(&net.code, collection(source, 0), 1_000);
        for seed in 0..12 {
            let piece = piece(&net, &published, seed);
            let message = message(&net, id, &published, piece);
            net.receive(0, 1, message);
            net.run_ms(1);
        }
    }
    assert_eq!(net.seen[0].delivered.len(), 4);
    let more = bring(&mut net, &[2], 100..104);
    assert_eq!((live_of(&net, &complete), live_of(&net, &more)), (4, 0));
}

/// Broadcasts that a peer opened before it left are evicted for ones that are still carried.
#[test]
fn what_nobody_carries_gives_way() {
    let mut net = node_of(2);
    let left = bring(&mut net, &[1], 0..64);
    net.input(0, Input::PeerDown { peer: Peer(0) });
    let honest = bring(&mut net, &[2], 100..164);
    assert_eq!((live_of(&net, &left), live_of(&net, &honest)), (0, 64));
}

/// An evicted broadcast returns when there is room, and not before: nothing is evicted for it, so two headers do not
/// displace each other in turn.
#[test]
fn what_gave_way_comes_back_into_free_room() {
    let config = Config {
        live_max: 1,
        ..config(POLICY)
    };
    let mut net = star_of(2, config);
    let len = 1_000;
    let id = receive(&mut net, collection(0, 0), len);
    let block = receive(&mut net, SUBJECT, len);
    assert_eq!((live_of(&net, &[id]), live_of(&net, &[block])), (0, 1));
    let verified = net.seen[0].headers_verified;
    assert_eq!(receive_from(&mut net, 2, collection(0, 0), len), id);
    net.receive(0, 2, Message::Done { id });
    assert_eq!(net.nodes[0].waiting_count(), 0);
    assert_eq!(net.refused(Reject::LiveFull), 3);
    net.run_ms(25_000);
    assert_eq!(net.nodes[0].live_count(), 0);
    net.receive(0, 2, Message::Done { id });
    assert_eq!(net.nodes[0].waiting_count(), 1);
    receive_from(&mut net, 2, collection(0, 0), len);
    assert_eq!(live_of(&net, &[id]), 1);
    assert_eq!(net.seen[0].headers_verified, verified + 1);
    // Once its own time is over it opens nothing more, nor does the block.
    net.run_ms(25_000);
    receive_from(&mut net, 2, collection(0, 0), len);
    receive_from(&mut net, 2, SUBJECT, len);
    assert_eq!(net.nodes[0].live_count(), 0);
    assert_eq!(net.refused(Reject::Expired), 2);
    assert_eq!(net.reports, []);
}

/// A peer sends header after header without room. Finding the heaviest holder is expensive, so after as many headers as
/// may be alive its headers are ignored until something ends. Room that is free anyway is still found.
#[test]
fn headers_without_room_are_looked_at_a_few_times() {
    let mut net = node_of(3);
    let (first, second) = (
        bring(&mut net, &[1], 0..64),
        bring(&mut net, &[2], 100..200),
    );
    assert_eq!((live_of(&net, &first), live_of(&net, &second)), (32, 32));
    // Now the other one also carries all of it, so some would find room.
    for &id in &second {
        net.receive(
            0,
            3,
            Message::Rank {
                id,
                ranks: Ranks::One(0),
            },
        );
    }
    let more = bring(&mut net, &[2], 200..210);
    assert_eq!(live_of(&net, &more), 0);
    let honest = bring(&mut net, &[3], 300..301);
    assert_eq!(live_of(&net, &honest), 1);
    let block = receive_from(&mut net, 2, SUBJECT, 1_000);
    assert_eq!(live_of(&net, &[block]), 1);
    net.run_ms(25_000);
    let later = bring(&mut net, &[2], 400..500);
    assert_eq!(live_of(&net, &later), 64);
    assert_eq!(net.reports, []);
}

/// A source with many duties opens broadcast after broadcast and lets them end. Another source's broadcast is still
/// remembered, and its old header opens nothing.
#[test]
fn what_is_over_is_not_forgotten_for_one_source() {
    let config = Config {
        live_max: 4,
        ..config(POLICY)
    };
    let mut net = star_of(2, config);
    let honest = receive_from(&mut net, 1, collection(3, 0), 1_000);
    net.run_ms(25_000);
    for round in 0..8 {
        let opened: Vec<Id> = (0..4)
            .map(|index| receive_from(&mut net, 2, collection(0, 4 * round + index), 1_000))
            .collect();
        assert_eq!(live_of(&net, &opened), 4);
        net.run_ms(25_000);
        assert_eq!(net.nodes[0].live_count(), 0);
    }
    let verified = net.seen[0].headers_verified;
    let again = receive_from(&mut net, 2, collection(3, 0), 1_000);
    assert_eq!((again, live_of(&net, &[again])), (honest, 0));
    assert_eq!(net.seen[0].headers_verified, verified);
    assert_eq!(net.refused(Reject::Expired), 1);
}

/// A source whose broadcast is over signs another header for the same duty. It opens nothing.
#[test]
fn no_other_header_opens_what_is_over() {
    let mut net = star_of(1, config(POLICY));
    receive(&mut net, SUBJECT, 1_000);
    net.run_ms(25_000);
    assert_eq!(net.nodes[0].live_count(), 0);
    for len in [1_001, 1_002] {
        receive(&mut net, SUBJECT, len);
        assert_eq!(net.nodes[0].live_count() + net.nodes[0].waiting_count(), 0);
    }
    assert_eq!(net.seen[0].headers_verified, 1);
    assert_eq!(net.refused(Reject::Expired), 2);
    assert_eq!(net.reports, []);
}

/// A source signs header after header for one duty. Only useful ones are verified, except for those that peers sent at
/// the same time.
#[test]
fn third_headers_are_not_verified() {
    const PEERS: usize = 3;
    let mut net = star_of(PEERS, config(POLICY));
    for round in 0..100 {
        let published = published(&net.code, SUBJECT, 1_000 + round);
        let message = Message::Header(net.announce(&published));
        let bytes = message.encode(&net.code, &published.header);
        net.receive(0, 1 + round % PEERS, message);
        if round >= 20 {
            net.run_ms(1);
            // Nor are its commitments decoded.
            let read = net.nodes[0].decode(Peer(0), &bytes).err();
            assert_eq!(read, Some(Reject::Equivocation));
        }
    }
    let verified = net.seen[0].headers_verified;
    assert!(verified <= 2 + PEERS, "{verified} headers");
    assert_eq!(net.nodes[0].live_count(), 2);
    assert_eq!(net.nodes[0].waiting_count(), 0);
    assert_eq!(net.seen[0].evidence.len(), 1);
    assert_eq!(net.reports, []);
}

/// However many peers forge the authenticator of a header, the honest peer's header is verified.
#[test]
fn forged_authenticators_keep_no_honest_one_out() {
    const PEERS: usize = 31;
    const HONEST: usize = 20;
    let mut net = star_of(PEERS, config(POLICY));
    let published = published(&net.code, SUBJECT, 10_000);
    let good = net.announce(&published);
    for peer in 1..=PEERS {
        let (header, auth) = (good.header.clone(), vec![peer as u8; 96].into());
        let forged = Announce::new(&net.code, good.id, header, auth, good.commitments);
        let announce = match peer {
            HONEST => good.clone(),
            _ => Arc::new(forged),
        };
        net.receive(0, peer, Message::Header(announce));
    }
    net.run_ms(100);
    assert_eq!(net.nodes[0].live_count(), 1);
    assert_eq!(net.nodes[0].waiting_count(), 0);
    // Those processed earlier were banned, one verification each.
    let blamed =
        |(_, peer, reason): &(usize, usize, Reject)| *peer != HONEST && *reason == Reject::BadAuth;
    assert!(
        net.reports.len() > 2 && net.reports.iter().all(blamed),
        "{:?}",
        net.reports
    );
}
