//! Which rows do their work, and which of them no other beats.

use super::Row;
use super::point::Topology;

/// Returns why a row does not do its work.
pub(super) fn objection(row: &Row<'_>) -> Option<String> {
    match &row.outcome {
        Ok(slot) => slot.objection(),
        Err(why) => Some(why.clone()),
    }
}

/// Returns the time and bytes of a row, if it does its work: seconds until all nodes have the votes,
/// and bytes of the busiest nodes.
pub(super) fn place(row: &Row<'_>) -> Option<(f64, u64)> {
    match (&row.outcome, objection(row)) {
        (Ok(slot), None) => Some((slot.everywhere_s?, slot.sent_p99)),
        _ => None,
    }
}

/// Whether the figures of a row may be compared with those of another: as many votes, the same network
/// and adversary, and a quantum-safe scheme if the other's is. A row with a 32nd of the votes is
/// comparable to no other.
pub(super) fn is_rival(row: &Row<'_>, of: &Row<'_>) -> bool {
    let votes = |row: &Row<'_>| row.point.topology != Topology::Today;
    let quantum = |row: &Row<'_>| row.point.costs.abilities.security.quantum_bits > 0;
    votes(row)
        && votes(of)
        && row.point.profile == of.point.profile
        && row.point.adversary_pct == of.point.adversary_pct
        && (quantum(row) || !quantum(of))
}

/// Whether a row does its work and no rival beats it in both time and bytes.
pub(super) fn is_on_frontier(row: &Row<'_>, rows: &[Row<'_>]) -> bool {
    let all_vote = |_: &(f64, u64)| row.point.topology != Topology::Today;
    let Some((seconds, bytes)) = place(row).filter(all_vote) else {
        return false;
    };
    // A row does not beat itself, nor one with the same figures: both are then on the frontier.
    let beats = |(s, b): (f64, u64)| b <= bytes && s <= seconds && (b < bytes || s < seconds);
    let rivals = rows.iter().filter(|rival| is_rival(rival, row));
    !rivals.filter_map(place).any(beats)
}
