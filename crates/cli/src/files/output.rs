//! Writing files: whole or not at all, replacing nothing unless asked, and replacing a key only with a key.

use crate::error::Result;
use crate::overwrite::{folder_of, holds_key};
use crate::report::not_beside;
use anyhow::{Context, anyhow};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::TempPath;

/// The permissions of a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Owner only: mode 0600. A key, which may replace another one.
    Private,
    /// As the umask allows.
    Public,
}

/// Files that are written next to their final paths and moved there together.
pub(super) struct Staged {
    force: bool,
    files: Arc<Mutex<Vec<(TempPath, PathBuf)>>>,
    places: BTreeSet<PathBuf>,
}

impl Staged {
    /// Starts with no files. With `force`, existing files are replaced.
    pub(super) fn new(force: bool) -> Self {
        Staged {
            force,
            files: Arc::default(),
            places: BTreeSet::new(),
        }
    }

    /// From now on, Ctrl-C and SIGTERM leave no temporary file, and wait for files that are being moved.
    pub(super) fn remove_when_signalled(&self) -> Result<()> {
        crate::stop::empty_when_signalled(&self.files)
    }

    /// Fails early, before a key is made, if a path is taken. Only a key may replace a key. A folder, a
    /// device, a pipe or a link to one is never replaced, since renaming a file to its path would
    /// remove it.
    pub(super) fn check(&self, path: &Path, access: Access) -> Result<()> {
        let shown = path.display();
        let is_key = holds_key(path);
        if is_key && access == Access::Public {
            return Err(anyhow!("{shown}: a key is there, which is never replaced").into());
        }
        if self.force && path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(anyhow!("{shown} is no regular file: --force replaces files only").into());
        }
        if !self.force && path.symlink_metadata().is_ok() {
            let lost = match is_key {
                true => ", and the key in it is lost",
                false => "",
            };
            return Err(anyhow!("{shown} exists; --force replaces it{lost}").into());
        }
        Ok(())
    }

    /// Writes the contents of one file next to its final path.
    pub(super) fn add(&mut self, path: &Path, access: Access, bytes: &[u8]) -> Result<()> {
        self.check(path, access)?;
        if !self.places.insert(path.to_owned()) {
            return Err(anyhow!("{} would be written twice", path.display()).into());
        }
        let mut files = locked(&self.files);
        let named = || format!("cannot write {}", path.display());
        let mode = match access {
            Access::Private => 0o600,
            Access::Public => 0o644,
        };
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder_of(path))
            .map_err(|error| not_beside(path, &error))
            .with_context(named)?;
        // An I/O error of the file does not include its name.
        file.as_file_mut().write_all(bytes).with_context(named)?;
        // The name must not reach the disk before the contents, or a key would be lost.
        file.as_file().sync_all().with_context(named)?;
        files.push((file.into_temp_path(), path.to_owned()));
        Ok(())
    }

    /// Replaces the contents of a file; the first file added is number 0. Contents of the same length
    /// need no more room on the disk.
    pub(super) fn rewrite(&mut self, number: usize, bytes: &[u8]) -> Result<()> {
        let files = locked(&self.files);
        let (temporary, path) = &files[number];
        let named = || format!("cannot write {}", path.display());
        let file = OpenOptions::new().write(true).open(temporary);
        let mut file = file.with_context(named)?;
        file.write_all(bytes).with_context(named)?;
        file.set_len(bytes.len() as u64).with_context(named)?;
        file.sync_all().with_context(named)?;
        Ok(())
    }

    /// Renames all files to their final paths and syncs their folders. If one path was taken meanwhile,
    /// none is kept.
    pub(super) fn commit(self) -> Result<()> {
        let mut placed: Vec<PathBuf> = Vec::new();
        let mut files = locked(&self.files);
        for (temporary, path) in std::mem::take(&mut *files) {
            let moved = if self.force {
                temporary.persist(&path)
            } else {
                temporary.persist_noclobber(&path)
            };
            if let Err(error) = moved {
                // Files that replaced others stay, as their previous contents are gone.
                if !self.force {
                    for path in &placed {
                        std::fs::remove_file(path).ok();
                    }
                }
                return Err(anyhow::Error::new(error.error)
                    .context(format!("cannot write {}", path.display()))
                    .into());
            }
            placed.push(path);
        }
        let folders: BTreeSet<&Path> = placed.iter().map(|path| folder_of(path)).collect();
        folders.into_iter().try_for_each(sync)
    }
}

/// Syncs a folder, so that the names in it are on the disk.
fn sync(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.with_context(|| format!("cannot sync the folder {}", folder.display()))?;
    Ok(())
}

fn locked<T>(files: &Mutex<T>) -> MutexGuard<'_, T> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a folder for keys that only its owner can access, unless it exists.
pub(super) fn create_folder(folder: &Path) -> Result<()> {
    let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let new: Vec<&Path> = folder.ancestors().take_while(is_new).collect();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    new.into_iter().map(folder_of).try_for_each(sync)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files can be renamed into a folder without read permission, but such a folder cannot be synced.
    #[test]
    fn names_that_do_not_reach_the_disk_are_an_error() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("keys");
        create_folder(&folder).unwrap();
        let set = |mode| std::fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        let mut staged = Staged::new(false);
        for name in ["a", "b"] {
            staged
                .add(&folder.join(name), Access::Private, b"key")
                .unwrap();
        }
        set(0o300);
        // For root it is accessible all the same.
        let is_root = File::open(&folder).is_ok();
        let done = staged.commit();
        set(0o700);
        assert_eq!(done.is_ok(), is_root);
        assert_eq!(std::fs::read(folder.join("b")).unwrap(), b"key");
    }
}
