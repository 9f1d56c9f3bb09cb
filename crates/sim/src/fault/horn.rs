//! Adversaries of Horn. What they send is signed with the keys that their nodes host.

use super::{Adversary, Interval, Pace, Parameters, Wrap};
use crate::gossip::{self, DenseId, Message, Peers};
use crate::horn::node::HornNode;
use crate::horn::{BlockBody, HornMessage, HornWork, Item, Plan, TopicId};
use crate::role::{Input, Output};
use crate::scenario::{FailsAt, FaultKind};
use alphorn_proto::Peer;
use alphorn_proto::wire::{Block, Body, Header, Root, VoteMsg, digest, no_references};
use alphorn_scheme::{
    AggregateJob, Bytes, CombineJob, Outcome, Part, Product, Role, Statement, Work,
};
use alphorn_types::{Slot, Time, Validator};
use std::sync::Arc;

impl Adversary for HornNode {
    fn forge(&self, kind: FaultKind, parameters: &Parameters) -> Option<Box<dyn Wrap<Self>>> {
        let (plan, node) = (self.plan().clone(), self.node());
        let interval = parameters.interval;
        match (kind, parameters.fails_at) {
            (FaultKind::Grief, _) => Some(Box::new(LoneVotes {
                plan,
                node,
                interval,
            })),
            (FaultKind::Equivocate, _) => Some(Box::new(TwoBlocks { plan, node })),
            (FaultKind::InvalidFlood, FailsAt::Payload) => Some(Box::new(InventedHeads {
                plan,
                node,
                interval,
            })),
            (FaultKind::InvalidFlood, FailsAt::Signature) => Some(Box::new(ForgedBlocks {
                pace: Pace::new(interval, parameters.rate),
                peers: (0..parameters.peers).map(Peer).collect(),
                parent: None,
                forged: 0,
                plan,
            })),
            _ => None,
        }
    }
}

/// A block of somebody's without entries.
fn empty_block(
    plan: &Plan,
    header: Header,
    filler: Bytes,
    sign: impl FnOnce(&Root) -> Option<Bytes>,
) -> Option<(Root, Bytes)> {
    let body = Body {
        entries: Vec::new(),
        bundle: Bytes::from([]),
        filler,
    };
    let encoded = body.encode(&plan.format, &no_references).ok()?;
    let header = Header {
        body: digest::body_digest(&encoded),
        ..header
    };
    let block = Block {
        header,
        signature: sign(&header.root())?,
        body,
    };
    let encoded = block.encode(&plan.format, &no_references).ok()?;
    Some((header.root(), encoded.into()))
}

/// Its collectors publish one vote in place of all, each that of the first validator that its node has in
/// the committee.
#[derive(Debug)]
struct LoneVotes {
    plan: Arc<Plan>,
    node: u32,
    interval: Interval,
}

impl LoneVotes {
    fn alone(&self, job: &CombineJob) -> Option<HornWork> {
        let (plan, layout) = (&self.plan, &self.plan.config.layout);
        let (all, below) = (&job.statement, job.parts.first()?.layer);
        let is_member = |position: &u32| (all.first..all.first + all.len).contains(position);
        let hosted = plan.hosted(self.node).map(Validator);
        let mut positions = hosted.filter_map(|voter| plan.assignment.position(voter));
        let position = positions.find(is_member)?;
        let cell = layout.cell_range(layout.cell_of(position));
        let statement = Statement {
            layer: below,
            first: cell.start,
            len: cell.end - cell.start,
            ..*all
        };
        let voter = plan.assignment.member(position);
        let vote = (plan.bench).sign(all.slot, voter, Role::Vote, all.message)?;
        let one = Work::Aggregate(AggregateJob {
            epoch: job.epoch,
            statement,
            votes: vec![(position - cell.start, vote)],
        });
        let Outcome::Done(Product::Evidence(evidence)) = plan.bench.run(&one) else {
            return None;
        };
        let part = Part {
            offset: cell.start - all.first,
            layer: below,
            evidence,
        };
        Some(plan.bench.job(Work::Combine(CombineJob {
            parts: vec![part],
            ..job.clone()
        })))
    }
}

impl Wrap<HornNode> for LoneVotes {
    fn output(
        &mut self,
        now: Time,
        mut output: Output<HornNode>,
        outputs: &mut Vec<Output<HornNode>>,
    ) {
        if self.interval.contains(now)
            && let Output::Spawn { request, .. } = &mut output
            && let Work::Combine(job) = request.work.work()
            && let Some(alone) = self.alone(job)
        {
            request.work = alone;
        }
        outputs.push(output);
    }
}

/// Its proposers sign a second block, without votes: neighbours with odd numbers get that one first.
#[derive(Debug)]
struct TwoBlocks {
    plan: Arc<Plan>,
    node: u32,
}

impl TwoBlocks {
    fn second(&self, DenseId(id): DenseId, first: &BlockBody) -> Option<Message<Item>> {
        let plan = &self.plan;
        let header = Header::peek(&first.data, &plan.format).ok()?;
        if plan.host(header.proposer.0) != self.node {
            return None;
        }
        let sign = |root: &Root| {
            let message = digest::block_message(plan.config.network(), root);
            (plan.bench).sign(header.slot, header.proposer, Role::Block, message)
        };
        let (root, data) = empty_block(plan, header, Bytes::from([]), sign)?;
        Some(Message::Data {
            id: DenseId(plan.slots + id),
            payload: Item::Block(Arc::new(BlockBody {
                slot: header.slot,
                root,
                entries: Vec::new(),
                data,
            })),
        })
    }
}

impl Wrap<HornNode> for TwoBlocks {
    fn output(&mut self, _: Time, output: Output<HornNode>, outputs: &mut Vec<Output<HornNode>>) {
        let Output::Send {
            to,
            message,
            priority,
        } = &output
        else {
            return outputs.push(output);
        };
        let second = match &message.inner {
            Message::Data {
                id,
                payload: Item::Block(body),
            } => self.second(*id, body),
            _ => None,
        };
        let Some(inner) = second else {
            return outputs.push(output);
        };
        let topic = message.topic;
        let (odd, even): (Vec<Peer>, Vec<Peer>) = to.iter().partition(|peer| peer.0 % 2 == 1);
        for (to, message) in [(even, message.clone()), (odd, HornMessage { topic, inner })] {
            if !to.is_empty() {
                outputs.push(Output::Send {
                    to: Peers::List(to.into()),
                    message,
                    priority: *priority,
                });
            }
        }
    }
}

/// Its voters name a head that is no block.
#[derive(Debug)]
struct InventedHeads {
    plan: Arc<Plan>,
    node: u32,
    interval: Interval,
}

impl InventedHeads {
    fn invented(&self, data: &Bytes) -> Option<Bytes> {
        let plan = &self.plan;
        let mut message = VoteMsg::decode(data, &plan.format).ok()?;
        if plan.host(message.validator.0) != self.node {
            return None;
        }
        let (vote, voter) = (&mut message.vote, message.validator);
        vote.head = digest::vote_message(plan.config.network(), vote);
        vote.head[..4].copy_from_slice(&voter.0.to_be_bytes());
        vote.target.root = vote.head;
        let signed = digest::vote_message(plan.config.network(), vote);
        message.signature = (plan.bench).sign(vote.slot, voter, Role::Vote, signed)?;
        Some(message.encode(&plan.format).into())
    }
}

impl Wrap<HornNode> for InventedHeads {
    fn output(
        &mut self,
        now: Time,
        mut output: Output<HornNode>,
        outputs: &mut Vec<Output<HornNode>>,
    ) {
        if self.interval.contains(now)
            && let Output::Send { message, .. } = &mut output
            && let Message::Data { payload, .. } | Message::Relay { payload, .. } =
                &mut message.inner
            && let Item::Vote(data) = payload
            && let Some(invented) = self.invented(data)
        {
            *data = invented;
        }
        outputs.push(output);
    }
}

/// Sends all neighbours blocks of the slot's proposer with a signature that is none, on the last block that
/// it saw.
#[derive(Debug)]
struct ForgedBlocks {
    plan: Arc<Plan>,
    pace: Pace,
    peers: Arc<[Peer]>,
    /// With its slot.
    parent: Option<(Slot, Root)>,
    forged: u32,
}

impl ForgedBlocks {
    fn see(&mut self, message: &HornMessage) {
        if let Message::Data {
            payload: Item::Block(body),
            ..
        } = &message.inner
        {
            self.parent = self.parent.max(Some((body.slot, body.root)));
        }
    }

    fn next(&mut self, now: Time) -> Option<HornMessage> {
        let plan = &self.plan;
        let slot = plan
            .followed()
            .take_while(|slot| plan.slot_start(*slot) <= now);
        let slot = slot.last()?;
        let (before, parent) = self.parent.filter(|(before, _)| *before < slot)?;
        self.forged += 1;
        let number = Bytes::from(self.forged.to_be_bytes());
        let header = Header {
            slot,
            proposer: Validator(plan.proposer(Slot(slot.0.checked_sub(1)?))),
            parent,
            body: [0; 32],
        };
        let none = Bytes::from(vec![before.0 as u8; plan.format.duty_signature_bytes]);
        let (root, data) = empty_block(plan, header, number, |_| Some(none))?;
        let inner = Message::Data {
            id: DenseId(2 * plan.slots + self.forged),
            payload: Item::Block(Arc::new(BlockBody {
                slot,
                root,
                entries: Vec::new(),
                data,
            })),
        };
        let topic: TopicId = plan.block_topic();
        Some(HornMessage { topic, inner })
    }
}

impl Wrap<HornNode> for ForgedBlocks {
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
        if let Output::Send { message, .. } = &output {
            self.see(message);
        }
        outputs.push(output);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.pace.next()
    }

    fn deadline(&mut self, now: Time, own: &mut Vec<Output<HornNode>>) {
        self.pace.step();
        if let Some(message) = self.next(now) {
            own.push(Output::Send {
                to: Peers::List(self.peers.clone()),
                message,
                priority: gossip::Priority::Own as u8,
            });
        }
    }
}
