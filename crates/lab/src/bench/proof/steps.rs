//! The time of each step of a proof.

use crate::report::table;
use crate::text;
use crate::timing::Clock;
use serde_json::{Map, Value, json};

/// Seconds of each step in the order of their first beginnings.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps(Vec<(&'static str, f64)>);

impl Steps {
    /// Those that a clock saw.
    pub(super) fn of(clock: Clock) -> Self {
        Steps(clock.end().0)
    }

    /// Milliseconds by names that are one word.
    pub(super) fn json(&self) -> Map<String, Value> {
        let steps = self.0.iter();
        let named = steps.map(|(name, seconds)| (name.replace(' ', "_"), json!(seconds * 1e3)));
        named.collect()
    }

    /// A table with the share of each step.
    pub(super) fn printed(&self, title: &str) -> String {
        let all: f64 = self.0.iter().map(|(_, seconds)| seconds).sum();
        let row = |name: &str, seconds: f64| {
            vec![
                name.to_owned(),
                text::seconds(seconds),
                format!("{:.1} %", 100.0 * seconds / all),
            ]
        };
        let steps = self.0.iter().map(|(name, seconds)| row(name, *seconds));
        let rows: Vec<_> = steps.chain([row("all", all)]).collect();
        table(&[title, "time", "share"], &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_exec::Watch;
    use std::time::Duration;

    #[test]
    fn steps_of_one_name_add_up() {
        let clock = Clock::start();
        for name in ["rows", "proof of work", "rows"] {
            clock.step(name);
            std::thread::sleep(Duration::from_millis(2));
        }
        let steps = Steps::of(clock);
        let json = steps.json();
        let names: Vec<&str> = json.keys().map(String::as_str).collect();
        assert_eq!(names, ["proof_of_work", "rows"]);
        assert!(json["rows"].as_f64() > Some(4.0) && json["proof_of_work"].as_f64() > Some(2.0));
        let printed = steps.printed("steps");
        assert!(printed.contains("proof of work") && printed.contains("100.0 %"));
    }
}
