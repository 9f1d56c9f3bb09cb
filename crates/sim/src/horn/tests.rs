//! Small slots, with every kind of dissemination.

use super::{Fate, HornError, HornRun, SlotVotes, pay, run};
use crate::run::RunError;
use crate::scenario::{Override, Protocol, Scenario};
use crate::testing::OnThreads;
use crate::windows::tests::narrow;
use alphorn_proto::rewards::{Account, Ledger, Schedule};
use alphorn_scheme::model::CostTable;
use alphorn_types::{Slot, Time, Validator};
use std::collections::BTreeSet;

mod attacks;
mod coded;
mod griefing;
mod grinding;
mod join;
mod levels;
mod reorgs;
mod tell;
mod voters;

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
    [compute]
    costs = "example.json"
"#;

fn scenario(changes: &[(&str, &str)]) -> Scenario {
    scenario_of(TEXT, changes)
}

fn scenario_of(text: &str, changes: &[(&str, &str)]) -> Scenario {
    let changes: Vec<Override> = changes
        .iter()
        .map(|(key, value)| crate::scenario::parse_override(&format!("{key}={value}")).unwrap())
        .collect();
    let mut scenario = Scenario::parse(text, &changes).unwrap();
    let table = serde_json::to_string(&CostTable::example()).unwrap();
    scenario.inputs.insert("example.json".into(), table);
    scenario
}

fn slot(changes: &[(&str, &str)], seed: u64) -> Result<HornRun, RunError> {
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
        assert_eq!((run.unfinished, run.slots[0].imported), (0, 96), "{way}");
        let (aggregates, collections) = run.published;
        // 16 are expected for each of 8 cells and 2 committees, as a Poisson draw.
        assert!((80..180).contains(&aggregates), "{way}: {aggregates}");
        assert!((10..60).contains(&collections), "{way}: {collections}");
        let at = run.at_proposer.at_ns;
        assert!(
            at.is_sorted() && at[0] > Some(12_000_000_000),
            "{way}: {at:?}"
        );
        assert!(at[2] < Some(22_000_000_000), "{way}: {at:?}");
    }
}

/// As in `alphorn_proto::horn::Horn::topics`: a node is in the mesh of each unit in which it has a validator of its
/// own.
#[test]
fn hosts_are_in_the_meshes_of_their_validators() {
    let servers = ("protocol.vote_dissemination", "\"gossip\"");
    let hosts = [servers, ("protocol.subscribers", "\"hosts\"")];
    let plan = attacks::plan(&hosts, 3);
    let layout = plan.config.layout;
    for unit in layout.units(1).chain(layout.units(2)) {
        let topic = plan.unit_topic(0, unit).0;
        let mut members = plan.topics[topic as usize].members.clone();
        members.sort_unstable();
        let seated = layout.unit_range(unit).map(|at| plan.assignment.member(at));
        let hosts: BTreeSet<u32> = seated.map(|validator| validator.0 % 96).collect();
        assert!(members.iter().eq(&hosts), "{unit:?}: {members:?}");
    }
    let run = |changes| slot(changes, 3).unwrap();
    let (few, all) = (run(&[servers]), run(&hosts));
    assert_eq!((few.votes, all.votes), ([2048; 5], [2048; 5]));
    assert!(all.outcome.received > 2 * few.outcome.received);
}

#[test]
fn a_verdict_names_what_the_least_class_lacks() {
    let verdict = |changes: &[(&str, &str)]| slot(changes, 3).unwrap().outcome.verdict;
    let told = verdict(&[]);
    assert!(told.contains("; feasible for class attester ("), "{told}");
    let timing = [("protocol.slot", "\"custom:600:0,100,200,300,500\"")];
    let told = verdict(&timing);
    let lacks = "; feasible for no class: class attester (25 Mbps up) has 99 % of the votes at 0.0 % of its \
                 nodes by the slot's end, must at 99 %; 99 % ";
    assert!(told.contains(lacks), "{told}");
}

#[test]
fn slots_follow_each_other_and_become_final() {
    for way in ["direct", "gossip"] {
        let quoted = format!("\"{way}\"");
        let changes = [
            ("protocol.slots", "4"),
            ("protocol.participation_ppm", "950000"),
            ("protocol.vote_dissemination", &quoted),
        ];
        let run = slot(&changes, 3).unwrap();
        let cast = run.votes[0];
        assert!((1900..2000).contains(&cast), "{cast}");
        for (number, of) in (0..).zip(&run.slots) {
            let all = SlotVotes {
                slot: number,
                cast,
                in_block: cast,
                in_chain: cast,
                imported: 96,
            };
            assert_eq!(*of, all, "{way}");
        }
        assert_eq!(run.slots.len(), 4);
        assert_eq!((run.votes, run.unfinished), ([cast; 5], 0), "{way}");
        // The votes of a slot justify its block and finalise the previous one, when the next block includes them.
        assert_eq!(run.finalised, 2, "{way}");
        let fate = Fate {
            blocks: 4,
            slots_to_final: 2,
            ..Fate::default()
        };
        assert_eq!(run.fate, fate, "{way}");
        let chain = run.outcome.chain.unwrap();
        assert_eq!((chain.votes, chain.votes_lost), (4 * cast, 0), "{way}");
        let (told, all) = (&run.outcome.verdict, 4 * cast);
        let expected = format!("; of 4 slots {all} of {all} votes in the chain, final is slot 2");
        assert!(told.ends_with(&expected), "{told}");
        if way == "direct" {
            let again = slot(&changes, 3).unwrap();
            assert_eq!((run.outcome, run.blocks), (again.outcome, again.blocks));
        }
    }
}

#[test]
fn the_blocks_of_a_run_pay_whoever_voted_and_carried() {
    let increments = [32; 2048];
    let earned = |changes: &[(&str, &str)]| {
        let run = slot(changes, 3).unwrap();
        let slots = run.slots.iter().map(|of| Slot(of.slot));
        let ledger = Ledger::new(Schedule::ALTAIR, &increments, 32 * 2048).unwrap();
        let paid = pay(&run.blocks, slots, ledger);
        (run.blocks.len(), paid.unwrap())
    };
    let sum = |ledger: &Ledger, of: fn(&Account) -> i128| -> i128 {
        ledger.accounts().iter().map(of).sum()
    };
    let votes = |one: &Account| one.source + one.target + one.head;
    let (blocks, honest) = earned(&[("protocol.slots", "4")]);
    assert_eq!((blocks, sum(&honest, |one| one.penalty)), (4, 0));
    // Four votes, each worth its full weights for source, target and head.
    let schedule = Schedule::ALTAIR;
    let weights = schedule.source_weight + schedule.target_weight + schedule.head_weight;
    let whole = 4 * honest.base_reward(Validator(0)) * u128::from(weights) / 64;
    for account in honest.accounts() {
        assert!(whole.abs_diff(votes(account) as u128) < 16, "{account:?}");
    }
    let carried: [fn(&Account) -> i128; 2] = [|one| one.aggregation, |one| one.collection];
    let [aggregation, collection] = carried.map(|of| sum(&honest, of));
    // Each vote was carried by one aggregator and one collector, with equal weights.
    assert!(aggregation > 0 && aggregation.abs_diff(collection) < 64);
    let inclusion = sum(&honest, |one| one.inclusion);
    assert!(
        (inclusion - 8 * collection).abs() < 10_000,
        "{inclusion} {collection}"
    );
    let proposers = honest.accounts().iter().filter(|one| one.inclusion > 0);
    assert_eq!(proposers.count(), 4);

    let late =
        r#"[{ kind = "late", nodes = [2], from_ms = 44000, until_ms = 50000, delay_ms = 8000 }]"#;
    let (_, late) = earned(&[("protocol.slots", "4"), ("fault", late)]);
    let lost = sum(&honest, votes) - sum(&late, votes);
    // In one slot of four all votes are lost, and cost their source and target as well.
    assert!((lost * 4 - sum(&honest, votes)).abs() < 1_000_000, "{lost}");
    let penalty = i128::from(schedule.source_weight + schedule.target_weight);
    let expected = lost * penalty / i128::from(weights);
    assert!((sum(&late, |one| one.penalty) + expected).abs() < 1_000_000);
}

#[test]
fn a_late_block_costs_the_votes_of_its_slot_and_no_others() {
    // Validator 2 proposes in slot 2, and is hosted by node 2.
    let late =
        r#"[{ kind = "late", nodes = [2], from_ms = 44000, until_ms = 50000, delay_ms = 8000 }]"#;
    let run = slot(&[("protocol.slots", "5"), ("fault", late)], 3).unwrap();
    let in_chain: Vec<u64> = run.slots.iter().map(|of| of.in_chain).collect();
    // Among the honest nodes; the late one has 22 validators.
    assert_eq!(in_chain, [2026, 2026, 0, 2026, 2026]);
    assert!(run.slots.iter().all(|of| of.imported == 96), "{run:?}");
    assert_eq!(run.finalised, 3);
}

#[test]
fn a_seed_is_one_run_in_windows_of_any_width_and_on_any_threads() {
    let scenario = scenario(&[("protocol.participation_ppm", "900000")]);
    let Protocol::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    let once = run(&scenario, horn, 5, &mut ()).unwrap();
    let again = run(&scenario, horn, 5, &mut ()).unwrap();
    let narrow = narrow(16, || run(&scenario, horn, 5, &mut ()).unwrap());
    assert_eq!(once.outcome, again.outcome);
    assert_eq!(once.outcome, narrow.outcome);
    let threads = run(&scenario, horn, 5, &mut OnThreads(3)).unwrap();
    assert_eq!(once.outcome, threads.outcome);
    let other = run(&scenario, horn, 6, &mut ()).unwrap();
    assert_ne!(once.outcome.event_hash, other.outcome.event_hash);
    // Voters are drawn: 1843 of 2048 expected, with a standard deviation of 13.6.
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
    assert_eq!(run.slots[0].imported, 93);
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
            ("protocol.slots", "33"),
            "protocol.slots = 33: must be at most 32, the slots of an epoch",
        ),
        (
            ("protocol.selection", "\"fate\""),
            "protocol.selection = fate: must be one of lottery, rank",
        ),
        (
            ("protocol.fork_choice", "\"ghost\""),
            "protocol.fork_choice = ghost: must be one of lmd, proposer-boost, view-merge",
        ),
        (
            ("protocol.selection", "\"lottery\""),
            "protocol.vote_dissemination: with protocol.selection = lottery nobody knows the receivers \
             beforehand, give selection = \"rank\" or travel by gossip",
        ),
        (
            (
                "fault",
                "[{ kind = \"false_feedback\", rate = 1, nodes = [1] }]",
            ),
            "fault false_feedback does not exist for protocol horn",
        ),
    ] {
        let error = slot(&[changes], 1).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn slow_nodes_are_no_attackers_and_bounds_know_of_wider_links() {
    for fault in [
        r#"[{ kind = "slow_link", share_pct = 100, factor_pct = 200 }]"#,
        r#"[{ kind = "slow_cpu", share_pct = 30, factor_pct = 150 }]"#,
    ] {
        let run = slot(&[("fault", fault)], 1).unwrap();
        assert_eq!(run.slots[0].cast, 2048, "{fault}");
        assert_eq!(run.slots[0].in_block, 2048, "{fault}");
        assert_eq!(run.attackers.count_ones(), 0, "{fault}");
        assert_eq!(run.outcome.delays_ns.len(), 96, "{fault}");
        assert!(run.outcome.nodes.iter().all(|node| node.role != "faulty"));
    }
}
