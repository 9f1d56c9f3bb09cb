//! BLS as a scheme of the protocol: [`alphorn_scheme::Scheme`] for [`Bls`].

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use alphorn_scheme::watermark::check_permits;
use alphorn_scheme::{
    Abilities, Bytes, Claim, Cost, Ctx, Evidence, EvidenceLength, Form, Layer, Op, Overlap, Part,
    Reservation, Scheme, SchemeError, Security, SignItem, Signatures, Sizes, Statement,
    combined_support,
};
use alphorn_types::{Assignment, Bitfield, Layout, Slot, Support, Validator};

use crate::batch::{Batch, SignatureSet};
use crate::blst_ffi::curve::{G1Affine, G2Affine};
use crate::blst_ffi::points::g2;
use crate::ciphersuite::sign;
use crate::decode::{decode_signatures, decompress_signatures};
use crate::exec::Exec;
use crate::interop::{InteropKey, VartimeInteropSigner, interop_keys};
use crate::kernel::Backend;
use crate::keys::{PUBLIC_KEY_BYTES, PublicKey, SIGNATURE_BYTES, SecretKey, Signature};
use crate::registry::Registry;
use crate::rlc::{Rlc, RlcBits};
use crate::sums::{
    Columns, CommitteeJob, Costs, KeyTable, Method, SumOptions, Workspace, sum_columns,
};

/// Greatest multiplicity that a support can carry.
const MULTIPLICITY_MAX: u8 = 15;
/// Signatures of one message from which tables for it pay off (10 ms against 240 us each).
const TABLE_SIGNATURES_MIN: usize = 64;

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

/// The secret keys held by a process.
pub struct Signers(SignerSet);

enum SignerSet {
    /// Interop keys of a range of validators; may be used by variable-time code.
    Interop { first: u32, keys: Vec<InteropKey> },
    /// Real keys; only constant-time code sees them.
    Real(BTreeMap<u32, SecretKey>),
}

impl Signers {
    /// The interop keys of a range of validators.
    pub fn interop(validators: Range<u32>, exec: Exec<'_>) -> Signers {
        let keys = interop_keys(u64::from(validators.start)..u64::from(validators.end), exec);
        Signers(SignerSet::Interop {
            first: validators.start,
            keys,
        })
    }

    /// Real keys of some validators.
    pub fn real(keys: impl IntoIterator<Item = (Validator, SecretKey)>) -> Signers {
        Signers(SignerSet::Real(
            keys.into_iter()
                .map(|(validator, key)| (validator.0, key))
                .collect(),
        ))
    }

    /// Signs (validator, message) pairs.
    fn sign(
        &self,
        backend: Backend,
        items: &[(Validator, [u8; 32])],
        exec: Exec<'_>,
    ) -> Result<Vec<Signature>, SchemeError> {
        match &self.0 {
            SignerSet::Real(keys) => {
                let held: Result<Vec<&SecretKey>, SchemeError> = items
                    .iter()
                    .map(|(v, _)| keys.get(&v.0).ok_or(SchemeError::UnknownSigner(v.0)))
                    .collect();
                let held = held?;
                Ok(exec.map(items.len(), |i| sign(held[i], &items[i].1)))
            }
            SignerSet::Interop { first, keys } => {
                let key =
                    |v: &Validator| v.0.checked_sub(*first).and_then(|i| keys.get(i as usize));
                let held: Result<Vec<&InteropKey>, SchemeError> = items
                    .iter()
                    .map(|(v, _)| key(v).ok_or(SchemeError::UnknownSigner(v.0)))
                    .collect();
                Ok(sign_interop(backend, &held?, items, exec))
            }
        }
    }
}

/// Signs with interop keys; messages of many signers get tables of their own.
fn sign_interop(
    backend: Backend,
    keys: &[&InteropKey],
    items: &[(Validator, [u8; 32])],
    exec: Exec<'_>,
) -> Vec<Signature> {
    let mut by_message: BTreeMap<&[u8; 32], Vec<usize>> = BTreeMap::new();
    for (i, (_, message)) in items.iter().enumerate() {
        by_message.entry(message).or_default().push(i);
    }
    let mut signatures = vec![Signature::from_point(G2Affine::INFINITY); items.len()];
    for (message, members) in by_message {
        let signed = if members.len() < TABLE_SIGNATURES_MIN {
            exec.map(members.len(), |m| {
                sign(&keys[members[m]].to_secret_key(), message)
            })
        } else {
            let members: Vec<&InteropKey> = members.iter().map(|&i| keys[i]).collect();
            VartimeInteropSigner::new(message, backend).vartime_interop_sign(&members, exec)
        };
        members
            .iter()
            .zip(signed)
            .for_each(|(&i, signature)| signatures[i] = signature);
    }
    signatures
}

fn encode(signatures: &[Signature], exec: Exec<'_>) -> Signatures {
    let encoded = exec.map(signatures.len(), |i| signatures[i].to_bytes());
    Signatures::new(SIGNATURE_BYTES, encoded.concat())
}

/// The public keys of an epoch in committee order.
pub struct EpochKeys {
    registry: Arc<Registry>,
    assignment: Arc<Assignment>,
    committees: KeyTable,
    /// The same keys cut into cells; built when the first aggregate of a cell is verified.
    cells: OnceLock<KeyTable>,
}

/// Keys in epoch order, in a table with these ranges as its committees.
fn key_table(
    backend: Backend,
    registry: &Registry,
    assignment: &Assignment,
    sizes: &[usize],
) -> KeyTable {
    let keys: Vec<G1Affine> = assignment
        .members()
        .iter()
        .map(|&v| *registry.keys()[v as usize].point())
        .collect();
    KeyTable::new(backend, keys, sizes).expect("the layout's ranges cover the validators")
}

impl EpochKeys {
    /// The keys of all validators.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The committees that the table was made for.
    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// The table of a layer.
    fn table(&self, layer: Layer) -> &KeyTable {
        match layer {
            Layer::Collection => &self.committees,
            Layer::Aggregate => self.cells.get_or_init(|| {
                let layout = self.assignment.layout();
                let sizes: Vec<usize> = layout
                    .cells()
                    .map(|cell| layout.cell_len(cell) as usize)
                    .collect();
                key_table(
                    self.committees.backend(),
                    &self.registry,
                    &self.assignment,
                    &sizes,
                )
            }),
        }
    }

    /// Index in the layer's table of the cell or committee that a statement names exactly.
    fn place(&self, statement: &Statement) -> Option<usize> {
        let layout: &Layout = self.assignment.layout();
        if statement.len == 0 || statement.first >= layout.validators() {
            return None;
        }
        let cell = layout.cell_of(statement.first);
        let (range, place) = match statement.layer {
            Layer::Collection => (
                layout.committee_range(cell.committee),
                usize::from(cell.committee),
            ),
            Layer::Aggregate => {
                let place = usize::from(cell.committee) * usize::from(layout.subcommittees())
                    + usize::from(cell.subcommittee);
                (layout.cell_range(cell), place)
            }
        };
        (range.start == statement.first && range.end - range.start == statement.len)
            .then_some(place)
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
        // A job has a bound on its collections; a flood of claims makes more jobs.
        let jobs: Vec<CommitteeJob<'_>> = groups
            .keys()
            .zip(&columns)
            .flat_map(|(&committee, columns)| {
                columns
                    .chunks(crate::COLLECTIONS_MAX)
                    .map(move |collections| CommitteeJob {
                        committee,
                        collections,
                        bases: &[],
                    })
            })
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
                assumption: "co-CDH on BLS12-381, random oracle; keys with proof of possession"
                    .to_owned(),
                proven: format!(
                    "unforgeability reduces to co-CDH; a batch accepts a false claim with \
                     probability 2^-{}",
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

/// What work costs on one thread: nanoseconds per operation of blst 0.3.17 on a 4 GHz Zen 5, and
/// the measured cost of additions; the worker learns the factor of the machine at hand.
mod cost {
    use alphorn_scheme::{Cost, Op};

    use crate::sums::Costs;

    const SIGN_NS: u64 = 255_000;
    const DECODE_NS: u64 = 20_000;
    const SUBGROUP_NS: u64 = 14_000;
    /// Combining one item with 64-bit weights.
    const COMBINE_NS: u64 = 13_000;
    const HASH_NS: u64 = 128_000;
    const MILLER_NS: u64 = 126_000;
    /// One final exponentiation, two Miller loops and the hash of the common message.
    const TEST_NS: u64 = 640_000;
    const G2_ADD_NS: u64 = 600;
    /// Signers of a dense collection whose keys share one addition (eight columns to a group).
    const SIGNERS_PER_ADDITION: f64 = 4.0;
    /// Decoded points, weights and encodings of an item.
    const ITEM_BYTES: u64 = 768;
    const KEY_BYTES: u64 = 2 * 96 + 128;

    fn item_ns(n: u64) -> u64 {
        n.saturating_mul(DECODE_NS + SUBGROUP_NS + COMBINE_NS)
    }

    /// The prediction.
    pub(super) fn predict(costs: &Costs, op: Op, n: u64, m: u64) -> Cost {
        let keys_ns = (m as f64 / SIGNERS_PER_ADDITION * costs.add_ns) as u64;
        let ns = match op {
            Op::Sign | Op::DutySign => n.saturating_mul(SIGN_NS),
            Op::VerifyVotes => TEST_NS + item_ns(n),
            // Duties sign different messages: a hash and a Miller loop each.
            Op::DutyVerify => TEST_NS + item_ns(n) + n.saturating_mul(HASH_NS + MILLER_NS),
            Op::VerifyAggregates | Op::VerifyCollections => {
                let triple = item_ns(n.saturating_mul(3)) + n.saturating_mul(HASH_NS + MILLER_NS);
                TEST_NS + triple + keys_ns
            }
            Op::Aggregate | Op::Collect | Op::Merge => {
                TEST_NS + n.saturating_mul(DECODE_NS + G2_ADD_NS) + keys_ns
            }
            Op::Prepare => (n as f64 * costs.add_ns) as u64 + n.saturating_mul(100),
        };
        let memory_bytes = match op {
            Op::Prepare => n.saturating_mul(KEY_BYTES),
            _ => n.saturating_mul(ITEM_BYTES) + (2 << 20),
        };
        Cost { ns, memory_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn many_interop_signatures_equal_those_one_by_one() {
        let signers = Signers::interop(10..10 + 2 * TABLE_SIGNATURES_MIN as u32, Exec::serial());
        let item = |i: u32| (Validator(10 + i), [u8::from(i % 3 == 0); 32]);
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
