//! Votes for many things at once do not keep the honest ones out of the fork choice.

use crate::forge::{Forge, all_serve, stage};
use crate::net::{Net, SUMS};
use alphorn_proto::chain::Policy;
use alphorn_proto::horn::Local;
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::Root;
use alphorn_types::{Bitfield, Layout, Slot, Validator};

const N: u32 = 60;

/// Who attacks: 16 of 60, among them the proposer of slot 21.
fn attacks(validator: u32) -> bool {
    validator == 21 || validator >= 45
}

/// A machine with all honest validators at the start of slot 20, all of whom serve and vote.
fn honest(policy: Policy) -> (Net, Forge) {
    let layout = Layout::new(N, 1, 2).unwrap();
    let mut validators = Bitfield::new(N as usize);
    (0..N)
        .filter(|v| !attacks(*v))
        .for_each(|v| validators.set(v as usize));
    let local = Local {
        voters: validators.clone(),
        validators,
        trust_own: true,
    };
    let (mut net, forge) = stage(SUMS, layout, local, |config| {
        all_serve(config);
        config.fork_choice = policy;
    });
    net.run_until(net.nodes[0].horn.clock().slot_start(Slot(20)));
    (net, forge)
}

/// Each attacker publishes a collection of its own vote alone, each for another ancestor.
fn split(net: &mut Net, forge: &Forge) {
    let horn = &net.nodes[0].horn;
    let ancestors: Vec<Root> = horn
        .chain()
        .ancestors(&horn.head())
        .skip(1)
        .map(|(root, _)| root)
        .collect();
    let attackers = (0..N).filter(|v| attacks(*v)).map(Validator);
    for (sender, head) in attackers.zip(ancestors) {
        let vote = net.nodes[0].horn.chain().vote(Slot(20), &head).unwrap();
        let position = forge.assignment.position(sender).unwrap();
        let evidence = forge.committee_evidence(0, &vote, &[position], 1);
        let message = forge.collection(0, sender, vote, evidence);
        let (topic, data) = forge.encode(&message);
        net.offer(0, topic, data);
    }
    net.run_until(net.now);
}

#[test]
fn sixteen_collectors_of_one_vote_each_do_not_take_the_head() {
    Policy::ALL.into_iter().for_each(attacked);
}

fn attacked(policy: Policy) {
    let (mut net, forge) = honest(policy);
    let clock = *net.nodes[0].horn.clock();
    let before = net.nodes[0].horn.chain().finalised().slot;
    assert_eq!(before, Slot(18), "44 of 60 finalise");
    let parent = {
        let horn = &net.nodes[0].horn;
        assert_eq!(horn.chain().header(&horn.head()).unwrap().slot, Slot(20));
        horn.chain().header(&horn.head()).unwrap().parent
    };
    let honest = net.nodes[0].horn.head();
    split(&mut net, &forge);
    net.run_until(clock.slot_start(Slot(21)));
    let tree = net.nodes[0].horn.chain().tree();
    let of_head = tree.iter().find(|block| block.root == honest);
    assert_eq!(of_head.unwrap().weight, 44);
    // The proposer of slot 21 leaves the honest block out.
    let (topic, data) = forge.encode_block(&forge.block(Slot(21), parent, Vec::new()));
    net.offer(0, topic, data);
    net.run_until(clock.phase_start(Slot(21), Phase::Level(2)));
    assert_eq!(net.nodes[0].horn.head(), honest);
    net.run_until(clock.slot_start(Slot(24)));
    let chain = net.nodes[0].horn.chain();
    assert!(chain.is_ancestor(&honest, &net.nodes[0].horn.head()));
    assert_eq!(chain.finalised().slot, Slot(22), "honest voters vote on");
}
