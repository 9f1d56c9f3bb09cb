//! The prover, from the outputs down to the inputs.

use super::layers::Prover;
use super::output::prove_output;
use super::verifier::inputs_of;
use super::{Leaves, OutputClaim, Units};
use crate::arith::Native;
use crate::extension::Ext;
use crate::poseidon::Trace;
use crate::transcript::Sender;
use alphorn_exec::{Exec, Stopped};
/// Proves an output claim, down to claims on cubes and inputs.
///
/// # Errors
/// [`Stopped`] if the computation is stopped.
pub(crate) fn prove(
    sender: &mut Sender,
    exec: Exec<'_>,
    units: &Units,
    trace: &Trace,
    claim: &OutputClaim<Ext>,
) -> Result<Leaves<Ext>, Stopped> {
    let prover = Prover {
        exec,
        units,
        trace,
        permutation: units.kind.permutation(),
    };
    let (mut point, _) = prove_output(&prover, sender, claim)?;
    for round in [6, 5, 4] {
        (point, _) = prover.full(sender, round, &trace.states[round + 1], &point)?;
    }
    let (cubes_at, values) = prover.partial(sender, &point)?;
    let (mut point, mut inputs) = (cubes_at.clone(), Vec::new());
    for round in [3, 2, 1, 0] {
        (point, inputs) = prover.full(sender, round, &trace.states[round], &point)?;
    }
    Ok(Leaves {
        cubes_at,
        cubes: values[units.kind.lanes()..].to_vec(),
        inputs_at: point,
        inputs: inputs_of(&Native::new(&[]), prover.permutation, inputs),
    })
}
