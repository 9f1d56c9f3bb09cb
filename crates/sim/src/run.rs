//! A run: from a scenario and a seed to an outcome.

mod coded;
pub(crate) mod drive;
pub(crate) mod error;
mod faults;
mod floods;
mod payloads;
pub(crate) mod policy;
mod setup;
#[cfg(test)]
mod tests;

pub use drive::{Observe, Progress};
pub use error::{RunError, Stopped};

use crate::horn;
use crate::report::Outcome;
use crate::scenario::{Mode, Protocol, Scenario};
use crate::tree;
use payloads::go;

/// Maximum number of nodes in a run with real bytes.
pub(crate) const BYTES_NODES_MAX: u32 = 1000;

/// Runs a scenario with one seed.
///
/// # Errors
/// [`RunError`].
pub fn run(scenario: &Scenario, seed: u64, observe: &mut dyn Observe) -> Result<Outcome, RunError> {
    if scenario.sim.mode == Mode::Bytes && scenario.sim.nodes > BYTES_NODES_MAX {
        return Err(RunError::BytesNodes {
            value: scenario.sim.nodes,
            max: BYTES_NODES_MAX,
        });
    }
    match &scenario.protocol {
        Protocol::Gossip(mesh) => go(scenario, floods::gossip(scenario, mesh, seed)?, observe),
        Protocol::Broadcast(coded) => coded::run(scenario, coded, seed, observe),
        Protocol::Direct(_) => go(scenario, floods::direct(scenario, seed)?, observe),
        Protocol::Grid(_) => go(scenario, floods::grid(scenario, seed)?, observe),
        Protocol::Horn(config) => Ok(horn::run(scenario, config, seed, observe)?.outcome),
        Protocol::Tree(config) => Ok(tree::run(scenario, config, seed, observe)?.outcome),
    }
}
