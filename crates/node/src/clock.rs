//! Protocol time from a wall clock that may step, and a monotonic one that may not.
//!
//! The wall clock decides which phase it is; protocol time never goes back. While the wall clock
//! stands behind the last protocol time, protocol time stands still, so no phase begins twice and
//! nothing is signed a second time. A step forward skips phases, whose duties are missed and never
//! done late.

use alphorn_types::Time;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A difference between the two clocks that counts as a step.
pub(crate) const STEP_NS: u64 = 100_000_000;

/// Where the time comes from; tests bring their own.
pub trait Source: Send {
    /// Nanoseconds since 1970, as the machine believes.
    fn wall_ns(&self) -> u64;
    /// Nanoseconds since any fixed point, never going back.
    fn monotonic_ns(&self) -> u64;
}

/// The machine's clocks.
pub struct Machine {
    start: Instant,
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            start: Instant::now(),
        }
    }
}

impl Source for Machine {
    fn wall_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        nanoseconds(since.unwrap_or(Duration::ZERO))
    }

    fn monotonic_ns(&self) -> u64 {
        nanoseconds(self.start.elapsed())
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A jump of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// By so many nanoseconds into the future.
    Forward(u64),
    /// By so many nanoseconds into the past.
    Backward(u64),
}

/// Protocol time.
pub(crate) struct Clock<C: Source> {
    source: C,
    /// Wall minus monotonic, as of the last step.
    offset_ns: i128,
    last: Time,
    steps: u64,
}

impl<C: Source> Clock<C> {
    /// A clock that begins now.
    pub(crate) fn new(source: C) -> Self {
        let offset_ns = i128::from(source.wall_ns()) - i128::from(source.monotonic_ns());
        Clock {
            last: Time::from_nanos(source.wall_ns()),
            source,
            offset_ns,
            steps: 0,
        }
    }

    /// The protocol's time, and the step of the wall clock since the last call, if there was one.
    pub(crate) fn now(&mut self) -> (Time, Option<Step>) {
        let wall = self.source.wall_ns();
        let offset_ns = i128::from(wall) - i128::from(self.source.monotonic_ns());
        let moved = offset_ns - self.offset_ns;
        let size = u64::try_from(moved.unsigned_abs()).unwrap_or(u64::MAX);
        let step = (size > STEP_NS).then(|| {
            self.offset_ns = offset_ns;
            self.steps += 1;
            match moved > 0 {
                true => Step::Forward(size),
                false => Step::Backward(size),
            }
        });
        self.last = self.last.max(Time::from_nanos(wall));
        (self.last, step)
    }

    /// How long to sleep until `at` by the wall clock: what is left of the standstill included.
    pub(crate) fn until(&self, at: Time) -> Duration {
        Duration::from_nanos(at.as_nanos().saturating_sub(self.source.wall_ns()))
    }

    /// How far the wall clock stands behind protocol time, in nanoseconds; nothing is signed
    /// meanwhile.
    #[cfg(test)]
    pub(crate) fn behind_ns(&self) -> u64 {
        self.last.as_nanos().saturating_sub(self.source.wall_ns())
    }

    /// Steps seen so far.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Clone, Default)]
    struct Fake(Arc<[AtomicU64; 2]>);

    impl Fake {
        fn set(&self, wall_ms: u64, monotonic_ms: u64) {
            self.0[0].store(wall_ms * 1_000_000, Ordering::Relaxed);
            self.0[1].store(monotonic_ms * 1_000_000, Ordering::Relaxed);
        }
    }

    impl Source for Fake {
        fn wall_ns(&self) -> u64 {
            self.0[0].load(Ordering::Relaxed)
        }

        fn monotonic_ns(&self) -> u64 {
            self.0[1].load(Ordering::Relaxed)
        }
    }

    fn clock() -> (Fake, Clock<Fake>) {
        let fake = Fake::default();
        fake.set(50_000, 10);
        (fake.clone(), Clock::new(fake))
    }

    #[test]
    fn time_never_goes_back() {
        let (fake, mut clock) = clock();
        fake.set(51_000, 1_010);
        assert_eq!(clock.now(), (Time::from_millis(51_000), None));
        fake.set(45_000, 1_020);
        let (now, step) = clock.now();
        assert_eq!(now, Time::from_millis(51_000));
        assert_eq!(step, Some(Step::Backward(6_010_000_000)));
        assert_eq!(clock.behind_ns(), 6_000_000_000);
        assert_eq!(
            clock.until(Time::from_millis(52_000)),
            Duration::from_secs(7)
        );
        fake.set(51_500, 7_520);
        assert_eq!(clock.now(), (Time::from_millis(51_500), None));
        assert_eq!(clock.behind_ns(), 0);
    }

    #[test]
    fn a_step_is_told_once_and_drift_is_none() {
        let (fake, mut clock) = clock();
        fake.set(60_000, 10);
        assert_eq!(clock.now().1, Some(Step::Forward(10_000_000_000)));
        assert_eq!(clock.now().1, None);
        fake.set(60_990, 1_010);
        assert_eq!(clock.now().1, None, "10 ms of drift");
        assert_eq!(clock.steps(), 1);
    }

    #[test]
    fn a_frozen_clock_stands_still() {
        let (fake, mut clock) = clock();
        for monotonic_ms in [1_000, 2_000, 3_000] {
            fake.set(50_000, monotonic_ms);
            assert_eq!(clock.now().0, Time::from_millis(50_000));
        }
        assert_eq!(
            clock.steps(),
            3,
            "the wall clock fell back against the other one"
        );
    }
}
