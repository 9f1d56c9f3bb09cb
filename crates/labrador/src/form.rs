//! The one equation that remains of all equations of a level: a quadratic form, a linear form and
//! a right side over the pieces of the witness.

use std::collections::BTreeMap;

use crate::projection::{LIFTS, Projection, Weights};
use crate::ring::{Ntt, Rq, Small, mul_mod};
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
    pub(crate) fn weighted<const N: usize>(
        cut: &Cut,
        weights: &[Ntt; N],
        forms: &[Self; N],
    ) -> Self {
        let sum = |elements: [&Rq; N]| {
            let elements = elements.map(Ntt::from_rq);
            Ntt::dot(weights.iter().zip(&elements)).to_rq()
        };
        let mut out = Self::zero(cut);
        for (index, phi) in out.phi.iter_mut().enumerate() {
            *phi = sum(forms.each_ref().map(|form| &form.phi[index]));
        }
        out.rhs = sum(forms.each_ref().map(|form| &form.rhs));
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
    pub(crate) fn evaluate(&self, garbage: &Garbage, witness: &[Ntt]) -> Rq {
        let mut sum = Rq::ZERO;
        for (&(i, j), coefficient) in &self.quadratic {
            let product = Ntt::from_rq(coefficient).times(&Ntt::from_rq(garbage.get(i, j)));
            sum.add(&product.to_rq());
        }
        let mut linear = Ntt::zero();
        for (phi, s) in self.phi.iter().zip(witness) {
            linear.add(&Ntt::from_rq(phi).times(s));
        }
        sum.add(&linear.to_rq());
        sum
    }
}

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
) -> [Form; LIFTS] {
    let mut forms: [Form; LIFTS] = std::array::from_fn(|_| Form::zero(cut));
    for index in 0..cut.pieces * cut.rank {
        let collapsed = projection.collapse(index, weights);
        for (form, phi) in forms.iter_mut().zip(collapsed) {
            form.phi[index] = phi;
        }
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

/// The residues of a vector of short elements.
pub(crate) fn residues(vector: &[Small]) -> Vec<Ntt> {
    vector.iter().map(Ntt::from_small).collect()
}
