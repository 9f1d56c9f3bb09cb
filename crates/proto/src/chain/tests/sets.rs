//! Memory of ballots at a million validators, alone and shared.

use super::*;
use crate::chain::BALLOTS_PER_COMMITTEE_MAX;

const MILLION: u32 = 1 << 20;

/// Every validator votes in slot 9 for one of 64 heads, with the same pattern in each committee.
fn voted(members: &Assignment, supports: &Arc<Supports>) -> Chain {
    let mut chain = Chain::new([7; 32], *members.layout(), 32);
    chain.lend_supports(supports.clone());
    let genesis = chain.head();
    for slot in 1..=4 {
        for body in 0..BLOCKS_PER_SLOT_MAX as u8 {
            chain
                .insert(header(&chain, genesis, slot, body), &[])
                .unwrap();
        }
    }
    chain.set_slot(Slot(9));
    let heads: Vec<Root> = chain.nodes[1..].iter().map(|node| node.root).collect();
    for committee in 0..32_u16 {
        for (i, head) in heads.iter().enumerate() {
            let vote = chain.vote(Slot(9), head).unwrap();
            // Which 512 of 32,768 differs by committee.
            let first = (i + usize::from(committee)) % BALLOTS_PER_COMMITTEE_MAX * 512;
            let signers = bits(1 << 15, first..first + 512);
            assert_eq!(
                chain.add_votes(&vote, members, committee, &signers),
                Ok(512)
            );
        }
    }
    chain
}

#[test]
fn a_million_votes_take_little_where_sets_are_shared() {
    let layout = Layout::new(MILLION, 32, 64).unwrap();
    let members = Assignment::new(Epoch(0), layout, (0..MILLION).collect()).unwrap();
    let supports = Arc::<Supports>::default();
    let mut one = voted(&members, &supports);
    let all: u32 = one.counts(Slot(9)).iter().map(|count| count.signers).sum();
    assert_eq!(all, MILLION);
    let alone = one.voters_bytes() as usize + one.ballots_bytes();
    assert!(alone <= 16 << 20, "{alone} bytes");
    assert!(
        one.ballots_bytes() <= 64 << 10,
        "{} bytes",
        one.ballots_bytes()
    );
    // A second chain that sees the same votes needs no further set.
    let sets = supports.count();
    let two = voted(&members, &supports);
    assert_eq!(supports.count(), sets);
    assert_eq!(one.head(), two.head());
    // Sets of past slots are gone, too.
    drop(two);
    one.set_slot(Slot(11));
    assert_eq!((one.voters_bytes(), supports.count()), (0, 0));
}

#[test]
fn blocks_share_sets_too() {
    let supports = Arc::<Supports>::default();
    let grown = || {
        let mut chain = wide();
        chain.lend_supports(supports.clone());
        for slot in 1..=30 {
            heavy(&mut chain, slot, 0).unwrap();
        }
        chain
    };
    let (_one, _two) = (grown(), grown());
    assert_eq!(supports.count(), 1, "2,000 of each committee in all blocks");
}
