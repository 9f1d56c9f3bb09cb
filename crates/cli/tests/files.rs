//! The file tool from outside: the built binary, from new keys to a verdict, and what it refuses.

mod bench;
mod file_tool;

use bench::Bench;
use file_tool::{ROOT, changed, vote, votes};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn from_new_keys_to_a_verdict() {
    let bench = Bench::new();
    bench
        .run("keys new --out keys --count 2 --password-file password --kdf-cost 10 --json new.json")
        .expect(0, "2 keys in keys");
    assert_eq!(mode(&bench.path("keys/keystore-0.json")), 0o600);
    assert_eq!(mode(&bench.path("keys")), 0o700);
    let report = bench.json("new.json");
    let public_key = report["public_keys"][1].as_str().unwrap().to_owned();
    assert_eq!(report["command"], "keys new");
    let keystore = bench.json("keys/keystore-1.json");
    assert_eq!(keystore["version"], 4);
    assert_eq!(
        format!("0x{}", keystore["pubkey"].as_str().unwrap()),
        public_key
    );
    bench.run("keys list keys").expect(0, &public_key);

    let keys = "--key keys/keystore-0.json keys/keystore-1.json --password-file -";
    fs::create_dir(bench.path("votes")).unwrap();
    bench
        .run_with(
            &format!("sign {keys} --text hello --out-dir votes"),
            "correct horse",
        )
        .expect(0, "votes/keystore-1.signature.json");
    bench.run("verify votes").expect(0, "valid");
    bench
        .run("aggregate votes --keys keys/public-keys.json --out both.json")
        .expect(0, "2 signers");
    bench
        .run("verify both.json keys/public-keys.json --keys keys/public-keys.json")
        .expect(0, "valid");

    bench
        .run("keys inspect keys/keystore-1.json --pop --password-file password --out pop.json")
        .expect(0, &public_key);
    assert_eq!(
        bench.json("pop.json")["keys"][0],
        bench.json("keys/public-keys.json")["keys"][1]
    );
    bench.run("verify pop.json").expect(0, "valid");
}

#[test]
fn signatures_are_those_of_the_consensus_specifications() {
    let bench = Bench::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/bls/sign");
    let mut cases = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let case: Value =
            serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let text = |value: &Value| {
            value
                .as_str()
                .map(|text| text.trim_start_matches("0x").to_owned())
        };
        let (Some(expected), Some(secret)) =
            (text(&case["output"]), text(&case["input"]["privkey"]))
        else {
            continue;
        };
        let message = text(&case["input"]["message"]).unwrap();
        bench
            .run_with(
                "keys import - --out k.json --password-file password --kdf-cost 10 --force",
                &secret,
            )
            .expect(0, "k.json");
        bench
            .run(&format!(
                "sign --key k.json --password-file password --message {message} --out s.json --force"
            ))
            .expect(0, "s.json");
        assert_eq!(bench.json("s.json")["signature"], format!("0x{expected}"));
        cases += 1;
    }
    assert!(cases >= 9, "{cases} cases");
}

#[test]
fn aggregates_merge_with_multiplicities_up_to_fifteen() {
    let bench = Bench::new();
    bench.votes("", "");
    for (keys, name) in [("", "listed"), (" --keys keys/public-keys.json", "placed")] {
        bench
            .run(&format!(
                "aggregate {}{keys} --out {name}-a.json",
                votes(0..5)
            ))
            .expect(0, "5 signers");
        bench
            .run(&format!(
                "aggregate {}{keys} --out {name}-b.json",
                votes(3..8)
            ))
            .expect(0, "5 signers");
        bench
            .run(&format!(
                "merge {name}-a.json {name}-b.json --out {name}-2.json"
            ))
            .expect(0, "8 signers, greatest multiplicity 2");
        bench
            .run(&format!(
                "merge {name}-2.json {name}-2.json --out {name}-4.json"
            ))
            .expect(0, "multiplicity 4");
        bench
            .run(&format!(
                "merge {name}-4.json {name}-4.json {name}-4.json --out {name}-12.json"
            ))
            .expect(0, "multiplicity 12");
        bench
            .run(&format!(
                "verify {name}-a.json {name}-2.json {name}-12.json --keys keys/public-keys.json"
            ))
            .expect(0, "valid");
        bench
            .run(&format!(
                "merge {name}-12.json {name}-4.json --out {name}-16.json"
            ))
            .expect(2, "at");
        assert!(!bench.path(&format!("{name}-16.json")).exists());
    }
    bench
        .run("merge listed-12.json listed-4.json --out x.json")
        .expect(2, "is 16: must be at most 15");
    bench
        .run("merge placed-12.json placed-4.json --out x.json")
        .expect(2, "at position 3 is above 15");
    bench
        .run("merge placed-a.json listed-a.json --out x.json")
        .expect(2, "by position or by key");
    bench
        .run("merge placed-a.json --out x.json")
        .expect(2, "at least 2");
}

#[test]
fn verdicts_are_exact_for_each_file() {
    let bench = Bench::new();
    bench.votes("", "");
    bench
        .run(&format!(
            "aggregate {} --keys keys/public-keys.json --out good.json",
            votes(0..8)
        ))
        .expect(0, "8 signers");
    let good = bench.json("good.json");
    let mut bad = good.clone();
    bad["signature"] = bench.json(&vote(0))["signature"].clone();
    fs::write(bench.path("bad.json"), bad.to_string()).unwrap();
    let mut swapped = bench.json(&vote(3));
    swapped["signature"] = bench.json(&vote(4))["signature"].clone();
    fs::write(bench.path(&vote(3)), swapped.to_string()).unwrap();
    let line = "verify votes good.json bad.json --keys keys/public-keys.json --json out.json";
    bench.run(line).expect(1, "2 of 10 files do not verify");
    let files = bench.json("out.json")["files"].clone();
    for row in files.as_array().unwrap() {
        let name = row["file"].as_str().unwrap();
        let expected = if name == vote(3) || name == "bad.json" {
            "INVALID"
        } else {
            "valid"
        };
        assert_eq!(row["verdict"], expected, "{row}");
    }
    bench
        .run(&format!("aggregate {} --out x.json", votes(0..8)))
        .expect(1, "interop-3.signature.json: the signature does not verify");
    assert!(!bench.path("x.json").exists());
}

/// An error that quotes a file neither steers the terminal, nor fills it, nor breaks the table.
#[test]
fn what_a_file_has_in_it_is_printed_in_bounds() {
    let bench = Bench::new();
    bench.votes("", "");
    for (field, shown) in [
        ("a".repeat(100_000), "more characters)"),
        ("\u{1b}[2J\u{202e}\nx".to_owned(), "\\u{1b}[2J\\u{202e}"),
    ] {
        let mut file = bench.json(&vote(0));
        file[field] = json!(1);
        fs::write(bench.path("odd.json"), file.to_string()).unwrap();
        for line in ["verify odd.json", "aggregate odd.json --out x.json"] {
            let ended = bench.run(line);
            ended.expect(2, shown);
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(said.len() < 10_000 && !said.contains('\u{1b}'), "{line}");
        }
    }
}

#[test]
fn a_tampered_signature_is_noticed_in_every_field() {
    let bench = Bench::new();
    bench.votes("", "");
    let name = vote(2);
    let file = bench.json(&name);
    let other = bench.json(&vote(5));
    let infinity = format!("0xc0{}", "00".repeat(95));
    for (pointer, value, code, words) in [
        (
            "/schema",
            json!("alphorn-signature-v2"),
            2,
            "unknown variant",
        ),
        (
            "/schema",
            json!("alphorn-aggregate-v1"),
            2,
            "unknown field `public_key`",
        ),
        (
            "/scheme",
            json!("xmss"),
            2,
            "of the unknown scheme \"xmss\", not of bls",
        ),
        (
            "/public_key",
            other["public_key"].clone(),
            1,
            "does not verify",
        ),
        ("/public_key", json!("0x00"), 2, "has 1 bytes: must have 48"),
        (
            "/public_key",
            json!(format!("0x{}", "ff".repeat(48))),
            2,
            "public key: ",
        ),
        ("/message", changed(&file["message"]), 1, "does not verify"),
        ("/message", json!("xyz"), 2, "tampered.json"),
        (
            "/message",
            json!("00".repeat((64 << 10) + 1)),
            2,
            "at most 65536",
        ),
        (
            "/signature",
            other["signature"].clone(),
            1,
            "does not verify",
        ),
        (
            "/signature",
            changed(&file["signature"]),
            1,
            "does not decode",
        ),
        ("/signature", json!(infinity), 1, "identity"),
        ("/signature", json!("0xab"), 2, "has 1 bytes: must have 96"),
    ] {
        let tampered = bench.tampered(&name, pointer, value.clone());
        bench.run(&format!("verify {tampered}")).expect(code, words);
    }
    for text in [
        "",
        "[]",
        "{}",
        "{\"schema\":1}",
        "\u{0}",
        "{\"schema\":\"alphorn-signature-v1\"}",
    ] {
        fs::write(bench.path("broken.json"), text).unwrap();
        bench.run("verify broken.json").expect(2, "broken.json");
    }
    let deep = format!("{}{}", "{\"schema\":".repeat(1000), "}".repeat(1000));
    fs::write(bench.path("broken.json"), deep).unwrap();
    bench.run("verify broken.json").expect(2, "broken.json");
    let mut extra = file.clone();
    extra["weight"] = json!(1);
    fs::write(bench.path("broken.json"), extra.to_string()).unwrap();
    bench
        .run("verify broken.json")
        .expect(2, "unknown field `weight`");
}

#[test]
fn a_tampered_aggregate_is_noticed_in_every_field() {
    let bench = Bench::new();
    bench.votes("", "");
    let signers = votes(0..3);
    bench
        .run(&format!("aggregate {signers} --out listed.json"))
        .expect(0, "3 signers");
    bench
        .run(&format!(
            "aggregate {signers} --keys keys/public-keys.json --out placed.json"
        ))
        .expect(0, "3 signers");
    let (listed, placed) = (bench.json("listed.json"), bench.json("placed.json"));
    let keys = &listed["signers"];
    let support_of_all = "0x0000010000000000ff";
    for (name, pointer, value, code, words) in [
        (
            "listed",
            "/message",
            changed(&listed["message"]),
            1,
            "does not verify",
        ),
        (
            "listed",
            "/signers/0/multiplicity",
            json!(2),
            1,
            "does not verify",
        ),
        (
            "listed",
            "/signers/0/multiplicity",
            json!(16),
            2,
            "must be from 1 to 15",
        ),
        (
            "listed",
            "/signers/0/multiplicity",
            json!(0),
            2,
            "must be from 1 to 15",
        ),
        (
            "listed",
            "/signers/0",
            keys[1].clone(),
            2,
            "not in ascending order",
        ),
        (
            "listed",
            "/signers",
            json!([keys[0], keys[1]]),
            1,
            "does not verify",
        ),
        ("listed", "/signers", json!([]), 2, "0 signers"),
        (
            "listed",
            "/signature",
            changed(&listed["signature"]),
            1,
            "does not decode",
        ),
        (
            "placed",
            "/message",
            changed(&placed["message"]),
            1,
            "does not verify",
        ),
        (
            "placed",
            "/registry/digest",
            changed(&placed["registry"]["digest"]),
            2,
            "digest",
        ),
        ("placed", "/registry/keys", json!(9), 2, "tampered.json"),
        ("placed", "/registry/keys", json!(0), 2, "0 keys"),
        (
            "placed",
            "/registry/keys",
            json!(1u64 << 40),
            2,
            "allowed are 1 to 1048576",
        ),
        (
            "placed",
            "/registry/support",
            json!("0x00"),
            2,
            "the support over 8 keys",
        ),
        (
            "placed",
            "/registry/support",
            json!(support_of_all),
            2,
            "tampered.json",
        ),
        (
            "placed",
            "/signature",
            placed["registry"]["digest"].clone(),
            2,
            "must have 96",
        ),
    ] {
        let tampered = bench.tampered(&format!("{name}.json"), pointer, value);
        bench
            .run(&format!("verify {tampered} --keys keys/public-keys.json"))
            .expect(code, words);
    }
    let mut both = listed.clone();
    both["registry"] = placed["registry"].clone();
    fs::write(bench.path("both.json"), both.to_string()).unwrap();
    bench
        .run("verify both.json --trust-keys")
        .expect(2, "either `signers` or `registry`");
}

#[test]
fn keys_of_an_aggregate_need_proofs_of_possession() {
    let bench = Bench::new();
    bench.votes("", "");
    bench
        .run(&format!("aggregate {} --out a.json", votes(0..3)))
        .expect(0, "3 signers");
    bench.run("verify a.json").expect(2, "--trust-keys");
    bench.run("verify a.json --trust-keys").expect(0, "valid");
    bench
        .run("verify a.json --keys keys/public-keys.json")
        .expect(0, "valid");
    let file = bench.json("keys/public-keys.json");
    let mut few = file.clone();
    few["keys"].as_array_mut().unwrap().truncate(2);
    fs::write(bench.path("few.json"), few.to_string()).unwrap();
    bench
        .run("verify a.json --keys few.json")
        .expect(1, "has no proof of possession");
    bench
        .run("keys inspect keys/interop-2.json --pop --out third.json")
        .expect(0, "proof of possession");
    bench
        .run("verify a.json --keys few.json --keys third.json")
        .expect(0, "valid");

    let mut stolen = file.clone();
    stolen["keys"][1]["proof_of_possession"] = file["keys"][0]["proof_of_possession"].clone();
    fs::write(bench.path("stolen.json"), stolen.to_string()).unwrap();
    let words = "the proof of possession of public key 1 does not hold";
    bench.run("verify stolen.json").expect(1, words);
    bench
        .run("verify a.json --keys stolen.json")
        .expect(1, words);
    bench
        .run("verify a.json --keys stolen.json --trust-keys")
        .expect(0, "valid");
    let mut twice = file.clone();
    twice["keys"][7] = file["keys"][2].clone();
    fs::write(bench.path("twice.json"), twice.to_string()).unwrap();
    bench
        .run("verify twice.json")
        .expect(2, "public key 7 repeats public key 2");
}

#[test]
fn secrets_that_others_may_read_are_refused() {
    let bench = Bench::new();
    bench
        .run("keys new --out keys --password-file password --kdf pbkdf2 --kdf-cost 10")
        .expect(0, "1 key");
    let sign = "sign --key keys/keystore-0.json --password-file password --text a --out s.json";
    for (name, words) in [
        ("keys/keystore-0.json", "mode 0640"),
        ("password", "mode 0640"),
    ] {
        fs::set_permissions(bench.path(name), fs::Permissions::from_mode(0o640)).unwrap();
        bench.run(sign).expect(2, words);
        assert!(!bench.path("s.json").exists());
        bench
            .run(&format!("{sign} --insecure-key-permissions --force"))
            .expect(0, "s.json");
        fs::remove_file(bench.path("s.json")).unwrap();
        fs::set_permissions(bench.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    bench.run(sign).expect(0, "s.json");
    bench.write_secret("wrong", "battery staple");
    bench
        .run("sign --key keys/keystore-0.json --password-file wrong --text a --out t.json")
        .expect(2, "wrong password");
    bench
        .run("sign --key keys/keystore-0.json --text a --out t.json")
        .expect(2, "needs its password");
    bench.write_secret("empty", "\n");
    bench
        .run("keys new --out k2 --password-file empty")
        .expect(2, "is empty");
    assert!(!bench.path("k2").exists());
}

#[test]
fn nothing_that_exists_is_replaced_unasked() {
    let bench = Bench::new();
    let new = "keys new --out keys --password-file password --kdf-cost 10";
    bench.run(new).expect(0, "1 key");
    let keystore = fs::read(bench.path("keys/keystore-0.json")).unwrap();
    let unchanged = || fs::read(bench.path("keys/keystore-0.json")).unwrap() == keystore;
    bench.run(new).expect(
        2,
        "keystore-0.json exists; --force replaces it, and the key",
    );
    bench
        .run("keys new --out other --interop 0 --count 3")
        .expect(0, "3 keys");
    fs::remove_file(bench.path("other/interop-0.json")).unwrap();
    bench
        .run("keys new --out other --interop 0 --count 3")
        .expect(2, "interop-1.json exists");
    assert!(!bench.path("other/interop-0.json").exists());
    let key = "--key other/interop-1.json --text a";
    bench
        .run(&format!("sign {key} --out keys/keystore-0.json"))
        .expect(2, "a key is there");
    bench
        .run(&format!(
            "sign {key} --out s.json --json keys/keystore-0.json"
        ))
        .expect(2, "a key is there");
    assert!(!bench.path("s.json").exists());
    bench
        .run(&format!("sign {key} --out s.json"))
        .expect(0, "s.json");
    bench
        .run("aggregate s.json --out keys/keystore-0.json")
        .expect(2, "a key is there");
    assert!(unchanged());
    // Of the file tool only what makes keys replaces one, and nothing else at all.
    bench
        .run(&format!("sign {key} --out more/s.json"))
        .expect(2, "there is no folder more");
    let pop = "keys inspect keys/keystore-0.json --pop --password-file password";
    for line in [
        &format!("sign {key} --out keys/keystore-0.json --force"),
        "aggregate s.json --out keys/keystore-0.json --force",
        &format!("{pop} --out keys/keystore-0.json --force"),
        "slot --validators 5 --json keys/keystore-0.json",
        "sim plan regress-gossip --out keys/keystore-0.json",
        "worker --listen 127.0.0.1:0 --ready-file keys/keystore-0.json",
    ] {
        bench.run(line).expect(2, "keys/keystore-0.json");
        assert!(unchanged(), "{line}");
    }
    // And what a command reads it does not write.
    let (vote, password) = (
        fs::read(bench.path("s.json")),
        fs::read(bench.path("password")),
    );
    for line in [
        &format!("{pop} --out password --force"),
        &format!("sign {key} --out other/interop-1.json --force"),
        "aggregate s.json --out s.json --force",
        "aggregate s.json --out t.json --json s.json",
        "verify s.json --json s.json",
        "keys export keys/keystore-0.json --password-file password --new-password-file password \
         --out password --force",
    ] {
        bench
            .run(line)
            .expect(2, "is read here, and cannot be written");
    }
    assert_eq!(fs::read(bench.path("s.json")).unwrap(), vote.unwrap());
    assert_eq!(fs::read(bench.path("password")).unwrap(), password.unwrap());
    bench.run(&format!("{new} --force")).expect(0, "1 key");
    assert!(!unchanged());
}

/// Names of files are bytes; a report says them as well as text can.
#[test]
fn a_path_that_is_no_text_is_taken() {
    let bench = Bench::new();
    let name = OsStr::from_bytes(b"\xfe\xff");
    let all = [
        "keys new --scheme xmss --set test --interop 0 --count 2 --out @",
        "keys list @",
        "keys inspect @/interop-0.json",
        &format!("sign --slot 3 --message {ROOT} --key @/interop-0.json --out @/a"),
        &format!("sign --slot 3 --message {ROOT} --key @/interop-1.json --out @/b"),
        "aggregate @/a --out @/c",
        "aggregate @/b --out @/d",
        "merge @/c @/d --out @/e",
        "verify @/e --keys @/public-keys.json",
        "keys new --password-file password --kdf-cost 10 --out @/real",
        "keys export @/real/keystore-0.json --password-file password --new-password-file password \
         --out @/copy --kdf-cost 10",
        "keys import @/copy --password-file password --out @/back --kdf-cost 10",
        "genesis --out @/net --nodes 1",
        "aggregate @/a @/b --form proof --keys @/public-keys.json --out @/p",
        "proof inspect @/p",
        "proof bundle @/p --keys @/public-keys.json --out @/q",
        "proof split @/q --entry 0 --keys @/public-keys.json --out @/r",
    ];
    for line in all {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(rest) => {
                let mut path = name.to_owned();
                path.push(rest);
                path
            }
            None => OsString::from(word),
        };
        let output = Command::new(env!("CARGO_BIN_EXE_alphorn"))
            .args(line.split_whitespace().map(word))
            .args(["--json", "report.json"])
            .current_dir(bench.path(""))
            .env("ALPHORN_STATE_DIR", bench.path("state"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{line}: {said}");
        let report = fs::read_to_string(bench.path("report.json")).unwrap();
        assert!(report.contains('\u{fffd}'), "{line}: {report}");
    }
}

/// A temporary file of a key is a key.
#[test]
fn keys_that_are_interrupted_leave_nothing() {
    let bench = Bench::new();
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
            .args("keys new --out keys --interop 0 --count 1000000".split(' '))
            .current_dir(bench.path(""))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let files = || fs::read_dir(bench.path("keys")).map_or(0, Iterator::count);
        while files() < 3 {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(files(), 0);
    }
}

#[test]
fn force_replaces_files_and_nothing_else() {
    let bench = Bench::new();
    bench
        .run("keys new --out keys --interop 0 --count 1")
        .expect(0, "1 key");
    let sign = "sign --key keys/interop-0.json --text a";
    std::os::unix::fs::symlink("/dev/null", bench.path("null")).unwrap();
    fs::create_dir(bench.path("folder")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(bench.path("socket")).unwrap();
    for special in ["null", "folder", "socket", "/dev/null"] {
        bench
            .run(&format!("{sign} --force --out {special}"))
            .expect(2, "is no regular file");
    }
    drop(listener);
    assert!(bench.path("null").is_symlink() && bench.path("socket").exists());
    // A report may go to a device; a place that cannot be written is refused before the work.
    bench
        .run(&format!("{sign} --out a.json --json null"))
        .expect(0, "a.json");
    assert!(bench.path("null").is_symlink());
    bench
        .run(&format!("{sign} --out b.json --json missing/report.json"))
        .expect(2, "missing/report.json");
    assert!(!bench.path("b.json").exists());
    bench
        .run(&format!("{sign} --out a.json --force"))
        .expect(0, "a.json");
}

#[test]
fn keys_move_between_files_and_passwords() {
    let bench = Bench::new();
    let secret = "0x25295f0d1d592a90b333e26e85149708208e9f8e8bc18f6c77bd62f8ad7a6866\n";
    let public_key = "0xa99a76ed7796f7be22d5b7e85deeb7c5677e88e511e0b337618f8c4eb61349b4bf2d153f649f7b53359fe8b94a38e44c";
    bench.write_secret("new", "another password");
    let import = "keys import - --out a.json --password-file password --kdf-cost 10";
    bench.run_with(import, secret).expect(0, public_key);
    bench
        .run("keys export a.json --password-file password --new-password-file new --out b.json --kdf pbkdf2 --kdf-cost 10")
        .expect(0, public_key);
    assert_eq!(bench.json("a.json")["uuid"], bench.json("b.json")["uuid"]);
    bench
        .run("keys import b.json --input-password-file new --password-file password --out c.json --kdf-cost 10")
        .expect(0, public_key);
    bench
        .run("keys import b.json --password-file password --out d.json --kdf-cost 10")
        .expect(2, "wrong password");
    bench
        .run("keys new --out keys --interop 0")
        .expect(0, "INSECURE");
    bench
        .run("keys export keys/interop-0.json --new-password-file new --out e.json --kdf-cost 10")
        .expect(0, public_key);
    bench.run("keys inspect e.json").expect(0, "interop key 0");
    bench
        .run("keys inspect c.json")
        .expect(0, "scrypt n = 1024");

    let d = "keys import - --out d.json --password-file password --kdf-cost 10";
    for (text, words) in [
        ("", "0 hex digits"),
        ("abcd", "4 hex digits, a secret key of bls has 64"),
        (&"0".repeat(64), "zero"),
        (&"f".repeat(64), "group order"),
        (&"g".repeat(64), "hex digits"),
        ("{\"crypto\":", "a file of ours"),
    ] {
        bench.run_with(d, text).expect(2, words);
    }
    bench
        .run("keys import - --out d.json --password-file -")
        .expect(2, "only one");
    assert!(!bench.path("d.json").exists());
}

#[test]
fn a_hostile_keystore_costs_nothing() {
    let bench = Bench::new();
    bench
        .run("keys new --out keys --password-file password --kdf-cost 10")
        .expect(0, "1 key");
    let name = "keys/keystore-0.json";
    let other = changed(&bench.json(name)["pubkey"]);
    for (pointer, value, words) in [
        (
            "/crypto/kdf/params/n",
            json!(1u64 << 50),
            "must be a power of two from 2 to 4194304",
        ),
        (
            "/crypto/kdf/params/r",
            json!(65),
            "scrypt r = 65: must be from 1 to 64",
        ),
        (
            "/crypto/kdf/params/p",
            json!(1_000_000),
            "scrypt p = 1000000",
        ),
        ("/crypto/kdf/params/dklen", json!(1u64 << 40), "must be 32"),
        (
            "/crypto/cipher/message",
            json!("ab".repeat(20_000)),
            "must have 32",
        ),
        (
            "/crypto/kdf/params/salt",
            json!("ab".repeat(100)),
            "must have 1 to 64",
        ),
        ("/path", json!("a".repeat(70_000)), "more than 65536 bytes"),
        ("/pubkey", other, "names the public key"),
        ("/version", json!(3), "keystore version 3: must be 4"),
    ] {
        let tampered = bench.tampered(name, pointer, value);
        fs::set_permissions(bench.path(tampered), fs::Permissions::from_mode(0o600)).unwrap();
        bench
            .run(&format!(
                "sign --key {tampered} --password-file password --text a --out s.json"
            ))
            .expect(2, words);
    }
    assert!(!bench.path("s.json").exists());
}

#[test]
fn bad_options_name_the_bound() {
    let bench = Bench::new();
    fs::create_dir(bench.path("empty")).unwrap();
    let new = "keys new --out keys";
    for (line, words) in [
        (
            format!("{new} --interop 0 --count 0"),
            "allowed are 1 to 1048576",
        ),
        (
            format!("{new} --interop 0 --count 1048577"),
            "allowed are 1 to 1048576",
        ),
        (
            format!("{new} --interop 4194304"),
            "--interop 4194304: 1 keys from there on: indices are below 4194304",
        ),
        (
            format!("{new} --interop 4294967295 --count 2"),
            "--interop 4294967295: 2 keys from there on",
        ),
        (
            format!("{new} --password-file password --kdf-cost 21"),
            "10..=20",
        ),
        (new.to_owned(), "--interop"),
        (format!("{new} --interop 0 --scheme rsa"), "bls"),
        ("verify nowhere.json".to_owned(), "cannot read nowhere.json"),
        ("verify empty".to_owned(), "empty: no signature files"),
        (
            "sign --key k --slot 4 --text a --out s".to_owned(),
            "cannot read k",
        ),
        (
            "sign --key k --text a --message b --out s".to_owned(),
            "cannot be used with",
        ),
        (
            "sign --key password --message abcd --out s".to_owned(),
            "--message has 2 bytes: must have 32",
        ),
        (
            "sign --key k j --text a --out s".to_owned(),
            "use --out-dir",
        ),
    ] {
        bench.run(&line).expect(2, words);
    }
    assert!(!bench.path("keys").exists());
}

/// Examples of the help are commands as they stand, one a line or broken by a backslash.
#[test]
fn examples_can_be_pasted() {
    let bench = Bench::new();
    for command in [
        "keys",
        "keys new",
        "keys import",
        "keys export",
        "keys list",
        "keys inspect",
        "sign",
        "aggregate",
        "merge",
        "verify",
        "proof bundle",
        "proof split",
        "proof inspect",
        "proof security",
    ] {
        let help = bench.run(&format!("{command} --help"));
        help.expect(0, "Examples:\n");
        let (_, about) = help.stdout.split_once("Examples:\n").unwrap();
        let mut broken = false;
        for line in about.lines().take_while(|line| !line.is_empty()) {
            assert!(line.len() <= 82, "{command}: {line}");
            let further = line.starts_with("      ");
            assert_eq!(further, broken, "{command}: {line}");
            assert!(further || line.contains("alphorn "), "{command}: {line}");
            broken = line.ends_with(" \\");
        }
        assert!(!broken, "{command}");
        for line in about.lines() {
            assert!(line.chars().count() <= 100, "{command}: {line}");
        }
    }
}

/// What several operators send becomes the list of a network, and a folder its own list again.
#[test]
fn public_keys_of_many_files_are_joined() {
    let bench = Bench::new();
    let password = "--password-file password";
    for (folder, count) in [("a", 2), ("b", 1)] {
        bench
            .run(&format!(
                "keys new --out {folder} --count {count} --kdf-cost 10 {password}"
            ))
            .expect(0, "public keys");
    }
    bench
        .run(&format!(
            "keys inspect b/keystore-0.json --pop {password} --out b.json"
        ))
        .expect(0, "b.json: public keys: 1");
    let join = format!("keys inspect b.json a/keystore-1.json a --pop {password} --out");
    bench
        .run(&format!("{join} all.json --json report.json"))
        .expect(0, "all.json: public keys: 3");
    bench.run("verify all.json").expect(0, "valid");
    let keys = |name: &str| bench.json(name)["keys"].as_array().unwrap().clone();
    let (a, all) = (keys("a/public-keys.json"), keys("all.json"));
    assert_eq!(all, [keys("b.json")[0].clone(), a[1].clone(), a[0].clone()]);
    assert_eq!(
        bench.json("report.json")["files"][1]["public_key"],
        a[1]["public_key"]
    );
    bench
        .run(&format!("{join} all.json"))
        .expect(2, "all.json exists");
    bench
        .run(&format!("keys inspect a --pop {password} --out again.json"))
        .expect(0, "public keys: 2");
    assert_eq!(keys("again.json"), a);
    bench
        .run("keys inspect a --pop --out x.json")
        .expect(2, "a keystore needs its password");
    let proof = a[1]["proof_of_possession"].clone();
    let lie = bench.tampered("b.json", "/keys/0/proof_of_possession", proof);
    bench
        .run(&format!(
            "keys inspect {lie} a --pop {password} --out x.json"
        ))
        .expect(1, "the proof of possession of public key 0 does not hold");
    assert!(!bench.path("x.json").exists());
}
