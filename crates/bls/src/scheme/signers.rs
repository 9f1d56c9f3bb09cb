//! The secret keys held by a process, real or interop.

use core::ops::Range;
use std::collections::BTreeMap;

use alphorn_exec::Exec;
use alphorn_scheme::{SchemeError, Signatures};
use alphorn_types::Validator;

use crate::blst_ffi::curve::G2Affine;
use crate::ciphersuite::{SIGNATURE_DST, hash_many_to_g2, sign_hash};
use crate::interop::{InteropKey, VartimeInteropSigner, interop_keys, vartime_interop_sign_hashes};
use crate::keys::{SIGNATURE_BYTES, SecretKey, Signature};

/// Signatures of one message from which tables for it pay off: they take a millisecond or two, against some 50
/// us per signature in lanes.
pub(super) const TABLE_SIGNATURES_MIN: usize = 64;

/// The secret keys held by a process.
pub struct Signers(SignerSet);

enum SignerSet {
    /// Interop keys of a range of validators; variable-time code may use them.
    Interop { first: u32, keys: Vec<InteropKey> },
    /// Real keys, used only by constant-time code.
    Real(BTreeMap<u32, SecretKey>),
}

impl Signers {
    /// The interop keys of a range of validators.
    pub fn interop(validators: Range<u32>, exec: Exec<'_>) -> Signers {
        let keys = interop_keys(u64::from(validators.start)..u64::from(validators.end), exec);
        Signers(SignerSet::Interop {
            first: validators.start,
            keys,
        })
    }

    /// Real keys of some validators.
    pub fn real(keys: impl IntoIterator<Item = (Validator, SecretKey)>) -> Signers {
        Signers(SignerSet::Real(
            keys.into_iter()
                .map(|(validator, key)| (validator.0, key))
                .collect(),
        ))
    }

    /// Signs (validator, message) pairs.
    pub(super) fn sign(
        &self,
        items: &[(Validator, [u8; 32])],
        exec: Exec<'_>,
    ) -> Result<Vec<Signature>, SchemeError> {
        match &self.0 {
            SignerSet::Real(keys) => {
                let held: Result<Vec<&SecretKey>, SchemeError> = items
                    .iter()
                    .map(|(v, _)| keys.get(&v.0).ok_or(SchemeError::UnknownSigner(v.0)))
                    .collect();
                let held = held?;
                let messages: Vec<&[u8; 32]> = items.iter().map(|(_, message)| message).collect();
                let hashes = hash_each(&messages, exec);
                Ok(exec.map(items.len(), |i| sign_hash(held[i], &hashes[i])))
            }
            SignerSet::Interop { first, keys } => {
                let key =
                    |v: &Validator| v.0.checked_sub(*first).and_then(|i| keys.get(i as usize));
                let held: Result<Vec<&InteropKey>, SchemeError> = items
                    .iter()
                    .map(|(v, _)| key(v).ok_or(SchemeError::UnknownSigner(v.0)))
                    .collect();
                Ok(sign_interop(&held?, items, exec))
            }
        }
    }
}

/// The hash of each message. Equal messages are hashed once, all of them in the lanes of the kernel.
fn hash_each(messages: &[&[u8; 32]], exec: Exec<'_>) -> Vec<G2Affine> {
    let mut distinct = messages.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let hashes = hash_many_to_g2(&distinct, SIGNATURE_DST, exec);
    let find = |message| hashes[distinct.partition_point(|other| other < message)];
    messages.iter().map(find).collect()
}

/// Signs with interop keys; messages with many signers get their own tables.
fn sign_interop(
    keys: &[&InteropKey],
    items: &[(Validator, [u8; 32])],
    exec: Exec<'_>,
) -> Vec<Signature> {
    let mut by_message: BTreeMap<&[u8; 32], Vec<usize>> = BTreeMap::new();
    for (i, (_, message)) in items.iter().enumerate() {
        by_message.entry(message).or_default().push(i);
    }
    // Placeholders: every item is signed below, with its message's table or among the rare ones.
    let mut signatures = vec![Signature::from_point(G2Affine::INFINITY); items.len()];
    let mut rare = Vec::new();
    for (message, members) in by_message {
        if members.len() < TABLE_SIGNATURES_MIN {
            rare.extend(members);
            continue;
        }
        let held: Vec<&InteropKey> = members.iter().map(|&i| keys[i]).collect();
        let signed = VartimeInteropSigner::new(message, held.len(), exec.backend())
            .vartime_interop_sign(&held, exec);
        let signed = members.into_iter().zip(signed);
        signed.for_each(|(i, signature)| signatures[i] = signature);
    }
    let messages: Vec<&[u8; 32]> = rare.iter().map(|&i| &items[i].1).collect();
    let hashes = hash_each(&messages, exec);
    let of_keys: Vec<(&InteropKey, G2Affine)> = rare.iter().map(|&i| keys[i]).zip(hashes).collect();
    let signed = rare.iter().zip(vartime_interop_sign_hashes(&of_keys, exec));
    signed.for_each(|(&i, signature)| signatures[i] = signature);
    signatures
}

pub(super) fn encode(signatures: &[Signature], exec: Exec<'_>) -> Signatures {
    let encoded = exec.map(signatures.len(), |i| signatures[i].to_bytes());
    Signatures::new(SIGNATURE_BYTES, encoded.concat())
}
