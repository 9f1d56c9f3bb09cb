//! Falcon-512 in files: aggregates are lists of signatures, or their salts and one proof.
//!
//! In flavour `slot` there are no salts, and a key signs once per slot: its mark is a file next to it.
//!
//! A keystore holds the encoded secret key, not a seed. The library that made a key decides how it is
//! derived from a seed, and the key must outlive the library's versions.

use super::falcon_flavours::{FlavourType, signed_of};
use super::keystore::{About, Declared};
use super::marks::{self, Marked, asked, ready, reserve};
use super::scheme::{FileScheme, Form, ProofLimits, PublicHalf, SlotLimits, decode_each};
use super::secret::Secret;
use super::statement::{Claim, Refusal, ToProve, ToSign};
use super::{FileOptions, Proofs};
use crate::error::{Error, Result};
use crate::options::pool;
use crate::progress::Bars;
use alphorn_exec::Backend;
use alphorn_falcon::ring::LANES;
use alphorn_falcon::{
    Aggregator, COMMITTEE_MAX, Item, PROOF_BYTES_MAX, PUBLIC_KEY_BYTES, PublicKey, Signed,
    split_salts, verify_batch,
};
use alphorn_labrador::sis::Profile;
use alphorn_labrador::{HEADER_BYTES, MAGIC};
use alphorn_scheme::Role;
use alphorn_scheme::list::{self, TAG_PROOF};
use alphorn_types::Support;
use alphorn_xmss::FileWatermark;
use anyhow::Context;
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;

/// What a proof in a file is bound to in addition to keys, salts and message.
const CONTEXT: &[u8] = b"alphorn/falcon/file/v1";

/// The scheme of a flavour with its threads and the profile of its proofs.
pub(super) struct Falcon<F> {
    pool: rayon::ThreadPool,
    kernel: Backend,
    profile: Profile,
    flavour: PhantomData<F>,
}

/// How a claim is decided.
enum Plan {
    /// By verifying all of these signatures.
    Signatures(Range<usize>),
    /// By a proof.
    Proof,
    /// It cannot hold.
    Refused(String),
}

impl<F: FlavourType> Falcon<F> {
    /// Builds the scheme with this many threads, for keys.
    pub(super) fn with_threads(threads: usize, kernel: Backend) -> Result<Self> {
        Ok(Falcon {
            pool: pool(threads)?,
            kernel,
            profile: Profile::Core128,
            flavour: PhantomData,
        })
    }

    /// Returns whether each signature is valid, using all threads.
    fn verify_items(&self, items: &[Item<'_>]) -> Vec<bool> {
        let held = |chunk: &[Item<'_>]| -> Vec<bool> {
            let verdicts = verify_batch(chunk, self.kernel).into_iter();
            verdicts.map(|verdict| verdict.is_ok()).collect()
        };
        let chunks = || items.par_chunks(LANES).map(held).collect::<Vec<_>>();
        self.pool.install(chunks).concat()
    }

    /// Whether the proof of an aggregate holds. The aggregator is kept for the next one.
    fn verify_proof(
        &self,
        kept: &mut Option<(usize, Aggregator)>,
        keys: &[&PublicKey],
        message: &[u8],
        evidence: &[u8],
    ) -> std::result::Result<(), String> {
        let salted = evidence.get(1..).unwrap_or_default();
        let (salts, proof) =
            split_salts(F::FLAVOUR, keys.len(), salted).ok_or("the salts are cut off")?;
        check_profile(proof, self.profile)?;
        let signed: Vec<Signed<'_>> = (keys.iter().zip(salts))
            .map(|(key, salt)| Signed { key, message, salt })
            .collect();
        let aggregator = match kept.take() {
            Some((number, aggregator)) if number == keys.len() => aggregator,
            _ => Aggregator::new(keys.len(), self.profile, self.kernel)
                .map_err(|error| error.to_string())?,
        };
        let verdict = aggregator.verify(&signed, CONTEXT, proof);
        *kept = Some((keys.len(), aggregator));
        verdict.map_err(|error| format!("the proof does not hold: {error}"))
    }
}

/// Names the profile of a proof whose profile is not the expected one; the verifier would only report a
/// different header.
fn check_profile(proof: &[u8], expected: Profile) -> std::result::Result<(), String> {
    // Data that does not start like a proof has no profile, whatever bytes are at that offset.
    let after = proof.strip_prefix(MAGIC.as_slice());
    let id = after.and_then(|rest| rest.get(HEADER_BYTES - MAGIC.len() - 1));
    let found = (Profile::ALL.into_iter()).find(|profile| Some(&profile.id()) == id);
    match found {
        Some(found) if found != expected => Err(format!(
            "the proof is of profile {}, --profile is {}",
            found.name(),
            expected.name()
        )),
        _ => Ok(()),
    }
}

/// Returns the keys of the signers of a group.
fn signers<'a>(keys: &'a [PublicKey], support: &Support) -> Vec<&'a PublicKey> {
    support
        .iter()
        .map(|(position, _)| &keys[position])
        .collect()
}

/// Adds the signatures that a claim needs.
fn plan<'a, F: FlavourType>(
    groups: &'a [Vec<PublicKey>],
    claim: &'a Claim<'a, PublicKey>,
    message: &'a [u8],
    items: &mut Vec<Item<'a>>,
) -> Plan {
    let start = items.len();
    match claim {
        Claim::Single { key, signature, .. } => items.push(Item {
            key,
            message,
            signature,
        }),
        Claim::Group {
            group,
            support,
            evidence,
            ..
        } => {
            if evidence.first() == Some(&TAG_PROOF) {
                return Plan::Proof;
            }
            let each = F::FLAVOUR.signature_bytes();
            let signatures = match list::split(evidence, support.signer_count(), each) {
                Ok(signatures) => signatures,
                Err(error) => return Plan::Refused(error.to_string()),
            };
            let keys = signers(&groups[*group], support).into_iter();
            items.extend(keys.zip(signatures).map(|(key, signature)| Item {
                key,
                message,
                signature,
            }));
        }
    }
    Plan::Signatures(start..items.len())
}

/// Explains why a claim of signatures does not hold if the one at `bad` is invalid.
fn bad_signature(claim: &Claim<'_, PublicKey>, bad: usize) -> String {
    match claim {
        Claim::Single { .. } => "the signature does not verify".to_owned(),
        Claim::Group { support, .. } => {
            let position = support
                .iter()
                .nth(bad)
                .map_or(bad, |(position, _)| position);
            format!("the signature of signer {position} does not verify")
        }
    }
}

fn secret_of<F: FlavourType>(key: &F::Secret) -> Secret {
    Secret::new(F::bytes(key).to_vec())
}

impl<F: FlavourType> FileScheme for Falcon<F> {
    const NAME: &'static str = F::NAME;
    const SECRET_BYTES: usize = F::SECRET_BYTES;
    const PUBLIC_KEY_BYTES: usize = PUBLIC_KEY_BYTES;
    const POSSESSION_BYTES: usize = 0;
    const SIGNATURE_BYTES: usize = F::FLAVOUR.signature_bytes();
    const MESSAGE_BYTES: Option<usize> = match F::SLOTS {
        Some(_) => Some(32),
        None => None,
    };
    const FORM: Form = Form::List;
    const MULTIPLICITY_MAX: u8 = 1;
    const SIGNERS_MAX: usize = COMMITTEE_MAX as usize;
    const SLOTS: Option<SlotLimits> = F::SLOTS;
    const PROOFS: Option<ProofLimits> = Some(ProofLimits {
        beside_bytes: F::FLAVOUR.salt_bytes(),
        proof_bytes_max: PROOF_BYTES_MAX,
    });
    const DECLARED: Option<Declared> = Some(F::DECLARED);

    type Key = PublicKey;
    type SecretKey = F::Secret;
    /// The mark, if the flavour has one.
    type Prepared = Option<FileWatermark>;

    fn open(options: &FileOptions, proofs: Proofs) -> Result<Self> {
        Ok(Falcon {
            pool: pool(options.threads())?,
            kernel: alphorn_labrador::KERNELS.measured(),
            profile: proofs.profile.profile(),
            flavour: PhantomData,
        })
    }

    fn kernels(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([("labrador", self.kernel.name().to_owned())])
    }

    fn generate(&self, _: Option<Range<u64>>, _: &mut Bars) -> Result<(Secret, F::Secret)> {
        let seed = Secret::random(32)?;
        let key = F::from_seed(seed.bytes().try_into().context("a seed of 32 bytes")?);
        Ok((secret_of::<F>(&key), key))
    }

    fn interop(&self, index: u32, _slots: Option<Range<u64>>) -> Result<(Secret, F::Secret)> {
        let key = F::interop(u64::from(index));
        Ok((secret_of::<F>(&key), key))
    }

    fn secret_key(&self, secret: &Secret, _: &Path, _: &mut Bars) -> Result<F::Secret> {
        let key = F::from_bytes(secret.bytes());
        Ok(key.with_context(|| format!("not a secret key of {}", F::NAME))?)
    }

    fn public_half(&self, key: &F::Secret) -> PublicHalf {
        PublicHalf {
            public_key: F::public(key).bytes().to_vec(),
            possession: Vec::new(),
        }
    }

    fn about(_key: &F::Secret) -> About {
        About::default()
    }

    fn marked(key: &F::Secret) -> Option<&dyn Marked> {
        F::marked(key)
    }

    /// A mark would hand out the last slot again for the same message, but this flavour never signs twice.
    fn prepare(&self, key: &F::Secret, what: &ToSign<'_>) -> Result<Self::Prepared> {
        let Some(key) = F::marked(key) else {
            return Ok(None);
        };
        let store = ready(key, what)?;
        let (slot, _) = asked(what)?;
        match store.slot_next(Role::Vote) {
            Some(next) if slot >= next.0 => Ok(Some(store)),
            next => {
                let (path, next) = (what.path.display(), next.map_or(u64::MAX, |next| next.0));
                let used = marks::used(slot, next);
                Err(Error::Check(format!("{path}: {used}")))
            }
        }
    }

    fn sign(&self, key: &F::Secret, store: Self::Prepared, what: &ToSign<'_>) -> Result<Vec<u8>> {
        let permit = match &store {
            Some(store) => Some(reserve(store, what)?),
            None => None,
        };
        let signature = F::sign(key, what, permit)?;
        let item = Item {
            key: F::public(key),
            message: &signed_of::<F>(what.slot, what.message)?,
            signature: &signature,
        };
        if let [false] = self.verify_items(&[item])[..] {
            let path = what.path.display();
            return Err(Error::Check(format!(
                "{path}: the new signature does not hold"
            )));
        }
        Ok(signature)
    }

    fn decode_keys(&self, encoded: &[&[u8]]) -> std::result::Result<Vec<PublicKey>, Refusal> {
        decode_each(encoded, |bytes| PublicKey::from_bytes(F::FLAVOUR, bytes))
    }

    fn prove(&self, what: &ToProve<'_, PublicKey>) -> Result<Vec<u8>> {
        let signed = signed_of::<F>(what.slot, what.message)?;
        let message = &*signed;
        let items: Vec<Item<'_>> = (what.keys.iter().zip(what.signatures))
            .map(|(key, signature)| Item {
                key,
                message,
                signature,
            })
            .collect();
        let aggregator = Aggregator::new(items.len(), self.profile, self.kernel)?;
        let (salts, proof) = aggregator.prove(&items, CONTEXT)?;
        let mut evidence = vec![TAG_PROOF];
        evidence.extend(salts.as_flattened());
        evidence.extend(proof);
        let keys: Vec<&PublicKey> = what.keys.iter().collect();
        let mut kept = Some((items.len(), aggregator));
        // A wrong proof would be noticed only by its recipient, and by then its signatures are gone.
        self.verify_proof(&mut kept, &keys, message, &evidence)
            .map_err(|reason| Error::Check(format!("the new aggregate: {reason}")))?;
        Ok(evidence)
    }

    fn verify(
        &self,
        groups: &[Vec<PublicKey>],
        claims: &[Claim<'_, PublicKey>],
    ) -> Result<Vec<std::result::Result<(), String>>> {
        let signed = |claim: &Claim<'_, PublicKey>| match *claim {
            Claim::Single { slot, message, .. } | Claim::Group { slot, message, .. } => {
                signed_of::<F>(slot, message).map(Cow::into_owned)
            }
        };
        let signed: Vec<Vec<u8>> = claims.iter().map(signed).collect::<anyhow::Result<_>>()?;
        let mut items = Vec::new();
        let plans: Vec<Plan> = (claims.iter().zip(&signed))
            .map(|(claim, signed)| plan::<F>(groups, claim, signed, &mut items))
            .collect();
        let held = self.verify_items(&items);
        let mut kept = None;
        let mut decide = |((claim, signed), plan): ((&Claim<'_, PublicKey>, &Vec<u8>), Plan)| match (
            plan, claim,
        ) {
            (Plan::Refused(reason), _) => Err(reason),
            (Plan::Signatures(range), _) => match held[range].iter().position(|holds| !holds) {
                None => Ok(()),
                Some(bad) => Err(bad_signature(claim, bad)),
            },
            (Plan::Proof, Claim::Single { .. }) => Err("a proof for one signature".to_owned()),
            (
                Plan::Proof,
                Claim::Group {
                    group,
                    support,
                    evidence,
                    ..
                },
            ) => {
                let keys = signers(&groups[*group], support);
                self.verify_proof(&mut kept, &keys, signed, evidence)
            }
        };
        Ok(claims
            .iter()
            .zip(&signed)
            .zip(plans)
            .map(&mut decide)
            .collect())
    }
}
