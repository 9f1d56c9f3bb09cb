//! Aggregators that drop honest voters: what a collector's cover loses to them.

use crate::forge::stage;
use crate::net::{SUMS, servers};
use alphorn_proto::horn::{Cover, SubsetRule};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Aggregate, Topic, no_references};
use alphorn_types::{Bitfield, Cell, Layout, Slot};
use std::ops::Range;

const VOTERS: u32 = 64;
/// The first are honest, the rest are Eve's.
const HONEST: u32 = 56;
const CELL: Cell = Cell {
    committee: 0,
    subcommittee: 0,
};

/// What an aggregator says: honest voters, and Eve's.
type Claim = (Range<u32>, Range<u32>);

/// The support of the collection that is published after `claims` arrived, in their order.
fn collect(cover: Cover, m: u8, rule: SubsetRule, claims: &[Claim]) -> Bitfield {
    let layout = Layout::new(VOTERS, 1, 1).unwrap();
    let (mut net, forge) = stage(SUMS, layout, servers(VOTERS), |config| {
        config.levels[0].publishers = 64;
        config.levels[1].cover = cover;
        config.multiplicity_max = m;
        config.subset_rule = rule;
    });
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(0), Phase::Level(1)));
    let horn = &net.nodes[0].horn;
    let vote = horn.chain().vote(Slot(0), &horn.head()).unwrap();
    for (sender, (honest, eve)) in (0..).zip(claims) {
        let positions: Vec<u32> = honest.clone().chain(eve.clone()).collect();
        let evidence = forge.cell_evidence(CELL, &vote, &positions);
        let message = forge.aggregate(CELL, forge.member(0, sender), vote, evidence);
        let (topic, data) = forge.encode(&message);
        // One job for each, so that a rule that depends on the order can show it.
        net.offer(0, topic, data);
        net.run_until(
            clock
                .phase_start(Slot(0), Phase::Level(1))
                .saturating_add_ns(u64::from(sender) + 1),
        );
    }
    net.run_until(clock.slot_start(Slot(1)).saturating_sub_ns(1));
    let sent = net
        .sent
        .iter()
        .find(|sent| sent.topic == Topic::Collection)
        .unwrap();
    let message = Aggregate::decode(&sent.data, &forge.format, &no_references).unwrap();
    let max = message.evidence.support.max_multiplicity();
    assert!(max <= m, "multiplicity {max} of at most {m}");
    message.evidence.support.signers()
}

fn lost(cover: Cover, m: u8, claims: &[Claim]) -> u32 {
    HONEST - collect(cover, m, SubsetRule::Global, claims).count_range(0..HONEST as usize) as u32
}

fn honest(count: usize) -> Vec<Claim> {
    vec![(0..HONEST, HONEST..HONEST); count]
}

/// Eve's voters in `parts` aggregates that all drop the same `victims`.
fn split(parts: u32, victims: u32) -> Vec<Claim> {
    let each = (VOTERS - HONEST) / parts;
    (0..parts)
        .map(|i| (victims..HONEST, HONEST + i * each..HONEST + (i + 1) * each))
        .collect()
}

#[test]
fn the_biggest_aggregate_is_bought_by_private_votes() {
    let claims = [split(1, 7), honest(4)].concat();
    assert_eq!(lost(Cover::Best1, 1, &claims), 7);
    for (cover, m) in [(Cover::Greedy, 3), (Cover::Quorum, 3), (Cover::Union, 15)] {
        assert_eq!(lost(cover, m, &claims), 0, "{cover}");
    }
}

#[test]
fn coverage_is_bought_by_a_split_and_a_quorum_is_not() {
    let claims = [split(4, 1), honest(5)].concat();
    assert_eq!(lost(Cover::Greedy, 3, &claims), 1);
    assert_eq!(lost(Cover::Quorum, 3, &claims), 0);
    assert_eq!(lost(Cover::Union, 15, &claims), 0);
    // A majority of liars wins a quorum of three; only the union loses nothing.
    let claims = [split(4, 1), honest(1)].concat();
    assert_eq!(lost(Cover::Quorum, 3, &claims), 1);
    assert_eq!(lost(Cover::Union, 15, &claims), 0);
}

#[test]
fn the_order_of_arrival_changes_nothing() {
    let claims = [split(4, 1), honest(5)].concat();
    for cover in [Cover::Best1, Cover::Greedy, Cover::Quorum, Cover::Union] {
        let m = if cover == Cover::Best1 { 1 } else { 7 };
        let in_order = lost(cover, m, &claims);
        let reversed: Vec<Claim> = claims.iter().rev().cloned().collect();
        assert_eq!(lost(cover, m, &reversed), in_order, "{cover}");
    }
}

/// The subset rule on the aggregate topic blinds the quorum: one honest aggregate suppresses its
/// witnesses, while those of the griefers survive by their private votes.
#[test]
fn the_subset_rule_among_aggregates_silences_witnesses() {
    let claims = [honest(5), split(4, 1)].concat();
    let loss = |rule| {
        HONEST as usize - collect(Cover::Quorum, 3, rule, &claims).count_range(0..HONEST as usize)
    };
    assert_eq!(loss(SubsetRule::Global), 0);
    assert_eq!(loss(SubsetRule::Off), 0);
    assert_eq!(loss(SubsetRule::Both), 1);
}
