//! What the blocks of a run pay for: whose votes each one includes, and who carried them.
//!
//! A block says whose votes it has. Who made the collection and the aggregates is what was seen of the
//! run: the first that was published with exactly these signers.

use super::message::{BlockBody, CollectionBody};
use super::plan::Plan;
use super::watch::{Followed, Watch};
use alphorn_proto::chain::Chain;
use alphorn_proto::rewards::{Inclusion, Ledger, Matches, RewardsError, Schedule};
use alphorn_types::{Bitfield, Slot, Validator};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A block of the chain, and what it is paid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaidBlock {
    /// Its slot.
    pub slot: Slot,
    /// Who proposed it.
    pub proposer: Validator,
    /// The votes in it.
    pub inclusions: Vec<Inclusion>,
}

/// What validators with so many increments each earned by the blocks of a run whose votes are of `slots`.
///
/// # Errors
/// [`RewardsError`] for a schedule or increments that nobody can be paid by.
pub fn pay(
    blocks: &[PaidBlock],
    slots: impl IntoIterator<Item = Slot>,
    schedule: Schedule,
    increments: &[u32],
) -> Result<Ledger, RewardsError> {
    let all = increments.iter().map(|one| u64::from(*one)).sum();
    let mut ledger = Ledger::new(schedule, increments, all)?;
    for block in blocks {
        ledger.block(block.slot, block.proposer, &block.inclusions)?;
    }
    slots.into_iter().for_each(|slot| ledger.close(slot));
    Ok(ledger)
}

/// The blocks of a chain, parents before their children.
pub(super) fn paid_blocks(plan: &Plan, watch: &Watch, chain: &Chain) -> Vec<PaidBlock> {
    let seen: BTreeMap<_, _> = watch
        .slots()
        .filter_map(|(_, followed)| followed.block.as_ref())
        .map(|block| (block.root, block))
        .collect();
    let followed: BTreeMap<Slot, &Followed> = watch.slots().collect();
    let mut blocks = Vec::new();
    let mut root = chain.head();
    while let Some(header) = chain.header(&root) {
        if let Some(block) = seen.get(&root) {
            blocks.push(PaidBlock {
                slot: header.slot,
                proposer: header.proposer,
                inclusions: inclusions(plan, &followed, block),
            });
        }
        if header.slot == Slot(0) {
            break;
        }
        root = header.parent;
    }
    blocks.reverse();
    blocks
}

fn inclusions(
    plan: &Plan,
    followed: &BTreeMap<Slot, &Followed>,
    block: &BlockBody,
) -> Vec<Inclusion> {
    let mut inclusions = Vec::new();
    for (slot, committee, signers) in &block.entries {
        let of_slot = followed.get(slot);
        let published = of_slot.map(|of| &of.collections[usize::from(*committee)]);
        let mut published = published.into_iter().flatten();
        let collection = published.find(|one| one.signers == *signers);
        match of_slot.zip(collection) {
            Some((of, collection)) => inclusions.extend(carried(plan, of, collection)),
            None => {
                let first = plan.config.layout.committee_range(*committee).start;
                inclusions.push(votes(plan, *slot, first, signers));
            }
        }
    }
    inclusions
}

/// The aggregates of a collection, each with the votes that it carried.
fn carried<'a>(
    plan: &'a Plan,
    of: &'a Followed,
    collection: &'a Arc<CollectionBody>,
) -> impl Iterator<Item = Inclusion> + 'a {
    collection.parts.iter().map(move |(number, part)| {
        let signers = part.signers();
        let mut published = of.aggregates[*number as usize].iter();
        let aggregate = published.find(|one| one.signers == signers);
        let first = plan.config.layout.cell_range(plan.cell(*number)).start;
        Inclusion {
            aggregator: aggregate.map(|one| Validator(one.sender)),
            collector: Some(Validator(collection.sender)),
            ..votes(plan, collection.slot, first, &signers)
        }
    })
}

/// Votes that nobody is known to have carried; `first` is the epoch position of the first signer's.
fn votes(plan: &Plan, slot: Slot, first: u32, signers: &Bitfield) -> Inclusion {
    let member = |place: usize| plan.assignment.member(first + place as u32);
    Inclusion {
        slot,
        matches: Matches::ALL,
        voters: signers.iter_ones().map(member).collect(),
        aggregator: None,
        collector: None,
    }
}
