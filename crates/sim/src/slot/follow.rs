//! A node that only follows the chain: it receives the blocks of a slot that was run elsewhere, and decides on
//! them as on any others.

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

/// The following node.
const FOLLOWER: u32 = 0;
/// The node that has the blocks.
const SENDER: u32 = 1;

/// Results of a node that received the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Number of blocks accepted as valid.
    pub accepted: u32,
    /// Number of blocks received.
    pub blocks: u32,
    /// Number of validators that were to vote, by the configuration.
    pub expected: u64,
    /// Number of votes carried by an accepted block.
    pub votes: u64,
    /// Whether these are exactly the votes of the validators that were to vote.
    pub is_exact: bool,
    /// Number of blocks rejected, by reason.
    pub rejects: BTreeMap<&'static str, u64>,
    /// Size in bytes of the block that carries the votes.
    pub block_bytes: u64,
    /// Size in bytes of the single piece of evidence for all its entries; none if each has its own.
    pub bundle_bytes: u64,
    /// Nanoseconds taken to verify the evidence of the votes on all threads, including the required
    /// preparation of keys.
    pub verify_ns: u64,
}

impl Followed {
    /// Whether every block is valid and carries the votes that were cast.
    pub fn holds(&self) -> bool {
        self.accepted == self.blocks && self.is_exact
    }
}

/// Sends the blocks of a slot to a node that hosts no validators and has seen nothing else.
///
/// The configuration and the public keys must be those of the run that created the blocks.
///
/// # Errors
/// [`SlotError`] if the node cannot be run, or if a block does not decode. An invalid block is not an error.
pub fn follow(
    config: SlotConfig,
    inputs: SlotInputs,
    blocks: &[Bytes],
) -> Result<Followed, SlotError> {
    let seed = config.seed;
    let mut horn = config.horn.clone();
    // As in the run that made the blocks. Committees follow from it.
    horn.network_id = random::bytes(seed, "genesis", 0);
    let (layout, info) = (horn.layout, inputs.info);
    config.participation.check(&layout)?;
    let format = horn.format(&info);
    let clock = SlotClock::new(horn.genesis, horn.timing);
    // Neither node hosts a validator: the sender only publishes what it is given.
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
        // The slot is taken from the block's bytes. A block of a later slot is sent with the last one, and
        // rejected.
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
    // If several blocks carry votes of the slot, sizes are those of the last one.
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
