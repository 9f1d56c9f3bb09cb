//! Whole slots among honest machines.

use crate::net::{Kind, LISTS, LISTS_THEN_PROOF, Net, PROOFS, SUMS, config, range, share};
use alphorn_broadcast::Schedule;
use alphorn_broadcast::rlnc::Subject;
use alphorn_proto::horn::{
    Config, Cover, KIND_BLOCK, KIND_COLLECTION, Local, Publish, Selection, SubsetRule,
};
use alphorn_proto::slot::{Phase, Timing};
use alphorn_proto::wire::{Aggregate, Context, Header, Kind as Message, Topic};
use alphorn_types::{Layout, Slot};

/// Runs `slots` slots of a layout's validators on `machines` machines and checks that each block
/// holds all votes of the slots before it.
fn complete(
    kind: Kind,
    (n, c, s): (u32, u16, u16),
    machines: u32,
    slots: u64,
    change: impl Fn(&mut Config),
) -> Net {
    complete_on(kind, Layout::new(n, c, s).unwrap(), machines, slots, change)
}

/// As [`complete`], on any layout.
pub fn complete_on(
    kind: Kind,
    layout: Layout,
    machines: u32,
    slots: u64,
    change: impl Fn(&mut Config),
) -> Net {
    let n = layout.validators();
    let (mut config, info) = config(kind, layout);
    config.selection = Selection::Rank;
    change(&mut config);
    let locals = (0..machines).map(|i| share(n, i, machines)).collect();
    let mut net = Net::new(kind, &config, &info, locals);
    run(&mut net, layout, slots);
    net
}

fn run(net: &mut Net, layout: Layout, slots: u64) {
    for slot in 0..slots {
        let clock = *net.nodes[0].horn.clock();
        net.run_until(
            clock
                .phase_start(Slot(slot), Phase::Vote)
                .saturating_sub_ns(1),
        );
        for (i, node) in net.nodes.iter().enumerate() {
            let (head, chain) = (node.horn.head(), node.horn.chain());
            assert_eq!(head, net.nodes[0].horn.head(), "machine {i} in slot {slot}");
            assert_eq!(chain.header(&head).unwrap().slot, Slot(slot), "machine {i}");
            for c in 0..layout.committees() {
                for before in slot.saturating_sub(2)..slot {
                    let credited = chain.credited(&head, Slot(before), c).count_ones();
                    let all = layout.committee_len(c) as usize;
                    assert_eq!(credited, all, "machine {i}: committee {c} of slot {before}");
                }
            }
        }
    }
    assert_eq!(net.open_verdicts(), 0);
    assert!(
        net.nodes
            .iter()
            .all(|node| node.evidence.is_empty() && node.reports.is_empty())
    );
}

#[test]
fn every_vote_is_in_the_next_block() {
    let net = complete(SUMS, (200, 2, 4), 5, 4, |_| ());
    assert!(
        net.reject_names().is_subset(&["subset"].into()),
        "{:?}",
        net.reject_names()
    );
    let chain = net.nodes[0].horn.chain();
    assert_eq!(chain.justified().slot, Slot(2));
    assert_eq!(chain.finalised().slot, Slot(1));
    for node in &net.nodes {
        assert_eq!(node.horn.counters().jobs_failed, 0);
        assert!(
            node.horn.counters().evidence_cached > 0,
            "blocks repeat known collections"
        );
    }
}

#[test]
fn every_form_of_evidence_completes() {
    for kind in [SUMS, LISTS, LISTS_THEN_PROOF, PROOFS] {
        for publish in [Publish::All, Publish::Staged] {
            complete(kind, (100, 2, 3), 4, 3, |config| {
                config.levels[1].publish = publish
            });
        }
    }
}

#[test]
fn every_cover_completes() {
    for (cover, m) in [
        (Cover::Best1, 1),
        (Cover::Greedy, 3),
        (Cover::Quorum, 7),
        (Cover::Union, 15),
    ] {
        complete(SUMS, (100, 2, 3), 3, 3, |config| {
            config.levels[1].cover = cover;
            config.multiplicity_max = m;
        });
    }
}

#[test]
fn every_timing_and_epoch_length_completes() {
    let of_two_levels = |(_, timing): &(&str, Timing)| timing.levels() == 2;
    for (_, timing) in Timing::PRESETS.into_iter().filter(of_two_levels) {
        complete(SUMS, (40, 2, 2), 3, 4, |config| config.timing = timing);
    }
    for epoch_slots in [1, 2, 3, 5] {
        complete(SUMS, (40, 2, 2), 3, 12, |config| {
            config.epoch_slots = epoch_slots
        });
    }
}

#[test]
fn supports_that_refer_to_the_chain_complete() {
    complete(SUMS, (120, 2, 2), 3, 6, |config| {
        config.context = Context::Chain;
        config.epoch_slots = 4;
    });
}

#[test]
fn any_number_of_validators_completes() {
    for n in [1, 2, 3, 5, 7, 8, 9] {
        for machines in 1..=n.min(3) {
            complete(SUMS, (n, 2, 4), machines, 4, |_| ());
        }
    }
    for n in [2047, 2048, 2049] {
        complete(SUMS, (n, 4, 8), 2, 2, |_| ());
    }
    complete(SUMS, (5, 32, 64), 1, 3, |config| {
        config.levels[0].publishers = 1
    });
}

#[test]
fn a_lottery_completes_and_its_proofs_are_verified() {
    for trust_own in [true, false] {
        let layout = Layout::new(1200, 2, 4).unwrap();
        let (config, info) = config(SUMS, layout);
        assert_eq!(config.selection, Selection::Lottery);
        let local = |i| Local {
            trust_own,
            ..share(1200, i, 3)
        };
        let mut net = Net::new(SUMS, &config, &info, (0..3).map(local).collect());
        run(&mut net, layout, 3);
        // Not all of a cell of 150 aggregate, but 16 expected.
        let sent = |topic: fn(&Topic) -> bool| net.sent.iter().filter(|s| topic(&s.topic)).count();
        let aggregates = sent(|topic| matches!(topic, Topic::Aggregate { .. }));
        assert!(
            (2 * 8 * 8..2 * 8 * 32).contains(&aggregates),
            "{aggregates} aggregates"
        );
    }
}

#[test]
fn own_messages_that_are_not_trusted_pass_all_checks() {
    let layout = Layout::new(300, 2, 3).unwrap();
    let (mut config, info) = config(SUMS, layout);
    config.selection = Selection::Rank;
    let local = Local {
        trust_own: false,
        ..share(300, 0, 1)
    };
    let mut net = Net::new(SUMS, &config, &info, vec![local]);
    net.run_until(net.nodes[0].horn.clock().phase_start(Slot(1), Phase::Vote));
    let view = net.nodes[0].horn.view(Slot(0)).unwrap();
    assert_eq!(
        (view.votes_seen, view.votes_accepted, view.covered()),
        (300, 300, 300)
    );
    assert_eq!(view.aggregates_accepted, 2 * 3 * 16);
    assert_eq!(
        view.collections_accepted, 2,
        "the others of a committee add no signer"
    );
    assert_eq!(view.collections.len(), 2);
    let block = net.nodes[0].horn.view(Slot(1)).unwrap().block.unwrap();
    assert_eq!(block.entries, 2);
    let counters = net.nodes[0].horn.counters();
    assert_eq!(counters.accepted[Message::Vote as usize], 600);
    assert_eq!(counters.rejects().collect::<Vec<_>>(), [("subset", 30)]);
}

#[test]
fn staged_publishing_sends_one_collection_a_committee() {
    let count = |publish| {
        let net = complete(SUMS, (100, 2, 3), 4, 2, |config| {
            config.levels[1].publish = publish
        });
        net.sent
            .iter()
            .filter(|sent| sent.topic == Topic::Collection)
            .count()
    };
    // Slot 0 has collected, slot 1 has not.
    assert_eq!(count(Publish::Staged), 2);
    assert_eq!(count(Publish::All), 2 * 16);
}

#[test]
fn subset_rule_off_takes_all_collections() {
    let net = complete(SUMS, (60, 1, 2), 2, 2, |config| {
        config.subset_rule = SubsetRule::Off
    });
    assert!(net.reject_names().is_empty());
    assert_eq!(
        net.nodes[0]
            .horn
            .view(Slot(0))
            .unwrap()
            .collections_accepted,
        16
    );
}

#[test]
fn validators_who_do_not_vote_are_not_counted_and_still_serve() {
    let layout = Layout::new(90, 1, 3).unwrap();
    let (mut config, info) = config(SUMS, layout);
    config.selection = Selection::Rank;
    let local = |i| Local {
        voters: range(90, 0..60),
        validators: range(90, 0..90),
        trust_own: i == 0,
    };
    let locals = vec![local(0), Local::observer(&layout)];
    let mut net = Net::new(SUMS, &config, &info, locals);
    net.run_until(net.nodes[0].horn.clock().phase_start(Slot(1), Phase::Vote));
    let head = net.nodes[1].horn.head();
    assert_eq!(
        net.nodes[1]
            .horn
            .chain()
            .credited(&head, Slot(0), 0)
            .count_ones(),
        60
    );
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let run = || {
        complete(SUMS, (100, 2, 3), 4, 4, |config| {
            config.levels[1].publish = Publish::Staged
        })
        .sent
    };
    assert_eq!(run(), run());
}

#[test]
fn a_long_sleep_is_missed_and_not_made_up_for() {
    let mut net = complete(SUMS, (20, 1, 2), 1, 2, |_| ());
    let before = net.sent.len();
    let clock = *net.nodes[0].horn.clock();
    let awake = clock
        .phase_start(Slot(100_000_000), Phase::Level(2))
        .saturating_add_ns(5);
    net.now = awake;
    net.handle(0, alphorn_proto::Input::Deadline);
    assert_eq!(net.sent.len(), before);
    assert!(net.nodes[0].horn.counters().phases_missed > 400_000_000);
    net.run_until(
        clock
            .phase_start(Slot(100_000_002), Phase::Vote)
            .saturating_sub_ns(1),
    );
    let head = net.nodes[0].horn.head();
    let chain = net.nodes[0].horn.chain();
    assert_eq!(chain.credited(&head, Slot(100_000_001), 0).count_ones(), 20);
}

#[test]
fn slow_jobs_delay_duties_but_lose_no_vote() {
    let layout = Layout::new(80, 2, 2).unwrap();
    let (mut config, info) = config(SUMS, layout);
    config.selection = Selection::Rank;
    let locals = (0..3)
        .map(|i| Local {
            trust_own: i != 1,
            ..share(80, i, 3)
        })
        .collect();
    let mut net = Net::new(SUMS, &config, &info, locals);
    let mut calls = 0u64;
    net.job_ns = Box::new(move |_, _| {
        calls += 1;
        Some(calls * 7_919 % 600_000_000)
    });
    run(&mut net, layout, 4);
}

/// The table of duties admits every collection and block that was published, and of each duty so
/// many sources as have it.
#[test]
fn sources_of_broadcasts_are_those_who_publish() {
    let net = complete(SUMS, (80, 2, 2), 3, 4, |config| {
        config.levels[1].publishers = 5
    });
    let horn = &net.nodes[1].horn;
    let sources = horn.sources();
    let scheduled = |kind, slot, source, index| {
        sources.is_scheduled(&Subject {
            kind,
            slot,
            source,
            index,
        })
    };
    let mut seen = [0; 2];
    for sent in &net.sent {
        let (kind, slot, source, index) = match sent.topic {
            Topic::Block => {
                let header = Header::peek(&sent.data, horn.format()).unwrap();
                (KIND_BLOCK, header.slot, header.proposer, 0)
            }
            Topic::Collection => {
                let head = Aggregate::peek(&sent.data, horn.format()).unwrap();
                let committee = u32::from(head.unit.committee);
                (KIND_COLLECTION, head.vote.slot, head.sender, committee)
            }
            _ => continue,
        };
        if slot > Slot(0) {
            seen[usize::from(kind) - 1] += 1;
            assert!(
                scheduled(kind, slot.0, source.0, index),
                "{slot:?} {source:?}"
            );
            assert!(
                !scheduled(3, slot.0, source.0, index),
                "filler is nobody's duty"
            );
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    let count = |kind, slot, index| {
        let all = 0..100;
        all.filter(|source| scheduled(kind, slot, *source, index))
            .count()
    };
    // Slots 1 to 4 are around the present one, which is 3; of the block of genesis nobody is the source.
    for slot in 1..=4 {
        assert_eq!(count(KIND_BLOCK, slot, 0), 1);
        assert_eq!(count(KIND_BLOCK, slot, 1), 0);
        assert_eq!(
            [0, 1, 2].map(|c| count(KIND_COLLECTION, slot, c)),
            [5, 5, 0]
        );
        assert!(sources.key_table(Slot(slot)).is_some());
    }
    for slot in [0, 5, u64::MAX] {
        assert_eq!(count(KIND_BLOCK, slot, 0), 0);
        assert_eq!(count(KIND_COLLECTION, slot, 0), 0);
    }
    assert!(sources.is_same(&horn.sources()));
    // Nobody knows the winners of a lottery before they show their tickets.
    let lottery = complete(SUMS, (80, 2, 2), 3, 2, |config| {
        config.selection = Selection::Lottery;
    });
    let sources = lottery.nodes[0].horn.sources();
    let collections = (0..80).map(|source| Subject {
        kind: KIND_COLLECTION,
        slot: 1,
        source,
        index: 0,
    });
    assert!(
        collections
            .into_iter()
            .all(|one| !sources.is_scheduled(&one))
    );
}
