//! Blocks whose collections one piece of evidence proves: made in the slot before, verified by
//! everybody, never waited for.

use crate::forge::{Forge, all_ones, overstate};
use crate::net::{BUNDLES, Net, config, share};
use alphorn_proto::Verdict;
use alphorn_proto::horn::{Config, Local, Preset, SchemeInfo};
use alphorn_proto::rewards::{Inclusion, Ledger, Schedule};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Block, Body, Checkpoint, Entry, Header, Topic, Vote, no_references};
use alphorn_scheme::{Bytes, Outcome, Product};
use alphorn_types::{Bitfield, Epoch, Layout, Slot, Support};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const VALIDATORS: u32 = 24;

/// Two committees of two cells, in blocks of one piece of evidence.
fn small() -> (Config, SchemeInfo) {
    let layout = Layout::new(VALIDATORS, 2, 2).unwrap();
    let (mut config, info) = config(BUNDLES, layout);
    config.bundle(&info);
    (config, info)
}

/// One machine with all validators.
fn alone() -> Net {
    let (config, info) = small();
    Net::new(BUNDLES, &config, &info, vec![share(VALIDATORS, 0, 1)])
}

/// The blocks that were published, by slot, each with the time of its publication in the slot.
fn blocks(net: &Net) -> BTreeMap<u64, (Block, u64)> {
    let horn = &net.nodes[0].horn;
    let sent = net.sent.iter().filter(|sent| sent.topic == Topic::Block);
    let block = |sent: &crate::net::Sent| {
        let block = Block::decode(&sent.data, horn.format(), &no_references).unwrap();
        let slot = block.header.slot;
        let after_ns = sent.at.since_ns(horn.clock().slot_start(slot));
        (slot.0, (block, after_ns))
    };
    sent.map(block).collect()
}

/// Slots and committees of the votes in the block of a slot.
fn voted(blocks: &BTreeMap<u64, (Block, u64)>, slot: u64) -> Vec<(u64, u16)> {
    let entries = blocks[&slot].0.body.entries.iter();
    let mut voted: Vec<_> = entries
        .map(|entry| (entry.vote.slot.0, entry.committee))
        .collect();
    voted.sort_unstable();
    voted
}

/// Three levels, four machines: the preset as it is, with few validators.
#[test]
fn a_slot_of_three_levels_ends_in_a_block_of_one_evidence() {
    const ALL: u32 = 96;
    let preset = Preset::named("horn-pq").unwrap();
    let layout = Layout::with_fan_out(ALL, 2, &[2, 2]).unwrap();
    let info = SchemeInfo::of(&crate::net::model(BUNDLES), &layout);
    let config = preset.config(layout, &info);
    assert!(config.bundled && config.collections_per_block_max == 20);
    let locals = (0..4).map(|i| Local {
        trust_own: i != 1,
        ..share(ALL, i, 4)
    });
    let mut net = Net::new(BUNDLES, &config, &info, locals.collect());
    // Jobs take their time, the evidence of a block most of a slot.
    net.job_ns = Box::new(|_, name| {
        Some(match name {
            "bundle" => 19_000_000_000,
            "sign" | "duty_sign" => 0,
            _ => 100_000_000,
        })
    });
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(7), Phase::Vote));
    let blocks = blocks(&net);
    for slot in 1..=7 {
        let (block, after_ns) = &blocks[&slot];
        assert_eq!(*after_ns, 0, "the block of slot {slot} is late");
        let expected: Vec<(u64, u16)> = match slot.checked_sub(2) {
            None => Vec::new(),
            Some(before) => vec![(before, 0), (before, 1)],
        };
        assert_eq!(voted(&blocks, slot), expected);
        assert_eq!(block.body.bundle.is_empty(), expected.is_empty());
        let mut own = block.body.entries.iter();
        assert!(own.all(|entry| entry.evidence.bytes.is_empty()));
    }
    for node in 0..4 {
        assert_eq!(net.nodes[node].horn.head(), net.nodes[0].horn.head());
        for slot in 0..=5 {
            assert_eq!(net.credited(node, slot), ALL as usize);
        }
        assert_eq!(net.nodes[node].horn.chain().finalised().slot, Slot(3));
        assert!(net.nodes[node].reports.is_empty());
    }
    assert_eq!(net.open_verdicts(), 0);
    assert!(net.reject_names().iter().all(|name| *name == "subset"));
    paid(&net, &blocks);
}

/// Votes of such blocks are paid for in full by a schedule that knows when they can be included.
fn paid(net: &Net, blocks: &BTreeMap<u64, (Block, u64)>) {
    let assignment = net.nodes[0].horn.assignment(Epoch(0)).unwrap();
    let all = assignment.layout().validators() as usize;
    let schedule = Schedule::ALTAIR.later_by(1);
    let mut ledger = Ledger::new(schedule, &vec![1; all], all as u64).unwrap();
    for (slot, (block, _)) in blocks {
        let included = |entry: &Entry| {
            let members = assignment.committee_members(entry.committee);
            Inclusion::of(entry, members)
        };
        let included: Vec<_> = block.body.entries.iter().map(included).collect();
        let proposer = block.header.proposer;
        ledger.block(Slot(*slot), proposer, &included).unwrap();
    }
    ledger.close(Slot(5));
    for account in ledger.accounts() {
        assert!(account.source > 0 && account.target > 0 && account.head > 0);
        assert_eq!(account.penalty, 0);
    }
    assert!(ledger.accounts()[2].inclusion > 0 && ledger.accounts()[1].inclusion == 0);
}

/// Two collections of slot 0 with true evidence.
fn entries(forge: &Forge, genesis: [u8; 32]) -> [Entry; 2] {
    let checkpoint = Checkpoint {
        slot: Slot(0),
        root: genesis,
    };
    let vote = Vote {
        slot: Slot(0),
        head: genesis,
        source: checkpoint,
        target: checkpoint,
    };
    [0, 1].map(|committee| Entry {
        vote,
        committee,
        evidence: forge.committee_evidence(committee, &vote, &[0, 1, 2, 7], 1),
    })
}

/// Who watches as slot 1 begins, and what blocks are offered to it.
struct Watch {
    net: Net,
    forge: Forge,
    genesis: [u8; 32],
    /// Jobs by their names.
    jobs: Rc<RefCell<BTreeMap<&'static str, usize>>>,
}

impl Watch {
    fn new() -> Self {
        let (config, info) = small();
        let observer = Local::observer(&config.layout);
        let mut net = Net::new(BUNDLES, &config, &info, vec![observer]);
        let clock = *net.nodes[0].horn.clock();
        net.run_until(clock.slot_start(Slot(1)));
        let assignment = net.nodes[0].horn.assignment(Epoch(0)).unwrap().clone();
        let jobs = Rc::new(RefCell::new(BTreeMap::new()));
        let counted = jobs.clone();
        net.job_ns = Box::new(move |_, name| {
            *counted.borrow_mut().entry(name).or_default() += 1;
            Some(0)
        });
        Self {
            genesis: net.nodes[0].horn.head(),
            forge: Forge::new(BUNDLES, &config, &info, &assignment),
            net,
            jobs,
        }
    }

    /// A block of slot 1 that its proposer signed.
    fn signed(&self, entries: &[Entry], bundle: Bytes) -> (Topic, Vec<u8>) {
        let body = Body {
            entries: entries.iter().map(Entry::bare).collect(),
            bundle,
            filler: Bytes::from([]),
        };
        let block = self.forge.signed(Slot(1), self.genesis, body);
        self.forge.encode_block(&block)
    }

    /// The verdict on a block, and the jobs that it cost.
    fn judge(
        &mut self,
        (topic, data): (Topic, Vec<u8>),
    ) -> (Verdict, BTreeMap<&'static str, usize>) {
        self.jobs.borrow_mut().clear();
        self.net.offer(0, topic, data);
        let token = self.net.last_token();
        self.net
            .run_until(self.net.now.saturating_add_ns(1_000_000));
        let verdict = self.net.verdict(0, token).expect("every job has ended");
        (verdict, self.jobs.borrow().clone())
    }

    fn rejects(&self) -> Vec<(&'static str, u64)> {
        self.net.nodes[0].horn.counters().rejects().collect()
    }
}

/// What one piece of evidence proves is all that a block may say, and it costs one job to see it.
#[test]
fn a_block_that_says_more_than_its_evidence_is_refused() {
    let watch = Watch::new();
    let [first, second] = entries(&watch.forge, watch.genesis);
    let all = [first.clone(), second.clone()];
    let (one, both) = (watch.forge.bundle(&all[..1]), watch.forge.bundle(&all));
    let greater = Entry {
        evidence: overstate(&second.evidence, all_ones(12)),
        ..second.clone()
    };
    let elsewhere = Entry {
        committee: 0,
        ..second.clone()
    };
    let mut tampered = both.to_vec();
    tampered[9] ^= 1;
    let [first, second] = [&first, &second];
    let lies: [(&str, Vec<&Entry>, Bytes); 7] = [
        ("an entry too much", vec![first, second], one.clone()),
        ("an entry too few", vec![first], both.clone()),
        ("more signers", vec![first, &greater], both.clone()),
        ("another committee", vec![first, &elsewhere], both.clone()),
        ("another order", vec![second, first], both.clone()),
        ("of other entries", vec![second], one),
        ("tampered", vec![first, second], tampered.into()),
    ];
    let cost = BTreeMap::from([("duty_verify", 1), ("verify_bundle", 1)]);
    for (what, entries, bundle) in lies {
        let mut watch = Watch::new();
        let entries: Vec<Entry> = entries.into_iter().cloned().collect();
        let lie = watch.signed(&entries, bundle);
        assert_eq!(watch.judge(lie), (Verdict::Reject, cost.clone()), "{what}");
        assert_eq!(watch.rejects(), [("bad_evidence", 1)], "{what}");
        assert_eq!(watch.net.nodes[0].horn.head(), watch.genesis, "{what}");
    }
    let mut watch = watch;
    let truth = watch.signed(&all, both);
    assert_eq!(watch.judge(truth), (Verdict::Accept, cost));
    assert_eq!(watch.net.credited(0, 0), 8);
}

/// What the chain cannot take is refused before anything is verified.
#[test]
fn entries_that_no_block_can_include_cost_no_job() {
    let mut watch = Watch::new();
    let [first, _] = entries(&watch.forge, watch.genesis);
    let with = |vote: Vote| Entry {
        vote,
        ..first.clone()
    };
    let strange = Checkpoint {
        root: [9; 32],
        ..first.vote.target
    };
    let elsewhere = with(Vote {
        head: [9; 32],
        source: strange,
        target: strange,
        ..first.vote
    });
    let early = with(Vote {
        slot: Slot(1),
        ..first.vote
    });
    let nobody = Entry {
        evidence: overstate(&first.evidence, Support::from_bits(Bitfield::new(12))),
        ..first.clone()
    };
    let none = BTreeMap::new();
    let refused = [
        ("of another chain", vec![elsewhere]),
        ("of its own slot", vec![early]),
        ("without signers", vec![first.clone(), nobody]),
        ("more than a block takes", vec![first; 21]),
    ];
    for (what, entries) in refused {
        let bundle = vec![7; 40].into();
        let block = watch.signed(&entries, bundle);
        let (verdict, cost) = watch.judge(block);
        assert_eq!(cost, none, "{what}");
        assert_ne!(verdict, Verdict::Accept, "{what}");
    }
    assert_eq!(watch.net.nodes[0].horn.head(), watch.genesis);
}

/// A proposer who signs many blocks of false evidence has one verified, two if they come at once; and
/// others only if as many peers bring votes on them.
#[test]
fn who_signs_a_false_block_is_believed_only_with_others() {
    let mut watch = Watch::new();
    let all = entries(&watch.forge, watch.genesis);
    let both = watch.forge.bundle(&all);
    let false_block = |watch: &Watch, i: u8| {
        let mut tampered = both.to_vec();
        tampered[9] ^= i;
        watch.signed(&all, tampered.into())
    };
    let at_once = (1..20).map(|i| false_block(&watch, i));
    for (topic, data) in at_once.collect::<Vec<_>>() {
        watch.net.offer(0, topic, data);
    }
    watch.net.run_until(watch.net.now);
    assert_eq!(watch.jobs.borrow()["verify_bundle"], 2);
    for i in 20..40 {
        let lie = false_block(&watch, i);
        assert_eq!(watch.judge(lie), (Verdict::Ignore, BTreeMap::new()));
    }
    assert_eq!(watch.rejects(), [("duplicate", 37), ("bad_evidence", 2)]);
    let truth = watch.signed(&all, both.clone());
    let root = Header::peek(&truth.1, &watch.forge.format).unwrap().root();
    assert_eq!(watch.judge(truth.clone()).0, Verdict::Ignore);
    // Nobody follows a false block, but others may have seen this one first.
    let clock = *watch.net.nodes[0].horn.clock();
    watch.net.run_until(clock.phase_start(Slot(1), Phase::Vote));
    let checkpoint = all[0].vote.target;
    let vote = Vote {
        slot: Slot(1),
        head: root,
        source: checkpoint,
        target: Checkpoint {
            slot: Slot(1),
            root,
        },
    };
    let (topic, data) = watch.forge.vote(watch.forge.member(0, 3), vote);
    // As many peers as there were false blocks.
    for peer in [1, 2] {
        let waits = watch.net.offer_from(peer, 0, topic, data.clone());
        assert_eq!(waits, None, "it waits for the block");
        if peer == 1 {
            assert_eq!(watch.judge(truth.clone()).0, Verdict::Ignore);
        }
    }
    let cost = BTreeMap::from([
        ("duty_verify", 1),
        ("verify_bundle", 1),
        ("verify_votes", 1),
    ]);
    assert_eq!(watch.judge(truth), (Verdict::Accept, cost));
    assert_eq!(watch.net.nodes[0].horn.head(), root);
}

/// Bytes of the evidence that a peer changed are not the proposer's: its signature covers them.
#[test]
fn evidence_that_a_peer_changed_costs_nothing() {
    let mut watch = Watch::new();
    let all = entries(&watch.forge, watch.genesis);
    let honest = watch.signed(&all, watch.forge.bundle(&all));
    let mut changed = honest.clone();
    let in_bundle = changed.1.len() - 12;
    changed.1[in_bundle] ^= 1;
    assert_eq!(watch.judge(changed), (Verdict::Reject, BTreeMap::new()));
    assert_eq!(watch.judge(honest).0, Verdict::Accept);
}

/// A collection that comes after the evidence of a block was begun is in the next one, of another epoch
/// than the collections beside it.
#[test]
fn late_votes_are_in_the_next_block() {
    let (mut config, info) = small();
    config.epoch_slots = 4;
    let mut net = Net::new(BUNDLES, &config, &info, vec![share(VALIDATORS, 0, 1)]);
    let mut made = 0;
    net.job_ns = Box::new(move |_, name| {
        made += u32::from(name == "collect");
        // The first collection of slot 3, which then comes after the votes of slot 4.
        Some(match name == "collect" && made == 7 {
            true => 20_000_000_000,
            false => 0,
        })
    });
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(7), Phase::Vote));
    let blocks = blocks(&net);
    assert_eq!(voted(&blocks, 4), [(2, 0), (2, 1)]);
    let [(3, on_time)] = voted(&blocks, 5)[..] else {
        panic!("one of two: {:?}", voted(&blocks, 5));
    };
    assert_eq!(voted(&blocks, 6), [(3, 1 - on_time), (4, 0), (4, 1)]);
    assert_eq!(voted(&blocks, 7), [(5, 0), (5, 1)]);
    for slot in 0..=5 {
        assert_eq!(net.credited(0, slot), VALIDATORS as usize);
    }
}

/// Jobs that never end cost the votes of their blocks, not the blocks; and not the votes either, once
/// jobs end again.
#[test]
fn a_block_never_waits_for_its_evidence() {
    let mut net = alone();
    net.job_ns = Box::new(|_, name| (name != "bundle").then_some(0));
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(5), Phase::Propose));
    for (slot, (block, after_ns)) in blocks(&net) {
        assert_eq!((after_ns, block.body.entries.len()), (0, 0), "slot {slot}");
    }
    assert_eq!(blocks(&net).len(), 5);
    net.job_ns = Box::new(|_, _| Some(0));
    net.run_until(clock.phase_start(Slot(7), Phase::Vote));
    // The job for the block of slot 6 began with the votes of slot 5.
    let blocks = blocks(&net);
    let waited = (0..5).flat_map(|slot| [(slot, 0), (slot, 1)]);
    assert_eq!(voted(&blocks, 6), waited.collect::<Vec<_>>());
    assert_eq!(voted(&blocks, 7), [(5, 0), (5, 1)]);
    // What was made too late for its block takes no other's place.
    assert!(net.nodes[0].held.iter().all(|held| held.2 == "bundle"));
    let order: Vec<usize> = (0..net.nodes[0].held.len()).collect();
    assert_eq!(order.len(), 4);
    net.release(0, &order);
    net.run_until(clock.phase_start(Slot(9), Phase::Vote));
    let blocks = self::blocks(&net);
    for slot in [8, 9] {
        assert_eq!(voted(&blocks, slot), [(slot - 2, 0), (slot - 2, 1)]);
    }
}

/// Whoever makes a collection that holds and cannot be bundled keeps no other out of a block.
#[test]
fn a_collection_that_cannot_be_bundled_is_left_out() {
    let mut net = alone();
    let mut refused = 0;
    net.fate = Box::new(move |_, outcome| match outcome {
        Outcome::Done(Product::Bundle { count: 2, .. }) if refused == 0 => {
            refused += 1;
            Outcome::Invalid(vec![1])
        }
        outcome => outcome,
    });
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(3), Phase::Vote));
    let blocks = blocks(&net);
    let others = voted(&blocks, 2);
    assert!(!others.is_empty() && others.iter().all(|(slot, _)| *slot == 0));
    assert_eq!(voted(&blocks, 3).iter().filter(|of| of.0 == 1).count(), 2);
    assert_eq!(net.nodes[0].horn.counters().collections_dropped, 1);
}
