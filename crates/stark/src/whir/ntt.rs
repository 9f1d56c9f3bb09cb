//! Values of a polynomial on roots of unity, in bit-reversed order.

use crate::exec::Exec;
use crate::field::Fp;
use crate::kernel::{Packed, Pass};

/// Twiddles of all stages for a domain of 2^log2 points.
pub(super) struct Domain {
    /// For halves of 2^(log2−1), …, 2, 1: the powers of the root of that stage.
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
            stages: (1..=log2).rev().map(stage).collect(),
        }
    }

    /// Points of the domain.
    pub(super) fn size(&self) -> usize {
        1 << self.stages.len()
    }

    /// The values of a polynomial: the value at ω^k lies at the reversed bits of k.
    pub(super) fn evaluate(&self, exec: Exec<'_>, coefficients: &[Fp]) -> Vec<Fp> {
        let mut values = coefficients.to_vec();
        values.resize(self.size(), Fp::ZERO);
        for twiddles in &self.stages {
            exec.backend_for(twiddles.len()).run(Stage {
                values: &mut values,
                twiddles,
            });
        }
        values
    }
}

/// (u, v) ↦ (u + v, (u − v)·ω^j), in all blocks.
struct Stage<'a> {
    values: &'a mut [Fp],
    twiddles: &'a [Fp],
}

impl Pass for Stage<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        let half = self.twiddles.len();
        for block in self.values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for j in (0..half).step_by(V::LANES) {
                let (u, v) = (V::load(&low[j..]), V::load(&high[j..]));
                u.add(v).store(&mut low[j..]);
                let product = u.sub(v).mul(V::load(&self.twiddles[j..]));
                product.store(&mut high[j..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Backend;
    use crate::multilinear::horner;
    use crate::test_random::Random;

    #[test]
    fn values_are_those_of_the_polynomial() {
        let mut random = Random::new(12);
        let coefficients: Vec<Fp> = (0..64).map(|_| random.fp()).collect();
        let domain = Domain::new(8);
        for backend in Backend::available() {
            let values = domain.evaluate(Exec::new(backend, None), &coefficients);
            for (place, value) in values.iter().enumerate() {
                let k = (place as u64).reverse_bits() >> (64 - 8);
                let x = Fp::root_of_unity(8).pow(k);
                assert_eq!(*value, horner(Fp::ZERO, &coefficients, x), "{backend}");
            }
        }
    }
}
