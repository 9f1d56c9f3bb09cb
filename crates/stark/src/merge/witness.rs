//! What a prover of merges holds: its children, their circuits' witnesses, and its setting.

use alphorn_exec::Exec;

use super::gadgets::Setting;
use super::hints::Hints;
use super::known::MergeKnown;
use super::wiring::Wiring;
use crate::field::Fp;
use crate::poseidon::WIDTH_16;
use crate::registry::Registry;

/// A child to be merged: the hints for its circuit, its proof's elements and its bitfield.
#[derive(Clone, Debug)]
pub(super) struct Verified {
    pub(super) hints: Hints,
    pub(super) elements: Vec<Fp>,
    pub(super) bits: Vec<bool>,
}

/// The witness of a child's circuit.
#[derive(Clone)]
pub(super) struct Child {
    pub(super) circuit: usize,
    pub(super) cells: Vec<Fp>,
    pub(super) permuted: Vec<[Fp; WIDTH_16]>,
}

/// The state of a prover.
pub(super) struct Prover<'a> {
    pub(super) exec: Exec<'a>,
    pub(super) wiring: &'a Wiring,
    pub(super) setting: Setting<'a>,
    /// The registry of a merge. The remaining registry claims of a bundle are not reduced.
    pub(super) registry: Option<&'a Registry>,
    pub(super) known: MergeKnown<Fp>,
}
