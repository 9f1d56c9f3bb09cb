//! Serves one page over one trace format, live or replayed.
//!
//! [`router`] gives the routes of the page, to be mounted under a path of its own, for instance
//! `Router::new().nest_service("/dashboard", router(source))`
//! (`nest` would not find it with a slash at the end of the path):
//!
//! | route | what it gives |
//! |---|---|
//! | `/` and the names of [`ASSETS`] | the page: embedded, with an entity tag, no request off its origin |
//! | `/trace` | the trace of the [`Source`]: JSON lines of a file, server-sent events of a live one |
//! | `/trace/snapshot` | of a live source, what rebuilds the state now, as JSON lines |
//!
//! A trace is a sequence of [`alphorn_types::trace::Record`]. A live source is anything that
//! implements [`Live`]; a [`Mutex`](std::sync::Mutex) of a
//! [`Ring`](alphorn_types::trace::Ring) does, so a node that pushes its records into such a ring
//! needs no code for the page. Whoever has other lines to send, as a node has events of its chain,
//! gives them to [`follow`]; all sources of a process share the places of one [`Clients`].
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

/// Where the page gets its trace from.
#[derive(Clone)]
pub enum Source {
    /// From nowhere: the reader opens a file in the page.
    None,
    /// From a file: replayed.
    File(TraceFile),
    /// From a running node.
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

/// The same, with readers that share their places with those of other sources.
pub fn router_among(source: Source, clients: Clients) -> Router {
    stream(source, clients)
        .route("/", get(assets::serve))
        .fallback(get(assets::serve))
}

/// The routes `/trace` and `/trace/snapshot` alone, for whoever serves traces without the page.
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

/// The address that whoever serves found for a request.
type Asker = Option<Extension<ClientAddress>>;

fn address(from: Asker) -> Option<ClientAddress> {
    from.map(|Extension(address)| address)
}

/// There is no trace, and that is no error: the page then waits for a file.
async fn nothing() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
