//! A task for the checker that yields to other threads wherever a real job would take time.

use super::sync;
use alphorn_scheme::{Ctx, Features, Task, TaskError};
use alphorn_types::DecodeError;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Behaviour of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Works in a few steps.
    Work,
    /// Panics after the first step.
    Panic,
    /// Works until it is asked to stop.
    Endless,
    /// Does nothing, not even beat, until the scenario releases it.
    Deaf,
}

/// State shared by a scenario and its jobs.
#[derive(Default)]
pub(super) struct Strings {
    /// Deaf jobs may end.
    pub(super) let_go: AtomicBool,
    /// Number of lane threads that have or had a deaf job and have not ended.
    pub(super) deaf_threads: AtomicU32,
}

#[derive(Clone)]
pub(super) struct TestTask {
    pub(super) what: What,
    /// For a prove lane.
    pub(super) long: bool,
    pub(super) strings: Arc<Strings>,
}

/// Counts a thread as gone when it ends.
struct Gone(Arc<Strings>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.deaf_threads.fetch_sub(1, Ordering::Relaxed);
    }
}

shuttle::thread_local! {
    static GONE: RefCell<Option<Gone>> = RefCell::new(None);
}

/// Lets another thread run and some time pass.
fn step() {
    sync::pass(Duration::from_millis(1));
    shuttle::thread::yield_now();
}

impl Task for TestTask {
    type Env = ();
    type Output = ();
    type Scratch = ();
    type Prepared = ();

    fn features(&self, (): &()) -> Features {
        Features {
            kind: 1,
            class: 1,
            inputs: 1,
            prior_ns: if self.long { 900_000_000 } else { 1_000_000 },
            memory_bytes: 1,
        }
    }

    fn run(&self, (): &(), ctx: &mut Ctx<'_, ()>) -> Result<(), TaskError> {
        match self.what {
            What::Work => {
                for _ in 0..2 {
                    step();
                    ctx.checkpoint()?;
                }
            }
            What::Panic => {
                step();
                // Unwinds as a panic does, but without output.
                std::panic::resume_unwind(Box::new("commanded"));
            }
            What::Endless => loop {
                step();
                ctx.checkpoint()?;
            },
            What::Deaf => {
                self.strings.deaf_threads.fetch_add(1, Ordering::Relaxed);
                // A thread whose job is over may get another deaf one.
                let before = GONE.with(|gone| gone.replace(Some(Gone(self.strings.clone()))));
                drop(before);
                while !self.strings.let_go.load(Ordering::Relaxed) {
                    shuttle::thread::yield_now();
                }
            }
        }
        Ok(())
    }

    fn part(&self, _: Range<usize>) -> Option<Self> {
        None
    }

    fn prepare(&self, (): &(), _: &mut Ctx<'_, ()>) -> Option<()> {
        None
    }

    fn check(&self, (): &(), (): &(), _: Range<usize>) -> bool {
        true
    }

    fn locate(&self, (): &(), (): &(), _: &mut Ctx<'_, ()>) -> Option<Vec<usize>> {
        None
    }

    fn verify_output(&self, (): &(), (): &(), _: &mut Ctx<'_, ()>) -> bool {
        true
    }

    fn isolate(&self, (): &()) -> bool {
        false
    }

    fn encode(&self) -> Option<Vec<u8>> {
        None
    }

    fn decode(_: &[u8]) -> Result<Self, DecodeError> {
        Err(DecodeError::UnknownTag {
            what: "task without bytes",
            value: 0,
        })
    }
}
