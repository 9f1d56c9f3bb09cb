//! Registries of BLS keys, committees of them, and collections: which members of a committee signed, and the
//! sum of their signatures.

use std::sync::{Arc, Mutex, PoisonError};

use alphorn_bls::{
    CollectionItem, Columns, CommitteeJob, KeyTable, PUBLIC_KEY_BYTES, PublicKey, Registration,
    RejectReason, SIGNATURE_BYTES, SumOptions, VerifyOptions, Workspace, encode_g1, sum_columns,
};
use alphorn_types::Bitfield;

use crate::{Code, Context, Error};

/// Maximum number of planes of a collection's signers: multiplicities are below 16.
pub const PLANES_MAX: usize = 4;
/// Maximum number of committees of a registry.
pub const COMMITTEES_MAX: usize = 1 << 16;
/// Maximum number of collections in one call.
pub const COLLECTIONS_MAX: usize = 1 << 16;
/// Number of workspaces kept for later calls. If more threads than this run at once, the rest allocate their
/// own.
const WORKSPACES_MAX: usize = 16;

/// The public keys of all validators, in order of their indices.
#[derive(Clone)]
pub struct Registry {
    context: Context,
    registry: Arc<alphorn_bls::Registry>,
}

impl Registry {
    /// Decodes every key, rejects duplicates, and verifies every proof of possession. `keys` has 48 bytes per
    /// key, `proofs` 96 bytes per key.
    ///
    /// # Errors
    /// [`Code::Argument`] for mismatched lengths, duplicates and more than 2^22 keys, [`Code::Decode`] for the
    /// first key that does not decode, [`Code::Invalid`] for the first without a valid proof.
    pub fn new(context: &Context, keys: &[u8], proofs: &[u8]) -> Result<Registry, Error> {
        let keys = keys_of(keys)?;
        let want = SIGNATURE_BYTES * keys.len();
        if proofs.len() != want {
            return Err(Error::length("proofs of possession", proofs.len(), want));
        }
        let (proofs, _) = proofs.as_chunks::<SIGNATURE_BYTES>();
        let pairs = keys.iter().zip(proofs);
        let registrations: Vec<Registration> = pairs
            .map(|(public_key, proof)| Registration {
                public_key: *public_key,
                proof: *proof,
            })
            .collect();
        let made = alphorn_bls::Registry::new(&registrations, &context.rlc(), context.bls());
        Ok(Registry::of(context, made?))
    }

    /// Builds a registry from keys whose proofs of possession were verified before: those of a chain's
    /// deposits, or of a saved registry. A key that was never proven lets its owner forge collections.
    ///
    /// # Errors
    /// As [`Registry::new`], except those about proofs.
    pub fn proven(context: &Context, keys: &[u8]) -> Result<Registry, Error> {
        let made =
            alphorn_bls::Registry::from_proven(keys_of(keys)?, &context.rlc(), context.bls());
        Ok(Registry::of(context, made?))
    }

    fn of(context: &Context, registry: alphorn_bls::Registry) -> Registry {
        Registry {
            context: context.clone(),
            registry: Arc::new(registry),
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.registry.keys().len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// SHA-256 of the concatenated keys.
    pub fn digest(&self) -> &[u8; 32] {
        self.registry.digest()
    }
}

fn keys_of(keys: &[u8]) -> Result<&[[u8; PUBLIC_KEY_BYTES]], Error> {
    match keys.as_chunks() {
        (keys, []) => Ok(keys),
        _ => Err(Error::length("public keys", keys.len(), "a multiple of 48")),
    }
}

/// Which members of a committee signed what, and the sum of their signatures.
#[derive(Clone, Copy, Debug)]
pub struct Collection<'a> {
    /// Number of the committee.
    pub committee: usize,
    /// One to four planes of ⌈n/8⌉ bytes each, for a committee of n. Bit i mod 8 of byte i / 8 of plane j is
    /// bit j of the number of times position i signed. One plane is a plain bitfield.
    pub signers: &'a [u8],
    /// The message that all of them signed.
    pub message: &'a [u8],
    /// The sum, 96 bytes.
    pub signature: &'a [u8],
}

/// Result of verifying a collection. The numbers never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// It is valid.
    Valid = 0,
    /// There is no such committee, or the signers do not fit it.
    Signers = 1,
    /// The signature does not decode.
    Decode = 2,
    /// There are no signers, or their keys cancel.
    KeyAtInfinity = 3,
    /// The signature does not verify.
    Signature = 4,
}

impl From<RejectReason> for Verdict {
    fn from(reason: RejectReason) -> Verdict {
        match reason {
            RejectReason::Decode(_) => Verdict::Decode,
            RejectReason::UnknownSigners => Verdict::Signers,
            RejectReason::KeyAtInfinity => Verdict::KeyAtInfinity,
            RejectReason::Signature => Verdict::Signature,
        }
    }
}

/// The committees of an epoch: keys in committee order, ready to be summed.
pub struct Committees {
    context: Context,
    table: KeyTable,
    sizes: Vec<usize>,
    workspaces: Mutex<Vec<Workspace>>,
}

impl Committees {
    /// Builds committees of these sizes. `members` are indices of the registry, committee after committee;
    /// without them the committees are the registry's keys in order.
    ///
    /// # Errors
    /// [`Code::Argument`] for sizes that do not add up, more than [`COMMITTEES_MAX`] committees, and an index
    /// that is not in the registry.
    pub fn new(
        registry: &Registry,
        members: Option<&[u32]>,
        sizes: &[usize],
    ) -> Result<Committees, Error> {
        if sizes.len() > COMMITTEES_MAX {
            let message = format!("{} committees, at most {COMMITTEES_MAX}", sizes.len());
            return Err(Error::new(Code::Argument, message));
        }
        let keys = registry.registry.keys();
        let points = match members {
            None => keys.iter().map(|key| *key.point()).collect(),
            Some(members) => {
                let points = members.iter().map(|&index| point_at(keys, index));
                points.collect::<Result<Vec<_>, Error>>()?
            }
        };
        let context = registry.context.clone();
        let table = KeyTable::new(context.bls().backend(), points, sizes)?;
        Ok(Committees {
            context,
            table,
            sizes: sizes.to_vec(),
            workspaces: Mutex::default(),
        })
    }

    /// Number of committees.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Returns whether there are no committees.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Number of members of a committee; `None` if there is no such committee.
    pub fn size(&self, committee: usize) -> Option<usize> {
        self.sizes.get(committee).copied()
    }

    /// The sum of the signers' keys, each counted as often as it signed: 48 bytes, under which the sum of their
    /// signatures verifies.
    ///
    /// # Errors
    /// [`Code::Argument`] if the signers do not fit the committee, [`Code::Invalid`] if the sum is the
    /// identity.
    pub fn sum(&self, committee: usize, signers: &[u8]) -> Result<[u8; PUBLIC_KEY_BYTES], Error> {
        let planes = self.planes(committee, signers)?;
        let words: Vec<&[u64]> = planes.iter().map(Bitfield::words).collect();
        let collections = [Columns { planes: &words }];
        let job = CommitteeJob {
            committee,
            collections: &collections,
            bases: &[],
        };
        let sums = self.with_workspace(|workspace| {
            let (options, exec) = (SumOptions::default(), self.context.bls());
            sum_columns(&self.table, &[job], &options, workspace, exec)
        })?;
        let sum = &sums.keys[0];
        match sum.is_infinity() {
            true => Err(Error::new(
                Code::Invalid,
                "the sum of the signers' keys is the identity",
            )),
            false => Ok(encode_g1(sum)),
        }
    }

    /// Verifies collections in one test; bad ones are located only if it fails. The verdicts are those of
    /// verifying each alone.
    ///
    /// # Errors
    /// [`Code::Argument`] for more than [`COLLECTIONS_MAX`]. A collection that does not fit its committee is
    /// not an error: it gets a verdict like the others.
    pub fn verify(&self, collections: &[Collection<'_>]) -> Result<Vec<Verdict>, Error> {
        let got = collections.len();
        if got > COLLECTIONS_MAX {
            let message = format!("{got} collections, at most {COLLECTIONS_MAX} in a call");
            return Err(Error::new(Code::Argument, message));
        }
        let mut verdicts = vec![Verdict::Signers; got];
        let fitting: Vec<(usize, Vec<Bitfield>)> = collections
            .iter()
            .enumerate()
            .filter_map(|(i, item)| Some((i, self.planes(item.committee, item.signers).ok()?)))
            .collect();
        let words: Vec<Vec<&[u64]>> = fitting
            .iter()
            .map(|(_, planes)| planes.iter().map(Bitfield::words).collect())
            .collect();
        let items = fitting.iter().zip(&words);
        let items: Vec<CollectionItem<'_>> = items
            .map(|((i, _), planes)| CollectionItem {
                committee: collections[*i].committee,
                planes,
                message: collections[*i].message,
                signature: collections[*i].signature,
            })
            .collect();
        let rlc = self.context.rlc();
        let options = VerifyOptions {
            rlc: &rlc,
            sums: SumOptions::default(),
            bases: &[],
            exec: self.context.bls(),
        };
        let found = self.with_workspace(|workspace| {
            alphorn_bls::verify_collections(&self.table, &items, &[], &options, workspace)
        })?;
        for ((i, _), verdict) in fitting.iter().zip(found) {
            verdicts[*i] = verdict.map_or_else(Verdict::from, |()| Verdict::Valid);
        }
        Ok(verdicts)
    }

    /// The planes of signers, if they fit the committee.
    fn planes(&self, committee: usize, signers: &[u8]) -> Result<Vec<Bitfield>, Error> {
        let size = self.size(committee).ok_or_else(|| {
            let message = format!("committee {committee} of {}", self.len());
            Error::new(Code::Argument, message)
        })?;
        let bytes = size.div_ceil(8);
        let planes = signers.len().checked_div(bytes).unwrap_or(0);
        if !(1..=PLANES_MAX).contains(&planes) || signers.len() != planes * bytes {
            let want = format!("1 to {PLANES_MAX} times {bytes}");
            return Err(Error::length("signers", signers.len(), want));
        }
        let planes = signers.chunks_exact(bytes);
        let planes = planes.map(|plane| Bitfield::from_bytes(plane, size));
        Ok(planes.collect::<Result<_, _>>()?)
    }

    fn with_workspace<T>(&self, f: impl FnOnce(&mut Workspace) -> T) -> T {
        let kept = || {
            self.workspaces
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let mut workspace = kept().pop().unwrap_or_default();
        let result = f(&mut workspace);
        let mut kept = kept();
        if kept.len() < WORKSPACES_MAX {
            kept.push(workspace);
        }
        result
    }
}

fn point_at(keys: &[PublicKey], index: u32) -> Result<alphorn_bls::G1Affine, Error> {
    let key = keys.get(index as usize).ok_or_else(|| {
        let message = format!("member {index}: the registry has {} keys", keys.len());
        Error::new(Code::Argument, message)
    })?;
    Ok(*key.point())
}
