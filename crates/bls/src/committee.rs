//! Verification of claims under sums of keys: decode, sum the keys of each support, test everything at once.
//!
//! [`Prepared`] is the only path from bytes to verdicts. The scheme's claims and the collections of
//! [`verify_collections`] take it, and the benchmarks time it.

use core::ops::Range;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use alphorn_exec::{Backend, Exec};

use crate::batch::{Batch, Located, SignatureSet};
use crate::blst_ffi::curve::{G1Affine, G2Affine};
use crate::decode::decompress_signatures;
use crate::error::DecodeError;
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

/// The key under which an item must hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signers<'a> {
    /// The key of one signer.
    One(PublicKey),
    /// The sum of the keys of a support over a committee of the table.
    Sum {
        committee: usize,
        planes: &'a [&'a [u64]],
    },
    /// No key: the named signers do not exist.
    Unknown,
}

/// What is verified: that a message was signed by the named key or keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) signers: Signers<'a>,
    pub(crate) message: &'a [u8],
    pub(crate) signature: &'a [u8],
}

/// Why an item is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// The signature does not decode.
    #[error("the signature does not decode: {0}")]
    Decode(#[from] DecodeError),
    /// There is no such validator, cell or committee.
    #[error("the signers are unknown")]
    UnknownSigners,
    /// There are no signers, or their keys cancel: the identity is not a valid key.
    #[error("the aggregate key is the identity")]
    KeyAtInfinity,
    /// The signature does not verify under the signers' key.
    #[error("the signature does not verify")]
    Signature,
}

/// Options of a verification.
#[derive(Clone, Copy, Debug)]
pub struct VerifyOptions<'a> {
    /// Weights of the combination.
    pub rlc: &'a Rlc,
    /// How the keys are summed.
    pub sums: SumOptions,
    /// Vectors with known sums, of any committees of the table.
    pub bases: &'a [Base],
    /// Kernel and threads.
    pub exec: Exec<'a>,
}

/// Wall time of each step of a preparation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyTimings {
    /// Decompression of the signatures.
    pub decode: Duration,
    /// Sums of keys.
    pub sums: Duration,
    /// Hashing the messages, the combination together with the subgroup checks of the signatures, and the
    /// pairings of the test of all items.
    pub rlc: Duration,
}

/// Items in preparation: decoded, summed, and tested all at once. What remains is the test of a part and the
/// search for bad items.
///
/// The order of the steps is part of the argument (see [`crate::lecture`]): every signature is decoded, and
/// neither key nor signature is the identity, before weights are drawn, and every signature is in the subgroup
/// before a combination of them counts.
pub(crate) struct Prepared {
    batch: Batch,
    /// Items that are bad by themselves. They are left out of the test, so that one malformed signature does
    /// not cost a search.
    refused: BTreeMap<usize, RejectReason>,
    /// The sums of the planes of each item, lowest plane first.
    plane_sums: Vec<Vec<G1Affine>>,
    /// The task was asked to stop before the items were ready, so nothing is known about them.
    stopped: bool,
    /// The kernel of the test.
    backend: Backend,
    pub(crate) sums: SumReport,
    pub(crate) timings: VerifyTimings,
}

impl Prepared {
    /// Decodes and sums on the kernels of `exec` and the table, and runs the test of all items.
    ///
    /// # Errors
    /// [`SumError`] for a support that does not fit the table; nothing is verified then.
    pub(crate) fn new(
        items: &[Item<'_>],
        table: &KeyTable,
        options: &VerifyOptions<'_>,
        workspace: &mut Workspace,
    ) -> Result<Prepared, SumError> {
        let (rlc, exec) = (options.rlc, options.exec);
        let mut clock = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            now - core::mem::replace(&mut clock, now)
        };
        let mut timings = VerifyTimings::default();
        let encoded: Vec<&[u8]> = items.iter().map(|item| item.signature).collect();
        let signatures = decompress_signatures(&encoded, exec);
        timings.decode = lap();
        let mut keys = Keys::of_singles(items);
        keys.sum(items, table, options, workspace)?;
        timings.sums = lap();
        let mut refused = BTreeMap::new();
        let mut sets: Vec<Option<SignatureSet<'_>>> = items
            .iter()
            .zip(signatures)
            .zip(keys.found)
            .enumerate()
            .map(|(i, ((item, signature), key))| {
                let set = signature
                    .map_err(RejectReason::Decode)
                    .and_then(|point| set(key, item.message, Signature::from_point(point)));
                set.map_err(|reason| refused.insert(i, reason)).ok()
            })
            .collect();
        let mut batch = Batch::new(&sets, rlc, exec);
        let outside = batch.check_subgroup_and_all(exec);
        if !outside.is_empty() {
            for i in outside {
                sets[i] = None;
                refused.insert(i, RejectReason::Decode(DecodeError::NotInSubgroup));
            }
            // There are refused items, so the caller continues with `locate`, which computes the value of the
            // others.
            batch = Batch::new(&sets, rlc, exec);
        }
        timings.rlc = lap();
        Ok(Prepared {
            batch,
            refused,
            plane_sums: keys.plane_sums,
            // Checked last: if the flag was set at any time before, a value may be missing.
            stopped: exec.stopped(),
            backend: exec.backend(),
            sums: keys.report,
            timings,
        })
    }

    /// Returns whether all items of a range hold; false if nothing is known about them.
    pub(crate) fn check(&self, range: Range<usize>) -> bool {
        !self.stopped && self.batch.check(range, Exec::new(self.backend, None))
    }

    /// Finds exactly the items that do not hold, in ascending order; `None` if the task was asked to stop.
    pub(crate) fn locate(&self, exec: Exec<'_>) -> Option<Located> {
        if self.stopped {
            return None;
        }
        let located = self.batch.locate(exec);
        (!exec.stopped()).then_some(located)
    }

    /// The kernel of the test.
    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    /// Number of items.
    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    /// The signatures of the items under test, each with its item.
    pub(crate) fn signatures(&self) -> impl Iterator<Item = (usize, &G2Affine)> {
        self.batch.signatures()
    }

    /// Number of distinct messages among the items under test.
    pub(crate) fn message_count(&self) -> usize {
        self.batch.message_count()
    }

    /// The sums of an item's planes, lowest first; empty for an item of one key.
    pub(crate) fn plane_sums(&self, item: usize) -> &[G1Affine] {
        &self.plane_sums[item]
    }
}

/// The claim to test, unless key or signature is bad by itself.
fn set(
    key: Result<PublicKey, RejectReason>,
    message: &[u8],
    signature: Signature,
) -> Result<SignatureSet<'_>, RejectReason> {
    if signature.is_infinity() {
        return Err(RejectReason::Decode(DecodeError::Infinity));
    }
    Ok(SignatureSet {
        key: key?,
        message,
        signature,
    })
}

/// The keys of items.
struct Keys {
    found: Vec<Result<PublicKey, RejectReason>>,
    plane_sums: Vec<Vec<G1Affine>>,
    report: SumReport,
}

impl Keys {
    /// The keys of items that need no sum.
    fn of_singles(items: &[Item<'_>]) -> Keys {
        let key = |item: &Item<'_>| match item.signers {
            Signers::One(key) => Ok(key),
            Signers::Sum { .. } | Signers::Unknown => Err(RejectReason::UnknownSigners),
        };
        Keys {
            found: items.iter().map(key).collect(),
            plane_sums: vec![Vec::new(); items.len()],
            report: SumReport::default(),
        }
    }

    /// Adds the sums over the committees of the table, all items of a committee together.
    fn sum(
        &mut self,
        items: &[Item<'_>],
        table: &KeyTable,
        options: &VerifyOptions<'_>,
        workspace: &mut Workspace,
    ) -> Result<(), SumError> {
        let mut by_committee: BTreeMap<usize, (Vec<usize>, Vec<Columns<'_>>)> = BTreeMap::new();
        for (i, item) in items.iter().enumerate() {
            if let Signers::Sum { committee, planes } = item.signers {
                let (members, columns) = by_committee.entry(committee).or_default();
                members.push(i);
                columns.push(Columns { planes });
            }
        }
        let jobs: Vec<CommitteeJob<'_>> = by_committee
            .iter()
            .flat_map(|(&committee, (_, columns))| {
                CommitteeJob::split(committee, columns, options.bases, options.sums.method)
            })
            .collect();
        let sums = sum_columns(table, &jobs, &options.sums, workspace, options.exec)?;
        let mut planes = sums.planes.into_iter();
        let members = by_committee.values();
        let members = members.flat_map(|(members, columns)| members.iter().zip(columns));
        for ((&i, columns), sum) in members.zip(sums.keys) {
            self.found[i] = PublicKey::from_point(sum).map_err(|_| RejectReason::KeyAtInfinity);
            self.plane_sums[i] = planes.by_ref().take(columns.planes.len()).collect();
        }
        self.report.join(&sums.report);
        Ok(())
    }
}

/// Verifies collections, together with single signatures, in one test; bad items are located only if it fails.
/// Verdicts are for the collections first, then for the single signatures, and equal those of verifying each
/// item alone (see [`crate::lecture`]). If the task was asked to stop, all are [`DecodeError::Stopped`].
///
/// # Errors
/// [`SumError`] for a collection whose shape does not fit the key table; nothing is verified then.
pub fn verify_collections(
    table: &KeyTable,
    collections: &[CollectionItem<'_>],
    singles: &[KeyItem<'_>],
    options: &VerifyOptions<'_>,
    workspace: &mut Workspace,
) -> Result<Vec<Result<(), RejectReason>>, SumError> {
    let collections = collections.iter().map(|item| Item {
        signers: Signers::Sum {
            committee: item.committee,
            planes: item.planes,
        },
        message: item.message,
        signature: item.signature,
    });
    let singles = singles.iter().map(|item| Item {
        signers: Signers::One(item.key),
        message: item.message,
        signature: item.signature,
    });
    let items: Vec<Item<'_>> = collections.chain(singles).collect();
    let options = VerifyOptions {
        exec: options.exec.on(table.backend()),
        ..*options
    };
    let prepared = Prepared::new(&items, table, &options, workspace)?;
    let mut verdicts = vec![Ok(()); items.len()];
    if !prepared.check(0..items.len()) {
        let Some(located) = prepared.locate(options.exec) else {
            verdicts.fill(Err(RejectReason::Decode(DecodeError::Stopped)));
            return Ok(verdicts);
        };
        for i in located.bad {
            let reason = prepared.refused.get(&i).copied();
            verdicts[i] = Err(reason.unwrap_or(RejectReason::Signature));
        }
    }
    Ok(verdicts)
}
