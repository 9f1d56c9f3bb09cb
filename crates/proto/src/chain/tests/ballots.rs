//! Which ballots count if there are more than a committee keeps.

use super::super::BALLOTS_PER_COMMITTEE_MAX;
use super::*;
use crate::chain::ballots::Uncounted;

/// Number of slots with sibling blocks: more heads than a committee keeps ballots.
const WIDTH: u64 = 6;

/// Puts many blocks on genesis.
fn spread(chain: &mut Chain) -> Vec<Root> {
    let genesis = chain.head();
    for slot in 1..=WIDTH {
        for body in 0..BLOCKS_PER_SLOT_MAX as u8 {
            let header = header(chain, genesis, slot, body);
            chain.insert(header, &[]).unwrap();
        }
    }
    chain.nodes[1..].iter().map(|node| node.root).collect()
}

/// A chain with many blocks on genesis, and votes of 4 committees of 150.
struct Field {
    chain: Chain,
    members: Assignment,
    heads: Vec<Root>,
    slot: Slot,
}

impl Field {
    fn new() -> Self {
        let mut chain = Chain::new([7; 32], Layout::new(600, 4, 1).unwrap(), 32);
        let heads = spread(&mut chain);
        let slot = Slot(WIDTH);
        chain.set_slot(slot);
        Self {
            members: assignment(Epoch(0), &[0; 32], chain.layout),
            chain,
            heads,
            slot,
        }
    }

    fn vote(&self, head: usize) -> Vote {
        self.chain.vote(self.slot, &self.heads[head]).unwrap()
    }

    /// Votes of a committee for a head.
    fn cast(
        &mut self,
        head: usize,
        committee: u16,
        positions: impl IntoIterator<Item = usize>,
    ) -> Result<u32, Reject> {
        let vote = self.vote(head);
        assert_eq!(self.chain.check_vote(&vote), Ok(()));
        let signers = bits(150, positions);
        self.chain
            .add_votes(&vote, &self.members, committee, &signers)
    }

    fn signers(&self, head: usize) -> u32 {
        let counts = self.chain.counts(self.slot);
        let mut counts = counts
            .iter()
            .filter(|count| count.vote.head == self.heads[head]);
        counts.next().map_or(0, |count| count.signers)
    }
}

/// As many single votes as fit, each for a different head.
fn crowded() -> Field {
    let mut field = Field::new();
    for committee in 0..4 {
        for head in 0..BALLOTS_PER_COMMITTEE_MAX {
            assert_eq!(field.cast(head, committee, [head]), Ok(1));
        }
    }
    field
}

#[test]
fn ballots_of_one_vote_shut_nobody_out() {
    let mut field = crowded();
    let honest = BALLOTS_PER_COMMITTEE_MAX + 5;
    assert_eq!(field.cast(honest, 0, [64]), Err(Reject::Full), "a tie");
    for committee in 0..4 {
        assert_eq!(field.cast(honest, committee, 64..107), Ok(43));
        assert_eq!(field.cast(honest, committee, 64..108), Ok(1));
    }
    assert_eq!(field.signers(honest), 4 * 44);
    let strongest = field.chain.strongest_vote(field.slot).unwrap();
    assert_eq!(strongest.vote, field.vote(honest));
    assert_eq!(field.chain.head(), field.heads[honest]);
    let expected = Uncounted {
        refused: 1,
        displaced: 4,
    };
    assert_eq!(field.chain.uncounted(), expected);
}

#[test]
fn the_own_vote_always_counts_and_takes_nobodys_room() {
    let mut field = crowded();
    let own = BALLOTS_PER_COMMITTEE_MAX;
    let vote = field.vote(own);
    field.chain.set_own_vote(&vote);
    assert_eq!(field.cast(own, 0, [64]), Ok(1));
    assert_eq!(field.chain.uncounted(), Uncounted::default());
    // It stays, whatever arrives later.
    for head in own + 1..field.heads.len() {
        let first = 65 + 2 * (head - own);
        assert_eq!(field.cast(head, 0, [first, first + 1]), Ok(2));
    }
    assert_eq!(field.signers(own), 1);
    let displaced = (field.heads.len() - own - 1) as u64;
    assert_eq!(field.chain.uncounted().displaced, displaced);
}

#[test]
fn an_attacker_needs_as_many_votes_for_each_ballot_as_it_shuts_out() {
    // 64 ballots of two votes each keep out two votes, but not three.
    let mut field = Field::new();
    for head in 0..BALLOTS_PER_COMMITTEE_MAX {
        assert_eq!(field.cast(head, 0, [2 * head, 2 * head + 1]), Ok(2));
    }
    let honest = BALLOTS_PER_COMMITTEE_MAX;
    assert_eq!(field.cast(honest, 0, 128..130), Err(Reject::Full));
    assert_eq!(field.cast(honest, 0, 128..131), Ok(3));
    // Ballots of another committee do not count here.
    assert_eq!(field.cast(honest, 1, [0]), Ok(1));
}

#[test]
fn those_who_vote_for_everything_weigh_nothing() {
    let mut field = Field::new();
    for head in 0..BALLOTS_PER_COMMITTEE_MAX {
        assert_eq!(field.cast(head, 0, 0..100), Ok(100));
    }
    let honest = BALLOTS_PER_COMMITTEE_MAX;
    assert_eq!(field.cast(honest, 0, [100]), Ok(1));
    assert_eq!(field.chain.head(), field.heads[honest]);
    // Their double votes are remembered after all their other ballots were displaced.
    for head in honest + 1..field.heads.len() {
        let first = 100 + head - honest;
        assert_eq!(field.cast(head, 0, [first]), Ok(1));
    }
    let mut field = Field::new();
    assert_eq!(field.cast(0, 0, 0..50), Ok(50));
    for head in 1..BALLOTS_PER_COMMITTEE_MAX {
        assert_eq!(field.cast(head, 0, [0, 50 + head]), Ok(2));
    }
    let refused = BALLOTS_PER_COMMITTEE_MAX;
    assert_eq!(field.cast(refused, 0, [1, 2, 3]), Err(Reject::Full));
    let weights: BTreeMap<Root, u64> = field.chain.vote_weights().into_iter().collect();
    assert_eq!(weights[&field.heads[0]], 46, "0 to 3 voted twice");
}

/// Collections of four committees arrive one by one, with 16 attackers with a few dozen votes each
/// and more with one vote, in any order.
#[test]
fn honest_ballots_count_in_every_order() {
    let heads = BALLOTS_PER_COMMITTEE_MAX + 20;
    for seed in 0..50 {
        let mut field = Field::new();
        let mut casts: Vec<(usize, u16, Vec<usize>)> = Vec::new();
        for committee in 0..4 {
            casts.push((0, committee, (0..30).collect()));
            casts.push((1, committee, (30..33).collect()));
            casts.push((2, committee, (33..66).collect()));
            casts.extend((3..heads).map(|head| (head, committee, vec![66 + head])));
        }
        let mut state = seed;
        let mut next = move |bound: usize| {
            state = (state ^ 0x9e37_79b9_7f4a_7c15_u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state ^= state >> 29;
            state as usize % bound
        };
        while !casts.is_empty() {
            let (head, committee, positions) = casts.swap_remove(next(casts.len()));
            let _ = field.cast(head, committee, positions);
        }
        assert_eq!(
            [0, 1, 2].map(|head| field.signers(head)),
            [120, 12, 132],
            "{seed}"
        );
        assert_eq!(field.chain.head(), field.heads[2]);
    }
}

/// Random votes of two slots under two assignments, with more ballots than fit, of unequal weight.
#[test]
fn an_epochs_border_is_weighed_as_its_sets_say() {
    let layout = Layout::new(800, 2, 1).unwrap();
    let seats = [0, 1].map(|i| assignment(Epoch(i), &[i as u8; 32], layout));
    let mut lost = 0;
    for seed in 1..=40_u64 {
        let mut state = seed;
        let mut next = move |bound: u64| {
            state = (state ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state ^= state >> 29;
            state % bound
        };
        let weights = Weights::new((0..800).map(|_| 1 + next(40) as u16).collect()).unwrap();
        let mut chain = Chain::new([7; 32], layout, 32).with_weights(weights);
        let heads = spread(&mut chain);
        chain.set_slot(Slot(WIDTH + 1));
        for _ in 0..600 {
            let which = next(2);
            let head = heads[next(96) as usize];
            let vote = chain.vote(Slot(WIDTH + which), &head).unwrap();
            let signers = (0..1 + next(3)).map(|_| next(400) as usize);
            let signers = bits(400, signers.collect::<Vec<_>>());
            let committee = next(2) as u16;
            let _ = chain.add_votes(&vote, &seats[which as usize], committee, &signers);
            assert_eq!(chain.vote_weights(), chain.vote_weights_anew(), "{seed}");
        }
        lost += chain.uncounted().displaced;
    }
    assert!(lost > 100, "{lost} votes gave way");
}

#[test]
fn votes_name_heads_that_can_be_one() {
    let mut chain = full(30);
    let ancestors: Vec<(Root, u64)> = chain
        .ancestors(&chain.head())
        .map(|(root, header)| (root, header.slot.0))
        .collect();
    for (root, built) in ancestors {
        // The next block arrived in the next slot.
        for slot in built..=40 {
            let vote = chain.vote(Slot(slot), &root).unwrap();
            let expected = match built == 30 || slot <= built + 1 + HEAD_LAG_SLOTS {
                true => Ok(()),
                false => Err(Reject::StaleHead),
            };
            assert_eq!(chain.check_vote(&vote), expected, "{slot} for {built}");
            assert_eq!(chain.check_consistent(&vote), Ok(()));
        }
    }
    // A block of slot 31 was withheld until slot 60: until then all voted for its parent.
    let head = chain.head();
    chain.set_slot(Slot(60));
    let vote = chain.vote(Slot(60), &head).unwrap();
    grow(&mut chain, head, 31, &[]);
    assert_eq!(chain.check_vote(&vote), Ok(()));
    // A fork elsewhere changes nothing.
    let vote = chain.vote(Slot(80), &head).unwrap();
    assert_eq!(chain.check_vote(&vote), Err(Reject::StaleHead));
    // What a block may include does not depend on other known blocks.
    assert_eq!(chain.check_inclusion(&vote, Slot(81), &head), Ok(()));
}
