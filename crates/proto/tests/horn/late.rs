//! Jobs that fail, end late, or never ran: every message is answered, and late results are used
//! where they can be.

use crate::forge::Forge;
use crate::net::{LISTS, Net, SUMS, config, range, share};
use alphorn_proto::horn::{Config, Hosted, Local, SchemeInfo, Selection};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::Topic;
use alphorn_types::{Epoch, Layout, Slot, Unit};
use proptest::prelude::*;

fn small(kind: crate::net::Kind) -> (Config, SchemeInfo, Layout) {
    let layout = Layout::new(24, 2, 2).unwrap();
    let (mut config, info) = config(kind, layout);
    config.selection = Selection::Rank;
    (config, info, layout)
}

fn alone(trust_own: bool) -> Local {
    Local {
        trust_own,
        ..share(24, 0, 1)
    }
}

/// One machine whose collections take `ns`, at the vote phase of a slot.
fn slow_collector(ns: u64, slot: u64) -> Net {
    let (config, info, _) = small(SUMS);
    let mut net = Net::new(SUMS, &config, &info, vec![alone(true)]);
    let mut left = 2;
    net.job_ns = Box::new(move |_, name| {
        // Those of slot 0 alone: one job for each of two committees.
        let slow = name == "collect" && left > 0;
        left -= i32::from(slow);
        Some(if slow { ns } else { 0 })
    });
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(slot), Phase::Vote));
    net
}

#[test]
fn a_collection_of_the_previous_slot_is_still_published() {
    let net = slow_collector(20_000_000_000, 2);
    // It was made in slot 1, too late for that slot's block.
    assert_eq!(
        net.nodes[0].horn.counters().salvaged,
        2,
        "one of each committee adds votes"
    );
    assert_eq!(net.credited(0, 0), 24);
    assert_eq!(net.credited(0, 1), 24);
}

#[test]
fn a_collection_that_gossip_takes_no_more_goes_into_an_own_block() {
    let net = slow_collector(70_000_000_000, 4);
    let sent = net
        .sent
        .iter()
        .filter(|sent| sent.topic == Topic::Collection);
    assert!(sent.count() > 0);
    assert_eq!(net.nodes[0].horn.counters().salvaged, 2);
    assert_eq!(net.credited(0, 0), 24);
}

/// A proposer shows one half of the network one block, the other half another.
#[test]
fn two_blocks_of_a_proposer_do_not_split_the_network() {
    let (config, info, layout) = small(SUMS);
    let mut net = Net::new(
        SUMS,
        &config,
        &info,
        vec![alone(true), Local::observer(&layout)],
    );
    net.fetch = true;
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.slot_start(Slot(1)).saturating_sub_ns(1));
    let genesis = net.nodes[1].horn.head();
    let forge = Forge::new(
        SUMS,
        &config,
        &info,
        net.nodes[1].horn.assignment(Epoch(0)).unwrap(),
    );
    // Before the other machine proposes its own.
    let (topic, data) = forge.encode_block(&forge.block(Slot(1), genesis, Vec::new()));
    net.offer(1, topic, data);
    net.run_until(clock.phase_start(Slot(1), Phase::Vote));
    assert_eq!(net.nodes[1].evidence.len(), 1);
    assert_eq!(
        net.nodes[1]
            .horn
            .view(Slot(1))
            .unwrap()
            .block
            .unwrap()
            .entries,
        0
    );
    net.run_until(clock.phase_start(Slot(2), Phase::Vote));
    assert_eq!(net.nodes[1].horn.head(), net.nodes[0].horn.head());
    assert_eq!(net.credited(0, 1), 24);
    assert!(net.nodes[1].reports.is_empty());
}

#[test]
fn topics_are_those_of_the_local_cells() {
    let (config, info, layout) = small(SUMS);
    let local = Local {
        validators: range(24, 3..4),
        voters: range(24, 3..4),
        trust_own: true,
    };
    let mut net = Net::new(SUMS, &config, &info, vec![local, Local::observer(&layout)]);
    assert!(net.nodes[0].horn.topics(Epoch(0)).is_none());
    net.run_until(net.nodes[0].horn.clock().slot_start(Slot(0)));
    let cell = net.nodes[0]
        .horn
        .assignment(Epoch(0))
        .unwrap()
        .cell_of(alphorn_types::Validator(3));
    let cell = cell.unwrap();
    let aggregate = Topic::Aggregate {
        unit: Unit::new(2, cell.committee, 0),
    };
    let expected = [
        Topic::Block,
        Topic::Collection,
        aggregate,
        Topic::Vote { cell },
    ];
    assert_eq!(net.nodes[0].horn.topics(Epoch(0)).unwrap(), expected.into());
    assert_eq!(net.nodes[1].horn.topics(Epoch(0)).unwrap().len(), 2);
    let bytes = |local: &Local| config.held_max(&info, &Hosted::from(local)).kept();
    assert!(bytes(&Local::observer(&layout)) < bytes(&alone(true)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Some jobs end in each way that is no result. Nothing stalls: all messages are answered, and
    /// once jobs work again so does the network.
    #[test]
    fn jobs_without_a_result_stall_nothing(seed: u64, percent in 1u64..60, lists: bool) {
        let kind = if lists { LISTS } else { SUMS };
        let (config, info, _) = small(kind);
        let local = |i| Local { trust_own: i != 0, ..share(24, i, 3) };
        let mut net = Net::new(kind, &config, &info, (0..3).map(local).collect());
        net.fetch = true;
        let mut state = seed;
        net.fate = Box::new(move |now, outcome| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let fails = (state >> 33) % 100 < percent && now.as_nanos() < 60_000_000_000;
            crate::net::spoil(outcome, fails.then_some(state >> 50))
        });
        let clock = *net.nodes[0].horn.clock();
        net.run_until(clock.phase_start(Slot(7), Phase::Vote));
        prop_assert_eq!(net.open_verdicts(), 0);
        let head = net.nodes[0].horn.head();
        for node in &net.nodes {
            let votes: usize =
                (0..2).map(|c| node.horn.chain().credited(&head, Slot(6), c).count_ones()).sum();
            prop_assert_eq!(votes, 24);
        }
    }

    /// Any change of a good message is refused or ignored, or has no effect at all.
    #[test]
    fn changed_messages_are_never_accepted(which in 0usize..4, place: usize, bit in 0u8..8, cut: bool) {
        let (config, info, layout) = small(SUMS);
        let mut net = Net::new(SUMS, &config, &info, vec![alone(true), Local::observer(&layout)]);
        net.route = Box::new(|_, _, _| Vec::new());
        let clock = *net.nodes[0].horn.clock();
        net.run_until(clock.slot_start(Slot(1)));
        let kind = alphorn_proto::wire::Kind::ALL[which];
        let good = net.sent.iter().find(|sent| sent.topic.kind() == kind).unwrap().clone();
        let mut data = good.data.to_vec();
        let place = place % data.len();
        if cut {
            data.truncate(place);
        } else {
            data[place] ^= 1 << bit;
        }
        net.offer(1, good.topic, data);
        let token = net.last_token();
        net.run_until(net.now.saturating_add_ns(3_000_000_000));
        let verdict = net.verdict(1, token);
        prop_assert!(verdict.is_some() && verdict != Some(alphorn_proto::Verdict::Accept), "{:?}", verdict);
        net.offer(1, good.topic, good.data);
        net.run_until(net.now);
        prop_assert_eq!(net.verdict(1, net.last_token()), Some(alphorn_proto::Verdict::Accept));
    }

    /// Bytes that nobody meant are refused on every topic.
    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>, kind in 1u8..6, which in 0usize..4) {
        let (config, info, layout) = small(SUMS);
        let mut net = Net::new(SUMS, &config, &info, vec![Local::observer(&layout)]);
        net.run_until(net.nodes[0].horn.clock().slot_start(Slot(0)));
        let cell = alphorn_types::Cell::default();
        let topics =
            [Topic::Block, Topic::Collection, Topic::Aggregate { unit: Unit::new(2, 0, 0) }, Topic::Vote { cell }];
        let data = [&[1, kind], bytes.as_slice()].concat();
        net.offer(0, topics[which], data);
        net.run_until(net.now.saturating_add_ns(3_000_000_000));
        let verdict = net.verdict(0, net.last_token());
        prop_assert!(verdict.is_some() && verdict != Some(alphorn_proto::Verdict::Accept));
    }
}

#[test]
fn a_machine_that_was_cut_off_fills_the_gap() {
    let (config, info, _) = small(SUMS);
    let locals = vec![alone(true), Local::observer(&config.layout)];
    let mut net = Net::new(SUMS, &config, &info, locals);
    net.fetch = true;
    let clock = *net.nodes[0].horn.clock();
    net.route = Box::new(|_, _, _| Vec::new());
    net.run_until(clock.phase_start(Slot(6), Phase::Vote));
    let genesis = net.nodes[1].horn.head();
    assert_ne!(genesis, net.nodes[0].horn.head());
    net.route = Box::new(|_, _, _| vec![1_000_000]);
    net.run_until(clock.phase_start(Slot(7), Phase::Vote));
    assert_eq!(net.nodes[1].horn.head(), net.nodes[0].horn.head());
    let finalised = net.nodes[1].horn.chain().finalised();
    assert_eq!(finalised, net.nodes[0].horn.chain().finalised());
    assert_eq!(finalised.slot, Slot(5));
    assert_eq!(net.open_verdicts(), 0);
}
