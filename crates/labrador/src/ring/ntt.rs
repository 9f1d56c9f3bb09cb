//! Elements of `R` as residues at the roots of `X^64 + 1`, where products are pointwise.

mod diagonals;

use alphorn_exec::Backend;

pub(crate) use diagonals::Diagonals;

use super::lift;
use super::residues::{BOUND, Row};
use super::rows::{self, PRODUCTS_MAX, Rows};
use super::transform;
use super::{DEGREE, Q, Rq, Small};
use crate::kernel::{Dispatch, Pass, Vectors};

/// An **integer** polynomial (not reduced modulo `Q`) in residues modulo eight primes, evaluated
/// at the roots of `X^64 + 1`.
///
/// Each value carries bounds on its coefficients and on the sum of their absolute values, which
/// depend only on the operations, never on the data. Converting back to [`Rq`] asserts that
/// coefficients are below half the product of the primes, so an overflow is impossible rather than
/// merely rare.
///
/// Methods run on the portable level; methods whose names end in `_in` run on the level of the enclosing pass.
#[derive(Clone)]
pub(crate) struct Ntt {
    rows: Rows,
    bound: Bound,
}

/// Bounds of an integer polynomial, up to a rounding error of `2^-53` per operation. [`Ntt::to_rq_in`] leaves
/// room for an error of a millionth, which would take a billion operations.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// Bound on each coefficient.
    max: f64,
    /// Bound on the sum of the absolute values of all coefficients.
    sum: f64,
}

impl Bound {
    pub(super) const ZERO: Self = Self { max: 0.0, sum: 0.0 };

    #[inline(always)]
    fn coefficients(max: u64) -> Self {
        let max = max as f64;
        Self {
            max,
            sum: max * DEGREE as f64,
        }
    }

    /// Bound that holds for either of two polynomials.
    #[inline(always)]
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            max: self.max.max(other.max),
            sum: self.sum.max(other.sum),
        }
    }

    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            max: self.max + other.max,
            sum: self.sum + other.sum,
        }
    }

    /// Bound of a product: each of its coefficients is a sum of products of the coefficients of both in some order.
    #[inline(always)]
    pub(super) fn times(self, other: Self) -> Self {
        let (one, two) = (self.max * other.sum, self.sum * other.max);
        Self {
            max: one.min(two),
            sum: self.sum * other.sum,
        }
    }

    /// Bound of a sum of `count` such polynomials.
    #[inline(always)]
    pub(super) fn many(self, count: usize) -> Self {
        Self {
            max: self.max * count as f64,
            sum: self.sum * count as f64,
        }
    }
}

impl Ntt {
    pub(super) fn of_rows(rows: Rows, bound: Bound) -> Self {
        Self { rows, bound }
    }

    #[inline(always)]
    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    #[inline(always)]
    pub(super) fn bound(&self) -> Bound {
        self.bound
    }

    /// The zero element.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn zero() -> Self {
        Self {
            rows: Rows::ZERO,
            bound: Bound::ZERO,
        }
    }

    /// Converts an element with 16-bit coefficients.
    #[cfg(test)]
    pub(crate) fn from_small(x: &Small) -> Self {
        Self::from_small_bounded(x, 1 << 15)
    }

    /// Converts an element whose coefficients are known to be at most `bound` in absolute value.
    #[must_use]
    pub(crate) fn from_small_bounded(x: &Small, bound: u16) -> Self {
        Backend::Portable.run(OfSmall(x, bound))
    }

    /// As [`Ntt::from_small_bounded`].
    #[must_use]
    #[inline(always)]
    pub(crate) fn from_small_in<V: Vectors>(x: &Small, bound: u16) -> Self {
        let mut out = Self::zero();
        out.set_small_in::<V>(x, bound);
        out
    }

    /// Overwrites `self` with the result of [`Ntt::from_small_in`].
    #[inline(always)]
    pub(crate) fn set_small_in<V: Vectors>(&mut self, x: &Small, bound: u16) {
        debug_assert!(x.0.iter().all(|c| c.unsigned_abs() <= bound));
        self.bound = Bound::coefficients(u64::from(bound));
        rows::of_small::<V>(&x.0, &mut self.rows);
        transform::forward::<V>(&mut self.rows);
    }

    /// Returns the centred representative of a residue class.
    #[must_use]
    pub(crate) fn from_rq(x: &Rq) -> Self {
        Self::from_integers(&x.centred(), Q / 2, Backend::Portable)
    }

    /// Overwrites `self` with the result of [`Ntt::from_rq`].
    #[inline(always)]
    pub(crate) fn set_rq_in<V: Vectors>(&mut self, x: &Rq) {
        self.set_integers_in::<V>(&x.centred(), Q / 2);
    }

    /// Overwrites `self` with [`Ntt::from_rq`] of `2^bits x`.
    #[inline(always)]
    pub(crate) fn set_shifted_in<V: Vectors>(&mut self, x: &Rq, bits: u32) {
        let mut numbers = x.centred();
        let mut left = bits;
        while left > 0 {
            // A centred number has 47 bits and a sign.
            let step = left.min(15);
            for number in &mut numbers {
                *number = super::centred(super::reduce(*number << step));
            }
            left -= step;
        }
        self.set_integers_in::<V>(&numbers, Q / 2);
    }

    /// Converts an integer polynomial whose coefficients are at most `bound` in absolute value.
    ///
    /// # Panics
    /// If the bound is not below `2^47`, or a coefficient exceeds it.
    #[must_use]
    pub(crate) fn from_integers(centred: &[i64; DEGREE], bound: u64, backend: Backend) -> Self {
        assert!(bound < 1 << 47 && centred.iter().all(|c| c.unsigned_abs() <= bound));
        backend.run(OfIntegers(centred, bound))
    }

    /// Overwrites `self` with [`Ntt::from_integers`] of numbers known to be at most `bound`.
    #[inline(always)]
    fn set_integers_in<V: Vectors>(&mut self, centred: &[i64; DEGREE], bound: u64) {
        self.bound = Bound::coefficients(bound);
        rows::of_centred::<V>(centred, &mut self.rows);
        transform::forward::<V>(&mut self.rows);
    }

    /// Overwrites `self` with the classes of integers that are not yet reduced, each by its centred representative.
    #[inline(always)]
    pub(crate) fn set_sums_in<V: Vectors>(&mut self, sums: &[i64; DEGREE]) {
        let mut centred = [0; DEGREE];
        for (c, &sum) in centred.iter_mut().zip(sums) {
            *c = super::centred(super::reduce(sum));
        }
        self.set_integers_in::<V>(&centred, Q / 2);
    }

    /// Returns, for many residues in `[0, Q)`, the row that the constant has at every root, using the centred
    /// representative.
    #[must_use]
    #[inline(always)]
    pub(crate) fn constant_rows_in<V: Vectors>(residues: &[u64]) -> Vec<Row> {
        let mut out = Vec::with_capacity(residues.len());
        for chunk in residues.chunks(DEGREE) {
            let mut centred = [0; DEGREE];
            for (c, &x) in centred.iter_mut().zip(chunk) {
                *c = super::centred(x);
            }
            let mut rows = Rows::ZERO;
            rows::of_centred::<V>(&centred, &mut rows);
            out.extend_from_slice(&rows.0.as_chunks().0[..chunk.len()]);
        }
        out
    }

    /// Overwrites `self` with the constant of such a row.
    #[inline(always)]
    pub(crate) fn set_constant(&mut self, row: &Row) {
        let max = (Q / 2) as f64;
        self.bound = Bound { max, sum: max };
        self.rows.0.as_chunks_mut().0.fill(*row);
    }

    /// Converts many residues in `[0, Q)` to constants, each the centred representative.
    #[must_use]
    pub(crate) fn constants(residues: &[u64], backend: Backend) -> Vec<Self> {
        backend.run(Constants(residues))
    }

    /// Returns the residue class of this integer polynomial modulo `Q`.
    ///
    /// # Panics
    /// If the operations that produced this value allow coefficients beyond the residue system. This is a
    /// programming error and does not depend on the data.
    #[must_use]
    pub(crate) fn to_rq(&self) -> Rq {
        Backend::Portable.run(ToRq(self))
    }

    /// As [`Ntt::to_rq`].
    ///
    /// # Panics
    /// As [`Ntt::to_rq`].
    #[must_use]
    #[inline(always)]
    pub(crate) fn to_rq_in<V: Vectors>(&self) -> Rq {
        let mut out = Rq::ZERO;
        self.write_rq_in::<V>(&mut out);
        out
    }

    /// Writes the result of [`Ntt::to_rq`] to `out`.
    ///
    /// # Panics
    /// As [`Ntt::to_rq`].
    #[inline(always)]
    fn write_rq_in<V: Vectors>(&self, out: &mut Rq) {
        assert!(
            self.bound.max <= BOUND as f64 * (1.0 - 1e-6),
            "a sum of products was not refreshed"
        );
        lift::lift::<V>(&self.rows, &mut out.0);
    }

    /// Returns the centred representative of the class modulo `Q`: the same class with the smallest bound.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn refreshed(&self) -> Self {
        Self::from_rq(&self.to_rq())
    }

    /// Adds `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        Backend::Portable.run(Add(self, other));
    }

    /// As [`Ntt::add`].
    #[inline(always)]
    pub(crate) fn add_in<V: Vectors>(&mut self, other: &Self) {
        self.bound = self.bound.plus(other.bound);
        rows::add::<V>(&mut self.rows.0, &other.rows.0);
    }

    /// Returns the product.
    #[must_use]
    pub(crate) fn times(&self, other: &Self) -> Self {
        Backend::Portable.run(Times(self, other))
    }

    /// As [`Ntt::times`].
    #[must_use]
    #[inline(always)]
    pub(crate) fn times_in<V: Vectors>(&self, other: &Self) -> Self {
        Self {
            rows: rows::multiply::<V>(&self.rows, &other.rows),
            bound: self.bound.times(other.bound),
        }
    }

    /// Writes the product with `X`.
    #[inline(always)]
    fn by_x_in<V: Vectors>(&self, out: &mut Self) {
        transform::by_x::<V::Wide>(&self.rows, &mut out.rows);
        out.bound = self.bound;
    }

    /// The same, but leaves the values unreduced; for [`Ntt::add_diagonals_in`] only.
    #[inline(always)]
    pub(crate) fn by_x_loosely_in<V: Vectors>(&self, out: &mut Self) {
        transform::by_x_loosely::<V::Wide>(&self.rows, &mut out.rows);
        out.bound = self.bound;
    }

    /// Returns the sum of the products of pairs.
    #[must_use]
    pub(crate) fn dot<'a>(pairs: impl IntoIterator<Item = (&'a Self, &'a Self)>) -> Self {
        Backend::Portable.run(Dot(pairs.into_iter()))
    }

    /// As [`Ntt::dot`].
    #[must_use]
    #[inline(always)]
    pub(crate) fn dot_in<'a, V: Vectors>(
        pairs: impl IntoIterator<Item = (&'a Self, &'a Self)>,
    ) -> Self {
        let mut out = Self::zero();
        out.add_dot_in::<V>(pairs);
        out
    }

    /// Adds the product of two values.
    #[inline(always)]
    pub(crate) fn add_scaled_in<V: Vectors>(&mut self, x: &Self, by: &Scaled) {
        self.bound = self.bound.plus(x.bound.times(by.0.bound));
        rows::add_scaled::<V>(&mut self.rows, &x.rows, &by.0.rows);
    }

    /// Prefetches the numbers, which are read soon.
    #[inline(always)]
    pub(crate) fn prefetch_in<V: Vectors>(&self) {
        V::prefetch(&self.rows.0);
    }

    /// Adds the products of pairs.
    #[inline(always)]
    pub(crate) fn add_dot_in<'a, V: Vectors>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'a Self, &'a Self)>,
    ) {
        let mut pairs = pairs.into_iter();
        let Some(first) = pairs.next() else {
            return;
        };
        let mut held = [(&first.0.rows, &first.1.rows); PRODUCTS_MAX];
        let mut count = 1;
        self.bound = self.bound.plus(first.0.bound.times(first.1.bound));
        for (a, b) in pairs {
            if count == PRODUCTS_MAX {
                rows::add_products::<V>(&mut self.rows, &held);
                count = 0;
            }
            self.bound = self.bound.plus(a.bound.times(b.bound));
            held[count] = (&a.rows, &b.rows);
            count += 1;
        }
        rows::add_products::<V>(&mut self.rows, &held[..count]);
    }
}

/// A factor of sums: holds the values of an element times `2^16`, so that a product or a sum of products needs only
/// one Montgomery division and no correction for it.
#[derive(Clone)]
pub(crate) struct Scaled(Ntt);

/// Defines a pass that evaluates an expression on a level.
macro_rules! pass {
    ($name:ident ( $($field:ty),* ), |$self:ident, $v:ident| $run:expr => $output:ty) => {
        struct $name<'a>($(&'a $field,)*);

        impl Pass for $name<'_> {
            type Output = $output;

            #[inline(always)]
            fn run<$v: Vectors>($self) -> $output {
                $run
            }
        }
    };
}

struct OfSmall<'a>(&'a Small, u16);

impl Pass for OfSmall<'_> {
    type Output = Ntt;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Ntt {
        Ntt::from_small_in::<V>(self.0, self.1)
    }
}

struct OfIntegers<'a>(&'a [i64; DEGREE], u64);

impl Pass for OfIntegers<'_> {
    type Output = Ntt;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Ntt {
        let mut out = Ntt::zero();
        out.set_integers_in::<V>(self.0, self.1);
        out
    }
}

struct Constants<'a>(&'a [u64]);

impl Pass for Constants<'_> {
    type Output = Vec<Ntt>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Ntt> {
        let mut out = vec![Ntt::zero(); self.0.len()];
        for (out, row) in out.iter_mut().zip(&Ntt::constant_rows_in::<V>(self.0)) {
            out.set_constant(row);
        }
        out
    }
}

struct Add<'a>(&'a mut Ntt, &'a Ntt);

impl Pass for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        self.0.add_in::<V>(self.1);
    }
}

struct Dot<I>(I);

impl<'a, I: Iterator<Item = (&'a Ntt, &'a Ntt)>> Pass for Dot<I> {
    type Output = Ntt;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Ntt {
        Ntt::dot_in::<V>(self.0)
    }
}

pass!(OfRq(Rq), |self, V| {
    let mut out = Ntt::zero();
    out.set_rq_in::<V>(self.0);
    out
} => Ntt);
pass!(ToRq(Ntt), |self, V| self.0.to_rq_in::<V>() => Rq);
pass!(Times(Ntt, Ntt), |self, V| self.0.times_in::<V>(self.1) => Ntt);

/// Appends `count` zeros to a vector and returns them to be overwritten. Numbers computed elsewhere and then
/// pushed would be copied, some of them twice.
#[inline(always)]
fn new(vector: &mut Vec<Ntt>, count: usize) -> &mut [Ntt] {
    let before = vector.len();
    vector.resize(before + count, Ntt::zero());
    &mut vector[before..]
}

/// Appends residues of short elements with a bound on the coefficients.
struct ManySmall<'a>(&'a [Small], u16, &'a mut Vec<Ntt>);

impl Pass for ManySmall<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        for (out, x) in new(self.2, self.0.len()).iter_mut().zip(self.0) {
            out.set_small_in::<V>(x, self.1);
        }
    }
}

/// Appends residues of classes.
struct ManyOf<'a>(&'a [Rq], &'a mut Vec<Ntt>);

impl Pass for ManyOf<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        for (out, x) in new(self.1, self.0.len()).iter_mut().zip(self.0) {
            out.set_rq_in::<V>(x);
        }
    }
}

pass!(ManyTo([Ntt]), |self, V| {
    let mut out = vec![Rq::ZERO; self.0.len()];
    for (x, out) in self.0.iter().zip(&mut out) {
        x.write_rq_in::<V>(out);
    }
    out
} => Vec<Rq>);

pass!(ManyScaled(Ntt, [Ntt]), |self, V| {
    let mut out = Vec::with_capacity(self.1.len());
    for x in self.1 {
        let mut product = x.times_in::<V>(self.0);
        rows::scale::<V>(&mut product.rows);
        out.push(Scaled(product));
    }
    out
} => Vec<Scaled>);

pass!(ManyToScaled([Ntt]), |self, V| {
    let mut out = Vec::with_capacity(self.0.len());
    for x in self.0 {
        let mut scaled = x.clone();
        rows::scale::<V>(&mut scaled.rows);
        out.push(Scaled(scaled));
    }
    out
} => Vec<Scaled>);

pass!(ManyByX([Ntt]), |self, V| {
    let mut out = vec![Ntt::zero(); self.0.len()];
    for (x, out) in self.0.iter().zip(&mut out) {
        x.by_x_in::<V>(out);
    }
    out
} => Vec<Ntt>);

/// Conversions between elements and residues, on a kernel.
pub(crate) trait Transforms: Copy {
    /// Returns the product of two integer polynomials.
    #[must_use]
    fn product(self, a: &Ntt, b: &Ntt) -> Ntt;

    /// Converts many polynomials to factors of sums.
    #[must_use]
    fn scaled(self, vector: &[Ntt]) -> Vec<Scaled>;

    /// Returns the products of one integer polynomial and many, as factors of sums.
    #[must_use]
    fn scaled_products(self, by: &Ntt, vector: &[Ntt]) -> Vec<Scaled>;

    /// Returns the products of `X` and many polynomials.
    #[must_use]
    fn many_by_x(self, vector: &[Ntt]) -> Vec<Ntt>;

    /// Returns the sum of the products of pairs.
    #[must_use]
    fn dot<'a>(self, pairs: impl IntoIterator<Item = (&'a Ntt, &'a Ntt)>) -> Ntt;

    /// Returns the centred representative of a class.
    #[must_use]
    fn transform(self, x: &Rq) -> Ntt;

    /// Returns the class of an integer polynomial.
    ///
    /// # Panics
    /// As [`Ntt::to_rq`].
    #[must_use]
    fn element(self, x: &Ntt) -> Rq;

    /// Returns the residues of many short elements.
    #[must_use]
    fn residues(self, vector: &[Small]) -> Vec<Ntt>;

    /// Returns the residues of many elements with coefficients of at most `bound` in absolute value.
    #[must_use]
    fn residues_bounded(self, vector: &[Small], bound: u16) -> Vec<Ntt>;

    /// Appends the residues of many short elements.
    fn add_residues(self, vector: &[Small], out: &mut Vec<Ntt>);

    /// Returns the residues of the centred representatives of many classes.
    #[must_use]
    fn transforms(self, vector: &[Rq]) -> Vec<Ntt>;

    /// Appends the residues of many classes.
    fn add_transforms(self, vector: &[Rq], out: &mut Vec<Ntt>);

    /// Returns the classes of many integer polynomials.
    ///
    /// # Panics
    /// As [`Ntt::to_rq`].
    #[must_use]
    fn elements(self, vector: &[Ntt]) -> Vec<Rq>;
}

impl Transforms for Backend {
    fn product(self, a: &Ntt, b: &Ntt) -> Ntt {
        self.run(Times(a, b))
    }

    fn scaled(self, vector: &[Ntt]) -> Vec<Scaled> {
        self.run(ManyToScaled(vector))
    }

    fn scaled_products(self, by: &Ntt, vector: &[Ntt]) -> Vec<Scaled> {
        self.run(ManyScaled(by, vector))
    }

    fn many_by_x(self, vector: &[Ntt]) -> Vec<Ntt> {
        self.run(ManyByX(vector))
    }

    fn dot<'a>(self, pairs: impl IntoIterator<Item = (&'a Ntt, &'a Ntt)>) -> Ntt {
        self.run(Dot(pairs.into_iter()))
    }

    fn transform(self, x: &Rq) -> Ntt {
        self.run(OfRq(x))
    }

    fn element(self, x: &Ntt) -> Rq {
        self.run(ToRq(x))
    }

    fn residues(self, vector: &[Small]) -> Vec<Ntt> {
        self.residues_bounded(vector, 1 << 15)
    }

    fn residues_bounded(self, vector: &[Small], bound: u16) -> Vec<Ntt> {
        let mut out = Vec::new();
        self.run(ManySmall(vector, bound, &mut out));
        out
    }

    fn add_residues(self, vector: &[Small], out: &mut Vec<Ntt>) {
        self.run(ManySmall(vector, 1 << 15, out));
    }

    fn transforms(self, vector: &[Rq]) -> Vec<Ntt> {
        let mut out = Vec::new();
        self.add_transforms(vector, &mut out);
        out
    }

    fn add_transforms(self, vector: &[Rq], out: &mut Vec<Ntt>) {
        self.run(ManyOf(vector, out));
    }

    fn elements(self, vector: &[Ntt]) -> Vec<Rq> {
        self.run(ManyTo(vector))
    }
}
