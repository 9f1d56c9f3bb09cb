//! Slots of one to four levels with real signatures, and layouts that cannot be.

mod bench;

use bench::Bench;
use serde_json::{Value, json};

/// The JSON object of a slot whose votes are all in the block.
#[track_caller]
fn slot(options: &str) -> Value {
    let bench = Bench::new();
    bench
        .run(&format!("slot --threads 2 --json slot.json {options}"))
        .expect(0, "every vote that was cast is counted");
    let slot = bench.json("slot.json");
    assert_eq!(slot["votes_in_block"], slot["config"]["validators"]);
    slot
}

/// The operations of a stage of a slot.
fn ops(slot: &Value, stage: &str) -> Vec<String> {
    let steps = slot["steps"].as_array().unwrap().iter();
    let of_stage = steps.filter(|step| step["stage"] == stage);
    of_stage
        .map(|step| step["op"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn three_levels_of_sums() {
    let three = slot("--validators 96 --committees 2 --fan-out 2,3");
    assert_eq!(three["config"]["fan_out"], json!([2, 3]));
    assert_eq!(three["config"]["subcommittees"], 6);
    for stage in ["collect", "collect_3"] {
        let ops = ops(&three, stage);
        assert!(ops.contains(&"collect".to_owned()), "{stage}: {ops:?}");
    }
    assert_eq!(three["cross_checked"]["differences"], 0);
    let four = slot("--validators 96 --committees 1 --fan-out 2,2,2 --participation 1");
    assert!(ops(&four, "collect_4").contains(&"collect".to_owned()));
}

#[test]
fn protocols_of_one_level_two_and_three() {
    for (name, options, levels, timing) in [
        ("today", "--validators 256 --committees 4", 1, "today"),
        ("strawman", "--validators 256 --committees 16", 1, "today"),
        (
            "horn",
            "--validators 256 --committees 2 --subcommittees 4",
            2,
            "horn",
        ),
        (
            "horn-pq",
            "--validators 256 --committees 2 --fan-out 2,4",
            3,
            "horn-pq",
        ),
    ] {
        let slot = slot(&format!("--protocol {name} {options}"));
        let config = &slot["config"];
        assert_eq!(config["protocol"], name);
        assert_eq!(config["timing"], timing);
        assert_eq!(config["fan_out"].as_array().unwrap().len() + 1, levels);
        // With one level what is made of votes goes to everybody.
        assert_eq!(slot["aggregates"] == 0, levels == 1, "{name}");
        assert_eq!(ops(&slot, "collect").is_empty(), levels == 1, "{name}");
    }
}

#[test]
fn three_levels_of_lists_and_proofs() {
    let lists =
        slot("--scheme xmss --layers list/list --validators 24 --committees 2 --fan-out 2,2");
    assert!(lists["bytes"]["collection"].as_u64() > lists["bytes"]["block"].as_u64());
    // Groups are proofs, which the committee merges.
    slot("--scheme xmss --validators 24 --committees 1 --fan-out 2,2");
    let merged = slot(
        "--protocol horn-pq --scheme xmss --layers proof/proof --validators 16 --committees 1 \
         --fan-out 2,2",
    );
    assert!(ops(&merged, "collect_3").contains(&"collect".to_owned()));
    has_one_proof(&merged, 1);
    // Proofs that do not merge are made of the lists of groups.
    let falcon = slot("--scheme falcon --validators 24 --committees 1 --fan-out 2,2");
    assert!(ops(&falcon, "collect").contains(&"aggregate".to_owned()));
    assert!(ops(&falcon, "collect_3").contains(&"collect".to_owned()));
}

/// Proofs that merge are bundled: the block has one, of all its collections, which both nodes verify.
#[track_caller]
fn has_one_proof(slot: &Value, entries: u64) {
    let block = &slot["block"];
    assert_eq!(block["entries"], entries);
    assert_eq!(block["accepted_nodes"], 2);
    let bytes = |of: &str| block[of].as_u64().unwrap();
    assert!(bytes("bundle_bytes") > 100_000, "{block}");
    assert!(bytes("bytes") < bytes("bundle_bytes") + 4_000, "{block}");
    for op in ["bundle", "verify_bundle"] {
        assert!(ops(slot, "block").contains(&op.to_owned()), "{op}");
    }
}

#[test]
fn a_block_has_one_proof_of_all_collections() {
    let proofs =
        "--scheme xmss --layers proof/proof --validators 12 --committees 2 --subcommittees 1";
    has_one_proof(&slot(proofs), 2);
    // Not every protocol has it.
    let own = slot(&format!("{proofs} --protocol horn"));
    assert_eq!(
        (&own["block"]["entries"], &own["block"]["bundle_bytes"]),
        (&json!(2), &json!(0))
    );
}

#[test]
fn layouts_that_cannot_be_are_refused() {
    let bench = Bench::new();
    for (options, words) in [
        ("--fan-out 8,0", "must be numbers from 1 as in 8,8, or none"),
        ("--fan-out eight", "must be numbers from 1"),
        ("--fan-out 2,2,2,2", "levels = 5, must be 1 to 4"),
        ("--fan-out 32,32", "subcommittees = 1024, must be 1 to 256"),
        ("--fan-out 2,2 --subcommittees 4", "cannot be used with"),
        ("--protocol beacon", "today, strawman, horn, horn-pq"),
        (
            "--protocol horn --committees 2 --fan-out 8,8",
            "with 3 levels: it has 2",
        ),
        (
            "--protocol strawman",
            "at most the number of validators, 64",
        ),
        (
            "--timing horn --fan-out 2,2",
            "timing of 2 levels, the layout has 3",
        ),
        (
            "--fan-out none --cover best1",
            "nothing is combined on one level",
        ),
        (
            "--fan-out 2,2 --cover best1 --multiplicity 15 --timing today",
            "timing of 1 levels",
        ),
        ("--griefing --fan-out 2,2", "--griefing with 3 levels"),
        (
            "--scheme xmss --preset small --fan-out 2,2",
            "merge proofs of groups under this preset",
        ),
        (
            "--scheme xmss --layers proof/proof --fan-out 8,8,4",
            "merge proofs as often as this layout asks for",
        ),
    ] {
        bench
            .run(&format!("slot --validators 64 {options}"))
            .expect(2, words);
    }
}

/// The folder has each proof of the first run; the second makes none.
#[test]
fn a_slot_of_proofs_goes_on_from_its_folder() {
    let bench = Bench::new();
    let line = "slot --threads 2 --scheme xmss --layers proof/proof --validators 16 --committees 1 \
                --fan-out 2 --resume proofs";
    bench
        .run(&format!("{line} --json first.json"))
        .expect(0, "Holds");
    let files = || {
        let mut names: Vec<_> = (std::fs::read_dir(bench.path("proofs")).unwrap())
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let (made, first) = (files(), bench.json("first.json"));
    assert_eq!(first["evidence_loaded"], 0);
    assert!(made.len() >= 3, "two cells and a committee: {made:?}");
    bench
        .run(&format!("{line} --json again.json"))
        .expect(0, "of an earlier run");
    let again = bench.json("again.json");
    assert_eq!(again["evidence_loaded"], made.len());
    assert_eq!(again["digest"], first["digest"]);
    assert_eq!(files(), made);
    bench
        .run("slot --validators 64 --resume first.json")
        .expect(2, "no folder to keep proofs in");
}

#[test]
fn a_stranger_verifies_the_block_of_a_slot_by_its_evidence_and_the_keys_alone() {
    let bench = Bench::new();
    let line = "slot --threads 2 --scheme xmss --layers proof/proof --protocol horn-pq --validators 16 \
                --committees 2 --fan-out 2,2";
    bench
        .run(&format!("{line} --blocks blocks.json --json slot.json"))
        .expect(0, "Holds");
    bench
        .run(&format!("{line} --verify blocks.json --json verified.json"))
        .expect(0, "16 of 16");
    let (slot, verified) = (bench.json("slot.json"), bench.json("verified.json"));
    assert!(slot["block"]["bundle_bytes"].as_u64().unwrap() > 100_000);
    for field in ["bytes", "bundle_bytes"] {
        assert_eq!(verified["block"][field], slot["block"][field]);
    }
    assert_eq!(verified["coverage_exact"], true);
    bench
        .run(&format!("{line} --seed 2 --verify blocks.json"))
        .expect(2, "made with --seed 1, not 2");
    bench
        .run(&format!("{line} --participation 0.5 --verify blocks.json"))
        .expect(2, "made with participation");
    // Another proof of as many bytes: the one of the file, with one byte changed.
    let text = std::fs::read_to_string(bench.path("blocks.json")).unwrap();
    let middle = text.len() / 2;
    let other = if &text[middle..=middle] == "A" {
        "B"
    } else {
        "A"
    };
    let forged = [&text[..middle], other, &text[middle + 1..]].concat();
    std::fs::write(bench.path("forged.json"), forged).unwrap();
    bench
        .run(&format!("{line} --verify forged.json"))
        .expect(1, "block");
}

/// The block of `just million-pq` that is kept: with it nobody need trust a number of the documents.
fn recorded(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/epyc-zen4-2");
    format!("{folder}/{name}")
}

#[test]
fn the_block_of_a_million_is_the_one_that_was_measured() {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use sha2::{Digest as _, Sha256};
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(recorded(name)).unwrap()).unwrap()
    };
    let blocks = read("million-pq.blocks.json");
    let last = blocks["blocks"].as_array().unwrap().last().unwrap();
    let bytes = BASE64_STANDARD.decode(last.as_str().unwrap()).unwrap();
    assert!(bytes.len() < 250_000, "{} bytes", bytes.len());
    for name in ["million-pq.json", "million-pq-verify.json"] {
        let run = &read(name)["runs"][0];
        assert_eq!(run["votes_in_block"], 1 << 20, "{name}");
        assert_eq!(run["block"]["bytes"], bytes.len(), "{name}");
    }
    let verified = &read("million-pq-verify.json")["runs"][0];
    assert_eq!(
        verified["block"]["sha256"],
        hex::encode(Sha256::digest(&bytes))
    );
}

/// Some minutes, most of them for the public keys of a million validators.
#[test]
#[cfg(feature = "soak")]
fn a_stranger_verifies_the_block_of_a_million() {
    let blocks = recorded("million-pq.blocks.json");
    let line = "slot --scheme xmss --layers proof/proof --protocol horn-pq --validators 2^20";
    let bench = Bench::new();
    bench
        .run(&format!("{line} --verify {blocks}"))
        .expect(0, "1,048,576 of 1,048,576");
}
