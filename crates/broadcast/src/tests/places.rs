//! Sender selection: places, headers sent by few peers, runs of the source, and silence.

use super::net::{Net, SUBJECT, config, payload};
use crate::place::Turn;
use crate::rlnc::{Coding, Id, Model16};
use crate::{Broadcast, CHUNK_BYTES_MAX, Config, Input, Message, Policy, SourcePrivacy};
use alphorn_types::Peer;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const NODES: usize = 40;
const BURST: u16 = 12;
const BYTES: usize = 20_000;
const POLICY: Policy = Policy {
    chunks: 8,
    chunk_bytes_max: CHUNK_BYTES_MAX,
    burst: [60, BURST, 0],
    credit_milli: 0,
    push_pct: 0,
    source_pieces: 60,
    headers: 2,
    source_run: 2,
    gather_ns: 8_000_000,
    feedback: false,
};

/// A network in which every node informs its neighbours of their places.
fn placed(policy: Policy, seed: u64) -> Net<Model16> {
    let config = Config {
        places: 32,
        source_privacy: SourcePrivacy::None,
        ..config(policy)
    };
    let mut net = Net::new(Model16::new(1 << 20), config, NODES, 24, seed);
    for node in 0..NODES {
        for (number, other) in net.links[node].clone().into_iter().enumerate() {
            let back = net.peer_of(other, node);
            if let Some(place) = net.nodes[other].place_of(back) {
                let peer = Peer(number as u64);
                net.input(node, Input::Placed { peer, place });
            }
        }
    }
    net
}

fn id(net: &Net<Model16>) -> Id {
    let code = Model16::new(1 << 20);
    let cut = POLICY.cut(code.strategy(), BYTES);
    let published = code.publish(SUBJECT, &payload(BYTES), cut).unwrap();
    let id = published.header.id(&[0; 32]);
    assert!(
        net.seen
            .iter()
            .flat_map(|seen| &seen.delivered)
            .all(|(of, _)| *of == id)
    );
    id
}

/// Runs a broadcast of node 0. Returns each message's kind, with sender and receiver.
fn run(net: &mut Net<Model16>) -> Vec<(usize, usize, &'static str)> {
    let log = Rc::new(RefCell::new(Vec::new()));
    for node in 0..NODES {
        let log = log.clone();
        net.tamper[node] = Some(Box::new(move |to, message| {
            log.borrow_mut().push((node, to, message.kind()));
            true
        }));
    }
    net.publish(0, payload(BYTES));
    net.run_ms(2_000);
    assert_eq!(net.delivered(&[0; BYTES]), NODES - 1);
    log.take()
}

#[test]
fn bursts_come_from_those_whom_the_receiver_put_in_front() {
    let mut net = placed(POLICY, 1);
    run(&mut net);
    let turn = Turn::of(&SUBJECT);
    let mut late = 0;
    for (from, to, piece) in &net.pieces {
        let (hop, _) = net.code.hop_and_rank(piece);
        let asked_for = net.seen[*to].needs > 0;
        if hop < 3 || asked_for {
            continue;
        }
        let place = net.nodes[*to].place_of(net.peer_of(*to, *from));
        // Neighbours beyond the places assigned by a node draw independently.
        if let Some(place) = place {
            assert!(place.rank(turn) < BURST, "{from} to {to}");
            late += 1;
        }
    }
    assert!(late > NODES, "{late} pieces after two transmissions");
}

#[test]
fn few_bring_the_header_once_it_has_spread() {
    let headers = |policy| {
        let mut net = placed(policy, 2);
        let log = run(&mut net);
        log.iter().filter(|(_, _, kind)| *kind == "header").count()
    };
    let (few, all) = (
        headers(POLICY),
        headers(Policy {
            headers: 0,
            ..POLICY
        }),
    );
    assert!(
        few * 4 < all * 3,
        "{few} headers, {all} where everybody brings it"
    );
}

#[test]
fn who_holds_pieces_without_header_asks_once_and_is_answered_once() {
    let mut net = placed(POLICY, 3);
    net.in_bytes = true;
    let asked: Rc<RefCell<BTreeSet<usize>>> = Rc::default();
    let answers = Rc::new(RefCell::new(0));
    for node in 0..NODES {
        let (asked, answers) = (asked.clone(), answers.clone());
        net.tamper[node] = Some(Box::new(move |to, message| match message {
            Message::Ask { .. } if node == 7 => asked.borrow_mut().insert(to),
            Message::Header(_) if to == 7 => {
                let answers_it = asked.borrow().contains(&node);
                *answers.borrow_mut() += u32::from(answers_it);
                answers_it
            }
            _ => true,
        }));
    }
    net.publish(0, payload(BYTES));
    net.run_ms(2_000);
    assert_eq!(net.delivered(&[0; BYTES]), NODES - 1);
    assert!(!asked.borrow().is_empty());
    assert_eq!(*answers.borrow() as usize, asked.borrow().len());
}

#[test]
fn headers_are_answered_once_and_of_known_broadcasts_alone() {
    let mut net = placed(POLICY, 4);
    run(&mut net);
    let id = id(&net);
    let sent = net.bytes_sent;
    net.receive(1, 2, Message::Ask { id });
    let first = net.bytes_sent;
    assert!(first > sent);
    net.receive(1, 2, Message::Ask { id });
    net.receive(1, 2, Message::Ask { id: Id([9; 32]) });
    assert_eq!(net.bytes_sent, first);
}

#[test]
fn nobody_talks_but_to_those_who_send_for_nothing() {
    let mut net = placed(POLICY, 5);
    let log = run(&mut net);
    assert!(log.iter().all(|(_, _, kind)| *kind != "rank"));
    let told: Vec<_> = log.iter().filter(|(_, _, kind)| *kind == "done").collect();
    let pairs: BTreeSet<_> = told.iter().map(|(from, to, _)| (from, to)).collect();
    assert_eq!(told.len(), pairs.len());
    let mut loud = placed(
        Policy {
            feedback: true,
            ..POLICY
        },
        5,
    );
    let loud = run(&mut loud);
    assert!(told.len() * 4 < loud.iter().filter(|(_, _, kind)| *kind == "done").count());
}

#[test]
fn relays_next_to_the_source_mix_its_run() {
    let ranks = |policy| {
        let mut net = placed(policy, 6);
        run(&mut net);
        let code = &net.code;
        let second = net
            .pieces
            .iter()
            .map(|(_, _, piece)| code.hop_and_rank(piece));
        second
            .filter(|(hop, _)| *hop == 2)
            .map(|(_, rank)| rank)
            .min()
    };
    assert_eq!(ranks(POLICY), Some(2));
    assert_eq!(
        ranks(Policy {
            source_run: 1,
            ..POLICY
        }),
        Some(1)
    );
}

#[test]
fn places_are_dealt_once_each() {
    let net = placed(POLICY, 7);
    let node: &Broadcast<Model16> = &net.nodes[3];
    let dealt: BTreeSet<u16> = (0..32)
        .map(|peer| node.place_of(Peer(peer)).unwrap().index())
        .collect();
    assert_eq!(dealt.len(), 32);
    assert_eq!(node.place_of(Peer(32)), None);
}
