//! Wall times: the least of several runs.

use std::time::Instant;

/// Returns the least wall time of `runs` runs in seconds, and the last result.
pub fn least<T>(runs: usize, mut run: impl FnMut() -> T) -> (f64, T) {
    let mut timed = || {
        let start = Instant::now();
        let value = run();
        (start.elapsed().as_secs_f64(), value)
    };
    let (mut best, mut value) = timed();
    for _ in 1..runs {
        let (seconds, again) = timed();
        best = best.min(seconds);
        value = again;
    }
    (best, value)
}
