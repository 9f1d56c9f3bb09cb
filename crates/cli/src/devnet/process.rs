//! The processes of a devnet: they start together, are stopped and restarted, and die with their parent.

use super::faults::{Fault, Kind};
use super::interrupt::Interrupt;
use super::{Member, end};
use crate::error::Result;
use crate::node::client::{self, Api};
use alphorn_net::{NetworkDigest, NodeId};
use alphorn_node::sign_log::{self, Signed};
use alphorn_node::telemetry::Summary;
use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Interval at which the parent polls its children.
const LOOK: Duration = Duration::from_millis(50);
/// Polling interval where the awaited event is timed.
const LOOK_CLOSELY: Duration = Duration::from_millis(2);
/// Time limit for processes to end.
const END: Duration = Duration::from_secs(10);
/// Time limit for a process to be ready again.
const READY: Duration = Duration::from_secs(60);
/// Duration for which a slow node alternately runs and is paused.
const SLOW: Duration = Duration::from_millis(50);
/// Lines of a log that are shown when a node fails.
const LOG_LINES: usize = 5;

/// The outcome of a fault.
pub(super) struct Happened {
    pub(super) fault: Fault,
    pub(super) name: String,
    /// The life of the node that started with it.
    pub(super) life: usize,
    /// Time the node took to end, in milliseconds, if it was asked to.
    pub(super) end_ms: Option<f64>,
    /// Time from its start until it was ready again, in milliseconds.
    pub(super) ready_ms: Option<f64>,
    /// Number of prove lane processes killed.
    pub(super) provers: u64,
}

struct Process {
    folder: PathBuf,
    name: String,
    home: PathBuf,
    id: NodeId,
    options: Vec<String>,
    record: bool,
    child: Child,
    started: Instant,
    /// Its final summaries before each restart.
    past: Vec<Summary>,
    /// Its latest summary since its start, with all slots of that time.
    seen: Summary,
}

/// What is known about the nodes at the end.
pub(super) struct Told {
    /// For each node, a summary for each time it was started.
    pub(super) lives: Vec<Vec<Summary>>,
    /// Every right to sign that a node handed out, and how often.
    pub(super) rights: BTreeMap<Signed, u64>,
}

/// Returns the newest summary of a life, extended with the slots of an earlier one that the node has
/// since forgotten.
fn with_all_slots(mut newest: Summary, earlier: &Summary) -> Summary {
    newest.take_slots(earlier);
    newest
}

/// The running processes. Dropping it kills them.
pub(super) struct Running {
    processes: Vec<Process>,
    /// Interval between polls of their figures, and the time of the next one.
    look_every: Duration,
    look_at: Instant,
    /// Interrupts every wait.
    interrupt: Interrupt,
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

fn spawn(
    folder: &Path,
    name: &str,
    life: usize,
    options: &[String],
    record: bool,
) -> Result<Child> {
    let home = folder.join(name);
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(home.join("log.txt"))?;
    // Passed as one word, since a path may start like an option.
    let option = |name: &str, path: &Path| {
        let mut word = OsString::from(name);
        word.push("=");
        word.push(path);
        word
    };
    let recorded = record.then(|| home.join(format!("inputs-{life}.record")));
    let mut command = Command::new(std::env::current_exe()?);
    // Environment variables for a single node, such as its port, do not apply to all of these. The
    // folders of this program apply to every process it starts.
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        let is_folder = ["ALPHORN_STATE_DIR", "ALPHORN_CACHE_DIR"].contains(&&*name);
        if name.starts_with("ALPHORN_") && !is_folder {
            command.env_remove(&variable);
        }
    }
    // Ctrl-C on a terminal is for the parent, which ends its nodes in order.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command
        .arg("node")
        .arg(option("--genesis", folder))
        .arg(option("--node-id", name.as_ref()))
        .arg(option("--data-dir", &home.join("data")))
        .arg(option("--node-key", &home.join("node.key")))
        .arg(option("--sign-log", &signed(&home, life)))
        .arg("--exit-on-stdin-eof")
        .args(options)
        .args(recorded.map(|path| option("--record", &path)))
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn();
    child.map_err(|error| end(3, format!("{name} does not start: {error}")))
}

/// Returns the file in which a node lists its rights to sign since start number `life`.
fn signed(home: &Path, life: usize) -> PathBuf {
    home.join(format!("signed-{life}.txt"))
}

impl Process {
    fn start(folder: &Path, member: &Member, extra: &[String], record: bool) -> Result<Self> {
        let name = &member.node.name;
        let mut options = extra.to_vec();
        options.extend(["--api-port".to_owned(), member.api_port.to_string()]);
        Ok(Process {
            folder: folder.to_owned(),
            name: name.clone(),
            home: folder.join(name),
            id: member.id,
            started: Instant::now(),
            child: spawn(folder, name, 0, &options, record)?,
            options,
            record,
            past: Vec::new(),
            seen: Summary::default(),
        })
    }

    /// Returns the content of `ready.json`, if it is from this process.
    fn ready(&self) -> Option<Value> {
        let text = std::fs::read_to_string(self.home.join("data/ready.json")).ok()?;
        let ready: Value = serde_json::from_str(&text).ok()?;
        // A killed node leaves its file behind, which must not pass for that of its next life.
        (ready["pid"] == self.child.id()).then_some(ready)
    }

    fn api(&self) -> Result<Api> {
        let ready = self.ready().context("not ready");
        let ready = ready.with_context(|| self.name.clone())?;
        let address = ready["api"].as_str().and_then(|text| text.parse().ok());
        let token = std::fs::read_to_string(self.home.join("data/api.token"))?;
        Ok(Api {
            address: address.ok_or_else(|| anyhow!("{}: no address of the API", self.name))?,
            token,
            patience: client::PATIENCE,
        })
    }

    /// Returns the end of its log, to be shown with an error.
    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.home.join("log.txt")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Returns its summary while it runs.
    fn running_summary(&self) -> Result<Summary> {
        let text = self.api()?.get("/alphorn/v0/summary")?;
        Ok(serde_json::from_str(&text).with_context(|| self.name.clone())?)
    }

    /// Returns the summary it wrote when it ended.
    fn last_summary(&self) -> Result<Summary> {
        let path = self.home.join("data").join("summary.json");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{}: {}", path.display(), self.last_words()))?;
        Ok(serde_json::from_str(&text).with_context(|| path.display().to_string())?)
    }

    /// Waits until it has ended.
    fn wait_end(&mut self) -> Result<ExitStatus> {
        let until = Instant::now() + END;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= until {
                let (name, seconds) = (&self.name, END.as_secs());
                return Err(end(6, format!("{name} does not end in {seconds} s")));
            }
            std::thread::sleep(LOOK_CLOSELY);
        }
    }

    /// Waits until it has ended properly: by itself, with exit code 0.
    fn wait_orderly_end(&mut self) -> Result<()> {
        let status = self.wait_end()?;
        if !status.success() {
            let (name, words) = (&self.name, self.last_words());
            return Err(end(6, format!("{name} ended with {status}:\n{words}")));
        }
        Ok(())
    }

    /// Restarts it, and returns the milliseconds until it is ready.
    fn restart(&mut self) -> Result<f64> {
        self.started = Instant::now();
        let life = self.past.len();
        self.child = spawn(&self.folder, &self.name, life, &self.options, self.record)?;
        while self.ready().is_none() {
            if let Some(status) = self.child.try_wait()? {
                let (name, words) = (&self.name, self.last_words());
                return Err(end(3, format!("{name} ended with {status}:\n{words}")));
            }
            if self.started.elapsed() >= READY {
                let (name, seconds) = (&self.name, READY.as_secs());
                return Err(end(3, format!("{name} is not ready after {seconds} s")));
            }
            std::thread::sleep(LOOK_CLOSELY);
        }
        Ok(self.started.elapsed().as_secs_f64() * 1e3)
    }

    /// Polls its figures before it forgets the oldest slots. A node that does not answer is asked again
    /// next time; slots that could not be polled are not judged.
    fn look(&mut self) {
        if let Ok(summary) = self.running_summary() {
            self.seen = with_all_slots(summary, &self.seen);
        }
    }

    /// Stores its summary as that of a finished life.
    fn end_life(&mut self, summary: Summary) {
        let seen = std::mem::take(&mut self.seen);
        self.past.push(with_all_slots(summary, &seen));
    }

    fn kill(&mut self) -> Result<()> {
        // A killed process writes no last summary, so its figures are read before.
        let summary = self.running_summary()?;
        self.end_life(summary);
        self.child.kill()?;
        self.wait_end().map(drop)
    }

    /// Asks it to end, and returns the milliseconds that it took.
    fn terminate(&mut self) -> Result<f64> {
        let began = Instant::now();
        signal(&self.child, Signal::Terminate)?;
        self.wait_orderly_end()?;
        let took_ms = began.elapsed().as_secs_f64() * 1e3;
        let summary = self.last_summary()?;
        self.end_life(summary);
        Ok(took_ms)
    }

    /// Kills its child processes as soon as they appear, and returns their number. Each counts once,
    /// though it stays in the process table for a while.
    fn kill_provers(&self, for_ms: u64, interrupt: &Interrupt) -> u64 {
        let until = Instant::now() + Duration::from_millis(for_ms);
        let mut killed = BTreeSet::new();
        while Instant::now() < until && !interrupt.is_set() {
            killed.extend(
                children(self.child.id())
                    .into_iter()
                    .filter(|child| kill(*child)),
            );
            std::thread::sleep(LOOK_CLOSELY);
        }
        killed.len() as u64
    }

    /// Pauses it half of the time.
    fn slow(&self, for_ms: u64, interrupt: &Interrupt) -> Result<()> {
        let until = Instant::now() + Duration::from_millis(for_ms);
        while Instant::now() < until && !interrupt.is_set() {
            signal(&self.child, Signal::Stop)?;
            std::thread::sleep(SLOW);
            signal(&self.child, Signal::Continue)?;
            std::thread::sleep(SLOW);
        }
        Ok(())
    }
}

/// Returns the live child processes of a process, from the Linux process table.
#[cfg(target_os = "linux")]
fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |name: &str| name.parse::<u32>().ok();
    let numbers = processes.filter_map(|entry| number(entry.file_name().to_str()?));
    let of_parent = |child: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        living_of(&stat) == Some(parent)
    };
    numbers.filter(of_parent).collect()
}

/// Returns the parent of a process from its stat line; none if the process has ended but has not been
/// reaped.
#[cfg(target_os = "linux")]
fn living_of(stat: &str) -> Option<u32> {
    // The name may contain anything but ends at the last bracket. After it come state and parent.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut rest = rest.split_whitespace();
    let is_living = !matches!(rest.next()?, "Z" | "X");
    rest.next()?.parse().ok().filter(|_| is_living)
}

#[cfg(not(target_os = "linux"))]
fn children(_: u32) -> Vec<u32> {
    Vec::new()
}

/// A signal for a process.
#[derive(Clone, Copy)]
enum Signal {
    Terminate,
    Stop,
    Continue,
}

#[cfg(unix)]
fn signal(child: &Child, signal: Signal) -> Result<()> {
    use rustix::process::{Pid, kill_process};
    let signal = match signal {
        Signal::Terminate => rustix::process::Signal::TERM,
        Signal::Stop => rustix::process::Signal::STOP,
        Signal::Continue => rustix::process::Signal::CONT,
    };
    Ok(kill_process(Pid::from_child(child), signal).context("a signal")?)
}

/// Kills a process by its id; false if it is already gone.
#[cfg(unix)]
fn kill(process: u32) -> bool {
    use rustix::process::{Pid, Signal, kill_process};
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| kill_process(process, Signal::KILL).is_ok())
}

#[cfg(not(unix))]
fn kill(_: u32) -> bool {
    false
}

#[cfg(not(unix))]
fn signal(_: &Child, _: Signal) -> Result<()> {
    Err(anyhow!("--faults: this system has no such signal; kill and partition work").into())
}

impl Running {
    /// Starts a process for each node, with extra options. Their figures are polled every `look_every`.
    /// An interruption ends each wait.
    pub(super) fn start(
        folder: &Path,
        members: &[Member],
        extra: &[String],
        record: bool,
        look_every: Duration,
        interrupt: Interrupt,
    ) -> Result<Self> {
        let mut running = Running {
            processes: Vec::new(),
            look_every,
            look_at: Instant::now() + look_every,
            interrupt,
        };
        for member in members {
            // Each is in `running` before the next one starts: if that fails, its drop kills those that run.
            let process = Process::start(folder, member, extra, record)?;
            running.processes.push(process);
        }
        Ok(running)
    }

    /// Returns an error if a process has ended.
    fn check(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.child.try_wait()? {
                let (name, words) = (&process.name, process.last_words());
                return Err(end(3, format!("{name} ended with {status}:\n{words}")));
            }
        }
        Ok(())
    }

    /// Waits until every node reports that it is running.
    pub(super) fn wait_ready(&mut self, until: SystemTime) -> Result<()> {
        let began = Instant::now();
        loop {
            self.check()?;
            let Some(late) = self.processes.iter().find(|one| one.ready().is_none()) else {
                return Ok(());
            };
            if self.interrupt.is_set() {
                let what = format!("interrupted before {} was ready", late.name);
                return Err(end(crate::stop::INTERRUPTED, what));
            }
            if SystemTime::now() >= until {
                let (name, words) = (&late.name, late.last_words());
                let seconds = began.elapsed().as_secs();
                return Err(end(
                    3,
                    format!("{name} is not ready after {seconds} s:\n{words}"),
                ));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the name of the network that the nodes are in.
    pub(super) fn network(&self) -> Result<NetworkDigest> {
        let ready = self.processes.first().and_then(Process::ready);
        let ready = ready.context("no node is ready")?;
        let bytes = hex::decode(ready["network"].as_str().unwrap_or_default());
        let bytes = bytes.context("ready.json: network")?;
        let first: Option<&[u8; 4]> = bytes.first_chunk();
        Ok(NetworkDigest(*first.context("ready.json: network")?))
    }

    /// Returns the process ids of the nodes, in order.
    pub(super) fn pids(&self) -> Vec<u32> {
        let processes = self.processes.iter();
        processes.map(|process| process.child.id()).collect()
    }

    /// Waits for an instant, or for an interruption.
    pub(super) fn wait_until(&mut self, at: SystemTime) -> Result<()> {
        while !self.interrupt.is_set() {
            self.check()?;
            if Instant::now() >= self.look_at {
                self.look_at = Instant::now() + self.look_every;
                self.processes.iter_mut().for_each(Process::look);
            }
            let Ok(left) = at.duration_since(SystemTime::now()) else {
                break;
            };
            std::thread::sleep(left.min(LOOK));
        }
        Ok(())
    }

    /// Whether an interruption was requested.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    /// Applies a fault to its node, and returns when it is over.
    pub(super) fn suffer(&mut self, fault: Fault) -> Result<Happened> {
        let nodes = self.processes.len();
        let interrupt = self.interrupt.clone();
        let lasts = Duration::from_millis(fault.for_ms);
        let mut happened = Happened {
            fault,
            name: self.processes[fault.node].name.clone(),
            life: 0,
            end_ms: None,
            ready_ms: None,
            provers: 0,
        };
        let process = &mut self.processes[fault.node];
        match fault.kind {
            Kind::Kill => {
                process.kill()?;
                happened.ready_ms = Some(process.restart()?);
            }
            Kind::Term => {
                happened.end_ms = Some(process.terminate()?);
                happened.ready_ms = Some(process.restart()?);
            }
            Kind::Pause => {
                signal(&process.child, Signal::Stop)?;
                interrupt.rest(lasts);
                signal(&process.child, Signal::Continue)?;
            }
            Kind::Slow => process.slow(fault.for_ms, &interrupt)?,
            Kind::Prover => {
                happened.provers = process.kill_provers(fault.for_ms, &interrupt);
            }
            Kind::Partition => {
                self.cut(&fault.side(nodes), "block")?;
                interrupt.rest(lasts);
                self.cut(&fault.side(nodes), "unblock")?;
            }
        }
        happened.life = self.processes[fault.node].past.len();
        Ok(happened)
    }

    /// Blocks or unblocks all connections between nodes of one side and all others.
    fn cut(&self, side: &BTreeSet<usize>, what: &str) -> Result<()> {
        for (i, process) in self.processes.iter().enumerate() {
            let api = process.api()?;
            for (j, other) in self.processes.iter().enumerate() {
                if side.contains(&i) != side.contains(&j) {
                    let body = json!({ what: other.id.to_string() });
                    api.post("/alphorn/v0/admin/peers", &body)?;
                }
            }
        }
        Ok(())
    }

    /// Ends all nodes, and reads their final reports.
    pub(super) fn end(mut self) -> Result<Told> {
        for process in &mut self.processes {
            // The end of its standard input asks a node to end (`--exit-on-stdin-eof`). All are asked
            // before any is waited for, so that none runs on without its peers.
            drop(process.child.stdin.take());
        }
        let mut told = Told {
            lives: Vec::new(),
            rights: BTreeMap::new(),
        };
        for process in &mut self.processes {
            process.wait_orderly_end()?;
            for life in 0..=process.past.len() {
                let path = signed(&process.home, life);
                let counted = sign_log::count(&path, &mut told.rights);
                counted.with_context(|| path.display().to_string())?;
            }
            let summary = process.last_summary()?;
            process.end_life(summary);
            told.lives.push(std::mem::take(&mut process.past));
        }
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_slots_of_a_long_life_are_known() {
        let (all, step) = (10_000, super::super::LOOK_SLOTS);
        let remembered = |newest: u64| {
            let oldest = newest.saturating_sub(Summary::JUDGED_MAX as u64 - 1);
            let slots = || oldest..=newest;
            Summary {
                missed: slots().map(|slot| (slot, slot % 2)).collect(),
                credited: slots().map(|slot| (slot, 9)).collect(),
                two_thirds_ms: slots().map(|slot| (slot, 0.5)).collect(),
                judged_slots: newest,
                ..Summary::default()
            }
        };
        let looks = (step..all).step_by(step as usize).chain([all]);
        // A node that fails to answer twice forgets nothing.
        let heard = looks.enumerate();
        let heard = heard.filter(|(at, newest)| at % 3 == 2 || *newest == all);
        let seen = heard.fold(Summary::default(), |seen, (_, newest)| {
            with_all_slots(remembered(newest), &seen)
        });
        assert_eq!(seen.judged_slots, all);
        assert_eq!(seen.missed.len() as u64, all + 1);
        assert_eq!(seen.missed.values().sum::<u64>(), all / 2);
        assert_eq!(seen.credited.len(), seen.missed.len());
        assert_eq!(seen.two_thirds_ms.len(), seen.missed.len());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_that_has_ended_is_none() {
        assert_eq!(living_of("17 (a) Z) b) S 4 17 17 0 -1"), Some(4));
        for ended in [
            "17 (alphorn) Z 4 17",
            "17 (alphorn) X 4 17",
            "17 (alphorn) S",
            "",
        ] {
            assert_eq!(living_of(ended), None, "{ended}");
        }
        let me = std::process::id();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(me).contains(&child.id()));
        child.kill().unwrap();
        let until = Instant::now() + END;
        while children(me).contains(&child.id()) {
            assert!(Instant::now() < until, "one that nobody waited for counts");
            std::thread::sleep(LOOK_CLOSELY);
        }
        child.wait().unwrap();
    }
}
