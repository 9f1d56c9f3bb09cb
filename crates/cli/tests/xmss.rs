//! XMSS as a file tool, from outside: the built binary, and slots that are never signed twice.

mod bench;
mod file_tool;

use bench::Bench;
use file_tool::{ROOT, changed, vote, votes};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const OTHER: &str = "0x7878787878787878787878787878787878787878787878787878787878787878";
const TEST: &str = " --scheme xmss --set test";

#[test]
fn from_new_keys_to_a_verdict() {
    for (set, bytes) in [("compact", 1171), ("prod", 2536), ("test", 424)] {
        let bench = Bench::new();
        let scheme = format!("--scheme xmss --set {set}");
        bench
            .run(&format!(
                "keys new {scheme} --out keys --count 2 --slots 20 --first-slot 5 \
                 --password-file password --kdf-cost 10 --json new.json"
            ))
            .expect(
                0,
                "2 keys in keys: keystore-0.json to keystore-1.json, public keys in",
            );
        for (name, mode) in [("json", 0o600), ("mark", 0o600), ("tree", 0o644)] {
            let path = bench.path(&format!("keys/keystore-1.{name}"));
            let found = fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(found & !0o044, mode & !0o044, "{name}");
        }
        let report = bench.json("new.json");
        assert_eq!(report["config"]["slots"], json!({"first": 5, "end": 25}));
        let public_key = report["public_keys"][1].as_str().unwrap().to_owned();
        let list = bench.run("keys list keys");
        list.expect(0, &public_key);
        let inspect = "keys inspect keys/keystore-1.json";
        bench
            .run(inspect)
            .expect(0, &format!("xmss-{set}, slots 5 to 24"));
        bench
            .run_with(
                &format!(
                    "sign --key keys/keystore-0.json keys/keystore-1.json \
                     --password-file - --message {ROOT} --slot 9 --out-dir votes"
                ),
                "correct horse",
            )
            .expect(0, "votes/keystore-1.signature.json");
        bench
            .run(&format!("{inspect} --json inspect.json"))
            .expect(0, "slot next");
        assert_eq!(bench.json("inspect.json")["slot_next"], 10);
        let signature = bench.json("votes/keystore-1.signature.json");
        assert_eq!(signature["scheme"], format!("xmss-{set}"));
        assert_eq!(signature["slot"], 9);
        assert_eq!(
            signature["signature"].as_str().unwrap().len(),
            2 + 2 * bytes
        );
        bench.run("verify votes").expect(0, "valid");
        for (keys, name) in [("", "listed"), (" --keys keys/public-keys.json", "placed")] {
            bench
                .run(&format!("aggregate votes{keys} --out {name}.json"))
                .expect(0, "2 signers");
            let list = bench.json(&format!("{name}.json"));
            let text = list["signature"].as_str().unwrap();
            assert_eq!(text.len(), 2 + 2 * (1 + 2 * bytes));
        }
        bench
            .run(
                "verify listed.json placed.json keys/public-keys.json --keys keys/public-keys.json",
            )
            .expect(0, "valid");
        // A list needs no proofs of possession; positions need their registry.
        bench.run("verify listed.json").expect(0, "valid");
        bench
            .run("verify placed.json")
            .expect(2, "no file of --keys");
        // Whoever asks for another scheme is told which one it is, in words that --scheme takes.
        let words = format!("of --scheme xmss --set {set}, not of --scheme bls");
        for line in ["verify listed.json", "keys list keys"] {
            bench.run(&format!("{line} --scheme bls")).expect(2, &words);
        }
    }
}

#[test]
fn no_slot_is_signed_twice() {
    let bench = Bench::new();
    bench.votes(TEST, &format!("{TEST} --slot 7"));
    let sign = |slot: u64, message: &str, out: &str| {
        bench.run(&format!(
            "sign{TEST} --key keys/interop-0.json --slot {slot} --message {message} --out {out}"
        ))
    };
    // The same message again gives the same signature; another message or an older slot does not.
    sign(7, ROOT, "again.json").expect(0, "again.json");
    assert_eq!(bench.json("again.json"), bench.json(&vote(0)));
    sign(7, OTHER, "x.json").expect(1, "the first free slot is 8");
    sign(6, ROOT, "x.json").expect(1, "slot 6 is refused");
    sign(64, ROOT, "x.json").expect(2, "slot 64: the key signs in slots 0 to 63");
    sign(256, ROOT, "x.json").expect(2, "slot 256: must be below 256");
    sign(8, OTHER, "next.json").expect(0, "next.json");
    // Making the key again puts nothing back, and a lost mark is not replaced by an empty one.
    bench
        .run(&format!("keys new --out keys --interop 0 --force{TEST}"))
        .expect(0, "1 key");
    sign(8, ROOT, "x.json").expect(1, "the first free slot is 9");
    fs::copy(
        bench.path("keys/interop-1.mark"),
        bench.path("keys/interop-0.mark"),
    )
    .unwrap();
    sign(9, ROOT, "x.json").expect(2, "the marks of another key");
    fs::write(bench.path("keys/interop-0.mark"), "AXW1").unwrap();
    sign(9, ROOT, "x.json").expect(2, "the checksum does not fit");
    fs::remove_file(bench.path("keys/interop-0.mark")).unwrap();
    sign(9, ROOT, "x.json").expect(2, "there is no mark");
    assert!(!bench.path("x.json").exists());
    // A report never goes over a mark.
    bench
        .run(&format!("verify votes{TEST} --json keys/interop-1.mark"))
        .expect(2, "a key is there");
}

/// Whatever refuses or cannot be written is noticed before the first slot is used.
#[test]
fn no_slot_is_lost_to_a_signature_that_cannot_be_made() {
    let bench = Bench::new();
    bench
        .run(&format!("keys new --out keys --interop 0 --count 3{TEST}"))
        .expect(0, "3 keys");
    let key = |i: usize| format!("keys/interop-{i}.json");
    let slot_next = |i: usize| {
        bench
            .run(&format!("keys inspect {} --json inspect.json", key(i)))
            .expect(0, "slot next");
        bench.json("inspect.json")["slot_next"].clone()
    };
    let sign = |keys: &str, place: &str| {
        bench.run(&format!(
            "sign --key {keys} --slot 5 --message {ROOT} {place}"
        ))
    };
    let all = [key(0), key(1), key(2)].join(" ");
    fs::write(bench.path("taken.json"), "").unwrap();
    for (place, words) in [
        ("--out nowhere/vote.json", "cannot write nowhere/vote.json"),
        ("--out /proc/vote.json", "cannot write /proc/vote.json"),
        ("--out taken.json", "taken.json exists"),
        ("--out-dir password", "cannot create the folder password"),
        (
            "--out-dir /proc/votes",
            "cannot create the folder /proc/votes",
        ),
    ] {
        sign(&key(0), place).expect(2, words);
    }
    let twice = format!("{} {}", key(0), key(0));
    sign(&twice, "--out-dir votes").expect(2, "would be the signature of two keys");
    // Of three keys the last has signed another message, then has no mark.
    bench
        .run(&format!(
            "sign --key {} --slot 5 --message {OTHER} --out other.json",
            key(2)
        ))
        .expect(0, "other.json");
    sign(&all, "--out-dir votes").expect(1, "interop-2.json: slot 5 is refused");
    let (mark, aside) = (bench.path("keys/interop-2.mark"), bench.path("aside"));
    fs::rename(&mark, &aside).unwrap();
    sign(&all, "--out-dir votes").expect(2, "there is no mark");
    fs::rename(&aside, &mark).unwrap();
    // A full disk: no file may have more than a block.
    let full = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"])
        .args([env!("CARGO_BIN_EXE_alphorn"), "sign", "--key", &key(0)])
        .args(["--slot", "5", "--message", ROOT, "--out", "full.json"])
        .current_dir(bench.path("."))
        .output()
        .unwrap();
    let words = String::from_utf8(full.stderr).unwrap();
    assert_eq!(full.status.code(), Some(2), "{words}");
    assert!(words.contains("cannot write full.json"), "{words}");
    assert_eq!([slot_next(0), slot_next(1), slot_next(2)], [0, 0, 6]);
    assert_eq!(fs::read_dir(bench.path("votes")).unwrap().count(), 0);
    assert!(!bench.path("full.json").exists());
    let two = [key(0), key(1)].join(" ");
    sign(&two, "--out-dir new/votes").expect(0, "new/votes/interop-1.signature.json");
    bench.run("verify new/votes").expect(0, "valid");
    assert_eq!([slot_next(0), slot_next(1)], [6, 6]);
}

/// The list of a network has two keys of each validator, also if it is joined from keystores.
#[test]
fn keys_for_duties_are_joined_to_those_of_votes() {
    let bench = Bench::new();
    let password = "--password-file password";
    bench
        .run(&format!(
            "keys new{TEST} --out keys --count 2 --slots 2 --duties --kdf-cost 10 {password}"
        ))
        .expect(0, "each with one for duties");
    let made = bench.json("keys/public-keys.json");
    fs::remove_file(bench.path("keys/public-keys.json")).unwrap();
    bench
        .run(&format!(
            "keys inspect keys --pop {password} --out all.json"
        ))
        .expect(0, "all.json: public keys: 2");
    assert_eq!(bench.json("all.json"), made);
    bench
        .run(&format!(
            "keys inspect keys/keystore-1-duty.json --pop {password} --out x.json"
        ))
        .expect(2, "a key for duties: name the key for votes beside it");
    assert!(!bench.path("x.json").exists());
}

#[test]
fn a_tree_that_is_lost_is_made_again_and_a_damaged_one_is_named() {
    let bench = Bench::new();
    bench
        .run(&format!(
            "keys new{TEST} --out keys --slots 30 --password-file password --kdf-cost 10"
        ))
        .expect(0, "1 key");
    let tree = bench.path("keys/keystore-0.tree");
    let sign = |slot: u64| {
        bench.run(&format!(
            "sign{TEST} --key keys/keystore-0.json --password-file password --slot {slot} \
             --message {ROOT} --out {slot}.json"
        ))
    };
    let mut content = fs::read(&tree).unwrap();
    content[60] ^= 1;
    fs::write(&tree, &content).unwrap();
    sign(1).expect(2, "keystore-0.tree: if it is removed, it is made again");
    fs::remove_file(&tree).unwrap();
    sign(2).expect(0, "2.json");
    bench
        .run(&format!("verify 2.json{TEST}"))
        .expect(0, "valid");
}

#[test]
fn a_key_moves_and_signs_in_one_place_only() {
    let bench = Bench::new();
    let key = "--password-file password --kdf-cost 10";
    bench
        .run(&format!("keys new{TEST} --out keys --slots 40 {key}"))
        .expect(0, "1 key");
    let sign = |name: &str, slot: u64| {
        bench.run(&format!(
            "sign{TEST} --key {name} --password-file password --slot {slot} --message {ROOT} \
             --out {slot}.json"
        ))
    };
    sign("keys/keystore-0.json", 3).expect(0, "3.json");
    let import = |from: &str, to: &str, floor: &str| {
        bench.run(&format!("keys import{TEST} {from} --out {to} {key}{floor}"))
    };
    import("keys/keystore-0.json", "moved.json", "").expect(0, "moved.json");
    sign("keys/keystore-0.json", 5).expect(1, "the key moved elsewhere");
    bench
        .run(&format!("keys inspect keys/keystore-0.json{TEST}"))
        .expect(0, "moved elsewhere");
    sign("moved.json", 2).expect(1, "the first free slot is 4");
    sign("moved.json", 5).expect(0, "5.json");
    // A copy without a mark: from an export, or where the mark is spent.
    bench
        .run(&format!(
            "keys export{TEST} moved.json --password-file password --new-password-file password \
             --out copy.json --kdf-cost 10"
        ))
        .expect(0, "copy.json");
    sign("copy.json", 9).expect(2, "there is no mark");
    import("copy.json", "back.json", "").expect(2, "give --floor SLOT");
    import("keys/keystore-0.json", "back.json", "").expect(2, "give --floor SLOT");
    import("copy.json", "back.json", " --floor 256").expect(2, "must be below 256");
    assert!(!bench.path("back.json").exists() && !bench.path("back.mark").exists());
    import("copy.json", "back.json", " --floor 20").expect(0, "back.json");
    sign("back.json", 19).expect(1, "the first free slot is 20");
    sign("back.json", 20).expect(0, "20.json");
}

#[test]
fn lists_merge_to_their_union() {
    let bench = Bench::new();
    bench.votes(TEST, &format!("{TEST} --slot 7"));
    for (keys, name) in [("", "listed"), (" --keys keys/public-keys.json", "placed")] {
        for (part, range) in [("a", 0..5), ("b", 3..8), ("all", 0..8)] {
            bench
                .run(&format!(
                    "aggregate{TEST} {}{keys} --out {name}-{part}.json",
                    votes(range)
                ))
                .expect(0, "signers");
        }
        bench
            .run(&format!(
                "merge{TEST} {name}-a.json {name}-b.json {name}-a.json --out {name}-ab.json"
            ))
            .expect(0, "8 signers, greatest multiplicity 1");
        assert_eq!(
            bench.json(&format!("{name}-ab.json")),
            bench.json(&format!("{name}-all.json"))
        );
        bench
            .run(&format!(
                "verify{TEST} {name}-ab.json --keys keys/public-keys.json"
            ))
            .expect(0, "valid");
    }
}

#[test]
fn a_tampered_file_is_noticed_in_every_field() {
    let bench = Bench::new();
    bench.votes(TEST, &format!("{TEST} --slot 7"));
    let name = vote(2);
    let (file, other) = (bench.json(&name), bench.json(&vote(5)));
    let long = |bytes: usize| json!(format!("0x{}", "ff".repeat(bytes)));
    for (pointer, value, code, words) in [
        (
            "/scheme",
            json!("bls"),
            2,
            "a file of --scheme bls, not of --scheme xmss --set test",
        ),
        (
            "/public_key",
            other["public_key"].clone(),
            1,
            "does not verify",
        ),
        ("/public_key", long(52), 2, "element 0 is not below p"),
        ("/public_key", long(32), 2, "has 32 bytes: must have 52"),
        ("/slot", json!(8), 1, "does not verify"),
        ("/slot", json!(256), 2, "slot 256: must be below 256"),
        ("/slot", json!(-1), 2, "tampered.json"),
        ("/slot", Value::Null, 2, "xmss-test signs once in each slot"),
        ("/message", changed(&file["message"]), 1, "does not verify"),
        (
            "/message",
            long(31),
            2,
            "31 bytes: xmss-test signs digests of 32",
        ),
        (
            "/signature",
            other["signature"].clone(),
            1,
            "does not verify",
        ),
        ("/signature", changed(&file["signature"]), 1, "verif"),
        (
            "/signature",
            long(424),
            1,
            "offset of path is 4294967295, must be 36",
        ),
        ("/signature", long(425), 2, "has 425 bytes: must have 424"),
    ] {
        let tampered = bench.tampered(&name, pointer, value.clone());
        bench
            .run(&format!("verify{TEST} {tampered}"))
            .expect(code, words);
        let out = format!("aggregate{TEST} {tampered} --out x.json");
        bench.run(&out).expect(code, "");
    }
    bench
        .run(&format!("aggregate{TEST} {} --out list.json", votes(0..3)))
        .expect(0, "3 signers");
    let list = bench.json("list.json");
    let text = list["signature"].as_str().unwrap();
    let swapped = format!("0x00{}{}{}", &text[852..1700], &text[4..852], &text[1700..]);
    for (pointer, value, code, words) in [
        ("/signature", json!(swapped), 1, "signer 0 does not verify"),
        (
            "/signature",
            json!(text.replacen("0x00", "0x01", 1)),
            1,
            "the evidence begins with no header of a proof",
        ),
        (
            "/signature",
            json!(&text[..text.len() - 2]),
            2,
            "has 1272 bytes: must have 1273",
        ),
        ("/slot", json!(8), 1, "signer 0 does not verify"),
        (
            "/signers/0/multiplicity",
            json!(2),
            2,
            "must be from 1 to 1",
        ),
    ] {
        let tampered = bench.tampered("list.json", pointer, value.clone());
        bench
            .run(&format!("verify{TEST} {tampered}"))
            .expect(code, words);
    }
    assert!(!bench.path("x.json").exists());
    let key = bench.json("keys/interop-0.json");
    for (slots, words) in [
        (json!({"first": 0, "end": 257}), "must be some of 0..256"),
        (json!({"first": 9, "end": 9}), "must be some of 0..256"),
        (json!({"first": 0, "end": 63}), "names the public key"),
        (Value::Null, "xmss-test has slots"),
    ] {
        let mut key = key.clone();
        key["slots"] = slots;
        fs::write(bench.path("key.json"), key.to_string()).unwrap();
        bench
            .run(&format!(
                "sign{TEST} --key key.json --slot 9 --message {ROOT} --out x.json"
            ))
            .expect(2, words);
    }
}

#[test]
fn bad_options_name_the_bound() {
    let bench = Bench::new();
    let new = "keys new --out keys --interop 0";
    for (line, words) in [
        (
            format!("{new} --set compact"),
            "--set compact: bls has no sets",
        ),
        (
            format!("{new} --scheme xmss --set large"),
            "expected compact, prod or test",
        ),
        (format!("{new} --slots 4"), "--slots: bls has no slots"),
        (
            format!("{new} --first-slot 4"),
            "--first-slot: bls has no slots",
        ),
        (format!("{new}{TEST} --slots 0"), "allowed are 1 to 256"),
        (format!("{new}{TEST} --slots 257"), "allowed are 1 to 256"),
        (format!("{new}{TEST} --first-slot 256"), "must be below 256"),
        (
            format!("{new}{TEST} --slots 2 --first-slot 255"),
            "slots are below 256",
        ),
        (
            format!("{new} --scheme xmss --slots 1048577"),
            "allowed are 1 to 1048576",
        ),
        (
            "keys new --scheme xmss --out keys --password-file password --slots 268435457".into(),
            "allowed are 1 to 268435456",
        ),
        (
            format!("sign --key password --slot 4 --message {ROOT} --out s"),
            "bls has no slots",
        ),
        (
            format!("sign{TEST} --key password --message {ROOT} --out s"),
            "--slot: no slot",
        ),
        (
            format!("sign{TEST} --key password --slot 1 --text hello --out s"),
            "a message of 5 bytes: xmss-test signs digests of 32",
        ),
    ] {
        bench.run(&line).expect(2, words);
    }
    assert!(!bench.path("keys").exists());
}

/// Kills `sign` at many moments: whatever signatures are left, none shares its slot with another.
#[test]
fn a_killed_signer_leaves_whole_files_and_no_second_signature() {
    let bench = Bench::new();
    bench
        .run(&format!("keys new --out keys --interop 0{TEST}"))
        .expect(0, "1 key");
    let message = |i: u64| format!("{i:064x}");
    for i in 0..24u64 {
        let slot = i / 4;
        let mut child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
            .args(
                format!("sign{TEST} --key keys/interop-0.json")
                    .trim()
                    .split(' '),
            )
            .args(["--slot", &slot.to_string(), "--message", &message(i)])
            .args(["--out", &format!("{i}.json")])
            .current_dir(bench.path("."))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The last of four is left alone, so that each slot is signed or was used up.
        if i % 4 < 3 {
            std::thread::sleep(Duration::from_micros(20_000 + i * 12_361 % 60_000));
            child.kill().ok();
        }
        child.wait().unwrap();
    }
    let mut messages: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for i in 0..24u64 {
        let name = format!("{i}.json");
        if bench.path(&name).exists() {
            bench
                .run(&format!("verify{TEST} {name}"))
                .expect(0, "valid");
            let file = bench.json(&name);
            let message = file["message"].as_str().unwrap().to_owned();
            let slot = file["slot"].as_u64().unwrap();
            messages.entry(slot).or_default().insert(message);
        }
    }
    assert!(!messages.is_empty(), "nothing was signed at all");
    for (slot, messages) in messages {
        assert_eq!(messages.len(), 1, "slot {slot}");
    }
    bench
        .run(&format!(
            "keys inspect keys/interop-0.json{TEST} --json inspect.json"
        ))
        .expect(0, "slot next");
    assert_eq!(bench.json("inspect.json")["slot_next"], 6);
}
