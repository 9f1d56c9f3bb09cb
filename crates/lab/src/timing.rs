//! Wall times: the least of several runs, and of each step of long work.

use alphorn_exec::Watch;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The least wall time of `runs` runs in seconds, and the last result.
pub(crate) fn least<T>(runs: usize, mut run: impl FnMut() -> T) -> (f64, T) {
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

/// Remembers when steps begin.
pub(crate) struct Clock {
    start: Instant,
    begun: Mutex<Vec<(&'static str, Instant)>>,
}

impl Watch for Clock {
    fn step(&self, name: &'static str) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push((name, Instant::now()));
    }
}

impl Clock {
    /// Begins to watch.
    pub(crate) fn start() -> Self {
        Clock {
            start: Instant::now(),
            begun: Mutex::default(),
        }
    }

    /// Ends the last step: the seconds of each in the order of their first beginnings, those of one
    /// name added up, and the seconds of all.
    pub(crate) fn end(self) -> (Vec<(&'static str, f64)>, f64) {
        let end = Instant::now();
        let begun = self.begun.into_inner();
        let begun = begun.unwrap_or_else(PoisonError::into_inner);
        let ends = begun.iter().skip(1).map(|(_, at)| *at).chain([end]);
        let mut steps: Vec<(&'static str, f64)> = Vec::new();
        for ((name, at), end) in begun.iter().zip(ends) {
            let seconds = end.duration_since(*at).as_secs_f64();
            match steps.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += seconds,
                None => steps.push((name, seconds)),
            }
        }
        (steps, end.duration_since(self.start).as_secs_f64())
    }
}
