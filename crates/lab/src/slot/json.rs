//! The JSON fields of a slot.

use super::{Args, Plan};
use crate::lattice::flavour_name;
use crate::machine::peak_rss_bytes;
use alphorn_proto::wire::Kind;
use alphorn_sim::slot::{SlotOutcome, StageTraffic, Step};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

pub(super) fn config_json(args: &Args, plan: &Plan) -> Value {
    json!({
        "scheme": args.scheme,
        "set": (args.scheme == super::XMSS).then(|| args.set().name()),
        "layers": args.layers().and_then(|layers| Some(layers.to_possible_value()?.get_name().to_owned())),
        "profile": (args.scheme == super::FALCON).then(|| args.lattice.profile().name()),
        "flavour": (args.scheme == super::FALCON).then(|| flavour_name(args.lattice.flavour())),
        "validators": plan.layout.validators(),
        "committees": plan.layout.committees(),
        "subcommittees": plan.layout.subcommittees(),
        "fan_out": plan.layout.fan_out(),
        "protocol": args.protocol.map(|protocol| protocol.name),
        "participation": plan.participation_name,
        "selection": args.selection.map(|selection| selection.to_string()),
        "cover": args.cover,
        "multiplicity": args.multiplicity,
        "coding": args.coding(),
        "timing": plan.timing.to_string(),
    })
}

pub(super) fn fields(outcome: &SlotOutcome, keys_s: f64, from_cache: bool) -> Map<String, Value> {
    let step = |step: &Step| {
        json!({
            "stage": step.stage,
            "op": step.op,
            "jobs": step.meter.jobs,
            "items": step.meter.items,
            "computed_jobs": step.meter.computed_jobs,
            "computed_items": step.meter.computed_items,
            "cpu_s": step.meter.busy_ns as f64 * 1e-9,
            "wall_s": step.meter.wall_ns as f64 * 1e-9,
        })
    };
    let mut bytes = [0u64; Kind::ALL.len()];
    let mut messages = [0u64; Kind::ALL.len()];
    for stage in &outcome.traffic {
        for (i, traffic) in stage.published.iter().enumerate() {
            bytes[i] += traffic.bytes;
            messages[i] += traffic.messages;
        }
    }
    let by_kind = |values: [u64; Kind::ALL.len()]| -> Map<String, Value> {
        Kind::ALL
            .iter()
            .zip(values)
            .map(|(kind, value)| (kind.name().to_owned(), json!(value)))
            .collect()
    };
    let committee = |coverage: &alphorn_sim::slot::CommitteeCoverage| {
        json!([
            coverage.committee,
            coverage.members,
            coverage.expected,
            coverage.in_collections,
            coverage.in_block
        ])
    };
    let traffic = |stage: &StageTraffic| {
        let published = Kind::ALL.iter().zip(&stage.published);
        let published = published.filter(|(_, traffic)| traffic.messages > 0);
        let published: Map<String, Value> = published
            .map(|(kind, traffic)| {
                let counts = json!({ "messages": traffic.messages, "bytes": traffic.bytes });
                (kind.name().to_owned(), counts)
            })
            .collect();
        json!({ "stage": stage.stage, "published": published })
    };
    let votes = outcome.votes;
    let fields = json!({
        "keys": { "seconds": keys_s, "from_cache": from_cache },
        "steps": outcome.steps.iter().map(step).collect::<Vec<_>>(),
        "votes_expected": votes.expected,
        "votes_signed": votes.cast,
        "votes_verified": votes.verified,
        "votes_in_collections": votes.in_collections,
        "votes_in_block": votes.in_block,
        "aggregates": outcome.aggregates.messages,
        "collections": outcome.collections.messages,
        "coverage_exact": outcome.coverage_exact,
        "coverage_fields": ["committee", "members", "expected", "in_collections", "in_block"],
        "coverage": outcome.coverage.iter().map(committee).collect::<Vec<_>>(),
        "traffic": outcome.traffic.iter().map(traffic).collect::<Vec<_>>(),
        "bytes": by_kind(bytes),
        "messages": by_kind(messages),
        "block": { "bytes": outcome.block.bytes, "bundle_bytes": outcome.block.bundle_bytes, "entries": outcome.block.entries, "accepted_nodes": outcome.block.accepted_nodes },
        "verification": outcome.verification.map(|v| json!({
            "items": v.items,
            "claims": v.claims,
            "signers": v.signers,
            "all_valid": v.all_valid,
            "inner_pooled_s": v.inner_pooled_ns as f64 * 1e-9,
            "inner_single_s": v.inner_single_ns as f64 * 1e-9,
            "pooled_s": v.pooled_ns as f64 * 1e-9,
            "single_s": v.single_ns as f64 * 1e-9,
        })),
        "rejects": outcome.rejects,
        "cross_checked": outcome.cross.map(|c| json!({ "signatures": c.signatures, "apks": c.groups, "differences": c.differences })),
        "evidence_loaded": outcome.results_loaded,
        "peak_rss_bytes": peak_rss_bytes(),
        "digest": outcome.digest.to_string(),
        "events": outcome.events,
    });
    fields.as_object().cloned().unwrap_or_default()
}
