//! The files that define the network a node belongs to.
//!
//! `config.yaml` holds what all nodes agree on; `nodes.yaml` lists the nodes, their addresses, and the
//! validators that each one hosts. Unknown keys are errors, so that a typo does not silently fall back
//! to a default.

use super::code::BroadcastCode;
use crate::error::Result;
use crate::node::layers::Layers;
use alphorn_lab::fan_out::FanOut;
use alphorn_lab::proof::{PresetName, proofs};
pub(super) use alphorn_lab::yaml::read;
use alphorn_net::Address;
use alphorn_proto::chain::Policy;
use alphorn_proto::horn::{Config, SchemeInfo, Selection};
use alphorn_proto::slot::Timing;
use alphorn_types::{Bitfield, Layout, Time, Validator};
use alphorn_xmss::Set;
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// The last second in which a network may start: in the year 2262, where signed 64-bit nanoseconds end.
pub(crate) const GENESIS_TIME_MAX: u64 = 9_214_646_400;
/// Maximum number of nodes of a network.
const NODES_MAX: usize = 4_096;

/// `config.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
pub(crate) struct NetworkFile {
    /// Unix time in seconds at which slot 0 starts.
    pub(crate) genesis_time: u64,
    pub(crate) validator_count: u32,
    pub(crate) attestation_committee_count: u16,
    pub(crate) subcommittees_per_committee: u16,
    /// Units of the level below in each unit, from the committee down, where there are not two levels
    /// of evidence: `2,4` means committees of two groups of four cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) alphorn_fan_out: Option<FanOut>,
    pub(crate) aggregators_per_subcommittee: u16,
    pub(crate) collectors_per_committee: u16,
    /// `bls`, `falcon` or `xmss`.
    pub(crate) alphorn_scheme: String,
    /// The form of aggregates and collections: `list/list`, `list/proof` or `proof/proof`.
    #[serde(default)]
    pub(crate) alphorn_layers: Layers,
    /// The code for blocks and collections that are too long for gossip: `reed-solomon` or `rlnc`.
    #[serde(default, skip_serializing_if = "BroadcastCode::is_default")]
    pub(crate) alphorn_broadcast_code: BroadcastCode,
    /// What the fork choice does in addition to counting latest votes; `proposer-boost` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) alphorn_fork_choice: Option<String>,
    /// A preset of slot times, or `custom:SLOT_MS:OFFSETS`.
    pub(crate) alphorn_preset: String,
    /// Number of slots for which interop keys with one-time indices are made.
    pub(crate) alphorn_key_slots: u64,
    /// The file next to this one with the validators' public keys; none if they have interop keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) alphorn_keys: Option<String>,
}

/// A node in `nodes.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeEntry {
    pub(crate) name: String,
    pub(crate) address: String,
    /// The first validator that it hosts, the number of them, and the stride.
    pub(crate) first_validator: u32,
    pub(crate) validators: u32,
    #[serde(default = "one")]
    pub(crate) validator_step: u32,
    /// The port of its HTTP interface, unless overridden by `--api-port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_port: Option<u16>,
}

fn one() -> u32 {
    1
}

impl NodeEntry {
    /// Returns the validators that it hosts, in ascending order.
    pub(crate) fn hosted(&self) -> impl Iterator<Item = Validator> + Clone {
        let (first, step) = (self.first_validator, self.validator_step);
        // A number beyond 2^32 becomes that of a validator which no network has, and `read_nodes` refuses it.
        (0..self.validators).map(move |i| Validator(first.saturating_add(i.saturating_mul(step))))
    }
}

impl NetworkFile {
    /// Reads `config.yaml` from a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let network: Self = read(&folder.join("config.yaml"))?;
        network.check()?;
        Ok(network)
    }

    /// Rejects settings that no node can run, as far as that needs no scheme.
    pub(crate) fn check(&self) -> Result<()> {
        if self.genesis_time > GENESIS_TIME_MAX {
            let time = self.genesis_time;
            let what = format!("config.yaml: GENESIS_TIME {time}");
            return Err(anyhow!("{what}, must be at most {GENESIS_TIME_MAX}").into());
        }
        self.timing()?;
        self.layout()?;
        self.check_layers()?;
        self.fork_choice()?;
        if let Some(name) = &self.alphorn_keys
            && Path::new(name).file_name() != Some(name.as_ref())
        {
            let what = "config.yaml: ALPHORN_KEYS";
            return Err(anyhow!("{what} {name}, must be a file beside config.yaml").into());
        }
        Ok(())
    }

    /// Returns the fork choice; with proposer boost if none is named.
    fn fork_choice(&self) -> Result<Policy> {
        let Some(name) = &self.alphorn_fork_choice else {
            return Ok(Policy::default());
        };
        let what = || format!("config.yaml: ALPHORN_FORK_CHOICE {name}");
        Ok(name.parse().with_context(what)?)
    }

    /// Rejects forms of aggregates and collections that the scheme does not support.
    fn check_layers(&self) -> Result<()> {
        let layers = self.alphorn_layers;
        let known: &[Layers] = match self.alphorn_scheme.as_str() {
            "bls" => &[Layers::ListList],
            "falcon" => &[Layers::ListList, Layers::ListProof],
            _ => &[Layers::ListList, Layers::ListProof, Layers::ProofProof],
        };
        if !known.contains(&layers) {
            let known: Vec<&str> = known.iter().map(|layers| layers.name()).collect();
            let (scheme, known) = (&self.alphorn_scheme, known.join(" or "));
            let what = format!("config.yaml: ALPHORN_LAYERS {}", layers.name());
            return Err(anyhow!("{what}, with {scheme} {known}").into());
        }
        let cell = self.layout()?.cell_len_max();
        let max = proofs(Set::Compact, PresetName::Fast).mergeable_max();
        if layers == Layers::ProofProof && cell as usize > max {
            let what = format!("config.yaml: cells of {cell} validators");
            return Err(anyhow!("{what}, with proof/proof at most {max}").into());
        }
        Ok(())
    }

    /// Returns the scheme's name in the network's identity.
    pub(crate) fn scheme(&self) -> String {
        match self.alphorn_layers {
            Layers::ListList => self.alphorn_scheme.clone(),
            layers => format!("{} {}", self.alphorn_scheme, layers.name()),
        }
    }

    pub(crate) fn layout(&self) -> Result<Layout> {
        let cells = self.subcommittees_per_committee;
        let fan_out = match &self.alphorn_fan_out {
            Some(FanOut(fan_out)) => fan_out.clone(),
            None => vec![cells],
        };
        let layout = Layout::with_fan_out(
            self.validator_count,
            self.attestation_committee_count,
            &fan_out,
        );
        let layout = layout.context("config.yaml")?;
        if layout.subcommittees() != cells {
            let made = FanOut(fan_out);
            let what = format!("config.yaml: ALPHORN_FAN_OUT {made}");
            return Err(anyhow!("{what}, but SUBCOMMITTEES_PER_COMMITTEE {cells}").into());
        }
        Ok(layout)
    }

    pub(crate) fn timing(&self) -> Result<Timing> {
        let timing = self.alphorn_preset.parse();
        Ok(timing.context("config.yaml: ALPHORN_PRESET")?)
    }

    /// Returns the protocol configuration, without the network's identity, which is filled in later.
    pub(crate) fn horn(&self, info: &SchemeInfo) -> Result<Config> {
        let mut horn = Config::new(self.layout()?, info);
        horn.timing = self.timing()?;
        horn.genesis = Time::from_millis(self.genesis_time.saturating_mul(1_000));
        horn.selection = Selection::Rank;
        horn.fork_choice = self.fork_choice()?;
        // Below a committee there are as many combiners as aggregators.
        for level in &mut horn.levels {
            level.publishers = self.aggregators_per_subcommittee;
        }
        if let Some(top) = horn.levels.last_mut() {
            top.publishers = self.collectors_per_committee;
        }
        horn.bundle(info);
        horn.validate(info).context("config.yaml")?;
        Ok(horn)
    }
}

/// Reads `nodes.yaml` from a folder: names, addresses and validators, each hosted at most once.
pub(crate) fn read_nodes(folder: &Path, network: &NetworkFile) -> Result<Vec<NodeEntry>> {
    let path = folder.join("nodes.yaml");
    let nodes: Vec<NodeEntry> = read(&path)?;
    let file = path.display();
    if nodes.is_empty() || nodes.len() > NODES_MAX {
        return Err(anyhow!("{file}: {} nodes, must be 1 to {NODES_MAX}", nodes.len()).into());
    }
    let mut taken = Bitfield::new(network.validator_count as usize);
    let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for node in &nodes {
        let name = &node.name;
        if !names.insert(name) {
            return Err(anyhow!("{file}: two nodes have the name {name}").into());
        }
        if node.validator_step == 0 {
            return Err(anyhow!("{file}: {name} has validator_step 0, must be at least 1").into());
        }
        // This ends at the first validator that is unknown or taken, however many a node claims to host.
        for validator in node.hosted() {
            if validator.0 >= network.validator_count {
                let (v, count) = (validator.0, network.validator_count);
                return Err(
                    anyhow!("{file}: {name} hosts validator {v}, there are {count}").into(),
                );
            }
            if taken.get(validator.0 as usize) {
                let v = validator.0;
                return Err(anyhow!("{file}: {name} hosts validator {v} of another node").into());
            }
            taken.set(validator.0 as usize);
        }
        let address = node.address.parse::<Address>();
        let id = address.with_context(|| format!("{file}: {name}"))?.id();
        if !ids.insert(id) {
            return Err(anyhow!("{file}: {name} has the key of another node, {id}").into());
        }
    }
    Ok(nodes)
}

/// Returns the nodes of `--bootnodes`. Each word is an address, a node record, or a YAML file with a
/// list of these.
///
/// # Errors
/// If a file cannot be read, or its content is neither.
pub(crate) fn read_bootnodes(words: &[String]) -> Result<Vec<Address>> {
    let parse = |text: &str| text.trim().parse::<Address>();
    let mut nodes = Vec::new();
    for word in words {
        if word.starts_with("enr:") || word.starts_with("/ip") {
            nodes.push(parse(word).context("--bootnodes")?);
            continue;
        }
        let list: Vec<String> = read(Path::new(word))?;
        for text in &list {
            nodes.push(parse(text).with_context(|| format!("--bootnodes {word}"))?);
        }
    }
    if nodes.len() > NODES_MAX {
        let count = nodes.len();
        return Err(anyhow!("--bootnodes: {count} nodes, must be at most {NODES_MAX}").into());
    }
    Ok(nodes)
}

/// Writes a value to a new YAML file.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let text = serde_saphyr::to_string(value).map_err(|error| anyhow!("{error}"))?;
    crate::report::write_whole(path, text.as_bytes())
}
