//! The child's side: runs one job after another until the parent is gone.

use super::{Answer, Frame, FrameError, Init, JobFrame, Message};
use crate::os;
use crate::perform::{Made, perform};
use alphorn_exec::Stop;
use alphorn_scheme::{Ctx, Task};
use alphorn_types::DecodeError;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Stack size of each thread of the pool in bytes.
const STACK_BYTES: usize = 64 << 20;

/// Why a child ended before its parent did.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The stream from the parent is unusable.
    #[error("from the parent: {0}")]
    Frame(#[from] FrameError),
    /// The content of a frame is invalid.
    #[error("from the parent: {0}")]
    Decode(#[from] DecodeError),
    /// The answer could not be written to the parent.
    #[error("to the parent: {0}")]
    Answer(std::io::Error),
    /// Limits, threads or the environment could not be set up.
    #[error("set-up: {0}")]
    Setup(String),
    /// An unexpected frame.
    #[error("frame of kind {0} out of turn")]
    Turn(u8),
}

/// Serves the process lane that started this process, over standard input and output, until the
/// lane closes the input. `setup` builds the environment from the bytes of
/// [`ChildCommand::setup`](crate::ChildCommand). Neither the bytes nor the environment may hold
/// secrets.
///
/// Call this first in a hidden command of the embedder's binary. Nothing else may write to standard
/// output. On Linux the process sets its limits (data segment, no core file, first to go when
/// memory runs out, niceness) and dies with its parent.
pub fn serve_child<T: Task>(setup: impl FnOnce(&[u8]) -> Result<T::Env, String>) -> ExitCode {
    let limits = |init: &Init| os::limit_child(init.parent, init.nice, init.data_bytes_max);
    // A job may be running when the input ends: its result is no longer needed.
    let orphaned = || std::process::exit(0);
    let (input, output) = (std::io::stdin(), std::io::stdout());
    match serve_with::<T, _, _>(input, output, limits, setup, orphaned) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is the parent's and suitable for logs.
            let _ = writeln!(std::io::stderr(), "child: {error}");
            ExitCode::FAILURE
        }
    }
}

/// [`serve_child`] over any streams and without limits on the process. Returns when the input has
/// ended and the running job has stopped.
///
/// # Errors
///
/// [`ServeError`].
///
/// # Panics
///
/// If the task does.
#[cfg(test)]
pub(super) fn serve<T, R, W>(
    reader: R,
    writer: W,
    setup: impl FnOnce(&[u8]) -> Result<T::Env, String>,
) -> Result<(), ServeError>
where
    T: Task,
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    serve_with::<T, R, W>(reader, writer, |_| Ok(()), setup, || {})
}

/// A job as passed on by the reader.
struct Handed {
    job: u64,
    frame: JobFrame,
    stop: Stop,
}

/// State shared by the threads of a child.
struct Line<W> {
    writer: Mutex<W>,
    generation: u32,
    beats: Arc<AtomicU64>,
    /// The running job; zero for none.
    job: AtomicU64,
    over: AtomicBool,
}

impl<W: Write> Line<W> {
    fn send(&self, job: u64, message: &Message) -> std::io::Result<()> {
        let frame = message.frame(self.generation, job);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        frame.write_to(&mut *writer)
    }
}

fn serve_with<T, R, W>(
    mut reader: R,
    writer: W,
    limits: impl FnOnce(&Init) -> Result<(), String>,
    setup: impl FnOnce(&[u8]) -> Result<T::Env, String>,
    orphaned: impl FnOnce() + Send + 'static,
) -> Result<(), ServeError>
where
    T: Task,
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    let first = Frame::read_from(&mut reader)?;
    let Message::Init(init) = Message::decode(&first)? else {
        return Err(ServeError::Turn(first.kind));
    };
    let line = Arc::new(Line {
        writer: Mutex::new(writer),
        generation: first.generation,
        beats: Arc::default(),
        job: AtomicU64::new(0),
        over: AtomicBool::new(false),
    });
    // Start the reader first: it notices if the parent goes away while the environment is being
    // built. Room for one job is enough: the lane sends the next only after the answer to the last,
    // so the reader never blocks on it and always reads a stop.
    let (hand, jobs) = sync_channel(1);
    std::thread::spawn(move || {
        read_on(&mut reader, &hand);
        drop(hand);
        orphaned();
    });
    let made = limits(&init)
        .and_then(|()| pool(init.threads))
        .and_then(|pool| Ok((pool, setup(&init.setup)?)));
    let (pool, env) = match made {
        Ok(made) => made,
        Err(reason) => {
            // If the parent is gone too, this process ends all the same.
            let _ = line.send(0, &Message::Unfit(reason.clone()));
            return Err(ServeError::Setup(reason));
        }
    };
    line.send(0, &Message::Ready).map_err(ServeError::Answer)?;
    let ticker = line.clone();
    let beat = Duration::from_millis(init.beat_ms.max(1).into());
    std::thread::spawn(move || tick(&ticker, beat));
    let _over = Over(&line.over);
    work::<T, W>(&line, &pool, &env, &jobs)
}

/// Ends the beats together with the work, also on a panic: then the stream to the parent closes.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn pool(threads: u16) -> Result<ThreadPool, String> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads.max(1).into())
        .stack_size(STACK_BYTES)
        .build();
    pool.map_err(|error| error.to_string())
}

/// Reads frames until the input ends or is unusable, then stops the running job.
fn read_on(reader: &mut dyn Read, hand: &SyncSender<Handed>) {
    let mut current: Option<(u64, Stop)> = None;
    while let Ok(frame) = Frame::read_from(reader) {
        match Message::decode(&frame) {
            Ok(Message::Job(job)) => {
                let stop = Stop::default();
                current = Some((frame.job, stop.clone()));
                let handed = Handed {
                    job: frame.job,
                    frame: job,
                    stop,
                };
                if hand.send(handed).is_err() {
                    break;
                }
            }
            Ok(Message::Stop) => {
                if let Some((_, stop)) = current.as_ref().filter(|(job, _)| *job == frame.job) {
                    stop.stop();
                }
            }
            _ => break,
        }
    }
    if let Some((_, stop)) = current {
        stop.stop();
    }
}

/// Sends the beats of the running job.
fn tick<W: Write>(line: &Line<W>, beat: Duration) {
    let mut last = 0;
    while !line.over.load(Ordering::Relaxed) {
        std::thread::sleep(beat);
        let (job, beats) = (
            line.job.load(Ordering::Relaxed),
            line.beats.load(Ordering::Relaxed),
        );
        if job != 0 && beats != last {
            last = beats;
            if line.send(job, &Message::Beat(beats)).is_err() {
                break;
            }
        }
    }
}

/// Runs the jobs; returns when there are no more.
fn work<T: Task, W: Write>(
    line: &Line<W>,
    pool: &ThreadPool,
    env: &T::Env,
    jobs: &Receiver<Handed>,
) -> Result<(), ServeError> {
    let mut scratch = T::Scratch::default();
    let mut portable: Option<T::Env> = None;
    for Handed { job, frame, stop } in jobs {
        let task = T::decode(&frame.task)?;
        let env = match frame.portable {
            true if portable.is_none() => {
                portable = T::portable(env);
                portable.as_ref().unwrap_or(env)
            }
            true => portable.as_ref().unwrap_or(env),
            false => env,
        };
        os::forget_peak();
        let (before, _) = os::resident_bytes();
        let cpu_ns = os::process_cpu_ns();
        line.job.store(job, Ordering::Relaxed);
        let mut ctx = Ctx::pooled(pool, stop, line.beats.clone(), &mut scratch);
        let made = perform(&task, env, frame.seed, &mut ctx);
        line.job.store(0, Ordering::Relaxed);
        let (_, peak) = os::resident_bytes();
        let answer = match made {
            Made::Done(_, Some(bytes)) => Answer::Done(bytes),
            Made::Done(_, None) => Answer::Refused("the result has no bytes".into()),
            Made::Invalid(bad) => Answer::Invalid(bad),
            Made::Refused(reason) => Answer::Refused(reason),
            Made::Stopped => Answer::Stopped,
            Made::Faulty => Answer::Faulty,
        };
        let result = Message::Result {
            cpu_ns: os::process_cpu_ns().saturating_sub(cpu_ns),
            peak_bytes: peak.saturating_sub(before),
            answer,
        };
        line.send(job, &result).map_err(ServeError::Answer)?;
    }
    Ok(())
}
