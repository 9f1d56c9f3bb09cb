//! The scenario of one slot, with real signatures: from genesis through all phases of the first
//! slot to the block that carries its votes: the next one, or where one piece of evidence proves all its
//! collections the one after it.
//!
//! Node 0 stands for the whole network: it hosts every validator, and validates their messages as
//! it would anyone's, so that each is verified once. Node 1, the observer, hosts none, and receives
//! what every node of a network receives: collections and blocks. Both run the protocol's own
//! code as roles of the [`World`](crate::world::World), over links on which nothing waits. Their jobs really
//! run ([`compute`](crate::compute)): the world's processors charge for jobs and have no results. No later
//! slot's votes are cast, and no lottery for them is drawn.
//!
//! Under [`Griefing`] the validators live on three nodes: those of an adversary, those of her victims, and
//! all others.

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
pub use participation::{PPM, Participation, ParticipationError};
pub use run::{HOST, OBSERVER, run_slot};

/// Bounds of a run. Jobs end by deadlines of their nodes, so a world that is quiet has not ended.
const LIMITS: Limits = Limits {
    events_max: 100_000_000_000,
    sim_time_max_ns: 1_000_000_000_000,
    quiet_ns: u64::MAX,
};

/// What is run.
#[derive(Clone, Debug)]
pub struct SlotConfig {
    /// The protocol's own configuration. Its network id is replaced by one drawn from the seed.
    pub horn: Config,
    /// Who votes.
    pub participation: Participation,
    /// An attack on honest voters, if there is one. The slot is no honest one then, and
    /// [`SlotOutcome::failures`] says how it differs.
    pub griefing: Option<Griefing>,
    /// Everything random: the network id and with it the committees, who votes, the weights of
    /// batch verification.
    pub seed: u64,
    /// Whether there is an observer. Without one nothing is delivered to anyone.
    pub observer: bool,
    /// How jobs are run.
    pub compute: ComputeConfig,
    /// Milliseconds from publishing to delivery.
    pub latency_ms: u64,
}

impl SlotConfig {
    /// All vote; an observer; a millisecond of latency.
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
    /// A second opinion on a sample of all verdicts, if there is one.
    pub cross_check: Option<Arc<dyn CrossCheck>>,
    /// Where evidence is kept, so that a run that was stopped goes on; nowhere by default.
    pub results: Option<Box<dyn Results>>,
    /// Hears how far the real work is, until the run ends.
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
            // The weights of a run follow from its seed.
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
    /// The protocol refuses the configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The participation does not fit the layout.
    #[error(transparent)]
    Participation(#[from] ParticipationError),
    /// The attack does not fit the layout.
    #[error(transparent)]
    Griefing(#[from] GriefingError),
    /// No threads.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A bound of the run was passed.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A job could not be run.
    #[error("{count} jobs were refused in stage {stage}, the first one because {reason}")]
    Refused {
        /// How many.
        count: u64,
        /// The stage at whose end this was noticed.
        stage: &'static str,
        /// Why, of the first.
        reason: String,
    },
    /// A job panicked, or its result failed its own verification.
    #[error("{count} jobs crashed or failed their own verification in stage {stage}")]
    Failed {
        /// How many.
        count: u64,
        /// The stage at whose end this was noticed.
        stage: &'static str,
    },
    /// Evidence could not be kept.
    #[error("evidence cannot be kept: {0}")]
    Results(#[from] std::io::Error),
    /// The slot has left no trace at a node.
    #[error("node {node} knows nothing of slot {slot}")]
    NoSlot {
        /// The node.
        node: u32,
        /// The slot.
        slot: u64,
    },
    /// Nothing could be built on the slot.
    #[error("no block was published in slot {slot}")]
    NoBlock {
        /// The slot.
        slot: u64,
    },
    /// The block that was published cannot be read.
    #[error("the block that was published does not decode")]
    Block(#[from] alphorn_types::DecodeError),
}
