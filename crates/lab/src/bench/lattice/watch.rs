//! The threads of a proof, and the time of each of its steps.

use super::super::steps::seconds_of;
use alphorn_labrador::Exec;
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A pool that remembers when steps begin.
pub(super) struct Watch<'a> {
    pool: &'a rayon::ThreadPool,
    begun: Mutex<Vec<(&'static str, Instant)>>,
    start: Instant,
}

/// Seconds of each step in the order of their first beginning, and of all.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    steps: Vec<(&'static str, f64)>,
    pub(super) total_s: f64,
}

impl<'a> Watch<'a> {
    /// Begins to watch.
    pub(super) fn new(pool: &'a rayon::ThreadPool) -> Self {
        Watch {
            pool,
            begun: Mutex::default(),
            start: Instant::now(),
        }
    }

    /// Ends the last step.
    pub(super) fn end(self) -> Steps {
        let end = Instant::now();
        let begun = self
            .begun
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Steps {
            steps: seconds_of(&begun, end),
            total_s: end.duration_since(self.start).as_secs_f64(),
        }
    }
}

impl Exec for Watch<'_> {
    fn each(&self, count: usize, task: &(dyn Fn(usize) + Sync)) {
        self.pool
            .install(|| (0..count).into_par_iter().for_each(task));
    }

    fn step(&self, name: &'static str) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push((name, Instant::now()));
    }
}

/// The part of a proof that a step of the prover belongs to.
fn prover_part(step: &str) -> &'static str {
    match step {
        "plain verification" | "hash to point" | "digest of the statement" | "witness check" => {
            "admission"
        }
        "slack and products" | "first commitment" => "commit",
        "conjugates and images" | "second commitment" => "s2_project",
        "quotients" | "projection" | "lifts" => "lifts",
        _ if step.starts_with("later: ") || step == "last level" => "later_levels",
        _ => "garbage",
    }
}

/// The part of a verification that a step belongs to.
fn verifier_part(step: &str) -> &'static str {
    match step {
        "hash to point" => "hash_to_point",
        "digest of the statement" => "statement_hash",
        "last level" => "final",
        _ if step.starts_with("later: ") => "later_levels",
        _ => "level1",
    }
}

impl Steps {
    /// The parts of the prover.
    pub(super) fn of_prover(&self) -> Map<String, Value> {
        self.parts(prover_part)
    }

    /// The parts of the verifier.
    pub(super) fn of_verifier(&self) -> Map<String, Value> {
        self.parts(verifier_part)
    }

    fn parts(&self, part: fn(&str) -> &'static str) -> Map<String, Value> {
        let mut sums: Vec<(&'static str, f64)> = Vec::new();
        for (name, seconds) in &self.steps {
            let part = part(name);
            match sums.iter_mut().find(|(known, _)| *known == part) {
                Some((_, sum)) => *sum += seconds,
                None => sums.push((part, *seconds)),
            }
        }
        let sums = sums.into_iter();
        sums.map(|(part, sum)| (part.to_owned(), json!(sum)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_one_name_add_up_and_parts_are_all_of_them() {
        let pool = crate::options::pool(1).unwrap();
        let watch = Watch::new(&pool);
        for name in ["witness check", "later: lifts", "witness check", "new"] {
            watch.step(name);
            watch.each(3, &|_| {
                std::thread::sleep(std::time::Duration::from_micros(200))
            });
        }
        let steps = watch.end();
        assert_eq!(steps.steps.len(), 3);
        assert!(steps.steps.iter().all(|(_, seconds)| *seconds > 0.0));
        let parts = steps.of_prover();
        let names: Vec<&str> = parts.keys().map(String::as_str).collect();
        assert_eq!(names, ["admission", "garbage", "later_levels"]);
        let sum: f64 = parts.values().filter_map(Value::as_f64).sum();
        let all: f64 = steps.steps.iter().map(|(_, seconds)| seconds).sum();
        assert!((sum - all).abs() < 1e-9 && sum <= steps.total_s);
    }
}
