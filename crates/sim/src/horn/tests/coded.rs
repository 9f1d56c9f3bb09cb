//! Collections and blocks in coded pieces.

use super::levels::{counts_all, levels, proofs};
use super::*;
use crate::horn::Plan;

/// Costs of coding, in round figures.
const CODE_COSTS: &str = r#"{ "schema": 1, "machine": "none: round figures", "kind": "modelled", "ops": [
    { "op": "rlnc_commit", "n": 64, "m": 150000, "ns": 5000000, "memory_bytes": 1 },
    { "op": "rlnc_verify", "n": 1, "m": 150000, "ns": 200000, "memory_bytes": 1 },
    { "op": "rlnc_recode", "n": 64, "m": 150000, "ns": 10000, "memory_bytes": 1 },
    { "op": "rlnc_decode", "n": 64, "m": 150000, "ns": 400000, "memory_bytes": 1 },
    { "op": "rs_encode", "n": 64, "m": 150000, "ns": 1000000, "memory_bytes": 1 },
    { "op": "rs_verify", "n": 1, "m": 150000, "ns": 4000, "memory_bytes": 1 },
    { "op": "rs_decode", "n": 64, "m": 150000, "ns": 2000000, "memory_bytes": 1 } ] }"#;

/// A slot of two committees with proofs of 150 kB, in which committees do not take turns.
const CHANGES: [(&str, &str); 5] = [
    ("protocol.fan_out", "[4]"),
    ("protocol.collectors", "4"),
    ("protocol.publish", "\"staged\""),
    ("protocol.stage_ms", "[150, 1500]"),
    ("compute.code_costs", "\"codes.json\""),
];
/// Collections in pieces, with the policy for as few neighbours as there are here.
pub(super) const CODED: [(&str, &str); 4] = [
    ("protocol.collection_dissemination", "\"coded\""),
    ("protocol.broadcast_above", "65536"),
    ("protocol.broadcast.strategy", "\"rs\""),
    ("protocol.broadcast.policy", "\"large\""),
];

pub(super) fn scenario_with(more: &[(&str, &str)]) -> Scenario {
    let mut table = proofs();
    table.sizes.evidence[1].bytes = 150_000;
    let mut scenario = levels(&table, &[&CHANGES[..], more].concat());
    scenario
        .inputs
        .insert("codes.json".into(), CODE_COSTS.into());
    scenario
}

fn run_plain(more: &[(&str, &str)]) -> Result<HornRun, RunError> {
    run_on(1, more)
}

fn run_on(threads: usize, more: &[(&str, &str)]) -> Result<HornRun, RunError> {
    let scenario = scenario_with(more);
    let Protocol::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    run(&scenario, horn, 3, &mut OnThreads(threads))
}

fn run_coded(more: &[(&str, &str)]) -> Result<HornRun, RunError> {
    run_plain(&[&CODED[..], more].concat())
}

/// Bytes that all nodes sent, of one kind.
fn sent(run: &HornRun, kind: &str) -> u64 {
    let of_kind = run.outcome.series.iter().filter(|bin| bin.kind == kind);
    of_kind.map(|bin| bin.bytes).sum()
}

#[test]
fn coded_collections_reach_everybody_for_fewer_bytes() {
    let gossip = run_plain(&[]).unwrap();
    let coded = run_coded(&[]).unwrap();
    assert_eq!(run_on(4, &CODED).unwrap().outcome, coded.outcome);
    for run in [&gossip, &coded] {
        counts_all(run);
    }
    let [whole, pieces] = [&gossip, &coded].map(|run| sent(run, "collection"));
    assert!(5 * pieces < 4 * whole, "{pieces} {whole}");
    // One collector of each of two committees published, to 95 nodes.
    let (_, published) = coded.published;
    let least = 95 * published * 150_000;
    assert!(pieces > least && pieces < 2 * least, "{pieces} {least}");
    let told = &coded.outcome.verdict;
    assert!(told.contains("collections coded, block gossip"), "{told}");
    let all = coded.outcome.loads.all().unwrap();
    assert!(all.mean.cores > gossip.outcome.loads.all().unwrap().mean.cores);
}

#[test]
fn blocks_travel_in_pieces_as_well_and_short_messages_by_gossip() {
    let blocks = [
        ("protocol.block_dissemination", "\"coded\""),
        ("protocol.slots", "3"),
        ("protocol.bundled", "false"),
    ];
    let run = run_coded(&blocks).unwrap();
    counts_all(&run);
    assert_eq!(run.finalised, 1);
    let (_, bytes) = run.block;
    assert!(bytes > 300_000, "{bytes}");
    let spent = sent(&run, "block");
    assert!(spent > 95 * 3 * bytes * 9 / 10, "{spent}");
    assert!(spent < 2 * 95 * 3 * bytes, "{spent}");
    // Anything not above the bound travels as it does without pieces.
    let short = run_coded(&[("protocol.broadcast_above", "1000000")]).unwrap();
    let gossip = run_plain(&[]).unwrap();
    assert_eq!(short.outcome.event_hash, gossip.outcome.event_hash);
}

#[test]
fn whoever_withholds_pieces_does_not_stop_them() {
    let fault = "[{ kind = \"withhold\", share_pct = 20 }]";
    let run = run_coded(&[("fault", fault)]).unwrap();
    let of = run.slots[0];
    assert!(of.cast > 1500 && of.in_block == of.cast, "{of:?}");
    assert!(of.imported >= 77, "{of:?}");
}

#[test]
fn a_collector_whose_pieces_are_no_codeword_is_replaced_by_the_next() {
    let scenario = scenario_with(&CODED);
    let Protocol::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    let table = scenario.costs_for("horn").unwrap();
    let plan = Plan::new(&scenario, horn, table, 3).unwrap();
    let first = plan.serving(2)[0][0];
    let node = plan.host(first.validator);
    let fault = format!("[{{ kind = \"non_codeword_source\", nodes = [{node}] }}]");
    let run = run_coded(&[("fault", &fault)]).unwrap();
    let of = run.slots[0];
    assert!(of.cast > 1900 && of.in_block == of.cast, "{of:?}");
    // Both collectors of the first committee, one of the second.
    let honest = run_coded(&[]).unwrap();
    assert_eq!(run.published.1, honest.published.1 + 1);
    // The attacker's collection was accepted by no other node, and each other collection by at most all nodes but
    // its own.
    let useful = |run: &HornRun| run.outcome.useful_bytes / 150_000;
    assert!(useful(&run) <= useful(&honest), "{}", useful(&run));
    assert!(useful(&run) + 3 > useful(&honest), "{}", useful(&run));
}

/// All votes are in the chain for the slot whose block the attackers leave alone.
fn coded_blocks(fault: &str) -> HornRun {
    run_coded(&[
        ("protocol.block_dissemination", "\"coded\""),
        ("protocol.slots", "3"),
        ("protocol.bundled", "false"),
        ("fault", fault),
    ])
    .unwrap()
}

#[test]
fn a_proposer_leaves_out_collections_that_come_in_pieces() {
    let fault = "[{ kind = \"censor\", posts_pct = 100, factor_pct = 50, until_ms = 45000 }]";
    let run = coded_blocks(fault);
    let [first, second, third] = [0, 1, 2].map(|at| run.slots[at]);
    // One of two committees is missing from the blocks with the votes of the first two slots, unless the proposer
    // collects it.
    for of in [first, second] {
        assert!(of.in_block < of.cast * 6 / 10, "{of:?}");
        assert!(of.in_block > of.cast * 4 / 10, "{of:?}");
    }
    assert_eq!(third.in_block, third.cast, "{third:?}");
}

#[test]
fn a_second_block_beside_pieces_of_the_first_costs_no_vote() {
    // Validator 2 proposes in slot 2, and is hosted by node 2.
    let run = coded_blocks("[{ kind = \"equivocate\", nodes = [2] }]");
    assert!(run.slots.iter().all(|of| of.in_chain == of.cast), "{run:?}");
    let evidence = run.outcome.adversity.evidence;
    assert!(evidence > 60, "{evidence} nodes have proof");
}

#[test]
fn forged_blocks_and_early_collections_are_sent_whole_where_others_send_pieces() {
    let fault = "[{ kind = \"invalid_flood\", fails_at = \"signature\", rate = 20, nodes = [40] }]";
    let flooded = coded_blocks(fault);
    let honest = coded_blocks("[]");
    let [many, few] = [&flooded, &honest].map(|run| run.outcome.nodes[40].msgs);
    assert!(many > few + 1000, "{many} {few}");
    assert!(
        flooded.slots.iter().all(|of| of.in_chain == of.cast),
        "{flooded:?}"
    );
    let fault =
        "[{ kind = \"early_collection\", posts_pct = 25, delay_ms = 1000, until_ms = 22000 }]";
    let early = coded_blocks(fault);
    assert!(
        early.slots.iter().all(|of| of.in_chain == of.cast),
        "{early:?}"
    );
    // In the second before the collection phase.
    let [too_early, none] = [&early, &honest].map(|run| {
        let bins = run.outcome.series.iter();
        let meant = bins.filter(|bin| bin.kind == "collection" && bin.from_ns < 11_900_000_000);
        meant.map(|bin| bin.bytes).sum::<u64>()
    });
    assert!(too_early > 150_000 && none == 0, "{too_early} {none}");
}

#[test]
fn coded_runs_are_the_same_each_time_and_their_bytes_add_up() {
    let one = run_coded(&[]).unwrap().outcome;
    let two = run_coded(&[]).unwrap().outcome;
    let narrow = narrow(16, || run_plain(&CODED).unwrap().outcome);
    assert_eq!(one, two);
    assert_eq!(one, narrow);
    let up: u64 = one.nodes.iter().map(|node| node.bytes_up).sum();
    let down: u64 = one.nodes.iter().map(|node| node.bytes_down).sum();
    let by_kind: u64 = one.series.iter().map(|bin| bin.bytes).sum();
    assert_eq!(up, by_kind);
    assert!(!one.sent_truncated && up == down, "{up} {down}");
}

#[test]
fn places_and_numbers_are_those_that_are_named() {
    let more = [
        ("protocol.broadcast.places", "true"),
        ("protocol.broadcast.source_privacy", "\"none\""),
        ("protocol.broadcast.in_flight", "4"),
        ("protocol.broadcast.push_pct", "110"),
    ];
    let run = run_coded(&more).unwrap();
    counts_all(&run);
    let patient = [
        ("protocol.broadcast.quiet_ms", "200"),
        ("protocol.broadcast.need_peers", "1"),
        ("protocol.broadcast.feedback", "false"),
    ];
    let waited = run_coded(&patient).unwrap();
    counts_all(&waited);
    // Nodes report what they have only to peers that send them pieces in vain.
    assert!(4 * sent(&waited, "control") < sent(&run, "control"));
    assert_ne!(
        run.outcome.event_hash,
        run_coded(&[]).unwrap().outcome.event_hash
    );
}

#[test]
fn coded_topics_that_cannot_be_are_named() {
    let lottery = [
        ("protocol.selection", "\"lottery\""),
        ("protocol.vote_dissemination", "\"gossip\""),
    ];
    let cases: [(&[(&str, &str)], &str); 2] = [
        (
            &lottery,
            "protocol.collection_dissemination = coded: with protocol.selection = lottery nobody knows the \
             collectors beforehand, so their broadcasts are refused; give selection = \"rank\"",
        ),
        (
            &[("protocol.broadcast.policy", "\"tiny\"")],
            "protocol.broadcast.policy = tiny: protocol.policy = \"tiny\", known are auto and small, \
             medium, large, proposal_40, proposal_80",
        ),
    ];
    for (more, text) in cases {
        let error = run_coded(more).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let mut scenario = scenario_with(&CODED);
    scenario.compute.code_costs = None;
    let Protocol::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    let error = run(&scenario, horn, 3, &mut ()).unwrap_err();
    assert!(
        matches!(error, RunError::Horn(HornError::CodeCosts)),
        "{error}"
    );
    // Only a source of pieces can commit to something that is not a payload.
    let fault = [("fault", "[{ kind = \"non_codeword_source\", nodes = [2] }]")];
    let error = slot(&fault, 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fault non_codeword_source does not exist for protocol horn"
    );
}

/// The changes, and why they are refused.
type Refused<'a> = (&'a [(&'a str, &'a str)], &'a str);

#[test]
fn settings_of_pieces_have_bounds() {
    let coded = ("protocol.collection_dissemination", "\"coded\"");
    let strategy = ("protocol.broadcast.strategy", "\"rs\"");
    let large = ("protocol.broadcast.policy", "\"large\"");
    let cases: [Refused<'_>; 8] = [
        (
            &[("protocol.vote_dissemination", "\"coded\"")],
            "protocol.vote_dissemination = coded: one of gossip, direct, grid",
        ),
        (
            &[("protocol.collection_dissemination", "\"rs\"")],
            "unknown variant `rs`, expected one of `gossip`, `direct`, `grid`, `coded`\n\
             in `protocol`\n",
        ),
        (
            &[coded, ("protocol.broadcast_above", "33554433")],
            "protocol.broadcast_above = 33554433, allowed 0 to 33554432",
        ),
        (
            &[coded, ("protocol.broadcast.strategy", "\"rlnc\"")],
            "protocol.broadcast.strategy = given: a node of Horn sends Reed-Solomon shards: strategy = \
             \"rs\"",
        ),
        (
            &[coded, strategy, ("protocol.broadcast.chunks", "32")],
            "protocol.broadcast.policy = auto: what replaces numbers of a policy needs its name: the one \
             of auto hangs on the length",
        ),
        (
            &[
                coded,
                strategy,
                large,
                ("protocol.broadcast.in_flight", "9"),
            ],
            "protocol.broadcast.in_flight = 9, allowed 1 to 8",
        ),
        (
            &[coded, strategy, ("protocol.broadcast.quiet_ms", "0")],
            "protocol.broadcast.quiet_ms = 0, allowed 1 to 60000",
        ),
        (
            &[coded, strategy, ("protocol.broadcast.need_peers", "17")],
            "protocol.broadcast.need_peers = 17, allowed 1 to 16",
        ),
    ];
    for (changes, text) in cases {
        let changes: Vec<Override> = changes
            .iter()
            .map(|(key, value)| crate::scenario::parse_override(&format!("{key}={value}")).unwrap())
            .collect();
        let error = Scenario::parse(TEXT, &changes).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}
