//! Which blocks are stored for peers that request them and for the next start, and which votes are forwarded.

use super::*;
use crate::begin::begin;
use crate::blocks::{Blocks, RANGE_BYTES_MAX, Stored};
use crate::local::Posted;
use alphorn_proto::wire::{Body, VoteMsg, digest};
use alphorn_scheme::{Role, SignItem, SignJob};
use alphorn_types::Validator;
use redb::backends::InMemoryBackend;
use tokio::sync::oneshot;

/// A peer that is not a node.
const OTHER: Peer = Peer(1_000);
/// A slot whose proposer is not on node 0.
const SLOT: u64 = 5;

impl World {
    /// A block of a slot's proposer without entries, and with its true signature.
    fn made(&self, slot: u64, parent: Root, filler: &[u8]) -> Bytes {
        let node = &self.nodes[0];
        let horn = node.engine.as_ref().unwrap().horn();
        let format = horn.format();
        let body = Body {
            entries: Vec::new(),
            bundle: Bytes::from([]),
            filler: filler.into(),
        };
        let encoded = body.encode(format, &no_references).unwrap();
        let (slot, proposer) = (Slot(slot), Validator(slot as u32));
        let header = Header {
            slot,
            proposer,
            parent,
            body: digest::body_digest(&encoded),
        };
        let message = digest::block_message(horn.config().network(), &header.root());
        let signature = self.signed(slot, proposer, Role::Block, message);
        let block = Block {
            header,
            signature,
            body,
        };
        block.encode(format, &no_references).unwrap().into()
    }

    /// A validator's signature in a slot.
    fn signed(&self, slot: Slot, validator: Validator, role: Role, message: [u8; 32]) -> Bytes {
        let env = &self.nodes[0].env;
        let job = SignJob::new(slot, vec![SignItem::new(validator, role, message)]);
        job.admit(&MemoryWatermark::new(VALIDATORS)).unwrap();
        let signed = Work::Sign(job).run(env, &mut Ctx::single(&mut Scratch::default()));
        let Product::Signed(signatures) = signed.unwrap().product else {
            panic!("no signature");
        };
        signatures.iter().next().unwrap().into()
    }

    /// A validator's vote of the slot for the head of node 0.
    fn vote(&self, validator: Validator) -> Kept {
        let slot = Slot(SLOT);
        let horn = self.nodes[0].engine.as_ref().unwrap().horn();
        let vote = horn.chain().vote(slot, &horn.head()).unwrap();
        let message = digest::vote_message(horn.config().network(), &vote);
        let message = VoteMsg {
            vote,
            validator,
            signature: self.signed(slot, validator, Role::Vote, message),
        };
        let assignment = horn.assignment(slot.epoch(4)).unwrap();
        let cell = assignment.cell_of(validator).unwrap();
        Kept {
            slot,
            topic: Topic::Vote { cell },
            data: message.encode(horn.format()).into(),
            own: false,
        }
    }

    /// Node 0 receives a block from a peer that is not a node.
    fn bring(&mut self, data: Bytes) {
        self.sequence += 1;
        let token = Token((1 << 63) | self.sequence);
        let event = Event::Message(OTHER, Topic::Block, token, data);
        self.push(self.now, 0, event);
    }
}

/// The first milliseconds of the slot.
fn in_slot(ms: u64) -> Time {
    slot_start(SLOT).saturating_add_ns(ms * 1_000_000)
}

#[test]
fn blocks_that_wait_for_invented_parents_keep_no_other_from_being_kept() {
    let mut world = World::new();
    world.run_until(slot_start(SLOT).saturating_sub_ns(100_000_000));
    for parent in 0..=64 {
        world.bring(world.made(SLOT, [100 + parent; 32], &[0]));
    }
    world.run_until(in_slot(500));
    let node = &world.nodes[0];
    let horn = node.engine.as_ref().unwrap().horn();
    assert_eq!(horn.missing_blocks().count(), 65, "they wait");
    let head = horn.head();
    let kept = node.blocks.get(&Slot(SLOT)).expect("it is kept");
    assert_eq!(Header::peek(kept, horn.format()).unwrap().root(), head);
    world.run_until(slot_start(SLOT + 2));
    let engine = world.nodes[0].engine.as_ref().unwrap();
    assert!(engine.awaited.is_empty(), "each has had its verdict");
}

/// The second one is evidence, and others may build on it.
#[test]
fn both_blocks_of_an_equivocator_are_kept() {
    let mut world = World::new();
    world.nodes[0].has_twin = true;
    world.run_until(in_slot(500));
    let format = world.nodes[0]
        .engine
        .as_ref()
        .unwrap()
        .horn()
        .format()
        .clone();
    let first = world.nodes[0].blocks[&Slot(SLOT)].clone();
    let parent = Header::peek(&first, &format).unwrap().parent;
    let second = world.made(SLOT, parent, &[1]);
    assert_ne!(first, second);
    world.bring(second.clone());
    world.run_until(in_slot(600));
    let node = &world.nodes[0];
    let root = Header::peek(&second, &format).unwrap().root();
    let chain = node.engine.as_ref().unwrap().horn().chain();
    assert!(chain.header(&root).is_some());
    assert_eq!(node.blocks[&Slot(SLOT)], second, "kept after the first");
}

/// They are larger than the room in a response to a peer, and the chain builds on the one later by root.
#[test]
fn both_large_blocks_of_an_equivocator_are_restored() {
    let world = World::new();
    let mut horn = horn(0, NODES, 4);
    let stored = |slot: u64, parent: Root, filler: &[u8]| {
        let data = world.made(slot, parent, filler);
        let root = Header::peek(&data, horn.format()).unwrap().root();
        let slot = Slot(slot);
        Stored { slot, root, data }
    };
    let half = |byte: u8| stored(SLOT, horn.head(), &vec![byte; RANGE_BYTES_MAX / 2]);
    let (first, second) = (half(0), half(1));
    let child = stored(SLOT + 1, first.root.max(second.root), &[]);
    let disk = Blocks::open_backend(InMemoryBackend::new).unwrap();
    disk.put(&[first, second, child.clone()], &[]).unwrap();
    let begun = begin(&mut horn, &disk, None, None).unwrap();
    assert_eq!(begun.blocks, 3);
    assert!(horn.chain().header(&child.root).is_some());
}

#[test]
fn votes_are_kept_and_sent_on_however_many_messages_wait() {
    let mut world = World::new();
    world.lost = Some((slot_start(SLOT)..slot_start(SLOT + 1), Kind::Vote, 0));
    world.run_until(in_slot(1_000));
    let slot = Slot(SLOT);
    let [posted, brought] = [1, 2].map(|validator| world.vote(Validator(validator)));
    let node = &mut world.nodes[0];
    let own = node.votes[&slot].len();
    let engine = node.engine.as_mut().unwrap();
    for number in 0..10_000 {
        let token = Token(u64::MAX - number);
        engine.await_message(token, posted.topic, &posted.data);
    }
    // A message from a peer then waits for its verdict like all others.
    engine.await_message(Token(7), brought.topic, &brought.data);
    assert!(engine.messages.contains_key(&Token(7)));
    let (reply, mut heard) = oneshot::channel();
    let token = Token(1 << 63);
    node.locals.posted(token, posted.clone(), reply);
    let event = Event::Message(LOCAL, posted.topic, token, posted.data);
    world.push(world.now, 0, event);
    world.run_until(in_slot(1_100));
    assert_eq!(heard.try_recv(), Ok(Posted::Durable));
    assert_eq!(world.nodes[0].votes[&slot].len(), own + 1);
}
