//! Proposers that censor, propose twice, or are none.

use super::{Pace, drawn};
use crate::fault::{Interval, Parameters, Wrap};
use crate::gossip::{self, DenseId, Message, Peers};
use crate::horn::node::HornNode;
use crate::horn::{BlockBody, HornMessage, Inner, Item, Plan, TopicId};
use crate::role::{Input, Output};
use alphorn_proto::Peer;
use alphorn_proto::wire::{Block, Body, Header, Root, digest, no_references};
use alphorn_scheme::{Bytes, Role};
use alphorn_types::{Slot, Time, Validator};
use std::sync::Arc;

/// Its proposers leave out the collections of some committees, those of its own collectors aside: its node does
/// not hear them, in slots whose block it proposes.
#[derive(Debug)]
pub(super) struct Censor {
    plan: Arc<Plan>,
    node: u32,
    interval: Interval,
    /// Ascending.
    committees: Vec<u32>,
}

impl Censor {
    pub(super) fn new(node: &HornNode, parameters: &Parameters) -> Self {
        let plan = node.plan().clone();
        let committees = plan.config.layout.committees().into();
        Censor {
            node: node.node(),
            interval: parameters.interval,
            committees: drawn(committees, parameters.percent, parameters.key),
            plan,
        }
    }

    fn leaves_out(&self, message: &HornMessage) -> bool {
        let Some(Item::Collection(body)) = message.item() else {
            return false;
        };
        let plan = &self.plan;
        let proposes = plan.host(plan.proposer(body.slot)) == self.node;
        let lasts = self
            .interval
            .contains(plan.slot_start(plan.block_slot(body.slot)));
        proposes && lasts && self.committees.contains(&body.committee.into())
    }
}

impl Wrap<HornNode> for Censor {
    fn input(
        &mut self,
        _: Time,
        input: Input<HornNode>,
        _: &mut Vec<Output<HornNode>>,
    ) -> Option<Input<HornNode>> {
        match &input {
            Input::Message { message, .. } if self.leaves_out(message) => None,
            _ => Some(input),
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

/// Its proposers sign a second block, without votes: neighbours with odd numbers get that one first.
#[derive(Debug)]
pub(super) struct TwoBlocks {
    pub(super) plan: Arc<Plan>,
    pub(super) node: u32,
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
            id: DenseId(plan.blocks().count() as u32 + id),
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
            Inner::Whole(Message::Data {
                id,
                payload: Item::Block(body),
            }) => self.second(*id, body),
            _ => None,
        };
        let Some(inner) = second.map(Inner::Whole) else {
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

/// Sends all neighbours blocks of the slot's proposer with a signature that is none, on the last block that
/// it saw.
#[derive(Debug)]
pub(super) struct ForgedBlocks {
    pub(super) plan: Arc<Plan>,
    pub(super) pace: Pace,
    pub(super) peers: Arc<[Peer]>,
    /// With its slot.
    pub(super) parent: Option<(Slot, Root)>,
    pub(super) forged: u32,
}

impl ForgedBlocks {
    fn see(&mut self, message: &HornMessage) {
        if let Inner::Whole(Message::Data {
            payload: Item::Block(body),
            ..
        }) = &message.inner
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
            proposer: Validator(plan.proposer_of(slot)),
            parent,
            body: [0; 32],
        };
        let none = Bytes::from(vec![before.0 as u8; plan.format.duty_signature_bytes]);
        let (root, data) = empty_block(plan, header, number, |_| Some(none))?;
        let inner = Inner::Whole(Message::Data {
            id: DenseId(2 * plan.blocks().count() as u32 + self.forged),
            payload: Item::Block(Arc::new(BlockBody {
                slot,
                root,
                entries: Vec::new(),
                data,
            })),
        });
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
