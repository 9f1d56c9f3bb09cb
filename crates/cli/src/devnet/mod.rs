//! `alphorn devnet`: a network of real processes on loopback, and the outcome of its duties.

mod arrivals;
mod faults;
mod flood;
mod folder;
mod interrupt;
mod load;
mod outcome;
mod process;
mod progress;
mod resident;

use crate::distinct::distinct;
use crate::error::{Error, Result};
use crate::machine::{Busy, Machine};
use crate::node::files::{NetworkFile, read_nodes};
use crate::node::lines::{beginning, links};
use crate::node::load::{Load, predict};
use crate::node::log::LogOptions;
use crate::node::network::NetworkOptions;
use crate::node::{BroadcastOptions, key_time, layers, scheme};
use crate::options::Common;
use crate::report::{Report, note};
use crate::stop::INTERRUPTED;
use alphorn_node::telemetry::Summary;
use alphorn_proto::slot::Timing;
use alphorn_proto::wire::WireFormat;
use anyhow::{Context, anyhow};
use folder::{Folder, Member, adopt, prepare};
use interrupt::Interrupt;
use process::{Happened, Running, Told};
use progress::Progress;
use resident::watch_until;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds until genesis, base and per node: processes must start and find each other.
const START_S: u64 = 4;
/// Safety factor on the expected time to make keys, since other programs run too.
const KEYS_MARGIN: f64 = 1.5;
/// Seconds after genesis within which nodes may start.
const READY_S: u64 = 15;
/// Slots that the processes run after the last checked one, in addition to those in which its votes may
/// still be included in a block.
const TAIL_SLOTS: u64 = 2;
/// Maximum number of nodes of a devnet.
const NODES_MAX: u16 = 64;
/// Maximum number of slots of a devnet. The figures it collects while running take some 100 bytes per
/// slot and node.
const SLOTS_MAX: u64 = 100_000;
/// Slots between two polls of all nodes' figures: two polls may fail before a slot is forgotten.
const LOOK_SLOTS: u64 = Summary::JUDGED_MAX as u64 / 4;

/// Run a network of real processes on this host and check whether all duties are done, and how fast
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn devnet
  alphorn devnet --nodes 4 --scheme bls --slots 20
  alphorn devnet --scheme xmss --validators 16 --json devnet.json
  alphorn devnet --preset custom:1000:0,200,400,600,800 --slots 60
  alphorn devnet --scheme falcon --layers list/proof --faults prover --slots 20
  alphorn devnet --faults kill,pause,partition --slots 60 --seed 7
  alphorn devnet --faults partition --partition-slots 32 --fault-every 40 --slots 60
  alphorn devnet --validators 64 --flood 16 --slots 40 --allow-missed 1000
  alphorn genesis --out net --delay 30 && alphorn devnet --genesis net

Starts `alphorn node` processes with interop keys, which communicate by QUIC over loopback, runs
them for some slots, and prints the outcome of every duty. A vote is done if a block of the next two
slots carries it, or of the next three where one proof of all collections is made a slot ahead. The
first slots (--warmup-slots) are reported but not checked.

While the network runs, one line per slot, at most one every four seconds, shows the duties of all
nodes so far; the page of each node (addresses are printed at the start) shows more. Ctrl-C or
SIGTERM stops the nodes and prints the outcome of the duties so far. A temporary folder is removed
at the end unless something went wrong; --keep or --dir always keep it.

With --faults one of the faults hits a node drawn from the seed every --fault-every slots. Slots
that a fault disturbs, from two before it to two after its end or until the node signs again, are
reported but not checked; all others are checked. Every node logs each right to sign before it uses
it, and none may occur twice, whatever was killed; no vote that a block carried may be lost later.

With --flood, attackers send the first node forged votes as fast as it reads them, each under a new
identity whenever it is banned. During the flood the memory of each node may be up to 5 % above its
own bound (memory_bound_bytes of its summary). The network continues for 300 s after it, and in the
second half of that time no node may use more than 1.5 times the memory of another. The share of
honest votes in blocks must be at least 99 % of the share before the flood.

Exit codes: 0 all duties done, 1 duties missed, or something signed twice or lost, or a flood that
cost too much, 2 usage, 3 a node did not start or exited early, 4 a node did not answer or left no
figures, 5 nodes disagree on a finalised block or finality stalls, 6 a node did not exit, 130
interrupted.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of node processes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    nodes: u16,
    #[command(flatten)]
    network: NetworkOptions,
    /// Run the network in a folder made by `alphorn genesis`, instead of a new one
    #[arg(long, value_name = "DIR", conflicts_with_all = ["nodes", "scheme", "layers", "preset",
          "validators", "committees", "subcommittees", "fan_out", "aggregators", "collectors",
          "broadcast_code", "dir"])]
    genesis: Option<PathBuf>,
    /// Number of slots that are checked, after the warm-up
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=SLOTS_MAX))]
    slots: u64,
    /// Number of warm-up slots, which are not checked
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=100))]
    warmup_slots: u64,
    /// Number of duties that may be missed
    #[arg(long, default_value_t = 0)]
    allow_missed: u64,
    /// Faults to inject: kill, term, pause, slow, partition, prover
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_enum)]
    faults: Vec<faults::Kind>,
    /// Number of slots from one fault to the next
    #[arg(long, value_name = "SLOTS", default_value_t = 8, requires = "faults",
          value_parser = clap::value_parser!(u64).range(6..=1_000))]
    fault_every: u64,
    /// Duration of a partition in slots (default: 3)
    #[arg(long, value_name = "SLOTS", requires = "faults",
          value_parser = clap::value_parser!(u64).range(1..=256))]
    partition_slots: Option<u64>,
    /// Number of attackers that flood the first node with forged votes, from the eighth checked slot on
    #[arg(long, value_name = "MACHINES", conflicts_with = "faults", value_parser = clap::value_parser!(u16).range(1..=64))]
    flood: Option<u16>,
    /// Start even if this host is predicted to be too slow for the network
    #[arg(long)]
    force: bool,
    /// Keep the prove lanes of all nodes busy with useless work
    #[arg(long)]
    saturate: bool,
    #[command(flatten)]
    broadcast: BroadcastOptions,
    #[command(flatten)]
    log: LogOptions,
    /// Record the inputs of every node for `alphorn replay`, in NODE/inputs-LIFE.record in the folder
    #[arg(long)]
    record: bool,
    /// Folder for files, keys and logs (default: a new one in the system's temporary folder)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the folder at the end
    #[arg(long)]
    keep: bool,
    /// Print only the table at the end
    #[arg(long)]
    quiet: bool,
}

/// The plan that results from the options.
struct Plan {
    network: NetworkFile,
    timing: Timing,
    slots: u64,
    warmup: u64,
    /// Slots that the processes run after the last checked one, so that its votes can be included in a
    /// block.
    tail: u64,
    /// Slots that the processes run after a flood.
    calm: u64,
    /// Whether it ended early.
    is_cut: bool,
    /// Predicted load on this host, and a warning if it is high.
    load: Load,
    warning: Option<String>,
}

/// Default length of a partition in slots.
const PARTITION_SLOTS: u64 = 3;
/// Maximum number of nodes whose addresses are printed one by one.
const LINKS_MAX: usize = 8;

impl Plan {
    /// Plans a network that starts as soon as its nodes can be up, or that of `--genesis`.
    fn new(args: &Args) -> Result<Self> {
        let slots = args.warmup_slots + args.slots + TAIL_SLOTS;
        // One-time keys have room for slots as short as one second after a flood.
        let spare = 8 + args.flood.map_or(0, |_| flood::calm_slots(1_000));
        let key_slots = (slots + spare).next_power_of_two().max(64);
        let (mut network, hosts): (_, Vec<u32>) = match &args.genesis {
            None => {
                let network = args.network.file(args.nodes, key_slots, &args.common)?;
                let count = u32::from(args.nodes);
                let hosted = |index: u32| (network.validator_count - index).div_ceil(count);
                let hosts = (0..count).map(hosted).collect();
                (network, hosts)
            }
            Some(folder) => {
                let network = NetworkFile::read(folder)?;
                if let Some(name) = &network.alphorn_keys {
                    let what = "config.yaml: ALPHORN_KEYS";
                    return Err(anyhow!("{what} {name}: a devnet has interop keys").into());
                }
                let nodes = read_nodes(folder, &network)?;
                let hosts = nodes.iter().map(|node| node.validators).collect();
                (network, hosts)
            }
        };
        let nodes = hosts.len();
        let (load, warning) = predict(&network, None, &hosts, &args.common, args.force)?;
        let horn = network.horn(&scheme::info(&network, &args.common)?)?;
        let timing = network.timing()?;
        let tail = horn.inclusion_slots_min() + TAIL_SLOTS;
        let calm = args
            .flood
            .map_or(0, |_| flood::calm_slots(timing.slot_ms()));
        let all = args.warmup_slots + args.slots + tail + calm;
        let (scheme, slots) = (&network.alphorn_scheme, network.alphorn_key_slots);
        if scheme == "xmss" && slots < all {
            return Err(
                anyhow!("--slots: {all} slots in all, ALPHORN_KEY_SLOTS is {slots}").into(),
            );
        }
        // Every node makes all keys, and all nodes do so at once on the cores of this host.
        let each_s = key_time(scheme, slots, &args.common)?.as_secs_f64();
        let keys = f64::from(network.validator_count) * nodes as f64;
        let keys_s = keys * each_s * KEYS_MARGIN / args.common.threads()? as f64;
        let start_s = START_S + nodes as u64 / 2 + keys_s.ceil() as u64;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        if args.genesis.is_none() {
            network.genesis_time = now + start_s;
        } else if network.genesis_time < now + start_s {
            let time = network.genesis_time;
            return Err(anyhow!(
                "--genesis: GENESIS_TIME {time}, must be at least {} for {nodes} nodes to start",
                now + start_s
            )
            .into());
        }
        Ok(Plan {
            timing,
            network,
            slots: args.slots,
            warmup: args.warmup_slots,
            tail,
            calm,
            is_cut: false,
            load,
            warning,
        })
    }

    /// Returns the lengths of all fields of the network's messages.
    fn format(&self, common: &Common) -> Result<WireFormat> {
        let info = scheme::info(&self.network, common)?;
        Ok(self.network.horn(&info)?.format(&info))
    }

    /// Returns the time this many milliseconds after genesis.
    fn at(&self, ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.network.genesis_time * 1_000 + ms)
    }

    /// Returns the slots whose duties must be done.
    fn checked(&self) -> Range<u64> {
        self.warmup..self.warmup + self.slots
    }

    /// Keeps only the slots that every node has judged by now, since the run ends now.
    fn cut(&mut self) {
        let since = SystemTime::now().duration_since(self.at(0));
        let since_ms = since.map_or(0, |since| since.as_millis() as u64);
        // A slot is judged `tail` slots later, and the warm-up is not counted.
        let begun = since_ms / self.timing.slot_ms();
        let judged = begun.saturating_sub(self.tail + self.warmup);
        self.slots = judged.min(self.slots);
        self.is_cut = true;
    }

    /// Returns the end time of a flood.
    fn calms(&self) -> SystemTime {
        self.after(self.tail)
    }

    /// Returns the end time of the run.
    fn end(&self) -> SystemTime {
        self.after(self.tail + self.calm)
    }

    /// Returns the time this many slots after the last checked one.
    fn after(&self, slots: u64) -> SystemTime {
        let slots = self.checked().end + slots;
        // Past the start of the slot in which the last one is judged.
        self.at(slots * self.timing.slot_ms() + self.timing.slot_ms() / 4)
    }
}

impl Args {
    fn partition_slots(&self) -> u64 {
        self.partition_slots.unwrap_or(PARTITION_SLOTS)
    }
}

/// Rejects a partition length that leaves no room to draw one.
fn check_partition(args: &Args) -> Result<()> {
    let Some(slots) = args.partition_slots else {
        return Ok(());
    };
    match args.faults.contains(&faults::Kind::Partition) {
        true => Ok(()),
        false => Err(anyhow!("--partition-slots {slots}: --faults has no partition").into()),
    }
}

/// Rejects killing provers where nothing is proved: a run without any would pass.
fn check_prover(kinds: &[faults::Kind], layers: layers::Layers) -> Result<()> {
    match kinds.contains(&faults::Kind::Prover) && layers == layers::Layers::ListList {
        true => {
            let why = "nothing is proved there, so no prove lane has a process";
            Err(anyhow!("--faults prover: --layers {}: {why}", layers.name()).into())
        }
        false => Ok(()),
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("devnet", args.common.seed);
    distinct("--faults", &args.faults)?;
    check_partition(args)?;
    let mut plan = Plan::new(args)?;
    check_prover(&args.faults, plan.network.alphorn_layers)?;
    let wanted = faults::Wanted {
        kinds: &args.faults,
        every_slots: args.fault_every,
        partition_slots: args.partition_slots(),
    };
    let flood = args.flood.map(|_| flood::Schedule::new(plan.checked()));
    let flood = flood.transpose()?;
    // Before any file is made: from here on an interruption removes a temporary folder.
    let interrupt = Interrupt::listen()?;
    let adopted = match &args.genesis {
        None => None,
        Some(path) => Some((Folder::given(path), adopt(path, &plan.network)?)),
    };
    let count = match &adopted {
        None => args.nodes,
        Some((_, nodes)) => u16::try_from(nodes.len())?,
    };
    // Done before the folder is created, so that a rejected run leaves no folder with keys.
    let faults = faults::draw(
        wanted,
        plan.checked(),
        &plan.timing,
        count,
        args.common.seed,
    )?;
    let (folder, nodes) = match adopted {
        Some(adopted) => adopted,
        None => {
            let folder = Folder::new(args)?;
            let nodes = prepare(&folder.path, args.nodes, &plan.network)?;
            (folder, nodes)
        }
    };
    let sink = args.common.sink();
    let busy = Busy::now();
    if !args.quiet {
        sink.say(&heading(&plan, &nodes, &folder.path));
        sink.say(&plan.load.line(args.common.threads()?));
    }
    if let Some(warning) = &plan.warning {
        note(&format!("warning: {warning}"));
    }
    let ended = live(
        args,
        &mut plan,
        &folder.path,
        &nodes,
        faults,
        flood.as_ref(),
        interrupt,
    );
    let ended = ended.map_err(while_it_ran);
    let checked = ended.and_then(|ended| {
        let outcome = outcome::Outcome::new(&plan, &ended, args.allow_missed, busy.since());
        let cost = |(schedule, suffered)| flood::Cost::new(suffered, schedule, &ended.told);
        let flooded = flood.as_ref().zip(ended.flooded.as_ref()).map(cost);
        tell(args, &report, &plan, &outcome, flooded.as_ref())
    });
    leave(folder, &checked);
    checked
}

/// Keeps the folder for debugging if something went wrong; an interruption does not count.
fn leave(folder: Folder, ended: &Result<()>) {
    match ended {
        Ok(()) => {}
        Err(Error::Exit(INTERRUPTED, _)) if folder.is_temporary() => {
            note("the temporary folder is removed; --keep or --dir leave one");
        }
        Err(_) => {
            let kept = folder.keep();
            note(&format!("logs and files are kept in {}", kept.display()));
        }
    }
}

/// Wraps a failure while the nodes run, which is never a usage error.
fn while_it_ran(error: Error) -> Error {
    match error {
        Error::Usage(_) => end(4, error.to_string()),
        other => other,
    }
}

/// How the nodes ran.
struct Ended {
    told: Told,
    happened: Vec<Happened>,
    flooded: Option<flood::Suffered>,
}

/// Starts the nodes, injects the faults, and ends the nodes.
fn live(
    args: &Args,
    plan: &mut Plan,
    folder: &Path,
    nodes: &[Member],
    faults: Vec<faults::Fault>,
    flood: Option<&flood::Schedule>,
    interrupt: Interrupt,
) -> Result<Ended> {
    let extra = extra(args, u16::try_from(nodes.len())?);
    let look_every = Duration::from_millis(LOOK_SLOTS * plan.timing.slot_ms());
    let mut running = Running::start(folder, nodes, &extra, args.record, look_every, interrupt)?;
    running.wait_ready(plan.at(READY_S * 1_000))?;
    let progress = || Progress::start(args.common.sink(), plan, nodes);
    let progress = (!args.quiet).then(progress).transpose()?;
    let happened = suffer(faults, plan, &mut running)?;
    let flooded = match flood {
        None => None,
        Some(schedule) => suffer_flood(args, schedule, plan, nodes, &mut running)?,
    };
    running.wait_until(plan.end())?;
    if running.is_interrupted() {
        plan.cut();
    }
    if let Some(progress) = progress {
        progress.end();
    }
    Ok(Ended {
        told: running.end()?,
        happened,
        flooded,
    })
}

/// Prints and reports the outcome of the duties.
///
/// # Errors
/// If something is not as it should be.
fn tell(
    args: &Args,
    report: &Report,
    plan: &Plan,
    outcome: &outcome::Outcome<'_>,
    flooded: Option<&flood::Cost>,
) -> Result<()> {
    let sink = args.common.sink();
    sink.say(&outcome.table());
    if let Some(cost) = flooded {
        sink.say(&cost.table());
    }
    let machine = Machine::here(args.common.threads()?, Default::default());
    let config = config(args, plan, outcome.nodes());
    let mut fields = outcome.fields();
    fields.extend(flooded.map(|cost| ("flood".to_owned(), cost.fields())));
    sink.write(&report.object(&machine, "measured", &config, fields)?)?;
    outcome.check()?;
    flooded.map_or(Ok(()), flood::Cost::check)
}
/// Returns the requested configuration, for the report.
fn config(args: &Args, plan: &Plan, nodes: usize) -> serde_json::Value {
    let faults = args.faults.iter().map(|kind| kind.name());
    serde_json::json!({
        "nodes": nodes, "scheme": plan.network.alphorn_scheme, "slots": args.slots,
        "warmup_slots": args.warmup_slots, "network": plan.network,
        "faults": faults.collect::<Vec<&str>>(),
        "fault_every": args.fault_every, "partition_slots": args.partition_slots(),
        "flood": args.flood, "saturate": args.saturate,
        "broadcast_above": args.broadcast.broadcast_above,
    })
}

/// Returns the heading printed before a network starts: what it is, and where to find its nodes.
fn heading(plan: &Plan, nodes: &[Member], folder: &Path) -> String {
    let mut text = format!(
        "{} nodes, {} validators, {}, slots of {} ms, {}, in {}",
        nodes.len(),
        plan.network.validator_count,
        plan.network.alphorn_scheme,
        plan.timing.slot_ms(),
        beginning(plan.network.genesis_time),
        folder.display()
    );
    for member in nodes.iter().take(LINKS_MAX) {
        let api = SocketAddr::from((Ipv4Addr::LOCALHOST, member.api_port));
        text += &format!("\n{}: {}", member.node.name, links(api));
    }
    if nodes.len() > LINKS_MAX {
        let (more, file) = (nodes.len() - LINKS_MAX, "prometheus-targets.json");
        text += &format!("\n{more} more in {}", folder.join(file).display());
    }
    text
}

/// Injects faults at their times, until an interruption is requested.
fn suffer(faults: Vec<faults::Fault>, plan: &Plan, running: &mut Running) -> Result<Vec<Happened>> {
    let mut happened = Vec::new();
    for fault in faults {
        running.wait_until(plan.at(fault.at_ms))?;
        if running.is_interrupted() {
            break;
        }
        happened.push(running.suffer(fault)?);
    }
    Ok(happened)
}

/// Options passed to all nodes, in addition to those of each node.
fn extra(args: &Args, nodes: u16) -> Vec<String> {
    let mut extra = vec![format!(
        "--broadcast-above={}",
        args.broadcast.broadcast_above
    )];
    if args.saturate {
        extra.push("--saturate".to_owned());
    }
    if args.force {
        extra.push("--force".to_owned());
    }
    if let Some(machines) = args.flood {
        // Five of every eight slots are for inbound peers.
        let peers = u32::from(machines + nodes) * 8 / 5 + 1;
        extra.push(format!("--peers-max={peers}"));
    }
    extra.extend(args.log.words());
    extra
}

/// Floods the first node, and watches the memory of all nodes during and after the flood; none if
/// interrupted.
fn suffer_flood(
    args: &Args,
    schedule: &flood::Schedule,
    plan: &Plan,
    nodes: &[Member],
    running: &mut Running,
) -> Result<Option<flood::Suffered>> {
    let begin = schedule.begin * plan.timing.slot_ms();
    running.wait_until(plan.at(begin))?;
    if running.is_interrupted() {
        return Ok(None);
    }
    let first = nodes.first().context("no node")?;
    let target = flood::Target {
        address: first.node.address.parse()?,
        network: running.network()?,
        format: plan.format(&args.common)?,
    };
    let flood = flood::Flood::start(&target, args.flood.unwrap_or(1))?;
    let during = watch_until(running, plan.calms())?;
    let ended = flood.end();
    let after = watch_until(running, plan.end())?;
    let suffered = flood::Suffered {
        ended,
        during,
        after,
    };
    Ok((!running.is_interrupted()).then_some(suffered))
}

/// Returns an error with its own exit code.
fn end(code: u8, what: impl Into<String>) -> Error {
    Error::Exit(code, what.into())
}
