//! Applies the faults of a scenario to its world.

use super::error::RunError;
use super::setup::Setup;
use crate::check::Ledger;
use crate::fault::{Adversary, Members};
use crate::latency::mix;
use crate::role::{Delivery, Role};
use crate::scenario::{FaultKind, Scenario};
use crate::world::World;

/// Applies all faults to a world.
pub(super) fn apply<R>(
    scenario: &Scenario,
    setup: &Setup,
    chunks: u64,
    world: &mut World<R, Ledger>,
) -> Result<(), RunError>
where
    R: Adversary + Role,
    R::Delivery: Into<Delivery> + Copy,
{
    for (index, (fault, members)) in (0..).zip(scenario.fault.iter().zip(&setup.faulty)) {
        let break_ns = scenario.link.partition_break_ms * 1_000_000;
        let side = || {
            let mut side = vec![false; scenario.sim.nodes as usize];
            members.iter().for_each(|&node| side[node as usize] = true);
            side
        };
        match fault.kind {
            FaultKind::Eclipse => world.eclipse(side(), fault.interval(), break_ns),
            FaultKind::Partition => world.partition(side(), fault.interval(), break_ns),
            kind => {
                let members = Members {
                    scenario,
                    fault,
                    nodes: members,
                    class: &setup.class,
                    // No node has this number, so the key is not the seed of any of them.
                    key: mix([setup.seed, index, u64::MAX, 0]),
                    chunks: u16::try_from(chunks).unwrap_or(u16::MAX),
                };
                let seed = |node: u32| mix([setup.seed, index, node.into(), 0]);
                if !members.enter(world, seed) {
                    return Err(RunError::Unfit {
                        fault: kind.name(),
                        protocol: scenario.protocol.name(),
                    });
                }
            }
        }
    }
    Ok(())
}
