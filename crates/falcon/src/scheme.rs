//! Falcon-512 as a scheme of the protocol: aggregates are lists of signatures, and collections are lists
//! or proofs.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use alphorn_exec::{Backend, Exec};
use alphorn_labrador::Keys;
use alphorn_labrador::sis::Profile;
use alphorn_scheme::watermark::check_permits;
use alphorn_scheme::{
    Abilities, Claim, Cost, Ctx, Evidence, EvidenceLength, Form, Layer, Op, Overlap, Part,
    Reservation, Role, Scheme, SchemeError, Security, SignItem, Signatures, Sizes, Statement,
    list::{self, Needed, Verdicts},
};
use alphorn_types::{Assignment, Slot, Support};

use crate::aggregate::Aggregator;
use crate::registry::{EpochKeys, Registry, Signers};
use crate::ring::LANES;
use crate::slot::{SIGNED_BYTES, signed_bytes};
use crate::{Flavour, Item, PUBLIC_KEY_BYTES, PublicKey, verify_batch};

mod proofs;

/// Largest committee: slightly below what images of columns allow.
pub const COMMITTEE_MAX: u32 = 20_000;

/// Maximum size in bytes of the proof of a collection.
pub const PROOF_BYTES_MAX: usize = 98_304;

/// Minimum size in bytes of the proof of a collection, whatever it covers: the proof of a single signature
/// has 19 kB of commitments alone.
const PROOF_BYTES_MIN: usize = 16_384;

/// Maximum number of aggregators kept. Nearly every collection covers a different number of signatures, and an
/// aggregator takes about 2 kB in addition to the keys, which all of them share.
const AGGREGATORS_MAX: usize = 1024;

/// Ring elements of the commitment keys for any number of signatures up to [`COMMITTEE_MAX`], in every
/// profile: of the inner key, and of each outer one. 35 MB.
const KEY_LENGTHS: (usize, usize) = (10_016, 8_192);

/// Nanoseconds per signature, as published for `fn-dsa`, and per plain verification in a batch of
/// 10,000 with decoded keys: single-threaded priors. This and the following were measured with commit 383934094 on a
/// Xeon (Sapphire Rapids, AVX-512 IFMA), by the command of `results/xeon-2/lattice-1.json`. The worker learns the
/// factor for the processor that it runs on.
const SIGN_NS: u64 = 150_000;
const VERIFY_NS: u64 = 6_140;

/// Nanoseconds for a proof and for its verification: a fixed part, and a part per signature. These are the lines
/// through the times for 1,000 and 10,000 signatures: 0.244 and 1.275 s, 36.8 and 91.4 ms.
const PROVE_NS: (u64, u64) = (129_000_000, 115_000);
const CHECK_NS: (u64, u64) = (30_700_000, 6_070);

/// Memory of a prover in bytes: a fixed part, and a part per signature. Measured with keys of exactly the needed
/// lengths: 120 MB at 1,000 and 405 MB at 10,000 on one thread, 426 MB on two. Keys of [`KEY_LENGTHS`] take
/// 30 MB more at 1,000.
const PROVE_BYTES: (u64, u64) = (132 << 20, 35_000);

/// The form of collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collections {
    /// Lists of signatures.
    Lists,
    /// Salts and one proof.
    Proofs,
}

/// Aggregators by their number of signatures, most recently used first.
type Kept = VecDeque<(usize, Arc<Aggregator>)>;

/// Aggregators for making and verifying proofs over any number of signatures.
#[derive(Default)]
struct Aggregators {
    /// Drawn once, for the first proof.
    keys: OnceLock<Arc<Keys>>,
    kept: Mutex<Kept>,
}

/// Falcon-512, with keys of one flavour.
#[derive(Clone)]
pub struct Falcon {
    flavour: Flavour,
    collections: Collections,
    backend: Backend,
    profile: Profile,
    aggregators: Arc<Aggregators>,
}

/// Returns the keys of a group's signers, in the order of their positions. None if the group cannot be valid
/// whatever its bytes are.
fn signers<'a>(
    keys: &'a EpochKeys,
    statement: &Statement,
    support: &Support,
) -> Option<Vec<&'a PublicKey>> {
    let signers = list::signers(&keys.assignment, statement, support)?;
    let keys = signers.map(|signer| keys.registry.key(signer));
    keys.collect()
}

/// Returns the data that the signers of a group signed.
fn voted(statement: &Statement) -> [u8; SIGNED_BYTES] {
    signed_bytes(statement.slot, Role::Vote, &statement.message)
}

/// Returns the data that was signed according to a claim; meaningless where the scheme has no such claims.
fn claimed(claim: &Claim) -> [u8; SIGNED_BYTES] {
    match claim {
        Claim::One {
            role,
            slot,
            message,
            ..
        } => signed_bytes(*slot, *role, message),
        Claim::Group { statement, .. } => voted(statement),
        Claim::Selected { .. } => [0; SIGNED_BYTES],
    }
}

impl Falcon {
    /// Creates the scheme with this form of collections on a kernel, for keys of the default flavour.
    #[must_use]
    pub fn new(collections: Collections, backend: Backend) -> Falcon {
        Falcon {
            flavour: Flavour::default(),
            collections,
            backend,
            profile: Profile::Core128,
            aggregators: Arc::default(),
        }
    }

    /// The same with proofs of this profile; each profile rejects the proofs of others.
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> Falcon {
        Falcon {
            profile,
            // An aggregator is made for one profile, so those kept are of no use.
            aggregators: Arc::default(),
            ..self
        }
    }

    /// The same for keys of this flavour.
    #[must_use]
    pub fn with_flavour(self, flavour: Flavour) -> Falcon {
        // Aggregators serve any flavour, so they are kept.
        Falcon { flavour, ..self }
    }

    /// Returns the signatures that a claim needs, over the data from [`claimed`]. None if it cannot be valid, or is a
    /// proof.
    fn wanted<'a>(
        &self,
        keys: &'a EpochKeys,
        claim: &'a Claim,
        signed: &'a [u8; SIGNED_BYTES],
    ) -> Option<Vec<Item<'a>>> {
        let message = self.flavour.message_of(signed);
        match claim {
            Claim::One {
                validator,
                signature,
                ..
            } => Some(vec![Item {
                key: keys.registry.key(*validator)?,
                message,
                signature,
            }]),
            Claim::Selected { .. } => None,
            Claim::Group {
                statement,
                evidence,
            } => {
                let keys = signers(keys, statement, &evidence.support)?;
                let each = self.flavour.signature_bytes();
                let signatures = list::split(&evidence.bytes, keys.len(), each).ok()?;
                let items = keys.into_iter().zip(signatures);
                Some(
                    items
                        .map(|(key, signature)| Item {
                            key,
                            message,
                            signature,
                        })
                        .collect(),
                )
            }
        }
    }

    fn is_proof(&self, claim: &Claim) -> bool {
        matches!(claim, Claim::Group { statement, .. }
            if statement.layer == Layer::Collection && self.collections == Collections::Proofs)
    }
}

impl Scheme for Falcon {
    type Registry = Registry;
    type Keys = EpochKeys;
    type Signers = Signers;
    type Prepared = Verdicts;
    type Scratch = ();

    fn name(&self) -> &'static str {
        "falcon"
    }

    fn abilities(&self) -> Abilities {
        let (collections, overlap) = match self.collections {
            Collections::Lists => (Form::List, Overlap::Union),
            Collections::Proofs => (Form::Proof, Overlap::None),
        };
        let (mut bits, block_size) = ((120, 108), self.profile.block_size());
        let (classical, quantum) = self.profile.bits();
        if self.collections == Collections::Proofs {
            // An attacker that breaks either one obtains what a collection should deny it.
            bits = (classical.min(bits.0), quantum.min(bits.1));
        }
        Abilities {
            unique: false,
            one_time: self.flavour == Flavour::Slot,
            overlap: [Overlap::Union, overlap],
            layers: [Form::List, collections],
            committee_max: Some(COMMITTEE_MAX),
            bundle_max: None,
            security: Security {
                classical_bits: bits.0,
                quantum_bits: bits.1,
                assumption: format!(
                    "NTRU lattices of Falcon-512 (core-SVP of block size 411); for proofs ring-SIS, \
                     truncated where a commitment has fewer rows than its group, with the estimate of \
                     module-SIS at block size {block_size}, {classical} and {quantum} bits"
                ),
                proven: "a list is verified signature by signature; a proof shows the relation \
                         and the norm of each signature, not the draft's bound of single \
                         coefficients; statistical errors of a proof are about 2^-121 for each \
                         hash query (Fiat and Shamir), the projection lemma is a heuristic"
                    .to_owned(),
            },
        }
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            public_key_bytes: PUBLIC_KEY_BYTES,
            signature_bytes: self.flavour.signature_bytes(),
            duty_signature_bytes: self.flavour.signature_bytes(),
            selection_proof_bytes: None,
        }
    }

    fn evidence_length(&self, layer: Layer, n: u32) -> EvidenceLength {
        let n = n as usize;
        EvidenceLength::Max(match (layer, self.collections) {
            (Layer::Collection, Collections::Proofs) => {
                1 + n * self.flavour.salt_bytes() + PROOF_BYTES_MAX
            }
            _ => list::list_bytes(n, self.flavour.signature_bytes()),
        })
    }

    fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        let proofs = self.collections == Collections::Proofs;
        let linear = |(base, each): (u64, u64), count: u64, items: u64| {
            (base.saturating_mul(items)).saturating_add(each.saturating_mul(items.max(count)))
        };
        let plain = |count: u64| count.saturating_mul(VERIFY_NS);
        let each = self.flavour.signature_bytes() as u64;
        let list_bytes = |count: u64| count.saturating_mul(2 * each);
        let prove = |count: u64| {
            let ns = linear(PROVE_NS, count, 1) + linear(CHECK_NS, count, 1);
            (ns, linear(PROVE_BYTES, count, 1))
        };
        let (ns, bytes) = match op {
            Op::Sign | Op::DutySign => (n.saturating_mul(SIGN_NS), list_bytes(n)),
            Op::VerifyVotes | Op::DutyVerify | Op::Aggregate => (plain(n), list_bytes(n)),
            // A message holds three signatures in addition to its list or proof.
            Op::VerifyCollections if proofs => {
                let ns = linear(CHECK_NS, m, n).saturating_add(plain(n.saturating_mul(3)));
                (ns, linear(PROVE_BYTES, m, 1))
            }
            Op::VerifyAggregates | Op::VerifyCollections => {
                let all = n.saturating_mul(3).saturating_add(m);
                (plain(all), list_bytes(all))
            }
            Op::Collect | Op::Merge if proofs => prove(n.saturating_add(m)),
            Op::Collect | Op::Merge => {
                let all = n.saturating_add(m);
                (plain(all), list_bytes(all))
            }
            Op::Prepare => (1000 + n, 0),
            // Each collection carries its own evidence.
            Op::Bundle | Op::VerifyBundle => (0, 0),
        };
        Cost {
            ns,
            memory_bytes: bytes.saturating_add(1 << 20),
        }
    }

    fn portable(&self) -> Falcon {
        Falcon::new(self.collections, Backend::Portable)
            .with_profile(self.profile)
            .with_flavour(self.flavour)
    }

    fn keys(
        &self,
        registry: &Arc<Registry>,
        assignment: &Arc<Assignment>,
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<EpochKeys, SchemeError> {
        let layout = assignment.layout();
        SchemeError::check_registry(registry.len(), layout)?;
        if !registry.is_of(self.flavour) {
            return Err(SchemeError::Unsupported {
                scheme: "falcon",
                what: "verify with keys of another flavour",
            });
        }
        SchemeError::check_committees(layout, COMMITTEE_MAX)?;
        Ok(EpochKeys {
            registry: registry.clone(),
            assignment: assignment.clone(),
        })
    }

    fn assignment<'k>(&self, keys: &'k EpochKeys) -> &'k Assignment {
        &keys.assignment
    }

    /// Signs with the entropy of the signers: given the same secret, or none, the same key, role, slot and
    /// message give the same bytes. In flavour `slot` there is no signature if the permit was given out before.
    fn sign(
        &self,
        signers: &Signers,
        slot: Slot,
        items: &[SignItem],
        permits: Vec<Reservation>,
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<Signatures, SchemeError> {
        let permits = check_permits(slot, items, permits)?;
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        let signed = exec.try_map(items.len(), |i| {
            let validator = items[i].validator.0;
            let key = signers.key(items[i].validator);
            // No verifier of this scheme has a key of another flavour.
            let key = key.filter(|key| key.public().flavour() == self.flavour);
            let key = key.ok_or(SchemeError::UnknownSigner(validator))?;
            // Each permit is taken once, since the list is traversed once.
            let permit = permits.take(i, &items[i])?;
            let wrong = |_| SchemeError::WrongReservation(validator);
            let entropy = signers.entropy(&permit);
            key.sign(permit, &entropy).map_err(wrong)
        });
        let signed = signed.map_err(|_| SchemeError::Stopped)?.into_iter();
        let signed: Vec<_> = signed.collect::<Result<_, _>>()?;
        let each = self.flavour.signature_bytes();
        Ok(Signatures::new(each, signed.concat()))
    }

    fn prepare(
        &self,
        keys: &EpochKeys,
        claims: &[Claim],
        _secret: &[u8; 32],
        ctx: &mut Ctx<'_, ()>,
    ) -> Verdicts {
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        // Made first, because the items below borrow their messages from it.
        let signed: Vec<_> = claims.iter().map(claimed).collect();
        let hold = |items: &[Item<'_>]| {
            let results = verify_batch(items, self.backend);
            results.iter().map(Result::is_ok).collect()
        };
        let proof_holds = |statement: &Statement, evidence: &Evidence| {
            self.proof_holds(keys, statement, evidence, exec)
        };
        list::decide(
            claims,
            exec,
            LANES,
            |number, claim| match self.is_proof(claim) {
                true => Needed::Proof,
                false => {
                    let wanted = self.wanted(keys, claim, &signed[number]);
                    wanted.map_or(Needed::Nothing, Needed::Signatures)
                }
            },
            hold,
            proof_holds,
        )
    }

    fn check(&self, _keys: &EpochKeys, prepared: &Verdicts, range: Range<usize>) -> bool {
        prepared.hold(range)
    }

    fn locate(
        &self,
        _keys: &EpochKeys,
        prepared: &Verdicts,
        _ctx: &mut Ctx<'_, ()>,
    ) -> Option<Vec<usize>> {
        Some(prepared.failed())
    }

    fn aggregate<B: AsRef<[u8]>>(
        &self,
        _keys: &EpochKeys,
        statement: &Statement,
        votes: &[(u32, B)],
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        list::aggregate(statement, votes, self.flavour.signature_bytes())
    }

    /// Combines lists into a list or a proof. Proofs do not merge: another proof cannot be made from a proof.
    /// A signature that is valid but too long to be proven is left out of the proof and of its support.
    fn combine(
        &self,
        keys: &EpochKeys,
        statement: &Statement,
        parts: &[Part],
        _multiplicity_max: u8,
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        let proof = |part: &Part| {
            part.layer == Layer::Collection && self.collections == Collections::Proofs
        };
        if parts.iter().any(proof) {
            return Err(SchemeError::Unsupported {
                scheme: "falcon",
                what: "merge proofs: a proof holds no signatures to prove again",
            });
        }
        let union = list::union(statement, parts, self.flavour.signature_bytes())?;
        match (statement.layer, self.collections) {
            (Layer::Collection, Collections::Proofs) => {
                let pulse = ctx.pulse();
                let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
                self.prove(keys, statement, parts, union, exec)
            }
            _ => Ok(union),
        }
    }
}

#[cfg(test)]
mod tests;
