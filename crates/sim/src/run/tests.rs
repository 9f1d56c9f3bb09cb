mod adversaries;
mod modes;

use super::drive::LOOK_EVENTS;
use super::*;
use crate::check::Violation;
use crate::testing::OnThreads;
use crate::windows::tests::narrow;
use alphorn_scheme::model::{CodeOp, CodeTable, CostTable};
use std::ops::ControlFlow;

/// A scenario with this many nodes and with these lines instead of the defaults.
fn scenario(nodes: u32, protocol: &str, more: &str) -> Scenario {
    let text = format!(
        "name = \"t\"\nschema = 1\n[sim]\nnodes = {nodes}\n{more}\n\
         [protocol]\nkind = \"{protocol}\"\n"
    );
    let class = "[[class]]\nname = \"a\"\nshare_pct = 100\ndown_mbps = 50\nup_mbps = 25\n";
    let class = if more.contains("[[class]]") {
        ""
    } else {
        class
    };
    Scenario::parse(&format!("{text}{class}"), &[]).unwrap()
}

const TRAFFIC: &str = "[traffic]\nbytes = 20000\ncount = 3\ninterval_ms = 500\n";
const REGIONS: &str = "[latency]\nkind = \"regions\"\nmatrix = \"libp2p-2025\"\n";

#[test]
fn every_protocol_delivers_everything() {
    for protocol in ["gossip", "direct", "grid"] {
        let scenario = scenario(100, protocol, &format!("{TRAFFIC}{REGIONS}"));
        let outcome = run(&scenario, 7, &mut ()).unwrap();
        let summary = outcome.summary();
        assert_eq!(summary.delivered_pct, 100.0, "{protocol}");
        assert!(!outcome.sent_truncated && summary.t100_ns > Some(0));
        assert_eq!(outcome.delays_ns.len(), 3 * 99);
        assert_eq!(outcome.useful_bytes, 3 * 99 * 20_000);
        assert_eq!(outcome.payload_bytes, 60_000);
        let sources = outcome.nodes.iter().filter(|node| node.role == "source");
        assert!((1..=3).contains(&sources.count()));
        let up: u64 = outcome.nodes.iter().map(|node| node.bytes_up).sum();
        let down: u64 = outcome.nodes.iter().map(|node| node.bytes_down).sum();
        let series: u64 = outcome.series.iter().map(|bin| bin.bytes).sum();
        assert_eq!((up, up), (down, series), "{protocol}");
        assert!(summary.t100_ns >= Some(outcome.bounds.lb2_ns));
        if protocol == "direct" {
            let waste = summary.waste_ratio.unwrap();
            assert!(waste < 0.01, "headers alone: {waste}");
        }
    }
}

#[test]
fn a_seed_is_a_run_in_windows_of_any_width_and_on_any_threads() {
    let loss = "[link]\nloss_ppm = 2000\ntransport = \"window\"\nuplink = \"fair\"\n";
    let scenario = scenario(60, "gossip", &format!("{TRAFFIC}{REGIONS}{loss}"));
    let first = run(&scenario, 7, &mut ()).unwrap();
    assert!(first == run(&scenario, 7, &mut ()).unwrap());
    assert_ne!(
        first.event_hash,
        run(&scenario, 8, &mut ()).unwrap().event_hash
    );
    let narrow = narrow(0, || run(&scenario, 7, &mut ()).unwrap());
    assert!(first == narrow);
    for threads in [2, 5] {
        assert!(first == run(&scenario, 7, &mut OnThreads(threads)).unwrap());
    }
}

#[test]
fn an_idle_node_moves_no_others() {
    let edges: String = (0..40_u32)
        .flat_map(|node| (1..=4).map(move |i| (node, (node + i * i + i) % 40)))
        .map(|(a, b)| format!("{a} {b}\n"))
        .collect();
    let outcome = |nodes| {
        let file = "[graph]\nkind = \"file\"\npath = \"edges\"\n";
        let lossy = "[link]\nloss_ppm = 1000\ntransport = \"window\"\n";
        let traffic = "[traffic]\nbytes = 20000\n";
        let mut scenario = scenario(nodes, "gossip", &format!("{file}{REGIONS}{lossy}{traffic}"));
        scenario.inputs.insert("edges".into(), edges.clone());
        run(&scenario, 7, &mut ()).unwrap()
    };
    let (without, with) = (outcome(40), outcome(41));
    assert!(without.nodes[..] == with.nodes[..40]);
    assert_eq!(with.nodes[40].bytes_up, 0);
}

#[test]
fn bandwidth_for_each_connection_is_faster_than_light() {
    let scenario = scenario(50, "direct", "[traffic]\nbytes = 1000000\n");
    let mut nodes = floods::direct(&scenario, 7).unwrap();
    // The lower bounds for links that are eight times slower than those of the run.
    for (class, rate) in nodes.setup.class.iter().zip(&mut nodes.setup.rates) {
        *rate = scenario.class[usize::from(*class)].rate(12);
    }
    let error = go(&scenario, nodes, &mut ()).unwrap_err();
    let fast = matches!(
        &error,
        RunError::Violation {
            violation: Violation::Fast { .. },
            ..
        }
    );
    assert!(fast, "{error}");
}

#[test]
fn compute_is_not_for_free() {
    let time = |factor: u32| {
        let compute = format!("[compute]\ncosts = \"c\"\nfactor_pct = {factor}\n");
        let mut scenario = scenario(100, "gossip", &format!("{TRAFFIC}{compute}"));
        let table = serde_json::to_string(&CostTable::example()).unwrap();
        scenario.inputs.insert("c".into(), table);
        let outcome = run(&scenario, 7, &mut ()).unwrap();
        let cpu_ns: u64 = outcome.nodes.iter().map(|node| node.cpu_ns).sum();
        (outcome.summary().t99_ns.unwrap(), cpu_ns)
    };
    let (free, table, slow) = (time(0), time(100), time(100_000));
    assert!(free < table && table < slow, "{free:?} {table:?} {slow:?}");
}

#[test]
fn stops_are_what_they_say() {
    let outcome = |stop: &str| {
        let stop = format!("stop = {stop}\n{TRAFFIC}");
        run(&scenario(100, "gossip", &stop), 7, &mut ()).unwrap()
    };
    let all = outcome("\"all_delivered\"");
    assert_eq!(all.summary().delivered_pct, 100.0);
    assert!(all.sent_truncated);
    let most = outcome("\"t99\"");
    // A run ends with the window in which enough is delivered.
    assert!((99.0..=100.0).contains(&most.summary().delivered_pct) && most.sent_truncated);
    let early = outcome("{ time_ms = 100 }");
    assert!(early.summary().delivered_pct < 20.0 && early.sent_truncated);
    assert_eq!(early.summary().t99_ns, None);
}

#[test]
fn observers_see_and_stop() {
    struct Impatient(Vec<Progress>);
    impl Observe for Impatient {
        fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
            self.0.push(*progress);
            ControlFlow::Break(())
        }
    }
    let traffic = "[traffic]\nbytes = 2000\ncount = 400\ninterval_ms = 20\n";
    let scenario = scenario(100, "gossip", traffic);
    let mut observer = Impatient(Vec::new());
    let error = run(&scenario, 7, &mut observer).unwrap_err();
    assert!(
        matches!(
            error,
            RunError::Stopped(Stopped {
                events: LOOK_EVENTS,
                ..
            })
        ),
        "{error}"
    );
    assert_eq!(observer.0[0].deliveries_max, 400 * 99);
    assert!(observer.0[0].deliveries > 0);
}

#[test]
fn what_cannot_run_says_why() {
    let error = |scenario: &Scenario| run(scenario, 7, &mut ()).unwrap_err().to_string();
    let mut large = broadcast("rs", "mode = \"bytes\"\n");
    large.sim.nodes = 1001;
    assert!(error(&large).contains("sim.nodes = 1001"));
    large = scenario(2000, "gossip", "[traffic]\ncount = 100000\n");
    assert!(error(&large).contains("payloads times nodes = 200000000"));
    let wide = "[graph]\nkind = \"permutations\"\ndegree = 200\n";
    assert!(error(&scenario(500, "gossip", wide)).contains("neighbours, must be at most 128"));
    let mut mesh = scenario(100, "gossip", "");
    if let Protocol::Gossip(gossip) = &mut mesh.protocol {
        gossip.mesh_high = 200;
    }
    assert!(error(&mesh).contains("degree_high = 200, must be at most 128"));
    let costs = scenario(100, "gossip", "[compute]\ncosts = \"c\"\n");
    assert!(error(&costs).contains("\"c\" was not read"));
    let everybody = "[[fault]]\nkind = \"crash\"\nshare_pct = 100\n";
    assert!(error(&scenario(100, "gossip", everybody)).contains("no honest node"));
}

#[test]
fn faults_harm_no_honest_node() {
    let faults = [
        "kind = \"crash\"\nshare_pct = 20\nfrom_ms = 50",
        "kind = \"slow_cpu\"\nshare_pct = 20\nfactor_pct = 1000",
        "kind = \"slow_link\"\nshare_pct = 20\nfactor_pct = 10",
        "kind = \"withhold\"\nshare_pct = 20\nfactor_pct = 100",
        "kind = \"late\"\nshare_pct = 20\ndelay_ms = 300",
        "kind = \"clock_skew\"\nshare_pct = 20\ndelay_ms = 400",
        "kind = \"grief\"\nshare_pct = 20",
        "kind = \"invalid_flood\"\nshare_pct = 20\nrate = 50\nbytes = 5000\nuntil_ms = 3000",
        "kind = \"false_feedback\"\nshare_pct = 20\nrate = 20\nuntil_ms = 3000",
        "kind = \"eclipse\"\nshare_pct = 30\nfrom_ms = 300\nuntil_ms = 900",
        "kind = \"partition\"\nshare_pct = 30\nfrom_ms = 300\nuntil_ms = 900",
    ];
    for fault in faults {
        let more = format!("{TRAFFIC}[[fault]]\n{fault}\n");
        let scenario = scenario(100, "gossip", &more);
        let name = fault.split('"').nth(1).unwrap();
        let outcome = run(&scenario, 7, &mut ());
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        let named = outcome.nodes.iter().filter(|node| node.role == name);
        assert!(named.count() >= 17, "{name}");
        assert_eq!(outcome.summary().delivered_pct, 100.0, "{name}");
        assert!(outcome == run(&scenario, 7, &mut ()).unwrap(), "{name}");
    }
}

/// A broadcast of 20 kB to 64 nodes with 24 connections each.
fn broadcast(strategy: &str, more: &str) -> Scenario {
    let text = format!(
        "name = \"b\"\nschema = 1\n[sim]\nnodes = 64\n{more}\n\
         [graph]\nkind = \"permutations\"\ndegree = 24\n\
         [traffic]\nbytes = 20000\ncount = 2\ninterval_ms = 2000\n\
         [[class]]\nname = \"a\"\nshare_pct = 100\ndown_mbps = 50\nup_mbps = 25\n\
         [protocol]\nkind = \"broadcast\"\nstrategy = \"{strategy}\"\nchunks = 8\nburst = 12\n\
         source_chunks = 24\n"
    );
    Scenario::parse(&text, &[]).unwrap()
}

#[test]
fn codes_deliver_what_was_published() {
    for (strategy, mode) in [
        ("rlnc", "rank"),
        ("rlnc", "bytes"),
        ("rs", "rank"),
        ("rs", "bytes"),
    ] {
        let scenario = broadcast(strategy, &format!("mode = \"{mode}\""));
        let outcome =
            run(&scenario, 7, &mut ()).unwrap_or_else(|error| panic!("{strategy}: {error}"));
        let summary = outcome.summary();
        assert_eq!(summary.delivered_pct, 100.0, "{strategy} {mode}");
        assert_eq!(outcome.delays_ns.len(), 2 * 63);
        assert!(!outcome.sent_truncated);
        // Less than a mesh of 8 would send.
        assert!(
            summary.sent_ratio < 5.0,
            "{strategy} {mode}: {}",
            summary.sent_ratio
        );
        assert!(outcome == run(&scenario, 7, &mut ()).unwrap());
    }
}

/// Every node sends one of ten chunks to each of this many peers: a tenth of a payload each, plus headers.
#[test]
fn the_strategy_of_the_proposal_runs_by_its_name() {
    let summary = |policy: &str, more: &str| {
        let text = format!(
            "name = \"p\"\nschema = 1\n[sim]\nnodes = 200\n[graph]\nkind = \"permutations\"\ndegree = 80\n\
             [[class]]\nname = \"a\"\nshare_pct = 100\ndown_mbps = 160\nup_mbps = 160\n\
             [protocol]\nkind = \"broadcast\"\nstrategy = \"rlnc\"\npolicy = \"{policy}\"\n{more}\n\
             [traffic]\nbytes = 118750\n"
        );
        let scenario = Scenario::parse(&text, &[]).unwrap();
        let summary = run(&scenario, 7, &mut ()).unwrap().summary();
        assert_eq!(summary.delivered_pct, 100.0, "{policy} {more}");
        summary
    };
    // With more chunks, missing ones are requested.
    summary("proposal_80", "chunks = 64");
    for (policy, peers) in [("proposal_40", 40.0), ("proposal_80", 80.0)] {
        let summary = summary(policy, "");
        let per_peer = summary.sent_ratio / (peers / 10.0);
        assert!((0.9..1.2).contains(&per_peer), "{policy}: {per_peer}");
    }
}

#[test]
fn faults_of_machines_harm_no_broadcast() {
    let faults = [
        "kind = \"crash\"\nshare_pct = 20\nfrom_ms = 50",
        "kind = \"crash\"\nshare_pct = 20\nfrom_ms = 50\nuntil_ms = 800\nrestart = \"cold\"",
        "kind = \"withhold\"\nshare_pct = 20\nfactor_pct = 100",
        "kind = \"late\"\nshare_pct = 20\ndelay_ms = 300",
    ];
    for strategy in ["rlnc", "rs"] {
        for fault in faults {
            let scenario = broadcast(strategy, &format!("[[fault]]\n{fault}\n"));
            let outcome = run(&scenario, 7, &mut ());
            let outcome = outcome.unwrap_or_else(|error| panic!("{strategy} {fault}: {error}"));
            let delivered = outcome.summary().delivered_pct;
            assert_eq!(delivered, 100.0, "{strategy} {fault}");
        }
    }
}

/// Pieces arrive faster than they are verified when drawing them takes no time. Those for which there is no room are
/// requested again, after a quiet time that is longer than all the rest.
#[test]
fn on_fast_links_pieces_need_room_to_wait() {
    let text = include_str!("../../../../scenarios/coded-devnet.toml");
    let costs = include_str!("../../../../scenarios/costs/codes.json");
    let last_ns = |unverified: u32| {
        let set = [
            "protocol.strategy=rlnc",
            "protocol.policy=medium",
            "protocol.places=false",
            "protocol.source_privacy=blend",
            &format!("protocol.unverified={unverified}"),
        ];
        let set = set.map(|one| crate::scenario::parse_override(one).unwrap());
        let mut scenario = Scenario::parse(text, &set).unwrap();
        let table = scenario.compute.code_costs.clone().unwrap();
        let mut costs = CodeTable::from_json(costs).unwrap();
        let draws = costs.ops.iter_mut();
        let draws = draws.filter(|row| row.op == CodeOp::RlncRecode);
        draws.for_each(|row| row.ns = 0);
        let costs = serde_json::to_string(&costs).unwrap();
        scenario.inputs.insert(table, costs);
        let outcome = run(&scenario, 1, &mut ()).unwrap();
        assert_eq!(outcome.summary().delivered_pct, 100.0);
        outcome.summary().t100_ns.unwrap()
    };
    let (few, many) = (last_ns(8), last_ns(64));
    assert!(many < 100_000_000 && few > 2 * many, "{few} {many}");
}

#[test]
fn a_node_that_begins_anew_has_forgotten() {
    let outcome = |restart: &str, traffic: &str| {
        let fault = format!(
            "[[fault]]\nkind = \"crash\"\nnodes = [3, 4]\nfrom_ms = 600\nuntil_ms = 700\n\
             restart = \"{restart}\"\n"
        );
        let scenario = scenario(100, "gossip", &format!("{traffic}{fault}"));
        run(&scenario, 7, &mut ()).unwrap()
    };
    // It requests again what it already had.
    let once = "[traffic]\nbytes = 20000\n";
    let received = |restart: &str| outcome(restart, once).nodes[3].bytes_down;
    assert!(received("cold") > received("warm") + 20_000);
    for restart in ["warm", "cold"] {
        let outcome = outcome(restart, TRAFFIC);
        assert_eq!(outcome.summary().delivered_pct, 100.0);
        // A payload published after its return reaches it.
        let done_ns = outcome.nodes[3].done_ns;
        assert!(
            done_ns.is_some_and(|ns| ns < 2_000_000_000),
            "{restart}: {done_ns:?}"
        );
    }
}

#[test]
fn a_run_ends_after_an_event() {
    let whole = run(&scenario(100, "gossip", TRAFFIC), 7, &mut ()).unwrap();
    let until = |events: u64| {
        let stop = format!("stop = {{ events = {events} }}\n{TRAFFIC}");
        run(&scenario(100, "gossip", &stop), 7, &mut ()).unwrap()
    };
    let cut = until(1000);
    assert_eq!((cut.events, cut.sent_truncated), (1000, true));
    assert_eq!(until(whole.events).event_hash, whole.event_hash);
    assert_eq!(until(whole.events + 1000).events, whole.events);
}

#[test]
fn means_are_over_the_time_until_the_last_byte() {
    let scenario = scenario(100, "gossip", "[traffic]\nbytes = 20000\n");
    let outcome = run(&scenario, 7, &mut ()).unwrap();
    let last_ns = outcome.series.iter().map(|bin| bin.from_ns).max().unwrap();
    let sent: u64 = outcome.nodes.iter().map(|node| node.bytes_up).sum();
    // The last message comes at most a bin and a hop later, long before tables forget.
    let until_ns = last_ns + 10_000_000 + 80_000_000;
    assert!(until_ns < 10_000_000_000, "{until_ns}");
    let mean = outcome.loads.all().unwrap().mean;
    let least = u128::from(8 * sent) * 1_000_000_000 / 100 / u128::from(until_ns);
    assert!(mean.up_mbps >= least as f64 / 1e6, "{mean:?} {least}");
    assert_eq!(mean.up_mbps, mean.down_mbps, "nothing is lost");
}

#[test]
fn jobs_that_run_at_the_end_are_counted() {
    let busy = |stop: &str| {
        // The first validation takes longer than the run.
        let more = format!("{stop}[compute]\ncosts = \"c\"\nfactor_pct = 100000\nhandle_ns = 0\n");
        let mut scenario = scenario(100, "gossip", &more);
        let mut table = CostTable::example();
        for op in &mut table.ops {
            op.ns = op.ns.max(1_000_000);
        }
        let table = serde_json::to_string(&table).unwrap();
        scenario.inputs.insert("c".into(), table);
        let outcome = run(&scenario, 7, &mut ()).unwrap();
        let cpu_ns: u64 = outcome.nodes.iter().map(|node| node.cpu_ns).sum();
        (cpu_ns, outcome.loads.all().unwrap().mean.cores)
    };
    let (cpu_ns, cores) = busy("stop = { time_ms = 300 }\n");
    assert!(cpu_ns > 300_000_000 && cores > 0.0, "{cpu_ns} {cores}");
}

#[test]
fn a_fault_that_no_node_has_is_an_error() {
    let fault = "[[fault]]\nkind = \"withhold\"\nshare_pct = 1\n";
    for protocol in ["gossip", "direct", "grid"] {
        let error = run(&scenario(99, protocol, fault), 7, &mut ()).unwrap_err();
        let expected = "fault withhold: 1 % of 99 nodes are none";
        assert_eq!(error.to_string(), expected, "{protocol}");
        assert!(run(&scenario(100, protocol, fault), 7, &mut ()).is_ok());
    }
}
