//! Proofs of XMSS signatures, from outside: the built binary, files in, files out.

mod bench;
mod file_tool;

use bench::Bench;
use file_tool::{changed, vote, votes};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

const COMPACT: &str = " --scheme xmss";
const OTHER: &str = "0x7878787878787878787878787878787878787878787878787878787878787878";

/// Votes of interop validators at slot 7, and their proof over the file of their keys.
fn proved(bench: &Bench, options: &str) -> Value {
    bench.votes(COMPACT, &format!("{COMPACT} --slot 7"));
    bench
        .run(&format!(
            "aggregate votes{COMPACT} --form proof --keys keys/public-keys.json{options} \
             --out proof.json"
        ))
        .expect(0, "bytes of evidence");
    bench.json("proof.json")
}

fn evidence(file: &Value) -> Vec<u8> {
    hex::decode(&file["signature"].as_str().unwrap()[2..]).unwrap()
}

#[test]
fn a_proof_is_made_inspected_and_verified() {
    let bench = Bench::new();
    let file = proved(&bench, "");
    assert_eq!(evidence(&file).first(), Some(&1));
    let verify = format!("verify proof.json{COMPACT} --keys keys/public-keys.json");
    bench.run(&verify).expect(0, "valid");
    bench
        .run(&format!("verify proof.json{COMPACT}"))
        .expect(2, "no file of --keys");
    bench
        .run("proof inspect proof.json --json inspect.json")
        .expect(0, "opened rows");
    let inspect = bench.json("inspect.json");
    let bytes = evidence(&file).len();
    assert_eq!(inspect["slot"], 7);
    assert_eq!(inspect["preset"], "fast");
    assert_eq!(inspect["evidence_bytes"], bytes);
    assert_eq!(inspect["cases"][0]["proof_bytes"], bytes - 1);
    let bound = inspect["cases"][0]["proof_bytes_max"].as_u64().unwrap();
    assert!(bytes as u64 - 1 <= bound);
    assert_eq!(inspect["cases"][0]["groups"], 1);
    // Listed signers are the registry themselves.
    bench
        .run(&format!(
            "aggregate votes{COMPACT} --form proof --preset small --out small.json"
        ))
        .expect(0, "signers");
    let small = bench.json("small.json");
    assert!(evidence(&small).len() < bytes);
    bench
        .run(&format!("verify small.json{COMPACT}"))
        .expect(0, "valid");
    bench
        .run("proof inspect small.json")
        .expect(0, "the listed signers");
    // Its signers are the registry: there is nothing to merge it with.
    let merge = format!("merge proof.json small.json{COMPACT} --out merged.json");
    bench.run(&merge).expect(2, "needs --keys");
    bench
        .run(&format!("{merge} --preset small"))
        .expect(2, "unexpected argument '--preset'");
    bench
        .run(&format!(
            "aggregate votes{COMPACT} --preset small --out x.json"
        ))
        .expect(2, "--preset small: a list has none, only a proof");
    bench
        .run(&format!("{merge} --keys keys/public-keys.json"))
        .expect(2, "");
    // No circuit verifies a proof of that preset.
    let keys = "--keys keys/public-keys.json";
    bench
        .run(&format!(
            "aggregate votes{COMPACT} --form proof --preset small {keys} --out xps.json"
        ))
        .expect(0, "signers");
    for command in ["merge", "proof bundle"] {
        let line = format!("{command} proof.json xps.json {keys} --out merged.json");
        let why = "xps.json: preset small; only proofs of preset fast merge";
        bench.run(&line).expect(2, why);
    }
}

/// Two proofs that overlap, and their merge with one of them again.
#[test]
fn proofs_merge_to_the_union_of_their_signers() {
    let bench = Bench::new();
    proved(&bench, "");
    let keys = "--keys keys/public-keys.json";
    let files: Vec<String> = fs::read_dir(bench.path("votes"))
        .unwrap()
        .map(|entry| format!("votes/{}", entry.unwrap().file_name().display()))
        .collect();
    let part = |files: &[String], out: &str| {
        let files = files.join(" ");
        bench
            .run(&format!(
                "aggregate {files}{COMPACT} --form proof {keys} --out {out}"
            ))
            .expect(0, "signers");
    };
    part(&files[..files.len() - 1], "a.json");
    part(&files[1..], "b.json");
    bench
        .run(&format!(
            "merge a.json b.json{COMPACT} {keys} --out merged.json"
        ))
        .expect(0, &format!("{} signers", files.len()));
    bench
        .run(&format!(
            "merge merged.json a.json{COMPACT} {keys} --out again.json"
        ))
        .expect(0, &format!("{} signers", files.len()));
    for file in ["merged.json", "again.json"] {
        bench
            .run(&format!("verify {file}{COMPACT} {keys}"))
            .expect(0, "valid");
    }
    bench
        .run("proof inspect again.json --json inspect.json")
        .expect(0, "a merge of level 2 of 2 proofs, 1 of them merges");
    assert_eq!(
        bench.json("inspect.json")["cases"][0]["proof_kind"],
        "merge"
    );
    let mut lie = bench.json("a.json");
    let honest = evidence(&lie);
    let mut bytes = honest.clone();
    bytes[honest.len() / 2] ^= 1;
    lie["signature"] = json!(format!("0x{}", hex::encode(&bytes)));
    fs::write(bench.path("lie.json"), lie.to_string()).unwrap();
    bench
        .run(&format!(
            "merge lie.json b.json{COMPACT} {keys} --out no.json"
        ))
        .expect(1, "lie.json");
    assert!(!bench.path("no.json").exists());
}

/// Votes in two slots, one proof of both, and each of them alone again.
#[test]
fn proofs_are_bundled_and_split() {
    let bench = Bench::new();
    proved(&bench, "");
    let keys = "--keys keys/public-keys.json";
    let signing: Vec<String> = (0..3).map(|i| format!("keys/interop-{i}.json")).collect();
    let signing = signing.join(" ");
    fs::create_dir(bench.path("late")).unwrap();
    bench
        .run(&format!(
            "sign --key {signing} --message {OTHER} --slot 9 --out-dir late{COMPACT}"
        ))
        .expect(0, "late/interop-2.signature.json");
    bench
        .run(&format!(
            "aggregate late{COMPACT} --form proof {keys} --out late.json"
        ))
        .expect(0, "3 signers");
    bench
        .run(&format!(
            "proof bundle proof.json late.json {keys} --out bundle.json --json report.json"
        ))
        .expect(0, "2 entries");
    let report = bench.json("report.json");
    assert_eq!(report["entries"][1]["slot"], 9);
    assert_eq!(report["entries"][1]["signers"], 3);
    bench
        .run("proof inspect bundle.json --json inspect.json")
        .expect(0, "a bundle of level 1 of 2 entries")
        .expect(0, "in slot 9, 3 of 8 keys");
    assert_eq!(bench.json("inspect.json")["proof_kind"], "bundle");
    let verify = |file: &str| bench.run(&format!("verify {file} {keys} --json report.json"));
    verify("bundle.json").expect(0, "bundle  11       valid");
    let report = bench.json("report.json");
    assert_eq!(report["files"][0]["entries"][1]["signers"], 3);
    for (entry, slot) in [(0, 7), (1, 9)] {
        let out = format!("split-{entry}.json");
        bench
            .run(&format!(
                "proof split bundle.json --entry {entry} {keys} --out {out}"
            ))
            .expect(0, "signers");
        bench
            .run(&format!("verify {out}{COMPACT} {keys}"))
            .expect(0, "valid");
        assert_eq!(bench.json(&out)["slot"], slot);
    }
    bench
        .run("proof inspect split-1.json")
        .expect(0, "1 bundles of which an entry was kept");
    // What was split merges like any other proof.
    bench
        .run(&format!(
            "merge split-0.json proof.json{COMPACT} {keys} --out again.json"
        ))
        .expect(0, "8 signers");
    // Beside others, and without its keys; wrong uses have words of their own.
    verify("proof.json bundle.json late.json").expect(0, "bundle     11       valid");
    bench
        .run("verify bundle.json")
        .expect(2, "no file of --keys has it");
    bench
        .run(&format!(
            "proof split bundle.json --entry 2 {keys} --out no.json"
        ))
        .expect(2, "--entry 2: the bundle has 2");
    bench
        .run(&format!("proof bundle bundle.json {keys} --out no.json"))
        .expect(2, "bundle");
    bench
        .run("verify bundle.json --keys late.json")
        .expect(2, "late.json");
    // An entry that is changed, one that is left out, and a proof that is.
    let lie = |pointer: &str, value: Value| verify(bench.tampered("bundle.json", pointer, value));
    lie("/entries/1/slot", json!(8)).expect(1, "does not hold");
    lie("/entries/0/message", json!(OTHER)).expect(1, "does not hold");
    let honest = bench.json("bundle.json");
    lie("/entries", json!([honest["entries"][0]])).expect(1, "does not hold");
    lie("/entries", json!([])).expect(2, "a bundle of 0 entries");
    lie("/proof", changed(&honest["proof"])).expect(1, "does not hold");
    lie("/entries/1/registry/keys", json!(9)).expect(2, "");
    assert!(!bench.path("no.json").exists());
}

#[test]
fn what_is_changed_in_a_proof_does_not_verify() {
    let bench = Bench::new();
    let file = proved(&bench, "");
    let verify = format!("verify lie.json{COMPACT} --keys keys/public-keys.json");
    let check = |lie: &Value, code: i32, words: &str| {
        fs::write(bench.path("lie.json"), lie.to_string()).unwrap();
        bench.run(&verify).expect(code, words);
    };
    let with = |key: &str, value: Value| {
        let mut lie = file.clone();
        lie[key] = value;
        lie
    };
    let lie = bench.tampered("proof.json", "/slot", json!(8));
    bench
        .run(&format!(
            "verify {lie}{COMPACT} --keys keys/public-keys.json"
        ))
        .expect(1, "the proof does not hold");
    check(&with("message", json!(OTHER)), 1, "the proof does not hold");
    check(
        &with("signature", changed(&file["signature"])),
        1,
        "INVALID",
    );
    let honest = evidence(&file);
    for place in [1, 9, 40, honest.len() / 3, honest.len() - 9] {
        let mut bytes = honest.clone();
        bytes[place] ^= 0x20;
        let lie = with("signature", json!(format!("0x{}", hex::encode(&bytes))));
        check(&lie, 1, "INVALID");
    }
    let cut = hex::encode(&honest[..honest.len() - 1]);
    check(&with("signature", json!(format!("0x{cut}"))), 1, "INVALID");
    // A signer more or fewer, in the same registry.
    let mut fewer = file.clone();
    bench
        .run(&format!(
            "aggregate {}{COMPACT} --keys keys/public-keys.json --out list.json",
            votes(0..7)
        ))
        .expect(0, "signers");
    fewer["registry"]["support"] = bench.json("list.json")["registry"]["support"].clone();
    check(&fewer, 1, "the proof does not hold");
    check(&file, 0, "valid");
}

#[test]
fn a_bad_vote_is_named_before_anything_is_proved() {
    let bench = Bench::new();
    bench.votes(COMPACT, &format!("{COMPACT} --slot 7"));
    let first = vote(0);
    let mut lie = bench.json(&first);
    lie["signature"] = bench.json(&vote(1))["signature"].clone();
    fs::write(bench.path(&first), lie.to_string()).unwrap();
    let aggregate = format!("aggregate votes{COMPACT} --form proof --out proof.json");
    bench.run(&aggregate).expect(1, &first);
    assert!(!bench.path("proof.json").exists());
}

/// In half a minute; the crate and the worker prove these sets in tests of their own.
#[cfg(feature = "soak")]
#[test]
fn sets_of_the_lean_specification_are_proved() {
    let bench = Bench::new();
    let test = " --scheme xmss --set test";
    bench.votes(test, &format!("{test} --slot 7"));
    let aggregate = format!("aggregate votes{test}");
    bench
        .run(&format!("{aggregate} --form proof --out proof.json"))
        .expect(0, "bytes of evidence");
    bench.run(&format!("verify proof.json{test}")).expect(0, "");
    bench
        .run("proof inspect proof.json --json inspect.json")
        .expect(0, "test");
    assert_eq!(bench.json("inspect.json")["set"], "test");
    let keys = "--keys keys/public-keys.json";
    bench
        .run(&format!(
            "{aggregate} --form proof {keys} --out by-position.json"
        ))
        .expect(0, "signers");
    let file = "by-position.json";
    bench
        .run(&format!(
            "merge {file} {file}{test} {keys} --out merged.json"
        ))
        .expect(0, "signers");
    bench
        .run(&format!(
            "proof bundle merged.json {file} {keys} --out bundle.json"
        ))
        .expect(0, "2 entries");
    bench
        .run("proof inspect bundle.json")
        .expect(0, "a bundle of level 2 of 2 entries");
    bench
        .run(&format!(
            "proof split bundle.json --entry 0 {keys} --out again.json"
        ))
        .expect(0, "signers");
    bench
        .run(&format!("verify bundle.json again.json {keys}"))
        .expect(0, "valid");
    bench
        .run("proof security --set prod")
        .expect(0, "set prod, merges");
    bench
        .run("slot --scheme xmss --set prod --layers proof/proof --validators 12 --threads 2")
        .expect(0, "Holds");
    bench
        .run(&format!("{aggregate} --out list.json"))
        .expect(0, "signers");
    bench
        .run("proof inspect list.json")
        .expect(2, "a list of signatures");
}

#[test]
fn schemes_without_proofs_say_so() {
    let bench = Bench::new();
    bench
        .run("slot --scheme bls --preset fast --validators 4")
        .expect(2, "has no presets");
    bench
        .run("aggregate votes --preset small --out x.json")
        .expect(2, "has no presets");
}

#[test]
fn the_security_of_each_preset_is_computed() {
    let bench = Bench::new();
    bench
        .run("proof security --json security.json")
        .expect(0, "least of all");
    let report = bench.json("security.json");
    for case in report["cases"].as_array().unwrap() {
        let least = case["security_bits"].as_f64().unwrap();
        assert!((122.0..124.0).contains(&least), "{case}");
        let terms = case["terms"].as_array().unwrap();
        assert!(terms.iter().all(|t| t["bits"].as_f64().unwrap() >= least));
    }
    assert_eq!(
        report["cases"].as_array().unwrap().len(),
        3,
        "two presets, and merges"
    );
    assert_eq!(report["assumptions"].as_array().unwrap().len(), 9);
}

/// What the lecture's formulas give, computed by a script that knows nothing of the program.
#[test]
fn the_security_is_that_of_the_lecture() {
    let bench = Bench::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/accounting.py");
    let account = |file: &str| {
        let mut python = Command::new("python3");
        python.arg(script).arg(bench.path(file)).output()
    };
    for set in ["compact", "prod"] {
        bench
            .run(&format!("proof security --set {set} --json security.json"))
            .expect(0, "least of all");
        let Ok(output) = account("security.json") else {
            eprintln!("no python3: the account is not compared");
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(&format!("{set}, small: ")), "{said}");
    }
    // It would say so: a tenth of a bit is enough.
    let mut report = bench.json("security.json");
    let bits = &mut report["cases"][0]["terms"][0]["bits"];
    *bits = json!(bits.as_f64().unwrap() + 0.11);
    fs::write(bench.path("other.json"), report.to_string()).unwrap();
    assert_eq!(account("other.json").unwrap().status.code(), Some(1));
}

#[test]
fn a_slot_with_proofs_is_accepted_and_says_its_form() {
    let bench = Bench::new();
    let slot = "slot --scheme xmss --validators 12 --threads 2 --json";
    bench.run(&format!("{slot} proofs.json")).expect(0, "");
    assert_eq!(bench.json("proofs.json")["config"]["layers"], "list/proof");
    bench
        .run(&format!("{slot} lists.json --layers list/list"))
        .expect(0, "");
    assert_eq!(bench.json("lists.json")["config"]["layers"], "list/list");
}

/// Draws and rules are the same for each scheme, so the counts are; only times and bytes differ.
#[test]
fn an_attack_takes_as_much_from_each_scheme() {
    let bench = Bench::new();
    let counts = |scheme: &str| -> Vec<Value> {
        bench
            .run(&format!(
                "slot --griefing --scheme {scheme} --validators 24 --aggregators 6 --eve 0.25 \
                 --malicious 0.5 --misses 0 --threads 2 --json attack.json --cover best1,union"
            ))
            .expect(0, "All signatures verify. The union loses no honest vote.");
        let report = bench.json("attack.json");
        let mut cases = report["cases"].as_array().unwrap().clone();
        for case in &mut cases {
            let case = case.as_object_mut().unwrap();
            case.retain(|name, _| !name.ends_with("_s"));
        }
        cases
    };
    let sums = counts("bls");
    assert_eq!(sums.len(), 4, "two plays, two rules");
    assert!(sums[0]["votes_lost"].as_u64().unwrap() > 0, "{}", sums[0]);
    for case in &sums {
        let of = |name: &str| case[name].as_u64().unwrap();
        assert_eq!((of("votes_cast"), of("votes_honest")), (24, 18));
        assert_eq!(of("votes_counted") < 24, of("votes_lost") > 0);
        assert!(case["cover"] != "union" || of("votes_lost") == 0, "{case}");
    }
    assert_eq!(counts("xmss --layers list/list"), sums);
    assert_eq!(counts("falcon --layers list/list"), sums);
    bench
        .run(
            "slot --griefing --scheme xmss --layers list/list --validators 24 --malicious 1 \
             --cover union",
        )
        .expect(1, "honest votes are lost under union");
}

#[test]
fn the_bench_measures_and_writes_a_cost_table() {
    let bench = Bench::new();
    let line = "bench proof --n 3 --threads 1 --runs 1 --json proof.json --emit-costs costs.json";
    bench.run(line).expect(0, "verify list");
    let case = &bench.json("proof.json")["cases"][0];
    assert_eq!(case["n_signatures"], 3);
    assert!(case["prove_ms"]["p50"].as_f64().unwrap() > 0.0);
    let costs = bench.json("costs.json");
    assert_eq!(costs["abilities"]["layers"], json!(["list", "proof"]));
    let op = |name| move |row: &&Value| row["op"] == name;
    let ops = costs["ops"].as_array().unwrap();
    assert!(ops.iter().any(|row| op("collect")(&row)));
    // Merges are measured, of two and of seven; a merge is no proof of all signatures again.
    let merges: Vec<&Value> = ops.iter().filter(op("merge")).collect();
    let sizes = merges
        .iter()
        .map(|row| (row["n"].as_u64(), row["m"].as_u64()));
    assert!(sizes.eq([(Some(2), Some(0)), (Some(7), Some(0))]));
    assert!(merges.iter().all(|row| row["ns"].as_u64() > Some(0)));
    let merged = &costs["merged"];
    assert!(merged["verify_ns"].as_u64() > Some(0) && merged["bytes"].as_u64() > Some(33));
    let line = "bench proof --children 2 --n 900";
    bench
        .run(line)
        .expect(2, "a proof to merge of the set compact takes at most 768");
}

/// Fourteen cells are proved and merged, in minutes.
#[cfg(feature = "soak")]
#[test]
fn a_table_of_cells_as_proofs_has_what_merges_and_bundles_take() {
    let bench = Bench::new();
    let line = "bench proof --n 3 --entries 2,8 --threads 1 --runs 1 --emit-costs costs.json";
    bench.run(line).expect(0, "verify list");
    let costs = bench.json("costs.json");
    let abilities = &costs["abilities"];
    assert_eq!(abilities["layers"], json!(["proof", "proof"]));
    assert_eq!(abilities["bundle_max"], 49);
    let ops = costs["ops"].as_array().unwrap();
    let rows = |name: &str| -> Vec<[u64; 3]> {
        let of = ops.iter().filter(|row| row["op"] == name);
        let cells = of.map(|row| ["n", "m", "ns"].map(|key| row[key].as_u64().unwrap()));
        cells.collect()
    };
    let sizes = |name: &str| -> Vec<u64> { rows(name).iter().map(|row| row[0]).collect() };
    assert_eq!(sizes("aggregate"), [1, 3, 64]);
    // Of proofs of cells, and of merges.
    assert_eq!(sizes("collect"), [1, 2, 2, 7, 7, 8, 8, 14, 14]);
    assert_eq!(sizes("bundle"), [2, 8]);
    assert_eq!(sizes("verify_bundle"), [2, 8]);
    // A merge takes longer than a look at one, and eight pieces are two levels of merges.
    let collect = rows("collect");
    assert!(collect[1][2] > collect[0][2] && collect[5][2] > collect[3][2]);
    let (bundle, verify) = (rows("bundle"), rows("verify_bundle"));
    assert!(bundle[0][2] > verify[0][2] && verify[0][2] > 0);
}

#[test]
fn only_one_preset_has_a_table_of_cells() {
    let bench = Bench::new();
    let line = "bench proof --preset small --entries 2 --emit-costs costs.json";
    let why = "only proofs under the preset fast are merged or bundled";
    bench.run(line).expect(2, why);
}
