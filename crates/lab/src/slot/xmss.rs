//! The slot with XMSS signatures: lists, or proofs of collections, or of cells too.

use super::{Args, Layers, Plan, Ready, plan};
use crate::error::Result;
use crate::machine::Machine;
use crate::progress::Bars;
use crate::proof::{PresetName, proofs};
use alphorn_exec::Exec;
use alphorn_types::Layout;
use alphorn_xmss::{Registry, Signers, Xmss};
use anyhow::anyhow;
use std::ops::Range;

/// The slot of the votes.
const VOTE_SLOTS: Range<u64> = 0..1;
/// Slots with duties: that of the votes, those of blocks, and one more.
const DUTY_SLOTS: Range<u64> = 0..4;

/// Returns the scheme given by the options, and the host with its kernel.
pub(super) fn scheme(args: &Args, plan: &Plan) -> Result<(Machine, Xmss)> {
    let kernel = args.common.kernel(&alphorn_stark::KERNELS)?;
    let threads = args.common.threads()?;
    let machine = Machine::with(threads, &alphorn_stark::KERNELS, &[kernel]);
    let set = args.set();
    let proofs = proofs(set, args.proof.preset());
    let scheme = match args.layers() {
        Some(Layers::ProofProof) => {
            check_merges(args, plan, proofs.mergeable_max())?;
            // Not charged to any job.
            proofs.make_circuits();
            Xmss::with_proofs_of_cells(proofs, kernel)
        }
        Some(Layers::ListProof) => Xmss::with_proofs(proofs, kernel),
        Some(Layers::ListList) | None => Xmss::new(set, kernel),
    };
    Ok((machine, scheme))
}

/// Rejects proofs of cells that no circuit merges.
fn check_merges(args: &Args, plan: &Plan, signatures_max: usize) -> Result<()> {
    let preset = args.proof.preset();
    if preset != PresetName::Fast {
        let name = preset.preset().name;
        let message = format!("--layers proof/proof --preset {name}: only proofs of fast merge");
        return Err(anyhow!(message).into());
    }
    let layout = &plan.layout;
    let cell = layout.cell_len_max();
    if cell as usize > signatures_max {
        let committee = layout.committee_len_max() as usize;
        return Err(anyhow!(
            "cells of {cell} validators: a proof that merges has at most {signatures_max} signatures, \
             use --subcommittees {} or more",
            committee.div_ceil(signatures_max)
        )
        .into());
    }
    Ok(())
}

/// Returns the interop keys of all validators.
pub(super) fn keys(
    args: &Args,
    layout: &Layout,
    pool: &rayon::ThreadPool,
    bars: &mut Bars,
) -> Result<(Signers, Registry)> {
    let exec = Exec::new(args.common.kernel(&alphorn_stark::KERNELS)?, Some(pool));
    let validators = layout.validators();
    let (set, votes, duties) = (args.set(), VOTE_SLOTS, DUTY_SLOTS);
    let progress = &mut |made: u32| bars.show("keys", made.into(), validators.into());
    Ok(Signers::interop_on_demand(
        set, validators, votes, duties, exec, progress,
    )?)
}

/// Prepares the slot given by the options.
pub(super) fn ready(args: &Args) -> Result<Ready> {
    let plan = plan(args)?;
    let (machine, scheme) = scheme(args, &plan)?;
    let layout = plan.layout;
    let fits = scheme.check_layout(&layout);
    Ready::with_keys(args, plan, machine, scheme, |pool, bars| {
        // Impossible options were already reported.
        fits.map_err(|error| anyhow!("--scheme xmss: {error}"))?;
        keys(args, &layout, pool, bars)
    })
}
