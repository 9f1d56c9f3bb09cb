//! Elements of `R` as residues at the roots of `X^64 + 1`, where products are pointwise.

use super::residues::{BOUND, PRIMES};
use super::rows::{self, PRODUCTS_MAX, Rows, SIZE};
use super::{DEGREE, Q, Rq, Small};
use crate::kernel::{Backend, Pass, Vectors};

/// An **integer** polynomial (not reduced modulo `Q`) in residues modulo eight primes, evaluated
/// at the roots of `X^64 + 1`.
///
/// Each value carries a bound of its coefficients that depends on the operations alone, never on
/// the data; leaving the residues for [`Rq`] asserts that the bound is below half the product of
/// the primes, so an overflow is impossible rather than rare.
///
/// A method works on the portable level; one that ends in `_in` on the level of the pass around it.
#[derive(Clone)]
pub struct Ntt {
    rows: Rows,
    bound: u128,
}

impl Ntt {
    /// The zero element.
    #[must_use]
    #[inline(always)]
    pub fn zero() -> Self {
        Self {
            rows: Rows([0; SIZE]),
            bound: 0,
        }
    }

    /// An element with 16-bit coefficients.
    #[must_use]
    pub fn from_small(x: &Small) -> Self {
        Self::from_small_bounded(x, 1 << 15)
    }

    /// An element whose coefficients are known to be at most `bound` in absolute value.
    #[must_use]
    pub fn from_small_bounded(x: &Small, bound: u16) -> Self {
        Backend::portable().run(OfSmall(x, bound))
    }

    /// [`Ntt::from_small_bounded`].
    #[must_use]
    #[inline(always)]
    pub fn from_small_in<V: Vectors>(x: &Small, bound: u16) -> Self {
        debug_assert!(x.0.iter().all(|c| c.unsigned_abs() <= bound));
        let mut rows = rows::of_small::<V>(&x.0);
        rows::forward::<V>(&mut rows);
        Self {
            rows,
            bound: u128::from(bound),
        }
    }

    /// The centred representative of a residue class.
    #[must_use]
    pub fn from_rq(x: &Rq) -> Self {
        Self::from_integers(&x.centred(), Q / 2)
    }

    /// [`Ntt::from_rq`].
    #[must_use]
    #[inline(always)]
    pub fn from_rq_in<V: Vectors>(x: &Rq) -> Self {
        Self::from_integers_in::<V>(&x.centred(), Q / 2)
    }

    /// An integer polynomial whose coefficients are at most `bound` in absolute value.
    ///
    /// # Panics
    /// If the bound is not below `2^47`, or a coefficient exceeds it.
    #[must_use]
    pub fn from_integers(centred: &[i64; DEGREE], bound: u64) -> Self {
        assert!(bound < 1 << 47 && centred.iter().all(|c| c.unsigned_abs() <= bound));
        Backend::portable().run(OfIntegers(centred, bound))
    }

    /// [`Ntt::from_integers`] of numbers that are known to be at most `bound`.
    #[inline(always)]
    fn from_integers_in<V: Vectors>(centred: &[i64; DEGREE], bound: u64) -> Self {
        let mut rows = rows::of_centred::<V>(centred);
        rows::forward::<V>(&mut rows);
        Self {
            rows,
            bound: u128::from(bound),
        }
    }

    /// The residue class of this integer polynomial modulo `Q`.
    ///
    /// # Panics
    /// If the operations that made this value allow coefficients beyond the residue system: an
    /// error of the program, whatever the data.
    #[must_use]
    pub fn to_rq(&self) -> Rq {
        Backend::portable().run(ToRq(self))
    }

    /// [`Ntt::to_rq`].
    ///
    /// # Panics
    /// As [`Ntt::to_rq`].
    #[must_use]
    #[inline(always)]
    pub fn to_rq_in<V: Vectors>(&self) -> Rq {
        assert!(self.bound <= BOUND, "a sum of products was not refreshed");
        Rq(rows::lift::<V>(&self.rows))
    }

    /// The centred representative of the class modulo `Q`: the same class, with the smallest
    /// bound.
    #[must_use]
    pub fn refreshed(&self) -> Self {
        Self::from_rq(&self.to_rq())
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        Backend::portable().run(Add(self, other));
    }

    /// [`Ntt::add`].
    #[inline(always)]
    pub fn add_in<V: Vectors>(&mut self, other: &Self) {
        self.bound = self.bound.saturating_add(other.bound);
        rows::add::<V>(&mut self.rows, &other.rows);
    }

    /// The product.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        Backend::portable().run(Times(self, other))
    }

    /// [`Ntt::times`].
    #[must_use]
    #[inline(always)]
    pub fn times_in<V: Vectors>(&self, other: &Self) -> Self {
        Self {
            rows: rows::multiply::<V>(&self.rows, &other.rows),
            bound: product_bound(self, other),
        }
    }

    /// `X -> X^-1`: the points are ordered so that this reverses the rows.
    #[must_use]
    pub fn sigma(&self) -> Self {
        let mut out = self.clone();
        let rows = self.rows.0.as_chunks::<PRIMES>().0;
        for (o, row) in (out.rows.0.as_chunks_mut::<PRIMES>().0.iter_mut()).zip(rows.iter().rev()) {
            *o = *row;
        }
        out
    }

    /// The sum of the products of pairs.
    #[must_use]
    pub fn dot<'a>(pairs: impl IntoIterator<Item = (&'a Self, &'a Self)>) -> Self {
        Backend::portable().run(Dot(pairs.into_iter()))
    }

    /// [`Ntt::dot`].
    #[must_use]
    #[inline(always)]
    pub fn dot_in<'a, V: Vectors>(pairs: impl IntoIterator<Item = (&'a Self, &'a Self)>) -> Self {
        let mut out = Self::zero();
        out.add_dot_in::<V>(pairs);
        out
    }

    /// Adds the products of pairs.
    #[inline(always)]
    pub fn add_dot_in<'a, V: Vectors>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'a Self, &'a Self)>,
    ) {
        let mut pairs = pairs.into_iter();
        let Some(first) = pairs.next() else {
            return;
        };
        let mut held = [(&first.0.rows, &first.1.rows); PRODUCTS_MAX];
        let mut count = 1;
        self.bound = self.bound.saturating_add(product_bound(first.0, first.1));
        for (a, b) in pairs {
            if count == PRODUCTS_MAX {
                rows::add_products::<V>(&mut self.rows, &held);
                count = 0;
            }
            self.bound = self.bound.saturating_add(product_bound(a, b));
            held[count] = (&a.rows, &b.rows);
            count += 1;
        }
        rows::add_products::<V>(&mut self.rows, &held[..count]);
    }
}

/// A coefficient of a product is a sum of 64 products of coefficients.
#[inline(always)]
fn product_bound(a: &Ntt, b: &Ntt) -> u128 {
    a.bound
        .saturating_mul(b.bound)
        .saturating_mul(DEGREE as u128)
}

/// Makes a pass of an expression over a level.
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
        Ntt::from_integers_in::<V>(self.0, self.1)
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

pass!(ToRq(Ntt), |self, V| self.0.to_rq_in::<V>() => Rq);
pass!(Times(Ntt, Ntt), |self, V| self.0.times_in::<V>(self.1) => Ntt);
pass!(ManySmall([Small]), |self, V| {
    let mut out = Vec::with_capacity(self.0.len());
    for x in self.0 {
        out.push(Ntt::from_small_in::<V>(x, 1 << 15));
    }
    out
} => Vec<Ntt>);
pass!(ManyOf([Rq]), |self, V| {
    let mut out = Vec::with_capacity(self.0.len());
    for x in self.0 {
        out.push(Ntt::from_rq_in::<V>(x));
    }
    out
} => Vec<Ntt>);
pass!(ManyTo([Ntt]), |self, V| {
    let mut out = Vec::with_capacity(self.0.len());
    for x in self.0 {
        out.push(x.to_rq_in::<V>());
    }
    out
} => Vec<Rq>);

impl Backend {
    /// The residues of many short elements.
    #[must_use]
    pub fn residues(self, vector: &[Small]) -> Vec<Ntt> {
        self.run(ManySmall(vector))
    }

    /// The residues of the centred representatives of many classes.
    #[must_use]
    pub fn transforms(self, vector: &[Rq]) -> Vec<Ntt> {
        self.run(ManyOf(vector))
    }

    /// The classes of many integer polynomials.
    ///
    /// # Panics
    /// As [`Ntt::to_rq`].
    #[must_use]
    pub fn elements(self, vector: &[Ntt]) -> Vec<Rq> {
        self.run(ManyTo(vector))
    }
}
