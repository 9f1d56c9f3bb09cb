//! The fork choice compared with one that stores a vote per validator.

use super::*;

/// A tree, the votes cast, and the committees they were cast under.
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
        // An epoch boundary.
        Just([[0, 0], [1, 1]]),
        // Branches with different committees.
        Just([[0, 1], [0, 1]]),
        Just([[0, 1], [1, 2]]),
    ];
    (parents, votes, assignments).prop_map(|(parents, votes, assignments)| Case {
        parents,
        votes,
        assignments,
    })
}

/// Validators whose latest vote is for a head, one by one.
fn latest(roots: &[Root], cast: &[(usize, usize, &BTreeSet<u32>)]) -> BTreeMap<Root, u64> {
    let mut weights = BTreeMap::new();
    for validator in 0..VALIDATORS {
        let blocks = |slot| -> BTreeSet<usize> {
            let cast = cast
                .iter()
                .filter(|(s, _, by)| *s == slot && by.contains(&validator));
            cast.map(|(_, block, _)| *block).collect()
        };
        let current = blocks(1);
        let latest = if current.is_empty() {
            blocks(0)
        } else {
            current
        };
        if latest.len() == 1 {
            *weights.entry(roots[*latest.first().unwrap()]).or_default() += 1;
        }
    }
    weights
}

/// The head, subtree by subtree.
fn heaviest(chain: &Chain, roots: &[Root], weights: &BTreeMap<Root, u64>) -> Root {
    let mut head = chain.justified().root;
    loop {
        let subtree = |root: Root| -> u64 {
            let inside = weights
                .iter()
                .filter(|(voted, _)| chain.is_ancestor(&root, voted));
            inside.map(|(_, weight)| weight).sum()
        };
        let children = roots
            .iter()
            .filter(|root| chain.header(root).unwrap().parent == head);
        match children.max_by_key(|root| (subtree(**root), **root)) {
            Some(best) => head = *best,
            None => return head,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_head_is_that_of_one_vote_a_validator(case in cases()) {
        let layout = Layout::new(VALIDATORS, 4, 1).unwrap();
        let mut chain = Chain::new([7; 32], layout, 32);
        let mut roots = vec![chain.head()];
        for (slot, parent) in (1..).zip(&case.parents) {
            roots.push(grow(&mut chain, roots[*parent], slot, &[]));
        }
        let slot = Slot(roots.len() as u64 + 1);
        chain.set_slot(slot);
        let seats = [0, 1, 2].map(|i| assignment(Epoch(0), &[i; 32], layout));
        let mut cast = Vec::new();
        for (which, block, validators) in &case.votes {
            let block = block % roots.len();
            let vote = chain.vote(Slot(slot.0 - 1 + *which as u64), &roots[block]).unwrap();
            let seats = &seats[case.assignments[*which][block % 2]];
            let mut signers: Vec<Bitfield> = (0..4)
                .map(|c| Bitfield::new(layout.committee_len(c) as usize))
                .collect();
            for &validator in validators {
                let position = seats.position(Validator(validator)).unwrap();
                let committee = layout.cell_of(position).committee;
                let first = layout.committee_range(committee).start;
                signers[usize::from(committee)].set((position - first) as usize);
            }
            for (committee, signers) in (0..).zip(&signers) {
                chain.add_votes(&vote, seats, committee, signers).unwrap();
            }
            cast.push((*which, block, validators));
        }
        let mut found = BTreeMap::<Root, u64>::new();
        for (head, weight) in chain.vote_weights() {
            *found.entry(head).or_default() += weight;
        }
        found.retain(|_, weight| *weight > 0);
        let expected = latest(&roots, &cast);
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(chain.head(), heaviest(&chain, &roots, &expected));
        let tree = chain.tree();
        prop_assert_eq!(tree.len(), roots.len());
        for block in tree {
            let behind = expected.iter();
            let behind = behind.filter(|(voted, _)| chain.is_ancestor(&block.root, voted));
            prop_assert_eq!(block.weight, behind.map(|(_, weight)| weight).sum::<u64>());
        }
    }
}
