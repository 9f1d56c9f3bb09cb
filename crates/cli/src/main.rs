//! Runs alphorn from the command line.
//!
//! Exit codes: 0 = what was asked holds, 1 = a check failed, 2 = usage or configuration.
#![forbid(unsafe_code)]
// They panic when the reader is gone or the disk is full: `report` has `say` and `note`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod dashboard;
mod devnet;
mod doctor;
mod files;
mod genesis;
mod help;
mod lanes;
mod node;
mod proof;
mod replay;
mod shell;
mod stop;
mod worker;

// Shared code and the analyses are in the lab crate.
use alphorn_bench as bench;
use alphorn_lab::{
    calibration, compare, distinct, error, explore, horn, keycache, lattice, machine, options,
    overwrite, progress, report, sim, slot, text,
};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use error::Result;
use mimalloc::MiMalloc;
use node::settings::Settings;
use std::ffi::OsString;
use std::process::ExitCode;

// With glibc's allocator a simulation takes half as much memory again, and longer on several threads.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Every validator votes in every slot: aggregation of a million votes, and what it costs.
#[derive(Parser)]
#[command(
    name = "alphorn",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one Horn slot end to end with real signatures: votes, aggregates, collections, block
    Slot(Box<slot::Args>),
    /// Analyse Horn with the real encoders and roles: traffic, selection, griefing, recorded data
    Horn(horn::Args),
    /// Compare the signature schemes on the same votes: bytes, times, memory, security
    Compare(compare::Args),
    /// Find which scheme and topology carry a slot's votes on which network: a sweep in the simulator
    Explore(explore::Args),
    /// Run the protocols in a simulated network
    Sim(sim::Args),
    /// Manage key files: create, import, export, list and inspect them
    Keys(files::keys::Args),
    /// Sign a message with one or more keys
    Sign(files::sign::Args),
    /// Aggregate signatures over one message
    Aggregate(files::aggregate::Args),
    /// Merge aggregates over one message; a signer in several of them counts several times
    Merge(files::merge::Args),
    /// Verify signatures, aggregates, bundles and proofs of possession, with a verdict per file
    Verify(files::verify::Args),
    /// Lattice-based proofs: parameters, predicted sizes, security
    Lattice(lattice::Args),
    /// Hash-based proofs of many signatures: inspect, bundle and split them, show their security
    Proof(proof::Args),
    /// Benchmark against the naive method and the peer library in the same run
    Bench(bench::Args),
    /// Run a network of real processes on this host and check whether all duties are done, and how fast
    Devnet(devnet::Args),
    /// Write the files of a network: its common configuration, its nodes, and a key for each
    Genesis(genesis::Args),
    /// Run one node of a network in this process
    Node(node::NodeCommand),
    /// Replay a node's recorded inputs through its state machines and check for the same outcome
    Replay(replay::Args),
    /// Serve proofs of XMSS signatures over HTTP to clients in any language
    Worker(worker::Args),
    #[command(hide = true)]
    Lane(node::lane::Args),
    /// Serve the page that shows what a simulation or a node did, from its trace
    Dashboard(dashboard::Args),
    /// Show what this host offers: cores, memory, instruction sets, kernels measured and chosen
    Doctor(doctor::Args),
    /// Print a shell completion script for commands and options to standard output
    Completions(shell::CompletionsArgs),
    /// Write manual pages, one per command, into a folder
    Man(shell::ManArgs),
}

/// Maximum length of a printed error in characters: it may quote a file.
const ERROR_CHARS_MAX: usize = 4_000;

fn main() -> ExitCode {
    let build = machine::Build {
        commit: env!("ALPHORN_COMMIT"),
        compiler: env!("ALPHORN_COMPILER"),
    };
    build.say();
    match words().and_then(|words| run(parsed(words).command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = text::printable(&error.to_string(), ERROR_CHARS_MAX);
            report::note(&format!("alphorn: {text}"));
            error.exit_code()
        }
    }
}

/// Parses the words; help and usage errors end the program here.
fn parsed(words: Vec<OsString>) -> Cli {
    let matches = help::wrapped_once(Cli::command()).get_matches_from(words);
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Returns the command line; for a node, with additions from its environment and its file.
fn words() -> Result<Vec<OsString>> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let is_node = words.get(1).is_some_and(|command| command == "node");
    if is_node && words.get(2).is_none_or(|command| command != node::STATUS) {
        let settings = Settings::find(&words[2..], |name| std::env::var_os(name))?;
        words.extend(settings.words());
    }
    Ok(words)
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Slot(args) => slot::run(&args),
        Command::Horn(args) => horn::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Explore(args) => explore::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Keys(args) => files::keys::run(&args),
        Command::Sign(args) => files::sign::run(&args),
        Command::Aggregate(args) => files::aggregate::run(&args),
        Command::Merge(args) => files::merge::run(&args),
        Command::Verify(args) => files::verify::run(&args),
        Command::Lattice(args) => lattice::run(&args),
        Command::Proof(args) => proof::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Devnet(args) => devnet::run(&args),
        Command::Genesis(args) => genesis::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Worker(args) => worker::run(&args),
        Command::Lane(args) => node::lane::run(&args),
        Command::Dashboard(args) => dashboard::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => shell::completions(Cli::command(), &args),
        Command::Man(args) => shell::man(Cli::command(), &args),
    }
}
