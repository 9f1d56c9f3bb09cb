//! A single permutation with low latency: vectors hold the lanes of one state.
//!
//! [`super::Tables::permute`] computes as many states as a vector has elements, and takes as long for one. When
//! there are few, a matrix is applied column by column: the state's words are the factors, the columns the
//! vectors. The S-boxes of the partial rounds, each of which waits for the previous one, run on single elements.

use super::block::Block;
use crate::field::{Fp, P, reduce};
use crate::kernel::{DOT_MAX, Packed};

/// Number of elements in a padded column: enough for every width and number of partial rounds.
// 24 would not be a multiple of the longest vector.
pub(super) const ROWS: usize = 32;

/// Columns of a matrix of at most [`ROWS`] rows, and a constant vector.
struct Columns {
    columns: Vec<[Fp; ROWS]>,
    constants: [Fp; ROWS],
}

/// Affine maps as columns.
pub(super) struct Single<const T: usize> {
    /// Constants of the full rounds, before and after the partial ones.
    full: [Vec<[Fp; ROWS]>; 2],
    matrix: Columns,
    partial: Partial<T>,
}

/// The partial rounds of one state.
pub(super) struct Partial<const T: usize> {
    /// From the state to each S-box input of the partial rounds, without earlier cubes.
    enters: Columns,
    /// The weights of earlier cubes in an S-box input, and that of the immediately preceding one.
    cubes: Vec<(Vec<u64>, Fp)>,
    /// From the state and the cubes to the state after the partial rounds.
    leaves: Columns,
}

impl Columns {
    fn new(rows: &[Vec<Fp>], constants: &[Fp]) -> Columns {
        let column = |j: usize| {
            let entry = |i: usize| rows.get(i).map_or(Fp::ZERO, |row| row[j]);
            std::array::from_fn(entry)
        };
        let width = rows.first().map_or(0, Vec::len);
        Columns {
            columns: (0..width).map(column).collect(),
            constants: padded(constants),
        }
    }

    /// The first `N` rows, at least, of matrix times words plus constants.
    #[inline(always)]
    fn apply<V: Packed, const N: usize>(&self, words: &[u64], out: &mut [Fp; ROWS]) {
        let zero = V::splat(Fp::ZERO);
        let mut at = 0;
        while at < N {
            let mut columns = [zero.split(); DOT_MAX];
            for (split, column) in columns.iter_mut().zip(&self.columns) {
                *split = V::load(&column[at..]).split();
            }
            let [sum] = V::dot(&columns[..words.len()], [words]);
            sum.add(V::load(&self.constants[at..]))
                .store(&mut out[at..]);
            at += V::LANES;
        }
    }
}

/// Σ_i x_i · y_i for at most [`DOT_MAX`] words in Montgomery form, below p.
#[inline(always)]
fn sum_of_products(x: &[u64], y: &[u64]) -> Fp {
    // Σ = low + 2^32·high, both below 2^38.
    let (mut low, mut high) = (0, 0);
    for (x, y) in x.iter().zip(y) {
        let product = x * y;
        low += product & 0xffff_ffff;
        high += product >> 32;
    }
    Fp::from_word(reduce(low)) + Fp::from_word((high % u64::from(P)) as u32)
}

fn padded(elements: &[Fp]) -> [Fp; ROWS] {
    std::array::from_fn(|i| elements.get(i).copied().unwrap_or(Fp::ZERO))
}

impl<const T: usize> Single<T> {
    /// The maps for a matrix, the constants of the full rounds and the block of the partial rounds.
    pub(super) fn new(matrix: &[[Fp; T]; T], full: [&[[Fp; T]]; 2], block: &Block<T>) -> Single<T> {
        let rows: Vec<Vec<Fp>> = matrix.iter().map(|row| row.to_vec()).collect();
        Single {
            full: full.map(|rounds| rounds.iter().map(|c| padded(c)).collect()),
            matrix: Columns::new(&rows, &[]),
            partial: Partial::new(block),
        }
    }

    /// Applies the permutation to one state.
    #[inline(always)]
    pub(super) fn permute<V: Packed>(&self, state: &mut [Fp; T]) {
        let mut lanes = [Fp::ZERO; ROWS];
        lanes[..T].copy_from_slice(state);
        let [before, after] = &self.full;
        for constants in before {
            self.full_round::<V>(&mut lanes, constants);
        }
        self.partial.apply::<V>(&mut lanes);
        for constants in after {
            self.full_round::<V>(&mut lanes, constants);
        }
        state.copy_from_slice(&lanes[..T]);
    }

    #[inline(always)]
    fn full_round<V: Packed>(&self, lanes: &mut [Fp; ROWS], constants: &[Fp; ROWS]) {
        let mut at = 0;
        while at < T {
            let x = V::load(&lanes[at..]).add(V::load(&constants[at..]));
            x.cube().store(&mut lanes[at..]);
            at += V::LANES;
        }
        let mut words = [0; T];
        for (word, x) in words.iter_mut().zip(lanes.iter()) {
            *word = u64::from(x.word());
        }
        self.matrix.apply::<V, T>(&words, lanes);
    }
}

impl<const T: usize> Partial<T> {
    /// The maps of a block.
    pub(super) fn new(block: &Block<T>) -> Partial<T> {
        let (mut enters, mut cubes, mut entering) = (Vec::new(), Vec::new(), Vec::new());
        for (of_state, of_cubes, constant) in block.enters() {
            enters.push(of_state);
            let (last, others) = of_cubes.split_last().unwrap_or((&Fp::ZERO, &[]));
            let others = others.iter().map(|x| u64::from(x.word()));
            cubes.push((others.collect(), *last));
            entering.push(constant);
        }
        let (leaves, leaving): (Vec<_>, Vec<_>) = block.leaves().unzip();
        Partial {
            enters: Columns::new(&enters, &entering),
            cubes,
            leaves: Columns::new(&leaves, &leaving),
        }
    }

    /// Applies all partial rounds to the first lanes.
    #[inline(always)]
    pub(super) fn apply<V: Packed>(&self, lanes: &mut [Fp; ROWS]) {
        let mut words = [0; DOT_MAX];
        for (word, x) in words[..T].iter_mut().zip(lanes.iter()) {
            *word = u64::from(x.word());
        }
        let mut enters = [Fp::ZERO; ROWS];
        self.enters.apply::<V, ROWS>(&words[..T], &mut enters);
        let mut cube = Fp::ZERO;
        for (k, (others, last)) in self.cubes.iter().enumerate() {
            // Only the last cube is waited for: the contribution of the others is known earlier.
            let x = enters[k] + sum_of_products(others, &words[T..]) + *last * cube;
            cube = x * x * x;
            words[T + k] = u64::from(cube.word());
        }
        self.leaves
            .apply::<V, T>(&words[..T + self.cubes.len()], lanes);
    }
}
