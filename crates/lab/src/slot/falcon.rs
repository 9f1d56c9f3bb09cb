//! The slot with Falcon signatures: aggregates are lists, collections lists or proofs.

use super::{Args, Layers, Ready, plan};
use crate::error::Result;
use crate::machine::Machine;
use alphorn_exec::{Backend, Exec};
use alphorn_falcon::{Collections, Falcon, Registry, Signers};
use alphorn_types::Layout;
use anyhow::anyhow;

/// Returns the scheme given by the options, and the host with its kernel.
pub(super) fn scheme(args: &Args) -> Result<(Machine, Falcon)> {
    let kernel = args.common.kernel(&alphorn_labrador::KERNELS)?;
    let threads = args.common.threads()?;
    let machine = Machine::with(threads, &alphorn_labrador::KERNELS, &[kernel]);
    let collections = match args.layers() {
        Some(Layers::ListList) => Collections::Lists,
        Some(Layers::ProofProof) => {
            let message = "--layers proof/proof: proofs of falcon do not merge, those of xmss do";
            return Err(anyhow!(message).into());
        }
        Some(Layers::ListProof) | None => Collections::Proofs,
    };
    let scheme = Falcon::new(collections, kernel)
        .with_profile(args.lattice.profile())
        .with_flavour(args.lattice.flavour());
    Ok((machine, scheme))
}

/// Returns the interop keys of all validators.
pub(super) fn keys(args: &Args, layout: &Layout, pool: &rayon::ThreadPool) -> (Signers, Registry) {
    Signers::interop(
        args.lattice.flavour(),
        layout.validators(),
        Exec::new(Backend::Portable, Some(pool)),
    )
}

/// Prepares the slot given by the options.
pub(super) fn ready(args: &Args) -> Result<Ready> {
    let (machine, scheme) = scheme(args)?;
    let plan = plan(args)?;
    let layout = plan.layout;
    Ready::with_keys(args, plan, machine, scheme, |pool, _| {
        Ok(keys(args, &layout, pool))
    })
}
