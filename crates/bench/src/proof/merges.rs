//! `--children`: proofs merged into one of the union of their signers.
//!
//! The baseline is what a merge replaces: one proof of all signatures of the union, made by a prover
//! that has them all, and the verification of all children one by one.

use super::fixture::{Fixture, MESSAGE, SLOT};
use super::{Clock, Column, Made, Point, Runs, bytes, count, seconds, verified};
use alphorn_exec::Exec;
use alphorn_lab::error::Result;
use alphorn_lab::options;
use alphorn_types::Bitfield;
use alphorn_xmss::ProofPart;
use serde_json::json;

/// One half of a child's signatures are in the next child as well.
const OVERLAP: usize = 2;

pub(super) const COLUMNS: [Column; 11] = [
    ("children", "/children", count),
    ("of", "/signatures_of_child", count),
    ("signers", "/signers", count),
    ("kernel", "/kernel", count),
    ("threads", "/threads", count),
    ("merge", "/merge_s", seconds),
    ("one proof of all", "/one_proof_s", seconds),
    ("merged", "/proof_bytes", bytes),
    ("children", "/child_bytes", bytes),
    ("verify", "/verify_s", seconds),
    ("verify children", "/children_verify_s", seconds),
];

/// The parameters of one measurement.
#[derive(Clone, Copy)]
pub(super) struct Case {
    /// A child.
    pub(super) child: Point,
    pub(super) children: usize,
    /// Whether a child is a merge, of a single proof.
    pub(super) of_merges: bool,
}

impl Case {
    pub(super) fn new(child: Point, children: usize) -> Self {
        Case {
            child,
            children,
            of_merges: false,
        }
    }

    /// Returns the members that sign child c.
    fn members(&self, c: usize) -> std::ops::Range<usize> {
        let signatures = self.child.signatures;
        let step = signatures.div_ceil(OVERLAP);
        c * step..c * step + signatures
    }

    /// Returns the number of validators that the case needs.
    pub(super) fn validators(&self) -> usize {
        self.members(self.children.saturating_sub(1)).end
    }
}

/// Proves the children, merges them, and verifies.
pub(super) fn measure(fixture: &Fixture, case: Case, runs: usize) -> Result<Made> {
    let child = case.child;
    let pool = options::pool(child.threads)?;
    let exec = Exec::new(child.kernel, Some(&pool));
    let proofs = child.proofs;
    let registry = proofs.registry(exec, fixture.keys.clone(), 0)?;
    let all = fixture.signed(case.validators());
    let mut children: Vec<(Bitfield, Vec<u8>)> = Vec::with_capacity(case.children);
    for members in (0..case.children).map(|c| case.members(c)) {
        let signers = fixture.signers(members.clone());
        let mut proof = proofs.prove(exec, &registry, SLOT, &MESSAGE, &all[members])?;
        if case.of_merges {
            let part = ProofPart {
                signers: &signers,
                proof: &proof,
            };
            proof = proofs.merge(exec, &registry, SLOT, &MESSAGE, &[part])?;
        }
        children.push((signers, proof));
    }
    let parts = children.iter();
    let parts: Vec<ProofPart<'_>> = parts
        .map(|(signers, proof)| ProofPart { signers, proof })
        .collect();
    // The first run builds the circuits.
    let merge = Runs::warm(runs, || {
        let clock = Clock::start();
        let exec = exec.with_watch(&clock);
        let merged = proofs.merge(exec, &registry, SLOT, &MESSAGE, &parts)?;
        Ok((merged, clock.end()))
    })?;
    let signers = fixture.signers(0..case.validators());
    let verify_s = verified(&child, &registry, &signers, &merge.bytes, runs)?;
    let mut children_verify_s = 0.0;
    for (signers, proof) in &children {
        children_verify_s += verified(&child, &registry, signers, proof, runs)?;
    }
    let one_proof_s = match all.len() <= proofs.signatures_max() {
        true => {
            let clock = Clock::start();
            proofs.prove(exec, &registry, SLOT, &MESSAGE, &all)?;
            Some(clock.end().total_s)
        }
        false => None,
    };
    let fields = json!({
        "bench": "merge",
        "children": case.children,
        "signatures_of_child": child.signatures,
        "signers": signers.count_ones(),
        "merge_s": merge.median_s(),
        "verify_s": verify_s,
        "children_verify_s": children_verify_s,
        "one_proof_s": one_proof_s,
        "child_bytes": children.iter().map(|(_, proof)| proof.len()).sum::<usize>(),
    });
    Ok(Made::new(child, merge, verify_s, fields))
}
