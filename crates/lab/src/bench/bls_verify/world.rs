//! What is verified: keys, supports and real signatures of a topic.

use crate::error::Result;
use crate::keycache;
use crate::progress::Bars;
use alphorn_bls::{
    Bls, CollectionItem, EpochKeys, InteropKey, KeyTable, SIGNATURE_BYTES, Workspace, interop_keys,
    sign,
};
use alphorn_exec::{Backend, Exec};
use alphorn_scheme::{Claim, Ctx, Evidence, Layer, Role, Scheme, Statement};
use alphorn_types::{Assignment, Bitfield, Epoch, Layout, Slot, Support, Validator};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The slot of everything.
const SLOT: Slot = Slot(1);

/// Everything that is verified, as a node's verify job has it.
pub(super) struct World<'s> {
    pub(super) keys: &'s EpochKeys,
    supports: Vec<Planes<'s>>,
    /// The claim that each support signed.
    pub(super) groups: Vec<Claim>,
    /// Single signatures: what stands beside the groups, or votes.
    pub(super) singles: Vec<Claim>,
}

/// A collection: its committee, the planes of its support.
type Planes<'s> = (usize, Vec<&'s [u64]>);

/// The keys of an epoch whose validators are the interop keys in their order.
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

impl World<'_> {
    /// The table of the groups.
    pub(super) fn table(&self) -> &KeyTable {
        self.keys.table()
    }

    /// The groups, as other verifiers take them.
    pub(super) fn items(&self) -> Vec<CollectionItem<'_>> {
        let supports = self.supports.iter().zip(&self.groups);
        supports
            .map(|((committee, planes), claim)| CollectionItem {
                committee: *committee,
                planes,
                message: claim.message(),
                signature: signature_of(claim),
            })
            .collect()
    }
}

/// The bytes that are to prove a claim.
pub(super) fn signature_of(claim: &Claim) -> &[u8] {
    match claim {
        Claim::One { signature, .. } => signature,
        Claim::Selected { proof, .. } => proof,
        Claim::Group { evidence, .. } => &evidence.bytes,
    }
}

fn message(label: &str, i: u64) -> [u8; 32] {
    Sha256::new()
        .chain_update(label)
        .chain_update(i.to_le_bytes())
        .finalize()
        .into()
}

/// The claim that a validator signed.
fn one(key: &InteropKey, validator: usize, role: Role, message: [u8; 32]) -> Claim {
    Claim::One {
        validator: Validator(validator as u32),
        role,
        slot: SLOT,
        message,
        signature: Arc::from(sign(&key.to_secret_key(), &message).to_bytes()),
    }
}

/// The claim that a validator was selected.
fn selected(key: &InteropKey, validator: usize) -> Claim {
    let message = message("select", 0);
    Claim::Selected {
        validator: Validator(validator as u32),
        message,
        proof: Arc::from(sign(&key.to_secret_key(), &message).to_bytes()),
    }
}

impl<'s> World<'s> {
    /// Supports with real signatures, made by the sums of the signers' interop keys; beside each a proof
    /// of selection (one message for all) and an envelope (a message each).
    pub(super) fn of_supports(
        keys: &'s EpochKeys,
        layer: Layer,
        supports: Vec<Planes<'s>>,
        messages: u64,
        pool: &rayon::ThreadPool,
    ) -> Self {
        let layout = keys.assignment().layout();
        let interop = interop_keys(
            0..u64::from(layout.validators()),
            Exec::new(Backend::Portable, Some(pool)),
        );
        let signed = |i: usize| {
            let (committee, planes) = &supports[i];
            let range = layout.committee_range(*committee as u16);
            let message = message("vote", i as u64 % messages);
            let members = &interop[range.start as usize..range.end as usize];
            let group = Claim::Group {
                statement: Statement {
                    layer,
                    first: range.start,
                    len: range.end - range.start,
                    slot: SLOT,
                    message,
                },
                evidence: Evidence {
                    support: Arc::new(support_of(planes, members.len())),
                    bytes: Arc::from(signature(members, planes, &message)),
                },
            };
            let sender = range.start as usize + i % members.len().max(1);
            let envelope = self::message("envelope", i as u64);
            let key = &interop[sender];
            let beside = [
                selected(key, sender),
                one(key, sender, Role::Collection, envelope),
            ];
            (group, beside)
        };
        let (groups, beside): (Vec<_>, Vec<_>) =
            pool.install(|| (0..supports.len()).into_par_iter().map(signed).unzip());
        World {
            keys,
            supports,
            groups,
            singles: beside.into_iter().flatten().collect(),
        }
    }

    /// One vote of every key.
    pub(super) fn of_votes(keys: &'s EpochKeys, messages: u64, pool: &rayon::ThreadPool) -> Self {
        let count = u64::from(keys.assignment().layout().validators());
        let interop = interop_keys(0..count, Exec::new(Backend::Portable, Some(pool)));
        let vote = |i: usize| {
            one(
                &interop[i],
                i,
                Role::Vote,
                message("vote", i as u64 % messages),
            )
        };
        World {
            keys,
            supports: Vec::new(),
            groups: Vec::new(),
            singles: pool.install(|| (0..interop.len()).into_par_iter().map(vote).collect()),
        }
    }

    /// The groups that nobody signed, ascending: no signature proves them.
    pub(super) fn unsigned(&self) -> Vec<usize> {
        let is_unsigned = |claim: &Claim| match claim {
            Claim::Group { evidence, .. } => !evidence.support.signers().any(),
            Claim::One { .. } | Claim::Selected { .. } => false,
        };
        let groups = self.groups.iter().enumerate();
        groups
            .filter(|(_, claim)| is_unsigned(claim))
            .map(|(at, _)| at)
            .collect()
    }

    /// What is damaged, and first of all verified: the groups, or votes where there are none.
    pub(super) fn inner(&self) -> &[Claim] {
        match self.groups.is_empty() {
            true => &self.singles,
            false => &self.groups,
        }
    }

    /// Swaps the signatures of `bad` inner claims for a valid point that signs something else; their
    /// indices.
    pub(super) fn damage(&mut self, bad: usize) -> Vec<usize> {
        let key = InteropKey::new(u64::MAX).to_secret_key();
        let other: Arc<[u8]> = Arc::from(sign(&key, b"another message").to_bytes());
        let claims = match self.groups.is_empty() {
            true => &mut self.singles,
            false => &mut self.groups,
        };
        let n = claims.len();
        let bad = bad.min(n);
        let mut chosen: Vec<usize> = (0..bad).map(|k| (k * n / bad.max(1) + 7) % n).collect();
        for &i in &chosen {
            match &mut claims[i] {
                Claim::One { signature, .. } => *signature = other.clone(),
                Claim::Selected { proof, .. } => *proof = other.clone(),
                Claim::Group { evidence, .. } => evidence.bytes = other.clone(),
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }
}

/// The support over `len` positions that planes say, which has no empty one above.
fn support_of(planes: &[&[u64]], len: usize) -> Support {
    let used = planes
        .iter()
        .rposition(|plane| plane.iter().any(|word| *word != 0));
    let used = &planes[..=used.unwrap_or(0)];
    let bits = used
        .iter()
        .map(|plane| Bitfield::from_words(plane.to_vec(), len));
    let bits = bits.collect::<std::result::Result<_, _>>();
    Support::from_planes(bits.expect("the planes were drawn for this committee"))
        .expect("one to four planes of one length")
}

/// What the signers of a support make together.
fn signature(keys: &[InteropKey], planes: &[&[u64]], message: &[u8; 32]) -> [u8; SIGNATURE_BYTES] {
    let signers = keys.iter().enumerate().map(|(p, key)| {
        let multiplicity = planes
            .iter()
            .enumerate()
            .fold(0, |m, (j, plane)| m | (plane[p / 64] >> (p % 64) & 1) << j);
        (key, multiplicity as u8)
    });
    // A support without signers has no signature: bytes that nobody accepts.
    InteropKey::weighted_sum(signers).map_or([0; SIGNATURE_BYTES], |sum| {
        sign(&sum.to_secret_key(), message).to_bytes()
    })
}
