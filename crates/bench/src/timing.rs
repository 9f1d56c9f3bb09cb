//! Wall times: the median of short operations, and of each step of long work.

use alphorn_exec::Watch;
use alphorn_lab::report::table;
use alphorn_lab::text;
use serde_json::{Map, Value, json};
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum number of samples, unless one alone takes longer than [`SLOW`].
const SAMPLES_MIN: usize = 30;
/// Minimum number of samples of a slow operation.
const SAMPLES_SLOW: usize = 5;
/// Duration from which an operation is slow.
const SLOW: Duration = Duration::from_millis(100);
/// Wall time after which no more than the minimum number of samples is taken.
const TIME_PER_OP: Duration = Duration::from_millis(200);

/// Returns the median of `op` in nanoseconds over inputs that `prepare` makes outside the timed
/// section, after one warm-up run.
pub(crate) fn median_ns<I, O>(mut prepare: impl FnMut() -> I, mut op: impl FnMut(&I) -> O) -> f64 {
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
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() - 1) / 2]
}

/// Records when steps start.
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
    /// Starts timing.
    pub(crate) fn start() -> Self {
        Clock {
            start: Instant::now(),
            begun: Mutex::default(),
        }
    }

    /// Ends the last step.
    pub(crate) fn end(self) -> Steps {
        let end = Instant::now();
        let begun = self.begun.into_inner();
        let begun = begun.unwrap_or_else(PoisonError::into_inner);
        let ends = begun.iter().skip(1).map(|(_, at)| *at).chain([end]);
        let steps = begun.iter().zip(ends);
        let steps = steps.map(|((name, at), end)| (*name, end.duration_since(*at).as_secs_f64()));
        Steps {
            each: summed(steps),
            total_s: end.duration_since(self.start).as_secs_f64(),
        }
    }
}

/// Seconds of each step in order of first start, with steps of the same name added up, and the total.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) each: Vec<(&'static str, f64)>,
    pub(crate) total_s: f64,
}

impl Steps {
    /// Returns milliseconds by single-word names.
    pub(crate) fn ms(&self) -> Map<String, Value> {
        let each = self.each.iter();
        let named = each.map(|(name, seconds)| (name.replace(' ', "_"), json!(seconds * 1e3)));
        named.collect()
    }

    /// Returns the seconds of the parts that steps belong to, and the total.
    pub(crate) fn parts(&self, part: fn(&str) -> &'static str) -> Map<String, Value> {
        let parts = self
            .each
            .iter()
            .map(|(name, seconds)| (part(name), *seconds));
        let parts = summed(parts).into_iter().chain([("total", self.total_s)]);
        let named = parts.map(|(part, seconds)| (part.to_owned(), json!(seconds)));
        named.collect()
    }

    /// Formats a table with the share of each step.
    pub(crate) fn printed(&self, title: &str) -> String {
        let all: f64 = self.each.iter().map(|(_, seconds)| seconds).sum();
        let row = |(name, seconds): (&str, f64)| {
            let share = format!("{:.1} %", 100.0 * seconds / all);
            vec![name.to_owned(), text::seconds(seconds), share]
        };
        let each = self.each.iter().copied().chain([("all", all)]);
        table(
            &[title, "time", "share"],
            &each.map(row).collect::<Vec<_>>(),
        )
    }
}

fn summed(steps: impl Iterator<Item = (&'static str, f64)>) -> Vec<(&'static str, f64)> {
    let mut sums: Vec<(&'static str, f64)> = Vec::new();
    for (name, seconds) in steps {
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += seconds,
            None => sums.push((name, seconds)),
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_fresh_and_made_outside_the_clock() {
        let mut made = 0;
        let mut seen = Vec::new();
        let prepare = || {
            made += 1;
            made
        };
        let median = median_ns(prepare, |&input| seen.push(input));
        assert!(seen.len() > SAMPLES_MIN && median < 1e6);
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn steps_of_one_name_add_up_and_parts_are_all_of_them() {
        let clock = Clock::start();
        for name in ["rows", "proof of work", "rows"] {
            clock.step(name);
            std::thread::sleep(Duration::from_millis(2));
        }
        let steps = clock.end();
        let ms = steps.ms();
        let names: Vec<&str> = ms.keys().map(String::as_str).collect();
        assert_eq!(names, ["proof_of_work", "rows"]);
        assert!(ms["rows"].as_f64() > Some(4.0) && ms["proof_of_work"].as_f64() > Some(2.0));
        let parts = steps.parts(|_| "part");
        let (part, total) = (
            parts["part"].as_f64().unwrap(),
            parts["total"].as_f64().unwrap(),
        );
        assert!(part > 0.006 && part <= total, "{parts:?}");
        let printed = steps.printed("steps");
        assert!(printed.contains("proof of work") && printed.contains("100.0 %"));
    }
}
