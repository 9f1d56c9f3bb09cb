//! What a scenario and a seed determine before the first event: classes, regions, faulty nodes, sources.

use super::error::RunError;
use crate::bounds::LowerBounds;
use crate::check::Item;
use crate::graph::Graph;
use crate::latency::Latency;
use crate::net::Rate;
use crate::role::{Role, Wire};
use crate::scenario::{DrawnNetwork, Fault, FaultKind, NoNode, Scenario, ordered};
use crate::world::WorldConfig;
use alphorn_scheme::Op;
use std::sync::Arc;

const FAULT: u64 = 11;
const SOURCE: u64 = 12;
/// A run ends if no part of a payload arrives for this long, which exceeds the time that any of the protocols waits
/// before it asks again.
const QUIET_NS: u64 = 120_000_000_000;

/// Maximum number of sources whose lower bounds are kept: each takes 8 bytes per node.
const LOWER_BOUNDS_MAX: usize = 64;

/// State determined before the first event.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) seed: u64,
    pub(super) graph: Arc<Graph>,
    pub(super) latency: Arc<Latency>,
    /// Class of each node.
    pub(super) class: Vec<u16>,
    /// Maximum bandwidth of each node.
    pub(super) rates: Vec<Rate>,
    /// The fault of each node; the last one if there are several.
    pub(super) fault: Vec<Option<FaultKind>>,
    /// Faulty nodes of each fault of the scenario.
    pub(super) faulty: Vec<Vec<u32>>,
    /// Nodes that must follow the rules.
    pub(super) honest: Vec<bool>,
    /// Source of each payload.
    pub(super) sources: Vec<u32>,
}

/// Whether a fault applies to sources, in which case its nodes are the sources.
fn is_source_fault(kind: FaultKind) -> bool {
    use FaultKind::{Equivocate, NonCodewordSource, RankDeficientSource};
    matches!(kind, NonCodewordSource | RankDeficientSource | Equivocate)
}

impl Setup {
    /// Draws classes, regions, faults and sources; `graph` builds the graph from the sources.
    pub(super) fn draw(
        scenario: &Scenario,
        seed: u64,
        graph: impl FnOnce(&[u32]) -> Result<Graph, RunError>,
    ) -> Result<Setup, RunError> {
        let nodes = scenario.sim.nodes;
        let class = scenario.classes(seed);
        let members = |(index, fault): (u64, &Fault)| {
            let mut members = fault.members([seed, FAULT, index], nodes)?;
            if fault.nodes.is_empty() {
                members.sort_unstable();
            }
            Ok(members)
        };
        let faulty = (0..).zip(&scenario.fault).map(members);
        let faulty: Vec<Vec<u32>> = faulty.collect::<Result<_, NoNode>>()?;
        let mut fault = vec![None; nodes as usize];
        for (spec, members) in scenario.fault.iter().zip(&faulty) {
            for &node in members {
                fault[node as usize] = Some(spec.kind);
            }
        }
        let honest = scenario.honest(&faulty);
        let sources = sources(scenario, seed, &class, &honest, &faulty)?;
        let regions = Latency::regions_of(&scenario.latency, seed, nodes);
        // After the sources, which are the centres of the graph where payloads are sent directly.
        let graph = graph(&sources)?;
        let rates = scenario.rates_max(&class, &faulty);
        Ok(Setup {
            seed,
            latency: Arc::new(Latency::new(&scenario.latency, regions)),
            graph: Arc::new(graph),
            class,
            rates,
            fault,
            faulty,
            honest,
            sources,
        })
    }

    /// The payloads, and the lower bounds of each source. Sources beyond the first 64 share lower bounds computed
    /// with zero latency and the widest links.
    pub(super) fn items(&self, scenario: &Scenario) -> (Vec<Item>, Vec<LowerBounds>) {
        let bytes = scenario.traffic.bytes;
        let interval_ns = scenario.traffic.interval_ms * 1_000_000;
        let faults = || scenario.fault.iter().zip(&self.faulty);
        let equivocal = |source: u32| {
            faults().any(|(f, nodes)| f.kind == FaultKind::Equivocate && nodes.contains(&source))
        };
        let (mut lower_bounds, mut of): (Vec<LowerBounds>, Vec<u32>) = (Vec::new(), Vec::new());
        let item = |(i, &source): (u64, &u32)| {
            let index = match of.iter().position(|&known| known == source) {
                Some(index) => index,
                None if lower_bounds.len() < LOWER_BOUNDS_MAX => {
                    let own =
                        LowerBounds::of(&self.graph, &self.latency, &self.rates, source, bytes);
                    lower_bounds.push(own);
                    of.push(source);
                    lower_bounds.len() - 1
                }
                None => {
                    // The first source without bounds of its own adds the shared ones, at this index.
                    if lower_bounds.len() == LOWER_BOUNDS_MAX {
                        lower_bounds.push(LowerBounds::weakest(&self.rates, bytes));
                    }
                    LOWER_BOUNDS_MAX
                }
            };
            Item {
                source,
                published_ns: i * interval_ns,
                bytes,
                lower_bounds: index as u32,
                equivocal: equivocal(source),
            }
        };
        let items = (0..).zip(&self.sources).map(item).collect();
        (items, lower_bounds)
    }

    /// Minimum latency between neighbours of the first source.
    pub(super) fn least_hop_ns(&self) -> u64 {
        let source = self.sources.first().copied().unwrap_or(0);
        let neighbours = self.graph.peers(source).iter();
        let hops = neighbours.map(|&peer| self.latency.base_ns(source, peer));
        hops.min().unwrap_or(0)
    }

    /// Mean number of connections per node, rounded up.
    pub(super) fn mean_degree(&self) -> u64 {
        (self.graph.ends() as u64).div_ceil(u64::from(self.graph.nodes()))
    }

    /// Network, processors and limits of a run with this many threads.
    pub(super) fn world<R: Role>(&self, scenario: &Scenario, threads: usize) -> WorldConfig {
        let drawn = DrawnNetwork {
            graph: self.graph.clone(),
            latency: self.latency.clone(),
            class: self.class.clone(),
            threads,
        };
        let mut config = scenario.world(drawn, <R::Message as Wire>::KINDS.len(), self.seed);
        // Without paced messages the uplinks need no events of their own.
        config.net.paced = R::Message::PACES;
        config.limits.quiet_ns = QUIET_NS;
        config
    }
}

/// The source of each payload: honest nodes in random order, or the nodes with a source fault.
fn sources(
    scenario: &Scenario,
    seed: u64,
    class: &[u16],
    honest: &[bool],
    faulty: &[Vec<u32>],
) -> Result<Vec<u32>, RunError> {
    let wanted = scenario.traffic.source_class.as_ref();
    let has_class = |node: &u32| {
        let own = &scenario.class[usize::from(class[*node as usize])].name;
        wanted.is_none_or(|wanted| wanted == own)
    };
    let faults = scenario.fault.iter().zip(faulty);
    let meant = faults.filter(|(fault, _)| is_source_fault(fault.kind));
    let mut candidates: Vec<u32> = meant.flat_map(|(_, nodes)| nodes.iter().copied()).collect();
    if candidates.is_empty() {
        candidates = (0..scenario.sim.nodes)
            .filter(|&node| honest[node as usize])
            .collect();
    }
    let order = ordered(candidates.into_iter().filter(has_class), [seed, SOURCE, 0]);
    if order.is_empty() {
        let class = wanted.cloned();
        return Err(RunError::NoSource { class });
    }
    let count = scenario.traffic.count as usize;
    // With more payloads than candidates, these publish again in the same order.
    Ok(order.into_iter().cycle().take(count).collect())
}

/// Costs of duty signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Duty {
    pub(super) sign_ns: u64,
    pub(super) verify_ns: u64,
    /// Size of a signature in bytes; none without a table.
    pub(super) signature_bytes: Option<usize>,
}

/// Costs of duty signatures from the table of the scenario; zero without a table.
pub(super) fn duty(scenario: &Scenario) -> Result<Duty, RunError> {
    let Some(table) = scenario.costs()? else {
        return Ok(Duty::default());
    };
    Ok(Duty {
        sign_ns: table.cost(Op::DutySign, 1, 0).ns,
        verify_ns: table.cost(Op::DutyVerify, 1, 0).ns,
        signature_bytes: usize::try_from(table.sizes.duty_signature).ok(),
    })
}
