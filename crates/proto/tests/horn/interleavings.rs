//! A forged message must not suppress an honest one, whatever the order in which messages arrive
//! and jobs end.

use crate::forge::{Forge, all_ones, overstate, stage};
use crate::net::{Net, SUMS};
use alphorn_proto::horn::Local;
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Topic, Vote};
use alphorn_proto::{Input, Verdict};
use alphorn_types::{Cell, Layout, Slot};

/// What is done in a run: messages arrive, the instant ends, the oldest job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Message(usize),
    Deadline,
    Finish,
}

/// One observer, in the middle of slot 0, with jobs that end when the test says so.
fn observer() -> (Net, Forge, Vote) {
    let layout = Layout::new(40, 1, 2).unwrap();
    let (mut net, forge) = stage(SUMS, layout, Local::observer(&layout), |_| ());
    net.run_until(
        net.nodes[0]
            .horn
            .clock()
            .phase_start(Slot(0), Phase::Level(2)),
    );
    let horn = &net.nodes[0].horn;
    let vote = horn.chain().vote(Slot(0), &horn.head()).unwrap();
    net.job_ns = Box::new(|_, _| None);
    (net, forge, vote)
}

/// All orders of two arrivals with an end of the instant and the end of a job possible at each
/// point.
fn orders() -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for messages in [[0, 1], [1, 0]] {
        for mask in 0..64u32 {
            let mut steps = Vec::new();
            for (i, message) in messages.into_iter().enumerate() {
                steps.push(Step::Message(message));
                for (bit, step) in [Step::Deadline, Step::Finish, Step::Deadline]
                    .into_iter()
                    .enumerate()
                {
                    if mask >> (3 * i + bit) & 1 == 1 {
                        steps.push(step);
                    }
                }
            }
            all.push(steps);
        }
    }
    all
}

fn play(net: &mut Net, steps: &[Step], messages: &[(Topic, Vec<u8>); 2]) -> [Option<Verdict>; 2] {
    let mut tokens = [None, None];
    let step = |net: &mut Net, step: Step, tokens: &mut [Option<_>; 2]| match step {
        Step::Message(i) => {
            let (topic, data) = &messages[i];
            net.offer(0, *topic, data.clone());
            tokens[i] = Some(net.last_token());
        }
        Step::Deadline => net.handle(0, Input::Deadline),
        Step::Finish => {
            if !net.nodes[0].held.is_empty() {
                let (job, outcome, _) = net.nodes[0].held.remove(0);
                net.handle(0, Input::Finished { job, outcome });
            }
        }
    };
    for &now in steps {
        step(net, now, &mut tokens);
    }
    for _ in 0..4 {
        step(net, Step::Deadline, &mut tokens);
        step(net, Step::Finish, &mut tokens);
    }
    tokens.map(|token| net.verdict(0, token.unwrap()))
}

#[test]
fn forged_collections_suppress_no_honest_one() {
    let (net, forge, vote) = observer();
    let honest_sender = forge.member(0, 0);
    let other = (0..40).map(|p| forge.member(0, p)).collect::<Vec<_>>();
    // Two members who serve: found by trial, the machine tells.
    let serving: Vec<_> = other
        .iter()
        .copied()
        .filter(|&sender| {
            let (mut net, forge, vote) = observer();
            let evidence = forge.committee_evidence(0, &vote, &[1], 1);
            let (topic, data) = forge.encode(&forge.collection(0, sender, vote, evidence));
            net.offer(0, topic, data).is_none()
        })
        .take(2)
        .collect();
    drop((net, honest_sender));
    let truth = forge.committee_evidence(0, &vote, &(0..30).collect::<Vec<_>>(), 1);
    let honest = forge.collection(0, serving[0], vote, truth.clone());
    for forger in serving {
        // All ones without the votes; under the honest sender's name with a bad envelope, under
        // the forger's own with a good one.
        let mut forged = forge.collection(0, forger, vote, overstate(&truth, all_ones(40)));
        if forger == honest.sender {
            forged.envelope = honest.envelope.clone();
        }
        let messages = [forge.encode(&honest), forge.encode(&forged)];
        for steps in orders() {
            let (mut net, ..) = observer();
            let verdicts = play(&mut net, &steps, &messages);
            assert_eq!(
                verdicts,
                [Some(Verdict::Accept), Some(Verdict::Reject)],
                "{steps:?}"
            );
            assert_eq!(net.nodes[0].horn.view(Slot(0)).unwrap().covered(), 30);
            assert!(net.nodes[0].evidence.is_empty());
        }
    }
}

#[test]
fn forged_aggregates_suppress_no_honest_one() {
    let (_, forge, vote) = observer();
    let cell = Cell {
        committee: 0,
        subcommittee: 1,
    };
    let truth = forge.cell_evidence(cell, &vote, &[0, 2, 4]);
    // With a target of 16 of 20, most members serve; take one who does.
    let sender = forge
        .assignment
        .cell_members(cell)
        .iter()
        .map(|&v| alphorn_types::Validator(v))
        .find(|&sender| {
            let (mut net, ..) = observer();
            let (topic, data) = forge.encode(&forge.aggregate(cell, sender, vote, truth.clone()));
            net.offer(0, topic, data).is_none()
        })
        .unwrap();
    let honest = forge.aggregate(cell, sender, vote, truth.clone());
    let mut forged = forge.aggregate(cell, sender, vote, overstate(&truth, all_ones(20)));
    forged.envelope = honest.envelope.clone();
    let messages = [forge.encode(&honest), forge.encode(&forged)];
    for steps in orders() {
        let (mut net, ..) = observer();
        let verdicts = play(&mut net, &steps, &messages);
        assert_eq!(
            verdicts,
            [Some(Verdict::Accept), Some(Verdict::Reject)],
            "{steps:?}"
        );
        assert_eq!(
            net.nodes[0].horn.view(Slot(0)).unwrap().aggregates_accepted,
            1
        );
    }
}

#[test]
fn forged_votes_suppress_no_honest_one() {
    let (_, forge, vote) = observer();
    let voter = forge.member(0, 3);
    let honest = forge.vote(voter, vote);
    let mut forged = honest.clone();
    *forged.1.last_mut().unwrap() ^= 1;
    let messages = [honest, forged];
    for steps in orders() {
        let (mut net, ..) = observer();
        let [honest, forged] = play(&mut net, &steps, &messages);
        assert_eq!(honest, Some(Verdict::Accept), "{steps:?}");
        // After the honest one was accepted nothing is verified any more.
        assert_ne!(forged, Some(Verdict::Accept), "{steps:?}");
        assert_eq!(net.nodes[0].horn.view(Slot(0)).unwrap().votes_accepted, 1);
    }
}

#[test]
fn a_forged_block_suppresses_no_honest_one() {
    let (mut net, forge, _) = observer();
    net.job_ns = Box::new(|_, _| Some(0));
    let clock = *net.nodes[0].horn.clock();
    let genesis = net.nodes[0].horn.head();
    let honest = forge.block(Slot(1), genesis, Vec::new());
    let mut forged = honest.clone();
    forged.signature = vec![9; forged.signature.len()].into();
    let messages = [forge.encode_block(&honest), forge.encode_block(&forged)];
    for steps in orders() {
        let (mut net, ..) = observer();
        net.job_ns = Box::new(|_, _| Some(0));
        net.run_until(clock.slot_start(Slot(1)));
        net.job_ns = Box::new(|_, _| None);
        let [honest, forged] = play(&mut net, &steps, &messages);
        assert_eq!(honest, Some(Verdict::Accept), "{steps:?}");
        assert_ne!(forged, Some(Verdict::Accept), "{steps:?}");
        assert_eq!(
            net.nodes[0].horn.head(),
            forge.block(Slot(1), genesis, Vec::new()).header.root()
        );
    }
}

#[test]
fn of_two_copies_of_a_block_one_is_imported() {
    let (mut net, forge, _) = observer();
    net.job_ns = Box::new(|_, _| Some(0));
    net.run_until(net.nodes[0].horn.clock().slot_start(Slot(1)));
    net.job_ns = Box::new(|_, _| None);
    let genesis = net.nodes[0].horn.head();
    let (topic, data) = forge.encode_block(&forge.block(Slot(1), genesis, Vec::new()));
    let mut tokens = Vec::new();
    for _ in 0..2 {
        net.offer(0, topic, data.clone());
        tokens.push(net.last_token());
    }
    net.handle(0, Input::Deadline);
    assert_eq!(net.nodes[0].held.len(), 1, "one job for both");
    net.release(0, &[0]);
    assert_eq!(net.verdict(0, tokens[0]), Some(Verdict::Accept));
    assert_eq!(net.verdict(0, tokens[1]), Some(Verdict::Ignore));
}
