//! What tests of the file tool share: votes in files, and files that were changed.

use crate::bench::Bench;
use serde_json::{Value, json};
use std::fs;

/// The message of the votes.
pub(crate) const ROOT: &str = "0x5656565656565656565656565656565656565656565656565656565656565656";

impl Bench {
    /// A copy of a file with one field replaced.
    pub(crate) fn tampered(&self, name: &str, pointer: &str, value: Value) -> &'static str {
        let mut file = self.json(name);
        *file.pointer_mut(pointer).unwrap() = value;
        fs::write(self.path("tampered.json"), file.to_string()).unwrap();
        "tampered.json"
    }

    /// Interop keys 0..8 in `keys`, their signatures over [`ROOT`] in `votes`; options of keys and
    /// signatures begin with a space.
    pub(crate) fn votes(&self, key_options: &str, sign_options: &str) {
        self.run(&format!(
            "keys new --out keys --count 8 --interop 0{key_options}"
        ))
        .expect(0, "INSECURE");
        fs::create_dir(self.path("votes")).unwrap();
        let keys: Vec<String> = (0..8).map(|i| format!("keys/interop-{i}.json")).collect();
        let keys = keys.join(" ");
        self.run(&format!(
            "sign --key {keys} --message {ROOT} --out-dir votes{sign_options}"
        ))
        .expect(0, "votes/interop-7.signature.json");
    }
}

/// Another hex string of the same length: the last digit changed.
pub(crate) fn changed(value: &Value) -> Value {
    let mut text = value.as_str().unwrap().to_owned();
    let last = text.pop().unwrap();
    text.push(if last == '0' { '1' } else { '0' });
    json!(text)
}

/// The file of a vote.
pub(crate) fn vote(i: usize) -> String {
    format!("votes/interop-{i}.signature.json")
}

/// The files of some votes.
pub(crate) fn votes(range: std::ops::Range<usize>) -> String {
    range.map(vote).collect::<Vec<_>>().join(" ")
}
