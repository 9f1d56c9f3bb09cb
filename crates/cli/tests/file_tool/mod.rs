//! The built binary in a folder of its own, for tests of the file tool.

use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The message of the votes.
pub(crate) const ROOT: &str = "0x5656565656565656565656565656565656565656565656565656565656565656";

/// A folder for one test, with a private password file in it.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Fails unless the code is as expected and standard error has the words.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, words: &str) -> &Self {
        let text = format!("{}{}", self.stdout, self.stderr);
        assert_eq!(self.code, code, "{text}");
        assert!(text.contains(words), "{words:?} is not in {text}");
        assert!(!self.stderr.contains("panicked"), "{text}");
        self
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        let bench = Bench {
            folder: tempfile::tempdir().unwrap(),
        };
        bench.write_secret("password", "correct horse\n");
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write_secret(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub(crate) fn run(&self, line: &str) -> Ended {
        self.run_with(line, "")
    }

    /// Runs `alphorn` in the folder; words are separated by single spaces.
    pub(crate) fn run_with(&self, line: &str, stdin: &str) -> Ended {
        let mut child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
            .args(line.split(' '))
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that fails early may not read its input.
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).ok();
        let output = child.wait_with_output().unwrap();
        Ended {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

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
