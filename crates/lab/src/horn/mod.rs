//! `alphorn horn`: the analyses of Horn, from the real encoders and roles.

mod collections;
mod committees;
mod griefing;
mod odds;
mod traffic;

use crate::error::Result;
use clap::Subcommand;

/// Analyses of Horn from the real encoders and roles: traffic, selection, griefing, real data
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Bytes on the global topic and in blocks, from formulas and from encoded messages
    Traffic(traffic::Args),
    /// Sizes of committees and cells, and the odds of selection
    Committees(committees::Args),
    /// Votes that a griefing aggregator takes away, by the collector's rule
    Griefing(griefing::Args),
    /// A recorded epoch through the whole path: coverage of each committee
    Collections(collections::Args),
}

/// Runs the command.
///
/// # Errors
/// If it cannot be run, or if a check fails.
pub fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Traffic(args) => traffic::run(args),
        What::Committees(args) => committees::run(args),
        What::Griefing(args) => griefing::run(args),
        What::Collections(args) => collections::run(args),
    }
}
