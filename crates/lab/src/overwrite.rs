//! Files that no command overwrites: secret keys, and the command's own inputs.

use crate::error::Result;
use alphorn_xmss::Marks;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Maximum size of a key file in bytes; a longer file is not one.
const KEY_BYTES_MAX: usize = 64 << 10;
/// Hex digits of the shortest secret key.
const KEY_DIGITS: usize = 64;
/// The magic bytes of a node's store of marks, as of every redb file.
pub(crate) const STORE: &[u8] = b"redb\x1a\n\xa9\r\n";

/// Fields of a keystore that none of our other files has.
#[derive(Deserialize)]
struct Head {
    crypto: Option<IgnoredAny>,
}

/// Whether an existing file holds a secret key, or something that a key needs to sign, as far as can be
/// detected.
pub fn holds_key(path: &Path) -> bool {
    // A pipe or terminal holds no key, and reading it would block.
    let Some(found) = path.metadata().ok().filter(Metadata::is_file) else {
        return false;
    };
    let Ok(bytes) = beginning(path) else {
        return false;
    };
    let is_keystore = || {
        let head = serde_json::from_slice::<Head>(&bytes);
        head.is_ok_and(|head| head.crypto.is_some())
    };
    let is_short = bytes.len() <= KEY_BYTES_MAX;
    bytes.starts_with(STORE)
        || is_short && (is_keystore() || Marks::from_bytes(&bytes).is_ok())
        || is_short && is_private(&found) && is_hex(&bytes)
}

/// Reads as much of a file as may be a key, plus one byte.
fn beginning(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let limit = KEY_BYTES_MAX + 1;
    // The buffer never grows, so it leaves no copy behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit + 1));
    File::open(path)?
        .take(limit as u64)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a file is accessible only to its owner: what everyone may read is no secret.
fn is_private(found: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        found.permissions().mode() & 0o077 == 0
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        true
    }
}

fn is_hex(bytes: &[u8]) -> bool {
    let digits = bytes.trim_ascii();
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    digits.len() >= KEY_DIGITS && digits.iter().all(u8::is_ascii_hexdigit)
}

/// Rejects outputs that are also inputs, or the same file as another output, under any name.
///
/// # Errors
/// The first such output.
pub fn check_apart<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    outputs: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    let written: Vec<(&Path, PathBuf)> = outputs
        .into_iter()
        .filter_map(|path| Some((path, file(path)?)))
        .collect();
    if written.is_empty() {
        return Ok(());
    }
    let read: BTreeSet<PathBuf> = inputs.into_iter().filter_map(file).collect();
    let mut before = BTreeSet::new();
    for (path, file) in written {
        let path = path.display();
        if read.contains(&file) {
            let why = "is read here, and cannot be written as well";
            return Err(anyhow::anyhow!("{path}: {why}").into());
        }
        if !before.insert(file) {
            return Err(anyhow::anyhow!("{path}: would be written twice").into());
        }
    }
    Ok(())
}

/// Returns the canonical path of a file that exists or would be created; none for a device, a pipe or
/// `-`, which accept any data.
fn file(path: &Path) -> Option<PathBuf> {
    if path == Path::new("-") {
        return None;
    }
    match path.metadata() {
        Ok(found) => found.is_file().then(|| path.canonicalize().ok()).flatten(),
        Err(_) => Some(folder_of(path).canonicalize().ok()?.join(path.file_name()?)),
    }
}

/// Returns the folder that contains a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_read_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        let (file, link) = (file.as_path(), link.as_path());
        let new = folder.path().join("new");
        let error = check_apart([file], [new.as_path(), link]).unwrap_err();
        assert!(error.to_string().contains("link: is read"), "{error}");
        let null = Path::new("/dev/null");
        check_apart([file, null], [new.as_path(), null]).unwrap();
        let same = folder.path().join(".").join("new");
        let error = check_apart([], [new.as_path(), same.as_path()]).unwrap_err();
        assert!(
            error.to_string().contains("new: would be written twice"),
            "{error}"
        );
        let shared = [Path::new("-"), null, Path::new("-"), null];
        check_apart([], shared).unwrap();
    }
}
