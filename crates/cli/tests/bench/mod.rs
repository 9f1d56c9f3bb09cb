//! The built binary in a folder of its own.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A folder for one test, with a private password file in it.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    /// The folder in it where a user's marks are kept.
    pub(crate) state: String,
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
            state: "state".to_owned(),
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
            .env("ALPHORN_STATE_DIR", self.path(&self.state))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that fails early may not read its input.
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).ok();
        let output = child.wait_with_output().unwrap();
        Ended {
            code: output
                .status
                .code()
                .unwrap_or_else(|| panic!("{line}: {output:?}")),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }
}
