use alphorn_exec::{Backend, Exec};

use super::skip::{ROWS, lagrange};
use super::*;
use crate::arith::Native;
use crate::error::VerifyError;
use crate::field::Fp;
use crate::hash::DIGEST;
use crate::multilinear::eq_table;
use crate::poseidon::kernels::KERNELS;
use crate::poseidon::{Kind, Trace};
use crate::test_random::Random;
use crate::transcript::{Channel, Lie, Sender};

/// Three groups of four instances may be used; an instance has two of four places.
fn units(kind: Kind, groups: usize) -> Units {
    Units {
        kind,
        lanes_log2: 2,
        places_log2: 2,
        groups_log2: 2,
        first_group: 1,
        groups,
        places: vec![0, 2],
    }
}

struct Case {
    units: Units,
    /// The inputs of the permutations.
    inputs: Vec<Fp>,
    trace: Trace,
    claim: OutputClaim<Ext>,
}

fn case(kind: Kind, groups: usize, lanes_log2: usize) -> Case {
    let mut units = units(kind, groups);
    units.lanes_log2 = lanes_log2;
    let mut random = Random::new(20 + groups as u64);
    let exec = Exec::new(Backend::Portable, None);
    let instances = 1 << lanes_log2;
    let inputs = (0..units.blocks() * ROWS * kind.lanes() * instances).map(|_| random.fp());
    let inputs: Vec<Fp> = inputs.collect();
    let trace = kind.trace(exec, instances, inputs.clone());
    let (groups, lanes) = (random.exts(groups), random.exts(lanes_log2));
    let mut weights = vec![[Ext::ZERO; LANES]; ROWS << units.places_log2];
    for place in &units.places {
        for h in 0..ROWS {
            // Some lanes of an output are unused.
            for lane in (0..kind.lanes()).filter(|lane| (lane + h) % 3 > 0) {
                weights[place * ROWS + h][lane] = random.ext();
            }
        }
    }
    let claim = OutputClaim {
        weights: RowWeights::Table(weights),
        groups,
        lanes,
        value: Ext::ZERO,
    };
    let mut case = Case {
        units,
        inputs,
        trace,
        claim,
    };
    case.claim.value = case.output_sum();
    case
}

impl Case {
    /// Σ weight·κ·eq·output, computed directly.
    fn output_sum(&self) -> Ext {
        let eq = eq_table(Ext::ONE, &self.claim.lanes);
        let outputs = &self.trace.states[9];
        let table = self.claim.weights.table(Ext::ZERO);
        let instances = self.trace.instances;
        let mut sum = Ext::ZERO;
        for block in 0..self.units.blocks() {
            let places = self.units.places.len();
            let kappa = self.claim.groups[block / places];
            for h in 0..ROWS {
                let weights = &table[self.units.places[block % places] * ROWS + h];
                let lanes = self.units.kind.lanes();
                for (i, weight) in weights[..lanes].iter().enumerate() {
                    for (x, eq) in eq.iter().enumerate() {
                        let at = ((block * ROWS + h) * lanes + i) * instances + x;
                        sum += *weight * kappa * *eq * outputs[at];
                    }
                }
            }
        }
        sum
    }

    /// A column at a point, computed directly, with the value `rest` for unused units.
    fn at(&self, values: &[Fp], count: usize, column: usize, rest: Fp, point: &Point<Ext>) -> Ext {
        let basis = lagrange(&Native::new(&[]), point.z);
        let high = eq_table(Ext::ONE, &point.high);
        let lanes = eq_table(Ext::ONE, &point.lanes);
        let mut unused = Ext::ONE;
        let mut sum = Ext::ZERO;
        for block in 0..self.units.blocks() {
            let weight = high[self.units.high(block)];
            unused -= weight;
            for (h, l) in basis.iter().enumerate() {
                for (x, eq) in lanes.iter().enumerate() {
                    let at = ((block * ROWS + h) * count + column) * lanes.len() + x;
                    sum += weight * *l * *eq * values[at];
                }
            }
        }
        sum + unused * rest
    }

    fn prove(&self, exec: Exec<'_>, lie: Option<Lie>) -> (Vec<Fp>, Leaves<Ext>) {
        let mut sender = Sender::new([Fp::ZERO; DIGEST]);
        sender.lies = lie.into_iter().collect();
        let leaves = prove(&mut sender, exec, &self.units, &self.trace, &self.claim).unwrap();
        (sender.finish(), leaves)
    }

    /// Whether a proof is accepted and its leaves are those of the trace.
    fn check(&self, proof: &[Fp]) -> Result<bool, VerifyError> {
        let mut channel = Channel::new(Native::new(proof), [Fp::ZERO; DIGEST]);
        let leaves = verify(&mut channel, &self.units, &self.claim)?;
        channel.arith.finish()?;
        let kind = self.units.kind;
        let (count, lanes) = (kind.cubes(), kind.lanes());
        let cube = |k: usize| {
            let rest = kind.permutation().rest.cubes[k];
            self.at(&self.trace.cubes, count, k, rest, &leaves.cubes_at)
        };
        let input = |i: usize| {
            let point = &leaves.inputs_at;
            self.at(&self.inputs, lanes, i, Fp::ZERO, point)
        };
        let cubes = (0..count).all(|k| leaves.cubes[k] == cube(k));
        Ok(cubes && (0..lanes).all(|i| leaves.inputs[i] == input(i)))
    }
}

#[test]
fn claims_on_outputs_become_claims_on_inputs_and_cubes() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    let sizes = [(0, 2), (1, 0), (1, 2), (2, 4), (3, 5)];
    for kind in KINDS {
        for (groups, lanes_log2) in sizes {
            let case = case(kind, groups, lanes_log2);
            let (expected, _) = case.prove(Exec::new(Backend::Portable, None), None);
            assert_eq!(expected.len(), 5 * sent(&case.units));
            for backend in KERNELS.available() {
                let (proof, leaves) = case.prove(Exec::new(backend, Some(&pool)), None);
                assert!(proof == expected, "{groups} groups, {backend}");
                assert_eq!(case.check(&proof), Ok(true), "{groups} groups, {backend}");
                assert_eq!(leaves.inputs.len(), kind.lanes());
            }
        }
    }
}

const KINDS: [Kind; 3] = [Kind::Narrow, Kind::Wide, Kind::Own];

/// The error of a round, numbered together with the partial ones.
fn refused(kind: Kind, round: usize) -> VerifyError {
    match kind {
        Kind::Narrow | Kind::Own => VerifyError::PoseidonLayer(round),
        Kind::Wide => VerifyError::WidePoseidonLayer(round),
    }
}

#[test]
fn a_wrong_output_sum_is_refused_at_the_last_round() {
    for (kind, last) in KINDS.into_iter().zip([27, 30, 27]) {
        let mut case = case(kind, 2, 2);
        case.claim.value += Ext::ONE;
        let (proof, _) = case.prove(Exec::new(Backend::Portable, None), None);
        assert_eq!(case.check(&proof), Err(refused(kind, last)));
    }
}

#[test]
fn wrong_messages_are_refused_by_the_layer_that_they_are_in() {
    for kind in KINDS {
        let (case, lanes) = (case(kind, 2, 2), kind.lanes());
        let exec = Exec::new(Backend::Portable, None);
        let (honest, _) = case.prove(exec, None);
        let full = 45 + 2 * 3 + 4 * 3 + lanes;
        let output = 60 + 2 * 3 + 4 * 4 + lanes;
        // The end of each layer, and its name.
        let last = kind.partial() + 7;
        let mut ends = vec![(output, last)];
        let partial = (full + kind.cubes(), 4);
        let above = [
            (full, last - 1),
            (full, last - 2),
            (full, last - 3),
            partial,
        ];
        for (elements, name) in above
            .into_iter()
            .chain([3, 2, 1, 0].map(|name| (full, name)))
        {
            ends.push((ends[ends.len() - 1].0 + elements, name));
        }
        for index in (0..honest.len()).step_by(83) {
            let lie = Lie {
                index,
                delta: Fp::new(3),
            };
            let (proof, _) = case.prove(exec, Some(lie));
            let (_, name) = ends.iter().find(|(end, _)| index < end * 5).unwrap();
            let said = case.check(&proof);
            assert_eq!(said, Err(refused(kind, *name)), "element {index}");
        }
    }
}

/// A permutation whose states, cubes or constants are wrong at some point, proved honestly from there on.
#[test]
fn a_wrong_trace_is_refused_whatever_is_wrong() {
    for kind in KINDS {
        let exec = Exec::new(Backend::Portable, None);
        let honest = case(kind, 2, 2);
        let mut random = Random::new(31);
        for k in 0..9 {
            let mut case = case(kind, 2, 2);
            let at = random.below(case.trace.states[k].len());
            case.trace.states[k][at] += Fp::ONE;
            let (proof, _) = case.prove(exec, None);
            assert_ne!(honest.check(&proof), Ok(true), "state {k}");
            assert_ne!(case.check(&proof), Ok(true), "state {k}");
        }
        for k in 0..kind.cubes() {
            let mut case = case(kind, 2, 2);
            let at = (random.below(64) * kind.cubes() + k) * 4 + random.below(4);
            case.trace.cubes[at] += Fp::ONE;
            let (proof, _) = case.prove(exec, None);
            // The committed cube is not the cube of the S-box input.
            assert_eq!(case.check(&proof), Err(refused(kind, 4)), "cube {k}");
        }
    }
}
