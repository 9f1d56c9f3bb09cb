//! The interface of a signature scheme for signing, aggregating and verifying a million votes per slot.
//!
//! | module | what it holds |
//! |---|---|
//! | `abilities` | a scheme's properties as data: layers, overlap, sizes, security, costs |
//! | `claim` | the statements decided by a batch verification |
//! | `traits` | [`Scheme`] itself |
//! | `task` | [`Task`]: the only unit of CPU work, and its execution context |
//! | `job` | [`Work`]: the tasks of any scheme, and foreign work on the same lanes |
//! | [`session`] | jobs, sessions, groups, outcomes and the handling of late results |
//! | [`watermark`] | reservations: no (key, role, slot) is ever signed twice |
//! | [`list`] | list mode: an aggregate that is its signatures |
//! | [`model`] | cost tables, and a scheme without cryptography that charges them |
//! | [`mod@battery`] | the tests that every scheme passes, instantiated by one macro line |
//!
//! Bytes are opaque here: a signature, a proof of selection and the evidence of an aggregate are byte strings whose
//! length the scheme declares. The protocol roles never inspect them; they branch on [`Abilities`] alone.
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

/// Compiles the example from the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
