//! A token bucket.
//!
//! Not `governor`'s: its limiters cannot pause while unused, change their rate while keeping their level, or expose
//! their level. [`throttle`](crate::throttle) and the pacing of responses need all of these.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lets a number of units pass per second, and a burst at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    per_s: u64,
    burst: u64,
    level: u64,
    /// The time up to which `level` is filled.
    at: Instant,
}

const NS_PER_S: u128 = 1_000_000_000;

impl Bucket {
    /// Creates a full bucket.
    ///
    /// # Panics
    ///
    /// If nothing could ever pass.
    pub(crate) fn new(per_s: u64, burst: u64, now: Instant) -> Self {
        assert!(per_s > 0 && burst > 0, "a bucket that nothing passes");
        Self {
            per_s,
            burst,
            level: burst,
            at: now,
        }
    }

    /// Resumes refilling from now on, without credit for the time since the last update.
    pub(crate) fn resume(&mut self, now: Instant) {
        self.at = self.at.max(now);
    }

    /// Changes rate and burst. The extra capacity of a larger burst is available at once, and nothing else is added.
    pub(crate) fn resize(&mut self, per_s: u64, burst: u64, now: Instant) {
        let level = self.level(now) + burst.saturating_sub(self.burst);
        self.level = level.min(burst);
        (self.per_s, self.burst) = (per_s, burst);
    }

    /// Units that may pass now.
    pub(crate) fn level(&mut self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.at).as_nanos();
        let gained = elapsed * u128::from(self.per_s) / NS_PER_S;
        if gained >= u128::from(self.burst - self.level) {
            self.level = self.burst;
            // Time that a full bucket has no use for is lost, or more than a burst could pass at once later.
            self.at = self.at.max(now);
        } else if gained > 0 {
            // Less than is missing, by the test above, so it fits.
            self.level += gained as u64;
            // Only the time for whole units is used up, so slow buckets fill as well.
            let used = gained * NS_PER_S / u128::from(self.per_s);
            self.at += Duration::from_nanos(used as u64);
        }
        self.level
    }

    /// Whether it holds its full burst by now.
    pub(crate) fn is_full(&mut self, now: Instant) -> bool {
        self.level(now) == self.burst
    }

    /// Takes units out, at most as many as there are.
    pub(crate) fn take(&mut self, units: u64) {
        self.level = self.level.saturating_sub(units);
    }

    /// Takes units out if all of them are available.
    pub(crate) fn try_take(&mut self, units: u64, now: Instant) -> bool {
        let enough = self.level(now) >= units;
        if enough {
            self.take(units);
        }
        enough
    }

    /// Time until this many units are available, or the burst if that is less.
    pub(crate) fn wait(&self, units: u64) -> Duration {
        let missing = units.min(self.burst).saturating_sub(self.level);
        // Rounded up, so that the units are there when the wait is over.
        let ns = u128::from(missing) * NS_PER_S / u128::from(self.per_s) + 1;
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// Waits until this many units may pass, with a bucket shared by several tasks. For ever if they exceed its burst.
pub(crate) async fn pace(shared: &Mutex<Bucket>, units: u64) {
    loop {
        let wait = {
            // The bucket stays consistent even after a panic.
            let mut bucket = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if bucket.try_take(units, Instant::now()) {
                return;
            }
            bucket.wait(units)
        };
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1000, 50, start);
        assert!(bucket.try_take(50, start));
        assert!(!bucket.try_take(1, start));
        assert_eq!(bucket.wait(10), Duration::from_nanos(10_000_001));
        let mut passed = 0;
        for ms in 1..=1000 {
            let now = start + Duration::from_millis(ms);
            while bucket.try_take(1, now) {
                passed += 1;
            }
        }
        assert_eq!(passed, 1000);
        // A long silence fills it to the burst and no further. Time going back adds nothing.
        let later = start + Duration::from_secs(3600);
        assert_eq!(bucket.level(later), 50);
        bucket.take(60);
        assert_eq!(bucket.level(start), 0);
    }

    #[test]
    fn nothing_flows_in_while_nobody_wants_it_and_a_change_gives_no_more() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut bucket = Bucket::new(1000, 50, start);
        bucket.take(50);
        bucket.resume(at(20));
        assert_eq!(bucket.level(at(30)), 10);
        bucket.resize(10, 80, at(30));
        assert_eq!(bucket.level(at(30)), 40);
        assert_eq!(bucket.level(at(230)), 42);
        bucket.resize(10, 7, at(230));
        assert_eq!(bucket.level(at(230)), 7);
    }

    #[test]
    fn one_unit_in_an_hour_comes_although_nobody_waits_an_hour_at_once() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1, 1, start);
        assert!(bucket.try_take(1, start));
        for tenth in 1..10 {
            assert!(!bucket.try_take(1, start + Duration::from_millis(100 * tenth)));
        }
        assert!(bucket.try_take(1, start + Duration::from_secs(1)));
    }
}
