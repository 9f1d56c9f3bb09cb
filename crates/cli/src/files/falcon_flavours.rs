//! The flavours of Falcon in files: their names, secret keys and signing.

use super::keystore::Declared;
use super::marks::Marked;
use super::scheme::SlotLimits;
use super::secret::fill_random;
use super::statement::ToSign;
use crate::error::{Error, Result};
use alphorn_falcon::key::SECRET_KEY_BYTES;
use alphorn_falcon::slot::signed_bytes;
use alphorn_falcon::{
    Flavour, KeyError, ORIGINAL_KEY_BYTES, OriginalKey, PublicKey, SecretKey, SlotKey,
};
use alphorn_scheme::{Reservation, Role};
use alphorn_types::Slot;
use alphorn_xmss::KeyName;
use anyhow::Context;
use std::borrow::Cow;
use zeroize::Zeroizing;

/// A flavour as a type, since names in files are constants of a scheme.
pub(super) trait FlavourType: Sync {
    const FLAVOUR: Flavour;
    const NAME: &'static str;
    const DECLARED: Declared;
    /// Bytes of an encoded secret key.
    const SECRET_BYTES: usize;
    /// The slots of a key, if it signs once per slot; then messages have 32 bytes.
    const SLOTS: Option<SlotLimits> = None;

    /// A secret key of the flavour.
    type Secret;

    fn from_seed(seed: &[u8; 32]) -> Self::Secret;
    fn interop(index: u64) -> Self::Secret;
    fn from_bytes(bytes: &[u8]) -> std::result::Result<Self::Secret, KeyError>;
    fn bytes(key: &Self::Secret) -> &[u8];
    fn public(key: &Self::Secret) -> &PublicKey;
    /// Signs, with a permit if keys sign once per slot.
    fn sign(key: &Self::Secret, what: &ToSign<'_>, permit: Option<Reservation>) -> Result<Vec<u8>>;

    /// Returns the key as one with a mark, if it signs once per slot.
    fn marked(_key: &Self::Secret) -> Option<&dyn Marked> {
        None
    }
}

/// The draft of FN-DSA.
pub(super) struct FnDsa04;
/// Original Falcon, of round 3.
pub(super) struct Round3;
/// Original Falcon without salts.
pub(super) struct NoSalts;

/// A key without salts.
pub(super) struct SlotSecret {
    key: SlotKey,
    /// Whether it is known that anyone can compute it.
    is_interop: bool,
}

impl SlotSecret {
    fn of(key: SlotKey) -> SlotSecret {
        SlotSecret {
            key,
            is_interop: false,
        }
    }
}

impl Marked for SlotSecret {
    fn name(&self) -> KeyName {
        KeyName::of(self.key.public().bytes())
    }

    fn is_public(&self) -> bool {
        self.is_interop
    }

    fn first_slot(&self) -> Slot {
        Slot(0)
    }
}

/// Secret keys with salts have the same methods.
macro_rules! flavour_type {
    ($name:ty, $flavour:expr, $secret:ty, $bytes:expr, $file_name:literal, $param:literal) => {
        impl FlavourType for $name {
            const FLAVOUR: Flavour = $flavour;
            const NAME: &'static str = $file_name;
            const DECLARED: Declared = Declared {
                name: "falcon512",
                flavour: $param,
            };
            const SECRET_BYTES: usize = $bytes;

            type Secret = $secret;

            fn from_seed(seed: &[u8; 32]) -> $secret {
                <$secret>::from_seed(seed)
            }

            fn interop(index: u64) -> $secret {
                <$secret>::interop(index)
            }

            fn from_bytes(bytes: &[u8]) -> std::result::Result<$secret, KeyError> {
                <$secret>::from_bytes(bytes)
            }

            fn bytes(key: &$secret) -> &[u8] {
                key.bytes()
            }

            fn public(key: &$secret) -> &PublicKey {
                key.public()
            }

            /// Uses fresh entropy in the salt, so that two signatures of one message differ, and a
            /// fault while signing again cannot be compared with the first.
            fn sign(key: &$secret, what: &ToSign<'_>, _: Option<Reservation>) -> Result<Vec<u8>> {
                let mut entropy = Zeroizing::new([0; 32]);
                fill_random(&mut *entropy)?;
                Ok(key.sign(what.message, &entropy).to_vec())
            }
        }
    };
}

flavour_type!(
    FnDsa04,
    Flavour::FnDsa,
    SecretKey,
    SECRET_KEY_BYTES,
    "falcon-fndsa04",
    "fndsa04"
);
flavour_type!(
    Round3,
    Flavour::Original,
    OriginalKey,
    ORIGINAL_KEY_BYTES,
    "falcon-r3",
    "r3"
);

impl FlavourType for NoSalts {
    const FLAVOUR: Flavour = Flavour::Slot;
    const NAME: &'static str = "falcon-slot";
    const DECLARED: Declared = Declared {
        name: "falcon512",
        flavour: "slot",
    };
    const SECRET_BYTES: usize = ORIGINAL_KEY_BYTES;
    const SLOTS: Option<SlotLimits> = Some(SlotLimits {
        // The largest whole number that every JSON reader supports.
        end: 1 << 53,
        ranges: None,
    });

    type Secret = SlotSecret;

    fn from_seed(seed: &[u8; 32]) -> SlotSecret {
        SlotSecret::of(SlotKey::from_seed(seed))
    }

    fn interop(index: u64) -> SlotSecret {
        SlotSecret {
            key: SlotKey::interop(index),
            is_interop: true,
        }
    }

    fn from_bytes(bytes: &[u8]) -> std::result::Result<SlotSecret, KeyError> {
        SlotKey::from_bytes(bytes).map(SlotSecret::of)
    }

    fn bytes(key: &SlotSecret) -> &[u8] {
        key.key.bytes()
    }

    fn public(key: &SlotSecret) -> &PublicKey {
        key.key.public()
    }

    /// Uses no entropy, so that should the mark fail, the same message gets the same signature.
    fn sign(key: &SlotSecret, what: &ToSign<'_>, permit: Option<Reservation>) -> Result<Vec<u8>> {
        let path = what.path.display();
        let permit = permit.with_context(|| format!("{path}: no permit"))?;
        let signature = key.key.sign(permit);
        let signature = signature.map_err(|refused| Error::Check(format!("{path}: {refused}")))?;
        Ok(signature.to_vec())
    }

    fn marked(key: &SlotSecret) -> Option<&dyn Marked> {
        Some(key)
    }
}

/// Returns what a signature of a flavour covers, from slot and message of a file.
pub(super) fn signed_of<F: FlavourType>(
    slot: Option<u64>,
    message: &[u8],
) -> anyhow::Result<Cow<'_, [u8]>> {
    if F::SLOTS.is_none() {
        return Ok(Cow::Borrowed(message));
    }
    let slot = Slot(slot.context("no slot")?);
    let message = message.try_into().context("a message of another length")?;
    let signed = signed_bytes(slot, Role::Vote, message);
    Ok(Cow::Owned(F::FLAVOUR.message_of(&signed).to_vec()))
}
