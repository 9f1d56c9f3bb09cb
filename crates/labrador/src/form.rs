//! The one equation that remains of all equations of a level: a quadratic form, a linear form and
//! a right side over the pieces of the witness.

use std::collections::BTreeMap;

use alphorn_exec::{Exec, Stopped};

use crate::aggregate::Aggregate;
use crate::challenge::many_weights;
use crate::images::ShownLifts;
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::projection::LIFTS;
use crate::ring::{Ntt, Rq, Small, mul_mod};
use crate::schedule::Cut;
use crate::transcript::{Stream, Transcript, is_left_out};

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
        weights: &[Ntt; LIFTS],
        forms: &[Self; LIFTS],
        exec: Exec<'_>,
    ) -> Result<Self, Stopped> {
        let phis = forms.each_ref().map(|form| &form.phi[..]);
        let sides = forms.each_ref().map(|form| std::slice::from_ref(&form.rhs));
        let mut out = Self {
            quadratic: Quadratic::new(),
            phi: weighted(weights, phis, exec)?,
            rhs: exec.backend().run(Weighted(weights, sides)).remove(0),
        };
        for (weight, form) in weights.iter().zip(forms) {
            for (&(i, j), coefficient) in &form.quadratic {
                let product = Ntt::from_rq(coefficient).times(weight);
                out.add_quadratic(i, j, &product.to_rq());
            }
        }
        Ok(out)
    }

    /// The quadratic part of the left side, given the inner products `<s_i, s_j>`.
    pub(crate) fn quadratic_value(&self, garbage: &Garbage) -> Rq {
        let mut sum = Rq::ZERO;
        for (&(i, j), coefficient) in &self.quadratic {
            let product = Ntt::from_rq(coefficient).times(&Ntt::from_rq(garbage.get(i, j)));
            sum.add(&product.to_rq());
        }
        sum
    }
}

/// Elements of a task.
const CHUNK: usize = 64;

/// [`Weighted`] on threads.
pub(crate) fn weighted(
    weights: &[Ntt; LIFTS],
    vectors: [&[Rq]; LIFTS],
    exec: Exec<'_>,
) -> Result<Vec<Rq>, Stopped> {
    let parts = exec.try_map(vectors[0].len().div_ceil(CHUNK), |index| {
        let chunk = vectors.map(|vector| chunk(vector, index));
        exec.backend().run(Weighted(weights, chunk))
    })?;
    Ok(parts.concat())
}

/// Chunk `index` of a vector.
fn chunk<T>(vector: &[T], index: usize) -> &[T] {
    let rest = &vector[index * CHUNK..];
    &rest[..CHUNK.min(rest.len())]
}

/// Sums of elements with the same index, each times its weight.
pub(crate) struct Weighted<'a>(pub(crate) &'a [Ntt; LIFTS], pub(crate) [&'a [Rq]; LIFTS]);

impl Pass for Weighted<'_> {
    type Output = Vec<Rq>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Rq> {
        let mut out = Vec::with_capacity(self.1[0].len());
        for index in 0..self.1[0].len() {
            let [a, b, c] = self.1;
            let parts = [
                Ntt::from_rq_in::<V>(&a[index]),
                Ntt::from_rq_in::<V>(&b[index]),
                Ntt::from_rq_in::<V>(&c[index]),
            ];
            let sum = Ntt::dot_in::<V>(self.0.iter().zip(&parts));
            out.push(sum.to_rq_in::<V>());
        }
        out
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
    /// Adds each equation that holds in `R_Q`, with a fresh short weight. What is returned is the
    /// part of the linear form that is not added to `form.phi`.
    fn aggregate<'a>(
        &'a self,
        cut: &Cut,
        stream: &mut Stream,
        form: &mut Form,
        exec: Exec<'_>,
    ) -> Result<Option<Aggregate<'a>>, Stopped>;

    /// Adds each equation whose constant coefficient holds, with a fresh residue as weight.
    fn lift(&self, cut: &Cut, stream: &mut Stream, form: &mut Form);

    /// Whether anything is added to `form.phi`; else both methods take forms without one.
    fn has_linear_form(&self) -> bool;

    /// Elements of the cut witness that must be zero: equations in `R_Q`, whose weights are drawn
    /// after those of [`Equations::aggregate`].
    fn padding(&self, cut: &Cut) -> Vec<usize>;
}

/// The weights of the elements that must be zero.
pub(crate) fn weights_of_padding(count: usize, stream: &mut Stream) -> Vec<Small> {
    let mut out = many_weights(stream, count);
    if is_left_out!(stream, Padding) {
        out.fill(Small::ZERO);
    }
    out
}

/// The lifts of a level before their other coefficients are known: what shows that the witness is
/// short, and the equations on constant coefficients.
pub(crate) fn lifts(
    equations: &dyn Equations,
    cut: &Cut,
    shown: &ShownLifts,
    transcript: &Transcript,
    exec: Exec<'_>,
) -> Result<[Form; LIFTS], Stopped> {
    let mut forms = shown.forms(cut.pieces * cut.rank, exec)?.map(|phi| Form {
        quadratic: Quadratic::new(),
        phi,
        rhs: Rq::ZERO,
    });
    for (l, form) in forms.iter_mut().enumerate() {
        let mut stream = transcript.seed("lift equations", l as u64).stream();
        form.rhs.set_constant(shown.constant(l));
        equations.lift(cut, &mut stream, form);
    }
    Ok(forms)
}

/// `2^bits` modulo `Q`.
pub(crate) fn power(bits: u32) -> u64 {
    mul_mod(1 << (bits / 2), 1 << (bits - bits / 2))
}

/// `2^bits x`.
pub(crate) fn shifted(x: &Rq, bits: u32) -> Rq {
    x.scaled(power(bits))
}
