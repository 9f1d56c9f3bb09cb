//! Proves, merges and verifies XMSS votes over HTTP, for clients in any language.
//!
//! [`Service`] has the lanes and the state of each client, and [`router`] the paths, for any server of axum. Clients
//! have equal shares of memory and jobs. It has no secret keys and signs nothing. docs/worker.md lists the paths.
//!
//! | module | content |
//! |---|---|
//! | `api`, `ask`, `metrics` | the paths; authentication and request bodies; figures |
//! | `ssz`, `json` | encodings of request bodies |
//! | `service`, `book`, `record` | work in progress, and the state kept for each client |
//! | `tokens` | which clients may ask |
//! | `job`, `task`, `registry` | the jobs themselves, as tasks of a worker |
#![forbid(unsafe_code)]

mod api;
mod ask;
mod book;
mod job;
mod json;
mod metrics;
mod record;
mod registry;
mod service;
mod ssz;
mod task;
#[cfg(test)]
mod tests;
mod tokens;

pub use api::router;
pub use book::Limits;
pub use registry::make_circuits;
pub use service::{Parts, Service, serve_lane};
pub use tokens::Tokens;

/// Compiles the example from the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
