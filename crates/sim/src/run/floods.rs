//! Payloads that travel whole: mesh, direct, grid.

use super::setup::{Setup, duty};
use super::{Observe, RunError, finish, prepare, threads};
use crate::fault::needs_validation;
use crate::gossip::{Config, ConfigError};
use crate::graph::Graph;
use crate::report::Outcome;
use crate::role::flood::{direct_node, directs, grids, member, mesh, meshes};
use crate::scenario::{Gossip, Scenario};
use std::sync::Arc;

/// The configuration of a mesh.
fn config(scenario: &Scenario, gossip: &Gossip, validates: bool) -> Result<Config, ConfigError> {
    let config = Config::of(gossip, validates)?;
    Ok(Config {
        // A payload can be asked for whatever its size.
        history_bytes_max: config
            .history_bytes_max
            .max(scenario.traffic.bytes.saturating_mul(4)),
        ..config
    })
}

pub(super) fn gossip(
    scenario: &Scenario,
    parameters: &Gossip,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<Outcome, RunError> {
    let validation_ns = duty(scenario)?.verify_ns;
    let validates = validation_ns > 0 || needs_validation(scenario);
    let config = Arc::new(config(scenario, parameters, validates)?);
    let setup = Setup::draw(scenario, seed, |_, regions| {
        Ok(Graph::of(scenario, seed, regions)?)
    })?;
    let roles = meshes(&setup.graph, &config, validation_ns, seed)?;
    let degree = u64::from(config.degree).min(setup.mean_degree());
    let mut ready = prepare::<_>(
        scenario,
        setup,
        roles,
        (degree, 1),
        threads(scenario, observe),
    )?;
    ready.world.set_restart(move |_, node, times| {
        mesh(&config, validation_ns, (seed, node, times)).restarted(times)
    });
    finish(scenario, ready, observe)
}

pub(super) fn direct(
    scenario: &Scenario,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<Outcome, RunError> {
    let validation_ns = duty(scenario)?.verify_ns;
    let validates = validation_ns > 0 || needs_validation(scenario);
    let config = Arc::new(config(scenario, &Gossip::default(), validates)?);
    let setup = Setup::draw(scenario, seed, |sources, _| {
        Ok(Graph::stars(scenario.sim.nodes, sources)?)
    })?;
    let roles = directs(&setup.graph, &config, validation_ns);
    let degree = u64::from(scenario.sim.nodes);
    let mut ready = prepare::<_>(
        scenario,
        setup,
        roles,
        (degree, 1),
        threads(scenario, observe),
    )?;
    ready.world.set_restart(move |graph, node, times| {
        direct_node(graph, &config, validation_ns, node).restarted(times)
    });
    finish(scenario, ready, observe)
}

pub(super) fn grid(
    scenario: &Scenario,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<Outcome, RunError> {
    let validation_ns = duty(scenario)?.verify_ns;
    let validates = validation_ns > 0 || needs_validation(scenario);
    let config = Arc::new(config(scenario, &Gossip::default(), validates)?);
    let setup = Setup::draw(scenario, seed, |_, _| Ok(Graph::grid(scenario.sim.nodes)?))?;
    let roles = grids(&setup.graph, &config, validation_ns);
    let degree = setup.mean_degree();
    let mut ready = prepare::<_>(
        scenario,
        setup,
        roles,
        (degree, 1),
        threads(scenario, observe),
    )?;
    ready.world.set_restart(move |graph, node, times| {
        member(graph, &config, validation_ns, node).restarted(times)
    });
    finish(scenario, ready, observe)
}
