//! Secret keys of original Falcon, the flavour of the published test vectors, and their common ground
//! with those of flavour `slot`.

use fn_dsa_original::{
    CryptoRng, DOMAIN_NONE, HASH_ID_ORIGINAL_FALCON, KeyPairGenerator, KeyPairGenerator512,
    KeyPairGenerator1024, RngCore, RngError, SigningKey, SigningKey512, SigningKey1024,
};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake256, Shake256Reader};
use std::marker::PhantomData;
use zeroize::Zeroizing;

use crate::basis::{basis_bytes, signs};
use crate::degree::seed_suffix;
use crate::key::interop_seed;
use crate::{DEGREE, Flavour, KeyError, Parameters, PublicKey, SALT_BYTES};

/// Bytes of an encoded secret key of original Falcon of degree 512. The draft appends a digest of the public key.
pub const ORIGINAL_KEY_BYTES: usize = basis_bytes(DEGREE);

/// A flavour whose secret keys have the encoding of original Falcon.
pub trait BasisFlavour {
    /// The flavour.
    const FLAVOUR: Flavour;
    /// Label hashed before the seed of a key; each degree has a domain of its own in it.
    const KEY_LABEL: &'static [u8];
}

/// A secret key of degree 512 or 1024 in the encoding of original Falcon, a basis, and its public key in
/// flavour `F`. The bytes are erased when the key is dropped.
pub struct BasisKey<F, const N: usize = DEGREE> {
    bytes: Zeroizing<Vec<u8>>,
    public: PublicKey<N>,
    flavour: PhantomData<F>,
}

impl<F: BasisFlavour, const N: usize> BasisKey<F, N> {
    /// Parameters of the degree.
    const PARAMETERS: Parameters = Parameters::of(N);

    /// Returns the key of a seed.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let mut rng = Drawn::of(None, &[F::KEY_LABEL, seed, seed_suffix(N)]);
        let mut bytes = Zeroizing::new(vec![0; basis_bytes(N)]);
        let mut public = vec![0; Self::PARAMETERS.public_key_bytes];
        let generate = match N {
            DEGREE => generate::<KeyPairGenerator512>,
            _ => generate::<KeyPairGenerator1024>,
        };
        let degree_log2 = Self::PARAMETERS.degree_log2.into();
        generate(degree_log2, &mut rng, &mut bytes, &mut public);
        let public = PublicKey::from_bytes(F::FLAVOUR, &public);
        Self {
            bytes,
            public: public.expect("a generated key decodes"),
            flavour: PhantomData,
        }
    }

    /// Returns the key of interop validator `index`, which is public knowledge, for tests and devnets. Its seed is
    /// that of [`crate::SecretKey::interop`].
    #[must_use]
    pub fn interop(index: u64) -> Self {
        Self::from_seed(&interop_seed(index))
    }

    /// Decodes a secret key. A key that signs in one flavour must not sign in another.
    ///
    /// # Errors
    /// [`KeyError`] if the bytes are not a key of this degree, or the key could not sign.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let mut public = vec![0; Self::PARAMETERS.public_key_bytes];
        let decode = match N {
            DEGREE => public_of::<SigningKey512>,
            _ => public_of::<SigningKey1024>,
        };
        decode(bytes, &mut public).ok_or(KeyError)?;
        let public = PublicKey::from_bytes(F::FLAVOUR, &public).map_err(|_| KeyError)?;
        // The crate accepts some keys with which it would try in vain to sign.
        if !signs(bytes, &public) {
            return Err(KeyError);
        }
        Ok(Self {
            bytes: Zeroizing::new(bytes.to_vec()),
            public,
            flavour: PhantomData,
        })
    }

    /// Returns the encoded key, which is secret.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey<N> {
        &self.public
    }

    /// Makes a signature of original Falcon. All attempts of a call use one salt, the first that is
    /// drawn. A signature that is too long or has too long a code is discarded, and the next attempt uses the
    /// same target and the next bytes of `rng`.
    pub(crate) fn draw(&self, rng: &mut (impl CryptoRng + RngCore), message: &[u8]) -> Vec<u8> {
        let mut out = vec![0; Self::PARAMETERS.signature_bytes];
        match N {
            DEGREE => sign_with::<SigningKey512>(&self.bytes, rng, message, &mut out),
            _ => sign_with::<SigningKey1024>(&self.bytes, rng, message, &mut out),
        }
        out
    }
}

/// Generates a key pair with the generator of a degree.
fn generate<G: KeyPairGenerator>(
    degree_log2: u32,
    rng: &mut Drawn,
    secret: &mut [u8],
    public: &mut [u8],
) {
    G::default().keygen(degree_log2, rng, secret, public);
}

/// Writes the public key of an encoded basis of the signer's degree. None if the bytes are not such a basis.
fn public_of<S: SigningKey>(secret: &[u8], public: &mut [u8]) -> Option<()> {
    S::decode(secret)?.to_verifying_key(public);
    Some(())
}

/// Signs with the signer of a degree.
fn sign_with<S: SigningKey>(
    secret: &[u8],
    rng: &mut (impl CryptoRng + RngCore),
    message: &[u8],
    out: &mut [u8],
) {
    let mut key = S::decode(secret).expect("a checked key");
    key.sign(rng, &DOMAIN_NONE, &HASH_ID_ORIGINAL_FALCON, message, out);
}

/// [`Flavour::Original`] as a type.
pub enum Original {}

impl BasisFlavour for Original {
    const FLAVOUR: Flavour = Flavour::Original;
    const KEY_LABEL: &'static [u8] = b"alphorn/falcon/original/key/v1";
}

/// A secret key of [`Flavour::Original`]. `fn-dsa` 0.3.0, the last version with this flavour, does the signing.
pub type OriginalKey<const N: usize = DEGREE> = BasisKey<Original, N>;

impl<const N: usize> OriginalKey<N> {
    /// Signs a message.
    ///
    /// Salt and sampler are drawn from a hash of the secret key, the message and `entropy`: equal
    /// inputs give the same signature, and salts differ whenever any input differs. Two different
    /// signatures on one salt and message would leak a vector of the secret lattice.
    #[must_use]
    pub fn sign(&self, message: &[u8], entropy: &[u8; 32]) -> Vec<u8> {
        // The old crate takes salts directly from the generator, so the message is an input of the generator.
        let domain = b"alphorn/falcon/original/sign/v1";
        let mut rng = Drawn::of(None, &[domain, self.bytes(), entropy, message]);
        self.draw(&mut rng, message)
    }
}

/// The stream of a hash, as the random generator that `fn-dsa` requires.
pub(crate) struct Drawn {
    /// Drawn first: the signer asks for the salt before anything else.
    salt: Option<[u8; SALT_BYTES]>,
    stream: Shake256Reader,
}

impl Drawn {
    /// Creates a stream from parts that have fixed lengths, except for the last.
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
            // Of the length of a salt: `fn-dsa` 0.3 draws a salt of 40 bytes first, and then a seed for each attempt.
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

    fn keys_sign<const N: usize>() {
        let key = OriginalKey::<N>::interop(7);
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
        let again = OriginalKey::<N>::from_bytes(key.bytes()).expect("an encoded key");
        assert_eq!(again.public(), key.public());
        assert_eq!(again.sign(b"round three", &[0; 32]), signature);
        assert!(OriginalKey::<N>::from_bytes(&key.bytes()[1..]).is_err());
        let draft = SecretKey::<N>::interop(7);
        assert_ne!(key.public().bytes(), draft.public().bytes());
    }

    #[test]
    fn keys_sign_and_come_back_from_their_bytes() {
        keys_sign::<512>();
        keys_sign::<1024>();
    }
}
