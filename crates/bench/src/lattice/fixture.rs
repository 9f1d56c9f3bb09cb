//! Signatures for measurements: many votes by a few keys.

use crate::costs::permit;
use alphorn_exec::Exec;
use alphorn_falcon::slot::{SIGNED_BYTES, as_original, signed_bytes};
use alphorn_falcon::{DEGREE, Flavour, Item, KeyForm, PublicKey, SALT_BYTES, Signed, SigningKey};
use alphorn_scheme::{MemoryWatermark, Reservation, Role, list};
use anyhow::ensure;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of distinct keys: a key takes milliseconds to make, and no measurement depends on it.
pub(super) const KEYS_MAX: usize = 256;

/// The signed message.
const MESSAGE: [u8; 32] = [7; 32];

/// Keys and signatures; signature `i` is by key `i` modulo the number of keys. Each has its own slot,
/// since some flavours sign once per slot; the others ignore it.
pub(super) struct Fixture<const N: usize> {
    pub(super) flavour: Flavour,
    keys: Vec<SigningKey<N>>,
    store: MemoryWatermark,
    /// The next free slot.
    next: AtomicU64,
    signed: Vec<[u8; SIGNED_BYTES]>,
    signatures: Vec<Vec<u8>>,
}

/// Signs with a permit. In flavours that may sign a message repeatedly, the slot serves as entropy.
fn sign<const N: usize>(key: &SigningKey<N>, permit: Reservation) -> anyhow::Result<Vec<u8>> {
    let mut entropy = [0; 32];
    entropy[..8].copy_from_slice(&permit.slot().0.to_le_bytes());
    Ok(key.sign(permit, &entropy)?)
}

impl<const N: usize> Fixture<N> {
    /// Makes `count` signatures, using all threads of the pool.
    pub(super) fn new(
        flavour: Flavour,
        count: usize,
        pool: &rayon::ThreadPool,
    ) -> anyhow::Result<Self> {
        let keys = 0..count.min(KEYS_MAX) as u64;
        let keys = keys.into_par_iter();
        let keys = keys.map(|i| SigningKey::interop(flavour, i));
        let keys: Vec<SigningKey<N>> = pool.install(|| keys.collect());
        let mut fixture = Self {
            flavour,
            store: MemoryWatermark::new(keys.len() as u32),
            keys,
            next: AtomicU64::new(0),
            signed: Vec::new(),
            signatures: Vec::new(),
        };
        let permits: Vec<Reservation> = (0..count)
            .map(|i| fixture.permit(i))
            .collect::<anyhow::Result<_>>()?;
        let signed = |permit: &Reservation| signed_bytes(permit.slot(), Role::Vote, &MESSAGE);
        fixture.signed = permits.iter().map(signed).collect();
        let keys = &fixture.keys;
        let numbered = permits.into_par_iter().enumerate();
        let signed = numbered.map(|(i, permit)| sign(&keys[i % keys.len()], permit));
        fixture.signatures = pool.install(|| signed.collect::<anyhow::Result<_>>())?;
        Ok(fixture)
    }

    /// Returns a permit for the key of signature `i`, in the next slot.
    fn permit(&self, i: usize) -> anyhow::Result<Reservation> {
        let slot = self.next.fetch_add(1, Ordering::Relaxed);
        permit(&self.store, slot, (i % self.keys.len()) as u32, MESSAGE)
    }

    /// Returns the number of signatures.
    pub(super) fn len(&self) -> usize {
        self.signatures.len()
    }

    /// Signs with the key of signature `i` in a new slot.
    pub(super) fn sign(&self, i: usize) -> anyhow::Result<Vec<u8>> {
        sign(&self.keys[i % self.keys.len()], self.permit(i)?)
    }

    /// Decodes the keys of the first `count` signatures into the form that a proof needs.
    pub(super) fn decode_keys(
        &self,
        count: usize,
        exec: Exec<'_>,
    ) -> anyhow::Result<Vec<PublicKey<N>>> {
        let key = |i: usize| self.keys[i % self.keys.len()].public().bytes();
        let bytes: Vec<&[u8]> = (0..count).map(key).collect();
        let keys = PublicKey::from_bytes_batch(self.flavour, &bytes, KeyForm::Coefficients, exec);
        Ok(keys.into_iter().collect::<Result<_, _>>()?)
    }

    /// Returns the message of signature `i`.
    fn message(&self, i: usize) -> &[u8] {
        self.flavour.message_of(&self.signed[i])
    }

    /// Returns the signatures of these keys.
    pub(super) fn items<'a>(&'a self, keys: &'a [PublicKey<N>]) -> Vec<Item<'a, N>> {
        let item = |(i, key)| Item {
            key,
            message: self.message(i),
            signature: &self.signatures[i],
        };
        keys.iter().enumerate().map(item).collect()
    }

    /// Returns the statement of a proof, from keys and the salts that are sent.
    pub(super) fn signed<'a>(
        &'a self,
        keys: &'a [PublicKey<N>],
        salts: &'a [[u8; SALT_BYTES]],
    ) -> Vec<Signed<'a, N>> {
        let signed = |(i, key)| Signed {
            key,
            message: self.message(i),
            salt: salts.get(i),
        };
        keys.iter().enumerate().map(signed).collect()
    }

    /// Serialises the first `count` signatures in sequence: key, signature and message of each, every
    /// one prefixed with its length as a little-endian u32.
    pub(super) fn records(&self, count: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for i in 0..count {
            let key = self.keys[i % self.keys.len()].public();
            for part in [key.bytes(), &self.signatures[i], self.message(i)] {
                out.extend((part.len() as u32).to_le_bytes());
                out.extend(part);
            }
        }
        out
    }

    /// Verifies the first `count` signatures with the crate `fn-dsa`, one by one.
    pub(super) fn verify_by_fn_dsa(&self, count: usize) -> anyhow::Result<()> {
        for i in 0..count {
            let key = self.keys[i % self.keys.len()].public();
            let (message, signature) = (self.message(i), &self.signatures[i][..]);
            let holds = match self.flavour {
                Flavour::FnDsa => draft_holds(key, message, signature),
                Flavour::Original => original_holds(key, message, signature),
                Flavour::Slot => as_original(key, message, signature)
                    .is_some_and(|(signature, message)| original_holds(key, &message, &signature)),
            };
            ensure!(holds, "fn-dsa refuses signature {i} of this run");
        }
        Ok(())
    }

    /// Returns the bytes of the list of `count` signatures.
    pub(super) fn list_bytes(&self, count: usize) -> usize {
        list::list_bytes(count, self.flavour.signature_bytes_of(N))
    }
}

/// Whether the crate `fn-dsa` accepts a signature of the draft, with its verifier for the degree.
fn draft_holds<const N: usize>(key: &PublicKey<N>, message: &[u8], signature: &[u8]) -> bool {
    use fn_dsa::{DOMAIN_NONE, HASH_ID_RAW, VerifyingKey, VerifyingKey512, VerifyingKey1024};
    fn holds<V: VerifyingKey>(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
        V::decode(key).is_some_and(|k| k.verify(signature, &DOMAIN_NONE, &HASH_ID_RAW, message))
    }
    match N {
        DEGREE => holds::<VerifyingKey512>(key.bytes(), message, signature),
        _ => holds::<VerifyingKey1024>(key.bytes(), message, signature),
    }
}

/// Whether it accepts a signature of original Falcon.
fn original_holds<const N: usize>(key: &PublicKey<N>, message: &[u8], signature: &[u8]) -> bool {
    use fn_dsa_original::{
        DOMAIN_NONE, HASH_ID_ORIGINAL_FALCON, VerifyingKey, VerifyingKey512, VerifyingKey1024,
    };
    fn holds<V: VerifyingKey>(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let id = &HASH_ID_ORIGINAL_FALCON;
        V::decode(key).is_some_and(|k| k.verify(signature, &DOMAIN_NONE, id, message))
    }
    match N {
        DEGREE => holds::<VerifyingKey512>(key.bytes(), message, signature),
        _ => holds::<VerifyingKey1024>(key.bytes(), message, signature),
    }
}
