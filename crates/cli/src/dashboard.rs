//! `alphorn dashboard`: the page over a recorded trace.

use crate::error::{Error, Result};
use alphorn_dashboard::{Source, TraceFile, router};
use alphorn_node::host::{Hosts, guard};
use anyhow::Context;
use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The page that shows what a simulation or a node did, from its trace
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn sim run coded-20 --trace full --out run
  alphorn dashboard --trace run/trace.jsonl
  alphorn dashboard

Serves the page on loopback until Ctrl-C. Without a trace the page asks for a file, which it reads
itself. Every line of a trace is checked before it is served.")]
pub(crate) struct Args {
    /// A trace, as JSON lines
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Address to serve on
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// Port to serve on, 0 for any
    #[arg(long, value_name = "PORT", default_value_t = 5060)]
    port: u16,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let source = match &args.trace {
        None => Source::None,
        Some(path) => {
            let file = TraceFile::open(path).with_context(|| path.display().to_string())?;
            Source::File(file)
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(args, source))
}

async fn serve(args: &Args, source: Source) -> Result<()> {
    let address = SocketAddr::new(args.listen, args.port);
    let listener = tokio::net::TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Error::Exit(3, format!("{address}: {error}")))?;
    println!("http://{}/dashboard/", listener.local_addr()?);
    let app = Router::new()
        .route("/", get(|| async { Redirect::permanent("/dashboard/") }))
        .nest_service("/dashboard", router(source));
    let app = guard(app, Hosts::new(args.listen, [])?);
    let ended = async {
        // Without a signal handler the process ends by the signal itself.
        let _ = tokio::signal::ctrl_c().await;
    };
    Ok(axum::serve(listener, app)
        .with_graceful_shutdown(ended)
        .await?)
}
