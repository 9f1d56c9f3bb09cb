//! A node's figures, as read by its interface and the devnet.

use super::arrivals::Arrival;
use super::totals::{JUDGED_MAX, Jobs, Times};
use crate::cast;
use crate::engine::Tally;
use crate::health::{BEHIND_SLOTS, Facts, Reason, assess};
use crate::lanes::Troubles;
use crate::record::Recorded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The outcome of duties of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DutyCounts {
    /// Total.
    pub due: u64,
    /// In time.
    pub done: u64,
    /// Later than wanted.
    pub late: u64,
    /// Not done.
    pub missed: u64,
}

impl DutyCounts {
    /// Adds counts.
    pub fn add(&mut self, other: &DutyCounts) {
        self.due += other.due;
        self.done += other.done;
        self.late += other.late;
        self.missed += other.missed;
    }
}

impl From<Tally> for DutyCounts {
    fn from(tally: Tally) -> Self {
        DutyCounts {
            due: tally.due(),
            done: tally.done,
            late: tally.late,
            missed: tally.missed,
        }
    }
}

/// A distribution of times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimesMs {
    /// Times recorded.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// 95 % are lower.
    pub p95: f64,
    /// 99 % are lower.
    pub p99: f64,
    /// 99.9 % are lower.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

impl From<&Times> for TimesMs {
    fn from(times: &Times) -> Self {
        TimesMs {
            count: times.count(),
            p50: times.quantile_ms(0.5),
            p95: times.quantile_ms(0.95),
            p99: times.quantile_ms(0.99),
            p999: times.quantile_ms(0.999),
            max: times.max_ms(),
        }
    }
}

/// Jobs of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobCounts {
    /// Run times.
    pub run_ms: TimesMs,
    /// Queueing times.
    pub(crate) queue_ms: TimesMs,
    /// Jobs that ended after their soft deadline.
    pub late: u64,
    /// Jobs without a result.
    pub(crate) failed: u64,
}

impl From<&Jobs> for JobCounts {
    fn from(jobs: &Jobs) -> Self {
        JobCounts {
            run_ms: (&jobs.ran).into(),
            queue_ms: (&jobs.queued).into(),
            late: jobs.late,
            failed: jobs.failed,
        }
    }
}

/// Traffic of one kind of topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicCounts {
    /// Bytes received, including duplicates.
    pub bytes_in: u64,
    /// Bytes that were published or forwarded, once each.
    pub bytes_out: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Messages received again.
    pub duplicates: u64,
}

/// A node's figures since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the node.
    pub name: String,
    /// The signature scheme.
    pub scheme: String,
    /// Number of validators in the network.
    pub validators: u32,
    /// Those whose duties are performed here.
    pub local_validators: u32,
    /// The slot by its clock.
    pub slot: u64,
    /// The first slot that it signed.
    pub first_slot: u64,
    /// A validator of this node for which another host signs. This node signs nothing then.
    pub doppelganger: Option<u32>,
    /// Slot of its head.
    pub head_slot: u64,
    /// Its head, in hexadecimal.
    pub head: String,
    /// Slot of the justified checkpoint.
    pub justified_slot: u64,
    /// Slot of the finalised checkpoint.
    pub finalised_slot: u64,
    /// Block of the finalised checkpoint, in hexadecimal.
    pub finalised: String,
    /// Slots whose duties have been judged.
    pub judged_slots: u64,
    /// Those whose committees were not ready in time.
    pub unprepared_slots: u64,
    /// By kind: propose, vote, aggregate, collect.
    pub duties: BTreeMap<String, DutyCounts>,
    /// By judged slot, the last [`Summary::JUDGED_MAX`] of them: validators whose vote the chain credits.
    pub credited: BTreeMap<u64, u64>,
    /// By judged slot: missed local duties.
    pub missed: BTreeMap<u64, u64>,
    /// By reason: missed local duties.
    #[serde(default)]
    pub missed_reasons: BTreeMap<String, u64>,
    /// By slot: milliseconds until two thirds of all validators were in verified collections.
    pub two_thirds_ms: BTreeMap<u64, f64>,
    /// Lateness of the loop at phases.
    pub phase_lag_ms: TimesMs,
    /// Lateness of the loop at probes that are due every 10 ms.
    pub probe_lag_ms: TimesMs,
    /// Duration of its turns.
    pub turn_ms: TimesMs,
    /// Turns longer than 5 ms.
    pub stalls: u64,
    /// By operation.
    pub jobs: BTreeMap<String, JobCounts>,
    /// Seconds in which lanes were busy: the fast ones, the others.
    pub lanes_busy_s: Vec<f64>,
    /// The chosen kernel, by crate.
    pub kernels: BTreeMap<String, String>,
    /// Failures in lanes.
    pub troubles: Troubles,
    /// Own results that were late and still used.
    pub salvaged: u64,
    /// Own results that were too late or added nothing.
    pub stale: u64,
    /// Messages that were not accepted, by reason.
    pub rejects: BTreeMap<String, u64>,
    /// Reports of misbehaviour, by reason.
    pub reports: BTreeMap<String, u64>,
    /// Pairs of contradicting statements.
    pub evidence: u64,
    /// By kind of topic.
    pub topics: BTreeMap<String, TopicCounts>,
    /// Bytes on all connections: in and out.
    pub link_bytes: [u64; 2],
    /// Broadcasts of blocks and collections that are too long for gossip.
    pub broadcasts: cast::Counts,
    /// Items that the network dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Connected peers.
    pub peers: u64,
    /// Blocks of earlier runs.
    pub restored_blocks: u64,
    /// Votes and aggregates of earlier runs that it found.
    pub restored_messages: u64,
    /// Votes and aggregates that would survive a crash now.
    pub kept_messages: u64,
    /// Blocks requested from peers to fill a gap.
    pub fetched_blocks: u64,
    /// Blocks that messages waited for and that peers sent on request.
    pub blocks_by_root: u64,
    /// Signing jobs that the store of marks refused.
    pub signing_refused: u64,
    /// Failed commits: of marks, of blocks.
    pub commits_failed: [u64; 2],
    /// Longest commits since the start in milliseconds: of marks, of blocks.
    pub commit_ms_max: [f64; 2],
    /// Commits of marks that took more than half a second.
    #[serde(default)]
    pub commits_slow: u64,
    /// Whether it aggregates and collects when its validators are selected.
    #[serde(default)]
    pub is_aggregator: bool,
    /// Whether duties can be signed: no health problem prevents it.
    pub can_sign: bool,
    /// The health problems.
    pub health: Vec<Reason>,
    /// By how many milliseconds the wall clock is ahead of the time that the node uses.
    pub clock_wrong_ms: f64,
    /// By how many milliseconds the clocks of peers are ahead, if they report that.
    pub clock_peers_ahead_ms: Option<f64>,
    /// The final slot from which this run started, if that is not genesis.
    pub checkpoint_slot: Option<u64>,
    /// The final slot from which the next one can start.
    pub kept_checkpoint_slot: Option<u64>,
    /// Damaged files `node.redb` that were set aside and recreated.
    pub files_rebuilt: u64,
    /// Steps of the wall clock.
    pub clock_steps: u64,
    /// Phases that had passed before the loop ran.
    pub phases_missed: u64,
    /// Verified votes that the fork choice did not accept, and those replaced by heavier ballots.
    pub votes_uncounted: [u64; 2],
    /// Publications and subscriptions that the network did not accept.
    pub publish_refused: u64,
    /// Records that the trace could not hold.
    pub trace_refused: u64,
    /// Resident memory of the process, in bytes. 0 if the system does not report it.
    pub rss_bytes: u64,
    /// Upper bound on it, in bytes: the sum of the following.
    pub memory_bound_bytes: u64,
    /// The most bytes that each component of the node takes.
    pub memory_parts: BTreeMap<String, u64>,
    /// At its end: the last blocks and collections, and when they arrived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<Arrival>,
    /// At the end of a node that recorded its inputs.
    pub recorded: Option<Recorded>,
}

impl Summary {
    /// Slots listed one by one in a summary. A node creates summaries several times a second, so older slots are
    /// dropped. To get all slots of a long run, query before that and call [`Summary::take_slots`].
    pub const JUDGED_MAX: usize = JUDGED_MAX;

    /// Adds the individual slots of another summary of the same node.
    pub fn take_slots(&mut self, other: &Summary) {
        self.credited.extend(&other.credited);
        self.missed.extend(&other.missed);
        self.two_thirds_ms.extend(&other.two_thirds_ms);
    }

    /// Determines the health problems.
    pub(crate) fn judge(&mut self, facts: &Facts) {
        self.clock_wrong_ms = facts.clock_wrong_ns as f64 / 1e6;
        self.clock_peers_ahead_ms = facts.peers_ahead_ns.map(|ns| ns as f64 / 1e6);
        self.health = assess(facts);
        self.can_sign = !self.health.iter().any(|reason| reason.stops_signing());
    }

    /// Whether the head is so far behind the clock that the node counts as catching up.
    pub(crate) fn is_behind(&self) -> bool {
        self.head_slot.saturating_add(BEHIND_SLOTS) < self.slot
    }

    /// Duties of all kinds.
    pub fn all_duties(&self) -> DutyCounts {
        let mut all = DutyCounts::default();
        self.duties.values().for_each(|counts| all.add(counts));
        all
    }
}
