//! Verification of a slot's collections: decode, sum the keys of each support, test all at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::batch::{Batch, Located, SignatureSet};
use crate::blst_ffi::field::Fp2;
use crate::decode::{Decoded, check_subgroup, decompress_signatures};
use crate::error::DecodeError;
use crate::exec::Exec;
use crate::keys::{PublicKey, Signature};
use crate::rlc::Rlc;
use crate::sums::{
    Base, Columns, CommitteeJob, KeyTable, SumError, SumOptions, SumReport, Workspace, sum_columns,
};

/// One collection: the planes of its support over a committee of the key table, and its signature.
#[derive(Clone, Copy, Debug)]
pub struct CollectionItem<'a> {
    /// Index of the committee in the key table.
    pub committee: usize,
    /// One to four planes of multiplicity bits, see [`Columns`].
    pub planes: &'a [&'a [u64]],
    /// The message that all signers signed.
    pub message: &'a [u8],
    /// The aggregate signature, 96 bytes compressed.
    pub signature: &'a [u8],
}

/// One signature of one key: an envelope or a proof of selection, verified in the same test.
#[derive(Clone, Copy, Debug)]
pub struct KeyItem<'a> {
    /// The signer's key.
    pub key: PublicKey,
    /// The message.
    pub message: &'a [u8],
    /// The signature, 96 bytes compressed.
    pub signature: &'a [u8],
}

/// Why an item is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// The signature does not decode.
    #[error("the signature does not decode: {0}")]
    Decode(#[from] DecodeError),
    /// Nobody signed, or the signers' keys cancel: no such key is valid.
    #[error("the aggregate key is the identity")]
    KeyAtInfinity,
    /// The signature does not hold under the signers' key.
    #[error("the signature does not verify")]
    Signature,
}

/// What a verification may use.
#[derive(Clone, Copy, Debug)]
pub struct VerifyOptions<'a> {
    /// Weights of the combination.
    pub rlc: &'a Rlc,
    /// How the keys are summed.
    pub sums: SumOptions,
    /// Vectors of any committees of the table whose sums are known.
    pub bases: &'a [Base],
    /// The threads.
    pub exec: Exec<'a>,
}

/// Wall time of each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyTimings {
    /// Decompression of the signatures.
    pub decode: Duration,
    /// Subgroup checks of the signatures.
    pub subgroup: Duration,
    /// Sums of keys.
    pub sums: Duration,
    /// Hashing of the messages, combination and pairings of the test of everything.
    pub rlc: Duration,
    /// Location of bad items; zero if there is none.
    pub locate: Duration,
    /// The whole call.
    pub total: Duration,
}

/// The verdict on every item, and what it took.
#[derive(Clone, Debug)]
pub struct Verified {
    /// For each collection, then for each single-key item.
    pub verdicts: Vec<Result<(), RejectReason>>,
    /// The search for bad items; empty if the first test passed.
    pub located: Located,
    /// Different messages among the tested items.
    pub messages: usize,
    /// What the sums did.
    pub sums: SumReport,
    /// Wall time of each step.
    pub timings: VerifyTimings,
}

impl Verified {
    /// Indices of the bad items, ascending.
    pub fn bad(&self) -> Vec<usize> {
        (0..self.verdicts.len())
            .filter(|&i| self.verdicts[i].is_err())
            .collect()
    }
}

/// Verifies collections, and single signatures beside them, in one test; only if it fails the bad
/// items are located. Verdicts are those of verifying each item alone (see [`crate::lecture`]).
///
/// The order of the steps is part of the argument: every signature is decoded and in the subgroup,
/// and neither key nor signature is the identity, before anything is combined.
///
/// # Errors
/// [`SumError`] for a collection whose shape does not fit the key table; nothing is verified then.
pub fn verify_collections(
    table: &KeyTable,
    collections: &[CollectionItem<'_>],
    singles: &[KeyItem<'_>],
    options: &VerifyOptions<'_>,
    workspace: &mut Workspace,
) -> Result<Verified, SumError> {
    let exec = options.exec;
    let start = Instant::now();
    let mut clock = start;
    let mut lap = || {
        let now = Instant::now();
        now - core::mem::replace(&mut clock, now)
    };
    let mut timings = VerifyTimings::default();

    let encoded: Vec<&[u8]> = collections
        .iter()
        .map(|item| item.signature)
        .chain(singles.iter().map(|item| item.signature))
        .collect();
    let mut signatures = decompress_signatures(&encoded, table.backend(), exec);
    timings.decode = lap();
    check_subgroup(
        &mut signatures,
        &encoded,
        options.rlc,
        table.backend(),
        exec,
    );
    timings.subgroup = lap();
    let (keys, sums) = aggregate_keys(table, collections, options, workspace)?;
    timings.sums = lap();

    let singles = singles.iter().map(|item| (Ok(item.key), item.message));
    let claims: Vec<Result<SignatureSet<'_>, RejectReason>> = keys
        .into_iter()
        .zip(collections.iter().map(|item| item.message))
        .chain(singles)
        .zip(signatures)
        .map(|((key, message), signature)| claim(key, message, signature))
        .collect();
    // Items that are bad already do not enter: one malformed signature must not cost a search.
    let tested: Vec<usize> = (0..claims.len()).filter(|&i| claims[i].is_ok()).collect();
    let sets: Vec<Option<SignatureSet<'_>>> = tested.iter().map(|&i| claims[i].ok()).collect();
    let mut verdicts: Vec<Result<(), RejectReason>> =
        claims.iter().map(|claim| claim.map(|_| ())).collect();
    let rlc = options.rlc.clone().on(table.backend());
    let batch = Batch::new(&sets, &rlc, exec);
    let mut located = Located::default();
    let good = batch.check_all(exec);
    timings.rlc = lap();
    if !good {
        located = batch.locate(exec);
        located.bad.iter_mut().for_each(|i| *i = tested[*i]);
        located
            .bad
            .iter()
            .for_each(|&i| verdicts[i] = Err(RejectReason::Signature));
        timings.locate = lap();
    }
    timings.total = start.elapsed();
    Ok(Verified {
        verdicts,
        located,
        messages: batch.message_count(),
        sums,
        timings,
    })
}

/// What is to be tested, if neither key nor signature is bad by itself.
fn claim<'a>(
    key: Result<PublicKey, DecodeError>,
    message: &'a [u8],
    signature: Decoded<Fp2>,
) -> Result<SignatureSet<'a>, RejectReason> {
    let signature = Signature::from_point(signature?);
    if signature.is_infinity() {
        return Err(RejectReason::Decode(DecodeError::Infinity));
    }
    let key = key.map_err(|_| RejectReason::KeyAtInfinity)?;
    Ok(SignatureSet {
        key,
        message,
        signature,
    })
}

/// The aggregate key of each collection, in the order of the collections.
fn aggregate_keys(
    table: &KeyTable,
    collections: &[CollectionItem<'_>],
    options: &VerifyOptions<'_>,
    workspace: &mut Workspace,
) -> Result<(Vec<Result<PublicKey, DecodeError>>, SumReport), SumError> {
    let mut by_committee: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, item) in collections.iter().enumerate() {
        by_committee.entry(item.committee).or_default().push(i);
    }
    let columns: Vec<Vec<Columns<'_>>> = by_committee
        .values()
        .map(|members| {
            members
                .iter()
                .map(|&i| Columns {
                    planes: collections[i].planes,
                })
                .collect()
        })
        .collect();
    let jobs: Vec<CommitteeJob<'_>> = by_committee
        .keys()
        .zip(&columns)
        .flat_map(|(&committee, columns)| CommitteeJob::split(committee, columns, options.bases))
        .collect();
    let sums = sum_columns(table, &jobs, &options.sums, workspace, options.exec.pool())?;
    let mut keys = vec![Err(DecodeError::Infinity); collections.len()];
    for (&i, sum) in by_committee.values().flatten().zip(sums.keys) {
        keys[i] = PublicKey::from_point(sum);
    }
    Ok((keys, sums.report))
}
