//! Poseidon2 of width 16 (ePrint 2023/323), the instance that Plonky3 publishes for KoalaBear.
//!
//! Two matrices instead of one. Full rounds, and the input before the first, multiply by circ(2·M, M, M, M) for
//! the circulant 4 × 4 matrix M = circ(2, 3, 1, 1); partial rounds multiply by 1 + D, the matrix of ones plus a
//! diagonal of small numbers and powers of 1/2. Both are additions and shifts, so rounds are computed as written,
//! and most of the time goes into cubes. The proof of permutations needs the forms of the module `block`, as for
//! Poseidon. For a single state, the full rounds run on integers: additions need no reduction there, and no lane
//! waits for others.

use super::block::{Block, PARTIAL_MAX};
use super::grain::round_constants_2;
use super::single::{Partial, ROWS};
use super::{HALF_FULL, PARTIAL_16, Rounds, WIDTH_16};
use crate::field::{Fp, P, reduce};
use crate::kernel::Packed;

/// Number of lanes that a block of the full rounds' matrix mixes.
const FOUR: usize = 4;

/// Constants, and the rounds as forms.
pub(super) struct Poseidon2 {
    /// Constants of the full rounds.
    full: Vec<[Fp; WIDTH_16]>,
    /// Constants of lane 0 in the partial rounds.
    partial: [Fp; PARTIAL_16],
    block: Block<WIDTH_16>,
    /// The partial rounds of one state.
    one: Partial<WIDTH_16>,
}

/// The matrix of the full rounds.
pub(super) fn full_matrix() -> [[Fp; WIDTH_16]; WIDTH_16] {
    const CIRCULANT: [u32; FOUR] = [2, 3, 1, 1];
    let entry = |i: usize, j: usize| {
        let small = CIRCULANT[(FOUR + j % FOUR - i % FOUR) % FOUR];
        let twice = if i / FOUR == j / FOUR { 2 } else { 1 };
        Fp::new(twice * small)
    };
    std::array::from_fn(|i| std::array::from_fn(|j| entry(i, j)))
}

/// The diagonal that the partial rounds' matrix has in addition to ones.
fn diagonal() -> [Fp; WIDTH_16] {
    let small = Fp::new;
    let over = |log2: u32| Fp::new(1 << log2).inverse().unwrap_or_default();
    [
        -small(2),
        small(1),
        small(2),
        over(1),
        small(3),
        small(4),
        -over(1),
        -small(3),
        -small(4),
        over(8),
        over(3),
        over(24),
        -over(8),
        -over(3),
        -over(4),
        -over(24),
    ]
}

/// The matrix of the partial rounds.
pub(super) fn partial_matrix() -> [[Fp; WIDTH_16]; WIDTH_16] {
    let diagonal = diagonal();
    let entry = |i: usize, j: usize| match i == j {
        true => Fp::ONE + diagonal[i],
        false => Fp::ONE,
    };
    std::array::from_fn(|i| std::array::from_fn(|j| entry(i, j)))
}

impl Poseidon2 {
    pub(super) fn new() -> Poseidon2 {
        let ([before, after], partial) = round_constants_2::<WIDTH_16, PARTIAL_16>(HALF_FULL);
        let rounds = partial.map(|c| {
            let mut constants = [Fp::ZERO; WIDTH_16];
            constants[0] = c;
            constants
        });
        let block = Block::new(&partial_matrix(), &rounds);
        Poseidon2 {
            full: [before, after].concat(),
            partial,
            one: Partial::new(&block),
            block,
        }
    }

    /// The constants of full round `round`, 0 to 7.
    pub(super) fn full_constants(&self, round: usize) -> &[Fp; WIDTH_16] {
        &self.full[round]
    }

    /// The partial rounds as forms.
    pub(super) fn block(&self) -> &Block<WIDTH_16> {
        &self.block
    }

    /// The rounds as defined, one after the other.
    #[cfg(test)]
    pub(super) fn permute_plainly(&self, state: &mut [Fp; WIDTH_16]) {
        let times = |matrix: &[[Fp; WIDTH_16]; WIDTH_16], state: &[Fp; WIDTH_16]| {
            let row = |i: usize| (0..WIDTH_16).map(|j| matrix[i][j] * state[j]).sum();
            std::array::from_fn(row)
        };
        let (full, partial) = (full_matrix(), partial_matrix());
        let cube = |x: Fp| x * x * x;
        *state = times(&full, state);
        for (round, constants) in self.full.iter().enumerate() {
            if round == HALF_FULL {
                for constant in &self.partial {
                    state[0] = cube(state[0] + *constant);
                    *state = times(&partial, state);
                }
            }
            let cubes = std::array::from_fn(|i| cube(state[i] + constants[i]));
            *state = times(&full, &cubes);
        }
    }
}

/// The matrix of the full rounds, over any type that `add` adds.
#[inline(always)]
fn mix_full<V: Copy>(state: &mut [V; WIDTH_16], add: impl Fn(V, V) -> V) {
    for k in (0..WIDTH_16).step_by(FOUR) {
        let [a, b, c, d] = [state[k], state[k + 1], state[k + 2], state[k + 3]];
        // Row 0 of M is 2a + 3b + c + d = (a + b + c + d) + b + (a + b), and the others are alike: eleven
        // additions.
        let (ab, cd) = (add(a, b), add(c, d));
        let all = add(ab, cd);
        let (with_b, with_d) = (add(all, b), add(all, d));
        state[k] = add(with_b, ab);
        state[k + 1] = add(with_b, add(c, c));
        state[k + 2] = add(with_d, cd);
        state[k + 3] = add(with_d, add(a, a));
    }
    for i in 0..FOUR {
        // Each block is M·x by now. Adding the sum of all four blocks makes it 2·M on the diagonal and M elsewhere.
        let low = add(state[i], state[FOUR + i]);
        let sum = add(low, add(state[2 * FOUR + i], state[3 * FOUR + i]));
        for k in (i..WIDTH_16).step_by(FOUR) {
            state[k] = add(state[k], sum);
        }
    }
}

/// A full round of words: inputs are below 2^40, outputs below 35·p.
#[inline(always)]
fn full_round_of_one(constants: &[Fp; WIDTH_16], state: &mut [u64; WIDTH_16]) {
    for (x, c) in state.iter_mut().zip(constants) {
        // A remainder keeps the Montgomery form. The two reductions below belong to the two products of the cube.
        let sum = (*x + u64::from(c.word())) % u64::from(P);
        *x = u64::from(reduce(u64::from(reduce(sum * sum)) * sum));
    }
    mix_full(state, |x, y| x + y);
}

/// The elements represented by words.
#[inline(always)]
fn elements(words: &[u64; WIDTH_16]) -> [Fp; WIDTH_16] {
    words.map(|word| Fp::from_word((word % u64::from(P)) as u32))
}

/// The matrix of the partial rounds, on a state whose lane 0 is given separately, so that the sum of the other
/// lanes does not wait for it.
#[inline(always)]
fn mix_partial<V: Packed>(first: V, state: &mut [V; WIDTH_16]) {
    let s = *state;
    let eight = s[1].add(s[2]).add(s[3].add(s[4]));
    let eight = eight.add(s[5].add(s[6]).add(s[7].add(s[8])));
    let seven = s[9].add(s[10]).add(s[11].add(s[12]));
    let seven = seven.add(s[13].add(s[14]).add(s[15]));
    let others = eight.add(seven);
    let sum = others.add(first);
    let double = |x: V| x.add(x);
    // sum − 2·first: the diagonal has −2 here.
    state[0] = others.sub(first);
    state[1] = sum.add(s[1]);
    state[2] = sum.add(double(s[2]));
    state[3] = sum.add(s[3].over::<1>());
    state[4] = sum.add(double(s[4]).add(s[4]));
    state[5] = sum.add(double(double(s[5])));
    state[6] = sum.sub(s[6].over::<1>());
    state[7] = sum.sub(double(s[7]).add(s[7]));
    state[8] = sum.sub(double(double(s[8])));
    state[9] = sum.add(s[9].over::<8>());
    state[10] = sum.add(s[10].over::<3>());
    state[11] = sum.add(s[11].over::<24>());
    state[12] = sum.sub(s[12].over::<8>());
    state[13] = sum.sub(s[13].over::<3>());
    state[14] = sum.sub(s[14].over::<4>());
    state[15] = sum.sub(s[15].over::<24>());
}

impl Rounds<WIDTH_16> for Poseidon2 {
    #[inline(always)]
    fn enter<V: Packed>(&self, state: &mut [V; WIDTH_16]) {
        mix_full(state, V::add);
    }

    #[inline(always)]
    fn full_round<V: Packed>(&self, round: usize, state: &mut [V; WIDTH_16]) {
        let constants = &self.full[round];
        for i in 0..WIDTH_16 {
            state[i] = state[i].add(V::splat(constants[i])).cube();
        }
        mix_full(state, V::add);
    }

    #[inline(always)]
    fn partial_rounds<V: Packed, const N: usize>(
        &self,
        states: &mut [[V; WIDTH_16]; N],
    ) -> [[V; PARTIAL_MAX]; N] {
        let mut enters = [[V::splat(Fp::ZERO); PARTIAL_MAX]; N];
        for n in 0..N {
            for (k, constant) in self.partial.iter().enumerate() {
                enters[n][k] = states[n][0].add(V::splat(*constant));
                mix_partial(enters[n][k].cube(), &mut states[n]);
            }
        }
        enters
    }

    #[inline(always)]
    fn permute_one<V: Packed>(&self, state: &mut [Fp; WIDTH_16]) {
        let words = |state: &[Fp]| std::array::from_fn(|i| u64::from(state[i].word()));
        let (before, after) = self.full.split_at(HALF_FULL);
        let mut one: [u64; WIDTH_16] = words(state);
        mix_full(&mut one, |x, y| x + y);
        for constants in before {
            full_round_of_one(constants, &mut one);
        }
        let mut lanes = [Fp::ZERO; ROWS];
        lanes[..WIDTH_16].copy_from_slice(&elements(&one));
        self.one.apply::<V>(&mut lanes);
        one = words(&lanes);
        for constants in after {
            full_round_of_one(constants, &mut one);
        }
        *state = elements(&one);
    }
}
