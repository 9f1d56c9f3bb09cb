//! Secret keys of original Falcon, the flavour of the published test vectors, and what those of
//! flavour `slot` have in common with them.

use fn_dsa_original::{
    CryptoRng, DOMAIN_NONE, FN_DSA_LOGN_512, HASH_ID_ORIGINAL_FALCON, KeyPairGenerator,
    KeyPairGenerator512, RngCore, RngError, SigningKey, SigningKey512, sign_key_size,
};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake256, Shake256Reader};
use zeroize::Zeroizing;

use crate::basis::signs;
use crate::key::interop_seed;
use crate::{Flavour, KeyError, PUBLIC_KEY_BYTES, PublicKey, SALT_BYTES, SIGNATURE_BYTES};

/// Bytes of an encoded secret key of original Falcon: the draft adds a digest of the public key.
pub const ORIGINAL_KEY_BYTES: usize = sign_key_size(FN_DSA_LOGN_512);

/// A basis in the encoding of original Falcon, and its public key in a flavour with that encoding.
/// The bytes are erased when it is dropped.
pub(crate) struct Basis {
    bytes: Zeroizing<[u8; ORIGINAL_KEY_BYTES]>,
    public: PublicKey,
}

impl Basis {
    /// The basis of a seed; each flavour has a domain of its own.
    pub(crate) fn from_seed(flavour: Flavour, domain: &[u8], seed: &[u8; 32]) -> Basis {
        let mut rng = Drawn::of(None, &[domain, seed]);
        let mut bytes = Zeroizing::new([0; ORIGINAL_KEY_BYTES]);
        let mut public = [0; PUBLIC_KEY_BYTES];
        let mut generator = KeyPairGenerator512::default();
        generator.keygen(FN_DSA_LOGN_512, &mut rng, bytes.as_mut(), &mut public);
        let public = PublicKey::from_bytes(flavour, &public);
        Basis {
            bytes,
            public: public.expect("a generated key decodes"),
        }
    }

    /// Decodes a basis.
    pub(crate) fn from_bytes(flavour: Flavour, bytes: &[u8]) -> Result<Basis, KeyError> {
        let key = SigningKey512::decode(bytes).ok_or(KeyError)?;
        let mut public = [0; PUBLIC_KEY_BYTES];
        key.to_verifying_key(&mut public);
        let mut array = Zeroizing::new([0; ORIGINAL_KEY_BYTES]);
        array.copy_from_slice(bytes);
        let public = PublicKey::from_bytes(flavour, &public).map_err(|_| KeyError)?;
        // The crate takes some keys with which it would try to sign in vain.
        if !signs(&array[..], &public) {
            return Err(KeyError);
        }
        Ok(Basis {
            bytes: array,
            public,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8; ORIGINAL_KEY_BYTES] {
        &self.bytes
    }

    pub(crate) fn public(&self) -> &PublicKey {
        &self.public
    }

    /// A signature of original Falcon. All attempts of a call are on one salt, the first that is
    /// drawn: what is too long or has too long a code is thrown away, and the next attempt has the
    /// same target and the next bytes of `rng`.
    pub(crate) fn sign(
        &self,
        rng: &mut (impl CryptoRng + RngCore),
        message: &[u8],
    ) -> [u8; SIGNATURE_BYTES] {
        let mut key = SigningKey512::decode(self.bytes.as_ref()).expect("a checked key");
        let mut out = [0; SIGNATURE_BYTES];
        let id = &HASH_ID_ORIGINAL_FALCON;
        key.sign(rng, &DOMAIN_NONE, id, message, &mut out);
        out
    }
}

/// A secret key of [`Flavour::Original`]; signing is that of `fn-dsa` 0.3.0, the last version with
/// this flavour. The bytes are erased when the key is dropped.
pub struct OriginalKey(Basis);

impl OriginalKey {
    /// The key of a seed.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> OriginalKey {
        let domain = b"alphorn/falcon/original/key/v1";
        OriginalKey(Basis::from_seed(Flavour::Original, domain, seed))
    }

    /// The key of interop validator `index`: public knowledge, for tests. Its seed is that of
    /// [`crate::SecretKey::interop`].
    #[must_use]
    pub fn interop(index: u64) -> OriginalKey {
        OriginalKey::from_seed(&interop_seed(index))
    }

    /// Decodes a secret key.
    ///
    /// # Errors
    /// [`KeyError`] if the bytes are no key of this degree, or one that could not sign.
    pub fn from_bytes(bytes: &[u8]) -> Result<OriginalKey, KeyError> {
        Basis::from_bytes(Flavour::Original, bytes).map(OriginalKey)
    }

    /// The encoded key: a secret.
    #[must_use]
    pub fn bytes(&self) -> &[u8; ORIGINAL_KEY_BYTES] {
        self.0.bytes()
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        self.0.public()
    }

    /// Signs a message.
    ///
    /// Salt and sampler are drawn from a hash of the secret key, the message and `entropy`: equal
    /// inputs give the same signature, and salts differ whenever anything else does. Two different
    /// signatures on one salt and message would leak a vector of the secret lattice.
    #[must_use]
    pub fn sign(&self, message: &[u8], entropy: &[u8; 32]) -> [u8; SIGNATURE_BYTES] {
        // The old crate takes salts from the generator as they come, so the message is in it.
        let domain = b"alphorn/falcon/original/sign/v1";
        let mut rng = Drawn::of(None, &[domain, self.bytes(), entropy, message]);
        self.0.sign(&mut rng, message)
    }
}

/// The stream of a hash, as the generator that `fn-dsa` asks for.
pub(crate) struct Drawn {
    /// What is drawn first: the signer asks for the salt before anything else.
    salt: Option<[u8; SALT_BYTES]>,
    stream: Shake256Reader,
}

impl Drawn {
    /// Of parts with fixed lengths, but for the last.
    pub(crate) fn of(salt: Option<[u8; SALT_BYTES]>, parts: &[&[u8]]) -> Drawn {
        let mut hash = Shake256::default();
        for part in parts {
            hash.update(part);
        }
        let stream = hash.finalize_xof();
        Drawn { salt, stream }
    }
}

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
        match self.salt.take() {
            Some(salt) => out.copy_from_slice(&salt),
            None => self.stream.read(out),
        }
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), RngError> {
        self.fill_bytes(out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Item, SecretKey, verify};

    #[test]
    fn keys_sign_and_come_back_from_their_bytes() {
        let key = OriginalKey::interop(7);
        let signature = key.sign(b"round three", &[0; 32]);
        let item = Item {
            key: key.public(),
            message: b"round three",
            signature: &signature,
        };
        assert_eq!(verify(&item), Ok(()));
        assert_eq!(signature, key.sign(b"round three", &[0; 32]));
        assert_ne!(signature, key.sign(b"round three", &[1; 32]));
        assert_ne!(signature[1..41], key.sign(b"round four", &[0; 32])[1..41]);
        let again = OriginalKey::from_bytes(key.bytes()).expect("an encoded key");
        assert_eq!(again.public(), key.public());
        assert_eq!(again.sign(b"round three", &[0; 32]), signature);
        assert!(OriginalKey::from_bytes(&key.bytes()[1..]).is_err());
        assert_ne!(key.public().bytes(), SecretKey::interop(7).public().bytes());
    }
}
