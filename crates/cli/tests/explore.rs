//! `explore` through the binary: its points, its files, and what it refuses.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn run(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alphorn"));
    command.current_dir(folder).env("ALPHORN_CACHE_DIR", folder);
    command.args(line.split_whitespace()).output().unwrap()
}

fn json(folder: &Path, line: &str) -> Value {
    let output = run(folder, line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{line}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A network whose slots take a fraction of a second.
const SMALL: &str = "explore --validators 1024 --nodes 60 --threads 2";

#[test]
fn every_point_is_a_slot() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "{SMALL} --topology horn,strawman,grid,today,tree --committees 2,4 --json - --csv a.csv --html a.html"
    );
    let object = json(folder.path(), &line);
    assert_eq!(object["kind"], "modelled");
    let cases = object["cases"].as_array().unwrap();
    // Three schemes; three topologies with two numbers of committees, those of today, and a tree.
    assert_eq!(cases.len(), 3 * (3 * 2 + 2));
    for case in cases {
        let slot = &case["slot"];
        let votes = slot["votes"].as_u64().unwrap();
        match case["topology"].as_str() {
            Some("today") => assert!(votes <= 32, "{case}"),
            _ => assert!((990..=1024).contains(&votes), "{case}"),
        }
        // Today's committees and aggregators are given, and a tree has none.
        let numbers = ["committees", "aggregators", "collectors", "replicas"];
        match case["topology"].as_str() {
            Some("today") => assert_eq!(
                numbers.map(|name| case[name].as_u64()),
                [Some(64), Some(16), None, None]
            ),
            Some("tree") => assert_eq!(
                numbers.map(|name| case[name].as_u64()),
                [None, None, None, Some(4)]
            ),
            _ => assert_eq!(case["replicas"], Value::Null),
        }
        assert!(slot["counted"].as_u64() <= Some(votes));
        assert_eq!(case["fits"] == true, case["why"].is_null(), "{case}");
    }
    // Committees and cells have one size for all schemes, which each row names.
    for case in cases.iter().filter(|case| case["topology"] == "horn") {
        let committees = &case["committees"];
        let units = match case["scheme"] == "xmss" {
            true => format!("{committees}x7x7x"),
            false => format!("{committees}x49x"),
        };
        assert!(
            case["units"].as_str().unwrap().starts_with(&units),
            "{case}"
        );
        let cell = 1024_u64.div_ceil(49 * committees.as_u64().unwrap());
        assert_eq!(case["layout"]["cell"], cell, "{case}");
        let levels = case["levels"].as_array().unwrap();
        let votes = &levels[0];
        assert_eq!(
            (&votes["what"], &votes["count"]),
            (&"votes".into(), &1024.into())
        );
        assert!(
            levels
                .iter()
                .all(|level| level["message_bytes"].as_u64() > Some(48))
        );
    }
    // Sums carry a thousand votes through two layers on any of these networks.
    let sums = cases.iter().filter(|case| case["scheme"] == "bls");
    let mut horn = sums.filter(|case| case["topology"] == "horn");
    assert!(horn.all(|case| case["fits"] == true));
    let travel = &cases[0]["block_travel_s"];
    for transport in ["gossip", "rlnc", "rs"] {
        assert!(travel[transport].as_f64() > Some(0.0), "{travel}");
    }
    // A line for each scheme, and one for the frontier.
    let verdict = object["verdict"].as_array().unwrap();
    assert_eq!(verdict.len(), 4, "{verdict:?}");
    // A 32nd of the votes is beside no other point.
    let names_today = |line: &Value| line.as_str().unwrap().contains(": today,");
    assert!(!verdict.iter().any(names_today), "{verdict:?}");
    let csv = std::fs::read_to_string(folder.path().join("a.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + cases.len());
    let html = std::fs::read_to_string(folder.path().join("a.html")).unwrap();
    assert!(html.contains("<svg") && !html.contains("http"));
    for line in verdict {
        let text = line.as_str().unwrap().replace('\'', "&#39;");
        assert!(html.contains(&text), "{line}");
    }
    page_of(&html, cases);
}

/// What is printed fits a terminal, sentences aside, and says once what all points share.
#[test]
fn the_table_is_narrow() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &format!("{SMALL} --scheme bls,falcon"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with(' ')).collect();
    assert_eq!(rows.len(), 1 + 2 * 5, "{text}");
    for row in rows {
        assert!(row.chars().count() <= 120, "{row}");
        for said in ["mixed", "committees", "collectors"] {
            assert!(!row.contains(said), "{row}");
        }
    }
    let shared = "all points: profile mixed, nobody silent; \
                  today: 64 committees, 16 publishers a unit; \
                  strawman: 49 committees, 4 publishers a unit; \
                  horn, grid: 1 committee, 4 publishers a unit; tree: 4 nodes a position";
    assert!(text.contains(shared), "{text}");
}

/// The page draws every point that has a slot, filled if it does its work, and has the figures of all.
fn page_of(html: &str, cases: &[Value]) {
    let count = |case: &dyn Fn(&&Value) -> bool| cases.iter().filter(case).count();
    let slots = count(&|case| !case["slot"].is_null());
    let fit = count(&|case| case["fits"] == true);
    assert_eq!(html.matches("<path class=\"full g").count(), fit);
    assert_eq!(html.matches("<path class=\"ring g").count(), slots - fit);
    for topology in ["today", "strawman", "horn", "grid", "tree"] {
        let row = format!("<th scope=\"row\">{topology}</th>");
        assert!(html.contains(&row), "a row of {topology}");
        let key = format!(">{topology}</text>");
        assert!(html.contains(&key), "the shape of {topology}");
    }
    let edge: Vec<&Value> = cases
        .iter()
        .filter(|case| case["on_frontier"] == true)
        .collect();
    assert!(!edge.is_empty() && edge.iter().all(|case| case["fits"] == true));
    let yes = |holds: &Value| if holds == true { "yes" } else { "no" };
    for case in cases.iter().filter(|case| !case["slot"].is_null()) {
        let slot = &case["slot"];
        let seconds = slot["everywhere_s"].as_f64();
        let row = format!(
            "<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            seconds.map_or("never".into(), |seconds| format!("{seconds:.3}")),
            slot["sent_p99_bytes"],
            yes(&case["fits"]),
            yes(&case["on_frontier"]),
        );
        assert!(html.contains(&row), "{row} of {case}");
        // Nothing that fits is faster and cheaper than a point of the frontier.
        let beats = |other: &&Value| {
            let is_rival = other["topology"] != "today"
                && (other["quantum_bits"].as_u64() > Some(0) || case["quantum_bits"] == 0);
            let figures = |case: &Value| {
                let slot = &case["slot"];
                Some((
                    slot["everywhere_s"].as_f64()?,
                    slot["sent_p99_bytes"].as_u64()?,
                ))
            };
            let (Some(a), Some(b)) = (figures(other), figures(case)) else {
                return false;
            };
            is_rival
                && other["fits"] == true
                && a.0 <= b.0
                && a.1 <= b.1
                && (a.0 < b.0 || a.1 < b.1)
        };
        let is_beaten = cases.iter().any(|other| beats(&other));
        let is_edge = case["fits"] == true && case["topology"] != "today" && !is_beaten;
        assert_eq!(case["on_frontier"], is_edge, "{case}");
    }
}

/// Proofs of cells that merge carry the votes that lists below one proof of the committee lose.
#[test]
fn levels_carry_votes_that_two_levels_lose() {
    let folder = tempfile::tempdir().unwrap();
    let published = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/costs/xmss-cells.json"
    );
    let text = std::fs::read_to_string(published).unwrap();
    let mut table: Value = serde_json::from_str(&text).unwrap();
    let point = |table: &Value| {
        std::fs::write(folder.path().join("costs.json"), table.to_string()).unwrap();
        let line = "explore --validators 16384 --nodes 60 --threads 2 --profile full --topology horn --costs costs.json --json -";
        json(folder.path(), line)["cases"][0].clone()
    };
    let levels = point(&table);
    assert_eq!(
        (&levels["units"], &levels["timing"]),
        (&"1x7x7x335".into(), &"horn-pq".into())
    );
    assert_eq!(levels["fits"], true, "{levels}");
    // The same table, but cells are lists of signatures: aggregators send them all.
    table["abilities"]["layers"][0] = "list".into();
    let bytes = |n: u64| serde_json::json!({"layer": "aggregate", "n": n, "bytes": 1 + 1171 * n});
    let evidence = table["sizes"]["evidence"].as_array_mut().unwrap();
    evidence.retain(|point| point["layer"] == "collection");
    evidence.splice(0..0, [bytes(1), bytes(1000)]);
    for row in table["ops"].as_array_mut().unwrap() {
        if row["op"] == "aggregate" {
            row["ns"] = (row["n"].as_u64().unwrap() * 37_141).into();
        }
    }
    let two = point(&table);
    assert_eq!(
        (&two["units"], &two["timing"]),
        (&"1x49x335".into(), &"horn".into())
    );
    let counted = |case: &Value| case["slot"]["counted"].as_u64();
    assert!(
        two["fits"] == false && counted(&two) < counted(&levels),
        "{two}"
    );
}

/// A scheme that takes small committees alone makes those of all others as small.
#[test]
fn committees_are_of_one_size_for_all_schemes() {
    let folder = tempfile::tempdir().unwrap();
    let published = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/costs/bls-formula.json"
    );
    let text = std::fs::read_to_string(published).unwrap();
    std::fs::write(folder.path().join("any.json"), &text).unwrap();
    let mut table: Value = serde_json::from_str(&text).unwrap();
    table["abilities"]["committee_max"] = 300.into();
    table["scheme"] = "small".into();
    std::fs::write(folder.path().join("small.json"), table.to_string()).unwrap();
    let committees = |costs: &str| {
        let line = format!("{SMALL} --topology horn,grid --costs {costs} --json -");
        let object = json(folder.path(), &line);
        let cases = object["cases"].as_array().unwrap().iter();
        cases
            .map(|case| case["layout"]["committee"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(committees("any.json"), [1024; 2]);
    assert_eq!(committees("any.json,small.json"), [256; 4]);
}

/// What is merged costs what the table says of merges, and nothing else does.
#[test]
fn merges_are_charged_by_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let published = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/costs/bls-formula.json"
    );
    let text = std::fs::read_to_string(published).unwrap();
    let mut table: Value = serde_json::from_str(&text).unwrap();
    let seconds = |table: &Value, topology: &str| {
        std::fs::write(folder.path().join("costs.json"), table.to_string()).unwrap();
        let line =
            format!("{SMALL} --topology {topology} --profile attester --costs costs.json --json -");
        let object = json(folder.path(), &line);
        object["cases"][0]["slot"]["two_thirds_s"].as_f64().unwrap()
    };
    let [tree, horn] = ["tree", "horn"].map(|topology| seconds(&table, topology));
    for row in table["ops"].as_array_mut().unwrap() {
        if row["op"] == "merge" {
            row["ns"] = (row["ns"].as_u64().unwrap() + 7_000_000_000).into();
        }
    }
    assert_eq!(seconds(&table, "horn"), horn);
    // Eleven leaves, two positions above them, and the root, which merges once on eight cores at most.
    let later = seconds(&table, "tree") - tree;
    assert!((0.85..7.1).contains(&later), "{later}");
}

#[test]
fn the_same_seed_gives_the_same_figures_on_any_threads() {
    let folder = tempfile::tempdir().unwrap();
    let cases = |threads: u32| {
        let line = format!(
            "explore --validators 512 --nodes 50 --scheme falcon --committees 1,2 --threads {threads} --json -"
        );
        json(folder.path(), &line)["cases"].clone()
    };
    assert_eq!(cases(1), cases(3));
}

#[test]
fn what_silent_nodes_do_not_send_is_not_cast() {
    let folder = tempfile::tempdir().unwrap();
    let line =
        format!("{SMALL} --scheme bls --topology horn --committees 2 --adversary 0,50 --json -");
    let object = json(folder.path(), &line);
    let figure = |at: usize, name: &str| object["cases"][at]["slot"][name].as_u64().unwrap();
    // What half of the nodes never send is not cast; of the rest no more than all is counted.
    let [all, rest] = [0, 1].map(|at| figure(at, "votes"));
    assert!(rest * 5 < all * 3 && rest * 5 > all * 2, "{rest} of {all}");
    assert!(figure(1, "counted") <= rest);
}

#[test]
fn tables_of_files_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let table = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/costs/bls-formula.json"
    );
    let line = format!("{SMALL} --topology horn --committees 1 --costs {table} --json -");
    let object = json(folder.path(), &line);
    let costs = &object["config"]["costs"][0];
    assert_eq!(
        (&costs["scheme"], &costs["kind"]),
        (&"bls".into(), &"modelled".into())
    );
    std::fs::write(folder.path().join("bad.json"), "{}").unwrap();
    let output = run(folder.path(), "explore --costs bad.json --csv bad.json");
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("bad.json: is read here"), "{errors}");
    let output = run(folder.path(), "explore --costs bad.json");
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("bad.json"), "{errors}");
    assert_eq!(errors.matches("missing field").count(), 1, "{errors}");
}

#[test]
fn what_no_network_can_be_is_a_result_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    // A proof of Falcon covers 20,000 signatures at most.
    let line = "explore --scheme falcon --validators 32768 --nodes 50 --committees 1 --topology horn --json -";
    let object = json(folder.path(), line);
    let case = &object["cases"][0];
    assert_eq!(case["fits"], false);
    assert!(case["slot"].is_null() && case["block_travel_s"]["rs"].is_null());
    let why = case["why"].as_str().unwrap();
    assert!(why.contains("20000") || why.contains("20,000"), "{why}");
    assert!(object["verdict"][0].as_str().unwrap().contains(why));
    for (line, name) in [
        ("explore --nodes 10", "--nodes"),
        ("explore --adversary 60", "--adversary"),
        ("explore --scheme rsa", "rsa"),
        ("explore --slot soon", "soon"),
        (
            "explore --slot custom:28000:0,4000,8000,12000,16000,20000,28000",
            "must have phases for one to three levels",
        ),
        (
            "explore --slot horn --slot fast16",
            "--slot fast16: must have phases",
        ),
        ("explore --committees 513", "--committees"),
        ("explore --scheme bls,bls", "--scheme: entry 2"),
        (
            "explore --scheme bls --committees 0,2,1",
            "--committees (0 is 1): entry 3 of the list is entry 1",
        ),
        (
            "explore --transport gossip,rs,gossip",
            "--transport: entry 3",
        ),
        ("explore --costs f,f", "--costs: entry 2"),
        (
            "explore --costs f --kernel portable",
            "--kernel portable: --costs FILE has",
        ),
        ("explore --kernel park=portable", "park"),
        ("explore --validators 0 --full", "--validators"),
        ("explore --validators 3 --nodes 500", "one a node, 500"),
        (
            "explore --html missing/x.html",
            "there is no folder missing",
        ),
    ] {
        let output = run(folder.path(), line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {errors}");
        assert!(errors.contains(name), "{line}: {errors}");
    }
}
