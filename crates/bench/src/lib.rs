//! Headline measurements of alphorn, each with its peers in the same run.
//!
//! This is the library behind `alphorn bench`: a module with `Args` and `run` is one of its commands. Outside tests
//! no other crate depends on a library only to be compared with it. No stable interface is promised.
#![forbid(unsafe_code)]
// They panic when the reader is gone or the disk is full: `alphorn_lab::report` has `say` and `note`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bls_sums;
mod bls_verify;
mod broadcast;
mod codec;
mod costs;
pub mod gossip;
mod harness;
mod lattice;
mod proof;
mod sim;
mod supports;
mod timing;
mod xmss;

use alphorn_lab::error::Result;
use clap::Subcommand;

/// Benchmark against the naive method and the peer library in the same run
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Benchmark BLS12-381 signatures
    Bls(BlsArgs),
    /// Benchmark support codes: bytes of all collections of a slot, times for one
    Codec(codec::Args),
    /// Benchmark coding, verifying and decoding the chunks of a broadcast
    Broadcast(broadcast::Args),
    /// Benchmark gossip among real nodes against the simulator's
    Gossip(gossip::Args),
    /// Measure messages and events per second of the simulator
    Sim(sim::Args),
    /// Benchmark proofs of Falcon signatures against verifying the signatures
    Lattice(lattice::Args),
    /// Benchmark hash-based proofs of many signatures against lists of the signatures
    Proof(proof::Args),
    /// Benchmark XMSS: hashing, key generation, signing, verification
    Xmss(xmss::Args),
}

#[derive(clap::Args, Debug)]
struct BlsArgs {
    #[command(subcommand)]
    what: BlsWhat,
}

#[derive(Subcommand, Debug)]
enum BlsWhat {
    /// Benchmark the aggregate keys of all collections of a slot
    Sums(bls_sums::Args),
    /// Benchmark the verification of all collections of a slot
    Verify(bls_verify::Args),
}

/// Runs the command.
///
/// # Errors
/// If it cannot be run, or if a check fails.
pub fn run(args: &Args) -> Result<()> {
    let bls = match &args.what {
        What::Bls(bls) => bls,
        What::Codec(args) => return codec::run(args),
        What::Broadcast(args) => return broadcast::run(args),
        What::Gossip(args) => return gossip::run(args),
        What::Sim(args) => return sim::run(args),
        What::Lattice(args) => return lattice::run(args),
        What::Proof(args) => return proof::run(args),
        What::Xmss(args) => return xmss::run(args),
    };
    match &bls.what {
        BlsWhat::Sums(args) => bls_sums::run(args),
        BlsWhat::Verify(args) => bls_verify::run(args),
    }
}
