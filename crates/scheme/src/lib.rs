//! Says what a signature scheme must be able to do so that a million votes a slot can be signed, aggregated and verified.
//!
//! | module | what it holds |
//! |---|---|
//! | `abilities` | what a scheme is, as data: layers, overlap, sizes, security, costs |
//! | `claim` | the statements that a batch verification decides |
//! | `traits` | [`Scheme`] itself |
//! | `task` | [`Task`]: the only unit of CPU work, and the context it runs in |
//! | `job` | [`Work`]: the tasks of a scheme, whatever scheme it is, and others on the same lanes |
//! | [`session`] | jobs, sessions, groups, outcomes and what to do with a late result |
//! | [`watermark`] | reservations: no (key, role, slot) is ever signed twice |
//! | [`list`] | list mode: an aggregate that is its signatures |
//! | [`model`] | cost tables, and a scheme without cryptography that charges them |
//! | [`mod@battery`] | the tests that every scheme passes by one macro line |
//!
//! Bytes are opaque here: a signature, a proof of selection and the evidence of an aggregate are
//! byte strings whose length the scheme declares. The roles of the protocol never look inside;
//! they branch on [`Abilities`] alone.
#![forbid(unsafe_code)]

mod abilities;
pub mod battery;
mod claim;
mod job;
pub mod list;
pub mod model;
pub mod session;
mod tail;
mod task;
mod traits;
pub mod watermark;

pub use abilities::{Abilities, Cost, EvidenceLength, Form, Layer, Op, Overlap, Security, Sizes};
pub use claim::{Claim, Evidence, Item, Statement, Verdict};
pub use job::{
    AggregateJob, BRANCH_EPOCH, BRANCHES_MAX, BundleEntry, BundleJob, CombineJob, EPOCHS_MAX, Env,
    Foreign, Keys, Opaque, Output, PrepareJob, Product, Scratch, SelectJob, SignJob,
    VerifyBundleJob, VerifyJob, Work, branch_place, missing_table,
};
pub use session::{Class, Fate, Group, JobId, Outcome, SessionId, StaleReason, classify};
pub use tail::Tail;
pub use task::{Ctx, Features, Schedulable, Task, TaskError};
pub use traits::{
    Bundled, Part, Scheme, SchemeError, SignItem, Signatures, combined_support, verify_claims,
};
pub use watermark::{MemoryWatermark, Refused, Reservation, Role, VoteGuard, Watermark};

/// Shared bytes: a signature, a proof or a message, passed by reference count and never copied.
pub type Bytes = std::sync::Arc<[u8]>;

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
