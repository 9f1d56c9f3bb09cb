//! Files of Falcon keys without salts: a mark next to the key lets it sign once in a slot.

mod bench;

use bench::{Bench, Ended};
use serde_json::json;
use std::fs;

const ROOT: &str = "0x5656565656565656565656565656565656565656565656565656565656565656";
const OTHER: &str = "0x7878787878787878787878787878787878787878787878787878787878787878";
const SLOT: &str = "--scheme falcon --flavour slot";
const KEY: &str = "keys/keystore-0.json";
const PASSWORD: &str = "--password-file password";

fn sign(bench: &Bench, key: &str, slot: u64, message: &str) -> Ended {
    let out = format!("{}.json", fs::read_dir(bench.path(".")).unwrap().count());
    bench.run(&format!(
        "sign --key {key} {PASSWORD} --slot {slot} --message {message} --out {out}"
    ))
}

#[test]
fn votes_lists_and_proofs_have_no_salts() {
    let bench = Bench::new();
    bench
        .run(&format!("keys new {SLOT} --out keys --count 3 --interop 0"))
        .expect(0, "3 keys");
    let keys = "keys/interop-0.json keys/interop-1.json keys/interop-2.json";
    let all = |slot: u64| {
        bench.run(&format!(
            "sign --key {keys} --slot {slot} --message {ROOT} --out-dir votes-{slot}"
        ))
    };
    all(7).expect(0, "interop-2.signature.json");
    let vote = bench.json("votes-7/interop-0.signature.json");
    assert_eq!(vote["scheme"], "falcon-slot");
    assert_eq!(vote["slot"], 7);
    let bytes = |value: &serde_json::Value| (value.as_str().unwrap().len() - 2) / 2;
    assert_eq!(bytes(&vote["signature"]), 626);
    let aggregate = |form: &str| {
        bench
            .run(&format!(
                "aggregate --form {form} votes-7 --keys keys/public-keys.json --out {form}.json"
            ))
            .expect(0, form);
        bytes(&bench.json(&format!("{form}.json"))["signature"])
    };
    assert_eq!(aggregate("list"), 1 + 3 * 626);
    // As many bytes as the pinned proof of three has in this flavour, give or take its entropy code.
    let proof = aggregate("proof");
    assert!((37_200..37_800).contains(&proof), "{proof}");
    bench
        .run("verify list.json proof.json votes-7 --keys keys/public-keys.json")
        .expect(0, "valid");
    // The slot is part of what was signed, in all three.
    for name in ["votes-7/interop-0.signature", "list", "proof"] {
        let mut file = bench.json(&format!("{name}.json"));
        file["slot"] = json!(8);
        fs::write(bench.path("changed.json"), file.to_string()).unwrap();
        bench
            .run("verify changed.json --keys keys/public-keys.json")
            .expect(1, "");
    }
    // XMSS would make this signature again; here nothing is signed again.
    fs::remove_dir_all(bench.path("votes-7")).unwrap();
    all(7).expect(1, "slot 7 is refused: the first free slot is 8");
    all(6).expect(1, "slot 6 is refused");
    all(8).expect(0, "");
}

/// What a copy or a backup of a key asks for is refused as with XMSS.
#[test]
fn a_copy_or_a_backup_of_a_key_signs_nothing() {
    let mut bench = Bench::new();
    bench
        .run(&format!(
            "keys new {SLOT} --out keys --kdf-cost 10 {PASSWORD}"
        ))
        .expect(0, "1 key");
    sign(&bench, KEY, 5, ROOT).expect(0, "");
    for name in ["json", "mark"] {
        let file = bench.path(&format!("keys/keystore-0.{name}"));
        fs::copy(file, bench.path(&format!("copy.{name}"))).unwrap();
    }
    sign(&bench, KEY, 6, ROOT).expect(0, "");
    // The attack: the same slot and message from the copy, by another program or machine.
    sign(&bench, "copy.json", 6, ROOT).expect(1, "signed up to slot 6");
    let back = |from: &str, to: &str| fs::copy(bench.path(from), bench.path(to)).unwrap();
    back("keys/keystore-0.mark", "newest");
    back("copy.mark", "keys/keystore-0.mark");
    sign(&bench, KEY, 6, ROOT).expect(1, "put back from a backup");
    let import = |bench: &Bench, rest: &str| {
        bench.run(&format!(
            "keys import {KEY} --out {KEY} {PASSWORD} --kdf-cost 10 --force{rest}"
        ))
    };
    import(&bench, "").expect(1, "keys import --floor");
    import(&bench, " --floor 3").expect(0, KEY);
    sign(&bench, KEY, 6, ROOT).expect(1, "the first free slot is 7");
    sign(&bench, KEY, 7, ROOT).expect(0, "");
    // Without any mark, and on another machine, nothing records which slots the key has signed.
    back("keys/keystore-0.mark", "newest");
    fs::remove_file(bench.path("keys/keystore-0.mark")).unwrap();
    sign(&bench, KEY, 8, ROOT).expect(2, "there is no mark");
    back("newest", "keys/keystore-0.mark");
    bench.state = "other-state".to_owned();
    sign(&bench, KEY, 8, OTHER).expect(1, "this user never signed with the key");
}

#[test]
fn wrong_options_are_named() {
    let bench = Bench::new();
    for (line, words) in [
        (
            format!("keys new {SLOT} --out k --interop 0 --slots 4"),
            "--slots: a key of falcon-slot signs in all slots",
        ),
        (
            format!("keys new {SLOT} --out k --interop 0 --first-slot 4"),
            "--first-slot: a key of falcon-slot signs in all slots",
        ),
        (
            "keys new --scheme falcon --flavour salted --out k --interop 0".to_owned(),
            "expected fndsa04, r3 or slot",
        ),
        (
            "compare --scheme bls,xmss --flavour slot --validators 4".to_owned(),
            "--flavour slot",
        ),
    ] {
        bench.run(&line).expect(2, words);
    }
    bench
        .run(&format!("keys new {SLOT} --out k --interop 0"))
        .expect(0, "1 key");
    let sign = "sign --key k/interop-0.json --out x.json";
    bench
        .run(&format!("{sign} --message {ROOT}"))
        .expect(2, "falcon-slot signs once in each slot");
    bench
        .run(&format!("{sign} --slot 5 --text hello"))
        .expect(2, "");
    bench
        .run(&format!("{sign} --slot 9007199254740992 --message {ROOT}"))
        .expect(2, "must be below 9007199254740992");
    assert!(!bench.path("x.json").exists());
}

/// A slot of each flavour: every vote is in the block, and the report names the flavour.
#[test]
fn a_slot_has_votes_of_every_flavour() {
    let bench = Bench::new();
    for flavour in ["fndsa04", "r3", "slot"] {
        bench
            .run(&format!(
                "slot --scheme falcon --flavour {flavour} --validators 16 --json {flavour}.json"
            ))
            .expect(0, "");
        let report = bench.json(&format!("{flavour}.json"));
        assert_eq!(report["config"]["flavour"], flavour);
    }
}
