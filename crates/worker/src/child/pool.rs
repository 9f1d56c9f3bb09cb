//! The lane's side: the working child, the standby child, and their replacement.

use super::{Answer, Frame, FrameError, Init, JobFrame, Message};
use crate::os;
use alphorn_exec::Stop;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of frames waiting for a lane; a child with more to send waits.
const EVENTS_MAX: usize = 64;

/// Processor time that a child may use for set-up before its silence counts as a hang; wall-clock time if the system
/// does not report it. A child starved of processor time does not hang.
const SETUP_MAX: Duration = Duration::from_secs(30);
/// The same limit in wall-clock time, however little processor time it gets.
const SETUP_WAIT_MAX: Duration = Duration::from_secs(600);

/// Number of consecutive children that may die before taking a job, until the job is refused.
const CHILDREN_MAX: usize = 3;

/// Interval at which a lane checks whether its job must stop.
const POLL: Duration = Duration::from_millis(5);

/// How a child is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildCommand {
    /// The binary, usually the embedder's own.
    pub program: PathBuf,
    /// Its arguments, which lead to [`serve_child`](super::serve_child).
    pub args: Vec<OsString>,
    /// Data from which the child builds its environment; no secrets.
    pub setup: Arc<[u8]>,
}

/// Kills a child from another thread.
#[derive(Clone, Debug)]
pub(super) struct Killer {
    child: Arc<Mutex<Child>>,
    has_killed: Arc<AtomicBool>,
}

impl Killer {
    pub(super) fn of(child: Child) -> Self {
        Self {
            child: Arc::new(Mutex::new(child)),
            has_killed: Arc::default(),
        }
    }

    fn kill(&self) {
        self.has_killed.store(true, Ordering::Relaxed);
        // Fails only if it has ended.
        let _ = lock(&self.child).kill();
    }

    fn has_killed(&self) -> bool {
        self.has_killed.load(Ordering::Relaxed)
    }

    /// Processor time of the child, if the system reports it.
    fn cpu(&self) -> Option<Duration> {
        let id = lock(&self.child).id();
        os::cpu_of(id)
    }

    fn end(&self) {
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Gives the keeper access to the children that a lane waits for: the one with the job, and one being set up, possibly
/// as standby. Locked only to replace or to kill what it names, so that a child that is no longer named is never
/// killed.
#[derive(Clone, Debug, Default)]
pub(crate) struct AtWork(Arc<Mutex<Vec<Killer>>>);

impl AtWork {
    /// Kills the working children; false if there are none.
    pub(crate) fn kill(&self) -> bool {
        let killers = lock(&self.0);
        killers.iter().for_each(Killer::kill);
        !killers.is_empty()
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        lock(&self.0).len()
    }

    fn name(&self, killers: impl IntoIterator<Item = Killer>) {
        *lock(&self.0) = killers.into_iter().collect();
    }
}

/// A child and the pipe to it.
pub(super) struct Link {
    pub(super) generation: u32,
    /// The environment it was set up with.
    env: u64,
    pub(super) input: Box<dyn Write + Send>,
    pub(super) killer: Option<Killer>,
    born: Instant,
    ready: bool,
}

impl Link {
    /// Whether the child has not answered yet and is still within its set-up time.
    fn is_setting_up(&self) -> bool {
        let cpu = || self.killer.as_ref().and_then(Killer::cpu);
        !self.ready && may_set_up(self.born.elapsed(), cpu)
    }

    fn was_killed(&self) -> bool {
        self.killer.as_ref().is_some_and(Killer::has_killed)
    }

    /// Outcome for a child that is gone before it was ready, or before it took a job. One killed for its silence is not
    /// followed by another, whose time would start again.
    fn lost(&self) -> Told {
        match self.was_killed() {
            true if self.ready => Told::Died,
            true => Told::Unfit("a child process did not set up in time".into()),
            false => Told::Lost,
        }
    }
}

/// Whether a child of this age and processor time may still be setting up.
pub(super) fn may_set_up(age: Duration, cpu: impl FnOnce() -> Option<Duration>) -> bool {
    age < SETUP_MAX || age < SETUP_WAIT_MAX && cpu().is_some_and(|cpu| cpu < SETUP_MAX)
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(killer) = &self.killer {
            killer.end();
        }
    }
}

/// What a reader received from a child.
struct Heard {
    generation: u32,
    frame: Result<Frame, FrameError>,
}

/// Outcome of a job in a child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It ended.
    Answered {
        cpu_ns: u64,
        peak_bytes: u64,
        answer: Answer,
    },
    /// The child crashed, was killed because it hung or did not stop, or sent invalid frames.
    Died,
    /// The child was gone before it started the job.
    Lost,
    /// No child can be started or set up.
    Unfit(String),
}

/// The limits of a pool's children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub threads: u16,
    pub nice: u8,
    pub data_bytes_max: u64,
    pub beat_ms: u16,
    /// Whether a standby child is kept.
    pub standby: bool,
    /// Whether a child runs only one job.
    pub recycle: bool,
}

/// The children of one process lane.
pub(crate) struct ChildPool {
    limits: Limits,
    at_work: AtWork,
    generation: u32,
    active: Option<Link>,
    standby: Option<Link>,
    heard: Receiver<Heard>,
    tell: SyncSender<Heard>,
    stale_frames: Arc<AtomicU64>,
}

impl ChildPool {
    pub(crate) fn new(limits: Limits, at_work: AtWork, stale_frames: Arc<AtomicU64>) -> Self {
        let (tell, heard) = sync_channel(EVENTS_MAX);
        Self {
            limits,
            at_work,
            generation: 0,
            active: None,
            standby: None,
            heard,
            tell,
            stale_frames,
        }
    }

    /// Runs a job in a child started by `command` for environment `env`, starting one if none is suitable.
    pub(crate) fn run(
        &mut self,
        command: &ChildCommand,
        env: u64,
        job: u64,
        frame: JobFrame,
        stop: &Stop,
        beats: &AtomicU64,
    ) -> Told {
        let message = Message::Job(frame);
        for _ in 0..CHILDREN_MAX {
            match self.run_once(command, env, job, &message, stop, beats) {
                Told::Lost if !stop.is_stopped() => {}
                told => return told,
            }
        }
        Told::Unfit(format!(
            "{CHILDREN_MAX} child processes in turn died before they had the job"
        ))
    }

    fn run_once(
        &mut self,
        command: &ChildCommand,
        env: u64,
        job: u64,
        message: &Message,
        stop: &Stop,
        beats: &AtomicU64,
    ) -> Told {
        if self.active.as_ref().is_none_or(|link| link.env != env) {
            self.active = self.standby.take().filter(|link| link.env == env);
        }
        if self.active.is_none() {
            match self.start(command, env) {
                Ok(link) => self.active = Some(link),
                Err(error) => return Told::Unfit(format!("no child process: {error}")),
            }
        }
        // The standby is started after the working child has the job, so its set-up does not delay the job.
        let told = self.work(job, message, stop, beats, |pool| {
            pool.stand_by(command, env);
        });
        self.at_work.name(None);
        // A child killed after it answered gets no other job, which would be blamed for its death.
        let was_killed = self.active.as_ref().is_some_and(Link::was_killed);
        if self.limits.recycle || was_killed || !matches!(told, Told::Answered { .. }) {
            self.active = None;
        }
        told
    }

    /// Starts the child that takes over if the working one dies.
    fn stand_by(&mut self, command: &ChildCommand, env: u64) {
        let fit = self.standby.as_ref().is_some_and(|link| link.env == env);
        if self.limits.standby && !fit {
            // Without one the lane starts a child when it needs it.
            let standby = self.start(command, env).ok();
            self.at_work.name(self.killer());
            // It was killed together with the working one.
            self.standby = standby.filter(|link| !link.was_killed());
        }
    }

    /// Returns the killer of the working child.
    fn killer(&self) -> Option<Killer> {
        self.active.as_ref().and_then(|link| link.killer.clone())
    }

    fn start(&mut self, command: &ChildCommand, env: u64) -> io::Result<Link> {
        let mut process = Command::new(&command.program);
        process
            .args(&command.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Ctrl-C on a terminal is for the parent, whose jobs get their time to end.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut process, 0);
        let mut child = process.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let killer = Killer::of(child);
        let (Some(input), Some(output)) = (input, output) else {
            killer.end();
            return Err(io::Error::other("no pipes to the child"));
        };
        // A child that does not read its set-up can be killed, too, and so can the working one in the meantime.
        self.at_work
            .name(self.killer().into_iter().chain([killer.clone()]));
        let mut link = self.link(env, Box::new(input), output);
        link.killer = Some(killer);
        let init = Message::Init(Init {
            parent: std::process::id(),
            threads: self.limits.threads,
            nice: self.limits.nice,
            data_bytes_max: self.limits.data_bytes_max,
            beat_ms: self.limits.beat_ms,
            setup: command.setup.to_vec(),
        });
        // If it is already gone, that is handled like a death during set-up.
        let _ = init.frame(link.generation, 0).write_to(&mut link.input);
        Ok(link)
    }

    /// Creates a link over any streams. A thread reads `output` until it ends or the receiver is gone.
    pub(super) fn link(
        &mut self,
        env: u64,
        input: Box<dyn Write + Send>,
        mut output: impl Read + Send + 'static,
    ) -> Link {
        self.generation = self.generation.wrapping_add(1);
        let (generation, tell) = (self.generation, self.tell.clone());
        std::thread::spawn(move || {
            loop {
                let frame = Frame::read_from(&mut output);
                let over = frame.is_err();
                if tell.send(Heard { generation, frame }).is_err() || over {
                    break;
                }
            }
        });
        Link {
            generation,
            env,
            input,
            killer: None,
            born: Instant::now(),
            ready: false,
        }
    }

    /// Takes a link as the working child.
    #[cfg(test)]
    pub(super) fn employ(&mut self, link: Link) {
        self.active = Some(link);
    }

    /// Sends the job to the working child and listens until it has ended; `given` is called when the child has it.
    pub(super) fn work(
        &mut self,
        job: u64,
        message: &Message,
        stop: &Stop,
        beats: &AtomicU64,
        given: impl FnOnce(&mut Self),
    ) -> Told {
        let Some(link) = &mut self.active else {
            return Told::Lost;
        };
        let generation = link.generation;
        self.at_work.name(link.killer.clone());
        if message
            .frame(generation, job)
            .write_to(&mut link.input)
            .is_err()
        {
            return link.lost();
        }
        given(self);
        let mut stopping = false;
        loop {
            if stop.is_stopped() && !stopping {
                stopping = true;
                let frame = Message::Stop.frame(generation, job);
                let sent = self
                    .active
                    .as_mut()
                    .map(|link| frame.write_to(&mut link.input));
                if !matches!(sent, Some(Ok(()))) {
                    return Told::Died;
                }
            }
            match self.heard.recv_timeout(POLL) {
                Ok(heard) => match self.hear(heard, generation, job, beats) {
                    Some(told) => return told,
                    None => continue,
                },
                Err(RecvTimeoutError::Timeout) => self.vouch(beats),
                Err(RecvTimeoutError::Disconnected) => return Told::Died,
            }
        }
    }

    /// Beats on behalf of a child that is still setting up.
    fn vouch(&self, beats: &AtomicU64) {
        if self.active.as_ref().is_some_and(Link::is_setting_up) {
            beats.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Outcome of a received frame for the working child's job; none if the job continues.
    fn hear(&mut self, heard: Heard, generation: u32, job: u64, beats: &AtomicU64) -> Option<Told> {
        let Heard {
            generation: from,
            frame,
        } = heard;
        if from != generation {
            self.hear_other(from, &frame);
            return None;
        }
        let Ok(frame) = frame else {
            // A child reports that it is ready before it begins a job, so this one cannot have died of it.
            let unready = self.active.as_ref().filter(|link| !link.ready);
            return Some(unready.map_or(Told::Died, Link::lost));
        };
        // Checked before decoding anything: a frame from another child, or about another job.
        if frame.generation != generation {
            self.stale_frames.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        match Message::decode(&frame) {
            Ok(Message::Ready) => {
                if let Some(link) = &mut self.active {
                    link.ready = true;
                }
                None
            }
            Ok(Message::Unfit(reason)) => Some(Told::Unfit(reason)),
            // Not checked for its job: a beat of the last one, sent as that ended, only postpones once the time at
            // which this job counts as hung.
            Ok(Message::Beat(count)) => {
                beats.store(count, Ordering::Relaxed);
                None
            }
            Ok(Message::Result {
                cpu_ns,
                peak_bytes,
                answer,
            }) if frame.job == job => Some(Told::Answered {
                cpu_ns,
                peak_bytes,
                answer,
            }),
            // A result of another job, or a frame that no child sends: its state is unknown, so it is replaced.
            Ok(_) | Err(_) => Some(Told::Died),
        }
    }

    /// Handles a frame from a child that is not working: the standby, or a replaced one.
    fn hear_other(&mut self, from: u32, frame: &Result<Frame, FrameError>) {
        let stands_by = self
            .standby
            .as_ref()
            .is_some_and(|link| link.generation == from);
        match frame {
            // It reports that it is ready, or why not; the end of its stream follows then.
            Ok(frame) if stands_by => {
                if let (Some(link), Ok(Message::Ready)) =
                    (&mut self.standby, Message::decode(frame))
                {
                    link.ready = true;
                }
            }
            Ok(_) => {
                self.stale_frames.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) if stands_by => self.standby = None,
            Err(_) => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
