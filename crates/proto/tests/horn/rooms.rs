//! What is bounded: who loses when it is full, and that nobody else does.

use crate::forge::{Forge, all_serve, overstate, stage};
use crate::net::{Net, SUMS, config};
use alphorn_proto::horn::{Config, Local};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Block, Entry, HEADER_BYTES, Root, Topic, Vote, VoteMsg};
use alphorn_proto::{Token, Verdict};
use alphorn_types::{Bitfield, Layout, Slot, Support, Unit, Validator};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A machine that hosts nobody, in which everybody else serves, at a phase of a slot without
/// blocks before it.
pub fn observer(layout: (u32, u16, u16), slot: u64, change: impl Fn(&mut Config)) -> (Net, Forge) {
    let layout = Layout::new(layout.0, layout.1, layout.2).unwrap();
    let (mut net, forge) = stage(SUMS, layout, Local::observer(&layout), |config| {
        all_serve(config);
        change(config);
    });
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.phase_start(Slot(slot), Phase::Vote));
    (net, forge)
}

/// The vote of a slot for the head of the machine.
pub fn vote(net: &Net, slot: u64) -> Vote {
    let horn = &net.nodes[0].horn;
    horn.chain().vote(Slot(slot), &horn.head()).unwrap()
}

/// Hands in a message from a peer, and returns its token.
pub fn offer(net: &mut Net, peer: usize, (topic, data): (Topic, Vec<u8>)) -> Token {
    net.offer_from(peer, 0, topic, data);
    net.last_token()
}

fn all(net: &Net, tokens: &[Token], verdict: Verdict) -> bool {
    let mut given = tokens.iter().map(|token| net.verdict(0, *token));
    given.all(|given| given == Some(verdict))
}

/// A block of slot 1 that the machine does not have yet, and the vote for it.
fn late_block(net: &Net, forge: &Forge) -> (Block, Vote) {
    let block = forge.block(Slot(1), net.nodes[0].horn.head(), Vec::new());
    (block.clone(), for_head(net, block.header.root()))
}

/// The vote of slot 1 for any head.
fn for_head(net: &Net, head: Root) -> Vote {
    let mut vote = vote(net, 1);
    vote.head = head;
    vote.target.root = head;
    vote
}

/// The head that peer number `peer` invents.
fn invented(peer: usize) -> Root {
    [peer as u8 ^ 0x55; 32]
}

/// A vote that nobody signed.
pub fn unsigned(forge: &Forge, voter: u32, vote: Vote) -> (Topic, Vec<u8>) {
    let validator = Validator(voter);
    let cell = forge.assignment.cell_of(validator).unwrap();
    let message = VoteMsg {
        vote,
        validator,
        signature: vec![0; forge.format.signature_bytes].into(),
    };
    (Topic::Vote { cell }, message.encode(&forge.format))
}

fn missing(net: &Net) -> Vec<Root> {
    let missing = net.nodes[0].horn.missing_blocks();
    missing.map(|(root, _)| root).collect()
}

fn count(net: &Net, name: &str) -> u64 {
    let mut counts = net.nodes[0].horn.counters().rejects();
    counts
        .find(|(reason, _)| *reason == name)
        .map_or(0, |r| r.1)
}

fn wait_ms(net: &mut Net, ms: u64) {
    let end = net.now.saturating_add_ns(ms * 1_000_000);
    net.run_until(end);
}

#[test]
fn a_block_that_comes_after_its_votes_costs_none_of_them() {
    let (mut net, forge) = observer((600, 1, 1), 1, |_| ());
    let (block, vote) = late_block(&net, &forge);
    let tokens: Vec<Token> = (0..600)
        .map(|voter| offer(&mut net, 1, forge.vote(Validator(voter), vote)))
        .collect();
    assert_eq!(missing(&net), [vote.head]);
    wait_ms(&mut net, 300);
    offer(&mut net, 2, forge.encode_block(&block));
    net.run_until(net.now);
    assert!(all(&net, &tokens, Verdict::Accept));
    let view = net.nodes[0].horn.view(Slot(1)).unwrap();
    assert_eq!(view.votes_accepted, 600);
    assert!(missing(&net).is_empty());
}

#[test]
fn invented_blocks_of_one_peer_keep_no_vote_for_a_real_one_out() {
    let (mut net, forge) = observer((600, 1, 1), 1, |_| ());
    let (block, vote) = late_block(&net, &forge);
    for i in 0..64 {
        let head = for_head(&net, invented(i));
        offer(&mut net, 1, unsigned(&forge, i as u32, head));
    }
    let honest = offer(&mut net, 2, forge.vote(Validator(100), vote));
    assert_eq!(net.verdict(0, honest), None, "it waits");
    assert_eq!(missing(&net).len(), 65);
    assert_eq!(
        missing(&net)[0],
        vote.head,
        "the real one is asked for first"
    );
    offer(&mut net, 3, forge.encode_block(&block));
    net.run_until(net.now);
    assert_eq!(net.verdict(0, honest), Some(Verdict::Accept));
}

#[test]
fn what_cannot_be_taken_whatever_the_block_does_not_wait() {
    let (mut net, forge) = observer((40, 2, 1), 1, |_| ());
    let (_, vote) = late_block(&net, &forge);
    let voter = forge.member(0, 3);
    let (topic, data) = forge.vote(voter, vote);
    let other = Topic::Vote {
        cell: forge.assignment.cell_of(forge.member(1, 0)).unwrap(),
    };
    // Of another branch it could be right there, so nobody is blamed.
    assert_eq!(net.offer(0, other, data.clone()), Some(Verdict::Ignore));
    assert_eq!(count(&net, "unknown_block"), 1);
    // A peer has one place for each voter, whatever the voter votes for.
    assert_eq!(net.offer(0, topic, data.clone()), None);
    let second = forge.vote(voter, for_head(&net, invented(1))).1;
    assert_eq!(net.offer(0, topic, second.clone()), Some(Verdict::Ignore));
    assert_eq!(count(&net, "duplicate"), 1);
    assert_eq!(net.offer_from(7, 0, topic, second), None);
    let evidence = forge.cell_evidence(forge.assignment.cell_of(voter).unwrap(), &vote, &[1]);
    let cell = forge.assignment.cell_of(voter).unwrap();
    let aggregate = forge.aggregate(cell, voter, vote, evidence);
    let (_, data) = forge.encode(&aggregate);
    let wrong = Topic::Aggregate {
        unit: Unit::new(2, 1, 0),
    };
    assert_eq!(net.offer(0, wrong, data.clone()), Some(Verdict::Reject));
    assert_eq!(count(&net, "wrong_topic"), 1);
    let right = Topic::Aggregate {
        unit: Unit::new(2, 0, 0),
    };
    assert_eq!(net.offer(0, right, data), None);
    let evidence = forge.committee_evidence(0, &vote, &[1], 1);
    let stranger = forge.collection(0, forge.member(1, 2), vote, evidence.clone());
    let (topic, data) = forge.encode(&stranger);
    assert_eq!(net.offer(0, topic, data), Some(Verdict::Ignore));
    assert_eq!(count(&net, "unknown_block"), 2);
    let member = forge.collection(0, voter, vote, evidence);
    let (topic, data) = forge.encode(&member);
    assert_eq!(net.offer(0, topic, data), None);
    let mut block = forge.block(Slot(1), invented(2), Vec::new());
    let (topic, data) = forge.encode_block(&block);
    assert_eq!(net.offer(0, topic, data), None);
    block.header.proposer = Validator(9);
    let (topic, data) = forge.encode_block(&block);
    assert_eq!(net.offer(0, topic, data), Some(Verdict::Reject));
    assert_eq!(count(&net, "wrong_proposer"), 1);
    wait_ms(&mut net, 2_000);
    assert_eq!(net.open_verdicts(), 0);
    assert!(missing(&net).is_empty());
}

/// A peer speaks of 256 blocks at most.
#[test]
fn a_peer_that_invents_many_blocks_has_few_of_them_looked_for() {
    let (mut net, forge) = observer((600, 1, 1), 1, |_| ());
    let (_, late) = late_block(&net, &forge);
    let vote = |net: &Net, voter: u32, root: u32| {
        let mut head = [0; 32];
        head[..4].copy_from_slice(&root.to_be_bytes());
        unsigned(&forge, voter, for_head(net, head))
    };
    for peer in [1, 2] {
        for voter in 0..300 {
            let message = vote(&net, voter, voter + 300 * peer);
            offer(&mut net, peer as usize, message);
        }
        assert_eq!(missing(&net).len(), 256 * peer as usize);
        assert_eq!(count(&net, "full"), 44 * u64::from(peer));
    }
    // Of what it speaks of already it may go on to speak.
    let known = vote(&net, 301, 300);
    let known = offer(&mut net, 1, known);
    assert_eq!(net.verdict(0, known), None);
    for peer in [3, 4] {
        offer(&mut net, peer, forge.vote(Validator(500), late));
    }
    assert_eq!(missing(&net)[0], late.head);
    wait_ms(&mut net, 2_000);
    assert_eq!((net.open_verdicts(), missing(&net).len()), (0, 0));
    let again = vote(&net, 0, 1_000);
    let again = offer(&mut net, 1, again);
    assert_eq!(net.verdict(0, again), None, "nothing of it waits any more");
}

#[test]
fn no_more_than_the_most_wanted_blocks_are_looked_for() {
    let (mut net, forge) = observer((600, 1, 1), 1, |_| ());
    for (peer, voter) in (1..=5).flat_map(|peer| (0..256).map(move |voter| (peer, voter))) {
        let mut head = [peer as u8; 32];
        head[0] = voter as u8;
        let message = unsigned(&forge, voter, for_head(&net, head));
        offer(&mut net, peer, message);
    }
    for peer in [6, 7] {
        let message = unsigned(&forge, 1, for_head(&net, [0xff; 32]));
        offer(&mut net, peer, message);
    }
    let missing = missing(&net);
    assert_eq!((missing.len(), missing[0]), (1_024, [0xff; 32]));
}

#[test]
fn each_message_is_given_up_in_its_time() {
    let (mut net, forge) = observer((600, 1, 1), 1, |_| ());
    let begun = net.now;
    let tokens: Vec<Token> = (0..100)
        .map(|voter| {
            net.run_until(begun.saturating_add_ns(u64::from(voter) * 1_000_000));
            let head = for_head(&net, invented(voter as usize % 3));
            offer(&mut net, voter as usize % 5, unsigned(&forge, voter, head))
        })
        .collect();
    for (waited, ms) in (2_000..2_100).enumerate() {
        net.run_until(begun.saturating_add_ns(ms * 1_000_000 - 1));
        assert_eq!(net.verdict(0, tokens[waited]), None);
        assert_eq!(net.open_verdicts(), 100 - waited);
        net.run_until(begun.saturating_add_ns(ms * 1_000_000));
        assert_eq!(net.verdict(0, tokens[waited]), Some(Verdict::Ignore));
    }
    assert_eq!(net.nodes[0].horn.counters().parked_expired, 100);
}

/// A machine without validators has 4,096 messages wait.
#[test]
fn whoever_has_most_waiting_gives_way() {
    let (mut net, forge) = observer((4_200, 1, 1), 1, |_| ());
    let (block, vote) = late_block(&net, &forge);
    let head = for_head(&net, invented(1));
    let flood: Vec<Token> = (0..4_200)
        .map(|voter| offer(&mut net, 1, unsigned(&forge, voter, head)))
        .collect();
    assert_eq!(count(&net, "full"), 104);
    let waits = |net: &Net, token: &&Token| net.verdict(0, **token).is_none();
    assert_eq!(
        flood.iter().filter(|token| waits(&net, token)).count(),
        4_096
    );
    let honest: Vec<Token> = (0..600)
        .map(|voter| offer(&mut net, 2, forge.vote(Validator(voter), vote)))
        .collect();
    assert_eq!(count(&net, "full"), 704, "six hundred gave way");
    assert!(
        flood[..3_496]
            .iter()
            .all(|token| net.verdict(0, *token).is_none())
    );
    assert!(
        all(&net, &flood[3_496..], Verdict::Ignore),
        "the newest ones"
    );
    assert!(net.nodes[0].horn.held().waiting < 64 << 20);
    offer(&mut net, 3, forge.encode_block(&block));
    net.run_until(net.now);
    assert!(all(&net, &honest, Verdict::Accept));
    wait_ms(&mut net, 2_000);
    assert_eq!(net.nodes[0].horn.counters().parked_expired, 3_496);
    assert_eq!(net.nodes[0].horn.held().waiting, 0);
}

/// How many peers without stake it takes to have votes of an honest one lost: beside five of them
/// it has room for a whole cell, beside twelve for a thirteenth of all.
#[test]
fn peers_that_flood_together_have_a_share_each() {
    for (flooders, lost) in [(5, 0), (12, 600 - 4_096 / 13)] {
        let (mut net, forge) = observer((600, 1, 1), 1, |_| ());
        let (block, vote) = late_block(&net, &forge);
        for peer in 10..10 + flooders {
            let head = for_head(&net, invented(peer));
            for voter in 0..600 {
                offer(&mut net, peer, unsigned(&forge, voter, head));
            }
        }
        for voter in 0..600 {
            offer(&mut net, 1, forge.vote(Validator(voter), vote));
        }
        offer(&mut net, 2, forge.encode_block(&block));
        net.run_until(net.now);
        let view = net.nodes[0].horn.view(Slot(1)).unwrap();
        let taken = view.votes_accepted as usize;
        assert!(
            taken.abs_diff(600 - lost) <= 1,
            "{taken} of 600 with {flooders}"
        );
    }
}

#[test]
fn bytes_that_wait_are_shared_too() {
    let (mut net, forge) = observer((600, 1, 1), 1, |_| ());
    let (block, vote) = late_block(&net, &forge);
    let large = |net: &mut Net, peer: usize, parent: usize| {
        let block = forge.block(Slot(1), invented(parent), Vec::new());
        let (topic, mut data) = forge.encode_block(&block);
        data.resize(15 << 20, 0);
        offer(net, peer, (topic, data))
    };
    let flood: Vec<Token> = (0..5).map(|i| large(&mut net, 1, i)).collect();
    let open = |net: &Net| {
        flood
            .iter()
            .filter(|t| net.verdict(0, **t).is_none())
            .count()
    };
    assert_eq!((open(&net), count(&net, "full")), (4, 1));
    let other = large(&mut net, 2, 9);
    assert_eq!(open(&net), 3, "one of the peer that has most gave way");
    assert_eq!(net.verdict(0, other), None);
    for voter in 0..600 {
        offer(&mut net, 3, forge.vote(Validator(voter), vote));
    }
    assert_eq!(open(&net), 3);
    offer(&mut net, 4, forge.encode_block(&block));
    net.run_until(net.now);
    let view = net.nodes[0].horn.view(Slot(1)).unwrap();
    assert_eq!(view.votes_accepted, 600);
}

#[test]
fn what_waits_of_a_closed_slot_takes_nothing_of_open_ones_with_it() {
    let (mut net, forge) = observer((40, 1, 2), 1, |_| ());
    let clock = *net.nodes[0].horn.clock();
    net.job_ns = Box::new(|_, name| Some(0).filter(|_| name == "prepare"));
    let collection = |net: &Net, slot: u64, sender: u32| {
        let vote = vote(net, slot);
        let evidence = forge.committee_evidence(0, &vote, &[sender], 1);
        forge.encode(&forge.collection(0, forge.member(0, sender), vote, evidence))
    };
    // A job runs, an unverified message of slot 0 waits, then honest ones of slot 1.
    net.run_until(clock.slot_start(Slot(2)).saturating_add_ns(410_000_000));
    let message = collection(&net, 1, 0);
    offer(&mut net, 1, message);
    net.run_until(net.now);
    assert_eq!(net.nodes[0].held.len(), 1);
    let mut old = collection(&net, 0, 1);
    *old.1.last_mut().unwrap() ^= 1;
    let old = offer(&mut net, 2, old);
    let honest: Vec<Token> = (2..12)
        .map(|sender| {
            let message = collection(&net, 1, sender);
            offer(&mut net, 3, message)
        })
        .collect();
    net.run_until(clock.slot_start(Slot(2)).saturating_add_ns(500_000_000));
    net.job_ns = Box::new(|_, _| Some(0));
    net.release(0, &[0]);
    net.run_until(net.now);
    assert_eq!(net.verdict(0, old), Some(Verdict::Ignore));
    assert!(all(&net, &honest, Verdict::Accept));
}

#[test]
fn a_slot_full_of_equivocators_hides_none_of_a_later_one() {
    let (mut net, forge) = observer((1_100, 1, 2), 1, |_| ());
    let clock = *net.nodes[0].horn.clock();
    let genesis = net.nodes[0].horn.head();
    let block = forge.block(Slot(1), genesis, Vec::new());
    offer(&mut net, 1, forge.encode_block(&block));
    net.run_until(net.now);
    let twice = |net: &mut Net, slot: u64, voters: std::ops::Range<u32>| {
        for head in [genesis, block.header.root()] {
            let vote = net.nodes[0].horn.chain().vote(Slot(slot), &head).unwrap();
            for voter in voters.clone() {
                offer(net, 1, forge.vote(Validator(voter), vote));
            }
            net.run_until(net.now);
        }
    };
    twice(&mut net, 1, 0..1_030);
    assert_eq!(net.nodes[0].evidence.len(), 1_024);
    assert_eq!(net.nodes[0].horn.counters().evidence, 1_030);
    net.run_until(clock.phase_start(Slot(2), Phase::Vote));
    twice(&mut net, 2, 0..1);
    assert_eq!(net.nodes[0].evidence.len(), 1_025);
}

/// Has jobs counted by their names, those of blocks' entries as `verify_collections`.
fn count_jobs(net: &mut Net) -> Rc<RefCell<BTreeMap<&'static str, usize>>> {
    let counts = Rc::new(RefCell::new(BTreeMap::new()));
    let counted = counts.clone();
    net.job_ns = Box::new(move |_, name| {
        *counted.borrow_mut().entry(name).or_default() += 1;
        Some(0)
    });
    counts
}

/// A block of slot 1 with an entry that was not seen before, and a copy with other signature bytes.
fn block_and_copy(net: &Net, forge: &Forge) -> (Block, impl Fn(u8) -> (Topic, Vec<u8>) + use<>) {
    let before = vote(net, 0);
    let entry = Entry {
        vote: before,
        committee: 0,
        evidence: forge.committee_evidence(0, &before, &[1, 2], 1),
    };
    let block = forge.block(Slot(1), net.nodes[0].horn.head(), vec![entry]);
    let (topic, honest) = forge.encode_block(&block);
    let copy = move |i: u8| {
        let mut data = honest.clone();
        // After version, kind and header.
        data[2 + HEADER_BYTES] ^= i;
        (topic, data)
    };
    (block, copy)
}

#[test]
fn copies_of_a_block_with_other_signatures_cost_no_evidence_and_keep_it_not_out() {
    for flooders in [1, 8, 63] {
        let (mut net, forge) = observer((40, 1, 2), 1, |_| ());
        let (block, copy) = block_and_copy(&net, &forge);
        let jobs = count_jobs(&mut net);
        // All in one instant: none is verified meanwhile.
        for i in 0..200 {
            offer(&mut net, 10 + i % flooders, copy(1 + i as u8));
        }
        assert_eq!(count(&net, "full"), 136, "all but 64");
        let honest = offer(&mut net, 1, copy(0));
        assert_eq!(net.verdict(0, honest), None);
        for i in 0..flooders {
            offer(&mut net, 10 + i, copy(250));
        }
        net.run_until(net.now);
        assert_eq!(net.verdict(0, honest), Some(Verdict::Accept), "{flooders}");
        assert_eq!(net.nodes[0].horn.head(), block.header.root());
        let expected = BTreeMap::from([("duty_verify", 1), ("verify_collections", 1)]);
        assert_eq!(
            *jobs.borrow(),
            expected,
            "one for all signatures, one for the entry"
        );
        assert_eq!(count(&net, "bad_envelope"), 63);
    }
}

/// Sixty-four peers with a forged copy each are what it takes: then nobody has more than the honest
/// one would have.
#[test]
fn as_many_peers_as_there_is_room_for_fill_it() {
    let (mut net, forge) = observer((40, 1, 2), 1, |_| ());
    let (_, copy) = block_and_copy(&net, &forge);
    for i in 0..64 {
        assert_eq!(
            net.offer_from(10 + i, 0, Topic::Block, copy(1 + i as u8).1),
            None
        );
    }
    let full = offer(&mut net, 1, copy(0));
    assert_eq!(net.verdict(0, full), Some(Verdict::Ignore));
    // They are verified in this instant: what comes in the next one has room again.
    net.run_until(net.now);
    let again = offer(&mut net, 1, copy(0));
    net.run_until(net.now);
    assert_eq!(net.verdict(0, again), Some(Verdict::Accept));
    assert_eq!(net.nodes[0].horn.held().waiting, 0);
}

#[test]
fn two_blocks_of_a_proposal_are_verified_at_a_time_and_all_count_as_held() {
    let (mut net, forge) = observer((40, 1, 2), 1, |_| ());
    let before = vote(&net, 0);
    let genesis = net.nodes[0].horn.head();
    let signed = |slot: u64, voter: u32| {
        let entry = Entry {
            vote: before,
            committee: 0,
            evidence: forge.committee_evidence(0, &before, &[voter], 1),
        };
        forge.encode_block(&forge.block(Slot(slot), genesis, vec![entry]))
    };
    let clock = *net.nodes[0].horn.clock();
    net.run_until(clock.slot_start(Slot(2)));
    net.job_ns = Box::new(|_, name| Some(0).filter(|_| name == "duty_verify"));
    // The proposer of slot 1 signs more blocks than may run; the one of slot 2 one.
    let many: Vec<Token> = (0..40).map(|i| offer(&mut net, 7, signed(1, i))).collect();
    net.run_until(net.now);
    assert_eq!(net.nodes[0].held.len(), 2);
    let all_held = net.nodes[0].horn.held().waiting;
    let other = offer(&mut net, 7, signed(2, 9));
    net.run_until(net.now);
    assert_eq!(net.nodes[0].held.len(), 3, "it need not wait for them");
    let data = signed(1, 0).1.len() as u64;
    assert!(all_held >= 40 * data, "{all_held} of 40 blocks of {data}");
    let (_, info) = config(SUMS, forge.config.layout);
    let max = forge.config.held_max(&info, net.nodes[0].horn.local());
    assert!(net.nodes[0].horn.held().waiting <= max.waiting);
    net.job_ns = Box::new(|_, _| Some(0));
    net.release(0, &[2, 0, 1]);
    net.run_until(net.now);
    assert_eq!(net.verdict(0, other), Some(Verdict::Accept));
    assert_eq!(net.verdict(0, many[0]), Some(Verdict::Accept));
    assert!(all(&net, &many[1..], Verdict::Ignore));
    assert_eq!(net.nodes[0].evidence.len(), 1);
    assert_eq!(net.nodes[0].horn.held().waiting, 0);
}

/// A ballot that came first and that one voter casts takes no place from one that others do.
#[test]
fn a_ballot_that_one_casts_gives_way_to_one_that_two_cast() {
    let (mut net, forge) = observer((40, 1, 1), 1, |config| config.vote_data_per_slot_max = 1);
    let clock = *net.nodes[0].horn.clock();
    let genesis = net.nodes[0].horn.head();
    let first = forge.block(Slot(1), genesis, Vec::new());
    offer(&mut net, 1, forge.encode_block(&first));
    net.run_until(clock.slot_start(Slot(2)));
    let second = forge.block(Slot(2), first.header.root(), Vec::new());
    offer(&mut net, 1, forge.encode_block(&second));
    net.run_until(clock.phase_start(Slot(2), Phase::Vote));
    let vote = |head| net.nodes[0].horn.chain().vote(Slot(2), &head).unwrap();
    let [own, others, attacker] = [second.header.root(), first.header.root(), genesis].map(vote);
    let judge = |net: &mut Net, message: (Topic, Vec<u8>)| {
        let token = offer(net, 1, message);
        net.run_until(net.now);
        net.verdict(0, token).unwrap()
    };
    let cast = |net: &mut Net, voter: u32, vote| judge(net, forge.vote(Validator(voter), vote));
    assert_eq!(cast(&mut net, 0, attacker), Verdict::Accept);
    assert_eq!(
        cast(&mut net, 1, others),
        Verdict::Ignore,
        "as light, and later"
    );
    assert_eq!(count(&net, "full"), 1);
    // The vote that went nowhere weighs all the same, once.
    assert_eq!(cast(&mut net, 1, others), Verdict::Ignore);
    assert_eq!((count(&net, "full"), count(&net, "duplicate")), (1, 1));
    for voter in 2..10 {
        assert_eq!(cast(&mut net, voter, others), Verdict::Accept);
    }
    assert_eq!(cast(&mut net, 10, attacker), Verdict::Ignore);
    assert_eq!(
        cast(&mut net, 11, own),
        Verdict::Accept,
        "the own one always counts"
    );
    assert_eq!(count(&net, "full"), 2);
    assert_eq!(net.nodes[0].horn.view(Slot(2)).unwrap().votes_accepted, 12);
    // What its voters say is remembered: a second vote of one is evidence of the right pair.
    assert_eq!(cast(&mut net, 0, others), Verdict::Ignore);
    let (before, _) = net.nodes[0].evidence.pop().unwrap();
    assert_eq!(
        VoteMsg::decode(&before, &forge.format).unwrap().vote,
        attacker
    );
    let collect = |net: &mut Net, sender: u32, vote: Vote, signers: &[u32]| {
        let evidence = forge.committee_evidence(0, &vote, signers, 1);
        let message = forge.collection(0, forge.member(0, sender), vote, evidence);
        judge(net, forge.encode(&message))
    };
    assert_eq!(collect(&mut net, 20, attacker, &[1, 2]), Verdict::Ignore);
    assert_eq!(count(&net, "full"), 3);
    assert_eq!(collect(&mut net, 21, others, &[1, 2]), Verdict::Accept);
    let many: Vec<u32> = (0..30).collect();
    assert_eq!(collect(&mut net, 22, attacker, &many), Verdict::Accept);
    let view = net.nodes[0].horn.view(Slot(2)).unwrap();
    assert_eq!((view.vote, view.covered()), (Some(attacker), 30));
}

#[test]
fn forged_collections_and_aggregates_cost_no_evidence() {
    let (mut net, forge) = observer((40, 1, 1), 1, |_| ());
    let jobs = count_jobs(&mut net);
    let vote = vote(&net, 1);
    let sender = forge.member(0, 1);
    let evidence = forge.committee_evidence(0, &vote, &[1, 2], 1);
    let collection = forge.encode(&forge.collection(0, sender, vote, evidence));
    let cell = forge.assignment.cell_of(sender).unwrap();
    let evidence = forge.cell_evidence(cell, &vote, &[1, 2]);
    let aggregate = forge.encode(&forge.aggregate(cell, sender, vote, evidence));
    for (message, op) in [
        (collection, "verify_collections"),
        (aggregate, "verify_aggregates"),
    ] {
        jobs.borrow_mut().clear();
        for i in 0..32 {
            let (topic, mut data) = message.clone();
            // The envelope comes last.
            *data.last_mut().unwrap() ^= 1 + i as u8;
            offer(&mut net, 10 + i, (topic, data));
        }
        net.run_until(net.now);
        assert_eq!(*jobs.borrow(), BTreeMap::from([("duty_verify", 1)]));
        let honest = offer(&mut net, 1, message);
        net.run_until(net.now);
        assert_eq!(net.verdict(0, honest), Some(Verdict::Accept));
        assert_eq!(
            *jobs.borrow(),
            BTreeMap::from([("duty_verify", 2), (op, 1)])
        );
    }
    assert_eq!(count(&net, "bad_envelope"), 64);
}

/// Evidence that a sender signed and that does not hold costs one job, however much of it it signs.
#[test]
fn who_signs_false_evidence_is_looked_at_no_more_in_its_slot() {
    let (mut net, forge) = observer((40, 1, 1), 1, |_| ());
    let jobs = count_jobs(&mut net);
    let vote = vote(&net, 1);
    let good = forge.committee_evidence(0, &vote, &[1, 2], 1);
    let signed = |sender: Validator, more: u32| {
        let mut signers = Bitfield::new(40);
        (1..3 + more as usize).for_each(|i| signers.set(i));
        let evidence = overstate(&good, Support::from_bits(signers));
        forge.encode(&forge.collection(0, sender, vote, evidence))
    };
    let one = forge.member(0, 1);
    let first = offer(&mut net, 10, signed(one, 1));
    net.run_until(net.now);
    assert_eq!(net.verdict(0, first), Some(Verdict::Reject));
    let verified = BTreeMap::from([("duty_verify", 1), ("verify_collections", 1)]);
    assert_eq!(*jobs.borrow(), verified);
    let more: Vec<Token> = (2..12)
        .map(|more| offer(&mut net, 11, signed(one, more)))
        .collect();
    net.run_until(net.now);
    assert!(all(&net, &more, Verdict::Ignore));
    assert_eq!(*jobs.borrow(), verified, "no further job");
    // Many at once: two are verified.
    let other = forge.member(0, 2);
    let many: Vec<Token> = (1..12)
        .map(|more| offer(&mut net, 12, signed(other, more)))
        .collect();
    net.run_until(net.now);
    assert!(all(&net, &many[..2], Verdict::Reject));
    assert!(all(&net, &many[2..], Verdict::Ignore));
    assert_eq!(count(&net, "bad_evidence"), 3);
    // The honest one beside them is taken.
    let honest = forge.collection(0, forge.member(0, 3), vote, good.clone());
    let honest = offer(&mut net, 12, forge.encode(&honest));
    net.run_until(net.now);
    assert_eq!(net.verdict(0, honest), Some(Verdict::Accept));
}
