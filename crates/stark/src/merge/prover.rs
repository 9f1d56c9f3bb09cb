//! The prover of a merge.

use std::collections::BTreeMap;

use super::child::{Header, Told};
use super::layout::{
    CELLS_LOG2, CHILD_LOG2, COLUMN_SLICES, INPUTS, KEY_LOG2, LANES_LOG2, OUTPUTS,
    PERMUTATIONS_LOG2, PLACES_LOG2, PRODUCTS_LOG2, REGISTRY_LOG2, ROWS_LOG2, SLICE_LOG2, SLICES,
    WORD_LOG2, WORDS_LOG2, cell, first_slice, output, slice_numbers, units,
};
use super::residual::{CIRCUITS, WiringWeights, matrix, row_weights, wiring_weights};
use super::verifier::{MergeKnown, header, parameters, read_argued};
use super::weights::{Claims, Column, Part};
use super::wiring::{MATRICES, Wiring, number};
use crate::arith::{DIGEST, Native};
use crate::circuit::{Circuit, Recorder};
use crate::error::{ProveError, VerifyError};
use crate::exec::{Exec, Stopped};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::{Packed, Pass};
use crate::multilinear::{eq_table, powers};
use crate::poseidon::{STATES, Trace, WIDTH_16, Width};
use crate::poseidon_gkr::skip::ROWS;
use crate::poseidon_gkr::{self, OutputClaim, RowWeights};
use crate::proof::Registry;
use crate::sumcheck::{prove_product_round, prove_small, quadratic, send_round};
use crate::transcript::Sender;
use crate::vector::{Planes, Vector, eq_planes};
use crate::whir::blocks::{Blocks, Outer};
use crate::whir::{self, Committer, OpenSlices, Preset, Remaining};

/// A child that is to be merged: what its circuit is told, its proof's elements and its bitfield.
#[derive(Clone, Debug)]
pub(super) struct Verified {
    pub(super) told: Told,
    pub(super) elements: Vec<Fp>,
    pub(super) bits: Vec<bool>,
}

/// The witness of a child's circuit.
#[derive(Clone)]
pub(super) struct Child {
    circuit: usize,
    pub(super) cells: Vec<Fp>,
    pub(super) permuted: Vec<[Fp; WIDTH_16]>,
}

/// A prover at work.
pub(super) struct Prover<'a> {
    pub(super) exec: Exec<'a>,
    pub(super) wiring: &'a Wiring,
    pub(super) setting: super::child::Setting<'a>,
    pub(super) registry: &'a Registry,
    pub(super) known: MergeKnown<Fp>,
}

impl Header {
    /// The circuit that verifies such proofs.
    pub(super) fn circuit(&self) -> usize {
        match self {
            Header::Leaf { .. } => 0,
            Header::Merged { .. } => 1,
        }
    }
}

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

    /// Verifies the children, and takes down what their circuits compute.
    pub(super) fn witnesses(&self, children: &[Verified]) -> Result<Vec<Child>, ProveError> {
        self.exec.step("verifying children")?;
        let witness = |c: usize| self.witness(&children[c]);
        let witness = self.exec.try_map(children.len(), witness)?.into_iter();
        let refused = |(child, witness): (usize, Result<Child, VerifyError>)| {
            witness.map_err(|error| ProveError::Child { child, error })
        };
        witness.enumerate().map(refused).collect()
    }

    /// Verifies a child, and takes down what its circuit computes.
    pub(super) fn witness(&self, child: &Verified) -> Result<Child, VerifyError> {
        let circuit = Circuit::running();
        let recorder = Recorder::new(&circuit, &child.elements);
        super::child::record(recorder, &self.setting, &child.told)?;
        let number = child.told.header.circuit();
        let (cells, permuted) = circuit.witness(&self.wiring.plans[number]);
        Ok(Child {
            circuit: number,
            cells,
            permuted,
        })
    }

    /// Proves what witnesses say, true or not.
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
        let slices = slices(&columns, &witness);
        let numbers = slice_numbers(witness.len(), SLICES);
        let mut sender = Sender::new(parameters(self.setting.relation.id, preset.id));
        sender.absorb(&self.known.key);
        sender.absorb(&self.known.digest);
        sender.absorb(&header(&self.known.used, &self.known.merged, |x| x));
        let committer = Committer::new(&mut sender, exec, preset, SLICE_LOG2, &slices, &numbers)?;
        self.argue(&mut sender, &trace, &witness, &columns, bitfield)?;
        exec.step("own reading")?;
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
            sums: committer.slice_values,
        };
        let rounds = open_blocks(exec, (&slices, &numbers), weights, sample)?;
        let oracle = (committer.oracle, &numbers[..]);
        let point = whir::open(&mut sender, exec, preset, oracle, claim, rounds)?;
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
        exec.step("registry")?;
        self.reduce_registry(&mut sender, &outputs)?;
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
        Ok(Width::Narrow.trace(self.exec, lanes, blocks.concat()))
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
        for child in witness {
            let element = |j: usize| Ext(output(j).map(|cell| child.cells[cell]));
            sender.send(&(0..OUTPUTS).map(element).collect::<Vec<Ext>>());
        }
        let absent = vec![Fp::ZERO; OUTPUTS * DEGREE];
        for _ in witness.len()..self.known.used.len() {
            sender.absorb(&absent);
        }
        // Inputs and outputs: a claim of which nothing is said.
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
        // Words of the bitfields: a claim of which nothing is said.
        sender.challenges(WORDS_LOG2 + 1);
        Ok(())
    }

    /// The rows (A·z)(B·z) = C·z.
    fn rows(&self, sender: &mut Sender, witness: &[Child]) -> Result<(), Stopped> {
        let exec = self.exec;
        let point = sender.challenges(PRODUCTS_LOG2 + CHILD_LOG2);
        let (rows, child) = point.split_at(PRODUCTS_LOG2);
        let children = eq_table(Ext::ONE, child);
        let tables = exec.try_map(witness.len() * 3, |i| {
            let child = &witness[i / 3];
            self.wiring
                .base_rows(child.circuit, 2 + i % 3, &child.cells)
        })?;
        let mut tables: Vec<[Planes; 3]> = tables
            .chunks_exact(3)
            .map(|three| [three[0].clone(), three[1].clone(), three[2].clone()])
            .collect();
        for round in 0..PRODUCTS_LOG2 {
            let weights = eq_planes(exec, Ext::ONE, &rows[round + 1..]);
            let backend = exec.backend_for(weights.len());
            let sums = exec.try_map(tables.len(), |c| {
                let sums = backend.run(RowSums {
                    tables: &tables[c],
                    weights: &weights,
                });
                sums.map(|x| children[c + 1] * x)
            })?;
            let total = |k: usize| sums.iter().map(|sum| sum[k]).sum();
            let x = send_round(sender, &quadratic([total(0), total(1), total(2)]));
            let folded = exec.try_map(tables.len(), |c| {
                tables[c].each_ref().map(|table| table.fold(backend, x))
            })?;
            tables = folded;
        }
        let last = |k: usize| {
            let mut values = vec![Ext::ZERO; 1 << CHILD_LOG2];
            for (value, tables) in values[1..].iter_mut().zip(&tables) {
                *value = tables[k].get(0);
            }
            values
        };
        let mut polynomials: Vec<Vec<Ext>> = (0..3).map(last).collect();
        let values = |pairs: &[[Ext; 2]]| {
            let at = |x: usize| pairs[0][x] * pairs[1][x] - pairs[2][x];
            let slope = |k: usize| pairs[k][1] - pairs[k][0];
            [at(0), at(1), slope(0) * slope(1)]
        };
        prove_small(sender, child, &mut polynomials, values, quadratic);
        let values: Vec<Ext> = polynomials.iter().map(|values| values[0]).collect();
        sender.send(&values);
        Ok(())
    }

    /// The weights of all claims, by the numbers of the slices.
    fn weights(
        &self,
        claims: &Claims<Ext>,
        factors: &[Ext],
        witness: &[Child],
    ) -> Result<BTreeMap<usize, Planes>, Stopped> {
        let exec = self.exec;
        let parts: Vec<(&Part<Ext>, Ext)> = claims.parts(factors).collect();
        let wired: Vec<&(&Part<Ext>, Ext)> = parts
            .iter()
            .filter(|(part, _)| matrix(part).is_some())
            .collect();
        // What a matrix weighs cells with is one for all children of a kind.
        let kinds: Vec<usize> = (0..CIRCUITS)
            .filter(|circuit| witness.iter().any(|child| child.circuit == *circuit))
            .collect();
        let of_matrices = exec.try_map(kinds.len() * wired.len(), |i| {
            let (circuit, (part, _)) = (kinds[i / wired.len()], wired[i % wired.len()]);
            let rows = row_weights(part);
            self.wiring
                .cells(circuit, matrix(part).unwrap_or_default(), &rows)
        })?;
        let of_children = exec.try_map(witness.len(), |c| {
            let kind = kinds.iter().position(|kind| *kind == witness[c].circuit);
            let first = kind.unwrap_or_default() * wired.len();
            let mut weights = Planes::zero(SLICES << SLICE_LOG2);
            let backend = exec.backend_for(weights.len());
            for ((part, factor), cells) in wired.iter().zip(&of_matrices[first..]) {
                let group = groups_of(part)[c];
                weights.add_scaled(backend, cells, *factor * group);
            }
            for (part, factor) in &parts {
                add_block(&mut weights, part, *factor, c);
            }
            weights
        })?;
        let mut out = BTreeMap::new();
        for (c, weights) in of_children.iter().enumerate() {
            for slice in 0..SLICES {
                let range = slice << SLICE_LOG2..(slice + 1) << SLICE_LOG2;
                out.insert(first_slice(c) + slice, weights.part(range));
            }
        }
        for slice in 0..COLUMN_SLICES {
            let mut weights = Planes::zero(1 << SLICE_LOG2);
            for (part, factor) in &parts {
                add_columns(&mut weights, part, *factor, slice);
            }
            out.insert(slice, weights);
        }
        Ok(out)
    }

    /// Reduces claims on the wiring to one.
    fn reduce_wiring(
        &self,
        sender: &mut Sender,
        weights: &WiringWeights<Ext>,
        outputs: &[super::verifier::Outputs<Ext>],
    ) -> Result<(), Stopped> {
        let exec = self.exec;
        let own = self.own_blocks(weights)?;
        let wired = own.sum(exec)?;
        sender.send(&[wired]);
        let eta = sender.challenge();
        let etas = powers(eta, eta, outputs.len());
        let merged = |c: &usize| self.known.merged[*c] == Fp::ONE;
        let merges: Vec<usize> = (0..outputs.len()).filter(merged).collect();
        let mut sums = vec![(Ext::ONE, own)];
        let mut claim = wired;
        for c in &merges {
            let child = &outputs[*c];
            claim += etas[*c] * child.wiring;
            let blocks = self.point_blocks(&child.wiring_row, &child.wiring_cell)?;
            sums.push((etas[*c], blocks));
        }
        let row = product_rounds(
            sender,
            exec,
            claim,
            &mut sums,
            1 + super::layout::PARTS_LOG2 + PRODUCTS_LOG2,
        )?;
        // The blocks hold the matrices as values, and their weights.
        let values: Vec<Ext> = sums.iter().map(|(_, blocks)| blocks.last()[0]).collect();
        sender.send(&values[..1]);
        self.send_of_merges(sender, &merges, &values[1..]);
        let theta = sender.challenge();
        let thetas = powers(theta, theta, outputs.len());
        let terms = merges
            .iter()
            .zip(&values[1..])
            .map(|(c, v)| thetas[*c] * *v);
        let claim = values[0] + terms.sum();
        let matrix = self.wiring.at_row(exec, &row)?;
        let mut weight = eq_planes(exec, Ext::ONE, &weights.cell);
        for c in &merges {
            weight.add_assign(&eq_planes(exec, thetas[*c], &outputs[*c].wiring_cell));
        }
        let pair = BTreeMap::from([(0, [matrix, weight])]);
        let mut sums = vec![(Ext::ONE, Blocks::new(0, pair))];
        product_rounds(sender, exec, claim, &mut sums, CELLS_LOG2)?;
        sender.send(&[sums[0].1.last()[0]]);
        Ok(())
    }

    /// Sends values of children that are merges; those of others are absorbed as zeros.
    fn send_of_merges(&self, sender: &mut Sender, merges: &[usize], values: &[Ext]) {
        for c in 0..self.known.merged.len() {
            match merges.iter().position(|merge| *merge == c) {
                Some(i) => sender.send(&values[i..=i]),
                None => sender.absorb(&[Fp::ZERO; DEGREE]),
            }
        }
    }

    /// What the opening leaves: matrices at its cells, with the weights of rows.
    fn own_blocks(&self, weights: &WiringWeights<Ext>) -> Result<Blocks, Stopped> {
        let cells = eq_table(Ext::ONE, &weights.cell);
        let of_rows = self.exec.try_map(MATRICES, |m| {
            let of_matrix = weights.parts.iter().filter(|part| part.matrix == m);
            let terms = of_matrix.map(|part| (part.factors, row_weights(&part.part)));
            terms.collect::<Vec<_>>()
        })?;
        // A circuit that no child has weighs nothing, and has values all the same.
        let blocks = self.exec.try_map(CIRCUITS * MATRICES, |i| {
            let (circuit, m) = (i / MATRICES, i % MATRICES);
            let rows = self.wiring.rows(circuit, m, &cells);
            let mut weights = vec![Ext::ZERO; 1 << PRODUCTS_LOG2];
            for (factors, of_part) in &of_rows[m] {
                let terms = weights.iter_mut().zip(of_part);
                terms.for_each(|(w, x)| *w += factors[circuit] * *x);
            }
            (number(circuit, m), [rows, Planes::from_exts(&weights)])
        })?;
        Ok(Blocks::new(
            1 + super::layout::PARTS_LOG2,
            blocks.into_iter().collect(),
        ))
    }

    /// All matrices at a point of cells, with eq of a point of rows.
    fn point_blocks(&self, row: &[Ext], cell: &[Ext]) -> Result<Blocks, Stopped> {
        let (of_matrix, of_row) = row.split_at(1 + super::layout::PARTS_LOG2);
        let matrices = eq_table(Ext::ONE, of_matrix);
        let cells = eq_table(Ext::ONE, cell);
        let values = self.exec.try_map(CIRCUITS * MATRICES, |i| {
            let (circuit, m) = (i / MATRICES, i % MATRICES);
            let rows = self.wiring.rows(circuit, m, &cells);
            (number(circuit, m), rows)
        })?;
        let weights = (matrices, eq_planes(self.exec, Ext::ONE, of_row));
        let coordinates = of_matrix.len();
        Blocks::of_outer(
            self.exec,
            coordinates,
            values.into_iter().collect(),
            weights,
        )
    }

    /// Reduces claims on the registry to one.
    fn reduce_registry(
        &self,
        sender: &mut Sender,
        outputs: &[super::verifier::Outputs<Ext>],
    ) -> Result<(), Stopped> {
        let eta = sender.challenge();
        let etas = powers(Ext::ONE, eta, outputs.len());
        let used = etas.iter().zip(outputs).zip(&self.known.used);
        let used: Vec<_> = used.filter(|(_, used)| **used == Fp::ONE).collect();
        let mut weights = Planes::zero(1 << (REGISTRY_LOG2 + KEY_LOG2));
        let mut claim = Ext::ZERO;
        for ((eta, child), _) in used {
            claim += *eta * child.registry;
            weights.add_assign(&eq_planes(self.exec, *eta, &child.registry_at));
        }
        let rows = (0..1 << REGISTRY_LOG2).flat_map(|row| self.registry.row(row));
        let values = Planes::from_base(&rows.collect::<Vec<Fp>>());
        let pair = BTreeMap::from([(0, [values, weights])]);
        let mut sums = vec![(Ext::ONE, Blocks::new(0, pair))];
        product_rounds(
            sender,
            self.exec,
            claim,
            &mut sums,
            REGISTRY_LOG2 + KEY_LOG2,
        )?;
        sender.send(&[sums[0].1.last()[0]]);
        Ok(())
    }
}

/// Rounds of sumcheck of a weighted sum of products; returns the point.
fn product_rounds(
    sender: &mut Sender,
    exec: Exec<'_>,
    claim: Ext,
    sums: &mut [(Ext, Blocks)],
    rounds: usize,
) -> Result<Vec<Ext>, Stopped> {
    let (mut claim, mut point) = (claim, Vec::with_capacity(rounds));
    for _ in 0..rounds {
        let mut totals = [Ext::ZERO; 2];
        for (factor, blocks) in sums.iter() {
            let of_blocks = blocks.totals(exec)?;
            totals = [0, 1].map(|k| totals[k] + *factor * of_blocks[k]);
        }
        let x = prove_product_round(sender, exec, &mut claim, totals, None)?;
        for (_, blocks) in sums.iter_mut() {
            blocks.bind(exec, x)?;
        }
        point.push(x);
    }
    Ok(point)
}

/// The cubes of a child's permutations, as cells.
fn fill_cubes(trace: &Trace, child: usize, cells: &mut [Fp]) {
    let lanes = 1 << LANES_LOG2;
    for row in 0..1 << ROWS_LOG2 {
        let block = (child << PLACES_LOG2) + row / ROWS;
        for k in 0..Width::Narrow.cubes() {
            let from = ((block * ROWS + row % ROWS) * Width::Narrow.cubes() + k) * lanes;
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
            true => sum.inverse().unwrap_or_default(),
            false => Fp::ZERO,
        }
    });
    let inverses = inverses.collect();
    columns.resize(Column::Inverses.number(), vec![Fp::ZERO; bitfield.len()]);
    columns.push(inverses);
    columns
}

/// All slices in the order of their numbers.
fn slices(columns: &[Vec<Fp>], witness: &[Child]) -> Vec<Vec<Fp>> {
    let half = vec![Fp::ZERO; 1 << REGISTRY_LOG2];
    let of_columns = (0..COLUMN_SLICES).map(|i| {
        let column = |k: usize| columns.get(2 * i + k).unwrap_or(&half).clone();
        [column(0), column(1)].concat()
    });
    let of_child = |child: &Child| {
        let slices = child.cells.chunks_exact(1 << SLICE_LOG2).take(SLICES);
        slices.map(<[Fp]>::to_vec).collect::<Vec<_>>()
    };
    of_columns
        .chain(witness.iter().flat_map(of_child))
        .collect()
}

/// Proves that the bits are bits, and the bitfield their union.
fn union(sender: &mut Sender, exec: Exec<'_>, columns: &[Vec<Fp>], bitfield: &[bool], used: &[Fp]) {
    let point = sender.challenges(REGISTRY_LOG2);
    let lambda = sender.challenge();
    let lambdas = powers(lambda, lambda, used.len());
    let eq = eq_table(Ext::ONE, &point);
    let bits = eq.iter().zip(bitfield).filter(|(_, bit)| **bit);
    sender.send(&[bits.map(|(weight, _)| *weight).sum()]);
    let mut planes: Vec<Planes> = columns
        .iter()
        .map(|column| Planes::from_base(column))
        .collect();
    for round in 0..REGISTRY_LOG2 {
        let weights = eq_planes(exec, Ext::ONE, &point[round + 1..]);
        let backend = exec.backend_for(weights.len());
        let sums = backend.run(UnionSums {
            columns: &planes,
            lambdas: &lambdas,
            weights: &weights,
        });
        let x = send_round(sender, &quadratic(sums));
        planes = planes
            .iter()
            .map(|column| column.fold(backend, x))
            .collect();
    }
    for (column, used) in planes.iter().zip(used) {
        match *used == Fp::ONE {
            true => sender.send(&[column.get(0)]),
            false => sender.absorb(&[Fp::ZERO; DEGREE]),
        }
    }
    sender.send(&[planes[used.len()].get(0)]);
}

/// h(0), h(1) and the leading coefficient of h for inverse·Σ bits + Σ λ·(bit² − bit).
struct UnionSums<'a> {
    /// Bits of the children, then inverses.
    columns: &'a [Planes],
    lambdas: &'a [Ext],
    weights: &'a Planes,
}

impl Pass for UnionSums<'_> {
    type Output = [Ext; 3];

    #[inline(always)]
    fn run<V: Packed>(self) -> [Ext; 3] {
        let half = self.weights.len();
        let mut sums = [Vector::<V>::zero(); 3];
        for x in (0..half).step_by(V::LANES) {
            let mut totals = [Vector::<V>::zero(); 3];
            let mut booleans = [Vector::<V>::zero(); 3];
            for (column, lambda) in self.columns.iter().zip(self.lambdas) {
                let lambda = Vector::<V>::splat(*lambda);
                let (low, high) = (column.load::<V>(x), column.load::<V>(half + x));
                let points = [low, high, high.sub(low)];
                for k in 0..3 {
                    totals[k] = totals[k].add(points[k]);
                    let square = points[k].mul(points[k]);
                    // The leading coefficient has no linear term.
                    let value = if k < 2 { square.sub(points[k]) } else { square };
                    booleans[k] = booleans[k].add(lambda.mul(value));
                }
            }
            let inverse = &self.columns[self.lambdas.len()];
            let (low, high) = (inverse.load::<V>(x), inverse.load::<V>(half + x));
            let points = [low, high, high.sub(low)];
            let weight = self.weights.load::<V>(x);
            for k in 0..3 {
                let value = points[k].mul(totals[k]).add(booleans[k]);
                sums[k] = sums[k].add(weight.mul(value));
            }
        }
        sums.map(|sum| sum.total())
    }
}

/// h(0), h(1) and the leading coefficient of h for a·b − c.
struct RowSums<'a> {
    tables: &'a [Planes; 3],
    weights: &'a Planes,
}

impl Pass for RowSums<'_> {
    type Output = [Ext; 3];

    #[inline(always)]
    fn run<V: Packed>(self) -> [Ext; 3] {
        let half = self.weights.len();
        let [a, b, c] = self.tables;
        let mut sums = [Vector::<V>::zero(); 3];
        for x in (0..half).step_by(V::LANES) {
            let weight = self.weights.load::<V>(x);
            let low = [a.load::<V>(x), b.load(x), c.load(x)];
            let high = [a.load::<V>(half + x), b.load(half + x), c.load(half + x)];
            let slope = high[0].sub(low[0]).mul(high[1].sub(low[1]));
            let values = [
                low[0].mul(low[1]).sub(low[2]),
                high[0].mul(high[1]).sub(high[2]),
                slope,
            ];
            for k in 0..3 {
                sums[k] = sums[k].add(weight.mul(values[k]));
            }
        }
        sums.map(|sum| sum.total())
    }
}

/// The weights of the children in a part.
fn groups_of(part: &Part<Ext>) -> &[Ext] {
    match part {
        Part::Block { groups, .. }
        | Part::Inputs { groups, .. }
        | Part::Outputs { groups, .. }
        | Part::Products { groups, .. } => groups,
        Part::Column { .. } | Part::Words { .. } => &[],
    }
}

/// Adds the weights that a part gives to cells of a child directly.
fn add_block(weights: &mut Planes, part: &Part<Ext>, factor: Ext, child: usize) {
    let Part::Block {
        groups,
        columns,
        first_row,
        rows,
        lanes,
    } = part
    else {
        return;
    };
    for (column, of_column) in columns {
        for (i, of_row) in rows.iter().enumerate() {
            let scale = factor * groups[child] * *of_column * *of_row;
            let table = Planes::from_exts(&eq_table(scale, lanes));
            weights.add_at(cell(*column, first_row + i, 0), &table);
        }
    }
}

/// Adds the weights that a part gives to the columns of a slice.
fn add_columns(weights: &mut Planes, part: &Part<Ext>, factor: Ext, slice: usize) {
    let (column, table) = match part {
        Part::Column {
            column,
            scale,
            point,
        } => (column, eq_table(factor * *scale, point)),
        Part::Words {
            column,
            scale,
            point,
        } => {
            let words = eq_table(factor * *scale, point);
            let bits = |w: Ext| (0..1 << WORD_LOG2).map(move |k| w * Fp::new(1 << k));
            (column, words.into_iter().flat_map(bits).collect())
        }
        _ => return,
    };
    if column.number() / 2 == slice {
        let at = column.number() % 2 * table.len();
        weights.add_at(at, &Planes::from_exts(&table));
    }
}

/// The slices with the weights of claims and of the sample.
fn open_blocks(
    exec: Exec<'_>,
    (slices, numbers): (&[Vec<Fp>], &[usize]),
    mut weights: BTreeMap<usize, Planes>,
    sample: Outer,
) -> Result<Blocks, Stopped> {
    let values = exec.try_map(numbers.len(), |i| Planes::from_base(&slices[i]))?;
    let mut pairs = BTreeMap::new();
    for (number, values) in numbers.iter().zip(values) {
        let zero = || Planes::zero(values.len());
        let weights = weights.remove(number).unwrap_or_else(zero);
        pairs.insert(*number, [values, weights]);
    }
    let coordinates = sample.top.len().ilog2() as usize;
    Ok(Blocks::new(coordinates, pairs).with(sample))
}

const _: () = assert!(INPUTS == 3 << LANES_LOG2 && PERMUTATIONS_LOG2 == ROWS_LOG2 + LANES_LOG2);
