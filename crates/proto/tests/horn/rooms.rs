//! What is bounded: who loses when it is full, and that nobody else does.

use crate::forge::Forge;
use crate::net::{Net, SUMS, config};
use alphorn_proto::horn::{Config, Local, Selection};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Topic, Vote};
use alphorn_proto::{Token, Verdict};
use alphorn_types::{Epoch, Layout, Slot, Validator};

/// A machine that hosts nobody, in which everybody else serves, at a phase of a slot without
/// blocks before it.
fn observer(layout: (u32, u16, u16), slot: u64, change: impl Fn(&mut Config)) -> (Net, Forge) {
    let layout = Layout::new(layout.0, layout.1, layout.2).unwrap();
    let (mut config, info) = config(SUMS, layout);
    config.selection = Selection::Rank;
    config.aggregators_target = 64;
    config.collectors_target = 64;
    change(&mut config);
    let mut net = Net::new(SUMS, &config, &info, vec![Local::observer(&layout)]);
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(slot), Phase::Vote));
    let assignment = net.nodes[0].horn.assignment(Epoch(0)).unwrap();
    let forge = Forge::new(SUMS, &config, &info, assignment);
    (net, forge)
}

/// The vote of a slot for the head of the machine.
fn vote(net: &Net, slot: u64) -> Vote {
    let horn = &net.nodes[0].horn;
    horn.chain().vote(Slot(slot), &horn.head()).unwrap()
}

/// Hands in a message from a peer, and returns its token.
fn offer(net: &mut Net, peer: usize, (topic, data): (Topic, Vec<u8>)) -> Token {
    net.offer_from(peer, 0, topic, data);
    net.last_token()
}

fn all(net: &Net, tokens: &[Token], verdict: Verdict) -> bool {
    let mut given = tokens.iter().map(|token| net.verdict(0, *token));
    given.all(|given| given == Some(verdict))
}

#[test]
fn what_waits_of_a_closed_slot_takes_nothing_of_open_ones_with_it() {
    let (mut net, forge) = observer((40, 1, 2), 1, |_| ());
    let clock = *net.nodes[0].horn.clock();
    net.job_ns = Box::new(|_, name| Some(0).filter(|_| name == "prepare"));
    let collection = |net: &Net, slot: u64, sender: u32| {
        let vote = vote(net, slot);
        let evidence = forge.committee_evidence(0, &vote, &[sender], 1);
        forge.encode_collection(&forge.collection(0, forge.member(0, sender), vote, evidence))
    };
    // A job runs, an unverified message of slot 0 waits, then honest ones of slot 1.
    net.run_until(clock.slot_start(Slot(2)).saturating_add_ns(410_000_000));
    let message = collection(&net, 1, 0);
    offer(&mut net, 1, message);
    net.run_until(net.now);
    assert_eq!(net.nodes[0].held.len(), 1);
    let mut old = collection(&net, 0, 1);
    *old.1.last_mut().unwrap() ^= 1;
    let old = offer(&mut net, 2, old);
    let honest: Vec<Token> = (2..12)
        .map(|sender| {
            let message = collection(&net, 1, sender);
            offer(&mut net, 3, message)
        })
        .collect();
    net.run_until(clock.slot_start(Slot(2)).saturating_add_ns(500_000_000));
    net.job_ns = Box::new(|_, _| Some(0));
    net.release(0, &[0]);
    net.run_until(net.now);
    assert_eq!(net.verdict(0, old), Some(Verdict::Ignore));
    assert!(all(&net, &honest, Verdict::Accept));
}

#[test]
fn a_slot_full_of_equivocators_hides_none_of_a_later_one() {
    let (mut net, forge) = observer((1_100, 1, 2), 1, |_| ());
    let clock = *net.nodes[0].horn.clock();
    let genesis = net.nodes[0].horn.head();
    let block = forge.block(Slot(1), genesis, Vec::new());
    offer(&mut net, 1, forge.encode_block(&block));
    net.run_until(net.now);
    let twice = |net: &mut Net, slot: u64, voters: std::ops::Range<u32>| {
        for head in [genesis, block.header.root()] {
            let vote = net.nodes[0].horn.chain().vote(Slot(slot), &head).unwrap();
            for voter in voters.clone() {
                offer(net, 1, forge.vote(Validator(voter), vote));
            }
            net.run_until(net.now);
        }
    };
    twice(&mut net, 1, 0..1_030);
    assert_eq!(net.nodes[0].evidence.len(), 1_024);
    assert_eq!(net.nodes[0].horn.counters().evidence, 1_030);
    net.run_until(clock.phase_start(Slot(2), Phase::Vote));
    twice(&mut net, 2, 0..1);
    assert_eq!(net.nodes[0].evidence.len(), 1_025);
}
