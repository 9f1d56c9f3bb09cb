//! `--entries`: proofs of many committees bundled to one, as the evidence of a block.

use super::merges::mergeable;
use super::runs::Runs;
use super::world::{self, World};
use super::{Args, Point};
use crate::error::{Error, Result};
use crate::machine::{Machine, peak_rss_bytes};
use crate::options;
use crate::report::{Report, Sink, columns};
use crate::text;
use alphorn_exec::{Backend, Exec};
use alphorn_stark::{Ext, Fp};
use alphorn_types::Bitfield;
use alphorn_xmss::{BundleEntry, Claimed, ProofPart, ProofRegistry, Proofs};
use serde_json::{Value, json};

/// Signatures of each committee by default: what is bundled are merges, which are all alike.
pub(super) const SIGNATURES: u32 = 64;

/// What is measured together.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) point: Point,
    pub(super) entries: usize,
}

/// The figures of a case, in seconds.
pub(super) struct Figures {
    case: Case,
    keys: usize,
    pub(super) bundle: Runs<()>,
    pub(super) verify_s: f64,
    registries_s: f64,
    entry_bytes: usize,
    peak_rss_bytes: u64,
}

/// Measures bundles in place of proofs.
pub(super) fn run(
    args: &Args,
    report: &Report,
    sink: &Sink,
    kernels: &[Backend],
    proofs: Proofs,
    machine: &Machine,
) -> Result<()> {
    if !mergeable(&proofs) {
        return Err(args.unbundled());
    }
    let sizes = match args.n.is_empty() {
        true => vec![SIGNATURES.min(proofs.mergeable_max() as u32)],
        false => args.sizes(proofs.mergeable_max() as u32, "a proof to bundle")?,
    };
    let most = sizes.iter().copied().max().unwrap_or(1);
    let world = args.world(most)?;
    sink.say(&machine.line());
    let mut figures = Vec::new();
    for point in args.points(&[proofs], kernels, &sizes) {
        for entries in &args.entries {
            let entries = usize::from(*entries);
            let case = Case { point, entries };
            figures.push(measure(&world, case, usize::from(args.runs))?);
        }
    }
    sink.say(&format!("\n{}", printed(&figures)));
    let config = json!({
        "set": args.set.name(),
        "n": sizes,
        "entries": args.entries,
        "threads": args.threads,
        "runs": args.runs,
    });
    let cases = figures.iter().map(Figures::json).collect();
    let fields = json!({ "cases": Value::Array(cases) });
    sink.write(&report.object(machine, "measured", &config, fields)?)
}

/// Proves for each committee, bundles, and verifies.
pub(super) fn measure(world: &World, case: Case, runs: usize) -> Result<Figures> {
    let Point {
        proofs,
        kernel,
        threads,
        signatures,
    } = case.point;
    let pool = options::pool(threads)?;
    let exec = Exec::new(kernel, Some(&pool));
    // Signers first; the keys of the others are the same again, which nothing depends on.
    let keys = world
        .keys
        .iter()
        .cycle()
        .take(proofs.registry_max())
        .copied();
    let keys: Vec<_> = keys.collect();
    let mut signers = Bitfield::new(keys.len());
    signers.set_range(0..signatures);
    let (slot, message) = (world::SLOT, &world::MESSAGE);
    let signed = world.signed(signatures);
    let mut committees: Vec<(ProofRegistry, Vec<u8>)> = Vec::with_capacity(case.entries);
    for committee in 0..case.entries as u32 {
        let registry = proofs.registry(exec, keys.clone(), committee)?;
        let proof = proofs.prove(exec, &registry, slot, message, &signed)?;
        let part = ProofPart {
            signers: &signers,
            proof: &proof,
        };
        let merged = proofs.merge(exec, &registry, slot, message, &[part])?;
        committees.push((registry, merged));
    }
    let claimed = Claimed {
        slot,
        message,
        signers: &signers,
    };
    let parts = committees.iter().map(|(registry, proof)| {
        let entry = BundleEntry { registry, claimed };
        (entry, &proof[..])
    });
    let parts: Vec<(BundleEntry<'_>, &[u8])> = parts.collect();
    let bundle = Runs::of(runs, || Ok((proofs.bundle(exec, &parts)?, ())))?;
    let entries: Vec<BundleEntry<'_>> = parts.iter().map(|(entry, _)| *entry).collect();
    let verify = || proofs.verify_bundle(exec, &entries, &bundle.bytes);
    verify().map_err(|refused| Error::Check(format!("a bundle of this run: {refused}")))?;
    let verify_s = super::super::least(runs.max(3), verify).0;
    let coordinates = proofs.registry_max().ilog2() + 3;
    let point: Vec<Ext> = (0..coordinates)
        .map(|i| Ext(std::array::from_fn(|t| Fp::new(7 + i * 5 + t as u32))))
        .collect();
    let evaluated = || {
        exec.map(committees.len(), |c| {
            committees[c].0.rows().at(exec, &point)
        })
    };
    let registries_s = super::super::least(runs.max(3), evaluated).0;
    Ok(Figures {
        case,
        keys: keys.len() * case.entries,
        verify_s,
        registries_s,
        entry_bytes: committees.iter().map(|(_, proof)| proof.len()).sum(),
        bundle,
        peak_rss_bytes: peak_rss_bytes(),
    })
}

impl Figures {
    fn json(&self) -> Value {
        json!({
            "bench": "bundle",
            "entries": self.case.entries,
            "keys": self.keys,
            "signatures_of_entry": self.case.point.signatures,
            "kernel": self.case.point.kernel.to_string(),
            "threads": self.case.point.threads,
            "bundle_s": self.bundle.median_s(),
            "verify_s": self.verify_s,
            "registries_s": self.registries_s,
            "proof_bytes": self.bundle.bytes.len(),
            "entry_bytes": self.entry_bytes,
            "peak_rss_bytes": self.peak_rss_bytes,
        })
    }
}

fn printed(cases: &[Figures]) -> String {
    let row = |figures: &Figures| {
        vec![
            ("entries", figures.case.entries.to_string()),
            ("keys", figures.keys.to_string()),
            ("kernel", figures.case.point.kernel.to_string()),
            ("threads", figures.case.point.threads.to_string()),
            ("bundle", text::seconds(figures.bundle.median_s())),
            ("bundled", text::bytes(figures.bundle.bytes.len() as u64)),
            ("entries' proofs", text::bytes(figures.entry_bytes as u64)),
            ("verify", text::seconds(figures.verify_s)),
            ("registries", text::seconds(figures.registries_s)),
            ("peak memory", text::bytes(figures.peak_rss_bytes)),
        ]
    };
    columns(cases.iter().map(row))
}
