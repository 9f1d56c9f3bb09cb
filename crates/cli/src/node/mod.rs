//! `alphorn node`: one node of a network, in this process.

mod addresses;
pub(crate) mod client;
pub(crate) mod code;
mod entropy;
pub(crate) mod files;
mod guard;
pub(crate) mod lane;
pub(crate) mod layers;
pub(crate) mod lean;
pub(crate) mod lines;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod network;
mod recovery;
pub(crate) mod scheme;
pub(crate) mod settings;
mod start;
mod status;

use crate::error::Result;
use crate::files::validators::KeystoreOptions;
use crate::lanes::LaneOptions;
use crate::options::Plain;
use crate::overwrite::check_apart;
use alphorn_node::cast::Settings;
use alphorn_xmss::Set;
use anyhow::anyhow;
use files::{NetworkFile, read_nodes};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Maximum of this option: no message is longer, so above it nothing is broadcast.
const ABOVE_BYTES_MAX: u32 = 16 << 20;
/// Default port of an interface, if neither the node's options nor nodes.yaml specify one.
const API_PORT: u16 = 5052;
/// The default.
const ABOVE_BYTES: u32 = alphorn_node::cast::ABOVE_BYTES as u32;

/// Run one node of a network: vote, aggregate, collect and propose for the validators it hosts
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example, two nodes on this host, each in its own terminal:
  alphorn genesis --out net --nodes 2
  alphorn node --genesis net --node-id node-0 --data-dir data-0 --node-key net/node-0/node.key
  alphorn node --genesis net --node-id node-1 --data-dir data-1 --node-key net/node-1/node.key

A node prints the addresses of its page and its metrics, one line per slot with the outcome of its
validators' duties, and the totals when it exits. With --json - the lines go to standard error;
--log-format json makes each line an object.

The --genesis folder contains config.yaml (what all nodes agree on) and nodes.yaml (the list of
nodes). Validators have either interop keys, which anyone can compute and which protect nothing, or
their own keys: ALPHORN_KEYS in config.yaml names the file of public keys, --keystores the folder
with the secret keys of the validators that this node hosts. The first start moves an XMSS key: the
mark next to the keystore is spent, and from then on the key signs with this --data-dir only.
Every option can also be set elsewhere: --api-port by ALPHORN_API_PORT in the environment, or by
`api-port: 5052` in the YAML file given by --config. The command line takes precedence over the
environment, which takes precedence over the file. --dry-run shows the source of each option, opens
the keystores, and reads the checkpoint as a normal start does.
The node listens on loopback by default. It exits on Ctrl-C, on SIGTERM, and with
--exit-on-stdin-eof when its parent is gone. Its last figures are then in summary.json."
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Plain,
    /// YAML file with options, such as `api-port: 5052`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check options and files, show each option and its source, and exit
    #[arg(long)]
    dry_run: bool,
    /// Folder with config.yaml and nodes.yaml
    #[arg(long, value_name = "DIR")]
    genesis: PathBuf,
    /// Name of this node in nodes.yaml
    #[arg(long, value_name = "NAME")]
    node_id: String,
    /// Folder for state that must survive a restart; used by one process at a time
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// File with the node's key: 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    node_key: PathBuf,
    #[command(flatten)]
    keys: KeystoreOptions,
    /// Address to listen on for peers
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// Port for peers (default: the one in nodes.yaml)
    #[arg(long, value_name = "PORT")]
    gossipsub_port: Option<u16>,
    /// Transport on which the node listens for peers; it dials them as nodes.yaml says
    #[arg(long, value_enum, default_value_t = Transports::Quic)]
    transport: Transports,
    /// Maximum number of peer connections; what peers may send bounds the memory of the node
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(alphorn_net::PEERS_MAX)))]
    peers_max: u32,
    /// Additional nodes to dial: addresses as in nodes.yaml, node records (enr:...), or YAML files with a
    /// list of either
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    bootnodes: Vec<String>,
    /// Address of the HTTP interface
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    http_address: IpAddr,
    /// Port of the HTTP interface, 0 for any free one (default: the one in nodes.yaml, or 5052)
    #[arg(long, value_name = "PORT")]
    api_port: Option<u16>,
    /// Host names that the HTTP interface answers to, in addition to addresses and localhost
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    http_allow_host: Vec<String>,
    /// Log each right to sign to a new file before it is used, for checking afterwards
    #[arg(long, value_name = "FILE")]
    sign_log: Option<PathBuf>,
    /// Record every input in a new file, for `alphorn replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Keep the prove lanes busy with useless work, to see how duties suffer
    #[arg(long)]
    saturate: bool,
    #[command(flatten)]
    lanes: LaneOptions,
    #[command(flatten)]
    broadcast: BroadcastOptions,
    /// Slots after the start in which the node signs nothing and listens for votes with its own keys; if
    /// another host uses them, this node stays silent. The first is free: a start waits that long anyway
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1_024))]
    doppelganger_slots: u64,
    #[command(flatten)]
    recovery: recovery::RecoveryOptions,
    /// Aggregate and collect when hosted validators are selected; can be changed at run time
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true",
          num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    is_aggregator: bool,
    /// Start even if this host is predicted to be too slow for the node's duties
    #[arg(long)]
    force: bool,
    /// Additional port that serves only the metrics, at --metrics-address
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<u16>,
    /// Address for --metrics-port (default: that of --http-address)
    #[arg(long, value_name = "IP", requires = "metrics_port")]
    metrics_address: Option<IpAddr>,
    /// Exit when standard input is closed
    #[arg(long)]
    exit_on_stdin_eof: bool,
    #[command(flatten)]
    log: log::LogOptions,
    /// Print only errors and warnings
    #[arg(long)]
    quiet: bool,
}

/// A node to start, or a query to a running one. The node's options are required unless it is a query,
/// which the parser's derive cannot express.
#[derive(Debug)]
pub(crate) enum NodeCommand {
    /// Starts a node.
    Begin(Box<Args>),
    /// Queries the state of a running one.
    Status(status::Args),
}

/// The name of that query.
pub(crate) const STATUS: &str = "status";

impl clap::FromArgMatches for NodeCommand {
    fn from_arg_matches(matches: &clap::ArgMatches) -> std::result::Result<Self, clap::Error> {
        Ok(match matches.subcommand() {
            Some((STATUS, matches)) => Self::Status(status::Args::from_arg_matches(matches)?),
            _ => Self::Begin(Box::new(Args::from_arg_matches(matches)?)),
        })
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &clap::ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for NodeCommand {
    fn augment_args(command: clap::Command) -> clap::Command {
        let status = <status::Args as clap::Args>::augment_args(clap::Command::new(STATUS));
        <Args as clap::Args>::augment_args(command)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommand(status)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// What a node listens with.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transports {
    /// QUIC over UDP
    Quic,
    /// TCP with Noise
    Tcp,
    /// Both, on the same port number
    Both,
}

/// What is broadcast in coded pieces, and not gossiped.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct BroadcastOptions {
    /// Broadcast blocks and collections above this size in coded pieces instead of gossiping them; each
    /// node decides for itself
    #[arg(long, value_name = "BYTES", default_value_t = ABOVE_BYTES,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(ABOVE_BYTES_MAX)))]
    pub(crate) broadcast_above: u32,
}

impl From<BroadcastOptions> for Settings {
    fn from(options: BroadcastOptions) -> Self {
        Settings {
            above_bytes: options.broadcast_above as usize,
        }
    }
}

pub(crate) fn run(command: &NodeCommand) -> Result<()> {
    match command {
        NodeCommand::Status(args) => status::run(args),
        NodeCommand::Begin(args) => begin(args),
    }
}

fn begin(args: &Args) -> Result<()> {
    // Done before any keystore is opened, in a rehearsal as well.
    guard::no_core_dumps(args.keys.keystores.is_some());
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
    if args.keys.keystores.is_some() && network.alphorn_keys.is_none() {
        let what = "--keystores: config.yaml has no ALPHORN_KEYS";
        return Err(anyhow!("{what}, validators have interop keys").into());
    }
    let own =
        own.ok_or_else(|| anyhow!("--node-id {}: nodes.yaml has {}", args.node_id, names()))?;
    let read = files_read(args, &network);
    let sink = args.common.sink();
    check_apart(read.iter().map(PathBuf::as_path), sink.path())?;
    let written = [
        args.record.as_deref(),
        args.sign_log.as_deref(),
        sink.path(),
    ];
    check_apart([], written.into_iter().flatten())?;
    guard::check_ports(args, own)?;
    match args.dry_run {
        true => start::rehearse(args, &network, &nodes, own),
        false => {
            let parts = scheme::parts(args, &network, own)?;
            start::run(args, &network, &nodes, own, parts)
        }
    }
}

/// Returns the files that are read at startup, except for keystores, which are never overwritten.
fn files_read(args: &Args, network: &NetworkFile) -> Vec<PathBuf> {
    let names = ["config.yaml", "nodes.yaml"].into_iter();
    let names = names.chain(network.alphorn_keys.as_deref());
    let options = [&args.config, &args.keys.password_file];
    let options = options.into_iter().flatten().chain([&args.node_key]);
    names
        .map(|name| args.genesis.join(name))
        .chain(options.cloned())
        .chain(args.recovery.checkpoint.iter().map(PathBuf::from))
        .collect()
}

/// Returns how long it takes to make one validator's interop keys on one core.
pub(crate) fn key_time(scheme: &str, slots: u64, common: &Plain) -> Result<Duration> {
    let began = Instant::now();
    match scheme {
        "falcon" => {
            let _ = alphorn_falcon::SecretKey::<512>::interop(0);
        }
        "xmss" => {
            let exec = alphorn_exec::Exec::new(common.kernel(&alphorn_stark::KERNELS)?, None);
            alphorn_xmss::Signers::interop(Set::Compact, 1, 0..slots, exec)?;
        }
        // A few microseconds.
        _ => {}
    }
    Ok(began.elapsed())
}
