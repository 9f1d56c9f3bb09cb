//! A node whose clock is behind, as after a snapshot of its machine was brought back.

use crate::rig::{Way, wait, with_two_in};
use alphorn_node::cast::{Code, Settings};
use alphorn_node::health::Reason;
use std::time::Duration;

/// It knows the slots that it signs from before; the network is past them. Nothing is signed, and it says
/// why.
#[test]
fn a_node_whose_clock_is_behind_its_peers_signs_nothing_and_says_why() {
    let way = Way {
        code: Code::Rs,
        settings: Settings::default(),
        behind: Duration::from_secs(8),
    };
    with_two_in(&way, |nodes| {
        let [ahead, behind] = nodes else {
            panic!("two nodes");
        };
        let summary = wait("a reason", || {
            let summary = behind.summary.borrow().clone();
            let has = |reason| summary.health.contains(&reason);
            (has(Reason::PeersAhead) && has(Reason::ClockPeers)).then_some(summary)
        });
        assert!(!summary.can_sign);
        let told = summary.clock_peers_ahead_ms.unwrap();
        assert!((6_000.0..10_000.0).contains(&told), "{told} ms");
        // Its own slots come, one after the other.
        let later = wait("judged slots", || {
            let summary = behind.summary.borrow().clone();
            (summary.judged_slots >= 3).then_some(summary)
        });
        let votes = later.duties["vote"];
        assert_eq!((votes.done, votes.late), (0, 0), "{votes:?}");
        assert!(votes.missed > 0);
        // The other one goes on: half of the validators are its own.
        let other = ahead.summary.borrow().clone();
        assert!(other.can_sign, "{:?}", other.health);
        assert!(other.duties["vote"].done > 0);
    });
}
