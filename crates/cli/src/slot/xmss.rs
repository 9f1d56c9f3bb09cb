//! The slot with XMSS signatures: aggregates are lists, collections lists or proofs.

use super::{Args, Executed, Layers, horn_config, plan};
use crate::error::Result;
use crate::machine::Machine;
use crate::progress::Bars;
use crate::proof::proofs;
use alphorn_scheme::MemoryWatermark;
use alphorn_sim::slot::{SlotConfig, SlotInputs, run_slot};
use alphorn_xmss::{Exec, Signers, Xmss};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Slots in which the interop keys sign: the slot of the votes and the one of the block, with one
/// on either side.
const SLOTS: Range<u64> = 0..4;

/// Runs the slot of the options.
pub(super) fn execute(args: &Args) -> Result<Executed> {
    let kernel = args.common.stark_kernel()?;
    let names = BTreeMap::from([("stark", kernel.name().to_owned())]);
    let machine = Machine::here(args.common.threads()?, names);
    let plan = plan(args)?;
    let set = args.set();
    let scheme = Arc::new(match args.layers() {
        Some(Layers::ListProof) => Xmss::with_proofs(proofs(set, args.proof.preset()), kernel),
        _ => Xmss::new(set, kernel),
    });
    let horn = horn_config(args, &plan, scheme.as_ref())?;
    let mut bars = Bars::new();
    let clock = Instant::now();
    let validators = plan.layout.validators();
    let (signers, registry) = {
        let pool = args.common.pool()?;
        Signers::interop(set, validators, SLOTS, Exec::new(kernel, Some(&pool)))?
    };
    let keys_s = clock.elapsed().as_secs_f64();
    let config = SlotConfig {
        participation: plan.participation.clone(),
        ..SlotConfig::new(horn, args.common.seed, args.common.threads()?)
    };
    let inputs = SlotInputs {
        scheme,
        registry: Arc::new(registry),
        signers: Arc::new(signers),
        watermark: Arc::new(MemoryWatermark::new(validators)),
        cross_check: None,
    };
    let outcome = run_slot(config, inputs, &mut bars)?;
    bars.clear();
    Ok(Executed {
        machine,
        outcome,
        plan,
        keys_s,
        from_cache: false,
    })
}
