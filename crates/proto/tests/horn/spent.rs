//! What one member can make a machine verify again and again, and what goes lost where committees change.

use crate::forge::{Forge, all_ones, all_serve, overstate, stage};
use crate::net::{Net, SUMS, servers};
use alphorn_proto::Verdict;
use alphorn_proto::horn::{Config, Local};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Aggregate, Entry, Root, Topic, Vote};
use alphorn_scheme::{BRANCH_EPOCH, Evidence};
use alphorn_types::{Bitfield, Cell, Epoch, Layout, Slot, Validator};
use std::cell::Cell as Count;
use std::rc::Rc;
use std::sync::Arc;

const N: u32 = 40;
const CELL: Cell = Cell {
    committee: 0,
    subcommittee: 0,
};

/// A machine in slot 0 where everybody serves; it hosts nobody, or all but the votes.
fn machine(hosts: bool, change: impl Fn(&mut Config)) -> (Net, Forge) {
    let layout = Layout::new(N, 1, 2).unwrap();
    let local = match hosts {
        true => servers(N),
        false => Local::observer(&layout),
    };
    stage(SUMS, layout, local, |config| {
        all_serve(config);
        change(config);
    })
}

/// How often evidence of collections is verified from now on.
fn verifications(net: &mut Net) -> Rc<Count<usize>> {
    let verified = Rc::new(Count::new(0));
    let count = verified.clone();
    net.job_ns = Box::new(move |_, name| {
        count.set(count.get() + usize::from(name == "verify_collections"));
        Some(0)
    });
    verified
}

fn judge(net: &mut Net, (topic, data): (Topic, Vec<u8>)) -> Option<Verdict> {
    net.offer(0, topic, data);
    net.run_until(net.now);
    net.verdict(0, net.last_token())
}

fn rejected(net: &Net, name: &str) -> u64 {
    let mut rejects = net.nodes[0].horn.counters().rejects();
    rejects
        .find(|(reason, _)| *reason == name)
        .map_or(0, |of| of.1)
}

/// Blocks of a slot whose messages are no longer taken fill gaps; the slot's proposer has no more
/// tries there than in one whose messages are.
#[test]
fn a_proposer_is_judged_alike_when_its_slot_is_over() {
    let (mut net, forge) = machine(false, |_| ());
    let (clock, genesis) = (*net.nodes[0].horn.clock(), net.nodes[0].horn.head());
    net.run_until(clock.phase_start(Slot(6), Phase::Vote));
    let verified = verifications(&mut net);
    // The votes of a slot before the block's, of the first ones of the committee.
    let block = |net: &Net, slot, voters: u32, claimed: Option<u32>| {
        let chain = net.nodes[0].horn.chain();
        let vote = chain.vote(Slot(1), &genesis).unwrap();
        let truth = forge.committee_evidence(0, &vote, &(0..voters).collect::<Vec<_>>(), 1);
        let evidence = claimed.map_or(truth.clone(), |claimed| {
            let mut bits = Bitfield::new(N as usize);
            (0..claimed).for_each(|at| bits.set(at as usize));
            overstate(&truth, alphorn_types::Support::from_bits(bits))
        });
        let (committee, entry) = (0, evidence);
        let entry = Entry {
            vote,
            committee,
            evidence: entry,
        };
        forge.encode_block(&forge.block(Slot(slot), genesis, vec![entry]))
    };
    for claimed in 20..25 {
        let false_one = block(&net, 2, 10, Some(claimed));
        let expected = match claimed {
            20 => Verdict::Reject,
            _ => Verdict::Ignore,
        };
        assert_eq!(judge(&mut net, false_one), Some(expected), "{claimed}");
    }
    assert_eq!(verified.get(), 1, "false evidence is verified once");
    let contradictions = [
        (10, Verdict::Accept),
        (11, Verdict::Ignore),
        (12, Verdict::Ignore),
        (13, Verdict::Ignore),
    ];
    for (voters, expected) in contradictions {
        let another = block(&net, 3, voters, None);
        assert_eq!(judge(&mut net, another), Some(expected), "{voters}");
    }
    assert_eq!(verified.get(), 3, "the first, and one that contradicts it");
    assert_eq!(net.nodes[0].evidence.len(), 1);
    // What was known when the slot was over is known afterwards.
    for (voters, verifications) in [(14, 4), (15, 5), (16, 5)] {
        let another = block(&net, 6, voters, None);
        judge(&mut net, another);
        assert_eq!(verified.get(), verifications, "{voters}");
        net.run_until(clock.slot_start(Slot(10 + u64::from(voters))));
    }
    assert_eq!(net.nodes[0].evidence.len(), 2);
}

/// Any peer can send a vote for any block that nobody signed. It does not have another false block of a
/// proposer verified; those that many peers speak of are, so that no proposer cuts a machine off.
#[test]
fn a_garbage_vote_has_no_false_block_verified() {
    let (mut net, forge) = machine(false, |_| ());
    let (clock, genesis) = (*net.nodes[0].horn.clock(), net.nodes[0].horn.head());
    net.run_until(clock.phase_start(Slot(2), Phase::Vote));
    let verified = verifications(&mut net);
    let before = net.nodes[0].horn.chain().vote(Slot(1), &genesis).unwrap();
    let truth = forge.committee_evidence(0, &before, &[0, 1], 1);
    let block = |evidence: Evidence| {
        let entry = Entry {
            vote: before,
            committee: 0,
            evidence,
        };
        forge.block(Slot(2), genesis, vec![entry])
    };
    let speak = |net: &mut Net, peer: usize, voter: u32, head: Root| {
        let mut vote = net.nodes[0].horn.chain().vote(Slot(2), &genesis).unwrap();
        (vote.head, vote.target.root) = (head, head);
        let (topic, mut data) = forge.vote(Validator(voter), vote);
        *data.last_mut().unwrap() ^= 1;
        assert_eq!(net.offer_from(peer, 0, topic, data), None, "it waits");
    };
    for number in 0..20 {
        let signers = Bitfield::ones(3 + number as usize);
        let mut support = Bitfield::new(N as usize);
        signers.iter_ones().for_each(|at| support.set(at));
        let false_one = block(overstate(
            &truth,
            alphorn_types::Support::from_bits(support),
        ));
        speak(&mut net, 1, number, false_one.header.root());
        judge(&mut net, forge.encode_block(&false_one));
    }
    assert!(verified.get() <= 4, "{} false blocks", verified.get());
    let true_one = block(truth);
    let data = forge.encode_block(&true_one);
    speak(&mut net, 1, 20, true_one.header.root());
    assert_eq!(judge(&mut net, data.clone()), Some(Verdict::Ignore));
    speak(&mut net, 2, 20, true_one.header.root());
    assert_eq!(judge(&mut net, data), Some(Verdict::Accept));
}

/// The votes that are possible in slot 2: for the last block, for the one before it, for genesis.
fn three_votes(net: &mut Net) -> [Vote; 3] {
    let genesis = net.nodes[0].horn.head();
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(1), Phase::Vote));
    let before = net.nodes[0].horn.head();
    net.run_until(clock.phase_start(Slot(2), Phase::Vote));
    let horn = &net.nodes[0].horn;
    let vote = |head: Root| horn.chain().vote(Slot(2), &head).unwrap();
    [vote(horn.head()), vote(before), vote(genesis)]
}

#[test]
fn evidence_for_a_vote_that_does_not_count_is_verified_once_at_most() {
    let (mut net, forge) = machine(true, |config| config.vote_data_per_slot_max = 1);
    let [_, heavy, light] = three_votes(&mut net);
    let verified = verifications(&mut net);
    let message = |sender: u32, vote, voters: std::ops::Range<u32>| {
        let positions: Vec<u32> = voters.collect();
        let evidence: Evidence = forge.committee_evidence(0, &vote, &positions, 1);
        let sender: Validator = forge.member(0, sender);
        forge.encode(&forge.collection(0, sender, vote, evidence))
    };
    // Both are verified together; the vote of many counts then, beside the own one.
    let (topic, data) = message(1, heavy, 0..30);
    net.offer(0, topic, data);
    let honest = net.last_token();
    assert_eq!(
        judge(&mut net, message(2, light, 0..2)),
        Some(Verdict::Ignore)
    );
    assert_eq!(net.verdict(0, honest), Some(Verdict::Accept));
    assert_eq!((verified.get(), rejected(&net, "full")), (1, 1));
    let spawned = net.nodes[0].horn.counters().jobs_spawned;
    for claimed in 3..10 {
        // Of the same sender, and of one that nobody knows yet.
        for sender in [2, claimed] {
            let another = message(sender, light, 0..claimed);
            assert_eq!(judge(&mut net, another), Some(Verdict::Ignore));
        }
    }
    // Nor if it claims the most that there can be.
    let truth = forge.committee_evidence(0, &light, &[0], 1);
    let most = overstate(&truth, all_ones(N));
    let most = forge.encode(&forge.collection(0, forge.member(0, 2), light, most));
    assert_eq!(judge(&mut net, most), Some(Verdict::Ignore));
    assert_eq!(net.nodes[0].horn.counters().jobs_spawned, spawned);
    // A vote of more than the other one's voters still takes its place.
    assert_eq!(
        judge(&mut net, message(20, light, 0..35)),
        Some(Verdict::Accept)
    );
}

/// A machine whose head goes over to a branch with other committees while aggregates of the next slot
/// are there already, which were made by those in force.
#[test]
fn aggregates_that_came_before_the_committees_changed_are_judged_by_theirs() {
    let (mut net, forge) = machine(false, |config| config.epoch_slots = 2);
    let clock = *net.nodes[0].horn.clock();
    let grow = |net: &mut Net, slot, parent, entries| {
        let block = forge.block(Slot(slot), parent, entries);
        let data = forge.encode_block(&block);
        assert_eq!(judge(net, data), Some(Verdict::Accept), "{slot}");
        block.header.root()
    };
    let genesis = net.nodes[0].horn.head();
    net.run_until(clock.slot_start(Slot(2)));
    let before = grow(&mut net, 2, genesis, Vec::new());
    net.run_until(clock.slot_start(Slot(8)));
    let by = net.nodes[0].horn.assignment(Epoch(4)).unwrap().clone();
    let by = Forge::new(
        SUMS,
        &forge.config,
        &crate::net::config(SUMS, forge.config.layout).1,
        &by,
    );
    let branch = grow(&mut net, 3, genesis, Vec::new());
    let entry = entry_of(&net, &forge, Slot(7), branch);
    let head = grow(&mut net, 8, branch, vec![entry]);
    net.run_until(clock.slot_start(Slot(9)).saturating_sub_ns(100_000_000));
    assert_eq!(net.nodes[0].horn.head(), head);
    let vote = net.nodes[0].horn.chain().vote(Slot(9), &before).unwrap();
    net.job_ns = Box::new(|_, name| (!name.contains("verify")).then_some(0));
    let mut tokens = Vec::new();
    for sender in 0..2u32 {
        let message: Aggregate = by.aggregate(
            CELL,
            by.member(0, sender),
            vote,
            by.cell_evidence(CELL, &vote, &[sender]),
        );
        let (topic, data) = by.encode(&message);
        net.offer(0, topic, data);
        tokens.push(net.last_token());
        net.run_until(net.now.saturating_add_ns(1));
    }
    assert_eq!(net.nodes[0].held.len(), 1, "the second one waits");
    net.run_until(clock.phase_start(Slot(9), Phase::Vote));
    let in_force = net.nodes[0].horn.assignment(Epoch(4)).unwrap();
    assert!(in_force.epoch() >= BRANCH_EPOCH, "the head went over");
    net.job_ns = Box::new(|_, _| Some(0));
    net.release(0, &[0]);
    net.run_until(clock.slot_start(Slot(12)));
    assert_eq!(net.open_verdicts(), 0);
    for token in tokens {
        assert_eq!(net.verdict(0, token), Some(Verdict::Accept));
    }
    assert!(net.nodes[0].reports.is_empty());
}

/// Votes of most for a block, by the committees of its branch.
fn entry_of(net: &Net, forge: &Forge, slot: Slot, root: Root) -> Entry {
    let chain = net.nodes[0].horn.chain();
    let epoch = slot.epoch(forge.config.epoch_slots);
    let (vote, mix) = (
        chain.vote(slot, &root).unwrap(),
        chain.mix(epoch, &root).unwrap(),
    );
    let layout = forge.config.layout;
    let drawn = alphorn_proto::horn::committee::assignment(epoch, &mix, layout);
    let (_, info) = crate::net::config(SUMS, layout);
    let forge = Forge::new(SUMS, &forge.config, &info, &Arc::new(drawn));
    let evidence = forge.committee_evidence(0, &vote, &(0..30).collect::<Vec<_>>(), 1);
    Entry {
        vote,
        committee: 0,
        evidence,
    }
}
