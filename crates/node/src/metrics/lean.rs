//! Names of leanMetrics, as far as they have a meaning here. What a node does not do has none:
//! `docs/node.md` lists what is left out, and why.

use super::page::{Labels, Page, label};
use crate::notes::{Facts, Measures, Picture, Split};
use crate::summary::Summary;
use alphorn_net::DownReason;
use alphorn_proto::wire::Kind;
use std::collections::BTreeMap;

/// Programs that peers may be counted under; others are `unknown`.
const CLIENTS: [&str; 9] = [
    "alphorn",
    "ethlambda",
    "gean",
    "grandine",
    "lantern",
    "lighthouse",
    "qlean",
    "ream",
    "zeam",
];

pub(super) fn put(page: &mut Page, summary: &Summary, picture: &Picture, facts: &Facts) {
    node(page, summary, facts);
    votes(page, &picture.measures);
    aggregates(page, &picture.measures);
    held(page, summary, picture, facts);
    blocks(page, summary, &picture.measures);
    chain(page, summary, picture, facts);
    network(page, picture);
}

fn node(page: &mut Page, summary: &Summary, facts: &Facts) {
    let info = vec![
        ("name", summary.name.clone()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("scheme", summary.scheme.clone()),
    ];
    page.gauges("lean_node_info", "This node", [(info, 1.0)]);
    page.gauge(
        "lean_node_start_time_seconds",
        "When this process began, in seconds since 1970",
        facts.started.as_nanos() as f64 / 1e9,
    );
    let is_behind = summary.is_behind();
    let is_synced = !is_behind && summary.slot > 0;
    let status = [
        ("idle", !is_behind && !is_synced),
        ("syncing", is_behind),
        ("synced", is_synced),
    ];
    let one = |(status, is): (&str, bool)| (label("status", status), f64::from(u8::from(is)));
    page.gauges(
        "lean_node_sync_status",
        "1 at what the node is: idle before genesis, syncing if the head is behind the clock",
        status.map(one),
    );
}

/// Good and bad ones, with what each are.
fn split(page: &mut Page, name: &str, [valid, invalid]: [&str; 2], split: Split) {
    page.counter(&format!("{name}_valid"), valid, split.valid);
    page.counter(&format!("{name}_invalid"), invalid, split.invalid);
}

fn votes(page: &mut Page, measures: &Measures) {
    page.counter(
        "lean_pq_sig_attestation_signatures",
        "Votes that were signed here",
        measures.votes_signed,
    );
    split(
        page,
        "lean_pq_sig_attestation_signatures",
        [
            "Signatures of single votes that were verified and are good",
            "Signatures of single votes that were verified and are bad",
        ],
        measures.vote_signatures,
    );
    split(
        page,
        "lean_attestations",
        [
            "Votes of gossip that were accepted",
            "Votes of gossip that were rejected",
        ],
        measures.votes,
    );
    let times = [
        (
            "lean_pq_sig_attestation_signing_time_seconds",
            "Signing of one vote; what a batch took is divided evenly",
            &measures.vote_signing,
        ),
        (
            "lean_pq_sig_attestation_verification_time_seconds",
            "Verification of one vote's signature; what a batch took is divided evenly",
            &measures.vote_verification,
        ),
        (
            "lean_attestation_validation_time_seconds",
            "From the arrival of a vote to its verdict",
            &measures.verdicts[Measures::place(Kind::Vote)],
        ),
        (
            "lean_attestations_production_time_seconds",
            "From the request of a vote until it is signed",
            &measures.vote_production,
        ),
    ];
    for (name, help, values) in times {
        page.histogram(name, help, values);
    }
}

fn aggregates(page: &mut Page, measures: &Measures) {
    page.counter(
        "lean_pq_sig_aggregated_signatures",
        "Aggregates and collections that were made here",
        measures.aggregates_made,
    );
    page.counter(
        "lean_pq_sig_attestations_in_aggregated_signatures",
        "Votes in them",
        measures.votes_aggregated,
    );
    split(
        page,
        "lean_pq_sig_aggregated_signatures",
        [
            "Aggregates and collections that were verified and are good",
            "Aggregates and collections that were verified and are bad",
        ],
        measures.aggregate_signatures,
    );
    let times = [
        (
            "lean_pq_sig_aggregated_signatures_building_time_seconds",
            "Making an aggregate or a collection",
            &measures.aggregate_building,
        ),
        (
            "lean_pq_sig_aggregated_signatures_verification_time_seconds",
            "Verification of one; what a batch took is divided evenly",
            &measures.aggregate_verification,
        ),
        (
            "lean_committee_signatures_aggregation_time_seconds",
            "From the request of a cell's aggregate to its end",
            &measures.cell_aggregation,
        ),
    ];
    for (name, help, values) in times {
        page.histogram(name, help, values);
    }
    let skipped = (
        label("reason", "spawn_failed"),
        measures.aggregates_not_spawned,
    );
    page.counters(
        "lean_aggregator_skipped",
        "Aggregates that were not begun",
        [skipped],
    );
}

/// What stands for the slot by the clock.
fn held(page: &mut Page, summary: &Summary, picture: &Picture, facts: &Facts) {
    page.gauge(
        "lean_is_aggregator",
        "1 if validators here aggregate when they are selected",
        f64::from(u8::from(facts.is_aggregator)),
    );
    let note = picture.slots.get(&summary.slot);
    let of =
        |count: fn(&crate::notes::SlotNote) -> u64| note.map_or(0.0, |note| count(note) as f64);
    let gauges = [
        (
            "lean_gossip_signatures",
            "Verified single votes of the slot",
            of(|note| note.votes_verified),
        ),
        (
            "lean_latest_new_aggregated_payloads",
            "Verified aggregates of the slot",
            of(|note| note.aggregates),
        ),
        (
            "lean_latest_known_aggregated_payloads",
            "Verified collections of the slot, which the fork choice counts",
            of(|note| note.collections),
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value);
    }
}

fn blocks(page: &mut Page, summary: &Summary, measures: &Measures) {
    let times = [
        (
            "lean_block_aggregated_payloads",
            "Collections of an accepted block",
            &measures.block_payloads,
        ),
        (
            "lean_block_building_time_seconds",
            "From the start of a slot until its own block was published",
            &measures.block_building,
        ),
        (
            "lean_fork_choice_block_processing_time_seconds",
            "From the arrival of a block to its verdict",
            &measures.verdicts[Measures::place(Kind::Block)],
        ),
        (
            "lean_fork_choice_reorg_depth",
            "Blocks that a change of the head gave up",
            &measures.reorgs,
        ),
    ];
    for (name, help, values) in times {
        page.histogram(name, help, values);
    }
    page.counter(
        "lean_block_building_success",
        "Own blocks that were published",
        measures.block_building.count(),
    );
    let missed = summary.duties.get("propose").map_or(0, |duty| duty.missed);
    page.counter(
        "lean_block_building_failures",
        "Own blocks that are not in the chain",
        missed,
    );
}

fn chain(page: &mut Page, summary: &Summary, picture: &Picture, facts: &Facts) {
    let safe = summary.two_thirds_ms.last_key_value();
    let committees = u64::from(facts.layout.committees());
    let gauges = [
        ("lean_current_slot", "Slot by the clock", summary.slot),
        ("lean_head_slot", "Slot of the head", summary.head_slot),
        (
            "lean_safe_target_slot",
            "Last slot of which two thirds stood in verified collections",
            safe.map_or(0, |(slot, _)| *slot),
        ),
        (
            "lean_latest_justified_slot",
            "Slot of the justified checkpoint",
            summary.justified_slot,
        ),
        (
            "lean_latest_finalized_slot",
            "Slot of the finalised checkpoint",
            summary.finalised_slot,
        ),
        (
            "lean_validators_count",
            "Validators whose duties are done here",
            u64::from(summary.local_validators),
        ),
        ("lean_attestation_committee_count", "Committees", committees),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value as f64);
    }
    let measures = &picture.measures;
    let success = (label("result", "success"), measures.finalisations);
    page.counters("lean_finalizations", "Finalised checkpoints", [success]);
    page.counter(
        "lean_fork_choice_reorgs",
        "Changes of the head to another branch",
        measures.reorgs.count(),
    );
    page.histogram(
        "lean_tick_interval_duration_seconds",
        "From one phase to the next",
        &measures.tick_interval,
    );
}

/// Which program a peer says it runs: what stands in front of the first slash, if it is known.
fn client(agent: &str) -> &'static str {
    let name = agent.split('/').next().unwrap_or_default();
    let known = CLIENTS
        .iter()
        .find(|known| name.eq_ignore_ascii_case(known));
    known.copied().unwrap_or("unknown")
}

fn network(page: &mut Page, picture: &Picture) {
    let mut connected: BTreeMap<&'static str, f64> = [("alphorn", 0.0)].into();
    for peer in picture.net.peers.iter() {
        *connected.entry(client(&peer.client)).or_default() += 1.0;
    }
    let peers = connected.into_iter();
    page.gauges(
        "lean_connected_peers",
        "Connected peers by the program that they say they run",
        peers.map(|(client, count)| (label("client", client), count)),
    );
    let measures = &picture.measures;
    let directions = ["inbound", "outbound"];
    let up = directions.into_iter().zip(measures.connected);
    page.counters(
        "lean_peer_connection_events",
        "Connections that came up",
        up.map(|(direction, count)| (pair(direction, "result", "success"), count)),
    );
    let down = directions.into_iter().zip(&measures.disconnected);
    let down = down.flat_map(|(direction, counts)| {
        let reasons = DownReason::ALL.into_iter().zip(*counts);
        reasons.map(move |(reason, count)| (pair(direction, "reason", reason.name()), count))
    });
    page.counters(
        "lean_peer_disconnection_events",
        "Connections that ended",
        down,
    );
    let bytes = |kind| &measures.bytes[Measures::place(kind)];
    page.histogram(
        "lean_gossip_block_size_bytes",
        "Blocks that came by gossip",
        bytes(Kind::Block),
    );
    page.histogram(
        "lean_gossip_attestation_size_bytes",
        "Votes that came by gossip",
        bytes(Kind::Vote),
    );
    page.histogram(
        "lean_gossip_aggregation_size_bytes",
        "Aggregates that came by gossip",
        bytes(Kind::Aggregate),
    );
}

fn pair(direction: &str, name: &'static str, value: &str) -> Labels {
    vec![
        ("direction", direction.to_owned()),
        (name, value.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_of_itself_makes_no_new_series() {
        assert_eq!(client("alphorn/0.1.0"), "alphorn");
        assert_eq!(client("Zeam/v1/linux"), "zeam");
        for other in ["", "/", "alphornx", "a\"} 1\nlean_", "rust-libp2p/0.57"] {
            assert_eq!(client(other), "unknown", "{other}");
        }
    }
}
