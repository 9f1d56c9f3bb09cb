//! Any order of messages and jobs: nothing is counted twice, no honest vote is lost.

use crate::net::{Kind, LISTS, LISTS_THEN_PROOF, Net, PROOFS, SUMS, config, share};
use alphorn_proto::horn::{Local, Publish, Selection};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Topic, Vote, VoteMsg};
use alphorn_types::{Layout, Slot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const VALIDATORS: u32 = 24;
const SLOTS: u64 = 3;
const KINDS: [Kind; 4] = [SUMS, LISTS, LISTS_THEN_PROOF, PROOFS];

/// A sequence of numbers that a seed fixes.
fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Machines in a network that delays, repeats and, with a chance in percent, drops messages.
fn network(kind: Kind, seed: u64, staged: bool, drop_percent: u64) -> Net {
    let layout = Layout::new(VALIDATORS, 2, 2).unwrap();
    let (mut config, info) = config(kind, layout);
    config.selection = Selection::Rank;
    config.epoch_slots = 2;
    if staged {
        config.levels[1].publish = Publish::Staged;
    }
    let local = |i| Local {
        trust_own: (seed >> i) & 1 == 0,
        ..share(VALIDATORS, i, 3)
    };
    let mut net = Net::new(kind, &config, &info, (0..3).map(local).collect());
    let mut random = numbers(seed);
    net.route = Box::new(move |_, _, _| {
        if random() % 100 < drop_percent {
            return Vec::new();
        }
        let copies = 1 + random() % 4 / 3;
        (0..copies).map(|_| random() % 1_500_000_000).collect()
    });
    let mut random = numbers(!seed);
    net.job_ns = Box::new(move |_, name| {
        let quick = matches!(name, "assign" | "prepare");
        Some(if quick { 0 } else { random() % 100_000_000 })
    });
    net
}

/// What each validator was heard to vote in each slot.
fn heard(net: &Net) -> BTreeMap<(Slot, u32), BTreeSet<Vote>> {
    let format = net.nodes[0].horn.format();
    let mut heard: BTreeMap<_, BTreeSet<Vote>> = BTreeMap::new();
    for sent in net
        .sent
        .iter()
        .filter(|sent| matches!(sent.topic, Topic::Vote { .. }))
    {
        let message = VoteMsg::decode(&sent.data, format).unwrap();
        let key = (message.vote.slot, message.validator.0);
        heard.entry(key).or_default().insert(message.vote);
    }
    heard
}

/// Everything that was accepted is what somebody said: each signer of a collection cast its vote.
fn assert_sound(net: &Net, slot: Slot) {
    let heard = heard(net);
    for node in &net.nodes {
        let horn = &node.horn;
        let Some(view) = horn.view(slot) else {
            continue;
        };
        let epoch = slot.epoch(horn.config().epoch_slots);
        let assignment = horn.assignment(epoch).unwrap();
        for collection in &view.collections {
            let members = assignment.committee_members(collection.committee);
            assert!(collection.support.max_multiplicity() <= horn.config().multiplicity_max);
            for (position, _) in collection.support.iter() {
                let said = &heard[&(slot, members[position])];
                assert!(said.contains(&collection.vote), "a vote that was not cast");
                assert_eq!(said.len(), 1, "an honest validator said two things");
            }
        }
        assert!(view.covered() <= u64::from(VALIDATORS));
        assert!(node.evidence.is_empty() && node.reports.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn delays_and_repetitions_lose_no_vote(seed: u64, kind in 0usize..4, staged: bool) {
        let mut net = network(KINDS[kind], seed, staged, 0);
        for slot in 0..=SLOTS {
            let clock = *net.nodes[0].horn.clock();
            net.run_until(clock.phase_start(Slot(slot), Phase::Vote).saturating_sub_ns(1));
            for before in 0..slot {
                for node in 0..3 {
                    let votes = net.credited(node, before);
                    prop_assert_eq!(votes, VALIDATORS as usize, "slot {} at {}", before, slot);
                }
                assert_sound(&net, Slot(before));
            }
        }
        prop_assert_eq!(net.open_verdicts(), 0);
    }

    #[test]
    fn losses_never_make_a_vote_count_twice(seed: u64, kind in 0usize..4, drop_percent in 1u64..70) {
        let mut net = network(KINDS[kind], seed, false, drop_percent);
        for slot in 0..=SLOTS {
            let clock = *net.nodes[0].horn.clock();
            net.run_until(clock.phase_start(Slot(slot), Phase::Vote));
            for before in 0..slot {
                assert_sound(&net, Slot(before));
                for node in 0..3 {
                    prop_assert!(net.credited(node, before) <= VALIDATORS as usize);
                }
            }
        }
    }
}
