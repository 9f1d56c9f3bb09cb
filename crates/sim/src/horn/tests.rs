//! Small slots, in every way of dissemination.

use super::run::run_with;
use super::{HornError, HornRun, run};
use crate::calendar::Heap;
use crate::scenario::{Override, Protocol, Scenario};
use alphorn_scheme::model::CostTable;
use alphorn_types::Time;

const TEXT: &str = r#"
    name = "horn-test"
    schema = 1
    [sim]
    nodes = 96
    [graph]
    kind = "permutations"
    degree = 16
    [latency]
    kind = "regions"
    matrix = "libp2p-2025"
    [[class]]
    name = "attester"
    share_pct = 80
    down_mbps = 50
    up_mbps = 25
    cores = 8
    [[class]]
    name = "supernode"
    share_pct = 20
    down_mbps = 1024
    up_mbps = 1024
    cores = 16
    [protocol]
    kind = "horn"
    validators = 2048
    committees = 2
    subcommittees = 4
    selection = "rank"
    vote_dissemination = "direct"
    backbone = 8
    [traffic]
    kind = "slot"
    [compute]
    costs = "example.json"
"#;

fn scenario(changes: &[(&str, &str)]) -> Scenario {
    let changes: Vec<Override> = changes
        .iter()
        .map(|(key, value)| crate::scenario::parse_override(&format!("{key}={value}")).unwrap())
        .collect();
    let mut scenario = Scenario::parse(TEXT, &changes).unwrap();
    let table = serde_json::to_string(&CostTable::example()).unwrap();
    scenario.inputs.insert("example.json".into(), table);
    scenario
}

fn slot(changes: &[(&str, &str)], seed: u64) -> Result<HornRun, HornError> {
    let scenario = scenario(changes);
    let Protocol::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    run(&scenario, horn, seed, &mut ())
}

#[test]
fn every_vote_is_in_the_block_whatever_the_way() {
    for way in ["direct", "gossip", "grid"] {
        let quoted = format!("\"{way}\"");
        let keys = ["vote", "aggregate", "collection", "block"];
        let keys = keys.map(|kind| format!("protocol.{kind}_dissemination"));
        let changes: Vec<(&str, &str)> =
            keys.iter().map(|key| (key.as_str(), &quoted[..])).collect();
        let run = slot(&changes, 3).unwrap();
        assert_eq!(run.votes, [2048; 5], "{way}");
        assert_eq!((run.unfinished, run.dropped_bytes), (0, 0), "{way}");
        assert_eq!(run.imported, 96, "{way}");
        let (aggregates, collections) = run.published;
        // 16 expected at each of 8 cells and 2 committees; a Poisson draw.
        assert!((80..180).contains(&aggregates), "{way}: {aggregates}");
        assert!((10..60).contains(&collections), "{way}: {collections}");
        let at = run.at_proposer.at_ns;
        assert!(
            at.is_sorted() && at[0] > Some(12_000_000_000),
            "{way}: {at:?}"
        );
        assert!(at[2] < Some(22_000_000_000), "{way}: {at:?}");
        assert_eq!(run.curve.last().map(|point| point.1), Some(2048), "{way}");
    }
}

#[test]
fn a_seed_is_one_run_whatever_the_queue() {
    let scenario = scenario(&[("protocol.participation_ppm", "900000")]);
    let Protocol::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    let once = run(&scenario, horn, 5, &mut ()).unwrap();
    let again = run(&scenario, horn, 5, &mut ()).unwrap();
    let heap = run_with::<Heap>(&scenario, horn, 5, &mut ()).unwrap();
    assert_eq!(once.outcome, again.outcome);
    assert_eq!(once.outcome, heap.outcome);
    let other = run(&scenario, horn, 6, &mut ()).unwrap();
    assert_ne!(once.outcome.event_hash, other.outcome.event_hash);
    // Who votes is drawn: 1843 of 2048 expected, standard deviation 13.6.
    assert!((1775..1912).contains(&once.votes[0]), "{:?}", once.votes);
    assert_eq!(once.votes, [once.votes[0]; 5]);
}

#[test]
fn votes_of_nodes_that_are_down_are_missing_and_no_others() {
    let text = r#"[{ kind = "crash", nodes = [7, 8, 9] }]"#;
    let run = slot(&[("fault", text)], 2).unwrap();
    let hosted = |node: usize| (2048 - node).div_ceil(96) as u64;
    let lost: u64 = [7, 8, 9].into_iter().map(hosted).sum();
    assert_eq!(run.votes, [2048 - lost; 5]);
    assert_eq!(run.imported, 93);
}

#[test]
fn computing_is_not_free() {
    let free = slot(&[("compute.factor_pct", "0")], 4).unwrap();
    let once = slot(&[], 4).unwrap();
    let slow = slot(&[("compute.factor_pct", "1000")], 4).unwrap();
    let time = |run: &HornRun| run.at_proposer.at_ns[2].unwrap();
    assert!(time(&free) < time(&once) && time(&once) < time(&slow));
    let cpu = |run: &HornRun| {
        run.outcome
            .nodes
            .iter()
            .map(|node| node.cpu_ns)
            .sum::<u64>()
    };
    assert!(cpu(&free) < cpu(&once) && cpu(&once) < cpu(&slow));
}

#[test]
fn a_late_majority_of_bandwidth_delays_votes() {
    let fast = slot(&[], 1).unwrap();
    let text = r#"[{ kind = "slow_link", share_pct = 90, factor_pct = 1 }]"#;
    let slow = slot(&[("fault", text)], 1).unwrap();
    let [fast, slow] = [fast, slow].map(|run| run.at_proposer.at_ns[0].unwrap_or(u64::MAX));
    assert!(slow > fast, "{slow} {fast}");
    assert!(Time::from_nanos(fast) < Time::from_millis(22_000));
}

#[test]
fn supports_take_fewer_bytes_the_more_is_known() {
    let bytes = |way: &str| {
        let changes = [
            ("protocol.supports", way),
            ("protocol.participation_ppm", "900000"),
        ];
        // Of all collections and the block.
        slot(&changes, 3).unwrap().outcome.payload_bytes
    };
    let [raw, coded, chain] = ["\"raw\"", "\"coded\"", "\"chain\""].map(bytes);
    assert!(raw > coded && coded > chain, "{raw} {coded} {chain}");
}

#[test]
fn what_cannot_be_is_named() {
    for (changes, text) in [
        (
            ("protocol.slots", "2"),
            "protocol.slots = 2: a run has one slot",
        ),
        (
            ("protocol.vote_dissemination", "\"rlnc\""),
            "protocol.vote_dissemination = rlnc: Horn's topics travel by gossip, direct or grid",
        ),
        (
            ("protocol.selection", "\"fate\""),
            "protocol.selection = fate: must be one of lottery, rank",
        ),
        (
            ("protocol.selection", "\"lottery\""),
            "protocol.vote_dissemination: with protocol.selection = lottery nobody knows the receivers \
             beforehand, give selection = \"rank\" or travel by gossip",
        ),
        (
            ("fault", "[{ kind = \"grief\", nodes = [1] }]"),
            "fault grief does not exist for protocol horn",
        ),
    ] {
        let error = slot(&[changes], 1).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}
