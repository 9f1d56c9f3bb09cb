//! The processes that a test started, whoever their parents are by now.

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(90);

/// A variable of the environment that all of a family inherit; a devnet hands no `ALPHORN_..` on.
const MARK: &str = "TEST_FAMILY_OF_ALPHORN";

/// Processes with one mark.
pub(crate) struct Family {
    mark: String,
}

/// The number of a process, and its arguments.
pub(crate) type Member = (u32, Vec<String>);

impl Family {
    /// A mark that nobody else has.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            mark: format!("{name}-{}", std::process::id()),
        }
    }

    /// Makes a command, and all that it starts, members.
    pub(crate) fn mark(&self, command: &mut Command) {
        command.env(MARK, &self.mark);
    }

    /// Who lives now.
    pub(crate) fn members(&self) -> Vec<Member> {
        let wanted = format!("{MARK}={}", self.mark);
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let member = |pid: u32| {
            let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).ok();
            let is_zero = |byte: &u8| *byte == 0;
            // One that has ended and was not yet waited for has no environment any more.
            let environment = read("environ")?;
            let mut variables = environment.split(is_zero);
            variables.find(|variable| *variable == wanted.as_bytes())?;
            let text = |arg: &[u8]| String::from_utf8_lossy(arg).into_owned();
            let args = read("cmdline")?.split(is_zero).map(text).collect();
            Some((pid, args))
        };
        pids.filter_map(member).collect()
    }

    /// Waits until something holds of those who live.
    pub(crate) fn wait(&self, otherwise: &str, holds: impl Fn(&[Member]) -> bool) {
        let until = Instant::now() + PATIENCE;
        loop {
            let members = self.members();
            if holds(&members) {
                return;
            }
            assert!(Instant::now() < until, "{otherwise}: {members:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What a node says when it runs.
pub(crate) fn told(home: &Path) -> Value {
    let path = home.join("data/ready.json");
    let until = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if let Ok(ready) = serde_json::from_str(&text) {
            return ready;
        }
        assert!(Instant::now() < until, "{} does not start", home.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}
