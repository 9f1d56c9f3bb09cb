//! Balances that differ: what counts is weight, not the number of validators.

use crate::forge::Forge;
use crate::net::{Net, SUMS, config, range, share};
use alphorn_proto::chain::Weights;
use alphorn_proto::horn::{Config, ConfigError, Cover, Horn, Local, Selection};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Aggregate, Block, Topic, Vote, no_references};
use alphorn_types::{Bitfield, Cell, Epoch, Layout, Slot};

const VALIDATORS: u32 = 64;
/// The first validators weigh as much as EIP-7251 allows, all others one increment.
const HEAVY: u32 = 16;

fn weights() -> Weights {
    let weight = |v| if v < HEAVY { 2_048 } else { 1 };
    Weights::new((0..VALIDATORS).map(weight).collect()).unwrap()
}

/// Everybody serves on one machine, and `voters` vote.
fn one_machine(
    voters: Bitfield,
    change: impl Fn(&mut Config),
) -> (Net, Config, alphorn_proto::horn::SchemeInfo) {
    let layout = Layout::new(VALIDATORS, 2, 1).unwrap();
    let (mut config, info) = config(SUMS, layout);
    config.selection = Selection::Rank;
    config.weights = weights();
    change(&mut config);
    let local = Local {
        voters,
        ..share(VALIDATORS, 0, 1)
    };
    let net = Net::new(SUMS, &config, &info, vec![local]);
    (net, config, info)
}

fn run_slots(net: &mut Net, slots: u64) {
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(slots), Phase::Vote));
}

fn finalised(voters: std::ops::Range<u32>, equal: bool) -> Slot {
    let (mut net, ..) = one_machine(range(VALIDATORS, voters), |config| {
        if equal {
            config.weights = Weights::equal(VALIDATORS);
        }
    });
    run_slots(&mut net, 5);
    net.nodes[0].horn.chain().finalised().slot
}

#[test]
fn finality_is_two_thirds_of_the_weight() {
    // A quarter of the validators holds nearly everything.
    assert_eq!(finalised(0..HEAVY, true), Slot(0));
    assert_eq!(finalised(0..HEAVY, false), Slot(3));
    // Three quarters of them hold nearly nothing.
    assert_eq!(finalised(HEAVY..VALIDATORS, true), Slot(3));
    assert_eq!(finalised(HEAVY..VALIDATORS, false), Slot(0));
}

#[test]
fn a_restart_knows_again_what_was_final_before_any_committees_are_drawn() {
    let (mut net, config, info) = one_machine(range(VALIDATORS, 0..HEAVY), |_| ());
    run_slots(&mut net, 5);
    let before = net.nodes[0].horn.chain();
    assert_eq!(before.finalised().slot, Slot(3));
    let local = Local::observer(&config.layout);
    let mut again = Horn::new(config, info, local).unwrap();
    for sent in net.sent.iter().filter(|sent| sent.topic == Topic::Block) {
        again.restore(&sent.data).unwrap();
    }
    assert_eq!(again.chain().justified(), before.justified());
    assert_eq!(again.chain().finalised(), before.finalised());
}

/// Signers of the collection of committee 0 after an honest aggregator offered one of all heavy
/// members, and Eve one of more, light ones, that drops them.
fn collected(equal: bool) -> (Bitfield, Bitfield) {
    let (mut net, config, info) = one_machine(Bitfield::new(VALIDATORS as usize), |config| {
        config.levels[0].publishers = 64;
        config.levels[1].cover = Cover::Best1;
        config.multiplicity_max = 1;
        if equal {
            config.weights = Weights::equal(VALIDATORS);
        }
    });
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(0), Phase::Level(1)));
    let horn = &net.nodes[0].horn;
    let assignment = horn.assignment(Epoch(0)).unwrap().clone();
    let cell = Cell {
        committee: 0,
        subcommittee: 0,
    };
    let forge = Forge::new(SUMS, &config, &info, &assignment);
    let vote = horn.chain().vote(Slot(0), &horn.head()).unwrap();
    let members = assignment.cell_members(cell);
    let (heavy, light): (Vec<u32>, Vec<u32>) =
        (0..members.len() as u32).partition(|&p| members[p as usize] < HEAVY);
    assert!(!heavy.is_empty() && light.len() > heavy.len());
    for (sender, positions) in (0..).zip([&heavy, &light]) {
        let evidence = forge.cell_evidence(cell, &vote, positions);
        let message = forge.aggregate(cell, forge.member(0, sender), vote, evidence);
        let (topic, data) = forge.encode(&message);
        net.offer(0, topic, data);
    }
    net.run_until(clock.slot_start(Slot(1)).saturating_sub_ns(1));
    let mut sent = net.sent.iter();
    let sent = sent.find(|sent| sent.topic == Topic::Collection).unwrap();
    let message = Aggregate::decode(&sent.data, &forge.format, &no_references).unwrap();
    let of = |positions: &[u32]| {
        let mut bits = Bitfield::new(members.len());
        positions.iter().for_each(|&p| bits.set(p as usize));
        bits
    };
    let wanted = if equal { of(&light) } else { of(&heavy) };
    (message.evidence.support.signers(), wanted)
}

#[test]
fn many_light_voters_do_not_buy_out_few_heavy_ones() {
    for equal in [true, false] {
        let (signers, wanted) = collected(equal);
        assert_eq!(signers, wanted, "equal {equal}");
    }
}

/// One heavy member of committee 0 votes, and all light ones of committee 1.
#[test]
fn a_block_includes_the_heaviest_first() {
    let layout = Layout::new(VALIDATORS, 2, 1).unwrap();
    // Who sits where is known after a first run; the committees of slot 0 depend on no vote.
    let (mut net, ..) = one_machine(Bitfield::new(VALIDATORS as usize), |_| ());
    run_slots(&mut net, 0);
    let assignment = net.nodes[0].horn.assignment(Epoch(0)).unwrap().clone();
    let heavy_one = assignment.committee_members(0).iter().find(|v| **v < HEAVY);
    let light = assignment
        .committee_members(1)
        .iter()
        .filter(|v| **v >= HEAVY);
    let mut voters = Bitfield::new(VALIDATORS as usize);
    heavy_one
        .into_iter()
        .chain(light)
        .for_each(|&v| voters.set(v as usize));
    for (equal, committee) in [(true, 1), (false, 0)] {
        let (mut net, config, info) = one_machine(voters.clone(), |config| {
            config.collections_per_block_max = 1;
            if equal {
                config.weights = Weights::equal(VALIDATORS);
            }
        });
        run_slots(&mut net, 1);
        let mut sent = net.sent.iter();
        let block = sent.find(|sent| sent.topic == Topic::Block).unwrap();
        let all = |_: &Vote, c| Some(Bitfield::ones(layout.committee_len(c) as usize));
        let block = Block::decode(&block.data, &config.format(&info), &all).unwrap();
        let entries: Vec<u16> = block.body.entries.iter().map(|e| e.committee).collect();
        assert_eq!(entries, [committee], "equal {equal}");
    }
}

#[test]
fn weights_of_other_validators_and_weights_of_nothing_are_refused() {
    let layout = Layout::new(VALIDATORS, 2, 1).unwrap();
    let (mut config, info) = config(SUMS, layout);
    config.weights = Weights::new(vec![1; 63]).unwrap();
    let error = config.validate(&info).unwrap_err();
    let (value, validators) = (63, VALIDATORS);
    assert_eq!(error, ConfigError::WeightsLength { value, validators });
    config.weights = Weights::new(vec![0; 64]).unwrap();
    assert_eq!(config.validate(&info), Err(ConfigError::NoWeight));
    config.weights = weights();
    assert_eq!(config.validate(&info), Ok(()));
}
