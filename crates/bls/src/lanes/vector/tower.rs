//! Sixteen elements of Fp12, in the form in which the Miller loop multiplies them.
//!
//! Fp12 = Fp2\[w\] with w⁶ = ξ = 1 + u, stored by powers of w. Products are sums of products over Fp2 with one
//! reduction per coefficient: the multiplications that Karatsuba's method saves would be spent here on
//! reductions, additions and carries.

use super::bound::Bound;
use super::element::{Element, Wide};
use crate::blst_ffi::field::{Field, Fp2};
use crate::blst_ffi::pairing::Miller;
use crate::vector::{Fe, LANES, Multiplier, Routine, WIDE};

/// Blocks of a chunk, which share a square and an inversion in every step.
pub(in crate::lanes) const BLOCKS_MAX: usize = 32;

/// Coefficients of an element of Fp12 are at most this multiple of p: 8 after a square, plus two for each line
/// multiplied in since. Between two squares a block of lanes has at most two lines.
const COEFFICIENT: u64 = 8 + 4 * BLOCKS_MAX as u64;

/// An element of Fp2 and minus its second coefficient: a factor in sums of products.
pub(super) struct Factor<M: Multiplier>(Element<M, 2>, Element<M, 1>);

impl<M: Multiplier> Factor<M> {
    /// From an element of at most K·p.
    #[inline(always)]
    pub(super) fn new<const K: u64>(element: Element<M, 2>) -> Factor<M> {
        let minus = element.coefficient(1).neg::<K>();
        Factor(element, minus)
    }

    /// a·x over Fp2, below 2p.
    #[inline(always)]
    pub(super) fn times(&self, x: &Element<M, 2>) -> Wide<M, 2> {
        let m = x.m();
        let mut c = [Fe::zero(m); 2];
        let ([a0, a1, a2], [x0, x1]) = (self.parts(), &x.c);
        m.products::<2, WIDE>([(a0, x0), (a2, x1)], &mut c[0]);
        m.products::<2, WIDE>([(a0, x1), (a1, x0)], &mut c[1]);
        let bound = Bound::of_products([(self.bound(), x.bound); 2]);
        Wide { c, bound }
    }

    /// a·x + y over Fp2, below 2p for any y.
    #[inline(always)]
    pub(super) fn times_and(&self, x: &Element<M, 2>, y: &Element<M, 2>) -> Wide<M, 2> {
        let m = x.m();
        let one = Element::<M, 1>::one(m);
        let mut c = [Fe::zero(m); 2];
        let ([a0, a1, a2], [x0, x1]) = (self.parts(), &x.c);
        let (one, [y0, y1]) = (&one.c[0], &y.c);
        m.products::<3, WIDE>([(a0, x0), (a2, x1), (y0, one)], &mut c[0]);
        m.products::<3, WIDE>([(a0, x1), (a1, x0), (y1, one)], &mut c[1]);
        let a = (self.bound(), x.bound);
        let bound = Bound::of_products([a, a, (y.bound, Bound::new(1, 1))]);
        Wide { c, bound }
    }

    /// a·x + b·y over Fp2, with one reduction per coefficient: below 2p.
    #[inline(always)]
    fn sum_of_two([(a, x), (b, y)]: [(&Factor<M>, &Element<M, 2>); 2]) -> Wide<M, 2> {
        let m = x.m();
        let mut c = [Fe::zero(m); 2];
        let ([a0, a1, a2], [b0, b1, b2]) = (a.parts(), b.parts());
        let ([x0, x1], [y0, y1]) = (&x.c, &y.c);
        m.products::<4, WIDE>([(a0, x0), (a2, x1), (b0, y0), (b2, y1)], &mut c[0]);
        m.products::<4, WIDE>([(a0, x1), (a1, x0), (b0, y1), (b1, y0)], &mut c[1]);
        let (a, b) = ((a.bound(), x.bound), (b.bound(), y.bound));
        let bound = Bound::of_products([a, a, b, b]);
        Wide { c, bound }
    }

    /// a·x + b·y + d·z over Fp2, like [`Factor::sum_of_two`].
    #[inline(always)]
    fn sum_of_three([(a, x), (b, y), (d, z)]: [(&Factor<M>, &Element<M, 2>); 3]) -> Wide<M, 2> {
        let m = x.m();
        let mut c = [Fe::zero(m); 2];
        let ([a0, a1, a2], [b0, b1, b2], [d0, d1, d2]) = (a.parts(), b.parts(), d.parts());
        let ([x0, x1], [y0, y1], [z0, z1]) = (&x.c, &y.c, &z.c);
        m.products::<6, WIDE>(
            [(a0, x0), (a2, x1), (b0, y0), (b2, y1), (d0, z0), (d2, z1)],
            &mut c[0],
        );
        m.products::<6, WIDE>(
            [(a0, x1), (a1, x0), (b0, y1), (b1, y0), (d0, z1), (d1, z0)],
            &mut c[1],
        );
        let (a, b) = ((a.bound(), x.bound), (b.bound(), y.bound));
        let d = (d.bound(), z.bound);
        let bound = Bound::of_products([a, a, b, b, d, d]);
        Wide { c, bound }
    }

    /// Both coefficients, and minus the second one.
    #[inline(always)]
    fn parts(&self) -> [&Fe<M>; 3] {
        [&self.0.c[0], &self.0.c[1], &self.1.c[0]]
    }

    /// The bound of every part.
    #[inline(always)]
    fn bound(&self) -> Bound {
        self.0.bound.either(self.1.bound)
    }
}

impl<M: Multiplier> Element<M, 2> {
    /// ξ · self; self is at most K·p.
    #[inline(always)]
    pub(super) fn times_xi<const K: u64>(&self) -> Element<M, 2> {
        let (c0, c1) = (self.coefficient(0), self.coefficient(1));
        Element::from_halves(&c0.sub::<K>(&c1).carry(), &c0.add(&c1).carry())
    }

    /// self² + other, below 2p for any `other`; self is at most 2p.
    #[inline(always)]
    pub(super) fn square_and(&self, other: &Element<M, 2>) -> Wide<M, 2> {
        let m = self.m();
        let one = Element::<M, 1>::one(m);
        let (c0, c1) = (self.coefficient(0), self.coefficient(1));
        let (sum, difference) = (c0.add(&c1).carry(), c0.sub::<2>(&c1).carry());
        let twice = c0.shl::<1>().carry();
        let mut c = [Fe::zero(m); 2];
        let (one, [y0, y1]) = (&one.c[0], &other.c);
        m.products::<2, WIDE>([(&sum.c[0], &difference.c[0]), (y0, one)], &mut c[0]);
        m.products::<2, WIDE>([(&twice.c[0], &c1.c[0]), (y1, one)], &mut c[1]);
        let square = (sum.bound, difference.bound);
        let bound = Bound::of_products([square, (other.bound, Bound::new(1, 1))]);
        Wide { c, bound }
    }

    /// self · factor, for a factor in Fp; below 2p.
    #[inline(always)]
    pub(super) fn scale(&self, factor: &Element<M, 1>) -> Wide<M, 2> {
        let m = self.m();
        let mut c = [Fe::zero(m); 2];
        m.products::<1, WIDE>([(&self.c[0], &factor.c[0])], &mut c[0]);
        m.products::<1, WIDE>([(&self.c[1], &factor.c[0])], &mut c[1]);
        let bound = Bound::of_products([(self.bound, factor.bound)]);
        Wide { c, bound }
    }
}

/// A line, 1 + b·w³ + a·w⁵, in the form used to multiply an element.
pub(super) struct Line<M: Multiplier> {
    a: Factor<M>,
    b: Factor<M>,
    /// ξ·a and ξ·b: the coefficients of powers that wrap around past w⁵.
    wrapped_a: Factor<M>,
    wrapped_b: Factor<M>,
}

impl<M: Multiplier> Line<M> {
    /// From coefficients of at most 2p.
    #[inline(always)]
    pub(super) fn new(a: Factor<M>, b: Element<M, 2>) -> Line<M> {
        Line {
            wrapped_a: Factor::new::<4>(a.0.times_xi::<2>()),
            wrapped_b: Factor::new::<4>(b.times_xi::<2>()),
            a,
            b: Factor::new::<2>(b),
        }
    }
}

/// Σ c_k·w^k.
#[derive(Clone)]
pub(super) struct Fp12<M: Multiplier>(pub(super) [Element<M, 2>; 6]);

impl<M: Multiplier> Fp12<M> {
    /// One in all lanes.
    #[inline(always)]
    pub(super) fn one(m: M) -> Fp12<M> {
        let mut c = [Element::zero(m); 6];
        c[0] = Element::one(m);
        Fp12(c)
    }

    /// out = self · line.
    #[inline(always)]
    pub(super) fn multiply(&self, line: &Line<M>, out: &mut Fp12<M>) {
        let f = &self.0;
        for k in 0..6 {
            // The coefficient of w^k comes from f_(k+1)·w^(k+1)·a·w⁵ = ξ·f_(k+1)·a·w^k; only k = 5 takes f_0, without
            // ξ. For b·w³ the same holds with k + 3.
            let a = if k < 5 { &line.wrapped_a } else { &line.a };
            let b = if k < 3 { &line.wrapped_b } else { &line.b };
            let sum = Factor::sum_of_two([(a, &f[(k + 1) % 6]), (b, &f[(k + 3) % 6])]);
            // The 1 of the line.
            out.0[k] = sum.add(&f[k]).carry();
        }
    }

    /// out = self².
    #[inline(always)]
    pub(super) fn square(&self, out: &mut Fp12<M>) {
        self.0[0].m().run(Square(self, out));
    }

    /// Converts the lanes to blst's form.
    #[inline(always)]
    pub(super) fn leave(&self) -> [Miller; LANES] {
        let mut coefficients = [[Fp2::ZERO; LANES]; 6];
        for k in 0..6 {
            coefficients[k] = self.0[k].leave();
        }
        core::array::from_fn(|lane| {
            Miller::from_coefficients(core::array::from_fn(|k| coefficients[k][lane]))
        })
    }
}

/// See [`Fp12::square`].
///
/// g + h·w with g and h in Fp6 = Fp2\[v\], v = w² (O. Chung and M. A. Hasan's complex squaring): with t = g·h
/// the square is (g + h)·(g + v·h) - t - v·t + 2t·w.
struct Square<'a, M: Multiplier>(&'a Fp12<M>, &'a mut Fp12<M>);

impl<M: Multiplier> Routine for Square<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Square(Fp12(f), Fp12(out)) = self;
        // Written as loops: a closure passed to the standard library is not compiled for the instruction set.
        let (g, h) = ([f[0], f[2], f[4]], [f[1], f[3], f[5]]);
        let (mut sum, mut shifted) = (g, g);
        for k in 0..3 {
            sum[k] = g[k].add(&h[k]).carry();
        }
        // v³ = ξ, so the last coefficient of v·h wraps around.
        shifted[0] = g[0].add(&h[2].times_xi::<COEFFICIENT>()).carry();
        for k in 1..3 {
            shifted[k] = g[k].add(&h[k - 1]).carry();
        }
        let product = multiply_fp6(&sum, &shifted);
        let t = multiply_fp6(&g, &h);
        let (t0, t1, t2) = (t[0].carry(), t[1].carry(), t[2].carry());
        // At most 2p for t_0 and 4p for ξ·t_2.
        out[0] = product[0].sub::<6>(&t0.add(&t2.times_xi::<2>())).carry();
        out[2] = product[1].sub::<4>(&t1.add(&t0)).carry();
        out[4] = product[2].sub::<4>(&t2.add(&t1)).carry();
        out[1] = t0.shl::<1>().carry();
        out[3] = t1.shl::<1>().carry();
        out[5] = t2.shl::<1>().carry();
    }
}

/// x · y in Fp6; x is at most the sum of two coefficients of an element of Fp12.
#[inline(always)]
fn multiply_fp6<M: Multiplier>(x: &[Element<M, 2>; 3], y: &[Element<M, 2>; 3]) -> [Wide<M, 2>; 3] {
    let wrapped1 = Factor::new::<{ 4 * COEFFICIENT }>(x[1].times_xi::<{ 2 * COEFFICIENT }>());
    let wrapped2 = Factor::new::<{ 4 * COEFFICIENT }>(x[2].times_xi::<{ 2 * COEFFICIENT }>());
    let x0 = Factor::new::<{ 2 * COEFFICIENT }>(x[0]);
    let x1 = Factor::new::<{ 2 * COEFFICIENT }>(x[1]);
    let x2 = Factor::new::<{ 2 * COEFFICIENT }>(x[2]);
    [
        Factor::sum_of_three([(&x0, &y[0]), (&wrapped1, &y[2]), (&wrapped2, &y[1])]),
        Factor::sum_of_three([(&x0, &y[1]), (&x1, &y[0]), (&wrapped2, &y[2])]),
        Factor::sum_of_three([(&x0, &y[2]), (&x1, &y[1]), (&x2, &y[0])]),
    ]
}
