//! Serves one page over one trace format, live or replayed.
//!
//! [`router`] returns the routes of the page, to be mounted under its own path, for instance
//! `Router::new().nest_service("/dashboard", router(source))` (`nest` would not find it with a trailing slash
//! in the path):
//!
//! | route | content |
//! |---|---|
//! | `/` and the names of [`ASSETS`] | the page: embedded, with an entity tag, no request off its origin |
//! | `/trace` | the trace of the [`Source`]: JSON lines of a file, server-sent events of a live one |
//! | `/trace/snapshot` | of a live source, the lines that rebuild the current state, as JSON lines |
//!
//! A trace is a sequence of [`alphorn_types::trace::Record`]. A live source is anything that implements
//! [`Live`]; a [`Mutex`](std::sync::Mutex) of a [`Ring`](alphorn_types::trace::Ring) does, so a node that
//! pushes its records into such a ring needs no code for the page. Other lines, for instance the chain events
//! of a node, can be sent with [`follow`]. All sources of a process share the seats of one [`Clients`].
#![forbid(unsafe_code)]

mod assets;
mod clients;
mod file;
mod follow;
mod live;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use std::sync::Arc;

pub use assets::{ASSETS, Asset, CONTENT_SECURITY_POLICY};
pub use clients::{CLIENTS_MAX, CLIENTS_OF_ADDRESS_MAX, ClientAddress, Clients};
pub use file::{TRACE_BYTES_MAX, TraceFile, TraceFileError};
pub use follow::{Live, Wanted, follow};

/// Source of the page's trace.
#[derive(Clone)]
pub enum Source {
    /// No source: the reader opens a file in the page.
    None,
    /// A file, which is replayed.
    File(TraceFile),
    /// A running node.
    Live(Arc<dyn Live>),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::None => f.write_str("None"),
            Source::File(file) => f.debug_tuple("File").field(file).finish(),
            Source::Live(live) => f.debug_tuple("Live").field(&live.instance()).finish(),
        }
    }
}

/// The page and its trace, to be nested under a path.
pub fn router(source: Source) -> Router {
    router_among(source, Clients::new())
}

/// The same, with readers that share their seats with those of other sources.
pub fn router_among(source: Source, clients: Clients) -> Router {
    stream(source, clients)
        .route("/", get(assets::serve))
        .fallback(get(assets::serve))
}

/// The routes `/trace` and `/trace/snapshot` only, for serving traces without the page.
pub fn stream(source: Source, clients: Clients) -> Router {
    match source {
        Source::None => Router::new().route("/trace", get(nothing)),
        Source::File(file) => Router::new().route(
            "/trace",
            get(move |from: Asker| file::serve(file.clone(), clients.of(address(from)))),
        ),
        Source::Live(source) => live::routes(source, clients),
    }
}

/// The address that the server found for a request.
type Asker = Option<Extension<ClientAddress>>;

fn address(from: Asker) -> Option<ClientAddress> {
    from.map(|Extension(address)| address)
}

/// No trace, which is not an error: the page then waits for a file.
async fn nothing() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// Compiles the example in the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
