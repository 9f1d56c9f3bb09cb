//! Behaviour of an honest mesh.

use super::world::{Mesh, Node, random};
use crate::fault::Wrap;
use crate::gossip::{Config, Machine, Message, PeerSet};
use crate::role::flood::Flood;
use crate::role::{Input, Output};
use alphorn_proto::Peer;
use alphorn_types::Time;

fn formed(count: u32, degree: u32, seed: u64) -> Mesh {
    let mut world = random(count, degree, Config::default(), seed);
    world.run_ms(5_000);
    world
}

#[test]
fn a_mesh_forms_between_its_bounds_and_both_ends_agree() {
    for seed in 1..6 {
        let world = formed(60, 20, seed);
        for (node, machine) in (0..).zip(world.nodes()) {
            let mesh = machine.mesh();
            assert!((6..=12).contains(&mesh.len()), "{} peers", mesh.len());
            for peer in mesh.iter() {
                let (other, here) = world.across(node, peer);
                assert!(world.node(other).mesh().contains(here));
            }
        }
        assert!(world.probe().1.is_empty());
    }
}

#[test]
fn an_idle_mesh_needs_no_timer() {
    let mut world = formed(40, 16, 3);
    assert!(world.nodes().all(|node| node.next_deadline().is_none()));
    world.publish(0, 0, 100);
    world.run_ms(600);
    assert!(world.nodes().all(|node| node.next_deadline().is_some()));
    world.run_ms(6_000);
    assert!(world.nodes().all(|node| node.next_deadline().is_none()));
}

#[test]
fn everyone_gets_every_message_once() {
    for seed in 1..4 {
        let mut world = formed(100, 20, seed);
        for id in 0..20 {
            world.publish(id * 3, id, 500);
        }
        world.run_ms(3_000);
        for id in 0..20 {
            assert!(world.everyone_has(id, id * 3, &[]), "message {id}");
        }
        // The mesh has at most 12 links per node, one of which delivered the message.
        let duplicates = world.nodes().map(|node| node.duplicates().count);
        assert!(duplicates.sum::<u32>() <= 20 * 100 * 11);
        assert!(world.probe().1.is_empty());
    }
}

#[test]
fn refusals_spare_copies_of_large_messages() {
    let copies = |bytes, refuse_above_bytes| {
        let config = Config {
            refuse_above_bytes,
            ..Config::default()
        };
        let mut world = random(100, 20, config, 7);
        world.run_ms(5_000);
        world.publish(0, 0, bytes);
        world.run_ms(3_000);
        assert!(world.everyone_has(0, 0, &[]));
        (world.sent("data"), world.sent("idontwant"))
    };
    let (plain, none) = copies(5_000, None);
    let (spared, refusals) = copies(5_000, Some(1000));
    assert_eq!(none, 0);
    assert!(refusals > 0);
    assert!(spared < plain, "{spared} of {plain}");
    assert_eq!(copies(1_000, Some(1000)), copies(1_000, None));
}

/// Loses the payloads that some neighbours send.
#[derive(Debug)]
struct Deaf(PeerSet);

impl Wrap<Flood<Node>> for Deaf {
    fn input(
        &mut self,
        _: Time,
        input: Input<Flood<Node>>,
        _: &mut Vec<Output<Flood<Node>>>,
    ) -> Option<Input<Flood<Node>>> {
        let of = match &input {
            Input::Message {
                from,
                message: Message::Data { .. },
            } => Some(*from),
            _ => None,
        };
        (!of.is_some_and(|from| self.0.contains(from))).then_some(input)
    }
}

#[test]
fn what_the_mesh_lost_comes_by_announcement() {
    let mut world = formed(30, 28, 2);
    let victim = 5;
    // No mesh link delivers anything to the victim.
    let deaf = Deaf(world.node(victim).mesh());
    world.wrap(victim, Box::new(deaf));
    world.publish(0, 0, 500);
    world.run_ms(5_000);
    assert!(world.everyone_has(0, 0, &[]));
    assert!(world.sent("iwant") > 0);
}

#[test]
fn a_peer_that_leaves_is_replaced() {
    let mut world = formed(30, 28, 4);
    let gone: Vec<Peer> = world.node(0).mesh().iter().collect();
    for &peer in &gone {
        let (other, here) = world.across(0, peer);
        world.input(0, Input::PeerDown { peer });
        world.input(other, Input::PeerDown { peer: here });
    }
    assert_eq!(world.node(0).mesh(), PeerSet::EMPTY);
    world.run_ms(3_000);
    let left = world.graph().peers(0).len() - gone.len();
    assert!(world.node(0).mesh().len() >= left.min(6));
    world.publish(0, 0, 500);
    world.run_ms(3_000);
    assert!(world.everyone_has(0, 0, &[]));
}

#[test]
fn a_message_leaves_a_node_whose_mesh_is_not_formed() {
    let mut world = random(20, 10, Config::default(), 9);
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
    let mut world = random(40, 20, config, 5);
    world.run_ms(5_000);
    let before = world.sent("data");
    world.publish(0, 0, 500);
    // Before any of them arrives and is forwarded.
    world.run_ms(10);
    let copies = world.graph().peers(0).len() as u64;
    assert_eq!(world.sent("data") - before, copies);
    world.run_ms(2_000);
    assert!(world.everyone_has(0, 0, &[]));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut world = formed(50, 16, seed);
        for id in 0..10 {
            world.publish(id, id, 2_000);
        }
        world.run_ms(8_000);
        (world.event_hash(), world.events())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
