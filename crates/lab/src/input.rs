//! Files named by the user, read up to a bound.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads the bytes of a file, at most `bytes_max` of them.
///
/// # Errors
/// A file that cannot be read, or that is longer; a device has no end and is rejected at the bound.
pub(crate) fn bytes(path: &Path, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
    let read = || -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        file.take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            bail!("more than {bytes_max} bytes");
        }
        Ok(bytes)
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// Reads the text of a file, of at most `bytes_max` bytes.
///
/// # Errors
/// Like [`bytes`], and if the text is not UTF-8.
pub(crate) fn text(path: &Path, bytes_max: u64) -> anyhow::Result<String> {
    let text = String::from_utf8(bytes(path, bytes_max)?);
    text.with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(text(&path, 4).unwrap(), "four");
        let refused = |path: &Path| format!("{:#}", text(path, 3).unwrap_err());
        assert!(refused(&path).ends_with("more than 3 bytes"));
        // Its length is 0 and it never ends.
        #[cfg(unix)]
        assert!(refused(Path::new("/dev/zero")).ends_with("more than 3 bytes"));
    }
}
