//! `compare` through the binary: the figures of each form, its files, and what it refuses.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn run(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alphorn"));
    command.current_dir(folder).env("ALPHORN_CACHE_DIR", folder);
    command.args(line.split_whitespace()).output().unwrap()
}

/// Proofs of hashes take minutes in a build for tests: `just soak` asks for them too.
const SCHEMES: &str = if cfg!(feature = "soak") {
    "bls,falcon,xmss"
} else {
    "bls,falcon"
};

/// The forms of [`SCHEMES`].
fn forms() -> &'static [&'static str] {
    if cfg!(feature = "soak") {
        &FORMS
    } else {
        &FORMS[..3]
    }
}

const FORMS: [&str; 9] = [
    "bls sum",
    "falcon list",
    "falcon proof",
    "xmss compact list",
    "xmss compact proof",
    "xmss compact merged",
    "xmss prod list",
    "xmss prod proof",
    "xmss prod merged",
];

#[test]
fn every_form_signs_the_same_votes() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        folder.path(),
        &format!(
            "compare --scheme {SCHEMES} --validators 12 --threads 2 --json - --csv a.csv --html a.html"
        ),
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["command"], "compare");
    let cases = object["cases"].as_array().unwrap();
    let found: Vec<&str> = cases
        .iter()
        .filter_map(|case| case["form"].as_str())
        .collect();
    assert_eq!(found, forms());
    for case in cases {
        assert_eq!((&case["votes"], &case["cells"]), (&12.into(), &2.into()));
        let times = case["times"].as_array().unwrap();
        let threads: Vec<_> = times
            .iter()
            .map(|times| times["threads"].as_u64())
            .collect();
        assert_eq!(threads, [Some(1), Some(2)]);
        for times in times {
            for step in ["sign", "plain_verify", "aggregate", "collect", "verify"] {
                let field = format!("{step}_ms");
                assert!(times[&field].as_f64() > Some(0.0), "{field} of {case}");
            }
        }
    }
    let of = |form: &str| cases.iter().find(|case| case["form"] == form).unwrap();
    // A sum has 96 bytes whatever it sums; a list has every signature behind a tag.
    assert_eq!(of("bls sum")["collection_bytes"], 96);
    let list = of("falcon list");
    let signatures = 12 * list["signature_bytes"].as_u64().unwrap();
    assert!(list["collection_bytes"].as_u64() >= Some(signatures));
    merges(cases);
    let million = object["million"].as_array().unwrap();
    assert_eq!(million.len(), forms().len());
    for line in million {
        assert_eq!(line["committees"], (1_u32 << 20).div_ceil(12));
        assert_eq!(line["kind"], "modelled");
    }
    files(folder.path());
}

/// What can be merged is: two collections and four, on one thread and on all, with the same bytes.
fn merges(cases: &[Value]) {
    for case in cases {
        let none = case["overlap"] == "none";
        let [one, all] = [0, 1].map(|at| case["times"][at]["merges"].as_array().unwrap());
        assert_eq!(one.len(), if none { 0 } else { 2 }, "{case}");
        for (one, all) in one.iter().zip(all) {
            for field in ["collections", "votes", "bytes", "support_bytes"] {
                assert_eq!(one[field], all[field], "{field} of {case}");
            }
            assert_eq!(one["votes"], 12);
            for field in ["merge_ms", "verify_ms", "parts_verify_ms"] {
                assert!(one[field].as_f64() > Some(0.0), "{field} of {case}");
            }
        }
    }
    let of = |form: &str| cases.iter().find(|case| case["form"] == form).unwrap();
    let bytes = |form: &str, at: usize| of(form)["times"][0]["merges"][at]["bytes"].as_u64();
    assert_eq!(
        (bytes("bls sum", 0), bytes("bls sum", 1)),
        (Some(96), Some(96))
    );
    assert_eq!(
        bytes("falcon list", 0),
        of("falcon list")["collection_bytes"].as_u64()
    );
    assert_eq!(of("falcon proof")["overlap"], "none");
    if !forms().contains(&"xmss compact proof") {
        return;
    }
    // Proofs merge to a proof, lists to a list of all.
    assert_eq!(of("xmss compact proof")["mergeable_max"], 768);
    assert!(bytes("xmss compact proof", 1) > Some(100_000));
    assert_eq!(
        bytes("xmss prod list", 0),
        of("xmss prod list")["collection_bytes"].as_u64()
    );
    assert_eq!(of("xmss prod proof")["mergeable_max"], 448);
}

/// The table and the report hold every form.
fn files(folder: &Path) {
    let csv = std::fs::read_to_string(folder.join("a.csv")).unwrap();
    let mut lines = csv.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    for column in [
        "form",
        "collection_bytes",
        "times.verify_ms",
        "merge4.votes",
    ] {
        assert!(columns.contains(&column), "{columns:?}");
    }
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 2 * forms().len());
    let all = forms();
    for (line, form) in lines.iter().zip(all.iter().flat_map(|form| [form, form])) {
        assert!(line.contains(form), "{line}");
    }
    let html = std::fs::read_to_string(folder.join("a.html")).unwrap();
    let schemes = SCHEMES.split(',').count();
    assert!(html.contains("modelled") && html.matches("<svg").count() == 5 + schemes);
    assert!(forms().iter().all(|form| html.contains(form)));
    assert!(!html.contains("http") && !html.contains("<script"));
}

#[test]
fn one_scheme_may_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        folder.path(),
        "compare --scheme bls --validators 5,3 --threads 1 --json -",
    );
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = object["cases"].as_array().unwrap();
    let votes: Vec<_> = cases.iter().map(|case| case["votes"].as_u64()).collect();
    assert_eq!(votes, [Some(3), Some(5)]);
    let committees = [0, 1].map(|at| &object["million"][at]["committee"]);
    assert_eq!(committees, [3, 5]);
}

#[test]
fn wrong_questions_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (line, name) in [
        ("compare --validators 1", "--validators 1"),
        ("compare --scheme falcon --validators 20001", "20000"),
        ("compare --scheme xmss --validators 32769", "32768"),
        ("compare --scheme rsa", "rsa"),
        ("compare --collectors 0", "--collectors"),
        ("compare --csv missing/a.csv", "--csv"),
        ("compare --threads 0", "--threads 0"),
        (
            "compare --scheme bls --profile peer",
            "--profile peer: what --scheme names has no profiles, falcon has",
        ),
    ] {
        let output = run(folder.path(), line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {errors}");
        assert!(errors.contains(name), "{line}: {errors}");
        assert!(output.stdout.is_empty());
    }
}
