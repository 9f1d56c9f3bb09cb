//! A signer that is killed at any moment never shows two signatures of one slot.
//!
//! The child process signs ever new messages, as many slots as it can, and shows each signature on
//! its standard output only after the mark is on the disk. The parent kills it (SIGKILL) after a
//! random time, starts it again, and collects what was shown.

use alphorn_exec::{Backend, Exec};
use alphorn_scheme::{Role, SignItem, Watermark};
use alphorn_types::{Slot, Validator};
use alphorn_xmss::{
    FileWatermark, Item, Purpose, SecretKey, Set, Signature, WatermarkError, verify,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Names the folder of the child, and tells the test below that it is the child.
const FOLDER: &str = "ALPHORN_XMSS_CRASH_FOLDER";
const ME: Validator = Validator(0);
/// The one test here.
const TEST: &str = "no_slot_is_signed_twice_by_a_signer_that_is_killed_again_and_again";
/// Times that the child is killed.
const KILLS: u64 = 40;

fn key() -> SecretKey {
    let exec = Exec::new(Backend::Portable, None);
    SecretKey::interop(Set::Test, Purpose::Vote, 0, 0..256, exec).unwrap()
}

fn open(folder: &Path, key: &SecretKey) -> FileWatermark {
    let (path, state) = (&folder.join("mark"), folder.join("state"));
    match FileWatermark::open(path, Some(&state), ME, key.public_key()) {
        Ok(store) => store,
        Err(WatermarkError::Io { .. }) => {
            FileWatermark::create(path, Some(&state), ME, key.public_key(), Slot(0)).unwrap()
        }
        Err(error) => panic!("a crash left {error}"),
    }
}

/// A child: tries every slot from the first, each with a message of its own.
fn child(folder: &Path) {
    let key = key();
    let mut out = std::io::stdout();
    writeln!(out, "\nREADY").unwrap();
    let store = open(folder, &key);
    let exec = Exec::new(Backend::Portable, None);
    let mut message = [0; 32];
    message[..4].copy_from_slice(&std::process::id().to_le_bytes());
    for slot in 0..256 {
        // Each slot is asked for twice: with a second message the answer must be no.
        for second in [0, 1] {
            message[4] = second;
            let item = SignItem::new(ME, Role::Vote, message);
            let Ok(permit) = store.reserve(Slot(slot), &item) else {
                continue;
            };
            let signature = key.sign(permit, exec).unwrap();
            let bytes = hex::encode(signature.to_bytes());
            writeln!(out, "\nSIGNED {slot} {} {bytes} END", hex::encode(message)).unwrap();
            out.flush().unwrap();
        }
    }
}

/// Starts the child, kills it a while after it has its key, or after it showed a signature, and returns
/// the signatures that it showed.
fn killed_after(folder: &Path, wait: Duration, signs: bool) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line != "READY\n" {
        line.clear();
        assert!(shown.read_line(&mut line).unwrap() > 0, "the child ended");
    }
    let (send, signatures) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let lines = shown.lines().map_while(Result::ok);
        let whole = |line: &String| line.starts_with("SIGNED ") && line.ends_with(" END");
        lines.filter(whole).try_for_each(|line| send.send(line))
    });
    let mut lines = Vec::new();
    if signs {
        // None if the child ends before, since no slot is left.
        lines.extend(signatures.recv());
    }
    std::thread::sleep(wait);
    child.kill().ok();
    child.wait().unwrap();
    reader.join().unwrap().unwrap();
    lines.extend(signatures);
    lines
}

#[test]
fn no_slot_is_signed_twice_by_a_signer_that_is_killed_again_and_again() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return child(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let key = key();
    let mut messages: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let mut lives = 0;
    for kill in 0..KILLS {
        // Fractions of the golden ratio: spread over 0 to 20 ms, the same in each run.
        let wait = Duration::from_micros(kill * 12_361 % 20_000);
        let lines = killed_after(folder.path(), wait, kill % 4 == 0);
        lives += usize::from(!lines.is_empty());
        for line in lines {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, slot, message, bytes, _] = fields[..] else {
                panic!("{line}");
            };
            let slot: u32 = slot.parse().unwrap();
            let signature = Signature::from_bytes(Set::Test, &hex::decode(bytes).unwrap()).unwrap();
            let digest = hex::decode(message).unwrap().try_into().unwrap();
            let item = Item {
                key: key.public_key(),
                index: slot,
                message: &digest,
                signature: &signature,
            };
            assert!(verify(item, Backend::Portable), "slot {slot}");
            messages.entry(slot).or_default().insert(message.to_owned());
        }
    }
    let signed = messages.len();
    assert!(lives >= 2 && signed >= 2, "{lives} lives, {signed} slots");
    for (slot, messages) in messages {
        assert_eq!(messages.len(), 1, "slot {slot}: {messages:?}");
    }
    // The lock died with its holder, and the mark is above all that was shown.
    let store = open(folder.path(), &key);
    assert!(store.slot_next(Role::Vote).unwrap() >= Slot(signed as u64));
}
