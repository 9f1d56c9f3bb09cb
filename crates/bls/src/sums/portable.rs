//! The portable kernel: batch-affine additions with blst's scalar field arithmetic.
//!
//! It runs on every processor, supports both fields, and is the oracle for the vector kernels.

use core::marker::PhantomData;

use super::segments::{Points, SegmentList, SumKernel};
use crate::blst_ffi::curve::Affine;
use crate::blst_ffi::curve_field::CurveField;
use crate::blst_ffi::field::Field;

/// Entries processed at a time: 8,192 points of G1 with their differences and products take 1.2 MB, and the
/// inversion of each level (some 100 products) is spread over many pairs.
const CHUNK_ENTRIES: usize = 8192;

/// The portable kernel over the field `F`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Portable<F>(PhantomData<F>);

/// Buffers of one thread.
#[derive(Debug, Default)]
pub(crate) struct PortableScratch<F> {
    points: Vec<Affine<F>>,
    lengths: Vec<usize>,
    /// Denominators of the slopes, later their inverses.
    inverses: Vec<F>,
    /// Running products of the denominators.
    products: Vec<F>,
}

impl<F: CurveField> SumKernel for Portable<F> {
    type Field = F;
    type Point = Affine<F>;
    type Scratch = PortableScratch<F>;

    fn encode(self, points: &[Affine<F>], out: &mut Vec<Affine<F>>) {
        out.extend_from_slice(points);
    }

    fn decode(self, points: &[Affine<F>], out: &mut Vec<Affine<F>>) {
        out.extend_from_slice(points);
    }

    fn identity(self) -> Affine<F> {
        Affine::INFINITY
    }

    fn is_infinity(point: &Affine<F>) -> bool {
        point.is_infinity()
    }

    fn piece_max(self, _entries: usize) -> usize {
        CHUNK_ENTRIES
    }

    fn sum_pieces(
        self,
        points: Points<'_, Affine<F>>,
        pieces: &SegmentList,
        scratch: &mut PortableScratch<F>,
        out: &mut [Affine<F>],
    ) {
        scratch.clear();
        let mut out = out.iter_mut();
        for piece in pieces.iter() {
            if scratch.points.len() + piece.len() > CHUNK_ENTRIES {
                scratch.finish(&mut out);
            }
            scratch.points.extend(piece.iter().map(|entry| {
                let point = points.get(entry.index());
                if entry.is_negative() {
                    point.neg()
                } else {
                    *point
                }
            }));
            scratch.lengths.push(piece.len());
        }
        scratch.finish(&mut out);
    }
}

impl<F: Field> PortableScratch<F> {
    fn clear(&mut self) {
        self.points.clear();
        self.lengths.clear();
    }

    /// Reduces every segment to one point, writes the points to the next slots of `out` and clears the buffers.
    fn finish(&mut self, out: &mut core::slice::IterMut<'_, Affine<F>>) {
        while self.lengths.iter().any(|length| *length > 1) {
            self.invert_denominators();
            self.add_pairs();
        }
        let mut sums = self.points.iter();
        for (length, out) in self.lengths.iter().zip(out) {
            *out = match length {
                0 => Affine::INFINITY,
                _ => *sums.next().expect("one point is left of each segment"),
            };
        }
        self.clear();
    }

    /// Fills `inverses` with 1/d of every pair of neighbours, with one inversion for all of them (Montgomery's
    /// trick).
    ///
    /// Pairs alternate between two chains of products: a product waits for the previous one in its chain, and
    /// the two chains fill each other's wait times.
    fn invert_denominators(&mut self) {
        let Self {
            points,
            lengths,
            inverses,
            products,
        } = self;
        inverses.clear();
        products.clear();
        let mut chains = [F::ONE; 2];
        let mut segment = 0;
        for length in lengths.iter() {
            for pair in points[segment..segment + length].chunks_exact(2) {
                let d = denominator(&pair[0], &pair[1]);
                products.push(chains[0]);
                chains = [chains[1], chains[0].mul(&d)];
                inverses.push(d);
            }
            segment += length;
        }
        let inverse = chains[0].mul(&chains[1]).inverse();
        // 1/(c0·c1)·c0 is 1/c1: the chain that was extended last comes first on the way back.
        chains = [inverse.mul(&chains[0]), inverse.mul(&chains[1])];
        for (d, before) in inverses.iter_mut().zip(products.iter()).rev() {
            let next = chains[0].mul(d);
            *d = chains[0].mul(before);
            chains = [chains[1], next];
        }
    }

    /// Replaces every pair by its sum, in place: a sum is never written past its operands.
    fn add_pairs(&mut self) {
        let Self {
            points,
            lengths,
            inverses,
            ..
        } = self;
        let mut inverses = inverses.iter();
        let (mut read, mut write) = (0, 0);
        for length in lengths.iter_mut() {
            let end = read + *length;
            while read + 1 < end {
                let inverse = inverses.next().expect("one inverse a pair");
                points[write] = add(&points[read], &points[read + 1], inverse);
                read += 2;
                write += 1;
            }
            if read < end {
                points[write] = points[read];
                read += 1;
                write += 1;
            }
            *length = length.div_ceil(2);
        }
        points.truncate(write);
    }
}

/// The denominator of the slope of the line through both points, and 1 where there is no slope. Never zero,
/// because no point has y = 0 (the order of either curve is odd).
#[inline(always)]
fn denominator<F: Field>(a: &Affine<F>, b: &Affine<F>) -> F {
    if a.is_infinity() || b.is_infinity() {
        F::ONE
    } else if a.x != b.x {
        b.x.sub(&a.x)
    } else if a.y == b.y {
        a.y.add(&a.y)
    } else {
        F::ONE
    }
}

/// The sum of two points, given the inverse of their denominator. Complete: equal, opposite and infinite
/// operands are all handled.
#[inline(always)]
fn add<F: Field>(a: &Affine<F>, b: &Affine<F>, inverse: &F) -> Affine<F> {
    if a.is_infinity() {
        return *b;
    }
    if b.is_infinity() {
        return *a;
    }
    let numerator = if a.x != b.x {
        b.y.sub(&a.y)
    } else if a.y == b.y {
        let xx = a.x.square();
        xx.add(&xx).add(&xx)
    } else {
        return Affine::INFINITY;
    };
    let slope = numerator.mul(inverse);
    let x = slope.square().sub(&a.x).sub(&b.x);
    let y = slope.mul(&a.x.sub(&x)).sub(&a.y);
    Affine { x, y }
}
