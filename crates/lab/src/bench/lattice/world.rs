//! Signatures for measurements: many votes of a few keys over one message.

use alphorn_exec::Backend;
use alphorn_falcon::{Flavour, Item, OriginalKey, PublicKey, SIGNATURE_BYTES, SecretKey, Signed};
use alphorn_scheme::list;
use anyhow::ensure;
use rayon::prelude::*;

/// Different keys at most: a key takes milliseconds, and nothing that is measured depends on it.
pub(super) const KEYS_MAX: usize = 256;

/// What is signed.
pub(super) const MESSAGE: [u8; 32] = [7; 32];

/// Keys and signatures; signature `i` is by key `i` modulo their number.
pub(super) struct World {
    pub(super) flavour: Flavour,
    keys: Vec<Secret>,
    signatures: Vec<[u8; SIGNATURE_BYTES]>,
}

/// A secret key of either flavour.
enum Secret {
    Draft(SecretKey),
    Original(OriginalKey),
}

impl Secret {
    fn interop(flavour: Flavour, index: u64) -> Secret {
        match flavour {
            Flavour::FnDsa => Secret::Draft(SecretKey::interop(index)),
            Flavour::Original => Secret::Original(OriginalKey::interop(index)),
        }
    }

    fn public(&self) -> &PublicKey {
        match self {
            Secret::Draft(key) => key.public(),
            Secret::Original(key) => key.public(),
        }
    }

    fn sign(&self, number: u64) -> [u8; SIGNATURE_BYTES] {
        let mut entropy = [0; 32];
        entropy[..8].copy_from_slice(&number.to_le_bytes());
        match self {
            Secret::Draft(key) => key.sign(&MESSAGE, &entropy),
            Secret::Original(key) => key.sign(&MESSAGE, &entropy),
        }
    }
}

impl World {
    /// `count` signatures, made by all threads of the pool.
    pub(super) fn new(flavour: Flavour, count: usize, pool: &rayon::ThreadPool) -> World {
        pool.install(|| {
            let keys = 0..count.min(KEYS_MAX) as u64;
            let keys: Vec<Secret> = (keys.into_par_iter())
                .map(|i| Secret::interop(flavour, i))
                .collect();
            let signatures = (0..count).into_par_iter();
            let signatures = signatures.map(|i| keys[i % keys.len()].sign(i as u64));
            let signatures = signatures.collect();
            World {
                flavour,
                keys,
                signatures,
            }
        })
    }

    /// How many signatures there are.
    pub(super) fn len(&self) -> usize {
        self.signatures.len()
    }

    /// Makes a signature again.
    pub(super) fn sign(&self, i: usize) -> [u8; SIGNATURE_BYTES] {
        self.keys[i % self.keys.len()].sign(i as u64)
    }

    /// The keys of the first `count` signatures, from their bytes.
    pub(super) fn decode_keys(
        &self,
        count: usize,
        kernel: Backend,
    ) -> anyhow::Result<Vec<PublicKey>> {
        let bytes = (0..count).map(|i| &self.keys[i % self.keys.len()].public().bytes()[..]);
        let keys = PublicKey::from_bytes_batch(self.flavour, bytes, kernel);
        Ok(keys.into_iter().collect::<Result<_, _>>()?)
    }

    /// The signatures of these keys.
    pub(super) fn items<'a>(&'a self, keys: &'a [PublicKey]) -> Vec<Item<'a>> {
        let signatures = keys.iter().zip(&self.signatures);
        let item = |(key, signature): (&'a PublicKey, &'a [u8; SIGNATURE_BYTES])| Item {
            key,
            message: &MESSAGE,
            signature,
        };
        signatures.map(item).collect()
    }

    /// Verifies the first `count` signatures with the crate `fn-dsa`, one by one.
    pub(super) fn verify_by_fn_dsa(&self, count: usize) -> anyhow::Result<()> {
        for i in 0..count {
            let key = self.keys[i % self.keys.len()].public().bytes();
            let signature = &self.signatures[i];
            let holds = match self.flavour {
                Flavour::FnDsa => {
                    use fn_dsa::{DOMAIN_NONE, HASH_ID_RAW, VerifyingKey, VerifyingKey512};
                    VerifyingKey512::decode(key)
                        .is_some_and(|k| k.verify(signature, &DOMAIN_NONE, &HASH_ID_RAW, &MESSAGE))
                }
                Flavour::Original => {
                    use fn_dsa_original::{
                        DOMAIN_NONE, HASH_ID_ORIGINAL_FALCON, VerifyingKey, VerifyingKey512,
                    };
                    let id = &HASH_ID_ORIGINAL_FALCON;
                    VerifyingKey512::decode(key)
                        .is_some_and(|k| k.verify(signature, &DOMAIN_NONE, id, &MESSAGE))
                }
            };
            ensure!(holds, "fn-dsa refuses signature {i} of this run");
        }
        Ok(())
    }

    /// Bytes of the list of `count` signatures.
    pub(super) fn list_bytes(count: usize) -> usize {
        list::list_bytes(count, SIGNATURE_BYTES)
    }
}

/// What a proof says, from keys and salts.
pub(super) fn signed<'a>(keys: &'a [PublicKey], salts: &'a [[u8; 40]]) -> Vec<Signed<'a>> {
    let both = keys.iter().zip(salts);
    let signed = |(key, salt): (&'a PublicKey, &'a [u8; 40])| Signed {
        key,
        message: &MESSAGE,
        salt,
    };
    both.map(signed).collect()
}
