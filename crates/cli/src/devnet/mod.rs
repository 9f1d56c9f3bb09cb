//! `alphorn devnet`: a network of real processes on loopback, and what became of its duties.

mod api;
mod faults;
mod judge;
mod process;

use crate::error::{Error, Result};
use crate::node::files::{NetworkFile, NodeEntry, write};
use crate::node::key_time;
use crate::node::scheme::Layers;
use crate::options::Common;
use crate::report::{Report, write_whole};
use alphorn_net::{Address, NodeId, NodeKey, Transport};
use alphorn_proto::slot::Timing;
use alphorn_types::Layout;
use anyhow::{Context, anyhow};
use process::Running;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds until genesis, and for each node more: processes start and find each other.
const START_S: u64 = 4;
/// By how much more than it should making keys may take: other programs run, too.
const KEYS_MARGIN: f64 = 1.5;
/// Seconds after genesis until which nodes may start.
const READY_S: u64 = 15;
/// Slots that the processes run on after the last judged one: its votes must be in a block.
const TAIL_SLOTS: u64 = 3;
/// Most nodes of a devnet.
const NODES_MAX: u16 = 64;
/// Most slots of a devnet.
const SLOTS_MAX: u64 = 100_000;

/// A network of real processes on this machine: are all duties done, and how fast
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn devnet
  alphorn devnet --nodes 4 --scheme bls --slots 20
  alphorn devnet --scheme xmss --validators 16 --json devnet.json
  alphorn devnet --preset custom:1000:0,200,400,600,800 --slots 60
  alphorn devnet --scheme falcon --layers list/proof --faults prover --slots 20
  alphorn devnet --faults kill,pause,partition --slots 60 --seed 7

Starts `alphorn node` processes with interop keys that speak QUIC over loopback, lets them run for
some slots, and prints what became of every duty. A vote is done if a block of the next two slots
carries it. The first slots, --warmup-slots, are reported and not judged.

With --faults a node drawn from the seed meets with one of them every so many slots. Slots that a fault
disturbs, from two before it until two after its end or until the node signs again, are reported and
not judged; all others are. Every right to sign is listed by its node before it is used, and none may
be there twice, whatever was killed; no vote may be lost that a block carried before.

Exit codes: 0 all duties done, 1 duties missed, or something signed twice or lost, 2 usage, 3 a node
did not start, 5 nodes disagree on a finalised block or finality stands still, 6 a node did not end.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Processes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    nodes: u16,
    /// Signature scheme
    #[arg(long, default_value = "bls", value_parser = ["bls", "falcon", "xmss"])]
    scheme: String,
    /// What collections are; with list/proof they are made in processes of their own
    #[arg(long, value_enum, default_value_t = Layers::ListList)]
    layers: Layers,
    /// Slots that are judged, after those to warm up
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=SLOTS_MAX))]
    slots: u64,
    /// Slots that are not judged
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=100))]
    warmup_slots: u64,
    /// Length of the slot and its phases; lean, and slow with xmss, by default
    #[arg(long)]
    preset: Option<Timing>,
    /// Validators in all; 256, with falcon 64, with xmss 32 by default
    #[arg(long)]
    validators: Option<u32>,
    /// Committees
    #[arg(long)]
    committees: Option<u16>,
    /// Cells of a committee
    #[arg(long, default_value_t = 2)]
    subcommittees: u16,
    /// Aggregators of a cell
    #[arg(long, default_value_t = 2)]
    aggregators: u16,
    /// Collectors of a committee
    #[arg(long, default_value_t = 2)]
    collectors: u16,
    /// Duties that may be missed
    #[arg(long, default_value_t = 0)]
    allow_missed: u64,
    /// What happens to nodes: kill, term, pause, slow, partition, prover
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_enum)]
    faults: Vec<faults::Kind>,
    /// Slots from one fault to the next
    #[arg(long, value_name = "SLOTS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(6..=1_000))]
    fault_every: u64,
    /// Keep the prove lanes of all nodes busy with work of no value
    #[arg(long)]
    saturate: bool,
    /// Every node records its inputs, for `alphorn replay`: NODE/inputs-LIFE.record in the folder
    #[arg(long)]
    record: bool,
    /// Folder for files, keys and logs; a new one in the system's temporary folder by default
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Leave the folder when all is done
    #[arg(long)]
    keep: bool,
}

/// What the options come to.
struct Plan {
    network: NetworkFile,
    timing: Timing,
    slots: u64,
    warmup: u64,
}

impl Plan {
    fn new(args: &Args) -> Result<Self> {
        let xmss = args.scheme == "xmss";
        let timing = args
            .preset
            .unwrap_or(if xmss { Timing::SLOW } else { Timing::LEAN });
        let validators = args.validators.unwrap_or(match args.scheme.as_str() {
            "bls" => 256,
            "falcon" => 64,
            _ => 32,
        });
        let committees = args.committees.unwrap_or(if xmss { 1 } else { 2 });
        Layout::new(validators, committees, args.subcommittees)?;
        if args.scheme == "bls" && args.layers != Layers::ListList {
            return Err(anyhow!("--layers {}: with bls list/list", args.layers.name()).into());
        }
        if validators < u32::from(args.nodes) {
            let nodes = args.nodes;
            return Err(
                anyhow!("--validators {validators}: each of {nodes} nodes hosts one").into(),
            );
        }
        let all = args.warmup_slots + args.slots + TAIL_SLOTS;
        let key_slots = (all + 8).next_power_of_two().max(64);
        // Every node makes all keys, and all nodes do so at once on the cores of this machine.
        let each_s = key_time(&args.scheme, key_slots, &args.common)?.as_secs_f64();
        let keys = f64::from(validators) * f64::from(args.nodes);
        let keys_s = keys * each_s * KEYS_MARGIN / args.common.threads()? as f64;
        let start_s = START_S + u64::from(args.nodes) / 2 + keys_s.ceil() as u64;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(Plan {
            network: NetworkFile {
                genesis_time: now.as_secs() + start_s,
                validator_count: validators,
                attestation_committee_count: committees,
                subcommittees_per_committee: args.subcommittees,
                aggregators_per_subcommittee: args.aggregators,
                collectors_per_committee: args.collectors,
                alphorn_scheme: args.scheme.clone(),
                alphorn_layers: args.layers,
                alphorn_preset: timing.to_string(),
                alphorn_key_slots: key_slots,
            },
            timing,
            slots: args.slots,
            warmup: args.warmup_slots,
        })
    }

    /// A time so many milliseconds after genesis.
    fn at(&self, ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.network.genesis_time * 1_000 + ms)
    }

    /// The slots that are judged.
    fn judged(&self) -> Range<u64> {
        self.warmup..self.warmup + self.slots
    }

    /// The time at which all is over.
    fn end(&self) -> SystemTime {
        let slots = self.judged().end + TAIL_SLOTS;
        // Past the start of the slot in which the last one is judged.
        self.at(slots * self.timing.slot_ms() + self.timing.slot_ms() / 4)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("devnet", args.common.seed);
    let plan = Plan::new(args)?;
    let seed = args.common.seed;
    let (kinds, every) = (&args.faults, args.fault_every);
    let faults = faults::draw(kinds, every, plan.judged(), &plan.timing, args.nodes, seed)?;
    let folder = Folder::new(args)?;
    let nodes = prepare(&folder.path, args.nodes, &plan.network)?;
    let sink = args.common.sink();
    sink.say(&format!(
        "{} nodes, {} validators, {}, slots of {} ms, in {}",
        args.nodes,
        plan.network.validator_count,
        args.scheme,
        plan.timing.slot_ms(),
        folder.path.display()
    ));
    let extra: Vec<String> = args
        .saturate
        .then(|| "--saturate".to_owned())
        .into_iter()
        .collect();
    let mut running = Running::start(&folder.path, &nodes, &extra, args.record)?;
    running.wait_ready(plan.at(READY_S * 1_000))?;
    let mut happened = Vec::new();
    for fault in faults {
        running.wait_until(plan.at(fault.at_ms), &plan, &sink)?;
        happened.push(running.suffer(fault)?);
    }
    running.wait_until(plan.end(), &plan, &sink)?;
    let told = running.end()?;
    let verdict = judge::Verdict::new(&plan, &told, happened);
    sink.say(&verdict.table());
    let machine = crate::machine::Machine::here(args.common.threads()?, Default::default());
    let config = serde_json::json!({
        "nodes": args.nodes, "scheme": args.scheme, "slots": args.slots,
        "warmup_slots": args.warmup_slots, "network": plan.network,
        "faults": kinds.iter().map(|kind| kind.name()).collect::<Vec<&str>>(),
        "fault_every": every, "saturate": args.saturate,
    });
    sink.write(&report.object(&machine, "measured", &config, verdict.fields())?)?;
    if let Err(error) = verdict.check(args.allow_missed) {
        eprintln!("logs and files are kept in {}", folder.keep().display());
        return Err(error);
    }
    Ok(())
}

/// The folder of a devnet, removed at the end unless it is to be kept.
struct Folder {
    path: PathBuf,
    temporary: Option<tempfile::TempDir>,
}

impl Folder {
    fn new(args: &Args) -> Result<Self> {
        match &args.dir {
            Some(path) => {
                std::fs::create_dir(path).with_context(|| {
                    format!(
                        "--dir {}: must be a folder that is not there yet",
                        path.display()
                    )
                })?;
                Ok(Folder {
                    path: path.clone(),
                    temporary: None,
                })
            }
            None => {
                let folder = tempfile::Builder::new()
                    .prefix("alphorn-devnet-")
                    .tempdir()?;
                let path = folder.path().to_owned();
                let temporary = match args.keep {
                    true => {
                        let _ = folder.keep();
                        None
                    }
                    false => Some(folder),
                };
                Ok(Folder { path, temporary })
            }
        }
    }

    /// Leaves the folder where it is.
    fn keep(self) -> PathBuf {
        if let Some(folder) = self.temporary {
            let _ = folder.keep();
        }
        self.path
    }
}

/// A node of a devnet.
struct Member {
    node: NodeEntry,
    id: NodeId,
    /// The port of its interface, the same after each start.
    api_port: u16,
}

/// Writes keys and files, and gives the nodes.
fn prepare(folder: &Path, count: u16, network: &NetworkFile) -> Result<Vec<Member>> {
    let ports = free_ports(usize::from(count))?;
    let mut nodes = Vec::new();
    for (index, (port, api_port)) in (0u32..).zip(ports) {
        let name = format!("node-{index}");
        let home = folder.join(&name);
        std::fs::create_dir(&home)?;
        let key = NodeKey::generate();
        key.write_new(&home.join("node.key"))?;
        let socket = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let addresses = Address::new(socket, Transport::Quic, key.id());
        let address = addresses
            .first()
            .ok_or_else(|| anyhow!("{name}: no address"))?;
        // Validators take turns to propose; so do the nodes, if they take turns to host.
        let node = NodeEntry {
            name,
            address: address.to_string(),
            first_validator: index,
            validators: (network.validator_count - index).div_ceil(u32::from(count)),
            validator_step: u32::from(count),
        };
        nodes.push(Member {
            node,
            id: key.id(),
            api_port,
        });
    }
    write(&folder.join("config.yaml"), network)?;
    let entries: Vec<&NodeEntry> = nodes.iter().map(|member| &member.node).collect();
    write(&folder.join("nodes.yaml"), &entries)?;
    // For the file discovery of Prometheus.
    let targets = nodes.iter().map(|member| {
        serde_json::json!({
            "targets": [format!("127.0.0.1:{}", member.api_port)],
            "labels": {"network": "devnet", "node": member.node.name},
        })
    });
    let targets = serde_json::Value::from_iter(targets).to_string();
    write_whole(&folder.join("prometheus-targets.json"), targets.as_bytes())?;
    Ok(nodes)
}

/// Ports that are free now, of UDP and TCP. Another process may take one meanwhile; then a node
/// does not start.
fn free_ports(count: usize) -> Result<Vec<(u16, u16)>> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    let open = || Ok((UdpSocket::bind(any)?, TcpListener::bind(any)?));
    let sockets = (0..count).map(|_| open());
    let sockets: Vec<(UdpSocket, TcpListener)> = sockets.collect::<std::io::Result<_>>()?;
    let ports = sockets
        .iter()
        .map(|(udp, tcp)| Ok((udp.local_addr()?.port(), tcp.local_addr()?.port())));
    ports.collect()
}

/// An end with a code of its own.
fn end(code: u8, what: impl Into<String>) -> Error {
    Error::Exit(code, what.into())
}
