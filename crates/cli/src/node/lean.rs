//! The lean-quickstart file that defines the members of a network (`validator-config.yaml`), as written for
//! the lean clients: names, keys, addresses and ports of the nodes, and the number of validators of each.
//!
//! Its settings for hash-based keys, aggregators and deployment have no meaning here and are ignored;
//! validators have the keys given by the other options of `alphorn genesis`.

use super::files::read;
use super::network::{Hosts, NodeSpec};
use crate::error::Result;
use alphorn_net::NodeKey;
use anyhow::{Context, anyhow};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Maximum length of a node's name in bytes.
const NAME_BYTES_MAX: usize = 64;

/// `validator-config.yaml`.
#[derive(Debug, Deserialize)]
struct File {
    /// `roundrobin`, or absent.
    shuffle: Option<String>,
    #[serde(default)]
    config: Config,
    validators: Vec<Node>,
}

#[derive(Debug, Default, Deserialize)]
struct Config {
    attestation_committee_count: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    name: String,
    privkey: String,
    enr_fields: Fields,
    api_port: Option<u16>,
    count: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct Fields {
    ip: IpAddr,
    quic: u16,
}

/// The network that such a file describes.
pub(crate) struct Lean {
    pub(crate) specs: Vec<NodeSpec>,
    pub(crate) validators: u32,
    pub(crate) committees: Option<u16>,
}

impl Lean {
    /// Reads the file. A node without a port for its interface gets `api_port`, plus one for each node
    /// before it.
    ///
    /// # Errors
    /// If the file or a node in it is invalid.
    pub(crate) fn read(path: &Path, api_port: u16, nodes_max: usize) -> Result<Self> {
        let file: File = read(path)?;
        Ok(file
            .lean(api_port, nodes_max)
            .with_context(|| path.display().to_string())?)
    }
}

impl File {
    fn lean(&self, api_port: u16, nodes_max: usize) -> anyhow::Result<Lean> {
        let count = self.validators.len();
        if !(1..=nodes_max).contains(&count) {
            return Err(anyhow!("{count} nodes, must be 1 to {nodes_max}"));
        }
        if let Some(other) = self.shuffle.as_deref().filter(|how| *how != "roundrobin") {
            return Err(anyhow!("shuffle: {other}, must be roundrobin"));
        }
        let counts: Vec<u32> = self
            .validators
            .iter()
            .map(|node| node.count.unwrap_or(1))
            .collect();
        let sum = counts
            .iter()
            .try_fold(0_u32, |sum, count| sum.checked_add(*count));
        let validators = sum.context("more than 2^32 validators")?;
        let is_even = counts.iter().all(|count| *count == counts[0]);
        let (mut names, mut specs, mut first) = (BTreeSet::new(), Vec::with_capacity(count), 0);
        for (index, (node, own)) in (0..).zip(self.validators.iter().zip(counts)) {
            if own == 0 {
                return Err(anyhow!("{}: count 0, must be at least 1", node.name));
            }
            if !names.insert(&node.name) {
                return Err(anyhow!("two nodes have the name {}", node.name));
            }
            // In turn where all have the same number; otherwise one after the other.
            let hosts = match is_even && self.shuffle.is_some() {
                true => Hosts {
                    first: index,
                    count: own,
                    step: u32::try_from(count)?,
                },
                false => Hosts {
                    first,
                    count: own,
                    step: 1,
                },
            };
            // Cannot overflow, as the sum of all counts was checked above.
            first += own;
            let spec = node.spec(hosts, usize::from(api_port) + specs.len());
            specs.push(spec.with_context(|| node.name.clone())?);
        }
        Ok(Lean {
            specs,
            validators,
            committees: self.config.attestation_committee_count,
        })
    }
}

impl Node {
    fn spec(&self, hosts: Hosts, api_port: usize) -> anyhow::Result<NodeSpec> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let name = &self.name;
        let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
        if !fits || name.starts_with('.') || !name.bytes().all(is_plain) {
            // It is used as a folder name.
            return Err(anyhow!(
                "must be 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`"
            ));
        }
        let port = match self.api_port {
            Some(port) => port,
            None => u16::try_from(api_port).context("no port is left for its interface")?,
        };
        let ip = self.enr_fields.ip;
        Ok(NodeSpec {
            name: name.clone(),
            key: NodeKey::from_hex(self.privkey.trim()).context("privkey")?,
            hosts: Some(hosts),
            peers: SocketAddr::new(ip, self.enr_fields.quic),
            api: SocketAddr::new(ip, port),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes as lean-quickstart writes them.
    fn text(counts: [u32; 2]) -> String {
        let [one, other] = counts;
        let key = |digit: &str| digit.repeat(64);
        format!(
            "shuffle: roundrobin\ndeployment_mode: local\nconfig:\n  activeEpoch: 18\n  \
             keyType: \"hash-sig\"\n  attestation_committee_count: 2\nvalidators:\n  \
             - name: \"zeam_0\"\n    privkey: \"{}\"\n    enrFields:\n      ip: \"127.0.0.1\"\n      \
             quic: 9001\n    metricsPort: 8081\n    apiPort: 5055\n    isAggregator: true\n    \
             count: {one}\n  - name: \"alphorn_0\"\n    privkey: \"{}\"\n    enrFields:\n      \
             ip: \"127.0.0.1\"\n      quic: 9002\n    count: {other}\n",
            key("3"),
            key("4"),
        )
    }

    fn read(text: &str) -> anyhow::Result<Lean> {
        let file: File = serde_saphyr::from_str(text)?;
        file.lean(5052, 64)
    }

    #[test]
    fn nodes_have_their_names_keys_ports_and_validators() {
        let lean = read(&text([3, 3])).unwrap();
        assert_eq!((lean.validators, lean.committees), (6, Some(2)));
        let [zeam, own] = lean.specs.try_into().unwrap();
        assert_eq!(
            (zeam.name.as_str(), zeam.peers.port(), zeam.api.port()),
            ("zeam_0", 9001, 5055)
        );
        assert_eq!(own.api.port(), 5053);
        assert_eq!(own.key.id(), NodeKey::from_bytes([0x44; 32]).unwrap().id());
        let hosts = own.hosts.unwrap();
        assert_eq!((hosts.first, hosts.count, hosts.step), (1, 3, 2));
        // One after the other where they cannot take turns.
        let lean = read(&text([1, 4])).unwrap();
        let hosts = lean.specs[1].hosts.unwrap();
        assert_eq!((hosts.first, hosts.count, hosts.step), (1, 4, 1));
    }

    #[test]
    fn what_is_no_network_is_refused_by_its_name() {
        let good = text([1, 1]);
        for (from, to, named) in [
            ("alphorn_0", "../x", "must be 1 to 64 letters"),
            ("alphorn_0", "zeam_0", "two nodes have the name"),
            ("count: 1", "count: 0", "count 0"),
            ("privkey: \"3", "privkey: \"z", "privkey"),
            ("roundrobin", "random", "shuffle: random"),
        ] {
            let error = read(&good.replace(from, to)).err().unwrap();
            assert!(format!("{error:#}").contains(named), "{to}: {error:#}");
        }
        assert!(read("validators: []\n").is_err());
    }
}
