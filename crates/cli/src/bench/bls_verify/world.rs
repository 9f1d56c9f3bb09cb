//! What is verified: keys, supports and real signatures of a topic.

use super::{Args, Topic};
use alphorn_bls::{
    CollectionItem, Exec, InteropKey, KeyItem, KeyTable, PublicKey, SIGNATURE_BYTES, interop_keys,
    sign,
};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

/// Everything that is verified, owned.
pub(super) struct World<'s> {
    pub(super) key_table: KeyTable,
    pub(super) supports: Vec<(usize, Vec<&'s [u64]>)>,
    messages: Vec<[u8; 32]>,
    signatures: Vec<[u8; SIGNATURE_BYTES]>,
    pub(super) singles: Vec<(PublicKey, [u8; 32], [u8; SIGNATURE_BYTES])>,
}

impl World<'_> {
    pub(super) fn items(&self) -> Vec<CollectionItem<'_>> {
        let item = |(i, (committee, planes)): (usize, &(usize, Vec<_>))| CollectionItem {
            committee: *committee,
            planes: &self.supports[i].1[..planes.len()],
            message: &self.messages[i],
            signature: &self.signatures[i],
        };
        self.supports.iter().enumerate().map(item).collect()
    }

    pub(super) fn singles(&self) -> Vec<KeyItem<'_>> {
        self.singles
            .iter()
            .map(|(key, message, signature)| KeyItem {
                key: *key,
                message,
                signature,
            })
            .collect()
    }
}

fn message(label: &str, i: u64) -> [u8; 32] {
    Sha256::new()
        .chain_update(label)
        .chain_update(i.to_le_bytes())
        .finalize()
        .into()
}

/// Real signatures for everything: sums by the sum of the signers' interop keys, and beside each
/// aggregate a proof of selection (one message for all) and an envelope (a message each).
pub(super) fn sign_all<'s>(
    args: &Args,
    key_table: KeyTable,
    supports: Vec<(usize, Vec<&'s [u64]>)>,
    pool: &rayon::ThreadPool,
) -> World<'s> {
    let keys = interop_keys(0..key_table.keys().len() as u64, Exec::new(Some(pool)));
    let starts: Vec<usize> = (0..key_table.committees())
        .scan(0, |next, c| {
            let start = *next;
            *next += key_table.committee(c).len();
            Some(start)
        })
        .collect();
    let messages: Vec<[u8; 32]> = (0..supports.len())
        .map(|i| message("vote", i as u64 % u64::from(args.messages)))
        .collect();
    let single = |signer: usize, message: [u8; 32]| {
        let secret = keys[signer].to_secret_key();
        (
            secret.public_key(),
            message,
            sign(&secret, &message).to_bytes(),
        )
    };
    let signed = |i: usize| {
        let (committee, planes) = &supports[i];
        let start = starts[*committee];
        let signers = (0..key_table.committee(*committee).len()).map(|p| {
            let multiplicity = planes
                .iter()
                .enumerate()
                .fold(0, |m, (j, plane)| m | (plane[p / 64] >> (p % 64) & 1) << j);
            (&keys[start + p], multiplicity as u8)
        });
        // A support without signers has no signature: the identity's bytes, which nobody accepts.
        let sum = InteropKey::weighted_sum(signers);
        let signature = sum.map_or([0; SIGNATURE_BYTES], |sum| {
            sign(&sum.to_secret_key(), &messages[i]).to_bytes()
        });
        let sender = start + i % key_table.committee(*committee).len().max(1);
        (
            signature,
            [
                single(sender, message("select", 0)),
                single(sender, message("envelope", i as u64)),
            ],
        )
    };
    let (signatures, envelopes): (Vec<_>, Vec<_>) =
        pool.install(|| (0..supports.len()).into_par_iter().map(signed).unzip());
    let singles = match args.topic {
        Topic::Vote => pool.install(|| {
            (0..keys.len())
                .into_par_iter()
                .map(|i| single(i, message("vote", i as u64 % u64::from(args.messages))))
                .collect()
        }),
        _ => envelopes.into_iter().flatten().collect(),
    };
    World {
        key_table,
        supports,
        messages,
        signatures,
        singles,
    }
}

/// Swaps signatures of some items for valid points that sign something else; their indices.
pub(super) fn damage(args: &Args, world: &mut World<'_>) -> Vec<usize> {
    let other = sign(
        &InteropKey::new(u64::MAX).to_secret_key(),
        b"another message",
    )
    .to_bytes();
    let (n, aggregates) = match args.topic {
        Topic::Vote => (world.singles.len(), false),
        _ => (world.signatures.len(), true),
    };
    let bad = args.bad.min(n);
    let chosen: Vec<usize> = (0..bad).map(|k| (k * n / bad.max(1) + 7) % n).collect();
    for &i in &chosen {
        if aggregates {
            world.signatures[i] = other;
        } else {
            world.singles[i].2 = other;
        }
    }
    let mut chosen = chosen;
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}
