//! Observes the slots of a run: checks that votes are counted exactly, and measures when they are where.
//!
//! It sees what nodes publish and accept, and none of their state. The rules it checks are these. Nothing is
//! invented: a signer of an aggregate has voted. Multiplicities are exact: the evidence of a unit is the sum of
//! what was published of its parts. A vote is counted once: each collection of a block credits at least one new
//! vote.

use super::followed::Followed;
use super::message::{BlockBody, EvidenceBody, HornMessage, Parts};
use super::node::{HornDelivery, HornNode};
use super::plan::Plan;
use super::tell::Teller;
use super::violation::Violation;
use crate::check::Blame;
use crate::world::Probe;
use alphorn_proto::horn::Finality;
use alphorn_types::trace::Record;
use alphorn_types::{Bitfield, MULTIPLICITY_LIMIT, Slot, Support, Unit};
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Watch {
    plan: Arc<Plan>,
    honest: Vec<bool>,
    /// The voters, by cell.
    cells_voted: Vec<Bitfield>,
    slots: Vec<Followed>,
    blame: Blame,
    useful_bytes: u64,
    accepted: u64,
    violation: Option<Violation>,
    /// Traces the slots, if a trace is wanted.
    teller: Option<Box<Teller>>,
}

impl Watch {
    pub(super) fn new(plan: Arc<Plan>, honest: Vec<bool>) -> Watch {
        let voted = |cell: alphorn_types::Cell| {
            let members = plan.assignment.cell_members(cell);
            let mut bits = Bitfield::new(members.len());
            for (position, validator) in members.iter().enumerate() {
                if plan.voters.has(*validator) {
                    bits.set(position);
                }
            }
            bits
        };
        Watch {
            honest,
            cells_voted: plan.config.layout.cells().map(voted).collect(),
            slots: plan
                .followed()
                .map(|slot| Followed::new(&plan, slot))
                .collect(),
            blame: Blame::default(),
            useful_bytes: 0,
            accepted: 0,
            violation: None,
            teller: None,
            plan,
        }
    }

    /// From now on traces what is seen.
    pub(super) fn tell(&mut self, teller: Teller) {
        self.teller = Some(Box::new(teller));
    }

    /// Traces the state of the observer's chain, if there is a trace.
    pub(super) fn stands(&mut self, now_ns: u64, finality: Finality) {
        if let Some(teller) = &mut self.teller {
            teller.stands(now_ns, finality);
        }
    }

    /// The run is over: records which nodes have no block.
    pub(super) fn end(&mut self, now_ns: u64) {
        let Some(teller) = &mut self.teller else {
            return;
        };
        teller.end(now_ns);
        for followed in &self.slots {
            let Some(block) = &followed.block else {
                continue;
            };
            let nodes = (0..).zip(&followed.imported);
            for (node, _) in nodes.filter(|(_, at)| at.is_none()) {
                teller.missed(now_ns, node, block);
            }
        }
    }

    pub(super) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Number of collections accepted, over all nodes.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// What was seen of the slots.
    pub(super) fn slots(&self) -> impl Iterator<Item = (Slot, &Followed)> {
        self.plan.followed().zip(&self.slots)
    }

    /// What was seen of the last slot.
    pub(super) fn last(&self) -> &Followed {
        self.slots.last().expect("a run has a slot")
    }

    /// What honest nodes reported and discovered.
    pub(super) fn blame(&self) -> &Blame {
        &self.blame
    }

    /// Bytes of everything accepted.
    pub(super) fn useful_bytes(&self) -> u64 {
        self.useful_bytes
    }

    /// Whether a validator's node is honest. Others may send anything.
    fn is_honest(&self, validator: u32) -> bool {
        self.honest[self.plan.host(validator) as usize]
    }

    fn violated(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// What is seen of a slot, with the time since its start.
    fn at(&mut self, slot: Slot, now_ns: u64) -> Option<(&mut Followed, u64)> {
        let place = self.plan.place(slot)?;
        let followed = &mut self.slots[place as usize];
        let since_ns = now_ns.saturating_sub(followed.begin_ns);
        Some((followed, since_ns))
    }

    /// The same for the slot whose votes a block is to carry.
    fn for_block(&mut self, block: Slot, now_ns: u64) -> Option<(&mut Followed, u64)> {
        self.at(self.plan.voted_slot(block)?, now_ns)
    }

    fn aggregate(&mut self, now_ns: u64, body: &Arc<EvidenceBody>) {
        let (post, unit) = (self.plan.post(body.unit) as usize, body.unit);
        self.check(body.slot, unit, body.sender, &body.support, &body.parts);
        if let Some((followed, _)) = self.at(body.slot, now_ns) {
            let cells = followed.aggregated.as_mut().filter(|_| unit.level == 1);
            let votes = cells.map(|cells| {
                cells[post].union_with(&body.signers);
                cells[post].count_ones()
            });
            followed.aggregates[post].push(body.clone());
            if let (Some(teller), Some(votes)) = (&mut self.teller, votes) {
                teller.aggregated(now_ns, body, votes);
            }
        }
    }

    /// Checks that the evidence of a unit is what honest nodes make: of votes that were cast, or the sum of what
    /// was published of its parts.
    fn check(&mut self, slot: Slot, unit: Unit, sender: u32, support: &Support, parts: &Parts) {
        if !self.is_honest(sender) {
            return;
        }
        if unit.level > 1 {
            if self.sum(slot, unit, parts).as_ref() != Some(support) {
                self.violated(Violation::Sum { sender });
            }
            return;
        }
        // The same validators vote in every slot, so their bits are not kept by slot.
        let voted = &self.cells_voted[self.plan.post(unit) as usize];
        let votes = support.signers().count_and_not(voted);
        if votes > 0 {
            self.violated(Violation::Invented { sender, votes });
        }
    }

    fn collection(&mut self, now_ns: u64, body: &Arc<EvidenceBody>) {
        self.check(
            body.slot,
            body.unit,
            body.sender,
            &body.support,
            &body.parts,
        );
        let committee = usize::from(body.unit.committee);
        if let Some((followed, _)) = self.at(body.slot, now_ns) {
            followed.collected[committee].union_with(&body.signers);
            followed.collections[committee].push(body.clone());
            if let Some(teller) = &mut self.teller {
                teller.published(now_ns, body);
            }
        }
    }

    /// The sum of the published evidence that the evidence of a unit names.
    fn sum(&self, slot: Slot, unit: Unit, parts: &Parts) -> Option<Support> {
        let followed = &self.slots[self.plan.place(slot)? as usize];
        let layout = &self.plan.config.layout;
        let mut counts = vec![0_u8; layout.unit_len(unit) as usize];
        let is_union = self.plan.merges_by_union(unit.level - 1);
        for (number, part) in parts.iter() {
            let below = self.plan.unit(*number);
            let published = followed.aggregates.get(*number as usize)?;
            // Several aggregates of a part are published, and the sum may be of any of them, but of none that nobody
            // published.
            let known = published.iter().any(|other| other.support == *part);
            if !known || layout.parent(below) != Some(unit) {
                return None;
            }
            let offset = layout.unit_range(below).start - layout.unit_range(unit).start;
            for (position, more) in part.iter() {
                let count = &mut counts[offset as usize + position];
                *count = match is_union {
                    true => 1,
                    false => count
                        .checked_add(more)
                        .filter(|&c| c <= MULTIPLICITY_LIMIT)?,
                };
            }
        }
        Support::from_multiplicities(&counts).ok()
    }

    fn accept(&mut self, now_ns: u64, node: u32, body: &Arc<EvidenceBody>) {
        self.accepted += 1;
        if self.plan.host(body.sender) != node {
            self.useful_bytes += body.data.len() as u64;
        }
        let Some((followed, since_ns)) = self.at(body.slot, now_ns) else {
            return;
        };
        if followed.accept(since_ns, node, body) {
            self.credit(now_ns, body);
        }
        // Looked up again, since `credit` borrows the whole of `self`.
        let Some((followed, _)) = self.at(body.slot, now_ns) else {
            return;
        };
        let published = &followed.collections[usize::from(body.unit.committee)];
        // All holders share one body, so another one with equal content was not published.
        let is_published = published.iter().any(|other| Arc::ptr_eq(other, body));
        if !is_published && self.is_honest(body.sender) {
            let sender = body.sender;
            self.violated(Violation::Foreign { node, sender });
        }
    }

    /// Records what the proposer can credit of a committee.
    fn credit(&mut self, now_ns: u64, body: &EvidenceBody) {
        let place = self.plan.place(body.slot).map(|place| place as usize);
        let (Some(teller), Some(place)) = (&mut self.teller, place) else {
            return;
        };
        let followed = &self.slots[place];
        let signers = &followed.credited[usize::from(body.unit.committee)];
        let votes = followed.votes_credited();
        teller.credited(now_ns, body.slot, body.unit.committee, signers, votes);
    }

    fn propose(&mut self, now_ns: u64, node: u32, block: &Arc<BlockBody>) {
        if let Some(teller) = &mut self.teller {
            teller.proposed(now_ns, node, block);
        }
        let mut seen: BTreeMap<(Slot, u16), Bitfield> = BTreeMap::new();
        for (slot, committee, signers) in &block.entries {
            let row = seen.entry((*slot, *committee));
            let row = row.or_insert_with(|| Bitfield::new(signers.len()));
            let first = self.plan.config.layout.committee_range(*committee).start;
            let member = |place: usize| self.plan.assignment.member(first + place as u32).0;
            let invented = signers
                .iter_ones()
                .any(|place| !self.plan.voters.has(member(place)));
            // Compared with the entries before it in this block only, not with the chain below the block.
            let is_wrong = invented || signers.count_and_not(row) == 0;
            if is_wrong && self.honest[node as usize] {
                let committee = *committee;
                self.violation
                    .get_or_insert(Violation::Credit { committee });
            }
            row.union_with(signers);
        }
        if let Some((followed, _)) = self.for_block(block.slot, 0) {
            followed.block = Some(block.clone());
        }
    }

    fn import(&mut self, now_ns: u64, node: u32, block: &BlockBody) {
        if let Some(teller) = &mut self.teller {
            teller.imported(now_ns, node, block);
        }
        if let Some((followed, since_ns)) = self.for_block(block.slot, now_ns)
            // A proposer may have signed another one.
            && followed.block.as_ref().is_some_and(|own| own.root == block.root)
            && followed.imported[node as usize].is_none()
        {
            followed.imported[node as usize] = Some(since_ns);
            if node != followed.proposer {
                self.useful_bytes += block.data.len() as u64;
            }
        }
    }
}

impl Probe<HornNode> for Watch {
    #[inline]
    fn arrived(&mut self, message: &HornMessage) {
        if let Some(teller) = &mut self.teller {
            teller.arrived(message);
        }
    }

    fn delivered(&mut self, now_ns: u64, node: u32, delivery: &HornDelivery) {
        if let Some(teller) = &mut self.teller {
            // What was due before this delivery is recorded first, so that records are in order of time.
            teller.until(now_ns);
        }
        match delivery {
            HornDelivery::Voted(slot, validator, bytes) => {
                if let Some(teller) = &mut self.teller {
                    teller.voted(node, *slot, *validator);
                }
                let honest = u64::from(self.honest[node as usize]);
                if let Some((followed, _)) = self.at(*slot, now_ns) {
                    followed.honest_voted += honest;
                    followed.voted += 1;
                    followed.vote_bytes = followed.vote_bytes.max(*bytes);
                }
            }
            HornDelivery::Aggregated(body) => self.aggregate(now_ns, body),
            HornDelivery::Collected(body) => self.collection(now_ns, body),
            HornDelivery::Accepted(body) => self.accept(now_ns, node, body),
            HornDelivery::Proposed(block) => self.propose(now_ns, node, block),
            HornDelivery::Imported(block) => self.import(now_ns, node, block),
        }
    }

    fn reported(&mut self, _: u64, node: u32, about: u32, reason: &'static str) {
        let blame = &mut self.blame;
        if blame.reported::<HornNode>(&self.honest, node, about, reason) {
            self.violated(Violation::Accused {
                node,
                about,
                reason,
            });
        }
    }

    fn evidence(&mut self, _: u64, node: u32) {
        self.blame.evidence(&self.honest, node);
    }

    fn told(&mut self, now_ns: u64) -> Vec<Record> {
        let Some(teller) = &mut self.teller else {
            return Vec::new();
        };
        teller.until(now_ns);
        teller.take()
    }

    fn is_done(&self) -> bool {
        self.violation.is_some()
    }
}
