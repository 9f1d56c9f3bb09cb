//! A node whose role as an aggregator changes while it runs.

use super::*;

/// `POST /lean/v0/admin/aggregator` while the node runs, off and on again.
#[test]
fn a_node_that_is_asked_not_to_aggregate_votes_and_follows_and_aggregates_again_when_asked() {
    let mut world = World::new();
    let set = |world: &mut World, slot, is_on| {
        world.run_until(slot_start(slot).saturating_add_ns(1));
        world.nodes[1].aggregating.set(Slot(slot), is_on);
    };
    set(&mut world, 4, false);
    set(&mut world, 9, true);
    world.run_until(slot_start(15));
    for node in &world.nodes {
        assert_eq!(node.judged.len(), 13);
        assert_eq!(missed(node), 0, "{:?}", node.judged);
        let voted: u64 = node.judged.iter().map(|judged| judged.vote.done).sum();
        assert_eq!(voted, 13 * u64::from(VALIDATORS / NODES));
        assert_eq!(node.verdicts.get("reject"), None);
    }
    let changed = &world.nodes[1];
    let made_in = |slot: u64| {
        let is_own = |kept: &&Kept| {
            kept.own && kept.slot == Slot(slot) && kept.topic.kind() == Kind::Aggregate
        };
        changed.kept.iter().filter(is_own).count()
    };
    for judged in &changed.judged {
        let is_off = (4..=9).contains(&judged.slot.0);
        let has_none = [judged.aggregate, judged.collect] == [Tally::default(); 2];
        assert_eq!(has_none, is_off, "{judged:?}");
    }
    assert!((0..4).chain(10..13).all(|slot| made_in(slot) > 0));
    assert!((4..9).all(|slot| made_in(slot) == 0));
    let horn = changed.engine.as_ref().unwrap().horn();
    assert!(horn.chain().finalised().slot >= Slot(12));
}
