//! The task of the bench: work that is nothing but time, or an accident.

use alphorn_scheme::{Class, Ctx, Features, Group, SessionId, Task, TaskError};
use alphorn_types::{DecodeError, Reader, Slot, Time, Writer};
use alphorn_worker::Request;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Computes for so many microseconds.
    Spin(u32),
    /// Panics.
    Panic,
    /// Aborts its process.
    Abort,
    /// Never ends and never beats.
    Hang,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BenchTask {
    pub(super) action: Action,
    /// In a child process.
    pub(super) isolate: bool,
    /// On the prove lane: what the scheduler is told, in nanoseconds.
    pub(super) prior_ns: u64,
}

/// Nanoseconds since the first call in this process.
pub(super) fn clock_ns() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// When a job began and ended, by [`clock_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
}

impl Task for BenchTask {
    type Env = ();
    type Output = Span;
    type Scratch = ();
    type Prepared = ();

    fn features(&self, (): &()) -> Features {
        Features {
            kind: 0,
            class: 0,
            inputs: 1,
            prior_ns: self.prior_ns,
            memory_bytes: 1 << 20,
        }
    }

    fn part(&self, _: Range<usize>) -> Option<Self> {
        None
    }

    fn run(&self, (): &(), ctx: &mut Ctx<'_, ()>) -> Result<Span, TaskError> {
        let begin_ns = clock_ns();
        match self.action {
            Action::Spin(us) => {
                let until = Instant::now() + Duration::from_micros(us.into());
                while Instant::now() < until {
                    ctx.checkpoint()?;
                    (0..1000).for_each(|_| std::hint::spin_loop());
                }
            }
            Action::Panic => std::panic::resume_unwind(Box::new("as asked")),
            Action::Abort => std::process::abort(),
            Action::Hang => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
        }
        let end_ns = clock_ns();
        Ok(Span { begin_ns, end_ns })
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

    fn verify_output(&self, (): &(), span: &Span, _: &mut Ctx<'_, ()>) -> bool {
        span.begin_ns <= span.end_ns
    }

    fn isolate(&self, (): &()) -> bool {
        self.isolate
    }

    fn encode(&self) -> Option<Vec<u8>> {
        let mut w = Writer::with_capacity(16);
        let (tag, us) = match self.action {
            Action::Spin(us) => (0, us),
            Action::Panic => (1, 0),
            Action::Abort => (2, 0),
            Action::Hang => (3, 0),
        };
        w.u8(tag);
        w.u32(us);
        w.u8(u8::from(self.isolate));
        w.u64(self.prior_ns);
        Some(w.into_vec())
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let (tag, us) = (r.u8()?, r.u32()?);
        let action = match tag {
            0 => Action::Spin(us),
            1 => Action::Panic,
            2 => Action::Abort,
            3 => Action::Hang,
            value => {
                return Err(DecodeError::UnknownTag {
                    what: "action",
                    value: value.into(),
                });
            }
        };
        let task = BenchTask {
            action,
            isolate: r.u8()? == 1,
            prior_ns: r.u64()?,
        };
        r.finish()?;
        Ok(task)
    }

    fn encode_output(&self, span: &Span) -> Option<Vec<u8>> {
        let mut w = Writer::with_capacity(16);
        w.u64(span.begin_ns);
        w.u64(span.end_ns);
        Some(w.into_vec())
    }

    fn decode_output(&self, bytes: &[u8]) -> Result<Span, DecodeError> {
        let mut r = Reader::new(bytes);
        let span = Span {
            begin_ns: r.u64()?,
            end_ns: r.u64()?,
        };
        r.finish()?;
        Ok(span)
    }
}

/// A job without end of its value.
pub(super) fn request(class: Class, work: BenchTask) -> Request<BenchTask> {
    let slot = Slot(1);
    // Half of what can be told: no deadline is near.
    let far = Time::from_nanos(u64::MAX / 2);
    Request {
        client: 0,
        session: SessionId { slot, seq: 0 },
        group: Group::of_slot(slot),
        replaces: None,
        class,
        soft: far,
        hard: far,
        votes: 1,
        bytes: 0,
        work,
    }
}
