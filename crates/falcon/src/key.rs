//! Secret keys, and public keys ready for products.

use std::fmt;

use alphorn_exec::{Backend, Exec};
use alphorn_labrador::{Dispatch, Pass, Vectors};
use fn_dsa::{
    CryptoRng, DOMAIN_NONE, FN_DSA_LOGN_512, HASH_ID_RAW, KeyPairGenerator, KeyPairGenerator512,
    RngCore, RngError, SigningKey, SigningKey512, sign_key_size,
};
use sha2::{Digest, Sha256};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake256, Shake256Reader};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::basis::signs;
use crate::codec::{DecodeError, decode_key};
use crate::hash::digests;
use crate::ring::{LANES, Polys, reduced};
use crate::{DEGREE, Flavour, PUBLIC_KEY_BYTES, SIGNATURE_BYTES};

/// Bytes of an encoded secret key.
pub const SECRET_KEY_BYTES: usize = sign_key_size(FN_DSA_LOGN_512);

/// Why bytes are no secret key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the bytes are no secret key of FN-DSA-512")]
pub struct KeyError;

/// A public key: its bytes, `h` as values and as coefficients, and its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    flavour: Flavour,
    parts: Box<Parts>,
}

/// What a key has, 3 kB: decoded where it stays.
#[derive(Clone, PartialEq, Eq)]
struct Parts {
    bytes: [u8; PUBLIC_KEY_BYTES],
    values: [i16; DEGREE],
    coefficients: [i16; DEGREE],
    digest: [u8; 64],
}

impl PublicKey {
    /// Decodes a key. `h` need not be invertible: neither verification nor the aggregate's
    /// argument divides by it.
    ///
    /// # Errors
    /// If the bytes are no key of the flavour.
    pub fn from_bytes(flavour: Flavour, bytes: &[u8]) -> Result<PublicKey, DecodeError> {
        let mut keys = decode_batch(flavour, &[bytes], Backend::Portable);
        keys.remove(0)
    }

    /// Decodes many keys, as [`PublicKey::from_bytes`] each of them, [`LANES`] at a time on kernel and
    /// threads of `exec`.
    #[must_use]
    pub fn from_bytes_batch(
        flavour: Flavour,
        keys: &[&[u8]],
        exec: Exec<'_>,
    ) -> Vec<Result<PublicKey, DecodeError>> {
        let parts = exec.map(keys.len().div_ceil(LANES), |part| {
            let rest = &keys[part * LANES..];
            decode_batch(flavour, &rest[..rest.len().min(LANES)], exec.backend())
        });
        parts.into_iter().flatten().collect()
    }

    /// The flavour of the key.
    #[must_use]
    pub(crate) fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// The encoded key.
    #[must_use]
    pub fn bytes(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        &self.parts.bytes
    }

    /// The values of `h` at the roots of `Y^512 + 1`, in the order of [`Polys::forward`]; reduced.
    #[must_use]
    pub(crate) fn values(&self) -> &[i16; DEGREE] {
        &self.parts.values
    }

    /// The coefficients of `h`, centred: what a proof multiplies, made once for a key.
    #[must_use]
    pub(crate) fn coefficients(&self) -> &[i16; DEGREE] {
        &self.parts.coefficients
    }

    /// SHAKE256 of the encoded key, 64 bytes.
    #[must_use]
    pub(crate) fn digest(&self) -> &[u8; 64] {
        &self.parts.digest
    }
}

/// Computes the form of up to [`LANES`] keys that is not encoded, and centres coefficients.
struct Complete<'a> {
    keys: Vec<&'a mut Parts>,
    keys_are_coefficients: bool,
}

impl Pass for Complete<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(mut self) {
        let mut polys = Polys::<LANES>::zero();
        let keys = self.keys.iter().map(|key| &key.values);
        polys.load_all::<V>(&keys.collect::<Vec<_>>());
        if self.keys_are_coefficients {
            polys.centre();
        } else {
            polys.inverse();
            polys.centre();
        }
        let keys = self.keys.iter_mut().map(|key| &mut key.coefficients);
        polys.store_all::<V>(&mut keys.collect::<Vec<_>>());
        if self.keys_are_coefficients {
            polys.forward();
            let keys = self.keys.iter_mut().map(|key| &mut key.values);
            polys.store_all::<V>(&mut keys.collect::<Vec<_>>());
        }
    }
}

/// Decodes up to [`LANES`] public keys.
fn decode_batch(
    flavour: Flavour,
    keys: &[&[u8]],
    backend: Backend,
) -> Vec<Result<PublicKey, DecodeError>> {
    let one = |key: &&[u8]| {
        let values = reduced(&decode_key(flavour, key)?);
        let mut bytes = [0; PUBLIC_KEY_BYTES];
        bytes.copy_from_slice(key);
        let parts = Box::new(Parts {
            bytes,
            values,
            coefficients: values,
            digest: [0; 64],
        });
        Ok(PublicKey { flavour, parts })
    };
    let mut decoded: Vec<Result<PublicKey, DecodeError>> = keys.iter().map(one).collect();
    let mut good: Vec<&mut Parts> = (decoded.iter_mut().flatten())
        .map(|key| &mut *key.parts)
        .collect();
    let encoded: Vec<&[u8]> = good.iter().map(|parts| &parts.bytes[..]).collect();
    let digests = digests(&encoded, backend);
    for (parts, digest) in good.iter_mut().zip(digests) {
        parts.digest = digest;
    }
    backend.run(Complete {
        keys: good,
        keys_are_coefficients: flavour.keys_are_coefficients(),
    });
    decoded
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:02x?}..)", &self.digest()[..4])
    }
}

/// The seed of an interop validator's key, of any flavour.
pub(crate) fn interop_seed(index: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    Digest::update(&mut hash, b"alphorn-interop-v1");
    Digest::update(&mut hash, b"falcon");
    Digest::update(&mut hash, index.to_le_bytes());
    hash.finalize().into()
}

/// A secret key of [`Flavour::FnDsa`]; signing is the crate `fn-dsa`'s, whose arithmetic is
/// constant-time on x86-64 and AArch64. The bytes are erased when the key is dropped.
pub struct SecretKey {
    bytes: Zeroizing<[u8; SECRET_KEY_BYTES]>,
    public: PublicKey,
}

impl SecretKey {
    /// The key of a seed.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> SecretKey {
        let mut hash = Shake256::default();
        hash.update(b"alphorn/falcon/key/v1");
        hash.update(seed);
        let mut rng = Drawn(hash.finalize_xof());
        let mut bytes = Zeroizing::new([0; SECRET_KEY_BYTES]);
        let mut public = [0; PUBLIC_KEY_BYTES];
        let mut generator = KeyPairGenerator512::default();
        generator.keygen(FN_DSA_LOGN_512, &mut rng, bytes.as_mut(), &mut public);
        let public = PublicKey::from_bytes(Flavour::FnDsa, &public);
        SecretKey {
            bytes,
            public: public.expect("a generated key decodes"),
        }
    }

    /// The key of interop validator `index`: public knowledge, for tests and devnets. Its seed is
    /// `SHA-256("alphorn-interop-v1" || "falcon" || le64(index))`.
    #[must_use]
    pub fn interop(index: u64) -> SecretKey {
        SecretKey::from_seed(&interop_seed(index))
    }

    /// Decodes a secret key.
    ///
    /// # Errors
    /// [`KeyError`] if the bytes are no key of this degree, or one that could not sign.
    pub fn from_bytes(bytes: &[u8]) -> Result<SecretKey, KeyError> {
        let key = SigningKey512::decode(bytes).ok_or(KeyError)?;
        let mut public = [0; PUBLIC_KEY_BYTES];
        key.to_verifying_key(&mut public);
        let mut array = Zeroizing::new([0; SECRET_KEY_BYTES]);
        array.copy_from_slice(bytes);
        let public = PublicKey::from_bytes(Flavour::FnDsa, &public).map_err(|_| KeyError)?;
        // The crate takes some keys with which it would try to sign in vain.
        if !signs(&array[..], &public) {
            return Err(KeyError);
        }
        Ok(SecretKey {
            bytes: array,
            public,
        })
    }

    /// The encoded key: a secret.
    #[must_use]
    pub fn bytes(&self) -> &[u8; SECRET_KEY_BYTES] {
        &self.bytes
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message.
    ///
    /// Salt and sampler are seeded by a hash of the secret key, the message and `entropy`. With
    /// equal entropy the signature is the same every time: a repeated call reveals nothing, and a
    /// replay gives the same bytes. Two *different* signatures on one salt and message would leak
    /// a vector of the secret lattice; the hash makes salts differ whenever anything else does.
    #[must_use]
    pub fn sign(&self, message: &[u8], entropy: &[u8; 32]) -> [u8; SIGNATURE_BYTES] {
        let mut hash = Shake256::default();
        hash.update(b"alphorn/falcon/sign/v1");
        hash.update(entropy);
        let mut rng = Drawn(hash.finalize_xof());
        let mut key = SigningKey512::decode(self.bytes.as_ref()).expect("a checked key");
        let mut out = [0; SIGNATURE_BYTES];
        key.sign(&mut rng, &DOMAIN_NONE, &HASH_ID_RAW, message, &mut out)
            .expect("27 attempts fail once in 2^300 signatures");
        out
    }
}

/// The stream of a hash, as the generator that `fn-dsa` asks for.
struct Drawn(Shake256Reader);

impl CryptoRng for Drawn {}

impl RngCore for Drawn {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill_bytes(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        self.0.read(out);
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), RngError> {
        self.fill_bytes(out);
        Ok(())
    }
}
