//! The time of each step of a proof.

use super::super::steps::seconds_of;
use crate::report::table;
use crate::text;
use alphorn_xmss::Watch;
use serde_json::{Map, Value, json};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Remembers when steps begin.
#[derive(Default)]
pub(super) struct Clock(Mutex<Vec<(&'static str, Instant)>>);

/// Seconds of each step in the order of their first beginnings.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps(Vec<(&'static str, f64)>);

impl Watch for Clock {
    fn step(&self, name: &'static str) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push((name, Instant::now()));
    }
}

impl Clock {
    /// Ends the last step; steps of one name are one.
    pub(super) fn end(self) -> Steps {
        let end = Instant::now();
        let begun = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Steps(seconds_of(&begun, end))
    }
}

impl Steps {
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
    use std::time::Duration;

    #[test]
    fn steps_of_one_name_add_up() {
        let clock = Clock::default();
        for name in ["rows", "proof of work", "rows"] {
            clock.step(name);
            std::thread::sleep(Duration::from_millis(2));
        }
        let steps = clock.end();
        let json = steps.json();
        let names: Vec<&str> = json.keys().map(String::as_str).collect();
        assert_eq!(names, ["proof_of_work", "rows"]);
        assert!(json["rows"].as_f64() > Some(4.0) && json["proof_of_work"].as_f64() > Some(2.0));
        let printed = steps.printed("steps");
        assert!(printed.contains("proof of work") && printed.contains("100.0 %"));
    }
}
