//! A chain in which nothing becomes final for a long time.

use super::super::room::FOLDED_SLOTS;
use super::*;

/// An inserted block.
type Made = (Header, Vec<Entry>);

/// A chain with everything inserted into it, as a node has it on disk.
struct Log {
    chain: Chain,
    made: Vec<Made>,
}

impl Log {
    fn new(blocks_max: usize) -> Self {
        let mut chain = chain(N, 32);
        chain.room.blocks_max = blocks_max;
        let made = Vec::new();
        Self { chain, made }
    }

    fn grow(&mut self, parent: Root, slot: u64, body: u8, entries: Vec<Entry>) -> Root {
        let header = header(&self.chain, parent, slot, body);
        self.chain.insert(header, &entries).unwrap();
        self.made.push((header, entries));
        header.root()
    }

    /// All validators vote in the previous slot, and the block includes their votes.
    fn grow_with_all(&mut self, parent: Root, slot: u64) -> Root {
        let vote = self.chain.vote(Slot(slot - 1), &parent).unwrap();
        assert_eq!(self.chain.check_vote(&vote), Ok(()));
        let all = Bitfield::ones(N as usize);
        self.grow(parent, slot, 0, vec![entry(vote, 0, all)])
    }

    /// Finality returns within two slots of full votes, both here and after a restart.
    fn recovers(mut self, mut parent: Root, slot: u64) {
        for slot in slot..slot + 3 {
            parent = self.grow_with_all(parent, slot);
        }
        assert_eq!(self.chain.finalised().slot, Slot(slot));
        assert!(self.chain.nodes.len() < 100, "and room with it");
        let mut again = Log::new(self.chain.room.blocks_max).chain;
        for (header, entries) in &self.made {
            let _ = again.insert(*header, entries);
        }
        assert_eq!(again.finalised(), self.chain.finalised());
        assert_eq!(again.justified(), self.chain.justified());
        assert_eq!((again.head(), parent), (parent, self.chain.head()));
    }
}

#[test]
fn finality_returns_after_ten_thousand_blocks_without() {
    for blocks_max in [300, UNFINALISED_BLOCKS_MAX] {
        let mut log = Log::new(blocks_max);
        let genesis = log.chain.head();
        let mut parent = genesis;
        let last = 10_000.max(blocks_max as u64 + 5_000);
        for slot in 1..=last {
            parent = log.grow(parent, slot, 0, Vec::new());
            assert!(log.chain.nodes.len() <= blocks_max);
        }
        assert_eq!(log.chain.head(), parent);
        // The final block stays, whatever lies in between.
        assert!(log.chain.header(&genesis).is_some());
        assert!(!log.chain.is_ancestor(&genesis, &parent));
        log.recovers(parent, last + 1);
    }
}

impl Log {
    /// Five of nine vote for a block in the current slot, so that it is the head and nothing
    /// becomes final.
    fn vote(&mut self, head: Root, slot: u64) {
        let members = assignment(Epoch(0), &[0; 32], self.chain.layout);
        self.chain.set_slot(Slot(slot));
        let vote = self.chain.vote(Slot(slot), &head).unwrap();
        let voters = bits(N as usize, 0..5);
        assert_eq!(self.chain.add_votes(&vote, &members, 0, &voters), Ok(5));
        assert_eq!(self.chain.head(), head);
    }
}

/// Every other proposer makes as many blocks as possible, some of them on top of each other.
#[test]
fn equivocations_do_not_fill_the_chain() {
    let mut log = Log::new(2_000);
    let mut parent = log.chain.head();
    let mut side = parent;
    for slot in (1..=4_000).step_by(2) {
        let below = side;
        for body in 1..BLOCKS_PER_SLOT_MAX as u8 {
            let on = if body < 4 { below } else { parent };
            side = log.grow(on, slot, body, Vec::new());
            assert!(log.chain.nodes.len() <= 2_000);
        }
        parent = log.grow(parent, slot + 1, 0, Vec::new());
        log.vote(parent, slot + 1);
    }
    assert_eq!(log.chain.finalised().slot, Slot(0));
    for slot in 4_001..4_004 {
        parent = log.grow_with_all(parent, slot);
    }
    assert_eq!(log.chain.finalised().slot, Slot(4_001));
}

#[test]
fn a_branch_that_was_given_up_comes_back_with_its_blocks() {
    let mut log = Log::new(100);
    let mut parent = log.chain.head();
    for slot in 1..=12 {
        let before = parent;
        parent = log.grow(before, slot, 0, Vec::new());
        log.vote(parent, slot);
        for body in 1..4 {
            log.grow(before, slot, body, Vec::new());
        }
    }
    let (branch, _) = log.made[1].clone();
    assert!(log.chain.header(&branch.root()).is_some());
    for slot in 13..=80 {
        parent = log.grow(parent, slot, 0, Vec::new());
        log.vote(parent, slot);
    }
    assert_eq!(log.chain.header(&branch.root()), None);
    assert_eq!(log.chain.insert(branch, &[]), Ok(Inserted::default()));
    // Its parent is dropped with everything deep below the head.
    for slot in 81..=200 {
        parent = log.grow(parent, slot, 0, Vec::new());
        log.vote(parent, slot);
    }
    assert_eq!(
        log.chain.insert(log.made[5].0, &[]),
        Err(Reject::UnknownBlock)
    );
    assert!(log.chain.nodes.len() <= 100);
}

/// Blocks with half of the votes, one per slot, for `slots` slots.
fn half_voted(slots: u64, room_blocks: usize) -> (Chain, Root, usize) {
    let block_bytes = VOTE_BYTES + 8 * (SET_BYTES + (1 << 12) / 8);
    let mut chain = wide();
    chain.room.max = [room_blocks * block_bytes, 3 * block_bytes];
    let mut parent = chain.head();
    for slot in 1..=slots {
        parent = half(&mut chain, parent, slot).unwrap();
        assert!(chain.room.used[0] <= room_blocks * block_bytes);
    }
    (chain, parent, block_bytes)
}

fn half(chain: &mut Chain, parent: Root, slot: u64) -> Result<Root, Reject> {
    let vote = chain.vote(Slot(slot - 1), &parent).unwrap();
    let half = || bits(1 << 12, 0..2_048);
    let entries: Vec<Entry> = (0..8).map(|c| entry(vote, c, half())).collect();
    let header = header(chain, parent, slot, 0);
    chain.insert(header, &entries).map(|_| header.root())
}

#[test]
fn sets_of_old_blocks_go_where_bytes_run_out() {
    let room = FOLDED_SLOTS as usize + 10;
    let (mut chain, mut parent, block_bytes) = half_voted(500, room);
    assert_eq!(chain.nodes.len(), 501, "the blocks stay");
    assert!(chain.room.used[0] >= (room - 1) * block_bytes);
    // The other half arrives a slot late: two blocks together contain two thirds.
    let vote = chain
        .vote(Slot(499), &chain.header(&parent).unwrap().parent)
        .unwrap();
    let rest = bits(1 << 12, 2_048..4_096);
    let entries: Vec<Entry> = (0..8).map(|c| entry(vote, c, rest.clone())).collect();
    parent = grow(&mut chain, parent, 501, &entries);
    assert_eq!(chain.justified().slot, Slot(499));
    for slot in 502..504 {
        let vote = chain.vote(Slot(slot - 1), &parent).unwrap();
        let all = |c| entry(vote, c, Bitfield::ones(1 << 12));
        parent = grow(
            &mut chain,
            parent,
            slot,
            &(0..8).map(all).collect::<Vec<_>>(),
        );
    }
    assert_eq!(chain.finalised().slot, Slot(501));
}

#[test]
fn a_block_that_needs_forgotten_sets_is_refused() {
    let (mut chain, head, _) = half_voted(200, FOLDED_SLOTS as usize + 10);
    let at = |slot| {
        let mut blocks = chain.ancestors(&head);
        blocks
            .find(|(_, header)| header.slot == Slot(slot))
            .unwrap()
            .0
    };
    let (before, old) = (at(49), at(50));
    // It may include votes again that the dropped block included, which could not be detected.
    let vote = chain.vote(Slot(49), &before).unwrap();
    let signers = entry(vote, 0, bits(1 << 12, 0..4));
    let late = header(&chain, old, 52, 7);
    assert_eq!(chain.insert(late, &[signers]), Err(Reject::Full));
    // Newer votes were in no earlier block.
    let vote = chain.vote(Slot(50), &old).unwrap();
    let signers = entry(vote, 0, bits(1 << 12, 0..4));
    assert!(chain.insert(late, &[signers]).is_ok());
}

#[test]
fn a_block_takes_what_the_bound_says() {
    // Node, entry of the map of roots and of the map of slots, each with the tree's slack.
    let maps = 2 * (size_of::<(Root, usize)>() + size_of::<(Slot, usize)>());
    assert!(
        size_of::<Node>() + maps <= BLOCK_BYTES,
        "{}",
        size_of::<Node>()
    );
}
