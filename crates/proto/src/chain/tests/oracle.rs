//! The fork choice as it was before ballots were sets by committee: a set over all validators for
//! each vote, and nothing kept from one question to the next.

use super::*;

/// The signers of a vote, by validator.
struct Row {
    vote: Vote,
    validators: Bitfield,
}

/// Members of at least one set, and of at least two.
fn once_and_twice(rows: &[&Row], len: usize) -> (Bitfield, Bitfield) {
    let (mut once, mut twice) = (Bitfield::new(len), Bitfield::new(len));
    for row in rows {
        let mut again = once.clone();
        again.intersect_with(&row.validators);
        twice.union_with(&again);
        once.union_with(&row.validators);
    }
    (once, twice)
}

/// Validators whose latest vote is for a head, for each vote that counts.
fn weights(rows: &[Row], slot: Slot, len: usize) -> BTreeMap<Root, u64> {
    let of = |slot: u64| -> Vec<&Row> { rows.iter().filter(|r| r.vote.slot.0 == slot).collect() };
    let (current, previous) = (of(slot.0), of(slot.0 - 1));
    let (voted, equivocated) = once_and_twice(&current, len);
    let (_, mut expired) = once_and_twice(&previous, len);
    expired.union_with(&voted);
    let mut weights = BTreeMap::new();
    for (rows, not) in [(current, equivocated), (previous, expired)] {
        for row in rows {
            let weight = row.validators.count_and_not(&not) as u64;
            *weights.entry(row.vote.head).or_default() += weight;
        }
    }
    weights
}

/// A tree, who voted for what, and under which committees.
#[derive(Clone, Debug)]
struct Case {
    /// Parent of block i + 1 among blocks 0 to i.
    parents: Vec<usize>,
    /// (slot 0 = previous or 1 = current, block, validators).
    votes: Vec<(usize, usize, BTreeSet<u32>)>,
    /// The assignment of a slot on even and on odd blocks.
    assignments: [[usize; 2]; 2],
}

const VALIDATORS: u32 = 150;

fn cases() -> impl Strategy<Value = Case> {
    let parents = (1usize..10).prop_flat_map(|n| {
        let parents: Vec<_> = (0..n).map(|i| 0..=i).collect();
        parents
    });
    let validators = proptest::collection::btree_set(0..VALIDATORS, 0..100);
    let votes = proptest::collection::vec((0usize..2, 0usize..10, validators), 0..24);
    let assignments = prop_oneof![
        Just([[0, 0], [0, 0]]),
        // An epoch's border.
        Just([[0, 0], [1, 1]]),
        // Branches with committees of their own.
        Just([[0, 1], [0, 1]]),
        Just([[0, 1], [1, 2]]),
    ];
    (parents, votes, assignments).prop_map(|(parents, votes, assignments)| Case {
        parents,
        votes,
        assignments,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn ballots_by_committee_choose_as_sets_of_validators_did(case in cases()) {
        let layout = Layout::new(VALIDATORS, 4, 1).unwrap();
        let mut chain = Chain::new([7; 32], layout, 32);
        let mut roots = vec![chain.head()];
        for (slot, parent) in (1..).zip(&case.parents) {
            roots.push(grow(&mut chain, roots[*parent], slot, &[]));
        }
        let slot = Slot(roots.len() as u64 + 1);
        chain.set_slot(slot);
        let seats = [0, 1, 2].map(|i| assignment(Epoch(0), &[i; 32], layout));
        let mut rows: Vec<Row> = Vec::new();
        for (which, block, validators) in &case.votes {
            let block = block % roots.len();
            let vote = chain.vote(Slot(slot.0 - 1 + *which as u64), &roots[block]).unwrap();
            let seats = &seats[case.assignments[*which][block % 2]];
            let mut signers: Vec<Bitfield> = (0..4)
                .map(|c| Bitfield::new(layout.committee_len(c) as usize))
                .collect();
            let mut set = Bitfield::new(VALIDATORS as usize);
            for &validator in validators {
                set.set(validator as usize);
                let position = seats.position(Validator(validator)).unwrap();
                let committee = layout.cell_of(position).committee;
                let first = layout.committee_range(committee).start;
                signers[usize::from(committee)].set((position - first) as usize);
            }
            for (committee, signers) in (0..).zip(&signers) {
                chain.add_votes(&vote, seats, committee, signers).unwrap();
            }
            match rows.iter_mut().find(|row| row.vote == vote) {
                Some(row) => row.validators.union_with(&set),
                None => rows.push(Row { vote, validators: set }),
            }
        }
        let mut found = BTreeMap::<Root, u64>::new();
        for (head, weight) in chain.vote_weights() {
            *found.entry(head).or_default() += weight;
        }
        let expected = weights(&rows, slot, VALIDATORS as usize);
        prop_assert_eq!(found, expected);
    }
}
