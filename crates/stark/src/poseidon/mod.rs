//! Poseidon of widths 16 and 24 and Poseidon2 of width 16 over KoalaBear.
//!
//! Four full rounds, R_P partial ones, four full ones. A round adds its constants, cubes all lanes (full) or lane
//! 0 (partial) and multiplies by a matrix. Poseidon (ePrint 2019/458; the instances that Plonky3 and the lean
//! consensus specification call Poseidon1) has one circulant matrix, and is the hash of signatures. Poseidon2 (the
//! module `poseidon2`) has two cheaper matrices, and is the hash of the proofs themselves. This choice is made
//! only in the static `OWN` and in `Kind::Own`.
//!
//! Full rounds are computed as written. The partial rounds of Poseidon are one block: every S-box input there, and
//! every output of the block, is affine in the state before it and the cubes u_0, u_1, … inside it, so the block
//! is R_P cubes and a few sums of products (the `block` module). The plain rounds are the oracle of the tests.

mod block;
mod grain;
pub(crate) mod kernels;
mod poseidon2;
mod single;
mod trace;

use std::sync::LazyLock;

use crate::field::Fp;
use crate::kernel::{Circulant, DOT_MAX, Dispatch, MIXED, Packed, Pass, SMALL_SUM_MAX};

use alphorn_exec::Backend;
use block::{Block, PARTIAL_MAX, ROWS};
use poseidon2::Poseidon2;
use single::Single;
pub(crate) use trace::{Kind, Permutation, RowTrace, STATES, Trace};

/// Number of lanes of the narrow permutation.
pub(crate) const WIDTH_16: usize = 16;
/// Number of lanes of the wide permutation.
pub(crate) const WIDTH_24: usize = 24;

/// Partial rounds of width 16.
const PARTIAL_16: usize = 20;
/// Partial rounds of width 24.
const PARTIAL_24: usize = 23;

/// Full rounds before the partial ones, and again after them.
const HALF_FULL: usize = 4;

/// First row of the circulant matrix of width 16.
const ROW_16: [u32; WIDTH_16] = [1, 1, 51, 1, 11, 17, 2, 1, 101, 63, 15, 2, 67, 22, 13, 3];

/// First row of the circulant matrix of width 24.
const ROW_24: [u32; WIDTH_24] = [
    0x2d0a_aaab,
    0x6485_0517,
    0x17f5_551d,
    0x04ec_beb5,
    0x6d91_a8d5,
    0x6070_3026,
    0x18d6_f3ca,
    0x7296_01a7,
    0x77cd_a9e2,
    0x3c0f_5038,
    0x26d5_2a61,
    0x0360_405d,
    0x68fc_71c8,
    0x2495_a71d,
    0x5d57_afc2,
    0x1689_dd98,
    0x3c2c_3dbe,
    0x0c23_dc41,
    0x0524_c7f2,
    0x6be4_df69,
    0x0a6e_572c,
    0x5c77_90fa,
    0x17e1_18f6,
    0x0878_a07f,
];

/// The rounds of a permutation, on vectors of states.
trait Rounds<const T: usize>: Sync {
    /// Applies the matrix before the first round to a state.
    fn enter<V: Packed>(&self, state: &mut [V; T]);

    /// Applies full round `round`, 0 to 7.
    fn full_round<V: Packed>(&self, round: usize, state: &mut [V; T]);

    /// Applies all partial rounds; returns the S-box input of each.
    fn partial_rounds<V: Packed, const N: usize>(
        &self,
        states: &mut [[V; T]; N],
    ) -> [[V; PARTIAL_MAX]; N];

    /// Permutes one state.
    fn permute_one<V: Packed>(&self, state: &mut [Fp; T]);

    /// The permutation.
    #[inline(always)]
    fn permute<V: Packed, const N: usize>(&self, states: &mut [[V; T]; N]) {
        for state in states.iter_mut() {
            self.enter(state);
            for round in 0..HALF_FULL {
                self.full_round(round, state);
            }
        }
        self.partial_rounds(states);
        for state in states.iter_mut() {
            for round in HALF_FULL..2 * HALF_FULL {
                self.full_round(round, state);
            }
        }
    }
}

/// The precomputed tables of one width of Poseidon.
pub(crate) struct Tables<const T: usize> {
    /// Constants of each round.
    constants: Vec<[Fp; T]>,
    /// The matrix: plain integers if they are small, otherwise words in Montgomery form.
    matrix: [[u64; T]; T],
    /// The matrix if it is small.
    circulant: Option<Circulant>,
    /// All partial rounds.
    block: Block<T>,
    /// The same for one state.
    single: Single<T>,
}

impl<const T: usize> Tables<T> {
    fn new(row: [u32; T], partial: usize) -> Tables<T> {
        let constants = grain::round_constants::<T>(2 * HALF_FULL, partial);
        let small = row.iter().map(|x| u64::from(*x)).sum::<u64>() <= SMALL_SUM_MAX;
        let entry = |i: usize, j: usize| row[(T + j - i) % T];
        // Plain integers leave the Montgomery form alone, and their sums stay below 2^40, for one reduction. Large
        // entries are elements, whose sums of products need two.
        let matrix = std::array::from_fn(|i| {
            std::array::from_fn(|j| match small {
                true => u64::from(entry(i, j)),
                false => u64::from(Fp::new(entry(i, j)).word()),
            })
        });
        let elements = std::array::from_fn(|i| std::array::from_fn(|j| Fp::new(entry(i, j))));
        let rounds = &constants[HALF_FULL..HALF_FULL + partial];
        let block = Block::new(&elements, rounds);
        let (before, after) = (&constants[..HALF_FULL], &constants[HALF_FULL + partial..]);
        let single = Single::new(&elements, [before, after], &block);
        assert!(T + partial <= DOT_MAX, "a row of the block fits a sum");
        let row: Option<&[u32; MIXED]> = row.as_slice().try_into().ok();
        Tables {
            constants,
            matrix,
            circulant: row.filter(|_| small).map(Circulant::new),
            block,
            single,
        }
    }

    /// An entry of the matrix as an element.
    fn entry(&self, word: u64) -> Fp {
        match self.circulant.is_some() {
            true => Fp::new(word as u32),
            false => Fp::from_word(word as u32),
        }
    }

    /// The rounds as defined, one after the other.
    #[cfg(test)]
    fn permute_plainly(&self, state: &mut [Fp; T]) {
        let partial = self.constants.len() - 2 * HALF_FULL;
        for (round, constants) in self.constants.iter().enumerate() {
            for (x, c) in state.iter_mut().zip(constants) {
                *x += *c;
            }
            let full = !(HALF_FULL..HALF_FULL + partial).contains(&round);
            for x in &mut state[..if full { T } else { 1 }] {
                *x = *x * *x * *x;
            }
            let row = |i: usize| {
                (0..T)
                    .map(|j| self.entry(self.matrix[i][j]) * state[j])
                    .sum()
            };
            *state = std::array::from_fn(row);
        }
    }

    /// The constants of full round `round`, 0 to 7.
    fn full_constants(&self, round: usize) -> &[Fp; T] {
        let partial = self.constants.len() - 2 * HALF_FULL;
        let skipped = if round < HALF_FULL { 0 } else { partial };
        &self.constants[round + skipped]
    }
}

impl<const T: usize> Rounds<T> for Tables<T> {
    #[inline(always)]
    fn enter<V: Packed>(&self, _: &mut [V; T]) {}

    #[inline(always)]
    fn full_round<V: Packed>(&self, round: usize, state: &mut [V; T]) {
        let constants = self.full_constants(round);
        let mut split = [V::splat(Fp::ZERO).split(); T];
        for i in 0..T {
            split[i] = state[i].add(V::splat(constants[i])).cube().split();
        }
        if let (Some(circulant), Ok(split)) = (&self.circulant, split.as_slice().try_into()) {
            state.copy_from_slice(&V::mix(circulant, split));
            return;
        }
        for start in (0..T).step_by(ROWS) {
            let rows = &self.matrix[start..start + ROWS];
            let sums = V::dot(&split, [&rows[0], &rows[1], &rows[2], &rows[3]]);
            state[start..start + ROWS].copy_from_slice(&sums);
        }
    }

    #[inline(always)]
    fn partial_rounds<V: Packed, const N: usize>(
        &self,
        states: &mut [[V; T]; N],
    ) -> [[V; PARTIAL_MAX]; N] {
        self.block.apply(states)
    }

    #[inline(always)]
    fn permute_one<V: Packed>(&self, state: &mut [Fp; T]) {
        self.single.permute::<V>(state);
    }
}

static TABLES_16: LazyLock<Tables<WIDTH_16>> = LazyLock::new(|| Tables::new(ROW_16, PARTIAL_16));
static TABLES_24: LazyLock<Tables<WIDTH_24>> = LazyLock::new(|| Tables::new(ROW_24, PARTIAL_24));

/// The hash of a proof's rows, trees, transcript and proofs of work.
static OWN: LazyLock<Poseidon2> = LazyLock::new(Poseidon2::new);

/// Up to a vector's elements divided by this, states are permuted one by one: two with AVX-512, one with AVX2. A
/// vector takes as long as three to four states, measured on a Sapphire Rapids core.
const SINGLES: usize = 8;

/// Widest vector of all kernels.
const LANES_MAX: usize = 16;

/// Permutes states, [`Packed::LANES`] at a time; adds the input to the output if `feed_forward`.
struct Permute<'a, R, const T: usize> {
    rounds: &'a R,
    states: &'a mut [[Fp; T]],
    feed_forward: bool,
}

impl<R: Rounds<T>, const T: usize> Pass for Permute<'_, R, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        // Two vectors of states at a time while there are enough.
        let pairs = self.states.len() / (2 * V::LANES) * (2 * V::LANES);
        let (pairs, rest) = self.states.split_at_mut(pairs);
        for states in pairs.chunks_exact_mut(2 * V::LANES) {
            permute_columns::<V, R, T, 2>(self.rounds, states, self.feed_forward);
        }
        // A vector takes as long as that many states one by one.
        let full = rest.len() / V::LANES * V::LANES;
        let few = rest.len() - full <= V::LANES / SINGLES;
        let (rest, singles) = rest.split_at_mut(if few { full } else { rest.len() });
        for states in rest.chunks_mut(V::LANES) {
            permute_columns::<V, R, T, 1>(self.rounds, states, self.feed_forward);
        }
        for state in singles {
            let input = *state;
            self.rounds.permute_one::<V>(state);
            if self.feed_forward {
                for (x, input) in state.iter_mut().zip(&input) {
                    *x += *input;
                }
            }
        }
    }
}

/// Permutes at most `N` vectors of states.
#[inline(always)]
fn permute_columns<V: Packed, R: Rounds<T>, const T: usize, const N: usize>(
    rounds: &R,
    states: &mut [[Fp; T]],
    feed_forward: bool,
) {
    // Lanes without a state permute zeros, which nothing reads.
    let mut columns = [[[Fp::ZERO; LANES_MAX]; T]; N];
    for (states, columns) in states.chunks(V::LANES).zip(&mut columns) {
        for (lane, state) in states.iter().enumerate() {
            for (column, x) in columns.iter_mut().zip(state) {
                column[lane] = *x;
            }
        }
    }
    let mut vectors = [[V::splat(Fp::ZERO); T]; N];
    for (vectors, columns) in vectors.iter_mut().zip(&columns) {
        for (vector, column) in vectors.iter_mut().zip(columns) {
            *vector = V::load(column);
        }
    }
    rounds.permute(&mut vectors);
    for (vectors, columns) in vectors.iter().zip(&mut columns) {
        for (vector, column) in vectors.iter().zip(columns) {
            let out = match feed_forward {
                true => vector.add(V::load(column)),
                false => *vector,
            };
            out.store(column);
        }
    }
    for (states, columns) in states.chunks_mut(V::LANES).zip(&columns) {
        for (lane, state) in states.iter_mut().enumerate() {
            for (column, x) in columns.iter().zip(state) {
                *x = column[lane];
            }
        }
    }
}

/// Adds to each of `N` vectors of states its permutation.
#[inline(always)]
fn compress_vectors<V: Packed, R: Rounds<T>, const T: usize, const N: usize>(
    rounds: &R,
    states: &mut [[V; T]; N],
) {
    let inputs = *states;
    rounds.permute(states);
    for n in 0..N {
        for i in 0..T {
            states[n][i] = states[n][i].add(inputs[n][i]);
        }
    }
}

/// The permutation of width 24 of `N` vectors of states, inside a [`Pass`]. Two vectors take less time together
/// than one after the other.
#[inline(always)]
pub fn permute_vectors_24<V: Packed, const N: usize>(states: &mut [[V; WIDTH_24]; N]) {
    TABLES_24.permute(states);
}

/// The compression of width 16, before truncation, of `N` vectors of states, inside a [`Pass`]. Two vectors take
/// less time together than one after the other.
#[inline(always)]
pub fn compress_vectors_16<V: Packed, const N: usize>(states: &mut [[V; WIDTH_16]; N]) {
    compress_vectors(&*TABLES_16, states);
}

/// The compression of a proof's own hash, before truncation, of `N` vectors of states, inside a
/// [`Pass`].
#[inline(always)]
pub(crate) fn compress_vectors_own<V: Packed, const N: usize>(states: &mut [[V; WIDTH_16]; N]) {
    compress_vectors(&*OWN, states);
}

/// Permutations of many states.
pub trait Permutations {
    /// Applies the permutation of width 16 to each state.
    fn permute_16(self, states: &mut [[Fp; WIDTH_16]]);

    /// Applies the permutation of width 24 to each state.
    fn permute_24(self, states: &mut [[Fp; WIDTH_24]]);

    /// Replaces each state x by permutation(x) + x, the compression of width 16 before truncation.
    fn compress_16(self, states: &mut [[Fp; WIDTH_16]]);

    /// Replaces each state x by permutation(x) + x, the compression of width 24 before truncation.
    fn compress_24(self, states: &mut [[Fp; WIDTH_24]]);

    /// Replaces each state x by permutation(x) + x for a proof's own permutation, Poseidon2 of width
    /// 16.
    fn compress_own(self, states: &mut [[Fp; WIDTH_16]]);
}

/// Permutes states on a backend: see [`Permute`].
fn run<R: Rounds<T>, const T: usize>(
    backend: Backend,
    rounds: &R,
    states: &mut [[Fp; T]],
    feed_forward: bool,
) {
    backend.run(Permute {
        rounds,
        states,
        feed_forward,
    });
}

impl Permutations for Backend {
    fn permute_16(self, states: &mut [[Fp; WIDTH_16]]) {
        run(self, &*TABLES_16, states, false);
    }

    fn permute_24(self, states: &mut [[Fp; WIDTH_24]]) {
        run(self, &*TABLES_24, states, false);
    }

    fn compress_16(self, states: &mut [[Fp; WIDTH_16]]) {
        run(self, &*TABLES_16, states, true);
    }

    fn compress_24(self, states: &mut [[Fp; WIDTH_24]]) {
        run(self, &*TABLES_24, states, true);
    }

    fn compress_own(self, states: &mut [[Fp; WIDTH_16]]) {
        run(self, &*OWN, states, true);
    }
}

#[cfg(test)]
mod tests;
