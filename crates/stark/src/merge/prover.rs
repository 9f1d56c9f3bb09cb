//! The prover of a merge.

use super::witness::{Child, Prover, Verified};
use alphorn_exec::{Exec, Stopped};

use super::known::parameters;
use super::layout::{
    CHILD_LOG2, COLUMN_SLICES, LANES_LOG2, PLACES_LOG2, REGISTRY_LOG2, ROWS_LOG2, SLICE_LOG2,
    WORDS_LOG2, cell, units,
};
use super::opening::open_blocks;
use super::residual::wiring_weights;
use super::rounds::union;
use super::verifier::read_argued;
use super::weights::Column;
use crate::arith::Native;
use crate::circuit::{Circuit, Recorder};
use crate::error::{ProveError, VerifyError};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::hash::DIGEST;
use crate::multilinear::{eq_table, powers};
use crate::poseidon::{Kind, STATES, Trace, WIDTH_16};
use crate::poseidon_gkr::skip::ROWS;
use crate::poseidon_gkr::{self, OutputClaim, RowWeights};
use crate::transcript::Sender;
use crate::vector::eq_planes;
use crate::whir::blocks::Outer;
use crate::whir::{self, Committer, Preset, Remaining};

impl Prover<'_> {
    /// Proves a merge of children over the commitment of a preset.
    pub(super) fn prove(
        &self,
        preset: &Preset,
        children: &[Verified],
        bitfield: &[bool],
    ) -> Result<Vec<Fp>, ProveError> {
        self.exec.enter(|| {
            let witness = self.witnesses(children)?;
            self.prove_witness(preset, witness, children, bitfield)
        })
    }

    /// Verifies the children, and records what their circuits compute.
    pub(super) fn witnesses(&self, children: &[Verified]) -> Result<Vec<Child>, ProveError> {
        self.exec.step("verifying children")?;
        let witness = |c: usize| self.witness(&children[c]);
        let witness = self.exec.try_map(children.len(), witness)?.into_iter();
        let refused = |(child, witness): (usize, Result<Child, VerifyError>)| {
            witness.map_err(|error| ProveError::Child { child, error })
        };
        witness.enumerate().map(refused).collect()
    }

    /// Verifies a child, and records what its circuit computes.
    pub(super) fn witness(&self, child: &Verified) -> Result<Child, VerifyError> {
        let circuit = Circuit::running();
        let recorder = Recorder::new(&circuit, &child.elements);
        super::child::record(recorder, &self.setting, &child.hints)?;
        let number = child.hints.header.circuit();
        let (cells, permuted) = circuit.witness(&self.wiring.plans[number]);
        Ok(Child {
            circuit: number,
            cells,
            permuted,
        })
    }

    /// Proves from witnesses, whether or not they are valid.
    pub(super) fn prove_witness(
        &self,
        preset: &Preset,
        mut witness: Vec<Child>,
        children: &[Verified],
        bitfield: &[bool],
    ) -> Result<Vec<Fp>, ProveError> {
        let exec = self.exec;
        exec.step("trace")?;
        let trace = self.trace(&witness)?;
        for (c, child) in witness.iter_mut().enumerate() {
            fill_cubes(&trace, c, &mut child.cells);
        }
        let columns = columns(children, bitfield);
        let dimensions = self.known.dimensions;
        let slices = slices(&columns, &witness, dimensions.slices);
        let numbers = dimensions.slice_numbers(witness.len());
        let mut sender = Sender::new(parameters(
            self.setting.relation.id,
            preset.id,
            self.known.form,
        ));
        sender.absorb(&self.known.key);
        sender.absorb(&self.known.digest);
        sender.absorb(&self.known.header(|x| x));
        let committer = Committer::new(&mut sender, exec, preset, SLICE_LOG2, &slices, &numbers)?;
        self.argue(&mut sender, &trace, &witness, &columns, bitfield)?;
        exec.step("own reading")?;
        // The prover reads its own proof with the verifier's code to obtain its claims. Claims are written down
        // only once, and prover and verifier cannot disagree about them.
        let arith = Native::new(sender.proof());
        let argued = read_argued(arith, self.setting.relation.id, preset, &self.known)?;
        let (claims, outputs) = (argued.claims, argued.children);
        let gamma = sender.challenge();
        let values = claims.values();
        let factors = powers(gamma, gamma, values.len());
        let terms = values.iter().zip(&factors).map(|(v, g)| *g * *v);
        let claim = committer.value + terms.sum();
        exec.step("weights")?;
        let weights = self.weights(&claims, &factors, &witness)?;
        let (top, low) = committer.point.split_at(preset.oracles[0].slices_log2);
        let sample = Outer {
            top: eq_table(Ext::ONE, top),
            low: eq_planes(exec, Ext::ONE, low),
            sums: committer.slice_values.clone(),
        };
        let rounds = open_blocks(exec, &slices, &numbers, weights, sample)?;
        let point = whir::open(&mut sender, exec, preset, committer, claim, rounds)?;
        exec.step("wiring")?;
        let remaining = Remaining {
            claim: Ext::ZERO,
            value: Ext::ZERO,
            weight: Ext::ZERO,
            point,
            factors,
        };
        let weights = wiring_weights(&Native::new(&[]), &self.known, &claims, &remaining);
        self.reduce_wiring(&mut sender, &weights, &outputs)?;
        if let Some(registry) = self.registry {
            exec.step("registry")?;
            self.reduce_registry(&mut sender, registry, &outputs)?;
        }
        Ok(sender.finish())
    }

    /// The trace of all permutations.
    fn trace(&self, witness: &[Child]) -> Result<Trace, Stopped> {
        let lanes = 1 << LANES_LOG2;
        let of_block = ROWS * lanes;
        let blocks = self.exec.try_map(witness.len() << PLACES_LOG2, |block| {
            let permuted = &witness[block >> PLACES_LOG2].permuted;
            let first = (block % (1 << PLACES_LOG2)) * of_block;
            let mut inputs = vec![Fp::ZERO; of_block * WIDTH_16];
            for p in 0..of_block {
                let Some(state) = permuted.get(first + p) else {
                    break;
                };
                let (row, lane) = (p / lanes, p % lanes);
                for (i, x) in state.iter().enumerate() {
                    inputs[(row * WIDTH_16 + i) * lanes + lane] = *x;
                }
            }
            inputs
        })?;
        Ok(Kind::Own.trace(self.exec, lanes, blocks.concat()))
    }

    /// Everything between commitment and opening.
    fn argue(
        &self,
        sender: &mut Sender,
        trace: &Trace,
        witness: &[Child],
        columns: &[Vec<Fp>],
        bitfield: &[bool],
    ) -> Result<(), Stopped> {
        let exec = self.exec;
        let dimensions = self.known.dimensions;
        let outputs = dimensions.outputs();
        for child in witness {
            let element = |j: usize| Ext(dimensions.output(j).map(|cell| child.cells[cell]));
            sender.send(&(0..outputs).map(element).collect::<Vec<Ext>>());
        }
        // Absorbed but not sent: the transcript has the same form for every number of children, so a single
        // circuit reads all of them.
        let absent = vec![Fp::ZERO; outputs * DEGREE];
        for _ in witness.len()..self.known.used.len() {
            sender.absorb(&absent);
        }
        // Inputs and outputs: a claim for which nothing is sent.
        sender.challenges(CHILD_LOG2 + LANES_LOG2 + 1);
        exec.step("permutations")?;
        let child = sender.challenges(CHILD_LOG2);
        let place = sender.challenges(ROWS_LOG2);
        let lanes = sender.challenges(LANES_LOG2);
        let digest = sender.challenges(DIGEST.ilog2() as usize);
        let groups = eq_table(Ext::ONE, &child)[1..=witness.len()].to_vec();
        let mut claim = OutputClaim {
            weights: RowWeights::Product {
                rows: eq_table(Ext::ONE, &place),
                lanes: eq_table(Ext::ONE, &digest),
            },
            groups,
            lanes,
            value: Ext::ZERO,
        };
        claim.value = outputs_sum(exec, trace, &claim, &eq_table(Ext::ONE, &digest));
        sender.send(&[claim.value]);
        poseidon_gkr::prove(sender, exec, &units(witness.len()), trace, &claim)?;
        // Cubes and inputs are joined.
        sender.challenges(2);
        exec.step("rows")?;
        self.rows(sender, witness)?;
        exec.step("union")?;
        union(sender, exec, columns, bitfield, &self.known.used);
        // Words of the bitfields: a claim for which nothing is sent.
        sender.challenges(WORDS_LOG2 + 1);
        Ok(())
    }
}

/// The cubes of a child's permutations, as cells.
fn fill_cubes(trace: &Trace, child: usize, cells: &mut [Fp]) {
    let lanes = 1 << LANES_LOG2;
    for row in 0..1 << ROWS_LOG2 {
        // Sixteen rows make a place, because the permutation argument binds sixteen at a time.
        let block = (child << PLACES_LOG2) + row / ROWS;
        for k in 0..Kind::Own.cubes() {
            let from = ((block * ROWS + row % ROWS) * Kind::Own.cubes() + k) * lanes;
            cells[cell(k, row, 0)..][..lanes].copy_from_slice(&trace.cubes[from..][..lanes]);
        }
    }
}

/// Σ weight·κ·eq·output of all permutations.
fn outputs_sum(exec: Exec<'_>, trace: &Trace, claim: &OutputClaim<Ext>, digest: &[Ext]) -> Ext {
    let lanes = eq_table(Ext::ONE, &claim.lanes);
    let RowWeights::Product { rows, .. } = &claim.weights else {
        return Ext::ZERO;
    };
    let states = &trace.states[STATES - 1];
    let sums = exec.map(claim.groups.len() << ROWS_LOG2, |i| {
        let (child, row) = (i >> ROWS_LOG2, i % (1 << ROWS_LOG2));
        let mut sum = Ext::ZERO;
        for (k, weight) in digest.iter().enumerate() {
            let outputs = &states[(i * WIDTH_16 + k) * lanes.len()..][..lanes.len()];
            let terms = lanes.iter().zip(outputs).map(|(e, x)| *e * *x);
            sum += *weight * terms.sum::<Ext>();
        }
        claim.groups[child] * rows[row] * sum
    });
    sums.into_iter().sum()
}

/// The bits of each child, and inverses of their sums where the bitfield has a bit.
fn columns(children: &[Verified], bitfield: &[bool]) -> Vec<Vec<Fp>> {
    let bit = |bit: &bool| Fp::new(u32::from(*bit));
    let of_child = |child: &Verified| child.bits.iter().map(bit).collect::<Vec<Fp>>();
    let mut columns: Vec<Vec<Fp>> = children.iter().map(of_child).collect();
    let inverses = (0..bitfield.len()).map(|x| {
        let sum: Fp = columns.iter().map(|column| column[x]).sum();
        match bitfield[x] {
            // A sum of zero under a set bit has no inverse. The proof of a lying prover is then rejected by the
            // union; an honest prover was rejected before it began.
            true => sum.inverse().unwrap_or_default(),
            false => Fp::ZERO,
        }
    });
    let inverses = inverses.collect();
    columns.resize(Column::Inverses.number(), vec![Fp::ZERO; bitfield.len()]);
    columns.push(inverses);
    columns
}

/// All slices in the order of their numbers, with `of_child` slices for each child.
fn slices(columns: &[Vec<Fp>], witness: &[Child], of_child: usize) -> Vec<Vec<Fp>> {
    let half = vec![Fp::ZERO; 1 << REGISTRY_LOG2];
    let of_columns = (0..COLUMN_SLICES).map(|i| {
        let column = |k: usize| columns.get(2 * i + k).unwrap_or(&half).clone();
        [column(0), column(1)].concat()
    });
    let of_child = |child: &Child| {
        let slices = child.cells.chunks_exact(1 << SLICE_LOG2).take(of_child);
        slices.map(<[Fp]>::to_vec).collect::<Vec<_>>()
    };
    of_columns
        .chain(witness.iter().flat_map(of_child))
        .collect()
}
