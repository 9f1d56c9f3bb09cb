//! The inputs of verification: keys, supports and real signatures of a topic.

use crate::supports::Planes;
use alphorn_bls::{
    Bls, CollectionItem, EpochKeys, InteropKey, SIGNATURE_BYTES, Workspace, interop_keys, sign,
};
use alphorn_exec::{Backend, Exec};
use alphorn_lab::error::Result;
use alphorn_lab::keycache;
use alphorn_lab::progress::Bars;
use alphorn_scheme::{Claim, Ctx, Evidence, Layer, Role, Scheme, Statement};
use alphorn_types::{Assignment, Bitfield, Epoch, Layout, Slot, Support, Validator};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The slot of all claims.
const SLOT: Slot = Slot(1);

/// Everything to verify, as in a node's verify job.
pub(super) struct Fixture<'s> {
    pub(super) keys: &'s EpochKeys,
    supports: Vec<Planes<'s>>,
    /// The claim signed by each support.
    pub(super) groups: Vec<Claim>,
    /// The claims that accompany each: a proof of selection (one message for all) and an envelope (one
    /// message each).
    pub(super) singles: Vec<Claim>,
}

/// Returns the keys of an epoch whose validators are the interop keys in order.
pub(super) fn epoch_keys(
    scheme: &Bls,
    layout: &Layout,
    pool: &rayon::ThreadPool,
    bars: &mut Bars,
) -> Result<EpochKeys> {
    let (validators, exec) = (layout.validators(), Exec::new(scheme.backend(), Some(pool)));
    let interop = keycache::interop_registry(validators, exec, bars)?;
    let members = (0..validators).collect();
    let assignment = Assignment::new(Epoch(0), *layout, members).map_err(anyhow::Error::from)?;
    let mut scratch = Workspace::default();
    let ctx = &mut Ctx::single(&mut scratch);
    let keys = scheme.keys(&Arc::new(interop.registry), &Arc::new(assignment), ctx);
    Ok(keys.map_err(anyhow::Error::from)?)
}

fn message(label: &str, i: u64) -> [u8; 32] {
    Sha256::new()
        .chain_update(label)
        .chain_update(i.to_le_bytes())
        .finalize()
        .into()
}

/// Returns the claim that a validator signed.
fn one(key: &InteropKey, validator: usize, role: Role, message: [u8; 32]) -> Claim {
    Claim::One {
        validator: Validator(validator as u32),
        role,
        slot: SLOT,
        message,
        signature: Arc::from(sign(&key.to_secret_key(), &message).to_bytes()),
    }
}

/// Returns the claim that a validator was selected.
fn selected(key: &InteropKey, validator: usize) -> Claim {
    let message = message("select", 0);
    Claim::Selected {
        validator: Validator(validator as u32),
        message,
        proof: Arc::from(sign(&key.to_secret_key(), &message).to_bytes()),
    }
}

impl<'s> Fixture<'s> {
    /// Builds supports with real signatures, made by the sums of the signers' interop keys.
    pub(super) fn new(
        keys: &'s EpochKeys,
        supports: Vec<Planes<'s>>,
        pool: &rayon::ThreadPool,
    ) -> Self {
        let layout = keys.assignment().layout();
        let interop = interop_keys(
            0..u64::from(layout.validators()),
            Exec::new(Backend::Portable, Some(pool)),
        );
        let vote = message("vote", 0);
        let signed = |i: usize| {
            let (committee, planes) = &supports[i];
            let range = layout.committee_range(*committee as u16);
            let members = &interop[range.start as usize..range.end as usize];
            let group = Claim::Group {
                statement: Statement {
                    layer: Layer::Collection,
                    first: range.start,
                    len: range.end - range.start,
                    slot: SLOT,
                    message: vote,
                },
                evidence: Evidence {
                    support: Arc::new(support_of(planes, members.len())),
                    bytes: Arc::from(signature(members, planes, &vote)),
                },
            };
            let sender = range.start as usize + i % members.len().max(1);
            let envelope = message("envelope", i as u64);
            let key = &interop[sender];
            let singles = [
                selected(key, sender),
                one(key, sender, Role::Collection, envelope),
            ];
            (group, singles)
        };
        let (groups, singles): (Vec<_>, Vec<_>) =
            pool.install(|| (0..supports.len()).into_par_iter().map(signed).unzip());
        Fixture {
            keys,
            supports,
            groups,
            singles: singles.into_iter().flatten().collect(),
        }
    }

    /// Returns the groups in the form that other verifiers take.
    pub(super) fn items(&self) -> Vec<CollectionItem<'_>> {
        let supports = self.supports.iter().zip(&self.groups);
        supports
            .filter_map(|((committee, planes), claim)| match claim {
                Claim::Group { evidence, .. } => Some(CollectionItem {
                    committee: *committee,
                    planes,
                    message: claim.message(),
                    signature: &evidence.bytes,
                }),
                Claim::One { .. } | Claim::Selected { .. } => None,
            })
            .collect()
    }

    /// Returns the groups that nobody signed, ascending: no signature proves them.
    pub(super) fn unsigned(&self) -> Vec<usize> {
        let is_unsigned = |(_, planes): &Planes<'_>| planes.iter().all(|plane| is_empty(plane));
        let numbered = self.supports.iter().enumerate();
        numbered
            .filter(|(_, support)| is_unsigned(support))
            .map(|(at, _)| at)
            .collect()
    }

    /// Replaces the signatures of `bad` groups with a valid point that signs something else; returns
    /// their indices.
    pub(super) fn damage(&mut self, bad: usize) -> Vec<usize> {
        let key = InteropKey::new(u64::MAX).to_secret_key();
        let other: Arc<[u8]> = Arc::from(sign(&key, b"another message").to_bytes());
        let n = self.groups.len();
        let mut chosen: Vec<usize> = (0..bad).map(|k| (k * n / bad.max(1) + 7) % n).collect();
        for &i in &chosen {
            if let Claim::Group { evidence, .. } = &mut self.groups[i] {
                evidence.bytes = other.clone();
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }
}

fn is_empty(plane: &[u64]) -> bool {
    plane.iter().all(|word| *word == 0)
}

/// Builds the support over `len` positions given by planes, of which the top one is not empty.
fn support_of(planes: &[&[u64]], len: usize) -> Support {
    let used = planes.iter().rposition(|plane| !is_empty(plane));
    let used = &planes[..=used.unwrap_or(0)];
    let bits = used
        .iter()
        .map(|plane| Bitfield::from_words(plane.to_vec(), len));
    let bits = bits.collect::<std::result::Result<_, _>>();
    Support::from_planes(bits.expect("the planes were drawn for this committee"))
        .expect("one to four planes of one length")
}

/// Returns the combined signature of the signers of a support.
fn signature(keys: &[InteropKey], planes: &[&[u64]], message: &[u8; 32]) -> [u8; SIGNATURE_BYTES] {
    let signers = keys.iter().enumerate().map(|(p, key)| {
        let multiplicity = planes
            .iter()
            .enumerate()
            .fold(0, |m, (j, plane)| m | (plane[p / 64] >> (p % 64) & 1) << j);
        (key, multiplicity as u8)
    });
    // A support without signers has no signature, so these bytes are rejected by every verifier.
    InteropKey::weighted_sum(signers).map_or([0; SIGNATURE_BYTES], |sum| {
        sign(&sum.to_secret_key(), message).to_bytes()
    })
}
