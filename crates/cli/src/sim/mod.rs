//! `alphorn sim`: the protocols in a simulated network.

mod rounds;

use crate::error::Result;
use clap::Subcommand;

/// The protocols in a simulated network
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Run a preset by its name
    Run(Run),
}

#[derive(clap::Args, Debug)]
struct Run {
    #[command(subcommand)]
    preset: Preset,
}

#[derive(Subcommand, Debug)]
enum Preset {
    /// The published model of coded broadcast in synchronous rounds, beside its published table
    Rounds(rounds::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let What::Run(Run { preset }) = &args.what;
    match preset {
        Preset::Rounds(args) => rounds::run(args),
    }
}
