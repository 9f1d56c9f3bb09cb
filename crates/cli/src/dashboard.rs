//! `alphorn dashboard`: the page over a recorded trace.

use crate::error::{Error, Result};
use crate::report::say;
use alphorn_dashboard::{Source, TraceFile, router};
use alphorn_node::host_allow_list::{HostAllowList, guard};
use alphorn_node::http;
use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

/// Serve the page that shows what a simulation or a node did, from its trace
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples, for a simulation:
  alphorn sim run regress-gossip --set output.trace=full --out run
  alphorn dashboard --trace run/trace.jsonl

For a node, captured while it runs (its own page, /dashboard/, shows it live):
  curl -o node.jsonl http://127.0.0.1:5052/alphorn/v0/trace/snapshot
  alphorn dashboard --trace node.jsonl

Only the page, which then asks for a file and reads it itself:
  alphorn dashboard

Serves the page on loopback until Ctrl-C and prints the address. Every line of a trace is checked
before it is served. Each run of a sweep has its own folder, run/runs/HASH/trace.jsonl
(`alphorn sim list` shows how many runs a scenario has).

Exit codes: 0 ended by Ctrl-C or SIGTERM, 2 wrong usage or trace, 3 cannot listen on the address.")]
pub(crate) struct Args {
    /// Trace in JSON lines
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Address to serve on
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// Port to serve on, 0 for any free one
    #[arg(long, value_name = "PORT", default_value_t = 5060)]
    port: u16,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let source = match &args.trace {
        None => Source::None,
        Some(path) => {
            let file = TraceFile::open(path)?;
            Source::File(file)
        }
    };
    serve(args, source)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Readers are cut off here: an unread answer would otherwise keep the process alive.
    runtime.block_on(crate::stop::asked(false));
    Ok(())
}

fn serve(args: &Args, source: Source) -> Result<()> {
    let address = SocketAddr::new(args.listen, args.port);
    let listener = TcpListener::bind(address);
    let listener = listener.map_err(|error| Error::Exit(3, format!("{address}: {error}")))?;
    let bound = listener.local_addr()?;
    let app = Router::new()
        .route("/", get(|| async { Redirect::permanent("/dashboard/") }))
        .nest_service("/dashboard", router(source));
    let app = guard(app, HostAllowList::new(args.listen, [])?);
    http::serve(listener, app, http::Limits::default())?;
    say(&format!("http://{bound}/dashboard/"))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    /// Commands whose examples and text are checked.
    const COMMANDS: [&str; 4] = ["devnet", "node", "genesis", "dashboard"];

    #[test]
    fn examples_of_the_help_are_commands_and_its_lines_fit() {
        let program = crate::Cli::command();
        for name in COMMANDS {
            let command = program.find_subcommand(name).unwrap();
            let help = command.get_after_help().unwrap().to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "{name}: {line}");
            }
            // A line that ends with a backslash continues on the next one.
            let help = help.replace("\\\n", " ");
            let examples = help.lines().filter(|line| line.starts_with("  alphorn "));
            let mut count = 0;
            for line in examples.flat_map(|line| line.split(" && ")) {
                let parsed = crate::Cli::try_parse_from(line.split_whitespace());
                assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
                count += 1;
            }
            assert!(count > 0, "{name}");
        }
    }
}
