//! The prover: commitments, then an inner-product argument that halves its vectors.

use alphorn_exec::Exec;
use alphorn_types::Bitfield;

use super::bases::{Bases, powers, weighted_sum};
use super::proof::Proof;
use super::transcript::Transcript;
use super::{Challenges, Committee, IpaError, Statement, check_signers, halve};
use crate::blst_ffi::curve::G1Affine;
use crate::blst_ffi::fr::{Fr, vartime_fold};
use crate::blst_ffi::points::g1;
use crate::keys::PublicKey;

/// Number of bases below which folding is not worth a second thread.
const FOLD_PER_THREAD_MIN: usize = 32;

/// Computes the aggregate key of a committee with multiplicities, and a proof that it contains `signers`.
///
/// Positions that are not claimed may have any multiplicity. The proof is a function of the arguments: nothing
/// is random, and nothing is hidden.
///
/// # Errors
/// If sizes do not match, the signer set is empty, a claimed position has multiplicity zero, or the keys
/// cancel.
pub fn prove(
    bases: &Bases,
    committee: &Committee,
    multiplicities: &[u32],
    signers: &Bitfield,
    exec: Exec<'_>,
) -> Result<(PublicKey, Proof), IpaError> {
    let n = committee.len();
    check_signers(committee, signers)?;
    bases.padded(n)?;
    if multiplicities.len() != n {
        return Err(IpaError::Multiplicities {
            got: multiplicities.len(),
            expected: n,
        });
    }
    if let Some(position) = signers.iter_ones().find(|&i| multiplicities[i] == 0) {
        return Err(IpaError::NotSigned { position });
    }
    let v: Vec<Fr> = multiplicities
        .iter()
        .map(|&m| Fr::from_u128(m.into()))
        .collect();
    let w = inverses(&v, signers);
    let aggregate = weighted_sum(&committee.keys, &v, exec);
    let aggregate = PublicKey::from_point(aggregate).map_err(|_| IpaError::Identity)?;
    let statement = Statement {
        committee,
        signers,
        aggregate: *aggregate.point(),
    };
    let v_point = weighted_sum(&bases.g[..n], &v, exec);
    let w_point = weighted_sum(&bases.h[..n], &w, exec);
    let proof = argue(bases, &statement, v_point, w_point, |_| (v, w), exec);
    if proof.points().any(G1Affine::is_infinity) {
        return Err(IpaError::Identity);
    }
    Ok((aggregate, proof))
}

/// 1 / v_i for signers, 0 for the others.
fn inverses(v: &[Fr], signers: &Bitfield) -> Vec<Fr> {
    let mut out = vec![Fr::ZERO; v.len()];
    // Montgomery's trick: one inversion, three products each.
    let mut product = Fr::one();
    for i in signers.iter_ones() {
        out[i] = product;
        product = product.mul(&v[i]);
    }
    let mut inverse = product.inverse();
    let signers: Vec<usize> = signers.iter_ones().collect();
    for &i in signers.iter().rev() {
        out[i] = out[i].mul(&inverse);
        inverse = inverse.mul(&v[i]);
    }
    out
}

/// The argument for commitments V and W. `witness` returns v and w and receives the challenges, which an honest
/// prover ignores.
pub(super) fn argue(
    bases: &Bases,
    statement: &Statement<'_>,
    v_point: G1Affine,
    w_point: G1Affine,
    witness: impl FnOnce(&Challenges) -> (Vec<Fr>, Vec<Fr>),
    exec: Exec<'_>,
) -> Proof {
    let (mut transcript, challenges) = statement.open(&v_point, &w_point);
    let (v, w) = witness(&challenges);
    let keys = &statement.committee.keys;
    let padded = keys.len().next_power_of_two();

    // G_i + tau P_i; the padding's keys are the identity.
    let mut g = fold(&bases.g[..keys.len()], keys, &challenges.tau, exec);
    g.extend_from_slice(&bases.g[keys.len()..padded]);
    let mut a: Vec<Fr> = v.iter().map(|v| v.mul(&challenges.x)).collect();
    let y_powers = powers(&challenges.y, padded);
    let mut c: Vec<Fr> = w.iter().zip(&y_powers).map(|(w, y)| w.mul(y)).collect();
    a.resize(padded, Fr::ZERO);
    c.resize(padded, Fr::ZERO);
    let vectors = Vectors {
        g,
        h: bases.h[..padded].to_vec(),
        y_inverses: powers(&challenges.y.inverse(), padded),
        q: g1::mul(&bases.q, &challenges.e.to_le_bytes(), 255),
        a,
        c,
    };
    let (rounds, a, c) = vectors.argue(&mut transcript, exec);
    Proof {
        v: v_point,
        w: w_point,
        rounds,
        a,
        c,
    }
}

/// The state of an inner-product argument for <a, g> + <c, ĥ> + <a, c>·q with ĥ_i = y^-i·h_i.
///
/// The factors y^-i are kept separate from the points. They are the same in both halves except for y^-m, which
/// goes into the scalar of the fold.
pub(super) struct Vectors {
    pub(super) g: Vec<G1Affine>,
    pub(super) h: Vec<G1Affine>,
    pub(super) y_inverses: Vec<Fr>,
    pub(super) q: G1Affine,
    pub(super) a: Vec<Fr>,
    pub(super) c: Vec<Fr>,
}

impl Vectors {
    /// Halves until one entry is left; returns (L, R) of each halving and the final a and c.
    pub(super) fn argue(
        mut self,
        transcript: &mut Transcript,
        exec: Exec<'_>,
    ) -> (Vec<(G1Affine, G1Affine)>, Fr, Fr) {
        let mut rounds = Vec::new();
        while self.a.len() > 1 {
            let (left, right) = self.cross_terms(exec);
            let u = halve(transcript, &left, &right);
            rounds.push((left, right));
            self.fold(&u, exec);
        }
        (rounds, self.a[0], self.c[0])
    }

    /// L = <a_lo, g_hi> + <c_hi, ĥ_lo> + <a_lo, c_hi>·q, and R with the halves swapped.
    fn cross_terms(&self, exec: Exec<'_>) -> (G1Affine, G1Affine) {
        let half = self.a.len() / 2;
        let (a_lo, a_hi) = self.a.split_at(half);
        let (c_lo, c_hi) = self.c.split_at(half);
        let (g_lo, g_hi) = self.g.split_at(half);
        let (h_lo, h_hi) = self.h.split_at(half);
        let (y_lo, y_hi) = self.y_inverses[..2 * half].split_at(half);
        let cross = |a: &[Fr], g: &[G1Affine], c: &[Fr], h: &[G1Affine], y: &[Fr]| {
            let scaled: Vec<Fr> = c.iter().zip(y).map(|(c, y)| c.mul(y)).collect();
            g1::sum_naive(&[
                weighted_sum(g, a, exec),
                weighted_sum(h, &scaled, exec),
                g1::mul(&self.q, &inner_product(a, c).to_le_bytes(), 255),
            ])
        };
        (
            cross(a_lo, g_hi, c_hi, h_lo, y_lo),
            cross(a_hi, g_lo, c_lo, h_hi, y_hi),
        )
    }

    fn fold(&mut self, u: &Fr, exec: Exec<'_>) {
        let half = self.a.len() / 2;
        let u_inverse = u.inverse();
        fold_scalars(&mut self.a, &u_inverse);
        fold_scalars(&mut self.c, u);
        self.g = fold(&self.g[..half], &self.g[half..], u, exec);
        let scalar = u_inverse.mul(&self.y_inverses[half]);
        self.h = fold(&self.h[..half], &self.h[half..], &scalar, exec);
    }
}

/// `low + scalar * high`.
fn fold_scalars(vector: &mut Vec<Fr>, scalar: &Fr) {
    let half = vector.len() / 2;
    let high = vector.split_off(half);
    for (low, high) in vector.iter_mut().zip(&high) {
        *low = low.add(&scalar.mul(high));
    }
}

/// `low + scalar * high`, on all threads.
fn fold(low: &[G1Affine], high: &[G1Affine], scalar: &Fr, exec: Exec<'_>) -> Vec<G1Affine> {
    let chunks = exec.pieces(low.len(), FOLD_PER_THREAD_MIN, usize::MAX);
    let parts = exec.map(chunks.len(), |c| {
        vartime_fold(&low[chunks[c].clone()], &high[chunks[c].clone()], scalar)
    });
    parts.concat()
}

fn inner_product(a: &[Fr], c: &[Fr]) -> Fr {
    a.iter()
        .zip(c)
        .fold(Fr::ZERO, |sum, (a, c)| sum.add(&a.mul(c)))
}
