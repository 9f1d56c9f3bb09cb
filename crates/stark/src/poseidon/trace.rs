//! All states of many permutations of width 16, as the proof of them needs.

use std::sync::LazyLock;

use super::{HALF_FULL, TABLES_16, Tables, WIDTH_16};
use crate::exec::Exec;
use crate::field::Fp;
use crate::kernel::{Packed, Pass};

/// Partial rounds of width 16.
pub(crate) const PARTIAL_ROUNDS: usize = 20;

/// Cubes of partial rounds that are committed: the last one is written out.
pub(crate) const CUBES: usize = PARTIAL_ROUNDS - 1;

/// Full rounds.
pub(crate) const FULL_ROUNDS: usize = 2 * HALF_FULL;

/// States that are kept: before the full rounds 0 to 3, before the partial rounds, before the
/// full rounds 4 to 7, and the last one.
pub(crate) const STATES: usize = FULL_ROUNDS + 2;

/// The partial rounds as affine forms: see the module `block`.
pub(crate) struct PartialForms {
    /// a_k: what enters the S-box of round k, by the state.
    pub(crate) enters_state: Vec<Vec<Fp>>,
    /// b_k, of length k: the same by the cubes before.
    pub(crate) enters_cubes: Vec<Vec<Fp>>,
    /// e_k.
    pub(crate) enters_constant: Vec<Fp>,
    /// A_j followed by B_j: what leaves in lane j by the state and all cubes.
    pub(crate) leaves: Vec<Vec<Fp>>,
    /// f_j.
    pub(crate) leaves_constant: Vec<Fp>,
}

static FORMS_16: LazyLock<PartialForms> = LazyLock::new(|| {
    let block = &TABLES_16.block;
    let mut forms = PartialForms {
        enters_state: Vec::new(),
        enters_cubes: Vec::new(),
        enters_constant: Vec::new(),
        leaves: Vec::new(),
        leaves_constant: Vec::new(),
    };
    for (a, b, e) in block.enters() {
        forms.enters_state.push(a);
        forms.enters_cubes.push(b);
        forms.enters_constant.push(e);
    }
    for (row, f) in block.leaves() {
        forms.leaves.push(row);
        forms.leaves_constant.push(f);
    }
    forms
});

/// The affine forms of width 16.
pub(crate) fn forms_16() -> &'static PartialForms {
    &FORMS_16
}

/// Constants and matrix of full round `round` (0 to 7) of width 16.
pub(crate) fn full_round_16(round: usize) -> ([Fp; WIDTH_16], [[Fp; WIDTH_16]; WIDTH_16]) {
    let index = match round < HALF_FULL {
        true => round,
        false => round + PARTIAL_ROUNDS,
    };
    let matrix = TABLES_16.matrix.map(|row| row.map(|x| Fp::new(x as u32)));
    (TABLES_16.constants[index], matrix)
}

/// States and cubes of permutations, in *blocks*: for each block, row and lane of the state
/// there are as many elements as a block has instances.
#[derive(Clone)]
pub(crate) struct Trace {
    /// Instances of a block.
    pub(crate) instances: usize,
    /// Elements `[block][row][lane of the state][instance]`, for each kept state.
    pub(crate) states: Vec<Vec<Fp>>,
    /// Elements `[block][row][partial round][instance]`: what enters each S-box.
    pub(crate) enters: Vec<Fp>,
    /// Elements `[block][row][partial round but the last][instance]`: the cubes.
    pub(crate) cubes: Vec<Fp>,
}

/// All states of the permutations of one row of a block.
struct Row<'a> {
    tables: &'a Tables<WIDTH_16>,
    instances: usize,
    input: &'a [Fp],
}

/// What a row gives: its states after the input, what enters the S-boxes, the cubes.
struct RowTrace {
    states: Vec<Vec<Fp>>,
    enters: Vec<Fp>,
    cubes: Vec<Fp>,
}

impl RowTrace {
    /// The states in order, then what enters the S-boxes, then the cubes.
    fn part(&self, part: usize) -> &[Fp] {
        match self.states.get(part) {
            Some(state) => state,
            None if part == self.states.len() => &self.enters,
            None => &self.cubes,
        }
    }
}

impl Pass for Row<'_> {
    type Output = RowTrace;

    #[inline(always)]
    fn run<V: Packed>(self) -> RowTrace {
        let n = self.instances;
        let mut out = RowTrace {
            states: vec![vec![Fp::ZERO; WIDTH_16 * n]; STATES - 1],
            enters: vec![Fp::ZERO; PARTIAL_ROUNDS * n],
            cubes: vec![Fp::ZERO; CUBES * n],
        };
        for x in (0..n).step_by(V::LANES) {
            let mut state = [V::splat(Fp::ZERO); WIDTH_16];
            for (i, lane) in state.iter_mut().enumerate() {
                *lane = V::load(&self.input[i * n + x..]);
            }
            for k in 0..STATES - 1 {
                if k == HALF_FULL {
                    let [enters] = self.tables.block.apply(std::array::from_mut(&mut state));
                    for (l, enter) in enters[..PARTIAL_ROUNDS].iter().enumerate() {
                        enter.store(&mut out.enters[l * n + x..]);
                        if l < CUBES {
                            enter.cube().store(&mut out.cubes[l * n + x..]);
                        }
                    }
                } else {
                    let round = k - usize::from(k > HALF_FULL);
                    let index = round + if round < HALF_FULL { 0 } else { PARTIAL_ROUNDS };
                    self.tables
                        .full_round(&mut state, &self.tables.constants[index]);
                }
                for (i, lane) in state.iter().enumerate() {
                    lane.store(&mut out.states[k][i * n + x..]);
                }
            }
        }
        out
    }
}

/// The trace of permutations whose inputs are `[block][row][lane of the state][instance]`.
pub(crate) fn trace_16(exec: Exec<'_>, instances: usize, inputs: Vec<Fp>) -> Trace {
    let width = WIDTH_16 * instances;
    let backend = exec.backend_for(instances);
    let rows = exec.map(inputs.len() / width, |row| {
        backend.run(Row {
            tables: &TABLES_16,
            instances,
            input: &inputs[row * width..][..width],
        })
    });
    let mut joined = exec.map(STATES + 1, |part| {
        let parts: Vec<&[Fp]> = rows.iter().map(|row| row.part(part)).collect();
        parts.concat()
    });
    let (cubes, enters) = (joined.pop(), joined.pop());
    joined.insert(0, inputs);
    Trace {
        instances,
        enters: enters.unwrap_or_default(),
        cubes: cubes.unwrap_or_default(),
        states: joined,
    }
}

/// States, S-box inputs and cubes of the permutation of zeros: what an unused permutation has.
pub(crate) fn rest_16() -> &'static Trace {
    static REST: LazyLock<Trace> = LazyLock::new(|| {
        let exec = Exec::new(crate::kernel::Backend::portable(), None);
        trace_16(exec, 1, vec![Fp::ZERO; WIDTH_16])
    });
    &REST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Backend;
    use crate::test_random::Random;

    #[test]
    fn the_last_state_is_the_permutation_and_the_forms_hold() {
        let mut random = Random::new(2);
        let inputs: Vec<Fp> = (0..2 * WIDTH_16 * 16).map(|_| random.fp()).collect();
        for backend in Backend::available() {
            let trace = trace_16(Exec::new(backend, None), 16, inputs.clone());
            for row in 0..2 {
                for x in 0..16 {
                    let at = |k: usize, i: usize| trace.states[k][(row * 16 + i) * 16 + x];
                    let mut state = [std::array::from_fn(|i| at(0, i))];
                    Backend::portable().permute_16(&mut state);
                    assert_eq!(state[0], std::array::from_fn(|i| at(STATES - 1, i)));
                    let enter = |k: usize| trace.enters[(row * PARTIAL_ROUNDS + k) * 16 + x];
                    let forms = forms_16();
                    for k in 0..PARTIAL_ROUNDS {
                        let a = &forms.enters_state[k];
                        let b = &forms.enters_cubes[k];
                        let by_state: Fp = (0..16).map(|i| a[i] * at(HALF_FULL, i)).sum();
                        let cube = |x: Fp| x * x * x;
                        let by_cubes: Fp = (0..k).map(|l| b[l] * cube(enter(l))).sum();
                        assert_eq!(enter(k), by_state + by_cubes + forms.enters_constant[k]);
                        if k < CUBES {
                            let committed = trace.cubes[(row * CUBES + k) * 16 + x];
                            assert_eq!(committed, cube(enter(k)));
                        }
                    }
                    let (constants, matrix) = full_round_16(7);
                    let last: Fp = (0..16)
                        .map(|j| {
                            let x = at(STATES - 2, j) + constants[j];
                            matrix[3][j] * x * x * x
                        })
                        .sum();
                    assert_eq!(last, at(STATES - 1, 3));
                }
            }
        }
        assert_eq!(rest_16().states.len(), STATES);
    }
}
