//! Runs without bytes behave like runs with bytes: the models of the codes against the codes.

use super::*;
use alphorn_scheme::model::{CodeCost, FigureKind};

/// Costs of operations in these tests, for two payload lengths.
fn costs() -> String {
    let row = |op: CodeOp| {
        let cost = |m: u64| CodeCost {
            op,
            n: 8,
            m,
            ns: 1000 + 20 * m + op as u64,
            memory_bytes: m,
        };
        [cost(1000), cost(100_000)]
    };
    let table = CodeTable {
        schema: 1,
        machine: "none: round figures".into(),
        kind: FigureKind::Modelled,
        ops: CodeOp::ALL.into_iter().flat_map(row).collect(),
    };
    serde_json::to_string(&table).unwrap()
}

/// 50 kB to 64 nodes in eight pieces, which is long enough for coefficients of full size: the cost of
/// a small coefficient depends on its value, and a model has none.
fn outcome(strategy: &str, mode: &str, more: &str) -> Outcome {
    let lines = format!(
        "mode = \"{mode}\"\n[graph]\nkind = \"permutations\"\ndegree = 16\n\
         [traffic]\nbytes = 50000\n{REGIONS}[compute]\ncode_costs = \"c\"\n{more}"
    );
    let protocol = format!(
        "broadcast\"\nstrategy = \"{strategy}\"\nchunks = 8\nburst = 8\ncredit_milli = 500\n\
         source_chunks = 32\nsource_privacy = \"blend"
    );
    let mut scenario = scenario(64, &protocol, &lines);
    scenario.inputs.insert("c".into(), costs());
    // A model on one thread behaves like a code on several.
    let threads = if mode == "rank" { 1 } else { 3 };
    let outcome = run(&scenario, 7, &mut OnThreads(threads));
    outcome.unwrap_or_else(|error| panic!("{strategy} {mode} {more}: {error}"))
}

/// Trap 6: the same events, arrivals and bytes at every node, with a network that loses nothing, with
/// one that does, and with neighbours that send false data.
#[test]
fn trap_06_models_do_what_codes_do() {
    let loss = "[link]\nloss_ppm = 5000\ntransport = \"window\"\n";
    let liars = "[[fault]]\nkind = \"invalid_flood\"\nshare_pct = 10\n";
    for strategy in ["rlnc", "rs"] {
        for more in ["", loss, liars] {
            let rank = outcome(strategy, "rank", more);
            let bytes = outcome(strategy, "bytes", more);
            assert_eq!(rank.delays_ns, bytes.delays_ns, "{strategy} {more}");
            assert_eq!(rank.event_hash, bytes.event_hash, "{strategy} {more}");
            assert!(rank.nodes == bytes.nodes && rank.series == bytes.series);
            assert_eq!(rank.adversity.refused, bytes.adversity.refused);
            assert!(rank.summary().delivered_pct >= 99.0 && rank.events > 1000);
            assert!(more != liars || !rank.adversity.reports.is_empty());
        }
    }
}

/// Drawing a chunk takes a core of the node, and the chunk is sent once it is drawn.
#[test]
fn a_piece_leaves_when_it_is_drawn() {
    let first_ns = |recode_ns: u64| {
        let mut scenario = broadcast("rlnc", "[compute]\ncode_costs = \"c\"\nhandle_ns = 0\n");
        let row = |op: CodeOp| CodeCost {
            op,
            n: 8,
            m: 20_000,
            ns: if op == CodeOp::RlncRecode {
                recode_ns
            } else {
                0
            },
            memory_bytes: 0,
        };
        let table = CodeTable {
            schema: 1,
            machine: "none: round figures".into(),
            kind: FigureKind::Modelled,
            ops: CodeOp::ALL.map(row).into(),
        };
        let table = serde_json::to_string(&table).unwrap();
        scenario.inputs.insert("c".into(), table);
        let one = run(&scenario, 7, &mut ()).unwrap();
        assert!(one == run(&scenario, 7, &mut OnThreads(3)).unwrap());
        assert_eq!(one.summary().delivered_pct, 100.0);
        let first = one.nodes.iter().filter_map(|node| node.first_ns).min();
        (first.unwrap(), one.summary().t50_ns.unwrap())
    };
    let (free, slow) = (first_ns(0), first_ns(50_000_000));
    // A hop takes 70 ms, and the source draws before it.
    assert!(
        free.0 < 100_000_000 && slow.0 >= 120_000_000,
        "{free:?} {slow:?}"
    );
    assert!(slow.1 > free.1 + 50_000_000, "{free:?} {slow:?}");
}
