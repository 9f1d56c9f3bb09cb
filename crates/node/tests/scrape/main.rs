//! What a node that has run some slots tells: its metrics by name, type, label and bucket, its last
//! slots, its events; and that the dashboard and the alerts of `deploy/` ask for nothing else. And that a
//! node gets the blocks that gossip does not bring it, and those that come in either code.

mod behind;
mod codes;
mod deploy;
mod fetch;
mod page;
mod rig;

use alphorn_node::telemetry::{BEACON_TOPICS, LEAN_TOPICS, SLOTS_MAX};
use alphorn_types::trace::Lines;
use page::Page;
use rig::told;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Most series of a node.
const SERIES_MAX: usize = 2_000;

fn list() -> Value {
    serde_json::from_str(include_str!("../../../../vectors/metrics/lean.json")).unwrap()
}

fn strings(value: &Value) -> BTreeSet<String> {
    let all = value.as_array().unwrap().iter();
    all.map(|one| one.as_str().unwrap().to_owned()).collect()
}

#[test]
fn names_of_the_ecosystem_have_their_types_labels_and_buckets() {
    let page = Page::read(&told().text);
    let list = list();
    let entries = list["told"].as_array().unwrap();
    assert!(entries.len() > 40);
    for entry in entries {
        let name = entry["name"].as_str().unwrap();
        let metric = page.find(name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is not told"));
        assert_eq!(metric.kind, entry["type"].as_str().unwrap(), "{name}");
        let labels = strings(&entry["labels"]);
        assert!(
            labels.is_subset(&metric.labels),
            "{name}: {:?}",
            metric.labels
        );
        for bucket in entry["buckets"].as_array().into_iter().flatten() {
            let bound = bucket.as_f64().unwrap();
            assert!(metric.buckets.contains(&bound), "{name}: no bucket {bound}");
        }
    }
    for entry in list["left_out"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        assert!(page.find(name).is_none(), "{name} is told");
    }
    // And every name of that kind is of the list.
    let known: BTreeSet<&str> = entries.iter().filter_map(|e| e["name"].as_str()).collect();
    for name in page.names().filter(|name| name.starts_with("lean_")) {
        assert!(known.contains(name.as_str()), "{name} is not in the list");
    }
}

#[test]
fn series_are_few_and_no_label_names_a_peer_a_validator_or_a_root() {
    let told = told();
    let page = Page::read(&told.text);
    assert!(page.series <= SERIES_MAX, "{} series", page.series);
    let own = told.window.info.id.to_string();
    let peers = &told.window.snapshot.borrow().net.peers;
    let ids = peers.iter().map(|peer| peer.id.to_string());
    let secrets = ids.chain([
        own,
        told.summary.head.clone(),
        told.summary.finalised.clone(),
    ]);
    for value in secrets {
        assert!(!told.text.contains(&value), "{value} is a label");
    }
    for label in page.labels() {
        assert!(
            !["peer", "validator", "root", "slot"].contains(&label),
            "{label}"
        );
    }
}

#[test]
fn figures_are_those_of_what_happened() {
    let told = told();
    let page = Page::read(&told.text);
    for name in [
        "lean_pq_sig_attestation_signing_time_seconds_count",
        "lean_pq_sig_attestation_verification_time_seconds_count",
        "lean_attestation_validation_time_seconds_count",
        "lean_attestations_production_time_seconds_count",
        "lean_pq_sig_aggregated_signatures_building_time_seconds_count",
        "lean_pq_sig_aggregated_signatures_verification_time_seconds_count",
        "lean_committee_signatures_aggregation_time_seconds_count",
        "lean_block_aggregated_payloads_count",
        "lean_block_building_time_seconds_count",
        "lean_fork_choice_block_processing_time_seconds_count",
        "lean_tick_interval_duration_seconds_count",
        "lean_gossip_block_size_bytes_count",
        "lean_gossip_attestation_size_bytes_count",
        "lean_attestations_valid_total",
        "lean_finalizations_total",
        "lean_connected_peers",
        "alphorn_tick_lag_seconds_count",
        "alphorn_lag_probe_seconds_count",
        "alphorn_loop_handle_seconds_count",
        "alphorn_worker_jobs_total",
        "alphorn_worker_predicted_ratio_count",
        "alphorn_worker_fit_total",
        "alphorn_verdict_seconds_count",
        "alphorn_worker_lane_busy_seconds_total",
    ] {
        assert!(page.sum(name) > 0.0, "{name} is {}", page.sum(name));
    }
    // Eight validators here vote once a slot, and nobody votes badly.
    let signed = page.sum("lean_pq_sig_attestation_signatures_total");
    let slots = page.sum("lean_current_slot") + 1.0;
    assert!((8.0..=8.0 * slots).contains(&signed), "{signed} votes");
    assert_eq!(page.sum("lean_attestations_invalid_total"), 0.0);
    assert_eq!(
        page.sum("lean_pq_sig_attestation_signatures_invalid_total"),
        0.0
    );
    assert_eq!(page.sum("lean_attestation_committee_count"), 2.0);
    assert_eq!(
        page.sum("lean_latest_finalized_slot"),
        told.summary.finalised_slot as f64
    );
}

#[test]
fn the_last_slots_are_shown() {
    let told = told();
    let snapshot = told.window.snapshot.borrow();
    assert!(!snapshot.slots.is_empty() && snapshot.slots.len() <= SLOTS_MAX);
    let full = snapshot.slots.values().filter(|note| note.covered() == 16);
    let full: Vec<_> = full.collect();
    assert!(!full.is_empty(), "no slot has all votes");
    for note in full {
        assert_eq!(note.committees.len(), 2);
        assert!(
            note.committees
                .iter()
                .all(|one| !one.collections.is_empty())
        );
        assert!(note.votes_verified <= note.votes_seen.max(16));
    }
    assert!(snapshot.head.slot >= snapshot.justified.slot);
}

#[test]
fn what_happens_to_the_chain_is_an_event_of_each_topic() {
    let told = told();
    let topics = |lines: &Mutex<Lines>| -> BTreeSet<&'static str> {
        let batch = lines.lock().unwrap().after(0, usize::MAX);
        assert_eq!(batch.dropped, 0);
        batch.lines.iter().map(|line| line.kind).collect()
    };
    let streams = &told.window.streams;
    assert_eq!(topics(&streams.beacon), BTreeSet::from(BEACON_TOPICS));
    assert_eq!(topics(&streams.lean), BTreeSet::from(LEAN_TOPICS));
}
