//! Inputs of a combiner: evidence of the parts of its unit, each covered by aggregates.

use alphorn_scheme::{CombineJob, Layer, Op, Overlap, Part, Work};
use alphorn_types::{Bitfield, Support, Unit};

use super::cover::{self, Candidate};
use super::maker::Draft;
use super::role::Shared;
use super::state::{Accepted, SlotState};

/// Builds the job over the cover of each part of a unit for a ballot, without senders named by a failed
/// job. None if there is no evidence.
pub(super) fn draft<'a>(
    shared: &Shared<'_>,
    state: &'a SlotState,
    unit: Unit,
    ballot: u16,
    without: &[u32],
) -> Option<Draft> {
    let (config, layout) = (shared.config, state.layout());
    let multiplicity_max = shared.format.multiplicity(unit.level);
    let (rule, picks_max) = config.cover(shared.info, unit.level, multiplicity_max);
    let start = layout.unit_range(unit).start;
    let mut covered = Bitfield::new(layout.unit_len(unit) as usize);
    let (mut parts, mut inputs) = (Vec::new(), Vec::new());
    let (vote, message) = {
        let ballot = state.ballots.get(ballot);
        (ballot.vote, ballot.message)
    };
    // Single votes count once, so picks up to the maximum count always fit.
    let is_packed =
        unit.level > 2 && matches!(shared.info.overlap(unit.level - 1), Overlap::Counted { .. });
    let is_usable =
        |accepted: &&Accepted| accepted.vote == vote && !without.contains(&accepted.sender.0);
    for part in layout.parts(unit) {
        let usable: Vec<&'a Accepted> = state.accepted(part).iter().filter(is_usable).collect();
        if usable.is_empty() {
            continue;
        }
        let signers = |accepted: &&Accepted| accepted.evidence.support.signers();
        let signers: Vec<Bitfield> = usable.iter().map(signers).collect();
        let candidate = |(accepted, signers): (&&Accepted, _)| Candidate {
            sender: accepted.sender,
            signers,
        };
        let candidates: Vec<Candidate<'_>> = usable.iter().zip(&signers).map(candidate).collect();
        let weights = state.committees.unit_weights(part);
        let weights = weights.as_deref();
        let picks = if is_packed {
            let support = |accepted: &&'a Accepted| &*accepted.evidence.support;
            let supports: Vec<&Support> = usable.iter().map(support).collect();
            cover::pack(
                &candidates,
                &supports,
                weights,
                rule,
                picks_max,
                multiplicity_max,
            )
        } else {
            cover::cover(&candidates, weights, rule, picks_max)
        };
        let offset = layout.unit_range(part).start - start;
        covered.write_range(offset as usize, &picks.covered);
        for pick in picks.chosen {
            inputs.push(usable[pick].sender.0);
            parts.push(Part {
                offset,
                layer: shared.info.layer(part.level),
                evidence: usable[pick].evidence.clone(),
            });
        }
    }
    let statement = config.statement(shared.info, unit, state.slot, message);
    (!parts.is_empty()).then(|| Draft {
        inputs,
        covered,
        work: Work::Combine(CombineJob {
            op: match statement.layer {
                // United lists yield an aggregate of more votes.
                Layer::Aggregate => Op::Aggregate,
                Layer::Collection => Op::Collect,
            },
            epoch: state.epoch,
            statement,
            parts,
            multiplicity_max,
        }),
    })
}
