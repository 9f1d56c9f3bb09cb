//! Blocks that gossip does not bring, over loopback.

use crate::rig::{wait, with_two};
use alphorn_node::telemetry::Summary;

/// Blocks that must come.
const BLOCKS: u64 = 2;

#[test]
fn blocks_that_gossip_does_not_bring_come_by_request() {
    with_two(|nodes| {
        let [other, deaf] = nodes else {
            panic!("two nodes");
        };
        // By their roots, or in a range where the peer's status tells of them before votes do.
        let fetched = |summary: &Summary| summary.blocks_by_root + summary.fetched_blocks;
        let (began, before) = wait("the chain", || {
            let summary = deaf.summary.borrow();
            (summary.head_slot > 0).then(|| (summary.head_slot, fetched(&summary)))
        });
        // Votes go on to come, and refer to blocks that do not.
        deaf.net.unsubscribe(&deaf.blocks).unwrap();
        let summary = wait("a block that was asked for", || {
            let summary = deaf.summary.borrow().clone();
            let came = fetched(&summary) - before;
            let is_there = came >= BLOCKS && summary.head_slot > began + BLOCKS;
            is_there.then_some(summary)
        });
        assert_eq!(summary.reports.len(), 0, "{:?}", summary.reports);
        // It stands where the other one stands or stood.
        wait("the same head", || {
            let heads = [deaf, other].map(|node| node.summary.borrow().head.clone());
            (heads[0] == heads[1]).then_some(())
        });
    });
}
