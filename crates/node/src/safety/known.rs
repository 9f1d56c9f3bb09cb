//! What a data folder knows of its marks besides the file that has them, and what follows if that is
//! not the file that was there.

use super::{KeyId, Opening, SafetyError, SafetyStore, storage};
use crate::file::set_aside;
use alphorn_types::{Slot, Validator};
use std::collections::BTreeMap;
use std::path::Path;

/// How far the marks of a file are, as it is remembered outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Which file.
    pub(crate) file: u64,
    /// The first slot that is not reserved.
    pub next: u64,
}

impl Witness {
    pub(crate) fn encode(&self) -> Vec<u8> {
        [self.file.to_le_bytes(), self.next.to_le_bytes()].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (file, next) = bytes.split_first_chunk()?;
        Some(Witness {
            file: u64::from_le_bytes(*file),
            next: u64::from_le_bytes(next.try_into().ok()?),
        })
    }
}

/// What a folder knows of its marks besides the file that has them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// How far they were, as `node.redb` remembers it.
    pub(crate) witness: Option<Witness>,
    /// A node ran in this folder before.
    pub(crate) was_used: bool,
    /// Whether a new file is made where the one that should be there is missing, damaged or set back:
    /// somebody vouches that no process has signed with these keys since the slot that is known.
    pub(crate) accept_new: bool,
}

impl SafetyStore {
    /// Opens the file of a folder that remembers how far the marks were: a file that is missing, damaged or
    /// set back is refused. With `accept_new` it is set aside and a new one made, in which no key
    /// signs before the slot that is remembered, nor before the second one from now. The second is
    /// why that was done, if it was.
    ///
    /// `was_used` says whether the folder is one in which a node ran.
    ///
    /// # Errors
    /// [`SafetyError`].
    pub(crate) fn open_known(
        path: &Path,
        keys: BTreeMap<Validator, KeyId>,
        opening: Opening,
        known: Known,
    ) -> Result<(Self, Option<SafetyError>), SafetyError> {
        let opened = match (path.exists(), known.was_used) {
            (false, true) => Err(SafetyError::Missing {
                path: path.display().to_string(),
                next: known.witness.map_or(0, |witness| witness.next),
            }),
            _ => Self::open(path, keys.clone(), opening)
                .and_then(|store| store.against(path, known.witness)),
        };
        let why = match opened {
            Ok(store) => return Ok((store, None)),
            Err(error) => error,
        };
        let is_about_the_file = matches!(
            why,
            SafetyError::Missing { .. } | SafetyError::Damaged { .. } | SafetyError::SetBack { .. }
        );
        if !(is_about_the_file && known.accept_new) {
            return Err(why);
        }
        if path.exists() {
            set_aside(path).map_err(|error| storage("setting aside", error))?;
        }
        let opening = Opening {
            before_genesis: false,
            ..opening
        };
        let mut store = Self::open(path, keys, opening)?;
        if let Some(witness) = known.witness {
            let floor = Slot(witness.next);
            let floors = store.keys.keys().map(|&v| (Validator(v), floor)).collect();
            store.take_over(&floors, opening.now_ms)?;
        }
        Ok((store, Some(why)))
    }

    /// Whether the file is at least as far as the folder remembers.
    fn against(self, path: &Path, witness: Option<Witness>) -> Result<Self, SafetyError> {
        let found = self.witness();
        match witness {
            Some(known) if known.file != found.file || known.next > found.next => {
                Err(SafetyError::SetBack {
                    path: path.display().to_string(),
                    found: found.next,
                    next: known.next,
                })
            }
            _ => Ok(self),
        }
    }
}
