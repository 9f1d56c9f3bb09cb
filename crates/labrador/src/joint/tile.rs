//! A tile of columns: everything of the lifts that differs from column to column.

use std::ops::Range;

use alphorn_exec::Backend;

use super::layout::{BLOCK, FORMS_MAX, Layout};
use super::lift::{Lifts, Public};
use super::{DrawnForms, TILE};
use crate::kernel::{Dispatch, Pass, SQUARE, Vector, Vectors, transpose};
use crate::projection::LIFTS;
use crate::ring::{DEGREE, Ntt, Q, centred};

/// Limbs of a weight: 12 bits each, the top one signed.
const LIMBS: usize = 4;

/// Sums of a coefficient, one for each limb of each lift.
const SUMS: usize = LIFTS * LIMBS;

/// The weights of the forms as numbers of 16 bits.
pub(crate) struct LinearWeights {
    count: usize,
    /// For two forms after each other the limbs of all lifts: those of both in turn.
    pairs: Vec<[[i16; 8]; SUMS]>,
}

impl LinearWeights {
    pub(crate) fn new(lifts: &Lifts) -> Self {
        let count = lifts.each[0].forms.len();
        let mut pairs = vec![[[0; 8]; SUMS]; count.div_ceil(2)];
        for (l, lift) in lifts.each.iter().enumerate() {
            for (form, &weight) in lift.forms.iter().enumerate() {
                let weight = centred(weight);
                for limb in 0..LIMBS {
                    let mask = if limb == LIMBS - 1 { -1 } else { 0xfff };
                    let number = ((weight >> (12 * limb)) & mask) as i16;
                    let place = &mut pairs[form / 2][l * LIMBS + limb];
                    for two in place.as_chunks_mut::<2>().0 {
                        two[form % 2] = number;
                    }
                }
            }
        }
        Self { count, pairs }
    }
}

/// The coefficients of all forms on the columns of a tile.
pub(crate) struct FormTile {
    width: usize,
    count: usize,
    /// As [`DrawnForms::weights`] has them.
    weights: Vec<[i16; TILE]>,
    /// Those of a column after each other, if they were turned.
    columns: Vec<i16>,
}

impl FormTile {
    pub(crate) fn new(layout: &Layout, count: usize) -> Self {
        let width = layout.rows * DEGREE;
        Self {
            width,
            count,
            weights: vec![[0; TILE]; count * width],
            columns: Vec::new(),
        }
    }

    /// Computes the coefficients of the forms on columns `first..first + columns`.
    pub(crate) fn load(&mut self, forms: &dyn DrawnForms, first: usize, columns: usize) {
        forms.weights(first, columns, &mut self.weights);
    }

    /// The same, also in the order of [`FormTile::row`].
    pub(crate) fn load_columns(
        &mut self,
        forms: &dyn DrawnForms,
        first: usize,
        columns: usize,
        backend: Backend,
    ) {
        self.load(forms, first, columns);
        self.columns.resize(TILE * self.count * self.width, 0);
        backend.run(Turn {
            from: &self.weights,
            to: &mut self.columns,
            each: self.count * self.width,
        });
    }

    /// The coefficients of form `form` on all columns of the tile, place by place.
    #[inline(always)]
    pub(crate) fn form(&self, form: usize) -> &[[i16; TILE]] {
        &self.weights[form * self.width..][..self.width]
    }

    /// The coefficients of form `form` on a column of the tile that was loaded by columns.
    #[inline(always)]
    pub(crate) fn row(&self, column: usize, form: usize) -> &[i16] {
        &self.columns[(column * self.count + form) * self.width..][..self.width]
    }
}

/// Turns rows of all columns into rows of each.
struct Turn<'a> {
    from: &'a [[i16; TILE]],
    to: &'a mut [i16],
    /// Numbers of a column, a multiple of [`SQUARE`].
    each: usize,
}

impl Pass for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        for (at, rows) in self.from.as_chunks::<SQUARE>().0.iter().enumerate() {
            for first in (0..TILE).step_by(SQUARE) {
                let mut square = [[0; SQUARE]; SQUARE];
                for (square, row) in square.iter_mut().zip(rows) {
                    square.copy_from_slice(&row[first..first + SQUARE]);
                }
                transpose::<V>(&mut square);
                for (k, numbers) in square.iter().enumerate() {
                    let place = (first + k) * self.each + at * SQUARE;
                    self.to[place..place + SQUARE].copy_from_slice(numbers);
                }
            }
        }
    }
}

/// The elements `sum_k mu_k L_k` of all lifts on some rows and columns of a tile: those whose
/// products with the rows of a column have the sums as constant coefficients.
pub(crate) struct LinearTile {
    columns: usize,
    elements: Vec<Ntt>,
}

impl LinearTile {
    /// Of elements row by row, column by column, lift by lift.
    pub(crate) fn new(columns: usize, elements: Vec<Ntt>) -> Self {
        Self { columns, elements }
    }

    /// On row `row` and column `column`, counted from the first of those that it is of.
    #[inline(always)]
    pub(crate) fn at(&self, lift: usize, row: usize, column: usize) -> &Ntt {
        &self.elements[(row * self.columns + column) * LIFTS + lift]
    }
}

/// Computes a [`LinearTile`] of some rows and columns.
pub(crate) struct Linear<'a> {
    pub(crate) weights: &'a LinearWeights,
    pub(crate) forms: &'a FormTile,
    pub(crate) rows: &'a [usize],
    pub(crate) columns: Range<usize>,
}

impl Pass for Linear<'_> {
    type Output = LinearTile;

    #[inline(always)]
    fn run<V: Vectors>(self) -> LinearTile {
        let mut elements = Vec::with_capacity(self.rows.len() * self.columns.len() * LIFTS);
        for &row in self.rows {
            for column in self.columns.clone() {
                let sums = self.sums::<V::Wide>(row, column);
                for sums in sums.as_chunks::<LIMBS>().0 {
                    elements.push(Ntt::from_sums_in::<V>(&conjugated(sums)));
                }
            }
        }
        LinearTile::new(self.columns.len(), elements)
    }
}

impl Linear<'_> {
    /// `sum_k weight_k limb` for every coefficient, in the order of interleaved vectors. Sixteen
    /// products below `2^14 * 2^12` fit 32 bits.
    #[inline(always)]
    fn sums<V: Vector>(&self, row: usize, column: usize) -> [[i32; DEGREE]; SUMS] {
        let zero = [0i16; DEGREE];
        let mut out = [[0; DEGREE]; SUMS];
        for at in (0..DEGREE).step_by(V::LANES) {
            let mut sums = [V::no_sums(); SUMS];
            for (pair, factors) in self.weights.pairs.iter().enumerate() {
                let of = |form: usize| {
                    if form < self.weights.count {
                        &self.forms.row(column, form)[row * DEGREE..(row + 1) * DEGREE]
                    } else {
                        &zero[..]
                    }
                };
                let (even, odd) = (of(2 * pair), of(2 * pair + 1));
                let two = V::load(&even[at..]).interleave(V::load(&odd[at..]));
                for (sum, factor) in sums.iter_mut().zip(factors) {
                    let factor = V::repeat(factor);
                    *sum = V::accumulate(*sum, two, (factor, factor));
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                let mut parts = [0; 32];
                V::store_sums(sum, &mut parts);
                let half = V::LANES / 2;
                // Four neighbours at a time.
                for (k, parts) in parts[..V::LANES].as_chunks::<4>().0.iter().enumerate() {
                    let to = at + number_of_sum(half, 4 * k);
                    out[to..to + 4].copy_from_slice(parts);
                }
            }
        }
        out
    }
}

/// The number that sum `k` of vectors of `2 half` numbers belongs to: sums of the first vector are
/// those of the lower four of eight numbers.
#[inline(always)]
pub(crate) const fn number_of_sum(half: usize, k: usize) -> usize {
    8 * (k % half / 4) + 4 * (k / half) + k % 4
}

/// The numbers of four limbs, as the coefficients of the conjugate.
#[inline(always)]
fn conjugated(limbs: &[[i32; DEGREE]; LIMBS]) -> [i64; DEGREE] {
    let mut sums = [0i64; DEGREE];
    for (k, sum) in sums.iter_mut().enumerate() {
        let limb = |i: usize| i64::from(limbs[i][k]);
        let (low, high) = (limb(0) + (limb(1) << 12), limb(2) + (limb(3) << 12));
        // 2^24 high = 2^24 (high mod 2^24) + 59 (high / 2^24) modulo Q.
        *sum = low + ((high & 0xff_ffff) << 24) + (((1 << 48) - Q as i64) * (high >> 24));
    }
    let mut out = [0; DEGREE];
    out[0] = sums[0];
    for (o, sum) in out[1..].iter_mut().zip(sums[1..].iter().rev()) {
        *o = -sum;
    }
    out
}

/// Some places in a row of all pieces: columns of one tile, under one block of the projection.
pub(crate) struct Segment {
    /// The row within a piece.
    pub(crate) row: usize,
    /// The first column, and its number in the tile.
    pub(crate) first: usize,
    pub(crate) offset: usize,
    pub(crate) count: usize,
    /// The block, and the first place under it.
    pub(crate) block: usize,
    pub(crate) under: usize,
    /// The first place of a piece.
    pub(crate) place: usize,
}

/// The segments of the columns `first..first + columns`.
pub(crate) fn segments(layout: &Layout, first: usize, columns: usize) -> Vec<Segment> {
    let mut out = Vec::new();
    for row in 0..layout.stack {
        let mut offset = 0;
        while offset < columns {
            let place = row * layout.columns + first + offset;
            let under = place % BLOCK;
            let count = (columns - offset).min(BLOCK - under);
            out.push(Segment {
                row,
                first: first + offset,
                offset,
                count,
                block: place / BLOCK,
                under,
                place,
            });
            offset += count;
        }
    }
    out
}

/// The scalars of all lifts on the columns of a tile, as constants.
pub(crate) struct Scalars {
    pub(crate) columns: [Vec<Ntt>; LIFTS],
    pub(crate) products: [Vec<Ntt>; LIFTS],
}

impl Scalars {
    pub(crate) fn new(lifts: &Lifts, first: usize, count: usize, backend: Backend) -> Self {
        let tile = first..first + count;
        let each = lifts.each.each_ref();
        Self {
            columns: each.map(|lift| Ntt::constants(&lift.columns[tile.clone()], backend)),
            products: each.map(|lift| Ntt::constants(&lift.products[tile.clone()], backend)),
        }
    }
}

/// `sigma(alpha_i) g_i` for the columns of a tile.
pub(crate) struct Turned<'a> {
    pub(crate) public: &'a Public<'a>,
    pub(crate) first: usize,
    pub(crate) scalars: &'a [Ntt],
}

impl Pass for Turned<'_> {
    type Output = Vec<Ntt>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Ntt> {
        let alphas = &self.public.alphas[self.first..];
        let mut out = Vec::with_capacity(self.scalars.len());
        for (alpha, scalar) in alphas.iter().zip(self.scalars) {
            out.push(alpha.sigma().times_in::<V>(scalar));
        }
        out
    }
}

const _: () = assert!(FORMS_MAX <= 16, "sixteen products fit a sum");
