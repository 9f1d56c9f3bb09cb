//! Events since the start. Times in seconds, sizes in bytes.

use super::super::buckets_table as buckets;
use super::super::event::{Event, Turn};
use super::page::{Page, label, labels};
use crate::clock::Step;
use alphorn_net::DownReason;
use alphorn_proto::slot::{Phase, SlotClock};
use alphorn_proto::wire::{Kind, Topic};
use alphorn_proto::{Token, Verdict};
use alphorn_types::Time;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of messages that wait for a verdict: as many as the network remembers.
const WAITING_MAX: usize = 8_192;
/// Maximum number of peers whose direction is remembered. The network allows fewer.
const PEERS_MAX: usize = 4_096;

/// Labels of a family whose members depend on the operations of jobs.
type Key<const N: usize> = [(&'static str, &'static str); N];
type Histograms<const N: usize> = Family<Key<N>, Histogram, fn() -> Histogram>;

/// Declares counters and histograms without labels, each with its name and its text.
macro_rules! figures {
    ($(#[$doc:meta])* struct $name:ident {
        $($field:ident: $kind:ident $(($bounds:expr))? = $id:literal, $help:literal;)+
    }) => {
        $(#[$doc])*
        pub(super) struct $name { $(pub(super) $field: figures!($kind),)+ }

        impl $name {
            fn new(page: &mut Page) -> Self {
                $name { $($field: page.$kind($id, $help $(, $bounds)?),)+ }
            }
        }
    };
    (counter) => { Counter };
    (histogram) => { Histogram };
}

figures! {
    /// Figures without labels.
    struct Figures {
        votes_signed: counter = "lean_pq_sig_attestation_signatures", "Votes that were signed here";
        vote_signing: histogram(buckets::VOTE) = "lean_pq_sig_attestation_signing_time_seconds",
            "Signing of one vote; what a batch took is divided evenly";
        vote_production: histogram(buckets::PRODUCTION) = "lean_attestations_production_time_seconds",
            "From the request of a vote until it is signed";
        votes_good: counter = "lean_pq_sig_attestation_signatures_valid",
            "Signatures of single votes that were verified and are good";
        votes_bad: counter = "lean_pq_sig_attestation_signatures_invalid",
            "Signatures of single votes that were verified and are bad";
        vote_verification: histogram(buckets::VOTE) = "lean_pq_sig_attestation_verification_time_seconds",
            "Verification of one vote's signature; what a batch took is divided evenly";
        votes_accepted: counter = "lean_attestations_valid", "Votes of gossip that were accepted";
        votes_rejected: counter = "lean_attestations_invalid", "Votes of gossip that were rejected";
        aggregates_made: counter = "lean_pq_sig_aggregated_signatures",
            "Aggregates and collections that were made here";
        votes_aggregated: counter = "lean_pq_sig_attestations_in_aggregated_signatures", "Votes in them";
        aggregates_good: counter = "lean_pq_sig_aggregated_signatures_valid",
            "Aggregates and collections that were verified and are good";
        aggregates_bad: counter = "lean_pq_sig_aggregated_signatures_invalid",
            "Aggregates and collections that were verified and are bad";
        aggregate_building: histogram(buckets::AGGREGATE) = "lean_pq_sig_aggregated_signatures_building_time_seconds",
            "Making an aggregate or a collection";
        aggregate_verification: histogram(buckets::AGGREGATE) = "lean_pq_sig_aggregated_signatures_verification_time_seconds",
            "Verification of one; what a batch took is divided evenly";
        cell_aggregation: histogram(buckets::AGGREGATION) = "lean_committee_signatures_aggregation_time_seconds",
            "From the request of a cell's aggregate to its end";
        block_payloads: histogram(buckets::PAYLOADS) = "lean_block_aggregated_payloads",
            "Collections of an accepted block";
        block_building: histogram(buckets::BLOCK_BUILDING) = "lean_block_building_time_seconds",
            "From the start of a slot until its own block was published";
        blocks_built: counter = "lean_block_building_success", "Own blocks that were published";
        reorgs: counter = "lean_fork_choice_reorgs", "Changes of the head to another branch";
        reorg_depth: histogram(buckets::REORG_DEPTH) = "lean_fork_choice_reorg_depth",
            "Blocks that a change of the head gave up";
        tick_interval: histogram(buckets::TICK_INTERVAL) = "lean_tick_interval_duration_seconds",
            "From one phase to the next";
        tick_lag: histogram(buckets::LAG) = "alphorn_tick_lag_seconds", "How late phases began";
        probe_lag: histogram(buckets::LAG) = "alphorn_lag_probe_seconds",
            "How late the loop woke for probes that are due every 10 ms";
        late: histogram(buckets::JOB) = "alphorn_worker_late_seconds",
            "How late jobs were that ended after their deadline";
        invalid_inputs: counter = "alphorn_worker_invalid_inputs", "Inputs of jobs that were bad";
    }
}

/// Counters and histograms. The histograms are the library's, with few, exact buckets. They can
/// only be read by a scrape. Quantiles come from [`Totals`](super::super::totals::Totals), whose
/// type would take a hundred times the memory here and blur the buckets.
pub(in super::super) struct Counted {
    pub(super) figures: Figures,
    clock: SlotClock,
    phase_at: Option<Time>,
    /// Messages that wait for a verdict: their kind and arrival.
    waiting: BTreeMap<Token, (Kind, Time)>,
    /// By kind.
    bytes: Vec<Histogram>,
    verdicts: Vec<Histogram>,
    /// Which side made the connection to a peer: 1 if this node.
    directions: BTreeMap<u64, usize>,
    /// By direction.
    connected: Vec<Counter>,
    /// By direction, then by reason.
    disconnected: Vec<Counter>,
    finalisations: Vec<Counter>,
    /// By [`Turn`].
    turns: Vec<Histogram>,
    /// Forward, backward.
    clock_steps: Vec<Counter>,
    pub(super) aggregates_skipped: Vec<Counter>,
    /// By kind, class and outcome.
    pub(super) jobs: Family<Key<3>, Counter>,
    /// By kind and phase.
    pub(super) job_seconds: Histograms<2>,
    /// By kind.
    pub(super) predicted_ratio: Histograms<1>,
}

impl Counted {
    /// Empty figures, and the registry for scrapes.
    pub(in super::super) fn new(clock: SlotClock) -> (Self, Arc<Registry>) {
        let page = &mut Page::default();
        let directions = ["inbound", "outbound"];
        let up =
            directions.map(|direction| labels([("direction", direction), ("result", "success")]));
        let down = directions.into_iter().flat_map(|direction| {
            let reasons = DownReason::ALL.into_iter();
            reasons.map(move |why| labels([("direction", direction), ("reason", why.name())]))
        });
        let steps = ["forward", "backward"].map(|direction| label("direction", direction));
        let turns = Turn::ALL.map(|turn| (label("input", turn.name()), histogram(buckets::TURN)));
        let counted = Counted {
            figures: Figures::new(page),
            clock,
            phase_at: None,
            waiting: BTreeMap::new(),
            bytes: bytes(page),
            verdicts: verdicts(page),
            directions: BTreeMap::new(),
            connected: page.counters(
                "lean_peer_connection_events",
                "Connections that came up",
                up,
            ),
            disconnected: page.counters(
                "lean_peer_disconnection_events",
                "Connections that ended",
                down,
            ),
            finalisations: page.counters(
                "lean_finalizations",
                "Finalised checkpoints",
                [label("result", "success")],
            ),
            turns: page.rows(
                "alphorn_loop_handle_seconds",
                "How long turns of the loop took",
                turns.into(),
            ),
            clock_steps: page.counters("alphorn_clock_steps", "Steps of the wall clock", steps),
            aggregates_skipped: page.counters(
                "lean_aggregator_skipped",
                "Aggregates that were not begun",
                [label("reason", "spawn_failed")],
            ),
            jobs: page.put("alphorn_worker_jobs", "Jobs that ended", Family::default()),
            job_seconds: page.put(
                "alphorn_worker_job_seconds",
                "How long jobs waited and ran",
                Family::new_with_constructor(|| histogram(buckets::JOB)),
            ),
            predicted_ratio: page.put(
                "alphorn_worker_predicted_ratio",
                "How long jobs ran, as a share of what was predicted",
                Family::new_with_constructor(|| histogram(buckets::RATIO)),
            ),
        };
        (counted, Arc::new(std::mem::take(&mut page.0)))
    }

    pub(in super::super) fn record(&mut self, now: Time, event: &Event<'_>) {
        let figures = &self.figures;
        match *event {
            Event::Turn { turn, took_ns } => self.turns[turn as usize].observe(seconds(took_ns)),
            Event::Probe { lag_ns } => figures.probe_lag.observe(seconds(lag_ns)),
            Event::Phase { lag_ns, .. } => {
                figures.tick_lag.observe(seconds(lag_ns));
                if let Some(before) = self.phase_at.replace(now) {
                    let interval_ns = now.since_ns(before);
                    figures.tick_interval.observe(seconds(interval_ns));
                }
            }
            Event::ClockStep(step) => {
                let backward = matches!(step, Step::Backward(_));
                self.clock_steps[usize::from(backward)].inc();
            }
            Event::JobEnded(ended, job) => self.job_ended(now, ended, job),
            Event::SlotBlock { collections } => {
                figures.block_payloads.observe(collections as f64);
            }
            Event::Head {
                given_up: Some(depth),
                ..
            } => {
                figures.reorgs.inc();
                figures.reorg_depth.observe(depth as f64);
            }
            Event::Finalised(_) => {
                self.finalisations[0].inc();
            }
            // A proposer makes its block from the start of the phase.
            Event::Published {
                topic: Topic::Block,
            } => {
                if let Some(slot) = self.clock.slot_at(now) {
                    let start = self.clock.phase_start(slot, Phase::Propose);
                    let took_ns = now.since_ns(start);
                    figures.block_building.observe(seconds(took_ns));
                    figures.blocks_built.inc();
                }
            }
            _ => self.network(now, event),
        }
    }

    /// Messages and peers.
    fn network(&mut self, now: Time, event: &Event<'_>) {
        match *event {
            Event::Received {
                topic,
                token,
                bytes,
            } => {
                let kind = topic.kind();
                self.bytes[place(kind)].observe(bytes as f64);
                if self.waiting.len() >= WAITING_MAX {
                    self.waiting.pop_first();
                }
                self.waiting.insert(token, (kind, now));
            }
            Event::Verdict { token, verdict } => {
                // What came by request or by broadcast was never noted: only gossip is timed here.
                let Some((kind, arrival)) = self.waiting.remove(&token) else {
                    return;
                };
                let waited_ns = now.since_ns(arrival);
                self.verdicts[place(kind)].observe(seconds(waited_ns));
                match verdict {
                    Verdict::Accept if kind == Kind::Vote => self.figures.votes_accepted.inc(),
                    Verdict::Reject if kind == Kind::Vote => self.figures.votes_rejected.inc(),
                    _ => 0,
                };
            }
            Event::PeerUp { peer, outbound, .. } => {
                if self.directions.len() < PEERS_MAX {
                    self.directions.insert(peer, usize::from(outbound));
                }
                self.connected[usize::from(outbound)].inc();
            }
            Event::PeerDown { peer, reason } => {
                if let Some(direction) = self.directions.remove(&peer) {
                    let at = direction * DownReason::ALL.len() + reason as usize;
                    self.disconnected[at].inc();
                }
            }
            _ => {}
        }
    }
}

/// Converts nanoseconds to seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn histogram(bounds: &[f64]) -> Histogram {
    Histogram::new(bounds.iter().copied())
}

/// The index of a kind in arrays.
fn place(kind: Kind) -> usize {
    kind as usize
}

/// From arrival to verdict, by kind. Two kinds also have names of the ecosystem.
fn verdicts(page: &mut Page) -> Vec<Histogram> {
    let rows = Kind::ALL.map(|kind| {
        let bounds = match kind {
            Kind::Vote => buckets::VOTE,
            Kind::Block => buckets::BLOCK_PROCESSING,
            Kind::Aggregate | Kind::Collection => buckets::VERDICT,
        };
        (label("topic_kind", kind.name()), histogram(bounds))
    });
    let verdicts = page.rows(
        "alphorn_verdict_seconds",
        "From the arrival of a message to its verdict",
        rows.into(),
    );
    page.put(
        "lean_attestation_validation_time_seconds",
        "From the arrival of a vote to its verdict",
        verdicts[place(Kind::Vote)].clone(),
    );
    page.put(
        "lean_fork_choice_block_processing_time_seconds",
        "From the arrival of a block to its verdict",
        verdicts[place(Kind::Block)].clone(),
    );
    verdicts
}

/// Sizes by kind.
fn bytes(page: &mut Page) -> Vec<Histogram> {
    let bytes = Kind::ALL.map(|kind| {
        let (name, what, bounds) = match kind {
            Kind::Block => ("block", "Blocks", buckets::BLOCK_BYTES),
            Kind::Vote => ("attestation", "Votes", buckets::VOTE_BYTES),
            Kind::Aggregate => ("aggregation", "Aggregates", buckets::AGGREGATE_BYTES),
            // The ecosystem has no name for these.
            Kind::Collection => return histogram(buckets::AGGREGATE_BYTES),
        };
        let name = format!("lean_gossip_{name}_size_bytes");
        page.histogram(&name, &format!("{what} that came by gossip"), bounds)
    });
    bytes.into()
}
