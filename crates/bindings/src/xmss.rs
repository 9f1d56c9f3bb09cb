//! One-time keys under a hash tree. A key signs only with a permit, and a store of marks issues one permit per
//! slot and role, once the mark is on disk.

use std::path::Path;

use alphorn_exec::Watch;
use alphorn_scheme::{Reservation, Role, SignItem, Watermark};
use alphorn_types::{Slot, Validator};
use alphorn_xmss::{
    FILE_INDICES_MAX, FileWatermark, Item, KeyName, PublicKey, SecretKey, Signature, verify_batch,
};
use zeroize::Zeroizing;

pub use alphorn_xmss::{Purpose, Set};

use crate::context::watched;
use crate::{Code, Context, Error};

/// Size of a message in bytes: a digest.
pub const MESSAGE_BYTES: usize = 32;
/// Size in bytes of the seed that a key is derived from.
pub const SEED_BYTES: usize = 32;

/// The only validator in a store of marks: here a store belongs to one key.
const OWNER: Validator = Validator(0);

/// The set with this number: 1 `prod`, 2 `test` (no security), 3 `compact`.
///
/// # Errors
/// [`Code::Argument`] for any other number.
pub fn set_of(number: u32) -> Result<Set, Error> {
    let found = Set::ALL.into_iter().find(|set| *set as u32 == number);
    found.ok_or_else(|| {
        let message = format!("set {number}, must be 1 (prod), 2 (test) or 3 (compact)");
        Error::new(Code::Argument, message)
    })
}

/// Converts bytes to a message.
pub(crate) fn digest(message: &[u8]) -> Result<&[u8; MESSAGE_BYTES], Error> {
    let found = message.try_into();
    found.map_err(|_| Error::length("message", message.len(), MESSAGE_BYTES))
}

/// The role with this number: 0 a vote, 1 to 7 duties.
fn role_of(number: u8) -> Result<Role, Error> {
    Role::from_u8(number).ok_or_else(|| {
        let message = format!("role {number}, must be below {}", Role::ALL.len());
        Error::new(Code::Argument, message)
    })
}

/// Size in bytes of a signature of a set.
pub fn signature_bytes(set: Set) -> usize {
    set.params().signature_bytes
}

/// Size in bytes of a public key of a set.
pub fn public_key_bytes(set: Set) -> usize {
    set.params().public_key_bytes
}

/// Rejects a key that its files could not hold, before spending the hours that it takes to generate.
fn check_range(active: &std::ops::Range<u64>) -> Result<(), Error> {
    let count = active.end.saturating_sub(active.start);
    if count <= FILE_INDICES_MAX {
        return Ok(());
    }
    let message = format!("{count} active indices, must be at most {FILE_INDICES_MAX}");
    Err(Error::new(Code::Argument, message))
}

/// A secret key with the resident part of its tree.
pub struct Key {
    context: Context,
    key: SecretKey,
}

impl Key {
    /// Generates the key of a secret seed, active for the indices `start..end`: slots for a vote key, eight
    /// times the slot for a duty key. The time grows with the range. `watch` is not notified of steps but may
    /// stop it. One seed makes one key, with one purpose and one range. Never derive a vote key and a duty key
    /// from the same seed: they would use the same index twice.
    ///
    /// # Errors
    /// [`Code::Argument`] for a seed of the wrong length, an empty range or one beyond the set's lifetime;
    /// [`Code::Stopped`].
    pub fn generate(
        context: &Context,
        set: Set,
        purpose: Purpose,
        seed: &[u8],
        active: std::ops::Range<u64>,
        watch: Option<&dyn Watch>,
    ) -> Result<Key, Error> {
        check_range(&active)?;
        if seed.len() != SEED_BYTES {
            return Err(Error::length("seed", seed.len(), SEED_BYTES));
        }
        let mut fixed = Zeroizing::new([0; SEED_BYTES]);
        fixed.copy_from_slice(seed);
        let seed = fixed;
        let exec = watched(context.stark(), watch);
        let key = SecretKey::generate(set, purpose, &seed, active, exec, &|_| ())?;
        Ok(Key::of(context, key))
    }

    /// The key of a validator that anyone can compute: for tests and devnets.
    ///
    /// # Errors
    /// [`Code::Argument`] as for [`Key::generate`].
    pub fn interop(
        context: &Context,
        set: Set,
        purpose: Purpose,
        validator: u32,
        active: std::ops::Range<u64>,
    ) -> Result<Key, Error> {
        check_range(&active)?;
        let key = SecretKey::interop(set, purpose, validator, active, context.stark())?;
        Ok(Key::of(context, key))
    }

    /// Loads a key from its two files, as returned by [`Key::secret_file`] and [`Key::tree_file`]. A modified
    /// tree file gives another public key, so compare it with the known one.
    ///
    /// # Errors
    /// [`Code::Decode`].
    pub fn from_files(context: &Context, secret: &[u8], tree: &[u8]) -> Result<Key, Error> {
        let key = SecretKey::from_files(tree, secret, context.stark().backend())?;
        Ok(Key::of(context, key))
    }

    fn of(context: &Context, key: SecretKey) -> Key {
        let context = context.clone();
        Key { context, key }
    }

    /// The content of the secret file: the seed and its purpose. Anyone who reads it can sign.
    pub fn secret_file(&self) -> Zeroizing<Vec<u8>> {
        self.key.to_secret_file()
    }

    /// The content of the tree file, which is not secret: with it a restart needs no second generation.
    pub fn tree_file(&self) -> Vec<u8> {
        self.key.to_tree_file()
    }

    /// The public key.
    pub fn public_key(&self) -> Vec<u8> {
        self.key.public_key().to_bytes()
    }

    /// The set.
    pub fn set(&self) -> Set {
        self.key.public_key().set()
    }

    /// The slots in which the key can sign.
    pub fn slots(&self) -> std::ops::Range<u64> {
        self.key.slots()
    }

    /// Makes the one signature that the permit allows; the permit is spent whatever the outcome.
    ///
    /// # Errors
    /// [`Code::Refused`] for a permit of another key, for a role that the key does not have, or for a slot in
    /// which it is not active.
    pub fn sign(&self, permit: Permit) -> Result<Vec<u8>, Error> {
        if permit.key != KeyName::from(self.key.public_key()) {
            let message = "the permit was given out for another key";
            return Err(Error::new(Code::Refused, message));
        }
        let signature = self.key.sign(permit.reservation, self.context.stark())?;
        Ok(signature.to_bytes())
    }
}

/// The right to make one signature.
#[must_use = "a permit that is not used burns its slot"]
pub struct Permit {
    reservation: Reservation,
    key: KeyName,
}

/// The marks of one key in a file, which no other process can have open.
pub struct Marks {
    store: FileWatermark,
    key: KeyName,
}

impl Marks {
    /// Creates the file of a key that signs nothing below slot `floor`. A key restored from a backup needs a
    /// floor above every slot in which it ever signed. `state` is a folder of this user with a second mark, by
    /// which a copy of the first one is detected; without it nothing protects against copies.
    ///
    /// # Errors
    /// [`Code::Io`]; [`Code::Refused`] if the file already exists, or another process has it open.
    pub fn create(
        path: &Path,
        state: Option<&Path>,
        key: &Key,
        floor: u64,
    ) -> Result<Marks, Error> {
        let key = KeyName::from(key.key.public_key());
        let store = FileWatermark::create(path, state, OWNER, key, Slot(floor))?;
        Ok(Marks { store, key })
    }

    /// Opens the file of a key.
    ///
    /// # Errors
    /// [`Code::Io`], [`Code::Decode`] for a damaged file or that of another key, [`Code::Refused`] if another
    /// process has it open, or it was restored or copied.
    pub fn open(path: &Path, state: Option<&Path>, key: &Key) -> Result<Marks, Error> {
        let key = KeyName::from(key.key.public_key());
        let store = FileWatermark::open(path, state, OWNER, key)?;
        Ok(Marks { store, key })
    }

    /// Issues the permit to sign a message in a slot, once the mark is on disk. Slots ascend; the last one is
    /// issued again for the same message. Role 0 is a vote, 1 to 7 are duties.
    ///
    /// # Errors
    /// [`Code::Refused`] for a used slot, [`Code::Argument`] for a message that is not 32 bytes long or an
    /// unknown role.
    pub fn reserve(&self, slot: u64, role: u8, message: &[u8]) -> Result<Permit, Error> {
        let item = SignItem::new(OWNER, role_of(role)?, *digest(message)?);
        let reservation = self.store.reserve(Slot(slot), &item)?;
        let key = self.key;
        Ok(Permit { reservation, key })
    }

    /// The lowest free slot of a role.
    ///
    /// # Errors
    /// [`Code::Argument`] for an unknown role, [`Code::Refused`] after a failed write.
    pub fn slot_next(&self, role: u8) -> Result<u64, Error> {
        let next = self.store.slot_next(role_of(role)?);
        let next = next.ok_or_else(|| {
            Error::new(
                Code::Refused,
                "a mark could not be written: nothing is known of it",
            )
        })?;
        Ok(next.0)
    }
}

/// A signature with its claimed key, index and message.
#[derive(Clone, Copy, Debug)]
pub struct Vote<'a> {
    /// The bytes of the signer's public key.
    pub public_key: &'a [u8],
    /// The one-time index: the slot, for votes.
    pub index: u32,
    /// 32 bytes.
    pub message: &'a [u8],
    /// The bytes of a signature.
    pub signature: &'a [u8],
}

/// Returns whether each signature verifies; one that does not decode does not.
pub fn verify(context: &Context, set: Set, votes: &[Vote<'_>]) -> Vec<bool> {
    let decoded: Vec<Option<_>> = votes.iter().map(|vote| decode(set, vote)).collect();
    let whole = || decoded.iter().flatten();
    let items: Vec<Item<'_>> = whole()
        .map(|(key, index, message, signature)| Item {
            key,
            index: *index,
            message,
            signature,
        })
        .collect();
    let mut found = verify_batch(set, &items, context.stark()).into_iter();
    let verdicts = decoded.iter().map(|vote| match vote {
        Some(_) => found.next().unwrap_or(false),
        None => false,
    });
    verdicts.collect()
}

fn decode<'a>(
    set: Set,
    vote: &Vote<'a>,
) -> Option<(PublicKey, u32, &'a [u8; MESSAGE_BYTES], Signature)> {
    let key = PublicKey::from_bytes(set, vote.public_key).ok()?;
    let signature = Signature::from_bytes(set, vote.signature).ok()?;
    Some((key, vote.index, vote.message.try_into().ok()?, signature))
}
