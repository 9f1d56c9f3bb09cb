//! Wrong clocks, and networks split in two.

use super::*;

const SLOT_NS: u64 = 4_000_000_000;

impl World {
    /// Passes to every node the blocks that others stored and it lacks, as its requests to peers
    /// would.
    pub(super) fn exchange_blocks(&mut self) {
        let kept: Vec<BTreeMap<Slot, Bytes>> =
            self.nodes.iter().map(|node| node.blocks.clone()).collect();
        for (index, own) in kept.iter().enumerate() {
            let others = kept.iter().flat_map(|blocks| blocks.iter());
            let mut lacked: Vec<(&Slot, &Bytes)> = others
                .filter(|(slot, data)| own.get(slot) != Some(data))
                .collect();
            lacked.sort_by_key(|(slot, _)| **slot);
            for (_, data) in lacked {
                let token = Token((1 << 63) | self.sequence);
                let event = Event::Message(NODE, Topic::Block, token, data.clone());
                self.push(self.now, index, event);
            }
        }
    }
}

/// A clock that jumps by up to ten seconds in each phase of a slot, and back two slots later.
#[test]
fn a_clock_that_steps_signs_nothing_past_and_nothing_twice() {
    let own = (VALIDATORS / NODES) as usize;
    for step_ms in [-10_000i64, -4_000, -800, 800, 4_000, 10_000] {
        for phase in 0..5u64 {
            let mut world = World::new();
            let at = slot_start(4).saturating_add_ns(phase * 800_000_000 + 1_000_000);
            world.run_until(at);
            world.nodes[0].skew_ns = step_ms * 1_000_000;
            world.run_until(at.saturating_add_ns(2 * SLOT_NS));
            world.nodes[0].skew_ns = 0;
            // Blocks of a time that its clock did not accept are requested again.
            world.run_until(slot_start(9));
            world.exchange_blocks();
            world.run_until(slot_start(18));
            let node = &world.nodes[0];
            for (slot, sent) in &node.votes {
                assert!(
                    sent.len() <= own,
                    "{step_ms} ms in phase {phase}: {slot:?} twice"
                );
                let end = slot_start(slot.0 + 1);
                let begin = slot_start(slot.0);
                let in_slot = sent.iter().all(|at| (begin..end).contains(at));
                assert!(
                    in_slot,
                    "{step_ms} ms in phase {phase}: {slot:?} at {sent:?}"
                );
            }
            // Its time stood still until the true time had passed what it had shown.
            let last = node.judged.iter().filter(|judged| judged.slot >= Slot(12));
            for judged in last {
                assert_eq!(
                    judged.all().missed,
                    0,
                    "{step_ms} ms in phase {phase}: {judged:?}"
                );
            }
        }
    }
}

/// A clock that is permanently wrong by a phase. Its node is late or early, and is not blamed.
#[test]
fn a_clock_that_is_wrong_by_a_phase_harms_its_own_node_alone() {
    for skew_ms in [-800i64, 800] {
        let mut world = World::new();
        world.nodes[0].skew_ns = skew_ms * 1_000_000;
        world.run_until(slot_start(12));
        for node in &world.nodes[1..] {
            // Its blocks may come too late for the votes of their slots.
            let others = node.judged.iter().filter(|judged| judged.slot.0 % 3 != 0);
            for judged in others {
                assert_eq!(judged.propose.missed, 0, "{skew_ms} ms: {judged:?}");
            }
            let head = node.engine.as_ref().unwrap().horn().chain().finalised();
            assert!(head.slot >= Slot(7), "{skew_ms} ms: {head:?}");
        }
    }
}

/// Two halves that hear nothing from each other for 32 slots, then everything. `epoch_slots`
/// determines how many epochs that is. Neither half can finalise, and once their branches are older
/// than an epoch they have drawn different committees.
fn a_partition_heals(epoch_slots: u64) {
    const APART: u64 = 5;
    const TOGETHER: u64 = APART + 32;
    let mut world = World::of(4, epoch_slots);
    world.run_until(slot_start(APART));
    world.parted = true;
    let heal = slot_start(TOGETHER).saturating_add_ns(1_300_000_000);
    world.run_until(heal);
    let heads = |world: &World| -> BTreeSet<Root> {
        let nodes = world.nodes.iter();
        let engines = nodes.map(|node| node.engine.as_ref().unwrap());
        engines.map(|engine| engine.horn().head()).collect()
    };
    assert_eq!(heads(&world).len(), 2);
    for node in &world.nodes {
        let finalised = node.engine.as_ref().unwrap().horn().chain().finalised();
        assert!(finalised.slot < Slot(APART), "{finalised:?}");
    }
    world.parted = false;
    // They ask each other once a slot.
    for slot in TOGETHER + 1..TOGETHER + 4 {
        world.exchange_blocks();
        world.run_until(slot_start(slot));
    }
    world.run_until(slot_start(TOGETHER + 12));
    assert_eq!(heads(&world).len(), 1);
    for node in &world.nodes {
        let after = node.judged.iter();
        let after = after.filter(|judged| judged.slot > Slot(TOGETHER + 2));
        let after: Vec<&Judged> = after.collect();
        assert!(after.len() > 5);
        for judged in after {
            assert_eq!(judged.credited, u64::from(VALIDATORS), "{judged:?}");
            assert_eq!(judged.all().missed, 0, "{judged:?}");
        }
        let finalised = node.engine.as_ref().unwrap().horn().chain().finalised();
        assert!(finalised.slot >= Slot(TOGETHER + 8), "{finalised:?}");
    }
}

#[test]
fn a_partition_of_one_epoch_heals_within_two_slots() {
    a_partition_heals(32);
}

#[test]
fn a_partition_of_eight_epochs_heals_within_two_slots() {
    a_partition_heals(4);
}

/// A node that was away for longer than the epochs whose committees are kept catches up.
#[test]
fn a_node_that_was_away_for_many_epochs_comes_back() {
    let mut world = World::of(4, 2);
    world.run_until(slot_start(5));
    let away = world.nodes[0].engine.take();
    world.run_until(slot_start(21));
    world.nodes[0].engine = away;
    for slot in 22..25 {
        world.exchange_blocks();
        world.run_until(slot_start(slot));
    }
    world.run_until(slot_start(32));
    let after = world.nodes[0].judged.iter();
    let after: Vec<&Judged> = after.filter(|judged| judged.slot > Slot(25)).collect();
    assert!(after.len() > 2);
    for judged in after {
        assert_eq!(judged.all().missed, 0, "{judged:?}");
    }
}
