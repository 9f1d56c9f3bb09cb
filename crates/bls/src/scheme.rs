//! BLS as a scheme of the protocol: [`alphorn_scheme::Scheme`] for [`Bls`].

mod cost;
mod epoch;
mod signers;

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use alphorn_scheme::watermark::check_permits;
use alphorn_scheme::{
    Abilities, Bytes, Claim, Cost, Ctx, Evidence, EvidenceLength, Form, Layer, Op, Overlap, Part,
    Reservation, Scheme, SchemeError, Security, SignItem, Signatures, Sizes, Statement,
    combined_support,
};
use alphorn_types::{Assignment, Bitfield, Slot, Support, Validator};

use crate::batch::{Batch, SignatureSet};
use crate::blst_ffi::curve::G2Affine;
use crate::blst_ffi::points::g2;
use crate::decode::{decode_signatures, decompress_signatures};
use crate::exec::Exec;
use crate::kernel::Backend;
use crate::keys::{PUBLIC_KEY_BYTES, PublicKey, SIGNATURE_BYTES};
use crate::registry::Registry;
use crate::rlc::{Rlc, RlcBits};
use crate::sums::{
    Columns, CommitteeJob, Costs, KeyTable, Method, SumOptions, Workspace, sum_columns,
};

use epoch::key_table;
use signers::encode;

pub use epoch::EpochKeys;
pub use signers::Signers;

/// Greatest multiplicity that a support can carry.
const MULTIPLICITY_MAX: u8 = 15;

/// BLS12-381 signatures, summed.
#[derive(Clone, Debug)]
pub struct Bls {
    backend: Backend,
    costs: Costs,
    rlc_bits: RlcBits,
    /// Sums by one addition per key, whatever the kernel: the retry after a doubtful result.
    naive: bool,
}

impl Bls {
    /// The scheme on a kernel, with what [`Costs::measure`] found about it.
    pub fn new(backend: Backend, costs: Costs) -> Bls {
        Bls {
            backend,
            costs,
            rlc_bits: RlcBits::default(),
            naive: false,
        }
    }

    /// The same with another width of random weights.
    #[must_use]
    pub fn with_rlc_bits(self, rlc_bits: RlcBits) -> Bls {
        Bls { rlc_bits, ..self }
    }

    /// The kernel in use.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    fn sum_options(&self) -> SumOptions {
        SumOptions {
            method: self.naive.then_some(Method::Naive),
            costs: self.costs,
        }
    }
}

/// Claims whose signatures are decoded and whose keys are summed.
pub struct PreparedClaims(Batch);

/// By cell or committee of a table: the claims on it, as (index, planes of the support).
type Groups<'a> = BTreeMap<usize, Vec<(usize, Vec<&'a [u64]>)>>;

/// The planes of a support as slices of words.
fn planes(support: &Support) -> Vec<&[u64]> {
    support.planes().iter().map(Bitfield::words).collect()
}

impl Bls {
    /// The key under which each claim must verify; none where there is no such key.
    fn claim_keys(
        &self,
        keys: &EpochKeys,
        claims: &[Claim],
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Vec<Option<PublicKey>> {
        let mut found: Vec<Option<PublicKey>> = claims
            .iter()
            .map(|claim| match claim {
                Claim::One { validator, .. } | Claim::Selected { validator, .. } => {
                    keys.registry.keys().get(validator.0 as usize).copied()
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
                    groups
                        .entry(place)
                        .or_default()
                        .push((i, planes(&evidence.support)));
                }
            }
            if !groups.is_empty() {
                self.sum_groups(keys.table(layer), &groups, &mut found, ctx);
            }
        }
        found
    }

    /// Sums the keys of the claims of each cell or committee into `found`.
    fn sum_groups(
        &self,
        table: &KeyTable,
        groups: &Groups<'_>,
        found: &mut [Option<PublicKey>],
        ctx: &mut Ctx<'_, Workspace>,
    ) {
        let columns: Vec<Vec<Columns<'_>>> = groups
            .values()
            .map(|members| {
                members
                    .iter()
                    .map(|(_, planes)| Columns { planes })
                    .collect()
            })
            .collect();
        // A flood of claims on one committee makes more jobs, not larger ones.
        let jobs: Vec<CommitteeJob<'_>> = groups
            .keys()
            .zip(&columns)
            .flat_map(|(&committee, columns)| CommitteeJob::split(committee, columns, &[]))
            .collect();
        let sums = sum_columns(table, &jobs, &self.sum_options(), ctx.scratch, ctx.pool())
            .expect("places and lengths of the claims were checked");
        for ((i, _), key) in groups.values().flatten().zip(sums.keys) {
            found[*i] = PublicKey::from_point(key).ok();
        }
    }

    /// The sum of verified evidence or votes; `Malformed` names the first that does not decode.
    fn sum_signatures(
        &self,
        encoded: &[&[u8]],
        exec: Exec<'_>,
    ) -> Result<[u8; SIGNATURE_BYTES], SchemeError> {
        // Verified inputs are in the subgroup; the job verifies the sum all the same.
        let points = decompress_signatures(encoded, exec);
        if let Some(bad) = points.iter().position(Result::is_err) {
            return Err(SchemeError::Malformed(bad));
        }
        let points: Vec<&G2Affine> = points
            .iter()
            .filter_map(|point| point.as_ref().ok())
            .collect();
        let sum = g2::sum_bulk(&points);
        if sum.is_infinity() {
            return Err(SchemeError::Degenerate);
        }
        Ok(g2::compress(&sum))
    }
}

impl Scheme for Bls {
    type Registry = Registry;
    type Keys = EpochKeys;
    type Signers = Signers;
    type Prepared = PreparedClaims;
    type Scratch = Workspace;

    fn name(&self) -> &'static str {
        "bls"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            unique: true,
            one_time: false,
            overlap: [Overlap::Counted {
                max: MULTIPLICITY_MAX,
            }; 2],
            layers: [Form::Point; 2],
            committee_max: None,
            security: Security {
                classical_bits: 117,
                quantum_bits: 0,
                assumption: "co-CDH on BLS12-381, random oracle, keys with proof of possession; \
                             published estimates of the number field sieve in F_p^12: 117 to 120 \
                             bits (NCC Group 2019) and 126 (Guillevic 2020); the lowest is stated"
                    .to_owned(),
                proven: format!(
                    "unforgeability reduces to co-CDH, with a loss of about the number of signing \
                     queries that the bits leave out; a verdict on n claims is wrong with \
                     probability at most 3n x 2^-{} in each online attempt",
                    self.rlc_bits.bits()
                ),
            },
        }
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            public_key_bytes: PUBLIC_KEY_BYTES,
            signature_bytes: SIGNATURE_BYTES,
            duty_signature_bytes: SIGNATURE_BYTES,
            selection_proof_bytes: Some(SIGNATURE_BYTES),
        }
    }

    fn evidence_length(&self, _layer: Layer, _n: u32) -> EvidenceLength {
        EvidenceLength::Fixed(SIGNATURE_BYTES)
    }

    fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        cost::predict(&self.costs, op, n, m)
    }

    fn portable(&self) -> Bls {
        Bls {
            backend: Backend::portable(),
            // No measurement: what is predicted from here on is the same on every machine.
            costs: Costs::default(),
            naive: true,
            ..self.clone()
        }
    }

    fn keys(
        &self,
        registry: &Arc<Registry>,
        assignment: &Arc<Assignment>,
        _ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<EpochKeys, SchemeError> {
        let layout = assignment.layout();
        if registry.keys().len() != layout.validators() as usize {
            return Err(SchemeError::RegistrySize {
                keys: registry.keys().len() as u64,
                validators: u64::from(layout.validators()),
            });
        }
        let sizes: Vec<usize> = (0..layout.committees())
            .map(|c| layout.committee_len(c) as usize)
            .collect();
        Ok(EpochKeys {
            committees: key_table(self.backend, registry, assignment, &sizes),
            registry: registry.clone(),
            assignment: assignment.clone(),
            cells: OnceLock::new(),
        })
    }

    fn assignment<'k>(&self, keys: &'k EpochKeys) -> &'k Assignment {
        &keys.assignment
    }

    fn sign(
        &self,
        signers: &Signers,
        slot: Slot,
        items: &[SignItem],
        permits: Vec<Reservation>,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<Signatures, SchemeError> {
        check_permits(slot, items, &permits)?;
        let exec = Exec::new(ctx.pool());
        let items: Vec<(Validator, [u8; 32])> = items
            .iter()
            .map(|item| (item.validator, item.message))
            .collect();
        Ok(encode(&signers.sign(self.backend, &items, exec)?, exec))
    }

    fn select(
        &self,
        signers: &Signers,
        message: &[u8; 32],
        validators: &[Validator],
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<Signatures, SchemeError> {
        let exec = Exec::new(ctx.pool());
        let items: Vec<(Validator, [u8; 32])> = validators.iter().map(|&v| (v, *message)).collect();
        Ok(encode(&signers.sign(self.backend, &items, exec)?, exec))
    }

    fn prepare(
        &self,
        keys: &EpochKeys,
        claims: &[Claim],
        secret: &[u8; 32],
        ctx: &mut Ctx<'_, Workspace>,
    ) -> PreparedClaims {
        let exec = Exec::new(ctx.pool());
        let rlc = Rlc::new(*secret, self.rlc_bits);
        let encoded: Vec<&[u8]> = claims
            .iter()
            .map(|claim| match claim {
                Claim::One { signature, .. } => &**signature,
                Claim::Selected { proof, .. } => &**proof,
                Claim::Group { evidence, .. } => &*evidence.bytes,
            })
            .collect();
        let signatures = decode_signatures(&encoded, self.backend, &rlc, exec);
        let public_keys = self.claim_keys(keys, claims, ctx);
        let sets: Vec<Option<SignatureSet<'_>>> = claims
            .iter()
            .zip(signatures)
            .zip(public_keys)
            .map(|((claim, signature), key)| {
                Some(SignatureSet {
                    key: key?,
                    message: claim.message(),
                    signature: signature.ok()?,
                })
            })
            .collect();
        let batch = Batch::new(&sets, &rlc, exec);
        // The test of everything comes first in any case; here there is a pool for it.
        batch.check_all(exec);
        PreparedClaims(batch)
    }

    fn check(&self, _keys: &EpochKeys, prepared: &PreparedClaims, range: Range<usize>) -> bool {
        prepared.0.check(range, Exec::serial())
    }

    fn locate(
        &self,
        _keys: &EpochKeys,
        prepared: &PreparedClaims,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Option<Vec<usize>> {
        Some(prepared.0.locate(Exec::new(ctx.pool())).bad)
    }

    fn aggregate(
        &self,
        _keys: &EpochKeys,
        statement: &Statement,
        votes: &[(u32, Bytes)],
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<Evidence, SchemeError> {
        if votes.is_empty() {
            return Err(SchemeError::Empty);
        }
        let mut bits = Bitfield::new(statement.len as usize);
        let mut next = 0;
        for (i, (position, _)) in votes.iter().enumerate() {
            if *position < next || *position >= statement.len {
                return Err(SchemeError::Malformed(i));
            }
            next = position + 1;
            bits.set(*position as usize);
        }
        let encoded: Vec<&[u8]> = votes.iter().map(|(_, signature)| &**signature).collect();
        let sum = self.sum_signatures(&encoded, Exec::new(ctx.pool()))?;
        Ok(Evidence {
            support: Arc::new(Support::from_bits(bits)),
            bytes: Arc::from(sum),
        })
    }

    fn combine(
        &self,
        _keys: &EpochKeys,
        statement: &Statement,
        parts: &[Part],
        multiplicity_max: u8,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<Evidence, SchemeError> {
        let overlap = self.abilities().overlap(statement.layer);
        let support = combined_support(overlap, statement, parts, multiplicity_max)?;
        let encoded: Vec<&[u8]> = parts.iter().map(|part| &*part.evidence.bytes).collect();
        let sum = self.sum_signatures(&encoded, Exec::new(ctx.pool()))?;
        Ok(Evidence {
            support: Arc::new(support),
            bytes: Arc::from(sum),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::signers::TABLE_SIGNATURES_MIN;
    use super::*;
    use crate::{InteropKey, SecretKey, sign};

    struct Interop;

    impl alphorn_scheme::battery::Fixture for Interop {
        type S = Bls;

        fn scheme(&self) -> Bls {
            Bls::new(Backend::portable(), Costs::default())
        }

        fn registry(&self, validators: u32) -> Registry {
            Registry::interop(validators, Backend::portable(), Exec::serial()).unwrap()
        }

        fn signers(&self, validators: u32) -> Signers {
            Signers::interop(0..validators, Exec::serial())
        }
    }

    alphorn_scheme::battery!(interop, Interop);

    struct Real;

    impl alphorn_scheme::battery::Fixture for Real {
        type S = Bls;

        fn scheme(&self) -> Bls {
            let backend = *Backend::available().last().unwrap();
            Bls::new(backend, Costs::default()).with_rlc_bits(RlcBits::Bits128)
        }

        fn registry(&self, validators: u32) -> Registry {
            let keys = (0..validators).map(|v| real_key(v).public_key()).collect();
            Registry::allowing_duplicates(keys, Exec::serial()).unwrap()
        }

        fn signers(&self, validators: u32) -> Signers {
            Signers::real((0..validators).map(|v| (Validator(v), real_key(v))))
        }
    }

    fn real_key(validator: u32) -> SecretKey {
        SecretKey::key_gen(&[validator as u8; 32]).unwrap()
    }

    alphorn_scheme::battery!(real, Real);

    /// Runs `verify_claims` on two committees of three cells of interop keys 0 to 23.
    fn verdicts(claims: &[Claim]) -> Vec<bool> {
        let layout = alphorn_types::Layout::new(24, 2, 3).unwrap();
        let members = (0..24).collect();
        let assignment = Assignment::new(alphorn_types::Epoch(0), layout, members).unwrap();
        let registry = Registry::interop(24, Backend::portable(), Exec::serial()).unwrap();
        let scheme = Bls::new(Backend::portable(), Costs::default());
        let mut scratch = Workspace::default();
        let ctx = &mut Ctx::single(&mut scratch);
        let (registry, assignment) = (Arc::new(registry), Arc::new(assignment));
        let keys = scheme.keys(&registry, &assignment, ctx).unwrap();
        let verdicts = alphorn_scheme::verify_claims(&scheme, &keys, claims, &[1; 32], ctx);
        for (claim, verdict) in claims.iter().zip(&verdicts) {
            assert_eq!(
                crate::peer::claim_holds(&keys, claim),
                *verdict,
                "{claim:?}"
            );
        }
        verdicts
    }

    /// The claim that the first `support.len()` positions from `first` on signed, and they did.
    fn group(layer: Layer, first: u32, len: u32, multiplicities: &[u8]) -> Claim {
        let keys: Vec<InteropKey> = (0..24).map(InteropKey::new).collect();
        let signed = keys
            .iter()
            .skip(first as usize)
            .zip(multiplicities.iter().copied());
        let signature = InteropKey::weighted_sum(signed).map_or([0; 96], |sum| {
            sign(&sum.to_secret_key(), &[7; 32]).to_bytes()
        });
        Claim::Group {
            statement: Statement {
                layer,
                first,
                len,
                slot: Slot(1),
                message: [7; 32],
            },
            evidence: Evidence {
                support: Arc::new(Support::from_multiplicities(multiplicities).unwrap()),
                bytes: Arc::from(signature),
            },
        }
    }

    #[test]
    fn a_statement_must_name_a_cell_or_a_committee_and_fit_its_support() {
        let (cell, committee) = (Layer::Aggregate, Layer::Collection);
        let many = [0, 15, 3, 1, 8, 0, 2, 5, 0, 15, 15, 1];
        let good = [
            group(cell, 4, 4, &[0, 15, 3, 1]),
            group(committee, 12, 12, &many),
        ];
        assert_eq!(verdicts(&good), [true, true]);
        let bad = [
            group(committee, 4, 4, &[0, 15, 3, 1]),
            group(cell, 12, 12, &many),
            group(cell, 5, 4, &[1, 1, 1, 1]),
            group(cell, 4, 5, &[1, 1, 1, 1, 1]),
            group(cell, 4, 4, &[1, 1, 1]),
            group(cell, 4, 4, &[1, 1, 1, 1, 1]),
            group(cell, 4, 4, &[0; 4]),
            group(cell, 4, 0, &[]),
            group(cell, 4, u32::MAX, &[1, 1, 1, 1]),
            group(cell, 24, 4, &[1, 1, 1, 1]),
            group(committee, u32::MAX, u32::MAX, &[1; 12]),
        ];
        assert_eq!(verdicts(&bad), [false; 11]);
        // More claims on one cell than a job takes, the bad ones at its seams.
        let mut flood = vec![good[0].clone(); 130];
        let seams = [0, 63, 64, 129];
        seams.iter().for_each(|i| flood[*i] = bad[6].clone());
        let expected: Vec<bool> = (0..130).map(|i| !seams.contains(&i)).collect();
        assert_eq!(verdicts(&flood), expected);
    }

    #[test]
    fn many_interop_signatures_equal_those_one_by_one() {
        let signers = Signers::interop(10..10 + 2 * TABLE_SIGNATURES_MIN as u32, Exec::serial());
        let item = |i: u32| (Validator(10 + i), [u8::from(i.is_multiple_of(3)); 32]);
        let items: Vec<_> = (0..2 * TABLE_SIGNATURES_MIN as u32).map(item).collect();
        let signed = signers
            .sign(Backend::portable(), &items, Exec::serial())
            .unwrap();
        for ((validator, message), signature) in items.iter().zip(signed) {
            let key = InteropKey::new(u64::from(validator.0)).to_secret_key();
            assert_eq!(signature, sign(&key, message));
        }
        for outside in [9, 10 + 2 * TABLE_SIGNATURES_MIN as u32] {
            let refused = signers.sign(
                Backend::portable(),
                &[(Validator(outside), [0; 32])],
                Exec::serial(),
            );
            assert_eq!(refused.err(), Some(SchemeError::UnknownSigner(outside)));
        }
    }
}
