//! `alphorn node`: one node of a network, in this process.

pub(crate) mod files;
mod start;

use crate::error::Result;
use crate::options::Common;
use alphorn_bls::{Bls, Costs, Exec, Signers};
use alphorn_falcon::{Collections, Falcon};
use alphorn_node::safety::KeyId;
use alphorn_types::Validator;
use alphorn_xmss::{Purpose, Set, Xmss};
use anyhow::anyhow;
use files::{NetworkFile, NodeEntry, read_nodes};
use sha2::{Digest, Sha256};
use start::Parts;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One node of a network: votes, aggregates, collects and proposes for the validators it hosts
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example, with the files that `alphorn devnet --keep` leaves:
  alphorn node --genesis net --node-id node-0 --data-dir net/node-0/data --node-key net/node-0/node.key

The folder of --genesis has config.yaml (what all nodes agree on) and nodes.yaml (who they are).
Validators have interop keys, which everybody can make: this runs test networks, it protects nothing.
The node listens on loopback unless told otherwise, and ends on Ctrl-C, on SIGTERM, and with
--exit-on-stdin-eof when its parent is gone. Its last figures are then in summary.json."
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Folder with config.yaml and nodes.yaml
    #[arg(long, value_name = "DIR")]
    genesis: PathBuf,
    /// Which node of nodes.yaml this is
    #[arg(long, value_name = "NAME")]
    node_id: String,
    /// Folder for what must survive a restart; one process at a time
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// File with the node's key: 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    node_key: PathBuf,
    /// Address to listen on for peers
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// Port for peers; that of nodes.yaml by default
    #[arg(long, value_name = "PORT")]
    gossipsub_port: Option<u16>,
    /// Address of the HTTP interface
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    http_address: IpAddr,
    /// Port of the HTTP interface, 0 for any
    #[arg(long, value_name = "PORT", default_value_t = 5052)]
    api_port: u16,
    /// List each right to sign in a new file before it is used, to be checked afterwards
    #[arg(long, value_name = "FILE")]
    sign_log: Option<PathBuf>,
    /// Keep the prove lanes busy with work of no value, to see what duties suffer
    #[arg(long)]
    saturate: bool,
    /// End when standard input ends
    #[arg(long)]
    exit_on_stdin_eof: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let network = NetworkFile::read(&args.genesis)?;
    let nodes = read_nodes(&args.genesis, &network)?;
    let own = nodes.iter().find(|node| node.name == args.node_id);
    let names = || {
        nodes
            .iter()
            .map(|node| node.name.as_str())
            .collect::<Vec<&str>>()
            .join(", ")
    };
    let own =
        own.ok_or_else(|| anyhow!("--node-id {}: nodes.yaml has {}", args.node_id, names()))?;
    match network.alphorn_scheme.as_str() {
        "bls" => start::run(args, &network, &nodes, own, bls(args, &network, own)?),
        "falcon" => start::run(args, &network, &nodes, own, falcon(args, &network)?),
        "xmss" => start::run(args, &network, &nodes, own, xmss(args, &network)?),
        other => {
            Err(anyhow!("config.yaml: ALPHORN_SCHEME {other}, must be bls, falcon or xmss").into())
        }
    }
}

/// How long the interop keys of one validator take to make on one core.
pub(crate) fn key_time(scheme: &str, slots: u64, common: &Common) -> Result<Duration> {
    let began = Instant::now();
    match scheme {
        "falcon" => {
            let _ = alphorn_falcon::Signers::interop(1, None);
        }
        "xmss" => {
            let exec = alphorn_xmss::Exec::new(common.stark_kernel()?, None);
            alphorn_xmss::Signers::interop(Set::Compact, 1, 0..slots, exec)?;
        }
        // Some microseconds.
        _ => {}
    }
    Ok(began.elapsed())
}

fn id(key: &[u8]) -> KeyId {
    Sha256::digest(key).into()
}

fn bls(args: &Args, network: &NetworkFile, own: &NodeEntry) -> Result<Parts<Bls>> {
    let kernel = args.common.bls_kernel()?;
    let mut bars = crate::progress::Bars::new();
    let exec = Exec::serial();
    let count = network.validator_count;
    let registry = crate::keycache::interop_registry(count, kernel, exec, &mut bars)?.registry;
    let keys = registry.keys();
    let ids = own
        .hosted()
        .map(|v| (v, id(&keys[v.0 as usize].to_bytes())));
    // Keys of others in between are made as well: everybody can.
    let first = own.first_validator;
    let end = own.hosted().last().map_or(first, |last| last.0 + 1);
    Ok(Parts {
        ids: ids.collect::<BTreeMap<Validator, KeyId>>(),
        keys_digest: *registry.digest(),
        scheme: Arc::new(Bls::new(kernel, Costs::measure(kernel))),
        registry: Arc::new(registry),
        signers: Arc::new(Signers::interop(first..end, exec)),
        kernel: format!("bls={}", kernel.name()),
    })
}

fn falcon(args: &Args, network: &NetworkFile) -> Result<Parts<Falcon>> {
    let kernel = args.common.labrador_kernel()?;
    let count = network.validator_count;
    let (signers, registry) = alphorn_falcon::Signers::interop(count, None);
    let key = |v: u32| registry.key(Validator(v)).map(|key| key.bytes().to_vec());
    let all: Vec<Vec<u8>> = (0..count).filter_map(key).collect();
    let ids = (0..count).zip(&all).map(|(v, key)| (Validator(v), id(key)));
    Ok(Parts {
        ids: ids.collect(),
        keys_digest: alphorn_node::genesis::keys_digest(all.iter().map(Vec::as_slice)),
        scheme: Arc::new(Falcon::new(Collections::Lists, kernel)),
        registry: Arc::new(registry),
        signers: Arc::new(signers),
        kernel: format!("labrador={}", kernel.name()),
    })
}

fn xmss(args: &Args, network: &NetworkFile) -> Result<Parts<Xmss>> {
    let kernel = args.common.stark_kernel()?;
    let count = network.validator_count;
    let slots = 0..network.alphorn_key_slots;
    let exec = alphorn_xmss::Exec::new(kernel, None);
    let (signers, registry) = alphorn_xmss::Signers::interop(Set::Compact, count, slots, exec)?;
    let key = |v: u32| {
        registry
            .key(Purpose::Vote, Validator(v))
            .map(|key| key.to_bytes())
    };
    let all: Vec<Vec<u8>> = (0..count).filter_map(key).collect();
    let ids = (0..count).zip(&all).map(|(v, key)| (Validator(v), id(key)));
    Ok(Parts {
        ids: ids.collect(),
        keys_digest: alphorn_node::genesis::keys_digest(all.iter().map(Vec::as_slice)),
        scheme: Arc::new(Xmss::new(Set::Compact, kernel)),
        registry: Arc::new(registry),
        signers: Arc::new(signers),
        kernel: format!("stark={}", kernel.name()),
    })
}
