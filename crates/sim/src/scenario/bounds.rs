//! Bounds on the values of a scenario.

mod fault;
mod range;
mod unread;

use super::format::{POINTS_MAX, SCHEMA, Scenario};
use super::parts::{
    Broadcast, FaultKind, Gossip, Graph, Horn, Latency, Protocol, Stop, Transport, Way,
};
use alphorn_broadcast::{CHUNK_BYTES_MAX, SENDS_IN_FLIGHT_MAX};
use range::{Checked, PAYLOAD_BYTES_MAX, TIME_MS_MAX, invalid, range};

/// Maximum number of nodes in a run.
pub(super) const NODES_MAX: u64 = 1 << 20;
/// Maximum number of payloads in a run.
const COUNT_MAX: u64 = 100_000;
/// Maximum bandwidth in megabits per second.
const MBPS_MAX: u64 = 1_000_000;
/// Maximum number of tables of one kind.
const TABLES_MAX: u64 = 64;

/// Checks a number in the scenario, with its path as the key.
macro_rules! within {
    ($scenario:ident, $table:ident.$key:ident, $min:expr, $max:expr) => {{
        let (value, max): (u64, u64) = ($scenario.$table.$key.into(), $max);
        let key = concat!(stringify!($table), ".", stringify!($key));
        range(key, value, $min, max)
    }};
}

pub(super) fn check(scenario: &Scenario) -> Checked {
    range("schema", scenario.schema, SCHEMA, SCHEMA)?;
    // The name is also that of the file.
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name = &scenario.name;
    if name.is_empty() || name.len() > 64 || !name.chars().all(letter) {
        return Err(invalid("name", name, "1 to 64 letters, digits, - and _"));
    }
    sim(scenario)?;
    graph(scenario)?;
    link(scenario)?;
    classes(scenario)?;
    protocol(scenario)?;
    traffic(scenario)?;
    within!(scenario, compute.factor_pct, 0, 100_000)?;
    within!(scenario, compute.handle_ns, 0, 1_000_000_000)?;
    within!(scenario, output.trace_bytes_max, 0, 1 << 40)?;
    let faults = scenario.fault.len() as u64;
    range("number of faults", faults, 0, TABLES_MAX)?;
    for (i, fault) in scenario.fault.iter().enumerate() {
        fault::check(&format!("fault.{i}"), fault, &scenario.sim)?;
    }
    speeds(scenario)?;
    expectations(scenario)?;
    unread::check(scenario)?;
    sweep(scenario)
}

fn sim(scenario: &Scenario) -> Checked {
    let sim = &scenario.sim;
    within!(scenario, sim.nodes, 2, NODES_MAX)?;
    range("number of seeds", sim.seeds.count(), 1, POINTS_MAX)?;
    within!(scenario, sim.events_max, 1, 100_000_000_000)?;
    within!(scenario, sim.sim_time_max_ms, 1, TIME_MS_MAX)?;
    within!(scenario, sim.wall_time_max_s, 1, 86_400)?;
    match sim.stop {
        Stop::TimeMs(ms) => range("sim.stop.time_ms", ms, 1, sim.sim_time_max_ms),
        Stop::Events(events) => range("sim.stop.events", events, 1, sim.events_max),
        Stop::Quiescence | Stop::AllDelivered | Stop::T99 => Ok(()),
    }
}

fn graph(scenario: &Scenario) -> Checked {
    // `max(2)` below keeps the interval non-empty for the smallest network, whose nodes have one neighbour each.
    let most = u64::from(scenario.sim.nodes).saturating_sub(1).min(1000);
    match &scenario.graph {
        Graph::Permutations { degree } => {
            range("graph.degree", u64::from(*degree), 2, most.max(2))?;
            if degree % 2 == 1 {
                let why = "permutations need an even degree";
                return Err(invalid("graph.degree", degree, why));
            }
        }
        // A complete graph has quadratically many edges.
        Graph::Complete {} => range("sim.nodes", scenario.sim.nodes, 2, 4096)?,
        Graph::File { .. } => {}
    }
    match &scenario.latency {
        Latency::Constant { ms, jitter_pct } => {
            range("latency.ms", *ms, 0, 60_000)?;
            range("latency.jitter_pct", *jitter_pct, 0, 100)
        }
        Latency::Regions {
            matrix,
            intra_ms_min,
            jitter_pct,
        } => {
            if matrix != "libp2p-2025" {
                return Err(invalid("latency.matrix", matrix, "known is libp2p-2025"));
            }
            range("latency.intra_ms_min", *intra_ms_min, 0, 60_000)?;
            range("latency.jitter_pct", *jitter_pct, 0, 100)
        }
    }
}

fn link(scenario: &Scenario) -> Checked {
    let link = &scenario.link;
    within!(scenario, link.initial_window_bytes, 536, 1 << 30)?;
    let least = link.initial_window_bytes;
    within!(scenario, link.window_bytes_max, least, 1 << 40)?;
    within!(scenario, link.idle_reset_ms, 1, TIME_MS_MAX)?;
    within!(scenario, link.loss_ppm, 0, 900_000)?;
    if link.loss_ppm > 0 && link.transport == Transport::None {
        let why = "of packets, which streams send again: give link.transport = \"window\"";
        return Err(invalid("link.loss_ppm", link.loss_ppm, why));
    }
    within!(scenario, link.overhead_bytes, 0, 65_536)?;
    let of_horn = [
        ("link.dial_bytes", link.dial_bytes, 0..=65_536),
        ("link.connections_max", link.connections_max, 1..=1 << 20),
    ];
    for (key, value, within) in of_horn {
        let Some(value) = value else {
            continue;
        };
        range(key, value, *within.start(), *within.end())?;
        if !matches!(scenario.protocol, Protocol::Horn(_)) {
            let why = format!("{} sends over its graph alone", scenario.protocol.name());
            return Err(invalid(key, value, why));
        }
    }
    within!(scenario, link.node_queue_bytes_max, 1 << 16, 1 << 44)?;
    within!(scenario, link.partition_break_ms, 1, TIME_MS_MAX)
}

/// Checks the speed factors. A node's factors are multiplied in whole percents: below one percent,
/// computing would be free.
fn speeds(scenario: &Scenario) -> Checked {
    let table = scenario.compute.factor_pct;
    for class in &scenario.class {
        // The same division as when nodes are built, so that what is checked is the factor that is used.
        let own = u64::from(class.cpu_factor_pct) * u64::from(table) / 100;
        let free = |key: &str, value| {
            let why = format!(
                "what nodes of class {} compute would take less than 1 %",
                class.name
            );
            invalid(key, value, why)
        };
        // A factor of 0 is allowed if written as such: it says that computing is free. Only rounding must not
        // say so.
        if table > 0 && own == 0 {
            return Err(free("compute.factor_pct", table));
        }
        for (i, fault) in scenario.fault.iter().enumerate() {
            let factor = fault.factor_pct;
            let slow = own.saturating_mul(factor.into()) / 100;
            if fault.kind == FaultKind::SlowCpu && own > 0 && factor > 0 && slow == 0 {
                return Err(free(&format!("fault.{i}.factor_pct"), factor));
            }
        }
    }
    Ok(())
}

fn classes(scenario: &Scenario) -> Checked {
    let classes = scenario.class.len() as u64;
    range("number of classes", classes, 1, TABLES_MAX)?;
    let mut shares = 0;
    for (i, class) in scenario.class.iter().enumerate() {
        let key = |name: &str| format!("class.{}.{name}", class.name);
        let mut before = scenario.class[..i].iter();
        if before.any(|other| other.name == class.name) {
            let why = "another class has this name";
            return Err(invalid("class.name", &class.name, why));
        }
        range(&key("share_pct"), class.share_pct, 0, 100)?;
        range(&key("down_mbps"), class.down_mbps, 1, MBPS_MAX)?;
        range(&key("up_mbps"), class.up_mbps, 1, MBPS_MAX)?;
        range(&key("cores"), class.cores, 1, 1024)?;
        range(&key("cpu_factor_pct"), class.cpu_factor_pct, 1, 100_000)?;
        shares += u64::from(class.share_pct);
    }
    range("sum of class.share_pct", shares, 100, 100)
}

/// Checks the mesh parameters at a path.
fn mesh(path: &str, gossip: &Gossip) -> Checked {
    let (mesh, history) = (gossip.mesh, gossip.history.into());
    let of = |name: &str, value: u64, min: u64, max: u64| {
        range(&format!("{path}.{name}"), value, min, max)
    };
    of("mesh", mesh.into(), 1, 1000)?;
    of("mesh_low", gossip.mesh_low.into(), 1, mesh.into())?;
    of("mesh_high", gossip.mesh_high.into(), mesh.into(), 1000)?;
    of("lazy", gossip.lazy.into(), 0, 1000)?;
    of("heartbeat_ms", gossip.heartbeat_ms, 10, TIME_MS_MAX)?;
    of("history", history, 1, 1000)?;
    of("announced", gossip.announced.into(), 1, history)?;
    of("seen_ms", gossip.seen_ms, 1, TIME_MS_MAX)?;
    let refused = gossip.idontwant_bytes;
    of("idontwant_bytes", refused, 0, PAYLOAD_BYTES_MAX)
}

fn protocol(scenario: &Scenario) -> Checked {
    match &scenario.protocol {
        Protocol::Gossip(gossip) => mesh("protocol", gossip),
        Protocol::Broadcast(parameters) => broadcast("protocol", parameters),
        Protocol::Horn(parameters) => horn(parameters),
        Protocol::Tree(model) => {
            let checked = model.check().map_err(|error| error.to_string());
            checked.map_err(|why| invalid("protocol.kind", "tree", why))
        }
        Protocol::Direct(_) | Protocol::Grid(_) => Ok(()),
    }
}

/// Checks the broadcast parameters at a path.
fn broadcast(path: &str, broadcast: &Broadcast) -> Checked {
    let most = u64::from(u16::MAX);
    let chunk_bytes = u64::from(CHUNK_BYTES_MAX);
    let in_flight = u64::from(SENDS_IN_FLIGHT_MAX);
    let numbers = [
        ("chunks", broadcast.chunks, 1, 1024),
        ("headers", broadcast.headers, 0, most),
        ("source_run", broadcast.source_run, 1, 255),
        ("credit_milli", broadcast.credit_milli, 0, 1 << 20),
        ("source_chunks", broadcast.source_chunks, 1, most),
        ("chunk_bytes_max", broadcast.chunk_bytes_max, 1, chunk_bytes),
        ("push_pct", broadcast.push_pct, 0, 10_000),
        ("in_flight", broadcast.in_flight, 1, in_flight),
        ("unverified", broadcast.unverified, 1, 64),
        ("quiet_ms", broadcast.quiet_ms, 1, 60_000),
        ("need_peers", broadcast.need_peers, 1, 16),
    ];
    for (key, value, min, max) in numbers {
        if let Some(value) = value {
            range(&format!("{path}.{key}"), u64::from(value), min, max)?;
        }
    }
    for burst in broadcast.burst.iter().flat_map(|burst| burst.by_hop()) {
        range(&format!("{path}.burst"), u64::from(burst), 0, most)?;
    }
    Ok(())
}

fn horn(horn: &Horn) -> Checked {
    let (validators, vote) = (horn.validators, horn.participation_ppm);
    range("protocol.validators", validators, 1, 1 << 22)?;
    range("protocol.slots", horn.slots, 1, 10_000)?;
    range("protocol.participation_ppm", vote, 0, 1_000_000)?;
    range("protocol.backbone", u64::from(horn.backbone), 0, NODES_MAX)?;
    if let Some(entries) = horn.entries {
        range("protocol.entries", u64::from(entries), 1, 1000)?;
    }
    supports(horn)?;
    if let Some(gossip) = &horn.gossip {
        mesh("protocol.gossip", gossip)?;
    }
    if let Some(pieces) = &horn.broadcast {
        broadcast("protocol.broadcast", pieces)?;
    }
    let above_max = u64::from(alphorn_broadcast::rlnc::PAYLOAD_BYTES_MAX);
    if let Some(bytes) = horn.broadcast_above {
        range("protocol.broadcast_above", bytes.into(), 0, above_max)?;
    }
    let numbers = [
        ("protocol.committees", horn.committees, 2_048),
        ("protocol.subcommittees", horn.subcommittees, 256),
        ("protocol.aggregators", horn.aggregators, 4096),
        ("protocol.combiners", horn.combiners, 4096),
        ("protocol.collectors", horn.collectors, 4096),
        ("protocol.multiplicity_max", horn.multiplicity_max, 255),
    ];
    for (key, value, max) in numbers {
        if let Some(value) = value {
            range(key, value, 1, max)?;
        }
    }
    if let Some(units) = &horn.fan_out {
        if horn.subcommittees.is_some() {
            let why = "give fan_out or subcommittees";
            return Err(invalid("protocol.fan_out", "both", why));
        }
        range("protocol.fan_out", units.len() as u64, 0, 3)?;
        for units in units {
            range("protocol.fan_out", *units, 1, 256)?;
        }
    }
    if let Some(ms) = horn.slot_ms {
        range("protocol.slot_ms", ms, 1, TIME_MS_MAX)?;
    }
    if !horn.offsets_ms.is_sorted() {
        let value = format!("{:?}", horn.offsets_ms);
        let why = "phases begin one after the other";
        return Err(invalid("protocol.offsets_ms", value, why));
    }
    if horn.slot_ms.is_some() && horn.slot.is_some() {
        let why = "give slot, or slot_ms and offsets_ms";
        return Err(invalid("protocol.slot_ms", "both", why));
    }
    let ways = [
        ("vote", horn.vote_dissemination),
        ("aggregate", horn.aggregate_dissemination),
    ];
    // Pieces are for topics of all nodes; votes and aggregates go to some.
    let coded = ways.iter().find(|(_, way)| *way == Way::Coded);
    if let Some((topic, way)) = coded {
        let key = format!("protocol.{topic}_dissemination");
        return Err(invalid(&key, way.name(), "one of gossip, direct, grid"));
    }
    Ok(())
}

fn supports(horn: &Horn) -> Checked {
    let way = horn.supports.as_deref().unwrap_or("coded");
    if !["raw", "coded", "chain"].contains(&way) {
        let why = "one of raw, coded, chain";
        return Err(invalid("protocol.supports", way, why));
    }
    let Some(flip_ppm) = horn.flip_ppm else {
        return Ok(());
    };
    if way != "chain" {
        let why = "supports = \"chain\" alone has a slot before";
        return Err(invalid("protocol.flip_ppm", flip_ppm, why));
    }
    range("protocol.flip_ppm", flip_ppm, 0, 1_000_000)
}

fn traffic(scenario: &Scenario) -> Checked {
    let traffic = &scenario.traffic;
    within!(scenario, traffic.bytes, 1, PAYLOAD_BYTES_MAX)?;
    within!(scenario, traffic.count, 1, COUNT_MAX)?;
    within!(scenario, traffic.interval_ms, 0, TIME_MS_MAX)?;
    if let Some(name) = &traffic.source_class {
        let found = scenario.class.iter().find(|class| &class.name == name);
        if found.is_none_or(|class| class.share_pct == 0) {
            let why = "no node has this class";
            return Err(invalid("traffic.source_class", name, why));
        }
    }
    Ok(())
}

fn expectations(scenario: &Scenario) -> Checked {
    let expect = &scenario.expect;
    let shares = [
        ("expect.sent_max", expect.sent_max, 1e9),
        ("expect.waste_max", expect.waste_max, 1e9),
        ("expect.delivered_pct_min", expect.delivered_pct_min, 100.0),
    ];
    for (key, value, max) in shares {
        if let Some(value) = value
            // Written as a range so that NaN is rejected; both comparisons with it are false.
            && !(0.0..=max).contains(&value)
        {
            return Err(invalid(key, value, format!("allowed 0 to {max}")));
        }
    }
    match expect.waste_max {
        Some(value) if matches!(scenario.protocol, Protocol::Horn(_)) => {
            let why = "not with protocol.kind = horn: votes and aggregates are no payload that everybody should have";
            Err(invalid("expect.waste_max", value, why))
        }
        _ => Ok(()),
    }
}

fn sweep(scenario: &Scenario) -> Checked {
    let mut points = scenario.sim.seeds.count();
    for (path, values) in &scenario.sweep {
        if path.starts_with("sweep") || path == "sim.seeds" || values.is_empty() {
            let why = "a path outside sweep and seeds, with at least one value";
            return Err(invalid("sweep", path, why));
        }
        // Saturating, as the product of a few long lists exceeds 64 bits and would wrap to a small number.
        points = points.saturating_mul(values.len() as u64);
    }
    range("points of the sweep", points, 1, POINTS_MAX)
}
