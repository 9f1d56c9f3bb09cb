//! The processes of a devnet: they start together, and die with their parent.

use super::{Plan, end};
use crate::error::Result;
use crate::node::files::NodeEntry;
use crate::report::Sink;
use alphorn_node::summary::Summary;
use anyhow::Context;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the parent looks after its children.
const LOOK: Duration = Duration::from_millis(50);
/// How long they may take to end.
const END: Duration = Duration::from_secs(10);
/// Lines of a log that are shown when a node fails.
const LOG_LINES: usize = 5;

struct Process {
    name: String,
    home: PathBuf,
    child: Child,
}

/// The processes that run. Dropping it kills them.
pub(super) struct Running {
    processes: Vec<Process>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended already.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

impl Process {
    fn start(folder: &Path, name: &str) -> Result<Self> {
        let home = folder.join(name);
        let log = File::create(home.join("log.txt"))?;
        let child = Command::new(std::env::current_exe()?)
            .arg("node")
            .args(["--genesis".as_ref(), folder.as_os_str()])
            .args(["--node-id", name])
            .args(["--data-dir".as_ref(), home.join("data").as_os_str()])
            .args(["--node-key".as_ref(), home.join("node.key").as_os_str()])
            .args(["--api-port", "0", "--exit-on-stdin-eof"])
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Process {
            name: name.to_owned(),
            home,
            child,
        })
    }

    /// The end of its log, to be shown with an error.
    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.home.join("log.txt")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn summary(&self) -> Result<Summary> {
        let path = self.home.join("data").join("summary.json");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{}: {}", path.display(), self.last_words()))?;
        Ok(serde_json::from_str(&text).with_context(|| path.display().to_string())?)
    }
}

impl Running {
    /// Starts a process for each node.
    pub(super) fn start(folder: &Path, nodes: &[NodeEntry]) -> Result<Self> {
        let mut running = Running {
            processes: Vec::new(),
        };
        for node in nodes {
            running.processes.push(Process::start(folder, &node.name)?);
        }
        Ok(running)
    }

    /// An error if a process has ended.
    fn check(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.child.try_wait()? {
                let (name, words) = (&process.name, process.last_words());
                return Err(end(3, format!("{name} ended with {status}:\n{words}")));
            }
        }
        Ok(())
    }

    /// Waits until every node says that it runs.
    pub(super) fn wait_ready(&mut self, patience: Duration) -> Result<()> {
        let until = Instant::now() + patience;
        loop {
            self.check()?;
            let is_late = |process: &&Process| !process.home.join("data/ready.json").exists();
            let Some(late) = self.processes.iter().find(is_late) else {
                return Ok(());
            };
            if Instant::now() >= until {
                let (name, words) = (&late.name, late.last_words());
                let seconds = patience.as_secs();
                return Err(end(
                    3,
                    format!("{name} is not ready after {seconds} s:\n{words}"),
                ));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for the end of the last slot, and says which slot it is.
    pub(super) fn wait_until(&mut self, plan: &Plan, sink: &Sink) -> Result<()> {
        let genesis = UNIX_EPOCH + Duration::from_secs(plan.network.genesis_time);
        let slot = Duration::from_millis(plan.timing.slot_ms());
        let mut said = None;
        loop {
            self.check()?;
            let now = SystemTime::now();
            if now >= plan.end() {
                return Ok(());
            }
            let since = now.duration_since(genesis).ok();
            let current = since.map(|since| since.as_nanos() / slot.as_nanos());
            if current != said && current.is_some_and(|current| current % 10 == 0) {
                let last = plan.warmup + plan.slots;
                sink.say(&format!("slot {} of {last}", current.unwrap_or(0)));
            }
            said = current;
            std::thread::sleep(LOOK);
        }
    }

    /// Ends all nodes, and reads what they tell of themselves.
    pub(super) fn end(mut self) -> Result<Vec<Summary>> {
        for process in &mut self.processes {
            drop(process.child.stdin.take());
        }
        let until = Instant::now() + END;
        for process in &mut self.processes {
            while process.child.try_wait()?.is_none() {
                if Instant::now() >= until {
                    let seconds = END.as_secs();
                    return Err(end(
                        6,
                        format!("{} does not end in {seconds} s", process.name),
                    ));
                }
                std::thread::sleep(LOOK);
            }
        }
        self.processes.iter().map(Process::summary).collect()
    }
}
