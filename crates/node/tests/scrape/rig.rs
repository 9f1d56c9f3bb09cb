//! Two nodes of the scheme without cryptography in this process, over loopback and the wall clock.

use alphorn_dashboard::Clients;
use alphorn_net::{Listen, NodeKey, Transport};
use alphorn_node::blocks::Blocks;
use alphorn_node::cast::{self, Code};
use alphorn_node::clock::{Machine, Source};
use alphorn_node::engine::Settings;
use alphorn_node::lanes::Pool;
use alphorn_node::run::{Control, Node, Parts};
use alphorn_node::safety::{Opening, SafetyStore};
use alphorn_node::telemetry::{Summary, Window, metrics_text};
use alphorn_node::{sync, topic_bytes};
use alphorn_proto::horn::{Config, Horn, Local, SchemeInfo};
use alphorn_proto::slot::Timing;
use alphorn_proto::wire::Topic;
use alphorn_scheme::Env;
use alphorn_scheme::model::{CostTable, Model, ModelRegistry, ModelSigners};
use alphorn_types::{Bitfield, Layout, Slot, Time};
use alphorn_worker::WorkerConfig;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, mpsc, watch};

const NODES: u32 = 2;
const VALIDATORS: u32 = 16;
/// A machine that stands still for a while gets as many slots as it needs.
const PATIENCE: Duration = Duration::from_secs(300);
/// Where the chain must stand.
const FINALISED: u64 = 3;

/// A node that runs.
pub(crate) struct Running {
    window: Window,
    pub(crate) summary: watch::Receiver<Arc<Summary>>,
    control: mpsc::Sender<Control>,
    thread: JoinHandle<()>,
    pub(crate) net: alphorn_net::Handle,
    /// The name of the topic of blocks.
    pub(crate) blocks: String,
}

impl Running {
    fn end(self) {
        self.control.blocking_send(Control::Shutdown).unwrap();
        self.thread.join().unwrap();
    }
}

/// What a node told when it had run some slots.
pub(crate) struct Told {
    /// The page of its metrics.
    pub(crate) text: String,
    /// Its summary.
    pub(crate) summary: Arc<Summary>,
    /// What else it shows.
    pub(crate) window: Window,
}

fn horn(index: u32, genesis: Time) -> Horn {
    let scheme = Model::new(CostTable::example()).unwrap();
    let layout = Layout::new(VALIDATORS, 2, 1).unwrap();
    let info = SchemeInfo::of(&scheme, &layout);
    let mut config = Config::new(layout, &info);
    config.genesis = genesis;
    config.timing = Timing::custom(1_000, &[0, 200, 400, 600, 800]).unwrap();
    config.epoch_slots = 4;
    let mut validators = Bitfield::new(VALIDATORS as usize);
    let own = (0..VALIDATORS).filter(|v| v % NODES == index);
    own.for_each(|v| validators.set(v as usize));
    let local = Local {
        voters: validators.clone(),
        validators,
        trust_own: true,
    };
    Horn::new(config, info, local).unwrap()
}

fn network(index: u32, horn: &Horn) -> alphorn_net::Config {
    let digest = horn.config().network();
    let mut config = alphorn_net::Config::new(key(index), digest);
    config.listen = vec![Listen {
        address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0),
        transport: Transport::Quic,
    }];
    config.committees = horn.config().layout.committees();
    config.subcommittees = horn.config().layout.subcommittees();
    config.slot_ms = horn.config().timing.slot_ms();
    config.topic_bytes_max = topic_bytes(horn.format());
    config.requests = sync::requests(1 << 24, 1 << 20);
    config
}

/// The clocks of a machine, of which the wall clock is wrong.
struct Wrong {
    machine: Machine,
    behind: Duration,
}

impl Source for Wrong {
    fn wall_ns(&self) -> u64 {
        self.machine.wall_ns() - self.behind.as_nanos() as u64
    }

    fn monotonic_ns(&self) -> u64 {
        self.machine.monotonic_ns()
    }
}

fn key(index: u32) -> NodeKey {
    NodeKey::from_bytes([index as u8 + 1; 32]).unwrap()
}

fn start(index: u32, genesis: Time, folder: &Path, way: &Way) -> Running {
    let horn = horn(index, genesis);
    let own = horn.local().validators();
    let ids = own.map(|v| (v, [v.0 as u8; 32])).collect();
    let opening = Opening {
        now_ms: now().as_nanos() / 1_000_000,
        slot: Slot(0),
        before_genesis: true,
        resume: false,
    };
    let safety = SafetyStore::open(&folder.join("safety.redb"), ids, opening).unwrap();
    let blocks = Blocks::open(&folder.join("node.redb")).unwrap();
    let blocks_topic = Topic::Block.named(horn.config().network()).to_string();
    let (net, events) = alphorn_net::start(network(index, &horn)).unwrap();
    let handle = net.clone();
    let wake = Arc::new(Notify::new());
    let (snapshot, summary) = watch::channel(Arc::new(Summary::default()));
    let parts = Parts {
        name: format!("node-{index}"),
        scheme: "model".into(),
        horn,
        safety: Arc::new(safety),
        settings: Settings {
            first_slot: Slot(0),
            started: None,
            used: Slot(0),
            behind: BTreeMap::new(),
        },
        sign_log: None,
        blocks,
        checkpoint: None,
        known: (0..NODES)
            .filter(|other| *other != index)
            .map(|other| key(other).id())
            .collect(),
        lanes: Arc::new(pool(wake.clone())),
        net,
        events,
        wake,
        source: Wrong {
            machine: Machine::default(),
            behind: if index == 1 {
                way.behind
            } else {
                Duration::ZERO
            },
        },
        recorder: None,
        record: String::new(),
        is_aggregator: true,
        kernels: BTreeMap::from([("hash", "portable".to_owned())]),
        code: way.code.clone(),
        cast: way.settings,
        cast_secret: [7; 32],
        memory: BTreeMap::from([("all".to_owned(), 1 << 30)]),
    };
    let node = Node::new(parts, snapshot).unwrap();
    let window = node.window();
    let (control, commands) = mpsc::channel(4);
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let thread = std::thread::spawn(move || {
        runtime.block_on(node.run(commands));
    });
    Running {
        window,
        summary,
        control,
        thread,
        net: handle,
        blocks: blocks_topic,
    }
}

fn pool(wake: Arc<Notify>) -> Pool {
    let validators = VALIDATORS;
    let scheme = Arc::new(Model::new(CostTable::example()).unwrap());
    let registry = Arc::new(ModelRegistry { validators });
    let signers = Arc::new(ModelSigners { validators });
    let env = Env::signing(scheme, registry, signers, [1; 32]);
    Pool::start(env, WorkerConfig::default(), move || wake.notify_one()).unwrap()
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time::from_nanos(since.as_nanos() as u64)
}

/// Waits until something is there.
pub(crate) fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How large messages travel.
pub(crate) struct Way {
    pub(crate) code: Code,
    pub(crate) settings: cast::Settings,
    /// By how much the clock of the second node is behind.
    pub(crate) behind: Duration,
}

/// Runs two nodes that know each other, has something looked at, and ends them.
pub(crate) fn with_two<T>(look: impl FnOnce(&[Running]) -> T) -> T {
    let way = Way {
        code: Code::Rs,
        settings: cast::Settings::default(),
        behind: Duration::ZERO,
    };
    with_two_in(&way, look)
}

/// Runs two nodes with large messages of one way.
pub(crate) fn with_two_in<T>(way: &Way, look: impl FnOnce(&[Running]) -> T) -> T {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let genesis = now().saturating_add_ns(3_000_000_000);
    let nodes: Vec<Running> = (0..NODES)
        .zip(&folders)
        .map(|(index, folder)| start(index, genesis, folder.path(), way))
        .collect();
    let first = &nodes[0];
    let address = wait("an address", || {
        let snapshot = first.window.snapshot.borrow().clone();
        snapshot.addresses.first().cloned()
    });
    let dial = Control::Dial(address.parse().unwrap());
    nodes[1].control.blocking_send(dial).unwrap();
    let found = look(&nodes);
    nodes.into_iter().for_each(Running::end);
    found
}

/// Runs two nodes until the chain is finalised some slots, and gives what the first one tells.
fn run() -> Told {
    with_two(|nodes| finality(&nodes[0]))
}

fn finality(first: &Running) -> Told {
    wait("finality", || {
        let summary = first.summary.borrow().clone();
        let snapshot = first.window.snapshot.borrow().clone();
        let is_there = summary.finalised_slot >= FINALISED
            && summary.judged_slots >= FINALISED
            && snapshot.finalised.slot.0 >= FINALISED
            && !snapshot.net.peers.is_empty();
        let window = &first.window;
        let text = || {
            let (counted, info) = (&window.counted, &window.info);
            metrics_text(counted, &summary, &snapshot, info, &Clients::new()).unwrap()
        };
        is_there.then(|| Told {
            text: text(),
            summary: summary.clone(),
            window: window.clone(),
        })
    })
}

/// What a node told; it runs once for all tests.
pub(crate) fn told() -> &'static Told {
    static TOLD: OnceLock<Told> = OnceLock::new();
    TOLD.get_or_init(run)
}
