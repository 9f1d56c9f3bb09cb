//! `alphorn bench`: measurements beside the naive method and the peer library, ratios in one run.

mod bls_ipa;
mod bls_primitives;
mod bls_sums;
mod bls_verify;
mod broadcast;
mod codec;
mod columns;
mod lattice;
mod proof;
mod sim;
mod steps;
mod targets;
mod worker;
mod xmss;

pub(crate) use columns::Participation;

use crate::error::Result;
use clap::Subcommand;

/// Measurements beside the naive method and the peer library of the same run
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// BLS12-381
    Bls(BlsArgs),
    /// Codes of supports: bytes of all collections of a slot, times of one
    Codec(codec::Args),
    /// Every figure that Horn should reach, measured, beside blst and the target
    Targets(targets::Args),
    /// Coding, verifying and decoding the chunks of a broadcast
    Broadcast(broadcast::Args),
    /// Events a second of the simulator
    Sim(sim::Args),
    /// Proofs of Falcon signatures, beside verifying them plainly
    Lattice(lattice::Args),
    /// Proofs that many signed, beside the lists of their signatures
    Proof(proof::Args),
    /// What it costs to have jobs done by the worker, and what an accident costs
    Worker(worker::Args),
    /// XMSS: hashing, keys, signatures, verification
    Xmss(xmss::Args),
}

#[derive(clap::Args, Debug)]
struct BlsArgs {
    #[command(subcommand)]
    what: BlsWhat,
}

#[derive(Subcommand, Debug)]
enum BlsWhat {
    /// Aggregate keys of all collections of a slot
    Sums(bls_sums::Args),
    /// Verification of all collections, aggregates of a committee, or votes of a cell
    Verify(bls_verify::Args),
    /// A whole slot with real signatures: the command `slot`
    Slot(Box<crate::slot::Args>),
    /// Single operations: fields, points, pairings, decoding
    Primitives(bls_primitives::Args),
    /// Proofs of aggregate keys, a research topic, beside direct sums
    Ipa(bls_ipa::Args),
}

/// Runs the command.
///
/// # Errors
/// If it cannot be run, or if a check fails.
pub fn run(args: &Args) -> Result<()> {
    let bls = match &args.what {
        What::Bls(bls) => bls,
        What::Codec(args) => return codec::run(args),
        What::Targets(args) => return targets::run(args),
        What::Broadcast(args) => return broadcast::run(args),
        What::Sim(args) => return sim::run(args),
        What::Lattice(args) => return lattice::run(args),
        What::Proof(args) => return proof::run(args),
        What::Worker(args) => return worker::run(args),
        What::Xmss(args) => return xmss::run(args),
    };
    match &bls.what {
        BlsWhat::Sums(args) => bls_sums::run(args),
        BlsWhat::Verify(args) => bls_verify::run(args),
        BlsWhat::Slot(args) => crate::slot::run_as(args, "bench bls slot"),
        BlsWhat::Primitives(args) => bls_primitives::run(args),
        BlsWhat::Ipa(args) => bls_ipa::run(args),
    }
}

/// The least wall time of `runs` runs in seconds, and the last result.
pub(crate) fn least<T>(runs: usize, mut run: impl FnMut() -> T) -> (f64, T) {
    let mut timed = || {
        let start = std::time::Instant::now();
        let value = run();
        (start.elapsed().as_secs_f64(), value)
    };
    let (mut best, mut value) = timed();
    for _ in 1..runs {
        let (seconds, again) = timed();
        best = best.min(seconds);
        value = again;
    }
    (best, value)
}
