//! A node that follows the chain alone: it is given the blocks of a slot that was run elsewhere, and decides
//! about them as about any others.

use super::network::{Network, Plan, Subscription};
use super::run::{block_slot, carried, decode, has_accepted};
use super::{LIMITS, SlotConfig, SlotError, SlotInputs};
use crate::compute::Compute;
use crate::random;
use alphorn_proto::horn::{Horn, Local};
use alphorn_proto::slot::{Phase, SlotClock};
use alphorn_proto::wire::{Block, Topic};
use alphorn_scheme::{Bytes, Op};
use alphorn_types::Bitfield;
use std::collections::BTreeMap;

/// The node that follows.
const FOLLOWER: u32 = 0;
/// The one that has the blocks.
const SENDER: u32 = 1;

/// What a node found that was given blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Blocks that it took as valid.
    pub accepted: u32,
    /// Blocks that it was given.
    pub blocks: u32,
    /// Those who were to vote, by the configuration.
    pub expected: u64,
    /// Votes that an accepted block carries.
    pub votes: u64,
    /// Whether these are the votes of exactly those who were to vote.
    pub is_exact: bool,
    /// Why blocks were not taken, by the name of the reason.
    pub rejects: BTreeMap<&'static str, u64>,
    /// Bytes of the block that carries the votes.
    pub block_bytes: u64,
    /// Those of the one piece of evidence of all its entries; none where each has its own.
    pub bundle_bytes: u64,
    /// Nanoseconds in which the evidence of the votes was verified, on all threads; what it needs of the keys
    /// included.
    pub verify_ns: u64,
}

impl Followed {
    /// Whether every block is valid, and the votes are those that were cast.
    pub fn holds(&self) -> bool {
        self.accepted == self.blocks && self.is_exact
    }
}

/// Gives the blocks of a slot to a node that hosts nobody and has seen nothing else.
///
/// The configuration and the public keys must be those of the run that made them.
///
/// # Errors
/// [`SlotError`] if the node cannot be run, or a block does not decode. A block that is not valid is no error.
pub fn follow(
    config: SlotConfig,
    inputs: SlotInputs,
    blocks: &[Bytes],
) -> Result<Followed, SlotError> {
    let seed = config.seed;
    let mut horn = config.horn.clone();
    horn.network_id = random::bytes(seed, "genesis", 0);
    let (layout, info) = (horn.layout, inputs.info);
    config.participation.check(&layout)?;
    let format = horn.format(&info);
    let clock = SlotClock::new(horn.genesis, horn.timing);
    let node = || Horn::new(horn.clone(), info.clone(), Local::observer(&layout));
    let env = inputs.env.with_secret(random::bytes(seed, "weights", 0));
    let mut compute = Compute::new(env, inputs.watermark, config.compute)?;
    compute.report_to(inputs.progress);
    let plan = Plan {
        subscriptions: vec![Subscription::Global; 2],
        withheld: Vec::new(),
        latency_ms: config.latency_ms,
        limits: LIMITS,
    };
    let mut network = Network::new(vec![node()?, node()?], &plan, compute);
    let blocks = blocks
        .iter()
        .map(|data| Ok((data, decode(data, &format, &layout)?)));
    let blocks = blocks.collect::<Result<Vec<_>, SlotError>>()?;
    let wanted = block_slot(&horn);
    for (data, block) in &blocks {
        // Its slot is read off its bytes: one of another time is given with the last one, and not taken.
        let slot = block.header.slot.min(wanted);
        let at = clock.phase_start(slot, Phase::Propose);
        network.publish_at(at, SENDER, Topic::Block, (*data).clone());
    }
    let end = clock
        .phase_start(wanted.next(), Phase::Propose)
        .saturating_sub_ns(1);
    network.run_until(end)?;
    let follower = network.machine(FOLLOWER);
    let is_accepted =
        |block: &Block| has_accepted(follower, block.header.slot, &block.header.root());
    let mut votes = Bitfield::new(layout.validators() as usize);
    let mut of_votes = (0, 0);
    for (data, block) in blocks.iter().filter(|(_, block)| is_accepted(block)) {
        let mut is_carrier = false;
        for (committee, signers) in (0..).zip(carried(block, &layout)) {
            let begin = layout.committee_range(committee).start as usize;
            for position in signers.iter_ones() {
                votes.set(begin + position);
                is_carrier = true;
            }
        }
        if is_carrier {
            of_votes = (data.len() as u64, block.body.bundle.len() as u64);
        }
    }
    let voters = config.participation.by_position(&layout, seed);
    let wall_ns = |op: Op| network.compute().meters().total(op.name()).wall_ns;
    let verify_ns = [Op::VerifyBundle, Op::VerifyCollections].map(wall_ns);
    Ok(Followed {
        accepted: blocks
            .iter()
            .filter(|(_, block)| is_accepted(block))
            .count() as u32,
        blocks: blocks.len() as u32,
        expected: voters.count_ones() as u64,
        votes: votes.count_ones() as u64,
        is_exact: votes == voters,
        rejects: follower.counters().rejects().collect(),
        block_bytes: of_votes.0,
        bundle_bytes: of_votes.1,
        verify_ns: verify_ns.iter().sum(),
    })
}
