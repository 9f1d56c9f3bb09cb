//! Adversaries of Horn. Their messages are signed with the keys that their nodes host.
//!
//! | file | adversary |
//! |---|---|
//! | here | sources of broadcasts, and voters for heads that are not blocks |
//! | `voters` | voters for more than one block |
//! | `aggregators`, `collectors`, `proposers` | serving validators |
//! | `heads` | proposers and voters together, against the fork choice |
//! | `bounce` | the same, against justification |
//! | `allies` | what nodes that attack together know |
//! | `broadcasts`, `draw` | which messages and which validators an attack is about |

mod aggregators;
mod allies;
mod bounce;
mod broadcasts;
mod collectors;
mod draw;
mod heads;
mod proposers;
mod voters;

use super::{Adversary, Interval, NoPayload, Paced, Parameters, Wrap};
use crate::gossip::{Message, Peers};
use crate::horn::node::HornNode;
use crate::horn::{HornWork, Inner, Item, NodeProduct, NodeWork, Plan};
use crate::role::Output;
use crate::scenario::{FailsAt, FaultKind};
use aggregators::DropVotes;
use alphorn_broadcast::Product;
use alphorn_proto::Peer;
use alphorn_proto::wire::{VoteMsg, digest};
use alphorn_scheme::{Bytes, Role, Work};
use alphorn_types::Time;
use bounce::Bounce;
use collectors::{EarlyCollection, leave_cells, lone_votes};
use heads::{Balance, WithholdBlock};
use proposers::{Censor, ForgedBlocks, TwoBlocks};
use std::sync::Arc;
use voters::{EquivocateVotes, SplitBallots};

impl Adversary for HornNode {
    fn forge(&self, kind: FaultKind, parameters: &Parameters) -> Option<Box<dyn Wrap<Self>>> {
        let (plan, node) = (self.plan().clone(), self.node());
        let interval = parameters.interval;
        Some(match (kind, parameters.fails_at) {
            (FaultKind::DropVotes, _) => Box::new(DropVotes::new(self, parameters)),
            (FaultKind::LeaveCells, _) => Box::new(Instead {
                interval,
                other: leave_cells(plan, parameters),
            }),
            (FaultKind::EarlyCollection, _) => Box::new(EarlyCollection::new(self, parameters)),
            (FaultKind::Censor, _) => Box::new(Censor::new(self, parameters)),
            (FaultKind::Grief, _) => Box::new(Instead {
                interval,
                other: lone_votes(plan, node),
            }),
            (FaultKind::WithholdBlock, _) => Box::new(WithholdBlock::new(self, parameters)),
            (FaultKind::Balance, _) => Box::new(Balance::new(self, parameters)),
            (FaultKind::Bounce, _) => Box::new(Bounce::new(self, parameters)),
            (FaultKind::EquivocateVotes, _) => Box::new(EquivocateVotes::new(self, parameters)),
            (FaultKind::SplitBallots, _) => Box::new(SplitBallots::new(self, parameters)),
            (FaultKind::Equivocate, _) => {
                let odd = (0..parameters.peers).filter(|number| number % 2 == 1);
                let odd = Peers::List(odd.map(Peer).collect());
                Box::new(TwoBlocks::new(plan, node, &odd))
            }
            (FaultKind::NonCodewordSource, _) => Box::new(NoPayload {
                code: self.code()?.clone(),
                published: |product| match product {
                    NodeProduct::Code(Some(Product::Published(published))) => {
                        published.as_mut().ok()
                    }
                    _ => None,
                },
            }),
            (FaultKind::InvalidFlood, FailsAt::Payload) => Box::new(InventedHeads {
                plan,
                node,
                interval,
            }),
            (FaultKind::InvalidFlood, FailsAt::Signature) => {
                Box::new(Paced::new(parameters, ForgedBlocks::new(plan)))
            }
            _ => return None,
        })
    }
}

/// Replaces the work of its node, where there is a replacement.
struct Instead<F> {
    interval: Interval,
    other: F,
}

impl<F> std::fmt::Debug for Instead<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Instead({:?})", self.interval)
    }
}

impl<F: Fn(&Work) -> Option<Box<HornWork>> + Send> Wrap<HornNode> for Instead<F> {
    fn output(
        &mut self,
        now: Time,
        mut output: Output<HornNode>,
        outputs: &mut Vec<Output<HornNode>>,
    ) {
        if self.interval.contains(now)
            && let Output::Spawn { request, .. } = &mut output
            && let Some(other) = request.work.work().and_then(&self.other)
        {
            request.work = NodeWork::Horn(other);
        }
        outputs.push(output);
    }
}

/// Its voters name a head that is not a block.
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
        // In a mesh it also forwards votes of other nodes, whose keys it does not have.
        if plan.host(message.validator.0) != self.node {
            return None;
        }
        let (vote, voter) = (&mut message.vote, message.validator);
        vote.head = digest::vote_message(plan.config.network(), vote);
        // Every voter names a head of its own, so that nodes have as many roots to look for.
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
            && let Inner::Whole(Message::Data { payload, .. } | Message::Relay { payload, .. }) =
                &mut message.inner
            && let Item::Vote(data) = payload
            && let Some(invented) = self.invented(data)
        {
            *data = invented;
        }
        outputs.push(output);
    }
}
