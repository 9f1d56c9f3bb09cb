//! The equations of [`super::Dachshund`] over its whole witness.

use alphorn_exec::{Exec, Stopped};

use super::columns::Relation;
use super::layout::{BASE, Layout, PRODUCT_DIGITS};
use super::product::Products;
use crate::aggregate::Aggregate;
use crate::challenge::weight;
use crate::form::{Equations, Form};
use crate::joint::{DrawnForms, TILE};
use crate::ring::{DEGREE, Ntt, Rq, Small, Transforms, add_mod, centred, mul_mod, reduce};
use crate::schedule::Cut;
use crate::transcript::Stream;

/// The coefficients of all forms on the columns of a tile.
fn tile(drawn: &dyn DrawnForms, forms: usize, rows: usize) -> Vec<[i16; TILE]> {
    debug_assert_eq!(drawn.targets().len(), forms);
    vec![[0; TILE]; forms * rows * DEGREE]
}

/// `L_k` of the columns, as integers.
pub(super) fn evaluate(layout: &Layout, drawn: &dyn DrawnForms, s: &[Small]) -> Vec<i64> {
    let count = drawn.targets().len();
    let mut weights = tile(drawn, count, layout.rows);
    let mut out = vec![0i64; count];
    for first in (0..layout.columns).step_by(TILE) {
        let columns = TILE.min(layout.columns - first);
        drawn.weights(first, columns, &mut weights);
        for (sum, form) in out
            .iter_mut()
            .zip(weights.chunks_exact(layout.rows * DEGREE))
        {
            for (row, weights) in form.chunks_exact(DEGREE).enumerate() {
                let elements = &s[layout.long_row(row) + first..][..columns];
                for (k, weights) in weights.iter().enumerate() {
                    let products = (weights.iter().zip(elements))
                        .map(|(&w, element)| i64::from(w) * i64::from(element.0[k]));
                    *sum += products.sum::<i64>();
                }
            }
        }
    }
    out
}

/// The equations of all columns under their challenges.
pub(super) struct Columns<'a> {
    pub(super) layout: Layout,
    pub(super) relation: Relation<'a>,
    pub(super) alphas: Vec<Ntt>,
    pub(super) drawn: Option<&'a dyn DrawnForms>,
    /// Of the forms.
    pub(super) quotients: Vec<i64>,
}

/// Columns of a task.
const CHUNK: usize = 128;

impl Columns<'_> {
    /// The norms of all columns and the squares of all bits, as two equations.
    fn add_products(&self, stream: &mut Stream, form: &mut Form) {
        let layout = &self.layout;
        let norms = Ntt::from_small_bounded(&weight(stream), 2);
        let squares = Ntt::from_small_bounded(&weight(stream), 2);
        let bits = layout.long_pieces();
        for piece in 0..bits {
            form.add_quadratic(piece, layout.first_pieces() + piece, &norms.to_rq());
        }
        form.add_quadratic(bits, layout.first_pieces() + bits, &squares.to_rq());
        let gadget = Ntt::from_rq(&layout.gadget());
        let mut sum = Rq::ZERO;
        for (i, alpha) in self.alphas.iter().enumerate() {
            let product = alpha.times(&norms);
            form.phi[layout.bit_row(0) + i].add(&product.times(&gadget).to_rq());
            let product = product.to_rq();
            for digit in 0..PRODUCT_DIGITS {
                let power = 1 << (BASE * digit as u32);
                form.phi[layout.digit_row(digit) + i].sub(&product.scaled(power));
            }
            sum.add(&product);
            let product = alpha.times(&squares).to_rq();
            form.phi[layout.digit_row(PRODUCT_DIGITS) + i].sub(&product);
        }
        form.rhs.add(&sum.scaled(layout.norm_sq));
    }

    /// `S2 = alpha sigma(S0)` in every row and column.
    fn lift_twins(&self, stream: &mut Stream, form: &mut Form) {
        let layout = &self.layout;
        let theta = stream.element();
        let mut many =
            |count: usize| -> Vec<u64> { (0..count).map(|_| stream.residue()).collect() };
        let (columns, rows) = (many(layout.columns), many(layout.twin_rows()));
        let residues = Ntt::from_rq(&theta);
        for (i, (alpha, &g)) in self.alphas.iter().zip(&columns).enumerate() {
            let turned = residues.times(alpha).sigma().to_rq();
            for (row, &f) in rows.iter().enumerate() {
                let scalar = mul_mod(f, g);
                form.phi[layout.long_row(row) + i].sub(&turned.scaled(scalar));
                form.phi[layout.twin_row(row) + i].add(&theta.scaled(scalar));
            }
        }
    }

    /// The constant coefficients of the products' digits: none of the norms', the number of ones
    /// of the bits'.
    fn lift_digits(&self, stream: &mut Stream, form: &mut Form) {
        let layout = &self.layout;
        let ones = Rq::from_integers(&[1; DEGREE]).sigma();
        let add = |form: &mut Form, place: usize, x: u64| {
            let constant = form.phi[place].coefficients()[0];
            form.phi[place].set_constant(add_mod(constant, x));
        };
        for i in 0..layout.columns {
            let (norms, squares) = (stream.residue(), stream.residue());
            for digit in 0..PRODUCT_DIGITS {
                let scalar = mul_mod(norms, 1 << (BASE * digit as u32));
                add(form, layout.digit_row(digit) + i, scalar);
            }
            add(form, layout.digit_row(PRODUCT_DIGITS) + i, squares);
            let multiple = ones.scaled(squares);
            for row in 0..layout.stack {
                form.phi[layout.bit_row(row) + i].sub(&multiple);
            }
        }
    }

    /// `sum mu_k (L_k(s) - tau_k - q v_k) = 0`.
    fn lift_forms(&self, drawn: &dyn DrawnForms, stream: &mut Stream, form: &mut Form) {
        let Relation::Forms(forms) = self.relation else {
            return;
        };
        let (layout, modulus) = (&self.layout, forms.modulus() as i64);
        let weights: Vec<u64> = drawn.targets().iter().map(|_| stream.residue()).collect();
        let mut constant = form.rhs.coefficients()[0];
        let targets = drawn.targets().iter().zip(&self.quotients);
        for ((&tau, &v), &weight) in targets.zip(&weights) {
            let value = reduce(tau as i64 + modulus * v);
            constant = add_mod(constant, mul_mod(weight, value));
        }
        form.rhs.set_constant(constant);
        let halves: Vec<(i64, i64)> = (weights.iter().map(|&weight| centred(weight)))
            .map(|weight| (weight & 0xff_ffff, weight >> 24))
            .collect();
        let width = layout.rows * DEGREE;
        let mut coefficients = tile(drawn, weights.len(), layout.rows);
        for first in (0..layout.columns).step_by(TILE) {
            let columns = TILE.min(layout.columns - first);
            drawn.weights(first, columns, &mut coefficients);
            for row in 0..layout.rows {
                let mut sums = vec![[0i64; DEGREE]; TILE];
                for k in 0..DEGREE {
                    let at = row * DEGREE + k;
                    let forms = coefficients.chunks_exact(width).map(|form| &form[at]);
                    for (column, sum) in sums.iter_mut().zip(blended(forms, &halves)) {
                        column[k] = sum;
                    }
                }
                for (i, sums) in sums[..columns].iter().enumerate() {
                    let element = Rq::from_integers(sums).sigma();
                    form.phi[layout.long_row(row) + first + i].add(&element);
                }
            }
        }
    }

    /// The equations of the quotients of some columns.
    fn add_quotients(
        &self,
        products: &Products,
        stream: &mut Stream,
        form: &mut Form,
        exec: Exec<'_>,
    ) -> Result<(), Stopped> {
        let (layout, e) = (&self.layout, products.extension());
        let weights: Vec<Small> = (0..layout.columns * e).map(|_| weight(stream)).collect();
        let parts = exec.try_map(layout.columns.div_ceil(CHUNK), |task| {
            let columns = task * CHUNK..layout.columns.min((task + 1) * CHUNK);
            let weighted = |i: usize| {
                let weights = &weights[i * e..(i + 1) * e];
                products.weighted(i, &exec.backend().residues_bounded(weights, 2))
            };
            columns.map(weighted).collect::<Vec<_>>()
        })?;
        for (i, weighted) in parts.iter().flatten().enumerate() {
            for row in 0..e {
                form.phi[layout.long_row(row) + i].add(&weighted.first[row]);
                form.phi[layout.long_row(e + row) + i].add(&weighted.second[row]);
                form.phi[layout.quotient_row(row) + i].add(&weighted.quotient[row]);
            }
            form.rhs.add(&weighted.rhs);
        }
        Ok(())
    }
}

/// `sum_k mu_k w_k` for each column of a tile, `mu` in halves of 24 bits: reduced so far that it
/// fits.
fn blended<'a>(forms: impl Iterator<Item = &'a [i16; TILE]>, halves: &[(i64, i64)]) -> [i64; TILE] {
    let (mut low, mut high) = ([0i64; TILE], [0i64; TILE]);
    for (numbers, &(lower, upper)) in forms.zip(halves) {
        for k in 0..TILE {
            low[k] += i64::from(numbers[k]) * lower;
            high[k] += i64::from(numbers[k]) * upper;
        }
    }
    // 2^24 high = 2^24 (high mod 2^24) + 59 (high / 2^24) modulo Q.
    std::array::from_fn(|k| low[k] + ((high[k] & 0xff_ffff) << 24) + 59 * (high[k] >> 24))
}

impl Equations for Columns<'_> {
    fn aggregate<'a>(
        &'a self,
        _: &Cut,
        stream: &mut Stream,
        form: &mut Form,
        exec: Exec<'_>,
    ) -> Result<Option<Aggregate<'a>>, Stopped> {
        self.add_products(stream, form);
        if let Relation::Products(products) = self.relation {
            self.add_quotients(products, stream, form, exec)?;
        }
        Ok(None)
    }

    fn lift(&self, _: &Cut, stream: &mut Stream, form: &mut Form) {
        self.lift_twins(stream, form);
        self.lift_digits(stream, form);
        if let Some(drawn) = self.drawn {
            self.lift_forms(drawn, stream, form);
        }
    }

    fn has_linear_form(&self) -> bool {
        true
    }

    fn padding(&self, _: &Cut) -> Vec<usize> {
        Vec::new()
    }
}
