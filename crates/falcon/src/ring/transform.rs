//! The transforms between coefficients and values, two layers at a time: a batch fills half of an L1
//! cache, so each pass over it costs more than the arithmetic of a layer.

use super::{Polys, Q_INVERSE, ROOTS, barrett, mont_by};

/// A constant of butterflies, together with its product with `q^-1`.
#[derive(Clone, Copy)]
struct Zeta {
    value: i16,
    scaled: i16,
}

#[inline(always)]
fn zeta(root: usize) -> Zeta {
    let value = ROOTS[root];
    Zeta {
        value,
        scaled: value.wrapping_mul(Q_INVERSE),
    }
}

/// A butterfly of the forward transform.
#[inline(always)]
fn turn((a, b): (i16, i16), zeta: Zeta) -> (i16, i16) {
    let product = mont_by(b, zeta.value, zeta.scaled);
    (a.wrapping_add(product), a.wrapping_sub(product))
}

/// A butterfly of the inverse transform.
#[inline(always)]
fn turn_back((a, b): (i16, i16), zeta: Zeta) -> (i16, i16) {
    // `b - a` instead of `a - b`, because the roots are the negated inverses.
    let difference = b.wrapping_sub(a);
    (
        a.wrapping_add(b),
        mont_by(difference, zeta.value, zeta.scaled),
    )
}

/// Returns a reduced representative if `reduce` is set, otherwise the number itself.
#[inline(always)]
fn reduced_if(reduce: bool, a: i16) -> i16 {
    if reduce { barrett(a) } else { a }
}

/// Splits off four blocks of equal length.
#[inline(always)]
fn quarters<T>(block: &mut [T]) -> [&mut [T]; 4] {
    let (low, upper) = block.split_at_mut(block.len() / 2);
    let (a, b) = low.split_at_mut(low.len() / 2);
    let (c, d) = upper.split_at_mut(upper.len() / 2);
    [a, b, c, d]
}

impl<const L: usize, const N: usize> Polys<L, N> {
    /// Evaluates reduced polynomials at the roots of `Y^N + 1`; the values are reduced.
    #[inline(always)]
    pub(crate) fn forward(&mut self) {
        // Layers 1 and 2, 3 and 4, and so on: reductions follow layers 3, 6 and 9, and the last.
        self.forward_two(1, false, false);
        self.forward_two(4, true, false);
        self.forward_two(16, false, true);
        self.forward_two(64, false, false);
        // The ninth layer, the third after a reduction, is the last one for degree 512; for degree 1024 one is left.
        if N == 1024 {
            self.forward_two(256, true, true);
        } else {
            self.forward_last();
        }
    }

    /// Applies the last layer on its own, then reduces.
    #[inline(always)]
    fn forward_last(&mut self) {
        for (block, two) in self.0.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let zeta = zeta(N / 2 + block);
            let [low, upper] = two;
            for (a, b) in low.iter_mut().zip(upper) {
                let (x, y) = turn((*a, *b), zeta);
                (*a, *b) = (barrett(x), barrett(y));
            }
        }
    }

    /// Applies the layer with this many blocks and the next one; reduces after the first, after both, or not at all.
    #[inline(always)]
    fn forward_two(&mut self, blocks: usize, reduce_first: bool, reduce_second: bool) {
        for (index, block) in self.0.chunks_exact_mut(N / blocks).enumerate() {
            // Roots are numbered as the nodes of a binary tree: the children of i are 2i and 2i + 1.
            let first = zeta(blocks + index);
            let (low, high) = (zeta(2 * (blocks + index)), zeta(2 * (blocks + index) + 1));
            let [a, b, c, d] = quarters(block);
            for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
                for lane in 0..L {
                    let (w, y) = turn((a[lane], c[lane]), first);
                    let (x, z) = turn((b[lane], d[lane]), first);
                    let [w, x, y, z] = [w, x, y, z].map(|n| reduced_if(reduce_first, n));
                    let (w, x) = turn((w, x), low);
                    let (y, z) = turn((y, z), high);
                    a[lane] = reduced_if(reduce_second, w);
                    b[lane] = reduced_if(reduce_second, x);
                    c[lane] = reduced_if(reduce_second, y);
                    d[lane] = reduced_if(reduce_second, z);
                }
            }
        }
    }

    /// Computes `N` times the polynomials from values of at most 6723. The result is below 27,000, since no sum has
    /// more than four numbers without a reduction.
    #[inline(always)]
    pub(super) fn inverse_unscaled(&mut self) {
        for blocks in [N / 4, N / 16, N / 64, N / 256] {
            self.inverse_two(blocks);
        }
        // Two layers are left for degree 1024, one for 512.
        if N == 1024 {
            self.inverse_two(1);
        } else {
            self.inverse_last();
        }
    }

    /// Applies the last layer on its own to reduced numbers; the result is at most 12,300.
    #[inline(always)]
    fn inverse_last(&mut self) {
        let zeta = zeta(1);
        let (low, upper) = self.0.split_at_mut(N / 2);
        for (a, b) in low.iter_mut().zip(upper) {
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = turn_back((*a, *b), zeta);
            }
        }
    }

    /// Applies the layer with twice this many blocks and the layer with this many, then reduces. The roots of a
    /// layer, traversed backwards, are the negated inverses of its forward roots.
    #[inline(always)]
    fn inverse_two(&mut self, blocks: usize) {
        for (index, block) in self.0.chunks_exact_mut(N / blocks).enumerate() {
            let (low, high) = (
                zeta(4 * blocks - 1 - 2 * index),
                zeta(4 * blocks - 2 - 2 * index),
            );
            let last = zeta(2 * blocks - 1 - index);
            let [a, b, c, d] = quarters(block);
            for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
                for lane in 0..L {
                    let (w, x) = turn_back((a[lane], b[lane]), low);
                    let (y, z) = turn_back((c[lane], d[lane]), high);
                    let (w, y) = turn_back((w, y), last);
                    let (x, z) = turn_back((x, z), last);
                    a[lane] = barrett(w);
                    b[lane] = barrett(x);
                    c[lane] = barrett(y);
                    d[lane] = barrett(z);
                }
            }
        }
    }
}
