//! Blocks of branches with other committees: who has committees drawn, and who loses them.

use crate::forge::{Forge, stage};
use crate::net::{Net, SUMS, config};
use alphorn_proto::horn::committee::assignment;
use alphorn_proto::horn::{Config, Local, SchemeInfo, Selection};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Entry, HEADER_BYTES, Header, Root, Topic};
use alphorn_proto::{Token, Verdict};
use alphorn_scheme::{BRANCH_EPOCH, BRANCHES_MAX};
use alphorn_types::{Assignment, Epoch, Layout, Slot, Validator};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const EPOCH_SLOTS: u64 = 2;
/// The machine's branch has a block in each slot up to this one. What stands on one of at least two
/// epochs ago has committees of its own.
const GROWN: u64 = 11;
const NOW: u64 = 14;
/// The blocks on which committees are other ones, each time.
const OLD: std::ops::RangeInclusive<usize> = 1..=7;
const HONEST: usize = 8;

/// A machine that hosts nobody, whose chain has no votes.
struct World {
    net: Net,
    config: Config,
    info: SchemeInfo,
    /// Of the blocks of its branch, by slot.
    roots: Vec<Root>,
    /// How often committees were drawn.
    drawn: Rc<Cell<usize>>,
}

impl World {
    fn new() -> Self {
        let layout = Layout::new(40, 1, 2).unwrap();
        let (mut config, info) = config(SUMS, layout);
        config.selection = Selection::Rank;
        config.epoch_slots = EPOCH_SLOTS;
        let mut net = Net::new(SUMS, &config, &info, vec![Local::observer(&layout)]);
        let clock = *net.nodes[0].horn.clock();
        net.run_until(clock.slot_start(Slot(0)));
        let assignment = net.nodes[0].horn.assignment(Epoch(0)).unwrap();
        let forge = Forge::new(SUMS, &config, &info, assignment);
        let mut roots = vec![net.nodes[0].horn.head()];
        for slot in 1..=GROWN {
            net.run_until(clock.slot_start(Slot(slot)));
            let block = forge.block(Slot(slot), roots[roots.len() - 1], Vec::new());
            let (topic, data) = forge.encode_block(&block);
            net.offer(0, topic, data);
            net.run_until(net.now);
            roots.push(block.header.root());
        }
        net.run_until(clock.phase_start(Slot(NOW), Phase::Vote));
        assert_eq!(net.nodes[0].horn.head(), roots[roots.len() - 1]);
        let drawn = Rc::new(Cell::new(0));
        let count = drawn.clone();
        net.job_ns = Box::new(move |_, name| {
            count.set(count.get() + usize::from(name == "assign"));
            Some(match name {
                "assign" => 100_000_000,
                "prepare" => 500_000_000,
                _ => 0,
            })
        });
        World {
            net,
            config,
            info,
            roots,
            drawn,
        }
    }

    /// A block that stands on another one of the branch, with votes of the slot before it by the
    /// committees of that branch.
    fn block(&self, slot: u64, parent: usize) -> (Topic, Vec<u8>) {
        let before = Slot(slot - 1);
        let epoch = before.epoch(EPOCH_SLOTS);
        let (chain, root) = (self.net.nodes[0].horn.chain(), self.roots[parent]);
        let vote = chain.vote(before, &root).unwrap();
        let mix = chain.mix(epoch, &root).unwrap();
        let assignment = Arc::new(assignment(epoch, &mix, self.config.layout));
        let forge = Forge::new(SUMS, &self.config, &self.info, &assignment);
        let evidence = forge.committee_evidence(0, &vote, &[1, 2], 1);
        let entry = Entry {
            vote,
            committee: 0,
            evidence,
        };
        forge.encode_block(&forge.block(Slot(slot), root, vec![entry]))
    }

    /// The same with a signature that is none.
    fn unsigned(&self, slot: u64, parent: usize) -> (Topic, Vec<u8>) {
        let (topic, mut data) = self.block(slot, parent);
        // After version, kind and header.
        data[2 + HEADER_BYTES] ^= 1;
        (topic, data)
    }

    /// A block that stands on another one, under no signature: whoever has it waits for that one.
    fn child(&self, parent: &[u8]) -> (Topic, Vec<u8>) {
        let horn = &self.net.nodes[0].horn;
        let root = Header::peek(parent, horn.format()).unwrap().root();
        let assignment = Arc::new(assignment(Epoch(0), &[0; 32], self.config.layout));
        let forge = Forge::new(SUMS, &self.config, &self.info, &assignment);
        let (topic, mut data) = forge.encode_block(&forge.block(Slot(NOW), root, Vec::new()));
        data[2 + HEADER_BYTES] ^= 1;
        (topic, data)
    }

    fn offer(&mut self, peer: usize, (topic, data): (Topic, Vec<u8>)) -> Token {
        self.net.offer_from(peer, 0, topic, data);
        let token = self.net.last_token();
        self.net.run_until(self.net.now);
        token
    }

    fn verdict(&mut self, token: Token, after_ms: u64) -> Option<Verdict> {
        let end = self.net.now.saturating_add_ns(after_ms * 1_000_000);
        self.net.run_until(end);
        self.net.verdict(0, token)
    }
}

#[test]
fn a_block_of_a_branch_is_verified_by_its_committees() {
    let mut world = World::new();
    let block = world.block(NOW, HONEST);
    let token = world.offer(1, block);
    assert_eq!((world.verdict(token, 599), world.drawn.get()), (None, 1));
    assert_eq!(world.verdict(token, 1), Some(Verdict::Accept));
}

#[test]
fn a_block_that_nobody_signed_has_no_committees_drawn() {
    let mut world = World::new();
    for parent in OLD {
        let forged = world.unsigned(NOW, parent);
        let token = world.offer(9, forged);
        assert_eq!(world.verdict(token, 0), Some(Verdict::Reject));
    }
    assert_eq!(world.drawn.get(), 0);
    let reports = &world.net.nodes[0].reports;
    assert!(reports.iter().all(|(_, reason)| *reason == "bad_envelope"));
    assert_eq!(reports.len(), OLD.count());
}

#[test]
fn forged_blocks_take_no_committees_from_an_honest_one() {
    let mut world = World::new();
    let block = world.block(NOW, HONEST);
    let honest = world.offer(1, block);
    for parent in OLD {
        let forged = world.unsigned(NOW, parent);
        world.offer(9, forged);
    }
    assert_eq!(world.verdict(honest, 1_000), Some(Verdict::Accept));
}

/// A proposer that signs many blocks has the committees of one branch drawn at a time.
#[test]
fn blocks_of_one_proposer_take_no_committees_from_that_of_another() {
    let mut world = World::new();
    let block = world.block(NOW - 1, HONEST);
    let honest = world.offer(1, block);
    for parent in OLD {
        let signed = world.block(NOW, parent);
        world.offer(9, signed);
    }
    assert_eq!(world.drawn.get(), 2);
    assert_eq!(world.verdict(honest, 1_000), Some(Verdict::Accept));
    assert!(world.net.nodes[0].reports.is_empty());
}

/// One proposer signs blocks of many branches, one after another, each of which others seem to build
/// on. The committees of another branch stay, and so do their keys: its next block is verified.
#[test]
fn one_proposer_displaces_no_keys_of_a_branch_that_is_ready() {
    let mut world = World::new();
    let block = world.block(NOW - 1, HONEST);
    let honest = world.offer(1, block);
    assert_eq!(world.verdict(honest, 600), Some(Verdict::Accept));
    for (at, parent) in OLD.enumerate() {
        let signed = world.block(NOW - 2, parent);
        let child = world.child(&signed.1);
        world.offer(9, child);
        let token = world.offer(9, signed);
        assert!(world.verdict(token, 700).is_some());
        assert_eq!(world.drawn.get(), 2 + at, "its committees are drawn");
    }
    assert!(OLD.count() > BRANCHES_MAX, "more tables than are kept");
    let block = world.block(NOW, HONEST);
    let honest = world.offer(1, block);
    assert_eq!(world.verdict(honest, 0), Some(Verdict::Accept));
    assert_eq!(world.drawn.get(), 1 + OLD.count());
}

/// The table of the epoch in force is gone, and made again under another name: what comes of the slot that
/// is open is verified by it.
#[test]
fn a_slot_goes_on_when_its_keys_are_made_again() {
    let layout = Layout::new(40, 1, 2).unwrap();
    let (mut net, forge) = stage(SUMS, layout, Local::observer(&layout), |_| ());
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.slot_start(Slot(1)));
    let judge = |net: &mut Net, voter: u32| {
        let horn = &net.nodes[0].horn;
        let vote = horn.chain().vote(Slot(1), &horn.head()).unwrap();
        let (topic, data) = forge.vote(Validator(voter), vote);
        net.offer(0, topic, data);
        net.run_until(net.now);
        net.verdict(0, net.last_token())
    };
    assert_eq!(judge(&mut net, 0), Some(Verdict::Accept));
    for epoch in 2..=4 {
        let members = (0..layout.validators()).collect();
        let other = Assignment::new(Epoch(epoch), layout, members).unwrap();
        net.insert_table(0, other);
    }
    assert!(!net.has_table(0, Epoch(0)));
    assert_eq!(judge(&mut net, 1), Some(Verdict::Ignore), "it is lost");
    net.run_until(clock.phase_start(Slot(1), Phase::Vote));
    assert!(net.has_table(0, BRANCH_EPOCH));
    assert_eq!(judge(&mut net, 2), Some(Verdict::Accept));
}

/// Should a table be gone nevertheless, its committees are drawn again for the next block.
#[test]
fn a_branch_whose_keys_are_gone_is_prepared_again() {
    let mut world = World::new();
    let block = world.block(NOW - 1, HONEST);
    let honest = world.offer(1, block);
    assert_eq!(world.verdict(honest, 600), Some(Verdict::Accept));
    assert!(world.net.has_table(0, BRANCH_EPOCH));
    let layout = world.config.layout;
    let members = (0..layout.validators()).collect();
    // A later one in its place.
    let name = Epoch(BRANCH_EPOCH.0 + BRANCHES_MAX as u64);
    let other = Assignment::new(name, layout, members).unwrap();
    world.net.insert_table(0, other);
    assert!(!world.net.has_table(0, BRANCH_EPOCH));
    let block = world.block(NOW, HONEST);
    let lost = world.offer(1, block.clone());
    assert_eq!(world.verdict(lost, 0), Some(Verdict::Ignore));
    assert_eq!(world.drawn.get(), 1);
    let honest = world.offer(2, block);
    assert_eq!(world.verdict(honest, 600), Some(Verdict::Accept));
    assert_eq!(world.drawn.get(), 2);
}
