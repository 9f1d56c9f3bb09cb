//! What the aggregator makes evidence of: the votes of its cell that equal its own.

use alphorn_scheme::{AggregateJob, Bytes, Work};
use alphorn_types::{Bitfield, Unit};

use super::maker::Draft;
use super::role::Shared;
use super::state::{Record, SlotState};

/// The job over the votes of a cell for a ballot, without positions that a failed job named; none if
/// nobody cast the vote.
pub(super) fn draft(
    shared: &Shared<'_>,
    state: &SlotState,
    (unit, ballot): (Unit, u16),
    without: &[u32],
) -> Option<Draft> {
    let records = &state.cell(unit.cell()?)?.records;
    let vote = |(position, record): (u32, &Record)| match &record.first {
        Some((of, Some(signature))) if *of == ballot && !without.contains(&position) => {
            Some((position, signature.clone()))
        }
        _ => None,
    };
    let votes: Vec<(u32, Bytes)> = (0u32..).zip(records).filter_map(vote).collect();
    let inputs: Vec<u32> = votes.iter().map(|(position, _)| *position).collect();
    let mut covered = Bitfield::new(records.len());
    inputs.iter().for_each(|&at| covered.set(at as usize));
    let message = state.ballots.get(ballot).message;
    (!votes.is_empty()).then(|| Draft {
        inputs,
        covered,
        work: Work::Aggregate(AggregateJob {
            epoch: state.epoch,
            statement: shared.config.statement(unit, state.slot, message),
            votes,
        }),
    })
}
