//! Voters that vote for more than one block. They do not move the head, and no other vote is lost.

use super::attacks::{SLOTS, assert_harmless, attacked};
use super::*;

fn run(kind: &str, share_pct: u32, way: &str) -> HornRun {
    let quoted = format!("\"{way}\"");
    let changes = [
        ("protocol.slots", SLOTS),
        ("protocol.vote_dissemination", &quoted),
    ];
    let fault = format!("[{{ kind = \"{kind}\", share_pct = {share_pct} }}]");
    attacked(&changes, &fault)
}

#[test]
fn who_votes_twice_moves_no_head() {
    // Each aggregator is sent one of the two votes. Where votes are forwarded, all honest nodes have both, which is
    // proof.
    for (share_pct, way, proofs) in [(5, "direct", 0), (33, "direct", 0), (33, "gossip", 64)] {
        let run = run("equivocate_votes", share_pct, way);
        assert_harmless(&run, way);
        assert_eq!(run.fate.reorgs, 0, "{way}");
        let proven = run.outcome.adversity.evidence;
        assert!(proven >= proofs, "{way}: {proven}");
    }
}

#[test]
fn ballots_split_sixteen_ways_take_no_room_of_the_honest_one() {
    for (share_pct, proofs) in [(5, 0), (33, 64)] {
        let run = run("split_ballots", share_pct, "direct");
        assert_harmless(&run, "sixteen ballots");
        assert_eq!(run.fate.reorgs, 0);
        // A node that verified a vote for a further block has fetched that block.
        let proven = run.outcome.adversity.evidence;
        assert!(proven >= proofs, "{proven}");
    }
}
