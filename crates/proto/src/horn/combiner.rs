//! What a combiner makes evidence of: evidence of the parts of its unit, each covered by aggregates.

use alphorn_scheme::{CombineJob, Op, Part, Work};
use alphorn_types::{Bitfield, Unit};

use super::config::layer;
use super::cover::{self, Candidate};
use super::maker::Draft;
use super::role::Shared;
use super::state::{Accepted, SlotState};

/// The job over the cover of each part of a unit for a ballot, without senders whom a failed job named;
/// none if there is no evidence.
pub(super) fn draft(
    shared: &Shared<'_>,
    state: &SlotState,
    (unit, ballot): (Unit, u16),
    without: &[u32],
) -> Option<Draft> {
    let (config, layout) = (shared.config, state.layout());
    let (rule, picks_max) = config.cover(shared.info, unit.level);
    let start = layout.unit_range(unit).start;
    let mut covered = Bitfield::new(layout.unit_len(unit) as usize);
    let (mut parts, mut inputs) = (Vec::new(), Vec::new());
    let (vote, message) = {
        let ballot = state.ballots.get(ballot);
        (ballot.vote, ballot.message)
    };
    let is_usable =
        |accepted: &&Accepted| accepted.vote == vote && !without.contains(&accepted.sender.0);
    for part in layout.parts(unit) {
        let usable: Vec<&Accepted> = state.accepted(part).iter().filter(is_usable).collect();
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
        let picks = cover::cover(&candidates, weights.as_deref(), rule, picks_max);
        let offset = layout.unit_range(part).start - start;
        covered.write_range(offset as usize, &picks.covered);
        for pick in picks.chosen {
            inputs.push(usable[pick].sender.0);
            parts.push(Part {
                offset,
                layer: layer(part.level),
                evidence: usable[pick].evidence.clone(),
            });
        }
    }
    (!parts.is_empty()).then(|| Draft {
        inputs,
        covered,
        work: Work::Combine(CombineJob {
            op: Op::Collect,
            epoch: state.epoch,
            statement: config.statement(unit, state.slot, message),
            parts,
            multiplicity_max: config.multiplicity_max,
        }),
    })
}
