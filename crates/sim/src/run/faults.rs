//! The faults of a scenario, put into its world.

use super::RunError;
use super::setup::{Setup, rate};
use crate::check::Ledger;
use crate::fault::{Adversary, Interval, Parameters};
use crate::latency::{exponential, mix};
use crate::role::{Delivery, Role};
use crate::scenario::{Class, Fault, FaultKind, Restart, Scenario};
use crate::world::{Change, World};
use alphorn_types::Time;
use std::sync::Arc;

const CHURN: u64 = 13;
const SECOND_NS: u64 = 1_000_000_000;

/// Puts all faults, and the coming and going of nodes, into a world.
pub(super) fn apply<R>(
    scenario: &Scenario,
    setup: &Setup,
    (horizon_ns, chunks): (u64, u64),
    world: &mut World<R, Ledger>,
) -> Result<(), RunError>
where
    R: Adversary + Role,
    R::Delivery: Into<Delivery> + Copy,
{
    for (index, (fault, members)) in scenario.fault.iter().zip(&setup.faulty).enumerate() {
        let interval = fault.interval();
        match fault.kind {
            FaultKind::Partition | FaultKind::Eclipse => {
                let mut side = vec![false; scenario.sim.nodes as usize];
                members.iter().for_each(|&node| side[node as usize] = true);
                let break_ns = scenario.link.partition_break_ms * 1_000_000;
                match fault.kind {
                    FaultKind::Eclipse => world.eclipse(side, interval, break_ns),
                    _ => world.partition(side, interval, break_ns),
                }
            }
            _ => {
                let allies: Arc<[u32]> = members.as_slice().into();
                for (number, &node) in (0..).zip(members) {
                    let place = Place {
                        allies: &allies,
                        index,
                        node,
                        number,
                        of: members.len() as u64,
                        chunks,
                    };
                    apply_one(scenario, setup, (fault, interval), place, world)?;
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

/// A node of a fault: the `number`-th of `of`.
#[derive(Clone, Copy)]
struct Place<'a> {
    allies: &'a Arc<[u32]>,
    index: usize,
    node: u32,
    number: u64,
    of: u64,
    chunks: u64,
}

fn apply_one<R>(
    scenario: &Scenario,
    setup: &Setup,
    (fault, interval): (&Fault, Interval),
    place: Place<'_>,
    world: &mut World<R, Ledger>,
) -> Result<(), RunError>
where
    R: Adversary + Role,
    R::Delivery: Into<Delivery> + Copy,
{
    let node = place.node;
    let mut during = |begin: Change, end: Change| {
        world.change(interval.from, begin);
        if interval.until < Time::MAX {
            world.change(interval.until, end);
        }
    };
    let percent = u64::from(fault.factor_pct);
    match fault.kind {
        FaultKind::Crash => during(Change::Down(node), up(node, fault.restart)),
        FaultKind::SlowLink => {
            let of_class = |percent| rate(scenario, setup.class[node as usize], percent);
            let (own, slow) = (of_class(100), of_class(percent));
            during(Change::Link(node, slow), Change::Link(node, own));
        }
        FaultKind::SlowCpu => {
            let own = world.factor_pct(node);
            let slow = own.saturating_mul(percent) / 100;
            let (begin, end) = (Change::Speed(node, slow), Change::Speed(node, own));
            world.change(interval.from, begin);
            if interval.until < Time::MAX {
                world.change(interval.until, end);
            }
        }
        FaultKind::ClockSkew => world.skew(node, fault.delay_ms * 1_000_000),
        kind => {
            let parameters = Parameters {
                interval,
                percent,
                rate: fault.rate,
                bytes: fault.bytes,
                fails_at: fault.fails_at,
                delay_ns: fault.delay_ms * 1_000_000,
                hides: fault.hides,
                seed: mix([setup.seed, place.index as u64, node.into(), 0]),
                key: mix([setup.seed, place.index as u64, u64::MAX, 0]),
                allies: place.allies.clone(),
                peers: setup.graph.peers(node).len() as u64,
                chunks: u16::try_from(place.chunks).unwrap_or(u16::MAX),
                items: scenario.traffic.count,
                number: place.number,
                of: place.of,
            };
            let Some(wrap) = world.role(node).adversary(kind, &parameters) else {
                return Err(RunError::Unfit {
                    fault: kind.name(),
                    protocol: scenario.protocol.name(),
                });
            };
            world.wrap(node, wrap);
        }
    }
    Ok(())
}

/// A node comes back, and knows what it knew or nothing.
fn up(node: u32, restart: Restart) -> Change {
    match restart {
        Restart::Warm => Change::Up(node),
        Restart::Cold => Change::UpAnew(node),
    }
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
