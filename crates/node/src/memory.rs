//! Upper bound on the memory of a node: what each of its components may hold, from the configuration.
//!
//! The sum is what a host must provide for the node, and what an alert compares its memory with. It is larger than the
//! normal use of a node, since it assumes that the maximum number of peers sends everything it may send, and leaves
//! everything unread that it is sent.

use crate::archive;
use crate::blocks::{self, RANGE_BYTES_MAX};
use crate::cast::{self, Code};
use crate::http;
use crate::message_store::RESTORED_BYTES_MAX;
use crate::ports::outgoing::Bounds;
use crate::safety;
use crate::telemetry::{EVIDENCE_BYTES_MAX, STREAM_LIMITS};
use alphorn_net::PerKind;
use alphorn_proto::chain::{
    ANCHOR_BYTES_MAX, BLOCK_BYTES, BLOCKS_PER_SLOT_MAX, UNFINALISED_BLOCKS_MAX,
    UNFINALISED_BYTES_MAX,
};
use alphorn_proto::horn::{Horn, ITEMS_PER_JOB_MAX, SchemeInfo};
use alphorn_scheme::{BRANCHES_MAX, EPOCHS_MAX, Env, Op};
use alphorn_types::trace::RingLimits;
use alphorn_worker::WorkerConfig;
use std::collections::BTreeMap;

/// Slots whose accepted blocks gossip may still forward.
const SLOTS_FORWARDED: u64 = 3;
/// Overhead of a line of the trace.
const LINE_BYTES: u64 = 64;
/// Memory of a connection to the HTTP interface: the part of a request read so far, and a response with every
/// remembered slot.
const HTTP_BYTES: u64 = 2 << 20;
/// Distributions of times by operation, individual slots, and the last summaries.
const STATISTICS_BYTES: u64 = 32 << 20;
/// Assumed overhead of allocators, as a fraction of the allocated memory.
const ALLOCATOR_PART: u64 = 4;

/// The inputs of a bound.
pub struct Sources<'a> {
    /// The protocol, before its first input.
    pub horn: &'a Horn,
    /// The roles' information about the scheme.
    pub info: &'a SchemeInfo,
    /// The code used for broadcasts.
    pub code: &'a Code,
    /// The network.
    pub net: &'a alphorn_net::Config,
    /// The lanes.
    pub lanes: &'a WorkerConfig,
    /// Resident memory when everything is open: code, keys, stacks.
    pub resident_bytes: u64,
}

/// The most bytes that a node takes, by component.
pub fn bound(env: &Env, sources: &Sources<'_>) -> BTreeMap<String, u64> {
    let Sources { horn, info, .. } = sources;
    let (config, local) = (horn.config(), horn.local());
    let held = config.held_max(info, local);
    let block = config.block_bytes_bound(info) as u64;
    let forwarded = SLOTS_FORWARDED * BLOCKS_PER_SLOT_MAX as u64 * block;
    let messages = held.kept() + held.waiting;
    let mut parts = sources.net.memory_max(topics(horn), messages + forwarded);
    let unfinal = (2 * UNFINALISED_BLOCKS_MAX as u64).saturating_mul(block);
    let validators = u64::from(config.layout.validators());
    let keys = env.cost(Op::Prepare, validators, 0).memory_bytes;
    let places = http::Limits::default().connections_max as u64;
    let (jobs, queued) = jobs(env, sources);
    parts.extend([
        ("the process when it is ready", sources.resident_bytes),
        ("messages in the protocol", messages),
        (
            "blocks that are not final",
            unfinal.min(UNFINALISED_BYTES_MAX as u64)
                + (UNFINALISED_BLOCKS_MAX * BLOCK_BYTES) as u64,
        ),
        (
            "key tables",
            keys.saturating_mul((EPOCHS_MAX + BRANCHES_MAX) as u64),
        ),
        ("jobs that run", jobs),
        ("inputs of jobs that wait", queued),
        (
            "what is on its way to the disk and back",
            (archive::QUEUE_BYTES_MAX + RANGE_BYTES_MAX + RESTORED_BYTES_MAX) as u64
                + archive::queue_bytes(local.validators().len()),
        ),
        (
            "own messages that wait for the network",
            Bounds::of(horn).memory_max(),
        ),
        // As stored, as written, and as sent.
        ("checkpoint", 3 * ANCHOR_BYTES_MAX as u64),
        (
            "caches of files",
            (blocks::CACHE_BYTES + safety::CACHE_BYTES) as u64,
        ),
        ("broadcasts", cast::memory_max(horn, sources.code)),
        ("trace", ring_bytes(&RingLimits::default())),
        // One for each interface.
        ("events", 2 * ring_bytes(&STREAM_LIMITS)),
        ("contradicting statements", EVIDENCE_BYTES_MAX as u64),
        ("HTTP", places * HTTP_BYTES),
        ("statistics", STATISTICS_BYTES),
    ]);
    let sum = total(parts.iter().map(|(_, bytes)| *bytes));
    parts.push(("what allocators keep", sum / ALLOCATOR_PART));
    let named = parts.into_iter();
    named
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .collect()
}

/// The sum of all components.
pub(crate) fn total(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(0, u64::saturating_add)
}

fn ring_bytes(limits: &RingLimits) -> u64 {
    let lines = (limits.high_lines_max + limits.low_lines_max) as u64;
    (limits.high_bytes_max + limits.low_bytes_max) as u64 + lines * LINE_BYTES
}

/// Maximum number of topics that a host subscribes to: those of an epoch, and of the next one before it begins.
fn topics(horn: &Horn) -> PerKind<u64> {
    let layout = &horn.config().layout;
    let seats = 2 * horn.local().validators().len() as u64;
    PerKind {
        block: 1,
        collection: 1,
        aggregate: (2..=layout.levels())
            .map(|level| seats.min(layout.units(level).count() as u64))
            .sum(),
        vote: seats.min(layout.cells_count().into()),
    }
}

/// Memory of jobs: those that run in this process, by the scheme's figure for its largest ones, or by that of coding if
/// it is larger, and those that wait.
fn jobs(env: &Env, sources: &Sources<'_>) -> (u64, u64) {
    let (config, lanes) = (sources.horn.config(), sources.lanes);
    let validators = u64::from(config.layout.validators());
    let committee = u64::from(config.layout.committee_len_max());
    let items = ITEMS_PER_JOB_MAX as u64;
    let largest = |op: Op| match op {
        Op::Prepare => env.cost(op, validators, 0),
        Op::Sign | Op::Aggregate => env.cost(op, committee, 0),
        Op::Collect | Op::Merge => env.cost(op, committee, committee),
        Op::Bundle | Op::VerifyBundle => {
            let collections = u64::from(config.collections_per_block_max);
            env.cost(op, collections, collections * committee)
        }
        _ => env.cost(op, items, items * committee),
    };
    // Proofs are made in a separate process, if there is one.
    let elsewhere =
        |op: &Op| lanes.child.is_some() && matches!(op, Op::Collect | Op::Merge | Op::Bundle);
    let here = Op::ALL.into_iter().filter(|op| !elsewhere(op));
    let coding = cast::job_bytes_max(sources.horn, sources.code);
    let each = here
        .map(|op| largest(op).memory_bytes)
        .fold(coding, u64::max);
    let count = lanes.plan.lanes() as u64;
    let jobs = each.saturating_mul(count);
    (
        jobs.min(lanes.plan.memory_budget_bytes),
        lanes.plan.queue_bytes_max,
    )
}

/// Resident memory of this process, in bytes. 0 if the system does not report it.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status_bytes(&text).unwrap_or(0)
}

/// `VmRSS` from the Linux process status in `/proc/PID/status`.
pub fn status_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_net::{NetworkDigest, NodeKey};
    use alphorn_proto::horn::{Config, Local};
    use alphorn_scheme::model::{CostTable, Model, ModelRegistry};
    use alphorn_types::{Bitfield, Layout};
    use std::sync::Arc;

    fn bound_of(validators: u32, change: impl FnOnce(&mut alphorn_net::Config)) -> u64 {
        let scheme = Model::new(CostTable::example()).unwrap();
        let layout = Layout::new(validators, 2, 2).unwrap();
        let info = SchemeInfo::of(&scheme, &layout);
        let config = Config::new(layout, &info);
        let local = Local {
            validators: Bitfield::ones(validators as usize),
            voters: Bitfield::ones(validators as usize),
            trust_own: true,
        };
        let horn = Horn::new(config, info.clone(), local).unwrap();
        let mut net = alphorn_net::Config::new(NodeKey::generate(), NetworkDigest([0; 4]));
        change(&mut net);
        let lanes = WorkerConfig::default();
        let sources = Sources {
            horn: &horn,
            info: &info,
            code: &Code::Rs,
            net: &net,
            lanes: &lanes,
            resident_bytes: 1,
        };
        let env = Env::new(
            Arc::new(scheme),
            Arc::new(ModelRegistry { validators }),
            [0; 32],
        );
        let parts = bound(&env, &sources);
        let all = total(parts.values().copied());
        let rest: u64 = parts
            .iter()
            .filter(|(name, _)| *name != "what allocators keep")
            .map(|(_, bytes)| bytes)
            .sum();
        assert_eq!(all, rest + rest / ALLOCATOR_PART, "{parts:?}");
        all
    }

    #[test]
    fn the_bound_follows_the_configuration() {
        let all = bound_of(64, |_| {});
        assert!(bound_of(4_096, |_| {}) > all);
        assert!(bound_of(64, |net| net.limits.peers_max = 8) < all);
        assert!(bound_of(64, |net| net.limits.inbox_bytes_max *= 2) > all);
    }

    #[test]
    fn resident_memory_is_read_from_what_linux_says() {
        assert_eq!(
            status_bytes("Name:\tx\nVmRSS:\t   12 kB\n"),
            Some(12 * 1024)
        );
        assert_eq!(status_bytes("VmRSS: lots"), None);
        if cfg!(target_os = "linux") {
            assert!(resident_bytes() > 0);
        }
    }
}
