//! Times of an operation over fresh inputs: least, median and the outer tenths.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Samples at least, unless one alone takes longer than [`SLOW`].
const SAMPLES_MIN: usize = 30;
/// Samples at least of a slow operation.
const SAMPLES_SLOW: usize = 5;
/// From here on an operation is slow.
const SLOW: Duration = Duration::from_millis(100);
/// Wall time after which no more samples are taken than needed.
const TIME_PER_OP: Duration = Duration::from_millis(200);

/// Nanoseconds of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    pub(super) least_ns: f64,
    pub(super) p10_ns: f64,
    pub(super) median_ns: f64,
    pub(super) p90_ns: f64,
    pub(super) iters: usize,
}

impl Times {
    /// Of samples in nanoseconds, at least one.
    fn of(mut samples: Vec<f64>) -> Times {
        samples.sort_by(f64::total_cmp);
        let at = |tenths: usize| samples[(samples.len() - 1) * tenths / 10];
        Times {
            least_ns: samples[0],
            p10_ns: at(1),
            median_ns: at(5),
            p90_ns: at(9),
            iters: samples.len(),
        }
    }

    /// The times of each of several operations done at once, or of several like this.
    pub(super) fn scaled(self, factor: f64) -> Times {
        Times {
            least_ns: self.least_ns * factor,
            p10_ns: self.p10_ns * factor,
            median_ns: self.median_ns * factor,
            p90_ns: self.p90_ns * factor,
            iters: self.iters,
        }
    }
}

/// Times `op` over inputs that `prepare` makes outside the clock, after one run that does not count.
pub(super) fn measure<I, O>(mut prepare: impl FnMut() -> I, mut op: impl FnMut(&I) -> O) -> Times {
    let start = Instant::now();
    let mut once = || {
        let input = prepare();
        let before = Instant::now();
        black_box(op(black_box(&input)));
        before.elapsed()
    };
    let needed = match once() {
        slow if slow > SLOW => SAMPLES_SLOW,
        _ => SAMPLES_MIN,
    };
    let mut samples = Vec::new();
    while samples.len() < needed || start.elapsed() < TIME_PER_OP {
        samples.push(once().as_secs_f64() * 1e9);
    }
    Times::of(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_samples() {
        let times = Times::of((1..=101).rev().map(f64::from).collect());
        assert_eq!(
            (times.least_ns, times.p10_ns, times.median_ns, times.p90_ns),
            (1.0, 11.0, 51.0, 91.0)
        );
        assert_eq!(times.iters, 101);
        let half = times.scaled(0.5);
        assert_eq!((half.least_ns, half.median_ns), (0.5, 25.5));
    }

    #[test]
    fn inputs_are_fresh_and_made_outside_the_clock() {
        let mut made = 0;
        let mut seen = Vec::new();
        let times = measure(
            || {
                made += 1;
                made
            },
            |&input| seen.push(input),
        );
        assert_eq!(seen.len(), times.iters + 1);
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(times.iters >= SAMPLES_MIN);
    }
}
