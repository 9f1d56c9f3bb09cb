//! Files that are complete or absent, and on disk before anything depends on them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Number of bytes of the checksum at the end of a file.
pub(crate) const CHECKSUM_BYTES: usize = 32;

/// The temporary file that is to replace a file.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    PathBuf::from(beside)
}

/// Writes the replacement of a file next to it, and syncs. Only the owner may read it.
///
/// # Errors
/// Errors of the file system; the old content is still there.
pub(crate) fn write_beside(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // A crash may have left an earlier replacement.
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(beside(path))?;
    file.write_all(content)?;
    // Before the rename: otherwise a crash could leave a file under its final name without its content.
    file.sync_all()
}

/// Replaces a file with what [`write_beside`] wrote: renames it and syncs the folder.
///
/// # Errors
/// Errors of the file system; either the old or the new content is there.
pub(crate) fn move_into_place(path: &Path) -> io::Result<()> {
    std::fs::rename(beside(path), path)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // The rename is an entry of the folder, and on disk only when the folder is.
    File::open(folder)?.sync_all()
}

/// Appends the checksum of the content.
pub(crate) fn seal(mut content: Vec<u8>) -> Vec<u8> {
    let checksum = Sha256::digest(&content);
    content.extend_from_slice(&checksum);
    content
}

/// The content before a matching checksum.
pub(crate) fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
    (Sha256::digest(content)[..] == *checksum).then_some(content)
}
