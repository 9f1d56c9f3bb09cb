//! What the ecosystem has no name for.

use super::page::{Labels, Page, label};
use crate::lanes::Troubles;
use crate::notes::{Measures, Picture, Turn};
use crate::summary::Summary;
use alphorn_net::{DropReason, TopicKind};
use alphorn_proto::wire::{Kind, Reject};
use std::collections::BTreeMap;

pub(super) fn put(page: &mut Page, summary: &Summary, picture: &Picture) {
    chain(page, summary, picture);
    duties(page, summary);
    machine(page, summary, &picture.measures);
    jobs(page, picture);
    worker(page, summary);
    network(page, summary, picture);
}

fn chain(page: &mut Page, summary: &Summary, picture: &Picture) {
    let kernel = |(krate, level): (&String, &String)| {
        let labels = vec![("crate", krate.clone()), ("kernel", level.clone())];
        (labels, 1.0)
    };
    page.gauges(
        "alphorn_kernel_info",
        "The kernels that were chosen by a measurement",
        summary.kernels.iter().map(kernel),
    );
    page.gauge(
        "alphorn_finality_lag_slots",
        "Slots between the clock and the finalised checkpoint",
        summary.slot.saturating_sub(summary.finalised_slot) as f64,
    );
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
    if let Some(note) = picture.slots.get(slot) {
        let stages = [
            ("seen", note.votes_seen),
            ("verified", note.votes_verified),
            ("collected", note.covered()),
            ("included", *credited),
        ];
        let stage = |(stage, votes): (&str, u64)| (label("stage", stage), votes as f64);
        page.gauges(
            "alphorn_votes_per_slot",
            "How far votes came, last judged slot",
            stages.map(stage),
        );
    }
}

fn duties(page: &mut Page, summary: &Summary) {
    let results = summary.duties.iter().flat_map(|(duty, counts)| {
        let of = |result: &str, count| {
            (
                vec![("duty", duty.clone()), ("result", result.to_owned())],
                count,
            )
        };
        [
            of("done", counts.done),
            of("late", counts.late),
            of("missed", counts.missed),
        ]
    });
    page.counters("alphorn_duties", "Duties of the local validators", results);
    let counters = [
        (
            "alphorn_worker_salvaged",
            "Own late results that were still used",
            summary.salvaged,
        ),
        (
            "alphorn_worker_stale",
            "Own results that came too late or added nothing",
            summary.stale,
        ),
        (
            "alphorn_watermark_refusals",
            "Signing jobs that the store of marks refused",
            summary.signing_refused,
        ),
        (
            "alphorn_missed_phase",
            "Phases that had passed before the loop ran",
            summary.phases_missed,
        ),
        (
            "alphorn_evidence",
            "Pairs of contradicting statements",
            summary.evidence,
        ),
    ];
    for (name, help, value) in counters {
        page.counter(name, help, value);
    }
    let uncounted = ["refused", "displaced"].into_iter();
    let uncounted = uncounted.zip(summary.votes_uncounted);
    page.counters(
        "alphorn_fork_choice_votes_uncounted",
        "Verified votes that the fork choice does not count, because heavier ballots take the room",
        uncounted.map(|(reason, votes)| (label("reason", reason), votes)),
    );
}

fn machine(page: &mut Page, summary: &Summary, measures: &Measures) {
    page.gauge(
        "alphorn_rss_bytes",
        "Resident memory of the process",
        summary.rss_bytes as f64,
    );
    page.gauge(
        "alphorn_memory_bound_bytes",
        "The most memory that the process can take",
        summary.memory_bound_bytes as f64,
    );
    page.histogram(
        "alphorn_tick_lag_seconds",
        "How late phases began",
        &measures.tick_lag,
    );
    page.histogram(
        "alphorn_lag_probe_seconds",
        "How late the loop woke for probes that are due every 10 ms",
        &measures.probe_lag,
    );
    let turns = Turn::ALL.into_iter().zip(&measures.turns);
    page.histograms(
        "alphorn_loop_handle_seconds",
        "How long turns of the loop took",
        turns.map(|(turn, times)| (label("input", turn.name()), times)),
    );
    page.counter("alphorn_loop_stalls", "Turns above 5 ms", summary.stalls);
    let steps = ["forward", "backward"]
        .into_iter()
        .zip(measures.clock_steps);
    page.counters(
        "alphorn_clock_steps",
        "Steps of the wall clock",
        steps.map(|(direction, steps)| (label("direction", direction), steps)),
    );
    let files = ["safety", "node"].into_iter().zip(summary.commit_ms_max);
    page.gauges(
        "alphorn_store_commit_seconds_max",
        "Longest commit",
        files.map(|(file, ms)| (label("file", file), ms / 1e3)),
    );
}

fn jobs(page: &mut Page, picture: &Picture) {
    let measures = &picture.measures;
    let jobs = || measures.jobs.iter();
    let ends = jobs().flat_map(|(kind, jobs)| {
        jobs.ends.iter().map(move |((class, outcome), count)| {
            let labels = vec![
                ("kind", (*kind).to_owned()),
                ("class", (*class).to_owned()),
                ("outcome", (*outcome).to_owned()),
            ];
            (labels, *count)
        })
    });
    page.counters("alphorn_worker_jobs", "Jobs that ended", ends);
    let phases = jobs().flat_map(|(kind, jobs)| {
        [("queue", &jobs.queue), ("run", &jobs.run)].map(|(phase, times)| {
            let labels = vec![("kind", (*kind).to_owned()), ("phase", phase.to_owned())];
            (labels, times)
        })
    });
    page.histograms(
        "alphorn_worker_job_seconds",
        "How long jobs waited and ran",
        phases,
    );
    page.histograms(
        "alphorn_worker_predicted_ratio",
        "How long jobs ran, as a share of what was predicted",
        jobs().map(|(kind, jobs)| (label("kind", kind), &jobs.ratio)),
    );
    let fits = ["no", "yes"].into_iter().zip(measures.fit);
    let fits = fits.flat_map(|(predicted, actual)| {
        ["no", "yes"]
            .into_iter()
            .zip(actual)
            .map(move |(actual, count)| {
                let labels = vec![
                    ("predicted", predicted.to_owned()),
                    ("actual", actual.to_owned()),
                ];
                (labels, count)
            })
    });
    page.counters(
        "alphorn_worker_fit",
        "Jobs that would end in time by their prediction, and did",
        fits,
    );
    page.histogram(
        "alphorn_worker_late_seconds",
        "How late jobs were that ended after their deadline",
        &measures.late,
    );
    page.counter(
        "alphorn_worker_invalid_inputs",
        "Inputs of jobs that were bad",
        measures.invalid_inputs,
    );
    page.gauge(
        "alphorn_worker_jobs_in_flight",
        "Jobs that were handed out and have not ended",
        picture.flying_count as f64,
    );
}

fn worker(page: &mut Page, summary: &Summary) {
    let busy = ["fast", "prove"].into_iter().zip(&summary.lanes_busy_s);
    page.counters_s(
        "alphorn_worker_lane_busy_seconds",
        "How long lanes were busy",
        busy.map(|(lane, s)| (label("lane", lane), *s)),
    );
    troubles(page, &summary.troubles);
}

fn troubles(page: &mut Page, troubles: &Troubles) {
    let restarts = [("crash", troubles.crashes), ("hang", troubles.hangs)];
    let cause = |(cause, count): (&str, u64)| (vec![("cause", cause.to_owned())], count);
    page.counters(
        "alphorn_worker_restarts",
        "Runs that ended with their lane or its process",
        restarts.into_iter().map(cause),
    );
    page.counter(
        "alphorn_worker_self_verify_failures",
        "Own results that failed their verification",
        troubles.self_verify_failures,
    );
    page.counter(
        "alphorn_worker_stale_frames",
        "Frames of processes that were replaced",
        troubles.stale_frames,
    );
    let gauges = [
        (
            "alphorn_worker_quarantined",
            "Inputs and jobs that are not run again",
            troubles.quarantined,
        ),
        (
            "alphorn_worker_degraded",
            "1 while long jobs are refused",
            u64::from(troubles.degraded),
        ),
        (
            "alphorn_worker_kernel_disabled",
            "1 after a kernel gave a wrong result",
            u64::from(troubles.kernel_disabled),
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value as f64);
    }
}

/// Counts by reason; reasons that never occurred stand at zero, so that the first one is a change.
fn reasons<'a>(
    counts: &BTreeMap<String, u64>,
    all: impl IntoIterator<Item = &'a str>,
) -> Vec<(Labels, u64)> {
    let mut every: BTreeMap<&str, u64> = all.into_iter().map(|reason| (reason, 0)).collect();
    every.extend(
        counts
            .iter()
            .map(|(reason, count)| (reason.as_str(), *count)),
    );
    let rows = every.into_iter();
    rows.map(|(reason, count)| (label("reason", reason), count))
        .collect()
}

fn network(page: &mut Page, summary: &Summary, picture: &Picture) {
    let kinds = TopicKind::ALL.into_iter();
    let bytes = kinds.clone().flat_map(|kind| {
        let moved = picture.net.kind(kind);
        [("in", moved.bytes_in), ("out", moved.bytes_out)].map(|(direction, bytes)| {
            let labels = vec![
                ("topic_kind", kind.name().to_owned()),
                ("direction", direction.to_owned()),
            ];
            (labels, bytes)
        })
    });
    page.counters("alphorn_net_bytes", "Bytes of gossip messages", bytes);
    let messages = kinds.clone().map(|kind| {
        let moved = picture.net.kind(kind);
        (label("topic_kind", kind.name()), moved.messages_in)
    });
    page.counters(
        "alphorn_net_messages",
        "Gossip messages that came, duplicates included",
        messages,
    );
    page.counter(
        "alphorn_net_duplicates",
        "Gossip messages that came again",
        picture.net.kinds.iter().map(|moved| moved.duplicates).sum(),
    );
    let mesh = kinds.map(|kind| {
        let peers = picture.net.kind(kind).mesh_peers;
        (label("topic_kind", kind.name()), peers as f64)
    });
    page.gauges(
        "alphorn_mesh_peers",
        "Peers in the meshes of topics, summed over the topics of a kind",
        mesh,
    );
    let verdicts = Kind::ALL.into_iter().zip(&picture.measures.verdicts);
    page.histograms(
        "alphorn_verdict_seconds",
        "From the arrival of a message to its verdict",
        verdicts.map(|(kind, times)| (label("topic_kind", kind.name()), times)),
    );
    let channels = [
        ("inbox", picture.net.inbox.0),
        ("outbox", picture.net.outbox.0),
        ("verdicts", picture.net.tokens),
    ];
    page.gauges(
        "alphorn_channel_depth",
        "What waits between loop and network",
        channels.map(|(channel, depth)| (label("channel", channel), depth as f64)),
    );
    broadcasts(page, summary);
    let drops = reasons(&summary.drops, DropReason::ALL.map(DropReason::name));
    page.counters("alphorn_net_drops", "What the network dropped", drops);
    let reports = reasons(&summary.reports, Reject::NAMES);
    page.counters("alphorn_peer_reports", "Misbehaviour of peers", reports);
    let rejects = reasons(&summary.rejects, Reject::NAMES);
    page.counters("alphorn_rejects", "Messages that were not taken", rejects);
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
    let result = |(result, count): (&str, u64)| (vec![("result", result.to_owned())], count);
    page.counters(
        "alphorn_broadcasts",
        "Blocks and collections that are too long for gossip",
        results.into_iter().map(result),
    );
    let both = |what: &str, counts: [u64; 2]| {
        let labels = |direction: &str| {
            vec![
                ("what", what.to_owned()),
                ("direction", direction.to_owned()),
            ]
        };
        [(labels("in"), counts[0]), (labels("out"), counts[1])]
    };
    let frames = both("frames", counts.frame_bytes);
    let payloads = both("payloads", counts.payload_bytes);
    page.counters(
        "alphorn_broadcast_bytes",
        "Bytes of broadcasts: of all frames, and of whole payloads",
        frames.into_iter().chain(payloads),
    );
    page.counter(
        "alphorn_broadcast_frames_dropped",
        "Frames that found no room",
        counts.frames_dropped,
    );
}
