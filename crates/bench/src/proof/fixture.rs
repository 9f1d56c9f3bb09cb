//! Keys and signatures of many interop validators.

use crate::costs::permit;
use alphorn_exec::{Backend, Exec};
use alphorn_lab::error::Result;
use alphorn_scheme::MemoryWatermark;
use alphorn_types::Bitfield;
use alphorn_xmss::{Item, PublicKey, Purpose, SecretKey, Set, Signature, Signed};
use rayon::prelude::*;
use std::ops::Range;

/// The slot that all sign in.
pub(super) const SLOT: u32 = 1;

/// The signed message.
pub(super) const MESSAGE: [u8; 32] = [7; 32];

/// As many validators as the largest case has signatures.
pub(super) struct Fixture {
    pub(super) keys: Vec<PublicKey>,
    signatures: Vec<Signature>,
}

impl Fixture {
    pub(super) fn new(
        set: Set,
        validators: u32,
        kernel: Backend,
        pool: &rayon::ThreadPool,
    ) -> Result<Fixture> {
        let store = MemoryWatermark::new(validators);
        let one_thread = Exec::new(kernel, None);
        let slot = u64::from(SLOT);
        let make = |i: u32| -> anyhow::Result<(PublicKey, Signature)> {
            let key = SecretKey::interop(set, Purpose::Vote, i, slot..slot + 1, one_thread)?;
            let permit = permit(&store, slot, i, MESSAGE)?;
            Ok((*key.public_key(), key.sign(permit, one_thread)?))
        };
        let made: anyhow::Result<Vec<_>> =
            pool.install(|| (0..validators).into_par_iter().map(make).collect());
        let (keys, signatures) = made?.into_iter().unzip();
        Ok(Fixture { keys, signatures })
    }

    /// Returns some of the validators as signers.
    pub(super) fn signers(&self, members: Range<usize>) -> Bitfield {
        let mut signers = Bitfield::new(self.keys.len());
        signers.set_range(members);
        signers
    }

    /// Returns the first `count` signatures.
    pub(super) fn signed(&self, count: usize) -> Vec<Signed<'_>> {
        let signed = (0u32..).zip(&self.signatures[..count]);
        signed
            .map(|(position, signature)| Signed {
                position,
                signature,
            })
            .collect()
    }

    /// Returns the same, to be verified one by one.
    pub(super) fn items(&self, count: usize) -> Vec<Item<'_>> {
        let pairs = self.keys.iter().zip(&self.signatures[..count]);
        pairs
            .map(|(key, signature)| Item {
                key,
                index: SLOT,
                message: &MESSAGE,
                signature,
            })
            .collect()
    }
}
