//! The lock of a file that is replaced at each write: a separate file next to it.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use super::{WatermarkError, io_error};

/// Number of times the lock is taken again because its file was replaced in the meantime.
const TRIES: usize = 8;

/// An exclusive lock between processes, as long as its file is not removed.
pub(super) struct Lock {
    path: PathBuf,
    file: File,
    /// The process that took it. A forked child inherits the lock, and could move the marks as well.
    owner: u32,
}

impl Lock {
    /// The lock of a file.
    pub(super) fn of(locked: &Path) -> Result<Lock, WatermarkError> {
        let mut path = locked.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        for _ in 0..TRIES {
            let file = options
                .open(&path)
                .map_err(|error| io_error(&path, error))?;
            match file.try_lock() {
                Ok(()) => {}
                // Not waited for: another process holds the lock as long as it has the marks open.
                Err(TryLockError::WouldBlock) => break,
                Err(TryLockError::Error(error)) => return Err(io_error(&path, error)),
            }
            let path = path.clone();
            let owner = std::process::id();
            let lock = Lock { path, file, owner };
            // A file removed between the two calls is no lock: the next process creates another.
            if lock.is_held() {
                return Ok(lock);
            }
        }
        Err(WatermarkError::InUse(locked.to_owned()))
    }

    /// Whether this process took the lock, and the file is still the one that another process would lock.
    pub(super) fn is_held(&self) -> bool {
        if self.owner != std::process::id() {
            return false;
        }
        match (self.file.metadata(), self.path.metadata()) {
            (Ok(ours), Ok(found)) => same_file(&ours, &found),
            _ => false,
        }
    }
}

#[cfg(unix)]
fn same_file(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Where files have no inode number, a locked file cannot be removed either.
#[cfg(not(unix))]
fn same_file(_: &std::fs::Metadata, _: &std::fs::Metadata) -> bool {
    true
}
