//! The scenario of one slot, with real signatures: from genesis through all phases of the first slot to the
//! block that carries its votes. That is the next block or, if a single piece of evidence proves all of its
//! collections, the one after it.
//!
//! Node 0 represents the whole network: it hosts every validator, and validates their messages as it would
//! any others, so that each is verified once. Node 1, the observer, hosts none, and receives what every node
//! of a network receives: collections and blocks. Both run the protocol's own code as roles of the
//! [world](crate::world), over links without queueing. Their jobs are really executed
//! ([`compute`](crate::compute)), because the world's processors only charge for jobs and produce no
//! results. No votes of later slots are cast, and no lotteries for them are drawn.
//!
//! Under [`Griefing`] the validators are hosted on three nodes: those of an adversary, those of her victims,
//! and all others.

mod follow;
mod griefing;
mod network;
mod node;
mod outcome;
mod participation;
mod run;
#[cfg(test)]
mod tests;

use crate::Progress;
use crate::compute::{ComputeConfig, CrossCheck, PoolError, Results};
use crate::world::{Limits, WorldError};
use alphorn_proto::horn::{Config, ConfigError, SchemeInfo};
use alphorn_scheme::{Env, MemoryWatermark, Scheme, Watermark};
use alphorn_types::Layout;
use std::sync::Arc;

pub use follow::{Followed, follow};
pub use griefing::{Griefing, GriefingError};
pub use network::Digest;
pub use node::Traffic;
pub use outcome::{
    BlockOutcome, CommitteeCoverage, Failure, SlotOutcome, StageTraffic, Step, Votes,
};
pub(crate) use participation::PPM;
pub use participation::{Participation, ParticipationError};
pub(crate) use run::HOST;
pub use run::run_slot;

/// Limits of a run. Jobs end by the deadlines of their nodes, so a quiet world has not necessarily ended.
const LIMITS: Limits = Limits {
    events_max: 100_000_000_000,
    sim_time_max_ns: 1_000_000_000_000,
    quiet_ns: u64::MAX,
};

/// Configuration of the run.
#[derive(Clone, Debug)]
pub struct SlotConfig {
    /// The protocol's own configuration. Its network id is replaced by one drawn from the seed.
    pub horn: Config,
    /// Which validators vote.
    pub participation: Participation,
    /// An attack on honest voters, if any. The slot is then not an honest one, and [`SlotOutcome::failures`]
    /// reports how it differs.
    pub griefing: Option<Griefing>,
    /// Seed of everything random: the network id and with it the committees, which validators vote, and the
    /// weights of batch verification.
    pub seed: u64,
    /// Whether there is an observer. Without one, and without an attack, nothing is delivered to any node.
    pub observer: bool,
    /// How jobs are run.
    pub compute: ComputeConfig,
    /// Milliseconds from publication to delivery.
    pub latency_ms: u64,
}

impl SlotConfig {
    /// All validators vote, with an observer and one millisecond of latency.
    pub fn new(horn: Config, seed: u64, threads: usize) -> Self {
        SlotConfig {
            horn,
            participation: Participation::Rate { ppm: PPM },
            griefing: None,
            seed,
            observer: true,
            compute: ComputeConfig::new(threads),
            latency_ms: 1,
        }
    }
}

/// The scheme and the keys of the run.
pub struct SlotInputs {
    info: SchemeInfo,
    env: Env,
    watermark: Arc<dyn Watermark>,
    /// Cross-check of a sample of all verdicts, if any.
    pub cross_check: Option<Arc<dyn CrossCheck>>,
    /// Where evidence is kept, so that an interrupted run can be resumed; nowhere by default.
    pub results: Option<Box<dyn Results>>,
    /// Receives the progress of the real work until the run ends.
    pub progress: Box<dyn Progress>,
}

impl SlotInputs {
    /// A scheme with the public and secret keys of all validators of a layout.
    pub fn new<S: Scheme>(
        scheme: S,
        registry: S::Registry,
        signers: S::Signers,
        layout: &Layout,
    ) -> Self {
        let info = SchemeInfo::of(&scheme, layout);
        let (scheme, registry) = (Arc::new(scheme), Arc::new(registry));
        SlotInputs {
            info,
            // The weights of a run are derived from its seed.
            env: Env::signing(scheme, registry, Arc::new(signers), [0; 32]),
            watermark: Arc::new(MemoryWatermark::new(layout.validators())),
            cross_check: None,
            results: None,
            progress: Box::new(()),
        }
    }
}

/// The slot could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The protocol rejects the configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The participation does not fit the layout.
    #[error(transparent)]
    Participation(#[from] ParticipationError),
    /// The attack does not fit the layout.
    #[error(transparent)]
    Griefing(#[from] GriefingError),
    /// The threads could not be started.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A limit of the run was exceeded.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A job could not be run.
    #[error("{count} jobs were refused in stage {stage}, the first one because {reason}")]
    Refused {
        /// Number of jobs.
        count: u64,
        /// The stage at the end of which this was noticed.
        stage: &'static str,
        /// Reason of the first one.
        reason: String,
    },
    /// A job panicked, or its result failed its own verification.
    #[error("{count} jobs crashed or failed their own verification in stage {stage}")]
    Failed {
        /// Number of jobs.
        count: u64,
        /// The stage at the end of which this was noticed.
        stage: &'static str,
    },
    /// Evidence could not be kept.
    #[error("evidence cannot be kept: {0}")]
    Results(#[from] std::io::Error),
    /// A node has no record of the slot.
    #[error("node {node} knows nothing of slot {slot}")]
    NoSlot {
        /// The node.
        node: u32,
        /// The slot.
        slot: u64,
    },
    /// No block could be built on the slot.
    #[error("no block was published in slot {slot}")]
    NoBlock {
        /// The slot.
        slot: u64,
    },
    /// The published block cannot be decoded.
    #[error("the block that was published does not decode")]
    Block(#[from] alphorn_types::DecodeError),
}
