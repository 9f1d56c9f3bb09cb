//! `alphorn horn`: the analyses of Horn, from the real encoders and roles.

mod collections;
mod committees;
mod griefing;
mod odds;
mod traffic;

use crate::error::Result;
use clap::Subcommand;

/// Analyse Horn with the real encoders and roles: traffic, selection, griefing, recorded data
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Count bytes on the global topic and in blocks, from formulas and from encoded messages
    Traffic(traffic::Args),
    /// Compute the sizes of committees and cells, and the odds of selection
    Committees(committees::Args),
    /// Count the votes that griefing aggregators suppress under each collector rule
    Griefing(griefing::Args),
    /// Run a recorded epoch through the whole path and check the coverage of each committee
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
