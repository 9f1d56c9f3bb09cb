use super::room::{SET_BYTES, VOTE_BYTES};
use super::*;
use crate::chain::room::EQUIVOCATION_BYTES_MAX;
use crate::horn::committee::assignment;
use crate::wire::digest;
use alphorn_scheme::Evidence;
use alphorn_types::{Epoch, Support};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

mod anchor;
mod ballots;
mod fold;
mod latest;
mod policy;
mod sets;
mod weights;

const N: u32 = 9;

fn chain(n: u32, epoch_slots: u64) -> Chain {
    Chain::new([7; 32], Layout::new(n, 1, 1).unwrap(), epoch_slots)
}

/// A block of the slot's proposer; `body` distinguishes equivocations.
fn header(chain: &Chain, parent: Root, slot: u64, body: u8) -> Header {
    Header {
        slot: Slot(slot),
        proposer: chain.proposer(Slot(slot)),
        parent,
        body: [body; 32],
    }
}

fn grow(chain: &mut Chain, parent: Root, slot: u64, entries: &[Entry]) -> Root {
    let header = header(chain, parent, slot, 0);
    chain.insert(header, entries).unwrap();
    header.root()
}

fn entry(vote: Vote, committee: u16, signers: Bitfield) -> Entry {
    Entry {
        vote,
        committee,
        evidence: Evidence {
            support: Arc::new(Support::from_bits(signers)),
            bytes: Arc::from([]),
        },
    }
}

fn bits(n: usize, ones: impl IntoIterator<Item = usize>) -> Bitfield {
    let mut bits = Bitfield::new(n);
    ones.into_iter().for_each(|i| bits.set(i));
    bits
}

/// Full votes included one slot later, from genesis to `slots`.
fn full(slots: u64) -> Chain {
    let mut chain = chain(N, 32);
    let mut parent = chain.head();
    for slot in 1..=slots {
        let vote = chain.vote(Slot(slot - 1), &parent).unwrap();
        let entries = [entry(vote, 0, Bitfield::ones(N as usize))];
        parent = grow(&mut chain, parent, slot, &entries);
    }
    chain
}

#[test]
fn finality_follows_full_votes_and_history_is_bounded() {
    let chain = full(200);
    assert_eq!(chain.justified().slot, Slot(199));
    assert_eq!(chain.finalised().slot, Slot(198));
    // The final block, the window behind it and the block before that.
    let kept = chain.ancestors(&chain.head()).count() as u64;
    assert_eq!(kept, INCLUSION_SLOTS + 3);
    assert_eq!(chain.by_root.len(), chain.nodes.len());
}

/// A chain whose blocks include the full votes of the slots that `included` returns for them.
fn delayed(slots: u64, included: impl Fn(u64) -> Vec<u64>) -> Chain {
    let mut chain = chain(N, 32);
    let mut roots = vec![chain.head()];
    for slot in 1..=slots {
        let vote = |voted: u64| {
            let vote = chain.vote(Slot(voted), &roots[voted as usize]).unwrap();
            entry(vote, 0, Bitfield::ones(N as usize))
        };
        let entries: Vec<Entry> = included(slot).into_iter().map(vote).collect();
        roots.push(grow(&mut chain, roots[slot as usize - 1], slot, &entries));
    }
    chain
}

/// With one piece of evidence per block, votes are included two slots late, so sources are two slots old.
#[test]
fn a_link_over_a_justified_slot_finalises_its_source() {
    let steady = |slot: u64| slot.checked_sub(2).into_iter().collect();
    let chain = delayed(20, steady);
    assert_eq!(chain.justified().slot, Slot(18));
    assert_eq!(chain.finalised().slot, Slot(16));
    // A block without votes; the next one has those of two slots.
    let late = |slot: u64| match slot {
        11 => Vec::new(),
        12 => vec![9, 10],
        slot => steady(slot),
    };
    assert_eq!(delayed(12, late).finalised().slot, Slot(8));
    assert_eq!(delayed(20, late).finalised().slot, Slot(16));
}

#[test]
fn a_link_over_a_slot_that_is_not_justified_finalises_nothing() {
    // No block includes the votes of slot 10.
    let included = |slot: u64| match slot {
        11 => Vec::new(),
        slot => vec![slot - 1],
    };
    let link = delayed(12, included);
    assert_eq!(link.justified().slot, Slot(11));
    assert_eq!(link.finalised().slot, Slot(8));
    assert_eq!(delayed(13, included).finalised().slot, Slot(11));
}

/// The checkpoint of a slot without a block names the last block before it. A late block of that slot is outside the
/// final chain, on whichever side of finality it comes.
#[test]
fn a_late_block_of_a_final_empty_slot_is_refused_and_dropped() {
    let empty = 5;
    let finish = |chain: &mut Chain, mut parent: Root| {
        for slot in empty + 1..=empty + 2 {
            let voted = if slot == empty + 1 {
                slot - 2..slot
            } else {
                slot - 1..slot
            };
            let vote = |voted: u64| {
                let vote = chain.vote(Slot(voted), &parent).unwrap();
                entry(vote, 0, Bitfield::ones(N as usize))
            };
            let entries: Vec<Entry> = voted.map(vote).collect();
            parent = grow(chain, parent, slot, &entries);
        }
        assert_eq!(chain.finalised().slot, Slot(empty));
        parent
    };
    let mut chain = full(empty - 1);
    let last = chain.head();
    let head = finish(&mut chain, last);
    assert_eq!(chain.finalised().root, last);
    let late = header(&chain, last, empty, 0);
    assert_eq!(chain.insert(late, &[]).unwrap_err(), Reject::Conflicting);
    let next = grow(&mut chain, head, empty + 3, &[]);
    assert!(chain.node(&next).is_some());

    let mut chain = full(empty - 1);
    let late = grow(&mut chain, last, empty, &[]);
    let child = grow(&mut chain, late, empty + 1, &[]);
    assert!(chain.node(&late).is_some() && chain.node(&child).is_some());
    finish(&mut chain, last);
    assert!(chain.node(&late).is_none() && chain.node(&child).is_none());
}

#[test]
fn late_votes_can_be_included_behind_finality() {
    let mut chain = full(100);
    let head = chain.head();
    let oldest = Slot(101 - INCLUSION_SLOTS);
    let block = chain.ancestors(&head).find(|(_, h)| h.slot == oldest);
    let vote = chain.vote(oldest, &block.unwrap().0).unwrap();
    let late = entry(vote, 0, bits(N as usize, [3]));
    assert!(chain.insert(header(&chain, head, 101, 0), &[late]).is_ok());
}

#[test]
fn mix_is_of_the_last_block_before_the_previous_epoch() {
    let mut chain = chain(N, 4);
    let genesis = chain.head();
    let mut roots = vec![(0, genesis)];
    // Epoch 2 (slots 8 to 11) has no block.
    for slot in [1, 3, 4, 6, 7, 12, 13, 17] {
        let root = grow(&mut chain, roots[roots.len() - 1].1, slot, &[]);
        roots.push((slot, root));
    }
    for &(head_slot, head) in &roots {
        for epoch in 0..8u64 {
            let before = epoch.saturating_sub(1) * 4;
            let last = roots
                .iter()
                .rev()
                .find(|(slot, _)| *slot < before && *slot <= head_slot);
            let expected =
                digest::epoch_mix(Epoch(epoch), &last.map_or(genesis, |(_, root)| *root));
            let mix = chain.mix(Epoch(epoch), &head);
            if epoch >= head_slot / 4 {
                assert_eq!(
                    mix,
                    Some(expected),
                    "epoch {epoch}, head of slot {head_slot}"
                );
            } else {
                assert_eq!(mix, None);
            }
        }
    }
    assert_eq!(chain.mix(Epoch(1), &[0; 32]), None);
}

#[test]
fn references_and_credits_are_those_of_the_chain() {
    let mut chain = Chain::new([7; 32], Layout::new(10, 2, 1).unwrap(), 4);
    let genesis = chain.head();
    let a = grow(&mut chain, genesis, 1, &[]);
    let vote = chain.vote(Slot(1), &a).unwrap();
    let halves = [
        entry(vote, 0, bits(5, [0, 1])),
        entry(vote, 0, bits(5, [1, 2])),
    ];
    let b = grow(&mut chain, a, 2, &halves);
    let c = grow(&mut chain, b, 3, &[entry(vote, 0, bits(5, [4]))]);
    let at = |slot, head| chain.vote(Slot(slot), &head).unwrap();
    let ones = Bitfield::ones(5);
    assert_eq!(chain.reference(&at(2, b), 0), Some(bits(5, [0, 1, 2])));
    assert_eq!(chain.reference(&at(3, c), 0), Some(bits(5, [4])));
    assert_eq!(chain.reference(&at(2, b), 1), Some(ones.clone()));
    assert_eq!(chain.reference(&at(1, a), 0), Some(ones.clone()));
    // In the next epoch, positions belong to other validators.
    assert_eq!(chain.reference(&at(4, c), 0), Some(ones));
    assert_eq!(chain.reference(&Vote::default(), 0), None);

    assert_eq!(chain.credited(&c, Slot(1), 0), bits(5, [0, 1, 2, 4]));
    assert_eq!(chain.credited(&b, Slot(1), 0), bits(5, [0, 1, 2]));
    assert!(chain.credited(&a, Slot(1), 0).none());
    assert!(chain.credited(&c, Slot(1), 1).none());
    assert!(chain.credited(&c, Slot(2), 0).none());
}

#[test]
fn votes_are_checked_against_the_chain_of_their_head() {
    let chain = full(5);
    let head = chain.head();
    let vote = chain.vote(Slot(5), &head).unwrap();
    assert_eq!(chain.check_vote(&vote), Ok(()));
    assert_eq!(vote.source.slot, Slot(4));
    let change = |change: &dyn Fn(&mut Vote)| {
        let mut vote = vote;
        change(&mut vote);
        chain.check_vote(&vote)
    };
    let inconsistent = Err(Reject::InconsistentVote);
    assert_eq!(change(&|v| v.head[0] ^= 1), Err(Reject::UnknownBlock));
    assert_eq!(change(&|v| v.slot.0 += 1), inconsistent);
    assert_eq!(change(&|v| v.target.slot.0 += 1), inconsistent);
    assert_eq!(change(&|v| v.target.root[0] ^= 1), inconsistent);
    assert_eq!(change(&|v| v.source.slot.0 -= 1), inconsistent);
    assert_eq!(change(&|v| v.source.root[0] ^= 1), inconsistent);
    // From a slot before its head.
    let early = |v: &mut Vote| (v.slot, v.target.slot) = (Slot(4), Slot(4));
    assert_eq!(change(&early), inconsistent);
    assert_eq!(chain.vote(Slot(4), &head), None);
}

/// A proposer that signs many blocks controls by their order which one a node gets first. The one that the network
/// votes for and builds on is still accepted, and stays.
#[test]
fn a_slot_has_a_bounded_number_of_blocks_by_weight_and_not_by_order() {
    let mut chain = chain(N, 32);
    let genesis = chain.head();
    let insert = |chain: &mut Chain, body: u8| {
        let header = header(chain, genesis, 1, body);
        assert_eq!(chain.check_header(&header), Ok(()));
        chain.insert(header, &[]).unwrap();
        assert!(chain.in_slot[&Slot(1)] <= BLOCKS_PER_SLOT_MAX);
        header.root()
    };
    for body in 0..BLOCKS_PER_SLOT_MAX as u8 {
        insert(&mut chain, body);
    }
    let chosen = insert(&mut chain, 99);
    chain.set_slot(Slot(2));
    let vote = chain.vote(Slot(1), &chosen).unwrap();
    let members = assignment(Epoch(0), &[0; 32], chain.layout);
    let one = bits(N as usize, [3]);
    assert_eq!(chain.add_votes(&vote, &members, 0, &one), Ok(1));
    for body in 100..150 {
        insert(&mut chain, body);
        assert!(chain.by_root.contains_key(&chosen), "{body}");
    }
    let child = grow(&mut chain, chosen, 2, &[]);
    for body in 150..200 {
        insert(&mut chain, body);
    }
    let kept = chain.ancestors(&child).map(|(root, _)| root);
    assert!(kept.eq([child, chosen, genesis]));
    assert_eq!(chain.in_slot[&Slot(1)], BLOCKS_PER_SLOT_MAX);
    assert_eq!(chain.by_root.len(), BLOCKS_PER_SLOT_MAX + 2);
}

/// Every block of the slot has a child.
#[test]
fn a_slot_is_full_where_no_block_can_make_room() {
    let mut chain = chain(N, 32);
    let genesis = chain.head();
    for body in 0..BLOCKS_PER_SLOT_MAX as u8 {
        let header = header(&chain, genesis, 1, body);
        chain.insert(header, &[]).unwrap();
        grow(&mut chain, header.root(), 2 + u64::from(body), &[]);
    }
    let one_more = header(&chain, genesis, 1, 99);
    assert_eq!(chain.insert(one_more, &[]), Err(Reject::Full));
    assert_eq!(chain.check_header(&one_more), Err(Reject::Full));
    // A block from the node's own store is restored, since its children may follow.
    chain.restore_under(one_more, &[], &|_| None).unwrap();
    grow(&mut chain, one_more.root(), 40, &[]);
}

#[test]
fn votes_outside_the_window_are_not_counted() {
    let mut chain = full(3);
    let head = chain.head();
    let members = assignment(Epoch(0), &[0; 32], chain.layout);
    let all = Bitfield::ones(N as usize);
    chain.set_slot(Slot(5));
    let vote = |chain: &Chain, slot| chain.vote(Slot(slot), &head).unwrap();
    let mut add = |slot| {
        let vote = vote(&chain, slot);
        chain.add_votes(&vote, &members, 0, &all)
    };
    assert_eq!(add(3), Err(Reject::TooOld));
    assert_eq!(add(4), Ok(9));
    assert_eq!(add(4), Ok(0));
    assert_eq!(add(6), Ok(9));
    assert_eq!(add(7), Err(Reject::TooEarly));
    let inconsistent = Vote {
        head,
        slot: Slot(5),
        ..Vote::default()
    };
    let refused = chain.add_votes(&inconsistent, &members, 0, &all);
    assert_eq!(refused, Err(Reject::InconsistentVote));

    assert_eq!(chain.strongest_vote(Slot(4)).unwrap().signers, 9);
    assert_eq!(chain.strongest_vote(Slot(5)), None);
    chain.set_slot(Slot(6));
    assert_eq!(chain.strongest_vote(Slot(4)), None);
}

/// Committees of 2^12, so that a few blocks take many bytes.
fn wide() -> Chain {
    Chain::new([7; 32], Layout::new(1 << 15, 8, 1).unwrap(), 32)
}

/// A block in the slot on genesis, with votes of all committees for genesis.
fn heavy(chain: &mut Chain, slot: u64, body: u8) -> Result<Inserted, Reject> {
    let genesis = chain.justified().root;
    let vote = chain.vote(Slot(slot - 1), &genesis).unwrap();
    // Fewer than two thirds, so that nothing becomes final.
    let entries: Vec<Entry> = (0..8)
        .map(|c| entry(vote, c, bits(1 << 12, 0..2_000)))
        .collect();
    let header = header(chain, genesis, slot, body);
    chain.insert(header, &entries)
}

#[test]
fn hostile_blocks_fill_a_bounded_number_of_bytes() {
    let block_bytes = VOTE_BYTES + 8 * (SET_BYTES + (1 << 12) / 8);
    let mut chain = wide();
    chain.room.max = [10 * block_bytes, 3 * block_bytes];
    // Equivocations of one proposer are limited to their share; every slot's first block still fits.
    assert_eq!(heavy(&mut chain, 1, 0), Ok(Inserted::default()));
    let further: Vec<bool> = (1..8)
        .map(|body| heavy(&mut chain, 1, body).is_ok())
        .collect();
    assert_eq!(further, [true, true, true, false, false, false, false]);
    for slot in 2..8 {
        assert_eq!(
            heavy(&mut chain, slot, 0),
            Ok(Inserted::default()),
            "slot {slot}"
        );
    }
    assert_eq!(chain.room.used, [10 * block_bytes, 3 * block_bytes]);
    assert_eq!(heavy(&mut chain, 8, 0), Err(Reject::Full));
    // A block without entries takes no bytes, so the chain can always continue.
    let genesis = chain.justified().root;
    grow(&mut chain, genesis, 9, &[]);
}

#[test]
fn a_block_that_finds_no_room_costs_no_sets() {
    let block_bytes = VOTE_BYTES + 8 * (SET_BYTES + (1 << 12) / 8);
    let mut chain = wide();
    chain.room.max = [10 * block_bytes, 3 * block_bytes];
    for slot in 1..8 {
        assert!(heavy(&mut chain, slot, 0).is_ok(), "slot {slot}");
    }
    // Three further blocks of one slot, the last of which needs room that an old block gives.
    for body in 0..4 {
        assert!(heavy(&mut chain, 100, body).is_ok(), "block {body}");
    }
    assert_eq!(chain.room.used, [10 * block_bytes, 3 * block_bytes]);
    // Old blocks could give more, but not of the share of further blocks.
    assert_eq!(heavy(&mut chain, 100, 4), Err(Reject::Full));
    assert_eq!(chain.room.used, [10 * block_bytes, 3 * block_bytes]);
}

#[test]
fn finality_gives_the_room_back() {
    let mut chain = chain(N, 32);
    let mut parent = chain.head();
    for slot in 1..=60 {
        let vote = chain.vote(Slot(slot - 1), &parent).unwrap();
        let entries = [entry(vote, 0, Bitfield::ones(N as usize))];
        parent = grow(&mut chain, parent, slot, &entries);
    }
    let kept: usize = chain.nodes.iter().map(|node| node.bytes).sum();
    assert_eq!(chain.room.used, [kept, 0]);
    assert_eq!(kept, (chain.nodes.len()) * (VOTE_BYTES + SET_BYTES + 8));
    assert!(chain.nodes.len() < 60, "{} blocks", chain.nodes.len());
}

/// The largest possible blocks reach the bound on bytes before the bound on their number.
#[test]
fn the_bound_on_bytes_is_what_the_constants_say() {
    let largest = 512 * (SET_BYTES + (1 << 15) / 8) + 32 * 16 * VOTE_BYTES;
    assert!((450..550).contains(&(UNFINALISED_BYTES_MAX / largest)));
    assert!(UNFINALISED_BLOCKS_MAX * largest > 8 * UNFINALISED_BYTES_MAX);
    assert!(EQUIVOCATION_BYTES_MAX / largest > BLOCKS_PER_SLOT_MAX);
}
