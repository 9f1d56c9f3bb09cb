//! Proofs in a folder, from which an interrupted slot resumes.

use crate::error::Result;
use crate::machine;
use crate::report::write_whole;
use alphorn_sim::compute::Results;
use anyhow::Context;
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

/// One file for each proof: its bytes followed by their SHA-256.
pub(super) struct Folder {
    path: PathBuf,
    /// Digest of the program and of what its proofs depend on in addition to a job.
    label: [u8; 32],
}

impl Folder {
    /// Opens the folder, creating it if needed. Proofs are found again by the same program for the same
    /// scheme and forms of evidence.
    pub(super) fn open(path: &Path, forms: &str) -> Result<Self> {
        let what = || format!("--resume {}: no folder to keep proofs in", path.display());
        std::fs::create_dir_all(path).with_context(what)?;
        let label = format!("{} {forms}", machine::commit());
        Ok(Folder {
            path: path.to_owned(),
            label: Sha256::digest(label).into(),
        })
    }

    fn file(&self, name: &[u8; 32]) -> PathBuf {
        let digest = Sha256::new().chain_update(self.label).chain_update(name);
        let name = hex::encode(&digest.finalize()[..16]);
        self.path.join(format!("{name}.proof"))
    }
}

impl Results for Folder {
    fn load(&mut self, name: &[u8; 32]) -> Option<Vec<u8>> {
        let mut bytes = std::fs::read(self.file(name)).ok()?;
        // A file that was cut short or damaged counts as absent, and its proof is made again.
        let digest = bytes.split_off(bytes.len().checked_sub(32)?);
        (Sha256::digest(&bytes)[..] == digest).then_some(bytes)
    }

    fn store(&mut self, name: &[u8; 32], result: &[u8]) -> io::Result<()> {
        let digest = Sha256::digest(result);
        let written = write_whole(&self.file(name), &[result, &digest[..]].concat());
        written.map_err(|error| io::Error::other(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_again_unless_it_is_damaged_or_of_other_forms() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Folder::open(folder.path(), "xmss").unwrap();
        let name = [7; 32];
        assert_eq!(kept.load(&name), None);
        kept.store(&name, b"a proof").unwrap();
        assert_eq!(kept.load(&name).as_deref(), Some(&b"a proof"[..]));
        assert_eq!(kept.load(&[8; 32]), None);
        let mut other = Folder::open(folder.path(), "falcon").unwrap();
        assert_eq!(other.load(&name), None);
        let file = kept.file(&name);
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[0] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(kept.load(&name), None);
        std::fs::write(&file, &bytes[..5]).unwrap();
        assert_eq!(kept.load(&name), None);
    }
}
