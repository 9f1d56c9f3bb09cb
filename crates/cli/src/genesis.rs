//! `alphorn genesis`: the files of a network that starts later.

use crate::error::Result;
use crate::files::shown;
use crate::files::validators::PublicKeys;
use crate::node::files::{GENESIS_TIME_MAX, NetworkFile};
use crate::node::lean::Lean;
use crate::node::network::{Made, NetworkOptions, NodeSpec, write_network};
use crate::options::Common;
use crate::overwrite::{check_apart, folder_of};
use crate::report::{Report, not_beside, table};
use alphorn_exec::Exec;
use anyhow::{Context, anyhow};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum number of nodes whose files are written.
const NODES_MAX: u16 = 4_096;
/// Default number of slots that interop keys are made for.
const KEY_SLOTS: u64 = 256;
/// The file with public keys, next to `config.yaml`.
const KEYS: &str = "public-keys.json";

/// Write the files of a network: its common configuration, its nodes, and a key for each
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn genesis --out net
  alphorn genesis --out net --nodes 8 --validators 1024 --committees 4 --delay 120
  alphorn genesis --out net --nodes 3 --ips 192.0.2.1,192.0.2.2,192.0.2.3 --genesis-time 1900000000
  alphorn node --genesis net --node-id node-0 --data-dir data-0 --node-key net/node-0/node.key
  alphorn node --genesis net --node-id node-1 --data-dir data-1 --node-key net/node-1/node.key
  alphorn devnet --genesis net
  alphorn keys new --count 8 --out keys --password-file password.txt
  alphorn genesis --out net --nodes 1 --keys keys/public-keys.json
  alphorn keys new --scheme xmss --count 8 --slots 4096 --duties --out keys \\
    --password-file password.txt
  alphorn genesis --scheme xmss --out net --nodes 1 --keys keys/public-keys.json

Writes config.yaml, nodes.yaml, prometheus-targets.json and NODE/node.key into a new folder. A node
takes the folder with --genesis and needs only its own key. Without --ips all nodes are on loopback,
at consecutive ports: nodes.yaml has the port for peers (address) and the port of the HTTP interface
(api_port) of each. `alphorn devnet --genesis` starts them all on this host.

Validators have interop keys, which anyone can compute. With --keys they have the keys in a file of
public keys, in its order, and each node needs the keystores of the validators that nodes.yaml
assigns to it. An XMSS validator has two keys, one for votes and one for duties: `keys new --duties`
creates both.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    network: NetworkOptions,
    /// Folder to create; it must not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of nodes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    nodes: u16,
    /// Names, keys, addresses and validators of the nodes, in the format of lean-quickstart's
    /// validator-config.yaml
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "validators", "keys", "ips", "port"])]
    validator_config: Option<PathBuf>,
    /// Start of slot 0, in seconds since 1970
    #[arg(long, value_name = "SECONDS", conflicts_with = "delay",
          value_parser = clap::value_parser!(u64).range(1..=GENESIS_TIME_MAX))]
    genesis_time: Option<u64>,
    /// Seconds from now to the start of slot 0
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(0..=31_536_000))]
    delay: u64,
    /// Public keys of the validators, as listed by `alphorn keys new` (default: validators have interop
    /// keys)
    #[arg(long, value_name = "FILE", conflicts_with = "validators")]
    keys: Option<PathBuf>,
    /// Number of slots of XMSS interop keys (default: 256)
    #[arg(long, value_name = "SLOTS", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    key_slots: Option<u64>,
    /// Address of each node, in order (default: loopback)
    #[arg(long, value_name = "IPS", value_delimiter = ',')]
    ips: Vec<IpAddr>,
    /// First node's port for peers; nodes that share an address count up from it
    #[arg(long, value_name = "PORT", default_value_t = 9000, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Port of the first node's HTTP interface; counted up in the same way
    #[arg(long, value_name = "PORT", default_value_t = 5052, value_parser = clap::value_parser!(u16).range(1..))]
    api_port: u16,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("genesis", args.common.seed);
    let sink = args.common.sink();
    let read = args.keys.iter().chain(&args.validator_config);
    check_apart(read.map(PathBuf::as_path), sink.path())?;
    let key_slots = key_slots(args)?;
    let mut options = args.network.clone();
    let keys = match &args.keys {
        Some(path) => Some(public_keys(args, path)?),
        None => None,
    };
    if let Some(keys) = &keys {
        options.validators = Some(u32::try_from(keys.len())?);
    }
    let max = usize::from(NODES_MAX);
    let lean = args.validator_config.as_deref();
    let lean = lean.map(|path| Lean::read(path, args.api_port, max));
    let specs = match lean.transpose()? {
        Some(lean) => {
            options.validators = Some(lean.validators);
            options.committees = options.committees.or(lean.committees);
            lean.specs
        }
        None => specs(args)?,
    };
    let nodes = u16::try_from(specs.len())?;
    let mut network = options.file(nodes, key_slots, &args.common)?;
    network.alphorn_keys = keys.is_some().then(|| KEYS.to_owned());
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    network.genesis_time = args.genesis_time.unwrap_or(now + args.delay);
    let made = write_whole_network(&args.out, keys.as_ref(), &network, &specs)?;
    let out = args.out.display();
    let rows: Vec<Vec<String>> = made
        .iter()
        .zip(&specs)
        .map(|(made, spec)| {
            let node = &made.node;
            vec![
                node.name.clone(),
                node.validators.to_string(),
                node.address.clone(),
                spec.api.port().to_string(),
            ]
        })
        .collect();
    let from_now = i128::from(network.genesis_time) - i128::from(now);
    sink.say(&format!(
        "{out}: {} validators of {} on {} nodes, slot 0 at {} ({from_now} s from now)\n{}",
        network.validator_count,
        network.scheme(),
        nodes,
        network.genesis_time,
        table(&["node", "validators", "address", "api port"], &rows)
    ));
    let machine = crate::machine::Machine::here(args.common.threads()?, Default::default());
    let fields = serde_json::json!({
        "folder": shown(&args.out),
        "network": network,
        "nodes": made.iter().map(|made| &made.node).collect::<Vec<_>>(),
    });
    let config = serde_json::json!({ "nodes": nodes, "out": shown(&args.out) });
    sink.write(&report.object(&machine, "measured", &config, fields)?)
}

/// Returns the number of slots that interop keys are made for, if they have any.
fn key_slots(args: &Args) -> Result<u64> {
    match (args.key_slots, args.network.scheme.as_str()) {
        (Some(slots), "xmss") => Ok(slots),
        (Some(slots), scheme) => {
            Err(anyhow!("--key-slots {slots}: keys of {scheme} have no slots, of xmss have").into())
        }
        (None, _) => Ok(KEY_SLOTS),
    }
}

/// Writes the folder under a temporary name next to its final path, and renames it when complete.
fn write_whole_network(
    out: &Path,
    keys: Option<&PublicKeys>,
    network: &NetworkFile,
    specs: &[NodeSpec],
) -> Result<Vec<Made>> {
    let named = || format!("--out {}", out.display());
    if out.symlink_metadata().is_ok() {
        return Err(anyhow!("{}: must be a folder that is not there yet", named()).into());
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".alphorn-genesis-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let folder = builder.tempdir_in(folder_of(out));
    let folder = folder.map_err(|error| not_beside(out, &error));
    let folder = folder.with_context(named)?;
    if let Some(keys) = keys {
        keys.write(&folder.path().join(KEYS))?;
    }
    let made = write_network(folder.path(), network, "alphorn", specs)?;
    std::fs::rename(folder.path(), out).with_context(named)?;
    // It has its final name now, and is kept under it.
    let _ = folder.keep();
    Ok(made)
}

/// Reads the validators' public keys, one for each; their proofs of possession are verified.
fn public_keys(args: &Args, path: &Path) -> Result<PublicKeys> {
    let scheme = args.network.scheme.as_str();
    let keys = PublicKeys::read(scheme, path)?;
    match scheme {
        "bls" => {
            let kernel = args.common.kernel(&alphorn_bls::KERNELS)?;
            drop(keys.bls(Exec::new(kernel, None))?);
        }
        "falcon" => drop(keys.falcon(args.common.kernel(&alphorn_labrador::KERNELS)?)?),
        _ => drop(keys.xmss(args.common.kernel(&alphorn_stark::KERNELS)?)?),
    }
    Ok(keys)
}

/// Returns the address of each node. Ports count up among the nodes of one address.
fn specs(args: &Args) -> Result<Vec<NodeSpec>> {
    let nodes = usize::from(args.nodes);
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let ips = match args.ips.len() {
        0 => vec![loopback; nodes],
        given if given == nodes => args.ips.clone(),
        given => {
            return Err(anyhow!("--ips: {given} addresses, --nodes has {nodes}").into());
        }
    };
    let nowhere = |ip: &&IpAddr| ip.is_unspecified() || ip.is_multicast();
    if let Some(ip) = ips.iter().find(nowhere) {
        return Err(anyhow!("--ips: {ip}, must be an address that other nodes can dial").into());
    }
    let spec = |index: usize| {
        let before = ips[..index].iter().filter(|ip| **ip == ips[index]).count();
        let port = |option: &str, first: u16| {
            let port = usize::from(first) + before;
            u16::try_from(port).map_err(|_| {
                anyhow!("{option} {first}: node {index} would have port {port}, at most 65535")
            })
        };
        let peers = SocketAddr::new(ips[index], port("--port", args.port)?);
        let api = SocketAddr::new(ips[index], port("--api-port", args.api_port)?);
        Ok(NodeSpec::new(index, peers, api))
    };
    (0..nodes).map(spec).collect()
}
