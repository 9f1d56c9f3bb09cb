//! Who looks at the slots of a run: checks that votes are counted exactly, and measures when they are where.
//!
//! It sees what nodes publish and accept, and none of their state. Nothing is invented: a signer of an
//! aggregate has voted. Multiplicities are exact: evidence of a unit is the sum of what was published of
//! its parts. A vote is counted once: each collection of a block credits somebody anew.

use super::message::{AggregateBody, BlockBody, CollectionBody, Parts};
use super::node::{HornDelivery, HornNode};
use super::plan::Plan;
use crate::world::Witness;
use alphorn_types::{Bitfield, MULTIPLICITY_LIMIT, Slot, Support, Unit};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Shares of all votes that are timed, in thousandths.
pub(super) const SHARES_PERMILLE: [u64; 3] = [667, 900, 990];

/// What no slot may show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// An aggregate counts a vote that nobody cast.
    #[error("the aggregate of validator {sender} counts {votes} votes that nobody cast")]
    Invented {
        /// The aggregator.
        sender: u32,
        /// How many.
        votes: usize,
    },
    /// Evidence is not the sum of what was published of its unit's parts.
    #[error("the evidence of validator {sender} is not the sum of published aggregates")]
    Sum {
        /// Who made it.
        sender: u32,
    },
    /// Something was accepted that nobody published, or twice.
    #[error("node {node} accepted a collection of validator {sender} that was not published to it")]
    Foreign {
        /// The node.
        node: u32,
        /// The collector.
        sender: u32,
    },
    /// A block has a collection of votes that nobody cast, or one that credits nobody.
    #[error("the block has a collection of committee {committee} that credits nobody anew")]
    Credit {
        /// The committee.
        committee: u16,
    },
    /// A node had 99 % of the votes before it can have them.
    #[error("node {node} has 99 % of the votes at {at_ns} ns, it cannot before {least_ns} ns")]
    Early {
        /// The node.
        node: u32,
        /// When it had them, from the begin of the slot.
        at_ns: u64,
        /// When it can.
        least_ns: u64,
    },
    /// All nodes had 99 % of the votes before all uplinks together can carry them.
    #[error("all nodes have 99 % of the votes at {at_ns} ns, they cannot before {least_ns} ns")]
    Carried {
        /// When the last one had them, from the begin of the slot.
        at_ns: u64,
        /// When they can.
        least_ns: u64,
    },
    /// An honest node has proof against another one.
    #[error("node {node} reports the honest node {about}: {reason}")]
    Accused {
        /// Who reports.
        node: u32,
        /// Whom.
        about: u32,
        /// Why.
        reason: &'static str,
    },
}

/// When a node had which share of the votes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Milestones {
    /// When it had 2/3, 90 % and 99 % of them, from the begin of the slot; absent if never.
    pub at_ns: [Option<u64>; SHARES_PERMILLE.len()],
}

impl Milestones {
    fn note(&mut self, now_ns: u64, votes: u64, all: u64) {
        for (at, share) in self.at_ns.iter_mut().zip(SHARES_PERMILLE) {
            let enough = u128::from(votes) * 1000 >= u128::from(all) * u128::from(share);
            if at.is_none() && enough {
                *at = Some(now_ns);
            }
        }
    }
}

/// What is seen of the votes of a slot. Times are from the begin of the slot.
#[derive(Debug)]
pub(super) struct Followed {
    begin_ns: u64,
    /// Who hosts the proposer of the block that is to carry them.
    proposer: u32,
    /// Votes in all.
    votes: u64,
    /// Published evidence by unit below the committees.
    pub(super) aggregates: Vec<Vec<Arc<AggregateBody>>>,
    /// Votes in published aggregates, by cell; none where these are collections.
    aggregated: Option<Vec<Bitfield>>,
    /// Published collections by committee.
    pub(super) collections: Vec<Vec<Arc<CollectionBody>>>,
    /// Votes in published collections, by committee.
    collected: Vec<Bitfield>,
    /// Votes of the best accepted collection of each committee, node by node.
    best: Vec<u32>,
    /// Their sums.
    held: Vec<u64>,
    /// When a node had which share of the votes, by the best collection of each committee.
    pub(super) milestones: Vec<Milestones>,
    /// Votes that the proposer can credit, by committee; exact.
    credited: Vec<Bitfield>,
    /// When the proposer could credit more votes, and how many.
    pub(super) curve: Vec<(u64, u64)>,
    /// When the proposer had which share, exactly.
    pub(super) at_proposer: Milestones,
    /// The block that is to carry them.
    pub(super) block: Option<Arc<BlockBody>>,
    /// When each node had it.
    pub(super) imported: Vec<Option<u64>>,
    voted: u64,
    /// Votes of validators of honest nodes.
    pub(super) honest_voted: u64,
    /// The longest message of a vote.
    pub(super) vote_bytes: u64,
    /// When the last votes, aggregates and collections were published.
    pub(super) last_ns: [u64; 3],
}

impl Followed {
    fn new(plan: &Plan, slot: Slot) -> Followed {
        let layout = plan.config.layout;
        let nodes = plan.nodes as usize;
        let committees = 0..layout.committees();
        let committee = |c| Bitfield::new(layout.committee_len(c) as usize);
        let cells = layout.cells().map(|cell| layout.cell_range(cell).len());
        let aggregated = (layout.levels() > 1).then(|| cells.map(Bitfield::new).collect());
        Followed {
            begin_ns: plan.slot_start(slot).as_nanos(),
            proposer: plan.host(plan.proposer(slot)),
            votes: plan.votes_count(),
            aggregates: vec![Vec::new(); plan.posts_below_top() as usize],
            aggregated,
            collections: vec![Vec::new(); committees.len()],
            collected: committees.clone().map(committee).collect(),
            best: vec![0; nodes * committees.len()],
            held: vec![0; nodes],
            milestones: vec![Milestones::default(); nodes],
            credited: committees.map(committee).collect(),
            curve: Vec::new(),
            at_proposer: Milestones::default(),
            block: None,
            imported: vec![None; nodes],
            voted: 0,
            honest_voted: 0,
            vote_bytes: 0,
            last_ns: [0; 3],
        }
    }

    /// Votes signed, in aggregates, in collections, at the proposer, in the block.
    pub(super) fn votes(&self, slot: Slot) -> [u64; 5] {
        let count = |bits: &[Bitfield]| bits.iter().map(|bits| bits.count_ones() as u64).sum();
        let committees = (0..).zip(&self.collected);
        let block: Vec<Bitfield> = committees.map(|(c, _)| self.in_block(slot, c)).collect();
        let aggregated = self.aggregated.as_ref().unwrap_or(&self.collected);
        let stages = [aggregated, &self.collected, &self.credited, &block];
        let [aggregated, collected, credited, block] = stages.map(|bits| count(bits));
        [self.voted, aggregated, collected, credited, block]
    }

    /// Who of a committee has a vote of the slot in its block.
    pub(super) fn in_block(&self, slot: Slot, committee: u16) -> Bitfield {
        let mut bits = Bitfield::new(self.collected[usize::from(committee)].len());
        let entries = self.block.iter().flat_map(|block| &block.entries);
        let own = entries.filter(|(of, c, _)| (*of, *c) == (slot, committee));
        own.for_each(|(.., signers)| bits.union_with(signers));
        bits
    }

    /// Messages published: aggregates, collections; and the bytes of all collections and the block.
    pub(super) fn published(&self) -> (u64, u64, u64) {
        let aggregates = self.aggregates.iter().map(|row| row.len() as u64).sum();
        let collections = self.collections.iter().flatten();
        let bytes: u64 = collections.clone().map(|body| body.data.len() as u64).sum();
        let block = self
            .block
            .as_ref()
            .map_or(0, |block| block.data.len() as u64);
        (aggregates, collections.count() as u64, bytes + block)
    }

    fn accept(&mut self, now_ns: u64, node: u32, body: &Arc<CollectionBody>) {
        let committee = usize::from(body.committee);
        let all = self.votes;
        let best = &mut self.best[node as usize * self.collections.len() + committee];
        if body.votes > *best {
            let held = &mut self.held[node as usize];
            *held += u64::from(body.votes - *best);
            *best = body.votes;
            self.milestones[node as usize].note(now_ns, *held, all);
        }
        if node == self.proposer {
            let credited = &mut self.credited[committee];
            if body.signers.count_and_not(credited) > 0 {
                credited.union_with(&body.signers);
                let votes = self.credited.iter().map(|bits| bits.count_ones() as u64);
                let votes = votes.sum();
                self.curve.push((now_ns, votes));
                self.at_proposer.note(now_ns, votes, all);
            }
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Watch {
    plan: Arc<Plan>,
    honest: Vec<bool>,
    /// Who votes, by cell.
    cells_voted: Vec<Bitfield>,
    slots: Vec<Followed>,
    useful_bytes: u64,
    accepted: u64,
    violation: Option<Violation>,
}

impl Watch {
    pub(super) fn new(plan: Arc<Plan>, honest: Vec<bool>) -> Watch {
        let voted = |cell: alphorn_types::Cell| {
            let members = plan.assignment.cell_members(cell);
            let mut bits = Bitfield::new(members.len());
            for (position, validator) in members.iter().enumerate() {
                if plan.votes(*validator) {
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
            useful_bytes: 0,
            accepted: 0,
            violation: None,
            plan,
        }
    }

    pub(super) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Collections accepted, over all nodes.
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

    pub(super) fn useful_bytes(&self) -> u64 {
        self.useful_bytes
    }

    /// Whether a validator's node is: what others send may be anything.
    fn is_honest(&self, validator: u32) -> bool {
        self.honest[self.plan.host(validator) as usize]
    }

    fn violated(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// What is seen of a slot, and a time from its begin.
    fn at(&mut self, slot: Slot, now_ns: u64) -> Option<(&mut Followed, u64)> {
        let place = self.plan.place(slot)?;
        let followed = &mut self.slots[place as usize];
        let since_ns = now_ns.saturating_sub(followed.begin_ns);
        Some((followed, since_ns))
    }

    /// The same of the slot whose votes a block is to carry.
    fn for_block(&mut self, block: Slot, now_ns: u64) -> Option<(&mut Followed, u64)> {
        self.at(self.plan.voted_slot(block)?, now_ns)
    }

    fn aggregate(&mut self, now_ns: u64, body: &Arc<AggregateBody>) {
        let (post, unit) = (body.post as usize, self.plan.unit(body.post));
        self.check(unit, body.sender, (body.slot, &body.support, &body.parts));
        if let Some((followed, since_ns)) = self.at(body.slot, now_ns) {
            followed.last_ns[1] = since_ns;
            if let Some(aggregated) = followed.aggregated.as_mut().filter(|_| unit.level == 1) {
                aggregated[post].union_with(&body.signers);
            }
            followed.aggregates[post].push(body.clone());
        }
    }

    /// Whether the evidence of a unit is what honest nodes make: of votes that were cast, or the sum of what was
    /// published of its parts.
    fn check(&mut self, unit: Unit, sender: u32, made: (Slot, &Support, &Parts)) {
        if !self.is_honest(sender) {
            return;
        }
        if unit.level > 1 {
            if self.sum(unit, (made.0, made.2)).as_ref() != Some(made.1) {
                self.violated(Violation::Sum { sender });
            }
            return;
        }
        let voted = &self.cells_voted[self.plan.post(unit) as usize];
        let votes = made.1.signers().count_and_not(voted);
        if votes > 0 {
            self.violated(Violation::Invented { sender, votes });
        }
    }

    fn collection(&mut self, now_ns: u64, body: &Arc<CollectionBody>) {
        let unit = self.plan.config.layout.committee(body.committee);
        self.check(unit, body.sender, (body.slot, &body.support, &body.parts));
        let committee = usize::from(body.committee);
        if let Some((followed, since_ns)) = self.at(body.slot, now_ns) {
            followed.last_ns[2] = since_ns;
            followed.collected[committee].union_with(&body.signers);
            followed.collections[committee].push(body.clone());
        }
    }

    /// The sum of the published evidence that the evidence of a unit names.
    fn sum(&self, unit: Unit, (slot, parts): (Slot, &Parts)) -> Option<Support> {
        let followed = &self.slots[self.plan.place(slot)? as usize];
        let layout = &self.plan.config.layout;
        let mut counts = vec![0_u8; layout.unit_len(unit) as usize];
        let is_union = self.plan.merges_by_union(unit.level - 1);
        for (number, part) in parts.iter() {
            let below = self.plan.unit(*number);
            let published = followed.aggregates.get(*number as usize)?;
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

    fn accept(&mut self, now_ns: u64, node: u32, body: &Arc<CollectionBody>) {
        self.accepted += 1;
        if self.plan.host(body.sender) != node {
            self.useful_bytes += body.data.len() as u64;
        }
        let Some((followed, since_ns)) = self.at(body.slot, now_ns) else {
            return;
        };
        followed.accept(since_ns, node, body);
        let published = &followed.collections[usize::from(body.committee)];
        let is_published = published.iter().any(|other| Arc::ptr_eq(other, body));
        if !is_published && self.is_honest(body.sender) {
            let sender = body.sender;
            self.violated(Violation::Foreign { node, sender });
        }
    }

    fn propose(&mut self, node: u32, block: &Arc<BlockBody>) {
        let mut seen: BTreeMap<(Slot, u16), Bitfield> = BTreeMap::new();
        for (slot, committee, signers) in &block.entries {
            let row = seen.entry((*slot, *committee));
            let row = row.or_insert_with(|| Bitfield::new(signers.len()));
            let first = self.plan.config.layout.committee_range(*committee).start;
            let member = |place: usize| self.plan.assignment.member(first + place as u32).0;
            let invented = signers
                .iter_ones()
                .any(|place| !self.plan.votes(member(place)));
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
        if let Some((followed, since_ns)) = self.for_block(block.slot, now_ns) {
            followed.imported[node as usize] = Some(since_ns);
            if node != followed.proposer {
                self.useful_bytes += block.data.len() as u64;
            }
        }
    }
}

impl Witness<HornNode> for Watch {
    fn delivered(&mut self, now_ns: u64, node: u32, delivery: &HornDelivery) {
        match delivery {
            HornDelivery::Voted(slot, bytes) => {
                let honest = u64::from(self.honest[node as usize]);
                if let Some((followed, since_ns)) = self.at(*slot, now_ns) {
                    followed.honest_voted += honest;
                    followed.voted += 1;
                    followed.vote_bytes = followed.vote_bytes.max(*bytes);
                    followed.last_ns[0] = since_ns;
                }
            }
            HornDelivery::Aggregated(body) => self.aggregate(now_ns, body),
            HornDelivery::Collected(body) => self.collection(now_ns, body),
            HornDelivery::Accepted(body) => self.accept(now_ns, node, body),
            HornDelivery::Proposed(block) => self.propose(node, block),
            HornDelivery::Imported(block) => self.import(now_ns, node, block),
        }
    }

    fn reported(&mut self, _: u64, node: u32, about: u32, reason: &'static str) {
        use crate::role::Role;
        let honest = self.honest[node as usize] && self.honest[about as usize];
        if honest && HornNode::is_proof(reason) {
            self.violated(Violation::Accused {
                node,
                about,
                reason,
            });
        }
    }

    fn is_done(&self) -> bool {
        self.violation.is_some()
    }
}
