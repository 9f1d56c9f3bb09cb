//! The slot with Falcon signatures: aggregates are lists, collections lists or proofs.

use super::{Args, Executed, Layers, horn_config, plan};
use crate::error::Result;
use crate::machine::Machine;
use crate::progress::Bars;
use alphorn_falcon::{Collections, Falcon, Flavour, Signers};
use alphorn_scheme::MemoryWatermark;
use alphorn_sim::slot::{SlotConfig, SlotInputs, run_slot};
use anyhow::anyhow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Runs the slot of the options.
pub(super) fn execute(args: &Args) -> Result<Executed> {
    if args.lattice.flavour() != Flavour::FnDsa {
        let message = "--flavour r3: the votes of a slot are signed in the flavour fndsa04";
        return Err(anyhow!(message).into());
    }
    let kernel = args.common.labrador_kernel()?;
    let names = BTreeMap::from([("labrador", kernel.name().to_owned())]);
    let machine = Machine::here(args.common.threads()?, names);
    let plan = plan(args)?;
    let collections = match args.layers.unwrap_or(Layers::ListProof) {
        Layers::ListList => Collections::Lists,
        Layers::ListProof => Collections::Proofs,
    };
    let scheme = Falcon::new(collections, kernel).with_profile(args.lattice.profile());
    let scheme = Arc::new(scheme);
    let horn = horn_config(args, &plan, scheme.as_ref())?;
    let mut bars = Bars::new();
    let clock = Instant::now();
    let validators = plan.layout.validators();
    let (signers, registry) = Signers::interop(validators, Some(&args.common.pool()?));
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
