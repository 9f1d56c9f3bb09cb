//! The bases shared by all committees, and weighted sums of points.

use alphorn_exec::Exec;

use super::{IpaError, TAG, check_keys};
use crate::blst_ffi::curve::G1Affine;
use crate::blst_ffi::fr::Fr;
use crate::blst_ffi::pairing::hash_to_g1;
use crate::blst_ffi::points::g1;

/// Points below which a sum is not worth a second thread.
const POINTS_PER_THREAD_MIN: usize = 256;

/// G_i, H_i and Q: points of G1 with unknown discrete logarithms, because they are hashes.
#[derive(Clone, Debug)]
pub struct Bases {
    pub(super) g: Vec<G1Affine>,
    pub(super) h: Vec<G1Affine>,
    pub(super) q: G1Affine,
}

/// Base `index` of a family: the RFC 9380 hash of its name and its index as four bytes.
fn base(family: u8, index: usize) -> G1Affine {
    let mut message = [family, 0, 0, 0, 0];
    message[1..].copy_from_slice(&(index as u32).to_le_bytes());
    hash_to_g1(&message, TAG)
}

impl Bases {
    /// Derives the bases for committees of up to `keys` keys, a fixed function of that number: two hashes to G1
    /// per key, with `keys` rounded up to a power of two. Bases for more keys begin with those for fewer.
    ///
    /// # Errors
    /// [`IpaError::Keys`] if there are no keys or more than `super::KEYS_MAX`.
    pub fn derive(keys: usize, exec: Exec<'_>) -> Result<Bases, IpaError> {
        check_keys(keys)?;
        let padded = keys.next_power_of_two();
        let family = |name: u8| exec.map(padded, |i| base(name, i));
        Ok(Bases {
            g: family(b'G'),
            h: family(b'H'),
            q: base(b'Q', 0),
        })
    }

    /// Largest committee that these bases support.
    pub(crate) fn keys_max(&self) -> usize {
        self.g.len()
    }

    /// The size to which `keys` keys are padded.
    pub(super) fn padded(&self, keys: usize) -> Result<usize, IpaError> {
        let padded = keys.next_power_of_two();
        if padded > self.keys_max() {
            return Err(IpaError::Bases {
                got: self.keys_max(),
                needed: padded,
            });
        }
        Ok(padded)
    }
}

/// `sum scalars[i] * points[i]`; variable time. The identity and zero scalars cost nothing, and short scalars
/// are processed with as many bits as the longest one has.
pub(super) fn weighted_sum(points: &[G1Affine], scalars: &[Fr], exec: Exec<'_>) -> G1Affine {
    assert_eq!(points.len(), scalars.len(), "one scalar a point");
    let chunks = exec.pieces(points.len(), POINTS_PER_THREAD_MIN, usize::MAX);
    let parts = exec.map(chunks.len(), |c| {
        let terms = chunks[c].clone().map(|i| (&points[i], &scalars[i]));
        let (kept, scalars): (Vec<G1Affine>, Vec<[u8; 32]>) = terms
            .filter(|(point, scalar)| !point.is_infinity() && !scalar.is_zero())
            .map(|(point, scalar)| (*point, scalar.to_le_bytes()))
            .unzip();
        let width = scalars
            .iter()
            .map(|scalar| {
                scalar
                    .iter()
                    .rposition(|&byte| byte != 0)
                    .map_or(1, |at| at + 1)
            })
            .max()
            .unwrap_or(1);
        let bytes: Vec<u8> = scalars
            .iter()
            .flat_map(|s| s[..width].iter().copied())
            .collect();
        // The group order has 255 bits.
        g1::vartime_msm(&kept, &bytes, (8 * width).min(255))
    });
    g1::sum_naive(&parts)
}

/// `1, x, x^2, ..`, `n` of them.
pub(super) fn powers(x: &Fr, n: usize) -> Vec<Fr> {
    core::iter::successors(Some(Fr::one()), |power| Some(power.mul(x)))
        .take(n)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_exec::Backend;

    #[test]
    fn bases_are_different_points_of_the_group_and_a_prefix_of_longer_lists() {
        let small = Bases::derive(5, Exec::serial()).unwrap();
        let large = Bases::derive(16, Exec::serial()).unwrap();
        assert_eq!((small.keys_max(), large.keys_max()), (8, 16));
        assert_eq!((&small.g[..], &small.h[..]), (&large.g[..8], &large.h[..8]));
        let all: Vec<_> = large.g.iter().chain(&large.h).chain([&large.q]).collect();
        for (i, point) in all.iter().enumerate() {
            assert!(g1::in_group(point) && !point.is_infinity());
            assert!(!all[..i].contains(point));
        }
        assert!(matches!(
            large.padded(17),
            Err(IpaError::Bases {
                got: 16,
                needed: 32
            })
        ));
    }

    #[test]
    fn a_weighted_sum_is_the_sum_of_products() {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .unwrap();
        let mut points = Bases::derive(512, Exec::new(Backend::Portable, Some(&pool)))
            .unwrap()
            .g;
        points[3] = G1Affine::INFINITY;
        for width in [1, 16, 32] {
            for n in [0, 1, 4, 40, 512] {
                let scalar = |i: usize| match (width, i % 5) {
                    (_, 0) => Fr::ZERO,
                    (1, r) => Fr::from_u128(r as u128),
                    (16, _) => Fr::from_u128(u128::MAX - i as u128),
                    _ => Fr::from_u128(i as u128).inverse(),
                };
                let scalars: Vec<Fr> = (0..n).map(scalar).collect();
                let products: Vec<_> = points
                    .iter()
                    .zip(&scalars)
                    .map(|(point, scalar)| g1::mul(point, &scalar.to_le_bytes(), 255))
                    .collect();
                let exec = Exec::new(Backend::Portable, (n > 40).then_some(&pool));
                let sum = weighted_sum(&points[..n], &scalars, exec);
                assert_eq!(sum, g1::sum_naive(&products), "{width} bytes, {n} points");
            }
        }
    }
}
