//! The faults injected into the nodes of a devnet, drawn from a seed, and the slots that they disturb.

use crate::error::Result;
use alphorn_proto::slot::Timing;
use anyhow::anyhow;
use clap::ValueEnum;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::ops::Range;

/// Slots after the last fault: it must be over, and what follows must be checked.
const AFTER_SLOTS: u64 = 6;
/// Slots before a fault whose votes may still be waiting for a block.
const VOTES_WAIT_SLOTS: u64 = 2;
/// Slots after the end of a fault until its effects are gone.
const SETTLE_SLOTS: u64 = 2;

/// What can be done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    /// SIGKILL, then an immediate restart
    Kill,
    /// SIGTERM, then an immediate restart
    Term,
    /// The node is stopped for up to two slots
    Pause,
    /// The node runs half of the time for two slots
    Slow,
    /// Half of the nodes are cut off from the other half for --partition-slots
    Partition,
    /// Every process of the node's prove lane is sent SIGKILL as it appears, for two slots
    Prover,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Kill => "kill",
            Kind::Term => "term",
            Kind::Pause => "pause",
            Kind::Slow => "slow",
            Kind::Partition => "partition",
            Kind::Prover => "prover",
        }
    }

    /// Whether the process ends.
    pub(super) fn ends(self) -> bool {
        matches!(self, Kind::Kill | Kind::Term)
    }
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// The node; for a partition, the first of those on its side.
    pub(super) node: usize,
    /// Milliseconds from genesis.
    pub(super) at_ms: u64,
    /// Duration; 0 for a node that is restarted at once.
    pub(super) for_ms: u64,
}

impl Fault {
    /// Returns the nodes on one side of a partition of `nodes`.
    pub(super) fn side(&self, nodes: usize) -> BTreeSet<usize> {
        (0..nodes / 2).map(|i| (self.node + i) % nodes).collect()
    }

    /// Returns the slots that cannot be checked, if the node signs again from `first_slot` on.
    pub(super) fn disturbs(&self, slot_ms: u64, first_slot: Option<u64>) -> Range<u64> {
        let from = (self.at_ms / slot_ms).saturating_sub(VOTES_WAIT_SLOTS);
        let settled = (self.at_ms + self.for_ms) / slot_ms + SETTLE_SLOTS + 1;
        from..settled.max(first_slot.unwrap_or(0))
    }
}

/// The faults that a run is to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) kinds: &'a [Kind],
    /// Slots between successive faults.
    pub(super) every_slots: u64,
    /// Duration of a partition in slots.
    pub(super) partition_slots: u64,
}

impl Wanted<'_> {
    /// Returns the duration of the longest fault in slots.
    fn longest(&self) -> u64 {
        let partition = self.kinds.contains(&Kind::Partition);
        if partition {
            self.partition_slots.max(2)
        } else {
            2
        }
    }
}

/// Draws the faults of a run: one every `every_slots` slots, of the given kinds, at random times on
/// random nodes.
///
/// # Errors
/// If the run has no room for a fault, one does not end before the next, or a partition has no nodes on
/// one side.
pub(super) fn draw(
    wanted: Wanted<'_>,
    checked: Range<u64>,
    timing: &Timing,
    nodes: u16,
    seed: u64,
) -> Result<Vec<Fault>> {
    let (kinds, every_slots) = (wanted.kinds, wanted.every_slots);
    if kinds.is_empty() {
        return Ok(Vec::new());
    }
    if kinds.contains(&Kind::Partition) && nodes < 2 {
        return Err(anyhow!("--faults partition: {nodes} node, must be at least 2").into());
    }
    // One more, as a fault begins within a slot and thus ends within one.
    let least = wanted.longest() + SETTLE_SLOTS + 1;
    if every_slots < least {
        let slots = wanted.partition_slots;
        let what = format!("--fault-every {every_slots}: with --partition-slots {slots}");
        return Err(anyhow!("{what} at least {least}").into());
    }
    let after = AFTER_SLOTS.max(wanted.longest() + SETTLE_SLOTS + 1);
    // A fault disturbs `VOTES_WAIT_SLOTS` before it, so the first checked slot stays undisturbed.
    let first = checked.start + VOTES_WAIT_SLOTS + 1;
    let end = checked.end.saturating_sub(after);
    if first >= end {
        let (slots, least) = (checked.end - checked.start, VOTES_WAIT_SLOTS + after + 2);
        return Err(anyhow!("--slots {slots}: with --faults at least {least}").into());
    }
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let slot_ms = timing.slot_ms();
    let mut below = |bound: u64| rng.next_u64() % bound.max(1);
    let slots = (first..end).step_by(usize::try_from(every_slots).unwrap_or(usize::MAX));
    let faults = slots.map(|slot| {
        let kind = kinds[below(kinds.len() as u64) as usize];
        Fault {
            kind,
            node: below(u64::from(nodes)) as usize,
            at_ms: slot * slot_ms + below(slot_ms),
            for_ms: match kind {
                Kind::Kill | Kind::Term => 0,
                Kind::Pause => slot_ms / 4 + below(slot_ms * 7 / 4),
                Kind::Slow | Kind::Prover => 2 * slot_ms,
                Kind::Partition => wanted.partition_slots * slot_ms,
            },
        }
    });
    Ok(faults.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Kind; 6] = [
        Kind::Kill,
        Kind::Term,
        Kind::Pause,
        Kind::Slow,
        Kind::Partition,
        Kind::Prover,
    ];

    fn wanted(kinds: &[Kind], every_slots: u64, partition_slots: u64) -> Wanted<'_> {
        Wanted {
            kinds,
            every_slots,
            partition_slots,
        }
    }

    #[test]
    fn a_seed_draws_faults_that_leave_slots_to_check() {
        let timing = Timing::LEAN;
        let drawn = |seed| draw(wanted(&ALL, 8, 3), 2..402, &timing, 4, seed).unwrap();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let faults = drawn(1);
        assert_eq!(faults.len(), 49);
        assert!(
            ALL.iter()
                .all(|kind| faults.iter().any(|f| f.kind == *kind))
        );
        let mut before = 0;
        for fault in &faults {
            // A restarted node signs from the second slot after its start.
            let signs = fault.at_ms / timing.slot_ms() + 3;
            let disturbed = fault.disturbs(timing.slot_ms(), Some(signs));
            assert!(disturbed.start >= before, "{fault:?}");
            assert!(disturbed.end < 402, "{fault:?}");
            before = disturbed.end;
        }
    }

    #[test]
    fn a_partition_has_two_sides_and_a_run_has_room() {
        let timing = Timing::LEAN;
        let fault = Fault {
            kind: Kind::Partition,
            node: 3,
            at_ms: 9_000,
            for_ms: 12_000,
        };
        assert_eq!(fault.side(4), BTreeSet::from([0, 3]));
        assert_eq!(fault.side(5), BTreeSet::from([3, 4]));
        assert_eq!(fault.disturbs(4_000, None), 0..8);
        assert_eq!(fault.disturbs(4_000, Some(11)), 0..11);
        let drawn = |wanted, checked, nodes| draw(wanted, checked, &timing, nodes, 1);
        assert!(drawn(wanted(&[Kind::Kill], 8, 3), 2..11, 4).is_err());
        assert!(drawn(wanted(&[Kind::Partition], 8, 3), 2..40, 1).is_err());
        assert!(drawn(wanted(&[], 8, 3), 2..3, 1).unwrap().is_empty());
    }

    #[test]
    fn a_long_partition_has_its_end_within_the_run() {
        let timing = Timing::LEAN;
        let drawn = |every, slots, end| {
            let wanted = wanted(&[Kind::Partition], every, slots);
            draw(wanted, 2..end, &timing, 4, 1)
        };
        assert!(drawn(34, 32, 100).is_err());
        assert!(drawn(40, 32, 39).is_err());
        let one = drawn(40, 32, 41).unwrap();
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].for_ms, 32 * timing.slot_ms());
        assert!(one[0].disturbs(timing.slot_ms(), None).end <= 41, "{one:?}");
        // Only partitions need the room for one.
        let kill = wanted(&[Kind::Kill], 8, 32);
        assert!(draw(kill, 2..12, &timing, 4, 1).is_ok());
    }
}
