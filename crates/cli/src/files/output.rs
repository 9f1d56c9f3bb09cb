//! Writing: whole files or none, and nothing that exists is replaced unasked.

use super::document;
use crate::error::Result;
use anyhow::Context;
use std::collections::BTreeSet;
use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// Who may read a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Its owner alone: mode 0600.
    Private,
    /// Everybody whom the umask allows.
    Public,
}

/// Files that are written beside their places and moved there together.
pub(super) struct Staged {
    force: bool,
    files: Vec<(TempPath, PathBuf)>,
    places: BTreeSet<PathBuf>,
}

impl Staged {
    /// No files yet. With `force`, existing files are replaced.
    pub(super) fn new(force: bool) -> Self {
        Staged {
            force,
            files: Vec::new(),
            places: BTreeSet::new(),
        }
    }

    /// Fails early if a place is taken: before a key is made for it. A folder, a device, a pipe or
    /// a link to one is never replaced: moving a file to its name would take it away.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        if self.force && path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(anyhow::anyhow!(
                "{} is no regular file: --force replaces files only",
                path.display()
            )
            .into());
        }
        if !self.force && path.symlink_metadata().is_ok() {
            return Err(anyhow::anyhow!(
                "{} exists; --force replaces it{}",
                path.display(),
                if document::holds_key(path) {
                    ", and the key in it is lost"
                } else {
                    ""
                }
            )
            .into());
        }
        Ok(())
    }

    /// Writes the contents of one file beside its place.
    pub(super) fn add(&mut self, path: &Path, access: Access, bytes: &[u8]) -> Result<()> {
        self.check(path)?;
        if !self.places.insert(path.to_owned()) {
            return Err(anyhow::anyhow!("{} would be written twice", path.display()).into());
        }
        let named = || format!("cannot write {}", path.display());
        let mode = match access {
            Access::Private => 0o600,
            Access::Public => 0o644,
        };
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder_of(path))
            .with_context(named)?;
        file.write_all(bytes).with_context(named)?;
        // The name must not reach the disk before the contents: a key would be lost.
        file.as_file().sync_all().with_context(named)?;
        self.files.push((file.into_temp_path(), path.to_owned()));
        Ok(())
    }

    /// Replaces the contents of a file, the first of those that were added being number 0. Contents
    /// of the same length need no more room on the disk.
    pub(super) fn rewrite(&mut self, number: usize, bytes: &[u8]) -> Result<()> {
        let (temporary, path) = &self.files[number];
        let named = || format!("cannot write {}", path.display());
        let file = OpenOptions::new().write(true).open(temporary);
        let mut file = file.with_context(named)?;
        file.write_all(bytes).with_context(named)?;
        file.set_len(bytes.len() as u64).with_context(named)?;
        file.sync_all().with_context(named)?;
        Ok(())
    }

    /// Moves all files to their places. If one place was taken meanwhile, none is kept.
    pub(super) fn commit(self) -> Result<()> {
        let mut placed: Vec<PathBuf> = Vec::new();
        for (temporary, path) in self.files {
            let moved = if self.force {
                temporary.persist(&path)
            } else {
                temporary.persist_noclobber(&path)
            };
            if let Err(error) = moved {
                // Files that replaced others stay: what was there before is gone.
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
        Ok(())
    }
}

/// The folder that a file is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Creates a folder for keys, open to its owner alone, unless it is there.
pub(super) fn create_folder(folder: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    Ok(())
}

/// Refuses a place for a report that holds a key.
pub(super) fn check_report_place(path: &Path) -> Result<()> {
    if document::holds_key(path) {
        return Err(anyhow::anyhow!("--json {}: a key is there", path.display()).into());
    }
    Ok(())
}
