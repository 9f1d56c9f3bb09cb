//! The two files of a data folder, which refer to each other.

use crate::blocks::Blocks;
use crate::run::RunError;
use crate::safety::{KeyId, Known, Opening, SafetyError, SafetyStore};
use alphorn_types::Validator;
use std::collections::BTreeMap;
use std::path::Path;

/// The files, open.
pub struct Folder {
    /// The marks of the local keys.
    pub safety: SafetyStore,
    /// Blocks of earlier runs.
    pub blocks: Blocks,
    /// Why a new file of marks was created to replace another, if it was.
    pub why: Option<SafetyError>,
}

impl Folder {
    /// Opens or creates the files, see [`SafetyStore::open`].
    ///
    /// Where no node ran before, the file of marks is created first. An existing `node.redb` means that a node ran, so
    /// missing marks are then an error. This way a start that is interrupted between the two can be repeated.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn open(
        folder: &Path,
        keys: BTreeMap<Validator, KeyId>,
        opening: Opening,
        accept_new: bool,
    ) -> Result<Self, RunError> {
        let (safety, node) = (folder.join("safety.redb"), folder.join("node.redb"));
        // A damaged file may have been set aside and not been replaced yet.
        let was_used = node.exists() || folder.join("node.redb.damaged").exists();
        let open = |witness| {
            let known = Known {
                witness,
                was_used,
                accept_new,
            };
            SafetyStore::open_known(&safety, keys, opening, known)
        };
        let (blocks, (safety, why)) = match was_used {
            true => {
                let blocks = Blocks::open(&node)?;
                let witness = blocks.witness()?;
                (blocks, open(witness)?)
            }
            false => {
                let opened = open(None)?;
                (Blocks::open(&node)?, opened)
            }
        };
        Ok(Folder {
            safety,
            blocks,
            why,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const NAMES: [&str; 2] = ["safety.redb", "node.redb"];

    fn open(folder: &Path) -> Result<Folder, RunError> {
        let opening = Opening {
            now_ms: 0,
            slot: alphorn_types::Slot(0),
            before_genesis: true,
            resume: false,
        };
        let keys = BTreeMap::from([(Validator(0), [3; 32])]);
        Folder::open(folder, keys, opening, false)
    }

    #[test]
    fn a_first_start_that_is_cut_off_between_two_files_is_repeated() {
        for lacking in NAMES {
            let folder = tempfile::tempdir().unwrap();
            // A name that leads nowhere simulates a process that ended at this file.
            let path = folder.path().join(lacking);
            symlink("nowhere/file", &path).unwrap();
            assert!(open(folder.path()).is_err(), "{lacking}");
            fs::remove_file(&path).unwrap();
            let opened = open(folder.path()).unwrap_or_else(|why| panic!("{lacking}: {why}"));
            assert!(opened.why.is_none());
            assert!(NAMES.iter().all(|name| folder.path().join(name).exists()));
        }
    }

    /// This does not bypass the marks.
    #[test]
    fn marks_that_are_gone_are_missing() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path()).unwrap());
        fs::remove_file(folder.path().join("safety.redb")).unwrap();
        let refused = open(folder.path()).err();
        assert!(matches!(
            refused,
            Some(RunError::Safety(SafetyError::Missing { .. }))
        ));
    }
}
