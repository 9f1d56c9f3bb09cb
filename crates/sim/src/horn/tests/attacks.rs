//! Attackers in a network of real roles: honest votes count as without them, and finality continues.

use super::super::Plan;
use super::*;

/// Number of slots of a run. Attacks that end are over two slots before the last.
pub(super) const SLOTS: &str = "5";

/// The plan of a run, used to choose attackers by their duties.
pub(super) fn plan(changes: &[(&str, &str)], seed: u64) -> Plan {
    let scenario = scenario(changes);
    let Protocol::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    Plan::new(&scenario, horn, CostTable::example(), seed).unwrap()
}

fn nodes(mut nodes: Vec<u32>) -> String {
    nodes.sort_unstable();
    nodes.dedup();
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    format!("[{}]", nodes.join(", "))
}

/// The same run with a fault.
pub(super) fn attacked(changes: &[(&str, &str)], fault: &str) -> HornRun {
    slot(&[changes, &[("fault", fault)]].concat(), 3).unwrap()
}

/// Every vote of honest nodes is in every honest chain, and finality is the same as without an attack.
pub(super) fn assert_harmless(run: &HornRun, what: &str) {
    for of in &run.slots {
        assert!(of.cast > 0 && of.in_chain == of.cast, "{what}: {of:?}");
    }
    assert_eq!(run.finalised, 3, "{what}");
}

#[test]
fn sixteen_collections_of_one_vote_each_take_no_place_of_an_honest_one() {
    // Where not all validators vote, the one vote is still one that was cast.
    for participation in ["1000000", "900000"] {
        let changes = [
            ("protocol.slots", SLOTS),
            ("protocol.collectors", "32"),
            ("protocol.participation_ppm", participation),
        ];
        let plan = plan(&changes, 3);
        // The first sixteen of each committee, in the second slot.
        let of_slot = &plan.serving(2)[2..4];
        let first = of_slot.iter().flat_map(|servers| &servers[..16]);
        let nodes = nodes(first.map(|server| plan.host(server.validator)).collect());
        let fault = format!("[{{ kind = \"grief\", nodes = {nodes} }}]");
        let run = attacked(&changes, &fault);
        assert_harmless(&run, "one vote each");
        let honest = slot(&changes, 3).unwrap();
        assert!(run.slots[1].cast < honest.slots[1].cast);
    }
}

#[test]
fn two_blocks_of_a_proposer_cost_nobody_its_vote() {
    // Validator 2 proposes in slot 2, and is hosted by node 2.
    let fault = "[{ kind = \"equivocate\", nodes = [2] }]";
    let run = attacked(&[("protocol.slots", SLOTS)], fault);
    assert_harmless(&run, "two blocks");
    for of in &run.slots {
        // A node that got the second block first asks for the first one if one of its own messages waits for it.
        let least = if of.slot == 1 { 90 } else { 96 };
        assert!(of.imported >= least, "{of:?}");
    }
}

/// Messages sent directly or in a grid are not forwarded further. Some nodes get one block and some the other, and each
/// fetches the second one when it sees votes for it.
#[test]
fn two_blocks_that_are_not_gossiped_do_not_split_the_network() {
    for way in ["\"direct\"", "\"grid\""] {
        let changes = [
            ("protocol.slots", SLOTS),
            ("protocol.block_dissemination", way),
        ];
        let run = attacked(&changes, "[{ kind = \"equivocate\", nodes = [2] }]");
        let honest = slot(&changes, 3).unwrap();
        let in_second = |run: &HornRun| run.slots[1].in_chain;
        assert!(in_second(&run) < in_second(&honest), "{way}: there are two");
        for of in &run.slots {
            // All nodes have the block with the votes of slot 1 too, although half of them first got the other one.
            assert_eq!(of.imported, 96, "{way}: {of:?}");
            // The votes for the other block are lost along with it, but no others.
            let least = if of.slot == 2 {
                of.cast * 2 / 5
            } else {
                of.cast
            };
            assert!(of.in_chain >= least, "{way}: {of:?}");
        }
        assert_eq!(run.finalised, 3, "{way}");
    }
}

#[test]
fn votes_for_heads_that_nobody_has_keep_no_vote_out() {
    for way in ["direct", "gossip"] {
        let quoted = format!("\"{way}\"");
        let changes = [
            ("protocol.slots", SLOTS),
            ("protocol.vote_dissemination", &quoted),
        ];
        let fault = "[{ kind = \"invalid_flood\", share_pct = 20, until_ms = 66000 }]";
        assert_harmless(&attacked(&changes, fault), way);
    }
}

#[test]
fn forged_blocks_of_one_peer_keep_no_block_out() {
    let changes = [("protocol.slots", SLOTS)];
    let fault = "[{ kind = \"invalid_flood\", fails_at = \"signature\", rate = 50, nodes = [40] }]";
    let run = attacked(&changes, fault);
    assert_harmless(&run, "forged blocks");
    let flood = run.outcome.nodes[40].msgs;
    let honest = slot(&changes, 3).unwrap().outcome.nodes[40].msgs;
    // 110 seconds, to 16 neighbours.
    assert!(flood > honest + 50 * 80 * 16, "{flood} {honest}");
}
