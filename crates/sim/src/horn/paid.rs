//! What the blocks of a run pay for: whose votes each block includes, and which validators carried them.
//!
//! A block names its voters. The makers of the collection and the aggregates are taken from what was seen of the
//! run: the first one published with exactly these signers.

use super::followed::Followed;
use super::message::{BlockBody, EvidenceBody, Parts};
use super::plan::Plan;
use super::watch::Watch;
use alphorn_proto::chain::Chain;
use alphorn_proto::rewards::{Inclusion, Ledger, Matches, RewardsError};
use alphorn_types::{Bitfield, Slot, Validator};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A block of the chain, and what it is paid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaidBlock {
    /// Its slot.
    pub slot: Slot,
    /// Its proposer.
    pub proposer: Validator,
    /// The votes in it.
    pub inclusions: Vec<Inclusion>,
}

/// Returns the ledger with the earnings of validators from the blocks of a run with votes of `slots`.
///
/// # Errors
/// [`RewardsError`] for a ledger of fewer validators, or one that is closed.
pub fn pay(
    blocks: &[PaidBlock],
    slots: impl IntoIterator<Item = Slot>,
    mut ledger: Ledger,
) -> Result<Ledger, RewardsError> {
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
        let of = of_slot.zip(collection);
        inclusions.extend(carried(plan, *slot, *committee, signers, of));
    }
    inclusions
}

/// The votes of a block's entry by aggregate, as far as it was seen which of them its collection has. An attacker's
/// collection may have less than the aggregates that its state machine took.
fn carried(
    plan: &Plan,
    slot: Slot,
    committee: u16,
    signers: &Bitfield,
    of: Option<(&&Followed, &Arc<EvidenceBody>)>,
) -> Vec<Inclusion> {
    let layout = &plan.config.layout;
    let start = layout.committee_range(committee).start;
    let collector = of.map(|(_, collection)| Validator(collection.sender));
    let mut inclusions = Vec::new();
    let mut left = signers.clone();
    let mut parts = Vec::new();
    if let Some((followed, collection)) = of {
        aggregates_of(plan, followed, &collection.parts, &mut parts);
    }
    for (post, part, aggregator) in parts {
        let unit = layout.unit_range(plan.unit(post));
        let range = (unit.start - start) as usize..(unit.end - start) as usize;
        let mut votes = left.extract(range.clone());
        // What an earlier aggregate has carried is no longer in `left`, so each vote is paid for once.
        votes.intersect_with(&part);
        if votes.any() {
            votes
                .iter_ones()
                .for_each(|at| left.clear(range.start + at));
            inclusions.push(Inclusion {
                aggregator,
                collector,
                ..votes_of(plan, slot, unit.start, &votes)
            });
        }
    }
    if left.any() {
        inclusions.push(Inclusion {
            collector,
            ..votes_of(plan, slot, start, &left)
        });
    }
    inclusions
}

/// Number, signers and aggregator of each cell's aggregate that the evidence was made from, or of whatever is known
/// of it. Levels between cells and committees are not paid.
fn aggregates_of(
    plan: &Plan,
    followed: &Followed,
    parts: &Parts,
    found: &mut Vec<(u32, Bitfield, Option<Validator>)>,
) {
    for (post, part) in parts.iter() {
        let signers = part.signers();
        let mut published = followed.aggregates[*post as usize].iter();
        match published.find(|one| one.signers == signers) {
            Some(one) if !one.parts.is_empty() => aggregates_of(plan, followed, &one.parts, found),
            Some(one) if plan.unit(*post).level == 1 => {
                found.push((*post, signers, Some(Validator(one.sender))));
            }
            _ => found.push((*post, signers, None)),
        }
    }
}

/// Votes that are not known to have been carried by any validator. `first` is the epoch position of the first bit
/// of `signers`.
fn votes_of(plan: &Plan, slot: Slot, first: u32, signers: &Bitfield) -> Inclusion {
    let member = |place: usize| plan.assignment.member(first + place as u32);
    Inclusion {
        slot,
        matches: Matches::ALL,
        voters: signers.iter_ones().map(member).collect(),
        aggregator: None,
        collector: None,
    }
}
