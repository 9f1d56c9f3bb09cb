//! Marks that are linked, copied or put back, and keys that move: no slot is signed twice.

mod bench;

use bench::{Bench, Ended};
use std::fs;
use std::os::unix::fs::symlink;

const ROOT: &str = "0x5656565656565656565656565656565656565656565656565656565656565656";
const OTHER: &str = "0x7878787878787878787878787878787878787878787878787878787878787878";
const PASSWORD: &str = "--password-file password";

/// A folder with one keystore of 60 slots, `keys/keystore-0.json`.
fn bench() -> Bench {
    let bench = Bench::new();
    bench
        .run(&format!(
            "keys new --scheme xmss --set test --out keys --slots 60 --kdf-cost 10 {PASSWORD}"
        ))
        .expect(0, "1 key");
    bench
}

fn sign(bench: &Bench, key: &str, slot: u64, message: &str) -> Ended {
    let out = format!("{}.json", fs::read_dir(bench.path(".")).unwrap().count());
    bench.run(&format!(
        "sign --key {key} {PASSWORD} --slot {slot} --message {message} --out {out}"
    ))
}

const KEY: &str = "keys/keystore-0.json";

fn import(bench: &Bench, out: &str, rest: &str) -> Ended {
    let line = format!("keys import {KEY} --out {out} {PASSWORD} --kdf-cost 10{rest}");
    bench.run(&line)
}

#[test]
fn a_linked_key_has_the_mark_of_its_file() {
    let bench = bench();
    for name in ["json", "mark", "tree"] {
        let file = bench.path(&format!("keys/keystore-0.{name}"));
        symlink(&file, bench.path(&format!("soft.{name}"))).unwrap();
        fs::hard_link(&file, bench.path(&format!("hard.{name}"))).unwrap();
    }
    // One of the three files alone is a link, too.
    symlink(bench.path(KEY), bench.path("alone.json")).unwrap();
    sign(&bench, "soft.json", 40, ROOT).expect(0, "");
    sign(&bench, KEY, 40, OTHER).expect(1, "the first free slot is 41");
    sign(&bench, "alone.json", 41, ROOT).expect(0, "");
    sign(&bench, "soft.json", 41, OTHER).expect(1, "the first free slot is 42");
    assert!(bench.path("soft.mark").is_symlink());
    // A hard link ends with the first signature, which replaces the file of one of both names.
    sign(&bench, "hard.json", 42, OTHER).expect(1, "keys import --floor");
    sign(&bench, KEY, 42, ROOT).expect(0, "");
}

#[test]
fn a_copy_of_a_key_and_its_mark_signs_nothing() {
    let bench = bench();
    for name in ["json", "mark"] {
        let file = bench.path(&format!("keys/keystore-0.{name}"));
        fs::copy(file, bench.path(&format!("copy.{name}"))).unwrap();
    }
    sign(&bench, "copy.json", 7, ROOT).expect(0, "");
    sign(&bench, KEY, 7, OTHER).expect(1, "signed up to slot 7");
    sign(&bench, "copy.json", 8, OTHER).expect(0, "");
}

#[test]
fn a_mark_that_is_put_back_needs_a_floor() {
    let mut bench = bench();
    let (mark, backup) = (bench.path("keys/keystore-0.mark"), bench.path("backup"));
    sign(&bench, KEY, 45, ROOT).expect(0, "");
    fs::copy(&mark, &backup).unwrap();
    sign(&bench, KEY, 46, ROOT).expect(0, "");
    fs::copy(&backup, &mark).unwrap();
    for slot in [46, 47] {
        sign(&bench, KEY, slot, OTHER).expect(1, "keys import --floor");
    }
    import(&bench, "x.json", "").expect(1, "keys import --floor");
    // With a floor it goes on, above all that is known whatever the floor says.
    import(&bench, KEY, " --force --floor 3").expect(0, KEY);
    sign(&bench, KEY, 46, OTHER).expect(1, "the first free slot is 47");
    sign(&bench, KEY, 47, OTHER).expect(0, "");
    import(&bench, "moved.json", " --floor 50").expect(0, "moved.json");
    sign(&bench, KEY, 51, ROOT).expect(1, "the key moved elsewhere");
    sign(&bench, "moved.json", 49, ROOT).expect(1, "the first free slot is 50");
    sign(&bench, "moved.json", 50, ROOT).expect(0, "");
    // Both folders put back on another machine: nothing there says where the key signed.
    bench.state = "other-state".to_owned();
    sign(&bench, "moved.json", 51, OTHER).expect(1, "keys import --floor");
    assert!(!bench.path("x.json").exists());
}

/// The user's mark is lost, or damaged, or the key went to a node and came back: what either mark says holds,
/// whatever lower floor is asked for.
#[test]
fn no_floor_goes_below_what_either_mark_says() {
    let mut bench = bench();
    sign(&bench, KEY, 45, ROOT).expect(0, "");
    bench.state = "other-state".to_owned();
    import(&bench, KEY, " --force --floor 3").expect(0, KEY);
    sign(&bench, KEY, 45, OTHER).expect(1, "the first free slot is 46");
    sign(&bench, KEY, 46, OTHER).expect(0, "");
    let marks = fs::read_dir(bench.path("other-state/marks")).unwrap();
    let mut marks = marks.map(|file| file.unwrap().path());
    let mark = marks.find(|path| path.extension().is_some_and(|e| e == "mark"));
    fs::write(mark.unwrap(), "damaged").unwrap();
    sign(&bench, KEY, 47, ROOT).expect(2, "sign nothing before a floor");
    import(&bench, KEY, " --force --floor 3").expect(0, KEY);
    sign(&bench, KEY, 46, ROOT).expect(1, "the first free slot is 47");
    // Where the key moved from, and nothing but its spent mark is left.
    import(&bench, "moved.json", " --floor 50").expect(0, "moved.json");
    bench.state = "third-state".to_owned();
    import(&bench, KEY, " --force").expect(2, "give --floor SLOT");
    for floor in [3, 50] {
        let floor = format!(" --force --floor {floor}");
        import(&bench, KEY, &floor).expect(1, "the key moved elsewhere");
    }
    import(&bench, KEY, " --force --floor 51").expect(0, KEY);
    sign(&bench, KEY, 50, OTHER).expect(1, "the first free slot is 51");
}

/// The key goes on at its old place if the new one cannot be written.
#[test]
fn a_move_that_fails_takes_nothing_away() {
    let bench = bench();
    sign(&bench, KEY, 3, ROOT).expect(0, "");
    fs::write(bench.path("taken.mark"), "").unwrap();
    for (out, words) in [
        ("nowhere/key.json", "cannot write"),
        ("/proc/key.json", "cannot write"),
        ("taken.json", "taken.mark exists"),
    ] {
        import(&bench, out, "").expect(2, words);
        import(&bench, out, " --floor 9").expect(2, words);
        assert!(!bench.path("taken.json").exists());
    }
    sign(&bench, KEY, 4, ROOT).expect(0, "");
    let inspect = bench.run(&format!("keys inspect {KEY} --json inspect.json"));
    inspect.expect(0, "slot next");
    assert_eq!(bench.json("inspect.json")["slot_next"], 5);
}
