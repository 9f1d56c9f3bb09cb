//! Figures for which the ecosystem has no name.

use super::super::{Snapshot, Summary};
use super::page::{Labels, Page, by, label, labels, put};
use crate::health::Reason;
use crate::lanes::Troubles;
use alphorn_net::{DropReason, Kind, KindStatus};
use alphorn_proto::wire::Reject;
use prometheus_client::metrics::counter::Counter;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

pub(super) fn put(page: &mut Page, summary: &Summary, snapshot: &Snapshot) {
    health(page, summary);
    chain(page, summary, snapshot);
    duties(page, summary);
    machine(page, summary);
    worker(page, summary, snapshot);
    network(page, summary, snapshot);
}

fn chain(page: &mut Page, summary: &Summary, snapshot: &Snapshot) {
    let kernel =
        |(krate, level): (&String, &String)| (labels([("crate", krate), ("kernel", level)]), 1.0);
    page.gauges(
        "alphorn_kernel_info",
        "The kernels that were chosen by a measurement",
        summary.kernels.iter().map(kernel),
    );
    put! { page:
        gauge "alphorn_finality_lag_slots", "Slots between the clock and the finalised checkpoint"
            = summary.slot.saturating_sub(summary.finalised_slot) as f64;
    }
    let Some((slot, credited)) = summary.credited.last_key_value() else {
        return;
    };
    page.gauge(
        "alphorn_coverage_ratio",
        "Share of all votes in the chain, last judged slot",
        *credited as f64 / f64::from(summary.validators.max(1)),
    );
    if let Some((_, ms)) = summary.two_thirds_ms.last_key_value() {
        page.gauge(
            "alphorn_time_to_two_thirds_seconds",
            "From the slot's start until two thirds stood in verified collections, last slot",
            ms / 1e3,
        );
    }
    if let Some(note) = snapshot.slots.get(slot) {
        let stages = [
            ("seen", note.votes_seen),
            ("verified", note.votes_verified),
            ("collected", note.covered()),
            ("included", *credited),
        ];
        page.gauges(
            "alphorn_votes_per_slot",
            "How far votes came, last judged slot",
            by("stage", stages.map(|(stage, votes)| (stage, votes as f64))),
        );
    }
}

fn health(page: &mut Page, summary: &Summary) {
    let reasons = Reason::ALL.iter().map(|reason| {
        let is_on = f64::from(u8::from(summary.health.contains(reason)));
        (reason.name(), is_on)
    });
    page.gauges(
        "alphorn_unhealthy",
        "Why the node is not well: 1 for each reason that holds",
        by("reason", reasons),
    );
    put! { page:
        gauge "alphorn_clock_wrong_seconds", "Wall clock ahead of the time that the node goes by"
            = summary.clock_wrong_ms / 1e3;
        gauge "alphorn_clock_peers_ahead_seconds", "Clocks of peers ahead of the time here, their median"
            = summary.clock_peers_ahead_ms.unwrap_or(0.0) / 1e3;
        total "alphorn_store_slow_commits", "Commits of marks that took more than half a second"
            = summary.commits_slow;
        total "alphorn_store_rebuilt", "Damaged files of blocks that were set aside and made anew"
            = summary.files_rebuilt;
    }
}

fn duties(page: &mut Page, summary: &Summary) {
    let results = summary.duties.iter().flat_map(|(duty, counts)| {
        let of = |result: &str, count| (labels([("duty", duty), ("result", result)]), count);
        [
            of("done", counts.done),
            of("late", counts.late),
            of("missed", counts.missed),
        ]
    });
    page.totals("alphorn_duties", "Duties of the local validators", results);
    put! { page:
        total "alphorn_worker_salvaged", "Own late results that were still used" = summary.salvaged;
        total "alphorn_worker_stale", "Own results that came too late or added nothing" = summary.stale;
        total "alphorn_watermark_refusals", "Signing jobs that the store of marks refused"
            = summary.signing_refused;
        total "alphorn_missed_phase", "Phases that had passed before the loop ran"
            = summary.phases_missed;
        total "alphorn_evidence", "Pairs of contradicting statements" = summary.evidence;
    }
    page.totals(
        "alphorn_fork_choice_votes_uncounted",
        "Verified votes that the fork choice does not count, because heavier ballots take the room",
        by(
            "reason",
            ["refused", "displaced"]
                .into_iter()
                .zip(summary.votes_uncounted),
        ),
    );
}

fn machine(page: &mut Page, summary: &Summary) {
    put! { page:
        gauge "alphorn_rss_bytes", "Resident memory of the process" = summary.rss_bytes as f64;
        gauge "alphorn_memory_bound_bytes", "The most memory that the process can take"
            = summary.memory_bound_bytes as f64;
        total "alphorn_loop_stalls", "Turns above 5 ms" = summary.stalls;
    }
    let longest = summary.commit_ms_max.map(|ms| ms / 1e3);
    page.gauges(
        "alphorn_store_commit_seconds_max",
        "Longest commit since the start",
        by("file", ["safety", "node"].into_iter().zip(longest)),
    );
}

fn worker(page: &mut Page, summary: &Summary, snapshot: &Snapshot) {
    put! { page:
        gauge "alphorn_worker_jobs_in_flight", "Jobs that were handed out and have not ended"
            = snapshot.in_flight_count as f64;
    }
    let busy = ["fast", "prove"].into_iter().zip(&summary.lanes_busy_s);
    let busy = busy.map(|(lane, s)| {
        let counter = Counter::<f64, AtomicU64>::default();
        counter.inc_by(*s);
        (label("lane", lane), counter)
    });
    page.rows(
        "alphorn_worker_lane_busy_seconds",
        "How long lanes were busy",
        busy.collect(),
    );
    let fits = ["no", "yes"].into_iter().zip(snapshot.fit);
    let fits = fits.flat_map(|(predicted, actual)| {
        let actual = ["no", "yes"].into_iter().zip(actual);
        actual.map(move |(actual, count)| {
            (
                labels([("predicted", predicted), ("actual", actual)]),
                count,
            )
        })
    });
    page.totals(
        "alphorn_worker_fit",
        "Jobs that would end in time by their prediction, and did",
        fits,
    );
    troubles(page, &summary.troubles);
}

fn troubles(page: &mut Page, troubles: &Troubles) {
    page.totals(
        "alphorn_worker_restarts",
        "Runs that ended with their lane or its process",
        by(
            "cause",
            [("crash", troubles.crashes), ("hang", troubles.hangs)],
        ),
    );
    put! { page:
        total "alphorn_worker_self_verify_failures", "Own results that failed their verification"
            = troubles.self_verify_failures;
        total "alphorn_worker_stale_frames", "Frames of processes that were replaced"
            = troubles.stale_frames;
        gauge "alphorn_worker_quarantined", "Inputs and jobs that are not run again"
            = troubles.quarantined as f64;
        gauge "alphorn_worker_degraded", "1 while long jobs are refused"
            = f64::from(u8::from(troubles.degraded));
        gauge "alphorn_worker_kernel_disabled", "1 after a kernel gave a wrong result"
            = f64::from(u8::from(troubles.kernel_disabled));
    }
}

/// Counts by reason. Reasons that never occurred are zero, so that the first occurrence is a
/// change.
fn reasons<'a>(
    counts: &'a BTreeMap<String, u64>,
    all: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = (Labels, u64)> {
    let mut every: BTreeMap<&str, u64> = all.into_iter().map(|reason| (reason, 0)).collect();
    every.extend(
        counts
            .iter()
            .map(|(reason, count)| (reason.as_str(), *count)),
    );
    by("reason", every)
}

fn network(page: &mut Page, summary: &Summary, snapshot: &Snapshot) {
    let bytes = Kind::ALL.into_iter().flat_map(|kind| {
        let moved = snapshot.net.kind(kind);
        [("in", moved.bytes_in), ("out", moved.bytes_out)].map(|(direction, bytes)| {
            (
                labels([("topic_kind", kind.name()), ("direction", direction)]),
                bytes,
            )
        })
    });
    page.totals("alphorn_net_bytes", "Bytes of gossip messages", bytes);
    let by_kind = |of: fn(KindStatus) -> u64| {
        let kinds = Kind::ALL.map(|kind| (kind.name(), of(snapshot.net.kind(kind))));
        by("topic_kind", kinds)
    };
    page.totals(
        "alphorn_net_messages",
        "Gossip messages that came, duplicates included",
        by_kind(|moved| moved.messages_in),
    );
    let duplicates = snapshot.net.kinds.iter().map(|moved| moved.duplicates);
    put! { page:
        total "alphorn_net_duplicates", "Gossip messages that came again" = duplicates.sum();
    }
    page.gauges(
        "alphorn_mesh_peers",
        "Peers in the meshes of topics, summed over the topics of a kind",
        by_kind(|moved| moved.mesh_peers).map(|(kind, peers)| (kind, peers as f64)),
    );
    let channels = [
        ("inbox", snapshot.net.inbox.0),
        ("outbox", snapshot.net.outbox.0),
        ("verdicts", snapshot.net.tokens),
    ];
    page.gauges(
        "alphorn_channel_depth",
        "What waits between loop and network",
        by(
            "channel",
            channels.map(|(channel, depth)| (channel, depth as f64)),
        ),
    );
    broadcasts(page, summary);
    let drops = reasons(&summary.drops, DropReason::ALL.map(DropReason::name));
    page.totals("alphorn_net_drops", "What the network dropped", drops);
    let reports = reasons(&summary.reports, Reject::NAMES);
    page.totals("alphorn_peer_reports", "Misbehaviour of peers", reports);
    let rejects = reasons(&summary.rejects, Reject::NAMES);
    page.totals("alphorn_rejects", "Messages that were not taken", rejects);
}

fn broadcasts(page: &mut Page, summary: &Summary) {
    let counts = &summary.broadcasts;
    let results = [
        ("published", counts.published),
        ("gossiped", counts.gossiped),
        ("delivered", counts.delivered),
        ("withheld", counts.withheld),
        ("blamed", counts.sources_blamed),
    ];
    page.totals(
        "alphorn_broadcasts",
        "Blocks and collections that are too long for gossip",
        by("result", results),
    );
    let both = |what: &str, counts: [u64; 2]| {
        let of = |direction: &str| labels([("what", what), ("direction", direction)]);
        [(of("in"), counts[0]), (of("out"), counts[1])]
    };
    let frames = both("frames", counts.frame_bytes);
    let payloads = both("payloads", counts.payload_bytes);
    page.totals(
        "alphorn_broadcast_bytes",
        "Bytes of broadcasts: of all frames, and of whole payloads",
        frames.into_iter().chain(payloads),
    );
    put! { page:
        total "alphorn_broadcast_frames_dropped", "Frames that found no room" = counts.frames_dropped;
    }
}
