//! The memory of the nodes of a devnet during an event.

use super::process::Running;
use crate::error::Result;
use alphorn_node::memory::status_bytes;
use std::time::{Duration, SystemTime};

/// Interval at which the memory of the nodes is sampled.
const SAMPLE: Duration = Duration::from_secs(1);

/// Resident memory of a process over some time, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Resident {
    /// At the start.
    pub(super) first: u64,
    /// The peak in the first half of the time, and in the second.
    pub(super) most: [u64; 2],
}

impl Resident {
    /// Summarises samples in time order.
    fn of(samples: &[u64]) -> Self {
        let (first, second) = samples.split_at(samples.len() / 2);
        let most = |part: &[u64]| part.iter().copied().max().unwrap_or(0);
        Resident {
            first: samples.first().copied().unwrap_or(0),
            most: [most(first), most(second)],
        }
    }
}

/// Waits for an instant or an interruption, and samples the memory of all nodes in the meantime.
///
/// # Errors
/// If a node ends.
pub(super) fn watch_until(running: &mut Running, at: SystemTime) -> Result<Vec<Resident>> {
    // No node is restarted meanwhile, as a flood excludes faults.
    let pids = running.pids();
    let mut samples = vec![Vec::new(); pids.len()];
    while SystemTime::now() < at && !running.is_interrupted() {
        for (pid, samples) in pids.iter().zip(&mut samples) {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
            samples.push(status_bytes(&status.unwrap_or_default()).unwrap_or(0));
        }
        running.wait_until(at.min(SystemTime::now() + SAMPLE))?;
    }
    Ok(samples
        .iter()
        .map(|samples| Resident::of(samples))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_the_most_of_each_half() {
        let of = |samples: &[u64]| Resident::of(samples);
        let expected = Resident {
            first: 3,
            most: [5, 7],
        };
        assert_eq!(of(&[3, 5, 4, 7, 6]), expected);
        assert_eq!(of(&[]), Resident::default());
    }
}
