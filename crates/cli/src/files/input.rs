//! Reading files: every file is bounded, and secrets are private.

use crate::error::Result;
use anyhow::{Context, anyhow, bail};
use std::fs::File;
use std::io::{Read, stdin};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Maximum number of files for one command, and of keys or signers in one file.
pub(super) const ENTRIES_MAX: usize = 1 << 20;
/// Bytes of a file with a list of up to [`ENTRIES_MAX`] entries.
pub(super) const LIST_BYTES_MAX: usize = 512 << 20;

/// Whether a secret may be in a file that other users can open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permissions {
    /// Only its owner may open it, unless `--insecure-key-permissions` says otherwise.
    Private,
    /// Only its owner may open it, and no option changes that.
    Strict,
    /// Anyone may open it: `--insecure-key-permissions`.
    Any,
}

/// The contents of a file, and its permissions.
pub(super) struct Opened {
    pub(super) bytes: Vec<u8>,
    path: PathBuf,
    /// `None` unless it is a regular file: a pipe has no mode worth checking.
    mode: Option<u32>,
}

impl Opened {
    /// Reads a file of at most `bytes_max` bytes.
    pub(super) fn read(path: &Path, bytes_max: usize) -> Result<Self> {
        let (mut file, mode) = open(path)?;
        let mut bytes = Vec::new();
        read_bounded(&mut file, &mut bytes, path, bytes_max)?;
        Ok(Opened {
            bytes,
            path: path.to_owned(),
            mode,
        })
    }

    /// Rejects a file with a secret that other users may open.
    pub(super) fn check_private(&self, permissions: Permissions) -> Result<()> {
        Ok(check_private(&self.path, self.mode, permissions)?)
    }
}

/// Reads a secret of at most `bytes_max` bytes from a private file, or from standard input if the
/// path is `-`.
pub(crate) fn read_secret(
    path: &Path,
    bytes_max: usize,
    permissions: Permissions,
) -> Result<Zeroizing<Vec<u8>>> {
    // One byte more than allowed is reserved: the buffer never grows, so it leaves no copy behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(bytes_max + 1));
    if is_stdin(path) {
        read_bounded(&mut stdin().lock(), &mut bytes, path, bytes_max)?;
    } else {
        let (mut file, mode) = open(path)?;
        check_private(path, mode, permissions)?;
        read_bounded(&mut file, &mut bytes, path, bytes_max)?;
    }
    Ok(bytes)
}

/// Whether a path means standard input.
pub(super) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Fails if the file does not exist.
pub(super) fn check_there(path: &Path) -> Result<()> {
    path.metadata()
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(())
}

fn open(path: &Path) -> Result<(File, Option<u32>)> {
    let named = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(named)?;
    let metadata = file.metadata().with_context(named)?;
    let mode = metadata.is_file().then(|| metadata.permissions().mode());
    Ok((file, mode))
}

fn read_bounded(
    source: &mut impl Read,
    bytes: &mut Vec<u8>,
    path: &Path,
    bytes_max: usize,
) -> anyhow::Result<()> {
    // Read manually: `read_to_end` may reallocate the buffer while looking for the end of the file.
    let mut limited = source.take(bytes_max as u64 + 1);
    let mut chunk = Zeroizing::new([0; 8192]);
    loop {
        let got = match limited.read(&mut *chunk) {
            Ok(got) => got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        if got == 0 {
            break;
        }
        bytes.extend_from_slice(&chunk[..got]);
    }
    if bytes.len() > bytes_max {
        bail!("{}: more than {bytes_max} bytes", path.display());
    }
    Ok(())
}

fn check_private(path: &Path, mode: Option<u32>, permissions: Permissions) -> anyhow::Result<()> {
    /// Any access by the group or by others.
    const FOREIGN: u32 = 0o077;
    let way_out = match permissions {
        Permissions::Private => "; --insecure-key-permissions reads it all the same",
        Permissions::Strict | Permissions::Any => "",
    };
    match mode {
        Some(mode) if mode & FOREIGN != 0 && permissions != Permissions::Any => bail!(
            "{}: mode {:04o} lets others at a secret, it must be 0600 or stricter{way_out}",
            path.display(),
            mode & 0o7777
        ),
        _ => Ok(()),
    }
}

/// Returns the files that arguments name: a folder means its `.json` files, by name.
pub(super) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(json_files(path)?);
        } else {
            files.push(path.clone());
        }
        if !files.is_empty() {
            check_count("files", files.len())?;
        }
    }
    if files.is_empty() {
        let folders = paths.iter().map(|path| path.display().to_string());
        let folders = folders.collect::<Vec<_>>().join(", ");
        return Err(anyhow!("{folders}: no signature files, the folder has no .json file").into());
    }
    Ok(files)
}

/// Returns the `.json` files of a folder, by name.
pub(super) fn json_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let named = || format!("cannot read the folder {}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(named)? {
        let path = entry.with_context(named)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
            check_count("files", files.len())?;
        }
    }
    files.sort();
    Ok(files)
}

/// Checks the number of entries of any list: 1 to [`ENTRIES_MAX`].
pub(super) fn check_count(what: &str, count: usize) -> anyhow::Result<()> {
    if count == 0 || count > ENTRIES_MAX {
        bail!("{count} {what}: allowed are 1 to {ENTRIES_MAX}");
    }
    Ok(())
}

/// Decodes hex digits, with or without `0x`.
pub(super) fn unhex(text: &str) -> std::result::Result<Vec<u8>, hex::FromHexError> {
    hex::decode(text.strip_prefix("0x").unwrap_or(text))
}
