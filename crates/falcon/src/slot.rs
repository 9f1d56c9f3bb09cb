//! Flavour `slot`: Falcon with a salt that is a function of key, slot, role and message, and is not sent.
//!
//! The salt normally prevents a signer from giving out two preimages of one target, whose difference is a short
//! vector of the key's lattice. Here the [`Reservation`] prevents it: a key signs at most one message per
//! slot and role, whatever the store of its marks has seen. The lecture of `crate::aggregate` has
//! the argument.

use alphorn_scheme::{Reservation, Role};
use alphorn_types::Slot;
use thiserror::Error;

use crate::flavour::expand;
use crate::original::{BasisFlavour, BasisKey, Drawn};
use crate::{DEGREE, Flavour, Parameters, PublicKey, SALT_BYTES};

/// Label hashed before the secret key for the seed of the sampler.
const SIGN_LABEL: &[u8] = b"alphorn/falcon/slot/sign/v1";

/// Bytes of the signed data in this flavour: slot, role, message.
pub const SIGNED_BYTES: usize = 8 + 1 + 32;

/// Returns the signed data in this flavour, which is the message of its [`crate::Item`]s: `le64(slot)`, the number
/// of the role, the message.
#[must_use]
pub fn signed_bytes(slot: Slot, role: Role, message: &[u8; 32]) -> [u8; SIGNED_BYTES] {
    let mut out = [0; SIGNED_BYTES];
    out[..8].copy_from_slice(&slot.0.to_le_bytes());
    out[8] = role as u8;
    out[9..].copy_from_slice(message);
    out
}

impl Flavour {
    /// Returns what a signature of the flavour covers: all of the [`signed_bytes`] in flavour `slot`, only the
    /// message in them in the others.
    #[must_use]
    pub fn message_of(self, signed: &[u8; SIGNED_BYTES]) -> &[u8] {
        match self {
            Flavour::FnDsa | Flavour::Original => &signed[9..],
            Flavour::Slot => signed,
        }
    }
}

/// Returns the original Falcon signature that a signature of this flavour corresponds to, and the message that it
/// signs, for verification by another implementation. None if the signature has the wrong length.
#[must_use]
pub fn as_original<const N: usize>(
    key: &PublicKey<N>,
    signed: &[u8],
    signature: &[u8],
) -> Option<(Vec<u8>, [u8; 64])> {
    if signature.len() != Flavour::Slot.signature_bytes_of(N) {
        return None;
    }
    let expanded = expand(key.digest(), signed);
    let (salt, representative) = expanded.split_at(SALT_BYTES);
    let out = [&signature[..1], salt, &signature[1..]].concat();
    Some((out, representative.try_into().ok()?))
}

/// Reason why a permit yields no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SignError {
    /// The permit was given out before, so a second signature of its target may have been released.
    #[error("slot {slot} was signed before in role {role:?}: flavour slot signs nothing again")]
    Again {
        /// The slot.
        slot: u64,
        /// The role.
        role: Role,
    },
}

/// [`Flavour::Slot`] as a type.
pub enum Unsalted {}

impl BasisFlavour for Unsalted {
    const FLAVOUR: Flavour = Flavour::Slot;
    const KEY_LABEL: &'static [u8] = b"alphorn/falcon/slot/key/v1";
}

/// A secret key of [`Flavour::Slot`], which signs only with a permit.
pub type SlotKey<const N: usize = DEGREE> = BasisKey<Unsalted, N>;

impl<const N: usize> SlotKey<N> {
    /// Makes the one signature that a permit allows, and consumes the permit.
    ///
    /// The sampler is seeded by a hash of secret key and target. That is a second line of defence, not
    /// the first: on the same host a repeated call gives the same bytes, but another kernel,
    /// compiler or fault may round once differently, and then the two signatures give the key away
    /// (eprint 2024/1709).
    ///
    /// # Errors
    /// [`SignError`] if the permit was given out before, even for the same message.
    pub fn sign(&self, permit: Reservation) -> Result<Vec<u8>, SignError> {
        let (slot, role) = (permit.slot(), permit.role());
        if permit.is_again() {
            let slot = slot.0;
            return Err(SignError::Again { slot, role });
        }
        let signed = signed_bytes(slot, role, permit.message());
        Ok(self.preimage(&signed, &[SIGN_LABEL, self.bytes()]))
    }

    /// Returns a preimage of the target of signed bytes, with the sampler seeded by `seed` and the target. This is
    /// the key's trapdoor, without any limit on how often it is used.
    fn preimage(&self, signed: &[u8], seed: &[&[u8]]) -> Vec<u8> {
        let expanded = expand(self.public().digest(), signed);
        let (salt, representative) = expanded.split_at(SALT_BYTES);
        let salt = salt.first_chunk().copied();
        let mut rng = Drawn::of(salt, &[seed, &[&expanded[..]]].concat());
        let original = self.draw(&mut rng, representative);
        let used = original[1..].first_chunk();
        // With another salt it would sign another target than the one that verifiers compute.
        assert_eq!(used, salt.as_ref(), "the signer took another salt");
        // The same signature without its salt, which every verifier computes.
        let header = const { Parameters::of(N) }.signature_header();
        [&[header], &original[1 + SALT_BYTES..]].concat()
    }
}

#[cfg(test)]
mod tests;
