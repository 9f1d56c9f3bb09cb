//! The one equation that remains of all equations of a level: a quadratic form, a linear form and
//! a right side over the pieces of the witness.

use std::collections::BTreeMap;

use crate::kernel::{Backend, Pass, Vectors};
use crate::projection::{LIFTS, Projection, Weights};
use crate::ring::{Ntt, Rq, mul_mod};
use crate::schedule::Cut;
use crate::transcript::Stream;

/// Coefficients of `<s_i, s_j>` for `i <= j`; absent ones are zero.
pub(crate) type Quadratic = BTreeMap<(usize, usize), Rq>;

/// `sum a_ij <s_i, s_j> + sum <phi_i, s_i> = b`; `phi` runs over the elements of all pieces.
#[derive(Clone)]
pub(crate) struct Form {
    pub(crate) quadratic: Quadratic,
    pub(crate) phi: Vec<Rq>,
    pub(crate) rhs: Rq,
}

impl Form {
    pub(crate) fn zero(cut: &Cut) -> Self {
        Self {
            quadratic: Quadratic::new(),
            phi: vec![Rq::ZERO; cut.pieces * cut.rank],
            rhs: Rq::ZERO,
        }
    }

    /// Adds `coefficient <s_i, s_j>` to the left side.
    pub(crate) fn add_quadratic(&mut self, i: usize, j: usize, coefficient: &Rq) {
        let key = (i.min(j), i.max(j));
        self.quadratic
            .entry(key)
            .or_insert(Rq::ZERO)
            .add(coefficient);
    }

    /// The sum of the forms, each times a short weight.
    pub(crate) fn weighted(
        cut: &Cut,
        weights: &[Ntt; LIFTS],
        forms: &[Self; LIFTS],
        backend: Backend,
    ) -> Self {
        let mut out = Self::zero(cut);
        let phis = forms.each_ref().map(|form| &form.phi[..]);
        out.phi = backend.run(Weighted(weights, phis));
        let sides = forms.each_ref().map(|form| std::slice::from_ref(&form.rhs));
        out.rhs = backend.run(Weighted(weights, sides)).remove(0);
        for (weight, form) in weights.iter().zip(forms) {
            for (&(i, j), coefficient) in &form.quadratic {
                let product = Ntt::from_rq(coefficient).times(weight);
                out.add_quadratic(i, j, &product.to_rq());
            }
        }
        out
    }

    /// The value of the left side, given the inner products `<s_i, s_j>` and the residues of all
    /// elements.
    pub(crate) fn evaluate(&self, garbage: &Garbage, witness: &[Ntt], backend: Backend) -> Rq {
        let mut sum = backend.run(Linear(&self.phi[..witness.len()], witness));
        for (&(i, j), coefficient) in &self.quadratic {
            let product = Ntt::from_rq(coefficient).times(&Ntt::from_rq(garbage.get(i, j)));
            sum.add(&product.to_rq());
        }
        sum
    }
}

/// Sums of elements with the same index, each times its weight.
pub(crate) struct Weighted<'a>(pub(crate) &'a [Ntt; LIFTS], pub(crate) [&'a [Rq]; LIFTS]);

impl Pass for Weighted<'_> {
    type Output = Vec<Rq>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Rq> {
        let mut out = Vec::with_capacity(self.1[0].len());
        for index in 0..self.1[0].len() {
            let mut sum = Ntt::zero();
            for (weight, elements) in self.0.iter().zip(self.1) {
                let element = Ntt::from_rq_in::<V>(&elements[index]);
                sum.add_dot_in::<V>([(weight, &element)]);
            }
            out.push(sum.to_rq_in::<V>());
        }
        out
    }
}

/// `sum phi_k s_k`.
struct Linear<'a>(&'a [Rq], &'a [Ntt]);

impl Pass for Linear<'_> {
    type Output = Rq;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Rq {
        let mut sum = Ntt::zero();
        for (phi, s) in self.0.chunks(PRODUCTS).zip(self.1.chunks(PRODUCTS)) {
            let mut left = Vec::with_capacity(PRODUCTS);
            for phi in phi {
                left.push(Ntt::from_rq_in::<V>(phi));
            }
            sum.add_dot_in::<V>(left.iter().zip(s));
        }
        sum.to_rq_in::<V>()
    }
}

/// Products that are summed at a time.
const PRODUCTS: usize = 32;

/// A symmetric matrix of elements over the pairs of pieces, upper triangle by rows.
#[derive(Clone)]
pub(crate) struct Garbage {
    pieces: usize,
    pub(crate) elements: Vec<Rq>,
}

impl Garbage {
    /// # Panics
    /// If the number of elements is not that of the pairs.
    pub(crate) fn new(pieces: usize, elements: Vec<Rq>) -> Self {
        assert_eq!(elements.len(), pieces * (pieces + 1) / 2);
        Self { pieces, elements }
    }

    pub(crate) fn get(&self, i: usize, j: usize) -> &Rq {
        let (i, j) = (i.min(j), i.max(j));
        &self.elements[i * self.pieces - i * (i + 1) / 2 + j]
    }
}

/// All pairs `i <= j`, in the order of [`Garbage`].
pub(crate) fn pairs(pieces: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..pieces).flat_map(move |i| (i..pieces).map(move |j| (i, j)))
}

/// The equations of a level, known to both sides. A lift is an equation whose constant
/// coefficient alone must hold; its form has it as the constant of `rhs`.
pub(crate) trait Equations {
    /// Adds each equation that holds in `R_Q`, with a fresh short weight.
    fn aggregate(&self, cut: &Cut, stream: &mut Stream, form: &mut Form);

    /// Adds each equation whose constant coefficient holds, with a fresh residue as weight.
    fn lift(&self, cut: &Cut, stream: &mut Stream, form: &mut Form);

    /// Elements of the cut witness that must be zero.
    fn padding(&self, cut: &Cut) -> Vec<usize>;
}

/// The lifts of a level before their other coefficients are known: the projection, the equations
/// on constant coefficients, and random multiples of everything that must be zero.
pub(crate) fn lifts(
    equations: &dyn Equations,
    cut: &Cut,
    projection: &Projection,
    weights: &[Weights; LIFTS],
    images: [u64; LIFTS],
    streams: &mut [Stream; LIFTS],
    backend: Backend,
) -> [Form; LIFTS] {
    let mut forms: [Form; LIFTS] = std::array::from_fn(|_| Form::zero(cut));
    for (l, phi) in projection
        .collapse(0..cut.pieces * cut.rank, weights, backend)
        .into_iter()
        .enumerate()
    {
        forms[l].phi = phi;
    }
    let padding = equations.padding(cut);
    for ((form, stream), image) in forms.iter_mut().zip(streams).zip(images) {
        form.rhs.set_constant(image);
        equations.lift(cut, stream, form);
        for &index in &padding {
            form.phi[index].add(&stream.element());
        }
    }
    forms
}

/// `2^bits x`.
pub(crate) fn shifted(x: &Rq, bits: u32) -> Rq {
    x.scaled(mul_mod(1 << (bits / 2), 1 << (bits - bits / 2)))
}
