//! Names of leanMetrics, as far as they have a meaning here. Functions that a node lacks have none.
//! `docs/node.md` lists what is left out, and why.

use super::super::slots::SlotRecord;
use super::super::{NodeInfo, Snapshot, Summary};
use super::page::{Page, by, labels, put};
use std::collections::BTreeMap;

/// Programs under which peers are counted. All others are `unknown`.
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

pub(super) fn put(page: &mut Page, summary: &Summary, snapshot: &Snapshot, info: &NodeInfo) {
    node(page, summary, info);
    held(page, summary, snapshot);
    chain(page, summary, info);
    network(page, snapshot);
}

fn node(page: &mut Page, summary: &Summary, info: &NodeInfo) {
    let identity = labels([
        ("name", &summary.name),
        ("version", env!("CARGO_PKG_VERSION")),
        ("scheme", &summary.scheme),
    ]);
    page.gauges("lean_node_info", "This node", [(identity, 1.0)]);
    put! { page:
        gauge "lean_node_start_time_seconds", "When this process began, in seconds since 1970"
            = info.started.as_nanos() as f64 / 1e9;
    }
    let is_behind = summary.is_behind();
    let is_synced = !is_behind && summary.slot > 0;
    let status = [
        ("idle", !is_behind && !is_synced),
        ("syncing", is_behind),
        ("synced", is_synced),
    ];
    page.gauges(
        "lean_node_sync_status",
        "1 at what the node is: idle before genesis, syncing if the head is behind the clock",
        by(
            "status",
            status.map(|(status, is)| (status, f64::from(u8::from(is)))),
        ),
    );
}

/// State for the slot by the clock.
fn held(page: &mut Page, summary: &Summary, snapshot: &Snapshot) {
    let note = snapshot.slots.get(&summary.slot);
    let of = |count: fn(&SlotRecord) -> u64| note.map_or(0.0, |note| count(note) as f64);
    put! { page:
        gauge "lean_is_aggregator", "1 if validators here aggregate when they are selected"
            = f64::from(u8::from(summary.is_aggregator));
        gauge "lean_gossip_signatures", "Verified single votes of the slot"
            = of(|note| note.votes_verified);
        gauge "lean_latest_new_aggregated_payloads", "Verified aggregates of the slot"
            = of(|note| note.aggregates);
        gauge "lean_latest_known_aggregated_payloads",
            "Verified collections of the slot, which the fork choice counts"
            = of(|note| note.collections);
    }
}

fn chain(page: &mut Page, summary: &Summary, info: &NodeInfo) {
    let safe = summary.two_thirds_ms.last_key_value();
    let missed = summary.duties.get("propose").map_or(0, |duty| duty.missed);
    put! { page:
        gauge "lean_current_slot", "Slot by the clock" = summary.slot as f64;
        gauge "lean_head_slot", "Slot of the head" = summary.head_slot as f64;
        gauge "lean_safe_target_slot", "Last slot of which two thirds stood in verified collections"
            = safe.map_or(0, |(slot, _)| *slot) as f64;
        gauge "lean_latest_justified_slot", "Slot of the justified checkpoint"
            = summary.justified_slot as f64;
        gauge "lean_latest_finalized_slot", "Slot of the finalised checkpoint"
            = summary.finalised_slot as f64;
        gauge "lean_justified_slot", "Slot of the justified checkpoint"
            = summary.justified_slot as f64;
        gauge "lean_finalized_slot", "Slot of the finalised checkpoint"
            = summary.finalised_slot as f64;
        gauge "lean_validators_count", "Validators whose duties are done here"
            = f64::from(summary.local_validators);
        gauge "lean_attestation_committee_count", "Committees"
            = f64::from(info.config.layout.committees());
        total "lean_block_building_failures", "Own blocks that are not in the chain" = missed;
    }
}

/// The program of a peer by its agent string: the part before the first slash, if it is known.
fn client(agent: &str) -> &'static str {
    let name = agent.split('/').next().unwrap_or_default();
    let known = CLIENTS
        .iter()
        .find(|known| name.eq_ignore_ascii_case(known));
    known.copied().unwrap_or("unknown")
}

fn network(page: &mut Page, snapshot: &Snapshot) {
    let mut connected: BTreeMap<&'static str, f64> = [("alphorn", 0.0)].into();
    for peer in snapshot.net.peers.iter() {
        *connected.entry(client(&peer.client)).or_default() += 1.0;
    }
    page.gauges(
        "lean_connected_peers",
        "Connected peers by the program that they say they run",
        by("client", connected),
    );
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
