//! Two processes with the same keys, and a node with marks from an older copy.

use super::*;

/// Nodes, the last of which has the keys of the one before it.
fn with_twin() -> World {
    let mut world = World::new();
    world.nodes.push(node(NODES - 1, NODES, 4));
    world.nodes.iter_mut().for_each(|node| node.has_twin = true);
    world
}

fn last_vote(node: &Node) -> Slot {
    *node.votes.last_key_value().unwrap().0
}

/// Both start before genesis, neither earlier than the other. As long as they say the same, byte for byte, they cannot
/// be told apart. If one lacks votes of a slot, it makes a different aggregate of them.
#[test]
fn twins_that_start_in_the_same_slot_notice_each_other_when_they_differ() {
    let mut world = with_twin();
    let twin = world.nodes.len() - 1;
    let from = slot_start(5);
    let until = from.saturating_add_ns(1_500_000_000);
    world.lost = Some((from..until, Kind::Vote, twin));
    world.run_until(slot_start(5));
    for node in &world.nodes[twin - 1..] {
        assert_eq!(node.doppelgangers, [], "they are one");
    }
    world.run_until(slot_start(12));
    for node in &world.nodes[twin - 1..] {
        assert_eq!(node.doppelgangers.len(), 1, "said once");
        let doppelganger = node.doppelgangers[0];
        assert!((5..8).contains(&doppelganger.slot.0), "{doppelganger}");
        let keys = node.engine.as_ref().unwrap().horn().local();
        assert!(keys.hosts(doppelganger.validator));
        assert!(
            last_vote(node).0 <= doppelganger.slot.0 + 1,
            "{doppelganger}"
        );
        assert!(
            node.reserved
                .iter()
                .all(|slot| slot.0 <= doppelganger.slot.0 + 1)
        );
    }
    for node in &world.nodes[..twin - 1] {
        assert_eq!(node.doppelgangers, [], "their keys are theirs alone");
        assert!(last_vote(node) >= Slot(11));
    }
}

/// The bits of evidence reveal a twin whose votes never arrived here.
#[test]
fn a_twin_is_noticed_by_the_bits_of_aggregates_and_blocks() {
    let mut world = with_twin();
    let twin = world.nodes.len() - 1;
    world.run_until(slot_start(3));
    // The first one signs nothing from here on, and hears no votes.
    world.nodes[twin - 1].broken_disk = true;
    world.nodes[twin - 1].reserved.clear();
    world.lost = Some((slot_start(3)..slot_start(99), Kind::Vote, twin - 1));
    world.run_until(slot_start(6));
    let doppelgangers = &world.nodes[twin - 1].doppelgangers;
    assert_eq!(doppelgangers.len(), 1);
    assert!(
        (3..5).contains(&doppelgangers[0].slot.0),
        "{}",
        doppelgangers[0]
    );
}

/// Node 1 is restored from a copy at the end of slot 8, with these marks, and runs for some slots.
fn brought_back(used: Slot, behind: BTreeMap<Validator, Slot>) -> World {
    let mut world = World::new();
    world.run_until(slot_start(3));
    let copy: Vec<Bytes> = world.nodes[1].blocks.values().cloned().collect();
    world.run_until(slot_start(8).saturating_add_ns(3_000_000_000));
    let mut node = node(1, NODES, 4);
    let mut horn = horn(1, NODES, 4);
    for block in &copy {
        horn.restore(block).unwrap();
    }
    let settings = Settings {
        first_slot: Slot(10),
        started: Some(Slot(8)),
        used,
        behind,
    };
    node.engine = Some(Engine::new(horn, settings));
    world.queue.retain(|_, (index, _)| *index != 1);
    world.nodes[1] = node;
    for slot in 9..12 {
        world.exchange_blocks();
        world.run_until(slot_start(slot).saturating_add_ns(100_000_000));
    }
    world.run_until(slot_start(16));
    world
}

/// A key whose mark was not raised before the last start is as far behind as it was. Other keys' marks being up to date
/// says nothing about it.
#[test]
fn the_mark_of_one_key_that_is_behind_is_raised() {
    let own = Validator(1);
    let world = brought_back(Slot(9), [(own, Slot(4))].into());
    let node = &world.nodes[1];
    assert_eq!(node.doppelgangers, []);
    assert!(!node.raised.is_empty());
    assert!(node.raised.iter().all(|shown| shown.validators == [own]));
    assert!(last_vote(node) >= Slot(15), "and it goes on");
}

/// A folder restored from a copy, with the right clock: the marks are behind what the network shows, and are raised
/// before anything is signed. This does not count as a doppelganger.
#[test]
fn marks_that_are_behind_the_network_are_raised() {
    let world = brought_back(Slot(4), BTreeMap::new());
    let node = &world.nodes[1];
    assert_eq!(node.doppelgangers, []);
    let shown: BTreeSet<Slot> = node.raised.iter().map(|shown| shown.vote.slot).collect();
    assert_eq!(shown, (4..=8).map(Slot).collect());
    let own = (VALIDATORS / NODES) as usize;
    let of_slot = |slot| {
        node.raised
            .iter()
            .filter(move |shown| shown.vote.slot == slot)
    };
    let most = of_slot(Slot(5)).map(|shown| shown.validators.len()).max();
    assert!(
        most.is_some_and(|most| most <= own && most > own / 4),
        "{most:?}"
    );
    assert!(last_vote(node) >= Slot(15), "and it goes on");
}
