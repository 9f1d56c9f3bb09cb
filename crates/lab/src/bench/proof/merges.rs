//! `--children`: proofs merged to one of the union of their signers.
//!
//! The baseline is what a merge replaces: one proof of all signatures of the union, made by somebody who
//! has them all, and the verification of all children one by one.

use super::runs::{Runs, verified};
use super::steps::Steps;
use super::world::{self, World};
use super::{Args, Point};
use crate::error::Result;
use crate::machine::{Machine, peak_rss_bytes};
use crate::options;
use crate::report::{Report, Sink, columns};
use crate::text;
use crate::timing::Clock;
use alphorn_exec::{Backend, Exec};
use alphorn_types::Bitfield;
use alphorn_xmss::{ProofPart, Proofs, Signed};
use anyhow::anyhow;
use serde_json::{Value, json};
use std::time::Instant;

/// Of the signatures of a child one half is in the next child as well.
const OVERLAP: usize = 2;

/// What is measured together.
#[derive(Clone, Copy)]
pub(super) struct Case {
    /// A child.
    pub(super) child: Point,
    pub(super) children: usize,
    /// Whether a child is a merge, of the proof alone.
    pub(super) of_merges: bool,
}

/// The figures of a case, in seconds.
pub(super) struct Figures {
    case: Case,
    signers: usize,
    /// With where the time of the fastest one went.
    pub(super) merge: Runs<Steps>,
    pub(super) verify_s: f64,
    children_verify_s: f64,
    /// One proof of the union, if it fits into one.
    one_proof_s: Option<f64>,
    child_bytes: usize,
    peak_rss_bytes: u64,
}

impl Case {
    /// The members that sign child c.
    fn members(&self, c: usize) -> std::ops::Range<usize> {
        let signatures = self.child.signatures;
        let step = signatures.div_ceil(OVERLAP);
        c * step..c * step + signatures
    }

    /// Validators that the case needs.
    pub(super) fn validators(&self) -> usize {
        self.members(self.children.saturating_sub(1)).end
    }
}

/// Whether proofs of a set under a preset can be merged.
pub(super) fn mergeable(proofs: &Proofs) -> bool {
    proofs.mergeable() && proofs.preset().name == "fast"
}

/// Measures merges in place of proofs.
pub(super) fn run(
    args: &Args,
    report: &Report,
    sink: &Sink,
    kernels: &[Backend],
    proofs: Proofs,
    machine: &Machine,
) -> Result<()> {
    if !mergeable(&proofs) {
        let (set, preset) = (args.set, proofs.preset().name);
        return Err(anyhow!(
            "--children --set {set} --preset {preset}: only proofs under the preset fast merge"
        )
        .into());
    }
    let sizes = match args.n.is_empty() {
        true => vec![512.min(proofs.mergeable_max() as u32)],
        false => args.sizes(proofs.mergeable_max() as u32, "a proof to merge")?,
    };
    let children = |child| {
        args.children.iter().map(move |children| Case {
            child,
            children: usize::from(*children),
            of_merges: false,
        })
    };
    let points = args.points(&[proofs], kernels, &sizes).into_iter();
    let all: Vec<Case> = points.flat_map(children).collect();
    let most = all.iter().map(Case::validators).max();
    let world = args.world(most.unwrap_or(1) as u32)?;
    sink.say(&machine.line());
    let cases = all
        .into_iter()
        .map(|case| measure(&world, case, usize::from(args.runs)));
    let cases: Vec<Figures> = cases.collect::<Result<_>>()?;
    sink.say(&format!("\n{}", printed(&cases)));
    for case in cases.iter().filter(|_| args.steps) {
        sink.say(&format!("\n{}", case.merge.fastest.printed(&case.title())));
    }
    let config = json!({
        "set": args.set.name(),
        "n": sizes,
        "children": args.children,
        "threads": args.threads,
        "runs": args.runs,
    });
    let cases = cases.iter().map(Figures::json).collect();
    let fields = json!({ "cases": Value::Array(cases) });
    sink.write(&report.object(machine, "measured", &config, fields)?)
}

/// Proves the children, merges them, and verifies.
pub(super) fn measure(world: &World, case: Case, runs: usize) -> Result<Figures> {
    let child = case.child;
    let pool = options::pool(child.threads)?;
    let exec = Exec::new(child.kernel, Some(&pool));
    let proofs = child.proofs;
    let registry = proofs.registry(exec, world.keys.clone(), 0)?;
    let (slot, message) = (world::SLOT, &world::MESSAGE);
    let all: Vec<Signed<'_>> = world.signed(case.validators());
    let mut children: Vec<(Bitfield, Vec<u8>)> = Vec::with_capacity(case.children);
    for c in 0..case.children {
        let members = case.members(c);
        let mut signers = Bitfield::new(world.keys.len());
        signers.set_range(members.clone());
        let mut proof = proofs.prove(exec, &registry, slot, message, &all[members])?;
        if case.of_merges {
            let (signers, proof_of) = (&signers, &proof[..]);
            let part = ProofPart {
                signers,
                proof: proof_of,
            };
            proof = proofs.merge(exec, &registry, slot, message, &[part])?;
        }
        children.push((signers, proof));
    }
    let parts: Vec<ProofPart<'_>> = children
        .iter()
        .map(|(signers, proof)| ProofPart { signers, proof })
        .collect();
    // The first run makes the circuits.
    let merge = Runs::of(runs, || {
        let clock = Clock::start();
        let exec = exec.with_watch(&clock);
        let merged = proofs.merge(exec, &registry, slot, message, &parts)?;
        Ok((merged, Steps::of(clock)))
    })?;
    let signers = world.signers(case.validators());
    let verify_s = verified(&child, &registry, &signers, &merge.bytes, runs)?;
    let mut children_verify_s = 0.0;
    for (signers, proof) in &children {
        children_verify_s += verified(&child, &registry, signers, proof, runs)?;
    }
    let one_proof_s = match all.len() <= proofs.signatures_max() {
        true => {
            let begun = Instant::now();
            proofs.prove(exec, &registry, slot, message, &all)?;
            Some(begun.elapsed().as_secs_f64())
        }
        false => None,
    };
    Ok(Figures {
        case,
        signers: signers.count_ones(),
        merge,
        verify_s,
        children_verify_s,
        one_proof_s,
        child_bytes: children.iter().map(|(_, proof)| proof.len()).sum(),
        peak_rss_bytes: peak_rss_bytes(),
    })
}

impl Figures {
    /// What was measured.
    fn title(&self) -> String {
        let child = self.case.child;
        let (children, signatures) = (self.case.children, child.signatures);
        let (kernel, threads) = (child.kernel, child.threads);
        format!("{children} of {signatures}, {kernel}, {threads} threads")
    }

    fn json(&self) -> Value {
        json!({
            "bench": "merge",
            "children": self.case.children,
            "signatures_of_child": self.case.child.signatures,
            "signers": self.signers,
            "kernel": self.case.child.kernel.to_string(),
            "threads": self.case.child.threads,
            "merge_s": self.merge.median_s(),
            "merge_runs_s": self.merge.warm_s,
            "phases_ms": self.merge.fastest.json(),
            "verify_s": self.verify_s,
            "children_verify_s": self.children_verify_s,
            "one_proof_s": self.one_proof_s,
            "proof_bytes": self.merge.bytes.len(),
            "child_bytes": self.child_bytes,
            "peak_rss_bytes": self.peak_rss_bytes,
        })
    }
}

fn printed(cases: &[Figures]) -> String {
    let row = |figures: &Figures| {
        let child = figures.case.child;
        vec![
            (
                "children",
                format!("{} of {}", figures.case.children, child.signatures),
            ),
            ("signers", figures.signers.to_string()),
            ("kernel", child.kernel.to_string()),
            ("threads", child.threads.to_string()),
            ("merge", text::seconds(figures.merge.median_s())),
            (
                "one proof of all",
                figures.one_proof_s.map_or("-".into(), text::seconds),
            ),
            ("merged", text::bytes(figures.merge.bytes.len() as u64)),
            ("children", text::bytes(figures.child_bytes as u64)),
            ("verify", text::seconds(figures.verify_s)),
            ("verify children", text::seconds(figures.children_verify_s)),
            ("peak memory", text::bytes(figures.peak_rss_bytes)),
        ]
    };
    columns(cases.iter().map(row))
}
