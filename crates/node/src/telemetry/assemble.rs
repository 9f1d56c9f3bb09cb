//! How a summary is put together from the parts of a node.

use super::summary::{Summary, TopicCounts};
use crate::engine::{Engine, Tally};
use crate::health::JUDGED_SLOTS;
use crate::memory;
use crate::ports::Ports;
use crate::sync::Standing;
use alphorn_net::{DropReason, Kind};
use std::sync::atomic::Ordering;

impl Summary {
    /// The figures of a node.
    pub(crate) fn new(engine: &Engine, ports: &Ports, standing: Standing) -> Self {
        let horn = engine.horn();
        let chain = horn.chain();
        let (head, counters, totals) = (horn.head(), horn.counters(), &ports.telemetry.totals);
        let duties = &totals.duties;
        let kinds = [
            ("propose", duties.propose),
            ("vote", duties.vote),
            ("aggregate", duties.aggregate),
            ("collect", duties.collect),
        ];
        let named = |(name, tally): (&str, Tally)| (name.to_owned(), tally.into());
        let count = |(name, count): (&'static str, u64)| (name.to_owned(), count);
        let recent = || duties.recent.iter();
        let info = ports.telemetry.info();
        let kernels = info.kernels.iter();
        let mut summary = Summary {
            name: info.name.clone(),
            scheme: info.scheme.clone(),
            kernels: kernels
                .map(|(krate, level)| ((*krate).to_owned(), level.clone()))
                .collect(),
            validators: horn.config().layout.validators(),
            local_validators: horn.local().validators().len() as u32,
            slot: standing.slot.0,
            first_slot: engine.first_slot().0,
            doppelganger: totals
                .doppelganger
                .map(|doppelganger| doppelganger.validator.0),
            head_slot: chain.header(&head).map_or(0, |header| header.slot.0),
            head: hex::encode(head),
            justified_slot: chain.justified().slot.0,
            finalised_slot: chain.finalised().slot.0,
            finalised: hex::encode(chain.finalised().root),
            judged_slots: duties.slots,
            unprepared_slots: duties.unprepared,
            duties: kinds.into_iter().map(named).collect(),
            credited: recent().map(|one| (one.slot.0, one.credited)).collect(),
            missed: recent().map(|one| (one.slot.0, one.all().missed)).collect(),
            missed_reasons: ports.telemetry.missed_reasons().map(count).collect(),
            two_thirds_ms: totals.two_thirds_ms.iter().copied().collect(),
            phase_lag_ms: (&totals.phase_lag).into(),
            probe_lag_ms: (&totals.probe_lag).into(),
            turn_ms: (&totals.turns).into(),
            stalls: totals.stalls,
            salvaged: counters.salvaged,
            stale: counters.stale,
            rejects: counters.rejects().map(count).collect(),
            reports: totals
                .reports
                .iter()
                .map(|(name, n)| count((name, *n)))
                .collect(),
            evidence: totals.evidence,
            fetched_blocks: totals.blocks_fetched,
            blocks_by_root: totals.blocks_by_root,
            clock_steps: totals.clock_steps,
            phases_missed: counters.phases_missed,
            votes_uncounted: [counters.votes_refused, counters.votes_displaced],
            publish_refused: totals.publish_refused,
            trace_refused: ports.telemetry.trace_refused(),
            is_aggregator: ports.aggregating.is_on(),
            ..Summary::default()
        };
        summary.add_jobs(ports);
        summary.add_network(ports);
        summary.add_disk(ports);
        summary
    }

    fn add_jobs(&mut self, ports: &Ports) {
        let jobs = ports.telemetry.totals.jobs.iter();
        self.jobs = jobs
            .map(|(op, jobs)| ((*op).to_owned(), jobs.into()))
            .collect();
        let busy = ports.lanes.busy_ns();
        self.lanes_busy_s = busy.into_iter().map(|ns| ns as f64 / 1e9).collect();
        self.troubles = ports.lanes.troubles();
    }

    fn add_network(&mut self, ports: &Ports) {
        let status = ports.net.status();
        for kind in Kind::ALL {
            let moved = status.kind(kind);
            let counts = TopicCounts {
                bytes_in: moved.bytes_in,
                bytes_out: moved.bytes_out,
                messages_in: moved.messages_in,
                duplicates: moved.duplicates,
            };
            self.topics.insert(kind.name().to_owned(), counts);
        }
        for reason in DropReason::ALL {
            let dropped = status.dropped(reason);
            if dropped > 0 {
                self.drops.insert(reason.name().to_owned(), dropped);
            }
        }
        self.link_bytes = status.link_bytes;
        self.peers = status.peers.len() as u64;
    }

    fn add_disk(&mut self, ports: &Ports) {
        let (signer, archive) = (ports.signer.counters(), ports.archive.counters());
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        self.signing_refused = load(&signer.refused);
        self.kept_messages = load(&archive.messages);
        self.commits_failed = [load(&signer.failed), load(&archive.failed)];
        let longest = [load(&signer.commit_ns_max), load(&archive.commit_ns_max)];
        self.commit_ms_max = longest.map(|ns| ns as f64 / 1e6);
        self.commits_slow = load(&signer.slow);
        self.files_rebuilt = load(&archive.rebuilt);
        self.kept_checkpoint_slot = archive.latest.get().map(|kept| kept.slot.0);
    }

    /// Duties of the last judged slots, and the number of missed ones.
    pub(crate) fn last_duties(ports: &Ports) -> (u64, u64) {
        let judged = ports.telemetry.totals.duties.recent.iter().rev();
        let all = judged.take(JUDGED_SLOTS).map(|judged| judged.all());
        all.fold((0, 0), |(due, missed), all| {
            (due + all.due(), missed + all.missed)
        })
    }

    /// The same figures with the current memory of this process. Not for the loop, because it queries the system.
    pub fn with_memory(&self) -> Summary {
        Summary {
            rss_bytes: memory::resident_bytes(),
            ..self.clone()
        }
    }
}
