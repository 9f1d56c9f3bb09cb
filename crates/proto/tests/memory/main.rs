//! What all roles of a machine hold after a slot of a million votes, as the allocator counts it.
#![forbid(unsafe_code)]

mod world;

use alphorn_proto::horn::{Horn, Store};
use alphorn_proto::wire::Topic;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;
use world::{SLOT, VALIDATORS, World};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A machine that heard the slot, and the bytes that it holds.
fn heard(world: &mut World, store: &Arc<Store>, copy: bool) -> (Horn, usize) {
    let before = Region::new(ALLOCATOR);
    let mut horn = world.machine(store);
    world.hear(&mut horn, copy);
    let change = before.change();
    (horn, change.bytes_allocated - change.bytes_deallocated)
}

/// One test alone: the allocator counts for the whole process.
#[test]
fn a_million_votes_take_little_where_messages_are_shared() {
    let mut world = World::new();
    let store = Arc::<Store>::default();
    let (first, _) = heard(&mut world, &store, false);
    let view = first.view(SLOT).unwrap();
    assert_eq!(view.covered(), u64::from(VALIDATORS));
    assert_eq!((view.collections_accepted, view.votes_accepted), (512, 512));
    assert_eq!(view.aggregates_accepted, 64 * 16);
    let block = first.view(SLOT.next()).unwrap().block.unwrap();
    assert_eq!((first.head(), block.entries), (block.root, 32));
    let (second, shared) = heard(&mut world, &store, false);
    assert_eq!(second.head(), first.head());
    assert_eq!(second.view(SLOT), Some(view));
    let (_alone, alone) = heard(&mut world, &Arc::default(), true);
    // What every machine hears: no votes, and no aggregates below collections.
    world
        .messages
        .retain(|(_, topic, _)| matches!(topic, Topic::Collection | Topic::Block));
    let (listener, listens) = heard(&mut world, &store, false);
    assert_eq!(listener.head(), first.head());
    println!("{listens} bytes of a listener, {shared} with votes and aggregates, {alone} alone");
    assert!(
        listens <= 48 << 10,
        "{listens} bytes of what all machines hear"
    );
    assert!(shared <= 64 << 10, "{shared} bytes beside another machine");
    assert!(alone <= 16 << 20, "{alone} bytes alone");
}
