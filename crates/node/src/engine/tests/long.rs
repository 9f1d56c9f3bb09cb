//! A long-lived network: a hundred thousand slots with restarts from disk and joins from checkpoints.

use super::*;
use crate::begin::begin;
use crate::blocks::{Blocks, Checkpoint, Facts, SLOTS_KEPT, Stored};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use redb::backends::InMemoryBackend;

/// Number of slots, and how many of them pass idle before some are run.
const SLOTS: u64 = 100_000;
const JUMP: u64 = if cfg!(feature = "soak") {
    90
} else {
    SLOTS_KEPT
};
/// Slots that are run after a jump.
const RUN: u64 = 10;
/// Nothing is in flight that late in a slot, so nothing is lost when time jumps.
const LATE_NS: u64 = 3_700_000_000;
/// Rounds from one restart, or one join, to the next.
const RESTART_EVERY: u64 = if cfg!(feature = "soak") { 10 } else { 1 };
const JOIN_EVERY: u64 = if cfg!(feature = "soak") { 50 } else { 3 };

fn disk() -> Blocks {
    Blocks::open_backend(InMemoryBackend::new).unwrap()
}

/// Writes what a node wants stored, as its archive does.
fn keep(node: &mut Node, disk: &Blocks) {
    let horn = node.engine.as_ref().unwrap().horn();
    let stored = |(slot, data): (Slot, Bytes)| Stored {
        slot,
        root: Header::peek(&data, horn.format()).unwrap().root(),
        data,
    };
    let blocks: Vec<Stored> = std::mem::take(&mut node.blocks)
        .into_iter()
        .map(stored)
        .collect();
    let last = node.anchors.pop();
    let last = last.map(|anchor| {
        let bytes = anchor.encode().unwrap();
        Checkpoint::new(anchor.finalised().slot, anchor.base_slot(), bytes)
    });
    node.anchors.clear();
    node.kept.clear();
    node.judged.clear();
    node.votes.clear();
    node.reserved.clear();
    let facts = Facts {
        checkpoint: last.as_ref(),
        witness: None,
    };
    disk.put_with(&blocks, &[], facts).unwrap();
}

impl World {
    /// A node ends, and starts again with a disk and possibly a checkpoint. Its marks stay.
    fn restart(&mut self, index: usize, disk: &Blocks, given: Option<&[u8]>) {
        let mut again = node(index as u32, NODES, 4);
        let mut horn = horn(index as u32, NODES, 4);
        let begun = begin(&mut horn, disk, given, None).unwrap();
        assert!(begun.refused.is_none());
        let slot = horn.clock().slot_at(self.now).unwrap();
        let settings = Settings {
            first_slot: slot.next().next(),
            started: Some(slot),
            used: slot.next(),
            behind: BTreeMap::new(),
        };
        again.engine = Some(Engine::new(horn, settings));
        std::mem::swap(&mut again.marks, &mut self.nodes[index].marks);
        self.nodes[index] = again;
        self.queue.retain(|_, (to, _)| *to != index);
    }

    /// Passes to a node the blocks that a peer serves from the node's final one on.
    fn catch_up(&mut self, index: usize, peer: &Blocks) {
        let horn = self.nodes[index].engine.as_ref().unwrap().horn();
        let from = horn.chain().finalised().slot;
        for block in peer.range(from, usize::MAX, &[]).unwrap() {
            self.sequence += 1;
            let token = Token((1 << 63) | self.sequence);
            let event = Event::Message(NODE, Topic::Block, token, block.data);
            self.push(self.now, index, event);
        }
    }

    fn finalised(&self, index: usize) -> Slot {
        let horn = self.nodes[index].engine.as_ref().unwrap().horn();
        horn.chain().finalised().slot
    }
}

#[test]
fn a_network_lasts_a_hundred_thousand_slots_with_restarts_and_joins() {
    let mut rng = SmallRng::seed_from_u64(24);
    let mut world = World::new();
    let mut disks: Vec<Blocks> = (0..NODES).map(|_| disk()).collect();
    let (mut slot, mut round, mut joins) = (0, 0, 0);
    while slot < SLOTS {
        slot += RUN;
        world.run_until(slot_start(slot).saturating_add_ns(LATE_NS));
        for (index, disk) in disks.iter().enumerate() {
            let finalised = world.finalised(index).0;
            assert!(finalised + 3 >= slot, "node {index} at {slot}: {finalised}");
            assert_eq!(world.nodes[index].doppelgangers, []);
            keep(&mut world.nodes[index], disk);
            // The stored data is bounded, and sufficient.
            let oldest = disk.range(Slot(0), 1, &[]).unwrap()[0].slot.0;
            assert!(oldest + SLOTS_KEPT + JUMP >= slot, "{oldest} at {slot}");
        }
        round += 1;
        let index = rng.random_range(0..NODES as usize);
        let other = (index + 1) % NODES as usize;
        if u64::is_multiple_of(round, JOIN_EVERY) {
            // Its disk is lost, and a peer gives it the checkpoint that it has.
            joins += 1;
            disks[index] = disk();
            let given = disks[other].checkpoint().unwrap().unwrap();
            world.restart(index, &disks[index], Some(&given.bytes));
            assert_eq!(world.finalised(index), given.slot);
        } else if u64::is_multiple_of(round, RESTART_EVERY) {
            let before = world.finalised(index);
            world.restart(index, &disks[index], None);
            assert!(
                world.finalised(index).0 + 1 >= before.0,
                "from its own disk"
            );
        }
        // It asks once a slot, and has its committees after the first.
        for _ in 0..3 {
            world.catch_up(index, &disks[other]);
            slot += 1;
            world.run_until(slot_start(slot).saturating_add_ns(LATE_NS));
        }
        // Nothing happens for a long time.
        slot += JUMP;
        world.queue.clear();
        world.now = slot_start(slot);
    }
    assert!(joins >= 4 && round > 10);
}
