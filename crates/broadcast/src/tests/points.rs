//! Commitments are points, which are expensive to decode: no peer gets more than its budget, and nothing useless is
//! decoded.

use super::attacks::{POLICY, accepted, published, star, star_of};
use super::net::{Net, SUBJECT, config, payload};
use crate::rlnc::{Coding, Id, Model16, Subject};
use crate::{Announce, Config, Input, Limits, Message, Policy, Reject};
use std::sync::Arc;

/// Decodes a neighbour's bytes and accepts the result. Returns whether points were decoded.
fn reads_points(net: &mut Net<Model16>, from: usize, bytes: &[u8]) -> Result<bool, Reject> {
    let from = net.peer_of(0, from);
    let read = net.nodes[0].decode(from, bytes);
    let points = match &read {
        Ok(Message::Header(announce)) => Ok(announce.commitments.is_some()),
        Ok(Message::Commits { commitments, .. }) => Ok(commitments.is_some()),
        Ok(_) => Ok(false),
        Err(reason) => Err(*reason),
    };
    let input = match read {
        Ok(message) => Input::Message { from, message },
        Err(reason) => Input::Malformed { from, reason },
    };
    net.input(0, input);
    points
}

/// The bytes of a header for a duty with this index, made up and not signed.
fn header(net: &Net<Model16>, index: u32, is_signed: bool) -> Vec<u8> {
    let subject = Subject { index, ..SUBJECT };
    let published = published(&net.code, subject, 10_000);
    let signed = net.announce(&published);
    let message = match is_signed {
        true => Message::Header(signed),
        false => {
            let (header, auth) = (signed.header.clone(), vec![0; 96].into());
            let made_up = Announce::new(&net.code, signed.id, header, auth, signed.commitments);
            Message::Header(Arc::new(made_up))
        }
    };
    message.encode(&net.code, &published.header)
}

/// A peer makes up headers faster than signatures are verified. Headers that would not wait are not decoded, none is
/// once the peer is banned, and other peers have their own budget.
#[test]
fn points_are_decoded_within_the_budget_of_their_sender() {
    let mut net = star(2);
    let mut read = 0;
    for index in 0..100 {
        let bytes = header(&net, index, false);
        match reads_points(&mut net, 1, &bytes) {
            Ok(points) => read += usize::from(points),
            Err(reason) => assert_eq!(reason, Reject::BudgetExceeded),
        }
    }
    assert_eq!(read, 8);
    let honest = header(&net, 200, true);
    assert_eq!(reads_points(&mut net, 2, &honest), Ok(true));
    net.run_ms(1);
    assert!(net.reports.contains(&(0, 1, Reject::BadAuth)));
    assert_eq!(net.nodes[0].live_count(), 1);
    let bytes = header(&net, 100, false);
    assert_eq!(reads_points(&mut net, 1, &bytes), Err(Reject::Stranger));
}

/// A connecting peer is sent all live headers, more than may wait: no peer is to blame.
#[test]
fn many_headers_at_once_are_no_fault() {
    let mut net = star(1);
    for index in 0..64 {
        let bytes = header(&net, index, true);
        let read = reads_points(&mut net, 1, &bytes);
        let expected = match index {
            0..8 => Ok(true),
            _ => Err(Reject::BudgetExceeded),
        };
        assert_eq!(read, expected);
    }
    assert_eq!(net.refused(Reject::BudgetExceeded), 56);
    net.run_ms(5);
    assert_eq!(net.nodes[0].live_count(), 8);
    assert_eq!(net.reports, []);
}

/// Anybody can resend the header of an ended broadcast, as often as they like.
#[test]
fn points_of_what_is_over_are_not_decoded() {
    let mut net = star(1);
    accepted(&mut net, 1);
    net.run_ms(25_000);
    assert_eq!(net.nodes[0].live_count(), 0);
    let bytes = header(&net, SUBJECT.index, true);
    for _ in 0..10 {
        assert_eq!(reads_points(&mut net, 1, &bytes), Err(Reject::Expired));
    }
    assert_eq!(net.reports, []);
}

/// Commitments of an unverified header wait undecoded, and are decoded once it is verified.
#[test]
fn points_come_after_the_signature() {
    let policy = Policy {
        chunk_bytes_max: 700,
        ..POLICY
    };
    let mut net = star_of(2, config(policy));
    let cut = policy.cut(net.code.strategy(), 10_000);
    let published = net.code.publish(SUBJECT, &payload(10_000), cut).unwrap();
    let announce = net.announce(&published);
    let (id, header) = (announce.id, &published.header);
    let bytes = |generation: u16| {
        let commitments = published.commitments[usize::from(generation)];
        Message::commits(&net.code, header, id, generation, commitments).encode(&net.code, header)
    };
    let commits = [bytes(0), bytes(1)];
    net.receive(0, 1, Message::Header(announce));
    for _ in 0..100 {
        assert_eq!(reads_points(&mut net, 1, &commits[1]), Ok(false));
    }
    net.run_ms(1);
    assert_eq!(net.nodes[0].live_count(), 1);
    // The waiting ones are here, the others are decoded when they arrive.
    assert_eq!(reads_points(&mut net, 2, &commits[1]), Ok(false));
    assert_eq!(reads_points(&mut net, 2, &commits[0]), Ok(true));
    assert_eq!(reads_points(&mut net, 2, &commits[0]), Ok(false));
    assert_eq!(net.reports, []);
}

/// Memory for broadcasts, a sixteenth of which is for waiting headers.
const MEMORY_BYTES_MAX: u64 = 16 << 20;

/// Long headers, so that few fit.
fn short_of_memory() -> Config {
    Config {
        memory_bytes_max: MEMORY_BYTES_MAX,
        limits: Limits {
            header_auth_bytes_max: 32 << 10,
            ..config(POLICY).limits
        },
        ..config(POLICY)
    }
}

/// Peers that fill the memory for waiting headers have their own dropped, not those of a peer that sent few, and
/// waiting headers count like live ones.
#[test]
fn headers_that_wait_take_a_part_of_the_memory() {
    const FLOODERS: usize = 5;
    let mut net = star_of(FLOODERS + 1, short_of_memory());
    let mut bring = |peer: usize, index: usize, is_signed: bool| {
        let bytes = header(&net, index as u32, is_signed);
        let read = reads_points(&mut net, peer, &bytes);
        let kept = net.nodes[0].memory_bytes();
        assert!(kept <= MEMORY_BYTES_MAX / 16, "{kept} bytes");
        read
    };
    let honest = FLOODERS + 1;
    for index in 0..2 {
        assert_eq!(bring(honest, index, true), Ok(true));
    }
    // Eight of each would be 1.3 MB.
    let mut read = 0;
    for index in 0..600 {
        for peer in 1..=FLOODERS {
            match bring(peer, 10_000 + 1_000 * peer + index, false) {
                Ok(points) => read += usize::from(points),
                Err(reason) => assert_eq!(reason, Reject::BudgetExceeded),
            }
        }
    }
    // Headers without room are not decoded.
    assert!((20..=8 * FLOODERS).contains(&read), "{read} headers");
    assert_eq!(net.nodes[0].waiting_count(), 2 + read);
    let dropped = net.refused(Reject::BudgetExceeded);
    assert!(dropped > 0, "{dropped} dropped");
    assert!(net.nodes[0].memory_bytes() > 900_000);
    net.run_ms(5);
    assert_eq!(net.nodes[0].live_count(), 2);
    assert_eq!(net.nodes[0].waiting_count(), 0);
}

/// Headers being verified are not dropped, and more peers than there is memory for send one header each. They are
/// verified as memory permits, and more follow when some of it is free again.
#[test]
fn headers_that_are_verified_take_no_more() {
    const PEERS: usize = 60;
    let mut net = star_of(PEERS, short_of_memory());
    let bring = |net: &mut Net<Model16>, peer: usize, is_signed: bool| {
        let bytes = header(net, peer as u32, is_signed);
        let read = reads_points(net, peer, &bytes);
        let kept = net.nodes[0].memory_bytes();
        assert!(kept <= MEMORY_BYTES_MAX / 16, "{kept} bytes");
        read
    };
    let read = |read: &Result<bool, Reject>| *read == Ok(true);
    let forged = 1..PEERS;
    let forged = forged
        .map(|peer| bring(&mut net, peer, false))
        .filter(read)
        .count();
    assert!((20..=32).contains(&forged), "{forged} headers");
    net.run_ms(5);
    assert_eq!(net.nodes[0].waiting_count(), 0);
    assert_eq!(bring(&mut net, PEERS, true), Ok(true));
    net.run_ms(1);
    assert_eq!(net.nodes[0].live_count(), 1);
}

/// The newest header of the peer with the most is dropped, even after one that waited earlier was verified.
#[test]
fn the_newest_header_gives_way() {
    let config = Config {
        memory_bytes_max: 16 << 20,
        limits: Limits {
            header_auth_bytes_max: 32 << 10,
            ..config(POLICY).limits
        },
        ..config(POLICY)
    };
    let mut net = star_of(9, config);
    let bring = |net: &mut Net<Model16>, peer: usize, index: u32| {
        let subject = Subject { index, ..SUBJECT };
        let announce = net.announce(&published(&net.code, subject, 10_000));
        let id = announce.id;
        net.receive(0, peer, Message::Header(announce));
        id
    };
    bring(&mut net, 1, 0);
    net.run_until(net.now.saturating_add_ns(100_000));
    let of_most: Vec<Id> = (1..5).map(|index| bring(&mut net, 2, index)).collect();
    net.run_until(net.now.saturating_add_ns(150_000));
    assert_eq!(
        (net.nodes[0].live_count(), net.nodes[0].waiting_count()),
        (1, 4)
    );
    for index in 0..3 {
        for peer in 3..=9 {
            bring(&mut net, peer, 100 * peer as u32 + index);
        }
    }
    assert_eq!(net.refused(Reject::BudgetExceeded), 1);
    net.run_ms(20);
    let live: Vec<Id> = net.nodes[0].live_ids().collect();
    let is_live = of_most.iter().map(|id| live.contains(id));
    assert_eq!(is_live.collect::<Vec<_>>(), [true, true, true, false]);
}
