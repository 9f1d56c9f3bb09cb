//! Grid and direct dissemination.

use crate::gossip::{
    Config, DenseId, Input, Links, Machine, Message, Output, Peers, Plain, Priority, Reject,
};
use crate::graph::Graph;
use crate::role::Publish;
use crate::role::flood::{self, Blob};
use crate::scenario::Latency;
use crate::testing::{Log, equals};
use crate::world::World;
use alphorn_proto::{Peer, Verdict};
use alphorn_types::Time;
use std::sync::Arc;

const BLOB: Blob = Blob {
    bytes: 100,
    valid: true,
};
const NOW: Time = Time::from_millis(5);

fn member(index: u32, members: u32) -> Plain<Blob> {
    let links = Links::of(index, members).map(|i| Peer(u64::from(*i)));
    Plain::grid(Arc::new(Config::default()), links)
}

/// Publishes at one member; returns the deliveries of each and the total number of copies.
fn spread(members: u32, publisher: u32) -> (Vec<u32>, u32) {
    let graph = Graph::grid(members).unwrap();
    let config = Arc::new(Config::default());
    let role = |node| flood::member(&graph, &config, 0, node);
    let roles = (0..members).map(role).collect();
    let latency = Latency::Constant {
        ms: 10,
        jitter_pct: 0,
    };
    let mut world = World::new(roles, &equals(graph.clone(), &latency), Log::default());
    let publish = Publish {
        item: 0,
        bytes: 100,
    };
    world.command(Time::ZERO, publisher, publish);
    world.run_until(Time::MAX, u64::MAX).unwrap();
    let Log(deliveries, reports) = world.probe();
    assert_eq!(reports, &[]);
    let mut delivered = vec![0; members as usize];
    let nodes = deliveries.iter().map(|(_, node, _)| *node as usize);
    nodes.for_each(|node| delivered[node] += 1);
    (delivered, world.tallies().map(|tally| tally.messages).sum())
}

#[test]
fn a_grid_of_any_size_reaches_everyone_once_with_about_two_copies() {
    for members in (1..40).chain([64, 99, 100, 101]) {
        for publisher in 0..members {
            let (delivered, copies) = spread(members, publisher);
            for (node, count) in delivered.into_iter().enumerate() {
                let expected = u32::from(node as u32 != publisher);
                assert_eq!(count, expected, "{node} of {members}, from {publisher}");
            }
            assert!(copies <= 2 * members, "{copies} copies for {members}");
        }
    }
    assert_eq!(spread(100, 0).1, 9 + 9 + 9 * 9 + 9 * 9);
}

#[test]
fn rows_and_columns_are_those_of_the_square() {
    let links = Links::of(5, 11);
    assert_eq!(
        (&links.row[..], &links.column[..]),
        (&[3, 4][..], &[2, 8][..])
    );
    let last = Links::of(10, 11);
    assert_eq!(
        (&last.row[..], &last.column[..]),
        (&[9][..], &[1, 4, 7][..])
    );
    let alone = Links::of(0, 1);
    assert!(alone.row.is_empty() && alone.column.is_empty());
}

#[test]
fn a_grid_hears_its_links_only_and_forwards_once() {
    let mut grid = member(5, 9); // row 3, 4; column 2, 8
    let relay = |id| Message::Relay {
        id: DenseId(id),
        payload: BLOB,
    };
    let give = |grid: &mut Plain<_>, from, message| {
        grid.handle(
            NOW,
            Input::Message {
                from: Peer(from),
                message,
            },
        );
        std::iter::from_fn(|| grid.poll_output()).collect::<Vec<_>>()
    };
    assert!(give(&mut grid, 0, relay(0)).is_empty());
    assert_eq!(grid.refused().count(Reject::Stranger), 1);

    let outputs = give(&mut grid, 8, relay(0));
    let [Output::Validate { token, .. }] = outputs[..] else {
        panic!("{outputs:?}");
    };
    assert!(give(&mut grid, 3, relay(0)).is_empty());
    let verdict = Verdict::Accept;
    grid.handle(NOW, Input::Verdict { token, verdict });
    // The second request to forward came along the row, so the message goes down the column.
    assert!(matches!(grid.poll_output(), Some(Output::Deliver { .. })));
    let Some(Output::Send {
        to,
        message,
        priority,
    }) = grid.poll_output()
    else {
        panic!("the message is forwarded");
    };
    assert_eq!(to.iter().collect::<Vec<_>>(), [Peer(2), Peer(8)]);
    assert_eq!((message.kind(), priority), ("data", Priority::Forward));
    assert!(give(&mut grid, 4, relay(0)).is_empty());
    assert_eq!(grid.duplicates().count, 2);

    let outputs = give(&mut grid, 3, relay(1));
    let [Output::Validate { token, .. }] = outputs[..] else {
        panic!("{outputs:?}");
    };
    let verdict = Verdict::Reject;
    grid.handle(NOW, Input::Verdict { token, verdict });
    let report = grid.poll_output();
    assert!(matches!(
        report,
        Some(Output::Report {
            peer: Peer(3),
            reason: Reject::Invalid
        })
    ));
    assert!(grid.poll_output().is_none());
    let outputs = give(&mut grid, 3, Message::Graft);
    assert!(matches!(
        outputs[..],
        [Output::Report {
            reason: Reject::Unexpected,
            ..
        }]
    ));
}

#[test]
fn direct_sends_to_the_list_and_forwards_nothing() {
    let receivers: Arc<[Peer]> = (0..1000).map(Peer).collect();
    let config = Arc::new(Config {
        validate: false,
        ..Config::default()
    });
    let mut source: Plain<Blob> = Plain::direct(config.clone(), receivers.clone());
    let publish = || Input::Publish {
        id: DenseId(4),
        payload: BLOB,
    };
    source.handle(NOW, publish());
    source.handle(NOW, publish());
    let Some(Output::Send {
        to,
        message,
        priority,
    }) = source.poll_output()
    else {
        panic!("the message is sent");
    };
    assert_eq!((to, priority), (Peers::List(receivers), Priority::Own));
    assert!(source.poll_output().is_none(), "published once");

    let mut sink: Plain<Blob> = Plain::direct(config, [].into());
    for _ in 0..2 {
        let (from, message) = (Peer(7), message.clone());
        sink.handle(NOW, Input::Message { from, message });
    }
    assert!(matches!(sink.poll_output(), Some(Output::Deliver { .. })));
    assert!(sink.poll_output().is_none() && sink.next_deadline().is_none());
    assert_eq!((sink.duplicates().count, sink.duplicates().bytes), (1, 100));
}
