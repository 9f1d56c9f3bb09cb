use super::*;
use crate::report::manifest::{Figures, Manifest};

const TEXT: &str = r#"
name = "two"
schema = 1
[sim]
seeds = "1..3"
nodes = 16
[graph]
kind = "permutations"
degree = 4
[[class]]
name = "full"
share_pct = 100
down_mbps = 50
up_mbps = 15
[protocol]
kind = "broadcast"
strategy = "rlnc"
[sweep]
"traffic.bytes" = [1000, 2000]
"protocol.strategy" = ["gossip", "rlnc"]
"#;

fn plan() -> Plan {
    Plan::of(&Scenario::parse(TEXT, &[]).unwrap(), "abc").unwrap()
}

#[test]
fn a_plan_is_every_point_with_every_seed() {
    let plan = plan();
    assert_eq!((plan.items.len(), plan.head.runs), (12, 12));
    let mut ids: Vec<&str> = plan.items.iter().map(|item| item.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 12);
    let last = &plan.items[11];
    assert_eq!(last.seed, 3);
    let scenario = plan.scenario(last).unwrap();
    assert_eq!(scenario.traffic.bytes, 2000);
    assert!(scenario.sweep.is_empty());
    assert_eq!(Plan::from_lines(&plan.to_lines().unwrap()).unwrap(), plan);
}

#[test]
fn an_identity_is_of_scenario_values_seed_and_commit() {
    let base = plan().items[0].id.clone();
    let scenario = Scenario::parse(TEXT, &[]).unwrap();
    assert_eq!(Plan::of(&scenario, "abc").unwrap().items[0].id, base);
    assert_ne!(Plan::of(&scenario, "abd").unwrap().items[0].id, base);
    let mut other = scenario;
    other.link.overhead_bytes = 1;
    assert_ne!(Plan::of(&other, "abc").unwrap().items[0].id, base);
}

#[test]
fn shards_are_apart_and_are_all() {
    let mut all = Vec::new();
    for shard in 0..5 {
        let mut part = plan();
        part.shard(shard, 5);
        all.extend(part.items.into_iter().map(|item| item.index));
    }
    all.sort_unstable();
    assert_eq!(all, (0..12).collect::<Vec<u64>>());
}

#[test]
fn every_wrong_line_is_named() {
    let text = plan().to_lines().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let cases = [
        (String::new(), "line 1 of the plan: nothing"),
        ("{}".into(), "line 1 of the plan: missing field"),
        (
            lines[0].replace("\"schema\":1", "\"schema\":2"),
            "schema = 2",
        ),
        (lines[..5].join("\n"), "runs = 12, but 4 follow"),
        (
            text.replacen("\"seed\":2", "\"seed\":7", 1),
            "line 3 of the plan: id",
        ),
        (
            text.replacen("\"index\":1,", "\"index\":9,", 1),
            "line 3 of the plan: index = 9, expected 1",
        ),
        (text.replace("nodes = 16", "nodes = 1"), "sim.nodes = 1"),
    ];
    for (text, part) in cases {
        let error = Plan::from_lines(&text).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_point_that_is_no_scenario_is_named() {
    let text = TEXT.replace("[1000, 2000]", "[1000, 0]");
    let error = Plan::of(&Scenario::parse(&text, &[]).unwrap(), "").unwrap_err();
    assert!(error.to_string().contains("traffic.bytes = 0: "), "{error}");
}

fn run(item: &Item, t99_ms: Option<f64>) -> Manifest {
    Manifest {
        id: item.id.clone(),
        name: "two".into(),
        seed: item.seed,
        set: item
            .set
            .iter()
            .map(|(path, value)| (path.clone(), value.to_string()))
            .collect(),
        holds: t99_ms.is_some(),
        figures: Some(Figures {
            t99_ns: t99_ms.map(|ms| (ms * 1e6) as u64),
            sent_ratio: item.seed as f64,
            ..Figures::default()
        }),
        ..Manifest::default()
    }
}

#[test]
fn runs_are_merged_whatever_their_order() {
    let plan = plan();
    let time = |item: &Item| (item.index != 4).then_some(10.0 * item.seed as f64);
    let runs: Vec<Manifest> = plan
        .items
        .iter()
        .map(|item| run(item, time(item)))
        .collect();
    let merged = Merged::of(runs.clone());
    let mut reversed = runs.clone();
    reversed.reverse();
    reversed.push(runs[3].clone());
    let again = Merged::of(reversed);
    assert_eq!(merged.runs_csv(), again.runs_csv());
    assert_eq!(merged.points_csv(), again.points_csv());
    assert_eq!(merged.points.len(), 4);
    let whole = &merged.points[0];
    assert_eq!((whole.runs, whole.failed), (3, 0));
    let t99 = whole.figure("t99_ms").unwrap();
    assert_eq!(
        (t99.mean, t99.sd, t99.min, t99.max),
        (Some(20.0), Some(10.0), Some(10.0), Some(30.0))
    );
    // One seed of the second point never reached 99 %, so it is infinitely late.
    let part = merged.points[1].figure("t99_ms").unwrap();
    assert_eq!((part.mean, part.max, part.min), (None, None, Some(10.0)));
    assert_eq!(merged.points[1].failed, 1);
    assert_eq!(
        merged.points[1].figure("sent_ratio").unwrap().mean,
        Some(2.0)
    );
}

#[test]
fn tables_have_every_point() {
    let plan = plan();
    let mut runs: Vec<Manifest> = plan.items.iter().map(|item| run(item, Some(5.0))).collect();
    runs[0].figures = None;
    runs[0].holds = false;
    let merged = Merged::of(runs);
    // Values contain no commas here.
    for table in [merged.runs_csv(), merged.points_csv()] {
        let mut lines = table.lines();
        let cells = lines.next().unwrap().split(',').count();
        assert!(
            lines.all(|line| line.split(',').count() == cells),
            "{table}"
        );
    }
}
