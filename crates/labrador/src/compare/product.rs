//! The relation `s_1 + h s_2 + q v = t` over `Z[Y]/(Y^(64 e) + 1)`, in elements of `R`.
//!
//! With `Y^e = X` a polynomial is `e` elements of `R`: coefficient `k` of element `j` is that of
//! `Y^(e k + j)`. The product of two is `c_j = sum_(k <= j) h_(j-k) s_k + X sum_(k > j) h_(e+j-k)
//! s_k`. Norms do not change.

use crate::error::StatementError;
use crate::ring::{DEGREE, Ntt, Rq, Small};

/// A factor `h` and a target `t` for each column.
pub struct Products {
    extension: usize,
    modulus: u64,
    /// `e` elements a column.
    factors: Vec<Small>,
    targets: Vec<Small>,
}

/// The coefficients of one column's equations under their weights.
pub(crate) struct Weighted {
    pub(crate) first: Vec<Rq>,
    pub(crate) second: Vec<Rq>,
    pub(crate) quotient: Vec<Rq>,
    pub(crate) rhs: Rq,
}

/// The elements of a polynomial of `64 e` coefficients.
pub(crate) fn interleaved(polynomial: &[i16], extension: usize) -> Vec<Small> {
    (0..extension)
        .map(|j| Small(std::array::from_fn(|k| polynomial[extension * k + j])))
        .collect()
}

/// `X x`.
fn shifted(x: &Small) -> Small {
    let mut out = x.clone();
    out.0.rotate_right(1);
    out.0[0] = -out.0[0];
    out
}

impl Products {
    /// The relation of columns with these factors and targets: polynomials of `64 extension`
    /// coefficients one after another, centred modulo `modulus`.
    ///
    /// # Errors
    /// If the modulus is even or has no place in 15 bits, there are no polynomials, factors and
    /// targets differ in number, or a coefficient is not centred.
    pub fn new(
        extension: usize,
        modulus: u64,
        factors: &[i16],
        targets: &[i16],
    ) -> Result<Self, StatementError> {
        if modulus.is_multiple_of(2) || modulus >= 1 << 15 {
            return Err(StatementError::FormModulus { modulus });
        }
        let width = extension * DEGREE;
        if width == 0 || factors.is_empty() || !factors.len().is_multiple_of(width) {
            return Err(StatementError::Polynomials {
                coefficients: factors.len(),
                degree: width,
            });
        }
        if targets.len() != factors.len() {
            return Err(StatementError::Polynomials {
                coefficients: targets.len(),
                degree: width,
            });
        }
        let half = (modulus / 2) as u16;
        let mut all = factors.iter().chain(targets);
        if let Some(place) = all.position(|c| c.unsigned_abs() > half) {
            return Err(StatementError::Residue { place, modulus });
        }
        let elements = |flat: &[i16]| -> Vec<Small> {
            let polynomials = flat.chunks_exact(width);
            polynomials
                .flat_map(|polynomial| interleaved(polynomial, extension))
                .collect()
        };
        Ok(Self {
            extension,
            modulus,
            factors: elements(factors),
            targets: elements(targets),
        })
    }

    /// Columns of the relation.
    #[must_use]
    pub(crate) fn columns(&self) -> usize {
        self.factors.len() / self.extension
    }

    /// Elements of a polynomial (`e`).
    pub(crate) fn extension(&self) -> usize {
        self.extension
    }

    pub(crate) fn modulus(&self) -> u64 {
        self.modulus
    }

    /// The residues of `h_k` and of `X h_k` of a column.
    fn factors(&self, column: usize) -> [Vec<Ntt>; 2] {
        let start = column * self.extension;
        let factors = &self.factors[start..start + self.extension];
        let bound = (self.modulus / 2) as u16;
        let residues = |x: &Small| Ntt::from_small_bounded(x, bound);
        [
            factors.iter().map(residues).collect(),
            factors.iter().map(|x| residues(&shifted(x))).collect(),
        ]
    }

    /// `v` of a column, rounded down where the relation is false, and whether it is true. None if
    /// a coefficient has no place in 16 bits.
    pub(crate) fn quotient(
        &self,
        column: usize,
        first: &[Small],
        second: &[Small],
    ) -> Option<(Vec<Small>, bool)> {
        let [plain, turned] = self.factors(column);
        let second: Vec<Ntt> = second.iter().map(Ntt::from_small).collect();
        let (e, q) = (self.extension, self.modulus as i64);
        let mut holds = true;
        let mut out = Vec::with_capacity(e);
        for j in 0..e {
            let factor = |k: usize| match k <= j {
                true => &plain[j - k],
                false => &turned[e + j - k],
            };
            let product = Ntt::dot(second.iter().enumerate().map(|(k, s)| (factor(k), s)));
            let product = product.to_rq().centred();
            let target = &self.targets[column * e + j];
            let mut quotient = Small::ZERO;
            for (k, o) in quotient.0.iter_mut().enumerate() {
                let rest = i64::from(target.0[k]) - i64::from(first[j].0[k]) - product[k];
                holds &= rest % q == 0;
                *o = i16::try_from(rest.div_euclid(q)).ok()?;
            }
            out.push(quotient);
        }
        Some((out, holds))
    }

    /// The sum of a column's `e` equations, each times its weight.
    pub(crate) fn weighted(&self, column: usize, weights: &[Ntt]) -> Weighted {
        let [plain, turned] = self.factors(column);
        let e = self.extension;
        let second = |k: usize| {
            let factor = |j: usize| match k <= j {
                true => &plain[j - k],
                false => &turned[e + j - k],
            };
            Ntt::dot(weights.iter().enumerate().map(|(j, w)| (w, factor(j)))).to_rq()
        };
        let first: Vec<Rq> = weights.iter().map(Ntt::to_rq).collect();
        let targets = &self.targets[column * e..(column + 1) * e];
        let targets: Vec<Ntt> = targets.iter().map(Ntt::from_small).collect();
        Weighted {
            quotient: first.iter().map(|w| w.scaled(self.modulus)).collect(),
            first,
            second: (0..e).map(second).collect(),
            rhs: Ntt::dot(weights.iter().zip(&targets)).to_rq(),
        }
    }

    /// The squared norm that all quotients together have at most, in honest proofs: those of
    /// uniform factors have `||s_2||^2 / 12` a coefficient, and half of a column's norm is its
    /// second half's. An eighth more, or half for few columns.
    pub(crate) fn quotients_norm_sq(columns: usize, extension: usize, norm_sq: u64) -> u128 {
        let mean = columns as u128 * u128::from(norm_sq) * (extension * DEGREE) as u128 / 24;
        if columns >= 128 {
            mean / 8 * 9
        } else {
            mean / 2 * 3
        }
    }

    /// Whether `s_1 + h s_2 + q v - t` of a column cannot wrap around `modulus_of_proof`, given the
    /// exact bound of the column's norm and that of an extracted quotient: by Cauchy and Schwarz.
    pub(crate) fn fits(
        extension: usize,
        modulus: u64,
        column_sq: u128,
        quotient_sq: u128,
        modulus_of_proof: u64,
    ) -> bool {
        let q = u128::from(modulus);
        let root = |x: u128| x.isqrt() + 1;
        let factor = root((extension * DEGREE) as u128 * (q / 2) * (q / 2));
        let sum = factor * root(column_sq) + root(column_sq) + q * root(quotient_sq) + q / 2;
        2 * sum < u128::from(modulus_of_proof)
    }

    /// Everything public, for the transcript.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for x in [self.extension as u64, self.modulus, self.columns() as u64] {
            out.extend(x.to_le_bytes());
        }
        for element in self.factors.iter().chain(&self.targets) {
            out.extend(element.0.iter().flat_map(|c| c.to_le_bytes()));
        }
        out
    }
}
