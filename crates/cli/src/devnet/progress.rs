//! Progress output of a devnet: a line every few slots.

use super::{Member, Plan};
use crate::error::Result;
use crate::node::client::Api;
use crate::node::lines::counted;
use crate::report::Sink;
use alphorn_node::telemetry::{DutyCounts, Summary};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Minimum time between lines, since every query costs the nodes some time.
const APART: Duration = Duration::from_secs(4);
/// Time limit for a node's answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// Interval at which the thread checks the clock.
const LOOK: Duration = Duration::from_millis(50);
/// Time into a slot until results judged at its start are in the summaries.
const JUDGED: Duration = Duration::from_millis(400);

/// A thread that queries the nodes and prints lines.
pub(super) struct Progress {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts it.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(sink: Sink, plan: &Plan, members: &[Member]) -> Result<Self> {
        let ask = |member: &Member| Api {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, member.api_port)),
            // Read-only requests need none.
            token: String::new(),
            patience: PATIENCE,
        };
        let nodes: Vec<Api> = members.iter().map(ask).collect();
        let genesis = UNIX_EPOCH + Duration::from_secs(plan.network.genesis_time);
        let slot = Duration::from_millis(plan.timing.slot_ms());
        let every = APART.as_nanos().div_ceil(slot.as_nanos().max(1)) as u64;
        let last = plan.checked().end + plan.tail;
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let work = move || {
            let is_over = || stopped.load(Ordering::Relaxed);
            let mut lives = vec![Lives::default(); nodes.len()];
            let mut next = 0;
            while !is_over() {
                std::thread::sleep(LOOK);
                let since = SystemTime::now().duration_since(genesis + JUDGED);
                let Ok(since) = since else { continue };
                let current = (since.as_nanos() / slot.as_nanos()) as u64;
                if current < next {
                    continue;
                }
                next = current + every;
                let answers = nodes.iter().take_while(|_| !is_over()).map(summary);
                let answers: Vec<Option<Summary>> = answers.collect();
                if !is_over() {
                    sink.say(&line(current, last, &mut lives, &answers));
                }
            }
        };
        let thread = std::thread::Builder::new().name("progress".into());
        let thread = Some(thread.spawn(work)?);
        Ok(Progress { stop, thread })
    }

    /// Stops it, so that no line follows later output.
    pub(super) fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its result does not matter.
            let _ = thread.join();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn summary(node: &Api) -> Option<Summary> {
    let text = node.get("/alphorn/v0/summary").ok()?;
    serde_json::from_str(&text).ok()
}

/// Duties of a node that may be killed and restarted.
#[derive(Clone, Copy, Debug, Default)]
struct Lives {
    past: DutyCounts,
    present: DutyCounts,
}

impl Lives {
    fn see(&mut self, summary: &Summary) {
        let counts = summary.all_duties();
        // A restarted node counts from zero again.
        if counts.due < self.present.due {
            self.past.add(&self.present);
        }
        self.present = counts;
    }
}

/// Formats the line of a slot from the nodes' answers.
fn line(slot: u64, last: u64, lives: &mut [Lives], answers: &[Option<Summary>]) -> String {
    let mut all = DutyCounts::default();
    for (node, answer) in lives.iter_mut().zip(answers) {
        if let Some(summary) = answer {
            node.see(summary);
        }
        all.add(&node.past);
        all.add(&node.present);
    }
    let mut text = format!("slot {slot} of {last}: {}", counted(&all));
    let answered = || answers.iter().flatten();
    let newest = answered().filter_map(|node| node.credited.keys().next_back());
    if let Some(judged) = newest.min() {
        let share = |node: &Summary| {
            let credited = node.credited.get(judged).copied().unwrap_or(0);
            credited as f64 / f64::from(node.validators.max(1))
        };
        let least = answered().map(share).fold(1.0, f64::min);
        text += &format!(
            "; {:.1} % of the votes of slot {judged} in blocks",
            100.0 * least
        );
    }
    if let Some(finalised) = answered().map(|node| node.finalised_slot).min() {
        text += &format!("; finalised {finalised}");
    }
    let silent = answers.len() - answered().count();
    if silent > 0 {
        text += &format!("; {silent} of {} nodes do not answer", answers.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(done: u64, missed: u64, credited: &[(u64, u64)], finalised: u64) -> Summary {
        let due = done + missed;
        let late = 0;
        let counts = DutyCounts {
            due,
            done,
            late,
            missed,
        };
        Summary {
            validators: 10,
            duties: [("vote".to_owned(), counts)].into(),
            credited: credited.iter().copied().collect(),
            finalised_slot: finalised,
            ..Summary::default()
        }
    }

    #[test]
    fn a_line_has_the_sum_of_all_nodes_and_of_all_their_lives() {
        let mut lives = vec![Lives::default(); 2];
        let first = node(50, 1, &[(3, 10), (4, 9)], 2);
        let second = node(40, 0, &[(3, 10), (4, 10), (5, 10)], 3);
        assert_eq!(
            line(7, 25, &mut lives, &[Some(first), Some(second)]),
            "slot 7 of 25: 90 duties done, 0 late, 1 missed; 90.0 % of the votes of slot 4 in blocks; finalised 2"
        );
        // One is killed, and starts counting anew.
        let second = node(60, 0, &[(6, 10)], 5);
        let text = line(9, 25, &mut lives, &[None, Some(second)]);
        assert!(text.starts_with("slot 9 of 25: 110 duties done, 0 late, 1 missed; 100.0 %"));
        assert!(
            text.ends_with("finalised 5; 1 of 2 nodes do not answer"),
            "{text}"
        );
        let (first, second) = (node(4, 2, &[], 0), node(60, 0, &[], 5));
        let text = line(9, 25, &mut lives, &[Some(first), Some(second)]);
        assert_eq!(
            text,
            "slot 9 of 25: 114 duties done, 0 late, 3 missed; finalised 0"
        );
    }
}
