//! All states of many permutations of one width, as required by the proof.

use std::sync::LazyLock;

use alphorn_exec::{Backend, Exec};

use super::block::Block;
use super::{
    HALF_FULL, OWN, Poseidon2, Rounds, TABLES_16, TABLES_24, Tables, WIDTH_16, WIDTH_24, poseidon2,
};
use crate::field::Fp;
use crate::kernel::{Dispatch, Packed, Pass};

/// Full rounds.
const FULL_ROUNDS: usize = 2 * HALF_FULL;

/// Number of states that are kept, after the matrix with which a permutation begins: before the full rounds 0 to
/// 3, before the partial rounds, before the full rounds 4 to 7, and the last one.
pub(crate) const STATES: usize = FULL_ROUNDS + 2;

/// The permutations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Poseidon of sixteen lanes.
    Narrow,
    /// Poseidon of twenty-four lanes.
    Wide,
    /// Poseidon2 of sixteen lanes, the hash of the proofs themselves.
    Own,
}

impl Kind {
    /// Number of lanes of a state.
    pub(crate) const fn lanes(self) -> usize {
        match self {
            Kind::Narrow | Kind::Own => WIDTH_16,
            Kind::Wide => WIDTH_24,
        }
    }

    /// Partial rounds.
    pub(crate) const fn partial(self) -> usize {
        match self {
            Kind::Narrow | Kind::Own => super::PARTIAL_16,
            Kind::Wide => super::PARTIAL_24,
        }
    }

    /// Number of committed cubes of partial rounds: the last one is written out.
    pub(crate) const fn cubes(self) -> usize {
        self.partial() - 1
    }

    /// The data that the proof of the permutation needs.
    pub(crate) fn permutation(self) -> &'static Permutation {
        match self {
            Kind::Narrow => &NARROW,
            Kind::Wide => &WIDE,
            Kind::Own => &PROOFS,
        }
    }

    /// The trace of permutations whose inputs are `[block][row][lane of the state][instance]`.
    pub(crate) fn trace(self, exec: Exec<'_>, instances: usize, inputs: Vec<Fp>) -> Trace {
        let rows: Vec<&[Fp]> = inputs.chunks_exact(self.lanes() * instances).collect();
        let rows = exec.map(rows.len(), |row| {
            RowTrace::new(self, exec.backend(), instances, rows[row].to_vec())
        });
        Trace::of_rows(exec, &rows)
    }
}

/// The rounds of a permutation in the form needed by its proof.
pub(crate) struct Permutation {
    /// Constants of the eight full rounds.
    constants: Vec<Vec<Fp>>,
    /// The matrix of the full rounds, by rows.
    matrix: Vec<Vec<Fp>>,
    /// The inverse of the matrix before the first round, by rows, if there is one.
    pub(crate) enter_inverse: Option<Vec<Vec<Fp>>>,
    /// The partial rounds.
    pub(crate) forms: PartialForms,
    /// States, S-box inputs and cubes of the permutation of zeros, as in an unused permutation.
    pub(crate) rest: Trace,
}

/// The partial rounds as affine forms: see the module `block`.
pub(crate) struct PartialForms {
    /// a_k: the state's coefficients in the S-box input of round k.
    pub(crate) enters_state: Vec<Vec<Fp>>,
    /// b_k, of length k: those of the earlier cubes.
    pub(crate) enters_cubes: Vec<Vec<Fp>>,
    /// e_k.
    pub(crate) enters_constant: Vec<Fp>,
    /// A_j followed by B_j: the coefficients of the state and all cubes in the output of lane j.
    pub(crate) leaves: Vec<Vec<Fp>>,
    /// f_j.
    pub(crate) leaves_constant: Vec<Fp>,
}

static NARROW: LazyLock<Permutation> =
    LazyLock::new(|| Permutation::poseidon(&TABLES_16, Kind::Narrow));
static WIDE: LazyLock<Permutation> =
    LazyLock::new(|| Permutation::poseidon(&TABLES_24, Kind::Wide));
static PROOFS: LazyLock<Permutation> = LazyLock::new(Permutation::own);

impl PartialForms {
    fn new<const T: usize>(block: &Block<T>) -> PartialForms {
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
    }
}

impl Permutation {
    fn poseidon<const T: usize>(tables: &Tables<T>, kind: Kind) -> Permutation {
        let exec = Exec::new(Backend::Portable, None);
        let full = |round: usize| tables.full_constants(round).to_vec();
        let entry = |x: &u64| tables.entry(*x);
        Permutation {
            constants: (0..FULL_ROUNDS).map(full).collect(),
            matrix: tables
                .matrix
                .iter()
                .map(|row| row.iter().map(entry).collect())
                .collect(),
            enter_inverse: None,
            forms: PartialForms::new(&tables.block),
            rest: kind.trace(exec, 1, vec![Fp::ZERO; T]),
        }
    }

    fn own() -> Permutation {
        let exec = Exec::new(Backend::Portable, None);
        let (rounds, matrix): (&Poseidon2, _) = (&OWN, poseidon2::full_matrix());
        Permutation {
            constants: (0..FULL_ROUNDS)
                .map(|round| rounds.full_constants(round).to_vec())
                .collect(),
            matrix: matrix.iter().map(|row| row.to_vec()).collect(),
            enter_inverse: Some(inverse(&matrix)),
            forms: PartialForms::new(rounds.block()),
            // The matrix before the first round maps zeros to zeros.
            rest: Kind::Own.trace(exec, 1, vec![Fp::ZERO; WIDTH_16]),
        }
    }

    /// Constants and matrix of full round `round` (0 to 7).
    pub(crate) fn full_round(&self, round: usize) -> (&[Fp], &[Vec<Fp>]) {
        (&self.constants[round], &self.matrix)
    }
}

/// The inverse of an invertible matrix, by elimination.
fn inverse<const T: usize>(matrix: &[[Fp; T]; T]) -> Vec<Vec<Fp>> {
    let one = |i: usize, j: usize| if i == j { Fp::ONE } else { Fp::ZERO };
    let beside = |i: usize| matrix[i].into_iter().chain((0..T).map(move |j| one(i, j)));
    let mut rows: Vec<Vec<Fp>> = (0..T).map(|i| beside(i).collect()).collect();
    for k in 0..T {
        // There is always one: the only matrix inverted here is that of Poseidon2's full rounds.
        if let Some(pivot) = (k..T).find(|i| rows[*i][k] != Fp::ZERO) {
            rows.swap(k, pivot);
        }
        let scale = rows[k][k].inverse().unwrap_or_default();
        rows[k].iter_mut().for_each(|x| *x *= scale);
        let pivot = rows[k].clone();
        for (i, row) in rows.iter_mut().enumerate().filter(|(i, _)| *i != k) {
            let factor = row[k];
            debug_assert!(i < T);
            row.iter_mut()
                .zip(&pivot)
                .for_each(|(x, y)| *x -= factor * *y);
        }
    }
    rows.iter().map(|row| row[T..].to_vec()).collect()
}

/// States and cubes of permutations, in *blocks*: for each block, row and lane of the state there are as many
/// elements as a block has instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Number of instances in a block.
    pub(crate) instances: usize,
    /// Elements `[block][row][lane of the state][instance]`, for each kept state.
    pub(crate) states: Vec<Vec<Fp>>,
    /// Elements `[block][row][partial round][instance]`: each S-box input.
    pub(crate) enters: Vec<Fp>,
    /// Elements `[block][row][partial round but the last][instance]`: the cubes.
    pub(crate) cubes: Vec<Fp>,
}

/// The permutations of a row, one for each instance.
#[derive(Debug)]
pub(crate) struct RowTrace(Trace);

impl RowTrace {
    /// The permutations of inputs `[lane of the state][instance]`.
    pub(crate) fn new(kind: Kind, backend: Backend, instances: usize, inputs: Vec<Fp>) -> RowTrace {
        match kind {
            Kind::Narrow => RowTrace::by(&*TABLES_16, kind, backend, instances, inputs),
            Kind::Wide => RowTrace::by(&*TABLES_24, kind, backend, instances, inputs),
            Kind::Own => {
                let rounds: &Poseidon2 = &OWN;
                RowTrace::by(rounds, kind, backend, instances, inputs)
            }
        }
    }

    fn by<R: Rounds<T>, const T: usize>(
        rounds: &R,
        kind: Kind,
        backend: Backend,
        instances: usize,
        inputs: Vec<Fp>,
    ) -> RowTrace {
        let zeros = |lanes: usize| vec![Fp::ZERO; lanes * instances];
        let mut trace = Trace {
            instances,
            states: std::iter::once(inputs)
                .chain((1..STATES).map(|_| zeros(T)))
                .collect(),
            enters: zeros(kind.partial()),
            cubes: zeros(kind.cubes()),
        };
        let backend = backend.fitting(instances);
        backend.run(Row {
            rounds,
            kind,
            trace: &mut trace,
        });
        RowTrace(trace)
    }

    /// The inputs and outputs of the rounds, `[lane of the state][instance]`. The former is the permutation's
    /// input, except for the matrix with which a permutation may begin.
    pub(crate) fn ends(&self) -> [&[Fp]; 2] {
        [&self.0.states[0], &self.0.states[STATES - 1]]
    }
}

/// All states of the permutations of a row, given the first ones.
struct Row<'a, R, const T: usize> {
    rounds: &'a R,
    kind: Kind,
    trace: &'a mut Trace,
}

impl<R: Rounds<T>, const T: usize> Pass for Row<'_, R, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        let Trace {
            instances: n,
            states,
            enters: entered,
            cubes: cubed,
        } = self.trace;
        let n = *n;
        let (partial, cubes) = (self.kind.partial(), self.kind.cubes());
        for x in (0..n).step_by(V::LANES) {
            let mut state = [V::splat(Fp::ZERO); T];
            for (i, lane) in state.iter_mut().enumerate() {
                *lane = V::load(&states[0][i * n + x..]);
            }
            // The matrix before the first round, if there is one: the first states come after it.
            // The proof's layers end before the first full round, so that is the first state kept. Its verifier
            // goes back to the input by the inverse.
            self.rounds.enter(&mut state);
            for (i, lane) in state.iter().enumerate() {
                lane.store(&mut states[0][i * n + x..]);
            }
            for k in 0..STATES - 1 {
                if k == HALF_FULL {
                    let [enters] = self.rounds.partial_rounds(std::array::from_mut(&mut state));
                    for (l, enter) in enters[..partial].iter().enumerate() {
                        enter.store(&mut entered[l * n + x..]);
                        if l < cubes {
                            enter.cube().store(&mut cubed[l * n + x..]);
                        }
                    }
                } else {
                    let round = k - usize::from(k > HALF_FULL);
                    self.rounds.full_round(round, &mut state);
                }
                for (i, lane) in state.iter().enumerate() {
                    lane.store(&mut states[k + 1][i * n + x..]);
                }
            }
        }
    }
}

impl Trace {
    /// The states in order, then the S-box inputs, then the cubes.
    fn part(&self, part: usize) -> &[Fp] {
        match self.states.get(part) {
            Some(state) => state,
            None if part == self.states.len() => &self.enters,
            None => &self.cubes,
        }
    }

    /// Rows one after the other, block by block.
    pub(crate) fn of_rows(exec: Exec<'_>, rows: &[RowTrace]) -> Trace {
        let mut states = exec.map(STATES + 2, |part| {
            let parts: Vec<&[Fp]> = rows.iter().map(|row| row.0.part(part)).collect();
            parts.concat()
        });
        let (cubes, enters) = (states.pop(), states.pop());
        Trace {
            instances: rows.first().map_or(0, |row| row.0.instances),
            states,
            enters: enters.unwrap_or_default(),
            cubes: cubes.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poseidon::Permutations;
    use crate::poseidon::kernels::KERNELS;
    use crate::test_random::Random;

    fn permuted(kind: Kind, state: &[Fp]) -> Vec<Fp> {
        let portable = Backend::Portable;
        match kind {
            Kind::Narrow => {
                let mut state = [std::array::from_fn(|i| state[i])];
                portable.permute_16(&mut state);
                state[0].to_vec()
            }
            Kind::Wide => {
                let mut state = [std::array::from_fn(|i| state[i])];
                portable.permute_24(&mut state);
                state[0].to_vec()
            }
            Kind::Own => {
                let mut state = [std::array::from_fn(|i| state[i])];
                let input = state[0];
                portable.compress_own(&mut state);
                let terms = state[0].iter().zip(&input);
                terms.map(|(x, y)| *x - *y).collect()
            }
        }
    }

    #[test]
    fn the_last_state_is_the_permutation_and_the_forms_hold() {
        let mut random = Random::new(2);
        for kind in [Kind::Narrow, Kind::Wide, Kind::Own] {
            let lanes = kind.lanes();
            let inputs: Vec<Fp> = (0..2 * lanes * 16).map(|_| random.fp()).collect();
            for backend in KERNELS.available() {
                let trace = kind.trace(Exec::new(backend, None), 16, inputs.clone());
                for (row, x) in (0..2).flat_map(|row| (0..16).map(move |x| (row, x))) {
                    check(kind, &trace, &inputs, row, x);
                }
            }
            assert_eq!(kind.permutation().rest.states.len(), STATES);
            assert_eq!(kind.permutation().rest.cubes.len(), kind.cubes());
        }
    }

    fn check(kind: Kind, trace: &Trace, inputs: &[Fp], row: usize, x: usize) {
        let lanes = kind.lanes();
        let at = |k: usize, i: usize| trace.states[k][(row * lanes + i) * 16 + x];
        let state = |k: usize| (0..lanes).map(|i| at(k, i)).collect::<Vec<_>>();
        let input: Vec<Fp> = (0..lanes)
            .map(|i| inputs[(row * lanes + i) * 16 + x])
            .collect();
        assert_eq!(permuted(kind, &input), state(STATES - 1));
        let inverse = &kind.permutation().enter_inverse;
        let entered = state(0);
        let from_state = |rows: &Vec<Vec<Fp>>| -> Vec<Fp> {
            let dot = |row: &Vec<Fp>| row.iter().zip(&entered).map(|(a, b)| *a * *b).sum();
            rows.iter().map(dot).collect()
        };
        let back = inverse.as_ref().map_or(entered.clone(), from_state);
        assert_eq!(back, input);
        let enter = |k: usize| trace.enters[(row * kind.partial() + k) * 16 + x];
        let forms = &kind.permutation().forms;
        let cube = |x: Fp| x * x * x;
        for k in 0..kind.partial() {
            let a = &forms.enters_state[k];
            let b = &forms.enters_cubes[k];
            let by_state: Fp = (0..lanes).map(|i| a[i] * at(HALF_FULL, i)).sum();
            let by_cubes: Fp = (0..k).map(|l| b[l] * cube(enter(l))).sum();
            assert_eq!(enter(k), by_state + by_cubes + forms.enters_constant[k]);
            if k < kind.cubes() {
                let committed = trace.cubes[(row * kind.cubes() + k) * 16 + x];
                assert_eq!(committed, cube(enter(k)));
            }
        }
        let (constants, matrix) = kind.permutation().full_round(7);
        let term = |j: usize| matrix[3][j] * cube(at(STATES - 2, j) + constants[j]);
        let last: Fp = (0..lanes).map(term).sum();
        assert_eq!(last, at(STATES - 1, 3));
    }
}
