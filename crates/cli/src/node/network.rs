//! The options that define a network, and the files derived from them.

use super::code::BroadcastCode;
use super::files::{NetworkFile, NodeEntry, write};
use super::scheme::info;
use crate::error::Result;
use crate::node::layers::Layers;
use crate::options::{Common, validators};
use crate::report::write_whole;
use alphorn_lab::fan_out::FanOut;
use alphorn_net::{Address, NodeId, NodeKey, Transport};
use alphorn_proto::slot::Timing;
use anyhow::{Context, anyhow};
use std::net::SocketAddr;
use std::path::Path;

/// What a network is: its scheme, its validators and how they sit, its slots.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct NetworkOptions {
    /// Signature scheme
    #[arg(long, default_value = "bls", value_parser = ["bls", "falcon", "xmss"])]
    pub(crate) scheme: String,
    /// Form of aggregates and of collections; proofs are made in separate processes
    #[arg(long, value_enum, default_value_t = Layers::ListList)]
    pub(crate) layers: Layers,
    /// Length of the slot and its phases (default: lean, with xmss slow; without two levels of evidence,
    /// phases of the same length)
    #[arg(long)]
    pub(crate) preset: Option<Timing>,
    /// Total number of validators, such as 65536 or 2^16 (default: 256; 64 with falcon, 32 with xmss)
    #[arg(long, value_parser = validators)]
    pub(crate) validators: Option<u32>,
    /// Number of committees (default: 2; 1 with xmss)
    #[arg(long)]
    pub(crate) committees: Option<u16>,
    /// Number of cells per committee
    #[arg(long, default_value_t = 2)]
    pub(crate) subcommittees: u16,
    /// Units of the next lower level in each unit, from the committee down: 2,4 means committees of two
    /// groups of four cells, which is three levels of evidence; none means one level
    #[arg(long, value_name = "N,..", conflicts_with = "subcommittees")]
    pub(crate) fan_out: Option<FanOut>,
    /// Number of aggregators per cell, and of combiners per group of cells
    #[arg(long, default_value_t = 2)]
    pub(crate) aggregators: u16,
    /// Number of collectors per committee
    #[arg(long, default_value_t = 2)]
    pub(crate) collectors: u16,
    /// Code for blocks and collections that are too long for gossip
    #[arg(long, value_enum, value_name = "CODE", default_value_t)]
    pub(crate) broadcast_code: BroadcastCode,
    /// Fork choice rule, in addition to counting latest votes
    #[arg(long, value_name = "NAME", default_value = "proposer-boost",
          value_parser = ["lmd", "proposer-boost", "view-merge"])]
    pub(crate) fork_choice: String,
}

impl NetworkOptions {
    /// Returns the length of the slot and its phases.
    ///
    /// # Errors
    /// If no slot has as many phases as there are levels.
    pub(crate) fn timing(&self) -> Result<Timing> {
        let slow = self.scheme == "xmss";
        let default = if slow { Timing::SLOW } else { Timing::LEAN };
        // Levels above the cells. The default slots have phases for one of them.
        let levels = self.fan_out.as_ref().map_or(1, |FanOut(units)| units.len());
        match self.preset {
            Some(preset) => Ok(preset),
            None if levels == 1 => Ok(default),
            None => {
                let phases = 0..default.offsets_ms().len() + levels - 1;
                let phase_ms = default.slot_ms() / default.offsets_ms().len() as u64;
                let offsets: Vec<u64> = phases.map(|phase| phase as u64 * phase_ms).collect();
                let slot_ms = phase_ms * offsets.len() as u64;
                let timing = Timing::custom(slot_ms, &offsets);
                Ok(timing.context("--fan-out")?)
            }
        }
    }

    /// Returns the total number of validators.
    pub(crate) fn validators(&self) -> u32 {
        let default = match self.scheme.as_str() {
            "bls" => 256,
            "falcon" => 64,
            _ => 32,
        };
        self.validators.unwrap_or(default)
    }

    /// Returns `config.yaml` of the network, validated as each of `nodes` nodes will do.
    pub(crate) fn file(&self, nodes: u16, key_slots: u64, common: &Common) -> Result<NetworkFile> {
        let validators = self.validators();
        if validators < u32::from(nodes) {
            return Err(
                anyhow!("--validators {validators}: each of {nodes} nodes hosts one").into(),
            );
        }
        let cells = match &self.fan_out {
            Some(FanOut(units)) => units
                .iter()
                .try_fold(1_u16, |cells, units| cells.checked_mul(*units)),
            None => Some(self.subcommittees),
        };
        let committees = if self.scheme == "xmss" { 1 } else { 2 };
        let network = NetworkFile {
            genesis_time: 0,
            validator_count: validators,
            attestation_committee_count: self.committees.unwrap_or(committees),
            // Impossible committee sizes are reported with the layout.
            subcommittees_per_committee: cells.unwrap_or(u16::MAX),
            alphorn_fan_out: self.fan_out.clone(),
            aggregators_per_subcommittee: self.aggregators,
            collectors_per_committee: self.collectors,
            alphorn_scheme: self.scheme.clone(),
            alphorn_layers: self.layers,
            alphorn_broadcast_code: self.broadcast_code,
            alphorn_fork_choice: Some(self.fork_choice.clone()),
            alphorn_preset: self.timing()?.to_string(),
            alphorn_key_slots: key_slots,
            alphorn_keys: None,
        };
        network.check()?;
        network.horn(&info(&network, common)?)?;
        Ok(network)
    }
}

/// A node whose files are written.
pub(crate) struct Made {
    pub(crate) node: NodeEntry,
    pub(crate) id: NodeId,
}

/// Validators that a node hosts: the first, the number of them, and the stride.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hosts {
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) step: u32,
}

/// A planned node: its name and key, the address where it listens for peers, and that of its interface.
#[derive(Clone, Debug)]
pub(crate) struct NodeSpec {
    pub(crate) name: String,
    pub(crate) key: NodeKey,
    /// None if nodes take turns.
    pub(crate) hosts: Option<Hosts>,
    pub(crate) peers: SocketAddr,
    pub(crate) api: SocketAddr,
}

impl NodeSpec {
    /// Returns the node of an index, with a new key.
    pub(crate) fn new(index: usize, peers: SocketAddr, api: SocketAddr) -> Self {
        NodeSpec {
            name: format!("node-{index}"),
            key: NodeKey::generate(),
            hosts: None,
            peers,
            api,
        }
    }
}

/// Writes the files of a network into an empty folder: `config.yaml`, `nodes.yaml`, the key of each
/// node, and the target list for Prometheus. Validators take turns proposing, and the nodes host them
/// in turn unless specified otherwise.
pub(crate) fn write_network(
    folder: &Path,
    network: &NetworkFile,
    label: &str,
    specs: &[NodeSpec],
) -> Result<Vec<Made>> {
    let count = u32::try_from(specs.len())?;
    let mut made = Vec::with_capacity(specs.len());
    for (index, spec) in (0..count).zip(specs) {
        let name = spec.name.clone();
        let home = folder.join(&name);
        std::fs::create_dir(&home).with_context(|| home.display().to_string())?;
        let key = &spec.key;
        let hosts = spec.hosts.unwrap_or(Hosts {
            first: index,
            count: (network.validator_count - index).div_ceil(count),
            step: count,
        });
        key.write_new(&home.join("node.key"))?;
        let addresses = Address::new(spec.peers, Transport::Quic, key.id());
        let address = addresses
            .first()
            .ok_or_else(|| anyhow!("{name}: no address"))?;
        let node = NodeEntry {
            name,
            address: address.to_string(),
            first_validator: hosts.first,
            validators: hosts.count,
            validator_step: hosts.step,
            api_port: Some(spec.api.port()),
        };
        let id = key.id();
        made.push(Made { node, id });
    }
    write(&folder.join("config.yaml"), network)?;
    let entries: Vec<&NodeEntry> = made.iter().map(|made| &made.node).collect();
    write(&folder.join("nodes.yaml"), &entries)?;
    // For Prometheus file-based discovery.
    let targets = made.iter().zip(specs).map(|(made, spec)| {
        serde_json::json!({
            "targets": [spec.api.to_string()],
            "labels": {"network": label, "node": made.node.name},
        })
    });
    let targets = serde_json::Value::from_iter(targets).to_string();
    write_whole(&folder.join("prometheus-targets.json"), targets.as_bytes())?;
    Ok(made)
}
