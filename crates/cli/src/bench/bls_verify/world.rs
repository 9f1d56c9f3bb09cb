//! What is verified: keys, supports and real signatures of a topic.

use alphorn_bls::{
    CollectionItem, Exec, InteropKey, KeyItem, KeyTable, PublicKey, SIGNATURE_BYTES, interop_keys,
    sign,
};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

/// Everything that is verified, owned.
pub(in crate::bench) struct World<'s> {
    pub(super) key_table: &'s KeyTable,
    pub(super) supports: Vec<(usize, Vec<&'s [u64]>)>,
    messages: Vec<[u8; 32]>,
    signatures: Vec<[u8; SIGNATURE_BYTES]>,
    pub(super) singles: Vec<Single>,
}

/// A key, a message, a signature.
type Single = (PublicKey, [u8; 32], [u8; SIGNATURE_BYTES]);

/// A collection: its committee, the planes of its support.
type Planes<'s> = (usize, Vec<&'s [u64]>);

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

    /// The single signatures.
    pub(in crate::bench) fn singles(&self) -> Vec<KeyItem<'_>> {
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

fn single(key: &InteropKey, message: [u8; 32]) -> Single {
    let secret = key.to_secret_key();
    let signature = sign(&secret, &message).to_bytes();
    (secret.public_key(), message, signature)
}

impl<'s> World<'s> {
    /// Collections with real signatures, made by the sums of the signers' interop keys; beside each
    /// a proof of selection (one message for all) and an envelope (a message each).
    pub(in crate::bench) fn of_collections(
        key_table: &'s KeyTable,
        supports: Vec<Planes<'s>>,
        messages: u64,
        pool: &rayon::ThreadPool,
    ) -> Self {
        let keys = interop_keys(0..key_table.keys().len() as u64, Exec::new(Some(pool)));
        let starts: Vec<usize> = (0..key_table.committees())
            .scan(0, |next, c| {
                let start = *next;
                *next += key_table.committee(c).len();
                Some(start)
            })
            .collect();
        let messages: Vec<[u8; 32]> = (0..supports.len())
            .map(|i| message("vote", i as u64 % messages))
            .collect();
        let signed = |i: usize| {
            let (committee, planes) = &supports[i];
            let (start, len) = (starts[*committee], key_table.committee(*committee).len());
            let sender = &keys[start + i % len.max(1)];
            (
                signature(&keys[start..start + len], planes, &messages[i]),
                [
                    single(sender, message("select", 0)),
                    single(sender, message("envelope", i as u64)),
                ],
            )
        };
        let (signatures, beside): (Vec<_>, Vec<_>) =
            pool.install(|| (0..supports.len()).into_par_iter().map(signed).unzip());
        World {
            key_table,
            supports,
            messages,
            signatures,
            singles: beside.into_iter().flatten().collect(),
        }
    }

    /// One vote of every key.
    pub(in crate::bench) fn of_votes(
        key_table: &'s KeyTable,
        messages: u64,
        pool: &rayon::ThreadPool,
    ) -> Self {
        let keys = interop_keys(0..key_table.keys().len() as u64, Exec::new(Some(pool)));
        let vote = |i: usize| single(&keys[i], message("vote", i as u64 % messages));
        World {
            key_table,
            supports: Vec::new(),
            messages: Vec::new(),
            signatures: Vec::new(),
            singles: pool.install(|| (0..keys.len()).into_par_iter().map(vote).collect()),
        }
    }

    /// Swaps the signatures of `bad` collections (of votes where there is none) for a valid point
    /// that signs something else; their indices.
    pub(in crate::bench) fn damage(&mut self, bad: usize) -> Vec<usize> {
        let other = sign(
            &InteropKey::new(u64::MAX).to_secret_key(),
            b"another message",
        )
        .to_bytes();
        let votes = self.signatures.is_empty();
        let n = if votes {
            self.singles.len()
        } else {
            self.signatures.len()
        };
        let bad = bad.min(n);
        let mut chosen: Vec<usize> = (0..bad).map(|k| (k * n / bad.max(1) + 7) % n).collect();
        for &i in &chosen {
            if votes {
                self.singles[i].2 = other;
            } else {
                self.signatures[i] = other;
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }
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
