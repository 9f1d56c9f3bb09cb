//! Values of a polynomial on roots of unity, in bit-reversed order.
//!
//! Decimation in frequency: (u, v) ↦ (u + v, (u − v)·ω^j) for halves of 2^(log2−1), …, 2, 1 elements. The first
//! stages see zeros in the upper halves and only multiply. Then two stages are done at a time; below [`CACHED`]
//! elements, all remaining stages of a block are done while it is in the nearest cache. The last stages, whose
//! halves are shorter than a vector, act on a transposed square.

use alphorn_exec::Exec;

use crate::field::Fp;
use crate::kernel::{Dispatch, Packed, Pass};

/// Number of elements in a block for which all stages are finished at once: 16 KiB.
const CACHED: usize = 1 << 12;

/// Widest vector of all kernels.
const LANES_MAX: usize = 16;

/// Twiddles of all stages for a domain of 2^log2 points.
pub(super) struct Domain {
    /// For halves of 1, 2, …, 2^(log2−1): the powers of the root of that stage.
    stages: Vec<Vec<Fp>>,
}

impl Domain {
    pub(super) fn new(log2: u32) -> Domain {
        let stage = |log2: u32| {
            let root = Fp::root_of_unity(log2);
            let powers = std::iter::successors(Some(Fp::ONE), |x| Some(*x * root));
            powers.take(1 << (log2 - 1)).collect()
        };
        Domain {
            stages: (1..=log2).map(stage).collect(),
        }
    }

    /// Points of the domain.
    pub(super) fn size(&self) -> usize {
        1 << self.stages.len()
    }

    /// The values of a polynomial: the value at ω^k lies at the bit-reversed index of k.
    pub(super) fn evaluate(&self, exec: Exec<'_>, coefficients: &[Fp]) -> Vec<Fp> {
        let mut values = Vec::with_capacity(self.size());
        values.extend_from_slice(coefficients);
        values.resize(self.size(), Fp::ZERO);
        let lanes = exec.backend().lanes();
        exec.backend()
            // The last stages transpose squares of LANES vectors, so a slice must have a multiple of LANES²
            // elements.
            .fitting(coefficients.len() / lanes)
            .run(Evaluate {
                domain: self,
                values: &mut values,
                used: coefficients.len(),
            });
        values
    }

    /// The twiddles of halves of this many elements.
    #[inline(always)]
    fn stage(&self, half: usize) -> &[Fp] {
        &self.stages[half.ilog2() as usize]
    }
}

/// All stages, where only the first `used` values are nonzero.
struct Evaluate<'a> {
    domain: &'a Domain,
    values: &'a mut [Fp],
    used: usize,
}

impl Pass for Evaluate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        // The stages commute here, so the smaller blocks are copied first.
        let mut filled = self.used;
        while filled < self.values.len() {
            let (low, high) = self.values[..2 * filled].split_at_mut(filled);
            let twiddles = self.domain.stage(filled);
            for (low, high) in low.chunks(self.used).zip(high.chunks_mut(self.used)) {
                for j in (0..self.used).step_by(V::LANES) {
                    let product = V::load(&low[j..]).mul(V::load(&twiddles[j..]));
                    product.store(&mut high[j..]);
                }
            }
            filled *= 2;
        }
        for block in self.values.chunks_exact_mut(self.used) {
            let mut size = block.len();
            while size > CACHED {
                for part in block.chunks_exact_mut(size) {
                    two_stages::<V>(self.domain, part);
                }
                size /= 4;
            }
            for part in block.chunks_exact_mut(size) {
                finish::<V>(self.domain, part);
            }
        }
    }
}

/// The stages of halves of 1/2 and of 1/4 of a block.
#[inline(always)]
fn two_stages<V: Packed>(domain: &Domain, block: &mut [Fp]) {
    let quarter = block.len() / 4;
    let (first, second) = (domain.stage(2 * quarter), domain.stage(quarter));
    let (low, high) = block.split_at_mut(2 * quarter);
    let ((a, b), (c, d)) = (low.split_at_mut(quarter), high.split_at_mut(quarter));
    for j in (0..quarter).step_by(V::LANES) {
        let (x0, x1) = (V::load(&a[j..]), V::load(&b[j..]));
        let (x2, x3) = (V::load(&c[j..]), V::load(&d[j..]));
        let (y0, y1) = (x0.add(x2), x1.add(x3));
        let y2 = x0.sub(x2).mul(V::load(&first[j..]));
        let y3 = x1.sub(x3).mul(V::load(&first[quarter + j..]));
        let twiddle = V::load(&second[j..]);
        y0.add(y1).store(&mut a[j..]);
        y0.sub(y1).mul(twiddle).store(&mut b[j..]);
        y2.add(y3).store(&mut c[j..]);
        y2.sub(y3).mul(twiddle).store(&mut d[j..]);
    }
}

/// All stages of a block that is at most [`CACHED`] elements long.
#[inline(always)]
fn finish<V: Packed>(domain: &Domain, block: &mut [Fp]) {
    let mut size = block.len();
    while size >= 4 * V::LANES {
        for part in block.chunks_exact_mut(size) {
            two_stages::<V>(domain, part);
        }
        size /= 4;
    }
    // Two stages at a time leave one over for every other length.
    if size == 2 * V::LANES {
        let twiddles = domain.stage(V::LANES);
        for part in block.chunks_exact_mut(size) {
            let (low, high) = part.split_at_mut(V::LANES);
            let (u, v) = (V::load(low), V::load(high));
            u.add(v).store(low);
            u.sub(v).mul(V::load(twiddles)).store(high);
        }
    }
    if V::LANES > 1 {
        for square in block.chunks_exact_mut(V::LANES * V::LANES) {
            finish_square::<V>(domain, square);
        }
    }
}

/// The stages of halves shorter than a vector, for as many vectors as a vector has elements.
#[inline(always)]
fn finish_square<V: Packed>(domain: &Domain, square: &mut [Fp]) {
    let mut columns = [[Fp::ZERO; LANES_MAX]; LANES_MAX];
    for (l, row) in square.chunks_exact(V::LANES).enumerate() {
        for (column, x) in columns.iter_mut().zip(row) {
            column[l] = *x;
        }
    }
    let mut x = [V::splat(Fp::ZERO); LANES_MAX];
    for k in 0..V::LANES {
        x[k] = V::load(&columns[k]);
    }
    let mut half = V::LANES / 2;
    while half > 0 {
        let twiddles = domain.stage(half);
        for start in (0..V::LANES).step_by(2 * half) {
            for j in 0..half {
                let (u, v) = (x[start + j], x[start + half + j]);
                x[start + j] = u.add(v);
                x[start + half + j] = u.sub(v).mul(V::splat(twiddles[j]));
            }
        }
        half /= 2;
    }
    for k in 0..V::LANES {
        x[k].store(&mut columns[k]);
    }
    for (l, row) in square.chunks_exact_mut(V::LANES).enumerate() {
        for (column, x) in columns.iter().zip(row) {
            *x = column[l];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multilinear::horner;
    use crate::poseidon::kernels::KERNELS;
    use crate::test_random::Random;

    #[test]
    fn values_are_those_of_the_polynomial() {
        let mut random = Random::new(12);
        for (used_log2, log2) in [(0, 1), (3, 3), (6, 8), (9, 10), (11, 12), (13, 14)] {
            let coefficients: Vec<Fp> = (0..1 << used_log2).map(|_| random.fp()).collect();
            let domain = Domain::new(log2);
            for backend in KERNELS.available() {
                let values = domain.evaluate(Exec::new(backend, None), &coefficients);
                for place in (0..1 << log2).step_by(1 << (log2 / 2)).chain([1, 5]) {
                    let k = (place as u64).reverse_bits() >> (64 - log2);
                    let x = Fp::root_of_unity(log2).pow(k);
                    let expected = horner(Fp::ZERO, &coefficients, x);
                    assert_eq!(values[place % values.len()], expected, "{backend}");
                    if values.len() < 8 {
                        break;
                    }
                }
            }
        }
    }
}
