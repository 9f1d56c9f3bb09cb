//! What a data folder knows about its marks besides the file that holds them, and the handling of a file that does not
//! match.

use super::{KeyId, Opening, SafetyError, SafetyStore, storage};
use crate::file::set_aside;
use alphorn_types::{Slot, Validator};
use std::collections::BTreeMap;
use std::path::Path;

/// The position of a file's marks, as stored outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The file's ID.
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

/// What a folder knows about its marks besides the file that holds them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The position of the marks according to `node.redb`.
    pub(crate) witness: Option<Witness>,
    /// Whether a node ran in this folder before.
    pub(crate) was_used: bool,
    /// Whether to create a new file if the expected one is missing, damaged or set back. The operator vouches that no
    /// process has signed with these keys since the known slot.
    pub(crate) accept_new: bool,
}

impl SafetyStore {
    /// Opens the file of a folder that remembers the position of the marks. A file that is missing, damaged or set back
    /// is refused. With `accept_new` it is set aside and a new one created, in which no key signs before the remembered
    /// slot, nor before the second one from now. The second result is the reason for that, if it was done.
    ///
    /// `was_used` says whether a node ran in the folder before.
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
            // Otherwise an empty file would allow the first slots of the network to be signed.
            before_genesis: false,
            ..opening
        };
        let mut store = Self::open(path, keys, opening)?;
        if let Some(witness) = known.witness {
            let floor = Slot(witness.next);
            // Every key gets the floor, though the witness is only the maximum over all keys: which key reached it is
            // not known.
            let floors = store.keys.keys().map(|&v| (Validator(v), floor)).collect();
            store.take_over(&floors, opening.now_ms)?;
        }
        Ok((store, Some(why)))
    }

    /// Whether the file is at least as far as the folder remembers.
    fn against(self, path: &Path, witness: Option<Witness>) -> Result<Self, SafetyError> {
        let found = self.witness();
        match witness {
            // A file that is ahead is the normal case: the witness is stored later than the marks, with the next commit
            // of blocks.
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
