//! `alphorn worker`: proofs of XMSS signatures for clients in any language, over HTTP.

use crate::calibration;
use crate::distinct::distinct;
use crate::error::{Error, Result};
use crate::files::input::{Permissions, read_secret};
use crate::lanes::LaneOptions;
use crate::machine::commit;
use crate::node::log::LogOptions;
use crate::options::Compute;
use crate::report::{Sink, json_target, write_whole};
use alphorn_exec::Backend;
use alphorn_node::host_allow_list::{HostAllowList, guard};
use alphorn_node::http;
use alphorn_service::{Limits, Parts, Service, Tokens, make_circuits, router, serve_lane};
use alphorn_worker::ChildCommand;
use alphorn_xmss::Set;
use anyhow::{Context, anyhow};
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::info;

/// Maximum size of a token file in bytes.
const TOKEN_FILE_BYTES_MAX: usize = 64 << 10;
/// How long a connection has until its first answer, to cover a long body and then the wait for a job.
const FIRST_ANSWER: Duration = Duration::from_secs(60);

/// Serve proofs of XMSS signatures over HTTP to clients in any language
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  alphorn worker --listen 127.0.0.1:5062 --sets prod

A client uploads the public keys of a committee once, submits signatures, and gets proofs; it merges and
verifies proofs the same way. Bodies are JSON or SSZ. The worker has no secret keys and signs nothing.
docs/worker.md lists the paths, and examples/worker/ has a client in Python and one in Go.

Anyone who can reach the address may use it, so beyond loopback --token-file is required: one line
NAME TOKEN per client, each token at least 32 characters long, in a file readable only by its owner.
On Ctrl-C and SIGTERM the worker exits once its jobs are done, but after --grace at the latest.")]
pub(crate) struct Args {
    #[command(flatten)]
    compute: Compute,
    /// Address of the HTTP interface; port 0 for any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5062")]
    listen: SocketAddr,
    /// Host names that the interface answers to, in addition to addresses and localhost
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    http_allow_host: Vec<String>,
    /// File with one line NAME TOKEN per client
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Parameter sets to serve: prod, compact, test
    #[arg(
        long,
        value_name = "SETS",
        value_delimiter = ',',
        default_value = "prod"
    )]
    sets: Vec<Set>,
    /// Maximum number of clients at a time; each has its own share of memory and jobs
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    clients_max: u16,
    /// Maximum number of waiting and running jobs per client
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    jobs_max: u16,
    /// Maximum request body in MiB, also the most that a client's unfinished jobs may hold
    #[arg(long, value_name = "MIB", default_value_t = 96, value_parser = clap::value_parser!(u32).range(1..=256))]
    body_max: u32,
    /// Seconds for which finished jobs are kept
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    keep: u64,
    /// Seconds that unfinished jobs have to complete when the worker is asked to exit
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=3_600))]
    grace: u64,
    #[command(flatten)]
    lanes: LaneOptions,
    /// File to write the worker's address to once it listens
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(json_target))]
    ready_file: Option<PathBuf>,
    /// Exit when standard input is closed
    #[arg(long)]
    exit_on_stdin_eof: bool,
    #[command(flatten)]
    log: LogOptions,
    /// Print only errors and warnings
    #[arg(long)]
    quiet: bool,
    /// Serve as the process of a prove lane
    #[arg(long, hide = true)]
    lane: bool,
}

/// Runs the process of a prove lane, started by a worker.
fn lane(args: &Args) -> Result<()> {
    let backend = args.compute.kernel(&alphorn_stark::KERNELS)?;
    let code = serve_lane(backend, args.sets.clone());
    match code == ExitCode::SUCCESS {
        true => Ok(()),
        false => Err(Error::Check("the lane ended with an error".into())),
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.lane {
        return lane(args);
    }
    distinct("--sets", &args.sets)?;
    let threads = args.compute.threads()?;
    let backend = args.compute.kernel(&alphorn_stark::KERNELS)?;
    let tokens = tokens(args)?;
    let mut instance = [0; 8];
    getrandom::fill(&mut instance).map_err(|error| anyhow!("the system's entropy: {error}"))?;
    let hosts = HostAllowList::new(args.listen.ip(), args.http_allow_host.iter().cloned());
    let hosts = hosts.context("--http-allow-host")?;
    // Before the circuits are made, which takes a while: a port in use is reported at once.
    let listener = TcpListener::bind(args.listen)
        .map_err(|error| Error::Exit(3, format!("--listen {}: {error}", args.listen)))?;
    let address = listener.local_addr()?;
    let _log = args.log.begin(args.quiet, &Sink::default());
    let begin = Instant::now();
    make_circuits(&args.sets);
    info!(
        "circuits of merges made in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    let service = Service::start(Parts {
        lanes: args.lanes.config(threads, child(args, backend)?, None),
        backend,
        tokens,
        sets: args.sets.clone(),
        limits: limits(args),
        instance: u64::from_le_bytes(instance),
        commit: commit(),
    })?;
    let limits = http::Limits {
        first: FIRST_ANSWER,
        ..http::Limits::default()
    };
    http::serve(listener, guard(router(service.clone()), hosts), limits)?;
    info!("http://{address}/worker/v1");
    let kernels = calibration::of(&alphorn_stark::KERNELS, &args.compute)?;
    info!("{}", calibration::line(&kernels));
    if let Some(path) = &args.ready_file {
        ready(path, address)?;
    }
    serve(args, &service)
}

/// Serves until the process is asked to end, and then ends the work in progress.
fn serve(args: &Args, service: &Arc<Service>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        crate::stop::asked(args.exit_on_stdin_eof).await;
        info!("no more jobs are taken; {} are under way", service.live());
        service.close(Duration::from_secs(args.grace)).await;
    });
    let counts = service.status().counts;
    info!(
        "{} jobs taken, {} with a result",
        counts.accepted, counts.done
    );
    Ok(())
}

fn limits(args: &Args) -> Limits {
    Limits {
        clients_max: args.clients_max.into(),
        jobs_max: args.jobs_max.into(),
        body_bytes_max: (args.body_max as usize) << 20,
        keep: Duration::from_secs(args.keep),
        ..Limits::default()
    }
}

/// Returns how to start the process of a prove lane.
fn child(args: &Args, kernel: Backend) -> Result<Option<ChildCommand>> {
    if !args.lanes.has_processes() {
        return Ok(None);
    }
    let sets: Vec<&str> = args.sets.iter().map(|set| set.name()).collect();
    let (sets, kernel) = (sets.join(","), kernel.name());
    let words = ["worker", "--lane", "--sets", &sets, "--kernel", kernel];
    Ok(Some(ChildCommand {
        program: std::env::current_exe()?,
        args: words.map(Into::into).into(),
        // A child needs none: each job brings its registries with their keys.
        setup: Arc::default(),
    }))
}

fn ready(path: &Path, address: SocketAddr) -> Result<()> {
    let ready = serde_json::json!({
        "pid": std::process::id(),
        "api": address.to_string(),
    });
    write_whole(path, ready.to_string().as_bytes())
}

/// Returns the tokens of clients; none where anyone who can reach the address may ask.
fn tokens(args: &Args) -> Result<Tokens> {
    let Some(path) = &args.token_file else {
        let ip = args.listen.ip();
        return match ip.is_loopback() {
            true => Ok(Tokens::anyone()),
            false => Err(anyhow!("--listen {ip}: beyond loopback --token-file is needed").into()),
        };
    };
    let bytes = read_secret(path, TOKEN_FILE_BYTES_MAX, Permissions::Strict)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "not UTF-8".to_owned());
    let tokens = text.and_then(Tokens::parse);
    Ok(tokens.map_err(|why| anyhow!("--token-file {}: {why}", path.display()))?)
}
