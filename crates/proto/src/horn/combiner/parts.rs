//! Which aggregates go into a collection, and whether it adds enough to be published.

use alphorn_scheme::{CombineJob, Layer, Op, Part};
use alphorn_types::{Bitfield, Cell};
use std::collections::BTreeMap;

use super::Plan;
use crate::horn::config::{Config, PPM, Publish, SchemeInfo};
use crate::horn::cover::{self, Candidate};
use crate::horn::gate::statement;
use crate::horn::state::{KeptAggregate, SlotState};

/// Under staged publishing: whether `signers` add enough to the best accepted collection.
pub(super) fn adds_enough(
    state: &SlotState,
    config: &Config,
    committee: u16,
    ballot: u16,
    signers: &Bitfield,
) -> bool {
    if config.publish == Publish::All {
        return true;
    }
    let Some(best) = state.best_collection(committee, ballot) else {
        return true;
    };
    let committees = &state.committees;
    let all = Bitfield::ones(signers.len());
    let least = (committees.weigh(committee, &all) * u64::from(config.stage_gain_ppm))
        .div_ceil(u64::from(PPM))
        .max(1);
    committees.weigh_gain(committee, signers, &best.evidence.support.signers()) >= least
}

/// The job of a plan: the cover of each cell, as parts of the committee; and all that is covered.
pub(super) fn collect_job(
    state: &SlotState,
    config: &Config,
    info: &SchemeInfo,
    committee: u16,
    plan: &mut Plan,
) -> (Bitfield, CombineJob) {
    let mut by_cell: BTreeMap<u16, Vec<&KeptAggregate>> = BTreeMap::new();
    let usable = |kept: &&KeptAggregate| {
        kept.ballot == plan.ballot
            && !plan
                .without
                .as_ref()
                .is_some_and(|bad| bad.contains(&kept.sender))
    };
    for kept in state.aggregates[usize::from(committee)]
        .kept
        .iter()
        .filter(usable)
    {
        by_cell.entry(kept.subcommittee).or_default().push(kept);
    }
    let (rule, picks_max) = config.cover.under(info.overlap(), config.multiplicity_max);
    let layout = state.layout();
    let mut covered = Bitfield::new(layout.committee_len(committee) as usize);
    let mut parts = Vec::new();
    let mut senders = Vec::new();
    for (subcommittee, kept) in by_cell {
        let signers: Vec<Bitfield> = kept
            .iter()
            .map(|kept| kept.evidence.support.signers())
            .collect();
        let candidates: Vec<Candidate<'_>> = kept
            .iter()
            .zip(&signers)
            .map(|(kept, signers)| Candidate {
                sender: kept.sender,
                signers,
            })
            .collect();
        let cell = Cell {
            committee,
            subcommittee,
        };
        let weights = state.committees.cell_weights(cell);
        let picks = cover::cover(&candidates, weights.as_deref(), rule, picks_max);
        let offset = layout.cell_in_committee(cell).start;
        covered.write_range(offset as usize, &picks.covered);
        for pick in picks.chosen {
            senders.push(kept[pick].sender);
            let evidence = kept[pick].evidence.clone();
            parts.push(Part {
                offset,
                layer: Layer::Aggregate,
                evidence,
            });
        }
    }
    plan.senders = senders;
    let message = state.ballots.get(plan.ballot).message;
    let job = CombineJob {
        op: Op::Collect,
        epoch: state.epoch,
        statement: statement(config, committee, state.slot, message),
        parts,
        multiplicity_max: config.multiplicity_max,
    };
    (covered, job)
}
