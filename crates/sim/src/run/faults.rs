//! The faults of a scenario, put into its world.

use super::RunError;
use super::setup::Setup;
use crate::check::Ledger;
use crate::fault::{Adversary, Members, up};
use crate::latency::{exponential, mix};
use crate::role::{Delivery, Role};
use crate::scenario::{Class, FaultKind, Scenario};
use crate::world::{Change, World};
use alphorn_types::Time;

const CHURN: u64 = 13;
const SECOND_NS: u64 = 1_000_000_000;

/// Puts all faults, and the coming and going of nodes, into a world.
pub(super) fn apply<R>(
    scenario: &Scenario,
    setup: &Setup,
    horizon_ns: u64,
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
    for node in 0..scenario.sim.nodes {
        let class = &scenario.class[usize::from(setup.class[node as usize])];
        if class.up_mean_s > 0 {
            churn(setup.seed, node, class, horizon_ns, world);
        }
    }
    Ok(())
}

/// Lets a node go down and up again, for exponential times, until the horizon; it is up then.
fn churn<R>(seed: u64, node: u32, class: &Class, horizon_ns: u64, world: &mut World<R, Ledger>)
where
    R: Role,
    R::Delivery: Into<Delivery> + Copy,
{
    let mut count = 0;
    let mut draw = |mean_s: u64| {
        count += 1;
        exponential(
            mean_s.saturating_mul(SECOND_NS),
            mix([seed, CHURN, node.into(), count]),
        )
    };
    let mut at_ns = draw(class.up_mean_s);
    while at_ns < horizon_ns {
        world.change(Time::from_nanos(at_ns), Change::Down(node));
        let down_ns = draw(class.down_mean_s).max(1);
        let up_ns = at_ns.saturating_add(down_ns).min(horizon_ns);
        world.change(Time::from_nanos(up_ns), up(node, class.restart));
        at_ns = up_ns.saturating_add(draw(class.up_mean_s).max(1));
    }
}
