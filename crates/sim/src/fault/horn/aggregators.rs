//! Aggregators that leave out votes.

use crate::fault::{Interval, Parameters, Wrap, send_to};
use crate::graph::Graph;
use crate::horn::node::HornNode;
use crate::horn::{HornMessage, HornWork, Item, NodeWork, Plan};
use crate::latency::mix;
use crate::role::Output;
use alphorn_proto::Peer;
use alphorn_proto::wire::VoteMsg;
use alphorn_scheme::{AggregateJob, Tail, Work};
use alphorn_types::{Cell, Time};
use std::sync::Arc;

/// Its aggregators leave out some votes of other nodes, the same ones at all of them. If it hides, votes of its own
/// validators go only to its own aggregators of a cell, where it has any. With fewer votes left out than hidden,
/// theirs are the largest aggregates.
#[derive(Debug)]
pub(super) struct DropVotes {
    plan: Arc<Plan>,
    graph: Arc<Graph>,
    node: u32,
    interval: Interval,
    percent: u64,
    hides: bool,
    key: u64,
    allies: Vec<bool>,
}

impl DropVotes {
    pub(super) fn new(node: &HornNode, parameters: &Parameters) -> Self {
        let plan = node.plan().clone();
        let mut allies = vec![false; plan.nodes as usize];
        for ally in parameters.allies.iter() {
            allies[*ally as usize] = true;
        }
        DropVotes {
            graph: node.graph().clone(),
            node: node.node(),
            interval: parameters.interval,
            percent: parameters.percent,
            hides: parameters.hides,
            key: parameters.key,
            allies,
            plan,
        }
    }

    fn is_own(&self, validator: u32) -> bool {
        self.allies[self.plan.host(validator) as usize]
    }

    /// The job without the victims' votes; none if there are no victims.
    fn without(&self, job: &AggregateJob) -> Option<Box<HornWork>> {
        let plan = &self.plan;
        let voter = |vote: &(u32, Tail)| plan.assignment.member(job.statement.first + vote.0).0;
        let votes = job.votes.iter().cloned();
        let (mut kept, mut others): (Vec<_>, Vec<_>) =
            votes.partition(|vote| self.is_own(voter(vote)));
        let most = match self.hides {
            true => kept.len().saturating_sub(1),
            false => others.len(),
        };
        let victims = (others.len() * self.percent as usize / 100).min(most);
        // The key is that of the fault, so all its nodes put voters into the same order.
        others.sort_by_key(|vote| mix([self.key, voter(vote).into(), 0, 0]));
        kept.extend(others.drain(victims..));
        // A job has its votes in order of their positions.
        kept.sort_unstable_by_key(|(position, _)| *position);
        // There is no aggregate of zero votes.
        (victims > 0 && !kept.is_empty()).then(|| {
            plan.bench.job(Work::Aggregate(AggregateJob {
                votes: kept,
                ..job.clone()
            }))
        })
    }

    /// Whether a message is an ally's vote for a cell in which allies aggregate.
    fn is_hidden(&self, message: &HornMessage) -> bool {
        let Some(Item::Vote(data)) = message.item() else {
            return false;
        };
        let Ok(vote) = VoteMsg::decode(data, &self.plan.format) else {
            return false;
        };
        let cell = self.plan.assignment.cell_of(vote.validator);
        let serves = |cell: Cell| {
            let servers = self.plan.servers_of(vote.vote.slot, cell.into());
            servers.iter().any(|server| self.is_own(server.validator))
        };
        self.is_own(vote.validator.0) && cell.is_some_and(serves)
    }

    fn is_ally(&self, peer: &Peer) -> bool {
        let node = self.graph.peers(self.node).get(peer.0 as usize);
        node.is_some_and(|node| self.allies[*node as usize])
    }
}

impl Wrap<HornNode> for DropVotes {
    fn output(
        &mut self,
        now: Time,
        mut output: Output<HornNode>,
        outputs: &mut Vec<Output<HornNode>>,
    ) {
        if !self.interval.contains(now) {
            return outputs.push(output);
        }
        match &mut output {
            Output::Spawn { request, .. } => {
                if let Some(Work::Aggregate(job)) = request.work.work()
                    && let Some(fewer) = self.without(job)
                {
                    request.work = NodeWork::Horn(fewer);
                }
            }
            Output::Send {
                to,
                message,
                priority,
            } if self.hides && self.is_hidden(message) => {
                let allies = to.iter().filter(|peer| self.is_ally(peer));
                return send_to(allies, message.clone(), *priority, outputs);
            }
            _ => {}
        }
        outputs.push(output);
    }
}
