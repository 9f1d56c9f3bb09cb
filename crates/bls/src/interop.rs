//! Interop keys: secret keys that anyone can compute, for tests, devnets and benchmarks.
//!
//! `sk_i = int_le(SHA-256(le256(i))) mod r`, the formula of the consensus clients' interop genesis. The keys
//! are not secret, so they may be used with variable-time code.

use core::borrow::Borrow;
use core::ops::Range;

use alphorn_exec::{Backend, Exec};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::blst_ffi::curve::{Affine, G2Affine};
use crate::blst_ffi::points::g1;
use crate::blst_ffi::scalar::SecretScalar;
use crate::ciphersuite::{SIGNATURE_DST, hash_to_g2};
use crate::fixed_base::{FixedBase, FixedBaseG1, FixedBaseG2};
use crate::keys::{PublicKey, SecretKey, Signature};
use crate::lanes::vartime_multiples;
use crate::sums::KernelField;

/// The secret key of an interop validator, derived from its index alone.
///
/// Variable-time signing accepts only this type, not a real [`SecretKey`].
///
/// ```compile_fail,E0277
/// # let real = alphorn_bls::SecretKey::key_gen(&[7; 32])?;
/// let signer = alphorn_bls::VartimeInteropSigner::new(b"vote", 1, alphorn_exec::Backend::Portable);
/// signer.vartime_interop_sign(&[real], alphorn_exec::Exec::serial());
/// # Ok::<(), alphorn_bls::BlsError>(())
/// ```
pub struct InteropKey(SecretScalar);

impl InteropKey {
    /// The key of validator `index`.
    pub fn new(index: u64) -> InteropKey {
        let mut le256 = [0; 32];
        le256[..8].copy_from_slice(&index.to_le_bytes());
        let digest = Zeroizing::new(<[u8; 32]>::from(Sha256::digest(le256)));
        InteropKey(
            SecretScalar::reduced_from_le_bytes(&*digest)
                .expect("no known digest is a multiple of the group order"),
        )
    }

    /// The key whose signatures equal the sums, with multiplicities, of the signatures of other interop keys:
    /// one signature instead of thousands when only the aggregate is needed. `None` if the sum is zero.
    pub fn weighted_sum<'k>(
        keys: impl IntoIterator<Item = (&'k InteropKey, u8)>,
    ) -> Option<InteropKey> {
        // Five words can hold 2^60 multiples of a scalar.
        let mut sum = [0u64; 5];
        for (key, multiplicity) in keys {
            let mut carry = 0u128;
            // A fifth word of zeros takes the carry.
            let words = key.0.as_le_bytes().chunks_exact(8).chain([&[0u8; 8][..]]);
            for (limb, word) in sum.iter_mut().zip(words) {
                let word = word
                    .iter()
                    .rev()
                    .fold(0u64, |word, byte| word << 8 | u64::from(*byte));
                carry += u128::from(word) * u128::from(multiplicity) + u128::from(*limb);
                *limb = carry as u64;
                carry >>= 64;
            }
        }
        let bytes: Vec<u8> = sum.iter().flat_map(|limb| limb.to_le_bytes()).collect();
        SecretScalar::reduced_from_le_bytes(&bytes).map(InteropKey)
    }

    /// Converts to a real secret key, for constant-time signing.
    pub fn to_secret_key(&self) -> SecretKey {
        let bytes = Zeroizing::new(self.0.to_be_bytes());
        SecretKey::from_bytes(&*bytes).expect("the scalar was reduced and is not zero")
    }
}

/// Keys per block of the fixed-base multiplication: enough to share its inversions.
const BLOCK_KEYS: usize = 2048;

/// The interop keys of a range of validators.
pub fn interop_keys(indices: Range<u64>, exec: Exec<'_>) -> Vec<InteropKey> {
    let count = usize::try_from(indices.end.saturating_sub(indices.start)).unwrap_or(usize::MAX);
    exec.map(count, |i| InteropKey::new(indices.start + i as u64))
}

/// The public keys of interop keys, computed with fixed-base tables; variable time.
pub fn vartime_interop_public_keys(keys: &[InteropKey], exec: Exec<'_>) -> Vec<PublicKey> {
    let table = FixedBaseG1::new(exec.backend(), &g1::generator(), keys.len());
    let points = multiply_all(&table, keys, exec);
    let key = |point| PublicKey::from_point(point).expect("no multiple of g1 below r is infinite");
    points.into_iter().map(key).collect()
}

/// Signs one message with many interop keys, by fixed-base tables over the message's hash.
pub struct VartimeInteropSigner(FixedBaseG2);

impl VartimeInteropSigner {
    /// Hashes the message and builds tables sized for this many signatures.
    pub fn new(message: &[u8], signatures: usize, backend: Backend) -> VartimeInteropSigner {
        VartimeInteropSigner(FixedBaseG2::new(
            backend,
            &hash_to_g2(message, SIGNATURE_DST),
            signatures,
        ))
    }

    /// Returns one signature per key, equal to [`crate::sign`] with the same key.
    ///
    /// **Variable time**: secret digits index tables in memory. That is why only interop keys, which are
    /// public, are accepted.
    pub fn vartime_interop_sign<K: Borrow<InteropKey> + Sync>(
        &self,
        keys: &[K],
        exec: Exec<'_>,
    ) -> Vec<Signature> {
        multiply_all(&self.0, keys, exec)
            .into_iter()
            .map(Signature::from_point)
            .collect()
    }
}

/// Returns one signature per key over the hash of its own message, equal to [`crate::sign`] with the same key.
/// Variable time, in the lanes of the kernel.
pub(crate) fn vartime_interop_sign_hashes(
    signed: &[(&InteropKey, G2Affine)],
    exec: Exec<'_>,
) -> Vec<Signature> {
    let items: Vec<(G2Affine, [u8; 32])> = signed
        .iter()
        .map(|(key, hash)| (*hash, *key.0.as_le_bytes()))
        .collect();
    vartime_multiples(&items, exec)
        .into_iter()
        .map(Signature::from_point)
        .collect()
}

fn multiply_all<F: KernelField, K: Borrow<InteropKey> + Sync>(
    table: &FixedBase<F>,
    keys: &[K],
    exec: Exec<'_>,
) -> Vec<Affine<F>> {
    let chunks: Vec<&[K]> = keys.chunks(BLOCK_KEYS).collect();
    let blocks = exec.map(chunks.len(), |c| {
        let scalar = |key: &K| *key.borrow().0.as_le_bytes();
        let scalars: Vec<[u8; 32]> = chunks[c].iter().map(scalar).collect();
        let mut points = Vec::with_capacity(scalars.len());
        table.vartime_mul_many(&scalars, &mut points);
        points
    });
    blocks.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify;

    #[test]
    fn known_interop_keys() {
        let secret = |i| hex::encode(InteropKey::new(i).to_secret_key().to_bytes());
        assert_eq!(
            secret(0),
            "25295f0d1d592a90b333e26e85149708208e9f8e8bc18f6c77bd62f8ad7a6866"
        );
        assert_eq!(
            secret(1),
            "51d0b65185db6989ab0b560d6deed19c7ead0e24b9b6372cbecb1f26bdfad000"
        );
        let public = |i| hex::encode(InteropKey::new(i).to_secret_key().public_key().to_bytes());
        let known = [
            "a99a76ed7796f7be22d5b7e85deeb7c5677e88e511e0b337618f8c4eb61349b4bf2d153f649f7b53359fe8b94a38e44c",
            "b89bebc699769726a318c8e9971bd3171297c61aea4a6578a7a4f94b547dcba5bac16a89108b6b6a1fe3695d1a874a0b",
            "a3a32b0f8b4ddb83f1a0a853d81dd725dfe577d4f4c3db8ece52ce2b026eca84815c1a7e8e92a4de3d755733bf7e4a9b",
        ];
        for (i, known) in known.iter().enumerate() {
            assert_eq!(public(i as u64), *known);
        }
    }

    #[test]
    fn a_weighted_sum_signs_like_the_sum_of_signatures() {
        let keys = interop_keys(0..40, Exec::serial());
        let multiplicity = |i: usize| (i % 16) as u8;
        let weighted = keys
            .iter()
            .enumerate()
            .map(|(i, key)| (key, multiplicity(i)));
        let sum = InteropKey::weighted_sum(weighted).unwrap().to_secret_key();
        let signatures: Vec<_> = keys
            .iter()
            .enumerate()
            .flat_map(|(i, key)| vec![crate::sign(&key.to_secret_key(), b"vote"); i % 16])
            .collect();
        assert_eq!(
            crate::sign(&sum, b"vote"),
            crate::aggregate(&signatures).unwrap()
        );
        assert!(InteropKey::weighted_sum([]).is_none());
    }

    #[test]
    fn bulk_equals_one_by_one() {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .unwrap();
        let keys = interop_keys(5..3005, Exec::new(Backend::Portable, Some(&pool)));
        let public = vartime_interop_public_keys(&keys, Exec::new(Backend::Portable, Some(&pool)));
        let signer = VartimeInteropSigner::new(b"message", 3000, Backend::Portable);
        let signatures = signer.vartime_interop_sign(&keys, Exec::serial());
        assert_eq!((public.len(), signatures.len()), (3000, 3000));
        for i in (0..3000).step_by(97) {
            let secret = keys[i].to_secret_key();
            assert_eq!(public[i], secret.public_key());
            assert_eq!(signatures[i], crate::sign(&secret, b"message"));
        }
        assert!(verify(&public[1], b"message", &signatures[1]));
    }
}
