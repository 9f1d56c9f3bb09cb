//! Horn's consensus argument as a property: with equal weights, an aggregator that drops honest
//! votes gains nothing that it could not have had by voting.
//!
//! World: a tree of blocks, validators with their latest message, a block B that all honest
//! validators vote for, bystanders with any message. An aggregate for B drops a set D of honest
//! validators and contains the adversaries E, |D| <= |E|; φ maps D into E, no two to one.
//!
//! - *Attacked*: each h of D keeps its old message A_h; all of E and the other honest are at B.
//! - *Counterfactual*: all honest are at B; φ(h) votes A_h; the others of E vote B.
//!
//! The number of messages for each block is the same in both, hence the head, for every tree and
//! every tie-break. An expired A_h counts for nothing; φ(h) then votes for the root, which gives
//! weight to no child.
//!
//! The argument is about LMD-GHOST and equal weights, and the tests show both limits: with the
//! balances that EIP-7251 allows, and aggregates compared by their number of signers, there are
//! worlds in which no adversarial vote has the effect of the censorship; and the votes for other
//! targets differ.

use alphorn_proto::chain::Chain;
use alphorn_proto::wire::{Header, Root};
use alphorn_types::{Assignment, Bitfield, Epoch, Layout, Slot};

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Members of `set` with even chance, at most `max`.
    fn some(&mut self, set: &[usize], max: usize) -> Vec<usize> {
        let mut chosen: Vec<usize> = set
            .iter()
            .copied()
            .filter(|_| self.next().is_multiple_of(2))
            .collect();
        chosen.truncate(max);
        chosen
    }
}

/// Blocks as the index of their parent; block 0 is the root, and its own parent.
#[derive(Clone, Debug)]
struct Tree(Vec<usize>);

impl Tree {
    fn random(blocks: usize, chance: &mut Chance) -> Self {
        let mut parents = vec![0];
        (1..blocks).for_each(|i| parents.push(chance.below(i)));
        Self(parents)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// LMD-GHOST from the root; `rank` breaks ties.
    fn head(&self, messages: &[Option<usize>], weights: &[u64], rank: &[usize]) -> usize {
        let mut subtree = vec![0; self.len()];
        for (message, weight) in messages.iter().zip(weights) {
            if let Some(block) = message {
                subtree[*block] += weight;
            }
        }
        for block in (1..self.len()).rev() {
            subtree[self.0[block]] += subtree[block];
        }
        let mut head = 0;
        loop {
            let children = (1..self.len()).filter(|&block| self.0[block] == head);
            match children.max_by_key(|&block| (subtree[block], rank[block])) {
                Some(best) => head = best,
                None => return head,
            }
        }
    }
}

/// How many messages each block has.
fn counts(messages: &[Option<usize>], blocks: usize) -> Vec<usize> {
    let mut counts = vec![0; blocks];
    messages
        .iter()
        .flatten()
        .for_each(|&block| counts[block] += 1);
    counts
}

/// One slot of the argument.
struct Case {
    tree: Tree,
    rank: Vec<usize>,
    adversaries: Vec<usize>,
    dropped: Vec<usize>,
    /// Validators whose message is the old one in both worlds.
    bystanders: Vec<usize>,
    /// Old messages; none = expired, or never sent.
    old: Vec<Option<usize>>,
    /// The block that honest validators vote for.
    target: usize,
}

impl Case {
    fn random(chance: &mut Chance) -> Self {
        let blocks = 2 + chance.below(8);
        let tree = Tree::random(blocks, chance);
        let mut rank: Vec<usize> = (0..blocks).collect();
        for i in (1..blocks).rev() {
            rank.swap(i, chance.below(i + 1));
        }
        let validators = 2 + chance.below(14);
        let adversaries_count = chance.below(validators + 1);
        let (adversaries, rest): (Vec<usize>, Vec<usize>) =
            (0..validators).partition(|&v| v < adversaries_count);
        let (honest, bystanders) = rest.split_at(chance.below(rest.len() + 1));
        let old = (0..validators)
            .map(|_| (chance.below(4) > 0).then(|| chance.below(blocks)))
            .collect();
        Self {
            dropped: chance.some(honest, adversaries.len()),
            bystanders: bystanders.to_vec(),
            target: chance.below(blocks),
            tree,
            rank,
            adversaries,
            old,
        }
    }

    fn validators(&self) -> usize {
        self.old.len()
    }

    /// All at the target, but for the bystanders.
    fn uncensored(&self) -> Vec<Option<usize>> {
        let mut messages = vec![Some(self.target); self.validators()];
        self.bystanders
            .iter()
            .for_each(|&v| messages[v] = self.old[v]);
        messages
    }

    fn attacked(&self) -> Vec<Option<usize>> {
        let mut messages = self.uncensored();
        self.dropped.iter().for_each(|&h| messages[h] = self.old[h]);
        messages
    }

    fn counterfactual(&self) -> Vec<Option<usize>> {
        let mut messages = self.uncensored();
        for (&h, &e) in self.dropped.iter().zip(&self.adversaries) {
            messages[e] = Some(self.old[h].unwrap_or(0));
        }
        messages
    }
}

#[test]
fn dropping_votes_does_no_more_than_voting_does() {
    let mut chance = Chance(1);
    let mut censored = 0;
    for _ in 0..100_000 {
        let case = Case::random(&mut chance);
        censored += usize::from(!case.dropped.is_empty());
        let blocks = case.tree.len();
        let (attacked, counterfactual) = (case.attacked(), case.counterfactual());
        // The root may have more messages: it stands for those that are expired.
        let (a, c) = (counts(&attacked, blocks), counts(&counterfactual, blocks));
        assert_eq!(a[1..], c[1..]);
        let weights = vec![1; case.validators()];
        assert_eq!(
            case.tree.head(&attacked, &weights, &case.rank),
            case.tree.head(&counterfactual, &weights, &case.rank),
        );
    }
    assert!(censored > 30_000, "{censored} cases with a victim");
}

/// Sixteen slots: a block each, on the head or elsewhere; honest validators vote for the head that
/// they see; any victims and old messages are dropped again and again. Messages of two slots count.
#[test]
fn repeated_censorship_never_changes_a_head() {
    const SLOTS: usize = 16;
    let mut chance = Chance(2);
    let mut reorganised = 0;
    for _ in 0..2_000 {
        let validators = 3 + chance.below(12);
        let adversaries_count = chance.below(validators);
        let free_count = chance.below(validators - adversaries_count);
        // Validators who vote for any block, in no aggregate of the attacker.
        let free: Vec<usize> = (adversaries_count..adversaries_count + free_count).collect();
        let honest: Vec<usize> = (adversaries_count + free_count..validators).collect();
        let weights = vec![1; validators];
        let mut tree = Tree(vec![0]);
        // Latest message of each validator, with its slot, where votes are censored.
        let mut attacked: Vec<Option<(usize, usize)>> = vec![None; validators];
        let mut head = 0;
        for slot in 1..=SLOTS {
            let parent = if chance.below(4) > 0 {
                head
            } else {
                chance.below(tree.len())
            };
            tree.0.push(parent);
            let rank: Vec<usize> = (0..tree.len()).collect();
            // Honest validators follow the head, to the new block if it is on it.
            let target = if parent == head { tree.len() - 1 } else { head };
            let dropped = chance.some(&honest, adversaries_count);
            let mut counterfactual = vec![Some(target); validators];
            for (e, &h) in dropped.iter().enumerate() {
                let recent = attacked[h].filter(|&(voted, _)| voted + 1 >= slot);
                counterfactual[e] = Some(recent.map_or(0, |(_, block)| block));
            }
            for (v, message) in attacked.iter_mut().enumerate() {
                if !dropped.contains(&v) {
                    *message = Some((slot, target));
                }
            }
            for &v in &free {
                let block = chance.below(tree.len());
                attacked[v] = Some((slot, block));
                counterfactual[v] = Some(block);
            }
            let counted: Vec<Option<usize>> = attacked
                .iter()
                .map(|message| message.filter(|&(voted, _)| voted + 1 >= slot))
                .map(|message| message.map(|(_, block)| block))
                .collect();
            let seen = tree.head(&counted, &weights, &rank);
            assert_eq!(
                seen,
                tree.head(&counterfactual, &weights, &rank),
                "slot {slot}"
            );
            reorganised += usize::from(seen != target);
            head = seen;
        }
    }
    // The censorship has effects: it is only that votes have them too.
    assert!(reorganised > 0);
}

/// All ways in which `adversaries` can vote: a block each.
fn reachable(case: &Case, weights: &[u64], head: usize) -> bool {
    let blocks = case.tree.len();
    let ways = blocks.pow(case.adversaries.len() as u32);
    (0..ways).any(|way| {
        let mut messages = case.uncensored();
        let mut digits = way;
        for &e in &case.adversaries {
            messages[e] = Some(digits % blocks);
            digits /= blocks;
        }
        case.tree.head(&messages, weights, &case.rank) == head
    })
}

/// With the balances of EIP-7251 an injection of equal weight need not exist. Where aggregates are
/// compared by their number of signers, light adversaries can drop heavy victims, and then no way
/// of voting does what dropping does. Where they are compared by weight, the adversaries are at
/// least as heavy as the victims, and voting for the head in question always reaches it: it gains
/// no less than it gained by the victims' old messages, and B's branch loses no less.
#[test]
fn unequal_weights_break_the_argument() {
    let mut chance = Chance(3);
    let (mut worlds, mut broken) = (0, 0);
    while worlds < 3_000 {
        let case = Case::random(&mut chance);
        if case.adversaries.len() > 3 || case.dropped.is_empty() || case.tree.len() > 5 {
            continue;
        }
        worlds += 1;
        let weights: Vec<u64> = (0..case.validators())
            .map(|_| [32, 64, 2048][chance.below(3)])
            .collect();
        let sum = |set: &[usize]| set.iter().map(|&v| weights[v]).sum::<u64>();
        let attacked = case.attacked();
        let head = case.tree.head(&attacked, &weights, &case.rank);
        if !reachable(&case, &weights, head) {
            assert!(sum(&case.dropped) > sum(&case.adversaries));
            broken += 1;
        }
        let equal = vec![32; case.validators()];
        let head = case.tree.head(&attacked, &equal, &case.rank);
        assert!(reachable(&case, &equal, head), "equal weights");
    }
    println!(
        "in {broken} of {worlds} worlds with weights 32, 64 and 2048 no vote does what dropping does"
    );
    assert!(broken > 0);
}

/// Votes cast in this slot for B's target are |E| + |honest \ D| in both worlds, as long as no
/// A_h is for B itself. For other targets φ(h) adds a vote that the censored world lacks, because
/// A_h was cast for an earlier one: the argument is not about those links.
#[test]
fn votes_for_the_blocks_target_are_equal_and_others_differ() {
    let mut chance = Chance(4);
    let mut others_max = 0;
    for _ in 0..10_000 {
        let case = Case::random(&mut chance);
        let cast_for_target = |messages: &[Option<usize>], silent: &[usize]| {
            let cast =
                (0..messages.len()).filter(|v| !silent.contains(v) && !case.bystanders.contains(v));
            cast.filter(|&v| messages[v] == Some(case.target)).count()
        };
        let old = |h: &usize| case.old[*h].unwrap_or(0);
        let at_target = case.dropped.iter().filter(|h| old(h) == case.target);
        let at_target = at_target.count();
        let attacked = cast_for_target(&case.attacked(), &case.dropped);
        let counterfactual = cast_for_target(&case.counterfactual(), &[]);
        assert_eq!(attacked + at_target, counterfactual);
        others_max = others_max.max(case.dropped.len() - at_target);
    }
    println!("up to {others_max} votes of the counterfactual world are for another target");
    assert!(others_max > 0);
}

/// The same cases through the chain of this crate.
#[test]
fn the_chain_agrees() {
    let mut chance = Chance(5);
    for _ in 0..2_000 {
        let case = Case::random(&mut chance);
        let n = case.validators() as u32;
        let layout = Layout::new(n, 1, 1).unwrap();
        let members = Assignment::new(Epoch(0), layout, (0..n).collect()).unwrap();
        let mut chain = Chain::new([1; 32], layout, 1 << 12);
        let mut roots: Vec<Root> = vec![chain.head()];
        for block in 1..case.tree.len() {
            let slot = Slot(block as u64);
            let header = Header {
                slot,
                proposer: chain.proposer(slot),
                parent: roots[case.tree.0[block]],
                body: [0; 32],
            };
            chain.insert(header, &[]).unwrap();
            roots.push(header.root());
        }
        let slot = case.tree.len() as u64;
        let head = |previous: &[Option<usize>], current: &[Option<usize>]| {
            let mut chain = chain.clone();
            for (slot, messages) in [(slot, previous), (slot + 1, current)] {
                chain.set_slot(Slot(slot));
                for (block, root) in roots.iter().enumerate() {
                    let mut signers = Bitfield::new(n as usize);
                    (0..n as usize)
                        .filter(|&v| messages[v] == Some(block))
                        .for_each(|v| signers.set(v));
                    if signers.any() {
                        let vote = chain.vote(Slot(slot), root).unwrap();
                        chain.add_votes(&vote, &members, 0, &signers).unwrap();
                    }
                }
            }
            chain.head()
        };
        // Old messages are of the previous slot: who casts none now still counts with it.
        let mut attacked = case.attacked();
        let silent = case.dropped.iter().chain(&case.bystanders);
        silent.for_each(|&v| attacked[v] = None);
        let mut counterfactual = case.counterfactual();
        let silent = case.bystanders.iter();
        silent.for_each(|&v| counterfactual[v] = None);
        let attacked = head(&case.old, &attacked);
        assert_eq!(attacked, head(&case.old, &counterfactual));
    }
}
