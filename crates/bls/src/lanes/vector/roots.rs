//! Inverses, square roots over Fp2, and the decompression of points.

use super::element::{Element, above_half, small};
use crate::sums::vector::convert::Coefficients;
use crate::vector::{LANES, LIMBS, Multiplier};

/// y² = x³ + 4 over Fp.
const B1: [[u64; LIMBS]; 1] = [small(4)];
/// y² = x³ + 4·(1 + u) over Fp2.
const B2: [[u64; LIMBS]; 2] = [small(4); 2];

impl<M: Multiplier, const N: usize> Element<M, N> {
    /// The inverses of all lanes, and whether none of them is 0. If one is, the inverses are arbitrary.
    ///
    /// blst inverts the product of the lanes: an exponentiation in lanes would cost as much as a hundred such
    /// inversions.
    #[inline(always)]
    pub(super) fn inverse<F: Coefficients<N>>(&self) -> (Element<M, N>, bool) {
        let lanes = self.leave::<F>();
        let mut before = [F::ONE; LANES];
        let mut product = F::ONE;
        for (before, lane) in before.iter_mut().zip(&lanes) {
            *before = product;
            product = product.mul(lane);
        }
        let mut rest = product.inverse();
        for (before, lane) in before.iter_mut().zip(&lanes).rev() {
            *before = before.mul(&rest);
            rest = rest.mul(lane);
        }
        (Element::enter(self.m(), &before), !product.is_zero())
    }
}

impl<M: Multiplier> Element<M, 2> {
    /// c0² + c1².
    #[inline(always)]
    pub(super) fn norm(&self) -> Element<M, 1> {
        let (c0, c1) = (self.coefficient(0), self.coefficient(1));
        c0.square().add(&c1.square()).carry()
    }

    /// A square root of self, given one of its norm, in the lanes that have one and where self[0] + root ≠ 0;
    /// arbitrary elsewhere. Callers that need to know square the result.
    ///
    /// With s² = c0² + c1², t = (c0 + s)/2 and t' = (c0 - s)/2 have t·t' = -c1²/4, so one of them is a
    /// square. Let T = 4t, r = T^((p-3)/4) and so r²·T = χ(t). If t is a square, √t = r·T/2 = r·(c0 + s)
    /// and the root is √t + c1/(2√t)·u, where 1/(2√t) = r. If not, t' = -c1²/T = c1²·r², and the root is
    /// c1·r + 1/(2r)·u, where 1/(2r) = -r·T/2.
    #[inline(always)]
    pub(super) fn root(&self, norm_root: &Element<M, 1>) -> Element<M, 2> {
        let (c0, c1) = (self.coefficient(0), self.coefficient(1));
        let half = c0.add(norm_root).carry();
        let four_t = half.shl::<1>().carry();
        let r = four_t.inverse_root();
        let (a, b) = (r.mul(&half).carry(), r.mul(&c1).carry());
        // r²·T, which is 1 if t is a square.
        let square = r.mul(&a).shl::<1>().carry().is_one();
        Element::from_halves(&b.select(square, &a), &a.neg::<4>().select(square, &b))
    }
}

/// y of sixteen points of E(Fp), and the lanes where x³ + 4 is a square.
#[inline(always)]
pub(super) fn decompress_g1<M: Multiplier>(x: &Element<M, 1>, larger: u16) -> (Element<M, 1>, u16) {
    let right = x
        .square()
        .carry()
        .mul(x)
        .add(&Element::broadcast(x.m(), &B1))
        .carry();
    // right^((p + 1)/4), which is a root if there is one.
    let y = right.inverse_root().mul(&right).carry();
    let good = y.square().carry().equals(&right);
    let [integer] = y.integers();
    let flip = above_half(&integer) ^ larger;
    (y.select(flip, &y.neg::<4>()), good)
}

/// y of sixteen points of E'(Fp2), and lanes where x³ + 4(1 + u) is a square: all but some of those where it is
/// in Fp.
#[inline(always)]
pub(super) fn decompress_g2<M: Multiplier>(x: &Element<M, 2>, larger: u16) -> (Element<M, 2>, u16) {
    let right = x
        .square()
        .carry()
        .mul(x)
        .add(&Element::broadcast(x.m(), &B2))
        .carry();
    let norm = right.norm();
    let y = right.root(&norm.inverse_root().mul(&norm).carry());
    let good = y.square().carry().equals(&right);
    let [c0, c1] = y.integers();
    let real = c1.equals(&[0; LIMBS]);
    // The sign of a root is that of c1, or of c0 if c1 is 0.
    let above = above_half(&c1) & !real | above_half(&c0) & real;
    (y.select(above ^ larger, &y.neg::<4>()), good)
}
