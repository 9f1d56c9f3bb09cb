//! Collectors that leave out votes, or publish too early.

use super::broadcasts::Broadcasts;
use super::draw::drawn;
use crate::fault::{Parameters, Wrap};
use crate::gossip::{self, Peers};
use crate::horn::node::{HornDelivery, HornNode};
use crate::horn::{EvidenceBody, HornMessage, HornWork, Item, Plan};
use crate::role::{Input, Output};
use alphorn_proto::horn::KIND_COLLECTION;
use alphorn_proto::wire::{Aggregate, Vote, digest, no_references};
use alphorn_scheme::{
    AggregateJob, Bytes, CombineJob, Evidence, Layer, Op, Outcome, Part, Product, Role, Statement,
    Tail, Work,
};
use alphorn_types::{Cell, Slot, Time, Validator};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Its collectors publish a single vote in place of all: that of the first validator that the node hosts in the
/// committee.
pub(super) fn lone_votes(plan: Arc<Plan>, node: u32) -> impl Fn(&Work) -> Option<Box<HornWork>> {
    move |work| {
        let Work::Combine(job) = work else {
            return None;
        };
        let layout = &plan.config.layout;
        let all = &job.statement;
        let is_member = |position: &u32| (all.first..all.first + all.len).contains(position);
        // A vote that nobody cast would be called invented by the checkers, and evidence needs one that was.
        let hosted = plan.voters.hosted(node).map(Validator);
        let hosted = hosted.filter(|voter| plan.voters.has(voter.0));
        let mut positions = hosted.filter_map(|voter| plan.assignment.position(voter));
        let position = positions.find(is_member)?;
        let cell = layout.cell_of(position);
        let part = Part {
            offset: layout.cell_range(cell).start - all.first,
            layer: plan.info.layer(1),
            evidence: evidence_of(&plan, all.slot, all.message, cell, [position])?,
        };
        Some(plan.bench.job(Work::Combine(CombineJob {
            parts: vec![part],
            ..job.clone()
        })))
    }
}

/// Evidence of the votes at some positions of a cell, signed with their keys; none if there are no votes.
pub(super) fn evidence_of(
    plan: &Plan,
    slot: Slot,
    message: [u8; 32],
    cell: Cell,
    positions: impl IntoIterator<Item = u32>,
) -> Option<Evidence> {
    let range = plan.config.layout.cell_range(cell);
    let vote = |position: u32| {
        let voter = plan.assignment.member(position);
        let vote = plan.bench.sign(slot, voter, Role::Vote, message)?;
        Some((position - range.start, vote.into()))
    };
    let votes: Vec<(u32, Tail)> = positions.into_iter().filter_map(vote).collect();
    if votes.is_empty() {
        return None;
    }
    let job = Work::Aggregate(AggregateJob {
        epoch: plan.assignment.epoch(),
        statement: Statement {
            layer: plan.info.layer(1),
            first: range.start,
            len: range.end - range.start,
            slot,
            message,
        },
        votes,
    });
    match plan.bench.run(&job) {
        Outcome::Done(Product::Evidence(evidence)) => Some(evidence),
        _ => None,
    }
}

/// Its collectors leave out some cells, the same ones at all of them. A job runs without their aggregates, if any
/// others are left.
pub(super) fn leave_cells(
    plan: Arc<Plan>,
    parameters: &Parameters,
) -> impl Fn(&Work) -> Option<Box<HornWork>> + use<> {
    let cells = plan.config.layout.subcommittees().into();
    let left_out = drawn(cells, parameters.percent, parameters.key);
    move |work| {
        let Work::Combine(job) = work else {
            return None;
        };
        let stays = |part: &&Part| {
            let cell = (plan.config.layout).cell_of(job.statement.first + part.offset);
            !left_out.contains(&cell.subcommittee.into())
        };
        let parts: Vec<Part> = job.parts.iter().filter(stays).cloned().collect();
        (!parts.is_empty()).then(|| {
            plan.bench.job(Work::Combine(CombineJob {
                parts,
                ..job.clone()
            }))
        })
    }
}

/// Number and offset of a cell, and the evidence of its votes.
pub(super) type CellPart = (u32, u32, Evidence);

/// Builds a collector's collection from parts of its committee, as its message and as observers of a run read it.
pub(super) fn collection(
    plan: &Plan,
    vote: Vote,
    parts: Vec<CellPart>,
    committee: u16,
    sender: u32,
) -> Option<EvidenceBody> {
    let layout = &plan.config.layout;
    let (slot, unit) = (vote.slot, layout.committee(committee));
    let range = layout.committee_range(committee);
    let network = plan.config.network();
    let summed = parts
        .iter()
        .map(|(number, _, one)| (*number, one.support.clone()));
    let summed = summed.collect();
    let part = |(_, offset, evidence)| Part {
        offset,
        layer: plan.info.layer(1),
        evidence,
    };
    let job = CombineJob {
        op: Op::Collect,
        epoch: plan.assignment.epoch(),
        statement: Statement {
            layer: Layer::Collection,
            first: range.start,
            len: range.end - range.start,
            slot,
            message: digest::vote_message(network, &vote),
        },
        parts: parts.into_iter().map(part).collect(),
        multiplicity_max: plan.config.multiplicity_max,
    };
    let Outcome::Done(Product::Evidence(evidence)) = plan.bench.run(&Work::Combine(job)) else {
        return None;
    };
    let mut collection = Aggregate {
        vote,
        unit,
        sender: Validator(sender),
        proof: None,
        evidence,
        envelope: Bytes::from([]),
    };
    let message = digest::aggregate_message(network, &collection, &plan.format);
    let role = Role::of_level(unit.level);
    collection.envelope = plan.bench.sign(slot, Validator(sender), role, message)?;
    let data = collection.encode(&plan.format, &no_references).ok()?.into();
    let signers = collection.evidence.support.signers();
    Some(EvidenceBody {
        slot,
        unit,
        sender,
        support: collection.evidence.support,
        votes: signers.count_ones() as u32,
        signers,
        parts: summed,
        data,
    })
}

/// Sends a collection to these peers of a node, bypassing its state machine.
pub(super) fn publish(plan: &Plan, body: EvidenceBody, to: Peers, own: &mut Vec<Output<HornNode>>) {
    let place = plan.place(body.slot);
    let id = place.and_then(|place| plan.evidence_id(place, body.unit, Validator(body.sender)));
    let Some(id) = id else {
        return;
    };
    let body = Arc::new(body);
    // The message bypasses the role, so the wrapper shows what the role would have shown.
    own.push(Output::Deliver(HornDelivery::Collected(body.clone())));
    own.push(Output::Send {
        to,
        message: HornMessage::data(plan.collection_topic(), id, Item::Collection(body)),
        priority: gossip::Priority::Own as u8,
    });
}

/// Its collectors publish before their phase starts, using the largest aggregate of each cell that has arrived by
/// then. They send the collection whole, which no node refuses, however long it is.
#[derive(Debug)]
pub(super) struct EarlyCollection {
    plan: Arc<Plan>,
    node: u32,
    /// Publishing times, with their slots.
    due: BTreeMap<Time, Slot>,
    peers: Peers,
    /// Largest aggregate by slot and cell.
    largest: BTreeMap<(Slot, u32), Arc<EvidenceBody>>,
    /// What its state machine no longer needs to publish, by slot and collector.
    published: BTreeSet<(Slot, u32)>,
    unsent: Broadcasts,
}

impl EarlyCollection {
    pub(super) fn new(node: &HornNode, parameters: &Parameters) -> Self {
        let plan = node.plan().clone();
        let due = |slot| {
            let phase = plan.level_start(slot, plan.config.layout.levels());
            (phase.saturating_sub_ns(parameters.delay_ns), slot)
        };
        let due = plan.followed().map(due);
        EarlyCollection {
            node: node.node(),
            due: due
                .filter(|(at, _)| parameters.interval.contains(*at))
                .collect(),
            peers: parameters.everyone(),
            largest: BTreeMap::new(),
            published: BTreeSet::new(),
            unsent: Broadcasts::default(),
            plan,
        }
    }

    fn see(&mut self, message: &HornMessage) {
        if let Some(Item::Aggregate(body)) = message.item() {
            let largest = self.largest.entry((body.slot, self.plan.post(body.unit)));
            let largest = largest.or_insert_with(|| body.clone());
            if largest.votes < body.votes {
                *largest = body.clone();
            }
        }
    }

    /// The aggregates of a committee that prove the same vote as the largest one.
    fn parts(&self, slot: Slot, committee: u16) -> Option<(Vote, Vec<CellPart>)> {
        let (plan, layout) = (&self.plan, &self.plan.config.layout);
        let start = layout.committee_range(committee).start;
        let of_slot = self.largest.range((slot, 0)..=(slot, u32::MAX));
        let bodies = of_slot.filter_map(|((_, number), body)| {
            let unit = plan.unit(*number);
            let offset = layout.unit_range(unit).start.checked_sub(start)?;
            let aggregate = Aggregate::decode(&body.data, &plan.format, &no_references).ok()?;
            (unit.committee == committee).then_some((*number, offset, aggregate))
        });
        let all: Vec<(u32, u32, Aggregate)> = bodies.collect();
        let signers = |(.., one): &&(_, _, Aggregate)| one.evidence.support.signer_count();
        let vote = all.iter().max_by_key(signers)?.2.vote;
        // Evidence proves one vote, so aggregates of another one cannot be part of it.
        let same = all.into_iter().filter(|(.., one)| one.vote == vote);
        let parts = same.map(|(number, offset, one)| (number, offset, one.evidence));
        Some((vote, parts.collect()))
    }

    /// Publishes the collections of a slot.
    fn publish(&mut self, slot: Slot, own: &mut Vec<Output<HornNode>>) {
        let plan = self.plan.clone();
        for committee in 0..plan.config.layout.committees() {
            let unit = plan.config.layout.committee(committee);
            let servers = plan.servers_of(slot, unit).iter();
            let hosted = servers.filter(|server| plan.host(server.validator) == self.node);
            for sender in hosted.map(|server| server.validator) {
                let parts = self.parts(slot, committee);
                let body = parts
                    .and_then(|(vote, parts)| collection(&plan, vote, parts, committee, sender));
                if let Some(body) = body {
                    self.published.insert((slot, sender));
                    publish(&plan, body, self.peers.clone(), own);
                }
            }
        }
        self.largest.retain(|(of, _), _| *of > slot);
    }

    fn is_published(&self, body: &EvidenceBody) -> bool {
        self.published.contains(&(body.slot, body.sender))
    }

    /// Whether a message carries the state machine's own collection, whole or in pieces, after the early one.
    fn is_second(&mut self, message: &HornMessage) -> bool {
        match message.item() {
            Some(Item::Collection(body)) => self.is_published(body),
            Some(_) => false,
            None => {
                let published = &self.published;
                self.unsent.have(message, |subject| {
                    subject.kind == KIND_COLLECTION
                        && published.contains(&(Slot(subject.slot), subject.source))
                })
            }
        }
    }
}

impl Wrap<HornNode> for EarlyCollection {
    fn input(
        &mut self,
        _: Time,
        input: Input<HornNode>,
        _: &mut Vec<Output<HornNode>>,
    ) -> Option<Input<HornNode>> {
        if let Input::Message { message, .. } = &input {
            self.see(message);
        }
        Some(input)
    }

    fn output(&mut self, _: Time, output: Output<HornNode>, outputs: &mut Vec<Output<HornNode>>) {
        match &output {
            Output::Send { message, .. } => {
                if self.is_second(message) {
                    return;
                }
                // Its own aggregates count as well. No input brings them.
                self.see(message);
            }
            Output::Deliver(HornDelivery::Collected(body)) if self.is_published(body) => return,
            _ => {}
        }
        outputs.push(output);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due.first_key_value().map(|(at, _)| *at)
    }

    fn deadline(&mut self, _: Time, own: &mut Vec<Output<HornNode>>) {
        if let Some((_, slot)) = self.due.pop_first() {
            self.publish(slot, own);
        }
    }
}
