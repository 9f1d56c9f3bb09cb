//! Polynomials over H, the sixteenth roots of unity: one round skips four coordinates.
//!
//! A column of sixteen rows is a polynomial of degree 15 given by its values on H. Its values on a coset g^t·H,
//! with g a root of unity of order 64, follow from its scaled coefficients. Three cosets determine a polynomial of
//! degree below 48, four one of degree below 64.

use std::sync::LazyLock;

use crate::arith::Arith;
use crate::extension::Ext;
use crate::field::Fp;
use crate::kernel::Packed;
use crate::multilinear::powers;

/// Number of rows that one round binds.
pub(crate) const ROWS: usize = 16;

/// Maximum number of cosets used.
pub(crate) const COSETS: usize = 4;

/// Twiddles and scales.
pub(crate) struct Domain {
    /// ω^j and ω^−j for ω of order 16.
    forward: [Fp; ROWS / 2],
    backward: [Fp; ROWS / 2],
    /// g^(t·k)/16 at the bit-reversed index of k.
    scales: [[Fp; ROWS]; COSETS],
    /// Values on coset t at ω^j from values on H.
    matrix: Vec<[Fp; ROWS]>,
}

const fn reversed(k: usize) -> usize {
    (k & 1) << 3 | (k & 2) << 1 | (k & 4) >> 1 | (k & 8) >> 3
}

static DOMAIN: LazyLock<Domain> = LazyLock::new(|| {
    let omega = Fp::root_of_unity(4);
    let g = Fp::root_of_unity(6);
    let inverse = omega.pow(15);
    let sixteenth = Fp::new(16).inverse().unwrap_or_default();
    let scale = |t: usize, place: usize| g.pow((t * reversed(place)) as u64) * sixteenth;
    let point = |p: usize| g.pow((p / ROWS) as u64) * omega.pow((p % ROWS) as u64);
    // L_h(x) = (1/16)·Σ_k (x·ω^−h)^k.
    let basis = |x: Fp, h: usize| -> Fp {
        let ratio = x * inverse.pow(h as u64);
        (0..ROWS as u64).map(|k| ratio.pow(k)).sum::<Fp>() * sixteenth
    };
    Domain {
        forward: std::array::from_fn(|j| omega.pow(j as u64)),
        backward: std::array::from_fn(|j| inverse.pow(j as u64)),
        scales: std::array::from_fn(|t| std::array::from_fn(|k| scale(t, k))),
        matrix: (0..COSETS * ROWS)
            .map(|p| std::array::from_fn(|h| basis(point(p), h)))
            .collect(),
    }
});

/// The tables of the domain.
pub(crate) fn domain() -> &'static Domain {
    &DOMAIN
}

impl Domain {
    /// 16 times the coefficients, in bit-reversed order, from values on H.
    #[inline(always)]
    pub(crate) fn to_coefficients<V: Packed>(&self, a: &mut [V; ROWS]) {
        let mut half = ROWS / 2;
        while half > 0 {
            // Halves of this length use ω^step, whose powers are every step-th of the table.
            let step = ROWS / 2 / half;
            for start in (0..ROWS).step_by(2 * half) {
                for j in 0..half {
                    let (u, v) = (a[start + j], a[start + half + j]);
                    a[start + j] = u.add(v);
                    a[start + half + j] = u.sub(v).mul(V::splat(self.backward[j * step]));
                }
            }
            half /= 2;
        }
    }

    /// Values on coset t from what [`Domain::to_coefficients`] gives.
    #[inline(always)]
    pub(crate) fn to_coset<V: Packed>(&self, t: usize, coefficients: &[V; ROWS]) -> [V; ROWS] {
        let mut a = *coefficients;
        for (x, scale) in a.iter_mut().zip(&self.scales[t]) {
            *x = x.mul(V::splat(*scale));
        }
        // Coefficients are in bit-reversed order, so this transform begins with the smallest halves and needs no
        // permutation.
        let mut half = 1;
        while half < ROWS {
            let step = ROWS / 2 / half;
            for start in (0..ROWS).step_by(2 * half) {
                for j in 0..half {
                    let u = a[start + j];
                    let v = a[start + half + j].mul(V::splat(self.forward[j * step]));
                    a[start + j] = u.add(v);
                    a[start + half + j] = u.sub(v);
                }
            }
            half *= 2;
        }
        a
    }

    /// The values of an extension column on the points of the first cosets, from those on H.
    pub(crate) fn extend(&self, values: &[Ext; ROWS], cosets: usize) -> Vec<Ext> {
        let at = |row: &[Fp; ROWS]| row.iter().zip(values).map(|(c, v)| *v * *c).sum();
        self.matrix[..cosets * ROWS].iter().map(at).collect()
    }

    /// Coefficients of a polynomial from its values on the first cosets.
    pub(crate) fn interpolate(&self, values: &[Ext]) -> Vec<Ext> {
        let cosets = values.len() / ROWS;
        let (g, omega_inverse) = (Fp::root_of_unity(6), self.backward[1]);
        let sixteenth = self.scales[0][0];
        let g_inverse = g.pow(63);
        // v modulo X^16 − i^t has the coefficients d_t,k = Σ_m c_(k+16m)·i^(tm).
        let residue = |t: usize, k: usize| -> Ext {
            let ratio = omega_inverse.pow(k as u64);
            let weights = powers(Fp::ONE, ratio, ROWS);
            let terms = weights.iter().zip(&values[t * ROWS..]);
            let sum: Ext = terms.map(|(w, v)| *v * *w).sum();
            sum * (sixteenth * g_inverse.pow((t * k) as u64))
        };
        let nodes = powers(Fp::ONE, Fp::root_of_unity(2), cosets);
        let inverse = inverse_vandermonde(&nodes);
        let mut out = vec![Ext::ZERO; values.len()];
        for k in 0..ROWS {
            let residues: Vec<Ext> = (0..cosets).map(|t| residue(t, k)).collect();
            for (m, row) in inverse.iter().enumerate() {
                out[k + ROWS * m] = row.iter().zip(&residues).map(|(c, d)| *d * *c).sum();
            }
        }
        out
    }
}

/// Coefficient m of the polynomial that is 1 at node t and 0 at the others: row m, column t.
fn inverse_vandermonde(nodes: &[Fp]) -> Vec<Vec<Fp>> {
    let n = nodes.len();
    let mut rows = vec![vec![Fp::ZERO; n]; n];
    for (t, node) in nodes.iter().enumerate() {
        let mut product = vec![Fp::ZERO; n];
        product[0] = Fp::ONE;
        let mut denominator = Fp::ONE;
        for other in nodes.iter().filter(|other| *other != node) {
            for m in (0..n).rev() {
                let below = if m > 0 { product[m - 1] } else { Fp::ZERO };
                product[m] = below - product[m] * *other;
            }
            denominator *= *node - *other;
        }
        let scale = denominator.inverse().unwrap_or_default();
        for (row, c) in rows.iter_mut().zip(product) {
            row[t] = c * scale;
        }
    }
    rows
}

/// L_h(z) for all h: the weights of a point in the skipped coordinates.
pub(crate) fn lagrange<A: Arith>(arith: &A, z: A::Ext) -> Vec<A::Ext> {
    let powers = powers(arith.ext(Ext::ONE), z, ROWS);
    let omega_inverse = DOMAIN.backward[1];
    let sixteenth = DOMAIN.scales[0][0];
    let weight = |h: usize| {
        let terms = powers
            .iter()
            .enumerate()
            .map(|(k, power)| *power * arith.base(omega_inverse.pow((h * k) as u64) * sixteenth));
        terms.fold(arith.ext(Ext::ZERO), |sum, term| sum + term)
    };
    (0..ROWS).map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::Native;
    use crate::kernel::{Dispatch, Pass};
    use crate::multilinear::horner;
    use crate::poseidon::kernels::KERNELS;
    use crate::test_random::Random;

    struct Extend<'a>(&'a [Vec<Fp>]);

    impl Pass for Extend<'_> {
        type Output = Vec<Vec<Fp>>;

        #[inline(always)]
        fn run<V: Packed>(self) -> Self::Output {
            let mut a = [V::splat(Fp::ZERO); ROWS];
            for (x, row) in a.iter_mut().zip(self.0) {
                *x = V::load(row);
            }
            domain().to_coefficients(&mut a);
            let mut out = Vec::new();
            for t in 0..COSETS {
                for v in domain().to_coset(t, &a) {
                    let mut lanes = vec![Fp::ZERO; 16];
                    v.store(&mut lanes);
                    out.push(lanes);
                }
            }
            out
        }
    }

    #[test]
    fn columns_extend_to_the_cosets() {
        let mut random = Random::new(6);
        let column: Vec<Vec<Fp>> = (0..ROWS)
            .map(|_| (0..16).map(|_| random.fp()).collect())
            .collect();
        for backend in KERNELS.available() {
            let values = backend.run(Extend(&column));
            for lane in 0..backend.lanes() {
                let on_h = std::array::from_fn(|h| Ext::from(column[h][lane]));
                let expected = domain().extend(&on_h, COSETS);
                for (p, value) in expected.iter().enumerate() {
                    assert_eq!(Ext::from(values[p][lane]), *value, "{backend}, point {p}");
                }
                assert_eq!(expected[..ROWS], on_h);
            }
        }
    }

    #[test]
    fn polynomials_are_found_on_three_and_on_four_cosets() {
        let mut random = Random::new(7);
        let (g, omega) = (Fp::root_of_unity(6), Fp::root_of_unity(4));
        for cosets in [3, 4] {
            let c = random.exts(cosets * ROWS);
            let values: Vec<Ext> = (0..cosets * ROWS)
                .map(|p| {
                    let x = g.pow((p / ROWS) as u64) * omega.pow((p % ROWS) as u64);
                    horner(Ext::ZERO, &c, Ext::from(x))
                })
                .collect();
            assert_eq!(domain().interpolate(&values), c);
        }
    }

    /// The weights of a point in F are not those of a multilinear point.
    #[test]
    fn a_skipped_point_has_lagrange_weights() {
        let mut random = Random::new(8);
        let (c, z) = (random.exts(ROWS), random.ext());
        let omega = Fp::root_of_unity(4);
        let weights = lagrange(&Native::new(&[]), z);
        let sum: Ext = (0..ROWS)
            .map(|h| weights[h] * horner(Ext::ZERO, &c, Ext::from(omega.pow(h as u64))))
            .sum();
        assert_eq!(sum, horner(Ext::ZERO, &c, z));
        let multilinear = crate::multilinear::eq_table(Ext::ONE, &[z, z * z, z, z]);
        assert_ne!(weights, multilinear);
    }
}
