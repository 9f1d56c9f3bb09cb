//! BLS12-381 in files: keys and signatures in the format of Ethereum's consensus layer.

use super::input::ENTRIES_MAX;
use super::keystore::About;
use super::scheme::{FileScheme, Form, PublicHalf, SlotLimits};
use super::secret::{Secret, fill_random};
use super::statement::{Claim, Refusal, ToSign};
use super::{FileOptions, Proofs};
use crate::error::Result;
use crate::options::pool;
use crate::progress::Bars;
use alphorn_bls::{
    COLLECTIONS_MAX, CollectionItem, InteropKey, KEY_MATERIAL_BYTES_MIN, KeyItem, KeyTable,
    PUBLIC_KEY_BYTES, PublicKey, Registration, Registry, RegistryError, Rlc, RlcBits,
    SECRET_KEY_BYTES, SIGNATURE_BYTES, SecretKey, SumOptions, VerifyOptions, Workspace, aggregate,
    decode_public_keys, decode_signatures, pop_prove, sign, verify_collections,
};
use alphorn_exec::{Backend, Exec};
use alphorn_types::MULTIPLICITY_LIMIT;
use anyhow::Context;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use zeroize::Zeroizing;

/// The scheme with its threads and the secret of its batch verifications.
pub(super) struct Bls {
    pool: rayon::ThreadPool,
    kernel: Backend,
    rlc: Rlc,
}

impl Bls {
    /// Builds the scheme with this many threads.
    pub(super) fn with_threads(threads: usize) -> Result<Self> {
        let mut secret = Zeroizing::new([0; 32]);
        fill_random(&mut *secret)?;
        Ok(Bls {
            pool: pool(threads)?,
            kernel: Backend::Portable,
            rlc: Rlc::new(*secret, RlcBits::Bits64),
        })
    }

    fn exec(&self) -> Exec<'_> {
        Exec::new(self.kernel, Some(&self.pool))
    }

    /// Verifies claims of at most [`COLLECTIONS_MAX`] groups.
    fn verify_chunk(
        &self,
        table: &KeyTable,
        claims: &[Claim<'_, PublicKey>],
    ) -> Result<Vec<std::result::Result<(), String>>> {
        let mut group_places = Vec::new();
        let mut single_places = Vec::new();
        let mut groups = Vec::new();
        let mut singles = Vec::new();
        for (place, claim) in claims.iter().enumerate() {
            match claim {
                Claim::Single {
                    key,
                    message,
                    signature,
                    slot: _,
                } => {
                    single_places.push(place);
                    singles.push(KeyItem {
                        key: *key,
                        message,
                        signature,
                    });
                }
                Claim::Group {
                    group,
                    support,
                    message,
                    evidence,
                    slot: _,
                } => {
                    group_places.push(place);
                    let planes: Vec<&[u64]> = support.planes().iter().map(|p| p.words()).collect();
                    groups.push((*group, planes, *message, *evidence));
                }
            }
        }
        let collections: Vec<CollectionItem<'_>> = groups
            .iter()
            .map(|(committee, planes, message, signature)| CollectionItem {
                committee: *committee,
                planes,
                message,
                signature,
            })
            .collect();
        let options = VerifyOptions {
            rlc: &self.rlc,
            sums: SumOptions::default(),
            bases: &[],
            exec: self.exec(),
        };
        let found = verify_collections(
            table,
            &collections,
            &singles,
            &options,
            &mut Workspace::default(),
        )?;
        let mut verdicts = vec![Ok(()); claims.len()];
        let places = group_places.into_iter().chain(single_places);
        for (place, verdict) in places.zip(found) {
            verdicts[place] = verdict.map_err(|reason| reason.to_string());
        }
        Ok(verdicts)
    }
}

impl FileScheme for Bls {
    const NAME: &'static str = "bls";
    const SECRET_BYTES: usize = SECRET_KEY_BYTES;
    const PUBLIC_KEY_BYTES: usize = PUBLIC_KEY_BYTES;
    const POSSESSION_BYTES: usize = SIGNATURE_BYTES;
    const SIGNATURE_BYTES: usize = SIGNATURE_BYTES;
    const MESSAGE_BYTES: Option<usize> = None;
    const FORM: Form = Form::Sum;
    const MULTIPLICITY_MAX: u8 = MULTIPLICITY_LIMIT;
    const SIGNERS_MAX: usize = ENTRIES_MAX;
    const SLOTS: Option<SlotLimits> = None;

    type Key = PublicKey;
    type SecretKey = SecretKey;
    type Prepared = ();

    fn open(options: &FileOptions, _: Proofs) -> Result<Self> {
        Bls::with_threads(options.threads())
    }

    fn kernels(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([("bls", self.kernel.name().to_owned())])
    }

    fn generate(
        &self,
        _slots: Option<Range<u64>>,
        _bars: &mut Bars,
    ) -> Result<(Secret, SecretKey)> {
        let material = Secret::random(KEY_MATERIAL_BYTES_MIN)?;
        let key = SecretKey::key_gen(material.bytes())?;
        Ok((secret_of(&key), key))
    }

    fn interop(&self, index: u32, _slots: Option<Range<u64>>) -> Result<(Secret, SecretKey)> {
        let key = InteropKey::new(u64::from(index)).to_secret_key();
        Ok((secret_of(&key), key))
    }

    fn secret_key(&self, secret: &Secret, _path: &Path, _bars: &mut Bars) -> Result<SecretKey> {
        Ok(SecretKey::from_bytes(secret.bytes()).context("not a BLS secret key")?)
    }

    fn public_half(&self, key: &SecretKey) -> PublicHalf {
        PublicHalf {
            public_key: key.public_key().to_bytes().to_vec(),
            possession: pop_prove(key).to_bytes().to_vec(),
        }
    }

    fn about(_key: &SecretKey) -> About {
        About::default()
    }

    fn prepare(&self, _key: &SecretKey, _what: &ToSign<'_>) -> Result<()> {
        Ok(())
    }

    fn sign(&self, key: &SecretKey, (): (), what: &ToSign<'_>) -> Result<Vec<u8>> {
        Ok(sign(key, what.message).to_bytes().to_vec())
    }

    fn decode_keys(&self, encoded: &[&[u8]]) -> std::result::Result<Vec<PublicKey>, Refusal> {
        decode_public_keys(encoded, &self.rlc, self.exec())
            .into_iter()
            .enumerate()
            .map(|(index, key)| key.map_err(|error| malformed(index, error)))
            .collect()
    }

    fn decode_proven(
        &self,
        encoded: &[(&[u8], &[u8])],
    ) -> std::result::Result<Vec<PublicKey>, Refusal> {
        let mut registrations = Vec::with_capacity(encoded.len());
        for (index, (key, proof)) in encoded.iter().enumerate() {
            let registration = || {
                Some(Registration {
                    public_key: (*key).try_into().ok()?,
                    proof: (*proof).try_into().ok()?,
                })
            };
            let length = || malformed(index, "a key or proof of another length");
            registrations.push(registration().ok_or_else(length)?);
        }
        match Registry::new(&registrations, &self.rlc, self.exec()) {
            Ok(registry) => Ok(registry.keys().to_vec()),
            Err(RegistryError::Possession { index }) => Err(Refusal::Possession { index }),
            Err(RegistryError::Key { index, error }) => Err(malformed(index, error)),
            Err(error @ RegistryError::Duplicate { index, .. }) => Err(malformed(index, error)),
            Err(error @ RegistryError::TooMany { .. }) => Err(malformed(0, error)),
        }
    }

    fn combine(&self, parts: &[&[u8]]) -> std::result::Result<Option<Vec<u8>>, Refusal> {
        let decoded: std::result::Result<Vec<_>, Refusal> =
            decode_signatures(parts, &self.rlc, self.exec())
                .into_iter()
                .enumerate()
                .map(|(index, point)| point.map_err(|error| malformed(index, error)))
                .collect();
        let sum = aggregate(&decoded?).map_err(|error| malformed(0, error))?;
        Ok((!sum.is_infinity()).then(|| sum.to_bytes().to_vec()))
    }

    fn verify(
        &self,
        groups: &[Vec<PublicKey>],
        claims: &[Claim<'_, PublicKey>],
    ) -> Result<Vec<std::result::Result<(), String>>> {
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        let keys = groups.iter().flatten().map(|key| *key.point()).collect();
        let table = KeyTable::new(self.kernel, keys, &sizes)?;
        let mut verdicts = Vec::with_capacity(claims.len());
        for chunk in claims.chunks(COLLECTIONS_MAX) {
            verdicts.extend(self.verify_chunk(&table, chunk)?);
        }
        Ok(verdicts)
    }
}

fn secret_of(key: &SecretKey) -> Secret {
    Secret::new(Zeroizing::new(key.to_bytes()).to_vec())
}

fn malformed(index: usize, reason: impl ToString) -> Refusal {
    Refusal::Malformed {
        index,
        reason: reason.to_string(),
    }
}
