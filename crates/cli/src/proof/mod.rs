//! `alphorn proof`: features specific to hash-based proofs.

mod inspect;

use crate::error::Result;
use crate::files::bundle;
use alphorn_lab::proof::security;
use clap::Subcommand;

/// Hash-based proofs of many signatures: inspect, bundle and split them, show their security
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Show header, statement and the sizes of all parts of a proof
    Inspect(inspect::Args),
    /// Bundle proofs of votes over several messages into one proof
    Bundle(bundle::BundleArgs),
    /// Extract one entry from a bundle as a separate aggregate
    Split(bundle::SplitArgs),
    /// Show the error of each step in bits, computed from the sizes, and all assumptions
    Security(security::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Inspect(args) => inspect::run(args),
        What::Bundle(args) => bundle::bundle(args),
        What::Split(args) => bundle::split(args),
        What::Security(args) => security::run(args),
    }
}
