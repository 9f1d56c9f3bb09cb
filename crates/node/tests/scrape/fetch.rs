//! Blocks that gossip does not bring, over loopback.

use crate::rig::{wait, with_two};

/// Blocks that must come.
const BLOCKS: u64 = 2;

#[test]
fn blocks_that_gossip_does_not_bring_come_by_request() {
    with_two(|nodes| {
        let [other, deaf] = nodes else {
            panic!("two nodes");
        };
        let began = wait("the chain", || {
            let head = deaf.summary.borrow().head_slot;
            (head > 0).then_some(head)
        });
        // Votes go on to come, and refer to blocks that do not.
        deaf.net.unsubscribe(&deaf.blocks).unwrap();
        let summary = wait("a block that was asked for", || {
            let summary = deaf.summary.borrow().clone();
            let is_there = summary.blocks_by_root >= BLOCKS && summary.head_slot > began + BLOCKS;
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
