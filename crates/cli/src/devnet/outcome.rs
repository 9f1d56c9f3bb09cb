//! Whether a devnet worked as it should.

use super::arrivals::{Spread, spreads};
use super::faults::Kind;
use super::load;
use super::process::{Happened, Told};
use super::{Ended, Plan, end};
use crate::error::Result;
use crate::machine::Load;
use crate::report::table;
use alphorn_node::lanes::Troubles;
use alphorn_node::telemetry::{DutyCounts, Summary};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Slots by which finality may lag behind.
const FINALITY_SLOTS: u64 = 3;

/// Figures over all nodes.
pub(super) struct Outcome<'a> {
    nodes: Vec<Summary>,
    faults: &'a [Happened],
    /// Slots disturbed by a fault.
    disturbed: BTreeSet<u64>,
    checked: Range<u64>,
    /// Host conditions that may have caused missed duties which the protocol would have kept.
    complaint: Option<String>,
    missed: u64,
    /// Maximum number of missed duties allowed.
    missed_max: u64,
    /// Duties missed in slots disturbed by a fault.
    missed_disturbed: u64,
    /// Checked slots that a node did not judge.
    unjudged: u64,
    /// Votes that a node had seen in a block before it ended, and that no node credits any more.
    votes: VotesGone,
    /// Number of rights to sign handed out, and how many of them were handed out twice.
    rights: u64,
    rights_twice: u64,
    coverage_min: f64,
    coverage_mean: f64,
    two_thirds_p50_ms: f64,
    two_thirds_max_ms: f64,
    /// How blocks and collections reached all nodes, by kind.
    arrivals: BTreeMap<String, Spread>,
    finalised_min: u64,
    finalised_wanted: u64,
    /// Whether two nodes report different finalised blocks of one slot.
    disagreement: bool,
    /// Whether the run ended early.
    is_interrupted: bool,
    load: Load,
}

impl<'a> Outcome<'a> {
    pub(super) fn new(plan: &Plan, ended: &'a Ended, missed_max: u64, load: Load) -> Self {
        let (told, faults) = (&ended.told, &ended.happened);
        let disturbed = disturbed(plan, told, faults);
        let mut nodes: Vec<Summary> = told.lives.iter().map(|lives| merged(lives)).collect();
        let noise = &disturbed;
        let in_peace = move || plan.checked().filter(move |slot| !noise.contains(slot));
        let arrivals = spreads(&nodes, &in_peace().collect());
        // The report has one summary of all latencies, not each one.
        nodes.iter_mut().for_each(|node| node.arrivals.clear());
        let missed = |slots: &mut dyn Iterator<Item = u64>| -> u64 {
            let of = |slot: u64| nodes.iter().filter_map(move |node| node.missed.get(&slot));
            slots.flat_map(of).sum()
        };
        let judged_by = |slot: u64| {
            let judges = nodes.iter().filter(|node| node.missed.contains_key(&slot));
            judges.count()
        };
        let late = last_judged(plan, faults);
        let unjudged = in_peace().filter(|slot| !late.contains(slot));
        let unjudged = unjudged.map(|slot| (nodes.len() - judged_by(slot)) as u64);
        let shares = nodes.iter().flat_map(|node| {
            let credited = in_peace().filter_map(move |slot| node.credited.get(&slot));
            credited.map(move |count| *count as f64 / f64::from(node.validators.max(1)))
        });
        let shares: Vec<f64> = shares.collect();
        let two_thirds = nodes.iter().flat_map(|node| {
            let reached = in_peace().filter_map(move |slot| node.two_thirds_ms.get(&slot));
            reached.copied()
        });
        let mut two_thirds: Vec<f64> = two_thirds.collect();
        two_thirds.sort_by(f64::total_cmp);
        let finalised = nodes
            .iter()
            .map(|s| (s.finalised_slot, s.finalised.as_str()));
        let finalised: BTreeSet<(u64, &str)> = finalised.collect();
        let slots: BTreeSet<u64> = finalised.iter().map(|(slot, _)| *slot).collect();
        let mut disturbed_slots = disturbed.iter().copied();
        let kinds: Vec<Kind> = faults.iter().map(|one| one.fault.kind).collect();
        Outcome {
            missed: missed(&mut in_peace()),
            missed_max,
            missed_disturbed: missed(&mut disturbed_slots),
            unjudged: unjudged.sum(),
            votes: VotesGone::of(&told.lives, &parted(plan, faults)),
            rights: told.rights.values().sum(),
            rights_twice: told.rights.values().map(|count| count - 1).sum(),
            coverage_min: shares.iter().copied().fold(1.0, f64::min),
            coverage_mean: shares.iter().sum::<f64>() / (shares.len().max(1)) as f64,
            two_thirds_p50_ms: two_thirds.get(two_thirds.len() / 2).copied().unwrap_or(0.0),
            two_thirds_max_ms: two_thirds.last().copied().unwrap_or(0.0),
            arrivals,
            finalised_min: slots.first().copied().unwrap_or(0),
            finalised_wanted: plan.checked().end.saturating_sub(FINALITY_SLOTS),
            // More pairs than slots: one slot has two blocks.
            disagreement: finalised.len() > slots.len(),
            checked: plan.checked(),
            complaint: load::complaint(load, &nodes, &kinds),
            load,
            is_interrupted: plan.is_cut,
            disturbed,
            faults,
            nodes,
        }
    }

    /// Returns the number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn table(&self) -> String {
        let header = [
            "node",
            "done / late / missed",
            "missed, checked",
            "phase lag p50 / p99.9 / max ms",
            "aggregate p50 / p95 / max ms",
            "late",
            "salvaged",
            "prove busy s",
            "link MB in / out",
        ];
        let rows: Vec<Vec<String>> = self.nodes.iter().map(|node| self.row(node)).collect();
        let table = table(&header, &rows);
        let (result, faults) = (self.result_lines(), self.faults_line());
        if self.checked.is_empty() {
            return format!("{table}\n{faults}{result}");
        }
        let arrivals = self.arrivals.iter().map(|(kind, spread)| spread.line(kind));
        let arrivals: String = arrivals.collect();
        format!(
            "{table}\n{arrivals}{faults}{} slots, coverage {:.2} % (least {:.2} %), two thirds after {:.0} ms \
             (median; most {:.0} ms), finalised {} (wanted {})\n{result}",
            self.checked.end - self.checked.start,
            self.coverage_mean * 100.0,
            self.coverage_min * 100.0,
            self.two_thirds_p50_ms,
            self.two_thirds_max_ms,
            self.finalised_min,
            self.finalised_wanted,
        )
    }

    /// Returns the last lines under the table.
    fn result_lines(&self) -> String {
        let failure = self.failure();
        let complaint = self.complaint.iter().filter(|_| failure.is_some());
        let complaint: String = complaint.map(|text| format!("\n{text}")).collect();
        match (failure, self.is_interrupted) {
            _ if self.checked.is_empty() => "INTERRUPTED before a slot could be checked".to_owned(),
            (None, false) => "PASS".to_owned(),
            (None, true) => "INTERRUPTED, nothing wrong so far".to_owned(),
            (Some((_, why)), false) => format!("FAIL: {why}{complaint}"),
            (Some((_, why)), true) => format!("INTERRUPTED, so far: {why}{complaint}"),
        }
    }

    fn failure(&self) -> Option<(u8, String)> {
        // The gravest first, since only one failure is reported.
        if self.disagreement {
            return Some((5, "nodes disagree on a finalised block".into()));
        }
        if self.rights_twice > 0 {
            let twice = self.rights_twice;
            return Some((1, format!("{twice} rights to sign were handed out twice")));
        }
        if self.votes.lost > 0 {
            return Some((1, format!("{} votes were lost", self.votes.lost)));
        }
        if self.missed > self.missed_max {
            return Some((1, format!("{} duties missed", self.missed)));
        }
        if self.unjudged > 0 {
            return Some((1, format!("{} slots were not judged", self.unjudged)));
        }
        if self.finalised_min < self.finalised_wanted {
            let (at, wanted) = (self.finalised_min, self.finalised_wanted);
            return Some((5, format!("finality stands at slot {at}, wanted {wanted}")));
        }
        None
    }

    /// Exit code 1 for missed duties, 5 for finality, and the code for interruptions for one.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_interrupted {
            let slots = self.checked.end - self.checked.start;
            let what = format!("interrupted, {slots} slots were checked");
            return Err(end(crate::stop::INTERRUPTED, what));
        }
        match self.failure() {
            None => Ok(()),
            Some((1, why)) => Err(crate::error::Error::Check(why)),
            Some((code, why)) => Err(end(code, why)),
        }
    }

    /// Describes how the processes handled the faults.
    fn faults_line(&self) -> String {
        if self.faults.is_empty() {
            return String::new();
        }
        let most = |times: fn(&Happened) -> Option<f64>| {
            let times = self.faults.iter().filter_map(times);
            times.reduce(f64::max)
        };
        let ms = |time: Option<f64>| time.map_or_else(|| "-".into(), |ms| format!("{ms:.0} ms"));
        format!(
            "{} faults; ready again after {} at most, ended after {} at most; {} of {} slots \
             disturbed, {} duties missed in them; {} rights to sign, {} twice; {} votes lost, \
             {} given up with a branch; {} provers killed\n",
            self.faults.len(),
            ms(most(|one| one.ready_ms)),
            ms(most(|one| one.end_ms)),
            self.disturbed.len(),
            self.checked.end - self.checked.start,
            self.missed_disturbed,
            self.rights,
            self.rights_twice,
            self.votes.lost,
            self.votes.given_up,
            self.provers_killed(),
        )
    }

    pub(super) fn fields(&self) -> Map<String, Value> {
        let faults = self.faults.iter().map(|one| {
            json!({
                "kind": one.fault.kind.name(), "node": one.name, "at_ms": one.fault.at_ms,
                "for_ms": one.fault.for_ms, "end_ms": one.end_ms, "ready_ms": one.ready_ms,
                "provers_killed": one.provers,
            })
        });
        let value = json!({
            "missed": self.missed,
            "missed_disturbed": self.missed_disturbed,
            "disturbed": self.disturbed,
            "unjudged": self.unjudged,
            "rights": self.rights,
            "rights_twice": self.rights_twice,
            "votes_lost": self.votes.lost,
            "votes_given_up": self.votes.given_up,
            "faults": faults.collect::<Vec<Value>>(),
            "coverage_min": self.coverage_min,
            "coverage_mean": self.coverage_mean,
            "time_to_two_thirds_ms": {"p50": self.two_thirds_p50_ms, "max": self.two_thirds_max_ms},
            "arrivals": self.arrivals,
            "link_bytes_mean": self.link_bytes_mean(),
            "finalised_min": self.finalised_min,
            "finalised_wanted": self.finalised_wanted,
            "agreement": !self.disagreement,
            "worker": self.worker(),
            "nodes": self.nodes,
        });
        let mut all = load::fields(self.load, &self.nodes);
        all.insert("interrupted".into(), self.is_interrupted.into());
        all.insert("machine_overloaded".into(), self.complaint.is_some().into());
        if let Value::Object(fields) = value {
            all.extend(fields);
        }
        all
    }

    /// Mean bytes on all connections of a node, in and out.
    fn link_bytes_mean(&self) -> [u64; 2] {
        [0, 1].map(|way| {
            let bytes = self.nodes.iter().map(|node| node.link_bytes[way]);
            bytes.sum::<u64>() / self.nodes.len().max(1) as u64
        })
    }

    /// Errors in the lanes of all nodes.
    fn worker(&self) -> Value {
        let sum = |count: fn(&Troubles) -> u64| -> u64 {
            let troubles = self.nodes.iter().map(|node| count(&node.troubles));
            troubles.sum()
        };
        json!({
            "provers_killed": self.provers_killed(),
            "crashes": sum(|t| t.crashes),
            "hangs": sum(|t| t.hangs),
            "self_verify_failures": sum(|t| t.self_verify_failures),
            "stale_frames": sum(|t| t.stale_frames),
            "quarantined": sum(|t| t.quarantined),
        })
    }

    fn provers_killed(&self) -> u64 {
        self.faults.iter().map(|one| one.provers).sum()
    }

    fn row(&self, summary: &Summary) -> Vec<String> {
        let sum =
            |count: fn(&DutyCounts) -> u64| -> u64 { summary.duties.values().map(count).sum() };
        let slots = self.checked.clone();
        let slots = slots.filter(|slot| !self.disturbed.contains(slot));
        let missed: u64 = slots.filter_map(|slot| summary.missed.get(&slot)).sum();
        let lag = summary.phase_lag_ms;
        let aggregate = summary.jobs.get("aggregate").copied().unwrap_or_default();
        let aggregate = aggregate.run_ms;
        let late: u64 = summary.jobs.values().map(|jobs| jobs.late).sum();
        let busy = summary.lanes_busy_s.get(1);
        let [received, sent] = summary.link_bytes.map(|bytes| bytes as f64 / 1e6);
        let three = |a: f64, b: f64, c: f64| format!("{a:.1} / {b:.1} / {c:.1}");
        vec![
            summary.name.clone(),
            format!(
                "{} / {} / {}",
                sum(|d| d.done),
                sum(|d| d.late),
                sum(|d| d.missed)
            ),
            missed.to_string(),
            three(lag.p50, lag.p999, lag.max),
            three(aggregate.p50, aggregate.p95, aggregate.max),
            late.to_string(),
            summary.salvaged.to_string(),
            busy.map_or_else(String::new, |s| format!("{s:.1}")),
            format!("{received:.2} / {sent:.2}"),
        ]
    }
}

/// Returns the mean share of all votes that a node's chain credits in some slots; a slot that the node
/// did not judge counts as zero.
pub(super) fn share(node: &Summary, slots: Range<u64>) -> f64 {
    let count = slots.end - slots.start;
    let credited: u64 = slots.filter_map(|slot| node.credited.get(&slot)).sum();
    credited as f64 / (count.max(1) * u64::from(node.validators.max(1))) as f64
}

/// Returns the checked slots that a fault disturbs.
fn disturbed(plan: &Plan, told: &Told, faults: &[Happened]) -> BTreeSet<u64> {
    let slots = faults.iter().flat_map(|one| {
        let life = told
            .lives
            .get(one.fault.node)
            .and_then(|lives| lives.get(one.life));
        let signs_from = life
            .filter(|_| one.fault.kind.ends())
            .map(|life| life.first_slot);
        one.fault.disturbs(plan.timing.slot_ms(), signs_from)
    });
    slots.filter(|slot| plan.checked().contains(slot)).collect()
}

/// Returns the slots that a node judged just before it was killed: its last report may be older.
fn last_judged(plan: &Plan, faults: &[Happened]) -> BTreeSet<u64> {
    let kills = faults.iter().filter(|one| one.fault.kind == Kind::Kill);
    let disturbed = kills.map(|one| one.fault.disturbs(plan.timing.slot_ms(), None));
    disturbed
        .map(|slots| slots.start.saturating_sub(1))
        .collect()
}

/// Returns the slots that nodes may have judged while the network was partitioned.
fn parted(plan: &Plan, faults: &[Happened]) -> BTreeSet<u64> {
    let partitions = faults
        .iter()
        .filter(|one| one.fault.kind == Kind::Partition);
    let disturbed = partitions.map(|one| one.fault.disturbs(plan.timing.slot_ms(), None));
    disturbed.flatten().collect()
}

/// Merges the lives of a node: duties of all lives, times and traffic of the last.
fn merged(lives: &[Summary]) -> Summary {
    let mut whole = lives.last().cloned().unwrap_or_default();
    for life in lives.iter().rev().skip(1) {
        for (kind, counts) in &life.duties {
            let sum = whole.duties.entry(kind.clone()).or_default();
            sum.due += counts.due;
            sum.done += counts.done;
            sum.late += counts.late;
            sum.missed += counts.missed;
        }
        whole.take_slots(life);
    }
    whole
}

/// Votes that a life of a node saw in its chain when it judged their slot, beyond what any node credits
/// in its last life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct VotesGone {
    /// Votes of slots that all nodes judged by one chain.
    lost: u64,
    /// Votes of slots that one half judged by its own branch, which the other half did not know: one of
    /// the two branches was abandoned.
    given_up: u64,
}

impl VotesGone {
    fn of(lives: &[Vec<Summary>], parted: &BTreeSet<u64>) -> Self {
        let last: Vec<&Summary> = lives.iter().filter_map(|lives| lives.last()).collect();
        let kept = |slot: &u64| last.iter().filter_map(|life| life.credited.get(slot)).max();
        let (mut lost, mut given_up) = (0, 0);
        // All lives but the last one of each node, whose chain is what is left at the end.
        for life in lives.iter().flat_map(|lives| lives.iter().rev().skip(1)) {
            for (slot, seen) in &life.credited {
                // A slot that no node judged in its last life is unknown, and not counted.
                let gone = kept(slot).map_or(0, |kept| seen.saturating_sub(*kept));
                match parted.contains(slot) {
                    false => lost += gone,
                    true => given_up += gone,
                }
            }
        }
        VotesGone { lost, given_up }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(credited: &[(u64, u64)], missed: &[(u64, u64)]) -> Summary {
        let vote = DutyCounts {
            due: 4,
            done: 3,
            late: 0,
            missed: 1,
        };
        Summary {
            credited: credited.iter().copied().collect(),
            missed: missed.iter().copied().collect(),
            duties: [("vote".to_owned(), vote)].into(),
            ..Summary::default()
        }
    }

    #[test]
    fn duties_that_may_be_missed_are_no_failure_in_words_or_code() {
        let outcome = |missed_max| Outcome {
            nodes: Vec::new(),
            faults: &[],
            disturbed: BTreeSet::new(),
            checked: 2..6,
            complaint: None,
            missed: 3,
            missed_max,
            missed_disturbed: 0,
            unjudged: 0,
            votes: VotesGone {
                lost: 0,
                given_up: 0,
            },
            rights: 9,
            rights_twice: 0,
            coverage_min: 0.9,
            coverage_mean: 0.9,
            two_thirds_p50_ms: 1.0,
            two_thirds_max_ms: 1.0,
            arrivals: BTreeMap::new(),
            finalised_min: 4,
            finalised_wanted: 3,
            disagreement: false,
            is_interrupted: false,
            load: Load {
                at_start: None,
                others: 0.0,
            },
        };
        for (missed_max, words) in [(3, "PASS"), (2, "FAIL: 3 duties missed")] {
            let outcome = outcome(missed_max);
            assert_eq!(outcome.result_lines(), words);
            assert_eq!(outcome.check().is_ok(), words == "PASS");
        }
    }

    #[test]
    fn lives_are_added_up_and_lost_votes_are_found() {
        let first = life(&[(3, 10), (4, 10)], &[(3, 0), (4, 1)]);
        let second = life(&[(9, 10)], &[(9, 0)]);
        let whole = merged(&[first.clone(), second.clone()]);
        assert_eq!(whole.duties["vote"].due, 8);
        assert_eq!(whole.missed, [(3, 0), (4, 1), (9, 0)].into());
        let other = |slot_3| life(&[(3, slot_3), (9, 10)], &[]);
        let gone = |slot_3, parted: &[u64]| {
            let lives = [vec![first.clone(), second.clone()], vec![other(slot_3)]];
            let gone = VotesGone::of(&lives, &parted.iter().copied().collect());
            (gone.lost, gone.given_up)
        };
        assert_eq!(gone(10, &[]), (0, 0));
        assert_eq!(gone(7, &[2, 4]), (3, 0), "slot 4 is not known of");
        assert_eq!(gone(7, &[3]), (0, 3), "a half saw them");
    }
}
