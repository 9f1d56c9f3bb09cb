//! The slot with sums of BLS signatures; a sample of its verdicts is also computed by blst.

use super::{Args, Ready, plan};
use crate::error::Result;
use crate::keycache;
use alphorn_bls::{Bls, Costs, EpochKeys, Signers, peer};
use alphorn_exec::Exec;
use alphorn_scheme::{Claim, Keys};
use alphorn_sim::compute::CrossCheck;
use std::sync::Arc;

/// Decides a sample of all claims with blst alone.
struct BlstAlone;

impl CrossCheck for BlstAlone {
    fn holds(&self, keys: &Keys, claim: &Claim) -> Option<bool> {
        Some(peer::claim_holds(keys.get::<EpochKeys>()?, claim))
    }
}

/// Prepares the slot given by the options with BLS.
pub(super) fn ready(args: &Args) -> Result<Ready> {
    let kernel = args.common.kernel(&alphorn_bls::KERNELS)?;
    let machine = args.common.machine(kernel)?;
    let plan = plan(args)?;
    let scheme = Bls::new(kernel, Costs::measure(kernel));
    let validators = plan.layout.validators();
    let mut from_cache = false;
    let mut ready = Ready::with_keys(args, plan, machine, scheme, |pool, bars| {
        let exec = Exec::new(kernel, Some(pool));
        let interop = keycache::interop_registry(validators, exec, bars)?;
        from_cache = interop.from_cache;
        Ok((Signers::interop(0..validators, exec), interop.registry))
    })?;
    ready.inputs.cross_check = Some(Arc::new(BlstAlone));
    ready.from_cache = from_cache;
    Ok(ready)
}
