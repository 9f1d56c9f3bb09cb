//! All states of many permutations of one width, as the proof of them needs.

use std::sync::LazyLock;

use alphorn_exec::{Backend, Exec};

use super::{HALF_FULL, TABLES_16, TABLES_24, Tables, WIDTH_16, WIDTH_24};
use crate::field::Fp;
use crate::kernel::{Dispatch, Packed, Pass};

/// Full rounds.
const FULL_ROUNDS: usize = 2 * HALF_FULL;

/// States that are kept: before the full rounds 0 to 3, before the partial rounds, before the
/// full rounds 4 to 7, and the last one.
pub(crate) const STATES: usize = FULL_ROUNDS + 2;

/// The two permutations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Sixteen lanes.
    Narrow,
    /// Twenty-four lanes.
    Wide,
}

impl Width {
    /// Lanes of a state.
    pub(crate) const fn lanes(self) -> usize {
        match self {
            Width::Narrow => WIDTH_16,
            Width::Wide => WIDTH_24,
        }
    }

    /// Partial rounds.
    pub(crate) const fn partial(self) -> usize {
        match self {
            Width::Narrow => super::PARTIAL_16,
            Width::Wide => super::PARTIAL_24,
        }
    }

    /// Cubes of partial rounds that are committed: the last one is written out.
    pub(crate) const fn cubes(self) -> usize {
        self.partial() - 1
    }

    /// What the proof of the permutation needs.
    pub(crate) fn permutation(self) -> &'static Permutation {
        match self {
            Width::Narrow => &NARROW,
            Width::Wide => &WIDE,
        }
    }

    /// The trace of permutations whose inputs are `[block][row][lane of the state][instance]`.
    pub(crate) fn trace(self, exec: Exec<'_>, instances: usize, inputs: Vec<Fp>) -> Trace {
        match self {
            Width::Narrow => trace(&TABLES_16, self, exec, instances, inputs),
            Width::Wide => trace(&TABLES_24, self, exec, instances, inputs),
        }
    }
}

/// The rounds of a permutation as the proof of it needs them.
pub(crate) struct Permutation {
    /// Constants of the eight full rounds.
    constants: Vec<Vec<Fp>>,
    /// The matrix, by rows.
    matrix: Vec<Vec<Fp>>,
    /// The partial rounds.
    pub(crate) forms: PartialForms,
    /// States, S-box inputs and cubes of the permutation of zeros: what an unused permutation has.
    pub(crate) rest: Trace,
}

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

static NARROW: LazyLock<Permutation> =
    LazyLock::new(|| Permutation::new(&TABLES_16, Width::Narrow));
static WIDE: LazyLock<Permutation> = LazyLock::new(|| Permutation::new(&TABLES_24, Width::Wide));

impl PartialForms {
    fn new<const T: usize>(tables: &Tables<T>) -> PartialForms {
        let mut forms = PartialForms {
            enters_state: Vec::new(),
            enters_cubes: Vec::new(),
            enters_constant: Vec::new(),
            leaves: Vec::new(),
            leaves_constant: Vec::new(),
        };
        for (a, b, e) in tables.block.enters() {
            forms.enters_state.push(a);
            forms.enters_cubes.push(b);
            forms.enters_constant.push(e);
        }
        for (row, f) in tables.block.leaves() {
            forms.leaves.push(row);
            forms.leaves_constant.push(f);
        }
        forms
    }
}

impl Permutation {
    fn new<const T: usize>(tables: &Tables<T>, width: Width) -> Permutation {
        let exec = Exec::new(Backend::Portable, None);
        let full = |round: usize| tables.constants[tables.full_index(round)].to_vec();
        let entry = |x: &u64| tables.entry(*x);
        Permutation {
            constants: (0..FULL_ROUNDS).map(full).collect(),
            matrix: tables
                .matrix
                .iter()
                .map(|row| row.iter().map(entry).collect())
                .collect(),
            forms: PartialForms::new(tables),
            rest: trace(tables, width, exec, 1, vec![Fp::ZERO; T]),
        }
    }

    /// Constants and matrix of full round `round` (0 to 7).
    pub(crate) fn full_round(&self, round: usize) -> (&[Fp], &[Vec<Fp>]) {
        (&self.constants[round], &self.matrix)
    }
}

impl<const T: usize> Tables<T> {
    /// The round of all that full round `round` (0 to 7) is.
    fn full_index(&self, round: usize) -> usize {
        match round < HALF_FULL {
            true => round,
            false => round + self.constants.len() - FULL_ROUNDS,
        }
    }
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
struct Row<'a, const T: usize> {
    tables: &'a Tables<T>,
    width: Width,
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

impl<const T: usize> Pass for Row<'_, T> {
    type Output = RowTrace;

    #[inline(always)]
    fn run<V: Packed>(self) -> RowTrace {
        let n = self.instances;
        let (partial, cubes) = (self.width.partial(), self.width.cubes());
        let mut out = RowTrace {
            states: vec![vec![Fp::ZERO; T * n]; STATES - 1],
            enters: vec![Fp::ZERO; partial * n],
            cubes: vec![Fp::ZERO; cubes * n],
        };
        for x in (0..n).step_by(V::LANES) {
            let mut state = [V::splat(Fp::ZERO); T];
            for (i, lane) in state.iter_mut().enumerate() {
                *lane = V::load(&self.input[i * n + x..]);
            }
            for k in 0..STATES - 1 {
                if k == HALF_FULL {
                    let [enters] = self.tables.block.apply(std::array::from_mut(&mut state));
                    for (l, enter) in enters[..partial].iter().enumerate() {
                        enter.store(&mut out.enters[l * n + x..]);
                        if l < cubes {
                            enter.cube().store(&mut out.cubes[l * n + x..]);
                        }
                    }
                } else {
                    let index = self.tables.full_index(k - usize::from(k > HALF_FULL));
                    let constants = &self.tables.constants[index];
                    self.tables.full_round(&mut state, constants);
                }
                for (i, lane) in state.iter().enumerate() {
                    lane.store(&mut out.states[k][i * n + x..]);
                }
            }
        }
        out
    }
}

fn trace<const T: usize>(
    tables: &Tables<T>,
    width: Width,
    exec: Exec<'_>,
    instances: usize,
    inputs: Vec<Fp>,
) -> Trace {
    let size = T * instances;
    let backend = exec.backend().fitting(instances);
    let rows = exec.map(inputs.len() / size, |row| {
        backend.run(Row {
            tables,
            width,
            instances,
            input: &inputs[row * size..][..size],
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KERNELS;
    use crate::poseidon::Permutations;
    use crate::test_random::Random;

    fn permuted(width: Width, state: &[Fp]) -> Vec<Fp> {
        let portable = Backend::Portable;
        match width {
            Width::Narrow => {
                let mut state = [std::array::from_fn(|i| state[i])];
                portable.permute_16(&mut state);
                state[0].to_vec()
            }
            Width::Wide => {
                let mut state = [std::array::from_fn(|i| state[i])];
                portable.permute_24(&mut state);
                state[0].to_vec()
            }
        }
    }

    #[test]
    fn the_last_state_is_the_permutation_and_the_forms_hold() {
        let mut random = Random::new(2);
        for width in [Width::Narrow, Width::Wide] {
            let lanes = width.lanes();
            let inputs: Vec<Fp> = (0..2 * lanes * 16).map(|_| random.fp()).collect();
            for backend in KERNELS.available() {
                let trace = width.trace(Exec::new(backend, None), 16, inputs.clone());
                for (row, x) in (0..2).flat_map(|row| (0..16).map(move |x| (row, x))) {
                    check(width, &trace, row, x);
                }
            }
            assert_eq!(width.permutation().rest.states.len(), STATES);
            assert_eq!(width.permutation().rest.cubes.len(), width.cubes());
        }
    }

    fn check(width: Width, trace: &Trace, row: usize, x: usize) {
        let lanes = width.lanes();
        let at = |k: usize, i: usize| trace.states[k][(row * lanes + i) * 16 + x];
        let state = |k: usize| (0..lanes).map(|i| at(k, i)).collect::<Vec<_>>();
        assert_eq!(permuted(width, &state(0)), state(STATES - 1));
        let enter = |k: usize| trace.enters[(row * width.partial() + k) * 16 + x];
        let forms = &width.permutation().forms;
        let cube = |x: Fp| x * x * x;
        for k in 0..width.partial() {
            let a = &forms.enters_state[k];
            let b = &forms.enters_cubes[k];
            let by_state: Fp = (0..lanes).map(|i| a[i] * at(HALF_FULL, i)).sum();
            let by_cubes: Fp = (0..k).map(|l| b[l] * cube(enter(l))).sum();
            assert_eq!(enter(k), by_state + by_cubes + forms.enters_constant[k]);
            if k < width.cubes() {
                let committed = trace.cubes[(row * width.cubes() + k) * 16 + x];
                assert_eq!(committed, cube(enter(k)));
            }
        }
        let (constants, matrix) = width.permutation().full_round(7);
        let term = |j: usize| matrix[3][j] * cube(at(STATES - 2, j) + constants[j]);
        let last: Fp = (0..lanes).map(term).sum();
        assert_eq!(last, at(STATES - 1, 3));
    }
}
