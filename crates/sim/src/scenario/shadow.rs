//! The network of a scenario for Shadow, which runs real programs over a real network stack
//! (shadow.github.io, version 3: its configuration in YAML and its graph in GML).
//!
//! Shadow has one node of its graph for each class of bandwidth in each region. It knows no jitter, and
//! none of our faults.

use super::{Graph as GraphKind, Latency as LatencyKind, Scenario};
use crate::graph::{Graph, GraphError};
use crate::latency::{Latency, REGIONS};
use std::fmt::Write;

/// Most hosts: the addresses of 11.0.0.0/8 that this module gives out.
pub const HOSTS_MAX: u32 = 65_000;

/// The program that each host runs.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its file.
    pub path: String,
    /// Its arguments; `{node}`, `{peers}` and `{seed}` stand for a host's number, the file of its
    /// peers and the seed.
    pub args: String,
    /// Virtual seconds for which it runs.
    pub seconds: u64,
}

/// Files for Shadow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// `shadow.yaml`.
    pub yaml: String,
    /// `graph.gml`.
    pub gml: String,
    /// `peers/nodeI.txt`: name and address of each peer, a line each.
    pub peers: Vec<String>,
}

/// A scenario that Shadow cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShadowError {
    /// It has what Shadow does not know.
    #[error("{0}")]
    Unfit(&'static str),
    /// Too many hosts.
    #[error("sim.nodes = {value}, must be at most {max} for Shadow")]
    Hosts {
        /// How many.
        value: u32,
        /// The bound.
        max: u32,
    },
    /// The graph cannot be made.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// The files for Shadow; the same classes, regions and peers as in a run with this seed.
///
/// # Errors
/// [`ShadowError`] for faults, churn, too many hosts, and graphs that cannot be made.
pub fn shadow(scenario: &Scenario, seed: u64, program: &Program) -> Result<Shadow, ShadowError> {
    if !scenario.fault.is_empty() {
        return Err(ShadowError::Unfit("fault: Shadow does not know our faults"));
    }
    if scenario.class.iter().any(|class| class.up_mean_s > 0) {
        return Err(ShadowError::Unfit(
            "class.up_mean_s: hosts of Shadow do not come and go",
        ));
    }
    let nodes = scenario.sim.nodes;
    if nodes > HOSTS_MAX {
        return Err(ShadowError::Hosts {
            value: nodes,
            max: HOSTS_MAX,
        });
    }
    let regions = Latency::regions_of(&scenario.latency, seed, nodes);
    let graph = match scenario.graph {
        GraphKind::Grid {} => Graph::grid(nodes)?,
        _ => Graph::of(scenario, seed, &regions)?,
    };
    let classes = scenario.classes(seed);
    let count = match scenario.latency {
        LatencyKind::Constant { .. } => 1,
        LatencyKind::Regions { .. } => REGIONS.len() as u32,
    };
    let peers = (0..nodes).map(|node| {
        let peer = |&peer: &u32| format!("node{peer} {}\n", address(peer));
        graph.peers(node).iter().map(peer).collect()
    });
    let mut yaml = format!(
        "general:\n  stop_time: {} s\n  seed: {}\nnetwork:\n  graph:\n    type: gml\n    file:\n      path: graph.gml\nhosts:\n",
        program.seconds,
        // Its seed has 32 bits.
        seed & u64::from(u32::MAX)
    );
    for node in 0..nodes {
        let index = node as usize;
        let place = u32::from(classes[index]) * count + u32::from(regions[index]);
        // Programs run in shadow.data/hosts/NAME.
        let own = format!("../../../peers/node{node}.txt");
        let args = program
            .args
            .replace("{node}", &node.to_string())
            .replace("{peers}", &own)
            .replace("{seed}", &seed.to_string());
        let _ = write!(
            yaml,
            "  node{node}:\n    network_node_id: {place}\n    ip_addr: {}\n    processes:\n    - path: {}\n      args: {}\n      expected_final_state: running\n",
            address(node),
            quoted(&program.path),
            quoted(&args)
        );
    }
    Ok(Shadow {
        yaml,
        gml: gml(scenario, count),
        peers: peers.collect(),
    })
}

/// 11.0.x.y, without addresses that end in 0 or 255.
fn address(node: u32) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::new(11, 0, (node / 254) as u8, (node % 254 + 1) as u8)
}

/// A string of YAML, in double quotes.
fn quoted(text: &str) -> String {
    let mut safe = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => safe.extend(['\\', letter]),
            c if c.is_control() => {
                let _ = write!(safe, "\\x{:02x}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe + "\""
}

/// The graph: a node for each class in each region, an edge for each pair in each direction.
fn gml(scenario: &Scenario, count: u32) -> String {
    let latency = Latency::new(&scenario.latency, (0..count as u8).collect());
    let mut gml = "graph [\n  directed 1\n".to_owned();
    for (class, region) in pairs(scenario, count) {
        let class_of = &scenario.class[class as usize];
        let _ = writeln!(
            gml,
            "  node [\n    id {}\n    host_bandwidth_down \"{} Mbit\"\n    host_bandwidth_up \"{} Mbit\"\n  ]",
            class * count + region,
            class_of.down_mbps,
            class_of.up_mbps
        );
    }
    for (from_class, from) in pairs(scenario, count) {
        for (to_class, to) in pairs(scenario, count) {
            // Shadow takes no latency of zero.
            let us = (latency.base_ns(from, to) / 1000).max(1);
            let ppm = scenario.link.loss_ppm;
            let _ = writeln!(
                gml,
                "  edge [\n    source {}\n    target {}\n    latency \"{us} us\"\n    packet_loss 0.{ppm:06}\n  ]",
                from_class * count + from,
                to_class * count + to
            );
        }
    }
    gml + "]\n"
}

fn pairs(scenario: &Scenario, count: u32) -> impl Iterator<Item = (u32, u32)> {
    let classes = scenario.class.len() as u32;
    (0..classes).flat_map(move |class| (0..count).map(move |region| (class, region)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(more: &str) -> Scenario {
        let text = "name = \"t\"\nschema = 1\n[sim]\nnodes = 300\n[[class]]\nname = \"full\"\nshare_pct = 60\n\
                    down_mbps = 50\nup_mbps = 15\n[[class]]\nname = \"builder\"\nshare_pct = 40\ndown_mbps = 100\nup_mbps = 50\n\
                    [protocol]\nkind = \"gossip\"\n[link]\nloss_ppm = 1000\n";
        Scenario::parse(&format!("{text}{more}"), &[]).unwrap()
    }

    fn program() -> Program {
        Program {
            path: "/opt/a node".into(),
            args: "--index {node} --peers {peers} --seed {seed} \"x\"".into(),
            seconds: 30,
        }
    }

    #[test]
    fn hosts_have_their_class_region_and_peers() {
        let regions = "[latency]\nkind = \"regions\"\nmatrix = \"libp2p-2025\"\n";
        let scenario = scenario(regions);
        let files = shadow(&scenario, 7, &program()).unwrap();
        assert_eq!(files.gml.matches("  node [").count(), 16);
        assert_eq!(files.gml.matches("  edge [").count(), 256);
        assert!(files.gml.contains("packet_loss 0.001000"));
        // South America to South Africa and back are not the same.
        assert!(
            files.gml.contains("latency \"195000 us\"")
                && files.gml.contains("latency \"190000 us\"")
        );
        assert_eq!(files.peers.len(), 300);
        assert!(files.peers.iter().all(|peers| peers.lines().count() > 8));
        let host = files.yaml.split("  node299:").nth(1).unwrap();
        assert!(host.contains("ip_addr: 11.0.1.46\n"), "{host}");
        assert!(host.contains("path: \"/opt/a node\""));
        assert!(
            host.contains("--index 299 --peers ../../../peers/node299.txt --seed 7 \\\"x\\\"\""),
            "{host}"
        );
        let classes = scenario.classes(7);
        let builders = classes.iter().filter(|&&class| class == 1).count();
        assert!((80..160).contains(&builders), "{builders}");
    }

    #[test]
    fn one_latency_is_one_region() {
        let files = shadow(&scenario(""), 1, &program()).unwrap();
        assert_eq!(files.gml.matches("  node [").count(), 2);
        assert_eq!(files.gml.matches("latency \"70000 us\"").count(), 4);
    }

    #[test]
    fn what_shadow_does_not_know_is_refused() {
        let error = |more: &str| {
            shadow(&scenario(more), 1, &program())
                .unwrap_err()
                .to_string()
        };
        assert!(error("[[fault]]\nkind = \"crash\"\nshare_pct = 1\n").contains("fault"));
        let mut many = scenario("");
        many.sim.nodes = HOSTS_MAX + 1;
        assert!(
            shadow(&many, 1, &program())
                .unwrap_err()
                .to_string()
                .contains("65000")
        );
    }
}
