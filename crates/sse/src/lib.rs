//! Sends what is new in a ring to many readers, as server-sent events.
//!
//! A source is anything that implements [`Live`]; a [`Mutex`](std::sync::Mutex) of a
//! [`Ring`](alphorn_types::trace::Ring) or of [`Lines`](alphorn_types::trace::Lines) does. Sources
//! of one process share the places of one [`Clients`].
#![forbid(unsafe_code)]

mod clients;
mod follow;

pub use clients::{Body, CHUNK_BYTES, CLIENTS_MAX, Clients, SEND_TIMEOUT, Sink};
pub use follow::{
    BATCH_LINES_MAX, KEEP_ALIVE, Live, TICK, Wanted, event_id, follow, parse_event_id, sink_lines,
};

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
