//! Selects what to draw of a measured slot: a million post-quantum votes in one proof.

use super::super::{Level, Slot};
use super::{fan_out, list, number, sequence, size, whole, word};
use crate::text::{count, seconds};
use anyhow::Context;
use serde_json::Value;

/// The picture of a slot of merging proofs, as a file: from the JSON of `alphorn slot` with a block of one proof,
/// and from that of `alphorn slot --verify` of this block.
///
/// # Errors
/// If a figure is missing.
pub fn million(slot: &Value, verified: &Value) -> anyhow::Result<String> {
    let run = |value: &Value| {
        value
            .get("runs")
            .map_or(value.clone(), |runs| runs[0].clone())
    };
    let drawn =
        measured(&run(slot), &run(verified)).context("no slot with a block of one proof")?;
    let file = drawn.picture(drawn.end_s()).file();
    Ok(file.replacen("<svg ", "<svg width=\"480\" ", 1))
}

fn measured(slot: &Value, verified: &Value) -> Option<Slot> {
    let votes = whole(slot, "votes_signed")?;
    let found = Measured::of(slot, verified)?;
    let machine = slot.get("machine")?;
    Some(Slot {
        title: format!(
            "{} post-quantum votes in one proof",
            match votes {
                1_048_576 => "A million".to_owned(),
                votes => count(votes),
            }
        ),
        levels: found.levels(votes),
        times: sequence(found.times()),
        pays: found.pays(votes),
        source: format!(
            "Measured: {}, {} threads, all steps one after the other; commit {}.",
            word(machine, "cpu")?,
            whole(machine, "threads")?,
            &word(slot, "commit")?.get(..9)?
        ),
    })
}

/// A step of a measured slot.
#[derive(Clone, Copy)]
struct Step {
    wall_s: f64,
    cpu_s: f64,
    jobs: f64,
    items: f64,
}

impl Step {
    fn of(slot: &Value, stage: &str, op: &str) -> Option<Self> {
        let mut steps = list(slot, "steps")?.iter();
        let found = steps.find(|step| step["stage"] == stage && step["op"] == op)?;
        Some(Step {
            wall_s: number(found, "wall_s")?,
            cpu_s: number(found, "cpu_s")?,
            jobs: number(found, "computed_jobs")?,
            items: number(found, "computed_items")?,
        })
    }

    fn job_s(self) -> f64 {
        self.cpu_s / self.jobs
    }

    fn item_s(self) -> f64 {
        self.cpu_s / self.items
    }
}

/// Returns the mean bytes of a kind of message published in a stage.
fn each_bytes(slot: &Value, stage: &str, kind: &str) -> Option<f64> {
    let mut stages = list(slot, "traffic")?.iter();
    let sent = stages.find(|of| of["stage"] == stage)?;
    let sent = sent.get("published")?.get(kind)?;
    Some(number(sent, "bytes")? / number(sent, "messages")?)
}

/// The drawn parts of a measured slot of three levels and its block.
struct Measured {
    groups: u64,
    cells: u64,
    sign: Step,
    verify: Step,
    cell: Step,
    group: Step,
    committee: Step,
    block: Step,
    vote_bytes: f64,
    cell_bytes: f64,
    group_bytes: f64,
    committee_bytes: f64,
    proof_bytes: f64,
    verify_s: f64,
}

impl Measured {
    fn of(slot: &Value, verified: &Value) -> Option<Self> {
        let [groups, cells] = fan_out(slot.get("config")?)?[..] else {
            return None;
        };
        Some(Measured {
            groups,
            cells,
            sign: Step::of(slot, "vote", "sign")?,
            verify: Step::of(slot, "vote", "verify_votes")?,
            cell: Step::of(slot, "aggregate", "aggregate")?,
            group: Step::of(slot, "collect", "collect")?,
            committee: Step::of(slot, "collect_3", "collect")?,
            block: Step::of(slot, "block", "bundle")?,
            vote_bytes: each_bytes(slot, "vote", "vote")?,
            cell_bytes: each_bytes(slot, "aggregate", "aggregate")?,
            group_bytes: each_bytes(slot, "collect", "aggregate")?,
            committee_bytes: each_bytes(slot, "collect_3", "collection")?,
            proof_bytes: number(slot.get("block")?, "bundle_bytes")?,
            verify_s: number(verified, "verify_s")?,
        })
    }

    fn levels(&self, votes: u64) -> Vec<Level> {
        let level = |name: String, gives: String| Level { name, gives };
        let (groups, cells) = (self.groups, self.cells);
        vec![
            level(
                format!("{} votes", count(votes)),
                format!("{} each, to its cell", size(self.vote_bytes)),
            ),
            level(
                format!("{} cells", count(self.cell.jobs as u64)),
                format!("{}, a proof of each", size(self.cell_bytes)),
            ),
            level(
                format!("{} groups of {cells} cells", count(self.group.jobs as u64)),
                format!("{}, a proof of each", size(self.group_bytes)),
            ),
            level(
                format!(
                    "{} committees of {groups} groups",
                    count(self.committee.jobs as u64)
                ),
                format!("{} each, to every node", size(self.committee_bytes)),
            ),
            level(
                "1 block".into(),
                format!("one proof of all: {}", size(self.proof_bytes)),
            ),
        ]
    }

    fn times(&self) -> [(String, f64, String); 6] {
        let span = |name: &str, step: Step, each_s: f64| {
            let text = format!("{}; {} each", seconds(step.wall_s), seconds(each_s));
            (name.to_owned(), step.wall_s, text)
        };
        let jobs = |name: &str, step: Step| span(name, step, step.job_s());
        [
            span("votes signed", self.sign, self.sign.item_s()),
            span("votes verified", self.verify, self.verify.item_s()),
            jobs("proofs of cells", self.cell),
            jobs("proofs of groups", self.group),
            jobs("proofs of committees", self.committee),
            jobs("the proof of the block", self.block),
        ]
    }

    fn pays(&self, votes: u64) -> Vec<(String, String)> {
        let pay = |role: &str, bytes: f64, step: Step| {
            let text = format!("{} in, {} of a core", size(bytes), seconds(step.job_s()));
            (role.to_owned(), text)
        };
        let cell_votes = votes as f64 / self.cell.jobs;
        let voter = format!(
            "{} out, {} of a core",
            size(self.vote_bytes),
            seconds(self.sign.item_s())
        );
        let node = format!(
            "a proof of {} verified in {}",
            size(self.proof_bytes),
            seconds(self.verify_s)
        );
        vec![
            ("voter".into(), voter),
            pay("aggregator", cell_votes * self.vote_bytes, self.cell),
            pay("combiner", self.cells as f64 * self.cell_bytes, self.group),
            pay(
                "collector",
                self.groups as f64 * self.group_bytes,
                self.committee,
            ),
            pay(
                "proposer",
                self.committee.jobs * self.committee_bytes,
                self.block,
            ),
            ("every node".into(), node),
        ]
    }
}
