//! Behaviour of an honest mesh.

use super::world::World;
use crate::gossip::{Config, Input, Machine, PeerSet};
use alphorn_proto::Peer;

fn formed(count: usize, degree: usize, seed: u64) -> World {
    let mut world = World::random(count, degree, Config::default(), seed);
    world.run_ms(5_000);
    world
}

#[test]
fn a_mesh_forms_between_its_bounds_and_both_ends_agree() {
    for seed in 1..6 {
        let world = formed(60, 20, seed);
        for (node, machine) in world.nodes.iter().enumerate() {
            let mesh = machine.mesh();
            assert!((6..=12).contains(&mesh.len()), "{} peers", mesh.len());
            for peer in mesh.iter() {
                let (other, here) = world.links[node][peer.0 as usize];
                assert!(world.nodes[other].mesh().contains(Peer(here)));
            }
        }
        assert!(world.reports.is_empty());
    }
}

#[test]
fn an_idle_mesh_needs_no_timer() {
    let mut world = formed(40, 16, 3);
    assert!(
        world
            .nodes
            .iter()
            .all(|node| node.next_deadline().is_none())
    );
    world.publish(0, 0, 100);
    world.run_ms(600);
    assert!(
        world
            .nodes
            .iter()
            .all(|node| node.next_deadline().is_some())
    );
    world.run_ms(6_000);
    assert!(
        world
            .nodes
            .iter()
            .all(|node| node.next_deadline().is_none())
    );
}

#[test]
fn everyone_gets_every_message_once() {
    for seed in 1..4 {
        let mut world = formed(100, 20, seed);
        for id in 0..20 {
            world.publish(id as usize * 3, id, 500);
        }
        world.run_ms(3_000);
        for id in 0..20 {
            assert!(world.everyone_has(id, id as usize * 3, &[]), "message {id}");
        }
        // The mesh has at most 12 links per node, one of which delivered the message.
        assert!(world.duplicates() <= 20 * 100 * 11);
        assert!(world.reports.is_empty());
    }
}

#[test]
fn refusals_spare_copies_of_large_messages() {
    let copies = |bytes, refuse_above_bytes| {
        let config = Config {
            refuse_above_bytes,
            ..Config::default()
        };
        let mut world = World::random(100, 20, config, 7);
        world.run_ms(5_000);
        world.publish(0, 0, bytes);
        world.run_ms(3_000);
        assert!(world.everyone_has(0, 0, &[]));
        (world.sent["data"], world.sent.get("idontwant").copied())
    };
    let (plain, none) = copies(5_000, None);
    let (spared, refusals) = copies(5_000, Some(1000));
    assert_eq!(none, None);
    assert!(refusals.is_some());
    assert!(spared < plain, "{spared} of {plain}");
    assert_eq!(copies(1_000, Some(1000)), copies(1_000, None));
}

#[test]
fn what_the_mesh_lost_comes_by_announcement() {
    let mut world = formed(30, 14, 2);
    let victim = 5;
    // No mesh link delivers anything to the victim.
    let mesh: Vec<_> = world.nodes[victim].mesh().iter().collect();
    for peer in mesh {
        let (other, _) = world.links[victim][peer.0 as usize];
        world.lossy.push((other, victim));
    }
    world.publish(0, 0, 500);
    world.run_ms(5_000);
    assert!(world.everyone_has(0, 0, &[]));
    assert!(world.sent["iwant"] > 0);
}

#[test]
fn a_peer_that_leaves_is_replaced() {
    let mut world = formed(30, 16, 4);
    let gone: Vec<Peer> = world.nodes[0].mesh().iter().collect();
    for peer in &gone {
        let (other, here) = world.links[0][peer.0 as usize];
        world.input(0, Input::PeerDown { peer: *peer });
        world.input(other, Input::PeerDown { peer: Peer(here) });
    }
    assert_eq!(world.nodes[0].mesh(), PeerSet::EMPTY);
    world.run_ms(3_000);
    let left = world.links[0].len() - gone.len();
    assert!(world.nodes[0].mesh().len() >= left.min(6));
    world.publish(0, 0, 500);
    world.run_ms(3_000);
    assert!(world.everyone_has(0, 0, &[]));
}

#[test]
fn a_message_leaves_a_node_whose_mesh_is_not_formed() {
    let mut world = World::random(20, 10, Config::default(), 9);
    world.publish(3, 0, 500);
    world.run_ms(10_000);
    assert!(world.everyone_has(0, 3, &[]));
}

#[test]
fn flooding_sends_own_messages_to_all() {
    let config = Config {
        flood_publish: true,
        ..Config::default()
    };
    let mut world = World::random(40, 20, config, 5);
    world.run_ms(5_000);
    let before = world.sent.get("data").copied().unwrap_or(0);
    world.publish(0, 0, 500);
    assert_eq!(world.sent["data"] - before, world.links[0].len() as u64);
    world.run_ms(2_000);
    assert!(world.everyone_has(0, 0, &[]));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut world = formed(50, 16, seed);
        for id in 0..10 {
            world.publish(id as usize, id, 2_000);
        }
        world.run_ms(8_000);
        world.log
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
