//! Votes of unequal weight.

use super::*;

/// Nine validators: the last weighs as much as all others together.
fn weighed() -> (Chain, Assignment) {
    let mut increments = vec![32; 8];
    increments.push(256);
    let layout = Layout::new(N, 1, 1).unwrap();
    let chain = Chain::new([7; 32], layout, 32).with_weights(Weights::new(increments).unwrap());
    // Position i is validator 8 − i.
    let members = Assignment::new(Epoch(0), layout, (0..N).rev().collect()).unwrap();
    (chain, members)
}

#[test]
fn balances_have_a_bound() {
    let error = Weights::new(vec![1, 2_048, 2_049]).unwrap_err();
    assert_eq!((error.validator, error.increments), (2, 2_049));
    assert_eq!(Weights::new(vec![0, 2_048, 1]).unwrap().total(), 2_049);
    assert_eq!(Weights::equal(12).total(), 12);
    for (weight, expected) in [(7, false), (8, true)] {
        assert_eq!(Weights::equal(12).is_supermajority(weight), expected);
    }
}

#[test]
fn the_head_is_where_the_balances_are() {
    let (mut chain, members) = weighed();
    let genesis = chain.head();
    let [a, b] = [1, 2].map(|slot| grow(&mut chain, genesis, slot, &[]));
    let cast = |chain: &mut Chain, slot, head: &Root, positions: &[usize]| {
        let vote = chain.vote(Slot(slot), head).unwrap();
        let signers = bits(N as usize, positions.iter().copied());
        chain.add_votes(&vote, &members, 0, &signers).unwrap();
    };
    chain.set_slot(Slot(2));
    cast(&mut chain, 2, &a, &[0]);
    cast(&mut chain, 2, &b, &[1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(chain.head(), a, "256 against 224");
    let strongest = chain.strongest_vote(Slot(2)).unwrap();
    assert_eq!(
        (strongest.vote.head, strongest.signers, strongest.weight),
        (a, 1, 256)
    );
    assert!(!chain.weights.is_supermajority(strongest.weight));
    cast(&mut chain, 2, &a, &[8, 7]);
    // Position 7 voted twice: 288 against 192.
    let weights: BTreeMap<Root, u64> = chain.vote_weights().into_iter().collect();
    assert_eq!((weights[&a], weights[&b]), (288, 192));
    chain.set_slot(Slot(3));
    cast(&mut chain, 3, &b, &[0]);
    let mut weights = BTreeMap::<Root, u64>::new();
    for (head, weight) in chain.vote_weights() {
        *weights.entry(head).or_default() += weight;
    }
    assert_eq!(
        (weights[&a], weights[&b]),
        (32, 448),
        "the latest vote moved"
    );
    assert_eq!(chain.head(), b);
}

#[test]
fn two_thirds_are_of_all_weight() {
    let (chain, members) = weighed();
    let seats = |_: &Vote| Some(members.clone());
    let justifies = |positions: &[usize]| {
        let mut chain = chain.clone();
        let genesis = chain.head();
        let a = grow(&mut chain, genesis, 1, &[]);
        let vote = chain.vote(Slot(1), &a).unwrap();
        let entries = [entry(vote, 0, bits(N as usize, positions.iter().copied()))];
        let header = header(&chain, a, 2, 0);
        let unknown = chain.insert(header, &entries);
        assert_eq!(
            unknown,
            Err(Reject::UnknownBlock),
            "nobody says who sits where"
        );
        chain
            .insert_under(header, &entries, &seats)
            .unwrap()
            .justified
    };
    // All except the heaviest are half of 512; with it, three more make two thirds.
    assert!(!justifies(&[1, 2, 3, 4, 5, 6, 7, 8]));
    assert!(!justifies(&[0, 1, 2]));
    assert!(justifies(&[0, 1, 2, 3]));
}

#[test]
fn heavier_ballots_displace_lighter_ones() {
    let layout = Layout::new(600, 1, 1).unwrap();
    let increments = (0..600).map(|v| if v < 100 { 2_048 } else { 1 });
    let weights = Weights::new(increments.collect()).unwrap();
    let mut chain = Chain::new([7; 32], layout, 32).with_weights(weights);
    let members = Assignment::new(Epoch(0), layout, (0..600).collect()).unwrap();
    let genesis = chain.head();
    for slot in 1..=5 {
        for body in 0..BLOCKS_PER_SLOT_MAX as u8 {
            chain
                .insert(header(&chain, genesis, slot, body), &[])
                .unwrap();
        }
    }
    chain.set_slot(Slot(5));
    let heads: Vec<Root> = chain.nodes[1..].iter().map(|node| node.root).collect();
    let mut cast = |head: usize, positions: std::ops::Range<usize>| {
        let vote = chain.vote(Slot(5), &heads[head]).unwrap();
        chain.add_votes(&vote, &members, 0, &bits(600, positions))
    };
    for head in 0..BALLOTS_PER_COMMITTEE_MAX {
        cast(head, 100 + 5 * head..105 + 5 * head).unwrap();
    }
    assert_eq!(cast(70, 500..505), Err(Reject::Full));
    assert_eq!(cast(71, 0..1), Ok(1), "2,048 against five");
}
