//! Types shared by all crates: time, slots, indices, layouts, bitfields, supports and their codes, topics, traces.
//!
//! | module | what it holds |
//! |---|---|
//! | `assignment` | which validator sits at which position of an epoch |
//! | `bitfield` | bits over positions, in words |
//! | `codec` | bounded little-endian reading and writing |
//! | `index` | slot, epoch, validator, cell |
//! | [`interned`] | values stored once, however many references exist |
//! | `layout` | division of an epoch's positions into committees, groups and cells |
//! | `peer` | the number of a peer |
//! | `reasons` | names and counts of an enum of reasons |
//! | `support` | who signed, and how often |
//! | [`support_code`] | compact encoding of supports |
//! | `supports` | sets of positions, each stored once |
//! | `time` | the clock type |
//! | `topic` | message kinds and topic names |
//! | [`trace`] | events of a node or a simulation, as JSON lines |
#![forbid(unsafe_code)]

mod assignment;
mod bitfield;
mod codec;
mod index;
pub mod interned;
mod layout;
mod peer;
mod reasons;
mod support;
pub mod support_code;
mod supports;
mod time;
mod topic;
pub mod trace;

pub use assignment::{Assignment, AssignmentError};
pub use bitfield::{Bitfield, BitfieldError};
pub use codec::{DecodeError, Reader, Writer};
pub use index::{Cell, Epoch, Slot, Unit, Validator};
pub use layout::{
    COMMITTEES_MAX, LEVELS_MAX, Layout, LayoutError, SUBCOMMITTEES_MAX, VALIDATORS_MAX,
};
pub use peer::Peer;
pub use support::{MULTIPLICITY_LIMIT, Overflow, Support, SupportError};
pub use support_code::Coding;
pub use supports::Supports;
pub use time::Time;
pub use topic::{Kind, NetworkDigest, TOPIC_BYTES_MAX, Topic, TopicError, TopicName};

/// Compiles the example from the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
