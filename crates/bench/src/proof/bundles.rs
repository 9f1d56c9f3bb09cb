//! `--entries`: proofs of many committees bundled into one, as the evidence of a block.

use super::fixture::{Fixture, MESSAGE, SLOT};
use super::{Clock, Column, Made, Point, Runs, bytes, count, seconds};
use alphorn_exec::Exec;
use alphorn_lab::error::{Error, Result};
use alphorn_lab::options;
use alphorn_lab::timing::least;
use alphorn_stark::{Ext, Fp};
use alphorn_types::Bitfield;
use alphorn_xmss::{BundleEntry, Claimed, ProofPart, ProofRegistry};
use serde_json::json;

/// Default signatures of each committee: what is bundled are merges, which are all alike.
pub(super) const SIGNATURES: u32 = 64;

pub(super) const COLUMNS: [Column; 9] = [
    ("entries", "/entries", count),
    ("keys", "/keys", count),
    ("kernel", "/kernel", count),
    ("threads", "/threads", count),
    ("bundle", "/bundle_s", seconds),
    ("bundled", "/proof_bytes", bytes),
    ("entries' proofs", "/entry_bytes", bytes),
    ("verify", "/verify_s", seconds),
    ("registries", "/registries_s", seconds),
];

/// Proves for each committee, bundles, and verifies.
pub(super) fn measure(
    fixture: &Fixture,
    point: Point,
    entries: usize,
    runs: usize,
) -> Result<Made> {
    let proofs = point.proofs;
    let pool = options::pool(point.threads)?;
    let exec = Exec::new(point.kernel, Some(&pool));
    // Signers first; the remaining keys are repeats, which affects nothing.
    let keys = fixture.keys.iter().cycle().take(proofs.registry_max());
    let keys: Vec<_> = keys.copied().collect();
    let mut signers = Bitfield::new(keys.len());
    signers.set_range(0..point.signatures);
    let signed = fixture.signed(point.signatures);
    let committee = |committee| -> Result<(ProofRegistry, Vec<u8>)> {
        let registry = proofs.registry(exec, keys.clone(), committee)?;
        let part = ProofPart {
            signers: &signers,
            proof: &proofs.prove(exec, &registry, SLOT, &MESSAGE, &signed)?,
        };
        let merged = proofs.merge(exec, &registry, SLOT, &MESSAGE, &[part])?;
        Ok((registry, merged))
    };
    let committees: Vec<_> = (0..entries as u32).map(committee).collect::<Result<_>>()?;
    let claimed = Claimed {
        slot: SLOT,
        message: &MESSAGE,
        signers: &signers,
    };
    let parts = committees.iter().map(|(registry, proof)| {
        let entry = BundleEntry { registry, claimed };
        (entry, &proof[..])
    });
    let parts: Vec<(BundleEntry<'_>, &[u8])> = parts.collect();
    let bundle = Runs::warm(runs, || {
        let clock = Clock::start();
        let bundle = proofs.bundle(exec.with_watch(&clock), &parts)?;
        Ok((bundle, clock.end()))
    })?;
    let claims: Vec<BundleEntry<'_>> = parts.iter().map(|(entry, _)| *entry).collect();
    let verify = || proofs.verify_bundle(exec, &claims, &bundle.bytes);
    verify().map_err(|refused| Error::Check(format!("a bundle of this run: {refused}")))?;
    let verify_s = least(runs.max(3), verify).0;
    let coordinates = proofs.registry_max().ilog2() + 3;
    let at: Vec<Ext> = (0..coordinates)
        .map(|i| Ext(std::array::from_fn(|t| Fp::new(7 + i * 5 + t as u32))))
        .collect();
    let evaluated = || exec.map(entries, |c| committees[c].0.rows().at(exec, &at));
    let registries_s = least(runs.max(3), evaluated).0;
    let fields = json!({
        "bench": "bundle",
        "entries": entries,
        "keys": keys.len() * entries,
        "signatures_of_entry": point.signatures,
        "bundle_s": bundle.median_s(),
        "verify_s": verify_s,
        "registries_s": registries_s,
        "entry_bytes": committees.iter().map(|(_, proof)| proof.len()).sum::<usize>(),
    });
    Ok(Made::new(point, bundle, verify_s, fields))
}
