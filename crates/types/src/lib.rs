//! Names what every crate speaks of: time, slots, indices, layouts, bitfields, support vectors and their codes, topics, trace records.
//!
//! | module | what it holds |
//! |---|---|
//! | `assignment` | which validator sits at which position of an epoch |
//! | `bitfield` | bits over positions, in words |
//! | `codec` | bounded little-endian reading and writing |
//! | `index` | slot, epoch, validator, cell |
//! | [`interned`] | values of which each is kept once, however many hold it |
//! | `layout` | how the positions of an epoch are cut into committees, groups and cells |
//! | `support` | who signed, and how often |
//! | [`support_code`] | supports as short bytes |
//! | `supports` | sets of positions, each kept once |
//! | `time` | the one clock value |
//! | `topic` | kinds of messages and names of topics |
//! | [`trace`] | what a node or a simulation reports, as JSON lines |
#![forbid(unsafe_code)]

mod assignment;
mod bitfield;
mod codec;
mod index;
pub mod interned;
mod layout;
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
pub use support::{MULTIPLICITY_LIMIT, Overflow, Support, SupportError};
pub use support_code::Coding;
pub use supports::Supports;
pub use time::Time;
pub use topic::{Kind, NetworkDigest, TOPIC_BYTES_MAX, Topic, TopicError, TopicName};

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
