//! `--children`: proofs merged to one of the union of their signers.
//!
//! The baseline is what a merge replaces: one proof of all signatures of the union, made by somebody who
//! has them all, and the verification of all children one by one.

use super::Args;
use super::world::{self, World};
use crate::error::{Error, Result};
use crate::machine::{Machine, peak_rss_bytes};
use crate::options;
use crate::report::{Report, Sink, table};
use crate::text;
use alphorn_stark::Backend;
use alphorn_types::Bitfield;
use alphorn_xmss::{Claimed, Exec, ProofPart, ProofRegistry, Proofs, Signed};
use anyhow::anyhow;
use serde_json::{Map, Value, json};
use std::time::Instant;

/// Of the signatures of a child one half is in the next child as well.
const OVERLAP: usize = 2;

/// What is measured together.
#[derive(Clone, Copy)]
struct Point {
    proofs: Proofs,
    kernel: Backend,
    threads: usize,
    /// Signatures of a child.
    signatures: usize,
    children: usize,
}

/// The figures of a point, in seconds.
struct Figures {
    point: Point,
    signers: usize,
    /// Warm runs, ascending.
    merge_s: Vec<f64>,
    verify_s: f64,
    children_verify_s: f64,
    /// One proof of the union, if it fits into one.
    one_proof_s: Option<f64>,
    bytes: usize,
    child_bytes: usize,
    peak_rss_bytes: u64,
}

impl Point {
    /// The members that sign child c.
    fn members(&self, c: usize) -> std::ops::Range<usize> {
        let step = self.signatures.div_ceil(OVERLAP);
        c * step..c * step + self.signatures
    }

    /// Validators that the point needs.
    fn validators(&self) -> usize {
        self.members(self.children.saturating_sub(1)).end
    }
}

/// Measures merges in place of proofs.
pub(super) fn run(
    args: &Args,
    report: &Report,
    sink: &Sink,
    (kernels, proofs): (&[Backend], Proofs),
    machine: &Machine,
) -> Result<()> {
    if !proofs.mergeable() || proofs.preset().name != "fast" {
        let (set, preset) = (args.set, proofs.preset().name);
        return Err(anyhow!(
            "--children --set {set} --preset {preset}: proofs of the set compact under the preset fast merge"
        )
        .into());
    }
    let sizes = match args.n.is_empty() {
        true => vec![512],
        false => args.sizes(proofs.mergeable_max() as u32)?,
    };
    let mut points = Vec::new();
    for kernel in kernels {
        for threads in &args.threads {
            for n in &sizes {
                points.extend(args.children.iter().map(|children| Point {
                    proofs,
                    kernel: *kernel,
                    threads: usize::from(*threads),
                    signatures: *n as usize,
                    children: usize::from(*children),
                }));
            }
        }
    }
    let most = points.iter().map(Point::validators).max();
    let threads_max = args.threads.iter().copied().max().unwrap_or(1);
    let pool = options::pool(usize::from(threads_max))?;
    let validators = most.unwrap_or(1) as u32;
    let world = World::new(args.set, validators, Backend::measured(), &pool)?;
    sink.say(&machine.line());
    let mut cases = Vec::with_capacity(points.len());
    for point in points {
        cases.push(measure(&world, point, usize::from(args.runs))?);
    }
    sink.say(&format!("\n{}", printed(&cases)));
    let config = json!({
        "set": args.set.name(),
        "n": sizes,
        "children": args.children,
        "threads": args.threads,
        "runs": args.runs,
    });
    let cases = cases.iter().map(Figures::json).collect();
    let fields = Map::from_iter([("cases".to_owned(), Value::Array(cases))]);
    sink.write(&report.object(machine, "measured", &config, fields)?)
}

/// Proves the children, merges them, and verifies.
fn measure(world: &World, point: Point, runs: usize) -> Result<Figures> {
    let pool = options::pool(point.threads)?;
    let exec = Exec::new(point.kernel, Some(&pool));
    let proofs = point.proofs;
    let registry = proofs.registry(exec, world.keys.clone(), 0)?;
    let (slot, message) = (world::SLOT, &world::MESSAGE);
    let all: Vec<Signed<'_>> = world.signed(point.validators());
    let mut children: Vec<(Bitfield, Vec<u8>)> = Vec::with_capacity(point.children);
    for c in 0..point.children {
        let members = point.members(c);
        let mut signers = Bitfield::new(world.keys.len());
        signers.set_range(members.clone());
        let proof = proofs.prove(exec, &registry, slot, message, &all[members])?;
        children.push((signers, proof));
    }
    let parts: Vec<ProofPart<'_>> = children
        .iter()
        .map(|(signers, proof)| ProofPart { signers, proof })
        .collect();
    let merge = || proofs.merge(exec, &registry, slot, message, &parts);
    // The first run makes the circuits.
    let bytes = merge()?;
    let mut merge_s = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begun = Instant::now();
        let again = merge()?;
        merge_s.push(begun.elapsed().as_secs_f64());
        if again != bytes {
            return Err(Error::Check("two runs made different merges".into()));
        }
    }
    merge_s.sort_by(f64::total_cmp);
    let mut signers = Bitfield::new(world.keys.len());
    signers.set_range(0..point.validators());
    let verify_s = verified(&point, &registry, (&signers, &bytes), runs)?;
    let mut children_verify_s = 0.0;
    for (signers, proof) in &children {
        children_verify_s += verified(&point, &registry, (signers, proof), runs)?;
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
        point,
        signers: signers.count_ones(),
        merge_s,
        verify_s,
        children_verify_s,
        one_proof_s,
        bytes: bytes.len(),
        child_bytes: children.iter().map(|(_, proof)| proof.len()).sum(),
        peak_rss_bytes: peak_rss_bytes(),
    })
}

/// Seconds of a verification on one thread, the least of some.
fn verified(
    point: &Point,
    registry: &ProofRegistry,
    (signers, bytes): (&Bitfield, &[u8]),
    runs: usize,
) -> Result<f64> {
    let claimed = Claimed {
        slot: world::SLOT,
        message: &world::MESSAGE,
        signers,
    };
    let verify = || point.proofs.verify(point.kernel, registry, &claimed, bytes);
    verify().map_err(|refused| Error::Check(format!("a proof of this run: {refused}")))?;
    Ok(super::super::least(runs.max(3), verify).0)
}

impl Figures {
    fn median_s(&self) -> f64 {
        let at = self.merge_s.len() / 2;
        self.merge_s.get(at).copied().unwrap_or_default()
    }

    /// What the specification asks of this point: its name, the limit, whether it is kept.
    fn targets(&self) -> Vec<(&'static str, f64, bool)> {
        let mut targets = vec![
            ("verify_ms", 25.0, self.verify_s <= 25e-3),
            ("peak_bytes", 2e9, self.peak_rss_bytes <= 2 << 30),
        ];
        let limit_s = match self.point.children {
            2 => Some(1.2),
            4 => Some(2.4),
            16 => Some(6.0),
            _ => None,
        };
        if let Some(limit_s) = limit_s.filter(|_| self.point.threads == 2) {
            targets.push(("merge_s", limit_s, self.median_s() <= limit_s));
        }
        if self.point.children == 2 {
            targets.push(("proof_bytes", 200e3, self.bytes <= 200_000));
        }
        targets
    }

    fn json(&self) -> Value {
        let target =
            |(name, limit, reached)| json!({ "name": name, "limit": limit, "reached": reached });
        json!({
            "bench": "merge",
            "children": self.point.children,
            "signatures_of_child": self.point.signatures,
            "signers": self.signers,
            "kernel": self.point.kernel.to_string(),
            "threads": self.point.threads,
            "merge_s": self.median_s(),
            "merge_runs_s": self.merge_s,
            "verify_s": self.verify_s,
            "children_verify_s": self.children_verify_s,
            "one_proof_s": self.one_proof_s,
            "proof_bytes": self.bytes,
            "child_bytes": self.child_bytes,
            "peak_rss_bytes": self.peak_rss_bytes,
            "targets": self.targets().into_iter().map(target).collect::<Vec<Value>>(),
        })
    }
}

fn printed(cases: &[Figures]) -> String {
    let row = |case: &Figures| {
        let missed: Vec<&str> = case
            .targets()
            .into_iter()
            .filter(|(_, _, reached)| !reached)
            .map(|(name, ..)| name)
            .collect();
        vec![
            format!("{} of {}", case.point.children, case.point.signatures),
            case.signers.to_string(),
            case.point.kernel.to_string(),
            case.point.threads.to_string(),
            text::seconds(case.median_s()),
            case.one_proof_s.map_or("-".into(), text::seconds),
            text::bytes(case.bytes as u64),
            text::bytes(case.child_bytes as u64),
            text::seconds(case.verify_s),
            text::seconds(case.children_verify_s),
            text::bytes(case.peak_rss_bytes),
            match missed.is_empty() {
                true => "-".into(),
                false => missed.join(", "),
            },
        ]
    };
    table(
        &[
            "children",
            "signers",
            "kernel",
            "threads",
            "merge",
            "one proof of all",
            "merged",
            "children",
            "verify",
            "verify children",
            "peak memory",
            "targets missed",
        ],
        &cases.iter().map(row).collect::<Vec<_>>(),
    )
}
