//! What is taken: batches by load, one job each, and the subset rule among collections.

use super::super::message::{CollectionBody, Item};
use super::super::plan::TopicId;
use super::super::station::{Origin, Pending};
use super::super::work::HornWork;
use super::{HornDelivery, HornNode, Purpose};
use alphorn_proto::Verdict;
use alphorn_proto::gossip::DenseId;
use alphorn_proto::horn::SubsetRule;
use alphorn_proto::wire::Kind;
use alphorn_scheme::{Class, Op};
use std::sync::Arc;

/// Most messages of one verification job, as in the protocol's gate.
const ITEMS_PER_JOB_MAX: usize = 4_096;

impl HornNode {
    /// A message that is here for the first time.
    pub(super) fn admit(&mut self, index: usize, origin: Origin, id: DenseId, item: Item) {
        if let Item::Collection(body) = &item
            && self.is_useless(body)
        {
            if let Origin::Machine(token) = origin {
                self.stations[index].decide(self.now, token, Verdict::Ignore);
            }
            return;
        }
        let pending = Pending { origin, id, item };
        self.stations[index].batch.waiting.push(pending);
        self.call(index);
    }

    /// Asks for a job at the end of this input if messages wait and none runs.
    pub(super) fn call(&mut self, index: usize) {
        let batch = &mut self.stations[index].batch;
        if !batch.due && batch.running.is_empty() && !batch.waiting.is_empty() {
            batch.due = true;
            self.due.push(index as u32);
        }
    }

    /// Whether a collection adds no signer to an accepted one, or its committee has as many as it may.
    fn is_useless(&self, body: &CollectionBody) -> bool {
        let accepted = &self.accepted[usize::from(body.committee)];
        let most = usize::from(self.plan.config.collections_per_committee_max);
        let global = self.plan.config.subset_rule != SubsetRule::Off;
        accepted.len() >= most
            || global
                && accepted
                    .iter()
                    .any(|other| body.signers.is_subset_of(&other.signers))
    }

    /// Starts the job of a batch.
    pub(super) fn verify(&mut self, index: usize) {
        let topic = self.stations[index].id;
        let batch = &mut self.stations[index].batch;
        batch.due = false;
        let count = batch.waiting.len().min(ITEMS_PER_JOB_MAX);
        // Both lists keep their memory: most often all that waits goes.
        std::mem::swap(&mut batch.running, &mut batch.waiting);
        batch.waiting.extend(batch.running.drain(count..));
        let items = batch.running.iter();
        let signers = |pending: &Pending<Item>| match &pending.item {
            Item::Vote { .. } => 1,
            Item::Aggregate(body) => body.signers.count_ones() as u64,
            Item::Collection(body) => u64::from(body.votes),
            Item::Block(_) => 0,
        };
        let (n, m) = (count as u64, items.map(signers).sum());
        let plan = &self.plan;
        let (op, cost_ns) = match plan.kind(topic) {
            Kind::Vote => (Op::VerifyVotes, plan.cost_ns(Op::VerifyVotes, n, 0)),
            Kind::Aggregate => {
                let op = Op::VerifyAggregates;
                (op, plan.cost_ns(op, n, m))
            }
            Kind::Collection => {
                let op = Op::VerifyCollections;
                (op, plan.cost_ns(op, n, m))
            }
            Kind::Block => {
                let (n, m) = self.unknown_entries(index);
                let entries_ns = match n {
                    0 => 0,
                    _ => plan.cost_ns(Op::VerifyCollections, n, m),
                };
                (
                    Op::DutyVerify,
                    plan.cost_ns(Op::DutyVerify, 1, 0) + entries_ns,
                )
            }
        };
        let work = HornWork {
            op,
            inputs: count as u32,
            cost_ns,
        };
        self.spawn_work(Purpose::Verify.job(index), Class::Verdict, work);
    }

    /// Collections in the blocks of a batch that were not accepted here, and their signers.
    fn unknown_entries(&self, index: usize) -> (u64, u64) {
        let blocks = self.stations[index].batch.running.iter();
        let entries = blocks.flat_map(|pending| match &pending.item {
            Item::Block(body) => &body.entries[..],
            _ => &[],
        });
        let known = |entry: &Arc<CollectionBody>| {
            let accepted = &self.accepted[usize::from(entry.committee)];
            accepted.iter().any(|other| Arc::ptr_eq(other, entry))
        };
        entries
            .filter(|entry| !known(entry))
            .fold((0, 0), |(n, m), entry| (n + 1, m + u64::from(entry.votes)))
    }

    /// The job of a batch has ended.
    pub(super) fn verified(&mut self, index: usize, ran: bool) {
        let mut running = std::mem::take(&mut self.stations[index].batch.running);
        for Pending { origin, id, item } in running.drain(..) {
            let useless = match &item {
                Item::Collection(body) => self.is_useless(body),
                _ => false,
            };
            let verdict = match ran && !useless {
                true => Verdict::Accept,
                false => Verdict::Ignore,
            };
            let station = &mut self.stations[index];
            let topic = station.id;
            match origin {
                Origin::Machine(token) => station.decide(self.now, token, verdict),
                _ if verdict != Verdict::Accept => continue,
                Origin::Direct => {
                    self.accept(topic, item);
                    continue;
                }
                Origin::HandedIn => {
                    station.publish(self.now, id, item.clone());
                    self.accept(topic, item);
                }
            }
            // One after the other: what is accepted decides on what comes next.
            self.drain(index);
        }
        self.stations[index].batch.running = running;
        self.call(index);
        self.advance_aggregators();
        self.advance_collectors();
    }

    /// A message of a hosted validator, or a verified one of somebody else.
    pub(super) fn accept(&mut self, topic: TopicId, item: Item) {
        match item {
            Item::Vote { position, .. } => self.take_vote(topic, position),
            Item::Aggregate(body) => self.take_aggregate(&body),
            Item::Collection(body) => {
                self.accepted[usize::from(body.committee)].push(body.clone());
                self.show(HornDelivery::Accepted(body));
            }
            Item::Block(body) => self.show(HornDelivery::Imported(body)),
        }
    }
}
