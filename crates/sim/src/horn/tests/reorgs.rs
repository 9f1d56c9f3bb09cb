//! Attacks on the fork choice over a network. They work only against latest votes, not against other policies.

use super::attacks::{attacked, plan};
use super::*;

/// Validator 3 proposes in slot 3, and is hosted by node 3.
const ATTACKED: Slot = Slot(3);
const SLOTS: &str = "7";

/// The proposer's node and, for each of some slots, the node of one collector of each committee. None of these
/// nodes proposes in the slots that follow.
fn allies(changes: &[(&str, &str)], slots: std::ops::Range<u64>) -> Vec<u32> {
    let plan = plan(changes, 3);
    let mut nodes = vec![3];
    for slot in slots.map(Slot) {
        for committee in 0..plan.config.layout.committees() {
            let servers = plan.servers_of(slot, plan.config.layout.committee(committee));
            let mut hosts = servers.iter().map(|server| plan.host(server.validator));
            nodes.extend(hosts.find(|host| *host > 8));
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn run(kind: &str, nodes: &[u32], changes: &[(&str, &str)], policy: &str) -> HornRun {
    let quoted = format!("\"{policy}\"");
    let changes = [changes, &[("protocol.fork_choice", &quoted)]].concat();
    let fault = format!("[{{ kind = \"{kind}\", nodes = {nodes:?} }}]");
    attacked(&changes, &fault)
}

/// Number of honest validators' votes that are not in the chain, by slot.
fn lost(run: &HornRun) -> Vec<u64> {
    run.slots.iter().map(|of| of.cast - of.in_chain).collect()
}

#[test]
fn a_withheld_block_reorganises_latest_votes_alone() {
    let changes = [("protocol.slots", SLOTS)];
    let nodes = allies(&changes, ATTACKED.0..ATTACKED.0 + 1);
    let lmd = run("withhold_block", &nodes, &changes, "lmd");
    // Three nodes of 96 are enough, since all honest votes of the slot are for the parent of both blocks.
    assert_eq!((nodes.len(), lmd.fate.blocks_lost), (3, 1), "{lmd:?}");
    assert!(lmd.fate.reorgs > 0, "{:?}", lmd.fate);
    assert_eq!(lmd.fate.reorg_depth, 1);
    let cast = lmd.slots[3].cast;
    assert_eq!(lost(&lmd), [0, 0, 0, cast, 0, 0, 0]);
    for policy in ["proposer-boost", "view-merge"] {
        let run = run("withhold_block", &nodes, &changes, policy);
        assert_eq!((run.fate.reorgs, run.fate.blocks_lost), (0, 0), "{policy}");
        assert_eq!(lost(&run), [0; 7], "{policy}");
        assert!(
            run.fate.slots_to_final <= lmd.fate.slots_to_final,
            "{policy}"
        );
    }
}

#[test]
fn saved_votes_keep_halves_apart_under_latest_votes_alone() {
    let changes = [
        ("protocol.slots", SLOTS),
        ("protocol.block_dissemination", "\"direct\""),
        ("protocol.collection_dissemination", "\"direct\""),
    ];
    let nodes = allies(&changes, ATTACKED.0..7);
    let lmd = run("balance", &nodes, &changes, "lmd");
    for of in &lmd.slots[3..] {
        assert!(of.in_chain < of.cast * 3 / 5, "{of:?} of {:?}", lmd.slots);
    }
    for policy in ["proposer-boost", "view-merge"] {
        let run = run("balance", &nodes, &changes, policy);
        let lost = lost(&run);
        // The two blocks split the votes of their slot, whatever the policy.
        assert!(
            lost[3] > 0 && lost[3] < run.slots[3].cast * 3 / 5,
            "{lost:?}"
        );
        assert_eq!(lost[4..], [0; 3], "{policy}");
        assert!(run.finalised > lmd.finalised, "{policy}");
        assert!(run.fate.reorgs < lmd.fate.reorgs, "{policy}");
    }
}

/// The attackers' votes together with those of one half would justify that half.
#[test]
fn a_third_keeps_halves_apart_and_justifies_neither() {
    let changes = [
        ("protocol.slots", SLOTS),
        ("protocol.block_dissemination", "\"direct\""),
        ("protocol.collection_dissemination", "\"direct\""),
    ];
    let nodes: Vec<u32> = (0..96).step_by(3).collect();
    let run = run("balance", &nodes, &changes, "lmd");
    for of in &run.slots[3..] {
        let half = of.cast * 2 / 5..of.cast * 3 / 5;
        assert!(half.contains(&of.in_chain), "{of:?}");
    }
    // The block of slot 3 has the votes of slot 2.
    assert_eq!(run.finalised, 1);
}

/// Votes and boosts only decide between blocks on top of the highest justified block.
#[test]
fn a_third_that_votes_twice_reorganises_under_every_policy() {
    let changes = [
        ("protocol.slots", SLOTS),
        ("protocol.block_dissemination", "\"direct\""),
        ("protocol.collection_dissemination", "\"direct\""),
    ];
    // The proposers of slots 2 and 4, and none of 3.
    let nodes: Vec<u32> = (0..96)
        .filter(|node| [1, 2, 4].contains(&(node % 9)))
        .collect();
    for policy in ["lmd", "proposer-boost", "view-merge"] {
        let run = run("bounce", &nodes, &changes, policy);
        let (lost, cast) = (lost(&run), run.slots[3].cast);
        // The honest block of slot 3 and all votes for it, and the votes for its parent.
        assert_eq!((run.fate.blocks_lost, lost[3]), (1, cast), "{policy}");
        assert_eq!(run.fate.reorg_depth, 2, "{policy}");
        assert!(0 < lost[2] && lost[2] < cast / 2, "{policy}: {lost:?}");
        assert_eq!(lost[4..], [0; 3], "{policy}");
    }
}

/// A block that a tenth could justify with honest votes is made the heavier one by those votes.
#[test]
fn a_tenth_that_votes_twice_reorganises_nothing() {
    let changes = [
        ("protocol.slots", SLOTS),
        ("protocol.block_dissemination", "\"direct\""),
        ("protocol.collection_dissemination", "\"direct\""),
    ];
    let nodes = [2, 4, 20, 30, 40, 50, 60, 70, 80];
    let run = run("bounce", &nodes, &changes, "lmd");
    assert_eq!((run.fate.reorgs, lost(&run)), (0, vec![0; 7]));
}

#[test]
fn what_is_forwarded_balances_nobody() {
    let fault = "[{ kind = \"balance\", nodes = [3] }]";
    let error = slot(&[("protocol.slots", SLOTS), ("fault", fault)], 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fault balance: needs protocol.block_dissemination = \"direct\" and \
         protocol.collection_dissemination = \"direct\""
    );
}
