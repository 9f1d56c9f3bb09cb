//! A network of real processes, and what its command refuses.

mod api;

use api::get;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn alphorn(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alphorn"))
        .args(args)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Counts of a summary, and the same counted from the records of the page's trace.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Counted {
    jobs: u64,
    aggregates: u64,
    finalised: u64,
}

fn of_summary(text: &str) -> Counted {
    let summary: Value = serde_json::from_str(text).unwrap();
    let count = |jobs: &Value| jobs["run_ms"]["count"].as_u64().unwrap();
    let jobs = summary["jobs"].as_object().unwrap();
    Counted {
        jobs: jobs.values().map(count).sum(),
        aggregates: jobs.get("aggregate").map_or(0, count),
        finalised: summary["finalised_slot"].as_u64().unwrap(),
    }
}

fn of_trace(text: &str) -> Counted {
    let mut counted = Counted {
        jobs: 0,
        aggregates: 0,
        finalised: 0,
    };
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        match record["k"].as_str().unwrap() {
            "job" => {
                counted.jobs += 1;
                counted.aggregates += u64::from(record["kind"] == "aggregate");
            }
            "finality" => counted.finalised = record["finalised"].as_u64().unwrap(),
            "cells" => assert_eq!(record["n"], "node-0"),
            _ => {}
        }
    }
    counted
}

/// The page of a running node says what its interface says. Both grow while they are read, so a
/// trace lies between the summaries before and after it, each of which may be a quarter of a
/// second old.
fn page_agrees(home: &Path) {
    let before = of_summary(&get(home, "/alphorn/v0/summary"));
    let trace = of_trace(&get(home, "/dashboard/trace/snapshot"));
    std::thread::sleep(Duration::from_millis(600));
    let after = of_summary(&get(home, "/alphorn/v0/summary"));
    assert!(before.jobs > 0, "{before:?}");
    assert!(
        (before.jobs..=after.jobs).contains(&trace.jobs),
        "{before:?} {trace:?} {after:?}"
    );
    let aggregates = before.aggregates..=after.aggregates;
    assert!(
        aggregates.contains(&trace.aggregates),
        "{before:?} {trace:?} {after:?}"
    );
    let finalised = before.finalised..=after.finalised;
    assert!(
        finalised.contains(&trace.finalised),
        "{before:?} {trace:?} {after:?}"
    );
    let same = of_trace(&get(home, "/alphorn/v0/trace/snapshot"));
    assert!(same.jobs >= trace.jobs, "{trace:?} {same:?}");
    let identity = get(home, "/lean/v0/node/identity");
    assert!(identity.contains("\"peer_id\":\"16Uiu2"), "{identity}");
    let metrics = get(home, "/metrics");
    assert!(
        metrics.contains("lean_node_info{name=\"node-0\""),
        "{metrics}"
    );
    let page = get(home, "/dashboard/");
    assert!(
        page.contains("<!doctype html>") || page.contains("<!DOCTYPE html>"),
        "{page}"
    );
}

/// Whether the node has seen a block with votes.
fn has_votes(home: &Path) -> bool {
    let summary: Value = serde_json::from_str(&get(home, "/alphorn/v0/summary")).unwrap();
    let credited = summary["credited"].as_object().map(|slots| slots.values());
    credited.is_some_and(|mut votes| votes.any(|votes| votes.as_u64() > Some(0)))
}

/// Two nodes for some slots. How many duties are done depends on the machine's other work, so only
/// what holds on any machine is asked for: the nodes find each other, votes come into blocks,
/// nobody finalises anything else, and every node ends in order.
#[test]
fn nodes_vote_and_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // A folder whose name looks like an option.
    let (dir, json) = (path("-1"), path("devnet.json"));
    let child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
        .args(["devnet", "--nodes=2", "--validators=16", "--committees=1"])
        .args(["--slots=6", "--preset=custom:1000:0,200,400,600,800"])
        .args(["--allow-missed=1000000", "--dir=-1", "--json", &json])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let home = Path::new(&dir).join("node-0");
    let until = Instant::now() + Duration::from_secs(60);
    while !home.join("data/ready.json").exists() || !has_votes(&home) {
        assert!(Instant::now() < until, "no vote comes into a block");
        std::thread::sleep(Duration::from_millis(100));
    }
    page_agrees(&home);
    let output = child.wait_with_output().unwrap();
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(5), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["agreement"], true);
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    for node in nodes {
        assert_eq!(node["validators"], 16);
        assert_eq!(node["local_validators"], 8);
        assert_eq!(node["can_sign"], true);
        let credited = node["credited"].as_object().unwrap();
        let votes: u64 = credited.values().filter_map(Value::as_u64).sum();
        assert!(votes > 0, "no vote came into a block: {node}");
        assert!(node["link_bytes"][0].as_u64() > Some(0), "nobody was heard");
        assert_eq!(
            node["reports"],
            serde_json::json!({}),
            "an honest node was blamed"
        );
    }
    assert!(home.join("data/safety.redb").exists());
    // What is left can be started again; a second process finds the marks.
    let again = alphorn(&["devnet", "--nodes=2", "--dir", &dir]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        stderr(&again).contains("not there yet"),
        "{}",
        stderr(&again)
    );
}

/// A committee of two groups of two cells: three levels of evidence.
#[test]
fn three_levels_of_evidence_come_into_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("devnet.json").display().to_string();
    let output = alphorn(&[
        "devnet",
        "--nodes=2",
        "--validators=16",
        "--committees=1",
        "--fan-out=2,2",
        "--preset=custom:1200:0,200,400,600,800,1000",
        "--warmup-slots=0",
        "--slots=4",
        "--allow-missed=1000000",
        "--json",
        &json,
    ]);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 5)), "{code:?} {}", stderr(&output));
    let told: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(told["agreement"], true);
    assert_eq!(told["config"]["network"]["ALPHORN_FAN_OUT"], "2,2");
    for node in told["nodes"].as_array().unwrap() {
        let credited = node["credited"].as_object().unwrap().values();
        let credited: u64 = credited.filter_map(Value::as_u64).sum();
        assert!(credited > 0, "no vote came into a block: {node}");
        assert_eq!(node["reports"], serde_json::json!({}));
    }
    // What a scheme cannot do is said before anything begins.
    let proofs = ["--scheme=xmss", "--layers=proof/proof", "--fan-out=8,4,8"];
    for (args, named) in [
        (
            &["--preset=lean", "--fan-out=2,2"][..],
            "timing of 2 levels, the layout has 3",
        ),
        (&proofs, "merge proofs as often as this layout asks for"),
    ] {
        let output = alphorn(&[&["devnet", "--validators=16"], args].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
    }
}

/// Collections and blocks that are too long for gossip, here all of them, go by coded broadcast:
/// signed with duty keys, verified and coded on the lanes, over real connections.
#[test]
fn large_messages_are_broadcast_and_nobody_is_blamed() {
    let networks = ["reed-solomon", "rlnc"].map(broadcasts_all);
    assert_ne!(networks[0]["ALPHORN_BROADCAST_CODE"], "rlnc");
    assert_eq!(networks[1]["ALPHORN_BROADCAST_CODE"], "rlnc");
}

/// A network of one code, as its `config.yaml` has it.
fn broadcasts_all(way: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("devnet.json").display().to_string();
    let output = alphorn(&[
        "devnet",
        "--nodes=4",
        "--scheme=falcon",
        "--validators=48",
        "--committees=1",
        "--warmup-slots=1",
        "--slots=4",
        "--preset=custom:1500:0,300,600,900,1200",
        "--broadcast-above=0",
        "--broadcast-code",
        way,
        "--allow-missed=1000000",
        "--json",
        &json,
    ]);
    // Where the machine does other work finality may lie behind; nothing else is forgiven.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 5)), "{code:?} {}", stderr(&output));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["agreement"], true);
    assert_eq!(report["rights_twice"], 0);
    let nodes = report["nodes"].as_array().unwrap();
    let count = |node: &Value, name: &str| node["broadcasts"][name].as_u64().unwrap();
    let sum = |name: &str| -> u64 { nodes.iter().map(|node| count(node, name)).sum() };
    let (published, gossiped) = (sum("published"), sum("gossiped"));
    for node in nodes {
        // Two collectors a slot, and proposers in turn.
        assert!(count(node, "delivered") > 0, "{node}");
        assert!(count(node, "delivered") < published, "{node}");
        assert_eq!(count(node, "sources_blamed"), 0, "{node}");
        assert_eq!(node["reports"], serde_json::json!({}), "{node}");
        for kind in ["block", "collection"] {
            let came = node["topics"][kind]["messages_in"].as_u64().unwrap();
            // At most once from each of the other three.
            assert!(came <= 3 * gossiped, "{kind}s were gossiped: {node}");
        }
        let credited = node["credited"].as_object().unwrap();
        let votes: u64 = credited.values().filter_map(Value::as_u64).sum();
        assert!(votes > 0, "no vote came into a block: {node}");
        assert_eq!(node["kernels"].get("rlnc").is_some(), way == "rlnc");
    }
    // Each message is followed from its own node to the three others.
    let spread = &report["arrivals"]["collection"];
    let count = |name: &str| spread[name].as_u64().unwrap();
    assert!(count("messages") > 0, "{spread}");
    // A node that started late lacks nothing of the slots before.
    assert!(3 * count("messages") >= count("came") + count("lacking"));
    assert!(count("came") > 0, "{spread}");
    assert!(spread["max_ms"].as_f64() > Some(0.0), "{spread}");
    report["config"]["network"].clone()
}

/// A node is killed and comes back: whatever else the machine does, it signs nothing twice, loses
/// no vote that was in a block, and the nodes agree.
#[test]
fn a_killed_node_comes_back_and_signs_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("devnet.json").display().to_string();
    let output = alphorn(&[
        "devnet",
        "--nodes=2",
        "--validators=16",
        "--committees=1",
        "--warmup-slots=0",
        "--slots=10",
        "--preset=custom:1000:0,200,400,600,800",
        "--faults=kill",
        "--allow-missed=1000000",
        "--json",
        &json,
    ]);
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(5), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["agreement"], true);
    assert_eq!(report["rights_twice"], 0);
    assert_eq!(report["votes_lost"], 0);
    assert!(report["rights"].as_u64() > Some(0));
    let faults = report["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 1);
    assert!(faults[0]["ready_ms"].as_f64() > Some(0.0), "{faults:?}");
}

/// A node that ends by itself ends the network, and what it left can be looked at.
#[cfg(unix)]
#[test]
fn the_folder_of_a_node_that_ended_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut devnet = Command::new(env!("CARGO_BIN_EXE_alphorn"))
        .args(["devnet", "--nodes=2", "--validators=16", "--committees=1"])
        .args(["--slots=60", "--quiet"])
        .env("TMPDIR", folder.path())
        // An option for one node is none for those of a devnet.
        .env("ALPHORN_RECORD", "one-for-all.record")
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let ready = loop {
        assert!(
            devnet.try_wait().unwrap().is_none(),
            "it ends before a node is ready"
        );
        assert!(Instant::now() < until, "no node is ready");
        let made = std::fs::read_dir(folder.path()).unwrap().flatten();
        let homes = made.map(|entry| entry.path().join("node-0"));
        let mut ready = homes.filter_map(|home| std::fs::read(home.join("data/ready.json")).ok());
        match ready
            .next()
            .and_then(|text| serde_json::from_slice::<Value>(&text).ok())
        {
            Some(ready) => break ready,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let pid = ready["pid"].to_string();
    let killed = Command::new("kill").args(["-9", &pid]).status().unwrap();
    assert!(killed.success());
    let output = devnet.wait_with_output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    let (_, kept) = told.split_once("are kept in ").expect(&told);
    let kept = Path::new(kept.lines().next().unwrap());
    assert!(kept.join("node-0/log.txt").exists(), "{told}");
    assert!(!folder.path().join("one-for-all.record").exists());
}

/// Two halves for some slots, then one network: every node is connected to all others again, and none
/// finalised what another did not. How fast votes come into blocks again depends on the machine's other
/// work; `just soak-partition` checks it.
#[test]
fn two_halves_find_each_other_again() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("devnet.json").display().to_string();
    let output = alphorn(&[
        "devnet",
        "--nodes=4",
        "--validators=16",
        "--committees=1",
        "--warmup-slots=0",
        "--slots=12",
        "--preset=custom:1000:0,200,400,600,800",
        "--faults=partition",
        "--partition-slots=4",
        "--fault-every=20",
        "--allow-missed=1000000",
        "--json",
        &json,
    ]);
    // Duties and finality are checked elsewhere.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1 | 5)), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["agreement"], true);
    assert_eq!(report["rights_twice"], 0);
    let faults = report["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0]["for_ms"], 4 * 1_000);
    for node in report["nodes"].as_array().unwrap() {
        assert_eq!(node["peers"], 3, "{node}");
    }
}

#[test]
fn wrong_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let node = || {
        alphorn(&[
            "node",
            "--genesis",
            folder.path().to_str().unwrap(),
            "--node-id=node-0",
            "--data-dir",
            at("data").to_str().unwrap(),
            "--node-key",
            at("key").to_str().unwrap(),
        ])
    };
    let output = node();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("config.yaml"),
        "{}",
        stderr(&output)
    );
    let config = "GENESIS_TIME: 4000000000\nVALIDATOR_COUNT: 16\nATTESTATION_COMMITTEE_COUNT: 1\n\
         SUBCOMMITTEES_PER_COMMITTEE: 2\nAGGREGATORS_PER_SUBCOMMITTEE: 2\n\
         COLLECTORS_PER_COMMITTEE: 2\nALPHORN_SCHEME: bls\nALPHORN_PRESET: lean\n\
         ALPHORN_KEY_SLOTS: 64\n";
    for (wrong, named) in [
        (format!("{config}EXTRA: 1\n"), "EXTRA"),
        (config.replace("lean", "fast"), "ALPHORN_PRESET"),
        (
            config.replace("COUNT: 16", "COUNT: sixteen"),
            "VALIDATOR_COUNT",
        ),
        (config.replace("COUNT: 1\n", "COUNT: 0\n"), "committees"),
        (format!("{config}ALPHORN_FAN_OUT: 2,2\n"), "SUBCOMMITTEES"),
        (format!("{config}ALPHORN_FAN_OUT: 2x2\n"), "numbers from 1"),
        (
            format!("{config}ALPHORN_BROADCAST_CODE: gossip\n"),
            "reed-solomon",
        ),
    ] {
        std::fs::write(at("config.yaml"), &wrong).unwrap();
        let output = node();
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
    }
    std::fs::write(at("config.yaml"), config).unwrap();
    std::fs::write(at("nodes.yaml"), "[]\n").unwrap();
    let output = node();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("0 nodes"), "{}", stderr(&output));
    assert!(!at("data").exists(), "nothing is begun");
}

#[test]
fn options_out_of_bounds_are_usage_errors() {
    for args in [
        &["devnet", "--nodes=0"][..],
        &["devnet", "--nodes=8", "--validators=4"],
        &["devnet", "--scheme=dsa"],
        &["devnet", "--slots=0"],
        &["devnet", "--broadcast-above=16777217"],
        &["devnet", "--broadcast-code=gossip"],
        &["devnet", "--slots=5", "--faults=kill"],
        &["devnet", "--nodes=1", "--faults=partition"],
        &["devnet", "--faults=flood"],
        &["devnet", "--faults=kill,kill"],
        &["worker", "--sets=test,test"],
        &["devnet", "--flood=0"],
        &["devnet", "--flood=1", "--slots=9"],
        &["devnet", "--flood=1", "--faults=kill"],
        &["devnet", "--faults=partition", "--partition-slots=32"],
        &["dashboard", "--trace=/nonexistent/trace.jsonl"],
    ] {
        let output = alphorn(args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_devnet_that_is_refused_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (net, dir) = (path("net"), format!("--dir={}", path("net")));
    for (args, part) in [
        (
            &["--validators=2^6", "--slots=5", "--faults=kill"][..],
            "--slots 5: with --faults at least",
        ),
        (
            &["--nodes=1", "--faults=partition"],
            "--faults partition: 1 node",
        ),
        (&["--fault-every=9"], "--faults <KINDS>"),
        (&["--partition-slots=4"], "--faults <KINDS>"),
        (
            &["--partition-slots=4", "--faults=kill"],
            "--partition-slots 4: --faults has no partition",
        ),
        (
            &["--faults=prover", "--slots=40"],
            "--faults prover: --layers list/list: nothing is proved there",
        ),
        (&["--validators=2^64"], "a number of validators from 1 to"),
    ] {
        let output = alphorn(&[&["devnet", "--force", &dir], args].concat());
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains(part), "{args:?}: {errors}");
        assert!(!std::path::Path::new(&net).exists(), "{args:?}");
    }
    let (nowhere, there) = (path("nosuch/x"), folder.path().display());
    for (dir, part) in [
        (
            nowhere.as_str(),
            format!("there is no folder {}", path("nosuch")),
        ),
        (
            &there.to_string(),
            "must be a folder that is not there yet".to_owned(),
        ),
    ] {
        let output = alphorn(&["devnet", "--force", "--dir", dir]);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{dir}: {errors}");
        assert!(errors.contains(&part), "{dir}: {errors}");
    }
}

/// Provers are processes: killing them costs a node nothing but their jobs. What came to a node is
/// recorded, and the same follows from it without provers.
#[test]
fn provers_are_killed_and_replaced_and_a_node_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (dir, json) = (path("net"), path("devnet.json"));
    let output = alphorn(&[
        "devnet",
        "--nodes=2",
        "--scheme=falcon",
        "--layers=list/proof",
        "--validators=16",
        "--committees=1",
        "--warmup-slots=0",
        "--slots=22",
        "--preset=custom:1200:0,240,480,720,960",
        "--faults=prover",
        "--fault-every=6",
        "--record",
        "--allow-missed=1000000",
        "--keep",
        "--dir",
        &dir,
        "--json",
        &json,
    ]);
    // Where the machine does other work finality may lie behind; nothing else is forgiven.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 5)), "{code:?} {}", stderr(&output));
    let told = std::fs::read_to_string(&json).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let count = |name: &str| told["worker"][name].as_u64().unwrap();
    assert!(count("provers_killed") > 0, "{}", told["worker"]);
    assert_eq!(count("self_verify_failures"), 0);
    assert_eq!(told["agreement"], true);
    let nodes = told["nodes"].as_array().unwrap();
    let proofs = nodes
        .iter()
        .map(|node| &node["jobs"]["collect"]["run_ms"]["count"]);
    assert!(proofs.filter_map(Value::as_u64).sum::<u64>() > 0, "{told}");
    for node in ["node-0", "node-1"] {
        let record = folder.path().join("net").join(node).join("inputs-0.record");
        let again = alphorn(&["replay", &record.display().to_string(), "--json", "-"]);
        assert!(again.status.success(), "{}", stderr(&again));
        let again: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(again["has_end"], true);
        let live = nodes.iter().find(|one| one["name"] == node).unwrap();
        assert_eq!(live["recorded"]["whole"], true);
        assert_eq!(live["recorded"]["outputs"], again["outputs"]);
        assert_eq!(live["recorded"]["inputs"], again["inputs"]);
    }
}

/// Aggregates are proofs, collectors merge them, and proposers make one proof of the collections of a block,
/// in processes of their own. How many come in time depends on the machine's other work.
#[test]
fn a_network_merges_proofs_to_one_of_a_block() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("devnet.json").display().to_string();
    let output = alphorn(&[
        "devnet",
        "--nodes=2",
        "--scheme=xmss",
        "--layers=proof/proof",
        "--validators=16",
        "--preset=custom:8000:0,1000,3000,5000,7500",
        "--warmup-slots=0",
        "--slots=3",
        "--allow-missed=1000000",
        "--json",
        &json,
    ]);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 5)), "{code:?} {}", stderr(&output));
    let told: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(told["agreement"], true);
    assert_eq!(told["config"]["network"]["ALPHORN_LAYERS"], "proof/proof");
    let nodes = told["nodes"].as_array().unwrap();
    let all = |of: &dyn Fn(&Value) -> u64| nodes.iter().map(of).sum::<u64>();
    for job in ["collect", "bundle", "verify_bundle"] {
        let ran = |node: &Value| node["jobs"][job]["run_ms"]["count"].as_u64().unwrap_or(0);
        assert!(all(&ran) > 0, "{job}: {told}");
    }
    assert_eq!(
        all(&|node| node["rejects"]["bad_evidence"].as_u64().unwrap_or(0)),
        0
    );
    let credited = |node: &Value| {
        let slots = node["credited"].as_object().unwrap().values();
        slots.filter_map(Value::as_u64).sum()
    };
    assert!(all(&credited) > 0, "no vote came into a block: {told}");
}

#[test]
fn what_is_no_record_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for bytes in [
        b"".as_slice(),
        b"not a record at all",
        b"alphorn-record2\n\xff\xff\xff\xff",
    ] {
        std::fs::write(&path, bytes).unwrap();
        let refused = alphorn(&["replay", &path.display().to_string()]);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    }
    let layers = alphorn(&["devnet", "--layers=list/proof"]);
    assert_eq!(layers.status.code(), Some(2));
    assert!(stderr(&layers).contains("list/list"), "{}", stderr(&layers));
}
