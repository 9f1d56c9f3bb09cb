//! The verifier: one multi-scalar sum that must be the identity, for one proof or for many.

use std::collections::BTreeMap;

use alphorn_exec::Exec;
use sha2::{Digest, Sha256};

use super::bases::{Bases, powers, weighted_sum};
use super::{Claim, Committee, IpaError, TAG, halve};
use crate::blst_ffi::curve::G1Affine;
use crate::blst_ffi::fr::Fr;
use crate::blst_ffi::points::g1;
use crate::rlc::{Rlc, WeightStream};

/// Verifies one proof.
///
/// A proof is meaningful only together with a valid signature under the aggregate key; see the lecture of this
/// module.
///
/// # Errors
/// [`IpaError::Rejected`] for a proof that does not hold, [`IpaError::Bases`] if there are too few bases.
pub fn verify(bases: &Bases, claim: &Claim<'_>, exec: Exec<'_>) -> Result<(), IpaError> {
    bases.padded(claim.statement.committee.len())?;
    let mut tally = Tally::default();
    // A single equation needs no random weight.
    tally.add(claim, &Fr::one());
    accepted(&tally.sum(bases, exec))
}

/// Verifies many proofs, of one committee or several, in one sum: two sums over the shared bases and one over
/// the keys of each committee. A batch with a bad proof passes with probability at most 2^-b, where b is the
/// number of bits of the weights. An empty batch passes.
///
/// # Errors
/// [`IpaError::Rejected`] if some proof does not hold ([`super::locate`] finds it), [`IpaError::Bases`] if
/// there are too few bases.
pub fn verify_batch(
    bases: &Bases,
    claims: &[Claim<'_>],
    rlc: &Rlc,
    exec: Exec<'_>,
) -> Result<(), IpaError> {
    let batch = Batch::new(bases, claims, rlc)?;
    let all: Vec<usize> = (0..claims.len()).collect();
    accepted(&batch.value(&all, exec))
}

fn accepted(sum: &G1Affine) -> Result<(), IpaError> {
    if sum.is_infinity() {
        Ok(())
    } else {
        Err(IpaError::Rejected)
    }
}

/// Claims with their random weights.
pub(super) struct Batch<'a> {
    bases: &'a Bases,
    pub(super) claims: &'a [Claim<'a>],
    weights: Vec<Fr>,
    /// The rest of the stream of weights.
    pub(super) stream: WeightStream,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        bases: &'a Bases,
        claims: &'a [Claim<'a>],
        rlc: &Rlc,
    ) -> Result<Batch<'a>, IpaError> {
        for claim in claims {
            bases.padded(claim.statement.committee.len())?;
        }
        let mut stream = rlc.stream(&digest(claims));
        let weights = claims.iter().map(|_| {
            let mut bytes = Vec::with_capacity(16);
            stream.push_weight(&mut bytes);
            bytes.resize(16, 0);
            let low_first = bytes.iter().rev();
            Fr::from_u128(low_first.fold(0, |value, &byte| value << 8 | u128::from(byte)))
        });
        let weights = weights.collect();
        Ok(Batch {
            bases,
            claims,
            weights,
            stream,
        })
    }

    /// The weighted sum of the verification equations of some claims: the identity if all hold.
    pub(super) fn value(&self, chosen: &[usize], exec: Exec<'_>) -> G1Affine {
        let chunks = exec.pieces(chosen.len(), 1, usize::MAX);
        let tallies = exec.map(chunks.len(), |c| {
            let mut tally = Tally::default();
            for &i in &chosen[chunks[c].clone()] {
                tally.add(&self.claims[i], &self.weights[i]);
            }
            tally
        });
        let mut all = Tally::default();
        tallies.into_iter().for_each(|tally| all.join(tally));
        all.sum(self.bases, exec)
    }
}

/// SHA-256 over everything that the verdicts depend on.
fn digest(claims: &[Claim<'_>]) -> [u8; 32] {
    let mut hasher = Sha256::new_with_prefix(TAG);
    for claim in claims {
        let statement = &claim.statement;
        hasher.update(statement.committee.digest);
        for field in [statement.signers.to_bytes(), claim.proof.to_bytes()] {
            hasher.update((field.len() as u64).to_le_bytes());
            hasher.update(field);
        }
        hasher.update(crate::keys::encode_g1(&statement.aggregate));
    }
    hasher.finalize().into()
}

/// The scalar of every point in a sum of weighted verification equations.
#[derive(Default)]
struct Tally<'a> {
    g: Vec<Fr>,
    h: Vec<Fr>,
    q: Fr,
    /// By digest: the committee and the scalars of its keys.
    committees: BTreeMap<[u8; 32], (Option<&'a Committee>, Vec<Fr>)>,
    /// The points of claims and proofs.
    points: Vec<G1Affine>,
    scalars: Vec<Fr>,
}

impl<'a> Tally<'a> {
    /// Adds `weight` times the equation of a claim:
    /// Σ (u_j·L_j + u_j^-1·R_j) + x·V + x·τ·A + W + (x·z − a·c)·e·Q
    /// − a·Σ s_i·(G_i + τ·P_i) − c·Σ s_i^-1·y^-i·H_i.
    fn add(&mut self, claim: &Claim<'a>, weight: &Fr) {
        let (statement, proof) = (&claim.statement, claim.proof);
        let (mut transcript, challenges) = statement.open(&proof.v, &proof.w);
        let x = challenges.x.mul(weight);
        self.term(&proof.v, x);
        self.term(&statement.aggregate, x.mul(&challenges.tau));
        self.term(&proof.w, *weight);
        let mut us = Vec::with_capacity(proof.rounds.len());
        for (left, right) in &proof.rounds {
            let u = halve(&mut transcript, left, right);
            let u_inverse = u.inverse();
            self.term(left, u.mul(weight));
            self.term(right, u_inverse.mul(weight));
            us.push((u, u_inverse));
        }
        // Everywhere else a and c occur one at a time; in a·c only one of them may carry the weight.
        let (a, c) = (proof.a.mul(weight), proof.c.mul(weight));
        let inner = x
            .mul(&statement.claimed(&challenges.y))
            .sub(&a.mul(&proof.c));
        self.q = self.q.add(&inner.mul(&challenges.e));

        let g = products(us.iter().map(|(u, _)| u), a.neg());
        add_to(&mut self.g, g.iter().copied());
        let entry = self.committees.entry(statement.committee.digest);
        let (committee, keys) = entry.or_default();
        *committee = Some(statement.committee);
        // The keys of the padding are the identity and need no scalar.
        let scaled = g[..statement.committee.len()].iter();
        add_to(keys, scaled.map(|g| g.mul(&challenges.tau)));
        let h = products(us.iter().map(|(_, inverse)| inverse), c.neg());
        let y_inverses = powers(&challenges.y.inverse(), h.len());
        add_to(
            &mut self.h,
            h.iter().zip(&y_inverses).map(|(h, y)| h.mul(y)),
        );
    }

    fn term(&mut self, point: &G1Affine, scalar: Fr) {
        self.points.push(*point);
        self.scalars.push(scalar);
    }

    fn join(&mut self, other: Tally<'a>) {
        add_to(&mut self.g, other.g.into_iter());
        add_to(&mut self.h, other.h.into_iter());
        self.q = self.q.add(&other.q);
        for (digest, (committee, scalars)) in other.committees {
            let entry = self.committees.entry(digest).or_default();
            entry.0 = committee;
            add_to(&mut entry.1, scalars.into_iter());
        }
        self.points.extend(other.points);
        self.scalars.extend(other.scalars);
    }

    fn sum(&self, bases: &Bases, exec: Exec<'_>) -> G1Affine {
        let mut parts = vec![
            weighted_sum(&bases.g[..self.g.len()], &self.g, exec),
            weighted_sum(&bases.h[..self.h.len()], &self.h, exec),
            weighted_sum(&[bases.q], &[self.q], exec),
            weighted_sum(&self.points, &self.scalars, exec),
        ];
        for (committee, scalars) in self.committees.values() {
            let keys = committee.map_or(&[][..], |committee| &committee.keys);
            parts.push(weighted_sum(keys, scalars, exec));
        }
        g1::sum_naive(&parts)
    }
}

/// `first` times the product, for each i below 2^k, of the factors selected by the bits of i; the first factor
/// corresponds to the most significant bit.
fn products<'f>(factors: impl DoubleEndedIterator<Item = &'f Fr>, first: Fr) -> Vec<Fr> {
    let mut out = vec![first];
    for factor in factors.rev() {
        let upper: Vec<Fr> = out.iter().map(|product| product.mul(factor)).collect();
        out.extend(upper);
    }
    out
}

/// Adds to a vector that grows as needed.
fn add_to(sums: &mut Vec<Fr>, terms: impl ExactSizeIterator<Item = Fr>) {
    if sums.len() < terms.len() {
        sums.resize(terms.len(), Fr::ZERO);
    }
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum = sum.add(&term);
    }
}
