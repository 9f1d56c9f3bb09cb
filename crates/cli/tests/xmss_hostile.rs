//! Files that lie about proofs of XMSS: each is refused in words, by every command that reads it.

mod bench;
mod file_tool;

use alphorn_types::{Bitfield, Coding, Support, support_code};
use bench::Bench;
use file_tool::{changed, votes};
use serde_json::{Value, json};
use std::fs;

const COMPACT: &str = " --scheme xmss";
const KEYS: &str = "--keys keys/public-keys.json";

/// The proof of eight votes, in a file.
fn made() -> (Bench, Value) {
    let bench = Bench::new();
    bench.votes(COMPACT, &format!("{COMPACT} --slot 7"));
    bench
        .run(&format!(
            "aggregate {}{COMPACT} --form proof {KEYS} --out proof.json",
            votes(0..8)
        ))
        .expect(0, "bytes of evidence");
    let proof = bench.json("proof.json");
    (bench, proof)
}

/// Every command that reads a proof, over a file that lies: each ends with 1 or 2 and with words, and none
/// leaves a file. `inspect` checks the form alone, and may accept what says something else.
fn refused(bench: &Bench, what: &str, file: &str, inspected: bool) {
    for (command, may_pass) in [
        (format!("verify {file}{COMPACT} {KEYS}"), false),
        (
            format!("merge {file} proof.json{COMPACT} {KEYS} --out merged.json"),
            false,
        ),
        (format!("proof inspect {file}"), inspected),
    ] {
        let ended = bench.run(&command);
        let text = format!("{what}: {command}: {}{}", ended.stdout, ended.stderr);
        assert!(!text.contains("panicked"), "{text}");
        assert!(
            matches!(ended.code, 1 | 2) || may_pass && ended.code == 0,
            "{} {text}",
            ended.code
        );
        assert!(ended.code == 0 || ended.stderr.len() > 10, "{text}");
    }
    assert!(!bench.path("merged.json").exists(), "{what}");
}

fn evidence(bytes: &[u8]) -> Value {
    json!(format!("0x{}", hex::encode(bytes)))
}

/// The code of a support: the first of so many keys.
fn support(signers: usize, keys: usize) -> Vec<u8> {
    let mut bits = Bitfield::new(keys);
    bits.set_range(0..signers);
    support_code::encode(&Support::from_bits(bits), Coding::Rice, None)
}

/// The same over text.
fn text_refused(bench: &Bench, what: &str, text: &[u8]) {
    fs::write(bench.path("lie.json"), text).unwrap();
    refused(bench, what, "lie.json", false);
}

#[test]
fn fields_that_lie_are_refused_in_words() {
    let (bench, proof) = made();
    let honest = hex::decode(&proof["signature"].as_str().unwrap()[2..]).unwrap();
    let with_tag = |tag: u8| evidence(&[&[tag], &honest[1..]].concat());
    // A header that says it is a merge, and the beginning of one with seven children that are merges.
    let mut kind = honest.clone();
    kind[8] = 1;
    let seven = [&[3], &honest[1..8], &[1, 0, 7, 4, 0x7f], &[0xff; 200][..]].concat();
    let fewer = json!(format!("0x{}", hex::encode(support(3, 8))));
    let cases: [(&str, Value, bool); 22] = [
        ("/slot", json!(-1), false),
        ("/slot", json!(u64::MAX), false),
        ("/slot", json!(4_294_967_296_u64), false),
        ("/slot", json!(1e300), false),
        ("/slot", Value::Null, false),
        ("/message", json!("0x"), false),
        ("/message", json!(["0x56"]), false),
        ("/registry/keys", json!(0), false),
        ("/registry/keys", json!(u64::MAX), false),
        ("/registry/keys", json!(9), true),
        ("/registry/digest", json!("0x00"), false),
        (
            "/registry/digest",
            changed(&proof["registry"]["digest"]),
            true,
        ),
        ("/registry/support", json!("0x"), false),
        ("/registry/support", json!("0xffffffffffff"), false),
        ("/registry/support", fewer, true),
        ("/scheme", json!("bls"), false),
        ("/schema", json!("alphorn-public-keys-v1"), false),
        ("/signature", evidence(&[3]), false),
        ("/signature", with_tag(2), false),
        ("/signature", with_tag(9), false),
        ("/signature", evidence(&kind), false),
        ("/signature", evidence(&seven), false),
    ];
    for (pointer, value, inspected) in cases {
        let text: String = value.to_string().chars().take(40).collect();
        let lie = bench.tampered("proof.json", pointer, value);
        refused(&bench, &format!("{pointer} = {text}"), lie, inspected);
    }
}

#[test]
fn text_that_is_no_file_of_ours_is_refused_in_words() {
    let (bench, proof) = made();
    let text = proof.to_string();
    for cut in [0, 1, text.len() / 2, text.len() - 1] {
        let what = format!("the first {cut} bytes");
        text_refused(&bench, &what, &text.as_bytes()[..cut]);
    }
    let with = |field: &str| text.replacen("{", &format!("{{{field},"), 1);
    text_refused(&bench, "a field twice", with("\"slot\":7").as_bytes());
    text_refused(&bench, "a field more", with("\"more\":7").as_bytes());
    text_refused(&bench, "nested", "[".repeat(100_000).as_bytes());
    text_refused(&bench, "no text", &[0xff, 0xfe, 0, 1]);
}

/// More signers than groups of the proof: its header and the file contradict each other, which is seen
/// without its keys.
#[test]
fn signers_for_whom_the_proof_has_no_room_are_refused() {
    let (bench, mut lie) = made();
    lie["registry"]["keys"] = json!(100);
    let all = support(100, 100);
    lie["registry"]["support"] = json!(format!("0x{}", hex::encode(all)));
    text_refused(&bench, "more signers", lie.to_string().as_bytes());
    bench
        .run("proof inspect lie.json")
        .expect(2, "a proof of 1 groups, its 100 signers need 2");
}
