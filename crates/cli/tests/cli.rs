//! The measuring commands through the binary: exit codes, one JSON object, equal results over threads
//! and kernels, and what a hostile shell, record or cache folder does.

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn command<A: AsRef<OsStr>>(cache: &Path, args: &[A]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alphorn"));
    command.env("ALPHORN_CACHE_DIR", cache).args(args);
    command
}

fn run_with<A: AsRef<OsStr>>(cache: &Path, args: &[A]) -> Output {
    command(cache, args).output().unwrap()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn run(line: &str) -> Output {
    let cache = tempfile::tempdir().unwrap();
    run_with(cache.path(), &words(line))
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The only thing on standard output: one JSON object of a run that succeeds.
fn object(line: &str) -> Value {
    let output = run(&format!("{line} --json -"));
    assert_eq!(output.status.code(), Some(0), "{line}: {}", errors(&output));
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{line}: standard output is no JSON object: {error}"));
    assert!(value.is_object(), "{line}");
    value
}

/// What a refused run says: exit code 2, nothing on standard output.
fn refusal(line: &str) -> String {
    let output = run(line);
    assert_eq!(output.status.code(), Some(2), "{line}: {}", errors(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{line}");
    errors(&output)
}

fn has_fields(value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(value.get(field).is_some(), "no field {field} in {value}");
    }
}

/// The fields of every object of a measuring command.
fn has_common_fields(value: &Value, command: &str) {
    has_fields(
        value,
        &[
            "version",
            "seed",
            "started_unix",
            "elapsed_s",
            "config",
            "machine",
        ],
    );
    assert_eq!(value["schema"], 1);
    assert_eq!(value["command"], command);
    assert_eq!(value["kind"], "measured");
    has_fields(
        &value["machine"],
        &["cpu", "features", "cores", "threads", "commit"],
    );
    let kernels = value["machine"]["kernels"].as_object().unwrap();
    assert!(!kernels.is_empty() && kernels.values().all(Value::is_string));
}

#[test]
fn a_slot_is_the_same_on_any_threads_and_kernel() {
    let slot = |options: &str| {
        object(&format!(
            "slot --validators 700 --participation 0.9 {options}"
        ))
    };
    let first = slot("--threads 1 --kernel portable");
    assert_eq!(first["machine"]["threads"], 1);
    for options in ["--threads 3 --kernel portable", "--threads 2"] {
        let other = slot(options);
        for field in ["digest", "votes_signed", "coverage", "bytes", "events"] {
            assert_eq!(first[field], other[field], "{options}: {field}");
        }
    }
    assert_ne!(first["digest"], slot("--seed 2")["digest"]);
}

#[test]
fn a_slot_has_its_fields() {
    let value = object("slot --validators 300 --timing custom:8000:0,1000,3000,5000,7000");
    has_common_fields(&value, "slot");
    has_fields(&value, &["aggregates", "collections", "coverage"]);
    assert_eq!(
        value["config"]["timing"],
        "custom:8000:0,1000,3000,5000,7000"
    );
    assert_eq!(value["votes_signed"], 300);
    assert_eq!(value["votes_verified"], 300);
    assert_eq!(value["coverage_exact"], true);
    has_fields(
        &value["bytes"],
        &["vote", "aggregate", "collection", "block"],
    );
    has_fields(&value["cross_checked"], &["signatures", "apks"]);
    assert_eq!(value["cross_checked"]["differences"], 0);
    assert!(value["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
    let steps = value["steps"].as_array().unwrap();
    assert!(!steps.is_empty());
    for step in steps {
        has_fields(step, &["stage", "op", "cpu_s", "wall_s", "items"]);
    }
}

#[test]
fn slots_of_every_small_size_hold() {
    for validators in [1, 2, 3, 5] {
        let value = object(&format!("slot --validators {validators} --threads 1"));
        assert_eq!(value["votes_in_block"], validators);
    }
    let nobody = object("slot --validators 64 --participation 0 --threads 1");
    assert_eq!(nobody["votes_signed"], 0);
    // More committees and cells than validators: most are empty.
    object("slot --validators 30 --committees 8 --subcommittees 8 --threads 1");
    object("slot --validators 100 --subcommittees 100 --cover union --selection rank");
}

#[test]
fn wrong_options_are_refused_by_name() {
    for (line, named) in [
        ("slot --validators 0", "4194304"),
        ("slot --validators 2^32", "4194304"),
        ("slot --participation 1.5", "no share from 0 to 1"),
        ("slot --participation -0.1", "no share from 0 to 1"),
        ("slot --participation NaN", "no share from 0 to 1"),
        ("slot --participation /nowhere", "/nowhere"),
        ("slot --flag tail", "source, target, head"),
        ("slot --flag head", "--flag head: of a recorded epoch"),
        ("bench codec --flag tail", "source, target, head"),
        (
            "horn traffic --flag head",
            "--flag head: of a recorded epoch",
        ),
        ("bench codec --flip 0.1,0.1", "--flip: entry 2"),
        ("bench codec --kernel portable", "no kernel is used here"),
        ("compare --scheme bls,falcon,bls", "--scheme: entry 3"),
        ("compare --kernel park=portable", "park"),
        ("bench xmss --set test,test", "--set: entry 2"),
        ("bench xmss --kernel portable,portable", "--kernel: entry 2"),
        ("bench lattice --preset fast,fast", "--preset: entry 2"),
        ("bench lattice --emit-costs -", "--emit-costs"),
        (
            "bench proof --children 2 --preset fast,small",
            "--preset with --children",
        ),
        (
            "bench proof --emit-costs a --json a",
            "would be written twice",
        ),
        (
            "bench broadcast --emit-costs a --json ./a",
            "would be written twice",
        ),
        ("slot --griefing --cover union,union", "--cover: entry 2"),
        (
            "slot --griefing --multiplicity 3",
            "--griefing with --multiplicity",
        ),
        (
            "slot --griefing --selection rank",
            "--griefing with --selection",
        ),
        ("slot --griefing --coding raw", "--griefing with --coding"),
        ("slot --griefing --timing horn", "--griefing with --timing"),
        ("slot --validators 600 --committees 2049", "2049"),
        ("slot --validators 600 --subcommittees 257", "257"),
        ("slot --committees 512 --subcommittees 256", "65536"),
        ("slot --multiplicity 2", "1, 3, 7 or 15"),
        ("slot --cover quorum --multiplicity 1", "quorum"),
        ("slot --cover all", "best1, greedy, quorum or union"),
        ("slot --timing custom:0:0,0,0,0,0", "86400000"),
        ("slot --threads 0", "1 to 1024"),
        ("slot --threads 5000", "1 to 1024"),
        ("slot --kernel sse9", "portable"),
        ("slot --kernel =portable", "no crate \"\""),
        ("slot --json /nowhere/slot.json", "--json"),
        ("slot --json /", "--json"),
        (
            "bench bls sums --participation 0.5,,1",
            "no share from 0 to 1",
        ),
        (
            "explore --scheme bls,falcon --slot horn-pq",
            "has 3 levels of evidence, the points have 1 or 2",
        ),
        (
            "horn traffic --multiplicity 3,15 --misses 0.5",
            "--misses 0.5: of collections of multiplicity 1, and --multiplicity is 3,15",
        ),
        (
            "horn traffic --multiplicity 1 --aggregate-misses 0.5",
            "--aggregate-misses 0.5: of aggregates that collections sum",
        ),
        ("bench bls verify --participation 2", "no share from 0 to 1"),
    ] {
        let said = refusal(line);
        assert!(said.contains(named), "{line}: {said}");
        assert!(!said.contains("panicked"), "{line}: {said}");
    }
}

#[cfg(unix)]
#[test]
fn words_that_are_no_text_are_refused_or_taken() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let odd = OsStr::from_bytes(b"\xff\xfe");
    for option in ["--participation", "--kernel", "--seed"] {
        let output = run_with(folder.path(), &[OsStr::new("slot"), option.as_ref(), odd]);
        assert_eq!(output.status.code(), Some(2), "{option}");
    }
    // Names of files may be any bytes.
    let output = run_with(&folder.path().join(odd), &["doctor", "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    has_common_fields(&serde_json::from_slice(&output.stdout).unwrap(), "doctor");
    let json = folder.path().join(OsStr::from_bytes(b"\xfe\xff"));
    let slot = ["slot", "--validators", "5", "--json"].map(OsStr::new);
    let output = run_with(folder.path(), &[&slot[..], &[json.as_os_str()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(json.exists());
}

#[test]
fn a_reader_who_leaves_changes_nothing() {
    let cache = tempfile::tempdir().unwrap();
    for line in [
        "slot --validators 50",
        "slot --validators 50 --json -",
        "doctor",
        "bench bls sums --validators 100 --committees 1 --runs 1",
    ] {
        let mut child = command(cache.path(), &words(line))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", errors(&output));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error_and_not_a_panic() {
    let cache = tempfile::tempdir().unwrap();
    for line in ["doctor", "doctor --json -"] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = command(cache.path(), &words(line))
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(!errors(&output).contains("panicked"), "{}", errors(&output));
    }
    let full = || {
        let file = std::fs::OpenOptions::new().write(true).open("/dev/full");
        Stdio::from(file.unwrap())
    };
    // What is said on standard error is no part of the result.
    let mut slot = command(cache.path(), &words("slot --validators 50 --json"));
    let json = cache.path().join("slot.json");
    let slot = slot.arg(&json).stdout(Stdio::null()).stderr(full());
    assert_eq!(slot.status().unwrap().code(), Some(0));
    assert!(json.exists());
    for line in ["sim list", "dashboard --port 0", "slot --validators 1"] {
        let mut command = command(cache.path(), &words(line));
        let status = command.stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(2), "{line}");
    }
}

#[test]
fn sums_have_their_fields_and_are_those_of_blst() {
    let value = object(
        "bench bls sums --validators 3000 --committees 3 --collections 9 --runs 1 \
         --participation 0.5,0.99",
    );
    has_common_fields(&value, "bench bls sums");
    let cases = value["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        assert_eq!(case["checked_all"], true, "{case}");
        has_fields(
            case,
            &[
                "participation",
                "multiplicity",
                "naive_s",
                "blst_bulk_s",
                "blst_subtract_s",
                "ours_s",
                "additions",
                "ns_per_addition",
            ],
        );
        has_fields(
            &case["plan"],
            &["naive", "bulk", "subtract", "pattern", "based", "delta"],
        );
        has_fields(&case["split_ms"], &["plan", "buckets", "transform"]);
    }
}

#[test]
fn sums_of_committees_with_a_key_or_two_are_those_of_blst() {
    let doctor = object("doctor");
    let kernels = doctor["kernels"].as_array().unwrap();
    for krate in ["bls", "labrador", "rlnc", "stark"] {
        let of = kernels.iter().filter(|kernel| kernel["crate"] == krate);
        assert_eq!(of.filter(|kernel| kernel["chosen"] == true).count(), 1);
    }
    for kernel in kernels.iter().filter(|kernel| kernel["crate"] == "bls") {
        let level = kernel["level"].as_str().unwrap();
        for (validators, committees) in [(1, 1), (1, 32), (2, 2), (3, 32), (5, 1), (40, 32)] {
            object(&format!(
                "bench bls sums --validators {validators} --committees {committees} --runs 1 \
                 --kernel {level}"
            ));
        }
    }
    object("bench bls sums --validators 40 --runs 1 --multiplicity 15");
}

#[test]
fn verdicts_are_those_of_verifying_alone() {
    let value = object("bench bls verify --validators 640 --runs 1 --collections 2 --bad 5");
    has_common_fields(&value, "bench bls verify");
    let steps = ["decode_s", "sums_s", "rlc_s", "total_s"];
    has_fields(&value["inner"], &steps);
    has_fields(&value["full"], &steps);
    has_fields(
        &value["blst"],
        &[
            "naive_each_s",
            "bulk_each_s",
            "subtract_each_s",
            "subtract_batch_s",
            "strongest_s",
        ],
    );
    has_fields(&value["bad"], &["k", "located", "pairings", "extra_s"]);
    assert_eq!(value["bad"]["located"].as_array().unwrap().len(), 5);
    assert_eq!(value["messages"], 1);
    for options in [
        // Some or all supports are empty: bad before any is damaged.
        "--collections 2 --validators 64 --participation 0",
        "--collections 2 --validators 64 --participation 0.1 --bad 40",
        "--collections 2 --validators 1 --committees 1",
        "--collections 2 --validators 64 --multiplicity 15 --bad 0",
    ] {
        object(&format!("bench bls verify --runs 1 {options}"));
    }
    let said = refusal("bench bls verify --validators 64 --collections 2 --bad 65");
    assert!(said.contains("--bad 65: there are 64 items"), "{said}");
}

/// A record of 37 validators in 3 committees of 4 cells, one of which nobody voted in.
#[test]
fn a_broadcast_bench_prints_ours_beside_its_peers() {
    let value =
        object("bench broadcast --chunks 2 --elements 3 --kernel portable,auto --strategy all");
    has_common_fields(&value, "bench broadcast");
    assert_eq!(value["params"]["payload_bytes"], 2 * 3 * 31);
    let cases = value["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3, "two kernels and Reed-Solomon");
    assert_eq!(cases[0]["kernel"], "portable");
    let op = |case: &Value, name: &str| -> Value {
        let ops = case["ops"].as_array().unwrap();
        let found = ops.iter().find(|op| op["name"] == name);
        found
            .unwrap_or_else(|| panic!("no {name} in {case}"))
            .clone()
    };
    for name in [
        "propose",
        "verify_single",
        "verify_batch_10",
        "recode",
        "decode",
    ] {
        let op = op(&cases[0], name);
        let peer = &op["baselines"][0];
        assert_eq!(peer["kind"], "measured", "{name}: {peer}");
        assert!(op["median_ns"].as_f64().unwrap() > 0.0);
    }
    refusal("bench broadcast --chunks 65");
    refusal("bench broadcast --elements 0");
    refusal("bench broadcast --kernel bls=portable");
}

fn record(meta: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("meta.json"), meta.to_string()).unwrap();
    let bits = [0b1111_1000, 0xff, 0b1010_0000, 0x7f, 0x15];
    std::fs::write(folder.path().join("target.bits"), bits).unwrap();
    folder
}

fn meta() -> Value {
    json!({
        "network": "small\u{1b}[31m",
        "epoch": 7,
        "active_validators": 37,
        "slots": 3,
        "committees_per_slot": 4,
        "files": { "target.bits": "who voted" },
    })
}

#[test]
fn a_recorded_epoch_is_covered_exactly() {
    let folder = record(&meta());
    let value = object(&format!("slot --participation {}", folder.path().display()));
    assert_eq!(value["votes_signed"], 5 + 8 + 2 + 7 + 3);
    assert_eq!(value["coverage_exact"], true);
    assert_eq!(value["config"]["committees"], 3);
    assert_eq!(value["config"]["subcommittees"], 4);
    let name = value["config"]["participation"].as_str().unwrap();
    assert!(name.starts_with("small[31m epoch 7, target"), "{name}");
}

#[test]
fn wrong_records_are_refused() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut meta = meta();
        change(&mut meta);
        let folder = record(&meta);
        refusal(&format!("slot --participation {}", folder.path().display()))
    };
    assert!(refused(&|m| m["active_validators"] = json!(0)).contains("1 to 4194304"));
    assert!(refused(&|m| m["active_validators"] = json!(u32::MAX)).contains("1 to 4194304"));
    assert!(refused(&|m| m["active_validators"] = json!(-3)).contains("meta.json"));
    assert!(refused(&|m| m["active_validators"] = json!(36)).contains("36 bits"));
    assert!(refused(&|m| m["active_validators"] = json!(30)).contains("more than 4 bytes"));
    assert!(refused(&|m| m["slots"] = json!(0)).contains("committees = 0"));
    assert!(refused(&|m| m["slots"] = json!(60_000)).contains("60000"));
    assert!(refused(&|m| m["committees_per_slot"] = json!(257)).contains("257"));
    assert!(refused(&|m| m["files"] = json!({})).contains("target.bits"));
    assert!(refused(&|m| *m = json!([])).contains("meta.json"));
    let folder = record(&meta());
    let line = |option: &str| format!("slot --participation {} {option}", folder.path().display());
    assert!(refusal(&line("--validators 36")).contains("records 37"));
    assert!(refusal(&line("--flag head")).contains("head.bits"));
    let (path, bits) = (folder.path().display(), folder.path().join("target.bits"));
    let before = std::fs::read(&bits).unwrap();
    for command in [
        "slot",
        "slot --griefing",
        "horn traffic",
        "horn collections",
        "bench codec",
        "bench bls sums",
        "bench bls verify",
    ] {
        for file in ["target.bits", "meta.json"] {
            let error = refusal(&format!(
                "{command} --participation {path} --json {path}/{file}"
            ));
            assert!(
                error.contains(file) && error.contains("is read here"),
                "{command}: {error}"
            );
        }
    }
    let blocks = refusal(&line(&format!("--blocks {}", bits.display())));
    assert!(blocks.contains("is read here"), "{blocks}");
    assert_eq!(std::fs::read(&bits).unwrap(), before);
    #[cfg(unix)]
    {
        let bits = folder.path().join("target.bits");
        std::fs::remove_file(&bits).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &bits).unwrap();
        assert!(refusal(&line("")).contains("more than 5 bytes"));
    }
}

#[test]
fn a_damaged_or_unusable_cache_costs_time_only() {
    let cache = tempfile::tempdir().unwrap();
    let line = "slot --validators 8192 --participation 0.01 --threads 2 --json -";
    let slot = |cache: &Path| -> (bool, Value, String) {
        let output = run_with(cache, &words(line));
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let from_cache = value["keys"]["from_cache"].as_bool().unwrap();
        (from_cache, value["digest"].clone(), errors(&output))
    };
    let (from_cache, digest, _) = slot(cache.path());
    assert!(!from_cache);
    assert!(slot(cache.path()).0);
    let keys = cache.path().join("bls-interop-8192.keys");
    let whole = std::fs::read(&keys).unwrap();
    let mut flipped = whole.clone();
    flipped[5000] ^= 1;
    for wrong in [&flipped[..], &whole[..whole.len() / 2], b"", b"text"] {
        std::fs::write(&keys, wrong).unwrap();
        let (from_cache, again, _) = slot(cache.path());
        assert!(!from_cache);
        assert_eq!(again, digest);
        assert_eq!(std::fs::read(&keys).unwrap(), whole, "it is made anew");
    }
    // A file where the folder should be, and a folder where the digest should be.
    let (from_cache, again, said) = slot(&keys);
    assert!(!from_cache);
    assert_eq!(again, digest);
    assert!(said.contains("keys are not cached"), "{said}");
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("bls-interop-8192.digest")).unwrap();
    assert!(slot(other.path()).2.contains("keys are not cached"));
}
