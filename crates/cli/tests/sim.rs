//! The simulator through the binary: each command, its exit codes, its files.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn alphorn(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alphorn"));
    command.current_dir(folder).arg("sim").args(args);
    command
        .output()
        .unwrap_or_else(|error| panic!("cannot run alphorn: {error}"))
}

/// What a command prints that ends with this code: standard output, standard error.
fn ends(folder: &Path, code: i32, args: &[&str]) -> (String, String) {
    let output = alphorn(folder, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{errors}");
    (out, errors)
}

fn json(folder: &Path, args: &[&str]) -> Value {
    let args = [args, &["--json", "-"]].concat();
    let (out, _) = ends(folder, 0, &args);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

/// A small network whose runs take milliseconds.
const SMALL: &str = r#"
name = "small"
schema = 1
about = "a test"
[sim]
nodes = 40
seeds = "1..2"
[graph]
kind = "permutations"
degree = 8
[[class]]
name = "full"
share_pct = 100
down_mbps = 50
up_mbps = 15
[protocol]
kind = "gossip"
[traffic]
bytes = 5000
[expect]
delivered_pct_min = 100
"#;

fn place() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    folder
}

#[test]
fn list_names_every_preset() {
    let folder = place();
    let object = json(folder.path(), &["list"]);
    let names: Vec<&str> = object["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"broadcast-20") && names.contains(&"regress-gossip"),
        "{names:?}"
    );
}

#[test]
fn every_preset_runs_in_a_reduced_form() {
    let folder = place();
    let list = json(folder.path(), &["list"]);
    for case in list["cases"].as_array().unwrap() {
        // Models of a slot have their own sizes; they are run by their own tests.
        let protocol = case["protocol"].as_str().unwrap();
        if !["gossip", "broadcast", "direct", "grid"].contains(&protocol) {
            continue;
        }
        let name = case["name"].as_str().unwrap();
        let nodes = case["nodes"].as_u64().unwrap().min(130);
        let nodes = format!("sim.nodes={nodes}");
        let args = [
            "run",
            name,
            "--seed",
            "1",
            "--set",
            &nodes,
            "--set",
            "traffic.bytes=20000",
        ];
        let object = json(folder.path(), &args);
        let cases = match object["cases"].as_array() {
            Some(cases) => cases.clone(),
            None => vec![object.clone()],
        };
        for case in cases {
            assert_eq!(case["delivered_pct"], 100.0, "{name}: {case}");
            assert!(
                case["t100_ms"].as_f64().unwrap() >= case["lb"]["lb1_ms"].as_f64().unwrap(),
                "{name}"
            );
            assert_eq!(case["holds"], true, "{name}");
        }
    }
}

#[test]
fn a_run_leaves_its_folder_and_replays_to_the_last_event() {
    let folder = place();
    let at = folder.path();
    let object = json(at, &["run", "small.toml", "--seed", "3", "--out", "r"]);
    assert_eq!(object["kind"], "modelled");
    assert_eq!(object["seed"], 3);
    assert_eq!(object["sent_truncated"], false);
    assert_eq!(object["replay"], "alphorn sim run small.toml --seed 3");
    let files = [
        "manifest.json",
        "scenario.toml",
        "nodes.csv",
        "summary.csv",
        "cdf.csv",
        "series.csv",
        "trace.jsonl",
        "report.html",
        "cdf.svg",
        "bytes.svg",
        "duplicates.svg",
        "series.svg",
    ];
    for name in files {
        assert!(at.join("r").join(name).is_file(), "{name}");
    }
    let nodes = fs::read_to_string(at.join("r/nodes.csv")).unwrap();
    assert_eq!(nodes.lines().count(), 41);
    let hash = object["event_hash"].as_str().unwrap();
    let (out, _) = ends(at, 0, &["replay", "r"]);
    assert!(out.contains(hash), "{out}");
    let (out, _) = ends(
        at,
        0,
        &["replay", "r/manifest.json", "--until", "200", "--node", "7"],
    );
    assert!(out.contains("node 7") && out.contains(" 200\n"), "{out}");
    let (_, errors) = ends(at, 2, &["replay", "r", "--node", "40"]);
    assert!(errors.contains("nodes 0 to 39"), "{errors}");
    // The command of the manifest gives the same run.
    let again = json(at, &["run", "small.toml", "--seed", "3"]);
    assert_eq!(again["event_hash"], hash);
    let path = at.join("r/manifest.json");
    let other = fs::read_to_string(&path)
        .unwrap()
        .replace(hash, "0123456789abcdef");
    fs::write(&path, other).unwrap();
    let (_, errors) = ends(at, 1, &["replay", "r"]);
    assert!(errors.contains("another run"), "{errors}");
}

/// The events of a trace's inputs, and its lines.
fn events(path: &Path) -> (Vec<u64>, Vec<Value>) {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let inputs = lines.iter().filter(|line| line["k"] == "input");
    let events = inputs.map(|line| line["event"].as_u64().unwrap());
    (events.collect(), lines)
}

#[test]
fn a_full_trace_tells_every_input_and_a_replay_ends_at_its_event() {
    let folder = place();
    let at = folder.path();
    let full = [
        "run",
        "small.toml",
        "--seed",
        "3",
        "--set",
        "output.trace=full",
        "--out",
        "r",
    ];
    let object = json(at, &full);
    let (all, lines) = events(&at.join("r/trace.jsonl"));
    // Lines come by time, and nodes are handled one after the other: the numbers of events do not ascend.
    assert!(all.len() > 500, "{}", all.len());
    assert!(all.iter().max() <= object["events"].as_u64().as_ref());
    let kind = |kind: &str| lines.iter().filter(|line| line["k"] == kind).count();
    assert_eq!((kind("genesis"), kind("broadcast")), (1, 40));
    let delivers = |line: &&Value| line["k"] == "output" && line["what"] == "deliver";
    assert_eq!(lines.iter().filter(delivers).count(), 39);
    let times: Vec<i64> = lines
        .iter()
        .map(|line| line["t"].as_i64().unwrap())
        .collect();
    assert!(times.is_sorted());
    ends(at, 0, &["replay", "r", "--until", "300", "--trace", "t"]);
    let (until, _) = events(&at.join("t"));
    let expected: Vec<u64> = all.iter().copied().filter(|event| *event <= 300).collect();
    assert_eq!(until, expected);
    let args = [
        "replay", "r", "--until", "2000", "--node", "7", "--trace", "t7",
    ];
    ends(at, 0, &args);
    let (_, lines) = events(&at.join("t7"));
    assert!(!lines.is_empty() && lines.iter().all(|line| line["n"] == "node-7"));
}

#[test]
fn runs_are_drawn_in_one_picture() {
    let folder = place();
    let at = folder.path();
    json(at, &["run", "small.toml", "--seed", "3", "--out", "r"]);
    json(at, &["run", "small.toml", "--seed", "4", "--out", "s"]);
    let args = [
        "plot", "three=r", "four=s", "--out", "p.svg", "--title", "Two runs",
    ];
    let (out, _) = ends(at, 0, &args);
    assert!(out.contains("three: 99 % by"), "{out}");
    let picture = fs::read_to_string(at.join("p.svg")).unwrap();
    for part in [
        "<svg xmlns=",
        "three",
        "four",
        "Two runs",
        "prefers-color-scheme",
    ] {
        assert!(picture.contains(part), "{part}");
    }
    ends(at, 2, &["plot", "x=nowhere", "--out", "q.svg"]);
}

#[test]
fn the_driver_of_sweeps_does_what_the_program_does() {
    let folder = place();
    let at = folder.path();
    ends(at, 0, &["plan", "small.toml", "--out", "plan.jsonl"]);
    json(at, &["run", "--plan", "plan.jsonl", "--out", "whole"]);
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/sweep_dask.py");
    let program = env!("CARGO_BIN_EXE_alphorn");
    let python = Command::new("python3")
        .current_dir(at)
        .args([
            driver,
            "plan.jsonl",
            "driven",
            "--local",
            "2",
            "--program",
            program,
        ])
        .output();
    let Ok(output) = python else {
        eprintln!("no python3: the driver is not tested");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    ends(at, 0, &["merge", "driven"]);
    ends(at, 0, &["merge", "whole"]);
    for table in ["runs.csv", "points.csv"] {
        let read = |folder: &str| fs::read_to_string(at.join(folder).join(table)).unwrap();
        assert_eq!(read("whole"), read("driven"), "{table}");
    }
}

#[test]
fn what_does_not_hold_fails_and_says_how_to_replay_it() {
    let folder = place();
    let at = folder.path();
    let faults = "\n[[fault]]\nkind = \"slow_cpu\"\nshare_pct = 5\nfactor_pct = 200\n[[fault]]\nkind = \"slow_link\"\nshare_pct = 5\nfactor_pct = 50\n";
    fs::write(
        at.join("strict.toml"),
        SMALL.replace("\"small\"", "\"strict\"") + faults,
    )
    .unwrap();
    let args = [
        "run",
        "strict.toml",
        "--seed",
        "1",
        "--set",
        "expect.sent_max=0.5",
        "--out",
        "bad",
    ];
    let (_, errors) = ends(at, 1, &args);
    assert!(
        errors.contains("replay: alphorn sim run strict.toml --seed 1 --set expect.sent_max=0.5"),
        "{errors}"
    );
    assert!(errors.contains("sent = "), "{errors}");
}

#[test]
fn sweeps_are_planned_sharded_resumed_and_merged() {
    let folder = place();
    let at = folder.path();
    let sweep = "\n[sweep]\n\"traffic.bytes\" = [1000, 2000]\n";
    fs::write(
        at.join("two.toml"),
        SMALL.replace("\"small\"", "\"two\"") + sweep,
    )
    .unwrap();
    ends(at, 0, &["plan", "two.toml", "--out", "plan.jsonl"]);
    assert_eq!(
        fs::read_to_string(at.join("plan.jsonl"))
            .unwrap()
            .lines()
            .count(),
        5
    );
    json(at, &["run", "two.toml", "--jobs", "2", "--out", "whole"]);
    for shard in ["0/2", "1/2"] {
        let out = format!("part{}", &shard[..1]);
        json(
            at,
            &[
                "run",
                "--plan",
                "plan.jsonl",
                "--shard",
                shard,
                "--out",
                &out,
            ],
        );
    }
    json(
        at,
        &[
            "run",
            "--plan",
            "plan.jsonl",
            "--index",
            "0",
            "--out",
            "part0",
        ],
    );
    ends(at, 0, &["merge", "part0", "part1"]);
    for table in ["runs.csv", "points.csv"] {
        let read = |folder: &str| fs::read_to_string(at.join(folder).join(table)).unwrap();
        assert_eq!(read("whole"), read("part0"), "{table}");
    }
    assert!(
        fs::read_to_string(at.join("part0/report.html"))
            .unwrap()
            .contains("4 runs at 2 points")
    );
    // What is there is not done again: a manifest of other figures stays.
    let runs = at.join("whole/runs");
    let one = fs::read_dir(&runs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("manifest.json");
    let marked = fs::read_to_string(&one)
        .unwrap()
        .replace("\"verdict\": \"\"", "\"verdict\": \"kept\"")
        .replace("\"dirty\": true", "\"dirty\": false");
    fs::write(&one, &marked).unwrap();
    json(at, &["run", "two.toml", "--out", "whole"]);
    assert_eq!(fs::read_to_string(&one).unwrap(), marked);
    // But for one of a program with uncommitted changes, which may be another one, and one that did not end.
    let mut stopped: Value = serde_json::from_str(&marked).unwrap();
    stopped["figures"] = Value::Null;
    for not_done in [
        marked.replace("\"dirty\": false", "\"dirty\": true"),
        stopped.to_string(),
    ] {
        fs::write(&one, &not_done).unwrap();
        json(at, &["run", "two.toml", "--out", "whole"]);
        let again = fs::read_to_string(&one).unwrap();
        assert!(again.contains("\"verdict\": \"\""), "{again}");
    }
    let (_, errors) = ends(at, 2, &["run", "--plan", "plan.jsonl", "--index", "4"]);
    assert!(errors.contains("4 runs, from 0"), "{errors}");
    ends(at, 2, &["run", "--plan", "plan.jsonl", "--shard", "2/2"]);
    ends(at, 2, &["merge", "nowhere"]);
}

#[test]
fn two_runs_are_compared() {
    let folder = place();
    let at = folder.path();
    for (name, bytes) in [("a", "5000"), ("b", "5000"), ("c", "500000")] {
        let set = format!("traffic.bytes={bytes}");
        json(
            at,
            &[
                "run",
                "small.toml",
                "--seed",
                "1",
                "--set",
                &set,
                "--out",
                name,
            ],
        );
    }
    let (out, _) = ends(at, 0, &["compare", "a", "b"]);
    assert!(out.contains("seed, the same events"), "{out}");
    let (_, errors) = ends(at, 1, &["compare", "a", "c"]);
    assert!(errors.contains("more than 15 % apart: t50_ms"), "{errors}");
    // Runs that could not go on have no figures that agree.
    for name in ["a", "b"] {
        let path = at.join(name).join("manifest.json");
        let text = fs::read_to_string(&path).unwrap();
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        manifest["figures"] = Value::Null;
        fs::write(&path, manifest.to_string()).unwrap();
    }
    let (_, errors) = ends(at, 1, &["compare", "a", "b"]);
    assert!(errors.contains("without figures"), "{errors}");
}

#[test]
fn wrong_questions_are_named() {
    let folder = place();
    let at = folder.path();
    let cases: [(&[&str], &str); 7] = [
        (&["run"], "SCENARIO"),
        (&["run", "no-such"], "alphorn sim list"),
        (
            &["run", "small.toml", "--set", "sim.nodes=1"],
            "sim.nodes = 1, allowed 2 to",
        ),
        (&["run", "small.toml", "--set", "sim.nods=1"], "nods"),
        (&["run", "small.toml", "--seeds", "5..2"], "5..2"),
        (&["run", "small.toml", "--plan", "x"], "cannot be used with"),
        (&["run", "--plan", "missing"], "cannot read missing"),
    ];
    for (args, part) in cases {
        let (_, errors) = ends(at, 2, args);
        assert!(errors.contains(part), "{args:?}: {errors}");
    }
    fs::create_dir(at.join("mine")).unwrap();
    fs::write(at.join("mine/notes"), "").unwrap();
    let (_, errors) = ends(
        at,
        2,
        &["run", "small.toml", "--seed", "1", "--out", "mine"],
    );
    assert!(errors.contains("it has \"notes\""), "{errors}");
    assert!(at.join("mine/notes").is_file());
}

/// Every file below a folder with its bytes.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(tree(&path)),
            false => drop(files.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    files
}

#[test]
fn nothing_that_is_read_is_written_over() {
    let folder = place();
    let at = folder.path();
    let drawn = "kind = \"permutations\"\ndegree = 8";
    assert!(SMALL.contains(drawn));
    let ring: String = (0..40)
        .map(|node| format!("{node} {}\n", (node + 1) % 40))
        .collect();
    fs::write(at.join("ring"), ring).unwrap();
    let of_file = SMALL.replace(drawn, "kind = \"file\"\npath = \"ring\"");
    fs::write(at.join("file.toml"), of_file).unwrap();
    ends(at, 0, &["plan", "small.toml", "--out", "plan.jsonl"]);
    fs::create_dir_all(at.join("p/runs")).unwrap();
    fs::copy(at.join("plan.jsonl"), at.join("p/runs.csv")).unwrap();
    ends(at, 0, &["run", "file.toml", "--seed", "1", "--out", "r"]);
    ends(at, 0, &["run", "small.toml", "--seed", "2", "--out", "s"]);
    let input = fs::read_dir(at.join("r/inputs")).unwrap().next().unwrap();
    let input = format!("r/inputs/{}", input.unwrap().file_name().display());
    let before = tree(at);
    let plan = ["run", "--plan", "plan.jsonl", "--json", "plan.jsonl"];
    let cases: [&[&str]; 15] = [
        &["plan", "small.toml", "--out", "small.toml"],
        &["plan", "file.toml", "--out", "ring"],
        &["run", "small.toml", "--json", "small.toml"],
        &["run", "file.toml", "--json", "./ring"],
        &plan,
        &["run", "s/scenario.toml", "--seed", "4", "--out", "s"],
        &["run", "--plan", "p/runs.csv", "--out", "p"],
        &["replay", "r", "--trace", "r/manifest.json"],
        &["replay", "r/manifest.json", "--trace", "r/scenario.toml"],
        &["replay", "r", "--trace", &input],
        &["compare", "r", "s", "--json", "r/manifest.json"],
        &[
            "compare",
            "r",
            "s/manifest.json",
            "--json",
            "s/manifest.json",
        ],
        &["plot", "r", "x=s", "--out", "s/cdf.csv"],
        &["plot", "r", "x=s", "--out", "r/manifest.json"],
        &["plot", "r", "s/manifest.json", "--out", "s/cdf.csv"],
    ];
    for args in cases {
        let (_, errors) = ends(at, 2, args);
        let why = "is read here, and cannot be written as well";
        assert!(errors.contains(why), "{args:?}: {errors}");
    }
    assert!(tree(at) == before);
    // A preset is no file, whatever its name.
    let args = ["plan", "regress-gossip", "--out", "regress-gossip"];
    ends(at, 0, &args);
}

#[test]
fn a_sweep_is_written_to_a_new_folder_or_its_own() {
    let folder = place();
    let at = folder.path();
    for name in ["page", "table", "book", "listed"] {
        fs::create_dir(at.join(name)).unwrap();
    }
    fs::write(at.join("page/report.html"), "mine").unwrap();
    fs::write(at.join("table/runs.csv"), "mine").unwrap();
    fs::create_dir(at.join("book/runs")).unwrap();
    fs::write(at.join("book/thesis.tex"), "mine").unwrap();
    fs::write(at.join("afile"), "mine").unwrap();
    ends(at, 0, &["run", "small.toml", "--seed", "1", "--out", "one"]);
    ends(at, 0, &["plan", "small.toml", "--out", "listed/plan.jsonl"]);
    let before = tree(at);
    for (out, part) in [
        (
            "page",
            "it has \"report.html\"; a sweep is written to a new folder",
        ),
        ("table", "it has \"runs.csv\""),
        ("book", "it has \"thesis.tex\""),
        ("one", "a new folder or to its own"),
        ("afile", "cannot write afile"),
        ("afile/x", "cannot write afile/x"),
    ] {
        for args in [
            &["small.toml"][..],
            &["--plan", "listed/plan.jsonl", "--index", "0"],
        ] {
            let args = [&["run"], args, &["--out", out]].concat();
            let (printed, errors) = ends(at, 2, &args);
            assert!(errors.contains(part), "{args:?}: {errors}");
            assert_eq!(printed, "", "{args:?}");
        }
    }
    assert!(tree(at) == before);
    // The plan and the figures may be in it, and it goes on in its own folder.
    let args = [
        "run",
        "--plan",
        "listed/plan.jsonl",
        "--json",
        "listed/figures.json",
    ];
    for shard in [&["--shard", "0/2"][..], &[], &[]] {
        ends(at, 0, &[&args, shard, &["--out", "listed"]].concat());
    }
    assert!(at.join("listed/report.html").is_file());
}
