//! Proposers that censor, propose twice, or forge blocks of others.

use super::broadcasts::Broadcasts;
use super::draw::drawn;
use crate::fault::{Flooding, Interval, Parameters, Wrap, send_to};
use crate::gossip::{self, DenseId, Message, Peers};
use crate::horn::node::{HornDelivery, HornNode};
use crate::horn::{BlockBody, HornMessage, Inner, Item, Plan};
use crate::role::{Input, Output};
use alphorn_proto::Peer;
use alphorn_proto::horn::{KIND_BLOCK, KIND_COLLECTION};
use alphorn_proto::wire::{Block, Body, Entry, Header, Root, digest, no_references};
use alphorn_scheme::{Bytes, Role};
use alphorn_types::{Slot, Time, Validator};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Its proposers leave out the collections of some committees, except those of its own collectors. Its node ignores
/// them in slots whose block it proposes.
#[derive(Debug)]
pub(super) struct Censor {
    plan: Arc<Plan>,
    node: u32,
    interval: Interval,
    /// Ascending.
    committees: Vec<u32>,
    unheard: Broadcasts,
}

impl Censor {
    pub(super) fn new(node: &HornNode, parameters: &Parameters) -> Self {
        let plan = node.plan().clone();
        let committees = plan.config.layout.committees().into();
        Censor {
            node: node.node(),
            interval: parameters.interval,
            committees: drawn(committees, parameters.percent, parameters.key),
            unheard: Broadcasts::default(),
            plan,
        }
    }

    fn leaves_out(&mut self, message: &HornMessage) -> bool {
        let (plan, node, interval) = (&self.plan, self.node, self.interval);
        let committees = &self.committees;
        let censors = |slot: Slot, committee: u32| {
            let proposes = plan.host(plan.proposer(slot)) == node;
            let lasts = interval.contains(plan.slot_start(plan.block_slot(slot)));
            proposes && lasts && committees.contains(&committee)
        };
        match message.item() {
            Some(Item::Collection(body)) => censors(body.slot, body.unit.committee.into()),
            Some(_) => false,
            None => self.unheard.have(message, |subject| {
                subject.kind == KIND_COLLECTION && censors(Slot(subject.slot), subject.index)
            }),
        }
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

/// A signed block without entries.
pub(super) fn empty_block(
    plan: &Plan,
    header: Header,
    filler: Bytes,
    sign: impl FnOnce(&Root) -> Option<Bytes>,
) -> Option<(Root, Bytes)> {
    signed_block(plan, header, Vec::new(), filler, sign)
}

/// A signed block with these entries.
pub(super) fn signed_block(
    plan: &Plan,
    header: Header,
    entries: Vec<Entry>,
    filler: Bytes,
    sign: impl FnOnce(&Root) -> Option<Bytes>,
) -> Option<(Root, Bytes)> {
    let body = Body {
        entries,
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

/// A whole message with a block of a slot that has no entries.
fn block_message(plan: &Plan, id: u32, slot: Slot, root: Root, data: Bytes) -> HornMessage {
    let body = BlockBody {
        slot,
        root,
        entries: Vec::new(),
        data,
    };
    HornMessage::data(plan.block_topic(), DenseId(id), Item::Block(Arc::new(body)))
}

/// Its proposers sign a second block, without votes. Some neighbours get it in place of the first block, or before
/// the first block's pieces. The second block is short, so it travels whole.
#[derive(Debug)]
pub(super) struct TwoBlocks {
    plan: Arc<Plan>,
    node: u32,
    /// Receivers of the second block.
    others: BTreeSet<Peer>,
    /// The last first block, and the message with the second.
    last: Option<(Slot, Root, HornMessage)>,
}

impl TwoBlocks {
    pub(super) fn new(plan: Arc<Plan>, node: u32, others: &Peers) -> Self {
        TwoBlocks {
            plan,
            node,
            others: others.iter().collect(),
            last: None,
        }
    }

    fn second(&self, first: &BlockBody) -> Option<HornMessage> {
        let plan = &self.plan;
        let header = Header::peek(&first.data, &plan.format).ok()?;
        let sign = |root: &Root| {
            let message = digest::block_message(plan.config.network(), root);
            (plan.bench).sign(header.slot, header.proposer, Role::Block, message)
        };
        let DenseId(id) = plan.block_id(header.slot)?;
        let (root, data) = empty_block(plan, header, Bytes::from([]), sign)?;
        // Lower numbers are those of the first blocks.
        let id = plan.blocks().count() as u32 + id;
        Some(block_message(plan, id, header.slot, root, data))
    }

    /// The second block, if a message carries the first one, whole or as its header.
    fn in_place_of(&self, message: &HornMessage) -> Option<HornMessage> {
        let (slot, root, second) = self.last.as_ref()?;
        let is_first = match &message.inner {
            // In a grid its source sends it to relay.
            Inner::Whole(
                Message::Data {
                    payload: Item::Block(body),
                    ..
                }
                | Message::Relay {
                    payload: Item::Block(body),
                    ..
                },
            ) => body.root == *root,
            Inner::Coded { message, .. } => match &**message {
                alphorn_broadcast::Message::Header(announce) => {
                    let subject = &announce.header.subject;
                    let is_own = self.plan.host(subject.source) == self.node;
                    is_own && subject.kind == KIND_BLOCK && subject.slot == slot.0
                }
                _ => false,
            },
            _ => false,
        };
        let mut second = is_first.then(|| second.clone())?;
        if let (Inner::Whole(Message::Relay { .. }), Inner::Whole(Message::Data { id, payload })) =
            (&message.inner, &second.inner)
        {
            let (id, payload) = (*id, payload.clone());
            second.inner = Inner::Whole(Message::Relay { id, payload });
        }
        Some(second)
    }
}

impl Wrap<HornNode> for TwoBlocks {
    fn output(&mut self, _: Time, output: Output<HornNode>, outputs: &mut Vec<Output<HornNode>>) {
        if let Output::Deliver(HornDelivery::Proposed(first)) = &output {
            let second = self.second(first);
            self.last = second.map(|second| (first.slot, first.root, second));
        }
        let Output::Send {
            to,
            message,
            priority,
        } = &output
        else {
            return outputs.push(output);
        };
        let Some(second) = self.in_place_of(message) else {
            return outputs.push(output);
        };
        let to = |other| {
            let others = &self.others;
            to.iter().filter(move |peer| others.contains(peer) == other)
        };
        send_to(to(true), second, *priority, outputs);
        match message.item() {
            Some(_) => send_to(to(false), message.clone(), *priority, outputs),
            None => outputs.push(output),
        }
    }
}

/// Sends all neighbours whole blocks in the name of the slot's proposer, with an invalid signature, on top of the
/// last block that it took.
#[derive(Debug)]
pub(super) struct ForgedBlocks {
    plan: Arc<Plan>,
    /// The parent, with its slot.
    parent: Option<(Slot, Root)>,
    forged: u32,
}

impl ForgedBlocks {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        ForgedBlocks {
            plan,
            parent: None,
            forged: 0,
        }
    }

    fn next(&mut self, now: Time) -> Option<HornMessage> {
        let plan = &self.plan;
        let slot = plan
            .followed()
            .take_while(|slot| plan.slot_start(*slot) <= now);
        let slot = slot.last()?;
        // A block whose parent is not of an earlier slot is refused before its signature is verified.
        let (before, parent) = self.parent.filter(|(before, _)| *before < slot)?;
        self.forged += 1;
        // As the filler, it gives each forged block a root of its own.
        let number = Bytes::from(self.forged.to_be_bytes());
        let header = Header {
            slot,
            proposer: Validator(plan.proposer_of(slot)),
            parent,
            body: [0; 32],
        };
        let none = Bytes::from(vec![before.0 as u8; plan.format.duty_signature_bytes]);
        let (root, data) = empty_block(plan, header, number, |_| Some(none))?;
        // Lower numbers are those of first and second blocks.
        let id = 2 * plan.blocks().count() as u32 + self.forged;
        Some(block_message(plan, id, slot, root, data))
    }
}

impl Wrap<HornNode> for ForgedBlocks {
    fn output(&mut self, _: Time, output: Output<HornNode>, outputs: &mut Vec<Output<HornNode>>) {
        if let Output::Deliver(HornDelivery::Imported(body)) = &output {
            self.parent = self.parent.max(Some((body.slot, body.root)));
        }
        outputs.push(output);
    }
}

impl Flooding<HornNode> for ForgedBlocks {
    const PRIORITY: u8 = gossip::Priority::Own as u8;

    fn messages(&mut self, now: Time) -> Vec<HornMessage> {
        self.next(now).into_iter().collect()
    }
}
