//! What machines do about messages that no honest member sends.

use crate::forge::{Forge, all_serve, overstate, stage};
use crate::net::{Kind, LISTS, Net, PROOFS, STRANGER, SUMS, config, servers};
use alphorn_proto::horn::{Config, Local, Selection};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Aggregate, Entry, Topic, Vote, VoteMsg, no_references};
use alphorn_proto::{Peer, Verdict};
use alphorn_types::{Cell, Epoch, Layout, Slot, Support, Unit, Validator};
use std::collections::BTreeSet;

const CELL: Cell = Cell {
    committee: 0,
    subcommittee: 0,
};

/// A machine that hosts everyone's duties but no votes, at a phase of slot 0; all members of the
/// one committee serve.
fn host(kind: Kind, n: u32, cells: u16, change: impl Fn(&mut Config)) -> (Net, Forge, Vote) {
    let layout = Layout::new(n, 1, cells).unwrap();
    let (mut net, forge) = stage(kind, layout, servers(n), |config| {
        all_serve(config);
        change(config);
    });
    net.run_until(net.nodes[0].horn.clock().phase_start(Slot(0), Phase::Vote));
    let horn = &net.nodes[0].horn;
    let vote = horn.chain().vote(Slot(0), &horn.head()).unwrap();
    (net, forge, vote)
}

/// Offers a message, lets its job run, and returns the verdict.
fn judge(net: &mut Net, (topic, data): (Topic, Vec<u8>)) -> Option<Verdict> {
    net.offer(0, topic, data);
    net.run_until(net.now);
    net.verdict(0, net.last_token())
}

/// The reason of the last report.
fn reason(net: &Net) -> &'static str {
    let (peer, reason) = *net.nodes[0].reports.last().expect("a report");
    assert_eq!(peer, Peer(STRANGER as u64));
    reason
}

fn count(net: &Net, name: &str) -> u64 {
    net.nodes[0]
        .horn
        .counters()
        .rejects()
        .find(|(reason, _)| *reason == name)
        .map_or(0, |r| r.1)
}

/// The machine in slot 1 with a block, and the two votes that are possible then: for the block,
/// and for genesis.
fn forked() -> (Net, Forge, Vote, Vote) {
    let (mut net, forge, _) = host(SUMS, 40, 2, |_| ());
    let genesis = net.nodes[0].horn.head();
    net.run_until(net.nodes[0].horn.clock().phase_start(Slot(1), Phase::Vote));
    let horn = &net.nodes[0].horn;
    let vote = |head| horn.chain().vote(Slot(1), &head).unwrap();
    let (for_block, for_genesis) = (vote(horn.head()), vote(genesis));
    assert_ne!(for_block, for_genesis);
    (net, forge, for_block, for_genesis)
}

#[test]
fn votes_for_different_things_are_never_merged_and_an_equivocator_counts_once() {
    let (mut net, forge, for_block, for_genesis) = forked();
    let voters = forge.assignment.cell_members(CELL);
    for (i, &voter) in voters.iter().enumerate() {
        let vote = if i < 15 { for_block } else { for_genesis };
        assert_eq!(
            judge(&mut net, forge.vote(Validator(voter), vote)),
            Some(Verdict::Accept)
        );
    }
    // Voters 0 and 19 say the other thing too, the first one twice.
    for (voter, vote) in [(0, for_genesis), (19, for_block), (0, for_genesis)] {
        let second = forge.vote(Validator(voters[voter]), vote);
        assert_eq!(judge(&mut net, second), Some(Verdict::Ignore));
    }
    assert_eq!(net.nodes[0].evidence.len(), 2);
    for (first, second) in &net.nodes[0].evidence {
        let [first, second] = [first, second].map(|b| VoteMsg::decode(b, &forge.format).unwrap());
        assert_eq!(first.validator, second.validator);
        assert_ne!(first.vote, second.vote);
    }
    net.run_until(
        net.nodes[0]
            .horn
            .clock()
            .phase_start(Slot(1), Phase::Level(2)),
    );
    let made: BTreeSet<(Vote, Vec<usize>)> = net
        .sent
        .iter()
        .filter(|sent| matches!(sent.topic, Topic::Aggregate { .. }))
        .map(|sent| Aggregate::decode(&sent.data, &forge.format, &no_references).unwrap())
        .map(|made| {
            (
                made.vote,
                made.evidence.support.signers().iter_ones().collect(),
            )
        })
        .collect();
    // Each aggregator sums what equals its own first vote; nobody in the other cell voted.
    let expected = [
        (for_block, (0..15).collect()),
        (for_genesis, (15..20).collect()),
    ];
    assert_eq!(made, expected.into());
}

/// The single votes of a slot are gone once its aggregates are made; who votes again then, or for the
/// first time and again, contradicts itself all the same.
#[test]
fn second_votes_after_the_aggregates_are_made_are_evidence() {
    let (mut net, forge, for_block, for_genesis) = forked();
    let voters = forge.assignment.cell_members(CELL);
    let [in_time, between, late] = [0, 1, 2].map(|i| Validator(voters[i]));
    let clock = *net.nodes[0].horn.clock();
    let first = forge.vote(in_time, for_block);
    assert_eq!(judge(&mut net, first), Some(Verdict::Accept));
    // When the aggregates are made, and when all is decided.
    for (voter, phase) in [(between, Phase::Level(2)), (late, Phase::Decide)] {
        net.run_until(clock.phase_start(Slot(1), phase));
        let first = forge.vote(voter, for_block);
        assert_eq!(judge(&mut net, first), Some(Verdict::Accept));
    }
    for voter in [in_time, between, late] {
        for again in 0..2 {
            let second = forge.vote(voter, for_genesis);
            assert_eq!(judge(&mut net, second), Some(Verdict::Ignore), "{again}");
        }
    }
    let evidence = &net.nodes[0].evidence;
    assert_eq!(evidence.len(), 3, "one pair of each");
    let format = &forge.format;
    for (voter, (first, second)) in [in_time, between, late].into_iter().zip(evidence) {
        let second = VoteMsg::decode(second, format).unwrap();
        assert_eq!((second.validator, second.vote), (voter, for_genesis));
        if voter == in_time {
            let first = Aggregate::decode(first, format, &no_references).unwrap();
            assert_eq!(first.vote, for_block);
            assert!(first.evidence.support.contains(0), "it has the first vote");
        } else {
            let first = VoteMsg::decode(first, format).unwrap();
            assert_eq!((first.validator, first.vote), (voter, for_block));
        }
    }
}

#[test]
fn a_forged_second_vote_is_no_evidence() {
    let (mut net, forge, for_block, for_genesis) = forked();
    let voter = Validator(forge.assignment.cell_members(CELL)[0]);
    assert_eq!(
        judge(&mut net, forge.vote(voter, for_block)),
        Some(Verdict::Accept)
    );
    let mut second = forge.vote(voter, for_genesis);
    *second.1.last_mut().unwrap() ^= 1;
    assert_eq!(judge(&mut net, second), Some(Verdict::Reject));
    assert_eq!(reason(&net), "bad_evidence");
    assert!(net.nodes[0].evidence.is_empty());
    // The same vote with another signature is the same vote.
    let mut again = forge.vote(voter, for_block);
    *again.1.last_mut().unwrap() ^= 1;
    assert_eq!(judge(&mut net, again), Some(Verdict::Ignore));
}

#[test]
fn second_messages_of_those_who_serve_are_evidence_and_go_nowhere() {
    let (mut net, forge, vote) = host(SUMS, 40, 2, |_| ());
    let sender = forge.assignment.cell_members(CELL)[0];
    let aggregate = |positions: &[u32]| {
        let evidence = forge.cell_evidence(CELL, &vote, positions);
        forge.encode(&forge.aggregate(CELL, Validator(sender), vote, evidence))
    };
    let collection = |positions: &[u32]| {
        let evidence = forge.committee_evidence(0, &vote, positions, 1);
        forge.encode(&forge.collection(0, Validator(sender), vote, evidence))
    };
    for make in [
        &aggregate as &dyn Fn(&[u32]) -> (Topic, Vec<u8>),
        &collection,
    ] {
        let before = net.nodes[0].evidence.len();
        assert_eq!(judge(&mut net, make(&[1, 2])), Some(Verdict::Accept));
        assert_eq!(judge(&mut net, make(&[1, 2])), Some(Verdict::Ignore));
        assert_eq!(net.nodes[0].evidence.len(), before);
        assert_eq!(judge(&mut net, make(&[1, 2, 3])), Some(Verdict::Ignore));
        assert_eq!(net.nodes[0].evidence.len(), before + 1);
        assert_eq!(judge(&mut net, make(&[1, 2, 4])), Some(Verdict::Ignore));
        assert_eq!(
            net.nodes[0].evidence.len(),
            before + 1,
            "one pair is enough"
        );
    }
    let view = net.nodes[0].horn.view(Slot(0)).unwrap();
    assert_eq!(
        (view.aggregates_accepted, view.collections_accepted),
        (1, 1)
    );
    // A block of the proposer of slot 1, whose own was accepted.
    let genesis = net.nodes[0].horn.head();
    net.run_until(net.nodes[0].horn.clock().slot_start(Slot(1)));
    assert!(net.nodes[0].horn.view(Slot(1)).unwrap().block.is_some());
    let second = forge.encode_block(&forge.block(Slot(1), genesis, Vec::new()));
    assert_eq!(judge(&mut net, second), Some(Verdict::Ignore));
    assert_eq!(net.nodes[0].evidence.len(), 3);
}

#[test]
fn two_halves_do_not_suppress_the_whole() {
    let (mut net, forge, vote) = host(SUMS, 40, 2, |_| ());
    let mut send = |sender: u32, positions: Vec<u32>| {
        let evidence = forge.committee_evidence(0, &vote, &positions, 1);
        let message = forge.collection(0, forge.member(0, sender), vote, evidence);
        judge(&mut net, forge.encode(&message))
    };
    assert_eq!(send(0, (0..20).collect()), Some(Verdict::Accept));
    assert_eq!(send(1, (20..40).collect()), Some(Verdict::Accept));
    assert_eq!(send(2, (5..15).collect()), Some(Verdict::Ignore));
    assert_eq!(send(3, (0..40).collect()), Some(Verdict::Accept));
    assert_eq!(send(4, (0..40).collect()), Some(Verdict::Ignore));
    assert_eq!(count(&net, "subset"), 2);
}

#[test]
fn a_signer_weighs_once_whatever_its_multiplicity() {
    for times in [1, 3] {
        let (mut net, forge, vote) = host(SUMS, 40, 2, |_| ());
        let evidence = forge.committee_evidence(0, &vote, &(0..30).collect::<Vec<_>>(), times);
        assert_eq!(evidence.support.max_multiplicity(), times);
        let message = forge.collection(0, forge.member(0, 0), vote, evidence);
        assert_eq!(
            judge(&mut net, forge.encode(&message)),
            Some(Verdict::Accept)
        );
        // The same signers once more, counted otherwise, add nothing.
        let other = forge.committee_evidence(0, &vote, &(0..30).collect::<Vec<_>>(), 2);
        let message = forge.collection(0, forge.member(0, 1), vote, other);
        assert_eq!(
            judge(&mut net, forge.encode(&message)),
            Some(Verdict::Ignore)
        );
        assert_eq!(net.nodes[0].horn.view(Slot(0)).unwrap().covered(), 30);
        let tree = net.nodes[0].horn.chain().tree();
        let of_head = tree.iter().find(|block| block.root == vote.head);
        assert_eq!(of_head.unwrap().weight, 30);
        net.run_until(net.nodes[0].horn.clock().phase_start(Slot(1), Phase::Vote));
        let (head, horn) = (net.nodes[0].horn.head(), &net.nodes[0].horn);
        assert_eq!(horn.chain().credited(&head, Slot(0), 0).count_ones(), 30);
        assert_eq!(horn.view(Slot(1)).unwrap().block.unwrap().entries, 1);
    }
}

#[test]
fn a_multiplicity_that_is_not_the_real_one_is_refused() {
    let (mut net, forge, vote) = host(SUMS, 40, 2, |_| ());
    let truth = forge.committee_evidence(0, &vote, &(0..30).collect::<Vec<_>>(), 2);
    for (sender, (position, m)) in (0..).zip([(7, 1), (7, 3), (7, 0), (35, 1)]) {
        let mut declared = [[2u8; 30].as_slice(), &[0; 10]].concat();
        declared[position] = m;
        let support = Support::from_multiplicities(&declared).unwrap();
        let message =
            forge.collection(0, forge.member(0, sender), vote, overstate(&truth, support));
        assert_eq!(
            judge(&mut net, forge.encode(&message)),
            Some(Verdict::Reject)
        );
        assert_eq!(reason(&net), "bad_evidence");
    }
    let message = forge.collection(0, forge.member(0, 5), vote, truth);
    assert_eq!(
        judge(&mut net, forge.encode(&message)),
        Some(Verdict::Accept)
    );
}

#[test]
fn lists_and_proofs_with_a_false_signer_are_refused() {
    for kind in [LISTS, PROOFS] {
        let (mut net, forge, vote) = host(kind, 40, 2, |_| ());
        let truth = forge.cell_evidence(CELL, &vote, &[1, 2, 3]);
        let mut bits = truth.support.signers();
        bits.clear(3);
        bits.set(4);
        let false_one = overstate(&truth, Support::from_bits(bits));
        let [liar, honest] = [0, 1].map(|i| Validator(forge.assignment.cell_members(CELL)[i]));
        let message = forge.aggregate(CELL, liar, vote, false_one);
        assert_eq!(
            judge(&mut net, forge.encode(&message)),
            Some(Verdict::Reject)
        );
        assert_eq!(reason(&net), "bad_evidence");
        let message = forge.aggregate(CELL, honest, vote, truth);
        assert_eq!(
            judge(&mut net, forge.encode(&message)),
            Some(Verdict::Accept)
        );
    }
}

#[test]
fn tickets_of_another_slot_role_epoch_or_validator_do_not_hold() {
    let lottery = |config: &mut Config| config.selection = Selection::Lottery;
    let (mut net, forge, vote) = host(SUMS, 12, 1, lottery);
    let (sender, seed) = (forge.member(0, 0), forge.seed(Epoch(0)));
    let ticket = |validator, seed: &[u8; 32], role, slot| forge.ticket(validator, seed, role, slot);
    let false_tickets = [
        ticket(sender, &seed, 2, Slot(1)),
        ticket(sender, &seed, 1, Slot(0)),
        ticket(sender, &forge.seed(Epoch(1)), 2, Slot(0)),
        ticket(forge.member(0, 1), &seed, 2, Slot(0)),
        Some(vec![0x5a; forge.format.selection_proof_bytes.unwrap()].into()),
    ];
    let evidence = forge.committee_evidence(0, &vote, &[1, 2], 1);
    for proof in false_tickets {
        let mut message = forge.collection(0, sender, vote, evidence.clone());
        message.proof = proof;
        assert_eq!(
            judge(&mut net, forge.encode(&message)),
            Some(Verdict::Reject)
        );
        assert_eq!(reason(&net), "bad_selection");
    }
    let message = forge.collection(0, sender, vote, evidence);
    assert_eq!(
        judge(&mut net, forge.encode(&message)),
        Some(Verdict::Accept)
    );
}

#[test]
fn a_ticket_that_loses_is_refused_at_once() {
    for selection in [Selection::Lottery, Selection::Rank] {
        let (mut net, forge, vote) = host(SUMS, 400, 1, |config| {
            config.selection = selection;
            config.levels[1].publishers = 1;
        });
        let evidence = forge.committee_evidence(0, &vote, &[1], 1);
        let mut serving = 0;
        for position in 0..50 {
            let sender = forge.member(0, position);
            let message = forge.collection(0, sender, vote, evidence.clone());
            let (topic, data) = forge.encode(&message);
            match net.offer(0, topic, data) {
                Some(verdict) => assert_eq!(verdict, Verdict::Reject),
                None => serving += 1,
            }
        }
        assert!(serving < 5, "{serving} of 50 serve");
        assert_eq!(reason(&net), "not_selected");
    }
}

#[test]
fn signatures_of_another_network_do_not_hold() {
    let (mut net, forge, vote) = host(SUMS, 40, 2, |_| ());
    let mut elsewhere = forge.config.clone();
    elsewhere.network_id[0] ^= 1;
    let (_, info) = config(SUMS, elsewhere.layout);
    let foreign = Forge::new(SUMS, &elsewhere, &info, &forge.assignment);
    let (voter, sender) = (
        forge.member(0, 1),
        Validator(forge.assignment.cell_members(CELL)[0]),
    );
    assert_eq!(
        judge(&mut net, foreign.vote(voter, vote)),
        Some(Verdict::Reject)
    );
    assert_eq!(reason(&net), "bad_evidence");
    let evidence = foreign.cell_evidence(CELL, &vote, &[1]);
    let message = foreign.aggregate(CELL, sender, vote, evidence.clone());
    assert_eq!(
        judge(&mut net, forge.encode(&message)),
        Some(Verdict::Reject)
    );
    assert_eq!(reason(&net), "bad_envelope");
    let message = forge.aggregate(CELL, sender, vote, evidence);
    assert_eq!(
        judge(&mut net, forge.encode(&message)),
        Some(Verdict::Reject)
    );
    assert_eq!(reason(&net), "bad_evidence");
    net.run_until(
        net.nodes[0]
            .horn
            .clock()
            .slot_start(Slot(1))
            .saturating_sub_ns(600_000_000),
    );
    let block = foreign.block(Slot(1), net.nodes[0].horn.head(), Vec::new());
    assert_eq!(
        judge(&mut net, forge.encode_block(&block)),
        Some(Verdict::Ignore),
        "too early"
    );
    net.run_until(
        net.nodes[0]
            .horn
            .clock()
            .slot_start(Slot(1))
            .saturating_sub_ns(400_000_000),
    );
    assert_eq!(
        judge(&mut net, forge.encode_block(&block)),
        Some(Verdict::Reject)
    );
    assert_eq!(reason(&net), "bad_envelope");
}

#[test]
fn messages_of_other_slots_are_ignored() {
    let (mut net, forge, vote) = host(SUMS, 40, 2, |_| ());
    let later = Vote {
        slot: Slot(1),
        ..vote
    };
    assert_eq!(
        judge(&mut net, forge.vote(forge.member(0, 1), later)),
        Some(Verdict::Ignore)
    );
    assert_eq!(count(&net, "too_early"), 1);
    let clock = *net.nodes[0].horn.clock();
    let end = clock.slot_start(Slot(2)).saturating_add_ns(500_000_000);
    net.run_until(end.saturating_sub_ns(1));
    assert_eq!(
        judge(&mut net, forge.vote(forge.member(0, 1), vote)),
        Some(Verdict::Accept)
    );
    net.run_until(end);
    assert_eq!(
        judge(&mut net, forge.vote(forge.member(0, 2), vote)),
        Some(Verdict::Ignore)
    );
    assert_eq!(count(&net, "too_old"), 1);
    assert!(net.nodes[0].horn.view(Slot(0)).is_none());
    assert!(net.nodes[0].reports.is_empty());
}

#[test]
fn messages_about_an_unknown_block_wait_for_it() {
    let (net, forge, _) = host(SUMS, 40, 2, |_| ());
    let (horn, clock) = (&net.nodes[0].horn, *net.nodes[0].horn.clock());
    let (genesis, layout) = (horn.head(), *forge.assignment.layout());
    let (config, (_, info)) = (forge.config.clone(), config(SUMS, layout));
    let mut net = Net::new(SUMS, &config, &info, vec![Local::observer(&layout)]);
    net.run_until(clock.phase_start(Slot(1), Phase::Vote));
    let block = forge.block(Slot(1), genesis, Vec::new());
    let mut other = net.nodes[0].horn.chain().vote(Slot(1), &genesis).unwrap();
    other.head = block.header.root();
    other.target.root = other.head;
    let (topic, data) = forge.vote(forge.member(0, 1), other);
    assert_eq!(net.offer(0, topic, data), None);
    let waits = net.last_token();
    assert_eq!(
        judge(&mut net, forge.encode_block(&block)),
        Some(Verdict::Accept)
    );
    assert_eq!(net.verdict(0, waits), Some(Verdict::Accept));
    assert_eq!(net.nodes[0].horn.missing_blocks().count(), 0);
    // A block that never comes.
    other.head = [9; 32];
    other.target.root = other.head;
    for i in 0..41 {
        let (topic, data) = forge.vote(forge.member(0, i % 40), other);
        let again = net.offer(0, topic, data);
        assert_eq!(again, (i == 40).then_some(Verdict::Ignore), "message {i}");
    }
    assert_eq!(count(&net, "duplicate"), 1);
    // Another one, of which two peers speak: it is asked for first, of the first of them.
    let never = other.head;
    other.head = [8; 32];
    other.target.root = other.head;
    for (i, peer) in [(1, 5), (2, 4), (3, 5)] {
        let (topic, data) = forge.vote(forge.member(0, i), other);
        assert_eq!(net.offer_from(peer, 0, topic, data), None);
    }
    let missing: Vec<_> = net.nodes[0].horn.missing_blocks().collect();
    let expected = [
        (other.head, vec![Peer(5), Peer(4)]),
        (never, vec![Peer(STRANGER as u64)]),
    ];
    assert_eq!(missing, expected);
    net.run_until(net.now.saturating_add_ns(2_000_000_000));
    assert_eq!(net.open_verdicts(), 0);
    assert_eq!(net.nodes[0].horn.counters().parked_expired, 43);
    assert_eq!(count(&net, "unknown_block"), 43);
    assert!(net.nodes[0].reports.is_empty());
}

#[test]
fn senders_outside_their_place_are_refused() {
    let (mut net, forge, vote) = host(SUMS, 40, 2, |_| ());
    let (inside, outside) = (forge.member(0, 0), forge.member(0, 39));
    let there = Topic::Vote {
        cell: Cell {
            committee: 0,
            subcommittee: 1,
        },
    };
    let (_, data) = forge.vote(inside, vote);
    assert_eq!(
        judge(&mut net, (there, data.clone())),
        Some(Verdict::Reject)
    );
    assert_eq!(reason(&net), "not_member");
    let nowhere = Topic::Vote {
        cell: Cell {
            committee: 3,
            subcommittee: 9,
        },
    };
    assert_eq!(judge(&mut net, (nowhere, data)), Some(Verdict::Reject));
    assert_eq!(reason(&net), "wrong_topic");
    let evidence = forge.cell_evidence(CELL, &vote, &[1]);
    let message = forge.aggregate(CELL, outside, vote, evidence.clone());
    assert_eq!(
        judge(&mut net, forge.encode(&message)),
        Some(Verdict::Reject)
    );
    assert_eq!(reason(&net), "not_member");
    let empty = overstate(&evidence, Support::new(20));
    let message = forge.aggregate(CELL, inside, vote, empty);
    assert_eq!(
        judge(&mut net, forge.encode(&message)),
        Some(Verdict::Reject)
    );
    assert_eq!(reason(&net), "no_signer");
    let (_, data) = forge.encode(&message);
    let topic = Topic::Aggregate {
        unit: Unit::new(2, 1, 0),
    };
    assert_eq!(judge(&mut net, (topic, data)), Some(Verdict::Reject));
    assert_eq!(reason(&net), "wrong_topic");
    for topic in [Topic::Block, Topic::Collection, topic, there] {
        for data in [Vec::new(), vec![1], vec![0xff; 500], vec![1; 100_000]] {
            assert_eq!(judge(&mut net, (topic, data)), Some(Verdict::Reject));
            assert_eq!(reason(&net), "malformed");
        }
    }
}

#[test]
fn a_vote_that_does_not_fit_its_chain_is_refused() {
    let (mut net, forge, for_block, for_genesis) = forked();
    let voter = forge.member(0, 1);
    for vote in [
        Vote {
            target: for_genesis.target,
            ..for_block
        },
        Vote {
            source: for_block.target,
            ..for_block
        },
    ] {
        assert_eq!(
            judge(&mut net, forge.vote(voter, vote)),
            Some(Verdict::Reject)
        );
        assert_eq!(reason(&net), "inconsistent_vote");
    }
}

#[test]
fn a_post_takes_a_bounded_number_of_messages() {
    let (mut net, forge, vote) = host(SUMS, 40, 2, |config| {
        config.levels[0].taken_max = 2;
        config.levels[1].taken_max = 2;
    });
    let verdicts = [Verdict::Accept, Verdict::Accept, Verdict::Ignore];
    for (i, expected) in (0..).zip(verdicts) {
        let sender = Validator(forge.assignment.cell_members(CELL)[i]);
        let evidence = forge.cell_evidence(CELL, &vote, &[i as u32]);
        let message = forge.aggregate(CELL, sender, vote, evidence);
        assert_eq!(judge(&mut net, forge.encode(&message)), Some(expected));
        let evidence = forge.committee_evidence(0, &vote, &[i as u32], 1);
        let message = forge.collection(0, sender, vote, evidence);
        assert_eq!(judge(&mut net, forge.encode(&message)), Some(expected));
    }
    assert_eq!(count(&net, "full"), 2);
}

#[test]
fn a_flood_of_one_peer_displaces_itself_and_no_honest_message() {
    let (mut net, forge, vote) = host(SUMS, 8, 1, |_| ());
    let voters: Vec<Validator> = (0..8).map(|v| forge.member(0, v)).collect();
    // More forged votes than a cell holds, in one instant, so that none is verified meanwhile.
    for i in 0..300usize {
        let (topic, mut data) = forge.vote(voters[i % 8], vote);
        *data.last_mut().unwrap() ^= 1 + (i / 8) as u8;
        net.offer(0, topic, data);
    }
    let refused = count(&net, "full");
    assert!(refused > 0, "the flood fills the cell");
    // Every honest vote comes after it, each from a peer of its own, and again and again the flood.
    let mut tokens = Vec::new();
    for (i, &voter) in voters.iter().enumerate() {
        let (topic, data) = forge.vote(voter, vote);
        assert_eq!(net.offer_from(STRANGER + 1 + i, 0, topic, data), None);
        tokens.push(net.last_token());
        let (topic, mut data) = forge.vote(voter, vote);
        *data.last_mut().unwrap() ^= 0x80;
        assert_eq!(net.offer(0, topic, data), Some(Verdict::Ignore));
    }
    assert_eq!(
        count(&net, "full"),
        refused + 16,
        "eight gave way, eight found no room"
    );
    net.run_until(net.now);
    for token in tokens {
        assert_eq!(net.verdict(0, token), Some(Verdict::Accept));
    }
    assert_eq!(reason(&net), "bad_evidence");
}

#[test]
fn a_block_is_as_good_as_its_worst_entry() {
    let (mut net, forge, vote) = host(SUMS, 40, 2, |_| ());
    let (config, layout) = (forge.config.clone(), *forge.assignment.layout());
    let (genesis, clock) = (net.nodes[0].horn.head(), *net.nodes[0].horn.clock());
    let (_, info) = crate::net::config(SUMS, layout);
    net = Net::new(SUMS, &config, &info, vec![Local::observer(&layout)]);
    net.run_until(clock.slot_start(Slot(1)));
    let truth = forge.committee_evidence(0, &vote, &(0..30).collect::<Vec<_>>(), 1);
    let entry = |evidence| Entry {
        vote,
        committee: 0,
        evidence,
    };
    let false_one = entry(overstate(&truth, crate::forge::all_ones(40)));
    let mut late = vote;
    late.slot = Slot(1);
    late.target.slot = Slot(1);
    let too_new = Entry {
        vote: late,
        committee: 0,
        evidence: truth.clone(),
    };
    let block = forge.block(Slot(1), genesis, vec![too_new]);
    assert_eq!(
        judge(&mut net, forge.encode_block(&block)),
        Some(Verdict::Reject)
    );
    assert_eq!(reason(&net), "invalid_block");
    let mut block = forge.block(Slot(1), genesis, Vec::new());
    block.header.proposer = Validator(5);
    assert_eq!(
        judge(&mut net, forge.encode_block(&block)),
        Some(Verdict::Reject)
    );
    assert_eq!(reason(&net), "wrong_proposer");
    let block = forge.block(Slot(1), genesis, vec![entry(truth.clone()), false_one]);
    assert_eq!(
        judge(&mut net, forge.encode_block(&block)),
        Some(Verdict::Reject)
    );
    assert_eq!(reason(&net), "bad_evidence");
    // Its proposer is believed no more in that slot.
    net.run_until(clock.slot_start(Slot(2)));
    let block = forge.block(Slot(2), genesis, vec![entry(truth.clone())]);
    assert_eq!(
        judge(&mut net, forge.encode_block(&block)),
        Some(Verdict::Accept)
    );
    assert_eq!(
        net.nodes[0].horn.counters().evidence_cached,
        1,
        "the good entry was known"
    );
    assert_eq!(net.nodes[0].horn.head(), block.header.root());
    // The collection of the same content costs no second verification of its votes.
    let message = forge.collection(0, forge.member(0, 3), vote, truth);
    assert_eq!(
        judge(&mut net, forge.encode(&message)),
        Some(Verdict::Accept)
    );
    assert_eq!(net.nodes[0].horn.counters().evidence_cached, 2);
}
