//! Names what every crate speaks of: time, slots, indices, layouts, bitfields, support vectors and their codes, topics, trace records.
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
