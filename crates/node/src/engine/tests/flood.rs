//! Ten forged votes for each honest one, from senders that are disconnected and return under new names.

use super::*;
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::VoteMsg;
use alphorn_types::Validator;

/// The points at which the network bans a host, see `alphorn_net::Handle::report`.
const BAN_POINTS: u32 = 100;
/// The first number of a sender of forged votes. Each wave has its own.
const FLOODERS: u64 = 1_000;
/// Waves of a slot's vote phase, a tenth of a second apart, and forged votes of each validator in one.
const WAVES: u64 = 5;
const FORGED: u32 = 2;
/// Time for a lane to test a vote: ten times the honest ones in a quarter of the phase.
const VOTE_NS: u64 = 400_000;

/// Forged votes that reached a node, and those whose sender was gone.
#[derive(Default)]
struct Sent {
    taken: u64,
    refused: u64,
}

impl World {
    /// Sends every node forged votes of all validators, from a sender of its own and from those of the slot's earlier
    /// waves that are not banned.
    fn wave(&mut self, slot: Slot, wave: u64, sent: &mut Sent) {
        for index in 0..self.nodes.len() {
            for earlier in 0..=wave {
                let peer = Peer(FLOODERS + slot.0 * WAVES + earlier);
                let points = self.nodes[index].points.get(&peer);
                if points.is_some_and(|points| *points >= BAN_POINTS) {
                    sent.refused += 1;
                    continue;
                }
                for (topic, data) in self.forged(index, slot, wave) {
                    sent.taken += 1;
                    self.sequence += 1;
                    let event = Event::Message(peer, topic, Token(self.sequence), data);
                    self.push(self.now, index, event);
                }
            }
        }
    }

    /// Unsigned votes: first for a node's head, before the honest ones arrive, then for the block before it, since a
    /// second vote for the same is rejected unread.
    fn forged(&self, index: usize, slot: Slot, wave: u64) -> Vec<(Topic, Bytes)> {
        let horn = self.nodes[index].engine.as_ref().unwrap().horn();
        let epoch = slot.epoch(horn.config().epoch_slots);
        let assignment = horn.assignment(epoch).unwrap();
        let chain = horn.chain();
        let head = match wave {
            0 => horn.head(),
            _ => chain.header(&horn.head()).unwrap().parent,
        };
        let vote = chain.vote(slot, &head).unwrap();
        let one = |v: u32, k: u32| {
            let validator = Validator(v);
            let cell = assignment.cell_of(validator).unwrap();
            let signature = vec![(FORGED * wave as u32 + k) as u8; 96];
            let message = VoteMsg {
                vote,
                validator,
                signature: signature.into(),
            };
            (Topic::Vote { cell }, message.encode(horn.format()).into())
        };
        let all = (0..VALIDATORS).flat_map(|v| (0..FORGED).map(move |k| (v, k)));
        all.map(|(v, k)| one(v, k))
            .filter(|(topic, _)| self.nodes[index].topics.contains(topic))
            .collect()
    }
}

#[test]
fn honest_votes_come_through_a_flood_and_its_senders_are_sent_away() {
    const SLOTS: u64 = 10;
    let mut world = World::new();
    for node in &mut world.nodes {
        node.lane = Some((Time::ZERO, VOTE_NS));
    }
    let mut sent = Sent::default();
    for slot in (2..SLOTS).map(Slot) {
        let start = slot_start(slot.0);
        let clock = *world.nodes[0].engine.as_ref().unwrap().horn().clock();
        let votes = clock.phase_start(slot, Phase::Vote);
        assert!(votes > start);
        for wave in 0..WAVES {
            world.run_until(votes.saturating_add_ns(wave * 100_000_000));
            world.wave(slot, wave, &mut sent);
        }
    }
    world.run_until(slot_start(SLOTS + 4));
    for node in &world.nodes {
        let flooded = node
            .judged
            .iter()
            .filter(|judged| (2..SLOTS).contains(&judged.slot.0));
        let credited: u64 = flooded.map(|judged| judged.credited).sum();
        let honest = (SLOTS - 2) * u64::from(VALIDATORS);
        assert!(10 * credited >= 9 * honest, "{credited} of {honest} votes");
        let senders = (SLOTS - 2) * WAVES;
        assert_eq!(node.points.len() as u64, senders);
        assert!(node.points.values().all(|points| *points >= BAN_POINTS));
        assert!(node.verdicts["reject"] >= 2 * senders);
    }
    assert!(sent.refused > 0 && sent.taken >= 10 * (SLOTS - 2) * u64::from(VALIDATORS));
}
