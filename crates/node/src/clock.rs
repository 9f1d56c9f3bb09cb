//! Two clocks: the wall clock, which may be set while the node runs, and a monotonic one that may not.
//!
//! Protocol time advances with the monotonic clock, and follows the wall clock where the two drift apart slowly. A
//! *step* of the wall clock is doubted first:
//!
//! - If peers report the time, they decide at once between the continued time and the time of the wall clock. They
//!   cannot introduce a third one.
//! - If no peer reports the time, a step is accepted once it has lasted as long as it is large, and after
//!   `DOUBT_MAX_NS` at most.
//!
//! A clock that jumps and comes back therefore costs nothing, whatever it showed in between. A host that slept for an
//! hour, during which its monotonic clock stood still, learns the time from its peers. Protocol time never goes back:
//! once a step back is accepted, it stands still until the wall clock has caught up, so no phase begins twice and
//! nothing is signed a second time. A step forward skips phases, whose duties are missed and never performed late.

use alphorn_types::Time;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A difference between the two clocks that counts as a step.
pub(crate) const STEP_NS: u64 = 100_000_000;

/// How long a step is doubted at most if no peer reports the time.
pub(crate) const DOUBT_MAX_NS: u64 = 600_000_000_000;

/// The source of time. Tests provide their own.
pub trait Source: Send {
    /// Nanoseconds since 1970, by the host's wall clock.
    fn wall_ns(&self) -> u64;
    /// Nanoseconds since an arbitrary fixed point. Never goes back.
    fn monotonic_ns(&self) -> u64;
}

/// The host's clocks.
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
    /// By this many nanoseconds into the future.
    Forward(u64),
    /// By this many nanoseconds into the past.
    Backward(u64),
}

/// A wall clock that shows a different time from the continued one.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// Wall minus monotonic.
    offset_ns: i128,
    /// When that began, by the monotonic clock.
    since_ns: u64,
}

/// Protocol time.
pub(crate) struct Clock<C: Source> {
    source: C,
    /// Protocol time minus monotonic time.
    offset_ns: i128,
    doubt: Option<Doubt>,
    /// A different time was accepted since the last query.
    changed: bool,
    last: Time,
}

impl<C: Source> Clock<C> {
    /// Creates a clock that starts now, with the time of the wall clock.
    pub(crate) fn new(source: C) -> Self {
        let offset_ns = i128::from(source.wall_ns()) - i128::from(source.monotonic_ns());
        Clock {
            last: Time::from_nanos(source.wall_ns()),
            source,
            offset_ns,
            doubt: None,
            changed: false,
        }
    }

    /// Returns protocol time, and the step of the wall clock since the last call, if there was one. `peers` returns by
    /// how much peers are ahead of protocol time, from reports since a given monotonic time, or none if there were no
    /// reports.
    pub(crate) fn now(&mut self, peers: impl Fn(u64) -> Option<i64>) -> (Time, Option<Step>) {
        let monotonic = self.source.monotonic_ns();
        let offset_ns = i128::from(self.source.wall_ns()) - i128::from(monotonic);
        let moved = offset_ns - self.offset_ns;
        let size = u64::try_from(moved.unsigned_abs()).unwrap_or(u64::MAX);
        let step = match size <= STEP_NS {
            true => {
                self.offset_ns = offset_ns;
                self.doubt = None;
                None
            }
            false => self.doubt(monotonic, offset_ns, moved),
        };
        if let Some(doubt) = self.doubt {
            let lasted = monotonic.saturating_sub(doubt.since_ns);
            let is_believed = match peers(doubt.since_ns) {
                // Whichever of the two times is nearer to theirs.
                Some(ahead_ns) => (moved - i128::from(ahead_ns)).abs() < i128::from(ahead_ns).abs(),
                None => lasted >= size.min(DOUBT_MAX_NS),
            };
            if is_believed {
                self.offset_ns = offset_ns;
                self.doubt = None;
                self.changed = true;
            }
        }
        self.last = self.last.max(self.running(monotonic));
        (self.last, step)
    }

    /// Begins to doubt the wall clock, unless this time is being doubted already.
    fn doubt(&mut self, since_ns: u64, offset_ns: i128, moved: i128) -> Option<Step> {
        let before = self.doubt.map(|doubt| offset_ns - doubt.offset_ns);
        if before.is_some_and(|change| change.unsigned_abs() <= STEP_NS.into()) {
            return None;
        }
        self.doubt = Some(Doubt {
            offset_ns,
            since_ns,
        });
        let size = u64::try_from(moved.unsigned_abs()).unwrap_or(u64::MAX);
        Some(match moved > 0 {
            true => Step::Forward(size),
            false => Step::Backward(size),
        })
    }

    /// Running protocol time, which may be behind a time already returned.
    fn running(&self, monotonic: u64) -> Time {
        let nanos = i128::from(monotonic) + self.offset_ns;
        Time::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }

    /// Whether a different time was accepted since the last call, which invalidates earlier reports of others.
    pub(crate) fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The monotonic clock.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.source.monotonic_ns()
    }

    /// Running protocol time at this moment. It is behind [`Clock::now`] while that stands still.
    pub(crate) fn running_now(&self) -> Time {
        self.running(self.source.monotonic_ns())
    }

    /// How long to sleep until `at`, including the rest of a standstill.
    pub(crate) fn until(&self, at: Time) -> Duration {
        Duration::from_nanos(at.since_ns(self.running_now()))
    }

    /// By how many nanoseconds the wall clock is ahead of protocol time while it is doubted, or behind it while that
    /// stands still. 0 if all is well.
    pub(crate) fn wrong_ns(&self) -> i64 {
        let monotonic = self.source.monotonic_ns();
        let doubted = self.doubt.map(|doubt| doubt.offset_ns - self.offset_ns);
        let behind = self.last.since_ns(self.running(monotonic));
        let behind = if behind > STEP_NS {
            -i128::from(behind)
        } else {
            0
        };
        let ns = doubted.unwrap_or(behind);
        i64::try_from(ns).unwrap_or(if ns > 0 { i64::MAX } else { i64::MIN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    const SECOND: u64 = 1_000_000_000;
    const DAY: i64 = 86_400;

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

    fn silent(_: u64) -> Option<i64> {
        None
    }

    /// A host whose wall clock is wrong by some seconds, with its clock.
    struct World {
        fake: Fake,
        clock: Clock<Fake>,
        monotonic_ms: u64,
        wrong_s: i64,
        /// Steps reported.
        steps: u64,
    }

    const START_MS: u64 = 200_000_000;

    impl World {
        fn new() -> Self {
            let fake = Fake::default();
            fake.set(START_MS, 0);
            World {
                clock: Clock::new(fake.clone()),
                fake,
                monotonic_ms: 0,
                wrong_s: 0,
                steps: 0,
            }
        }

        /// The true time, in milliseconds.
        fn truth_ms(&self) -> u64 {
            START_MS + self.monotonic_ms
        }

        /// Advances by some seconds, polling ten times a second. Returns by how many milliseconds protocol time is then
        /// ahead of the truth, and whether it stood still.
        fn run(&mut self, seconds: u64, peers: impl Fn(u64) -> Option<i64>) -> (i64, bool) {
            let mut last = self.clock.last;
            let mut stood = false;
            for _ in 0..10 * seconds {
                self.monotonic_ms += 100;
                let wall = self.truth_ms() as i64 + 1_000 * self.wrong_s;
                self.fake.set(wall as u64, self.monotonic_ms);
                let (now, step) = self.clock.now(&peers);
                self.steps += u64::from(step.is_some());
                assert!(now >= last, "time goes back");
                stood |= now == last;
                last = now;
            }
            (
                last.as_nanos() as i64 / 1_000_000 - self.truth_ms() as i64,
                stood,
            )
        }
    }

    /// Fifty glitches, of up to a day in both directions, each shorter than it is long.
    #[test]
    fn a_clock_that_jumps_and_comes_back_costs_nothing() {
        for i in 1..=25 {
            for wrong_s in [DAY * i / 25, -DAY * i / 25] {
                let mut world = World::new();
                world.run(10, silent);
                world.wrong_s = wrong_s;
                let lasted = (i as u64 * 20).min(500);
                assert_eq!(world.run(lasted, silent), (0, false), "{wrong_s} s");
                assert_ne!(world.clock.wrong_ns(), 0, "it says so");
                world.wrong_s = 0;
                assert_eq!(world.run(10, silent), (0, false), "{wrong_s} s");
                assert_eq!(world.clock.wrong_ns(), 0);
                assert_eq!(world.steps, 1, "a step is told once");
            }
        }
    }

    #[test]
    fn peers_that_know_the_time_outweigh_a_clock_that_is_wrong_for_good() {
        for wrong_s in [DAY, -DAY, 600, -600] {
            let mut world = World::new();
            world.run(5, silent);
            world.wrong_s = wrong_s;
            assert_eq!(world.run(2_000, |_| Some(0)), (0, false), "{wrong_s} s");
            assert_eq!(world.clock.wrong_ns() / SECOND as i64, wrong_s);
        }
    }

    #[test]
    fn who_slept_is_told_the_time_by_peers_and_without_them_waits_ten_minutes_at_most() {
        // As after a sleep: the true time advanced, the monotonic clock did not.
        let slept = |seconds: i64| {
            let mut world = World::new();
            world.run(5, silent);
            world.wrong_s = seconds;
            world
        };
        let peers = |ahead_s: i64| move |_| Some(ahead_s * SECOND as i64);
        let mut world = slept(3_600);
        assert_eq!(world.run(1, peers(3_600)), (3_600_000, false));
        assert_eq!(world.clock.wrong_ns(), 0);
        let mut world = slept(3_600);
        assert_eq!(world.run(599, silent).0, 0);
        assert_eq!(world.run(2, silent).0, 3_600_000);
        let mut world = slept(20);
        assert_eq!(world.run(19, silent).0, 0);
        assert_eq!(world.run(2, silent).0, 20_000, "a short one sooner");
    }

    /// A clock that was ahead from the start, and is corrected.
    #[test]
    fn where_a_step_back_is_believed_time_stands_still_and_then_goes_on() {
        let mut world = World::new();
        world.run(1, silent);
        world.wrong_s = -6;
        let before = world.clock.last;
        // Half of the peers' differences refer to the other time.
        let (ahead_ms, stood) = world.run(5, |_| Some(-6 * SECOND as i64));
        assert!(stood && world.clock.last == before, "{ahead_ms}");
        assert!(world.clock.wrong_ns() < 0);
        let (ahead_ms, _) = world.run(3, |_| Some(0));
        assert_eq!(ahead_ms, -6_000, "as the wall clock says");
        assert_eq!(world.clock.wrong_ns(), 0);
        let at = Time::from_millis(START_MS + world.monotonic_ms - 6_000 + 250);
        assert_eq!(world.clock.until(at), Duration::from_millis(250));
    }

    #[test]
    fn drift_is_followed_and_no_step() {
        let mut world = World::new();
        for _ in 0..100 {
            world.monotonic_ms += 1_000;
            world.fake.set(
                START_MS + world.monotonic_ms * 101 / 100,
                world.monotonic_ms,
            );
            assert_eq!(world.clock.now(silent).1, None);
        }
        assert_eq!(world.clock.last, Time::from_millis(START_MS + 101_000));
    }

    #[test]
    fn a_wall_clock_that_stands_still_stops_nobody() {
        let mut world = World::new();
        for second in 1..=100 {
            world.fake.set(START_MS, second * 1_000);
            let (now, _) = world.clock.now(silent);
            assert_eq!(now, Time::from_millis(START_MS + second * 1_000));
        }
        assert!(world.clock.wrong_ns() < -90 * SECOND as i64);
    }
}
