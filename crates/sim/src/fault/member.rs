//! The nodes of a fault.

use super::{Adversary, Parameters};
use crate::role::Role;
use crate::scenario::{Fault, FaultKind, Restart, Scenario};
use crate::world::{Change, Probe, World};
use alphorn_types::Time;
use std::sync::Arc;

/// The nodes of a fault, each other's allies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Members<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) fault: &'a Fault,
    pub(crate) nodes: &'a [u32],
    /// The class of every node of the run.
    pub(crate) class: &'a [u16],
    /// Seed of the choices that all of them make alike.
    pub(crate) key: u64,
    /// Pieces that make up a payload; 1 if it travels whole.
    pub(crate) chunks: u16,
}

impl Members<'_> {
    /// Applies the fault to the world. `seed` gives the seed for the choices of each node. Returns false if nodes
    /// of this protocol cannot have the fault.
    pub(crate) fn enter<R: Adversary, W: Probe<R>>(
        &self,
        world: &mut World<R, W>,
        seed: impl Fn(u32) -> u64,
    ) -> bool {
        let (fault, allies): (_, Arc<[u32]>) = (self.fault, self.nodes.into());
        (0..).zip(self.nodes).all(|(number, &node)| {
            let parameters = Parameters {
                interval: fault.interval(),
                percent: fault.factor_pct.into(),
                rate: fault.rate,
                bytes: fault.bytes,
                fails_at: fault.fails_at,
                delay_ns: fault.delay_ms.saturating_mul(1_000_000),
                hides: fault.hides,
                seed: seed(node),
                key: self.key,
                allies: allies.clone(),
                peers: world.graph().peers(node).len() as u64,
                chunks: self.chunks,
                items: self.scenario.traffic.count,
                number,
                of: allies.len() as u64,
            };
            self.enter_node(node, &parameters, world)
        })
    }

    /// Applies the fault to one node, as a change of the world or a wrapper.
    fn enter_node<R: Adversary, W: Probe<R>>(
        &self,
        node: u32,
        parameters: &Parameters,
        world: &mut World<R, W>,
    ) -> bool {
        let fault = self.fault;
        match fault.kind {
            FaultKind::Crash => self.during(world, Change::Down(node), up(node, fault.restart)),
            FaultKind::SlowLink => {
                let class = &self.scenario.class[usize::from(self.class[node as usize])];
                let link = |percent| Change::Link(node, class.rate(percent));
                // The end restores the link of the class, whatever another fault has made of it meanwhile.
                self.during(world, link(parameters.percent), link(100));
            }
            FaultKind::SlowCpu => {
                // Relative to the node's own speed, to which it returns.
                let own = world.factor_pct(node);
                let slow = own.saturating_mul(parameters.percent) / 100;
                self.during(world, Change::Speed(node, slow), Change::Speed(node, own));
            }
            FaultKind::ClockSkew => world.skew(node, fault.delay_ms * 1_000_000),
            kind => {
                let Some(wrap) = world.role(node).adversary(kind, parameters) else {
                    return false;
                };
                world.wrap(node, wrap);
            }
        }
        true
    }

    fn during<R: Role, W: Probe<R>>(&self, world: &mut World<R, W>, begin: Change, end: Change) {
        let interval = self.fault.interval();
        world.change(interval.from, begin);
        if interval.until < Time::MAX {
            world.change(interval.until, end);
        }
    }
}

/// The change that brings a node back, with or without its previous state.
fn up(node: u32, restart: Restart) -> Change {
    match restart {
        Restart::Warm => Change::Up(node),
        Restart::Cold => Change::UpAnew(node),
    }
}
