//! Blocks that gossip lost, and peers that refer to blocks that do not exist.

use super::*;
use crate::sync::{Answer, BLOCKS_BY_ROOT, Sync};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::VoteMsg;

/// How often a node looks for blocks that messages wait for.
const LOOK_NS: u64 = 10_000_000;
/// The first peer that is not a node. Their behaviours alternate by number.
const LIAR: u64 = 1_000;
const LIES: [Lie; 4] = [Lie::Silent, Lie::Empty, Lie::Other, Lie::Forged];

/// The response of a peer that is asked for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    Silent,
    Empty,
    /// A block other than the one requested.
    Other,
    /// That block, with an invalid signature.
    Forged,
}

/// A node's requests for blocks.
#[derive(Default)]
pub(super) struct Asker {
    sync: Sync,
    /// The requests: time, peer, block.
    asked: Vec<(Time, Peer, Root)>,
    /// When a response contained a block.
    brought: BTreeMap<Root, Time>,
}

impl World {
    /// Nodes that request blocks from each other, and from this many liars.
    fn fetching(nodes: u32, liars: u64) -> Self {
        let mut world = World::of(nodes, 4);
        for index in 0..world.nodes.len() {
            let mut asker = Asker::default();
            let others = (0..nodes as usize).filter(|other| *other != index);
            others.for_each(|other| asker.sync.peer_up(seen_as(other), false));
            (0..liars).for_each(|liar| asker.sync.peer_up(Peer(LIAR + liar), false));
            world.nodes[index].asker = Some(asker);
            world.push(world.now, index, Event::Look);
        }
        world
    }

    /// A node requests what messages wait for, as its loop does.
    pub(super) fn look(&mut self, index: usize) {
        self.push(self.now.saturating_add_ns(LOOK_NS), index, Event::Look);
        let node = &mut self.nodes[index];
        let (Some(engine), Some(asker)) = (&node.engine, &mut node.asker) else {
            return;
        };
        let missing: Vec<Missing> = engine.missing_blocks().collect();
        let questions = asker.sync.fetch(self.now, &missing);
        let arrival = self.now.saturating_add_ns(LATENCY_NS);
        let root = |data: &[u8]| Root::try_from(data).unwrap();
        let all = questions.iter();
        asker
            .asked
            .extend(all.map(|one| (self.now, one.peer, root(&one.data))));
        for question in questions {
            assert_eq!(question.name, BLOCKS_BY_ROOT);
            match question.peer.0 {
                LIAR.. => self.lie(index, question.peer, question.id, root(&question.data)),
                peer => {
                    let asked = Event::Asked(seen_as(index), question.id, question.data);
                    self.push(arrival, (peer - NODE.0) as usize, asked);
                }
            }
        }
    }

    /// A liar's response.
    fn lie(&mut self, index: usize, peer: Peer, id: u64, root: Root) {
        let answer = match LIES[(peer.0 - LIAR) as usize % LIES.len()] {
            Lie::Silent => return,
            Lie::Empty => Vec::new(),
            Lie::Other => self.nodes[0].blocks.values().take(1).cloned().collect(),
            Lie::Forged => {
                let all = self.nodes.iter().flat_map(|node| node.blocks.values());
                let format = self.format();
                let is_it = |data: &&Bytes| Header::peek(data, format).unwrap().root() == root;
                let found = all.filter(is_it).take(1);
                found.map(|data| self.forge(data)).collect()
            }
        };
        let at = self.now.saturating_add_ns(LATENCY_NS);
        self.push(at, index, Event::Answered(peer, id, Some(answer)));
    }

    fn format(&self) -> &alphorn_proto::wire::WireFormat {
        self.nodes[0].engine.as_ref().unwrap().horn().format()
    }

    /// A block with another signature of its proposer.
    fn forge(&self, data: &Bytes) -> Bytes {
        let header = Header::peek(data, self.format()).unwrap().encode();
        let mut forged = data.to_vec();
        // After version, kind and header.
        forged[2 + header.len()] ^= 1;
        forged.into()
    }

    pub(super) fn serve(&mut self, index: usize, from: Peer, id: u64, root: &[u8]) {
        let node = &self.nodes[index];
        let engine = node.engine.as_ref().unwrap();
        let header = engine.horn().chain().header(&root.try_into().unwrap());
        let block = header.and_then(|header| node.blocks.get(&header.slot));
        let chunks: Vec<Bytes> = block.into_iter().cloned().collect();
        let at = self.now.saturating_add_ns(LATENCY_NS);
        let answered = Event::Answered(seen_as(index), id, Some(chunks));
        self.push(at, (from.0 - NODE.0) as usize, answered);
    }

    pub(super) fn take_answer(
        &mut self,
        index: usize,
        from: Peer,
        id: u64,
        chunks: Option<Vec<Bytes>>,
    ) {
        let (standing, own) = self.standing(index);
        let node = &mut self.nodes[index];
        let horn = node.engine.as_ref().unwrap().horn();
        let knows = |root: &Root| horn.chain().header(root).is_some();
        let read = |data: &[u8]| {
            let header = Header::peek(data, horn.format()).ok()?;
            Some((header.slot, header.root()))
        };
        let asker = node.asker.as_mut().unwrap();
        let network = own.network;
        let (answer, _) = asker
            .sync
            .answer(id, chunks, network, standing, knows, read);
        if let Answer::Block(data) = answer {
            let (_, root) = read(&data).unwrap();
            asker.brought.insert(root, self.now);
            self.sequence += 1;
            let input = Input::Message {
                from,
                topic: Topic::Block,
                token: Token((1 << 63) | self.sequence),
                data,
            };
            self.feed(index, input);
        }
    }

    /// A liar sends a vote for a head, with an invalid signature.
    fn claim(&mut self, index: usize, liar: u64, validator: u32, slot: Slot, head: Root) {
        let horn = self.nodes[index].engine.as_ref().unwrap().horn();
        let epoch = slot.epoch(horn.config().epoch_slots);
        let validator = Validator(validator);
        let cell = horn.assignment(epoch).unwrap().cell_of(validator).unwrap();
        let vote = horn.chain().vote(slot, &horn.head()).unwrap();
        let message = VoteMsg {
            vote: Vote { head, ..vote },
            validator,
            signature: vec![7; 96].into(),
        };
        let data = message.encode(horn.format()).into();
        self.sequence += 1;
        let token = Token(self.sequence);
        let event = Event::Message(Peer(LIAR + liar), Topic::Vote { cell }, token, data);
        self.push(self.now, index, event);
    }

    fn phase(&self, slot: u64, phase: Phase) -> Time {
        let clock = *self.nodes[0].engine.as_ref().unwrap().horn().clock();
        clock.phase_start(Slot(slot), phase)
    }

    /// The block of a slot.
    fn root_of(&self, slot: u64) -> Root {
        let mut blocks = self
            .nodes
            .iter()
            .filter_map(|node| node.blocks.get(&Slot(slot)));
        Header::peek(blocks.next().unwrap(), self.format())
            .unwrap()
            .root()
    }

    /// Node 0 requested the lost block when the first vote of another node arrived, and had it one round trip later.
    fn assert_came_at_once(&self, root: &Root) {
        let votes = self.nodes[1..]
            .iter()
            .map(|node| node.votes[&Slot(LOST)][0]);
        let first = votes.min().unwrap().saturating_add_ns(LATENCY_NS);
        let came_ns = self.nodes[0].asker.as_ref().unwrap().brought[root].since_ns(first);
        assert!(came_ns <= 2 * LATENCY_NS + LOOK_NS, "{came_ns} ns");
    }

    fn judged(&self, index: usize, slot: u64) -> &Judged {
        let judged = &self.nodes[index].judged;
        judged.iter().find(|one| one.slot == Slot(slot)).unwrap()
    }

    fn counters(&self, index: usize) -> &alphorn_proto::horn::Counters {
        self.nodes[index].engine.as_ref().unwrap().horn().counters()
    }
}

const LOST: u64 = 5;

/// Gossip loses the block of a slot on its way to node 0.
fn lose(world: &mut World) {
    let times = slot_start(LOST).saturating_sub_ns(1)..slot_start(LOST + 1).saturating_sub_ns(1);
    world.lost = Some((times, Kind::Block, 0));
}

#[test]
fn a_block_that_gossip_lost_is_asked_for_and_the_votes_that_waited_count() {
    let mut deaf = World::of(NODES, 4);
    let mut world = World::fetching(NODES, 0);
    for world in [&mut deaf, &mut world] {
        lose(world);
        world.run_until(slot_start(LOST + 1).saturating_sub_ns(1));
    }
    let root = world.root_of(LOST);
    let chain = |world: &World| {
        let horn = world.nodes[0].engine.as_ref().unwrap().horn();
        horn.chain().header(&root).is_some()
    };
    assert!(!chain(&deaf) && chain(&world));
    world.assert_came_at_once(&root);
    let asker = world.nodes[0].asker.as_ref().unwrap();
    assert_eq!(asker.asked.len(), 1, "{:?}", asker.asked);
    let mut whole = World::of(NODES, 4);
    for world in [&mut deaf, &mut world, &mut whole] {
        world.run_until(slot_start(LOST + 4));
    }
    let [gone, waited] = [&deaf, &world].map(|world| world.counters(0).parked_expired);
    assert!(gone > 0 && waited == 0, "{gone} and {waited} expired");
    let accepted = |world: &World| world.counters(0).accepted[Kind::Vote as usize];
    let [deaf, fetched, whole] = [&deaf, &world, &whole].map(accepted);
    assert!(
        deaf < whole && fetched == whole,
        "{deaf}, {fetched}, {whole}"
    );
    // All but its own, which it cast before the block arrived.
    let others = u64::from(VALIDATORS - VALIDATORS / NODES);
    assert!(world.judged(1, LOST).credited >= others);
    assert_eq!(missed(&world.nodes[1]) + missed(&world.nodes[2]), 0);
}

#[test]
fn a_peer_that_invents_heads_gets_its_own_share_and_no_more() {
    const INVENTED: u32 = 40;
    let mut world = World::fetching(NODES, 4);
    lose(&mut world);
    world.run_until(world.phase(LOST, Phase::Vote).saturating_sub_ns(1));
    for liar in 0..4 {
        for head in 0..INVENTED / 4 {
            let validator = u32::from(liar as u8) * (INVENTED / 4) + head;
            let root = [100 + validator as u8; 32];
            world.claim(0, liar, validator, Slot(LOST), root);
        }
    }
    world.run_until(slot_start(LOST + 1).saturating_sub_ns(1));
    let root = world.root_of(LOST);
    world.assert_came_at_once(&root);
    let asker = world.nodes[0].asker.as_ref().unwrap();
    // Each root once from each peer, and no honest peer is asked for what a liar invented.
    let mut pairs: Vec<(Peer, Root)> = asker
        .asked
        .iter()
        .map(|(_, peer, root)| (*peer, *root))
        .collect();
    let questions = pairs.len();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), questions);
    let liars = |(peer, asked): &(Peer, Root)| (peer.0 >= LIAR) == (*asked != root);
    assert!(pairs.iter().all(liars), "{pairs:?}");
    // A silent one was asked once.
    let silent = pairs.iter().filter(|(peer, _)| peer.0 == LIAR).count();
    assert_eq!(silent, 1);
}

/// Each liar refers to the lost block before any other peer does, and does not provide it.
#[test]
fn a_peer_that_lies_does_not_use_up_the_only_question() {
    let mut world = World::fetching(NODES, 4);
    lose(&mut world);
    world.run_until(world.phase(LOST, Phase::Vote).saturating_sub_ns(1));
    let root = world.root_of(LOST);
    for liar in 0..4 {
        world.claim(0, liar, liar as u32, Slot(LOST), root);
    }
    world.run_until(slot_start(LOST + 1).saturating_sub_ns(1));
    let horn = world.nodes[0].engine.as_ref().unwrap().horn();
    assert!(horn.chain().header(&root).is_some());
    let asker = world.nodes[0].asker.as_ref().unwrap();
    let asked: Vec<Peer> = asker.asked.iter().map(|(_, peer, _)| *peer).collect();
    assert_eq!(asked.len(), 5, "{asked:?}");
    assert_eq!(asked[..4], [0, 1, 2, 3].map(|liar| Peer(LIAR + liar)));
    // A peer that forged a block is penalised as for one that it gossips.
    assert!(world.nodes[0].points[&Peer(LIAR + 3)] >= 20);
    world.run_until(slot_start(LOST + 4));
    let others = u64::from(VALIDATORS - VALIDATORS / NODES);
    assert!(world.judged(1, LOST).credited >= others);
}
