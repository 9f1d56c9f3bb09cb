//! The linear forms under the challenges, before any weight of a lift.
//!
//! A place of the amortised form has `sum_p c_p sum_l A_l sum_k mu_(l,k) sigma(L_(k,p))`. Challenges
//! and the coefficients of forms are short, so `W_k = sum_p c_p sigma(L_(k,p))` is computed first,
//! over the integers and for a tile of columns at once: its coefficients are inner products with
//! the same few thousand small numbers in every column. What is left are the sums
//! `sum_k mu_(l,k) W_k`, one element for each lift instead of one for each lift and piece.
//!
//! Bounds: coefficients of challenges add up to at most 56 in absolute value, those of forms are
//! 16-bit numbers, and there are at most 64 pieces, so `W_k` is below `2^27` and fits 32 bits. A
//! weight is `low + 2^24 high` with `0 <= low < 2^24` and `|high| <= 2^23`, and 16 products of
//! either stay below `2^55`.

use super::TILE;
use super::layout::{FORMS_MAX, Layout, ROWS_MAX};
use super::lift::Lifts;
use super::tile::{FormTile, LinearTile, number_of_sum};
use crate::kernel::{Pass, Vector, Vectors};
use crate::projection::LIFTS;
use crate::ring::{DEGREE, Ntt, Rq, centred};

/// Coefficients of a sum that are computed at once: sixteen sums of vectors stay in registers.
const BLOCK: usize = 8;

/// Factors of two neighbouring coefficients of a form, for each coefficient of a block.
type Factors = [[i16; 2]; BLOCK];

/// The sums of a form, for each coefficient one number a column, as sums of vectors have them.
type Sums = [[i32; TILE]; DEGREE];

/// What all tiles share.
pub(crate) struct Blend {
    rows: Vec<RowBlend>,
    /// The lower and upper 24 bits of the weights of each lift, form by form.
    weights: [Vec<(i32, i32)>; LIFTS],
}

/// What the places in one row of a piece share.
struct RowBlend {
    /// For each piece with a row of `S0` there the place of its first coefficient in a column.
    starts: Vec<usize>,
    /// Block by block, then piece by piece, for two coefficients of the form after the other.
    factors: [Vec<Factors>; DEGREE / BLOCK],
}

impl Blend {
    /// # Panics
    /// If a coefficient of a challenge has no place in 16 bits.
    pub(crate) fn new(layout: &Layout, lifts: &Lifts, challenges: &[Rq]) -> Self {
        let rows = (0..layout.stack).map(|row| RowBlend::new(layout, challenges, row));
        let halves = |&weight: &u64| {
            let weight = centred(weight);
            ((weight & 0xff_ffff) as i32, (weight >> 24) as i32)
        };
        Self {
            rows: rows.collect(),
            weights: (lifts.each.each_ref()).map(|lift| lift.forms.iter().map(halves).collect()),
        }
    }
}

impl RowBlend {
    fn new(layout: &Layout, challenges: &[Rq], row: usize) -> Self {
        let mut starts = Vec::new();
        let mut factors = [const { Vec::new() }; DEGREE / BLOCK];
        for (piece, challenge) in challenges[..layout.long_pieces()].iter().enumerate() {
            let place = piece * layout.stack + row;
            if place >= layout.rows {
                continue;
            }
            starts.push(place * DEGREE);
            let short = |c| i16::try_from(c).expect("challenges are short");
            let challenge = challenge.centred().map(short);
            // X^-m moves coefficient t + m to t, and what leaves at the lower end changes its sign.
            let factor = |t: usize, m: usize| match t + m {
                sum if sum < DEGREE => challenge[sum],
                sum => -challenge[sum - DEGREE],
            };
            for (block, factors) in factors.iter_mut().enumerate() {
                factors.extend((0..DEGREE).step_by(2).map(|m| -> Factors {
                    let t = |k: usize| block * BLOCK + k;
                    std::array::from_fn(|k| [factor(t(k), m), factor(t(k), m + 1)])
                }));
            }
        }
        Self { starts, factors }
    }
}

/// Computes the elements of a tile for each row of a piece.
pub(crate) struct Blended<'a> {
    pub(crate) blend: &'a Blend,
    pub(crate) forms: &'a FormTile,
    pub(crate) columns: usize,
}

impl Pass for Blended<'_> {
    type Output = LinearTile;

    #[inline(always)]
    fn run<V: Vectors>(self) -> LinearTile {
        let count = self.blend.weights[0].len();
        let mut elements = Vec::with_capacity(self.blend.rows.len() * self.columns * LIFTS);
        let mut sums: Vec<Sums> = vec![[[0; TILE]; DEGREE]; count];
        let mut out = vec![[[0i64; DEGREE]; LIFTS]; TILE];
        for row in &self.blend.rows {
            for (form, sums) in sums.iter_mut().enumerate() {
                row.add_up::<V::Wide>(self.forms.form(form), sums);
            }
            for (lift, weights) in self.blend.weights.iter().enumerate() {
                weigh(&sums, weights, lift, <V::Wide as Vector>::LANES, &mut out);
            }
            for column in &out[..self.columns] {
                for element in column {
                    elements.push(Ntt::from_sums_in::<V>(element));
                }
            }
        }
        LinearTile::new(self.columns, elements)
    }
}

impl RowBlend {
    /// `W_k` of a form. Sums of a vector lie where [`number_of_sum`] says.
    #[inline(always)]
    fn add_up<V: Vector>(&self, form: &[[i16; TILE]], out: &mut Sums) {
        for (block, factors) in self.factors.iter().enumerate() {
            let out = &mut out[block * BLOCK..(block + 1) * BLOCK];
            for at in (0..TILE).step_by(V::LANES) {
                // Sixteen registers of AVX2 have room for half of a block.
                if V::LANES == TILE {
                    self.add_block::<V, BLOCK>(form, factors, 0, at, out);
                } else {
                    self.add_block::<V, { BLOCK / 2 }>(form, factors, 0, at, out);
                    self.add_block::<V, { BLOCK / 2 }>(form, factors, BLOCK / 2, at, out);
                }
            }
        }
    }

    /// `H` coefficients of a block from `first` on, in columns from `at` on.
    #[inline(always)]
    fn add_block<V: Vector, const H: usize>(
        &self,
        form: &[[i16; TILE]],
        factors: &[Factors],
        first: usize,
        at: usize,
        out: &mut [[i32; TILE]],
    ) {
        let mut sums = [V::no_sums(); H];
        for (&start, factors) in self.starts.iter().zip(factors.chunks_exact(DEGREE / 2)) {
            let rows = form[start..start + DEGREE].as_chunks::<2>().0;
            for ([even, odd], factors) in rows.iter().zip(factors) {
                let two = V::load(&even[at..]).interleave(V::load(&odd[at..]));
                for (sum, factors) in sums.iter_mut().zip(&factors[first..first + H]) {
                    let factor = V::repeat_two(factors);
                    *sum = V::accumulate(*sum, two, (factor, factor));
                }
            }
        }
        for (sum, out) in sums.into_iter().zip(&mut out[first..first + H]) {
            V::store_sums(sum, &mut out[at..]);
        }
    }
}

/// `sum_k mu_(l,k) W_k` of one lift, for each column of a tile; reduced so far that it fits.
#[inline(always)]
fn weigh(
    sums: &[Sums],
    weights: &[(i32, i32)],
    lift: usize,
    lanes: usize,
    out: &mut [[[i64; DEGREE]; LIFTS]],
) {
    for t in 0..DEGREE {
        let (mut low, mut high) = ([0i64; TILE], [0i64; TILE]);
        for (sums, &(lower, upper)) in sums.iter().zip(weights) {
            let numbers = &sums[t];
            for k in 0..TILE {
                low[k] += i64::from(numbers[k]) * i64::from(lower);
                high[k] += i64::from(numbers[k]) * i64::from(upper);
            }
        }
        for k in 0..TILE {
            // 2^24 high = 2^24 (high mod 2^24) + 59 (high / 2^24) modulo Q.
            low[k] += ((high[k] & 0xff_ffff) << 24) + 59 * (high[k] >> 24);
        }
        for (k, &number) in low.iter().enumerate() {
            let column = k / lanes * lanes + number_of_sum(lanes / 2, k % lanes);
            out[column][lift][t] = number;
        }
    }
}

const _: () = assert!(ROWS_MAX <= 64 && FORMS_MAX <= 16, "the bounds above");
