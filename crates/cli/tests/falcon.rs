//! Falcon as a file tool, from outside: the built binary, lists and proofs, and whatever is changed in
//! a file.

mod bench;
mod file_tool;

use bench::Bench;
use file_tool::{ROOT, changed, vote, votes};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const OTHER: &str = "0x7878787878787878787878787878787878787878787878787878787878787878";
const FALCON: &str = " --scheme falcon";
const ROUND3: &str = " --scheme falcon --flavour r3";

#[test]
fn from_new_keys_to_a_verdict() {
    for (flavour, secret_bytes) in [("fndsa04", 1345), ("r3", 1281)] {
        let bench = Bench::new();
        let scheme = format!("--scheme falcon --flavour {flavour}");
        bench
            .run(&format!(
                "keys new {scheme} --out keys --count 2 --password-file password --kdf-cost 10 \
                 --json new.json"
            ))
            .expect(
                0,
                "2 keys in keys: keystore-0.json to keystore-1.json, public keys in",
            );
        let keystore = bench.json("keys/keystore-1.json");
        let declared = json!({ "name": "falcon512", "params": { "flavour": flavour } });
        assert_eq!(keystore["version"], 5);
        assert_eq!(keystore["scheme"], declared);
        let cipher = &keystore["crypto"]["cipher"];
        assert_eq!(cipher["function"], "aes-256-gcm");
        let bytes = cipher["message"].as_str().unwrap().len() / 2;
        assert_eq!(bytes, secret_bytes + 16, "the encoded key and a tag");
        let path = bench.path("keys/keystore-1.json");
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{mode:o}");
        let public_key = bench.json("new.json")["public_keys"][1].clone();
        let public_key = public_key.as_str().unwrap();
        assert_eq!(public_key.len(), 2 + 2 * 897);
        bench.run("keys list keys").expect(0, public_key);
        bench
            .run("keys inspect keys/keystore-1.json")
            .expect(0, "aes-256-gcm");
        bench
            .run_with(
                &format!(
                    "sign --key keys/keystore-0.json keys/keystore-1.json --password-file - \
                     --message {ROOT} --out-dir votes"
                ),
                "correct horse",
            )
            .expect(0, "votes/keystore-1.signature.json");
        let signature = bench.json("votes/keystore-1.signature.json");
        assert_eq!(signature["scheme"], format!("falcon-{flavour}"));
        let text = signature["signature"].as_str().unwrap();
        assert_eq!(text.len(), 2 + 2 * 666);
        bench
            .run("verify votes keys/public-keys.json")
            .expect(0, "valid");
    }
}

#[test]
fn keys_move_between_files_and_the_flavours_stay_apart() {
    let bench = Bench::new();
    let key = "--password-file password --kdf-cost 10";
    for scheme in [FALCON, ROUND3] {
        let name = scheme.rsplit(' ').next().unwrap();
        bench
            .run(&format!("keys new{scheme} --out {name} {key}"))
            .expect(0, "1 key");
        bench
            .run(&format!(
                "keys export{scheme} {name}/keystore-0.json --password-file password \
                 --new-password-file password --kdf-cost 10 --out {name}/copy.json"
            ))
            .expect(0, "copy.json");
        bench
            .run(&format!(
                "keys import{scheme} {name}/copy.json --out {name}/again.json {key}"
            ))
            .expect(0, "again.json");
        let of = |file: &str| bench.json(&format!("{name}/{file}.json"))["pubkey"].clone();
        assert_eq!(of("again"), of("keystore-0"));
        let sign = format!("sign{scheme} --key {name}/again.json --password-file password");
        bench
            .run(&format!("{sign} --text hello --out {name}.signature.json"))
            .expect(0, "signature.json");
        bench
            .run(&format!("verify{scheme} {name}.signature.json"))
            .expect(0, "valid");
    }
    // Files say whose they are; another flavour or scheme that is asked for does not take them.
    bench
        .run("verify r3.signature.json falcon.signature.json")
        .expect(2, "1 of 2 files do not verify");
    let sign = "--password-file password --text hello --out x.json";
    for (line, words) in [
        (
            format!("sign{FALCON} --flavour fndsa04 --key r3/keystore-0.json {sign}"),
            "a keystore of falcon512 of flavour r3, --scheme and its options say falcon512 of \
             flavour fndsa04",
        ),
        (
            format!("sign --scheme bls --key r3/keystore-0.json {sign}"),
            "a keystore of --scheme falcon --flavour r3, not of --scheme bls",
        ),
        (
            format!("verify{FALCON} --flavour fndsa04 r3.signature.json"),
            "a file of --scheme falcon --flavour r3, not of --scheme falcon --flavour fndsa04",
        ),
        (
            format!("verify{ROUND3} falcon.signature.json"),
            "a file of --scheme falcon --flavour fndsa04",
        ),
    ] {
        bench.run(&line).expect(2, words);
    }
    assert!(!bench.path("x.json").exists());
}

/// Bytes that a decoder takes and that could not sign: `F = 0`, a digest of another key.
#[test]
fn keys_that_cannot_sign_are_refused() {
    let bench = Bench::new();
    for (scheme, bytes) in [(FALCON, 1345), (ROUND3, 1281)] {
        let import = |digits: String, code: i32, words: &str| {
            bench.write_secret("secret.hex", &digits);
            bench
                .run(&format!(
                    "keys import{scheme} secret.hex --out key.json --password-file password \
                     --kdf-cost 10"
                ))
                .expect(code, words);
        };
        import("59".repeat(bytes), 2, "not a secret key of falcon");
        import("00".repeat(bytes), 2, "not a secret key of falcon");
        import("59".repeat(bytes - 1), 2, "hex digits, a secret key");
    }
    assert!(!bench.path("key.json").exists());
}

#[test]
fn lists_merge_and_proofs_do_not() {
    let bench = Bench::new();
    bench.votes(FALCON, FALCON);
    for (keys, name) in [("", "listed"), (" --keys keys/public-keys.json", "placed")] {
        for (part, range) in [("a", 0..5), ("b", 3..8), ("all", 0..8)] {
            bench
                .run(&format!(
                    "aggregate{FALCON} {}{keys} --out {name}-{part}.json",
                    votes(range)
                ))
                .expect(0, "signers");
        }
        bench
            .run(&format!(
                "merge{FALCON} {name}-a.json {name}-b.json --out {name}-ab.json"
            ))
            .expect(0, "8 signers, greatest multiplicity 1");
        assert_eq!(
            bench.json(&format!("{name}-ab.json")),
            bench.json(&format!("{name}-all.json"))
        );
    }
    let proof = "aggregate --scheme falcon --form proof";
    bench
        .run(&format!("{proof} {} --out proof.json", votes(0..2)))
        .expect(0, "2 signers");
    bench
        .run(&format!(
            "merge{FALCON} proof.json listed-b.json --out x.json"
        ))
        .expect(2, "proof.json: a proof, and proofs do not merge");
    bench
        .run(&format!(
            "merge{FALCON} listed-b.json proof.json --out x.json"
        ))
        .expect(2, "proofs do not merge");
    assert!(!bench.path("x.json").exists());
}

/// A proof in a file: it verifies, and every change of every field is refused.
#[test]
fn a_tampered_proof_is_noticed_in_every_field() {
    let bench = Bench::new();
    bench.votes(FALCON, FALCON);
    let keys = "--keys keys/public-keys.json";
    let proof = "aggregate --scheme falcon --form proof";
    bench
        .run(&format!("{proof} {} {keys} --out proof.json", votes(1..4)))
        .expect(0, "3 signers");
    bench
        .run(&format!("verify{FALCON} proof.json {keys}"))
        .expect(0, "valid");
    bench
        .run(&format!("verify{FALCON} proof.json"))
        .expect(2, "no file of --keys has it");
    bench
        .run(&format!(
            "verify{FALCON} proof.json {keys} --profile falcon"
        ))
        .expect(1, "the proof is of profile core128, --profile is falcon");
    let mut slotted = bench.json("proof.json");
    slotted["slot"] = json!(3);
    fs::write(bench.path("slotted.json"), slotted.to_string()).unwrap();
    bench
        .run(&format!("verify{FALCON} slotted.json {keys}"))
        .expect(2, "falcon-fndsa04 has no slots");
    let file = bench.json("proof.json");
    let evidence = file["signature"].as_str().unwrap();
    let salts_end = 2 + 2 * (1 + 3 * 40);
    let flip = |at: usize| {
        let mut text = evidence.to_owned().into_bytes();
        text[at] = if text[at] == b'0' { b'1' } else { b'0' };
        json!(String::from_utf8(text).unwrap())
    };
    let last = evidence.len() - 1;
    for (pointer, value, code, words) in [
        (
            "/message",
            changed(&file["message"]),
            1,
            "the proof does not hold",
        ),
        ("/scheme", json!("falcon-r3"), 2, "--flavour r3"),
        (
            "/registry/digest",
            changed(&file["registry"]["digest"]),
            2,
            "no file of --keys has it",
        ),
        ("/registry/keys", json!(9), 2, "over 9 keys"),
        // Salts of four: the proof begins later, and is none.
        (
            "/registry/support",
            bits(&bench, 1..5),
            1,
            "the proof does not hold",
        ),
        (
            "/registry/support",
            bits(&bench, 2..5),
            1,
            "the proof does not hold",
        ),
        ("/signature", flip(3), 2, "has"),
        ("/signature", flip(4), 1, "the proof does not hold"),
        (
            "/signature",
            flip(salts_end - 1),
            1,
            "the proof does not hold",
        ),
        ("/signature", flip(salts_end), 1, "the proof does not hold"),
        (
            "/signature",
            flip(salts_end + 13),
            1,
            "the proof is of profile falcon",
        ),
        (
            "/signature",
            flip(evidence.len() / 2),
            1,
            "the proof does not hold",
        ),
        ("/signature", flip(last), 1, "the proof does not hold"),
        (
            "/signature",
            json!(&evidence[..last - 1]),
            1,
            "the proof does not hold",
        ),
        (
            "/signature",
            json!(format!("{evidence}00")),
            1,
            "the proof does not hold",
        ),
        (
            "/signature",
            json!(&evidence[..salts_end]),
            2,
            "must have 122 to",
        ),
        (
            "/signature",
            json!(evidence[2..].repeat(3)),
            2,
            "must have 122 to",
        ),
    ] {
        let tampered = bench.tampered("proof.json", pointer, value.clone());
        bench
            .run(&format!("verify{FALCON} {tampered} {keys}"))
            .expect(code, words);
    }
}

/// The support of some positions, as a list over them has it.
fn bits(bench: &Bench, range: std::ops::Range<usize>) -> Value {
    bench
        .run(&format!(
            "aggregate{FALCON} {} --keys keys/public-keys.json --out bits.json --force",
            votes(range)
        ))
        .expect(0, "signers");
    bench.json("bits.json")["registry"]["support"].clone()
}

#[test]
fn a_tampered_list_is_noticed_and_nothing_is_written() {
    let bench = Bench::new();
    bench.votes(FALCON, FALCON);
    let name = vote(2);
    let (file, other) = (bench.json(&name), bench.json(&vote(5)));
    let long = |bytes: usize| json!(format!("0x{}", "ff".repeat(bytes)));
    for (pointer, value, code, words) in [
        (
            "/scheme",
            json!("bls"),
            2,
            "a file of --scheme bls, not of --scheme falcon --flavour fndsa04",
        ),
        (
            "/public_key",
            other["public_key"].clone(),
            1,
            "does not verify",
        ),
        ("/public_key", long(897), 2, "the first byte is 0xff"),
        ("/public_key", long(32), 2, "has 32 bytes: must have 897"),
        ("/message", json!(OTHER), 1, "does not verify"),
        (
            "/signature",
            other["signature"].clone(),
            1,
            "does not verify",
        ),
        ("/signature", changed(&file["signature"]), 1, "verif"),
        ("/signature", long(666), 1, "does not verify"),
        ("/signature", long(667), 2, "has 667 bytes: must have 666"),
    ] {
        let tampered = bench.tampered(&name, pointer, value.clone());
        bench
            .run(&format!("verify{FALCON} {tampered}"))
            .expect(code, words);
        for form in ["list", "proof"] {
            bench
                .run(&format!(
                    "aggregate{FALCON} --form {form} {tampered} --out x.json"
                ))
                .expect(code, "");
        }
    }
    bench
        .run(&format!(
            "aggregate{FALCON} {} --out list.json",
            votes(0..3)
        ))
        .expect(0, "3 signers, 1999 bytes of evidence");
    let list = bench.json("list.json");
    let text = list["signature"].as_str().unwrap();
    let swapped = format!(
        "0x00{}{}{}",
        &text[1336..2668],
        &text[4..1336],
        &text[2668..]
    );
    for (pointer, value, code, words) in [
        ("/signature", json!(swapped), 1, "signer 0 does not verify"),
        (
            "/signature",
            json!(text.replacen("0x00", "0x02", 1)),
            1,
            "unknown evidence tag 2",
        ),
        (
            "/signature",
            json!(&text[..text.len() - 2]),
            2,
            "has 1998 bytes: must have 1999",
        ),
        ("/message", json!(OTHER), 1, "signer 0 does not verify"),
        (
            "/signers/0/multiplicity",
            json!(2),
            2,
            "must be from 1 to 1",
        ),
        (
            "/signers/0/public_key",
            list["signers"][1]["public_key"].clone(),
            2,
            "ascending",
        ),
    ] {
        let tampered = bench.tampered("list.json", pointer, value.clone());
        bench
            .run(&format!("verify{FALCON} {tampered}"))
            .expect(code, words);
    }
    assert!(!bench.path("x.json").exists());
}

#[test]
fn bad_options_name_the_bound() {
    let bench = Bench::new();
    let new = "keys new --out keys --interop 0";
    for (line, words) in [
        (
            format!("{new} --flavour r3"),
            "--flavour r3: bls has no flavours",
        ),
        (
            "verify x.json --profile peer".into(),
            "--profile peer: bls has no profiles",
        ),
        (
            format!("aggregate votes{FALCON} --profile peer --out x.json"),
            "--profile peer: a list has none, only a proof",
        ),
        (
            format!("{new}{FALCON} --profile peer"),
            "unexpected argument '--profile'",
        ),
        (format!("{new} --kdf-cost 10"), "cannot be used with"),
        (format!("{new} --kdf pbkdf2"), "cannot be used with"),
        (
            format!("{new} --scheme xmss --flavour r3"),
            "--flavour r3: xmss has no flavours",
        ),
        (
            format!("{new}{FALCON} --flavour fips"),
            "expected fndsa04, r3 or slot",
        ),
        (
            format!("verify x.json{FALCON} --profile core256"),
            "expected core128, falcon or peer",
        ),
        (
            format!("{new}{FALCON} --set prod"),
            "--set prod: falcon has no sets",
        ),
        (
            format!("{new}{FALCON} --slots 4"),
            "falcon-fndsa04 has no slots",
        ),
        (
            "slot --set prod --validators 4".into(),
            "--set prod: bls has no sets",
        ),
        (
            "slot --scheme falcon --set prod --validators 4".into(),
            "--set prod: falcon has no sets",
        ),
        (
            "slot --flavour r3 --validators 4".into(),
            "bls has no flavours",
        ),
        (
            "slot --scheme xmss --profile peer --validators 4".into(),
            "xmss has no profiles",
        ),
        (
            "slot --layers list/list --validators 4".into(),
            "its evidence has one form",
        ),
        ("lattice params --n 0".into(), "allowed are 1 to 20000"),
        ("lattice params --n 20001".into(), "allowed are 1 to 20000"),
        ("lattice estimate --n 0".into(), "allowed are 1 to 20000"),
        ("bench lattice --n 20001".into(), "allowed are 1 to 20000"),
        ("bench lattice --n 4 --kernel sse9".into(), "sse9"),
        (
            "lattice params --n 20001 --degree 1024".into(),
            "allowed are 1 to 20000",
        ),
        (
            "lattice params --n 4 --degree 256".into(),
            "expected 512 or 1024",
        ),
        (
            "bench lattice --n 4 --degree 1024 --emit-costs costs.json".into(),
            "--emit-costs: scenarios have Falcon-512, --degree is 1024",
        ),
        (
            "bench lattice --n 4 --preset fast,dense".into(),
            "expected fast or small",
        ),
    ] {
        bench.run(&line).expect(2, words);
    }
    assert!(!bench.path("keys").exists());
}

#[test]
fn parameters_are_printed_with_their_security() {
    let bench = Bench::new();
    let run = bench.run("lattice params --n 64 --security --profile falcon --json params.json");
    run.expect(0, "64 signatures, profile falcon: proof ");
    run.expect(0, "120 bits classical, 108 quantum");
    let case = &bench.json("params.json")["cases"][0];
    assert_eq!(case["n"], 64);
    assert_eq!(case["salt_bytes"], 64 * 40);
    assert_eq!(case["plain_bytes"], 64 * 666);
    assert!(case["levels"].as_array().unwrap().len() > 2);
    let error = case["security"]["error_log2"].as_f64().unwrap();
    assert!((-130.0..-121.0).contains(&error), "{error}");
    let bytes = case["proof_bytes_predicted"].as_u64().unwrap();
    assert!((40_000..75_000).contains(&bytes), "{bytes}");
}

/// Both commands know signatures of degree 1024.
#[test]
fn degree_1024_has_parameters_and_a_bench() {
    let bench = Bench::new();
    let run = bench.run("lattice params --n 1000 --degree 1024 --security --json params.json");
    run.expect(
        0,
        "1,000 signatures of Falcon-1024, profile core128: proof ",
    );
    let figures = bench.json("params.json");
    assert_eq!(figures["config"]["degree"], 1024);
    let case = &figures["cases"][0];
    assert_eq!(case["salt_bytes"], 1000 * 40);
    assert_eq!(case["plain_bytes"], 1000 * 1280);
    let error = case["security"]["error_log2"].as_f64().unwrap();
    assert!((-125.0..-121.2).contains(&error), "{error}");
    for flavour in ["fndsa04", "r3", "slot"] {
        let run = bench.run(&format!(
            "bench lattice --n 2 --degree 1024 --flavour {flavour} --json {flavour}.json"
        ));
        run.expect(0, "fn-dsa, 1 thread");
        let figures = bench.json(&format!("{flavour}.json"));
        assert_eq!(figures["config"]["degree"], 1024);
        let case = &figures["cases"][0];
        let each = if flavour == "slot" { 1240 } else { 1280 };
        assert_eq!(case["baseline"]["plain_bytes"], 1 + 2 * each, "{flavour}");
    }
}

#[test]
fn other_front_ends_are_estimated_in_the_same_table() {
    let bench = Bench::new();
    let run = bench.run("lattice estimate --n 64,3000 --json estimate.json");
    run.expect(0, "second witness");
    let report = bench.json("estimate.json");
    let cases = report["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 6);
    let of = |n: u64, name: &str| {
        let found = cases
            .iter()
            .find(|case| case["n"] == n && case["front_end"] == name);
        found.unwrap()["proof_bytes_predicted"].as_u64().unwrap()
    };
    assert!(of(3000, "columns") < of(3000, "dachshund"));
    assert!(of(3000, "dachshund") < of(3000, "chihuahua"));
    assert!(of(64, "chihuahua") < of(3000, "chihuahua"));
}

#[test]
fn a_slot_holds_with_lists_and_with_proofs() {
    let bench = Bench::new();
    for (layers, validators) in [("list/list", 24), ("list/proof", 3)] {
        bench
            .run(&format!(
                "slot --scheme falcon --layers {layers} --validators {validators} --json slot.json"
            ))
            .expect(0, "Holds: every vote that was cast is counted");
        let slot = bench.json("slot.json");
        assert_eq!(slot["config"]["layers"], layers);
        assert_eq!(slot["votes_in_block"], validators);
        fs::remove_file(bench.path("slot.json")).unwrap();
    }
}

/// Presets stand beside each other, over the same signatures, and the verifier's steps under them.
#[test]
fn presets_are_measured_beside_each_other() {
    let bench = Bench::new();
    let names = ["fast", "small"];
    let run = bench.run("bench lattice --n 512 --preset fast,small --json bench.json");
    run.expect(0, "verifying 512, small");
    run.expect(0, "end of the sumcheck");
    let figures = bench.json("bench.json");
    assert_eq!(figures["config"]["presets"], json!(names));
    let cases = figures["cases"].as_array().unwrap();
    assert_eq!(cases.len(), names.len());
    for (case, name) in cases.iter().zip(names) {
        assert_eq!(case["preset"], name);
        assert_eq!(case["baseline"], cases[0]["baseline"], "{name}");
        let bytes = case["proof_bytes"].as_u64().unwrap();
        assert!((20_000..100_000).contains(&bytes), "{name}: {bytes}");
        for (side, part) in [("prove_s", "commit"), ("verify_s", "sumcheck")] {
            assert!(case[side][part].as_f64().unwrap() > 0.0, "{name}: {side}");
        }
    }
    assert!(cases[1]["proof_bytes"].as_u64() < cases[0]["proof_bytes"].as_u64());
}

/// A program is given the signatures of the run, and its figures stand in the table as of the same run; one that
/// fails or says something else is no figure.
#[cfg(unix)]
#[test]
fn a_peer_proves_the_same_signatures_in_the_same_run() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let script = |text: &str| {
        let path = bench.path("peer.sh");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        format!(
            "bench lattice --n 3 --threads 1 --kernel portable --peer {} --json bench.json",
            path.display()
        )
    };
    // Three records: a key of 897 bytes, a signature of 666 and a message, with their numbers before them.
    let line = r#"printf 'begin\n{"name":"toy %s %s","prove_s":2,"verify_s":0.25,"bytes":%s}\n\n'"#;
    let run = bench.run(&script(&format!("{line} $1 $2 $(wc -c < $3)")));
    run.expect(0, "toy 3 1");
    let case = &bench.json("bench.json")["cases"][0];
    let peer = &case["peers"][0];
    assert_eq!(peer["kind"], "same run");
    assert_eq!(
        (&peer["prove_s"], &peer["verify_s"]),
        (&json!(2.0), &json!(0.25))
    );
    let message = peer["bytes"].as_u64().unwrap() / 3 - (897 + 666 + 3 * 4);
    assert!((1..=100).contains(&message), "{message}");
    fs::remove_file(bench.path("bench.json")).unwrap();
    let bad = [
        ("exit 3", "exit status: 3"),
        ("echo", "its last line"),
        (r#"echo '{"name":"x","prove_s":1,"bytes":3}'"#, "verify_s"),
        (
            r#"echo '{"name":"x","prove_s":1,"verify_s":-1,"bytes":3}'"#,
            "a time of -1 s, must be at least 0",
        ),
    ];
    for (text, said) in bad {
        bench.run(&script(text)).expect(1, said);
        assert!(!bench.path("bench.json").exists(), "{text}");
    }
    let missing = "bench lattice --n 3 --threads 1 --kernel portable --peer ./no-such-program";
    bench
        .run(missing)
        .expect(2, "--peer ./no-such-program: it cannot be run");
}

/// The rows are under each other, and the costs are those that the simulator reads.
#[test]
fn a_bench_of_proofs_says_what_it_measured() {
    let bench = Bench::new();
    let run = bench
        .run("bench lattice --n 2 --kernel portable --json bench.json --emit-costs costs.json");
    run.expect(0, "fn-dsa, 1 thread");
    let case = &bench.json("bench.json")["cases"][0];
    assert_eq!(case["total_wire_bytes"].as_u64(), {
        let part = |name: &str| case[name].as_u64().unwrap();
        Some(1 + part("proof_bytes") + part("salt_bytes"))
    });
    let parts = case["prove_s"].as_object().unwrap();
    let total = parts["total"].as_f64().unwrap();
    let sum: f64 = parts.values().filter_map(Value::as_f64).sum();
    assert!((sum - 2.0 * total).abs() < 0.01 * total, "{parts:?}");
    let text = fs::read_to_string(bench.path("costs.json")).unwrap();
    let costs = alphorn_scheme::model::CostTable::from_json(&text).unwrap();
    assert_eq!(costs.scheme, "falcon");
    let proof = costs.evidence_bytes(alphorn_scheme::Layer::Collection, 2);
    assert_eq!(Some(proof), case["total_wire_bytes"].as_u64());
}
