//! The equations on constant coefficients, each with random weights, as one form a lift.
//!
//! | equation | weights |
//! |---|---|
//! | images: `y_(p,b) = J s_(p,b)` for every block | a scalar a block, one a row of `J` |
//! | projection: `p = Pi (y; y_0; y_1)` | a scalar a row of `Pi` |
//! | conjugation: `S2 = alpha sigma(S0)` | a scalar a column, one a row, and an element `theta` |
//! | products: `ct(sum 2^(9 d) S1_d) = 0` | a scalar a column |
//! | zeros behind `Y` | a scalar a place, times `theta` |
//! | forms: `L_k(s) = tau_k + q v_k` | a scalar a form |
//!
//! A product of two independent uniform scalars, or of a scalar and `ct(theta x)`, is enough: if an
//! equation is false, a lift holds with probability of at most `3/Q`.

use super::layout::{BASE, BLOCK, FORMS_MAX, Layout, PRODUCT_DIGITS};
use super::{DrawnForms, TILE};
use crate::form::Form;
use crate::kernel::Backend;
use crate::projection::{LIFTS, Projection, ROWS, Weights, weigh, weights};
use crate::ring::{DEGREE, Ntt, Q, Rq, add_mod, centred, mul_mod, reduce};
use crate::schedule::Cut;
use crate::transcript::{Stream, Transcript};

/// The random weights of one lift.
pub(crate) struct Lift {
    /// For the rows of `J`.
    pub(crate) rows: Weights,
    pub(crate) blocks: Vec<u64>,
    pub(crate) columns: Vec<u64>,
    pub(crate) long_rows: Vec<u64>,
    pub(crate) products: Vec<u64>,
    pub(crate) padding: Vec<u64>,
    pub(crate) forms: Vec<u64>,
    pub(crate) theta: Rq,
}

/// The weights of all lifts.
pub(crate) struct Lifts {
    /// For the rows of `Pi`.
    pub(crate) projection: [Weights; LIFTS],
    pub(crate) each: [Lift; LIFTS],
}

/// Everything public that the lifts speak of.
pub(crate) struct Public<'a> {
    pub(crate) layout: Layout,
    pub(crate) modulus: u64,
    pub(crate) forms: &'a dyn DrawnForms,
    pub(crate) alphas: Vec<Ntt>,
    pub(crate) blocks: Projection,
    pub(crate) quotients: Vec<i64>,
    pub(crate) projection: Projection,
    pub(crate) image: [i64; ROWS],
}

impl Lift {
    fn draw(layout: &Layout, forms: usize, stream: &mut Stream) -> Self {
        let [rows, _, _] = weights(stream);
        let places = layout.elements() - layout.image_start() - 2 * layout.image_elements();
        let mut many = |count: usize| (0..count).map(|_| stream.residue()).collect();
        let (blocks, columns) = (many(layout.blocks()), many(layout.columns));
        let (long_rows, products) = (many(layout.long_rows()), many(layout.columns));
        let (padding, forms) = (many(places), many(forms));
        Self {
            rows,
            blocks,
            columns,
            long_rows,
            products,
            padding,
            forms,
            theta: stream.element(),
        }
    }
}

impl Lifts {
    pub(crate) fn draw(layout: &Layout, forms: usize, transcript: &Transcript) -> Self {
        let stream = |l: usize| transcript.seed("lift equations", l as u64).stream();
        Self {
            projection: weights(&mut transcript.seed("lift projection", 0).stream()),
            each: std::array::from_fn(|l| Lift::draw(layout, forms, &mut stream(l))),
        }
    }
}

impl Public<'_> {
    /// The constant coefficient of a lift: `<omega', p> + sum mu_k (tau_k + q v_k)`.
    pub(crate) fn constant(&self, lifts: &Lifts, lift: usize) -> u64 {
        let targets = self.forms.targets().iter().zip(&self.quotients);
        let values = targets.map(|(&tau, &v)| reduce(tau as i64 + self.modulus as i64 * v));
        let weighted = (values.zip(&lifts.each[lift].forms)).map(|(x, &mu)| mul_mod(x, mu));
        let start = weigh(&lifts.projection[lift], &self.image);
        weighted.fold(start, add_mod)
    }

    /// All lifts as forms over the whole witness.
    pub(crate) fn forms(&self, cut: &Cut, lifts: &Lifts, backend: Backend) -> [Form; LIFTS] {
        let mut forms: [Form; LIFTS] = std::array::from_fn(|_| Form::zero(cut));
        self.add_blocks(lifts, &mut forms, backend);
        for (form, images) in forms.iter_mut().zip(self.image_forms(lifts, backend)) {
            form.phi[self.layout.image_start()..].clone_from_slice(&images);
        }
        for (l, form) in forms.iter_mut().enumerate() {
            self.add_conjugation(&lifts.each[l], form);
            self.add_products(&lifts.each[l], form);
            form.rhs.set_constant(self.constant(lifts, l));
        }
        self.add_linear(lifts, &mut forms);
        forms
    }

    /// `- e_(p,b) <omega, J s_(p,b)>` on `S0` and `S1`.
    fn add_blocks(&self, lifts: &Lifts, forms: &mut [Form; LIFTS], backend: Backend) {
        let rank = self.layout.rank();
        let rows = lifts.each.each_ref().map(|lift| lift.rows);
        let span = BLOCK.min(rank);
        let collapsed = self.blocks.collapse(0..span, &rows, backend);
        for offset in 0..span {
            for block in 0..self.layout.blocks() {
                let (piece, within) = (
                    block / self.layout.piece_blocks(),
                    block % self.layout.piece_blocks() * BLOCK + offset,
                );
                if within >= rank {
                    continue;
                }
                for ((form, lift), elements) in forms.iter_mut().zip(&lifts.each).zip(&collapsed) {
                    let element = elements[offset].scaled(lift.blocks[block]);
                    form.phi[piece * rank + within].sub(&element);
                }
            }
        }
    }

    /// The lifts over the pieces of `Y`, where `y = y_0 + 2^9 y_1`:
    /// `e_(p,b) <omega, y_(p,b)> + <omega', Pi (y; y_0; y_1)>`, and random multiples of the zeros
    /// behind.
    pub(crate) fn image_forms(&self, lifts: &Lifts, backend: Backend) -> [Vec<Rq>; LIFTS] {
        let count = self.layout.image_elements();
        let places = self.layout.elements() - self.layout.image_start();
        let columns = (self.projection).collapse(0..3 * count, &lifts.projection, backend);
        std::array::from_fn(|l| {
            let (lift, columns) = (&lifts.each[l], &columns[l]);
            let mut phi = vec![Rq::ZERO; places];
            for index in 0..count {
                let mut image = self.image_weights(lift, index);
                image.add(&columns[2 * count + index]);
                phi[index].clone_from(&columns[index]);
                phi[index].add(&image);
                phi[count + index].clone_from(&columns[count + index]);
                phi[count + index].add(&image.scaled(1 << BASE));
            }
            for (phi, &g) in phi[2 * count..].iter_mut().zip(&lift.padding) {
                *phi = lift.theta.scaled(g);
            }
            phi
        })
    }

    /// The element whose product with element `index` of the images has the constant coefficient
    /// `e_(p,b) <omega, y>`.
    fn image_weights(&self, lift: &Lift, index: usize) -> Rq {
        let quarters = ROWS / DEGREE;
        let (block, quarter) = (index / quarters, index % quarters);
        let mut coefficients = [0; DEGREE];
        coefficients.copy_from_slice(&lift.rows[quarter * DEGREE..(quarter + 1) * DEGREE]);
        let element = Rq::from_canonical(coefficients).expect("weights are residues");
        element.sigma().scaled(lift.blocks[block])
    }

    /// `g_i f_j (ct(theta S2) - ct(sigma(theta alpha_i) S0))`.
    fn add_conjugation(&self, lift: &Lift, form: &mut Form) {
        let theta = Ntt::from_rq(&lift.theta);
        for (i, (alpha, &g)) in self.alphas.iter().zip(&lift.columns).enumerate() {
            let turned = theta.times(alpha).sigma().to_rq();
            for (row, &f) in lift.long_rows.iter().enumerate() {
                let scalar = mul_mod(f, g);
                let (long, conjugate) = (
                    self.layout.long_row(row) + i,
                    self.layout.conjugate_row(row) + i,
                );
                form.phi[long].sub(&turned.scaled(scalar));
                form.phi[conjugate].add(&lift.theta.scaled(scalar));
            }
        }
    }

    fn add_products(&self, lift: &Lift, form: &mut Form) {
        for digit in 0..PRODUCT_DIGITS {
            let power = 1 << (BASE * digit as u32);
            let start = self.layout.digit_row(digit);
            for (phi, &g) in form.phi[start..].iter_mut().zip(&lift.products) {
                let constant = add_mod(phi.coefficients()[0], mul_mod(g, power));
                phi.set_constant(constant);
            }
        }
    }

    /// `sum mu_k L_k` on the rows of `S0` that are no slack.
    fn add_linear(&self, lifts: &Lifts, forms: &mut [Form; LIFTS]) {
        let mut tile = LinearTile::new(&self.layout, lifts);
        for first in (0..self.layout.columns).step_by(TILE) {
            let count = TILE.min(self.layout.columns - first);
            tile.load(self.forms, first, count);
            for (l, form) in forms.iter_mut().enumerate() {
                for column in 0..count {
                    for row in 0..self.layout.rows {
                        let place = self.layout.long_row(row) + first + column;
                        form.phi[place].add(&tile.element(l, column, row));
                    }
                }
            }
        }
    }
}

/// `sum_k mu_k L_k` for the columns of a tile.
pub(crate) struct LinearTile {
    width: usize,
    count: usize,
    /// The weights of all lifts in halves of 24 bits, centred: `low + 2^24 high`.
    mu: [[[i32; 2]; FORMS_MAX]; LIFTS],
    weights: Vec<i16>,
}

impl LinearTile {
    pub(crate) fn new(layout: &Layout, lifts: &Lifts) -> Self {
        let mut tile = Self::weights_only(layout, lifts.each[0].forms.len());
        for (halves, lift) in tile.mu.iter_mut().zip(&lifts.each) {
            for (halves, &weight) in halves.iter_mut().zip(&lift.forms) {
                let weight = centred(weight);
                *halves = [(weight & 0xff_ffff) as i32, (weight >> 24) as i32];
            }
        }
        tile
    }

    /// A tile without lifts, for the coefficients of single forms.
    pub(crate) fn weights_only(layout: &Layout, count: usize) -> Self {
        let width = layout.rows * DEGREE;
        Self {
            width,
            count,
            mu: [[[0; 2]; FORMS_MAX]; LIFTS],
            weights: vec![0; TILE * count * width],
        }
    }

    /// Computes the coefficients of the forms on columns `first..first + columns`.
    pub(crate) fn load(&mut self, forms: &dyn DrawnForms, first: usize, columns: usize) {
        let used = columns * self.count * self.width;
        forms.weights(first, columns, &mut self.weights[..used]);
    }

    /// The coefficients of form `form` on a column of the tile.
    #[inline(always)]
    pub(crate) fn row(&self, column: usize, form: usize) -> &[i16] {
        &self.weights[(column * self.count + form) * self.width..][..self.width]
    }

    /// The element whose product with row `row` of a column has the constant coefficient
    /// `sum_k mu_k L_k`.
    #[inline(always)]
    pub(crate) fn element(&self, lift: usize, column: usize, row: usize) -> Rq {
        let (mut low, mut high) = ([0i64; DEGREE], [0i64; DEGREE]);
        for form in 0..self.count {
            let [mu_low, mu_high] = self.mu[lift][form];
            let weights = &self.row(column, form)[row * DEGREE..(row + 1) * DEGREE];
            // 16 products below 2^24 * 2^14.
            for ((low, high), &weight) in low.iter_mut().zip(&mut high).zip(weights) {
                *low += i64::from(mu_low) * i64::from(weight);
                *high += i64::from(mu_high) * i64::from(weight);
            }
        }
        let mut sums = [0i64; DEGREE];
        for ((sum, low), high) in sums.iter_mut().zip(low).zip(high) {
            // 2^24 high = 2^24 (high mod 2^24) + 59 (high / 2^24) modulo Q.
            *sum = low + ((high & 0xff_ffff) << 24) + (((1 << 48) - Q as i64) * (high >> 24));
        }
        Rq::from_integers(&sums).sigma()
    }
}
