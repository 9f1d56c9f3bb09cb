//! A node with a fault.

use super::{Adversary, Parameters};
use crate::role::Role;
use crate::scenario::{Fault, FaultKind, Restart, Scenario};
use crate::world::{Change, Witness, World};
use alphorn_types::Time;
use std::sync::Arc;

/// A node of a fault: the `number`-th of its allies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) fault: &'a Fault,
    pub(crate) node: u32,
    /// Its class.
    pub(crate) class: u16,
    pub(crate) allies: &'a Arc<[u32]>,
    pub(crate) number: u64,
    /// Keys its choices.
    pub(crate) seed: u64,
    /// Keys those that all nodes of the fault make alike.
    pub(crate) key: u64,
    /// Pieces that make a payload; 1 if it travels whole.
    pub(crate) chunks: u16,
}

impl Member<'_> {
    /// Puts the fault into the world: a change of it, or a wrapper. False if a node of this protocol cannot have it.
    pub(crate) fn enter<R: Adversary, W: Witness<R>>(&self, world: &mut World<R, W>) -> bool {
        let (node, fault) = (self.node, self.fault);
        let percent = u64::from(fault.factor_pct);
        match fault.kind {
            FaultKind::Crash => self.during(world, Change::Down(node), up(node, fault.restart)),
            FaultKind::SlowLink => {
                let class = &self.scenario.class[usize::from(self.class)];
                let link = |percent| Change::Link(node, class.rate(percent));
                self.during(world, link(percent), link(100));
            }
            FaultKind::SlowCpu => {
                let own = world.factor_pct(node);
                let slow = own.saturating_mul(percent) / 100;
                self.during(world, Change::Speed(node, slow), Change::Speed(node, own));
            }
            FaultKind::ClockSkew => world.skew(node, fault.delay_ms * 1_000_000),
            kind => {
                let parameters = self.parameters(world.graph().peers(node).len());
                let Some(wrap) = world.role(node).adversary(kind, &parameters) else {
                    return false;
                };
                world.wrap(node, wrap);
            }
        }
        true
    }

    fn during<R: Role, W: Witness<R>>(&self, world: &mut World<R, W>, begin: Change, end: Change) {
        let interval = self.fault.interval();
        world.change(interval.from, begin);
        if interval.until < Time::MAX {
            world.change(interval.until, end);
        }
    }

    fn parameters(&self, peers: usize) -> Parameters {
        let fault = self.fault;
        Parameters {
            interval: fault.interval(),
            percent: fault.factor_pct.into(),
            rate: fault.rate,
            bytes: fault.bytes,
            fails_at: fault.fails_at,
            delay_ns: fault.delay_ms.saturating_mul(1_000_000),
            hides: fault.hides,
            seed: self.seed,
            key: self.key,
            allies: self.allies.clone(),
            peers: peers as u64,
            chunks: self.chunks,
            items: self.scenario.traffic.count,
            number: self.number,
            of: self.allies.len() as u64,
        }
    }
}

/// A node comes back, and knows what it knew or nothing.
pub(crate) fn up(node: u32, restart: Restart) -> Change {
    match restart {
        Restart::Warm => Change::Up(node),
        Restart::Cold => Change::UpAnew(node),
    }
}
