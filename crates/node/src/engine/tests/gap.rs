//! A gap of more blocks than one response holds.

use super::*;
use crate::sync::{Answer, Standing, Status, Sync, decode_range};

/// Slots without contact to the other node. Each node proposes in half of them.
const APART: u64 = 300;

impl World {
    pub(super) fn standing(&self, index: usize) -> (Standing, Status) {
        let horn = self.nodes[index].engine.as_ref().unwrap().horn();
        let chain = horn.chain();
        let slot = horn.clock().slot_at(self.now).unwrap();
        let (head, finalised) = (horn.head(), chain.finalised());
        let standing = Standing {
            slot,
            finalised_slot: finalised.slot,
        };
        let status = Status {
            network: horn.config().network().0,
            slot,
            head_slot: chain.header(&head).unwrap().slot,
            head,
            finalised_slot: finalised.slot,
            finalised: finalised.root,
            time_ms: self.now.as_nanos() / 1_000_000,
        };
        (standing, status)
    }

    /// A node asks the other one for its status, and for the blocks it lacks, as its loop does. Returns how many blocks
    /// arrived.
    fn ask(&mut self, index: usize, sync: &mut Sync) -> usize {
        let (standing, own) = self.standing(index);
        let (_, theirs) = self.standing(1 - index);
        let horn = self.nodes[index].engine.as_ref().unwrap().horn();
        let knows = |root: &Root| horn.chain().header(root).is_some();
        let read = |data: &[u8]| {
            let header = Header::peek(data, horn.format()).ok()?;
            Some((header.slot, header.root()))
        };
        let Some(asked) = sync.poll(self.now.as_nanos(), standing) else {
            return 0;
        };
        let status = vec![Bytes::from(theirs.encode().as_slice())];
        let network = own.network;
        let (_, asked) = sync.answer(asked.id, Some(status), network, standing, knows, read);
        let Some(asked) = asked else {
            return 0;
        };
        let (from, count) = decode_range(&asked.data).unwrap();
        let kept = self.nodes[1 - index].blocks.range(from..);
        let blocks = kept.take(usize::from(count)).map(|(_, data)| data.clone());
        let blocks: Vec<Bytes> = blocks.collect();
        let came = blocks.len();
        let (answer, _) = sync.answer(asked.id, Some(blocks), network, standing, knows, read);
        let Answer::Blocks(blocks) = answer else {
            panic!("blocks were asked for, not {answer:?}");
        };
        for data in blocks {
            self.sequence += 1;
            let token = Token((1 << 63) | self.sequence);
            let event = Event::Message(NODE, Topic::Block, token, data);
            self.push(self.now, index, event);
        }
        came
    }
}

/// Neither node can finalise anything alone, so the missing blocks begin after genesis and are more than a response
/// holds.
#[test]
fn a_gap_longer_than_an_answer_is_filled() {
    let mut world = World::of(2, 4);
    world.parted = true;
    world.run_until(slot_start(APART).saturating_add_ns(1_300_000_000));
    let blocks = |world: &World, index: usize| world.nodes[index].blocks.len();
    let own = [blocks(&world, 0), blocks(&world, 1)];
    assert!(own.iter().all(|own| *own > 128), "{own:?}");
    world.parted = false;
    let mut syncs = [Sync::default(), Sync::default()];
    syncs
        .iter_mut()
        .for_each(|sync| sync.peer_up(Peer(1), false));
    let mut asked = 0;
    for slot in APART + 1..APART + 12 {
        for (index, sync) in syncs.iter_mut().enumerate() {
            asked += usize::from(world.ask(index, sync) > 0);
        }
        world.run_until(slot_start(slot).saturating_add_ns(1_300_000_000));
    }
    let engine = |index: usize| world.nodes[index].engine.as_ref().unwrap();
    assert_eq!(engine(0).horn().head(), engine(1).horn().head());
    let finalised = engine(0).horn().chain().finalised();
    assert!(finalised.slot > Slot(APART), "{finalised:?}");
    assert!(asked > 2, "one answer was enough");
}
