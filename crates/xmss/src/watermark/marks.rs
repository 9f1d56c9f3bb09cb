//! The contents of a file of marks.

use alphorn_scheme::Role;
use alphorn_types::{DecodeError, Reader, Slot};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::durable::{seal, unseal};
use crate::signature::PublicKey;

const MAGIC: &[u8; 4] = b"AXW1";

/// Number of roles in older files, from before later roles were added. Nothing was signed in the later roles then,
/// so their floor is the one common to all roles.
const ROLES_BEFORE: usize = 6;

/// Size in bytes of the floor that a spent mark keeps.
const FLOOR_BYTES: usize = 8;

/// The name of a key in its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyName {
    pub(super) name: [u8; 32],
    /// The name up to version 0.1, SHA-256 of the encoded public key; marks under it are still read.
    pub(super) before: [u8; 32],
}

impl KeyName {
    /// The name of a key with this encoding, for a scheme in which each secret has one public key.
    #[must_use]
    pub fn of(encoded: &[u8]) -> KeyName {
        let name = Sha256::digest(encoded).into();
        KeyName { name, before: name }
    }
}

impl From<&PublicKey> for KeyName {
    /// Set and parameter: they follow from the seed, and the seed's one-time keys from both. The root is not
    /// included, because it depends on the active indices and on the tree file.
    fn from(key: &PublicKey) -> KeyName {
        let encoded = key.to_bytes();
        let parameter = &encoded[4 * key.set.params().digest..];
        let name = Sha256::new().chain_update([key.set as u8]);
        KeyName {
            name: name.chain_update(parameter).finalize().into(),
            ..KeyName::of(&encoded)
        }
    }
}

/// Why bytes are not marks of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MarksError {
    /// The content does not match its checksum.
    #[error("the checksum does not fit")]
    Checksum,
    /// The file has the wrong magic bytes.
    #[error("not a watermark file")]
    Magic,
    /// The marks belong to another key.
    #[error("the marks of another key")]
    OtherKey,
    /// A field is missing or superfluous.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// The mark of one role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) slot_next: u64,
    pub(super) source_max: u64,
    pub(super) target_max: u64,
    /// SHA-256 of the message of the last slot; zero if it is not known. In a spent mark it begins with the floor
    /// that held before.
    pub(super) last: [u8; 32],
}

impl Mark {
    /// The lowest slot known to be free; for a spent mark, the lowest free slot when it was spent.
    fn known(&self) -> u64 {
        let (kept, rest) = self.last.split_at(FLOOR_BYTES);
        match (self.slot_next, kept.try_into()) {
            // This is not the digest of a message that has the very last slot.
            (u64::MAX, Ok(kept)) if rest.iter().all(|byte| *byte == 0) => u64::from_le_bytes(kept),
            (slot_next, _) => slot_next,
        }
    }
}

/// The marks of all roles of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    key: [u8; 32],
    pub(super) marks: [Mark; Role::ALL.len()],
}

impl Marks {
    /// The marks of a key that signs nothing below `floor`.
    pub fn new(key: impl Into<KeyName>, floor: Slot) -> Marks {
        let mark = Mark {
            slot_next: floor.0,
            ..Mark::default()
        };
        Marks {
            key: key.into().name,
            marks: [mark; Role::ALL.len()],
        }
    }

    /// The least slot that is free in a role.
    pub(crate) fn slot_next(&self, role: Role) -> Slot {
        Slot(self.marks[role as usize].slot_next)
    }

    /// The least slot that is free in every role.
    pub fn floor(&self) -> Slot {
        let next = self.marks.iter().map(|mark| mark.slot_next).max();
        Slot(next.unwrap_or(u64::MAX))
    }

    /// The lowest slot known to be free in every role: the floor, or the floor at which the key moved. Where
    /// nothing better is known, the key may sign nothing below it, wherever it comes back.
    pub fn floor_known(&self) -> Slot {
        let known = self.marks.iter().map(Mark::known).max();
        Slot(known.unwrap_or(u64::MAX))
    }

    /// Whether they no longer give out anything because the key moved.
    pub(crate) fn are_spent(&self) -> bool {
        self.marks.iter().all(|mark| mark.slot_next == u64::MAX)
    }

    /// The same marks with nothing free below a slot, in any role. With no free slot at all they are spent, and
    /// keep their floor, otherwise the slot below which the key must not continue would be lost.
    pub(super) fn raised_to(&self, slot: Slot) -> Marks {
        let mut last = [0; 32];
        if slot.0 == u64::MAX {
            last[..FLOOR_BYTES].copy_from_slice(&self.floor_known().0.to_le_bytes());
        }
        let mut marks = self.clone();
        for mark in &mut marks.marks {
            (mark.slot_next, mark.last) = (slot.0, last);
        }
        marks
    }

    /// The first role in which a slot was given out that these marks do not know of; returns the free slot here
    /// and in `known`.
    pub(super) fn behind(&self, known: &Marks) -> Option<(Slot, Slot)> {
        let mut both = self.marks.iter().zip(&known.marks);
        let (ours, known) = both.find(|(ours, known)| {
            ours.slot_next < known.slot_next
                // The same slot may have been given out for two messages, from two copies of one mark.
                || (ours.slot_next == known.slot_next && ours.last != known.last)
        })?;
        Some((Slot(ours.slot_next), Slot(known.slot_next)))
    }

    /// The same marks, with votes bound by the checkpoints of both.
    pub(super) fn with_guards_of(&self, known: &Marks) -> Marks {
        let mut marks = self.clone();
        for (mark, known) in marks.marks.iter_mut().zip(&known.marks) {
            mark.source_max = mark.source_max.max(known.source_max);
            mark.target_max = mark.target_max.max(known.target_max);
        }
        marks
    }

    /// Whether they are the marks of a key.
    pub fn belong_to(&self, key: impl Into<KeyName>) -> bool {
        let key = key.into();
        [key.name, key.before].contains(&self.key)
    }

    /// The same marks under the current name of their key.
    pub(super) fn renamed(self, key: KeyName) -> Result<Marks, MarksError> {
        match self.belong_to(key) {
            true => Ok(Marks {
                key: key.name,
                ..self
            }),
            false => Err(MarksError::OtherKey),
        }
    }

    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.key);
        for mark in &self.marks {
            for value in [mark.slot_next, mark.source_max, mark.target_max] {
                out.extend(value.to_le_bytes());
            }
            out.extend_from_slice(&mark.last);
        }
        seal(out)
    }

    /// Decodes the marks from a file's content.
    ///
    /// # Errors
    /// [`MarksError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Marks, MarksError> {
        // Before the checksum, so that another kind of file is named as such, and not as damaged.
        if !bytes.starts_with(MAGIC) {
            return Err(MarksError::Magic);
        }
        let mut reader = Reader::new(unseal(bytes).ok_or(MarksError::Checksum)?);
        reader.bytes(MAGIC.len())?;
        let key = reader.array()?;
        let mut marks = [Mark::default(); Role::ALL.len()];
        for role in 0..marks.len() {
            if role == ROLES_BEFORE && reader.left() == 0 {
                // Every mark includes the floor, and the end of a spent key; the marks of later roles are no
                // lower.
                let floor = marks[..role].iter().map(|mark| mark.slot_next).min();
                let slot_next = floor.unwrap_or(u64::MAX);
                marks[role..]
                    .iter_mut()
                    .for_each(|mark| mark.slot_next = slot_next);
                break;
            }
            marks[role] = Mark {
                slot_next: reader.u64()?,
                source_max: reader.u64()?,
                target_max: reader.u64()?,
                last: reader.array()?,
            };
        }
        match reader.left() {
            0 => Ok(Marks { key, marks }),
            bytes => Err(DecodeError::Trailing { bytes }.into()),
        }
    }
}
