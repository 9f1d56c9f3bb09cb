//! Payloads that travel whole: mesh, direct, grid.

use super::error::RunError;
use super::payloads::Nodes;
use super::setup::{Setup, duty};
use crate::fault::needs_validation;
use crate::gossip::{self, Config, Plain};
use crate::graph::Graph;
use crate::role::flood::{Blob, Flood, direct_node, member, mesh, meshes};
use crate::scenario::{Gossip, Scenario};
use std::sync::Arc;

/// The duration of payload validation, and the configuration of a mesh. Payloads are validated in the mesh if that
/// takes time or any node sends invalid ones.
fn config(scenario: &Scenario, gossip: &Gossip) -> Result<(u64, Arc<Config>), RunError> {
    let validation_ns = duty(scenario)?.verify_ns;
    let validates = validation_ns > 0 || needs_validation(scenario);
    let config = Config::of(gossip, validates)?;
    let config = Config {
        // A payload can be requested whatever its size.
        history_bytes_max: config
            .history_bytes_max
            .max(scenario.traffic.bytes.saturating_mul(4)),
        ..config
    };
    Ok((validation_ns, Arc::new(config)))
}

pub(super) fn gossip(
    scenario: &Scenario,
    parameters: &Gossip,
    seed: u64,
) -> Result<Nodes<Flood<gossip::Gossip<Blob>>>, RunError> {
    let (validation_ns, config) = config(scenario, parameters)?;
    let setup = Setup::draw(scenario, seed, |_| Ok(Graph::of(scenario, seed)?))?;
    Ok(Nodes {
        roles: meshes(&setup.graph, &config, validation_ns, seed)?,
        degree: u64::from(config.degree).min(setup.mean_degree()),
        chunks: 1,
        learn: false,
        anew: Box::new(move |_, node, times| {
            mesh(&config, validation_ns, seed, node, times).restarted(times)
        }),
        setup,
    })
}

pub(super) fn direct(
    scenario: &Scenario,
    seed: u64,
) -> Result<Nodes<Flood<Plain<Blob>>>, RunError> {
    let setup = Setup::draw(scenario, seed, |sources| {
        Ok(Graph::stars(scenario.sim.nodes, sources)?)
    })?;
    plain(scenario, setup, scenario.sim.nodes.into(), direct_node)
}

pub(super) fn grid(scenario: &Scenario, seed: u64) -> Result<Nodes<Flood<Plain<Blob>>>, RunError> {
    let setup = Setup::draw(scenario, seed, |_| Ok(Graph::grid(scenario.sim.nodes)?))?;
    let degree = setup.mean_degree();
    plain(scenario, setup, degree, member)
}

/// Creates a node from its graph, the configuration, the validation time and its number.
type Make = fn(&Graph, &Arc<Config>, u64, u32) -> Flood<Plain<Blob>>;

fn plain(
    scenario: &Scenario,
    setup: Setup,
    degree: u64,
    role: Make,
) -> Result<Nodes<Flood<Plain<Blob>>>, RunError> {
    let (validation_ns, config) = config(scenario, &Gossip::default())?;
    Ok(Nodes {
        roles: (0..setup.graph.nodes())
            .map(|node| role(&setup.graph, &config, validation_ns, node))
            .collect(),
        degree,
        chunks: 1,
        learn: false,
        anew: Box::new(move |graph, node, times| {
            role(graph, &config, validation_ns, node).restarted(times)
        }),
        setup,
    })
}
