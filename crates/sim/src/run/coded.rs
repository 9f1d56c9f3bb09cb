//! Payloads in coded pieces.

use super::drive::Observe;
use super::error::RunError;
use super::floods;
use super::payloads::{self, Nodes};
use super::policy::{policy_of, privacy, replace_needs};
use super::setup::{Setup, duty};
use crate::fault::Spoil;
use crate::graph::Graph;
use crate::random;
use crate::report::Outcome;
use crate::role::caster::Coder;
use crate::role::coded::{Coded, Payloads};
use crate::role::flood::TooManyPeers;
use crate::scenario::{Broadcast, Latency, Mode, Scenario, Strategy};
use alphorn_broadcast::rlnc::{self, Cut, Generators, Model16, ModelRs, Ristretto, Rs};
use alphorn_broadcast::{Config, Limits, PEERS_MAX, Place, Policy, PolicyChoice};
use alphorn_exec::Backend;
use alphorn_proto::Peer;
use std::sync::Arc;

/// Latency for which policies are designed if a scenario has regions: that of the published
/// comparisons.
const REGIONS_LATENCY_MS: u64 = 70;
/// Size of an authenticator in bytes if there is no cost table.
const AUTH_BYTES: usize = 96;

/// Runs a broadcast with the code of its scenario, with or without real bytes; or whole, if it has no
/// code.
pub(super) fn run(
    scenario: &Scenario,
    broadcast: &Broadcast,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<Outcome, RunError> {
    if broadcast.strategy == Strategy::Gossip {
        let mesh = floods::gossip(scenario, &Default::default(), seed)?;
        return payloads::go(scenario, mesh, observe);
    }
    let bytes = scenario.traffic.bytes;
    let max = rlnc::PAYLOAD_BYTES_MAX;
    let len = u32::try_from(bytes).ok().filter(|len| *len <= max);
    let Some(len) = len else {
        let max = u64::from(max);
        return Err(RunError::Payload { value: bytes, max });
    };
    match (broadcast.strategy, scenario.sim.mode) {
        (Strategy::Rs, Mode::Rank) => go(scenario, broadcast, seed, ModelRs::new(len), observe),
        (Strategy::Rs, Mode::Bytes) => go(scenario, broadcast, seed, Rs::new(len), observe),
        (_, Mode::Rank) => go(scenario, broadcast, seed, Model16::new(len), observe),
        (_, Mode::Bytes) => {
            let cut = cut(scenario, broadcast, len)?;
            let pieces = u64::from(cut.chunks) * u64::from(cut.generations);
            // One more for the length, which is split together with the payload.
            let elements = bytes.div_ceil(pieces * u64::from(rlnc::ELEMENT_PAYLOAD_BYTES)) + 1;
            let elements = u32::try_from(elements)
                .unwrap_or(u32::MAX)
                .min(rlnc::ELEMENTS_MAX);
            let generators = Generators::new(Backend::Portable, elements);
            let code = Ristretto::new(generators, len);
            go(scenario, broadcast, seed, code, observe)
        }
    }
}

fn go<C: rlnc::Coding + Spoil>(
    scenario: &Scenario,
    broadcast: &Broadcast,
    seed: u64,
    code: C,
    observe: &mut dyn Observe,
) -> Result<Outcome, RunError> {
    payloads::go(scenario, nodes(scenario, broadcast, seed, code)?, observe)
}

/// How the payload is split.
fn cut(scenario: &Scenario, broadcast: &Broadcast, len: u32) -> Result<Cut, RunError> {
    let strategy = match broadcast.strategy {
        Strategy::Rs => rlnc::Strategy::Rs,
        _ => rlnc::Strategy::Rlnc,
    };
    Ok(match policy(scenario, broadcast, strategy, len)? {
        PolicyChoice::Fixed(policy) => policy.cut(strategy, len as usize),
        PolicyChoice::Auto => Cut::auto(strategy, len as usize),
    })
}

/// The nodes of a broadcast with a code.
fn nodes<C: rlnc::Coding + Spoil>(
    scenario: &Scenario,
    broadcast: &Broadcast,
    seed: u64,
    code: C,
) -> Result<Nodes<Coded<C>>, RunError> {
    let setup = Setup::draw(scenario, seed, |_| Ok(Graph::of(scenario, seed)?))?;
    let len = scenario.traffic.bytes as u32;
    let choice = policy(scenario, broadcast, code.strategy(), len)?;
    let coder = Arc::new(coder(scenario, code)?);
    let payloads = Arc::new(Payloads {
        sources: setup.sources.clone(),
        bytes: scenario.traffic.bytes,
        real: scenario.sim.mode == Mode::Bytes,
    });
    // The degree of most nodes.
    let places = match broadcast.places.unwrap_or(true) {
        true => u16::try_from(setup.mean_degree()).unwrap_or(PEERS_MAX),
        false => 0,
    };
    let configs: Vec<Arc<Config>> = (0..scenario.class.len())
        .map(|class| config(scenario, broadcast, choice, class, places).map(Arc::new))
        .collect::<Result<_, _>>()?;
    let mut roles = Vec::with_capacity(setup.class.len());
    for node in 0..scenario.sim.nodes {
        let value = setup.graph.peers(node).len();
        if value > usize::from(PEERS_MAX) {
            let max = usize::from(PEERS_MAX);
            return Err(TooManyPeers { node, value, max }.into());
        }
        let config = configs[usize::from(setup.class[node as usize])].clone();
        let secret = random::bytes(seed, "broadcast", node);
        let (coder, payloads) = (coder.clone(), payloads.clone());
        roles.push(Coded::new(coder, payloads, config, node, secret, 0));
    }
    let places = handshakes(&setup.graph, &roles);
    for (role, places) in roles.iter_mut().zip(&places) {
        role.set_places(places.clone());
    }
    let class = setup.class.clone();
    Ok(Nodes {
        roles,
        degree: setup.mean_degree(),
        chunks: u64::from(cut(scenario, broadcast, len)?.chunks),
        learn: true,
        anew: Box::new(move |_, node, times| {
            let config = configs[usize::from(class[node as usize])].clone();
            // With another secret the machine deals other places, but neighbours keep those of the first
            // handshake and nothing else reads them.
            let secret = random::bytes(seed, &format!("broadcast/{times}"), node);
            let (coder, payloads) = (coder.clone(), payloads.clone());
            let mut role = Coded::new(coder, payloads, config, node, secret, times);
            role.set_places(places[node as usize].clone());
            role
        }),
        setup,
    })
}

/// The positions exchanged in the handshake of each connection: for each node, its position in the
/// order of each neighbour. A node that restarts assigns the same positions as before.
fn handshakes<C: rlnc::Coding>(graph: &Graph, roles: &[Coded<C>]) -> Vec<Arc<[Option<Place>]>> {
    let nodes = 0..roles.len() as u32;
    let told = |node: u32| {
        let place = |(number, &peer): (u64, &u32)| {
            let back = graph.back(graph.end(node, number)?);
            roles[peer as usize].place_of(Peer(back.into()))
        };
        (0..).zip(graph.peers(node)).map(place).collect()
    };
    nodes.map(told).collect()
}

fn coder<C: rlnc::Coding>(scenario: &Scenario, code: C) -> Result<Coder<C>, RunError> {
    let duty = duty(scenario)?;
    Ok(Coder {
        code,
        table: scenario.code_costs()?,
        sign_ns: duty.sign_ns,
        verify_ns: duty.verify_ns,
        auth_bytes: duty.signature_bytes.unwrap_or(AUTH_BYTES),
    })
}

/// The mean uplink of the nodes and the latency for which policies are designed.
fn reference(scenario: &Scenario) -> (u64, u64) {
    let classes = scenario.class.iter();
    let share = classes.map(|class| class.up_mbps * 1_000_000 * u64::from(class.share_pct));
    let latency_ms = match scenario.latency {
        Latency::Constant { ms, .. } => ms,
        Latency::Regions { .. } => REGIONS_LATENCY_MS,
    };
    // The shares add up to 100.
    (share.sum::<u64>() / 100, latency_ms * 1_000_000)
}

/// The policy by name, with the overrides of the scenario.
fn policy(
    scenario: &Scenario,
    broadcast: &Broadcast,
    strategy: rlnc::Strategy,
    len: u32,
) -> Result<PolicyChoice, RunError> {
    let (up_bps, latency_ns) = reference(scenario);
    policy_of(broadcast, strategy, Policy::auto(len, up_bps, latency_ns))
}

/// The configuration of the nodes of a class.
fn config(
    scenario: &Scenario,
    chosen: &Broadcast,
    policy: PolicyChoice,
    class: usize,
    places: u16,
) -> Result<Config, RunError> {
    let mut defaults = Config::default();
    replace_needs(&mut defaults, chosen);
    let (reference_uplink_bps, reference_latency_ns) = reference(scenario);
    let in_flight = chosen
        .in_flight
        .map(|pieces| u8::try_from(pieces).unwrap_or(u8::MAX));
    let config = Config {
        limits: Limits {
            network_id: [0; 32],
            header_auth_bytes_max: alphorn_broadcast::AUTH_BYTES_MAX,
        },
        payload_bytes_max: scenario.traffic.bytes as u32,
        policy,
        uplink_bps: scenario.class[class].up_mbps * 1_000_000,
        reference_uplink_bps,
        reference_latency_ns,
        peers_max: PEERS_MAX,
        places,
        source_privacy: privacy(chosen.source_privacy.unwrap_or_default()),
        memory_bytes_max: u64::MAX,
        sends_in_flight_peer_max: in_flight.unwrap_or(defaults.sends_in_flight_peer_max),
        ..defaults
    };
    config.validate()?;
    Ok(config)
}
