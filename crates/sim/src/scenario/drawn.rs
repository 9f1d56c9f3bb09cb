//! Converts nodes, classes and faults of a scenario to the units of the world, and draws what depends on the
//! seed.

use super::{Class, Fault, FaultKind, Scenario};
use crate::charge::Processor;
use crate::fault::Interval;
use crate::graph::Graph;
use crate::latency::{Latency, choose, mix, spread};
use crate::net::{NetConfig, Rate};
use crate::world::{Limits, WorldConfig};
use alphorn_scheme::model::{CodeTable, CostTable, TableError};
use alphorn_types::Time;
use std::sync::Arc;

/// Why the costs of a scheme are not available.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// The table was not supplied with the scenario.
    #[error("table of costs {path:?} was not read")]
    Missing {
        /// Its name.
        path: String,
    },
    /// The table is invalid.
    #[error("table of costs {path:?}: {error}")]
    Table {
        /// Its name.
        path: String,
        /// Reason.
        error: TableError,
    },
    /// The scenario names no table.
    #[error("compute.costs is absent: protocol {protocol} needs the costs of a scheme")]
    Absent {
        /// Protocol that needs the table.
        protocol: &'static str,
    },
}

/// A fault whose share of the nodes rounds down to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault {fault}: {share_pct} % of {nodes} nodes are none")]
pub struct NoNode {
    /// The fault.
    pub fault: &'static str,
    /// The share.
    pub share_pct: u32,
    /// Nodes of the run.
    pub nodes: u32,
}

/// Where nodes are located and which are connected.
#[derive(Clone, Debug)]
pub(crate) struct DrawnNetwork {
    pub(crate) graph: Arc<Graph>,
    pub(crate) latency: Arc<Latency>,
    /// Class of each node.
    pub(crate) class: Vec<u16>,
    /// Number of threads in the run.
    pub(crate) threads: usize,
}

impl Class {
    /// A percentage of the bandwidth of its nodes, at least one bit per second.
    pub(crate) fn rate(&self, percent: u64) -> Rate {
        // 10^6 bits in a megabit, over 100 per cent.
        let scaled = |mbps: u64| (mbps * 10_000).saturating_mul(percent).max(1);
        Rate {
            up_bps: scaled(self.up_mbps),
            down_bps: scaled(self.down_mbps),
        }
    }
}

impl Fault {
    /// Time interval of the fault.
    pub(crate) fn interval(&self) -> Interval {
        Interval {
            from: Time::from_millis(self.from_ms),
            until: self.until_ms.map_or(Time::MAX, Time::from_millis),
        }
    }

    /// The faulty nodes: those listed, or a share of all nodes in an order drawn by the key.
    ///
    /// # Errors
    /// [`NoNode`] if the share is less than one node: a run without attackers would otherwise pass for one
    /// with them.
    pub(crate) fn members(&self, key: [u64; 3], nodes: u32) -> Result<Vec<u32>, NoNode> {
        if !self.nodes.is_empty() {
            let listed = self.nodes.iter().copied();
            return Ok(listed.filter(|node| *node < nodes).collect());
        }
        let count = u64::from(nodes) * u64::from(self.share_pct) / 100;
        if count == 0 {
            return Err(NoNode {
                fault: self.kind.name(),
                share_pct: self.share_pct,
                nodes,
            });
        }
        let mut order = ordered(0..nodes, key);
        order.truncate(count as usize);
        Ok(order)
    }
}

/// Nodes in a random order. Adding a node shifts the others but does not reorder them.
pub(crate) fn ordered(nodes: impl Iterator<Item = u32>, key: [u64; 3]) -> Vec<u32> {
    // Each node is keyed by itself, not by a position in a shuffle, or one more node would change the order of all.
    let keyed = |node: u32| (mix([key[0], key[1], key[2], node.into()]), node);
    let mut order: Vec<(u64, u32)> = nodes.map(keyed).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, node)| node).collect()
}

impl Scenario {
    /// Which nodes follow the protocol, given the faulty nodes of each fault. An eclipse is something its
    /// nodes do to all others; a partition is not the fault of any node.
    pub(crate) fn honest(&self, faulty: &[Vec<u32>]) -> Vec<bool> {
        let mut honest = vec![true; self.sim.nodes as usize];
        for (fault, nodes) in self.fault.iter().zip(faulty) {
            for &node in nodes {
                honest[node as usize] &= fault.kind.is_honest();
            }
        }
        honest
    }

    /// Class index of each node, as drawn for a run with this seed.
    pub fn classes(&self, seed: u64) -> Vec<u16> {
        let shares = self.class.iter().map(|class| class.share_pct);
        let class = |node| choose(shares.clone(), spread(seed, node).0) as u16;
        (0..self.sim.nodes).map(class).collect()
    }

    /// Maximum bandwidth that each node ever has: that of its class, or more where a link fault widens it.
    /// `faulty` lists the nodes of each fault.
    pub(crate) fn rates_max(&self, class: &[u16], faulty: &[Vec<u32>]) -> Vec<Rate> {
        let rate = |class: u16, percent: u32| self.class[usize::from(class)].rate(percent.into());
        let mut rates: Vec<Rate> = class.iter().map(|&class| rate(class, 100)).collect();
        let links = self.fault.iter().zip(faulty);
        for (fault, nodes) in links.filter(|(fault, _)| fault.kind == FaultKind::SlowLink) {
            for &node in nodes {
                let other = rate(class[node as usize], fault.factor_pct);
                let most = &mut rates[node as usize];
                most.up_bps = most.up_bps.max(other.up_bps);
                most.down_bps = most.down_bps.max(other.down_bps);
            }
        }
        rates
    }

    /// Names of the classes.
    pub fn class_names(&self) -> Vec<&str> {
        self.class.iter().map(|class| class.name.as_str()).collect()
    }

    /// The costs of a scheme, if the scenario names a table of them.
    pub(crate) fn costs(&self) -> Result<Option<CostTable>, CostsError> {
        self.table(self.compute.costs.as_ref(), CostTable::from_json)
    }

    /// The costs of a code, if the scenario names a table of them.
    pub(crate) fn code_costs(&self) -> Result<Option<CodeTable>, CostsError> {
        self.table(self.compute.code_costs.as_ref(), CodeTable::from_json)
    }

    fn table<T>(
        &self,
        path: Option<&String>,
        read: impl Fn(&str) -> Result<T, TableError>,
    ) -> Result<Option<T>, CostsError> {
        let Some(path) = path.cloned() else {
            return Ok(None);
        };
        match self.inputs.get(&path).map(|text| read(text)) {
            Some(Ok(table)) => Ok(Some(table)),
            Some(Err(error)) => Err(CostsError::Table { path, error }),
            None => Err(CostsError::Missing { path }),
        }
    }

    /// The costs of a scheme, for a protocol that requires them.
    pub(crate) fn costs_for(&self, protocol: &'static str) -> Result<CostTable, CostsError> {
        self.costs()?.ok_or(CostsError::Absent { protocol })
    }

    /// Network, processors and limits of a world with `kinds` kinds of messages. The world does not stop when
    /// it is quiet.
    pub(crate) fn world(&self, drawn: DrawnNetwork, kinds: usize, seed: u64) -> WorldConfig {
        let table_pct = u64::from(self.compute.factor_pct);
        let processor = |class: &Class| Processor {
            cores: u16::try_from(class.cores).unwrap_or(u16::MAX),
            factor_pct: u64::from(class.cpu_factor_pct) * table_pct / 100,
        };
        let class: Arc<[u16]> = drawn.class.into();
        WorldConfig {
            net: NetConfig {
                graph: drawn.graph,
                latency: drawn.latency,
                link: self.link.clone(),
                dial: None,
                rates: self.class.iter().map(|class| class.rate(100)).collect(),
                rate: class.clone(),
                handle_ns: self.compute.handle_ns,
                seed,
                kinds,
                paced: true,
            },
            processors: self.class.iter().map(processor).collect(),
            processor: class,
            limits: Limits {
                events_max: self.sim.events_max,
                sim_time_max_ns: self.sim.sim_time_max_ms.saturating_mul(1_000_000),
                quiet_ns: u64::MAX,
            },
            threads: drawn.threads,
        }
    }
}
