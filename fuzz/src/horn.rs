//! Targets of Horn's roles, each alone: scripts of inputs in any order.

pub use alphorn_proto::horn::alone::{
    aggregator as horn_aggregator, combiner as horn_combiner, gate as horn_gate,
    proposer as horn_proposer, voter as horn_voter,
};

/// Ends the oldest job well.
const END: [u8; 3] = [3, 0, 7];

fn script(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    vec![parts.concat()]
}

/// The vote of a slot, signed for both committees.
pub(crate) fn horn_voter_seeds() -> Vec<Vec<u8>> {
    script(&[&[1, 0, 0], &END, &END])
}

/// All votes of a slot, summed cell by cell and signed.
pub(crate) fn horn_aggregator_seeds() -> Vec<Vec<u8>> {
    let votes: Vec<u8> = (0..16).flat_map(|validator| [0, validator, 0]).collect();
    script(&[&[13], &votes, &[2, 255, 1], &END.repeat(6)])
}

/// An aggregate of each cell, summed and signed.
pub(crate) fn horn_combiner_seeds() -> Vec<Vec<u8>> {
    let aggregates: Vec<u8> = (0..4).flat_map(|cell| [0, cell, 0, 15, cell]).collect();
    script(&[&[1], &aggregates, &[2, 255, 2, 100, 1], &END.repeat(6)])
}

/// Votes, true and forged, an aggregate and a collection, and a block of the collection.
pub(crate) fn horn_gate_seeds() -> Vec<Vec<u8>> {
    let votes: Vec<u8> = (0..16)
        .flat_map(|voter| [0, voter, 0, voter & 1, voter])
        .collect();
    let evidence = [1, 0, 0, 15, 0, 1, 2, 0, 1, 0, 15, 2];
    let ends = |count| [&[5][..], &[6, 0, 7].repeat(count)].concat();
    let block = [4, 255, 3, 0, 0, 3];
    script(&[&[1], &votes, &evidence, &ends(12), &block, &ends(4)])
}

/// A collection of each committee, and a block of them: with evidence of their own, and with one piece of
/// evidence for both that is made before.
pub(crate) fn horn_proposer_seeds() -> Vec<Vec<u8>> {
    const END: [u8; 3] = [4, 0, 7];
    let collections = [0, 0, 0, 15, 0, 2, 0, 15];
    let own = [&[1][..], &collections, &[1], &END].concat();
    let one = [&[129][..], &collections, &[3], &END, &[1], &END].concat();
    vec![own, one]
}
