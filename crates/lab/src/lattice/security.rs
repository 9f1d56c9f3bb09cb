//! The security budget of a proof in words and figures.

use crate::report::table;
use alphorn_falcon::budget::{Event, errors, log2_sum};
use alphorn_labrador::challenge::CHALLENGE_LOG2_CENTI;
use alphorn_labrador::schedule::Schedule;
use serde_json::{Value, json};

/// Returns the security fields of a proof over signatures of a degree.
pub(crate) fn json(degree: usize, schedule: &Schedule) -> Value {
    let (classical, quantum) = schedule.profile.bits();
    let events = errors(degree, schedule);
    let event = |event: &Event| json!({ "event": event.name, "log2": event.log2() });
    json!({
        "sis_bits_classical": classical,
        "sis_bits_quantum": quantum,
        "error_log2": log2_sum(&events),
        "challenge_log2": f64::from(CHALLENGE_LOG2_CENTI) / 100.0,
        "errors": events.iter().map(event).collect::<Vec<_>>(),
    })
}

/// Formats the budget as a table.
pub(super) fn printed(degree: usize, schedule: &Schedule) -> String {
    let (classical, quantum) = schedule.profile.bits();
    let events = errors(degree, schedule);
    let row = |event: &Event| {
        vec![
            event.name.to_owned(),
            event.count.to_string(),
            format!("{:.1}", event.each_log2),
            format!("{:.1}", event.log2()),
        ]
    };
    let mut rows: Vec<Vec<String>> = events.iter().map(row).collect();
    let sum = format!("{:.1}", log2_sum(&events));
    rows.push(vec!["sum".into(), String::new(), String::new(), sum]);
    format!(
        "A false proof needs a short vector of the commitments' lattices: {classical} bits classical, \
         {quantum} quantum\n(core-SVP of block size {}), or one of these accidents:\n\n{}\n",
        schedule.profile.block_size(),
        table(&["accident", "times", "log2 of each", "log2"], &rows)
    )
}
