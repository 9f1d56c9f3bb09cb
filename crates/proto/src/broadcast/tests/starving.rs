//! Peers that fill what others need room in, or that are asked and do not answer.

use super::attacks::{message, piece, published, star};
use super::net::SUBJECT;
use crate::broadcast::{Message, Reject};
use crate::rlnc::Id;

/// Trap 17: pieces of made-up broadcasts fill the room of those that wait for a header, and honest ones
/// find room all the same, before and after their header.
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
    // What nobody announces goes, and its senders have their room back.
    net.run_ms(600);
    assert_eq!(net.nodes[0].waiting_count(), 0);
}
