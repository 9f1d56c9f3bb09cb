//! The parts of a proof that its steps belong to, and their times.

use crate::timing::Clock;
use serde_json::{Map, Value, json};

/// Seconds of each step in the order of their first beginning, and of all.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    steps: Vec<(&'static str, f64)>,
    pub(super) total_s: f64,
}

/// The part of a proof that a step of the prover belongs to.
fn prover_part(step: &str) -> &'static str {
    match step {
        "plain verification" | "digest of the statement" | "witness check" => "admission",
        "slack and quotients" | "first commitment" | "second commitment" => "commit",
        "images of blocks" | "projection" => "project",
        _ if step.starts_with("sumcheck: ") => "sumcheck",
        "lifts" => "lifts",
        _ if step.starts_with("later: ") || step == "last level" => "later_levels",
        _ => "garbage",
    }
}

/// The part of a verification that a step belongs to.
fn verifier_part(step: &str) -> &'static str {
    match step {
        "digest of the statement" => "statement_hash",
        "last level" => "final",
        "claim of the sumcheck" => "claim",
        "end of the sumcheck" => "sumcheck",
        _ if step.starts_with("later: ") => "later_levels",
        _ => "level1",
    }
}

impl Steps {
    /// Those that a clock saw.
    pub(super) fn of(clock: Clock) -> Self {
        let (steps, total_s) = clock.end();
        Steps { steps, total_s }
    }

    /// Every step by itself.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.steps.iter().copied()
    }

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
    use alphorn_exec::Watch;

    #[test]
    fn steps_of_one_name_add_up_and_parts_are_all_of_them() {
        let clock = Clock::start();
        for name in ["witness check", "later: lifts", "witness check", "new"] {
            clock.step(name);
            std::thread::sleep(std::time::Duration::from_micros(600));
        }
        let steps = Steps::of(clock);
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
