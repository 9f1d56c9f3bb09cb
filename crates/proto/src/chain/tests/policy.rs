//! Known attacks on the fork choice, and the policies against which they succeed.

use super::*;

/// A fifth belongs to the adversary unless stated otherwise.
const ALL: usize = 60;
const HONEST: usize = 48;

fn start(policy: Policy) -> Chain {
    let layout = Layout::new(ALL as u32, 1, 1).unwrap();
    Chain::new([7; 32], layout, 32).with_policy(policy)
}

/// The end of a slot and the start of the next one.
fn next_slot(chain: &mut Chain, slot: u64) {
    chain.freeze();
    chain.set_slot(Slot(slot));
}

fn cast(chain: &mut Chain, slot: u64, head: Root, voters: std::ops::Range<usize>) {
    let vote = chain.vote(Slot(slot), &head).unwrap();
    let members = assignment(Epoch(0), &[0; 32], chain.layout);
    chain
        .add_votes(&vote, &members, 0, &bits(ALL, voters))
        .unwrap();
}

/// The adversary's block of slot 2 and its votes for it arrive after the honest block of slot 3 and
/// before the vote. A vote for it does not reorganise anything yet, but leaves the honest block
/// out.
fn ex_ante(policy: Policy) -> (Chain, Root, Root) {
    let mut chain = start(policy);
    let genesis = chain.head();
    chain.set_slot(Slot(1));
    let a = grow(&mut chain, genesis, 1, &[]);
    cast(&mut chain, 1, a, 0..ALL);
    chain.thaw();
    next_slot(&mut chain, 2);
    cast(&mut chain, 2, a, 0..HONEST);
    chain.thaw();
    next_slot(&mut chain, 3);
    let honest = grow(&mut chain, a, 3, &[]);
    let withheld = grow(&mut chain, a, 2, &[]);
    cast(&mut chain, 2, withheld, HONEST..ALL);
    (chain, honest, withheld)
}

#[test]
fn ex_ante_reorganisation_works_against_latest_votes_alone() {
    let (chain, _, withheld) = ex_ante(Policy::Lmd);
    assert_eq!(chain.head(), withheld);
    for policy in [Policy::ProposerBoost, Policy::ViewMerge] {
        let (mut chain, honest, withheld) = ex_ante(policy);
        assert_eq!(chain.head(), honest, "{policy:?}");
        // Only until the vote: then its weight decides, and everything seen counts.
        assert_eq!(chain.proposal_parent(), withheld);
        cast(&mut chain, 3, honest, 0..HONEST);
        chain.thaw();
        assert_eq!(chain.head(), honest);
        next_slot(&mut chain, 4);
        assert_eq!(chain.head(), honest);
    }
}

/// The proposer of the next slot leaves an honest block out: its boost and its votes are less than
/// the honest votes for that block.
#[test]
fn a_boost_reorganises_no_block_that_was_voted_for() {
    let (mut chain, honest, _) = ex_ante(Policy::ProposerBoost);
    cast(&mut chain, 3, honest, 0..HONEST);
    chain.thaw();
    next_slot(&mut chain, 4);
    let parent = chain.header(&honest).unwrap().parent;
    let beside = grow(&mut chain, parent, 4, &[]);
    cast(&mut chain, 4, beside, HONEST..ALL);
    assert_eq!(chain.view.boost(ALL as u64), Some((beside, 20)));
    assert_eq!(chain.head(), honest, "20 + 12 against 48");
}

#[test]
fn a_late_block_and_two_of_one_proposer_have_no_boost() {
    let mut chain = start(Policy::ProposerBoost);
    let genesis = chain.head();
    chain.set_slot(Slot(1));
    let first = grow(&mut chain, genesis, 1, &[]);
    assert_eq!(chain.view.boost(60), Some((first, 20)));
    let second = header(&chain, genesis, 1, 9);
    chain.insert(second, &[]).unwrap();
    assert_eq!(chain.view.boost(60), None);
    let greatest = first.max(second.root());
    assert_eq!(chain.head(), greatest, "equal weights");
    chain.set_slot(Slot(2));
    chain.thaw();
    grow(&mut chain, first, 2, &[]);
    assert_eq!(chain.view.boost(60), None);
}

/// Two halves of the honest validators with their views, and two adversarial votes in each slot,
/// one of which reaches each half before it votes. Returns the number of slots in which the halves
/// voted for different heads.
fn balancing(policy: Policy) -> usize {
    let mut views = [start(policy), start(policy)];
    let genesis = views[0].head();
    let sides = [1, 2].map(|body| header(&views[0], genesis, 1, body));
    for view in &mut views {
        view.set_slot(Slot(1));
        view.thaw();
        for side in sides {
            view.insert(side, &[]).unwrap();
        }
    }
    let mut heads = sides.map(|side| side.root());
    let halves = [0..29, 29..58];
    let adversary = [58..59, 59..60];
    let mut apart = 0;
    for slot in 1..20 {
        if slot > 1 {
            views.iter_mut().for_each(|view| next_slot(view, slot));
            let parent = views[0].proposal_parent();
            let block = header(&views[0], parent, slot, 0);
            for view in &mut views {
                view.insert(block, &[]).unwrap();
            }
            for (i, view) in views.iter_mut().enumerate() {
                cast(view, slot - 1, heads[i], adversary[i].clone());
            }
            heads = [views[0].head(), views[1].head()];
        }
        apart += usize::from(heads[0] != heads[1]);
        for view in &mut views {
            for (half, head) in halves.iter().zip(heads) {
                cast(view, slot, head, half.clone());
            }
            view.thaw();
        }
    }
    apart
}

#[test]
fn balancing_works_against_latest_votes_alone() {
    assert_eq!(balancing(Policy::Lmd), 19, "in every slot");
    assert_eq!(balancing(Policy::ProposerBoost), 1, "in the first");
    assert_eq!(balancing(Policy::ViewMerge), 1);
}

#[test]
fn what_the_proposer_brings_is_merged() {
    let mut chain = start(Policy::ViewMerge);
    let genesis = chain.head();
    chain.set_slot(Slot(1));
    let [a, b] = [1, 2].map(|body| header(&chain, genesis, 1, body));
    for block in [a, b] {
        chain.insert(block, &[]).unwrap();
    }
    let (a, b) = (a.root().min(b.root()), a.root().max(b.root()));
    chain.thaw();
    next_slot(&mut chain, 2);
    // A block and votes for the other side come too late, and in the next block.
    let late = {
        let late = header(&chain, a, 1, 0);
        assert_eq!(chain.insert(late, &[]), Err(Reject::InvalidBlock));
        chain.set_slot(Slot(3));
        grow(&mut chain, a, 2, &[])
    };
    cast(&mut chain, 2, late, 0..30);
    assert_eq!((chain.head(), chain.proposal_parent()), (b, late));
    let block = header(&chain, late, 3, 0);
    chain.insert(block, &[]).unwrap();
    assert_eq!(chain.head(), b, "a block without the votes");
    let vote = chain.vote(Slot(2), &late).unwrap();
    let members = assignment(Epoch(0), &[0; 32], chain.layout);
    let brought = Cast {
        vote: &vote,
        assignment: &members,
        committee: 0,
        signers: &bits(ALL, 0..10),
    };
    assert_eq!(chain.count_votes(&brought, Some(&block)), Ok(0));
    assert_eq!(chain.head(), block.root());
    // After the vote everything counts, and the next view is complete.
    chain.thaw();
    assert_eq!(chain.head(), block.root());
    next_slot(&mut chain, 4);
    assert_eq!(chain.head(), chain.proposal_parent());
}
