//! Secret keys of any flavour, for key holders that learn the flavour at run time.

use alphorn_scheme::Reservation;

use crate::slot::SignError;
use crate::{DEGREE, Flavour, KeyError, OriginalKey, PublicKey, SecretKey, SlotKey};

/// A secret key of one of the flavours, of degree 512 or 1024.
pub enum SigningKey<const N: usize = DEGREE> {
    /// [`Flavour::FnDsa`].
    FnDsa(SecretKey<N>),
    /// [`Flavour::Original`].
    Original(OriginalKey<N>),
    /// [`Flavour::Slot`].
    Slot(SlotKey<N>),
}

impl<const N: usize> SigningKey<N> {
    /// Returns the key of interop validator `index` in a flavour, which is public knowledge, for tests and devnets.
    #[must_use]
    pub fn interop(flavour: Flavour, index: u64) -> Self {
        match flavour {
            Flavour::FnDsa => SigningKey::FnDsa(SecretKey::interop(index)),
            Flavour::Original => SigningKey::Original(OriginalKey::interop(index)),
            Flavour::Slot => SigningKey::Slot(SlotKey::interop(index)),
        }
    }

    /// Decodes a secret key of a flavour.
    ///
    /// # Errors
    /// [`KeyError`] if the bytes are not a key of the flavour, or the key could not sign.
    pub fn from_bytes(flavour: Flavour, bytes: &[u8]) -> Result<Self, KeyError> {
        Ok(match flavour {
            Flavour::FnDsa => SigningKey::FnDsa(SecretKey::from_bytes(bytes)?),
            Flavour::Original => SigningKey::Original(OriginalKey::from_bytes(bytes)?),
            Flavour::Slot => SigningKey::Slot(SlotKey::from_bytes(bytes)?),
        })
    }

    /// Returns the encoded key, which is secret.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            SigningKey::FnDsa(key) => key.bytes(),
            SigningKey::Original(key) => key.bytes(),
            SigningKey::Slot(key) => key.bytes(),
        }
    }

    /// Returns the public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey<N> {
        match self {
            SigningKey::FnDsa(key) => key.public(),
            SigningKey::Original(key) => key.public(),
            SigningKey::Slot(key) => key.public(),
        }
    }

    /// Makes the signature that a permit allows. An equal permit and equal entropy give the same bytes, if they give
    /// any. Flavour `slot` ignores the entropy.
    ///
    /// # Errors
    /// [`SignError`] in flavour `slot`, if the permit was given out before.
    pub fn sign(&self, permit: Reservation, entropy: &[u8; 32]) -> Result<Vec<u8>, SignError> {
        Ok(match self {
            SigningKey::FnDsa(key) => key.sign(permit.message(), entropy),
            SigningKey::Original(key) => key.sign(permit.message(), entropy),
            SigningKey::Slot(key) => key.sign(permit)?,
        })
    }
}

impl<const N: usize> From<SecretKey<N>> for SigningKey<N> {
    fn from(key: SecretKey<N>) -> Self {
        SigningKey::FnDsa(key)
    }
}

impl<const N: usize> From<OriginalKey<N>> for SigningKey<N> {
    fn from(key: OriginalKey<N>) -> Self {
        SigningKey::Original(key)
    }
}

impl<const N: usize> From<SlotKey<N>> for SigningKey<N> {
    fn from(key: SlotKey<N>) -> Self {
        SigningKey::Slot(key)
    }
}
