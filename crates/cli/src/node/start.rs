//! Assembles a node and runs it until it ends.

use super::files::{NetworkFile, NodeEntry, read_bootnodes};
use super::lines::{self, links};
use super::scheme::Parts;
use super::{Args, Transports, addresses, entropy, guard, load, scheme, settings};
use crate::calibration::{self, Kernel};
use crate::error::{Error, Result};
use crate::overwrite::folder_of;
use crate::replay::{Header, machines};
use crate::report::{not_beside, write_whole};
use crate::text;
use alphorn_dashboard::{Clients, Source as TraceSource, router_among, stream};
use alphorn_net::{Address, Listen, NetError, NodeId, PerKind, TOKENS_LIMIT, Transport};
use alphorn_node::api::Api;
use alphorn_node::clock::{Machine, Source};
use alphorn_node::engine::Settings;
use alphorn_node::host_allow_list::{HostAllowList, guard as guard_hosts};
use alphorn_node::lanes::Pool;
use alphorn_node::memory::{self, Sources};
use alphorn_node::record::Recorder;
use alphorn_node::run::{Control, Node};
use alphorn_node::safety::{KeyId, Opening};
use alphorn_node::sign_log::SignLog;
use alphorn_node::sync::{self, ANSWERS_MAX, FETCHES_MAX};
use alphorn_node::telemetry::Summary;
use alphorn_node::{http, inbox_messages_max, run, topic_bytes, topics_max};
use alphorn_proto::horn::{Config, Horn, SchemeInfo};
use alphorn_proto::slot::SlotClock;
use alphorn_types::{Slot, Time, Unit, Validator};
use alphorn_worker::{ChildCommand, FaultFiles, WorkerConfig};
use anyhow::{Context, anyhow};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, watch};
use tracing::{info, warn};

/// Capacity of the queue of commands to the main loop.
const CONTROL_MAX: usize = 64;
/// Longest answer with blocks, in bytes, including its chunks.
const BLOCK_BYTES_MAX: usize = (16 << 20) + (64 << 10);

/// The chosen kernel of each crate.
type Chosen = BTreeMap<&'static str, String>;

/// The keys and the time with which the store of marks is opened.
pub(super) struct Start {
    pub(super) ids: BTreeMap<Validator, KeyId>,
    pub(super) opening: Opening,
}

/// Runs a node until it is asked to stop.
pub(super) fn run(
    args: &Args,
    network: &NetworkFile,
    nodes: &[NodeEntry],
    own: &NodeEntry,
    parts: Parts,
) -> Result<()> {
    guard::data_folder(&args.data_dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _log = args.log.begin(args.quiet, &args.common.sink());
    let hosts = [own.validators];
    let (load, warning) = load::predict(network, Some(&parts), &hosts, &args.common, args.force)?;
    match warning {
        Some(warning) => warn!("{warning}"),
        None => info!("{}", load.line(args.common.threads()?)),
    }
    runtime.block_on(live(args, network, nodes, own, parts))
}

async fn live(
    args: &Args,
    network: &NetworkFile,
    nodes: &[NodeEntry],
    own: &NodeEntry,
    parts: Parts,
) -> Result<()> {
    let info = parts.info;
    let machine = machines(network, own, parts.keys_digest, info.clone())?;
    let horn = machine.config().clone();
    let ids = own.hosted().filter_map(|v| Some((v, *parts.ids.get(&v)?)));
    let ids = ids.collect();
    let now = opening(&horn, args.recovery.resume_signing);
    // Before the files are opened, so that a checkpoint that is refused leaves neither marks nor blocks behind.
    let checkpoint = args.recovery.checkpoint(&machine)?;
    let start = Start { ids, opening: now };
    let (mut safety, blocks) = args.recovery.open(&args.data_dir, start)?;
    // Taken before marks from elsewhere move in, as those refer to slots that nobody signed.
    let used = Slot(safety.witness().next);
    let behind = safety.behind(used).context("safety.redb")?;
    parts.marks.move_into(&mut safety, now.now_ms)?;
    let settings = settings(args, now, safety.first_slot(), used, behind);
    let header = Header {
        commit: crate::machine::commit().to_owned(),
        network: network.clone(),
        node: own.clone(),
        keys: hex::encode(parts.keys_digest),
        first_slot: settings.first_slot.0,
        started: settings.started.map(|slot| slot.0),
        used: settings.used.0,
        behind: settings.behind.clone(),
    };
    let recorder = args.record.as_deref().map(|path| recorder(path, &header));
    let sign_log = args.sign_log.as_deref().map(|path| {
        SignLog::create(path).with_context(|| format!("--sign-log {}", path.display()))
    });
    let mut net_config = net_config(args, &horn, &machine, &info, nodes, own)?;
    let known: BTreeSet<NodeId> = net_config.peers.iter().map(Address::id).collect();
    let peers = known.len();
    let wake = Arc::new(Notify::new());
    let waker = wake.clone();
    let lanes = lanes(args, parts.child)?;
    let pool = Pool::start(parts.env.clone(), lanes.clone(), move || waker.notify_one())?;
    if args.saturate {
        pool.saturate()?;
    }
    let (code, of_code) = network.alphorn_broadcast_code.make(&args.common)?;
    let measured = [&parts.kernels[..], &of_code].concat();
    let kernels = calibration::chosen(&measured);
    let sources = Sources {
        horn: &machine,
        info: &info,
        code: &code,
        net: &net_config,
        lanes: &lanes,
        resident_bytes: memory::resident_bytes(),
    };
    let memory = memory::bound(&parts.env, &sources);
    // Set last, as the bound follows from the other limits.
    net_config.limits.process_bytes_max = process_bytes_max(memory.values());
    let record = record(&net_config, own, now.now_ms)?;
    let (net, events) = alphorn_net::start(net_config).map_err(in_use)?;
    let _ending = Ending(net.clone());
    let (snapshot, summary) = watch::channel(Arc::new(Summary::default()));
    let node = Node::new(
        run::Parts {
            name: own.name.clone(),
            scheme: network.alphorn_scheme.clone(),
            horn: machine,
            safety: Arc::new(safety),
            settings,
            sign_log: sign_log.transpose()?,
            blocks,
            checkpoint,
            known,
            lanes: Arc::new(pool),
            net,
            events,
            wake,
            source: Machine::default(),
            code,
            cast: args.broadcast.into(),
            cast_secret: entropy::secret()?,
            recorder: recorder.transpose()?,
            record,
            is_aggregator: args.is_aggregator,
            kernels: kernels.clone(),
            memory,
        },
        snapshot,
    )?;
    let (control, commands) = mpsc::channel(CONTROL_MAX);
    let token = token(args)?;
    let api = Api {
        summary,
        window: node.window(),
        control: control.clone(),
        token,
        clients: Clients::new(),
        doctor: Arc::new(doctor(&measured)),
        checkpoint: node.checkpoint(),
    };
    serve_metrics(args, &api)?;
    let api = serve(args, own, api, TraceSource::Live(node.trace()))?;
    info!("{}", hosts(network, own));
    let begins = lines::beginning(network.genesis_time);
    info!("{peers} peers to dial, {begins}, {}", links(api));
    for kernels in [&parts.kernels, &of_code] {
        if !kernels.is_empty() {
            info!("{}", calibration::line(kernels));
        }
    }
    ready(args, own, api, horn.network_id, &kernels)?;
    watch_signals(args, control);
    let last = node.run(commands).await;
    finish(args, &last)
}

/// Makes the process wait for its network to shut down, however startup ends; see `NETWORK_END`.
struct Ending(alphorn_net::Handle);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end(run::NETWORK_END);
    }
}

/// Writes the node's final figures and removes the record of its address, where another process may
/// listen later. A node that did its duties has ended well even if the disk has no room for the
/// figures.
fn finish(args: &Args, last: &Summary) -> Result<()> {
    // If it is already gone, the figures are written all the same.
    let _ = std::fs::remove_file(args.data_dir.join("ready.json"));
    let last = last.with_memory();
    let text = serde_json::to_string_pretty(&last)?;
    if let Err(error) = write_whole(&args.data_dir.join("summary.json"), text.as_bytes()) {
        warn!("{error}");
    }
    info!("{}", lines::last(&last));
    args.common.sink().write(&serde_json::to_value(last)?)
}

/// Returns the process memory above which the network neither accepts nor makes connections: the node's
/// worst case plus a tenth for what the sum does not cover. With a lower limit, a node within its
/// bounds would cut itself off.
fn process_bytes_max<'a>(parts: impl Iterator<Item = &'a u64>) -> usize {
    let bound = parts.fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let room = bound.saturating_add(bound / 10);
    let least = alphorn_net::Limits::default().process_bytes_max;
    usize::try_from(room).unwrap_or(usize::MAX).max(least)
}

/// Describes a node's part in its network.
fn hosts(network: &NetworkFile, own: &NodeEntry) -> String {
    format!(
        "{}: {} of {} validators of {}, large messages in {}; for peers at {}",
        own.name,
        own.validators,
        network.validator_count,
        network.scheme(),
        network.alphorn_broadcast_code.name(),
        own.address
    )
}

/// Returns the node's record: its external IP address with the ports it listens on.
fn record(config: &alphorn_net::Config, own: &NodeEntry, now_ms: u64) -> Result<String> {
    let mut address = own.address.parse::<Address>()?.socket();
    let transport = match &config.listen[..] {
        [one] => one.transport,
        _ => Transport::Both,
    };
    if let Some(listen) = config.listen.first() {
        address.set_port(listen.address.port());
    }
    // Increases with each start, so the newest record wins.
    Ok(config.key.record(address, transport, now_ms))
}

/// Converts a network error, with advice for a port that is already in use.
fn in_use(error: NetError) -> anyhow::Error {
    match error {
        NetError::Listen { .. } => anyhow!(
            "{error}; --gossipsub-port takes another port, which nodes.yaml must then name for the others"
        ),
        other => other.into(),
    }
}

/// Shows the origin of each option and what follows from them, opens the keystores, and reads the
/// checkpoint. Writes nothing.
pub(super) fn rehearse(
    args: &Args,
    network: &NetworkFile,
    nodes: &[NodeEntry],
    own: &NodeEntry,
) -> Result<()> {
    guard::key(&args.node_key, own)?;
    guard::check_data_folder(&args.data_dir)?;
    guard::check_can_write(&args.data_dir)?;
    guard::check_new("--sign-log", args.sign_log.as_deref())?;
    guard::check_new("--record", args.record.as_deref())?;
    hosts_allowed(args, addresses::interface(args, own).ip())?;
    // Fetch its digest before making keys, which may take a while.
    let fetched = args.recovery.fetched()?;
    let (opened, begins) = match fetched {
        None => (
            scheme::open_keystores(args, network, own)?,
            "no checkpoint".to_owned(),
        ),
        // Whether it belongs to the network depends on all keys, as the network's identity does.
        Some(fetched) => {
            let parts = scheme::parts(args, network, own)?;
            let machine = machines(network, own, parts.keys_digest, parts.info)?;
            let read = fetched.read(&machine)?;
            let has_own = network.alphorn_keys.is_some();
            (
                if has_own { own.hosted().count() } else { 0 },
                read.to_string(),
            )
        }
    };
    let keys = match opened {
        0 => "interop keys".to_owned(),
        opened => format!("keystores of {opened} validators are open"),
    };
    let plan = lanes(args, None)?.plan;
    let words: Vec<OsString> = std::env::args_os().skip(2).collect();
    let settings = settings::Settings::find(&words, |name| std::env::var_os(name))?;
    let sink = args.common.sink();
    sink.say(&settings.table());
    sink.say(&format!(
        "{}; {keys}; {begins}; {} peers to dial; interface at {}; {} fast lanes, {} prove lane of {} threads, {} for jobs",
        hosts(network, own),
        peers(args, nodes, own)?.len(),
        addresses::interface(args, own),
        plan.fast_lanes,
        plan.prove_lanes,
        plan.prove_threads,
        text::bytes(plan.memory_budget_bytes),
    ));
    sink.write(&settings.json())
}

/// Returns the configuration of the lanes that jobs run on.
fn lanes(args: &Args, child: Option<ChildCommand>) -> Result<WorkerConfig> {
    let faults = FaultFiles::new(args.data_dir.join("faults"));
    let threads = args.common.threads()?;
    Ok(args.lanes.config(threads, child, Some(faults)))
}

/// Starts the record of a node.
fn recorder(path: &Path, header: &Header) -> Result<Recorder> {
    let recorder = Recorder::create(path, &serde_json::to_vec(header)?);
    Ok(recorder.with_context(|| format!("--record {}", path.display()))?)
}

/// Returns the start time in the form that the store of marks expects.
fn opening(horn: &Config, resume: bool) -> Opening {
    let now = Time::from_nanos(Machine::default().wall_ns());
    Opening {
        now_ms: now.as_nanos() / 1_000_000,
        slot: SlotClock::new(horn.genesis, horn.timing)
            .slot_at(now)
            .unwrap_or(Slot(0)),
        before_genesis: now < horn.genesis,
        resume,
    }
}

/// Determines the slot from which the node signs: the one from the store, but not before the node has
/// listened for its own keys. Nobody signed before genesis, so then there is nothing to listen for.
fn settings(
    args: &Args,
    now: Opening,
    first_slot: Slot,
    used: Slot,
    behind: BTreeMap<Validator, Slot>,
) -> Settings {
    let started = (!now.before_genesis).then_some(now.slot);
    // The slot of the start does not count, as only its rest is heard.
    let heard = started.map(|slot| Slot(slot.0.saturating_add(1 + args.doppelganger_slots)));
    Settings {
        first_slot: first_slot.max(heard.unwrap_or(Slot(0))),
        started,
        used,
        behind,
    }
}

/// Returns the addresses of the other nodes of the network, and of those in `--bootnodes`.
fn peers(args: &Args, nodes: &[NodeEntry], own: &NodeEntry) -> Result<Vec<Address>> {
    let others = nodes.iter().filter(|node| node.name != own.name);
    let others = others.map(|node| Ok(node.address.parse::<Address>()?));
    let mut peers = others.collect::<Result<Vec<Address>>>()?;
    let own = own.address.parse::<Address>()?.id();
    for node in read_bootnodes(&args.bootnodes)? {
        // A list of all nodes contains this one too, and those of nodes.yaml.
        let is_there = |address: &Address| address.id() == node.id();
        if node.id() != own && !peers.iter().any(is_there) {
            peers.push(node);
        }
    }
    Ok(peers)
}

fn net_config(
    args: &Args,
    horn: &Config,
    machine: &Horn,
    info: &SchemeInfo,
    nodes: &[NodeEntry],
    own: &NodeEntry,
) -> Result<alphorn_net::Config> {
    let key = guard::key(&args.node_key, own)?;
    let network = horn.network();
    let mut config = alphorn_net::Config::new(key, network);
    let port = match args.gossipsub_port {
        Some(port) => port,
        None => own.address.parse::<Address>()?.socket().port(),
    };
    let transports: &[Transport] = match args.transport {
        Transports::Quic => &[Transport::Quic],
        Transports::Tcp => &[Transport::Tcp],
        Transports::Both => &[Transport::Quic, Transport::Tcp],
    };
    let listen = transports.iter().map(|transport| Listen {
        address: SocketAddr::new(args.listen, port),
        transport: *transport,
    });
    config.listen = listen.collect();
    config.peers = peers(args, nodes, own)?;
    config.committees = horn.layout.committees();
    config.subcommittees = horn.layout.subcommittees();
    let combining = 2..=horn.layout.levels();
    let units = combining.map(|level| horn.layout.units_of_committee(level));
    config.combining_units = units.sum();
    config.slot_ms = horn.timing.slot_ms();
    config.topic_bytes_max = topic_bytes(machine.format());
    // Peers do not relay blocks longer than any honest proposer makes.
    config.topic_bytes_max.block = horn.block_bytes_bound(info);
    config.topic_messages_per_slot = messages_per_slot(horn);
    config.limits.peers_max = args.peers_max;
    // Inbound peers leave some slots free for peers that this node dials.
    config.limits.peers_in_max = (args.peers_max * 5 / 8).max(1);
    let inbox_max = inbox_messages_max(machine);
    config.limits.inbox_messages_max = inbox_max;
    let votes_bytes = inbox_max.saturating_mul(config.topic_bytes_max.vote);
    config.limits.inbox_bytes_max = votes_bytes.max(config.limits.inbox_bytes_max);
    // One token for each message that the protocol lets wait, and for each that it has not read yet.
    let waiting = horn.waiting_messages_max(info, machine.local());
    let tokens_max = waiting.saturating_add(inbox_max);
    config.limits.tokens_max = tokens_max.min(TOKENS_LIMIT);
    // A node whose subscriptions are rejected by its peers receives nothing.
    let seats = nodes.iter().map(|node| node.validators).max();
    config.limits.subscriptions_max = topics_max(&horn.layout, seats.unwrap_or(0));
    // Blocks are requested from one peer at a time, but those that messages wait for from several at once.
    let block_bytes_max = config.topic_bytes_max.block;
    config.limits.responses_bytes_max =
        ANSWERS_MAX * BLOCK_BYTES_MAX + FETCHES_MAX * block_bytes_max;
    config.requests = sync::requests(BLOCK_BYTES_MAX, block_bytes_max);
    Ok(config)
}

/// Returns the number of messages expected on one topic per slot. A peer may send twice as many; for
/// aggregates and collections that is as many as are accepted.
fn messages_per_slot(horn: &Config) -> PerKind<u32> {
    let layout = &horn.layout;
    let half = |cells: u16, each: u16| (u32::from(cells) * u32::from(each)).div_ceil(2);
    PerKind {
        block: 4,
        collection: half(layout.committees(), horn.level(layout.levels()).taken_max),
        // The maximum over all units of a level, counting the parts that are combined in it.
        aggregate: (1..layout.levels())
            .map(|level| {
                let parts = layout.parts(Unit::new(level + 1, 0, 0)).count();
                half(parts as u16, horn.level(level).taken_max)
            })
            .max()
            .unwrap_or(1),
        vote: layout.cell_len_max().max(16),
    }
}

/// Generates a new token for admin requests, in a file that only its owner can read.
fn token(args: &Args) -> Result<Arc<str>> {
    let token = hex::encode(entropy::secret()?);
    write_private(&args.data_dir.join("api.token"), token.as_bytes())?;
    Ok(token.into())
}

/// Returns what is known of this host.
fn doctor(kernels: &[Kernel]) -> serde_json::Value {
    serde_json::json!({
        "cores": crate::machine::cores(),
        "commit": crate::machine::commit(),
        "kernels": kernels,
    })
}

/// Returns the hosts that an interface at that address answers.
fn hosts_allowed(args: &Args, bound: IpAddr) -> Result<HostAllowList> {
    let hosts = HostAllowList::new(bound, args.http_allow_host.iter().cloned());
    Ok(hosts.context("--http-allow-host")?)
}

/// Serves the HTTP interface, and returns its address.
fn serve(args: &Args, own: &NodeEntry, api: Api, trace: TraceSource) -> Result<SocketAddr> {
    let address = addresses::interface(args, own);
    let listener = std::net::TcpListener::bind(address).map_err(|error| {
        let why = format!("the HTTP interface: {address}: {error}; --api-port takes another port");
        Error::Exit(3, format!("{why}, 0 any that is free"))
    })?;
    let bound = listener.local_addr()?;
    let hosts = hosts_allowed(args, bound.ip())?;
    let clients = api.clients.clone();
    let page = router_among(trace.clone(), clients.clone());
    let app = api.router().nest("/alphorn/v0", stream(trace, clients));
    let app = app.nest_service("/dashboard", page);
    http::serve(listener, guard_hosts(app, hosts), http::Limits::default())?;
    Ok(bound)
}

/// Serves only the metrics on a separate port, if requested.
fn serve_metrics(args: &Args, api: &Api) -> Result<()> {
    let Some(address) = addresses::metrics_address(args) else {
        return Ok(());
    };
    let listener = std::net::TcpListener::bind(address).map_err(|error| {
        let why = format!("the metrics: {address}: {error}; --metrics-port takes another port");
        Error::Exit(3, why)
    })?;
    let bound = listener.local_addr()?;
    let hosts = hosts_allowed(args, bound.ip())?;
    let app = guard_hosts(api.clone().metrics_router(), hosts);
    http::serve(listener, app, http::Limits::default())?;
    info!("metrics http://{bound}/metrics");
    Ok(())
}

/// Reports that the node is running, and where.
fn ready(
    args: &Args,
    own: &NodeEntry,
    api: SocketAddr,
    network: [u8; 32],
    kernels: &Chosen,
) -> Result<()> {
    let ready = serde_json::json!({
        "name": own.name,
        "pid": std::process::id(),
        "address": own.address,
        "api": api.to_string(),
        "network": hex::encode(network),
        "kernels": kernels,
    });
    write_whole(
        &args.data_dir.join("ready.json"),
        ready.to_string().as_bytes(),
    )
}

/// Writes a file that is readable only by its owner, from the first byte on.
fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        // On Unix it is created with mode 0600, and the name keeps that mode.
        let mut file = tempfile::NamedTempFile::new_in(folder_of(path))
            .map_err(|error| not_beside(path, &error))?;
        file.as_file_mut().write_all(bytes)?;
        file.persist(path)?;
        Ok(())
    };
    Ok(write().with_context(|| format!("cannot write {}", path.display()))?)
}

/// Ends the node on Ctrl-C, on SIGTERM and, if requested, when standard input ends.
fn watch_signals(args: &Args, control: mpsc::Sender<Control>) {
    let on_stdin_eof = args.exit_on_stdin_eof;
    tokio::spawn(async move {
        crate::stop::asked(on_stdin_eof).await;
        let _ = control.send(Control::Shutdown).await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node within its own bound makes and accepts connections.
    #[test]
    fn the_limit_of_the_network_is_above_the_bound_of_the_node() {
        let parts = [3 << 30, 9 << 30, 1 << 20];
        let bound: u64 = parts.iter().sum();
        assert!(process_bytes_max(parts.iter()) as u64 > bound + bound / 20);
        let least = alphorn_net::Limits::default().process_bytes_max;
        assert_eq!(process_bytes_max([1].iter()), least);
        assert_eq!(process_bytes_max([u64::MAX, 1].iter()), usize::MAX);
    }
}
