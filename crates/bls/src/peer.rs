//! How other clients verify collections today, through blst's own interface: the baseline of the benchmarks.

use alphorn_exec::Exec;
use alphorn_scheme::Claim;
use blst::BLST_ERROR;
use blst::min_pk;
use std::collections::BTreeMap;

use crate::blst_ffi::curve::{Affine, G1Affine, G2Affine};
use crate::blst_ffi::pairing::{hash_to_g2, pairing_product};
use crate::blst_ffi::points::{g1, g2, to_raw_g1};
use crate::ciphersuite::SIGNATURE_DST;
use crate::committee::CollectionItem;
use crate::scheme::EpochKeys;
use crate::sums::KeyTable;

/// How another client sums the keys of one plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMethod {
    /// One mixed addition per signer, like blst's `AggregatePublicKey`.
    Naive,
    /// blst's bulk addition over the signers.
    Bulk,
    /// blst's bulk addition over the signers or the non-signers, whichever are fewer.
    Subtract,
}

impl PeerMethod {
    /// All methods.
    pub const ALL: [PeerMethod; 3] = [PeerMethod::Naive, PeerMethod::Bulk, PeerMethod::Subtract];

    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            PeerMethod::Naive => "naive_each",
            PeerMethod::Bulk => "bulk_each",
            PeerMethod::Subtract => "subtract_each",
        }
    }
}

/// Adds keys to one running sum with blst's mixed additions, as its `AggregatePublicKey` does.
pub fn sum_naive(keys: &[G1Affine]) -> G1Affine {
    g1::sum_naive(keys)
}

/// blst's subgroup check of one key.
pub fn in_g1(key: &G1Affine) -> bool {
    g1::in_group(key)
}

/// blst's subgroup check of one signature.
pub fn in_g2(signature: &G2Affine) -> bool {
    g2::in_group(signature)
}

/// Verifies each collection on its own with blst: decode, sum the signers' keys, one pairing check.
///
/// The planes must fit their committees, as [`crate::verify_collections`] checks.
pub fn verify_each(
    table: &KeyTable,
    items: &[CollectionItem<'_>],
    method: PeerMethod,
    exec: Exec<'_>,
) -> Vec<bool> {
    exec.map(items.len(), |i| {
        verify_one(&peer_key(table, &items[i], method), &items[i])
    })
}

/// Verifies all collections together, making the best use of blst: keys by [`PeerMethod::Subtract`], then keys
/// and signatures of each message weighted by buckets (Pippenger), and one product of pairings with one factor
/// per message. `weights` holds 64 random bits per collection, which must be unknown to the maker of the
/// collections.
///
/// # Panics
///
/// Unless there is a weight for each item.
pub fn verify_batch(
    table: &KeyTable,
    items: &[CollectionItem<'_>],
    weights: &[u64],
    exec: Exec<'_>,
) -> bool {
    assert_eq!(items.len(), weights.len(), "one weight for each item");
    let points: Option<Vec<(G1Affine, G2Affine)>> = exec
        .map(items.len(), |i| {
            let bytes = <&[u8; g2::COMPRESSED_BYTES]>::try_from(items[i].signature).ok()?;
            let signature = g2::decompress(bytes).ok().filter(g2::in_group)?;
            let key = peer_key(table, &items[i], PeerMethod::Subtract);
            (!key.is_infinity() && !signature.is_infinity()).then_some((key, signature))
        })
        .into_iter()
        .collect();
    let Some(points) = points else { return false };
    let mut messages: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for (i, item) in items.iter().enumerate() {
        messages.entry(item.message).or_default().push(i);
    }
    // For each message, a sum of keys and a part of the sum of signatures.
    let groups: Vec<(&[u8], Vec<usize>)> = messages.into_iter().collect();
    let pieces: Vec<(&[u8], &[usize])> = groups
        .iter()
        .flat_map(|(message, of)| {
            let size = of.len().div_ceil(exec.threads()).max(1);
            of.chunks(size).map(|piece| (*message, piece))
        })
        .collect();
    let sums = exec.map(pieces.len(), |i| {
        let (message, of) = pieces[i];
        let scalars: Vec<u8> = of.iter().flat_map(|&i| weights[i].to_le_bytes()).collect();
        let keys: Vec<G1Affine> = of.iter().map(|&i| points[i].0).collect();
        let signatures: Vec<G2Affine> = of.iter().map(|&i| points[i].1).collect();
        let key = g1::vartime_msm(&keys, &scalars, 64);
        let signature = g2::vartime_msm(&signatures, &scalars, 64);
        ((key, hash_to_g2(message, SIGNATURE_DST)), signature)
    });
    let (mut pairs, signatures): (Vec<_>, Vec<_>) = sums.into_iter().unzip();
    pairs.push((g1::generator().neg(), g2::sum_naive(&signatures)));
    pairing_product(&pairs).is_one()
}

/// The aggregate key of one collection, computed by `method`.
pub fn peer_key(table: &KeyTable, item: &CollectionItem<'_>, method: PeerMethod) -> G1Affine {
    let keys = table.committee(item.committee);
    let total = table.total(item.committee);
    // Horner's rule over the planes: twice the sum so far, plus the next lower plane.
    item.planes
        .iter()
        .rev()
        .fold(Affine::INFINITY, |sum, plane| {
            let part = plane_sum(keys, total, plane, method);
            g1::sum_naive([&sum, &sum, &part])
        })
}

fn plane_sum(keys: &[G1Affine], total: &G1Affine, plane: &[u64], method: PeerMethod) -> G1Affine {
    let chosen = |bit: u64| -> Vec<&G1Affine> {
        let set = |i: &usize| plane[i / 64] >> (i % 64) & 1 == bit;
        (0..keys.len()).filter(set).map(|i| &keys[i]).collect()
    };
    let ones: usize = plane.iter().map(|word| word.count_ones() as usize).sum();
    match method {
        PeerMethod::Naive => g1::sum_naive(chosen(1)),
        PeerMethod::Subtract if 2 * ones > keys.len() => {
            g1::sum_naive([total, &g1::sum_bulk(&chosen(0)).neg()])
        }
        PeerMethod::Bulk | PeerMethod::Subtract => g1::sum_bulk(&chosen(1)),
    }
}

fn verify_one(key: &G1Affine, item: &CollectionItem<'_>) -> bool {
    holds_under(key, item.message, item.signature)
}

/// blst's verification of one signature, decoding included.
fn holds_under(key: &G1Affine, message: &[u8], signature: &[u8]) -> bool {
    if key.is_infinity() || signature.len() != crate::SIGNATURE_BYTES {
        return false;
    }
    let Ok(signature) = min_pk::Signature::from_bytes(signature) else {
        return false;
    };
    let key = min_pk::PublicKey::from(to_raw_g1(key));
    signature.verify(true, message, SIGNATURE_DST, &[], &key, false) == BLST_ERROR::BLST_SUCCESS
}

/// Decides a claim with blst alone, one key and one pairing check at a time: a second opinion that shares
/// neither sums nor batches with [`crate::Bls`].
pub fn claim_holds(keys: &EpochKeys, claim: &Claim) -> bool {
    let registry = keys.registry().keys();
    let key = |validator: u32| registry.get(validator as usize).map(|key| *key.point());
    match claim {
        Claim::One {
            validator,
            message,
            signature,
            ..
        }
        | Claim::Selected {
            validator,
            message,
            proof: signature,
        } => key(validator.0).is_some_and(|key| holds_under(&key, message, signature)),
        Claim::Group {
            statement,
            evidence,
        } => {
            let members = keys.assignment().members();
            let names_a_place = keys.place(statement).is_some();
            if !names_a_place || evidence.support.len() != statement.len as usize {
                return false;
            }
            let mut signers = Vec::new();
            for (position, multiplicity) in evidence.support.iter() {
                let member = members.get(statement.first as usize + position).copied();
                let Some(key) = member.and_then(key) else {
                    return false;
                };
                signers.extend(std::iter::repeat_n(key, usize::from(multiplicity)));
            }
            holds_under(
                &g1::sum_naive(&signers),
                &statement.message,
                &evidence.bytes,
            )
        }
    }
}
