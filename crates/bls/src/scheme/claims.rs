//! Protocol claims in preparation, and what their sums contribute to later ones.

use core::ops::Range;
use std::sync::Arc;

use alphorn_exec::Exec;
use alphorn_scheme::{Claim, Ctx, Role};
use alphorn_types::{Bitfield, Slot, Support};

use super::Bls;
use super::bases::BASES_MAX;
use super::epoch::EpochKeys;
use crate::batch::Located;
use crate::committee::{Item, Prepared, Signers, VerifyOptions, VerifyTimings};
use crate::rlc::Rlc;
use crate::sums::{Base, SumReport, Workspace};

/// Claims with decoded signatures and summed keys.
pub struct PreparedClaims {
    prepared: Prepared,
    /// Collections whose planes have known sums, worth keeping if the claim holds.
    candidates: Vec<Candidate>,
    /// For each claim, the validator whose vote it is; empty if no votes are to be kept.
    voters: Vec<Option<u32>>,
}

struct Candidate {
    claim: usize,
    committee: usize,
    slot: Slot,
    support: Arc<Support>,
}

/// The signers that a claim names; `planes` are those of its support.
fn signers<'a>(keys: &EpochKeys, claim: &Claim, planes: &'a [&'a [u64]]) -> Signers<'a> {
    match claim {
        Claim::One { validator, .. } | Claim::Selected { validator, .. } => {
            let key = keys.registry().keys().get(validator.0 as usize);
            key.map_or(Signers::Unknown, |key| Signers::One(*key))
        }
        Claim::Group {
            statement,
            evidence,
        } => {
            let fits = evidence.support.len() == statement.len as usize;
            let place = keys.place(statement).filter(|_| fits);
            place.map_or(Signers::Unknown, |committee| Signers::Sum {
                committee,
                planes,
            })
        }
    }
}

/// The bytes meant to prove a claim.
fn signature(claim: &Claim) -> &[u8] {
    match claim {
        Claim::One { signature, .. } => signature,
        Claim::Selected { proof, .. } => proof,
        Claim::Group { evidence, .. } => &evidence.bytes,
    }
}

/// The planes of a claim's support as slices of words.
fn planes(claim: &Claim) -> Vec<&[u64]> {
    match claim {
        Claim::One { .. } | Claim::Selected { .. } => Vec::new(),
        Claim::Group { evidence, .. } => {
            let planes = evidence.support.planes().iter();
            planes.map(Bitfield::words).collect()
        }
    }
}

impl PreparedClaims {
    /// Decodes and sums, and runs the test of all claims, for which a pool may be available here.
    pub(super) fn new(
        scheme: &Bls,
        keys: &EpochKeys,
        claims: &[Claim],
        rlc: &Rlc,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> PreparedClaims {
        let pulse = ctx.pulse();
        let planes: Vec<Vec<&[u64]>> = claims.iter().map(planes).collect();
        let items: Vec<Item<'_>> = claims
            .iter()
            .zip(&planes)
            .map(|(claim, planes)| Item {
                signers: signers(keys, claim, planes),
                message: claim.message(),
                signature: signature(claim),
            })
            .collect();
        let options = VerifyOptions {
            rlc,
            sums: scheme.sum_options(),
            bases: &keys.bases(),
            exec: Exec::new(scheme.backend, ctx.pool()).with_watch(&pulse),
        };
        let prepared = Prepared::new(&items, keys.table(), &options, ctx.scratch)
            .expect("places and lengths of the claims were checked");
        // A retry with naive sums neither uses known sums nor adds to them.
        let (candidates, voters) = match scheme.naive {
            true => (Vec::new(), Vec::new()),
            false => (
                candidates(keys, claims, &items),
                claims.iter().map(voter).collect(),
            ),
        };
        let prepared = PreparedClaims {
            prepared,
            candidates,
            voters,
        };
        if prepared.check(0..claims.len()) {
            prepared.learn(keys, &[]);
        }
        prepared
    }

    /// Returns whether all claims of a range hold; false if nothing is known about them.
    pub(super) fn check(&self, range: Range<usize>) -> bool {
        self.prepared.check(range)
    }

    /// Returns the claims that do not hold, in ascending order, and the work it took to find them; all of them
    /// if the task was asked to stop.
    pub fn locate(&self, keys: &EpochKeys, ctx: &Ctx<'_, Workspace>) -> Located {
        let pulse = ctx.pulse();
        let exec = Exec::new(self.prepared.backend(), ctx.pool()).with_watch(&pulse);
        match self.prepared.locate(exec) {
            Some(located) => {
                self.learn(keys, &located.bad);
                located
            }
            None => Located {
                bad: (0..self.prepared.len()).collect(),
                ..Located::default()
            },
        }
    }

    /// Report on the sums of keys.
    pub fn sums(&self) -> &SumReport {
        &self.prepared.sums
    }

    /// Wall time of each step.
    pub fn timings(&self) -> &VerifyTimings {
        &self.prepared.timings
    }

    /// Number of distinct messages among the claims that were tested.
    pub fn message_count(&self) -> usize {
        self.prepared.message_count()
    }

    /// Keeps the best collection of each committee and the points of votes, leaving out the `bad` claims.
    fn learn(&self, keys: &EpochKeys, bad: &[usize]) {
        if self.voters.iter().any(Option::is_some) {
            let holds = |claim: &usize| bad.binary_search(claim).is_err();
            keys.with_votes(|votes| {
                for (claim, point) in self.prepared.signatures() {
                    if let Some(voter) = self.voters[claim].filter(|_| holds(&claim)) {
                        votes.keep(voter, *point);
                    }
                }
            });
        }
        let table = keys.table();
        keys.with_known(|known| {
            for candidate in &self.candidates {
                if bad.binary_search(&candidate.claim).is_ok() {
                    continue;
                }
                let sums = self.prepared.plane_sums(candidate.claim);
                let lowest = candidate.support.planes().iter().zip(sums).take(BASES_MAX);
                let bases = lowest.map(|(plane, sum)| {
                    Base::of_sum(table, candidate.committee, plane.words(), *sum)
                        .expect("the plane was summed over this committee")
                });
                let signers = candidate.support.signer_count();
                known[candidate.committee].learn(candidate.slot, signers, bases);
            }
        });
    }
}

/// The validator whose vote a claim is.
fn voter(claim: &Claim) -> Option<u32> {
    match claim {
        Claim::One {
            validator,
            role: Role::Vote,
            ..
        } => Some(validator.0),
        _ => None,
    }
}

/// The evidence of whole committees among the claims.
fn candidates(keys: &EpochKeys, claims: &[Claim], items: &[Item<'_>]) -> Vec<Candidate> {
    let committees = usize::from(keys.assignment().layout().committees());
    let candidate = |(claim, (what, item)): (usize, (&Claim, &Item<'_>))| match (what, item.signers)
    {
        (
            Claim::Group {
                statement,
                evidence,
            },
            Signers::Sum { committee, .. },
        ) if committee < committees => Some(Candidate {
            claim,
            committee,
            slot: statement.slot,
            support: evidence.support.clone(),
        }),
        _ => None,
    };
    let claims = claims.iter().zip(items).enumerate();
    claims.filter_map(candidate).collect()
}
