//! Sixteen Miller loops at once, and as many blocks of sixteen as a chunk has under one accumulator.
//!
//! The loop for |x| of the optimal ate pairing, in affine coordinates. Costello, Lange, Naehrig, "Faster
//! pairing computations on curves with high-degree twists", PKC 2010, describe the twist and the lines. Lauter,
//! Montgomery, Naehrig, "An analysis of affine coordinates for pairing computation", Pairing 2010, explain why
//! affine coordinates suit many pairs: one inversion per step serves all pairs of a chunk, and the line through
//! points of known slope is cheap to compute and has a coefficient that is 1.
//!
//! **The line.** (x, y) on the twist y² = x³ + 4ξ stands for (x/w², y/w³), w⁶ = ξ = 1 + u. Let λ be a slope on
//! the twist and ν = λ·x - y for a point of the line. Its value at (X, Y) in G1, over Y, is
//!
//! > 1 - λ·(X/Y)·w⁵/ξ + ν·(1/Y)·w³/ξ.
//!
//! The points (t²·x, t³·y) have slopes t·λ and t³·ν, and the formulas of tangents and chords do not depend on
//! the constant of the curve. So with t = -X/(Y·ξ) the line is 1 + λ·w⁵ + b·w³ with b = u·c·ν, c = -2·Y²/X³:
//! the point of the twist is scaled once, and a slope becomes a coefficient without a multiplication. The
//! factors left out, powers of ξ and elements of Fp, are taken to 1 by the final exponentiation.
//!
//! **Why it is exact.** Each formula divides once, and holds if the denominator is not 0. Multiples kQ that the
//! loop meets have 1 <= k < |x| < r, and it adds Q only to those with k > 1. So for points of order r none is
//! the identity, 2y ≠ 0, and kQ and Q have different x; X = 0 only for points of order 3 on E(Fp), Y = 0 for
//! none. All denominators are inverted in one product, which is 0 if one of them is. In that case nothing is
//! returned, and blst computes the product of these points.

use super::coordinates;
use super::curve::{PARAMETER, PARAMETER_BITS};
use super::element::{Element, INVERSE_ROOT, constant};
use super::tower::{BLOCKS_MAX, Factor, Fp12, Line};
use crate::blst_ffi::curve::{G1Affine, G2Affine};
use crate::blst_ffi::field::Fp;
use crate::blst_ffi::pairing::Miller;
use crate::vector::{LANES, LIMBS, Multiplier, Routine};
use alphorn_exec::Exec;

/// 1/4 = (p + 1)/4.
const QUARTER: [[u64; LIMBS]; 1] = {
    let mut words = INVERSE_ROOT;
    words[0] += 1;
    [constant(words)]
};

/// Sixteen points of the twist.
#[derive(Clone, Copy)]
struct Point<M: Multiplier> {
    /// At most 2p.
    x: Element<M, 2>,
    /// At most 4p.
    y: Element<M, 2>,
}

/// The summand of a step.
#[derive(Clone, Copy)]
enum Step {
    /// The points themselves.
    Double,
    /// The points of the pairs.
    Add,
}

/// State of sixteen pairs.
struct Block<M: Multiplier> {
    /// The points of the pairs, scaled.
    q: Point<M>,
    /// Their multiples.
    t: Point<M>,
    /// c of the lines: -2·Y²/X³ of the points in G1.
    c: Element<M, 1>,
    /// Lanes that count.
    live: u16,
    /// The value inverted in this step.
    norm: Element<M, 1>,
    /// The product of the norms of all previous blocks.
    before: Element<M, 1>,
}

impl<M: Multiplier> Block<M> {
    /// The denominator of the slope; at most 8p.
    #[inline(always)]
    fn denominator(&self, step: Step) -> Element<M, 2> {
        match step {
            Step::Double => self.t.y.shl::<1>().carry(),
            Step::Add => self.q.x.sub::<2>(&self.t.x).carry(),
        }
    }

    /// The numerator of the slope; at most 12p.
    #[inline(always)]
    fn numerator(&self, step: Step) -> Element<M, 2> {
        match step {
            Step::Double => {
                let square = self.t.x.square();
                square.add(&square.shl::<1>()).carry()
            }
            Step::Add => self.q.y.sub::<4>(&self.t.y).carry(),
        }
    }
}

/// A block before its points are scaled: the points in G1, and as `norm` the product of their coordinates.
struct Enter<'a, M: Multiplier> {
    m: M,
    pairs: &'a [(G1Affine, G2Affine); LANES],
    live: u16,
}

/// Sixteen points in G1.
type Coordinates<M> = (Element<M, 1>, Element<M, 1>);

impl<M: Multiplier> Routine for Enter<'_, M> {
    type Output = (Block<M>, Coordinates<M>);

    #[inline(always)]
    fn run(self) -> Self::Output {
        let Enter { m, pairs, live } = self;
        let (x, y) = coordinates(m, &pairs.map(|(p, _)| p));
        let (qx, qy) = coordinates(m, &pairs.map(|(_, q)| q));
        let q = Point { x: qx, y: qy };
        let norm = x.mul(&y).carry();
        let block = Block {
            q,
            t: q,
            // Overwritten once the points are scaled, as `before` is once the product is taken.
            c: norm,
            live,
            norm,
            before: norm,
        };
        (block, (x, y))
    }
}

/// Scales the points of a block, given 1/(X·Y) of its points in G1.
struct Scale<'a, M: Multiplier> {
    block: &'a mut Block<M>,
    coordinates: &'a Coordinates<M>,
    inverse: &'a Element<M, 1>,
}

impl<M: Multiplier> Routine for Scale<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Scale {
            block,
            coordinates: (x, y),
            inverse,
        } = self;
        let m = inverse.m();
        // 1/X, r = X/Y and 1/r.
        let over_x = inverse.mul(y).carry();
        let (r, over_r) = (
            x.square().carry().mul(inverse).carry(),
            y.mul(&over_x).carry(),
        );
        // ξ² = 2u and ξ³ = -2·(1 - u): t² = -u·r²/2, and t³ = ξ·r³/4.
        let quarter = r
            .square()
            .carry()
            .mul(&Element::broadcast(m, &QUARTER))
            .carry();
        let (qx, qy) = (&block.q.x, &block.q.y);
        // -u times x.
        let rotated = Element::from_halves(&qx.coefficient(1), &qx.coefficient(0).neg::<2>());
        let q = Point {
            x: rotated.scale(&quarter.shl::<1>().carry()).carry(),
            y: qy.times_xi::<2>().scale(&quarter.mul(&r).carry()).carry(),
        };
        let c = over_r.square().carry().mul(&over_x).shl::<1>().carry();
        block.c = c.neg::<4>();
        (block.q, block.t) = (q, q);
    }
}

/// Multiplies the norms of a block's denominators with those before it.
struct Collect<'a, M: Multiplier>(&'a mut Block<M>, &'a Element<M, 1>, Step);

impl<M: Multiplier> Routine for Collect<'_, M> {
    type Output = Element<M, 1>;

    #[inline(always)]
    fn run(self) -> Element<M, 1> {
        let Collect(block, before, step) = self;
        block.norm = block.denominator(step).norm();
        block.before = *before;
        before.mul(&block.norm).carry()
    }
}

/// Advances the points of a block by one step and multiplies their lines into f. Turns the inverse of the
/// product of all norms up to this block into the inverse without this block.
struct Advance<'a, M: Multiplier> {
    block: &'a mut Block<M>,
    step: Step,
    rest: &'a mut Element<M, 1>,
    f: &'a Fp12<M>,
    out: &'a mut Fp12<M>,
}

impl<M: Multiplier> Routine for Advance<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Advance {
            block,
            step,
            rest,
            f,
            out,
        } = self;
        // 1/d of a denominator d is its conjugate over its norm, and only the norm was inverted.
        let inverse = rest.mul(&block.before).carry();
        *rest = rest.mul(&block.norm).carry();
        let conjugate = block.denominator(step).conjugate::<8>();
        let slope = block.numerator(step).mul(&conjugate).carry();
        let slope = slope.scale(&inverse).carry();

        let other = match step {
            Step::Double => &block.t.x,
            Step::Add => &block.q.x,
        };
        // Products with one include -x and -y: as separate terms added to the products they would grow with
        // each step.
        let x = block.t.x.add(other).carry().neg::<4>();
        let x = slope.square_and(&x).carry();
        let a = Factor::new::<2>(slope);
        let nu = a.times_and(&block.t.x, &block.t.y.neg::<4>());
        let y = nu.sub::<2>(&a.times(&x)).carry();
        block.t = Point { x, y };

        let b = nu.carry().scale(&block.c).carry();
        // Times u.
        let b = Element::from_halves(&b.coefficient(1).neg::<2>(), &b.coefficient(0));
        let line = if block.live == !0 {
            Line::new(a, b)
        } else {
            // A line of zeros is one.
            let zero = Element::zero(b.m());
            let a = Factor::new::<2>(zero.select(block.live, &slope));
            Line::new(a, zero.select(block.live, &b))
        };
        f.multiply(&line, out);
    }
}

/// The accumulators of all lanes. A square or a product goes to the other buffer, so that nothing is copied.
struct Accumulator<M: Multiplier> {
    buffers: [Fp12<M>; 2],
    current: usize,
}

impl<M: Multiplier> Accumulator<M> {
    /// The value, and the buffer for the next one, which becomes current.
    fn turn(&mut self) -> (&Fp12<M>, &mut Fp12<M>) {
        self.current ^= 1;
        let [a, b] = &mut self.buffers;
        match self.current {
            0 => (b, a),
            _ => (a, b),
        }
    }
}

/// The products of sixteen lanes of Miller loops, conjugates of blst's up to factors that the final
/// exponentiation takes to 1; `None` if a denominator was 0. Blocks consist of pairs and the lanes of them that
/// count. If the task was asked to stop, the value is arbitrary.
pub(in crate::lanes) struct MillerLoops<'a, M> {
    pub(in crate::lanes) m: M,
    pub(in crate::lanes) exec: Exec<'a>,
    pub(in crate::lanes) blocks: &'a [([(G1Affine, G2Affine); LANES], u16)],
}

impl<M: Multiplier> Routine for MillerLoops<'_, M> {
    type Output = Option<[Miller; LANES]>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let MillerLoops { m, exec, blocks } = self;
        assert!(blocks.len() <= BLOCKS_MAX, "lines between two squares");
        let (mut blocks, points): (Vec<Block<M>>, Vec<Coordinates<M>>) = blocks
            .iter()
            .map(|(pairs, live)| {
                m.run(Enter {
                    m,
                    pairs,
                    live: *live,
                })
            })
            .unzip();
        let mut product = Element::one(m);
        // One inversion for all blocks, as in every step below.
        for block in &mut blocks {
            block.before = product;
            product = product.mul(&block.norm).carry();
        }
        let (mut rest, mut good) = product.inverse::<Fp>();
        for (block, coordinates) in blocks.iter_mut().zip(&points).rev() {
            let inverse = rest.mul(&block.before).carry();
            rest = rest.mul(&block.norm).carry();
            m.run(Scale {
                block,
                coordinates,
                inverse: &inverse,
            });
        }

        let mut f = Accumulator {
            buffers: [Fp12::one(m), Fp12::one(m)],
            current: 0,
        };
        for bit in (0..PARAMETER_BITS).rev() {
            // A step of all blocks takes at most a millisecond.
            if exec.stopped() {
                break;
            }
            let (value, out) = f.turn();
            value.square(out);
            let add = PARAMETER >> bit & 1 == 1;
            for step in [Some(Step::Double), add.then_some(Step::Add)]
                .into_iter()
                .flatten()
            {
                let mut product = Element::one(m);
                for block in &mut blocks {
                    product = m.run(Collect(block, &product, step));
                }
                let (mut rest, not_zero) = product.inverse::<Fp>();
                good &= not_zero;
                for block in blocks.iter_mut().rev() {
                    let (f, out) = f.turn();
                    m.run(Advance {
                        block,
                        step,
                        rest: &mut rest,
                        f,
                        out,
                    });
                }
            }
        }
        good.then(|| f.turn().0.leave())
    }
}
