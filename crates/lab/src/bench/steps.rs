//! The time of each step of long work, from when steps begin.

use std::time::Instant;

/// Seconds of each step in the order of their first beginnings; the last one ends at `end`, and
/// steps of one name are one.
pub(super) fn seconds_of(
    begun: &[(&'static str, Instant)],
    end: Instant,
) -> Vec<(&'static str, f64)> {
    let ends = begun.iter().skip(1).map(|(_, at)| *at).chain([end]);
    let mut steps: Vec<(&'static str, f64)> = Vec::new();
    for ((name, at), end) in begun.iter().zip(ends) {
        let seconds = end.duration_since(*at).as_secs_f64();
        match steps.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += seconds,
            None => steps.push((name, seconds)),
        }
    }
    steps
}
