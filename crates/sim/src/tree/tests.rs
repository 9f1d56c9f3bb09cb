//! Small trees: every vote at the root, the effect of faults, and schemes that do not merge.

use super::{TreeRun, run};
use crate::scenario::{Override, Protocol, Scenario, parse_override};
use crate::testing::OnThreads;
use alphorn_scheme::model::{CostTable, Merged, OpCost};
use alphorn_scheme::{Op, Overlap};

const TEXT: &str = r#"
    name = "tree-test"
    schema = 1
    [sim]
    nodes = 60
    [latency]
    kind = "constant"
    ms = 20
    [[class]]
    name = "node"
    share_pct = 100
    down_mbps = 50
    up_mbps = 25
    cores = 4
    [protocol]
    kind = "tree"
    validators = 1000
    leaf = 64
    fanout = 4
    replicas = 3
    [compute]
    costs = "example.json"
"#;

fn tree_of(changes: &[&str], table: &CostTable) -> TreeRun {
    let changes: Vec<Override> = changes
        .iter()
        .map(|text| parse_override(text).unwrap())
        .collect();
    let mut scenario = Scenario::parse(TEXT, &changes).unwrap();
    let text = serde_json::to_string(table).unwrap();
    scenario.inputs.insert("example.json".into(), text);
    let Protocol::Tree(config) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    let one = run(&scenario, config, 1, &mut ()).unwrap();
    let three = run(&scenario, config, 1, &mut OnThreads(3)).unwrap();
    assert_eq!(one.outcome, three.outcome);
    one
}

fn tree(changes: &[&str]) -> TreeRun {
    tree_of(changes, &CostTable::example())
}

#[test]
fn every_vote_is_at_the_root_and_a_seed_is_one_run() {
    let once = tree(&[]);
    assert_eq!(once.votes, [1000, 1000]);
    let (ns, piece) = once.root.clone().unwrap();
    // Sixteen leaves, one of them short, four positions above them, and the root.
    assert_eq!((piece.level, piece.position, piece.count), (2, 0, 1000));
    assert_eq!(piece.signers.len(), 1000);
    // At least three times a latency, and no position waits if nothing is missing.
    assert!((60_000_000..1_000_000_000).contains(&ns), "{ns}");
    assert_eq!(tree(&[]).outcome, once.outcome);
}

#[test]
fn leaves_wait_for_votes_that_do_not_come() {
    let run = tree(&["protocol.participation_ppm=900000"]);
    let [cast, counted] = run.votes;
    // 900 expected, standard deviation 9.5.
    assert!((860..940).contains(&cast), "{cast}");
    assert_eq!(cast, counted);
    assert!(run.root.unwrap().0 >= 1_000_000_000);
}

#[test]
fn silent_nodes_take_their_subtrees_unless_others_stand_beside_them() {
    let silent = r#"fault=[{ kind = "withhold", share_pct = 30, factor_pct = 100 }]"#;
    let lost = |replicas: u32| {
        let run = tree(&[silent, &format!("protocol.replicas={replicas}")]);
        run.votes[0] - run.votes[1]
    };
    let (alone, many) = (lost(1), lost(12));
    // A vote that a silent node never sent was not cast.
    assert_eq!(many, 0);
    assert!(alone > 100, "{alone}");
}

#[test]
fn what_does_not_merge_is_a_list() {
    let mut table = CostTable::example();
    let merged = tree_of(&[], &table).root.unwrap().1;
    assert_eq!(merged.parts, 1);
    table.abilities.overlap = [Overlap::None; 2];
    let listed = tree_of(&[], &table).root.unwrap().1;
    // One collection for each position of the middle level.
    assert_eq!((listed.parts, listed.count), (4, 1000));
    assert!(listed.evidence_bytes > merged.evidence_bytes);
}

/// Scheme tables state the cost of a merge; nothing else is charged for it.
#[test]
fn merges_have_their_own_time_and_bytes() {
    let table = CostTable::example();
    let plain = tree_of(&[], &table).root.unwrap();
    let mut dear = table.clone();
    let is_merge = |row: &&mut OpCost| row.op == Op::Merge;
    for row in dear.ops.iter_mut().filter(is_merge) {
        row.ns += 2_000_000_000;
    }
    let (ns, piece) = tree_of(&[], &dear).root.unwrap();
    // Only the root merges; the level below it collects. At most four cores share the work.
    let later = ns - plain.0;
    assert!((500_000_000..2_100_000_000).contains(&later), "{later}");
    assert_eq!((piece.parts, piece.merges), (1, 1));
    assert_eq!(piece.evidence_bytes, 96);
    let mut large = table.clone();
    large.merged = Some(Merged {
        bytes: 150_000,
        verify_ns: 300_000_000,
    });
    let root = tree_of(&[], &large).root.unwrap();
    assert_eq!(root.1.evidence_bytes, 150_000);
    // Four levels: the level above the collections merges, and the root verifies the result.
    let deep = |table: &CostTable| tree_of(&["protocol.leaf=16"], table).root.unwrap();
    let ((few_ns, few), (ns, piece)) = (deep(&table), deep(&large));
    assert_eq!((few.level, piece.level, piece.count), (3, 3, 1000));
    assert!(ns >= few_ns + 75_000_000, "{ns} after {few_ns}");
    // A committee bound that is exceeded below the root: its merges form a list.
    large.abilities.committee_max = Some(300);
    let listed = deep(&large).1;
    assert_eq!((listed.parts, listed.merges), (4, 4));
    assert_eq!(listed.evidence_bytes, 4 * 150_000);
}

/// Each level signs what it sends, and each except the leaves verifies that signature.
#[test]
fn pieces_are_signed_by_their_senders() {
    let plain = tree(&[]);
    for (op, levels) in [(Op::DutySign, 3), (Op::DutyVerify, 2)] {
        let mut dear = CostTable::example();
        for row in dear.ops.iter_mut().filter(|row| row.op == op) {
            row.ns += 1_000_000_000;
        }
        let run = tree_of(&[], &dear);
        let later = run.root.unwrap().0 - plain.root.clone().unwrap().0;
        // At most four cores share the work.
        assert!(later >= levels * 250_000_000, "{op}: {later}");
        let verify_ns = run.verify_ns - plain.verify_ns;
        assert_eq!(verify_ns >= 1_000_000_000, op == Op::DutyVerify);
    }
}

#[test]
fn what_cannot_be_is_named() {
    for (change, part) in [
        (
            "protocol.fanout=1",
            "protocol.fanout = 1, allowed 2 to 4096",
        ),
        ("protocol.leaf=0", "protocol.leaf = 0, allowed 1 to 65536"),
        ("sim.mode=bytes", "mode rank alone"),
    ] {
        let change = parse_override(change).unwrap();
        let error = Scenario::parse(TEXT, &[change]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let scenario = Scenario::parse(TEXT, &[]).unwrap();
    let error = crate::run::run(&scenario, 1, &mut ()).unwrap_err();
    let expected = "table of costs \"example.json\" was not read";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_share_of_nobody_is_refused() {
    let fault = parse_override("fault=[{ kind = \"withhold\", share_pct = 1 }]").unwrap();
    let mut scenario = Scenario::parse(TEXT, &[fault]).unwrap();
    let table = serde_json::to_string(&CostTable::example()).unwrap();
    scenario.inputs.insert("example.json".into(), table);
    let Protocol::Tree(config) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    let error = run(&scenario, config, 1, &mut ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fault withhold: 1 % of 60 nodes are none"
    );
}
