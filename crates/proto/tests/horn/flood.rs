//! Everybody's votes at one machine, beside forged ones of everybody: no vote is lost to them, and
//! what is held stays below the bounds of the configuration.

use crate::forge::Forge;
use crate::net::{Net, SUMS, config, servers};
use alphorn_proto::horn::{Config, Held, SchemeInfo, Selection};
use alphorn_proto::slot::{Phase, Timing};
use alphorn_proto::wire::{Topic, Vote};
use alphorn_proto::{Token, Verdict};
use alphorn_types::{Epoch, Layout, Slot, Validator};
use std::collections::BTreeSet;

/// Validators, committees, cells of a committee; slots; forged votes for each honest one.
struct Scale {
    layout: (u32, u16, u16),
    slots: u64,
    forged: u32,
}

const SCALE: Scale = match cfg!(feature = "soak") {
    false => Scale {
        layout: (1 << 14, 4, 8),
        slots: 4,
        forged: 10,
    },
    true => Scale {
        layout: (1 << 20, 32, 64),
        slots: 100,
        forged: 2,
    },
};

/// Peers that bring honest votes, and from here on those that bring forged ones.
const HONEST_PEERS: u32 = 8;
const FLOODERS: usize = 500;
/// Verification of a batch takes so long that the next ones have to wait.
const VERIFY_NS: u64 = 100_000_000;

/// A machine that serves for everybody and votes for nobody.
struct World {
    net: Net,
    config: Config,
    info: SchemeInfo,
    forged: u64,
    most: Held,
}

impl World {
    fn new(layout: Layout, timing: Timing) -> Self {
        let (mut config, info) = config(SUMS, layout);
        config.timing = timing;
        config.selection = Selection::Rank;
        let local = servers(layout.validators());
        let net = Net::new(SUMS, &config, &info, vec![local]);
        World {
            net,
            config,
            info,
            forged: 0,
            most: Held::default(),
        }
    }

    fn forge(&self, slot: Slot) -> Forge {
        let epoch: Epoch = slot.epoch(self.config.epoch_slots);
        let assignment = self.net.nodes[0].horn.assignment(epoch).unwrap();
        Forge::new(SUMS, &self.config, &self.info, assignment)
    }

    fn run_to(&mut self, slot: Slot, phase: Phase, delay_ns: u64) {
        let start = self.net.nodes[0].horn.clock().phase_start(slot, phase);
        self.net.run_until(start.saturating_add_ns(delay_ns));
        self.account();
    }

    /// Holds what is held against the bounds.
    fn account(&mut self) {
        let horn = &self.net.nodes[0].horn;
        let (held, max) = (horn.held(), self.config.held_max(&self.info, horn.local()));
        let parts = |held: &Held| {
            let Held {
                votes,
                voters,
                aggregates,
                collections,
                proposals,
                waiting,
            } = *held;
            [votes, voters, aggregates, collections, proposals, waiting]
        };
        let fits = parts(&held)
            .iter()
            .zip(parts(&max))
            .all(|(now, max)| *now <= max);
        assert!(fits, "{held:?} of {max:?}");
        let waiting_max = self.config.waiting_messages_max(&self.info, horn.local());
        assert!(self.net.open_verdicts() <= waiting_max);
        self.most.votes = self.most.votes.max(held.votes);
        self.most.waiting = self.most.waiting.max(held.waiting);
    }

    /// Hands in votes of everybody whose signatures are wrong, each with bytes of its own.
    fn flood(&mut self, votes: &[(Topic, Vec<u8>)], rounds: u32) {
        for _ in 0..rounds {
            for (i, (topic, data)) in votes.iter().enumerate() {
                self.forged += 1;
                let mut data = data.clone();
                let end = data.len() - 8;
                for (byte, noise) in data[end..].iter_mut().zip(self.forged.to_le_bytes()) {
                    *byte ^= noise;
                }
                self.net.offer_from(FLOODERS + i % 2, 0, *topic, data);
            }
        }
        self.account();
    }

    /// Hands in votes from the honest peers, and returns their tokens.
    fn offer(&mut self, votes: &[(Topic, Vec<u8>)]) -> BTreeSet<Token> {
        let mut tokens = BTreeSet::new();
        for (peer, (topic, data)) in (0..HONEST_PEERS).cycle().zip(votes) {
            self.net.offer_from(peer as usize, 0, *topic, data.clone());
            tokens.insert(self.net.last_token());
        }
        self.account();
        tokens
    }
}

/// Everybody's vote for one thing.
fn everybody(forge: &Forge, vote: Vote) -> Vec<(Topic, Vec<u8>)> {
    let validators = forge.config.layout.validators();
    (0..validators)
        .map(|v| forge.vote(Validator(v), vote))
        .collect()
}

#[test]
fn a_flood_of_forged_votes_costs_nobody_a_vote_and_stays_within_the_bounds() {
    let (validators, committees, cells) = SCALE.layout;
    let layout = Layout::new(validators, committees, cells).unwrap();
    let mut world = World::new(layout, Timing::HORN);
    world.net.job_ns = Box::new(|_, name| Some(if name == "verify_votes" { VERIFY_NS } else { 0 }));
    for slot in (0..SCALE.slots).map(Slot) {
        world.run_to(slot, Phase::Vote, 0);
        let forge = world.forge(slot);
        let horn = &world.net.nodes[0].horn;
        let votes = everybody(&forge, horn.chain().vote(slot, &horn.head()).unwrap());
        // The batches are full of forged votes before the honest ones come, and more come after.
        world.flood(&votes, SCALE.forged / 2);
        let tokens = world.offer(&votes);
        world.flood(&votes, SCALE.forged - SCALE.forged / 2);
        world.run_to(slot, Phase::Vote, VERIFY_NS / 2);
        world.run_to(slot, Phase::Level(2), 0);
        let all = world.net.settled(0);
        let refused = all
            .iter()
            .filter(|(token, verdict)| tokens.contains(token) && *verdict != Verdict::Accept);
        assert_eq!(refused.count(), 0, "honest votes not taken in {slot}");
        let view = world.net.nodes[0].horn.view(slot).unwrap();
        assert_eq!(view.votes_accepted, u64::from(validators));
        world.run_to(slot.next(), Phase::Vote, 0);
        let horn = &world.net.nodes[0].horn;
        let credited = |c| horn.chain().credited(&horn.head(), slot, c).count_ones();
        let credited: usize = (0..committees).map(credited).sum();
        assert_eq!(credited, validators as usize);
        world.net.sent.clear();
    }
    let reports = &world.net.nodes[0].reports;
    assert!(reports.iter().all(|(peer, _)| peer.0 >= FLOODERS as u64));
    assert!(reports.iter().all(|(_, reason)| *reason == "bad_evidence"));
    assert!(!reports.is_empty());
    let signatures = u64::from(validators) * world.info.sizes.signature_bytes as u64;
    assert!(world.most.votes > signatures, "{:?}", world.most);
    assert!(world.most.waiting > signatures, "{:?}", world.most);
}

/// Half a second into a slot the votes of the slot before the previous one are taken as well: all
/// three are held at once, with their signatures where they come late.
#[test]
fn the_votes_of_every_open_slot_fit_the_bound() {
    let timing = Timing::custom(2_000, &[0, 200, 600, 1_000, 1_400]).unwrap();
    let mut world = World::new(Layout::new(64, 1, 2).unwrap(), timing);
    let mut votes = Vec::new();
    for slot in (0..3).map(Slot) {
        world.run_to(slot, Phase::Vote, 100_000_000);
        let forge = world.forge(slot);
        let horn = &world.net.nodes[0].horn;
        let vote = horn.chain().vote(slot, &horn.head()).unwrap();
        votes.extend(everybody(&forge, vote));
    }
    world.offer(&votes);
    world.net.run_until(world.net.now);
    world.account();
    for slot in (0..3).map(Slot) {
        let view = world.net.nodes[0].horn.view(slot).unwrap();
        assert_eq!(view.votes_accepted, 64, "{slot}");
    }
    let signatures = votes.len() as u64 * world.info.sizes.signature_bytes as u64;
    assert!(world.most.votes > signatures, "{:?}", world.most);
}
