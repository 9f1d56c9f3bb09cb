//! What hosted validators do: vote, aggregate, collect, propose.

use super::super::message::{AggregateBody, BlockBody, CollectionBody, Item};
use super::super::plan::{Server, TopicId};
use super::{HornDelivery, HornNode, Purpose, Step};
use alphorn_proto::gossip::DenseId;
use alphorn_proto::horn::Publish;
use alphorn_proto::horn::cover::{self, Candidate};
use alphorn_proto::slot::Phase;
use alphorn_scheme::{Class, Op};
use alphorn_types::{Bitfield, Support, Time, Validator};
use std::cmp::Reverse;
use std::sync::Arc;

/// How far a post is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Messages are still verified, or its phase has not begun.
    Waiting,
    /// The sum is made.
    Summing,
    /// It is made; who serves publishes in turn.
    Made,
    /// Nothing more will come.
    Done,
}

/// A hosted validator at a post.
#[derive(Clone, Copy, Debug)]
struct Maker {
    /// Its place among those who serve.
    index: u32,
    server: Server,
    /// It has published, or need not.
    done: bool,
}

/// The hosted aggregators of a cell, with one sum.
#[derive(Debug)]
pub(super) struct Aggregating {
    cell: u32,
    makers: Vec<Maker>,
    /// Verified votes by position; what is summed does not change any more.
    signers: Bitfield,
    stage: Stage,
}

impl Aggregating {
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }
}

/// The hosted collectors of a committee, with one sum.
#[derive(Debug)]
pub(super) struct Collecting {
    committee: u16,
    makers: Vec<Maker>,
    /// Verified aggregates by subcommittee.
    aggregates: Vec<Vec<Arc<AggregateBody>>>,
    stage: Stage,
    made: Option<(Support, Vec<Arc<AggregateBody>>)>,
    /// Makers whose envelopes are being signed.
    signing: Vec<Maker>,
}

impl Collecting {
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }
}

impl HornNode {
    /// The posts of the hosted validators.
    pub(super) fn take_posts(&mut self) {
        let layout = self.plan.config.layout;
        let hosted = |servers: &[Server]| -> Vec<Maker> {
            let all = (0..).zip(servers);
            let local = all.filter(|(_, server)| self.plan.host(server.validator) == self.node);
            let maker = |(index, server): (u32, &Server)| Maker {
                index,
                server: *server,
                done: false,
            };
            local.map(maker).collect()
        };
        let (mut aggregating, mut collecting) = (Vec::new(), Vec::new());
        for station in &self.stations {
            let number = station.id.0;
            if let Some(servers) = self.plan.aggregators.get(number as usize) {
                let makers = hosted(servers);
                if !makers.is_empty() {
                    let positions = layout.cell_len(self.plan.cell(number)) as usize;
                    aggregating.push(Aggregating {
                        cell: number,
                        makers,
                        signers: Bitfield::new(positions),
                        stage: Stage::Waiting,
                    });
                }
                continue;
            }
            let committee = number - self.plan.aggregators.len() as u32;
            if let Some(servers) = self.plan.collectors.get(committee as usize) {
                let makers = hosted(servers);
                if !makers.is_empty() {
                    collecting.push(Collecting {
                        committee: committee as u16,
                        makers,
                        aggregates: vec![Vec::new(); usize::from(layout.subcommittees())],
                        stage: Stage::Waiting,
                        made: None,
                        signing: Vec::new(),
                    });
                }
            }
        }
        (self.aggregating, self.collecting) = (aggregating, collecting);
    }

    pub(super) fn sign_votes(&mut self) {
        let hosted = self.plan.hosted(self.node);
        let voters = hosted.filter(|validator| self.plan.votes(*validator));
        let count = voters.count() as u64;
        if count > 0 {
            let job = Purpose::SignVotes.job(0);
            self.spawn(job, Class::Duty, Op::Sign, (count, 0));
        }
    }

    pub(super) fn votes_signed(&mut self) {
        let plan = self.plan.clone();
        let bytes = plan.vote_bytes();
        let mut count = 0;
        for validator in plan.hosted(self.node) {
            let position = plan.assignment.position(Validator(validator));
            let Some(position) = position.filter(|_| plan.votes(validator)) else {
                continue;
            };
            let cell = plan.config.layout.cell_of(position);
            let position = position - plan.config.layout.cell_range(cell).start;
            let topic = plan.vote_topic(plan.cell_number(cell));
            count += 1;
            let item = Item::Vote { position, bytes };
            self.publish(topic, validator, DenseId(position), item);
        }
        self.show(HornDelivery::Voted(count));
    }

    /// A vote of the cell whose topic this is was accepted.
    pub(super) fn take_vote(&mut self, topic: TopicId, position: u32) {
        let found = self
            .aggregating
            .iter_mut()
            .find(|post| post.cell == topic.0);
        if let Some(post) = found.filter(|post| post.stage == Stage::Waiting) {
            post.signers.set(position as usize);
        }
    }

    /// Sums where all votes are verified, or have to do.
    pub(super) fn advance_aggregators(&mut self) {
        if !self.is_past(Step::Aggregate) {
            return;
        }
        for index in 0..self.aggregating.len() {
            let post = &self.aggregating[index];
            if post.stage != Stage::Waiting {
                continue;
            }
            let topic = self.plan.vote_topic(post.cell);
            let settled = self
                .find(topic)
                .is_none_or(|station| self.stations[station].batch.is_idle());
            if !settled && !self.is_past(Step::HurryAggregates) {
                continue;
            }
            let votes = post.signers.count_ones() as u64;
            if votes == 0 {
                self.aggregating[index].stage = Stage::Done;
                continue;
            }
            self.aggregating[index].stage = Stage::Summing;
            let job = Purpose::Aggregate.job(index);
            self.spawn(job, Class::Current, Op::Aggregate, (votes, 0));
        }
    }

    pub(super) fn aggregate_made(&mut self, index: usize) {
        self.aggregating[index].stage = Stage::Made;
        let makers = self.aggregating[index].makers.len() as u64;
        let job = Purpose::SignAggregates.job(index);
        self.spawn(job, Class::Current, Op::DutySign, (makers, 0));
    }

    pub(super) fn aggregates_signed(&mut self, index: usize) {
        let post = &mut self.aggregating[index];
        post.stage = Stage::Done;
        let (cell, makers) = (post.cell, std::mem::take(&mut post.makers));
        let signers = post.signers.clone();
        let committee = self.plan.cell(cell).committee;
        let topic = self.plan.aggregate_topic(committee);
        for Maker { index, server, .. } in makers {
            let validator = server.validator;
            let body = Arc::new(self.plan.aggregate(cell, validator, signers.clone()));
            let id = self.plan.aggregate_id(cell, index);
            self.show(HornDelivery::Aggregated(body.clone()));
            self.publish(topic, validator, id, Item::Aggregate(body));
        }
        self.advance_collectors();
    }

    /// An aggregate was accepted.
    pub(super) fn take_aggregate(&mut self, body: &Arc<AggregateBody>) {
        let cell = self.plan.cell(body.cell);
        let most = usize::from(self.plan.config.aggregates_per_cell_max);
        let mut posts = self.collecting.iter_mut();
        if let Some(post) = posts.find(|post| post.committee == cell.committee) {
            let row = &mut post.aggregates[usize::from(cell.subcommittee)];
            if row.len() < most {
                row.push(body.clone());
            }
        }
    }

    /// Covers the committees whose aggregates are all verified, or have to do.
    pub(super) fn advance_collectors(&mut self) {
        if !self.is_past(Step::Collect) {
            return;
        }
        for index in 0..self.collecting.len() {
            let post = &self.collecting[index];
            let committee = post.committee;
            if post.stage != Stage::Waiting {
                continue;
            }
            let topic = self.plan.aggregate_topic(committee);
            let verified = self
                .find(topic)
                .is_none_or(|station| self.stations[station].batch.is_idle());
            let of_committee =
                |own: &&super::Aggregating| self.plan.cell(own.cell).committee == committee;
            let made = self
                .aggregating
                .iter()
                .filter(of_committee)
                .all(Aggregating::is_done);
            let settled = verified && made;
            if !settled && !self.is_past(Step::HurryCollections) {
                continue;
            }
            let (support, parts) = self.cover(index);
            let (n, m) = (parts.len() as u64, support.signer_count() as u64);
            let post = &mut self.collecting[index];
            if parts.is_empty() {
                post.stage = Stage::Done;
                continue;
            }
            post.stage = Stage::Summing;
            post.made = Some((support, parts));
            let job = Purpose::Collect.job(index);
            self.spawn(job, Class::Current, Op::Collect, (n, m));
        }
    }

    /// Which aggregates the protocol's rule takes, and their sum over the committee.
    fn cover(&self, index: usize) -> (Support, Vec<Arc<AggregateBody>>) {
        let post = &self.collecting[index];
        let layout = &self.plan.config.layout;
        let len = layout.committee_len(post.committee) as usize;
        let (rule, picks_max) = self.plan.cover();
        let mut planes: Vec<Bitfield> = Vec::new();
        let mut parts = Vec::new();
        for (subcommittee, row) in (0..).zip(&post.aggregates) {
            let candidates: Vec<Candidate<'_>> = row
                .iter()
                .map(|body| Candidate {
                    sender: Validator(body.sender),
                    signers: &body.signers,
                })
                .collect();
            let picks = cover::cover(&candidates, None, rule, picks_max);
            let cell = alphorn_types::Cell {
                committee: post.committee,
                subcommittee,
            };
            let offset = layout.cell_in_committee(cell).start as usize;
            let sum = match self.plan.merges_by_union() {
                true => Support::from_bits(picks.covered.clone()),
                false => picks.multiplicities(&candidates),
            };
            for (i, plane) in sum.planes().iter().enumerate() {
                if planes.len() <= i {
                    planes.push(Bitfield::new(len));
                }
                planes[i].write_range(offset, plane);
            }
            parts.extend(picks.chosen.into_iter().map(|pick| row[pick].clone()));
        }
        let support = Support::from_planes(planes).unwrap_or_else(|| Support::new(len));
        (support, parts)
    }

    pub(super) fn collection_made(&mut self, index: usize) {
        self.collecting[index].stage = Stage::Made;
        self.advance_stages();
    }

    /// When a hosted collector may publish.
    fn turn(&self, maker: &Maker) -> Time {
        let start = self.plan.phase_start(Phase::Collect);
        match self.plan.config.publish {
            Publish::All => start,
            Publish::Staged => {
                let wait_ms = u64::from(maker.server.rank) * self.plan.config.stage_ms;
                start.saturating_add_ns(wait_ms.saturating_mul(1_000_000))
            }
        }
    }

    /// The next turn of a collector whose collection is made.
    fn next_stage(&self) -> Option<Time> {
        let made = self
            .collecting
            .iter()
            .filter(|post| post.stage == Stage::Made && post.signing.is_empty());
        let makers = made.flat_map(|post| post.makers.iter().filter(|maker| !maker.done));
        makers.map(|maker| self.turn(maker)).min()
    }

    /// Has the envelopes signed of collectors whose turn has come and whose collection adds enough to
    /// what was accepted.
    pub(super) fn advance_stages(&mut self) {
        for index in 0..self.collecting.len() {
            let post = &self.collecting[index];
            if post.stage != Stage::Made || !post.signing.is_empty() {
                continue;
            }
            let adds = self.adds_enough(post);
            let mut ready = Vec::new();
            let turns: Vec<Time> = post.makers.iter().map(|maker| self.turn(maker)).collect();
            let post = &mut self.collecting[index];
            for (maker, turn) in post.makers.iter_mut().zip(turns) {
                if !maker.done && turn <= self.now {
                    maker.done = true;
                    if adds {
                        ready.push(*maker);
                    }
                }
            }
            if post.makers.iter().all(|maker| maker.done) && ready.is_empty() {
                post.stage = Stage::Done;
            }
            if !ready.is_empty() {
                let count = ready.len() as u64;
                post.signing = ready;
                let job = Purpose::SignCollections.job(index);
                self.spawn(job, Class::Current, Op::DutySign, (count, 0));
            }
        }
        self.stage_at = self.next_stage();
    }

    fn adds_enough(&self, post: &Collecting) -> bool {
        if self.plan.config.publish == Publish::All {
            return true;
        }
        let Some((support, _)) = &post.made else {
            return false;
        };
        let accepted = &self.accepted[usize::from(post.committee)];
        let Some(best) = accepted.iter().max_by_key(|body| body.votes) else {
            return true;
        };
        let own = support.signers();
        let gain = own.count_and_not(&best.signers) as u64;
        let least = own.len() as u64 * u64::from(self.plan.config.stage_gain_ppm);
        gain >= least.div_ceil(1_000_000).max(1)
    }

    pub(super) fn collections_signed(&mut self, index: usize) {
        let post = &mut self.collecting[index];
        let makers = std::mem::take(&mut post.signing);
        if post.makers.iter().all(|maker| maker.done) {
            post.stage = Stage::Done;
        }
        let Some((support, parts)) = post.made.clone() else {
            return;
        };
        let committee = post.committee;
        let topic = self.plan.collection_topic();
        for Maker { index, server, .. } in makers {
            let validator = server.validator;
            let body = self
                .plan
                .collection(committee, validator, support.clone(), parts.clone());
            let body = Arc::new(body);
            let id = self.plan.collection_id(committee, index);
            self.show(HornDelivery::Collected(body.clone()));
            self.publish(topic, validator, id, Item::Collection(body));
        }
        self.stage_at = self.next_stage();
    }

    /// Makes the block, if its proposer is hosted here: again and again the collection that credits
    /// most signers who are not credited yet.
    pub(super) fn propose(&mut self) {
        if self.plan.host(self.plan.proposer()) != self.node {
            return;
        }
        let config = &self.plan.config;
        let mut credited: Vec<Option<Bitfield>> = vec![None; self.accepted.len()];
        let mut left: Vec<&Arc<CollectionBody>> = self.accepted.iter().flatten().collect();
        let mut entries: Vec<Arc<CollectionBody>> = Vec::new();
        let mut content = 0;
        while entries.len() < usize::from(config.collections_per_block_max) {
            let gain = |body: &CollectionBody| {
                let credited = &credited[usize::from(body.committee)];
                credited.as_ref().map_or(body.votes as usize, |credited| {
                    body.signers.count_and_not(credited)
                })
            };
            let best = left.iter().enumerate().max_by_key(|(_, body)| {
                (gain(body), Reverse(body.committee), Reverse(body.sender))
            });
            let Some((at, body)) = best.filter(|(_, body)| gain(body) > 0) else {
                break;
            };
            let bytes = self.plan.block_bytes(content + body.entry_bytes);
            let body: &Arc<CollectionBody> = body;
            if bytes <= config.block_bytes_max as u64 {
                content += body.entry_bytes;
                let row = &mut credited[usize::from(body.committee)];
                let row = row.get_or_insert_with(|| Bitfield::new(body.signers.len()));
                row.union_with(&body.signers);
                entries.push(body.clone());
            }
            left.swap_remove(at);
        }
        self.proposal = Some(Arc::new(self.plan.block(entries)));
        let job = Purpose::SignBlock.job(0);
        self.spawn(job, Class::Duty, Op::DutySign, (1, 0));
    }

    pub(super) fn block_signed(&mut self) {
        let Some(body) = self.proposal.take() else {
            return;
        };
        let body: Arc<BlockBody> = body;
        let (topic, proposer) = (self.plan.block_topic(), self.plan.proposer());
        self.show(HornDelivery::Proposed(body.clone()));
        self.publish(topic, proposer, DenseId(0), Item::Block(body));
    }
}
