//! Claims of the protocol on their way to one test: signatures decoded, keys summed.

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::Arc;

use alphorn_scheme::{Claim, Ctx, Layer, Statement};
use alphorn_types::{Bitfield, Support};

use super::Bls;
use super::bases::BASES_MAX;
use super::epoch::EpochKeys;
use crate::batch::{Batch, SignatureSet};
use crate::blst_ffi::curve::G1Affine;
use crate::decode::decode_signatures;
use crate::exec::Exec;
use crate::keys::{PublicKey, Signature};
use crate::rlc::Rlc;
use crate::sums::{
    Base, Columns, CommitteeJob, KeyTable, Method, SumReport, Workspace, sum_columns,
};

/// Signatures for each thread that are decoded between two looks at the stop flag: some 12 ms.
const DECODED_MAX: usize = 256;
/// What sums may take between two looks at the stop flag, by the planner's own prediction.
const SUMS_NS: f64 = 10e6;
/// Bits of columns to one addition of a job whose bits are random: sixteen columns share one.
const BITS_PER_ADDITION: f64 = 8.0;
/// Collections of one job, behind which nothing more is shared.
const COLLECTIONS_PER_JOB: usize = 64;

/// Claims whose signatures are decoded and whose keys are summed.
pub struct PreparedClaims {
    batch: Batch,
    count: usize,
    /// The task was asked to end before the claims were ready: nothing is known of them.
    stopped: bool,
    candidates: Vec<Candidate>,
    sums: Vec<SumReport>,
}

/// A collection whose planes have known sums, worth keeping if the claim holds.
struct Candidate {
    claim: usize,
    committee: usize,
    statement: Statement,
    support: Arc<Support>,
    /// The sums of the lowest planes.
    sums: Vec<G1Affine>,
}

/// Whose key a column gives.
#[derive(Clone, Copy)]
enum Want {
    Claim(usize),
    /// A plane of the candidate with this index.
    Plane(usize),
}

/// By cell or committee of a table: what is summed over it.
type Groups<'a> = BTreeMap<usize, Vec<(Want, Vec<&'a [u64]>)>>;

/// The planes of a support as slices of words.
fn planes(support: &Support) -> Vec<&[u64]> {
    support.planes().iter().map(Bitfield::words).collect()
}

impl PreparedClaims {
    /// Decodes and sums; makes the test of everything, for which there may be a pool here.
    pub(super) fn new(
        scheme: &Bls,
        keys: &EpochKeys,
        claims: &[Claim],
        rlc: &Rlc,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> PreparedClaims {
        let pulse = ctx.pulse();
        let exec = Exec::new(ctx.pool()).with_pulse(&pulse);
        let mut prepared = PreparedClaims {
            batch: Batch::new(&[], rlc, Exec::serial()),
            count: claims.len(),
            stopped: true,
            candidates: Vec::new(),
            sums: Vec::new(),
        };
        let Some(signatures) = decode(claims, scheme, rlc, exec) else {
            return prepared;
        };
        let Some(public_keys) = prepared.claim_keys(scheme, keys, claims, ctx) else {
            return prepared;
        };
        let sets: Vec<Option<SignatureSet<'_>>> = claims
            .iter()
            .zip(signatures)
            .zip(public_keys)
            .map(|((claim, signature), key)| {
                Some(SignatureSet {
                    key: key?,
                    message: claim.message(),
                    signature: signature?,
                })
            })
            .collect();
        prepared.batch = Batch::new(&sets, rlc, exec);
        let all_good = prepared.batch.check_all(exec);
        // Asked last: if the flag was up at any time before, a value may be none.
        prepared.stopped = ctx.stopped();
        if all_good && !prepared.stopped {
            prepared.learn(keys, &[]);
        }
        prepared
    }

    /// Whether all claims of a range hold; false if nothing is known of them.
    pub(super) fn check(&self, range: Range<usize>) -> bool {
        !self.stopped && self.batch.check(range, Exec::serial())
    }

    /// The claims that do not hold, ascending; all of them if the task was asked to end.
    pub(super) fn locate(&self, keys: &EpochKeys, ctx: &Ctx<'_, Workspace>) -> Vec<usize> {
        let pulse = ctx.pulse();
        if !self.stopped {
            let exec = Exec::new(ctx.pool()).with_pulse(&pulse);
            let bad = self.batch.locate(exec).bad;
            if !ctx.stopped() {
                self.learn(keys, &bad);
                return bad;
            }
        }
        (0..self.count).collect()
    }

    /// Columns that were summed by a method.
    pub fn columns_by(&self, method: Method) -> u64 {
        self.sums.iter().map(|sums| sums.methods.get(method)).sum()
    }

    /// Keeps the best collection of each committee that is not among the `bad` claims.
    fn learn(&self, keys: &EpochKeys, bad: &[usize]) {
        let table = keys.table(Layer::Collection);
        keys.with_known(|known| {
            for candidate in &self.candidates {
                if bad.binary_search(&candidate.claim).is_ok() {
                    continue;
                }
                let lowest = candidate.support.planes().iter().zip(&candidate.sums);
                let bases = lowest.map(|(plane, sum)| {
                    Base::of_sum(table, candidate.committee, plane.words(), *sum)
                        .expect("the plane was summed over this committee")
                });
                let signers = candidate.support.signer_count();
                known[candidate.committee].learn(
                    candidate.statement.slot,
                    signers,
                    bases.collect(),
                );
            }
        });
    }

    /// The key under which each claim must verify, none where there is no such key; nothing at all
    /// if the task is asked to end.
    fn claim_keys(
        &mut self,
        scheme: &Bls,
        keys: &EpochKeys,
        claims: &[Claim],
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Option<Vec<Option<PublicKey>>> {
        let mut found: Vec<Option<PublicKey>> = claims
            .iter()
            .map(|claim| match claim {
                Claim::One { validator, .. } | Claim::Selected { validator, .. } => {
                    keys.registry().keys().get(validator.0 as usize).copied()
                }
                Claim::Group { .. } => None,
            })
            .collect();
        for layer in [Layer::Aggregate, Layer::Collection] {
            let mut groups: Groups<'_> = BTreeMap::new();
            for (i, claim) in claims.iter().enumerate() {
                let Claim::Group {
                    statement,
                    evidence,
                } = claim
                else {
                    continue;
                };
                let fits =
                    statement.layer == layer && evidence.support.len() == statement.len as usize;
                if let Some(place) = keys.place(statement).filter(|_| fits) {
                    let columns = groups.entry(place).or_default();
                    columns.push((Want::Claim(i), planes(&evidence.support)));
                }
            }
            if layer == Layer::Collection && !scheme.naive {
                self.candidates = candidates(claims, &groups);
            }
            // The planes of candidates have other sums than their claims.
            let supports: Vec<Arc<Support>> = self
                .candidates
                .iter()
                .map(|candidate| candidate.support.clone())
                .collect();
            for (c, (candidate, support)) in self.candidates.iter().zip(&supports).enumerate() {
                if support.planes_count() > 1 {
                    let columns = groups.entry(candidate.committee).or_default();
                    let lowest = support.planes().iter().take(BASES_MAX);
                    columns.extend(lowest.map(|plane| (Want::Plane(c), vec![plane.words()])));
                }
            }
            let sums = self.sum(scheme, keys, layer, &groups, ctx)?;
            for ((want, _), sum) in groups.values().flatten().zip(sums) {
                match want {
                    Want::Claim(i) => found[*i] = PublicKey::from_point(sum).ok(),
                    Want::Plane(c) => self.candidates[*c].sums.push(sum),
                }
            }
        }
        // The sum of a bitfield is the key of its claim.
        for candidate in &mut self.candidates {
            if let (true, Some(key)) = (candidate.sums.is_empty(), &found[candidate.claim]) {
                candidate.sums.push(*key.point());
            }
        }
        Some(found)
    }

    /// The sums of all columns of all groups, in order; none if the task is asked to end.
    fn sum(
        &mut self,
        scheme: &Bls,
        keys: &EpochKeys,
        layer: Layer,
        groups: &Groups<'_>,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Option<Vec<G1Affine>> {
        let table = keys.table(layer);
        let columns: Vec<Vec<Columns<'_>>> = groups
            .values()
            .map(|members| {
                let columns = members.iter().map(|(_, planes)| Columns { planes });
                columns.collect()
            })
            .collect();
        let bases: Vec<Vec<Base>> = groups
            .keys()
            .map(|&place| keys.bases(layer, place))
            .collect();
        // A flood of claims on one committee makes more jobs, not larger ones; additions of one
        // key after the other are so slow that a job has one claim.
        let per_job = if scheme.naive { 1 } else { COLLECTIONS_PER_JOB };
        let mut jobs = Vec::new();
        for ((&committee, columns), bases) in groups.keys().zip(&columns).zip(&bases) {
            jobs.extend(columns.chunks(per_job).map(|collections| CommitteeJob {
                committee,
                collections,
                bases,
            }));
        }
        let threads = ctx.pool().map_or(1, rayon::ThreadPool::current_num_threads);
        let limit_ns = SUMS_NS * threads as f64;
        let mut sums = Vec::new();
        let mut rest = jobs.as_slice();
        while !rest.is_empty() {
            if ctx.checkpoint().is_err() {
                return None;
            }
            let mut predicted_ns = 0.0;
            let fitting = rest.iter().take_while(|job| {
                predicted_ns += predict_ns(scheme, table, job);
                predicted_ns <= limit_ns
            });
            let (now, later) = rest.split_at(fitting.count().max(1));
            let part = sum_columns(table, now, &scheme.sum_options(), ctx.scratch, ctx.pool())
                .expect("places and lengths of the claims were checked");
            sums.extend(part.keys);
            self.sums.push(part.report);
            rest = later;
        }
        Some(sums)
    }
}

/// Nanoseconds of one thread for the sums of a job, at most about so.
fn predict_ns(scheme: &Bls, table: &KeyTable, job: &CommitteeJob<'_>) -> f64 {
    let planes: usize = job.collections.iter().map(|c| c.planes.len()).sum();
    let bits = (planes * table.committee(job.committee).len()) as f64;
    if scheme.naive {
        bits * scheme.costs.naive_add_ns
    } else {
        bits / BITS_PER_ADDITION * scheme.costs.add_ns + scheme.costs.job_ns
    }
}

/// What may be worth keeping of each committee: every bitfield, and the support with most signers
/// if that one has multiplicities.
fn candidates(claims: &[Claim], groups: &Groups<'_>) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (&committee, members) in groups {
        let of_claim = |claim: usize| match &claims[claim] {
            Claim::Group {
                statement,
                evidence,
            } => Some(Candidate {
                claim,
                committee,
                statement: *statement,
                support: evidence.support.clone(),
                sums: Vec::new(),
            }),
            Claim::One { .. } | Claim::Selected { .. } => None,
        };
        let members = members.iter().filter_map(|(want, _)| match want {
            Want::Claim(claim) => of_claim(*claim),
            Want::Plane(_) => None,
        });
        let (bitfields, counted): (Vec<Candidate>, Vec<Candidate>) =
            members.partition(|candidate| candidate.support.planes_count() == 1);
        candidates.extend(bitfields);
        candidates.extend(
            counted
                .into_iter()
                .max_by_key(|candidate| candidate.support.signer_count()),
        );
    }
    candidates
}

/// Each claim's signature if it decodes; nothing at all if the task is asked to end.
fn decode(
    claims: &[Claim],
    scheme: &Bls,
    rlc: &Rlc,
    exec: Exec<'_>,
) -> Option<Vec<Option<Signature>>> {
    let encoded: Vec<&[u8]> = claims
        .iter()
        .map(|claim| match claim {
            Claim::One { signature, .. } => &**signature,
            Claim::Selected { proof, .. } => &**proof,
            Claim::Group { evidence, .. } => &*evidence.bytes,
        })
        .collect();
    let mut signatures = Vec::with_capacity(encoded.len());
    for part in encoded.chunks(DECODED_MAX * exec.threads()) {
        if exec.stopped() {
            return None;
        }
        let decoded = decode_signatures(part, scheme.backend, rlc, exec);
        signatures.extend(decoded.into_iter().map(Result::ok));
    }
    Some(signatures)
}
