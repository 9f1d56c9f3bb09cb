//! Reasons for missed duties: what is known about a slot when its duties are judged, some slots later.

use super::event::Event;
use crate::engine::Judged;
use crate::telemetry::jobs::outcome;
use alphorn_proto::wire::Topic;
use alphorn_scheme::{Op, Outcome};
use alphorn_types::Slot;
use std::collections::BTreeMap;

/// Number of slots remembered. More than pass until one is judged.
const SLOTS_MAX: usize = 16;
/// Lateness at which the start of a phase counts as a reason, in nanoseconds.
const LATE_NS: u64 = 250_000_000;

/// Facts about a slot that may be a reason.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// Own published blocks, votes, aggregates and collections.
    published: [u64; 4],
    /// By operation: how the last failed job ended, and why.
    failed: BTreeMap<&'static str, (&'static str, String)>,
    /// By operation: jobs that ended after their deadline or were given up at it.
    late: BTreeMap<&'static str, u64>,
    /// The latest start of a phase, in nanoseconds.
    lag_ns: u64,
    /// The wall clock was set.
    is_stepped: bool,
    /// The lowest number of connected peers.
    peers: Option<u64>,
}

/// Missed duties of one kind in a slot, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) duty: &'static str,
    pub(super) count: u64,
    /// One of a few names, for counting.
    pub(super) name: &'static str,
    /// The details.
    pub(super) why: String,
}

/// Facts about the last slots, and the counts of all.
#[derive(Debug, Default)]
pub(super) struct Missed {
    slots: BTreeMap<u64, Facts>,
    /// Duties by the name of their reason.
    pub(super) counts: BTreeMap<&'static str, u64>,
}

/// A kind of duty.
struct Duty {
    name: &'static str,
    /// Its index among the published messages.
    place: usize,
    /// The jobs that sign it and that make it.
    signs: Op,
    makes: &'static [Op],
}

/// All kinds, in the order of [`Facts::published`].
const DUTIES: [Duty; 4] = [
    Duty {
        name: "propose",
        place: 0,
        signs: Op::DutySign,
        makes: &[Op::Bundle],
    },
    Duty {
        name: "vote",
        place: 1,
        signs: Op::Sign,
        makes: &[],
    },
    Duty {
        name: "aggregate",
        place: 2,
        signs: Op::DutySign,
        makes: &[Op::Aggregate, Op::Merge],
    },
    Duty {
        name: "collect",
        place: 3,
        signs: Op::DutySign,
        makes: &[Op::Collect, Op::Merge],
    },
];

impl Missed {
    fn of(&mut self, slot: Slot) -> &mut Facts {
        // An old slot, such as that of a block fetched to fill a gap, thus displaces older ones and none that is still
        // judged.
        while self.slots.len() >= SLOTS_MAX && !self.slots.contains_key(&slot.0) {
            self.slots.pop_first();
        }
        self.slots.entry(slot.0).or_default()
    }

    /// Records an event for the slot by the clock, or for a job of another slot.
    pub(super) fn record(&mut self, now: Option<Slot>, event: &Event<'_>) {
        let now = now.unwrap_or(Slot(0));
        match *event {
            Event::Published { topic } => {
                let place = match topic {
                    Topic::Block => 0,
                    Topic::Vote { .. } => 1,
                    Topic::Aggregate { .. } => 2,
                    Topic::Collection => 3,
                };
                self.of(now).published[place] += 1;
            }
            Event::ClockStep(_) => self.of(now).is_stepped = true,
            Event::Phase { boundary, lag_ns } => {
                let facts = self.of(boundary.slot);
                facts.lag_ns = facts.lag_ns.max(lag_ns);
            }
            Event::JobEnded(ended, _) => {
                let facts = self.of(ended.group.slot);
                let why = match &ended.outcome {
                    Outcome::Refused(why) => why.clone(),
                    _ => String::new(),
                };
                match &ended.outcome {
                    Outcome::Done(_) if !ended.late => {}
                    Outcome::Superseded => {}
                    Outcome::Done(_) | Outcome::Cancelled => {
                        *facts.late.entry(ended.op).or_default() += 1;
                    }
                    other => {
                        facts.failed.insert(ended.op, (outcome(other), why));
                    }
                }
            }
            _ => {}
        }
    }

    /// Records how many peers are connected now.
    pub(super) fn peers(&mut self, slot: Slot, peers: u64) {
        let facts = self.of(slot);
        facts.peers = Some(facts.peers.map_or(peers, |least| least.min(peers)));
    }

    /// Returns and counts the reasons for a slot's missed duties, by kind.
    pub(super) fn reasons(&mut self, judged: &Judged) -> Vec<Reason> {
        let facts = self.slots.get(&judged.slot.0).cloned().unwrap_or_default();
        let tallies = [
            judged.propose,
            judged.vote,
            judged.aggregate,
            judged.collect,
        ];
        let missed = DUTIES
            .iter()
            .zip(tallies)
            .filter(|(_, tally)| tally.missed > 0);
        let reasons: Vec<Reason> = missed
            .map(|(duty, tally)| {
                let (name, why) = facts.why(duty, judged.prepared);
                Reason {
                    duty: duty.name,
                    count: tally.missed,
                    name,
                    why,
                }
            })
            .collect();
        for reason in &reasons {
            *self.counts.entry(reason.name).or_default() += reason.count;
        }
        reasons
    }
}

impl Facts {
    /// The name of the reason and its details. The first in the order of a duty is reported.
    fn why(&self, duty: &Duty, is_prepared: bool) -> (&'static str, String) {
        if !is_prepared {
            return (
                "unprepared",
                "the committees of the slot were not known in time".into(),
            );
        }
        let makes = || duty.makes.iter().map(|op| op.name());
        let signs = duty.signs.name();
        if let Some((op, (ended, why))) = makes().find_map(|op| Some((op, self.failed.get(op)?))) {
            return (
                "job failed",
                told(&format!("the job {op} ended {ended}"), why),
            );
        }
        if let Some((ended, why)) = self.failed.get(signs) {
            return (
                "not signed",
                told(&format!("the signature was {ended}"), why),
            );
        }
        if self.is_stepped {
            return ("clock", "the wall clock was set in this slot".into());
        }
        let ops = makes().chain([signs]);
        let late: Vec<String> = ops
            .filter_map(|op| Some(format!("{op} ({} jobs)", self.late.get(op)?)))
            .collect();
        if !late.is_empty() {
            return (
                "job late",
                format!("after its deadline: {}", late.join(", ")),
            );
        }
        if self.lag_ns > LATE_NS {
            let ms = self.lag_ns / 1_000_000;
            return ("loop late", format!("a phase began {ms} ms late"));
        }
        if self.published[duty.place] == 0 {
            return (
                "not published",
                "nothing of its kind was published in the slot".into(),
            );
        }
        match self.peers {
            Some(0) => ("no peers", "published, but no peer was connected".into()),
            _ => (
                "not included",
                "published, but not in the chain of the head in time".into(),
            ),
        }
    }
}

/// A reason with its details.
fn told(what: &str, more: &str) -> String {
    match more.is_empty() {
        true => what.to_owned(),
        false => format!("{what}: {more}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Tally;
    use crate::lanes::Ended;
    use alphorn_scheme::{Group, JobId};

    fn judged(slot: u64, vote: u64, collect: u64, prepared: bool) -> Judged {
        let missed = |missed| Tally {
            done: 0,
            late: 0,
            missed,
        };
        Judged {
            slot: Slot(slot),
            prepared,
            propose: missed(0),
            vote: missed(vote),
            aggregate: missed(0),
            collect: missed(collect),
            credited: 0,
            validators: 8,
        }
    }

    fn ended(op: &'static str, slot: u64, outcome: Outcome<alphorn_scheme::Product>) -> Ended {
        let group = Group::of_slot(Slot(slot));
        Ended {
            outcome,
            ..Ended::refused(JobId(1), op, group, String::new())
        }
    }

    #[test]
    fn each_missed_duty_has_the_first_thing_that_went_wrong() {
        let mut missed = Missed::default();
        let why = |missed: &mut Missed, judged: Judged| {
            let all = missed.reasons(&judged);
            let all = all
                .into_iter()
                .map(|reason| (reason.duty, reason.count, reason.name, reason.why));
            all.collect::<Vec<_>>()
        };
        let told = why(&mut missed, judged(1, 3, 0, false));
        assert_eq!((told[0].0, told[0].1, told[0].2), ("vote", 3, "unprepared"));
        assert_eq!(
            why(&mut missed, judged(2, 3, 0, true))[0].2,
            "not published"
        );
        let refused = ended(
            "sign",
            3,
            Outcome::Refused("below the mark of slot 9".into()),
        );
        missed.record(Some(Slot(3)), &Event::JobEnded(&refused, None));
        let told = why(&mut missed, judged(3, 2, 1, true));
        assert_eq!(told[0].2, "not signed");
        assert!(told[0].3.ends_with("below the mark of slot 9"), "{told:?}");
        assert_eq!((told[1].0, told[1].2), ("collect", "not published"));
        let crashed = ended("collect", 4, Outcome::Crashed);
        missed.record(Some(Slot(4)), &Event::JobEnded(&crashed, None));
        assert_eq!(
            why(&mut missed, judged(4, 0, 1, true))[0].3,
            "the job collect ended crashed"
        );
        let late = ended("collect", 5, Outcome::Cancelled);
        missed.record(Some(Slot(6)), &Event::JobEnded(&late, None));
        assert_eq!(why(&mut missed, judged(5, 0, 1, true))[0].2, "job late");
        missed.record(
            Some(Slot(7)),
            &Event::Published {
                topic: Topic::Block,
            },
        );
        let vote = Event::Published {
            topic: Topic::Collection,
        };
        missed.record(Some(Slot(7)), &vote);
        missed.peers(Slot(7), 0);
        assert_eq!(why(&mut missed, judged(7, 0, 1, true))[0].2, "no peers");
        missed.record(Some(Slot(8)), &vote);
        missed.peers(Slot(8), 3);
        assert_eq!(why(&mut missed, judged(8, 0, 1, true))[0].2, "not included");
        assert_eq!(missed.counts["not published"], 3 + 1);
        for slot in 0..100 {
            missed.peers(Slot(slot), 1);
        }
        assert!(missed.slots.len() <= SLOTS_MAX);
    }
}
