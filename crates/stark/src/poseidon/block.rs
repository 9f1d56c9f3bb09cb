//! The partial rounds as one block of affine forms.
//!
//! Let s be the state before the block and u_k the cube of partial round k. Then
//!
//! - the input of the S-box of round k is a_k·s + Σ_{l<k} b_kl·u_l + e_k,
//! - the output of the block in lane j is A_j·s + B_j·u + f_j.
//!
//! The coefficients are found by running the rounds on affine forms, where each cube is a new unknown. Compared
//! with running the rounds on elements, most products are only added up, and reduced once per form.

use crate::field::Fp;
use crate::kernel::{DOT_MAX, Packed};

/// Number of rows that one sum of products computes at a time.
pub(super) const ROWS: usize = 4;

/// Maximum number of partial rounds, padded to a multiple of [`ROWS`].
pub(super) const PARTIAL_MAX: usize = 24;

/// Rows of words in Montgomery form, and a constant for each.
struct Forms {
    rows: Vec<Vec<u64>>,
    constants: Vec<Fp>,
}

/// The block of all partial rounds.
pub(super) struct Block<const T: usize> {
    /// a_k and e_k for each partial round, and null forms up to a multiple of [`ROWS`].
    enters: Forms,
    /// b_k, of length k.
    cubes: Vec<Vec<u64>>,
    /// A_j followed by B_j, and f_j, for each lane.
    leaves: Forms,
}

/// An affine form: coefficients of s, of u, and a constant.
#[derive(Clone)]
struct Affine(Vec<Fp>);

impl Affine {
    fn add_scaled(&mut self, other: &Affine, factor: Fp) {
        for (x, y) in self.0.iter_mut().zip(&other.0) {
            *x += *y * factor;
        }
    }
}

fn words(elements: &[Fp]) -> Vec<u64> {
    elements.iter().map(|x| u64::from(x.word())).collect()
}

fn elements(words: &[u64]) -> Vec<Fp> {
    words.iter().map(|w| Fp::from_word(*w as u32)).collect()
}

impl<const T: usize> Block<T> {
    /// The block for a matrix and the constants of the partial rounds.
    pub(super) fn new(matrix: &[[Fp; T]; T], rounds: &[[Fp; T]]) -> Block<T> {
        let size = T + rounds.len() + 1;
        let unknown = |i: usize| {
            let mut form = vec![Fp::ZERO; size];
            form[i] = Fp::ONE;
            Affine(form)
        };
        let mut state: Vec<Affine> = (0..T).map(unknown).collect();
        let mut block = Block {
            enters: Forms {
                rows: Vec::new(),
                constants: Vec::new(),
            },
            cubes: Vec::new(),
            leaves: Forms {
                rows: Vec::new(),
                constants: Vec::new(),
            },
        };
        for (k, constants) in rounds.iter().enumerate() {
            for (form, constant) in state.iter_mut().zip(constants) {
                form.0[size - 1] += *constant;
            }
            let enters = &state[0].0;
            block.enters.rows.push(words(&enters[..T]));
            block.enters.constants.push(enters[size - 1]);
            block.cubes.push(words(&enters[T..T + k]));
            // Taken as a new unknown, the cube leaves all forms affine.
            state[0] = unknown(T + k);
            let row = |i: usize| {
                let mut sum = Affine(vec![Fp::ZERO; size]);
                (0..T).for_each(|j| sum.add_scaled(&state[j], matrix[i][j]));
                sum
            };
            state = (0..T).map(row).collect();
        }
        for form in &state {
            block.leaves.rows.push(words(&form.0[..size - 1]));
            block.leaves.constants.push(form.0[size - 1]);
        }
        let padded = rounds.len().next_multiple_of(ROWS);
        assert!(padded <= PARTIAL_MAX, "{padded} partial rounds");
        // Forms are evaluated four at a time; what null forms give is not read.
        block.enters.rows.resize(padded, vec![0; T]);
        block.enters.constants.resize(padded, Fp::ZERO);
        block
    }

    /// a_k, b_k and e_k of the S-box input in each partial round.
    pub(super) fn enters(&self) -> impl Iterator<Item = (Vec<Fp>, Vec<Fp>, Fp)> {
        let forms = self.enters.rows.iter().zip(&self.enters.constants);
        forms
            .zip(&self.cubes)
            .map(|((a, e), b)| (elements(a), elements(b), *e))
    }

    /// A_j followed by B_j, and f_j, for each lane.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (Vec<Fp>, Fp)> {
        let forms = self.leaves.rows.iter().zip(&self.leaves.constants);
        forms.map(|(row, f)| (elements(row), *f))
    }

    /// Applies all partial rounds to `N` vectors of states; returns the S-box input of each. Each S-box waits for
    /// the previous one; with two vectors one computes while the other waits.
    #[inline(always)]
    pub(super) fn apply<V: Packed, const N: usize>(
        &self,
        states: &mut [[V; T]; N],
    ) -> [[V; PARTIAL_MAX]; N] {
        let zero = V::splat(Fp::ZERO);
        let mut known = [[zero.split(); DOT_MAX]; N];
        let mut enters = [[zero; PARTIAL_MAX]; N];
        for n in 0..N {
            for i in 0..T {
                known[n][i] = states[n][i].split();
            }
            // What the state adds to all inputs does not wait for any cube, so it comes first, four forms at a
            // time.
            self.enters.evaluate(&known[n][..T], &mut enters[n]);
        }
        for (k, row) in self.cubes.iter().enumerate() {
            for n in 0..N {
                let [sum] = V::dot(&known[n][T..T + k], [row]);
                enters[n][k] = enters[n][k].add(sum);
                known[n][T + k] = enters[n][k].cube().split();
            }
        }
        for n in 0..N {
            self.leaves
                .evaluate(&known[n][..T + self.cubes.len()], &mut states[n]);
        }
        enters
    }
}

impl Forms {
    /// The values of all forms.
    #[inline(always)]
    fn evaluate<V: Packed>(&self, unknowns: &[V::Split], out: &mut [V]) {
        // Plain loops: iterator adapters over vectors become calls of functions that lack the instruction set.
        let n = unknowns.len();
        for start in (0..self.rows.len()).step_by(ROWS) {
            let rows = &self.rows[start..start + ROWS];
            let sums = V::dot(
                unknowns,
                [&rows[0][..n], &rows[1][..n], &rows[2][..n], &rows[3][..n]],
            );
            for m in 0..ROWS {
                out[start + m] = sums[m].add(V::splat(self.constants[start + m]));
            }
        }
    }
}
