//! Inputs of the aggregator: the votes of its cell that equal its own.

use alphorn_scheme::{AggregateJob, Bytes, Tail, Work};
use alphorn_types::{Bitfield, Unit};

use super::cell_votes::FirstVote;
use super::maker::Draft;
use super::role::Shared;
use super::state::SlotState;
use crate::wire::VoteMsg;

/// Builds the job over the votes of a cell for a ballot, without positions named by a failed job. None if
/// there is no such vote.
pub(super) fn draft(
    shared: &Shared<'_>,
    state: &SlotState,
    unit: Unit,
    ballot: u16,
    without: &[u32],
) -> Option<Draft> {
    let of_ballot = |(first, _): &(FirstVote, &Bytes)| {
        first.ballot == ballot && !without.contains(&first.position)
    };
    let vote = |(first, message): (FirstVote, &Bytes)| {
        let signature = VoteMsg::signature_of(message, shared.format);
        (first.position, signature)
    };
    let messages = state.cell(unit.cell()?)?.messages();
    let votes: Vec<(u32, Tail)> = messages.filter(of_ballot).map(vote).collect();
    let inputs: Vec<u32> = votes.iter().map(|(position, _)| *position).collect();
    let mut covered = Bitfield::new(state.layout().unit_len(unit) as usize);
    inputs.iter().for_each(|&at| covered.set(at as usize));
    let message = state.ballots.get(ballot).message;
    (!votes.is_empty()).then(|| Draft {
        inputs,
        covered,
        work: Work::Aggregate(AggregateJob {
            epoch: state.epoch,
            statement: (shared.config).statement(shared.info, unit, state.slot, message),
            votes,
        }),
    })
}
