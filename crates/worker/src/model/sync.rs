//! `crate::sync` under the checker: its locks and threads, and a clock that stands still unless a
//! scenario advances it.

pub(super) use shuttle::sync::{Mutex, MutexGuard};
pub(super) use shuttle::thread::JoinHandle;

use alphorn_types::Time;
use std::cell::RefCell;
use std::io;
use std::ops::Add;
use std::sync::{Arc, LockResult, PoisonError};
use std::time::Duration;

/// Time at which every run starts, in nanoseconds.
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;

/// The clock of a run, and the threads waiting for specific times.
#[derive(Default)]
struct Clock {
    now_ns: u64,
    /// Counter of waits.
    waits: u64,
    timers: Vec<Timer>,
}

struct Timer {
    until_ns: u64,
    wait: u64,
    bell: Arc<shuttle::sync::Condvar>,
}

thread_local! {
    // The checker runs the threads of a run in turns on one thread of the system.
    static CLOCK: RefCell<Clock> = RefCell::default();
}

/// Starts the clock of a run.
pub(super) fn begin() {
    CLOCK.with(|clock| *clock.borrow_mut() = Clock::default());
}

/// Nanoseconds since the start of the run.
pub(super) fn now_ns() -> u64 {
    CLOCK.with(|clock| clock.borrow().now_ns)
}

/// Advances the clock by this much without waking any thread.
pub(super) fn pass(time: Duration) {
    CLOCK.with(|clock| clock.borrow_mut().now_ns += time.as_nanos() as u64);
}

/// Advances to the earliest time that a thread waits for, and wakes all threads waiting for it.
pub(super) fn advance() {
    let bell = CLOCK.with(|clock| {
        let mut clock = clock.borrow_mut();
        let timers = clock.timers.iter().enumerate();
        let (first, _) = timers.min_by_key(|(_, timer)| (timer.until_ns, timer.wait))?;
        let timer = clock.timers.swap_remove(first);
        clock.now_ns = clock.now_ns.max(timer.until_ns);
        Some(timer.bell)
    });
    match bell {
        Some(bell) => bell.notify_all(),
        None => pass(Duration::from_millis(1)),
    }
}

/// The checker's condition variable, whose waits time out if the clock advances.
#[derive(Default)]
pub(super) struct Condvar(Arc<shuttle::sync::Condvar>);

impl Condvar {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(super) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(super) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// The timeout flag is never read, so it is not reported.
    pub(super) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        let wait = CLOCK.with(|clock| {
            let mut clock = clock.borrow_mut();
            clock.waits += 1;
            let timer = Timer {
                until_ns: clock.now_ns.saturating_add(time.as_nanos() as u64),
                wait: clock.waits,
                bell: self.0.clone(),
            };
            clock.timers.push(timer);
            clock.waits
        });
        // No other thread runs between the timer and the wait, so no wake-up comes too early.
        let guard = self.0.wait(guard);
        CLOCK.with(|clock| clock.borrow_mut().timers.retain(|timer| timer.wait != wait));
        match guard {
            Ok(guard) => Ok((guard, ())),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), ()))),
        }
    }
}

/// Starts threads of the checker. Their stack size is that of its configuration.
pub(super) struct Builder(shuttle::thread::Builder);

impl Builder {
    pub(super) fn new() -> Self {
        Self(shuttle::thread::Builder::new())
    }

    pub(super) fn name(self, name: String) -> Self {
        Self(self.0.name(name))
    }

    pub(super) fn stack_size(self, _: usize) -> Self {
        self
    }

    pub(super) fn spawn<T: Send + 'static>(
        self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        self.0.spawn(run)
    }
}

/// An instant on the clock of the run.
#[derive(Clone, Copy)]
pub(super) struct Instant(u64);

impl Instant {
    pub(super) fn now() -> Self {
        Self(now_ns())
    }

    pub(super) fn elapsed(&self) -> Duration {
        Self::now().saturating_duration_since(*self)
    }

    pub(super) fn saturating_duration_since(&self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time.as_nanos() as u64))
    }
}

/// The clock given to the worker of the run.
pub(super) fn time() -> Time {
    Time::from_nanos(BEGIN_NS + now_ns())
}

/// All threads of a run share one system thread, whose priority they must not change.
pub(super) fn nice_thread(_: u8) {}

pub(super) fn thread_cpu_ns() -> u64 {
    0
}
